/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A hostile broker of our clients: what is no frame costs its connection and a log line, memory
 * stays small, and the sends go on where a good broker is.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

#include "lib/bad_frames.h"
#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/port.h"
#include "lib/usage.h"

#define CLIENTS 40 /* each tries once a second */
#define WAIT_MS 60000

static atomic_int told; /* log lines of connections that were closed for their bytes */
static atomic_int stored;
static atomic_int failed;

static void count_told(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    atomic_fetch_add(&told, strstr(line, "connection closed: bad bytes") != NULL);
}

/* Whether the client closes. */
static bool is_closed(int fd)
{
    char bytes[4096];
    const struct timeval limit = {.tv_sec = 30};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
            return n == 0 || errno == ECONNRESET;
        }
    }
}

/* Each connection gets a bad frame, until all were given. Returns how many. */
static int give_bad_frames(int listener)
{
    unsigned char frame[TL_BAD_FRAME];
    char what[64];
    int count = 0;
    for (; tl_bad_frame(count, frame, what); count++) {
        int fd = accept(listener, NULL, NULL);
        TL_CHECK(fd >= 0);
        TL_EQUAL(send(fd, frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
        if (!is_closed(fd)) {
            tl_fail(__FILE__, __LINE__, "%s: the connection stays open", what);
        }
        close(fd);
    }
    return count;
}

struct sender {
    rmq_producer *producer;
    rmq_message *message;
};

static void send_again(struct sender *sender);

static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)err;
    if (result) {
        atomic_fetch_add(&stored, 1);
    } else {
        atomic_fetch_add(&failed, 1);
        send_again(user);
    }
}

static void send_again(struct sender *sender)
{
    rmq_error *err = NULL;
    TL_OK(rmq_producer_send_async(sender->producer, sender->message, on_sent, sender, &err));
}

static void start(struct sender *sender, const char *namesrv)
{
    rmq_error *err = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "bad";
    options.namesrv_addr = namesrv;
    options.poll_name_server_interval_ms = 100;
    TL_OK(rmq_producer_create(&options, &sender->producer, &err));
    sender->message = tl_message("Topic", "bad", 3);
    send_again(sender);
}

static bool have_all(void *arg)
{
    (void)arg;
    return atomic_load(&stored) == CLIENTS;
}

static void frames_that_are_none_cost_their_connection_only(void)
{
    static struct sender senders[CLIENTS];
    char evil[64];
    char brokers[128];
    rmq_error *err = NULL;
    rmq_broker *broker = NULL;
    TL_OK(rmq_broker_start(NULL, &broker, &err));
    TL_OK(rmq_broker_create_topic(broker, "Topic", 4, &err));
    int listener = tl_port_silent(evil, sizeof evil);
    struct tl_namesrv *ns = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "a@%s", evil);
    tl_namesrv_brokers(ns, "Topic", brokers, 4);
    rmq_log_set(RMQ_LOG_WARN, count_told, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        start(&senders[i], tl_namesrv_addr(ns));
    }
    int given = give_bad_frames(listener);
    TL_CHECK(atomic_load(&failed) > 0); /* and sent again by the program */
    TL_EQUAL(atomic_load(&told), given);
    snprintf(brokers, sizeof brokers, "a@%s", rmq_broker_addr(broker));
    tl_namesrv_brokers(ns, "Topic", brokers, 4);
    close(listener);
    TL_CHECK(tl_wait(have_all, NULL, WAIT_MS));
    TL_EQUAL(tl_stored(rmq_broker_namesrv_addr(broker), "Topic"), CLIENTS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    TL_CHECK(getenv("TL_SLACK") != NULL || tl_usage_of(0).peak_rss_kb < 64 * 1024);
#endif
    for (int i = 0; i < CLIENTS; i++) {
        rmq_producer_destroy(senders[i].producer);
        rmq_message_destroy(senders[i].message);
    }
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    tl_namesrv_stop(ns);
    rmq_broker_stop(broker);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"frames_that_are_none_cost_their_connection_only",
         frames_that_are_none_cost_their_connection_only, 110},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

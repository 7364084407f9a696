/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends to one queue that wait for its broker while that moves to another address: they follow it,
 * in their order.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/line.h"
#include "lib/port.h"
#include "lib/usage.h"

#define WAIT_MS 60000
#define MOVES   40

/* The only broker of a topic; a name server knows where it should be. */
struct moving {
    struct tl_namesrv *namesrv;
    rmq_broker *broker;
    rmq_producer *producer;
    rmq_message *message;
};

static void lead_to(const struct moving *moving, const char *addr)
{
    char brokers[128];
    snprintf(brokers, sizeof brokers, "a@%s", addr);
    tl_namesrv_brokers(moving->namesrv, "Topic", brokers, 4);
}

static void begin(struct moving *moving, int64_t poll_ms)
{
    char dead[64];
    rmq_error *err = NULL;
    rmq_producer_options options;
    tl_port_kept(dead, sizeof dead);
    moving->namesrv = tl_namesrv_start();
    lead_to(moving, dead);
    tl_producer_options_init(&options);
    options.producer_group = "followers";
    options.namesrv_addr = tl_namesrv_addr(moving->namesrv);
    options.send_msg_timeout_ms = WAIT_MS;
    options.poll_name_server_interval_ms = poll_ms;
    TL_OK(rmq_producer_create(&options, &moving->producer, &err));
    moving->message = tl_message("Topic", "move", 4);
}

static void come(struct moving *moving)
{
    rmq_error *err = NULL;
    rmq_broker_config *config = NULL;
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_start(config, &moving->broker, &err));
    rmq_broker_config_destroy(config);
    TL_OK(rmq_broker_create_topic(moving->broker, "Topic", 4, &err));
    lead_to(moving, rmq_broker_addr(moving->broker));
}

static void end(struct moving *moving)
{
    rmq_producer_destroy(moving->producer);
    rmq_message_destroy(moving->message);
    rmq_broker_stop(moving->broker);
    tl_namesrv_stop(moving->namesrv);
}

static void *send_one(void *arg)
{
    struct moving *moving = arg;
    rmq_error *err = NULL;
    TL_OK(rmq_producer_send_to_queue(moving->producer, moving->message, "a", 3, 0, NULL, &err));
    return NULL;
}

static bool is_in_flight(void *arg)
{
    const struct moving *moving = arg;
    rmq_error *err = NULL;
    char *json = NULL;
    TL_OK(rmq_producer_stats(moving->producer, &json, &err));
    bool has = strstr(json, "\"sends\":2,") != NULL;
    rmq_string_free(json);
    return has;
}

/* Nobody polls the name server: that the broker does not answer is what makes the client ask. */
static void a_send_to_a_queue_follows_its_broker_to_another_address(void)
{
    struct moving moving;
    pthread_t thread;
    begin(&moving, 3600000);
    TL_EQUAL(rmq_producer_send(moving.producer, moving.message, 300, NULL, NULL), RMQ_ERR_CONNECT);
    TL_EQUAL(pthread_create(&thread, NULL, send_one, &moving), 0);
    TL_CHECK(tl_wait(is_in_flight, &moving, WAIT_MS));
    come(&moving);
    pthread_join(thread, NULL);
    TL_EQUAL(tl_stored(rmq_broker_namesrv_addr(moving.broker), "Topic"), 1);
    end(&moving);
}

struct line {
    struct moving moving;
    struct tl_line sends;
};

static void *send_in_line(void *arg)
{
    struct line *line = arg;
    tl_line_send(&line->sends, line->moving.producer, line->moving.message);
    return NULL;
}

/* Through addresses where it is not, and back to some of them. */
static void sends_by_a_key_keep_their_order_while_their_broker_moves(void)
{
    static struct line line;
    char dead[3][64];
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        tl_port_kept(dead[i], sizeof dead[i]);
    }
    begin(&line.moving, 100);
    TL_EQUAL(pthread_create(&thread, NULL, send_in_line, &line), 0);
    for (int i = 0; i < MOVES; i++) {
        lead_to(&line.moving, dead[i % 3]);
        tl_pause(50);
    }
    come(&line.moving);
    pthread_join(thread, NULL);
    tl_line_check(&line.sends, WAIT_MS);
    end(&line.moving);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_send_to_a_queue_follows_its_broker_to_another_address",
         a_send_to_a_queue_follows_its_broker_to_another_address, 90},
        {"sends_by_a_key_keep_their_order_while_their_broker_moves",
         sends_by_a_key_keep_their_order_while_their_broker_moves, 90},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

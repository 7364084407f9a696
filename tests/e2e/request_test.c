/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests and replies: many at once, each reply to its request; bodies of all sizes; a reply that
 * is quicker than the broker's own answer; what is known when no reply comes, the replier is told
 * that nobody waits, or the requester is shut down.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/command.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/usage.h"

#define WAIT_MS  20000
#define QUEUES   4
#define MANY     200
#define REPLY_MS 4000
#define LARGE    100000

/* A consumer that replies with what it got, in capitals at the first byte. */
struct server {
    rmq_producer *producer;
    rmq_consumer *consumer;
    atomic_int replied;
    atomic_int failed;
    atomic_int last_code;
    atomic_int silent; /* requests that are to stay without a reply */
};

static rmq_consume_result serve(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    struct server *server = user;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        rmq_error *err = NULL;
        size_t size = 0;
        const void *body = rmq_message_view_body(messages[i], &size);
        if (atomic_fetch_sub(&server->silent, 1) > 0) {
            continue;
        }
        char *reply = malloc(size);
        TL_CHECK(reply != NULL);
        memcpy(reply, body, size);
        reply[0] = 'R';
        if (rmq_producer_reply(server->producer, messages[i], reply, size, 5000, &err) == RMQ_OK) {
            atomic_fetch_add(&server->replied, 1);
        } else {
            atomic_store(&server->last_code, rmq_error_remote_code(err));
            atomic_fetch_add(&server->failed, 1);
            rmq_error_destroy(err);
        }
        free(reply);
    }
    return RMQ_CONSUME_SUCCESS;
}

static void start_server(const struct tl_cluster *cluster, struct server *server)
{
    server->producer = tl_producer(cluster);
    server->consumer = tl_consumer(cluster, "*", serve, server);
}

static void stop_server(struct server *server)
{
    rmq_consumer_destroy(server->consumer);
    rmq_producer_destroy(server->producer);
}

static void check_reply(const rmq_message_view *reply, const char *sent, size_t size)
{
    size_t got = 0;
    const char *body = rmq_message_view_body(reply, &got);
    TL_EQUAL(got, size);
    TL_EQUAL(body[0], 'R');
    TL_CHECK(memcmp(body + 1, sent + 1, size - 1) == 0);
    TL_CHECK(strstr(rmq_message_view_topic(reply), "_REPLY_TOPIC") != NULL);
    TL_CHECK(*rmq_message_view_property(reply, "ARRIVE_TIME"));
    TL_CHECK(*rmq_message_view_property(reply, "PUSH_REPLY_TIME"));
}

static void a_request_gets_its_reply(void)
{
    static const size_t sizes[] = {1, 100, 4096, LARGE};
    static char body[LARGE];
    static struct server server;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    start_server(&cluster, &server);
    rmq_producer *producer = tl_producer(&cluster);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const rmq_message_view *reply = NULL;
        for (size_t at = 0; at < sizes[i]; at++) {
            body[at] = (char)('a' + (at + i) % 26);
        }
        rmq_message *message = tl_message(cluster.topic, body, sizes[i]);
        TL_OK(rmq_producer_request(producer, message, WAIT_MS, &reply, &err));
        TL_CHECK(*rmq_message_property(message, "CORRELATION_ID") == '\0');
        check_reply(reply, body, sizes[i]);
        rmq_message_view_release(reply);
        rmq_message_destroy(message);
    }
    stop_server(&server);
    TL_EQUAL(atomic_load(&server.replied), 4);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct many {
    _Atomic int done;
    _Atomic int failed;
    _Atomic int last_status;
};

struct one {
    struct many *many;
    int number;
};

static void note_reply(const rmq_message_view *reply, const rmq_error *err, void *user)
{
    struct one *one = user;
    char want[32];
    TL_CHECK((reply == NULL) != (err == NULL));
    if (err) {
        atomic_store(&one->many->last_status, rmq_error_status(err));
        atomic_fetch_add(&one->many->failed, 1);
    } else {
        check_reply(reply, want, (size_t)snprintf(want, sizeof want, "request %d", one->number));
        atomic_fetch_add(&one->many->done, 1);
    }
}

static bool all_done(void *arg)
{
    struct many *many = arg;
    return atomic_load(&many->done) + atomic_load(&many->failed) >= MANY;
}

static void send_many(const struct tl_cluster *cluster, rmq_producer *producer, struct one *ones,
                      struct many *many, int count, int64_t timeout_ms)
{
    for (int i = 0; i < count; i++) {
        rmq_error *err = NULL;
        char body[32];
        rmq_message *message =
            tl_message(cluster->topic, body, (size_t)snprintf(body, sizeof body, "request %d", i));
        ones[i] = (struct one){.many = many, .number = i};
        TL_OK(
            rmq_producer_request_async(producer, message, timeout_ms, note_reply, &ones[i], &err));
        rmq_message_destroy(message);
    }
}

static void each_of_many_requests_gets_its_own_reply(void)
{
    static struct one ones[MANY];
    static struct many many;
    static struct server server;
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, QUEUES);
    start_server(&cluster, &server);
    rmq_producer *producer = tl_producer(&cluster);
    send_many(&cluster, producer, ones, &many, MANY, WAIT_MS);
    TL_CHECK(tl_wait(all_done, &many, WAIT_MS));
    TL_EQUAL(atomic_load(&many.done), MANY);
    rmq_producer_destroy(producer);
    stop_server(&server);
    TL_EQUAL(atomic_load(&server.failed), 0);
    tl_cluster_stop(&cluster);
}

static bool has_failed(void *arg)
{
    return atomic_load(&((struct server *)arg)->failed) > 0;
}

static void a_request_without_a_reply_ends_at_its_deadline(void)
{
    static struct server server;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    const rmq_message_view *reply = NULL;
    tl_cluster_start(&cluster, QUEUES);
    start_server(&cluster, &server);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "hello", 5);
    /* no request: cannot be replied to */
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_CHECK(tl_wait(has_failed, &server, WAIT_MS));
    atomic_store(&server.silent, 1);
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_producer_request(producer, message, 300, &reply, &err), RMQ_ERR_TIMEOUT);
    TL_CHECK(tl_now_ms() - start >= 290);
    TL_CHECK(reply == NULL);
    TL_CHECK(rmq_error_maybe_stored(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    stop_server(&server);
    tl_cluster_stop(&cluster);
}

static void a_request_that_cannot_be_sent_fails_as_a_send_does(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    const rmq_message_view *reply = NULL;
    tl_cluster_start(&cluster, QUEUES);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "hello", 5);
    TL_OK(rmq_broker_fault_answer(cluster.broker, 310, -1, 13, "no", &err));
    TL_EQUAL(rmq_producer_request(producer, message, WAIT_MS, &reply, &err), RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 13);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_request_that_no_broker_takes_says_so(void)
{
    char dead[64];
    rmq_error *err = NULL;
    const rmq_message_view *reply = NULL;
    struct tl_namesrv *ns = tl_namesrv_of_dead("dead", dead, sizeof dead);
    rmq_producer *producer = tl_producer_on(tl_namesrv_addr(ns), WAIT_MS);
    rmq_message *message = tl_message("Topic", "hello", 5);
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_producer_request(producer, message, 1000, &reply, &err), RMQ_ERR_CONNECT);
    TL_CHECK(tl_now_ms() - start >= 990); /* it might have come back */
    TL_CHECK(reply == NULL);
    TL_CHECK(rmq_error_retriable(err));
    TL_CHECK(!rmq_error_maybe_stored(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(ns);
}

static void a_replier_is_told_that_nobody_waits_any_more(void)
{
    static struct server server;
    struct tl_cluster cluster;
    static struct one one;
    static struct many many;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    send_many(&cluster, producer, &one, &many, 1, 60000);
    TL_EQUAL(rmq_producer_shutdown(producer, 100, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(atomic_load(&many.failed), 1);
    TL_EQUAL(atomic_load(&many.last_status), RMQ_ERR_CLOSED);
    rmq_producer_destroy(producer);
    start_server(&cluster, &server);
    TL_CHECK(tl_wait(has_failed, &server, WAIT_MS));
    stop_server(&server);
    TL_EQUAL(atomic_load(&server.replied), 0);
    TL_EQUAL(atomic_load(&server.last_code), 1);
    tl_cluster_stop(&cluster);
}

/* The request is at broker a, replies may go to b, too. */
static struct tl_namesrv *start_namesrv(const char *a, const char *b)
{
    char brokers[256];
    struct tl_namesrv *ns = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "a@%s", a);
    tl_namesrv_brokers(ns, NULL, brokers, QUEUES);
    snprintf(brokers, sizeof brokers, "a@%s,b@%s", a, b);
    tl_namesrv_brokers(ns, "DefaultCluster_REPLY_TOPIC", brokers, 1);
    return ns;
}

/* The producer replies to itself, so that the other broker knows the requester, too. */
static void a_reply_is_at_another_broker_before_its_deadline(void)
{
    static struct one one;
    static struct many many;
    struct tl_cluster cluster;
    struct tl_cluster other;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    tl_cluster_start(&cluster, QUEUES);
    tl_cluster_needs_own(&cluster);
    tl_cluster_start(&other, QUEUES);
    struct tl_namesrv *ns =
        start_namesrv(rmq_broker_addr(cluster.broker), rmq_broker_addr(other.broker));
    struct tl_cluster through = cluster;
    snprintf(through.namesrv, sizeof through.namesrv, "%s", tl_namesrv_addr(ns));
    rmq_producer *producer = tl_producer(&through);
    rmq_consumer *consumer = tl_consumer(&through, "*", NULL, NULL);
    send_many(&through, producer, &one, &many, 1, 60000);
    TL_OK(rmq_consumer_poll(consumer, &batch, WAIT_MS, &err));
    TL_CHECK(batch != NULL);
    tl_cluster_stop(&cluster);
    int64_t start = tl_now_ms();
    TL_OK(rmq_producer_reply(producer, rmq_batch_at(batch, 0), "Request 0", 9, REPLY_MS, &err));
    TL_CHECK(tl_now_ms() - start < REPLY_MS);
    rmq_batch_destroy(batch);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&many.done), 1);
    tl_namesrv_stop(ns);
    tl_cluster_stop(&other);
}

#define BORROWED "a borrowed request"

struct borrowed {
    char body[sizeof BORROWED];
    atomic_bool back; /* the request has completed: the body is the program's again */
};

static void use_body(const rmq_message_view *reply, const rmq_error *err, void *user)
{
    struct borrowed *borrowed = user;
    TL_CHECK(reply != NULL && err == NULL);
    memset(borrowed->body, 'X', sizeof borrowed->body);
    atomic_store(&borrowed->back, true);
}

static bool is_back(void *arg)
{
    return atomic_load(&((struct borrowed *)arg)->back);
}

/* Polls the request, which must have the body that was borrowed; replies to it unless replier is
 * NULL. */
static void poll_request(rmq_consumer *consumer, rmq_producer *replier)
{
    size_t size = 0;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    TL_OK(rmq_consumer_poll(consumer, &batch, WAIT_MS, &err));
    const char *body = rmq_message_view_body(rmq_batch_at(batch, 0), &size);
    TL_EQUAL(size, sizeof BORROWED);
    TL_CHECK(memcmp(body, BORROWED, size) == 0);
    if (replier) {
        TL_OK(rmq_producer_reply(replier, rmq_batch_at(batch, 0), "r", 1, WAIT_MS, &err));
    }
    TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(batch);
}

static bool is_connected_again(void *arg)
{
    return tl_proxy_connections(arg) > 1;
}

/* Tries again as often as connections are cut. */
static rmq_producer *patient_producer(const struct tl_cluster *cluster)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "patient-requesters";
    options.namesrv_addr = cluster->namesrv;
    options.retry_times_when_send_async_failed = 1000;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

/* The broker's answer to the send is lost, and noticed only when the connection ends. */
static void a_request_that_is_sent_again_after_its_reply_has_its_body(void)
{
    static struct borrowed borrowed = {.body = BORROWED};
    struct tl_detour detour;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    tl_detour_start(&detour, QUEUES, NULL);
    TL_CHECK(tl_proxy_script(detour.proxy, "drop response 310 times 1"));
    rmq_producer *producer = patient_producer(&detour.through);
    rmq_producer *replier = tl_producer(&detour.cluster);
    rmq_consumer *consumer = tl_consumer(&detour.cluster, "*", NULL, NULL);
    TL_OK(rmq_message_create(detour.cluster.topic, &message, &err));
    TL_OK(rmq_message_borrow_body(message, borrowed.body, sizeof borrowed.body));
    TL_OK(rmq_producer_request_async(producer, message, 60000, use_body, &borrowed, &err));
    poll_request(consumer, replier);
    TL_CHECK(tl_wait(is_back, &borrowed, WAIT_MS));
    tl_proxy_refuse(detour.proxy, true);
    TL_CHECK(tl_wait(is_connected_again, detour.proxy, WAIT_MS));
    tl_proxy_refuse(detour.proxy, false);
    poll_request(consumer, NULL);
    rmq_message_destroy(message);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(replier);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static void a_shutdown_completes_all_requests(void)
{
    static struct one ones[MANY];
    static struct many many;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    send_many(&cluster, producer, ones, &many, MANY, 60000);
    TL_EQUAL(rmq_producer_shutdown(producer, 200, &err), RMQ_ERR_TIMEOUT);
    rmq_error_destroy(err);
    TL_EQUAL(atomic_load(&many.failed), MANY);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&many.failed), MANY);
    tl_cluster_stop(&cluster);
}

static rmq_producer *producer_with_events(const struct tl_cluster *cluster, rmq_events **events)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    TL_OK(rmq_events_create(events, &err));
    options = tl_producer_options(cluster);
    options.events = *events;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void request_events(const struct tl_cluster *cluster, rmq_producer *producer, int count,
                           int64_t timeout_ms)
{
    for (int i = 0; i < count; i++) {
        rmq_error *err = NULL;
        char body[32];
        rmq_message *message =
            tl_message(cluster->topic, body, (size_t)snprintf(body, sizeof body, "request %d", i));
        TL_OK(rmq_producer_request_event(producer, message, timeout_ms, (uint64_t)i, &err));
        rmq_message_destroy(message);
    }
}

/* Takes count events, one for each token; replies, or errors of that status. */
static void take_replies(rmq_events *events, int count, rmq_status failure, const void *source)
{
    static bool seen[MANY];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < count; i++) {
        rmq_event *event = NULL;
        char want[32];
        TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
        TL_EQUAL(rmq_event_get_type(event), RMQ_EVENT_REPLY);
        TL_CHECK(rmq_event_source(event) == source);
        uint64_t token = rmq_event_token(event);
        TL_CHECK(token < MANY && !seen[token]);
        seen[token] = true;
        if (failure == RMQ_OK) {
            TL_CHECK(rmq_event_error(event) == NULL);
            check_reply(rmq_event_message(event), want,
                        (size_t)snprintf(want, sizeof want, "request %d", (int)token));
        } else {
            TL_CHECK(rmq_event_message(event) == NULL);
            TL_EQUAL(rmq_error_status(rmq_event_error(event)), failure);
        }
        rmq_event_destroy(event);
    }
}

static void replies_come_as_events_too(void)
{
    static struct server server;
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    tl_cluster_start(&cluster, QUEUES);
    start_server(&cluster, &server);
    rmq_producer *producer = producer_with_events(&cluster, &events);
    request_events(&cluster, producer, MANY, WAIT_MS);
    take_replies(events, MANY, RMQ_OK, producer);
    atomic_store(&server.silent, 1);
    request_events(&cluster, producer, 1, 300);
    take_replies(events, 1, RMQ_ERR_TIMEOUT, producer);
    rmq_producer_destroy(producer);
    rmq_events_destroy(events);
    stop_server(&server);
    tl_cluster_stop(&cluster);
}

static void events_of_requests_outlive_their_producer(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = producer_with_events(&cluster, &events);
    request_events(&cluster, producer, 10, 60000);
    TL_EQUAL(rmq_producer_shutdown(producer, 100, NULL), RMQ_ERR_TIMEOUT);
    rmq_producer_destroy(producer);
    take_replies(events, 7, RMQ_ERR_CLOSED, NULL);
    rmq_events_destroy(events); /* with what nobody took */
    producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "hello", 5);
    TL_EQUAL(rmq_producer_request_event(producer, message, 0, 1, NULL), RMQ_ERR_STATE);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* The second line is written when the reply to the first can be read. */
static void the_command_shows_each_reply_at_once(void)
{
    struct tl_cluster cluster;
    struct server server = {0};
    char replies[] = "/tmp/rmq-request-XXXXXX";
    char words[700];
    int fd = mkstemp(replies);
    TL_CHECK(fd >= 0);
    close(fd);
    tl_cluster_start(&cluster, QUEUES);
    start_server(&cluster, &server);
    snprintf(words, sizeof words,
             "version; (echo one; for i in $(seq 2000); do "
             "grep -q Rne %s && echo two && break; sleep 0.02; done) | "
             "${B:-build/release}/rmq request -n '%s' -t %s --lines > %s; cat %s; rm %s",
             replies, cluster.namesrv, cluster.topic, replies, replies, replies);
    tl_expect("", words, 0, "Rwo");
    stop_server(&server);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_request_gets_its_reply),
        TL_CASE(each_of_many_requests_gets_its_own_reply),
        TL_CASE(a_request_without_a_reply_ends_at_its_deadline),
        TL_CASE(a_request_that_cannot_be_sent_fails_as_a_send_does),
        TL_CASE(a_request_that_no_broker_takes_says_so),
        TL_CASE(a_replier_is_told_that_nobody_waits_any_more),
        TL_CASE(a_reply_is_at_another_broker_before_its_deadline),
        TL_CASE(a_request_that_is_sent_again_after_its_reply_has_its_body),
        TL_CASE(a_shutdown_completes_all_requests),
        TL_CASE(replies_come_as_events_too),
        TL_CASE(events_of_requests_outlive_their_producer),
        {"the_command_shows_each_reply_at_once", the_command_shows_each_reply_at_once, 90},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

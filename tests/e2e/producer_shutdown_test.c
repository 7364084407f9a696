/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The end of a producer: it drains, cuts off at its deadline, completes every accepted send once,
 * may be called by anybody at any time, and is inert in a forked child.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define MANY 10000

struct tally {
    _Atomic int ok;
    _Atomic int closed;
    _Atomic int other;
    rmq_producer *producer;
    _Atomic int shutdowns;
    _Atomic bool over; /* shutdown has returned */
    _Atomic int late;
};

static void count(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct tally *tally = user;
    if (atomic_load(&tally->over)) {
        atomic_fetch_add(&tally->late, 1);
    }
    if (result) {
        atomic_fetch_add(&tally->ok, 1);
    } else {
        atomic_fetch_add(rmq_error_status(err) == RMQ_ERR_CLOSED ? &tally->closed : &tally->other,
                         1);
    }
}

/* None of its sends may be late on a busy machine: they are counted. */
static rmq_producer *patient_producer(const struct tl_cluster *cluster)
{
    rmq_error *err = NULL;
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    tl_producer_options_init(&options);
    options.producer_group = "many";
    options.namesrv_addr = cluster->namesrv;
    options.send_msg_timeout_ms = 20000;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void shutdown_waits_for_ten_thousand_sends(void)
{
    struct tl_cluster cluster;
    static struct tally tally;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = patient_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    for (int i = 0; i < MANY; i++) {
        TL_OK(rmq_producer_send_async(producer, message, count, &tally, &err));
    }
    TL_OK(rmq_producer_shutdown(producer, 20000, &err));
    atomic_store(&tally.over, true);
    TL_EQUAL(atomic_load(&tally.ok), MANY);
    TL_EQUAL(rmq_producer_send_async(producer, message, count, &tally, NULL), RMQ_ERR_CLOSED);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, NULL), RMQ_ERR_CLOSED);
    TL_EQUAL(rmq_producer_send_oneway(producer, message, NULL), RMQ_ERR_CLOSED);
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&tally.late), 0);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

static rmq_producer *producer_through(struct tl_proxy *proxy, struct tl_namesrv *ns,
                                      const char *topic)
{
    char brokers[128];
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    snprintf(brokers, sizeof brokers, "a@%s", tl_proxy_addr(proxy));
    tl_namesrv_brokers(ns, topic, brokers, 4);
    tl_producer_options_init(&options);
    options.producer_group = "ending";
    options.namesrv_addr = tl_namesrv_addr(ns);
    options.send_msg_timeout_ms = 10000;
    options.max_async_in_flight = 2 * MANY;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void shutdown_cuts_off_what_is_not_answered_in_time(void)
{
    struct tl_cluster cluster;
    static struct tally tally;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_proxy *proxy = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct tl_namesrv *ns = tl_namesrv_start();
    rmq_producer *producer = producer_through(proxy, ns, cluster.topic);
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    tl_proxy_blackhole(proxy, true);
    for (int i = 0; i < MANY; i++) {
        TL_OK(rmq_producer_send_async(producer, message, count, &tally, &err));
    }
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_producer_shutdown(producer, 300, &err), RMQ_ERR_TIMEOUT);
    atomic_store(&tally.over, true);
    int64_t took = tl_now_ms() - start;
    TL_CHECK(took >= 290 && took < 2900); /* not until the sends' own deadline */
    TL_CHECK(strstr(rmq_error_message(err), "10000") != NULL);
    rmq_error_destroy(err);
    TL_EQUAL(atomic_load(&tally.closed), MANY);
    TL_EQUAL(atomic_load(&tally.ok) + atomic_load(&tally.other), 0);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&tally.late), 0);
    rmq_message_destroy(message);
    tl_proxy_stop(proxy);
    tl_namesrv_stop(ns);
    tl_cluster_stop(&cluster);
}

struct sender {
    rmq_producer *producer;
    rmq_message *message;
    struct tally *tally;
    _Atomic int accepted;
};

static void *send_until_closed(void *arg)
{
    struct sender *sender = arg;
    for (;;) {
        rmq_status st =
            rmq_producer_send_async(sender->producer, sender->message, count, sender->tally, NULL);
        if (st == RMQ_ERR_CLOSED) {
            return NULL;
        }
        TL_EQUAL(st, RMQ_OK);
        atomic_fetch_add(&sender->accepted, 1);
        st = rmq_producer_send(sender->producer, sender->message, 0, NULL, NULL);
        if (st == RMQ_ERR_CLOSED) {
            return NULL;
        }
        TL_EQUAL(st, RMQ_OK);
    }
}

static bool many_sent(void *arg)
{
    return atomic_load(&((struct tally *)arg)->ok) > 200;
}

static void threads_that_send_meanwhile_are_told_and_let_go(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    for (int round = 0; round < 5; round++) {
        struct tally tally = {0};
        struct sender senders[4];
        pthread_t threads[4];
        rmq_producer *producer = tl_producer(&cluster);
        for (int i = 0; i < 4; i++) {
            senders[i] =
                (struct sender){producer, tl_message(cluster.topic, "shutdown", 8), &tally, 0};
            TL_EQUAL(pthread_create(&threads[i], NULL, send_until_closed, &senders[i]), 0);
        }
        TL_CHECK(tl_wait(many_sent, &tally, 10000));
        /* The second round ends in the midst of sends. */
        rmq_status st = rmq_producer_shutdown(producer, round % 2 ? 1 : 10000, &err);
        TL_CHECK(st == RMQ_OK || st == RMQ_ERR_TIMEOUT);
        rmq_error_destroy(err);
        err = NULL;
        int accepted = 0;
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            accepted += atomic_load(&senders[i].accepted);
            rmq_message_destroy(senders[i].message);
        }
        rmq_producer_destroy(producer);
        TL_EQUAL(atomic_load(&tally.ok) + atomic_load(&tally.closed), accepted);
        TL_EQUAL(atomic_load(&tally.other), 0);
    }
    tl_cluster_stop(&cluster);
}

#define LENT_BYTES 65536

/* A body that its program takes back as soon as it hears of the end. */
struct lent {
    struct tally *tally;
    char bytes[LENT_BYTES];
};

static void free_lent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct lent *lent = user;
    count(result, err, lent->tally);
    free(lent);
}

static void *lend_until_closed(void *arg)
{
    struct sender *sender = arg;
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK) {
        rmq_message *message = tl_message(rmq_message_topic(sender->message), "shutdown", 8);
        struct lent *lent = calloc(1, sizeof *lent);
        TL_CHECK(lent != NULL);
        lent->tally = sender->tally;
        TL_EQUAL(rmq_message_borrow_body(message, lent->bytes, LENT_BYTES), RMQ_OK);
        st = rmq_producer_send_async(sender->producer, message, free_lent, lent, NULL);
        atomic_fetch_add(&sender->accepted, st == RMQ_OK);
        rmq_message_destroy(message);
        if (st != RMQ_OK) {
            free(lent);
        }
    }
    TL_EQUAL(st, RMQ_ERR_CLOSED);
    return NULL;
}

/* A shutdown without time in the midst of sends. That no body is read after its end is what the
 * sanitizers see. */
static void bodies_that_are_lent_may_go_with_the_end_of_their_sends(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    for (int round = 0; round < 10; round++) {
        struct tally tally = {0};
        struct sender senders[4];
        pthread_t threads[4];
        rmq_producer *producer = patient_producer(&cluster);
        rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
        for (int i = 0; i < 4; i++) {
            senders[i] = (struct sender){producer, message, &tally, 0};
            TL_EQUAL(pthread_create(&threads[i], NULL, lend_until_closed, &senders[i]), 0);
        }
        TL_CHECK(tl_wait(many_sent, &tally, 10000));
        rmq_status st = rmq_producer_shutdown(producer, 1, NULL);
        TL_CHECK(st == RMQ_OK || st == RMQ_ERR_TIMEOUT);
        int accepted = 0;
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            accepted += atomic_load(&senders[i].accepted);
        }
        rmq_producer_destroy(producer);
        TL_EQUAL(atomic_load(&tally.ok) + atomic_load(&tally.closed), accepted);
        TL_EQUAL(atomic_load(&tally.other), 0);
        rmq_message_destroy(message);
    }
    tl_cluster_stop(&cluster);
}

static void *shut_down(void *arg)
{
    struct tally *tally = arg;
    if (rmq_producer_shutdown(tally->producer, 10000, NULL) == RMQ_OK) {
        atomic_fetch_add(&tally->shutdowns, 1);
    }
    return NULL;
}

static void many_threads_may_shut_down_at_once(void)
{
    struct tl_cluster cluster;
    struct tally tally = {0};
    pthread_t threads[8];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    tally.producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    for (int i = 0; i < 500; i++) {
        TL_OK(rmq_producer_send_async(tally.producer, message, count, &tally, &err));
    }
    for (int i = 0; i < 8; i++) {
        TL_EQUAL(pthread_create(&threads[i], NULL, shut_down, &tally), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    TL_EQUAL(atomic_load(&tally.shutdowns), 8);
    TL_EQUAL(atomic_load(&tally.ok), 500);
    rmq_producer_destroy(tally.producer);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

static void shut_down_in_callback(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct tally *tally = user;
    count(result, err, user);
    if (rmq_producer_shutdown(tally->producer, 10000, NULL) == RMQ_OK) {
        atomic_fetch_add(&tally->shutdowns, 1);
    }
}

static bool all_have_shut_down(void *arg)
{
    return atomic_load(&((struct tally *)arg)->shutdowns) >= 100;
}

static void completions_that_nobody_has_taken_outlive_the_producer(void)
{
    struct tl_cluster cluster;
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    TL_OK(rmq_events_create(&events, &err));
    tl_producer_options_init(&options);
    options.producer_group = "late-reader";
    options.namesrv_addr = cluster.namesrv;
    options.events = events;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    for (uint64_t token = 1; token <= 10; token++) {
        TL_OK(rmq_producer_send_event(producer, message, token, &err));
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    for (int i = 0; i < 10; i++) {
        TL_EQUAL(rmq_events_take(events, &event, 1, 0), 1);
        TL_EQUAL(rmq_event_get_type(event), RMQ_EVENT_SENT);
        TL_CHECK(rmq_event_error(event) == NULL);
        TL_CHECK(rmq_send_result_msg_id(rmq_event_send_result(event))[0] != '\0');
        TL_CHECK(rmq_event_source(event) == NULL);
        rmq_event_destroy(event);
    }
    TL_EQUAL(rmq_events_take(events, &event, 1, 0), 0);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void a_callback_may_shut_down(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    for (int round = 0; round < 5; round++) {
        struct tally tally = {0};
        tally.producer = tl_producer(&cluster);
        rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
        int accepted = 0;
        for (int i = 0; i < 100; i++) {
            rmq_status st = rmq_producer_send_async(tally.producer, message, shut_down_in_callback,
                                                    &tally, &err);
            TL_CHECK(st == RMQ_OK || st == RMQ_ERR_CLOSED);
            rmq_error_destroy(err);
            err = NULL;
            accepted += st == RMQ_OK;
        }
        atomic_fetch_add(&tally.shutdowns, 100 - accepted);
        TL_CHECK(tl_wait(all_have_shut_down, &tally, 10000));
        rmq_producer_destroy(tally.producer);
        TL_EQUAL(atomic_load(&tally.ok), accepted);
        rmq_message_destroy(message);
    }
    tl_cluster_stop(&cluster);
}

static size_t shut_down_first(const rmq_message *message, size_t number, void *producer)
{
    (void)message;
    (void)number;
    TL_EQUAL(rmq_producer_shutdown(producer, 500, NULL), RMQ_ERR_STATE);
    return 0;
}

static rmq_status shut_down_before(const rmq_send_context *context, void *producer)
{
    (void)context;
    TL_EQUAL(rmq_producer_shutdown(producer, 500, NULL), RMQ_ERR_STATE);
    return RMQ_OK;
}

static void shut_down_after(rmq_send_context *context, void *producer)
{
    (void)context;
    TL_EQUAL(rmq_producer_shutdown(producer, 500, NULL), RMQ_ERR_STATE);
}

/* It would wait for the send that asks, for ever. */
static void inside_a_send_a_shutdown_is_refused(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_hook hook;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    TL_OK(
        rmq_producer_send_by_selector(producer, message, shut_down_first, producer, 0, NULL, &err));
    rmq_send_hook_init(&hook, sizeof hook);
    hook.check = shut_down_before;
    hook.after = shut_down_after;
    hook.user = producer;
    TL_OK(rmq_producer_add_send_hook(producer, &hook, &err));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_send_oneway(producer, message, &err));
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    rmq_producer_destroy(producer);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

static void a_producer_that_never_met_a_server_ends_at_once(void)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "lonely";
    options.namesrv_addr = "127.0.0.1:1";
    int64_t start = tl_now_ms();
    for (int i = 0; i < 50; i++) {
        TL_OK(rmq_producer_create(&options, &producer, &err));
        TL_OK(rmq_producer_shutdown(producer, 0, &err));
        rmq_producer_destroy(producer);
    }
    TL_CHECK(tl_now_ms() - start < 20000);
    rmq_producer_destroy(NULL);
}

static void a_send_that_waits_for_a_route_is_let_go(void)
{
    static struct tally tally;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    struct tl_namesrv *ns = tl_namesrv_start();
    tl_namesrv_silent(ns, true);
    tl_producer_options_init(&options);
    options.producer_group = "waiting";
    options.namesrv_addr = tl_namesrv_addr(ns);
    options.send_msg_timeout_ms = 20000;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message("Topic", "shutdown", 8);
    for (int i = 0; i < 10; i++) {
        TL_OK(rmq_producer_send_async(producer, message, count, &tally, &err));
    }
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_producer_shutdown(producer, 100, NULL), RMQ_ERR_TIMEOUT);
    TL_CHECK(tl_now_ms() - start < 15000);
    TL_EQUAL(atomic_load(&tally.closed), 10);
    rmq_producer_destroy(producer);
    rmq_message_destroy(message);
    tl_namesrv_stop(ns);
}

static void handles_are_inert_in_a_forked_child(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    pid_t child = fork();
    TL_CHECK(child >= 0);
    if (child == 0) {
        alarm(10);
        bool good =
            rmq_producer_send(producer, message, 0, NULL, NULL) == RMQ_ERR_FORKED &&
            rmq_producer_send_async(producer, message, count, NULL, NULL) == RMQ_ERR_FORKED &&
            rmq_producer_send_oneway(producer, message, NULL) == RMQ_ERR_FORKED &&
            rmq_producer_shutdown(producer, 0, NULL) == RMQ_ERR_FORKED;
        rmq_producer_destroy(producer);
#ifndef __SANITIZE_THREAD__ /* which does not let a child start threads */
        /* A new one works: the child's own threads and connections. */
        rmq_producer *own = tl_producer(&cluster);
        good = good && rmq_producer_send(own, message, 0, NULL, NULL) == RMQ_OK;
        rmq_producer_destroy(own);
#endif
        _exit(good ? 0 : 1);
    }
    int status = 0;
    TL_EQUAL(waitpid(child, &status, 0), child);
    TL_EQUAL(status, 0);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_producer_has_one_thread_and_with_callbacks_two(void)
{
    struct tl_cluster cluster;
    static struct tally tally;
    rmq_error *err = NULL;
    rmq_producer *producers[20];
    tl_cluster_start(&cluster, 4);
    int before = tl_usage_of(0).threads;
    rmq_message *message = tl_message(cluster.topic, "shutdown", 8);
    for (int i = 0; i < 20; i++) {
        producers[i] = tl_producer(&cluster);
        TL_OK(rmq_producer_send(producers[i], message, 0, NULL, &err));
    }
    TL_CHECK(tl_usage_of(0).threads - before <= 1);
    for (int i = 0; i < 20; i++) {
        TL_OK(rmq_producer_send_async(producers[i], message, count, &tally, &err));
    }
    TL_CHECK(tl_usage_of(0).threads - before <= 2);
    for (int i = 0; i < 20; i++) {
        rmq_producer_destroy(producers[i]);
    }
    TL_EQUAL(atomic_load(&tally.ok), 20);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(shutdown_waits_for_ten_thousand_sends),
        TL_CASE(shutdown_cuts_off_what_is_not_answered_in_time),
        TL_CASE(threads_that_send_meanwhile_are_told_and_let_go),
        TL_CASE(bodies_that_are_lent_may_go_with_the_end_of_their_sends),
        TL_CASE(many_threads_may_shut_down_at_once),
        TL_CASE(completions_that_nobody_has_taken_outlive_the_producer),
        TL_CASE(a_callback_may_shut_down),
        TL_CASE(inside_a_send_a_shutdown_is_refused),
        TL_CASE(a_producer_that_never_met_a_server_ends_at_once),
        TL_CASE(a_send_that_waits_for_a_route_is_let_go),
        TL_CASE(handles_are_inert_in_a_forked_child),
        TL_CASE(a_producer_has_one_thread_and_with_callbacks_two),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A producer that has been at work for long: what a send allocates, what sends leave behind when
 * they succeed and when they fail, and forks beside it. The library's allocations are counted
 * through rmq_set_allocator; each case is a process of its own.
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
#include "lib/usage.h"

#define WAIT_MS 25000

/* ---- counted memory ---- */

static atomic_llong made; /* blocks handed out so far */
static atomic_llong live; /* of these, not given back */

static void *counted_malloc(size_t n)
{
    void *p = malloc(n);
    atomic_fetch_add(&made, p != NULL);
    atomic_fetch_add(&live, p != NULL);
    return p;
}

static void *counted_realloc(void *old, size_t n)
{
    void *p = realloc(old, n);
    atomic_fetch_add(&made, p != NULL && old == NULL);
    atomic_fetch_add(&live, p != NULL && old == NULL);
    return p;
}

static void counted_free(void *p)
{
    atomic_fetch_sub(&live, p != NULL);
    free(p);
}

static void count_memory(void)
{
    TL_EQUAL(rmq_set_allocator(counted_malloc, counted_realloc, counted_free), RMQ_OK);
}

/* ---- sends ---- */

struct tally {
    atomic_int calls;
    atomic_int failed;
    int wanted;
};

static void note(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct tally *tally = user;
    (void)result;
    atomic_fetch_add(&tally->failed, err != NULL);
    atomic_fetch_add(&tally->calls, 1);
}

static bool are_all(void *arg)
{
    struct tally *tally = arg;
    return atomic_load(&tally->calls) >= tally->wanted;
}

static void keep(void *data, void *user)
{
    (void)data;
    (void)user;
}

static void send_many(rmq_producer *producer, const rmq_message *message, int count)
{
    rmq_error *err = NULL;
    struct tally tally = {.wanted = count};
    for (int i = 0; i < count; i++) {
        TL_OK(rmq_producer_send_async(producer, message, note, &tally, &err));
    }
    TL_CHECK(tl_wait(are_all, &tally, WAIT_MS));
    TL_EQUAL(atomic_load(&tally.failed), 0);
}

static void an_asynchronous_send_of_a_taken_body_costs_one_allocation(void)
{
    static char body[1024];
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_message *message = NULL;
    rmq_producer_options options;
    count_memory();
    tl_cluster_start(&cluster, 4);
    options = tl_producer_options(&cluster);
    options.max_async_in_flight = 500;
    options.send_msg_timeout_ms = WAIT_MS;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_EQUAL(rmq_message_set_tag(message, "tag"), RMQ_OK);
    TL_EQUAL(rmq_message_take_body(message, body, sizeof body, keep, NULL), RMQ_OK);
    send_many(producer, message, 2000);
    long long before = atomic_load(&made);
    send_many(producer, message, 4000);
    long long cost = atomic_load(&made) - before;
    TL_CHECK(cost >= 4000); /* the counters count */
    /* One for each send; reads bring some, at most one an answer when they come one by one, which
     * many never do. */
    if (cost > 7600) {
        tl_fail(__FILE__, __LINE__, "%lld allocations for 4000 sends", cost);
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* All of a round are under way, or told and not looked at, at once. */
static void send_round(rmq_producer *producer, const rmq_message *message, rmq_events *events,
                       int count)
{
    static rmq_event *told[2000];
    rmq_error *err = NULL;
    for (int i = 0; i < count; i++) {
        TL_OK(rmq_producer_send_event(producer, message, (uint64_t)i, &err));
    }
    size_t n = 0;
    int64_t deadline = tl_now_ms() + WAIT_MS;
    while (n < (size_t)count && tl_now_ms() < deadline) {
        n += rmq_events_take(events, told + n, (size_t)count - n, 1000);
    }
    TL_EQUAL(n, count);
    for (size_t i = 0; i < n; i++) {
        TL_CHECK(rmq_event_error(told[i]) == NULL);
        rmq_event_destroy(told[i]);
    }
}

static void sends_that_end_together_leave_their_memory_to_the_next(void)
{
    enum { COUNT = 2000 };
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_message *message = NULL;
    rmq_events *events = NULL;
    rmq_producer_options options;
    count_memory();
    tl_cluster_start(&cluster, 4);
    TL_OK(rmq_events_create(&events, &err));
    options = tl_producer_options(&cluster);
    options.send_msg_timeout_ms = WAIT_MS;
    options.events = events;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, "body", 4), RMQ_OK);
    send_round(producer, message, events, COUNT);
    long long before = atomic_load(&made);
    send_round(producer, message, events, COUNT);
    long long cost = atomic_load(&made) - before;
    if (cost > COUNT * 3 / 2) {
        tl_fail(__FILE__, __LINE__, "%lld allocations for %d sends", cost, COUNT);
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void send_as_a_program_does(const struct tl_cluster *cluster, rmq_producer *producer, int i)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    char text[32];
    snprintf(text, sizeof text, "key-%d", i);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_EQUAL(rmq_message_set_tag(message, "tag"), RMQ_OK);
    TL_EQUAL(rmq_message_add_key(message, text), RMQ_OK);
    TL_EQUAL(rmq_message_set_property(message, "number", text), RMQ_OK);
    TL_EQUAL(rmq_message_copy_body(message, text, strlen(text)), RMQ_OK);
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
}

static void messages_and_results_leave_nothing_behind(void)
{
    struct tl_cluster cluster;
    count_memory();
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 1000; i++) {
        send_as_a_program_does(&cluster, producer, i);
    }
    long long before = atomic_load(&live);
    long long made_before = atomic_load(&made);
    for (int i = 0; i < 5000; i++) {
        send_as_a_program_does(&cluster, producer, i);
    }
    TL_CHECK(atomic_load(&made) - made_before > 10000);
    TL_CHECK(atomic_load(&live) - before < 50);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void fail_many(rmq_producer *producer, const rmq_message *message, int count)
{
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = 20;
    struct tally tally = {.wanted = count};
    for (int i = 0; i < count; i++) {
        rmq_error *err = NULL;
        TL_OK(rmq_producer_send_async_with(producer, message, &how, note, &tally, &err));
    }
    TL_CHECK(tl_wait(are_all, &tally, WAIT_MS));
    TL_EQUAL(atomic_load(&tally.failed), count);
}

/* What the last callbacks were told of is freed behind them, and a thousand operations more, of two
 * blocks each, may be kept for later. */
static bool is_back(void *arg)
{
    return atomic_load(&live) - *(const long long *)arg < 2500;
}

static void failed_sends_leave_nothing_behind(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    count_memory();
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, "fails", 5), RMQ_OK);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_broker_stop(cluster.broker); /* nobody listens there any more */
    fail_many(producer, message, 1000);
    long long before = atomic_load(&live);
    int descriptors = tl_usage_of(0).descriptors;
    for (int i = 0; i < 5; i++) {
        fail_many(producer, message, 1000);
    }
    TL_CHECK(tl_wait(is_back, &before, WAIT_MS));
    TL_CHECK(tl_usage_of(0).descriptors <= descriptors + 2); /* a connection may be being tried */
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

/* ---- forks ---- */

struct busy {
    rmq_producer *producer;
    rmq_message *message;
    atomic_bool stop;
    atomic_llong sent;
    atomic_llong failed;
};

static void *keep_sending(void *arg)
{
    struct busy *busy = arg;
    while (!atomic_load(&busy->stop)) {
        rmq_status st = rmq_producer_send(busy->producer, busy->message, WAIT_MS, NULL, NULL);
        atomic_fetch_add(st == RMQ_OK ? &busy->sent : &busy->failed, 1);
    }
    return NULL;
}

/* In the child: no call of Check and none that locks what another thread of the parent may have
 * held. */
static void be_a_child(struct busy *busy)
{
    alarm(20);
    bool good = rmq_producer_send(busy->producer, busy->message, 0, NULL, NULL) == RMQ_ERR_FORKED &&
                rmq_producer_send_oneway(busy->producer, busy->message, NULL) == RMQ_ERR_FORKED &&
                rmq_producer_shutdown(busy->producer, 0, NULL) == RMQ_ERR_FORKED;
    rmq_producer_destroy(busy->producer);
    _exit(good ? 0 : 1);
}

static void fifty_forks_of_a_busy_producer_disturb_nobody(void)
{
    struct tl_cluster cluster;
    static struct busy busy;
    rmq_error *err = NULL;
    pthread_t threads[4];
    tl_cluster_start(&cluster, 4);
    busy.producer = tl_producer(&cluster);
    TL_OK(rmq_message_create(cluster.topic, &busy.message, &err));
    TL_EQUAL(rmq_message_copy_body(busy.message, "busy", 4), RMQ_OK);
    for (int i = 0; i < 4; i++) {
        TL_EQUAL(pthread_create(&threads[i], NULL, keep_sending, &busy), 0);
    }
    for (int i = 0; i < 50; i++) {
        long long before = atomic_load(&busy.sent);
        int64_t until = tl_now_ms() + WAIT_MS;
        while (atomic_load(&busy.sent) < before + 5 && tl_now_ms() < until) {
            usleep(100); /* between two forks the producer is at work */
        }
        TL_CHECK(atomic_load(&busy.sent) >= before + 5);
        pid_t child = fork();
        TL_CHECK(child >= 0);
        if (child == 0) {
            be_a_child(&busy);
        }
        int status = 0;
        TL_EQUAL(waitpid(child, &status, 0), child);
        TL_EQUAL(status, 0);
    }
    atomic_store(&busy.stop, true);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    TL_EQUAL(atomic_load(&busy.failed), 0);
    rmq_message_destroy(busy.message);
    rmq_producer_destroy(busy.producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(an_asynchronous_send_of_a_taken_body_costs_one_allocation),
        TL_CASE(sends_that_end_together_leave_their_memory_to_the_next),
        TL_CASE(messages_and_results_leave_nothing_behind),
        TL_CASE(failed_sends_leave_nothing_behind),
        TL_CASE(fifty_forks_of_a_busy_producer_disturb_nobody),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

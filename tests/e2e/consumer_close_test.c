/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Stopping a consumer while messages flow: listeners end, offsets are committed, no listener starts
 * afterwards, nothing is left over; from any thread, twice, inside the listener.
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

static struct tl_seen seen;
static atomic_bool stop_sending;
static atomic_int sent;

struct after {
    int64_t until_ms;
};

static bool time_came(void *arg)
{
    return tl_now_ms() >= ((struct after *)arg)->until_ms;
}

static void run_for(int64_t ms)
{
    struct after after = {tl_now_ms() + ms};
    tl_wait(time_came, &after, ms + 1000);
}

struct sender {
    const struct tl_cluster *cluster;
    rmq_producer *producer;
    pthread_t thread;
};

static void *keep_sending(void *arg)
{
    struct sender *sender = arg;
    while (!atomic_load(&stop_sending) && atomic_load(&sent) < TL_SEEN_MAX - 100) {
        tl_send(sender->cluster, sender->producer, "m", atomic_load(&sent), 10);
        atomic_fetch_add(&sent, 10);
        run_for(2);
    }
    return NULL;
}

static rmq_consumer *make_consumer(const struct tl_cluster *cluster, rmq_listener_fn listener,
                                   void *user)
{
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 4;
    options.listener = listener;
    options.listener_user = user;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster->topic, "*", &err));
    return consumer;
}

static bool is_back_at(void *arg)
{
    const struct tl_usage *then = arg;
    struct tl_usage now = tl_usage_of(0);
    /* The broker's store, in this process too, may have opened its next file: two descriptors. */
    return now.threads <= then->threads && now.descriptors <= then->descriptors + 2;
}

static void a_hundred_rounds_in_full_flow_leave_nothing_behind(void)
{
    struct tl_cluster cluster;
    struct tl_usage third = {0};
    int64_t slowest = 0;
    tl_cluster_start(&cluster, 4);
    struct sender sender = {.cluster = &cluster, .producer = tl_producer(&cluster)};
    TL_EQUAL(pthread_create(&sender.thread, NULL, keep_sending, &sender), 0);
    for (int round = 1; round <= 100; round++) {
        rmq_consumer *consumer = make_consumer(&cluster, tl_seen_listener, &seen);
        rmq_error *err = NULL;
        TL_OK(rmq_consumer_start(consumer, &err));
        run_for(5 + round % 10 * 5);
        int64_t start = tl_now_ms();
        TL_OK(rmq_consumer_shutdown(consumer, 3000, &err));
        int64_t took = tl_now_ms() - start;
        slowest = took > slowest ? took : slowest;
        int total = atomic_load(&seen.total);
        TL_OK(rmq_consumer_shutdown(consumer, 3000, &err));
        TL_EQUAL(atomic_load(&seen.total), total);
        rmq_consumer_destroy(consumer);
        rmq_consumer_destroy(make_consumer(&cluster, tl_seen_listener, &seen)); /* never started */
        if (round == 3) {
            third = tl_usage_of(0);
        }
    }
    /* The broker here closes its ends a moment later. */
    TL_CHECK(tl_wait(is_back_at, &third, 20000));
    TL_CHECK(slowest < 3000);
    atomic_store(&stop_sending, true);
    pthread_join(sender.thread, NULL);

    /* Each round went on where the one before had committed: all came, and none twice. */
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, atomic_load(&sent), 10000);
    rmq_consumer_destroy(consumer);
    printf("%d messages, %d deliveries, slowest shutdown %lld ms\n", atomic_load(&sent),
           atomic_load(&seen.total), (long long)slowest);
    TL_EQUAL(atomic_load(&seen.total), atomic_load(&sent));
    rmq_producer_destroy(sender.producer);
    tl_cluster_stop(&cluster);
}

static rmq_consumer *self; /* for listeners that shut their consumer down */
static atomic_int inside_result = 1;
static atomic_bool asked; /* the first listener to see fifty shuts down */

static rmq_consume_result shut_down_at_fifty(const rmq_message_view *const *messages, size_t count,
                                             rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    if (atomic_load(&seen.total) >= 50 && !atomic_exchange(&asked, true)) {
        atomic_store(&inside_result, rmq_consumer_shutdown(self, 5000, NULL));
    }
    return RMQ_CONSUME_SUCCESS;
}

static bool has_shut_down(void *arg)
{
    return atomic_load(&inside_result) != 1;
}

static void shutdown_inside_the_listener_commits_what_that_listener_consumed(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 500);
    self = make_consumer(&cluster, shut_down_at_fifty, &seen);
    TL_OK(rmq_consumer_start(self, &err));
    TL_CHECK(tl_wait(has_shut_down, NULL, 20000));
    TL_EQUAL(atomic_load(&inside_result), RMQ_OK);
    TL_OK(rmq_consumer_shutdown(self, 5000, &err)); /* waits for the listener that called it */
    int total = atomic_load(&seen.total);
    rmq_consumer_destroy(self);
    TL_EQUAL(atomic_load(&seen.total), total);

    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 500, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 500);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result all_shut_down(const rmq_message_view *const *messages, size_t count,
                                        rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    rmq_status st = rmq_consumer_shutdown(self, 20000, NULL);
    atomic_store(&inside_result, st);
    return RMQ_CONSUME_SUCCESS;
}

static void several_listeners_may_shut_down_at_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 100);
    self = make_consumer(&cluster, all_shut_down, &seen);
    int64_t start = tl_now_ms();
    TL_OK(rmq_consumer_start(self, &err));
    TL_CHECK(tl_wait(has_shut_down, NULL, 20000));
    rmq_consumer_destroy(self);
    TL_CHECK(tl_now_ms() - start < 19000); /* nobody waited for the deadline */
    TL_EQUAL(atomic_load(&inside_result), RMQ_OK);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static atomic_bool let_go;
static atomic_int blocked;

static bool may_go(void *arg)
{
    return atomic_load(&let_go);
}

static rmq_consume_result block(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    atomic_fetch_add(&blocked, 1);
    tl_wait(may_go, NULL, 20000);
    return RMQ_CONSUME_SUCCESS;
}

static bool is_blocked(void *arg)
{
    return atomic_load(&blocked) > 0;
}

static void a_listener_that_does_not_end_is_not_waited_for_beyond_the_deadline(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_consumer *consumer = make_consumer(&cluster, block, &seen);
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(is_blocked, NULL, 20000));
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_consumer_shutdown(consumer, 500, &err), RMQ_ERR_TIMEOUT);
    TL_CHECK(tl_now_ms() - start < 15000);
    rmq_error_destroy(err);
    atomic_store(&let_go, true);
    rmq_consumer_destroy(consumer);

    /* It was not acknowledged in time: the message comes again. */
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 1, 1);
    tl_seen_wait(&seen, 2, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.times[0]), 2);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void *let_it_go(void *arg)
{
    (void)arg;
    atomic_store(&let_go, true);
    return NULL;
}

static rmq_consume_result block_to_the_end(const rmq_message_view *const *messages, size_t count,
                                           rmq_consume_context *context, void *user)
{
    rmq_consume_result result = block(messages, count, context, user);
    atomic_fetch_sub(&blocked, 1);
    return result;
}

static void a_shutdown_after_one_that_timed_out_waits_for_the_same_listener(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    pthread_t thread;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_consumer *consumer = make_consumer(&cluster, block_to_the_end, &seen);
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(is_blocked, NULL, 20000));
    TL_EQUAL(rmq_consumer_shutdown(consumer, 100, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(rmq_consumer_shutdown(consumer, 100, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(pthread_create(&thread, NULL, let_it_go, NULL), 0);
    TL_OK(rmq_consumer_shutdown(consumer, 20000, &err));
    TL_EQUAL(atomic_load(&blocked), 0);
    TL_OK(rmq_consumer_shutdown(consumer, 100, &err));
    TL_EQUAL(pthread_join(thread, NULL), 0);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static bool twenty_are_blocked(void *arg)
{
    (void)arg;
    return atomic_load(&blocked) == 20;
}

/* From then on no worker takes anything new. */
static bool is_closing(void *arg)
{
    return rmq_consumer_subscribe(arg, "another", "*", NULL) == RMQ_ERR_CLOSED;
}

static void *shut_down_in_time(void *arg)
{
    static atomic_int result;
    atomic_store(&result, rmq_consumer_shutdown(arg, 10000, NULL));
    return &result;
}

static rmq_consumer *with_twenty_workers(const struct tl_cluster *cluster)
{
    rmq_error *err = NULL;
    rmq_consumer *consumer = make_consumer(cluster, block, &seen);
    TL_OK(rmq_consumer_set_consume_thread_nums(consumer, 20, &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

/* Two threads shut down meanwhile. What the twenty hold is committed, what nobody holds comes to
 * the next member. */
static void twenty_listeners_at_work_are_waited_for(void)
{
    struct tl_cluster cluster;
    pthread_t threads[2];
    void *results[2];
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = with_twenty_workers(&cluster);
    tl_send(&cluster, producer, "m", 0, 60);
    TL_CHECK(tl_wait(twenty_are_blocked, NULL, 15000));
    for (int i = 0; i < 2; i++) {
        TL_EQUAL(pthread_create(&threads[i], NULL, shut_down_in_time, consumer), 0);
    }
    TL_CHECK(tl_wait(is_closing, consumer, 10000));
    TL_EQUAL(atomic_load(&seen.total), 20);
    atomic_store(&let_go, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &results[i]);
        TL_EQUAL(atomic_load((atomic_int *)results[i]), RMQ_OK);
    }
    TL_EQUAL(atomic_load(&seen.total), 20);
    rmq_consumer_destroy(consumer);
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 60, 15000);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void members_stop_while_queues_move(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *stays = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    for (int round = 0; round < 20; round++) {
        rmq_consumer *comes = make_consumer(&cluster, tl_seen_listener, &seen);
        TL_OK(rmq_consumer_start(comes, &err));
        tl_send(&cluster, producer, "m", round * 20, 20);
        rmq_consumer_destroy(comes); /* its share is on the way still */
    }
    tl_seen_wait(&seen, 400, 20000);
    printf("%d deliveries of 400 messages\n", atomic_load(&seen.total));
    rmq_consumer_destroy(stays);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void *shut_down(void *arg)
{
    rmq_consumer_shutdown(arg, 3000, NULL);
    return NULL;
}

static void several_threads_may_shut_down_at_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    pthread_t threads[8];
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    for (int round = 0; round < 10; round++) {
        rmq_consumer *consumer = make_consumer(&cluster, tl_seen_listener, &seen);
        TL_OK(rmq_consumer_start(consumer, &err));
        tl_send(&cluster, producer, "m", round * 20, 20);
        for (int i = 0; i < 8; i++) {
            TL_EQUAL(pthread_create(&threads[i], NULL, shut_down, consumer), 0);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(threads[i], NULL);
        }
        TL_EQUAL(rmq_consumer_subscribe(consumer, cluster.topic, "*", NULL), RMQ_ERR_CLOSED);
        TL_EQUAL(rmq_consumer_start(consumer, NULL), RMQ_ERR_CLOSED);
        rmq_consumer_destroy(consumer);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void null_and_unstarted_consumers_are_harmless(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    rmq_consumer_destroy(NULL);
    rmq_batch_destroy(NULL);
    TL_EQUAL(rmq_consumer_shutdown(NULL, 0, NULL), RMQ_ERR_INVALID);
    rmq_consumer *consumer = make_consumer(&cluster, tl_seen_listener, &seen);
    TL_EQUAL(rmq_consumer_shutdown(consumer, 1000, NULL), RMQ_OK);
    TL_EQUAL(rmq_consumer_shutdown(consumer, 1000, NULL), RMQ_OK);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void a_forked_child_leaves_the_consumer_alone(void)
{
    struct tl_cluster cluster;
    int status = 0;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    pid_t child = fork();
    if (child == 0) {
        bool good = rmq_consumer_subscribe(consumer, "other", "*", NULL) == RMQ_ERR_FORKED &&
                    rmq_consumer_set_consume_thread_nums(consumer, 30, NULL) == RMQ_ERR_FORKED &&
                    rmq_consumer_shutdown(consumer, 1000, NULL) == RMQ_ERR_FORKED;
        rmq_consumer_destroy(consumer);
        _exit(good ? 0 : 1);
    }
    TL_EQUAL(waitpid(child, &status, 0), child);
    TL_EQUAL(status, 0);
    tl_send(&cluster, producer, "m", 10, 10);
    tl_seen_wait(&seen, 20, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 20);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_hundred_rounds_in_full_flow_leave_nothing_behind",
         a_hundred_rounds_in_full_flow_leave_nothing_behind, 120},
        TL_CASE(shutdown_inside_the_listener_commits_what_that_listener_consumed),
        TL_CASE(several_listeners_may_shut_down_at_once),
        TL_CASE(a_listener_that_does_not_end_is_not_waited_for_beyond_the_deadline),
        TL_CASE(a_shutdown_after_one_that_timed_out_waits_for_the_same_listener),
        TL_CASE(twenty_listeners_at_work_are_waited_for),
        TL_CASE(members_stop_while_queues_move),
        TL_CASE(several_threads_may_shut_down_at_once),
        TL_CASE(null_and_unstarted_consumers_are_harmless),
        TL_CASE(a_forked_child_leaves_the_consumer_alone),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

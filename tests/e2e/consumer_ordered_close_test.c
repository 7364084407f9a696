/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Ordered consumers that stop: at any moment, inside their listener, with all queues in hands, with
 * dead letters or a request for locks on their way. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/ordered.h"
#include "lib/usage.h"

static struct tl_order order;

static rmq_consumer *ordered(const struct tl_cluster *cluster, rmq_listener_fn listener)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_orderly = true;
    options.suspend_current_queue_time_ms = 10;
    options.max_reconsume_times = 1;
    options.listener = listener;
    options.listener_user = &order;
    return tl_consumer_start(cluster, &options);
}

static void rounds_leave_nothing_behind_and_repeat_nothing(void)
{
    struct tl_cluster cluster;
    struct tl_usage third = {0};
    tl_cluster_start(&cluster, 4);
    for (int round = 1; round <= 40; round++) {
        rmq_consumer *consumer = ordered(&cluster, tl_order_listener);
        tl_send_some(&cluster, round * 20, 20);
        rmq_consumer_destroy(consumer); /* at some moment in between */
        if (round == 3) {
            third = tl_usage_of(0);
        }
    }
    struct tl_usage now = tl_usage_of(0);
    TL_CHECK(now.threads <= third.threads + 1);
    TL_CHECK(now.descriptors <= third.descriptors + 2);
    rmq_consumer *consumer = ordered(&cluster, tl_order_listener);
    tl_order_wait(&order, 800, 10000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&order.total), 800);
    tl_cluster_stop(&cluster);
}

static rmq_consumer *self;
static atomic_int inside_result = 1;
static atomic_bool asked;

static rmq_consume_result shut_down_at_fifty(const rmq_message_view *const *messages, size_t count,
                                             rmq_consume_context *context, void *user)
{
    tl_order_listener(messages, count, context, user);
    if (atomic_load(&order.total) >= 50 && !atomic_exchange(&asked, true)) {
        atomic_store(&inside_result, rmq_consumer_shutdown(self, 5000, NULL));
    }
    return RMQ_CONSUME_SUCCESS;
}

static bool has_shut_down(void *arg)
{
    return atomic_load(&inside_result) != 1;
}

static void shutdown_inside_the_listener_ends_and_loses_nothing(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    tl_send_some(&cluster, 0, 200);
    rmq_consumer_options options;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_orderly = true;
    options.listener = shut_down_at_fifty;
    options.listener_user = &order;
    TL_OK(rmq_consumer_create(&options, &self, &err));
    TL_OK(rmq_consumer_subscribe(self, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(self, &err));
    TL_CHECK(tl_wait(has_shut_down, NULL, 10000));
    TL_EQUAL(atomic_load(&inside_result), RMQ_OK);
    TL_OK(rmq_consumer_shutdown(self, 5000, &err));
    int total = atomic_load(&order.total);
    rmq_consumer_destroy(self);
    TL_EQUAL(atomic_load(&order.total), total);
    rmq_consumer *consumer = ordered(&cluster, tl_order_listener);
    tl_order_wait(&order, 200, 10000);
    TL_EQUAL(atomic_load(&order.total), 200);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static atomic_int inside;
static atomic_bool hold;

static rmq_consume_result stand(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    tl_order_enter(user, messages[0]);
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&hold)) {
        usleep(1000);
    }
    atomic_fetch_sub(&inside, 1);
    tl_order_leave(user, messages[0]);
    return RMQ_CONSUME_SUCCESS;
}

static bool are_inside(void *arg)
{
    return atomic_load(&inside) == *(const int *)arg;
}

static void *close_it(void *consumer)
{
    static atomic_int result;
    atomic_store(&result, rmq_consumer_shutdown(consumer, 10000, NULL));
    return &result;
}

/* From then on no worker takes anything new. */
static bool is_closing(void *arg)
{
    return rmq_consumer_subscribe(arg, "another", "*", NULL) == RMQ_ERR_CLOSED;
}

static void twenty_listeners_at_work_are_waited_for(void)
{
    struct tl_cluster cluster;
    int twenty = 20;
    pthread_t threads[2];
    void *results[2];
    tl_cluster_start(&cluster, 20);
    atomic_store(&hold, true);
    rmq_consumer *consumer = ordered(&cluster, stand);
    tl_send_some(&cluster, 0, 60);
    TL_CHECK(tl_wait(are_inside, &twenty, 15000));
    for (int i = 0; i < 2; i++) { /* twice at once */
        TL_EQUAL(pthread_create(&threads[i], NULL, close_it, consumer), 0);
    }
    TL_CHECK(tl_wait(is_closing, consumer, 10000));
    atomic_store(&hold, false);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &results[i]);
        TL_EQUAL(atomic_load((atomic_int *)results[i]), RMQ_OK);
    }
    TL_EQUAL(atomic_load(&order.total), 20);
    rmq_consumer_destroy(consumer);
    consumer = ordered(&cluster, tl_order_listener);
    tl_order_wait(&order, 60, 10000);
    TL_EQUAL(atomic_load(&order.total), 60);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void members_stop_while_queues_move(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 8);
    tl_send_some(&cluster, 0, 400);
    rmq_consumer *stays = ordered(&cluster, tl_order_listener);
    for (int round = 0; round < 10; round++) {
        rmq_consumer *comes = ordered(&cluster, tl_order_listener);
        tl_send_some(&cluster, 400 + round * 10, 10);
        rmq_consumer_destroy(comes); /* its share is on the way still */
    }
    tl_order_wait(&order, 500, 20000);
    printf("%d deliveries of 500 messages\n", atomic_load(&order.total));
    rmq_consumer_destroy(stays);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result fail_all(const rmq_message_view *const *messages, size_t count,
                                   rmq_consume_context *context, void *user)
{
    tl_order_listener(messages, count, context, user);
    return RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT;
}

static void a_shutdown_with_pauses_and_dead_letters_under_way_ends(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    tl_send_some(&cluster, 0, 100);
    for (int round = 0; round < 5; round++) {
        rmq_consumer *consumer = ordered(&cluster, fail_all);
        rmq_error *err = NULL;
        usleep((useconds_t)(5000 * round));
        int64_t start = tl_now_ms();
        TL_OK(rmq_consumer_shutdown(consumer, 5000, &err));
        TL_CHECK(tl_now_ms() - start < 9000);
        rmq_consumer_destroy(consumer);
    }
    TL_EQUAL(atomic_load(&order.together), 0);
    TL_EQUAL(atomic_load(&order.disorder), 0);
    tl_cluster_stop(&cluster);
}

#define LOCK 41

static uint64_t locks_before;

static bool asks_for_locks(void *arg)
{
    return tl_proxy_seen(arg, LOCK) > locks_before;
}

static rmq_producer *producer_named(const struct tl_cluster *cluster, const char *name)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options = tl_producer_options(cluster);
    options.instance_name = name;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static rmq_consumer *consumer_named(const struct tl_cluster *cluster, const char *name)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_orderly = true;
    options.listener = tl_order_listener;
    options.listener_user = &order;
    options.instance_name = name;
    options.lock_interval_ms = 1000;
    return tl_consumer_start(cluster, &options);
}

/* Until it renews its locks: such requests come late to the broker, and what is sent after them
 * overtakes them, but not each other. */
static rmq_consumer *start_and_renew(const struct tl_detour *detour, const char *name,
                                     const char *also)
{
    rmq_consumer *consumer = consumer_named(&detour->through, name);
    tl_order_wait(&order, 10, 10000);
    TL_CHECK(tl_proxy_script(detour->proxy, "delay request 41 ms 100"));
    TL_CHECK(tl_proxy_script(detour->proxy, also));
    locks_before = tl_proxy_seen(detour->proxy, LOCK);
    TL_CHECK(tl_wait(asks_for_locks, detour->proxy, 10000));
    return consumer;
}

/* A lock that nobody gives back lasts for a minute. */
static void go_on_with(const struct tl_detour *detour, rmq_producer *producer, const char *name)
{
    rmq_consumer *consumer = consumer_named(&detour->through, name);
    tl_send(&detour->through, producer, "m", 10, 10);
    tl_order_wait(&order, 20, 30000);
    rmq_consumer_destroy(consumer);
}

/* The producer keeps the connection of the first consumer. */
static void a_lock_that_is_asked_for_at_the_end_is_given_back(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 1, NULL);
    rmq_producer *producer = producer_named(&detour.through, "first");
    tl_send(&detour.through, producer, "m", 0, 10);
    rmq_consumer *consumer = start_and_renew(&detour, "first", "");
    rmq_consumer_destroy(consumer);
    go_on_with(&detour, producer, "second");
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

/* The queue goes to the member that comes first by its name. */
static void a_lock_whose_answer_is_lost_is_given_back_with_its_queue(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    tl_detour_start(&detour, 1, NULL);
    rmq_producer *producer = producer_named(&detour.through, "producer");
    tl_send(&detour.through, producer, "m", 0, 10);
    rmq_consumer *consumer = start_and_renew(&detour, "b", "drop response 41 times 1");
    TL_OK(rmq_consumer_unsubscribe(consumer, detour.through.topic, &err));
    go_on_with(&detour, producer, "a");
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"rounds_leave_nothing_behind_and_repeat_nothing",
         rounds_leave_nothing_behind_and_repeat_nothing, 90},
        TL_CASE(shutdown_inside_the_listener_ends_and_loses_nothing),
        TL_CASE(twenty_listeners_at_work_are_waited_for),
        TL_CASE(members_stop_while_queues_move),
        TL_CASE(a_lock_that_is_asked_for_at_the_end_is_given_back),
        TL_CASE(a_lock_whose_answer_is_lost_is_given_back_with_its_queue),
        TL_CASE(a_shutdown_with_pauses_and_dead_letters_under_way_ends),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a listener could not consume comes again: through the broker after its delay, or at once
 * when the send-back fails. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define SEND_BACK 36

static struct tl_seen seen;
static atomic_int again; /* deliveries with reconsume times above 0 */
static atomic_int wrong_topic;
static char expected_topic[64];

/* Fails each message the first time, with the shortest delay. */
static rmq_consume_result fail_first(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    rmq_consume_result result = RMQ_CONSUME_SUCCESS;
    for (size_t i = 0; i < count; i++) {
        if (rmq_message_view_reconsume_times(messages[i]) > 0) {
            atomic_fetch_add(&again, 1);
        } else {
            result = RMQ_RECONSUME_LATER;
        }
        if (strcmp(rmq_message_view_topic(messages[i]), expected_topic) != 0) {
            atomic_fetch_add(&wrong_topic, 1);
        }
    }
    rmq_consume_context_set_delay_level(context, 1);
    tl_seen_listener(messages, count, context, user);
    return result;
}

static bool reached(void *arg)
{
    return atomic_load(&again) >= *(int *)arg;
}

static void messages_that_failed_come_again_under_their_own_topic(void)
{
    struct tl_cluster cluster;
    int wanted = 20;
    tl_cluster_start(&cluster, 4);
    snprintf(expected_topic, sizeof expected_topic, "%s", cluster.topic);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", fail_first, &seen);
    tl_send(&cluster, producer, "m", 0, 20);
    TL_CHECK(tl_wait(reached, &wanted, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&again), 20);
    TL_EQUAL(atomic_load(&seen.total), 40);
    TL_EQUAL(atomic_load(&wrong_topic), 0);

    /* The originals and the copies are done: nothing comes to the next one. */
    consumer = tl_consumer(&cluster, "*", fail_first, &seen);
    tl_send(&cluster, producer, "m", 100, 1);
    wanted = 21;
    TL_CHECK(tl_wait(reached, &wanted, 20000));
    TL_EQUAL(atomic_load(&seen.total), 42);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static atomic_int left; /* calls that still fail */

static rmq_consume_result fail_some(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    return atomic_fetch_sub(&left, 1) > 0 ? RMQ_RECONSUME_LATER : RMQ_CONSUME_SUCCESS;
}

static bool total_reached(void *arg)
{
    return atomic_load(&seen.total) >= *(int *)arg;
}

static void a_message_whose_send_back_is_refused_is_offered_again_and_holds_the_offset(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int wanted = 2;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_broker_fault_answer(cluster.broker, SEND_BACK, -1, 1, "refused", &err));
    rmq_producer *producer = tl_producer(&cluster);
    atomic_store(&left, 1);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", fail_some, &seen);
    tl_send(&cluster, producer, "m", 0, 1);
    TL_CHECK(tl_wait(total_reached, &wanted, 10000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 2);

    /* One that is never taken: it comes to the next member of the group. */
    atomic_store(&left, 1);
    consumer = tl_consumer(&cluster, "*", fail_some, &seen);
    tl_send(&cluster, producer, "m", 1, 1);
    wanted = 3;
    TL_CHECK(tl_wait(total_reached, &wanted, 20000));
    rmq_consumer_destroy(consumer);
    consumer = tl_consumer(&cluster, "*", fail_some, &seen);
    wanted = 4;
    TL_CHECK(tl_wait(total_reached, &wanted, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.times[1]), 2);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* As fail_some, but what the broker stored of it comes after a minute only. */
static rmq_consume_result fail_one_for_long(const rmq_message_view *const *messages, size_t count,
                                            rmq_consume_context *context, void *user)
{
    rmq_consume_context_set_delay_level(context, 5);
    return fail_some(messages, count, context, user);
}

/* The first send-back is never answered. Until its time is up the offset does not move, whatever is
 * consumed behind it. */
static void a_message_whose_send_back_is_never_answered_is_kept(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int wanted = 11;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_broker_fault_drop(cluster.broker, SEND_BACK, 1, &err));
    rmq_producer *producer = tl_producer(&cluster);
    atomic_store(&left, 1);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", fail_one_for_long, &seen);
    tl_send(&cluster, producer, "m", 0, 1);
    tl_seen_wait(&seen, 1, 10000);
    tl_send(&cluster, producer, "m", 1, 9);
    tl_seen_wait(&seen, 10, 10000);
    TL_CHECK(tl_committed(&cluster, 0) <= 0);
    TL_CHECK(tl_wait(total_reached, &wanted, 25000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.times[0]), 2);
    TL_EQUAL(tl_committed(&cluster, 0), 10);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result first_half(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    if (count == 8 && rmq_message_view_reconsume_times(messages[0]) == 0) {
        rmq_consume_context_set_ack_index(context, 3);
        rmq_consume_context_set_delay_level(context, 1);
    }
    return RMQ_CONSUME_SUCCESS;
}

static void messages_beyond_the_ack_index_come_again(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    int wanted = 12;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 8);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_message_batch_max_size = 8;
    options.listener = first_half;
    options.listener_user = &seen;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(total_reached, &wanted, 15000));
    rmq_consumer_destroy(consumer);
    for (int i = 0; i < 8; i++) {
        TL_EQUAL(atomic_load(&seen.times[i]), i < 4 ? 1 : 2);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static atomic_bool let_go;

static bool may_go(void *arg)
{
    return atomic_load(&let_go);
}

static rmq_consume_result block_first(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    tl_seen_listener(messages, count, context, user);
    if (rmq_message_view_reconsume_times(messages[0]) == 0) {
        tl_wait(may_go, NULL, 20000);
    }
    return RMQ_CONSUME_SUCCESS;
}

/* Only the first of the queue goes back; the listener that blocks keeps its thread. */
static void a_message_that_blocks_its_listener_for_too_long_goes_back(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    int wanted = 2;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_timeout_ms = 1000;
    options.consume_thread_nums = 2;
    options.listener = block_first;
    options.listener_user = &seen;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(total_reached, &wanted, 20000)); /* level 3 is ten seconds */
    atomic_store(&let_go, true);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.times[0]), 2);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(messages_that_failed_come_again_under_their_own_topic),
        TL_CASE(a_message_whose_send_back_is_refused_is_offered_again_and_holds_the_offset),
        TL_CASE(a_message_whose_send_back_is_never_answered_is_kept),
        TL_CASE(messages_beyond_the_ack_index_come_again),
        TL_CASE(a_message_that_blocks_its_listener_for_too_long_goes_back),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Offsets: a group goes on where it stopped, and an offset that could not be read is asked for
 * again instead of being taken for 0. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define QUERY_CONSUMER_OFFSET  14
#define UPDATE_CONSUMER_OFFSET 15

static struct tl_seen seen;

static void a_group_goes_on_where_it_stopped(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    for (int round = 0; round < 5; round++) {
        rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
        tl_send(&cluster, producer, "m", round * 100, 100);
        tl_seen_wait(&seen, (round + 1) * 100, 20000);
        rmq_consumer_destroy(consumer);
        TL_EQUAL(atomic_load(&seen.total), (round + 1) * 100);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void an_offset_that_cannot_be_read_is_asked_for_again(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 200);
    tl_seen_wait(&seen, 200, 20000);
    rmq_consumer_destroy(consumer);

    TL_OK(rmq_broker_fault_answer(cluster.broker, QUERY_CONSUMER_OFFSET, 12, 1, "not today", &err));
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 200, 50);
    tl_seen_wait(&seen, 250, 10000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 250);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Shut down while no start offset is known: what the group had is not overwritten. */
static void an_offset_that_was_never_known_is_not_committed(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 100);
    tl_seen_wait(&seen, 100, 20000);
    rmq_consumer_destroy(consumer);

    TL_OK(rmq_broker_fault_answer(cluster.broker, QUERY_CONSUMER_OFFSET, -1, 1, "not today", &err));
    int64_t start = tl_now_ms();
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_CHECK(tl_now_ms() - start < 9000); /* start waits three seconds at most */
    rmq_consumer_destroy(consumer);
    rmq_broker_fault_clear(cluster.broker);

    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 100, 10);
    tl_seen_wait(&seen, 110, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 110);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void shutdown_keeps_its_deadline_when_commits_are_not_answered(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_OK(rmq_broker_fault_drop(cluster.broker, UPDATE_CONSUMER_OFFSET, -1, &err));
    tl_send(&cluster, producer, "m", 0, 100);
    tl_seen_wait(&seen, 100, 20000);
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_consumer_shutdown(consumer, 2000, NULL), RMQ_ERR_TIMEOUT);
    TL_CHECK(tl_now_ms() - start < 9000);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static rmq_consumer *open_at(const struct tl_cluster *cluster, rmq_consume_from_where where,
                             int64_t timestamp_ms)
{
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = where;
    options.consume_timestamp_ms = timestamp_ms;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return tl_consumer_start(cluster, &options);
}

static atomic_llong store_time;

static rmq_consume_result note_time(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    if (strcmp(rmq_message_view_property(messages[0], "n"), "50") == 0) {
        atomic_store(&store_time, rmq_message_view_store_timestamp_ms(messages[0]));
    }
    return tl_seen_listener(messages, count, context, user);
}

static bool a_tick_passed(void *arg)
{
    return tl_now_ms() > *(int64_t *)arg + 20;
}

static void *destroy(void *consumer)
{
    rmq_consumer_destroy(consumer);
    return NULL;
}

static bool has_committed(void *proxy)
{
    return tl_proxy_seen(proxy, UPDATE_CONSUMER_OFFSET) > 0;
}

/* The answer to the first comes after 2 s; until then there must be no second. Then all are
 * stored. */
static void the_first_offset_of_a_new_group_goes_alone(void)
{
    struct tl_detour detour;
    char retry[96];
    pthread_t thread;
    tl_detour_start(&detour, 8, NULL);
    snprintf(retry, sizeof retry, "%%RETRY%%%s", detour.cluster.group);
    tl_namesrv_route(detour.namesrv, retry, 17, NULL);
    TL_CHECK(tl_proxy_script(detour.proxy, "delay response 15 times 1 ms 2000"));
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, 80);
    rmq_consumer *consumer = tl_consumer(&detour.through, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 80, 10000);
    TL_EQUAL(pthread_create(&thread, NULL, destroy, consumer), 0);
    TL_CHECK(tl_wait(has_committed, detour.proxy, 10000));
    tl_pause(100);
    TL_EQUAL(tl_proxy_seen(detour.proxy, UPDATE_CONSUMER_OFFSET), 1);
    pthread_join(thread, NULL);
    TL_EQUAL(tl_proxy_seen(detour.proxy, UPDATE_CONSUMER_OFFSET), 8);

    consumer = tl_consumer(&detour.cluster, "*", tl_seen_listener, &seen);
    tl_send(&detour.cluster, producer, "m", 80, 1);
    tl_seen_wait(&seen, 81, 10000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 81);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static void a_group_can_start_at_a_time(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 50);
    int64_t now = tl_now_ms();
    tl_wait(a_tick_passed, &now, 20000);
    tl_send(&cluster, producer, "m", 50, 50);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", note_time, &seen);
    tl_seen_wait(&seen, 100, 20000);
    rmq_consumer_destroy(consumer);

    struct tl_cluster later = cluster;
    snprintf(later.group, sizeof later.group, "%.50s-later", cluster.group);
    memset(&seen, 0, sizeof seen);
    TL_OK(
        rmq_broker_fault_answer(cluster.broker, QUERY_CONSUMER_OFFSET, -1, 22, "Not found", &err));
    consumer = open_at(&later, RMQ_CONSUME_FROM_TIMESTAMP, atomic_load(&store_time));
    tl_seen_wait(&seen, 50, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 50);
    TL_EQUAL(atomic_load(&seen.times[50]), 1);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_group_goes_on_where_it_stopped),
        TL_CASE(an_offset_that_cannot_be_read_is_asked_for_again),
        TL_CASE(an_offset_that_was_never_known_is_not_committed),
        TL_CASE(shutdown_keeps_its_deadline_when_commits_are_not_answered),
        TL_CASE(the_first_offset_of_a_new_group_goes_alone),
        TL_CASE(a_group_can_start_at_a_time),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

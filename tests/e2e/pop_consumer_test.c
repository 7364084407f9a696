/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The pop consumer: popped, acknowledged alone and together, given back, in order, from several
 * processes' point of view. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

static struct tl_seen seen;

static rmq_pop_consumer *open_consumer(const struct tl_cluster *cluster, int64_t invisible_ms,
                                       bool orderly)
{
    rmq_pop_consumer_options options;
    rmq_pop_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_pop_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.pop_invisible_time_ms = invisible_ms;
    options.consume_orderly = orderly;
    TL_OK(rmq_pop_consumer_create(&options, &consumer, &err));
    return consumer;
}

static size_t note_all(const rmq_pop_result *result)
{
    size_t count = rmq_pop_result_count(result);
    for (size_t i = 0; i < count; i++) {
        tl_seen_add(&seen, rmq_pop_result_at(result, i));
    }
    return count;
}

static void ack_all(rmq_pop_consumer *consumer, const char *topic, const rmq_pop_result *result)
{
    const char *handles[32];
    rmq_error *err = NULL;
    size_t count = rmq_pop_result_count(result);
    for (size_t i = 0; i < count; i++) {
        handles[i] = rmq_pop_result_handle(result, i);
    }
    TL_OK(rmq_pop_consumer_ack_batch(consumer, topic, handles, count, 0, &err));
}

static void every_message_is_popped_once_and_gone_when_acknowledged(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_pop_result *result = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 300);
    rmq_pop_consumer *consumer = open_consumer(&cluster, 60000, false);
    int64_t deadline = tl_now_ms() + 20000;
    while (atomic_load(&seen.different) < 300) {
        TL_CHECK(tl_now_ms() < deadline);
        if (rmq_pop_consumer_pop(consumer, cluster.topic, "*", 32, 1000, &result, NULL) != RMQ_OK) {
            continue;
        }
        TL_CHECK(note_all(result) > 0);
        TL_CHECK(rmq_pop_result_handle(result, 32) == NULL);
        if (atomic_load(&seen.total) % 2) {
            ack_all(consumer, cluster.topic, result);
        } else {
            for (size_t i = 0; i < rmq_pop_result_count(result); i++) {
                TL_OK(rmq_pop_consumer_ack(consumer, cluster.topic,
                                           rmq_pop_result_handle(result, i), 0, &err));
            }
        }
        rmq_pop_result_destroy(result);
    }
    TL_EQUAL(atomic_load(&seen.total), 300);
    TL_EQUAL(rmq_pop_consumer_pop(consumer, cluster.topic, "*", 32, 300, &result, NULL),
             RMQ_ERR_TIMEOUT);
    TL_EQUAL(rmq_pop_consumer_ack(consumer, cluster.topic, "nonsense", 0, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_pop_consumer_ack(consumer, cluster.topic, NULL, 0, &err), RMQ_ERR_INVALID);
    TL_CHECK(strcmp(rmq_error_message(err), "handle is NULL") == 0);
    rmq_error_destroy(err);
    rmq_pop_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Pops one, waiting for it. */
static rmq_pop_result *pop_one(rmq_pop_consumer *consumer, const char *topic, int64_t within_ms)
{
    rmq_pop_result *result = NULL;
    int64_t deadline = tl_now_ms() + within_ms;
    while (tl_now_ms() < deadline &&
           rmq_pop_consumer_pop(consumer, topic, "*", 1, 1000, &result, NULL) != RMQ_OK) {
    }
    return result;
}

static void what_is_not_acknowledged_is_popped_again_as_often_as_it_takes(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pop_consumer *consumer = open_consumer(&cluster, 1000, false);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_pop_result *first = pop_one(consumer, cluster.topic, 10000);
    TL_CHECK(first != NULL);
    rmq_pop_result *again = pop_one(consumer, cluster.topic, 30000);
    TL_CHECK(again != NULL);
    const rmq_message_view *view = rmq_pop_result_at(again, 0);
    TL_EQUAL(rmq_message_view_reconsume_times(view), 1);
    TL_CHECK(strcmp(rmq_message_view_topic(view), cluster.topic) == 0 ||
             strncmp(rmq_message_view_topic(view), "%RETRY%", 7) == 0);
    TL_OK(rmq_pop_consumer_ack(consumer, cluster.topic, rmq_pop_result_handle(again, 0), 0, &err));
    TL_CHECK(pop_one(consumer, cluster.topic, 1200) == NULL);
    rmq_pop_result_destroy(first);
    rmq_pop_result_destroy(again);
    rmq_pop_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_message_is_kept_longer_and_acknowledged_by_its_new_handle(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    char *handle = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pop_consumer *consumer = open_consumer(&cluster, 1500, false);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_pop_result *result = pop_one(consumer, cluster.topic, 10000);
    TL_CHECK(result != NULL);
    TL_OK(rmq_pop_consumer_change_invisible_time(
        consumer, cluster.topic, rmq_pop_result_handle(result, 0), 60000, 0, &handle, &err));
    TL_CHECK(pop_one(consumer, cluster.topic, 2000) == NULL); /* the old time has passed */
    TL_OK(rmq_pop_consumer_ack(consumer, cluster.topic, handle, INT64_MAX, &err));
    rmq_string_free(handle);
    rmq_pop_result_destroy(result);
    rmq_pop_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void in_order_the_next_comes_only_after_the_acknowledgement(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pop_consumer *consumer = open_consumer(&cluster, 30000, true);
    tl_send(&cluster, producer, "m", 0, 5);
    for (int i = 0; i < 5; i++) {
        rmq_pop_result *result = pop_one(consumer, cluster.topic, 10000);
        TL_CHECK(result != NULL);
        TL_EQUAL(rmq_message_view_queue_offset(rmq_pop_result_at(result, 0)), i);
        if (i == 0) {
            TL_CHECK(pop_one(consumer, cluster.topic, 500) == NULL);
        }
        TL_OK(rmq_pop_consumer_ack(consumer, cluster.topic, rmq_pop_result_handle(result, 0), 0,
                                   &err));
        rmq_pop_result_destroy(result);
    }
    rmq_pop_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct popper {
    const struct tl_cluster *cluster;
    atomic_bool *stop;
    pthread_t thread;
};

static void *pop_on(void *arg)
{
    struct popper *popper = arg;
    rmq_pop_consumer *consumer = open_consumer(popper->cluster, 60000, false);
    while (!atomic_load(popper->stop)) {
        rmq_pop_result *result = NULL;
        if (rmq_pop_consumer_pop(consumer, popper->cluster->topic, "*", 16, 500, &result, NULL) ==
            RMQ_OK) {
            note_all(result);
            ack_all(consumer, popper->cluster->topic, result);
            rmq_pop_result_destroy(result);
        }
    }
    rmq_pop_consumer_destroy(consumer);
    return NULL;
}

/* More consumers than queues: all of them get on, nobody gets what another has. */
static void six_consumers_share_one_queue(void)
{
    struct tl_cluster cluster;
    struct popper poppers[6];
    atomic_bool stop = false;
    tl_cluster_start(&cluster, 1);
    for (int i = 0; i < 6; i++) {
        poppers[i] = (struct popper){.cluster = &cluster, .stop = &stop};
        TL_EQUAL(pthread_create(&poppers[i].thread, NULL, pop_on, &poppers[i]), 0);
    }
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 600);
    tl_seen_wait(&seen, 600, 20000);
    atomic_store(&stop, true);
    for (int i = 0; i < 6; i++) {
        pthread_join(poppers[i].thread, NULL);
    }
    TL_EQUAL(atomic_load(&seen.total), 600);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void *shut_down(void *arg)
{
    rmq_pop_consumer_shutdown(arg, NULL);
    return NULL;
}

static void shutdown_ends_a_pop_that_waits(void)
{
    struct tl_cluster cluster;
    pthread_t thread;
    rmq_pop_result *result = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_pop_consumer *consumer = open_consumer(&cluster, 60000, false);
    int64_t start = tl_now_ms();
    TL_EQUAL(pthread_create(&thread, NULL, shut_down, consumer), 0);
    rmq_status st = rmq_pop_consumer_pop(consumer, cluster.topic, "*", 1, 20000, &result, NULL);
    TL_CHECK(st == RMQ_ERR_CLOSED);
    TL_CHECK(tl_now_ms() - start < 15000);
    pthread_join(thread, NULL);
    rmq_pop_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    const struct tl_case cases[] = {
        TL_CASE(every_message_is_popped_once_and_gone_when_acknowledged),
        {"what_is_not_acknowledged_is_popped_again_as_often_as_it_takes",
         what_is_not_acknowledged_is_popped_again_as_often_as_it_takes, 60},
        TL_CASE(a_message_is_kept_longer_and_acknowledged_by_its_new_handle),
        TL_CASE(in_order_the_next_comes_only_after_the_acknowledgement),
        TL_CASE(six_consumers_share_one_queue),
        TL_CASE(shutdown_ends_a_pop_that_waits),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The pull consumer: pulls of every status, waiting at the broker, callbacks, offsets, shares of
 * queues. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

static rmq_pull_consumer *open_consumer(const struct tl_cluster *cluster,
                                        rmq_queues_changed_fn changed, void *user)
{
    rmq_pull_consumer_options options;
    rmq_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.broker_suspend_max_time_ms = 5000;
    options.queues_changed = changed;
    options.queues_changed_user = user;
    TL_OK(rmq_pull_consumer_create(&options, &consumer, &err));
    return consumer;
}

struct place {
    rmq_pull_consumer *consumer;
    const struct tl_cluster *cluster;
    const char *broker;
    int queue_id;
    int64_t max_offset;
};

static bool is_readable(void *arg)
{
    const struct place *place = arg;
    int64_t max = 0;
    return rmq_pull_consumer_max_offset(place->consumer, place->cluster->topic, place->broker,
                                        place->queue_id, 0, &max, NULL) == RMQ_OK &&
           max >= place->max_offset;
}

/* A broker may acknowledge a message a moment before it can be pulled. */
static void wait_readable(rmq_pull_consumer *consumer, const struct tl_cluster *cluster,
                          const char *broker, int queue_id, int64_t max_offset)
{
    struct place place = {consumer, cluster, broker, queue_id, max_offset};
    TL_CHECK(tl_wait(is_readable, &place, 20000));
}

static void send_one(const struct tl_cluster *cluster, rmq_producer *producer, const char *tag,
                     const char *broker, int queue_id)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, tag));
    TL_OK(rmq_message_copy_body(message, tag, strlen(tag)));
    TL_OK(rmq_producer_send_to_queue(producer, message, broker, queue_id, 0, NULL, &err));
    rmq_message_destroy(message);
}

static const char *broker_of(rmq_pull_consumer *consumer, const struct tl_cluster *cluster,
                             char *out, size_t size)
{
    rmq_queue_list *queues = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_pull_consumer_fetch_queues(consumer, cluster->topic, 0, &queues, &err));
    TL_CHECK(rmq_queue_list_count(queues) > 0);
    snprintf(out, size, "%s", rmq_queue_list_broker_name(queues, 0));
    rmq_queue_list_destroy(queues);
    return out;
}

static void every_status_tells_next_smallest_and_largest_offset(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_pull_result *result = NULL;
    char broker[128];
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &cluster, broker, sizeof broker);
    for (int i = 0; i < 10; i++) {
        send_one(&cluster, producer, i % 2 ? "odd" : "even", broker, 1);
    }
    wait_readable(consumer, &cluster, broker, 1, 10);

    TL_OK(rmq_pull_consumer_pull(consumer, cluster.topic, broker, 1, "*", 2, 4, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_status(result), RMQ_PULL_FOUND);
    TL_EQUAL(rmq_pull_result_count(result), 4);
    TL_EQUAL(rmq_pull_result_next_begin_offset(result), 6);
    TL_EQUAL(rmq_pull_result_min_offset(result), 0);
    TL_EQUAL(rmq_pull_result_max_offset(result), 10);
    TL_EQUAL(rmq_message_view_queue_offset(rmq_pull_result_at(result, 0)), 2);
    TL_CHECK(rmq_pull_result_at(result, 4) == NULL);
    rmq_pull_result_destroy(result);

    TL_OK(
        rmq_pull_consumer_pull(consumer, cluster.topic, broker, 1, "odd", 0, 32, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_count(result), 5);
    TL_CHECK(strcmp(rmq_message_view_tag(rmq_pull_result_at(result, 0)), "odd") == 0);
    rmq_pull_result_destroy(result);

    TL_OK(
        rmq_pull_consumer_pull(consumer, cluster.topic, broker, 1, "no", 0, 32, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_status(result), RMQ_PULL_NO_MATCHED_MSG);
    TL_EQUAL(rmq_pull_result_next_begin_offset(result), 10);
    TL_EQUAL(rmq_pull_result_max_offset(result), 10);
    rmq_pull_result_destroy(result);

    TL_OK(
        rmq_pull_consumer_pull(consumer, cluster.topic, broker, 1, NULL, 10, 32, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_status(result), RMQ_PULL_NO_NEW_MSG);
    TL_EQUAL(rmq_pull_result_next_begin_offset(result), 10);
    rmq_pull_result_destroy(result);

    TL_OK(
        rmq_pull_consumer_pull(consumer, cluster.topic, broker, 1, NULL, 99, 32, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_status(result), RMQ_PULL_OFFSET_ILLEGAL);
    TL_EQUAL(rmq_pull_result_next_begin_offset(result), 10);
    rmq_pull_result_destroy(result);

    TL_EQUAL(
        rmq_pull_consumer_pull(consumer, cluster.topic, "nobody", 1, NULL, 0, 32, 0, &result, NULL),
        RMQ_ERR_NO_BROKER);
    TL_EQUAL(
        rmq_pull_consumer_pull(consumer, cluster.topic, broker, 77, NULL, 0, 32, 0, &result, &err),
        RMQ_ERR_BROKER);
    TL_CHECK(rmq_error_remote_code(err) != 0);
    rmq_error_destroy(err);
    rmq_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Same hash, other tag: only the client can tell them apart. */
static void tags_of_equal_hash_are_told_apart(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_pull_result *result = NULL;
    char broker[128];
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &cluster, broker, sizeof broker);
    send_one(&cluster, producer, "Aa", broker, 0);
    send_one(&cluster, producer, "BB", broker, 0);
    send_one(&cluster, producer, "标签甲", broker, 0);
    wait_readable(consumer, &cluster, broker, 0, 3);
    TL_OK(rmq_pull_consumer_pull(consumer, cluster.topic, broker, 0, "Aa || 标签甲", 0, 32, 0,
                                 &result, &err));
    TL_EQUAL(rmq_pull_result_count(result), 2);
    TL_EQUAL(rmq_pull_result_next_begin_offset(result), 3);
    rmq_pull_result_destroy(result);
    TL_OK(rmq_pull_consumer_pull(consumer, cluster.topic, broker, 0, "BB", 0, 1, 0, &result, &err));
    if (rmq_pull_result_next_begin_offset(result) == 1) { /* "Aa" came first and was not wanted */
        TL_EQUAL(rmq_pull_result_status(result), RMQ_PULL_NO_MATCHED_MSG);
    }
    rmq_pull_result_destroy(result);
    rmq_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* The broker evaluates a condition on properties; one that it cannot read it refuses with its
 * words. */
static void conditions_on_properties_choose_what_is_pulled(void)
{
    static const char *const options[] = {"enablePropertyFilter", "true", NULL};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_pull_result *result = NULL;
    char broker[128];
    tl_cluster_start_with(&cluster, 1, options);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &cluster, broker, sizeof broker);
    tl_send(&cluster, producer, "m", 0, 10);
    wait_readable(consumer, &cluster, broker, 0, 10);
    TL_OK(rmq_pull_consumer_pull_selector(consumer, cluster.topic, broker, 0, RMQ_EXPRESSION_SQL92,
                                          "n >= 3 AND n < 6", 0, 32, false, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_count(result), 3);
    TL_EQUAL(rmq_pull_result_next_begin_offset(result), 10);
    TL_EQUAL(rmq_message_view_queue_offset(rmq_pull_result_at(result, 0)), 3);
    rmq_pull_result_destroy(result);
    TL_OK(rmq_pull_consumer_pull_selector(consumer, cluster.topic, broker, 0, RMQ_EXPRESSION_TAG,
                                          "*", 0, 32, false, 0, &result, &err));
    TL_EQUAL(rmq_pull_result_count(result), 10);
    rmq_pull_result_destroy(result);
    rmq_status st =
        rmq_pull_consumer_pull_selector(consumer, cluster.topic, broker, 0, RMQ_EXPRESSION_SQL92,
                                        "n >> 3", 0, 32, false, 0, &result, NULL);
    if (cluster.broker) { /* Apache's takes it for none */
        TL_EQUAL(st, RMQ_ERR_BROKER);
    } else if (st == RMQ_OK) {
        rmq_pull_result_destroy(result);
    }
    TL_EQUAL(rmq_pull_consumer_pull_selector(consumer, cluster.topic, broker, 0,
                                             RMQ_EXPRESSION_SQL92, "", 0, 32, false, 0, &result,
                                             NULL),
             RMQ_ERR_INVALID);
    TL_EQUAL(rmq_pull_consumer_pull_async(consumer, cluster.topic, broker, 0, "*", 0, 32, false, 0,
                                          NULL, NULL, &err),
             RMQ_ERR_INVALID);
    TL_CHECK(strcmp(rmq_error_message(err), "fn is NULL") == 0);
    rmq_error_destroy(err);
    rmq_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct seen_pull {
    atomic_int calls;
    atomic_int found;
    atomic_int closed;
};

static void on_pull(rmq_pull_result *result, const rmq_error *err, void *user)
{
    struct seen_pull *seen = user;
    if (err && rmq_error_status(err) == RMQ_ERR_CLOSED) {
        atomic_fetch_add(&seen->closed, 1);
    }
    atomic_fetch_add(&seen->found, (int)rmq_pull_result_count(result));
    rmq_pull_result_destroy(result);
    atomic_fetch_add(&seen->calls, 1);
}

static bool called(void *arg)
{
    return atomic_load(&((struct seen_pull *)arg)->calls) > 0;
}

static void a_blocking_pull_ends_with_the_first_message(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    struct seen_pull seen = {0};
    char broker[128];
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &cluster, broker, sizeof broker);
    TL_OK(rmq_pull_consumer_pull_async(consumer, cluster.topic, broker, 0, "*", 0, 32, true, 0,
                                       on_pull, &seen, &err));
    send_one(&cluster, producer, "t", broker, 0);
    TL_CHECK(tl_wait(called, &seen, 30000));
    if (atomic_load(&seen.found) == 0) { /* was answered before the topic had anything */
        atomic_store(&seen.calls, 0);
        TL_OK(rmq_pull_consumer_pull_async(consumer, cluster.topic, broker, 0, "*", 0, 32, true, 0,
                                           on_pull, &seen, &err));
        TL_CHECK(tl_wait(called, &seen, 30000));
    }
    TL_EQUAL(atomic_load(&seen.found), 1);

    rmq_pull_result *result = NULL;
    TL_OK(rmq_pull_consumer_pull_block_if_not_found(consumer, cluster.topic, broker, 0, "*", 0, 32,
                                                    &result, &err));
    TL_EQUAL(rmq_pull_result_count(result), 1);
    rmq_pull_result_destroy(result);
    rmq_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void shutdown_ends_pulls_that_wait_each_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    struct seen_pull seen = {0};
    char broker[128];
    tl_cluster_start(&cluster, 8);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &cluster, broker, sizeof broker);
    for (int i = 0; i < 8; i++) {
        TL_OK(rmq_pull_consumer_pull_async(consumer, cluster.topic, broker, i, "*", 0, 32, true, 0,
                                           on_pull, &seen, &err));
    }
    TL_OK(rmq_pull_consumer_shutdown(consumer, 0, &err));
    TL_EQUAL(atomic_load(&seen.calls), 8);
    TL_EQUAL(rmq_pull_consumer_pull_async(consumer, cluster.topic, broker, 0, "*", 0, 32, true, 0,
                                          on_pull, &seen, NULL),
             RMQ_ERR_CLOSED);
    TL_OK(rmq_pull_consumer_shutdown(consumer, 0, &err));
    rmq_pull_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void offsets_are_remembered_stored_and_found_again(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int64_t offset = -1;
    char broker[128];
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &cluster, broker, sizeof broker);
    tl_send(&cluster, producer, "m", 0, 20);
    wait_readable(consumer, &cluster, broker, 0, 20);
    rmq_status st =
        rmq_pull_consumer_fetch_offset(consumer, cluster.topic, broker, 0, false, 0, &offset, NULL);
    /* A broker of 4.x has no way to say "none" of a queue whose first message is still there: it
     * says 0. */
    TL_CHECK(st == RMQ_ERR_NOT_FOUND || (cluster.broker == NULL && st == RMQ_OK && offset == 0));
    TL_OK(rmq_pull_consumer_update_offset(consumer, cluster.topic, broker, 0, 7, &err));
    TL_OK(rmq_pull_consumer_fetch_offset(consumer, cluster.topic, broker, 0, false, 0, &offset,
                                         &err));
    TL_EQUAL(offset, 7);
    TL_OK(rmq_pull_consumer_persist_offsets(consumer, 0, &err));
    TL_OK(
        rmq_pull_consumer_fetch_offset(consumer, cluster.topic, broker, 0, true, 0, &offset, &err));
    TL_EQUAL(offset, 7);
    TL_OK(rmq_pull_consumer_update_offset(consumer, cluster.topic, broker, 0, 9, &err));
    rmq_pull_consumer_destroy(consumer);

    consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    TL_OK(rmq_pull_consumer_fetch_offset(consumer, cluster.topic, broker, 0, false, 0, &offset,
                                         &err));
    TL_EQUAL(offset, 9);
    TL_OK(rmq_pull_consumer_min_offset(consumer, cluster.topic, broker, 0, 0, &offset, &err));
    TL_EQUAL(offset, 0);
    TL_OK(rmq_pull_consumer_max_offset(consumer, cluster.topic, broker, 0, 0, &offset, &err));
    TL_EQUAL(offset, 20);
    TL_OK(rmq_pull_consumer_search_offset(consumer, cluster.topic, broker, 0, 0, 0, &offset, &err));
    TL_EQUAL(offset, 0);
    rmq_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* The broker has not heard of the group yet. */
static void an_offset_is_stored_right_after_the_start(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    int64_t offset = -1;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "m", 1);
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    const char *broker = rmq_send_result_broker_name(result);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    TL_OK(rmq_pull_consumer_update_offset(consumer, cluster.topic, broker, 0, 1, &err));
    TL_OK(rmq_pull_consumer_persist_offsets(consumer, 0, &err));
    TL_OK(
        rmq_pull_consumer_fetch_offset(consumer, cluster.topic, broker, 0, true, 0, &offset, &err));
    TL_EQUAL(offset, 1);
    rmq_pull_consumer_destroy(consumer);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct updates {
    const struct tl_cluster *cluster;
    rmq_pull_consumer *consumer;
    const char *broker;
    atomic_bool stop;
    atomic_int_least64_t newest;
    rmq_status status;
};

static void *update_on(void *arg)
{
    struct updates *updates = arg;
    int64_t offset = 0;
    while (updates->status == RMQ_OK && !atomic_load(&updates->stop)) {
        updates->status = rmq_pull_consumer_update_offset(
            updates->consumer, updates->cluster->topic, updates->broker, 0, ++offset, NULL);
        atomic_store(&updates->newest, offset);
        sched_yield();
    }
    return NULL;
}

static bool has_updated(void *arg)
{
    return atomic_load(&((struct updates *)arg)->newest) > 0;
}

/* A store takes so long that the next update has come before it ends. */
static void offsets_are_stored_while_another_thread_updates_them_without_a_pause(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    char broker[128];
    pthread_t thread;
    int64_t stored = -1;
    tl_detour_start(&detour, 1, NULL);
    TL_CHECK(tl_proxy_script(detour.proxy, "delay request 15 times -1 ms 50"));
    rmq_pull_consumer *consumer = open_consumer(&detour.through, NULL, NULL);
    TL_OK(rmq_pull_consumer_start(consumer, &err));
    broker_of(consumer, &detour.through, broker, sizeof broker);
    struct updates updates = {&detour.through, consumer, .broker = broker};
    TL_EQUAL(pthread_create(&thread, NULL, update_on, &updates), 0);
    TL_CHECK(tl_wait(has_updated, &updates, 20000));
    int64_t before = atomic_load(&updates.newest);
    TL_OK(rmq_pull_consumer_persist_offsets(consumer, 20000, &err));
    TL_OK(rmq_pull_consumer_fetch_offset(consumer, detour.through.topic, broker, 0, true, 20000,
                                         &stored, &err));
    TL_CHECK(stored >= before);
    atomic_store(&updates.stop, true);
    pthread_join(thread, NULL);
    TL_EQUAL(updates.status, RMQ_OK);
    rmq_pull_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

struct share {
    atomic_int all;
    atomic_int mine;
};

static void on_queues(const char *topic, const rmq_queue_list *all, const rmq_queue_list *mine,
                      void *user)
{
    struct share *share = user;
    (void)topic;
    atomic_store(&share->all, (int)rmq_queue_list_count(all));
    atomic_store(&share->mine, (int)rmq_queue_list_count(mine));
}

static bool has_half(void *arg)
{
    const struct share *shares = arg;
    return atomic_load(&shares[0].mine) == 2 && atomic_load(&shares[1].mine) == 2;
}

static bool has_all(void *arg)
{
    return atomic_load(&((struct share *)arg)->mine) == 4;
}

static void registered_topics_are_shared_out_among_the_members(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    struct share shares[2] = {0};
    rmq_queue_list *list = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_pull_consumer *first = open_consumer(&cluster, on_queues, &shares[0]);
    TL_OK(rmq_pull_consumer_register_topic(first, cluster.topic, &err));
    TL_OK(rmq_pull_consumer_start(first, &err));
    TL_CHECK(tl_wait(has_all, &shares[0], 10000));
    rmq_pull_consumer *second = open_consumer(&cluster, on_queues, &shares[1]);
    TL_OK(rmq_pull_consumer_register_topic(second, cluster.topic, &err));
    TL_OK(rmq_pull_consumer_start(second, &err));
    TL_CHECK(tl_wait(has_half, shares, 20000));
    TL_EQUAL(atomic_load(&shares[0].all), 4);
    TL_OK(rmq_pull_consumer_queues_in_balance(second, cluster.topic, &list, &err));
    TL_EQUAL(rmq_queue_list_count(list), 2);
    rmq_queue_list_destroy(list);
    TL_EQUAL(rmq_pull_consumer_queues_in_balance(second, "other", &list, NULL), RMQ_ERR_NOT_FOUND);
    rmq_pull_consumer_destroy(second);
    TL_CHECK(tl_wait(has_all, &shares[0], 20000));
    rmq_pull_consumer_destroy(first);
    tl_cluster_stop(&cluster);
}

struct fetch {
    const struct tl_cluster *cluster;
    rmq_pull_consumer *consumer;
    size_t queues;
};

static bool has_queues(void *arg)
{
    const struct fetch *fetch = arg;
    rmq_queue_list *queues = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_pull_consumer_fetch_queues(fetch->consumer, fetch->cluster->topic, 0, &queues, &err));
    size_t count = rmq_queue_list_count(queues);
    rmq_queue_list_destroy(queues);
    return count == fetch->queues;
}

/* The route itself is asked for again only after 30 s. */
static void fetched_queues_are_those_that_the_topic_has_now(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    rmq_pull_consumer *consumer = open_consumer(&cluster, NULL, NULL);
    rmq_admin *admin = tl_admin(&cluster);
    struct fetch fetch = {&cluster, consumer, 2};
    TL_CHECK(tl_wait(has_queues, &fetch, 20000));
    TL_OK(rmq_admin_create_topic(admin, NULL, cluster.topic, 5, 5, 6, 10000, &err));
    fetch.queues = 5;
    TL_CHECK(tl_wait(has_queues, &fetch, 20000));
    rmq_admin_destroy(admin);
    rmq_pull_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    const struct tl_case cases[] = {
        TL_CASE(every_status_tells_next_smallest_and_largest_offset),
        TL_CASE(tags_of_equal_hash_are_told_apart),
        TL_CASE(conditions_on_properties_choose_what_is_pulled),
        TL_CASE(a_blocking_pull_ends_with_the_first_message),
        TL_CASE(shutdown_ends_pulls_that_wait_each_once),
        TL_CASE(offsets_are_remembered_stored_and_found_again),
        TL_CASE(an_offset_is_stored_right_after_the_start),
        TL_CASE(offsets_are_stored_while_another_thread_updates_them_without_a_pause),
        TL_CASE(registered_topics_are_shared_out_among_the_members),
        TL_CASE(fetched_queues_are_those_that_the_topic_has_now),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

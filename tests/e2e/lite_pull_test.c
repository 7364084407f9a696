/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The lite pull consumer: poll, assign, seek, pause, commits of both kinds, the descriptor. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

static struct tl_seen seen;

struct opening {
    bool manual;
    int batch;
    int64_t interval_ms;
    rmq_queues_changed_fn changed;
    void *user;
    rmq_events *events;
};

static rmq_lite_pull_consumer *create(const struct tl_cluster *cluster, struct opening how)
{
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.auto_commit = !how.manual;
    options.auto_commit_interval_ms = how.interval_ms ? how.interval_ms : 60000;
    options.pull_batch_size = how.batch ? how.batch : 10;
    options.queues_changed = how.changed;
    options.queues_changed_user = how.user;
    options.events = how.events;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    return consumer;
}

static rmq_lite_pull_consumer *subscribed(const struct tl_cluster *cluster, struct opening how)
{
    rmq_error *err = NULL;
    rmq_lite_pull_consumer *consumer = create(cluster, how);
    TL_OK(rmq_lite_pull_consumer_subscribe(consumer, cluster->topic, "*", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    return consumer;
}

static rmq_queue_list *queues_of(rmq_lite_pull_consumer *consumer, const char *topic)
{
    rmq_queue_list *queues = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_lite_pull_consumer_fetch_queues(consumer, topic, 0, &queues, &err));
    return queues;
}

static void add(rmq_queue_list *to, const rmq_queue_list *from, size_t index)
{
    rmq_error *err = NULL;
    TL_OK(rmq_queue_list_add(to, rmq_queue_list_topic(from, index),
                             rmq_queue_list_broker_name(from, index),
                             rmq_queue_list_queue_id(from, index), &err));
}

static int64_t committed(rmq_lite_pull_consumer *consumer, const rmq_queue_list *queues,
                         size_t index)
{
    int64_t offset = -1;
    rmq_status st = rmq_lite_pull_consumer_committed(
        consumer, rmq_queue_list_topic(queues, index), rmq_queue_list_broker_name(queues, index),
        rmq_queue_list_queue_id(queues, index), 0, &offset, NULL);
    TL_CHECK(st == RMQ_OK || st == RMQ_ERR_NOT_FOUND);
    return offset;
}

static int64_t sum_committed(rmq_lite_pull_consumer *consumer, const rmq_queue_list *queues)
{
    int64_t sum = 0;
    for (size_t i = 0; i < rmq_queue_list_count(queues); i++) {
        int64_t offset = committed(consumer, queues, i);
        sum += offset > 0 ? offset : 0;
    }
    return sum;
}

static void poll_gives_each_message_once_and_a_restart_goes_on_behind_them(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_lite_pull_consumer *consumer = subscribed(&cluster, (struct opening){0});
    tl_send(&cluster, producer, "m", 0, 500);
    tl_lite_pull_take_until(consumer, &seen, 500);
    TL_EQUAL(atomic_load(&seen.total), 500);
    rmq_lite_pull_consumer_destroy(consumer);

    consumer = subscribed(&cluster, (struct opening){0});
    tl_lite_pull_take(consumer, &seen, 300);
    tl_cluster_once(&cluster, atomic_load(&seen.total), 500);
    tl_send(&cluster, producer, "m", 500, 100);
    tl_lite_pull_take_until(consumer, &seen, 600);
    tl_cluster_once(&cluster, atomic_load(&seen.total), 600);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct goal {
    rmq_lite_pull_consumer *consumer;
    rmq_queue_list *queues;
    int64_t offset;
};

static bool is_committed(void *arg)
{
    const struct goal *goal = arg;
    return sum_committed(goal->consumer, goal->queues) == goal->offset;
}

static void auto_commit_passes_only_batches_that_were_destroyed(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_batch *first = NULL;
    rmq_batch *second = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 30);
    rmq_lite_pull_consumer *consumer =
        subscribed(&cluster, (struct opening){.batch = 10, .interval_ms = 100});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_OK(rmq_lite_pull_consumer_poll(consumer, &first, 20000, &err));
    TL_OK(rmq_lite_pull_consumer_poll(consumer, &second, 20000, &err));
    int64_t behind_first = (int64_t)rmq_batch_count(first);
    rmq_batch_destroy(first);
    struct goal goal = {consumer, queues, behind_first};
    TL_CHECK(tl_wait(is_committed, &goal, 10000));
    tl_lite_pull_take(consumer, &seen,
                      5000); /* more than the held one: still only the first is passed */
    struct goal beyond = {consumer, queues, 30};
    TL_CHECK(!tl_wait(is_committed, &beyond, 400));
    TL_EQUAL(sum_committed(consumer, queues), behind_first);
    rmq_batch_destroy(second);
    while (atomic_load(&seen.total) < 10) {
        tl_lite_pull_take(consumer, &seen, 1000);
    }
    TL_CHECK(tl_wait(is_committed, &beyond, 10000));
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct commit_end {
    atomic_int calls;
    atomic_int failures;
};

static void on_commit(const rmq_error *err, void *user)
{
    struct commit_end *end = user;
    atomic_fetch_add(&end->failures, err != NULL);
    atomic_fetch_add(&end->calls, 1);
}

static bool has_ended(void *arg)
{
    return atomic_load(&((struct commit_end *)arg)->calls) == 1;
}

static void without_auto_commit_only_the_program_moves_offsets(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    struct commit_end end = {0};
    static struct tl_seen again;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 100);
    struct opening how = {.manual = true, .interval_ms = 100};
    rmq_lite_pull_consumer *consumer = subscribed(&cluster, how);
    tl_lite_pull_take_until(consumer, &seen, 100);
    rmq_lite_pull_consumer_destroy(consumer); /* nothing was committed */

    consumer = subscribed(&cluster, how);
    tl_lite_pull_take_until(consumer, &again, 100);
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_EQUAL(sum_committed(consumer, queues), 0);
    rmq_queue_list *one = NULL;
    TL_OK(rmq_queue_list_create(&one, &err));
    add(one, queues, 0);
    TL_OK(rmq_lite_pull_consumer_commit_sync(consumer, one, 0, &err));
    TL_EQUAL(committed(consumer, queues, 0), 50);
    TL_CHECK(committed(consumer, queues, 1) <= 0);
    TL_OK(rmq_lite_pull_consumer_commit_async(consumer, NULL, on_commit, &end, &err));
    TL_CHECK(tl_wait(has_ended, &end, 10000));
    TL_EQUAL(atomic_load(&end.failures), 0);
    TL_EQUAL(sum_committed(consumer, queues), 100);
    rmq_queue_list_destroy(one);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_commit_says_that_the_broker_refused_it(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 10);
    rmq_lite_pull_consumer *consumer = subscribed(&cluster, (struct opening){.manual = true});
    tl_lite_pull_take_until(consumer, &seen, 10);
    TL_OK(rmq_broker_fault_answer(cluster.broker, 15, 1, 1, "no offsets today", &err));
    TL_EQUAL(rmq_lite_pull_consumer_commit_sync(consumer, NULL, 0, &err), RMQ_ERR_BROKER);
    TL_CHECK(strstr(rmq_error_message(err), "no offsets today") != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_OK(rmq_lite_pull_consumer_commit_sync(consumer, NULL, 0, &err));
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Two commits, of which the first is under way still when the queue is given up. */
static void commit_twice_and_leave(void (*leave)(rmq_lite_pull_consumer *consumer))
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    struct commit_end end = {0};
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 20);
    rmq_lite_pull_consumer *consumer = create(&cluster, (struct opening){.manual = true});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_OK(rmq_lite_pull_consumer_assign(consumer, queues, &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    TL_OK(rmq_broker_fault_delay(cluster.broker, 15, 1, 1000, &err));
    while (atomic_load(&seen.total) < 20) {
        tl_lite_pull_take(consumer, &seen, 20000);
        if (atomic_load(&seen.total) < 20) {
            TL_OK(rmq_lite_pull_consumer_commit_async(consumer, NULL, NULL, NULL, &err));
        }
    }
    TL_OK(rmq_lite_pull_consumer_commit_async(consumer, NULL, on_commit, &end, &err));
    leave(consumer);
    TL_CHECK(tl_wait(has_ended, &end, 20000));
    TL_EQUAL(atomic_load(&end.failures), 0);
    TL_EQUAL(tl_committed(&cluster, 0), 20);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void shut_down(rmq_lite_pull_consumer *consumer)
{
    rmq_error *err = NULL;
    TL_OK(rmq_lite_pull_consumer_shutdown(consumer, 20000, &err));
}

static void give_all_up(rmq_lite_pull_consumer *consumer)
{
    rmq_error *err = NULL;
    rmq_queue_list *none = NULL;
    TL_OK(rmq_queue_list_create(&none, &err));
    TL_OK(rmq_lite_pull_consumer_assign(consumer, none, &err));
    rmq_queue_list_destroy(none);
}

static void a_commit_that_waits_for_another_is_carried_out_by_a_shutdown(void)
{
    commit_twice_and_leave(shut_down);
}

static void a_commit_that_waits_for_another_is_carried_out_for_a_queue_that_is_given_up(void)
{
    commit_twice_and_leave(give_all_up);
}

static void assigned_queues_are_read_whoever_else_has_them(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_queue_list *chosen = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 400);
    rmq_lite_pull_consumer *consumer = create(&cluster, (struct opening){0});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_EQUAL(rmq_queue_list_count(queues), 4);
    TL_OK(rmq_queue_list_create(&chosen, &err));
    add(chosen, queues, 0);
    add(chosen, queues, 2);
    TL_OK(rmq_lite_pull_consumer_assign(consumer, chosen, &err));
    TL_EQUAL(rmq_lite_pull_consumer_subscribe(consumer, cluster.topic, "*", NULL), RMQ_ERR_STATE);
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    tl_lite_pull_take_until(consumer, &seen, 200);
    TL_EQUAL(tl_lite_pull_take(consumer, &seen, 300), 0);

    rmq_queue_list_destroy(chosen); /* 2 goes on, 0 is given up, 3 comes new */
    TL_OK(rmq_queue_list_create(&chosen, &err));
    add(chosen, queues, 2);
    add(chosen, queues, 3);
    TL_OK(rmq_lite_pull_consumer_assign(consumer, chosen, &err));
    tl_lite_pull_take_until(consumer, &seen, 300);
    TL_EQUAL(tl_lite_pull_take(consumer, &seen, 300), 0);
    TL_EQUAL(atomic_load(&seen.total), 300);
    struct goal goal = {consumer, queues, 100};
    rmq_queue_list *mine = NULL;
    TL_OK(rmq_lite_pull_consumer_assignment(consumer, &mine, &err));
    TL_EQUAL(rmq_queue_list_count(mine), 2);
    TL_CHECK(tl_wait(is_committed, &goal, 20000) || sum_committed(consumer, queues) >= 100);
    rmq_queue_list_destroy(mine);
    rmq_queue_list_destroy(chosen);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_queue_that_was_set_before_the_start_is_read_from_there(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 20);
    rmq_lite_pull_consumer *consumer = create(&cluster, (struct opening){0});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_OK(rmq_lite_pull_consumer_assign(consumer, queues, &err));
    TL_OK(rmq_lite_pull_consumer_seek(consumer, cluster.topic,
                                      rmq_queue_list_broker_name(queues, 0), 0, 15, 0, &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    tl_lite_pull_take_until(consumer, &seen, 5);
    TL_EQUAL(atomic_load(&seen.total), 5);
    TL_EQUAL(atomic_load(&seen.times[15]), 1);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void send_tagged(const struct tl_cluster *cluster, rmq_producer *producer, const char *tag,
                        int n)
{
    char text[16];
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    snprintf(text, sizeof text, "%d", n);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, tag));
    TL_OK(rmq_message_set_property(message, "n", text));
    TL_OK(rmq_message_copy_body(message, "x", 1));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
}

/* "Aa" and "BB" have the same hash; a batch that is filtered to nothing still moves the offset. */
static void tags_filter_assigned_queues_and_offsets_reach_the_end(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 100; i++) {
        send_tagged(&cluster, producer, i % 2 ? "Aa" : i % 4 ? "BB" : "标签甲", i);
    }
    rmq_lite_pull_consumer *consumer = create(&cluster, (struct opening){.interval_ms = 100});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_OK(rmq_lite_pull_consumer_set_assign_expression(consumer, cluster.topic, "Aa || 标签甲",
                                                       &err));
    TL_OK(rmq_lite_pull_consumer_assign(consumer, queues, &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    tl_lite_pull_take_until(consumer, &seen, 75);
    for (int i = 0; i < 100; i++) {
        TL_EQUAL(atomic_load(&seen.times[i]), i % 2 || i % 4 == 0);
    }
    struct goal goal = {consumer, queues, 100};
    TL_CHECK(tl_wait(is_committed, &goal, 10000));
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static int64_t next_offset(rmq_lite_pull_consumer *consumer)
{
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_lite_pull_consumer_poll(consumer, &batch, 20000, &err));
    int64_t offset = rmq_message_view_queue_offset(rmq_batch_at(batch, 0));
    rmq_batch_destroy(batch);
    return offset;
}

static void conditions_on_properties_filter_subscribed_topics(void)
{
    static const char *const options[] = {"enablePropertyFilter", "true", NULL};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start_with(&cluster, 2, options);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_lite_pull_consumer *consumer = create(&cluster, (struct opening){0});
    TL_OK(rmq_lite_pull_consumer_subscribe_selector(consumer, cluster.topic, RMQ_EXPRESSION_SQL92,
                                                    "n BETWEEN 10 AND 19", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    tl_send(&cluster, producer, "m", 0, 30);
    tl_lite_pull_take_until(consumer, &seen, 10);
    TL_EQUAL(tl_lite_pull_take(consumer, &seen, 500), 0);
    TL_EQUAL(atomic_load(&seen.total), 10);
    TL_EQUAL(atomic_load(&seen.times[10]) + atomic_load(&seen.times[19]), 2);
    rmq_lite_pull_consumer_destroy(consumer);
    consumer = create(&cluster, (struct opening){0});
    TL_OK(rmq_lite_pull_consumer_subscribe_selector(consumer, cluster.topic, RMQ_EXPRESSION_SQL92,
                                                    "n >> 3", &err));
    TL_EQUAL(rmq_lite_pull_consumer_start(consumer, NULL), RMQ_ERR_BROKER);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void seek_goes_to_an_offset_the_ends_and_a_time(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 100);
    rmq_lite_pull_consumer *consumer = subscribed(&cluster, (struct opening){0});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    const char *topic = cluster.topic;
    const char *broker = rmq_queue_list_broker_name(queues, 0);
    TL_EQUAL(next_offset(consumer), 0);
    TL_OK(rmq_lite_pull_consumer_seek(consumer, topic, broker, 0, 77, 0, &err));
    TL_EQUAL(next_offset(consumer), 77);
    TL_EQUAL(next_offset(consumer), 87);
    TL_OK(rmq_lite_pull_consumer_seek_to_begin(consumer, topic, broker, 0, 0, &err));
    TL_EQUAL(next_offset(consumer), 0);
    TL_OK(rmq_lite_pull_consumer_seek_to_end(consumer, topic, broker, 0, 0, &err));
    TL_EQUAL(rmq_lite_pull_consumer_poll(consumer, &batch, 200, NULL), RMQ_ERR_TIMEOUT);
    TL_OK(rmq_lite_pull_consumer_seek_to_timestamp(consumer, topic, broker, 0, 1, 0, &err));
    TL_EQUAL(next_offset(consumer), 0);
    TL_EQUAL(rmq_lite_pull_consumer_seek(consumer, topic, broker, 0, 101, 0, NULL),
             RMQ_ERR_INVALID);
    TL_EQUAL(rmq_lite_pull_consumer_seek(consumer, topic, broker, 5, 0, 0, NULL),
             RMQ_ERR_NOT_FOUND);
    TL_EQUAL(rmq_lite_pull_consumer_assign(consumer, NULL, &err), RMQ_ERR_INVALID);
    TL_CHECK(strcmp(rmq_error_message(err), "queues is NULL") == 0);
    rmq_error_destroy(err);
    err = NULL;

    /* A batch of before the seek does not move the offset of after it. */
    TL_OK(rmq_lite_pull_consumer_poll(consumer, &batch, 20000, &err));
    TL_OK(rmq_lite_pull_consumer_seek(consumer, topic, broker, 0, 3, 0, &err));
    rmq_batch_destroy(batch);
    TL_EQUAL(next_offset(consumer), 3);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);

    consumer = subscribed(&cluster, (struct opening){0});
    TL_EQUAL(next_offset(consumer), 13);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_paused_queue_rests_until_it_is_resumed(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_queue_list *one = NULL;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_lite_pull_consumer *consumer = create(&cluster, (struct opening){0});
    rmq_queue_list *queues = queues_of(consumer, cluster.topic);
    TL_OK(rmq_lite_pull_consumer_assign(consumer, queues, &err));
    TL_OK(rmq_queue_list_create(&one, &err));
    add(one, queues, 1);
    TL_OK(rmq_lite_pull_consumer_pause(consumer, one, &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    tl_send(&cluster, producer, "m", 0, 100);
    tl_lite_pull_take_until(consumer, &seen, 50);
    TL_EQUAL(tl_lite_pull_take(consumer, &seen, 300), 0);
    TL_OK(rmq_lite_pull_consumer_resume(consumer, NULL, &err));
    tl_lite_pull_take_until(consumer, &seen, 100);
    TL_OK(rmq_lite_pull_consumer_pause(consumer, NULL, &err));
    tl_send(&cluster, producer, "m", 100, 10);
    TL_EQUAL(tl_lite_pull_take(consumer, &seen, 300), 0);
    TL_OK(rmq_lite_pull_consumer_resume(consumer, NULL, &err));
    tl_lite_pull_take_until(consumer, &seen, 110);
    TL_EQUAL(atomic_load(&seen.total), 110);
    rmq_queue_list_destroy(one);
    rmq_queue_list_destroy(queues);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void the_descriptor_tells_when_poll_would_return(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    TL_OK(rmq_events_create(&events, &err));
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_lite_pull_consumer *consumer = subscribed(&cluster, (struct opening){.events = events});
    struct pollfd wait = {.fd = rmq_lite_pull_consumer_fd(consumer), .events = POLLIN};
    TL_EQUAL(poll(&wait, 1, 0), 0);
    tl_send(&cluster, producer, "m", 0, 200);
    int64_t deadline = tl_now_ms() + 20000;
    while (atomic_load(&seen.different) < 200) {
        TL_CHECK(tl_now_ms() < deadline);
        TL_EQUAL(poll(&wait, 1, 5000), 1);
        while (tl_lite_pull_take(consumer, &seen, 0) > 0) {
        }
    }
    bool told = false;
    while (rmq_events_take(events, &event, 1, 0) == 1) {
        if (rmq_event_get_type(event) == RMQ_EVENT_BATCH) {
            TL_CHECK(rmq_event_source(event) == consumer);
            told = true;
        }
        rmq_event_destroy(event);
    }
    TL_CHECK(told);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_events_destroy(events);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void prefetch_stays_within_its_bytes(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_lite_pull_consumer_options options;
    static char body[65536];
    tl_cluster_start(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    for (size_t k = 0; k < sizeof body; k++) {
        body[k] = (char)rand(); /* does not compress */
    }
    for (int i = 0; i < 400; i++) { /* 25 MiB */
        char text[16];
        rmq_message *message = NULL;
        TL_OK(rmq_message_create(cluster.topic, &message, &err));
        snprintf(text, sizeof text, "%d", i);
        TL_OK(rmq_message_set_property(message, "n", text));
        TL_OK(rmq_message_copy_body(message, body, sizeof body));
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_message_destroy(message);
    }
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.max_cache_bytes = 2 << 20;
    long before = tl_usage_of(0).rss_kb;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_lite_pull_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    struct pollfd wait = {.fd = rmq_lite_pull_consumer_fd(consumer), .events = POLLIN};
    TL_EQUAL(poll(&wait, 1, 5000), 1);
    tl_lite_pull_take_until(consumer, &seen, 400);
    TL_EQUAL(atomic_load(&seen.total), 400);
    printf("%ld KiB more\n", tl_usage_of(0).rss_kb - before);
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    const struct tl_case cases[] = {
        TL_CASE(poll_gives_each_message_once_and_a_restart_goes_on_behind_them),
        TL_CASE(auto_commit_passes_only_batches_that_were_destroyed),
        TL_CASE(without_auto_commit_only_the_program_moves_offsets),
        TL_CASE(a_commit_says_that_the_broker_refused_it),
        TL_CASE(a_commit_that_waits_for_another_is_carried_out_by_a_shutdown),
        TL_CASE(a_commit_that_waits_for_another_is_carried_out_for_a_queue_that_is_given_up),
        TL_CASE(assigned_queues_are_read_whoever_else_has_them),
        TL_CASE(a_queue_that_was_set_before_the_start_is_read_from_there),
        TL_CASE(tags_filter_assigned_queues_and_offsets_reach_the_end),
        TL_CASE(conditions_on_properties_filter_subscribed_topics),
        TL_CASE(seek_goes_to_an_offset_the_ends_and_a_time),
        TL_CASE(a_paused_queue_rests_until_it_is_resumed),
        TL_CASE(the_descriptor_tells_when_poll_would_return),
        TL_CASE(prefetch_stays_within_its_bytes),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A push consumer receives what was sent, whole and soon, whatever the batch size and the start
 * position. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define ALL 10000

static struct tl_seen seen;

/* The body, key and property of each message must be those that were sent together. */
static rmq_consume_result check_content(const rmq_message_view *const *messages, size_t count,
                                        rmq_consume_context *context, void *user)
{
    for (size_t i = 0; i < count; i++) {
        char body[64];
        char key[32];
        size_t size;
        const char *number = rmq_message_view_property(messages[i], "n");
        const char *data = rmq_message_view_body(messages[i], &size);
        int n = snprintf(body, sizeof body, "all-%s", number);
        snprintf(key, sizeof key, "k-%s", number);
        TL_EQUAL(size, n);
        TL_CHECK(memcmp(data, body, size) == 0);
        TL_CHECK(strcmp(rmq_message_view_keys(messages[i]), key) == 0);
        tl_seen_add(user, messages[i]);
    }
    return RMQ_CONSUME_SUCCESS;
}

static void a_listener_receives_all_of_ten_thousand_over_eight_queues(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", check_content, &seen);
    tl_send(&cluster, producer, "all", 0, ALL);
    tl_seen_wait(&seen, ALL, 20000);
    TL_EQUAL(atomic_load(&seen.total), ALL);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static rmq_consumer *open_consumer(const struct tl_cluster *cluster, rmq_consumer_options *options)
{
    options->consumer_group = cluster->group;
    options->namesrv_addr = cluster->namesrv;
    options->listener = options->listener ? options->listener : tl_seen_listener;
    options->listener_user = &seen;
    return tl_consumer_start(cluster, options);
}

static atomic_int largest;

static rmq_consume_result note_size(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    if ((int)count > atomic_load(&largest)) {
        atomic_store(&largest, (int)count);
    }
    return tl_seen_listener(messages, count, context, user);
}

static void a_call_gets_up_to_the_batch_size(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 300);
    rmq_consumer_options_init(&options, sizeof options);
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_message_batch_max_size = 10;
    options.listener = note_size;
    rmq_consumer *consumer = open_consumer(&cluster, &options);
    tl_seen_wait(&seen, 300, 10000);
    TL_EQUAL(atomic_load(&largest), 10);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

#define STARTS 50

/* Field case B11. Sent right after start has returned, by a group that is new or one that has
 * offsets. What would wait for a round of the rebalance or of heartbeats came after 20 s and more.
 * How long it took is judged where nothing runs beside it: interop/cases/group.sh, starts_on_*. */
static void a_message_sent_when_start_has_returned_waits_for_no_round(void)
{
    struct tl_cluster cluster;
    int64_t worst = 0;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 8);
    for (int i = 0; i < STARTS; i++) {
        rmq_consumer_options options;
        rmq_consumer_options_init(&options, sizeof options);
        rmq_consumer *consumer = open_consumer(&cluster, &options);
        int64_t start = tl_now_ms();
        int before = atomic_load(&seen.different);
        tl_send(&cluster, producer, "m", 100 + i, 1);
        tl_seen_wait(&seen, before + 1, 15000);
        int64_t took = tl_now_ms() - start;
        worst = took > worst ? took : worst;
        rmq_consumer_destroy(consumer);
    }
    printf("slowest of %d starts: %lld ms\n", STARTS, (long long)worst);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Each pull is parked for a minute: a message that did not wake it would come then. */
static void a_message_wakes_the_pull_of_an_idle_group(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    int64_t worst = 0;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer_options_init(&options, sizeof options);
    options.broker_suspend_max_time_ms = 60000;
    rmq_consumer *consumer = open_consumer(&cluster, &options);
    for (int i = 0; i < 100; i++) {
        int64_t start = tl_now_ms();
        tl_send(&cluster, producer, "m", i, 1);
        tl_seen_wait(&seen, i + 1, 20000);
        worst = tl_now_ms() - start > worst ? tl_now_ms() - start : worst;
    }
    printf("slowest of 100: %lld ms\n", (long long)worst);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_new_group_from_the_last_offset_skips_what_was_there(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_error *err = NULL;
    tl_send(&cluster, producer, "m", 0, 50);
    /* A broker answers 0 for a young queue whose beginning is in memory; here it is told to have
     * no offset. */
    TL_OK(rmq_broker_fault_answer(cluster.broker, 14, -1, 22, "Not found", &err));
    rmq_consumer_options_init(&options, sizeof options);
    rmq_consumer *consumer = open_consumer(&cluster, &options);
    tl_send(&cluster, producer, "m", 50, 50);
    tl_seen_wait(&seen, 50, 20000);
    for (int i = 0; i < 50; i++) {
        TL_EQUAL(atomic_load(&seen.times[i]), 0);
        TL_EQUAL(atomic_load(&seen.times[50 + i]), 1);
    }
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_suspended_consumer_gets_nothing_until_it_is_resumed(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    TL_EQUAL(rmq_consumer_suspend(consumer), RMQ_OK);
    tl_send(&cluster, producer, "m", 10, 200); /* parked pulls may still bring a few */
    int some = atomic_load(&seen.different);
    TL_CHECK(some < 210);
    TL_EQUAL(rmq_consumer_resume(consumer), RMQ_OK);
    tl_seen_wait(&seen, 210, 20000);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_topic_subscribed_while_running_is_received_at_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    char second[64];
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    snprintf(second, sizeof second, "%.50s-second", cluster.topic);
    TL_OK(rmq_broker_create_topic(cluster.broker, second, 2, &err));
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 10);
    TL_OK(rmq_consumer_subscribe(consumer, second, "*", &err));
    snprintf(cluster.topic, sizeof cluster.topic, "%s", second);
    tl_send(&cluster, producer, "m", 10, 10);
    tl_seen_wait(&seen, 20, 20000);
    TL_OK(rmq_consumer_unsubscribe(consumer, second, &err));
    tl_send(&cluster, producer, "m", 20, 10);
    char *text = NULL;
    TL_OK(rmq_consumer_assignment(consumer, &text, &err));
    TL_CHECK(strstr(text, second) == NULL);
    rmq_string_free(text);
    TL_EQUAL(atomic_load(&seen.different), 20);
    TL_EQUAL(rmq_consumer_unsubscribe(consumer, second, NULL), RMQ_ERR_NOT_FOUND);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_listener_receives_all_of_ten_thousand_over_eight_queues",
         a_listener_receives_all_of_ten_thousand_over_eight_queues, 60},
        TL_CASE(a_call_gets_up_to_the_batch_size),
        {"a_message_sent_when_start_has_returned_waits_for_no_round",
         a_message_sent_when_start_has_returned_waits_for_no_round, 120},
        TL_CASE(a_message_wakes_the_pull_of_an_idle_group),
        TL_CASE(a_new_group_from_the_last_offset_skips_what_was_there),
        TL_CASE(a_suspended_consumer_gets_nothing_until_it_is_resumed),
        TL_CASE(a_topic_subscribed_while_running_is_received_at_once),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

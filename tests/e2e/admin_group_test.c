/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Administration of consumer groups through the public API: settings, members, where they go on. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 10000

static void a_group_is_created_shown_and_deleted(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_group_options options;
    char *text = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_admin *admin = tl_admin(&cluster);
    rmq_group_options_init(&options, sizeof options);
    TL_EQUAL(options.retry_max_times, 16);
    options.retry_max_times = 3;
    options.consume_broadcast_enable = false;
    TL_EQUAL(rmq_admin_group_config(admin, cluster.group, 0, &text, &err), RMQ_ERR_NOT_FOUND);
    TL_CHECK(strstr(rmq_error_message(err), cluster.group) != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_OK(rmq_admin_create_group(admin, NULL, cluster.group, &options, 0, &err));
    TL_OK(rmq_admin_group_list(admin, 0, &text, &err));
    TL_CHECK(tl_has_line(text, cluster.group));
    rmq_string_free(text);
    TL_OK(rmq_admin_group_config(admin, cluster.group, 0, &text, &err));
    TL_CHECK(strstr(text, "\"retryMaxTimes\":3") != NULL);
    TL_CHECK(strstr(text, "\"consumeBroadcastEnable\":false") != NULL);
    TL_CHECK(strstr(text, "\"consumeEnable\":true") != NULL);
    rmq_string_free(text);
    TL_OK(rmq_admin_delete_group(admin, NULL, cluster.group, true, 0, &err));
    TL_OK(rmq_admin_group_list(admin, 0, &text, &err));
    TL_CHECK(!tl_has_line(text, cluster.group));
    rmq_string_free(text);
    TL_EQUAL(rmq_admin_delete_group(admin, NULL, cluster.group, true, 0, &err), RMQ_ERR_NOT_FOUND);
    TL_CHECK(strstr(rmq_error_message(err), cluster.group) != NULL);
    rmq_error_destroy(err);
    options.retry_max_times = -2;
    TL_EQUAL(rmq_admin_create_group(admin, NULL, "G", &options, 0, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_admin_create_group(admin, NULL, "a group", NULL, 0, NULL), RMQ_ERR_INVALID);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

static void the_members_of_a_group_are_shown_with_what_they_subscribed_to(void)
{
    struct tl_cluster cluster;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    char *text = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1);
    rmq_producer_destroy(producer);
    rmq_admin *admin = tl_admin(&cluster);
    TL_EQUAL(rmq_admin_group_connections(admin, cluster.group, 0, &text, NULL), RMQ_ERR_NOT_FOUND);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 1, WAIT_MS);
    TL_OK(rmq_admin_group_connections(admin, cluster.group, 0, &text, &err));
    TL_CHECK(strstr(text, rmq_consumer_client_id(consumer)) != NULL);
    TL_CHECK(strstr(text, cluster.topic) != NULL);
    rmq_string_free(text);
    rmq_consumer_destroy(consumer);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

static bool has_seen_twice(void *arg)
{
    const struct tl_seen *seen = arg;
    return atomic_load(&seen->total) >= 20;
}

static void reset_to(rmq_admin *admin, const struct tl_cluster *cluster, int64_t timestamp_ms,
                     int64_t expected)
{
    rmq_error *err = NULL;
    rmq_queue_offset *list = NULL;
    size_t count = 0;
    TL_OK(rmq_admin_reset_offset(admin, cluster->group, cluster->topic, timestamp_ms, 0, &list,
                                 &count, &err));
    TL_EQUAL(count, 1);
    TL_EQUAL(list[0].queue_id, 0);
    TL_EQUAL(list[0].offset, expected);
    TL_EQUAL(tl_committed(cluster, 0), expected);
    rmq_admin_queue_offsets_free(list, count);
}

static void a_group_goes_on_from_where_it_was_reset_to(void)
{
    struct tl_cluster cluster;
    static struct tl_seen first;
    static struct tl_seen again;
    rmq_error *err = NULL;
    char *topics = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 10);
    rmq_producer_destroy(producer);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &first);
    tl_seen_wait(&first, 10, WAIT_MS);
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    rmq_consumer_destroy(consumer);
    rmq_admin *admin = tl_admin(&cluster);
    TL_OK(rmq_admin_group_topics(admin, cluster.group, 0, &topics, &err));
    TL_CHECK(tl_has_line(topics, cluster.topic));
    rmq_string_free(topics);
    TL_EQUAL(tl_committed(&cluster, 0), 10);
    reset_to(admin, &cluster, 0, 0);
    reset_to(admin, &cluster, -1, 10);
    reset_to(admin, &cluster, 0, 0);
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &again);
    tl_seen_wait(&again, 10, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

/* Its pulls wait 15 s for messages; a Java broker leaves them there. */
static void a_running_member_is_taken_back_at_once(void)
{
    struct tl_cluster cluster;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 10);
    rmq_producer_destroy(producer);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 10, WAIT_MS);
    rmq_admin *admin = tl_admin(&cluster);
    reset_to(admin, &cluster, 0, 0);
    TL_CHECK(tl_wait(has_seen_twice, &seen, WAIT_MS));
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    rmq_consumer_destroy(consumer);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

static void a_group_without_members_is_reset_at_an_old_broker_queue_by_queue(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_queue_offset *list = NULL;
    size_t count = 0;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 8);
    rmq_producer_destroy(producer);
    rmq_admin *admin = tl_admin(&cluster);
    TL_OK(rmq_admin_create_group(admin, NULL, cluster.group, NULL, 0, &err));
    TL_OK(rmq_broker_fault_answer(cluster.broker, 222, 2, 206, "not online", &err));
    TL_OK(rmq_admin_reset_offset(admin, cluster.group, cluster.topic, -1, 0, &list, &count, &err));
    TL_EQUAL(count, 4);
    for (size_t i = 0; i < count; i++) {
        TL_EQUAL(list[i].queue_id, i);
        TL_EQUAL(list[i].offset, tl_committed(&cluster, (int)i));
    }
    rmq_admin_queue_offsets_free(list, count);
    TL_OK(rmq_admin_reset_offset(admin, cluster.group, cluster.topic, 0, 0, &list, &count, &err));
    TL_EQUAL(count, 4);
    TL_EQUAL(tl_committed(&cluster, 3), 0);
    rmq_admin_queue_offsets_free(list, count);
    TL_EQUAL(rmq_admin_reset_offset(admin, "nobody", cluster.topic, 0, 0, &list, &count, &err),
             RMQ_ERR_BROKER);
    TL_CHECK(strstr(rmq_error_message(err), "nobody") != NULL);
    rmq_error_destroy(err);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_group_is_created_shown_and_deleted),
        TL_CASE(the_members_of_a_group_are_shown_with_what_they_subscribed_to),
        TL_CASE(a_group_goes_on_from_where_it_was_reset_to),
        TL_CASE(a_running_member_is_taken_back_at_once),
        TL_CASE(a_group_without_members_is_reset_at_an_old_broker_queue_by_queue),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

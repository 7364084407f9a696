/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A topic changes under a consumer that runs: more queues, fewer, a topic that is made, or deleted and
 * made again, and one whose broker moves. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

static struct tl_seen seen;

static rmq_consumer *start(const struct tl_cluster *cluster, bool orderly, rmq_events *events)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.poll_name_server_interval_ms = 100;
    options.broker_suspend_max_time_ms = 200;
    options.consume_orderly = orderly;
    options.events = events;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return tl_consumer_start(cluster, &options);
}

static void send(const struct tl_cluster *cluster, int first, int count)
{
    rmq_producer *producer = tl_producer(cluster); /* a new one knows the queues of now */
    tl_send(cluster, producer, "m", first, count);
    rmq_producer_destroy(producer);
}

static void set_queues(const struct tl_cluster *cluster, int queues)
{
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    TL_OK(rmq_admin_create_topic(admin, NULL, cluster->topic, queues, queues, 6, 10000, &err));
    rmq_admin_destroy(admin);
}

struct share {
    const struct tl_cluster *cluster;
    rmq_consumer *consumer;
    int queues;
};

static bool is_share(void *arg)
{
    const struct share *share = arg;
    char *text = NULL;
    int queues = 0;
    size_t length = strlen(share->cluster->topic);
    if (rmq_consumer_assignment(share->consumer, &text, NULL) != RMQ_OK) {
        return false;
    }
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        queues += strncmp(line, share->cluster->topic, length) == 0 && line[length] == ' ';
    }
    rmq_string_free(text);
    return queues == share->queues;
}

static void follow_queues(bool orderly)
{
    static const int queues[] = {2, 8, 1, 4};
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, queues[0]);
    rmq_consumer *consumer = start(&cluster, orderly, NULL);
    for (int i = 0; i < 4; i++) {
        struct share share = {&cluster, consumer, queues[i]};
        set_queues(&cluster, queues[i]);
        TL_CHECK(tl_wait(is_share, &share, 20000));
        send(&cluster, i * 40, 40);
        tl_seen_wait(&seen, (i + 1) * 40, 20000);
    }
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void a_topic_with_more_and_fewer_queues_is_followed(void)
{
    follow_queues(false);
}

static void a_topic_with_more_and_fewer_queues_is_followed_in_order(void)
{
    follow_queues(true);
}

static void delete_topic(const struct tl_cluster *cluster)
{
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    TL_OK(rmq_admin_delete_topic(admin, NULL, cluster->topic, 10000, &err));
    rmq_admin_destroy(admin);
}

static void make_again(bool orderly)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer *consumer = start(&cluster, orderly, events);
    send(&cluster, 0, 20);
    tl_seen_wait(&seen, 20, 20000);
    delete_topic(&cluster);
    set_queues(&cluster, 1);
    tl_take_notice(events, RMQ_EVENT_OFFSET_ILLEGAL, "20 -> 0");
    send(&cluster, 20, 10);
    tl_seen_wait(&seen, 30, 20000);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 30);
    TL_EQUAL(tl_committed(&cluster, 0), 10);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void a_topic_that_is_made_again_is_read_from_its_beginning(void)
{
    make_again(false);
}

static void a_topic_that_is_made_again_is_read_from_its_beginning_in_order(void)
{
    make_again(true);
}

/* Nobody polls: the route that the send made the topic from must not be taken for the topic's. */
static void a_topic_is_consumed_as_soon_as_a_producer_of_the_same_client_made_it(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 4);
    snprintf(cluster.topic + strlen(cluster.topic), 8, "-made");
    rmq_consumer_options consumer_options = tl_consumer_options(&cluster);
    consumer_options.instance_name = "both";
    consumer_options.poll_name_server_interval_ms = 3600000;
    consumer_options.listener = tl_seen_listener;
    consumer_options.listener_user = &seen;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &consumer_options);
    options = tl_producer_options(&cluster);
    options.instance_name = "both";
    TL_OK(rmq_producer_create(&options, &producer, &err));
    tl_send(&cluster, producer, "m", 0, 1);
    tl_seen_wait(&seen, 1, 30000);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

/* Nobody polls: that the broker does not answer is what makes the consumer ask. */
static void a_broker_is_followed_to_another_address(void)
{
    struct tl_detour detour;
    char brokers[160];
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = tl_consumer_options(&detour.through);
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    options.poll_name_server_interval_ms = 3600000;
    rmq_consumer *consumer = tl_consumer_start(&detour.through, &options);
    tl_send_some(&detour.cluster, 0, 1);
    tl_seen_wait(&seen, 1, 20000);
    struct tl_proxy *other = tl_proxy_start(rmq_broker_addr(detour.cluster.broker));
    snprintf(brokers, sizeof brokers, "broker-a@%s", tl_proxy_addr(other));
    tl_namesrv_brokers(detour.namesrv, NULL, brokers, 1);
    tl_proxy_refuse(detour.proxy, true);
    tl_send_some(&detour.cluster, 1, 1);
    tl_seen_wait(&seen, 2, 30000);
    rmq_consumer_destroy(consumer);
    tl_proxy_stop(other);
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_topic_with_more_and_fewer_queues_is_followed),
        TL_CASE(a_topic_with_more_and_fewer_queues_is_followed_in_order),
        TL_CASE(a_topic_that_is_made_again_is_read_from_its_beginning),
        TL_CASE(a_topic_that_is_made_again_is_read_from_its_beginning_in_order),
        TL_CASE(a_topic_is_consumed_as_soon_as_a_producer_of_the_same_client_made_it),
        TL_CASE(a_broker_is_followed_to_another_address),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

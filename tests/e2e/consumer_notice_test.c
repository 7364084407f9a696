/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Notices for people, and what a consumer does when answers are missing: an offset that cannot be
 * read, an offset that the broker does not have, a master that is gone. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/ask.h"
#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define PULL                   11
#define QUERY_CONSUMER_OFFSET  14
#define UPDATE_CONSUMER_OFFSET 15
#define RESET_CLIENT_OFFSET    220

static struct tl_seen seen;
static atomic_bool hold;

static rmq_consume_result stand(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    while (atomic_load(&hold)) {
        usleep(1000);
    }
    return tl_seen_listener(messages, count, context, user);
}

static rmq_consumer_options options_of(const struct tl_cluster *cluster, rmq_events *events)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_thread_nums = 2;
    options.persist_consumer_offset_interval_ms = 100;
    options.poll_name_server_interval_ms = 100;
    options.broker_suspend_max_time_ms = 200;
    options.listener = stand;
    options.listener_user = &seen;
    options.events = events;
    return options;
}

/* ---- notices ---- */

static void flow_control_says_when_it_begins_why_and_when_it_ends(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options options = options_of(&cluster, events);
    options.pull_threshold_for_queue = 40;
    atomic_store(&hold, true);
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_take_notice(events, RMQ_EVENT_REBALANCED, "+");
    tl_send_some(&cluster, 0, 300);
    tl_take_notice(events, RMQ_EVENT_FLOW_CONTROL, "began count");
    atomic_store(&hold, false);
    tl_seen_wait(&seen, 300, 10000);
    tl_take_notice(events, RMQ_EVENT_FLOW_CONTROL, "ended");
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result refuse(const rmq_message_view *const *messages, size_t count,
                                 rmq_consume_context *context, void *user)
{
    return RMQ_RECONSUME_LATER;
}

static void a_message_that_goes_to_the_dead_letters_is_told(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options options = options_of(&cluster, events);
    options.listener = refuse;
    options.max_reconsume_times = 0;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_send_some(&cluster, 0, 1);
    tl_take_notice(events, RMQ_EVENT_DEAD_LETTER, cluster.topic);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void an_offset_that_the_broker_does_not_have_is_told_and_left(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    char ext[512];
    char answer[1024];
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_events_create(&events, &err));
    tl_send_some(&cluster, 0, 10);
    rmq_consumer_options options = options_of(&cluster, events);
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_seen_wait(&seen, 10, 10000);
    rmq_consumer_destroy(consumer);
    snprintf(ext, sizeof ext,
             "{\"consumerGroup\":\"%s\",\"topic\":\"%s\",\"queueId\":\"0\",\"commitOffset\":"
             "\"1000000\"}",
             cluster.group, cluster.topic);
    TL_EQUAL(
        tl_ask(rmq_broker_addr(cluster.broker), UPDATE_CONSUMER_OFFSET, ext, answer, sizeof answer),
        0);
    consumer = tl_consumer_start(&cluster, &options);
    tl_take_notice(events, RMQ_EVENT_OFFSET_ILLEGAL, "1000000 -> 10");
    tl_send_some(&cluster, 10, 5);
    tl_seen_wait(&seen, 15, 10000);
    TL_EQUAL(atomic_load(&seen.total), 15);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

/* ---- an offset that cannot be read ---- */

static void while_the_stored_offset_cannot_be_read_nothing_is_pulled_and_nothing_committed(void)
{
    static const char *const failures[] = {"answer request 14 code 1 remark busy",
                                           "drop request 14",
                                           "answer request 14 code 12 remark later"};
    struct tl_detour detour;
    tl_detour_start(&detour, 2, NULL);
    rmq_consumer_options options = options_of(&detour.through, NULL);
    rmq_consumer *consumer = tl_consumer_start(&detour.through, &options);
    tl_send_some(&detour.cluster, 0, 100);
    tl_seen_wait(&seen, 100, 10000);
    rmq_consumer_destroy(consumer);
    for (int i = 0; i < 3; i++) {
        uint64_t pulls = tl_proxy_seen(detour.proxy, PULL);
        uint64_t commits = tl_proxy_seen(detour.proxy, UPDATE_CONSUMER_OFFSET);
        uint64_t asked = tl_proxy_seen(detour.proxy, QUERY_CONSUMER_OFFSET);
        TL_CHECK(tl_proxy_script(detour.proxy, failures[i]));
        rmq_error *err = NULL;
        TL_OK(rmq_consumer_create(&options, &consumer, &err));
        TL_OK(rmq_consumer_subscribe(consumer, detour.cluster.topic, "*", &err));
        int64_t end = tl_now_ms() + 1500;
        TL_OK(rmq_consumer_start(consumer, &err)); /* waits for 3 s, and then goes on by itself */
        tl_pause(end > tl_now_ms() ? end - tl_now_ms() : 0);
        TL_CHECK(tl_proxy_seen(detour.proxy, QUERY_CONSUMER_OFFSET) > asked);
        TL_EQUAL(tl_proxy_seen(detour.proxy, PULL), pulls);
        TL_EQUAL(tl_proxy_seen(detour.proxy, UPDATE_CONSUMER_OFFSET), commits);
        tl_proxy_clear(detour.proxy);
        tl_send_some(&detour.cluster, 100 + i * 10, 10);
        tl_seen_wait(&seen, 110 + i * 10, 15000);
        rmq_consumer_destroy(consumer);
    }
    TL_EQUAL(atomic_load(&seen.total), 130);
    tl_detour_stop(&detour);
}

static rmq_lite_pull_consumer *start_lite(const struct tl_cluster *cluster)
{
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.auto_commit_interval_ms = 100;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_lite_pull_consumer_subscribe(consumer, cluster->topic, "*", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    return consumer;
}

static void a_lite_pull_consumer_pulls_and_commits_nothing_either(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 2, NULL);
    rmq_consumer_options options = options_of(&detour.cluster, NULL);
    rmq_consumer *consumer = tl_consumer_start(&detour.cluster, &options); /* the group's offsets */
    tl_send_some(&detour.cluster, 0, 20);
    tl_seen_wait(&seen, 20, 10000);
    rmq_consumer_destroy(consumer);
    TL_CHECK(tl_proxy_script(detour.proxy, "answer request 14 code 1 remark busy"));
    rmq_lite_pull_consumer *lite = start_lite(&detour.through);
    TL_EQUAL(tl_lite_pull_take(lite, &seen, 500), 0);
    TL_CHECK(tl_proxy_seen(detour.proxy, QUERY_CONSUMER_OFFSET) > 0);
    TL_EQUAL(tl_proxy_seen(detour.proxy, PULL), 0);
    TL_EQUAL(tl_proxy_seen(detour.proxy, UPDATE_CONSUMER_OFFSET), 0);
    tl_proxy_clear(detour.proxy);
    tl_send_some(&detour.cluster, 20, 10);
    tl_lite_pull_take_until(lite, &seen, 30);
    TL_EQUAL(atomic_load(&seen.total), 30);
    rmq_lite_pull_consumer_destroy(lite);
    tl_detour_stop(&detour);
}

/* ---- offsets that a broker pushes: 220 ---- */

static void take_back(struct tl_proxy *proxy, const struct tl_cluster *cluster, const char *row)
{
    char ext[256];
    char body[512];
    snprintf(ext, sizeof ext, "{\"group\":\"%s\",\"topic\":\"%s\",\"timestamp\":\"0\"}",
             cluster->group, cluster->topic);
    snprintf(body, sizeof body, row, cluster->topic);
    tl_proxy_push(proxy, RESET_CLIENT_OFFSET, ext, body);
}

static bool came_again(void *arg)
{
    return atomic_load(&seen.total) >= *(int *)arg;
}

static void a_running_consumer_goes_on_where_the_broker_says_in_both_layouts(void)
{
    struct tl_detour detour;
    int wanted = 40;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = options_of(&detour.through, NULL);
    rmq_consumer *consumer = tl_consumer_start(&detour.through, &options);
    tl_send_some(&detour.cluster, 0, 20);
    tl_seen_wait(&seen, 20, 10000);
    /* the map that most clients get, with an object as key, and the list that an administrator's
     * tool in C++ asks for */
    take_back(detour.proxy, &detour.cluster,
              "{\"offsetTable\":{{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"%s\"}:0}}");
    TL_CHECK(tl_wait(came_again, &wanted, 15000));
    wanted = 55;
    take_back(detour.proxy, &detour.cluster,
              "{\"offsetTable\":[{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"%s\","
              "\"offset\":5}]}");
    TL_CHECK(tl_wait(came_again, &wanted, 15000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 55);
    TL_EQUAL(atomic_load(&seen.times[4]), 2);
    TL_EQUAL(atomic_load(&seen.times[5]), 3);
    tl_detour_stop(&detour);
}

/* ---- reading from a slave ---- */

static void set_route(struct tl_namesrv *namesrv, const char *master, const char *slave)
{
    char route[512];
    char first[96] = "";
    if (master) {
        snprintf(first, sizeof first, "\"0\":\"%s\",", master);
    }
    snprintf(
        route, sizeof route,
        "{\"brokerDatas\":[{\"brokerAddrs\":{%s\"1\":\"%s\"},\"brokerName\":\"broker-a\","
        "\"cluster\":\"c\"}],\"filterServerTable\":{},\"queueDatas\":[{\"brokerName\":"
        "\"broker-a\",\"perm\":6,\"readQueueNums\":2,\"writeQueueNums\":2,\"topicSysFlag\":0}]}",
        first, slave);
    tl_namesrv_route(namesrv, NULL, 0, route);
}

struct pull_goal {
    struct tl_proxy *proxy;
    uint64_t pulls;
};

static bool are_pulled(void *arg)
{
    const struct pull_goal *goal = arg;
    return tl_proxy_seen(goal->proxy, PULL) > goal->pulls;
}

static void when_the_master_is_gone_the_slave_is_read(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    struct tl_namesrv *namesrv = tl_namesrv_start();
    struct tl_proxy *master = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct tl_proxy *slave = tl_proxy_start(rmq_broker_addr(cluster.broker));
    set_route(namesrv, tl_proxy_addr(master), tl_proxy_addr(slave));
    /* One broker plays both: it must not count the consumer twice. */
    TL_CHECK(tl_proxy_script(slave, "drop request 34"));
    struct tl_cluster through = cluster;
    snprintf(through.namesrv, sizeof through.namesrv, "%s", tl_namesrv_addr(namesrv));
    rmq_consumer_options options = options_of(&through, NULL);
    rmq_consumer *consumer = tl_consumer_start(&through, &options);
    tl_send_some(&cluster, 0, 100);
    tl_seen_wait(&seen, 100, 10000);
    TL_EQUAL(tl_proxy_seen(slave, PULL), 0);

    set_route(namesrv, NULL, tl_proxy_addr(slave)); /* the name server has noticed */
    tl_proxy_refuse(master, true);
    tl_proxy_clear(slave);
    tl_send_some(&cluster, 100, 100);
    tl_seen_wait(&seen, 200, 15000);
    TL_CHECK(tl_proxy_seen(slave, PULL) > 0);
    TL_CHECK(tl_proxy_script(slave, "cut request 34; drop request 34"));
    set_route(namesrv, tl_proxy_addr(master), tl_proxy_addr(slave));
    tl_proxy_refuse(master, false);
    uint64_t pulls = tl_proxy_seen(master, PULL);
    tl_send_some(&cluster, 200, 100);
    tl_seen_wait(&seen, 300, 15000);
    struct pull_goal goal = {master, pulls};
    TL_CHECK(tl_wait(are_pulled, &goal, 10000)); /* parked pulls end, and the next ones go there */
    tl_send_some(&cluster, 300, 100);
    tl_seen_wait(&seen, 400, 15000);
    rmq_consumer_destroy(consumer);
    tl_namesrv_stop(namesrv);
    tl_proxy_stop(master);
    tl_proxy_stop(slave);
    tl_cluster_stop(&cluster);
}

/* Nothing is taken to be in memory, so that whoever is behind is sent to the slave. */
static void who_is_far_behind_reads_the_slave_that_the_broker_names(void)
{
    static const char *const settings[] = {"slaveReadEnable", "true",
                                           "accessMessageInMemoryMaxRatio", "0", NULL};
    struct tl_cluster cluster;
    tl_cluster_start_with(&cluster, 2, settings);
    tl_cluster_needs_own(&cluster);
    struct tl_namesrv *namesrv = tl_namesrv_start();
    struct tl_proxy *master = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct tl_proxy *slave = tl_proxy_start(rmq_broker_addr(cluster.broker));
    set_route(namesrv, tl_proxy_addr(master), tl_proxy_addr(slave));
    TL_CHECK(tl_proxy_script(slave, "drop request 34")); /* one broker plays both */
    struct tl_cluster through = cluster;
    snprintf(through.namesrv, sizeof through.namesrv, "%s", tl_namesrv_addr(namesrv));
    tl_send_some(&cluster, 0, 200);
    rmq_consumer_options options = options_of(&through, NULL);
    options.pull_batch_size = 4;
    rmq_consumer *consumer = tl_consumer_start(&through, &options);
    tl_seen_wait(&seen, 200, 15000);
    TL_CHECK(tl_proxy_seen(slave, PULL) > 0);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 200);
    tl_namesrv_stop(namesrv);
    tl_proxy_stop(master);
    tl_proxy_stop(slave);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(flow_control_says_when_it_begins_why_and_when_it_ends),
        TL_CASE(a_message_that_goes_to_the_dead_letters_is_told),
        TL_CASE(an_offset_that_the_broker_does_not_have_is_told_and_left),
        {"while_the_stored_offset_cannot_be_read_nothing_is_pulled_and_nothing_committed",
         while_the_stored_offset_cannot_be_read_nothing_is_pulled_and_nothing_committed, 60},
        TL_CASE(a_lite_pull_consumer_pulls_and_commits_nothing_either),
        TL_CASE(a_running_consumer_goes_on_where_the_broker_says_in_both_layouts),
        TL_CASE(when_the_master_is_gone_the_slave_is_read),
        TL_CASE(who_is_far_behind_reads_the_slave_that_the_broker_names),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

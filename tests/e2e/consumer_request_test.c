/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What an administrator may ask a running consumer for, through its broker. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ask.h"
#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

#define RESET_OFFSET     222
#define CONSUMER_STATUS  223
#define RUNNING_INFO     307
#define CONSUME_DIRECTLY 309

static struct tl_seen seen;
static char answer[1 << 18];

static void must_say(const char *words)
{
    if (!strstr(answer, words)) {
        tl_fail(__FILE__, __LINE__, "no %s in %.2000s", words, answer);
    }
}

static int ask_of(const struct tl_cluster *cluster, rmq_consumer *consumer, int code,
                  const char *more)
{
    char ext[512];
    snprintf(ext, sizeof ext, "{\"consumerGroup\":\"%s\",\"clientId\":\"%s\"%s}", cluster->group,
             rmq_consumer_client_id(consumer), more);
    return tl_ask(rmq_broker_addr(cluster->broker), code, ext, answer, sizeof answer);
}

static void running_info_tells_options_queues_and_rates(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    char words[256];
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "a || b", tl_seen_listener, &seen);
    TL_EQUAL(ask_of(&cluster, consumer, RUNNING_INFO, ""), 0);
    must_say("\"PROP_CONSUME_TYPE\":\"CONSUME_PASSIVELY\"");
    must_say("\"PROP_CONSUMEORDERLY\":\"false\"");
    must_say("\"PROP_CONSUMER_START_TIMESTAMP\":\"1");
    must_say("\"PROP_THREADPOOL_CORE_SIZE\":\"4\"");
    must_say("\"pullBatchSize\":\"32\"");
    must_say("\"subString\":\"a || b\"");
    must_say("\"consumeOKTPS\":");
    snprintf(words, sizeof words, "\"queueId\":1,\"topic\":\"%s\"}:{\"cachedMsgCount\":0",
             cluster.topic);
    must_say(words);
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    TL_EQUAL(ask_of(&cluster, consumer, RUNNING_INFO, ""), 1); /* nobody there */
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result refuse(const rmq_message_view *const *messages, size_t count,
                                 rmq_consume_context *context, void *user)
{
    return RMQ_RECONSUME_LATER;
}

static void a_message_is_consumed_directly(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    char more[256];
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_OK(rmq_message_set_property(message, "n", "5"));
    TL_OK(rmq_message_copy_body(message, "five", 4));
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    snprintf(more, sizeof more, ",\"msgId\":\"%s\"", rmq_send_result_offset_msg_id(result));

    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 1, 20000);
    TL_EQUAL(ask_of(&cluster, consumer, CONSUME_DIRECTLY, more), 0);
    must_say("\"consumeResult\":\"CR_SUCCESS\"");
    TL_EQUAL(atomic_load(&seen.times[5]), 2);
    rmq_consumer_destroy(consumer);

    consumer = tl_consumer(&cluster, "*", refuse, NULL);
    TL_EQUAL(ask_of(&cluster, consumer, CONSUME_DIRECTLY, more), 0);
    must_say("\"consumeResult\":\"CR_LATER\"");
    rmq_consumer_destroy(consumer);

    consumer = tl_consumer(&cluster, "*", NULL, NULL);
    TL_EQUAL(ask_of(&cluster, consumer, CONSUME_DIRECTLY, more), 1); /* it has no listener */
    rmq_consumer_destroy(consumer);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* ---- the broker that asked goes away meanwhile ---- */

static struct {
    struct tl_detour detour;
    rmq_consumer *consumer;
    char more[256];
    atomic_int calls;
    atomic_bool go_on;
    atomic_bool forgotten;
} away;

static bool may_go_on(void *arg)
{
    (void)arg;
    return atomic_load(&away.go_on);
}

static rmq_consume_result hold_second(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    if (atomic_fetch_add(&away.calls, 1) == 1) {
        (void)tl_wait(may_go_on, NULL, 30000);
    }
    return RMQ_CONSUME_SUCCESS;
}

static void look_for_forgotten(rmq_log_level level, const char *line, void *user)
{
    if (strstr(line, "broker address is in no route any more")) {
        atomic_store(&away.forgotten, true);
    }
}

static bool is_forgotten(void *arg)
{
    (void)arg;
    return atomic_load(&away.forgotten);
}

static bool are_calls(void *arg)
{
    return atomic_load(&away.calls) >= *(int *)arg;
}

static bool are_asked(void *arg)
{
    return tl_namesrv_asked(away.detour.namesrv) >= *(uint64_t *)arg;
}

static void *ask_directly(void *arg)
{
    ask_of(&away.detour.cluster, away.consumer, CONSUME_DIRECTLY, away.more);
    return arg;
}

static rmq_consumer *start_holding(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.poll_name_server_interval_ms = 100;
    options.heartbeat_broker_interval_ms = 100;
    options.broker_suspend_max_time_ms = 200;
    options.listener = hold_second;
    return tl_consumer_start(cluster, &options);
}

/* The broker is in no route any more under the address that it asked from, and that connection
 * is closed. */
static void move_the_broker(void)
{
    char brokers[160];
    rmq_log_set(RMQ_LOG_INFO, look_for_forgotten, NULL);
    snprintf(brokers, sizeof brokers, "broker-b@%s", rmq_broker_addr(away.detour.cluster.broker));
    tl_namesrv_brokers(away.detour.namesrv, NULL, brokers, 1);
    TL_CHECK(tl_wait(is_forgotten, NULL, 20000));
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    tl_proxy_refuse(away.detour.proxy, true);
    uint64_t rounds = tl_namesrv_asked(away.detour.namesrv) + 20; /* the client has seen it */
    TL_CHECK(tl_wait(are_asked, &rounds, 20000));
}

static void a_broker_that_leaves_the_route_while_its_message_is_consumed_harms_nobody(void)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    pthread_t asker;
    int calls = 1;
    tl_detour_start(&away.detour, 1, NULL);
    rmq_producer *producer = tl_producer(&away.detour.cluster);
    message = tl_message(away.detour.cluster.topic, "b", 1);
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    snprintf(away.more, sizeof away.more, ",\"msgId\":\"%s\"",
             rmq_send_result_offset_msg_id(result));
    away.consumer = start_holding(&away.detour.through);
    TL_CHECK(tl_wait(are_calls, &calls, 20000));
    TL_EQUAL(pthread_create(&asker, NULL, ask_directly, NULL), 0);
    calls = 2;
    TL_CHECK(tl_wait(are_calls, &calls, 20000));
    move_the_broker();
    atomic_store(&away.go_on, true);
    TL_OK(rmq_consumer_shutdown(away.consumer, 20000, &err));
    TL_EQUAL(pthread_join(asker, NULL), 0);
    rmq_consumer_destroy(away.consumer);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_detour_stop(&away.detour);
}

/* ---- offsets ---- */

static bool is_doubled(void *arg)
{
    return atomic_load(&seen.total) >= *(int *)arg;
}

static void an_administrator_takes_a_running_group_back(void)
{
    struct tl_cluster cluster;
    char ext[512];
    int twice = 200;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.broker_suspend_max_time_ms = 200;
    options.persist_consumer_offset_interval_ms = 100;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    tl_send_some(&cluster, 0, 100);
    tl_seen_wait(&seen, 100, 20000);
    snprintf(ext, sizeof ext,
             "{\"group\":\"%s\",\"topic\":\"%s\",\"timestamp\":\"0\",\"isForce\":\"true\"}",
             cluster.group, cluster.topic);
    TL_EQUAL(tl_ask(rmq_broker_addr(cluster.broker), RESET_OFFSET, ext, answer, sizeof answer), 0);
    TL_CHECK(tl_wait(is_doubled, &twice, 10000));
    TL_EQUAL(atomic_load(&seen.different), 100);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void an_administrator_asks_a_group_how_far_it_is(void)
{
    struct tl_cluster cluster;
    char ext[512];
    char words[256];
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send_some(&cluster, 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    snprintf(ext, sizeof ext, "{\"group\":\"%s\",\"topic\":\"%s\",\"clientAddr\":\"\"}",
             cluster.group, cluster.topic);
    TL_EQUAL(tl_ask(rmq_broker_addr(cluster.broker), CONSUMER_STATUS, ext, answer, sizeof answer),
             0);
    must_say(rmq_consumer_client_id(consumer));
    snprintf(words, sizeof words, "\"topic\":\"%s\"}:", cluster.topic);
    must_say(words);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

/* ---- a group that pops ---- */

static rmq_consumer *start_popping(const struct tl_cluster *cluster)
{
    rmq_consumer_options options;
    tl_set_request_mode(cluster, RMQ_REQUEST_POP);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.client_rebalance = false;
    options.broker_suspend_max_time_ms = 200;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return tl_consumer_start(cluster, &options);
}

static void a_group_that_pops_is_asked_and_taken_back_as_well(void)
{
    struct tl_cluster cluster;
    char text[512];
    int twice = 20;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_consumer *consumer = start_popping(&cluster);
    tl_send_some(&cluster, 0, 10);
    tl_seen_wait(&seen, 10, 10000);
    TL_EQUAL(ask_of(&cluster, consumer, RUNNING_INFO, ""), 0);
    must_say("\"clientRebalance\":\"false\"");
    snprintf(text, sizeof text, "\"queueId\":-1,\"topic\":\"%s\"}:{\"droped\":false",
             cluster.topic);
    must_say(text);
    must_say("\"waitAckCount\":");
    snprintf(text, sizeof text, "{\"group\":\"%s\",\"topic\":\"%s\",\"clientAddr\":\"\"}",
             cluster.group, cluster.topic);
    TL_EQUAL(tl_ask(rmq_broker_addr(cluster.broker), CONSUMER_STATUS, text, answer, sizeof answer),
             0);
    must_say(rmq_consumer_client_id(consumer));
    snprintf(text, sizeof text,
             "{\"group\":\"%s\",\"topic\":\"%s\",\"timestamp\":\"0\",\"isForce\":\"true\"}",
             cluster.group, cluster.topic);
    TL_EQUAL(tl_ask(rmq_broker_addr(cluster.broker), RESET_OFFSET, text, answer, sizeof answer), 0);
    TL_CHECK(tl_wait(is_doubled, &twice, 10000));
    TL_EQUAL(atomic_load(&seen.different), 10);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result note_topic(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    (void)count;
    (void)context;
    snprintf(user, 256, "%s", rmq_message_view_topic(messages[0]));
    return RMQ_CONSUME_SUCCESS;
}

/* One that waits to be popped again is in a retry topic, and was sent to another. */
static void a_message_of_the_pop_retry_topic_is_consumed_directly_under_its_own(void)
{
    struct tl_cluster cluster;
    rmq_admin *admin = NULL;
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    static char got[256];
    char text[256];
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    snprintf(text, sizeof text, "%%RETRY%%%s_%s", cluster.group, cluster.topic);
    TL_OK(rmq_admin_create(cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_create_topic(admin, NULL, text, 1, 1, 6, 5000, &err));
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_message_create(text, &message, &err));
    TL_OK(rmq_message_copy_body(message, "b", 1));
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    snprintf(text, sizeof text, ",\"msgId\":\"%s\"", rmq_send_result_offset_msg_id(result));
    rmq_consumer *consumer = tl_consumer(&cluster, "*", note_topic, got);
    TL_EQUAL(ask_of(&cluster, consumer, CONSUME_DIRECTLY, text), 0);
    must_say("\"consumeResult\":\"CR_SUCCESS\"");
    TL_EQUAL(strcmp(got, cluster.topic), 0);
    rmq_consumer_destroy(consumer);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(running_info_tells_options_queues_and_rates),
        TL_CASE(a_message_is_consumed_directly),
        TL_CASE(a_broker_that_leaves_the_route_while_its_message_is_consumed_harms_nobody),
        TL_CASE(an_administrator_takes_a_running_group_back),
        TL_CASE(an_administrator_asks_a_group_how_far_it_is),
        TL_CASE(a_group_that_pops_is_asked_and_taken_back_as_well),
        TL_CASE(a_message_of_the_pop_retry_topic_is_consumed_directly_under_its_own),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

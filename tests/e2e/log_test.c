/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a program's log shows at the default level when something is away: one line when it goes,
 * one when it is back, however much waits for it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/port.h"
#include "lib/usage.h"

#define LINES_MAX 100

static struct {
    pthread_mutex_t lock;
    char lines[LINES_MAX][512]; /* guarded by lock, as the count */
    int count;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_line(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    pthread_mutex_lock(&seen.lock);
    if (seen.count < LINES_MAX) {
        snprintf(seen.lines[seen.count++], sizeof seen.lines[0], "%s", line);
    }
    pthread_mutex_unlock(&seen.lock);
}

/* Lines with these words in them. */
static int count_lines(const char *words)
{
    int count = 0;
    pthread_mutex_lock(&seen.lock);
    for (int i = 0; i < seen.count; i++) {
        count += strstr(seen.lines[i], words) != NULL;
    }
    pthread_mutex_unlock(&seen.lock);
    return count;
}

static bool is_told(void *words)
{
    return count_lines(words) > 0;
}

static void fail_to_send(rmq_producer *producer, const char *topic, rmq_status expected)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_message_create(topic, &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, "x", 1), RMQ_OK);
    TL_EQUAL(rmq_producer_send(producer, message, 5000, NULL, NULL), expected);
    rmq_message_destroy(message);
}

static void a_dead_name_server_is_told_once_and_once_when_it_is_back(void)
{
    char addr[64];
    rmq_namesrv *namesrv = NULL;
    int port = tl_port_kept(addr, sizeof addr);
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    rmq_log_set(RMQ_LOG_WARN, keep_line, NULL);
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "loggers";
    options.namesrv_addr = addr;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    fail_to_send(producer, "One", RMQ_ERR_NO_NAMESRV);
    fail_to_send(producer, "Two", RMQ_ERR_NO_NAMESRV);
    fail_to_send(producer, "Three", RMQ_ERR_NO_NAMESRV);
    TL_EQUAL(count_lines(""), 1);
    TL_EQUAL(count_lines(addr), 1);
    TL_EQUAL(count_lines("namesrv="), 1);
    TL_OK(rmq_namesrv_start("127.0.0.1", port, &namesrv, &err));
    int64_t end = tl_now_ms() + 20000;
    while (!is_told("connected again namesrv=") && tl_now_ms() < end) {
        rmq_message *message = NULL;
        TL_OK(rmq_message_create("One", &message, &err));
        TL_EQUAL(rmq_message_copy_body(message, "x", 1), RMQ_OK);
        TL_CHECK(rmq_producer_send(producer, message, 1000, NULL, NULL) != RMQ_OK); /* no broker */
        rmq_message_destroy(message);
    }
    TL_EQUAL(count_lines("connected again namesrv="), 1);
    TL_EQUAL(count_lines(""), 2);
    rmq_producer_destroy(producer);
    rmq_namesrv_stop(namesrv);
}

static void a_missing_topic_is_told_once_and_once_when_it_is_there(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    rmq_log_set(RMQ_LOG_WARN, keep_line, NULL);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.poll_name_server_interval_ms = 100;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, "Later", "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(is_told, "no such topic yet, it is waited for topic=Later", 10000));
    tl_pause(350); /* some more refreshes, which shall say nothing */
    TL_OK(rmq_broker_create_topic(cluster.broker, "Later", 2, &err));
    TL_CHECK(tl_wait(is_told, "the topic is there now topic=Later", 20000));
    TL_EQUAL(count_lines("Later"), 2);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void ignore(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)result;
    (void)err;
    (void)user;
}

static bool is_asked(void *namesrv)
{
    return tl_namesrv_asked(namesrv) > 0;
}

/* That nobody answers is not known yet, and now it never will be. */
static void a_question_that_a_shutdown_ends_is_no_fault_of_the_name_server(void)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    struct tl_namesrv *silent = tl_namesrv_start();
    tl_namesrv_silent(silent, true);
    rmq_log_set(RMQ_LOG_WARN, keep_line, NULL);
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "loggers";
    options.namesrv_addr = tl_namesrv_addr(silent);
    options.send_msg_timeout_ms = 30000;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    TL_OK(rmq_message_create("One", &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, "x", 1), RMQ_OK);
    TL_OK(rmq_producer_send_async(producer, message, ignore, NULL, &err));
    TL_CHECK(tl_wait(is_asked, silent, 20000));
    TL_EQUAL(rmq_producer_shutdown(producer, 1, NULL), RMQ_ERR_TIMEOUT);
    rmq_producer_destroy(producer);
    TL_EQUAL(count_lines("no name server answers"), 0);
    rmq_message_destroy(message);
    tl_namesrv_stop(silent);
}

static rmq_consume_result take(const rmq_message_view *const *messages, size_t count,
                               rmq_consume_context *context, void *user)
{
    (void)messages;
    (void)count;
    (void)context;
    (void)user;
    return RMQ_CONSUME_SUCCESS;
}

static rmq_consumer *member_for(const struct tl_cluster *cluster, const char *topic)
{
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.heartbeat_broker_interval_ms = 1000;
    options.broker_suspend_max_time_ms = 100;
    options.listener = take;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

static void members_that_subscribe_different_topics_are_told(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_broker_create_topic(cluster.broker, "Other", 2, &err));
    rmq_log_set(RMQ_LOG_WARN, keep_line, NULL);
    rmq_consumer *first = member_for(&cluster, cluster.topic);
    rmq_consumer *second = member_for(&cluster, "Other");
    TL_CHECK(tl_wait(is_told, "the members of a group do not subscribe the same", 20000));
    rmq_consumer_destroy(first);
    rmq_consumer_destroy(second);
    tl_cluster_stop(&cluster);
}

static void expect_told(const char *key, const char *value, void *words)
{
    struct tl_cluster cluster;
    const char *options[] = {key, value, NULL};
    tl_cluster_start_with(&cluster, 2, options);
    tl_cluster_needs_own(&cluster);
    rmq_log_set(RMQ_LOG_WARN, keep_line, NULL);
    rmq_consumer *consumer = member_for(&cluster, cluster.topic);
    TL_CHECK(tl_wait(is_told, words, 20000));
    TL_EQUAL(count_lines(words), 1);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void a_group_that_the_broker_may_not_create_is_told_with_its_words(void)
{
    expect_told("autoCreateSubscriptionGroup", "false", "no consumer for this group");
    TL_EQUAL(count_lines("why=member list: broker 127.0.0.1:"), 1);
}

static void a_topic_that_may_not_be_read_is_told(void)
{
    expect_told("brokerPermission", "2", "the topic has no queue that may be read");
}

static void start_with_heartbeats(const char *namesrv, int64_t interval_ms)
{
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "loggers";
    options.namesrv_addr = namesrv;
    options.heartbeat_broker_interval_ms = interval_ms;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_producer_destroy(producer);
}

static void heartbeats_that_come_too_late_are_told_at_the_start(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    rmq_log_set(RMQ_LOG_WARN, keep_line, NULL);
    start_with_heartbeats(cluster.namesrv, 119999);
    TL_EQUAL(count_lines("heartbeat"), 0);
    start_with_heartbeats(cluster.namesrv, 120000);
    TL_EQUAL(count_lines("heartbeatBrokerInterval=120000 channelExpiredTimeout=120000"), 1);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_dead_name_server_is_told_once_and_once_when_it_is_back",
         a_dead_name_server_is_told_once_and_once_when_it_is_back, 60},
        {"a_missing_topic_is_told_once_and_once_when_it_is_there",
         a_missing_topic_is_told_once_and_once_when_it_is_there, 60},
        TL_CASE(a_question_that_a_shutdown_ends_is_no_fault_of_the_name_server),
        TL_CASE(members_that_subscribe_different_topics_are_told),
        TL_CASE(a_group_that_the_broker_may_not_create_is_told_with_its_words),
        TL_CASE(a_topic_that_may_not_be_read_is_told),
        TL_CASE(heartbeats_that_come_too_late_are_told_at_the_start),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

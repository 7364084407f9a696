/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a program or a server gets wrong is an error with words, never a crash or a send that hangs:
 * arguments that are missing, names that are in use, handles that outlive their producer, routes
 * that lie, a process without descriptors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/usage.h"

#define WAIT_MS 20000

static void expect_error(const char *what, rmq_status st, rmq_status wanted, rmq_error **err,
                         const char *words)
{
    if (st != wanted || strstr(rmq_error_message(*err), words) == NULL) {
        tl_fail(__FILE__, __LINE__, "%s: %s \"%s\", not %s \"%s\"", what, rmq_status_name(st),
                rmq_error_message(*err), rmq_status_name(wanted), words);
    }
    rmq_error_destroy(*err);
    *err = NULL;
}

#define EXPECT(call, wanted, words) expect_error(#call, (call), (wanted), &err, (words))

static rmq_status create(const char *namesrv, const char *instance, const char *group,
                         rmq_producer **out, rmq_error **err)
{
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = group;
    options.namesrv_addr = namesrv;
    options.instance_name = instance;
    return rmq_producer_create(&options, out, err);
}

/* ---- arguments ---- */

static rmq_transaction_state commit(const rmq_message *message, const char *id, void *user)
{
    (void)message;
    (void)id;
    (void)user;
    return RMQ_TRANSACTION_COMMIT;
}

static void ignore(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)result;
    (void)err;
    (void)user;
}

static void ignore_reply(const rmq_message_view *reply, const rmq_error *err, void *user)
{
    (void)reply;
    (void)err;
    (void)user;
}

static void a_missing_producer_or_message_is_named(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    const rmq_message_view *reply = NULL;
    rmq_transaction *transaction = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    const char *none = "producer is NULL";
    EXPECT(rmq_producer_send(NULL, message, 0, NULL, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_send_oneway(NULL, message, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_send_async(NULL, message, ignore, NULL, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_request(NULL, message, 0, &reply, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_request_async(NULL, message, 0, ignore_reply, NULL, &err), RMQ_ERR_INVALID,
           none);
    EXPECT(rmq_producer_request_event(NULL, message, 0, 1, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_prepare_transaction(NULL, message, 0, &transaction, &err), RMQ_ERR_INVALID,
           none);
    none = "message is NULL";
    EXPECT(rmq_producer_send(producer, NULL, 0, NULL, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_send_oneway(producer, NULL, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_send_async(producer, NULL, ignore, NULL, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_request(producer, NULL, 0, &reply, &err), RMQ_ERR_INVALID, none);
    EXPECT(rmq_producer_send_in_transaction(producer, NULL, commit, NULL, 0, NULL, NULL, &err),
           RMQ_ERR_INVALID, none);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_missing_part_is_named(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_message *empty = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    TL_OK(rmq_message_create(cluster.topic, &empty, &err));
    const rmq_message *list[2] = {message, NULL};
    EXPECT(rmq_producer_send_async(producer, message, NULL, NULL, &err), RMQ_ERR_INVALID,
           "callback is NULL");
    EXPECT(rmq_producer_send_event(producer, message, 1, &err), RMQ_ERR_STATE, "no event queue");
    EXPECT(rmq_producer_request_event(producer, message, 0, 1, &err), RMQ_ERR_STATE,
           "no event queue");
    EXPECT(rmq_producer_send(producer, empty, 0, NULL, &err), RMQ_ERR_INVALID, "has no body");
    EXPECT(rmq_producer_send_batch(producer, list, 2, 0, NULL, &err), RMQ_ERR_INVALID,
           "message 1 of the batch is NULL");
    EXPECT(rmq_producer_send_all(producer, list, 2, 0, NULL, &err), RMQ_ERR_INVALID,
           "message is NULL");
    list[1] = empty;
    EXPECT(rmq_producer_send_batch(producer, list, 2, 0, NULL, &err), RMQ_ERR_INVALID,
           "message 1 of the batch has no body");
    list[0] = NULL;
    EXPECT(rmq_producer_send_batch(producer, list, 2, 0, NULL, &err), RMQ_ERR_INVALID,
           "message 0 of the batch is NULL");
    EXPECT(rmq_producer_send_batch(producer, list, 0, 0, NULL, &err), RMQ_ERR_INVALID,
           "the batch has no messages");
    EXPECT(rmq_producer_send_batch(producer, NULL, 3, 0, NULL, &err), RMQ_ERR_INVALID,
           "messages is NULL");
    rmq_message *none = NULL;
    EXPECT(rmq_message_create(NULL, &none, &err), RMQ_ERR_INVALID, "topic is NULL");
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.choice = rmq_choose_by_hash;
    EXPECT(rmq_producer_send_with(producer, message, &how, NULL, &err), RMQ_ERR_INVALID,
           "the selector chose none of the 1 queues");
    EXPECT(rmq_producer_send_by_key(producer, message, NULL, 0, NULL, &err), RMQ_ERR_INVALID,
           "sharding key is NULL");
    EXPECT(rmq_producer_send_to_queue(producer, message, "nobody", 0, 0, NULL, &err),
           RMQ_ERR_NO_BROKER, "broker nobody is not in the route of topic");
    EXPECT(rmq_producer_recall(producer, cluster.topic, NULL, 0, &err), RMQ_ERR_INVALID,
           "recall handle is invalid");
    rmq_message_destroy(empty);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Words of many attempts do not fit into an error: those of the last ones are there. */
static void an_error_after_many_attempts_still_says_why(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    options = tl_producer_options(&cluster);
    options.retry_times_when_send_failed = 200;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    TL_OK(rmq_broker_fault_answer(cluster.broker, 310, -1, 1, "the reason of the broker", &err));
    rmq_status st = rmq_producer_send(producer, message, WAIT_MS, NULL, &err);
    TL_CHECK(strstr(rmq_error_message(err), "after 201 attempts") != NULL);
    expect_error("201 attempts", st, RMQ_ERR_BROKER, &err, "the reason of the broker");
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* ---- names and handles ---- */

/* A second client of the same id would silently send to the first one's brokers. */
static void an_instance_name_has_one_list_of_name_servers(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *first = NULL, *second = NULL;
    tl_cluster_start(&cluster, 1);
    TL_OK(create(cluster.namesrv, "one", "group-a", &first, &err));
    EXPECT(create(cluster.namesrv, "one", "group-a", &second, &err), RMQ_ERR_EXISTS,
           "has a producer of group group-a already");
    EXPECT(create("127.0.0.1:1", "one", "group-b", &second, &err), RMQ_ERR_EXISTS,
           "one for 127.0.0.1:1 needs another instanceName");
    TL_OK(create(cluster.namesrv, "one", "group-b", &second, &err));
    rmq_producer_destroy(second);
    rmq_producer_destroy(first);
    TL_OK(create("127.0.0.1:1", "one", "group-a", &first, &err));
    rmq_producer_destroy(first);
    tl_cluster_stop(&cluster);
}

/* Neither can differ between the handles of one client, and none is ignored. */
static void an_instance_name_has_one_namespace_and_one_kind_of_port(void)
{
    rmq_error *err = NULL;
    rmq_producer *first = NULL, *second = NULL;
    rmq_consumer *consumer = NULL;
    static const char plain[] = "namesrvAddr=127.0.0.1:1;instanceName=one;producerGroup=a";
    static const char tenant[] =
        "namesrvAddr=127.0.0.1:1;instanceName=one;producerGroup=b;namespaceV2=TENANT";
    static const char vip[] =
        "namesrvAddr=127.0.0.1:1;instanceName=one;producerGroup=b;vipChannelEnabled=true";
    static const char reader[] = "namesrvAddr=127.0.0.1:1;instanceName=one;consumerGroup=b";
    TL_OK(rmq_producer_open(plain, &first, &err));
    EXPECT(rmq_producer_open(tenant, &second, &err), RMQ_ERR_EXISTS,
           "one with \"TENANT\" needs another instanceName");
    EXPECT(rmq_producer_open(vip, &second, &err), RMQ_ERR_EXISTS,
           "vipChannelEnabled=false: one with true needs another instanceName");
    rmq_producer_destroy(first);
    TL_OK(rmq_producer_open(vip, &first, &err));
    TL_OK(rmq_consumer_open(reader, "T", "*", NULL, NULL, &consumer, &err)); /* it sends nothing */
    EXPECT(rmq_producer_open(plain, &second, &err), RMQ_ERR_EXISTS, "one with false");
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(first);
    TL_OK(rmq_producer_open(tenant, &first, &err));
    EXPECT(rmq_producer_open(plain, &second, &err), RMQ_ERR_EXISTS, "namespaceV2 \"TENANT\"");
    rmq_producer_destroy(first);
}

static void the_queues_of_a_topic_outlive_their_producer(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_queues *queues = NULL;
    tl_cluster_start(&cluster, 3);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_producer_publish_queues(producer, cluster.topic, WAIT_MS, &queues, &err));
    rmq_queues *none = NULL;
    EXPECT(rmq_producer_publish_queues(producer, "a b", WAIT_MS, &none, &err), RMQ_ERR_INVALID,
           "topic \"a b\": byte 0x20 at 1");
    EXPECT(rmq_producer_publish_queues(producer, "", WAIT_MS, &none, &err), RMQ_ERR_INVALID,
           "topic of 0 characters");
    TL_CHECK(none == NULL);
    rmq_producer_destroy(producer);
    TL_EQUAL(rmq_queues_count(queues), 3);
    TL_CHECK(*rmq_queues_broker_name(queues, 2) != '\0');
    rmq_queues_free(queues);
    tl_cluster_stop(&cluster);
}

/* ---- routes ---- */

#define ROUTE(queues, brokers) "{\"queueDatas\":[" queues "],\"brokerDatas\":[" brokers "]}"
#define QUEUES(count)                                                                              \
    "{\"brokerName\":\"b\",\"readQueueNums\":4,\"writeQueueNums\":" count ",\"perm\":6}"
#define ADDRESS(id, address)                                                                       \
    "{\"brokerName\":\"b\",\"cluster\":\"c\",\"brokerAddrs\":{\"" id "\":\"" address "\"}}"

static const struct lie {
    const char *body;
    rmq_status wanted;
    const char *words;
} lies[] = {
    {"{}", RMQ_ERR_NO_ROUTE, "no queue that takes messages"},
    {"not JSON", RMQ_ERR_PROTOCOL, "route"},
    {ROUTE(QUEUES("4"), ""), RMQ_ERR_NO_ROUTE, "no queue that takes messages"},
    {ROUTE(QUEUES("0"), ADDRESS("0", "127.0.0.1:1")), RMQ_ERR_NO_ROUTE,
     "no queue that takes messages"},
    {ROUTE(QUEUES("-7"), ADDRESS("0", "127.0.0.1:1")), RMQ_ERR_NO_ROUTE,
     "no queue that takes messages"},
    {ROUTE(QUEUES("2147483647"), ADDRESS("0", "127.0.0.1:1")), RMQ_ERR_PROTOCOL, "route"},
    {ROUTE(QUEUES("4"), ADDRESS("1", "127.0.0.1:1")), RMQ_ERR_NO_ROUTE,
     "no queue that takes messages"},
    {ROUTE(QUEUES("4"), ADDRESS("0", "")), RMQ_ERR_NO_BROKER, "no usable address"},
    {ROUTE(QUEUES("4"), ADDRESS("0", "nonsense")), RMQ_ERR_NO_BROKER, "no usable address"},
    {ROUTE(QUEUES("4"), ADDRESS("0", "127.0.0.1:99999")), RMQ_ERR_NO_BROKER, "no usable address"},
};

static void a_route_that_lies_is_an_error_of_its_topic_alone(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    char topic[32];
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    struct tl_namesrv *namesrv = tl_namesrv_start();
    TL_OK(create(tl_namesrv_addr(namesrv), NULL, "group", &producer, &err));
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        snprintf(topic, sizeof topic, "Lie-%zu", i);
        tl_namesrv_route(namesrv, topic, 0, lies[i].body);
        rmq_message *message = tl_message(topic, "body", 4);
        rmq_status st = rmq_producer_send(producer, message, WAIT_MS, NULL, &err);
        TL_CHECK(st == RMQ_OK || strstr(rmq_error_message(err), topic) != NULL);
        expect_error(lies[i].body, st, lies[i].wanted, &err, lies[i].words);
        rmq_message_destroy(message);
    }
    char brokers[160];
    snprintf(brokers, sizeof brokers, "%s@%s", "broker-a", rmq_broker_addr(cluster.broker));
    tl_namesrv_brokers(namesrv, cluster.topic, brokers, 1);
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    TL_OK(rmq_producer_send(producer, message, WAIT_MS, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(namesrv);
    tl_cluster_stop(&cluster);
}

/* ---- descriptors ---- */

static void limit_descriptors(rlim_t limit)
{
    struct rlimit now;
    TL_EQUAL(getrlimit(RLIMIT_NOFILE, &now), 0);
    now.rlim_cur = limit;
    TL_EQUAL(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* No descriptor can be opened beyond those that are, until the limit is as before. */
static void take_all_descriptors(void)
{
    int first_free = dup(STDERR_FILENO);
    TL_CHECK(first_free > 0);
    close(first_free);
    limit_descriptors((rlim_t)first_free);
}

static void without_descriptors_nothing_is_made_and_sends_go_on_when_there_are_some(void)
{
    struct tl_cluster cluster;
    struct rlimit before;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL, *second = NULL;
    rmq_events *events = NULL;
    tl_cluster_start_apart(&cluster, 1);
    TL_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
    take_all_descriptors();
    EXPECT(create(cluster.namesrv, NULL, "group", &second, &err), RMQ_ERR_IO, "");
    EXPECT(rmq_events_create(&events, &err), RMQ_ERR_IO, "Too many open files");
    limit_descriptors(before.rlim_cur);
    TL_OK(create(cluster.namesrv, NULL, "group", &producer, &err));
    take_all_descriptors();
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    rmq_status st = rmq_producer_send(producer, message, 300, NULL, &err);
    /* A descriptor that a look-up had open for a moment may have been enough. */
    TL_CHECK(st == RMQ_OK || st == RMQ_ERR_CONNECT || st == RMQ_ERR_NO_NAMESRV ||
             st == RMQ_ERR_TIMEOUT);
    rmq_error_destroy(err);
    err = NULL;
    limit_descriptors(before.rlim_cur);
    TL_OK(rmq_producer_send(producer, message, WAIT_MS, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_missing_producer_or_message_is_named),
        TL_CASE(a_missing_part_is_named),
        TL_CASE(an_error_after_many_attempts_still_says_why),
        TL_CASE(an_instance_name_has_one_list_of_name_servers),
        TL_CASE(an_instance_name_has_one_namespace_and_one_kind_of_port),
        TL_CASE(the_queues_of_a_topic_outlive_their_producer),
        TL_CASE(a_route_that_lies_is_an_error_of_its_topic_alone),
        TL_CASE(without_descriptors_nothing_is_made_and_sends_go_on_when_there_are_some),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

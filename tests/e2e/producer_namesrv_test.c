/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A producer and its name servers: those that are dead, silent or unknown are skipped, lists that
 * make no sense are refused, and the environment may name them; routes that are made or change
 * while a send is under way.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/frame.h"
#include "lib/port.h"
#include "lib/proxy.h"
#include "lib/usage.h"

static void dead_and_silent_name_servers_are_skipped_within_the_call(void)
{
    struct tl_cluster cluster;
    char silent[64];
    char dead[64];
    char list[512];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    int fd = tl_port_silent(silent, sizeof silent);
    tl_port_kept(dead, sizeof dead);
    snprintf(list, sizeof list, "no-such-host.invalid:9876;%s;%s;%s", silent, dead,
             cluster.namesrv);
    rmq_producer *producer = tl_producer_on(list, 3000);
    rmq_message *message = tl_message(cluster.topic, "x", 1);
    int64_t start = tl_now_ms();
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_CHECK(tl_now_ms() - start < 2900);
    rmq_producer_destroy(producer);
    rmq_message_destroy(message);
    close(fd);
    tl_cluster_stop(&cluster);
}

static void an_unknown_host_fails_with_its_name_and_the_process_lives(void)
{
    rmq_error *err = NULL;
    rmq_producer *producer = tl_producer_on("no-such-host.invalid:9876", 3000);
    rmq_message *message = tl_message("Topic", "x", 1);
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_NO_NAMESRV);
    TL_CHECK(tl_now_ms() - start < 5000);
    TL_CHECK(strstr(rmq_error_message(err), "no-such-host.invalid") != NULL);
    TL_CHECK(rmq_error_retriable(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

static void bad_name_server_lists_are_refused_at_creation(void)
{
    static const struct {
        const char *list;
        rmq_status status;
    } bad[] = {{"host", RMQ_ERR_INVALID},        {"host:99999", RMQ_ERR_INVALID},
               {"[::1:9876", RMQ_ERR_INVALID},   {";;", RMQ_ERR_NO_NAMESRV},
               {"http://host", RMQ_ERR_INVALID}, {"http://127.0.0.1:1/nsaddr", RMQ_ERR_NO_NAMESRV}};
    unsetenv("NAMESRV_ADDR");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rmq_error *err = NULL;
        rmq_producer *producer = NULL;
        rmq_producer_options options;
        tl_producer_options_init(&options);
        options.producer_group = "g";
        options.namesrv_addr = bad[i].list;
        TL_EQUAL(rmq_producer_create(&options, &producer, &err), bad[i].status);
        TL_CHECK(*rmq_error_message(err));
        rmq_error_destroy(err);
        err = NULL;
        options.namesrv_addr = NULL;
        TL_EQUAL(rmq_producer_create(&options, &producer, &err), RMQ_ERR_NO_NAMESRV);
        TL_CHECK(strstr(rmq_error_message(err), "NAMESRV_ADDR") != NULL);
        rmq_error_destroy(err);
    }
}

static void the_environment_names_the_name_server(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    setenv("NAMESRV_ADDR", cluster.namesrv, 1);
    rmq_producer *producer = tl_producer_on(NULL, 3000);
    rmq_message *message = tl_message(cluster.topic, "x", 1);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

#define GET_ROUTE 105

struct question {
    struct tl_proxy *proxy;
    uint64_t seen;
};

static bool is_asked(void *arg)
{
    struct question *question = arg;
    return tl_proxy_seen(question->proxy, GET_ROUTE) > question->seen;
}

/* While a consumer of the same client asks for it, which makes no topics. */
static void a_send_makes_its_topic_though_a_consumer_asks_for_it_already(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_proxy *slow = tl_proxy_start(cluster.namesrv);
    TL_CHECK(tl_proxy_script(slow, "delay response 105 times -1 ms 500"));
    struct tl_cluster through = cluster;
    snprintf(through.namesrv, sizeof through.namesrv, "%s", tl_proxy_addr(slow));
    snprintf(through.topic, sizeof through.topic, "MadeByASend");
    rmq_consumer_options consumer_options = tl_consumer_options(&through);
    consumer_options.instance_name = "both";
    consumer_options.poll_name_server_interval_ms = 100;
    rmq_consumer *consumer = tl_consumer_start(&through, &consumer_options);
    tl_producer_options_init(&options);
    options.producer_group = "g";
    options.namesrv_addr = through.namesrv;
    options.instance_name = "both";
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(through.topic, "x", 1);
    struct question next = {.proxy = slow, .seen = tl_proxy_seen(slow, GET_ROUTE)};
    TL_CHECK(tl_wait(is_asked, &next, 10000));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    tl_proxy_stop(slow);
    tl_cluster_stop(&cluster);
}

static void a_topic_without_route_is_an_error_that_names_it(void)
{
    rmq_error *err = NULL;
    struct tl_namesrv *ns = tl_namesrv_start();
    rmq_producer *producer = tl_producer_on(tl_namesrv_addr(ns), 1000);
    rmq_message *message = tl_message("NoSuchTopic", "x", 1);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_NO_ROUTE);
    TL_CHECK(strstr(rmq_error_message(err), "NoSuchTopic") != NULL);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(ns);
}

#define SEND_V2 310

static const char *const readable_only =
    "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"127.0.0.1:1\"},\"brokerName\":\"a\","
    "\"cluster\":\"DefaultCluster\"}],\"filterServerTable\":{},"
    "\"queueDatas\":[{\"brokerName\":\"a\",\"perm\":4,\"readQueueNums\":4,\"topicSysFlag\":0,"
    "\"writeQueueNums\":0}]}";

struct replaced_route {
    struct tl_namesrv *ns;
    uint64_t asked;
};

static bool is_asked_again(void *arg)
{
    struct replaced_route *replaced = arg;
    return tl_namesrv_asked(replaced->ns) > replaced->asked + 2;
}

/* A send is held up until the client has another route: when it asks again, it has the answer that
 * came before. */
static void replace_route(const char *frame, size_t n, void *user)
{
    struct replaced_route *replaced = user;
    struct tl_header header;
    if (tl_frame_header(frame, n, &header) && header.code == SEND_V2) {
        tl_namesrv_route(replaced->ns, "Topic", 0, readable_only);
        replaced->asked = tl_namesrv_asked(replaced->ns);
        TL_CHECK(tl_wait(is_asked_again, replaced, 10000));
    }
}

/* A route without a queue that takes messages comes while a send is at its broker, whose answer is
 * lost. */
static void a_send_whose_topic_becomes_readable_only_may_be_stored(void)
{
    struct tl_cluster cluster;
    char brokers[128];
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_proxy *proxy = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct replaced_route replaced = {.ns = tl_namesrv_start()};
    TL_CHECK(tl_proxy_script(proxy, "cut request 310 times -1"));
    tl_proxy_watch(proxy, replace_route, &replaced);
    snprintf(brokers, sizeof brokers, "a@%s", tl_proxy_addr(proxy));
    tl_namesrv_brokers(replaced.ns, "Topic", brokers, 4);
    tl_producer_options_init(&options);
    options.producer_group = "g";
    options.namesrv_addr = tl_namesrv_addr(replaced.ns);
    options.poll_name_server_interval_ms = 100;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message("Topic", "x", 1);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_DISCONNECTED);
    TL_CHECK(rmq_error_maybe_stored(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_proxy_stop(proxy); /* it asks the name server */
    tl_namesrv_stop(replaced.ns);
    tl_cluster_stop(&cluster);
}

static const char *const slave_only =
    "{\"brokerDatas\":[{\"brokerAddrs\":{1:\"127.0.0.1:1\"},\"brokerName\":\"a\","
    "\"cluster\":\"DefaultCluster\"}],\"filterServerTable\":{},"
    "\"queueDatas\":[{\"brokerName\":\"a\",\"perm\":6,\"readQueueNums\":4,\"topicSysFlag\":0,"
    "\"writeQueueNums\":4}]}";

struct outcome {
    atomic_bool done;
    rmq_status status;
};

static void take_outcome(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct outcome *outcome = user;
    outcome->status = result ? RMQ_OK : rmq_error_status(err);
    atomic_store(&outcome->done, true);
}

static bool is_done(void *arg)
{
    return atomic_load(&((struct outcome *)arg)->done);
}

enum way { PLAIN, BY_KEY, ONE_WAY, TOGETHER, WAYS };

static rmq_status send_in(enum way way, rmq_producer *producer, const rmq_message *message)
{
    struct outcome outcome = {.status = RMQ_ERR_TIMEOUT};
    rmq_error *err = NULL;
    rmq_send_options options;
    rmq_send_options_init(&options, sizeof options);
    options.sharding_key = way == BY_KEY ? "key" : NULL;
    rmq_status st =
        way == TOGETHER  ? rmq_producer_send_async(producer, message, take_outcome, &outcome, &err)
        : way == ONE_WAY ? rmq_producer_send_oneway(producer, message, &err)
                         : rmq_producer_send_with(producer, message, &options, NULL, &err);
    rmq_error_destroy(err);
    if (way == TOGETHER && st == RMQ_OK) {
        TL_CHECK(tl_wait(is_done, &outcome, 30000));
        st = outcome.status;
    }
    return st;
}

/* The first route is kept for 30 s, unless somebody asks for another. */
static void sends_go_on_as_soon_as_a_topic_has_a_master_again(void)
{
    struct tl_cluster cluster;
    char brokers[128];
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_namesrv *ns = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "a@%s", rmq_broker_addr(cluster.broker));
    rmq_message *message = tl_message(cluster.topic, "x", 1);
    for (enum way way = PLAIN; way < WAYS; way++) {
        rmq_error *err = NULL;
        rmq_producer *producer = NULL;
        rmq_producer_options options;
        tl_producer_options_init(&options);
        options.producer_group = "g";
        options.namesrv_addr = tl_namesrv_addr(ns);
        options.auto_batch = way == TOGETHER;
        TL_OK(rmq_producer_create(&options, &producer, &err));
        tl_namesrv_route(ns, cluster.topic, 0, slave_only);
        TL_EQUAL(send_in(way, producer, message), RMQ_ERR_NO_ROUTE);
        TL_EQUAL(send_in(way, producer, message), RMQ_ERR_NO_ROUTE);
        tl_namesrv_brokers(ns, cluster.topic, brokers, 4);
        TL_EQUAL(send_in(way, producer, message), RMQ_OK);
        rmq_producer_destroy(producer);
    }
    rmq_message_destroy(message);
    tl_namesrv_stop(ns);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(dead_and_silent_name_servers_are_skipped_within_the_call),
        TL_CASE(an_unknown_host_fails_with_its_name_and_the_process_lives),
        TL_CASE(bad_name_server_lists_are_refused_at_creation),
        TL_CASE(the_environment_names_the_name_server),
        TL_CASE(a_send_makes_its_topic_though_a_consumer_asks_for_it_already),
        TL_CASE(a_topic_without_route_is_an_error_that_names_it),
        TL_CASE(a_send_whose_topic_becomes_readable_only_may_be_stored),
        TL_CASE(sends_go_on_as_soon_as_a_topic_has_a_master_again),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

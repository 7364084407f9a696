/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends that the shutdown of their producer cuts off: whether they may be stored, and the truth of
 * it. What waits for a connection is not stored, and never will be.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS 20000
#define CUT_MS  500

/* What the cut-off sends of a case must say. */
struct expected {
    bool maybe_stored;
    char words[2][160];
    atomic_int ends;
};

static void expect_cut(const rmq_error *err, struct expected *expected)
{
    TL_EQUAL(rmq_error_status(err), RMQ_ERR_CLOSED);
    TL_EQUAL(rmq_error_maybe_stored(err), expected->maybe_stored);
    for (int i = 0; i < 2; i++) {
        if (!strstr(rmq_error_message(err), expected->words[i])) {
            tl_fail(__FILE__, __LINE__, "no \"%s\" in: %s", expected->words[i],
                    rmq_error_message(err));
        }
    }
    atomic_fetch_add(&expected->ends, 1);
}

static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    TL_CHECK(result == NULL);
    expect_cut(err, user);
}

struct sender {
    rmq_producer *producer;
    rmq_message *message;
    struct expected *expected;
};

static void *send_and_wait(void *arg)
{
    struct sender *sender = arg;
    rmq_error *err = NULL;
    TL_EQUAL(rmq_producer_send(sender->producer, sender->message, 0, NULL, &err), RMQ_ERR_CLOSED);
    expect_cut(err, sender->expected);
    rmq_error_destroy(err);
    return NULL;
}

static rmq_producer *producer_of(const char *namesrv, const char *group, bool batches,
                                 rmq_events *events)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = group;
    options.instance_name = "cut";
    options.namesrv_addr = namesrv;
    options.send_msg_timeout_ms = 600000;
    options.auto_batch = batches;
    options.events = events;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static bool is_under_way(void *producer)
{
    rmq_error *err = NULL;
    char *json = NULL;
    TL_OK(rmq_producer_stats(producer, &json, &err));
    bool all = strstr(json, "\"sends\":5,") != NULL;
    rmq_string_free(json);
    return all;
}

/* One of each kind: blocking, with a callback to any queue and by key, with an event. The one
 * before finds the route. */
static void cut_each_kind(const char *namesrv, const char *topic, struct expected *expected,
                          void (*meanwhile)(void *arg), void *arg)
{
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_send_options how;
    pthread_t thread;
    TL_OK(rmq_events_create(&events, &err));
    rmq_producer *producer = producer_of(namesrv, "cut", false, events);
    struct sender sender = {producer, tl_message(topic, "cut", 3), expected};
    rmq_send_options_init(&how, sizeof how);
    how.sharding_key = "key";
    TL_CHECK(rmq_producer_send(producer, sender.message, CUT_MS, NULL, NULL) != RMQ_OK);
    TL_EQUAL(pthread_create(&thread, NULL, send_and_wait, &sender), 0);
    TL_OK(rmq_producer_send_async(producer, sender.message, on_sent, expected, &err));
    TL_OK(rmq_producer_send_async_with(producer, sender.message, &how, on_sent, expected, &err));
    TL_OK(rmq_producer_send_event(producer, sender.message, 7, &err));
    TL_CHECK(tl_wait(is_under_way, producer, WAIT_MS));
    if (meanwhile) {
        meanwhile(arg);
    }
    TL_EQUAL(rmq_producer_shutdown(producer, CUT_MS, NULL), RMQ_ERR_TIMEOUT);
    pthread_join(thread, NULL);
    TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
    expect_cut(rmq_event_error(event), expected);
    rmq_event_destroy(event);
    TL_EQUAL(atomic_load(&expected->ends), 4);
    rmq_producer_destroy(producer);
    rmq_message_destroy(sender.message);
    rmq_events_destroy(events);
}

static void no_send_that_waits_for_its_broker_may_be_stored(void)
{
    char dead[64];
    static struct expected expected = {.words = {"topic Topic"}};
    struct tl_namesrv *ns = tl_namesrv_of_dead("a-dead", dead, sizeof dead);
    snprintf(expected.words[1], sizeof expected.words[1], "a-dead (%s): connect to %s", dead, dead);
    cut_each_kind(tl_namesrv_addr(ns), "Topic", &expected, NULL, NULL);
    tl_namesrv_stop(ns);
}

static void wait_until_asked(void *proxy)
{
    int64_t until = tl_now_ms() + WAIT_MS;
    while (tl_proxy_seen(proxy, 310) < 5) {
        TL_CHECK(tl_now_ms() < until);
        tl_pause(2);
    }
}

static void a_send_that_its_broker_has_got_may_be_stored(void)
{
    struct tl_cluster cluster;
    char brokers[128];
    static struct expected expected = {.maybe_stored = true};
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_proxy *proxy = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct tl_namesrv *ns = tl_namesrv_start();
    TL_CHECK(tl_proxy_script(proxy, "drop response 310 times -1"));
    snprintf(brokers, sizeof brokers, "a@%s", tl_proxy_addr(proxy));
    snprintf(expected.words[0], sizeof expected.words[0], "topic %s", cluster.topic);
    snprintf(expected.words[1], sizeof expected.words[1], "broker a (%s)", tl_proxy_addr(proxy));
    tl_namesrv_brokers(ns, cluster.topic, brokers, 4);
    cut_each_kind(tl_namesrv_addr(ns), cluster.topic, &expected, wait_until_asked, proxy);
    tl_namesrv_stop(ns);
    tl_proxy_stop(proxy);
    tl_cluster_stop(&cluster);
}

/* Neither does a batch that the sends of a producer are gathered in. */
static void messages_of_a_batch_that_waits_are_not_stored(void)
{
    char dead[64];
    rmq_error *err = NULL;
    static struct expected expected = {.words = {"topic Topic"}};
    struct tl_namesrv *ns = tl_namesrv_of_dead("a-dead", dead, sizeof dead);
    rmq_producer *producer = producer_of(tl_namesrv_addr(ns), "cut", true, NULL);
    rmq_message *message = tl_message("Topic", "cut", 3);
    for (int i = 0; i < 20; i++) {
        TL_OK(rmq_producer_send_async(producer, message, on_sent, &expected, &err));
    }
    TL_EQUAL(rmq_producer_shutdown(producer, CUT_MS, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(atomic_load(&expected.ends), 20);
    rmq_producer_destroy(producer);
    rmq_message_destroy(message);
    tl_namesrv_stop(ns);
}

/* Another producer of the client keeps the connection wanted; what was cut off before it came must
 * not go out with it. */
static void what_was_told_as_unsent_is_not_sent_later(void)
{
    char addr[64];
    rmq_error *err = NULL;
    rmq_broker *broker = NULL;
    rmq_broker_config *config = NULL;
    static struct expected expected = {.words = {"topic Topic", "broker late"}};
    struct tl_namesrv *ns = tl_namesrv_of_dead("late", addr, sizeof addr);
    rmq_producer *other = producer_of(tl_namesrv_addr(ns), "other", false, NULL);
    cut_each_kind(tl_namesrv_addr(ns), "Topic", &expected, NULL, NULL);
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "listenPort", strrchr(addr, ':') + 1, &err));
    TL_OK(rmq_broker_start(config, &broker, &err));
    rmq_broker_config_destroy(config);
    rmq_message *message = tl_message("Topic", "cut", 3);
    TL_OK(rmq_producer_send_by_key(other, message, "key", WAIT_MS, NULL, &err));
    TL_OK(rmq_broker_create_topic(broker, "Topic", 8, &err)); /* in any case it is registered now */
    TL_EQUAL(tl_stored(rmq_broker_namesrv_addr(broker), "Topic"), 1);
    rmq_message_destroy(message);
    rmq_producer_destroy(other);
    rmq_broker_stop(broker);
    tl_namesrv_stop(ns);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(no_send_that_waits_for_its_broker_may_be_stored),
        TL_CASE(a_send_that_its_broker_has_got_may_be_stored),
        TL_CASE(messages_of_a_batch_that_waits_are_not_stored),
        TL_CASE(what_was_told_as_unsent_is_not_sent_later),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

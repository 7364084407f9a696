/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Where a send goes and how long it may take when the program says so: keys, groups, choices,
 * time-outs of single sends, codes that are tried again.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define QUEUES  6
#define WAIT_MS 20000
#define SEND_V2 310

struct outcome {
    atomic_int calls;
    atomic_int status;
    atomic_int queue;
};

static void note(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct outcome *outcome = user;
    atomic_store(&outcome->status, err ? (int)rmq_error_status(err) : RMQ_OK);
    atomic_store(&outcome->queue, result ? rmq_send_result_queue_id(result) : -1);
    atomic_fetch_add(&outcome->calls, 1);
}

static bool is_called(void *arg)
{
    return atomic_load(&((struct outcome *)arg)->calls) > 0;
}

static int async_queue(rmq_producer *producer, const rmq_message *message,
                       const rmq_send_options *how)
{
    rmq_error *err = NULL;
    struct outcome outcome = {0};
    TL_OK(rmq_producer_send_async_with(producer, message, how, note, &outcome, &err));
    TL_CHECK(tl_wait(is_called, &outcome, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.status), RMQ_OK);
    return atomic_load(&outcome.queue);
}

static void a_key_names_the_same_queue_in_every_kind_of_send(void)
{
    /* Java: Math.abs(key.hashCode() % 6) */
    static const struct {
        const char *key;
        int queue;
    } keys[] = {{"", 0}, {"a", 1}, {"order-17", -1}, {"polygenelubricants", 2}};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "target", 6);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        rmq_send_result *result = NULL;
        rmq_send_options how;
        rmq_send_options_init(&how, sizeof how);
        how.sharding_key = keys[i].key;
        TL_OK(rmq_producer_send_by_key(producer, message, keys[i].key, 0, &result, &err));
        int queue = rmq_send_result_queue_id(result);
        rmq_send_result_destroy(result);
        TL_CHECK(keys[i].queue < 0 || queue == keys[i].queue);
        TL_EQUAL(async_queue(producer, message, &how), queue);
        how.sharding_key = NULL;
        how.choice = rmq_choose_by_hash;
        char key[32];
        snprintf(key, sizeof key, "%s", keys[i].key);
        how.choice_user = key;
        TL_OK(rmq_producer_send_with(producer, message, &how, &result, &err));
        TL_EQUAL(rmq_send_result_queue_id(result), queue);
        rmq_send_result_destroy(result);
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_message_group_keeps_to_one_queue(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "target", 6);
    TL_EQUAL(rmq_message_set_message_group(message, " "), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_message_set_message_group(message, "order-17"), RMQ_OK);
    TL_CHECK(strcmp(rmq_message_property(message, "__SHARDINGKEY"), "order-17") == 0);
    TL_OK(rmq_producer_send_by_key(producer, message, "order-17", 0, &result, &err));
    int queue = rmq_send_result_queue_id(result);
    rmq_send_result_destroy(result);
    for (int i = 0; i < 8; i++) {
        TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
        TL_EQUAL(rmq_send_result_queue_id(result), queue);
        rmq_send_result_destroy(result);
        TL_EQUAL(async_queue(producer, message, NULL), queue);
    }
    /* Without the group the queues take turns again. */
    TL_EQUAL(rmq_message_set_message_group(message, ""), RMQ_OK);
    TL_CHECK(*rmq_message_property(message, "__SHARDINGKEY") == '\0');
    bool other = false;
    for (int i = 0; i < QUEUES; i++) {
        other = async_queue(producer, message, NULL) != queue || other;
    }
    TL_CHECK(other);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* A batch goes to one queue, so its messages are of one group, unless the send names the queue. */
static void a_batch_is_of_one_message_group(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_options how;
    struct outcome outcome = {0};
    size_t stored = 0;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *list[4];
    for (int i = 0; i < 4; i++) {
        list[i] = tl_message(cluster.topic, "target", 6);
        TL_OK(rmq_message_set_message_group(list[i], i < 2 ? "a" : i == 2 ? "b" : ""));
    }
    const rmq_message *const *all = (const rmq_message *const *)list;
    TL_OK(rmq_producer_send_batch(producer, all, 2, 0, NULL, &err));
    TL_EQUAL(rmq_producer_send_batch(producer, all, 3, 0, NULL, &err), RMQ_ERR_INVALID);
    TL_CHECK(strstr(rmq_error_message(err), "message 2 of the batch has message group \"b\""));
    rmq_error_destroy(err);
    err = NULL;
    TL_EQUAL(rmq_producer_send_batch(producer, all + 2, 2, 0, NULL, NULL), RMQ_ERR_INVALID);
    TL_OK(rmq_producer_send_all(producer, all, 4, 0, &stored, &err));
    TL_EQUAL(stored, 4);
    rmq_send_options_init(&how, sizeof how);
    how.sharding_key = "c";
    TL_OK(rmq_producer_send_batch_async(producer, all, 4, &how, note, &outcome, &err));
    TL_CHECK(tl_wait(is_called, &outcome, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.status), RMQ_OK);
    for (int i = 0; i < 4; i++) {
        rmq_message_destroy(list[i]);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static size_t of_a_broker(const rmq_message *message, const rmq_queues *queues, void *user)
{
    size_t i = 0;
    (void)message;
    while (i < rmq_queues_count(queues) && strcmp(rmq_queues_broker_name(queues, i), user) != 0) {
        i++;
    }
    return i;
}

static void choices_see_the_queues_sorted_by_broker_and_id(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_queues *queues = NULL;
    rmq_send_result *result = NULL;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_namesrv *ns = tl_namesrv_start();
    const char *addr = rmq_broker_addr(cluster.broker);
    char body[1024];
    snprintf(
        body, sizeof body,
        "{\"brokerDatas\":[{\"brokerAddrs\":{\"0\":\"%s\"},\"brokerName\":\"south@b\",\"cluster\":"
        "\"c\"},{\"brokerAddrs\":{\"0\":\"%s\"},\"brokerName\":\"north@a\",\"cluster\":\"c\"}],"
        "\"filterServerTable\":{},\"queueDatas\":[{\"brokerName\":\"south@b\",\"perm\":6,"
        "\"readQueueNums\":2,\"topicSysFlag\":0,\"writeQueueNums\":2},{\"brokerName\":\"north@a\","
        "\"perm\":6,\"readQueueNums\":2,\"topicSysFlag\":0,\"writeQueueNums\":2}]}",
        addr, addr);
    tl_namesrv_route(ns, cluster.topic, 0, body);
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = cluster.group;
    options.namesrv_addr = tl_namesrv_addr(ns);
    rmq_producer *producer = NULL;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    TL_OK(rmq_producer_publish_queues(producer, cluster.topic, 0, &queues, &err));
    static const char *const names[] = {"north@a", "north@a", "south@b", "south@b"};
    TL_EQUAL(rmq_queues_count(queues), 4);
    for (size_t i = 0; i < 4; i++) {
        TL_CHECK(strcmp(rmq_queues_broker_name(queues, i), names[i]) == 0);
        TL_EQUAL(rmq_queues_queue_id(queues, i), (int)i % 2);
    }
    TL_CHECK(rmq_queues_broker_name(queues, 4) == NULL);
    rmq_queues_free(queues);

    rmq_message *message = tl_message(cluster.topic, "target", 6);
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    char room[] = "east,north";
    int seen[2] = {0};
    how.choice = rmq_choose_by_machine_room;
    how.choice_user = room;
    for (int i = 0; i < 8; i++) {
        TL_OK(rmq_producer_send_with(producer, message, &how, &result, &err));
        TL_CHECK(strcmp(rmq_send_result_broker_name(result), "north@a") == 0);
        seen[rmq_send_result_queue_id(result)]++;
        rmq_send_result_destroy(result);
    }
    TL_CHECK(seen[0] == 4 && seen[1] == 4);
    char wanted[] = "south@b";
    how.choice = of_a_broker;
    how.choice_user = wanted;
    TL_OK(rmq_producer_send_with(producer, message, &how, &result, &err));
    TL_CHECK(strcmp(rmq_send_result_broker_name(result), "south@b") == 0);
    rmq_send_result_destroy(result);
    how.choice = rmq_choose_by_random;
    for (int i = 0; i < 20; i++) {
        TL_OK(rmq_producer_send_with(producer, message, &how, NULL, &err));
    }
    char nowhere[] = "nowhere";
    how.choice = of_a_broker;
    how.choice_user = nowhere;
    TL_EQUAL(rmq_producer_send_with(producer, message, &how, NULL, NULL), RMQ_ERR_INVALID);
    how.sharding_key = "two ways";
    TL_EQUAL(rmq_producer_send_with(producer, message, &how, NULL, NULL), RMQ_ERR_INVALID);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(ns);
    tl_cluster_stop(&cluster);
}

/* A producer behind a detour whose own deadline is beyond that of the case. */
static rmq_producer *patient_producer(const struct tl_detour *detour, const char *codes)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    options = tl_producer_options(&detour->through);
    options.send_msg_timeout_ms = 600000;
    options.retry_response_codes = codes ? codes : options.retry_response_codes;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void a_send_may_have_a_deadline_of_its_own(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    tl_detour_start(&detour, 4, NULL);
    rmq_producer *producer = patient_producer(&detour, NULL);
    rmq_message *message = tl_message(detour.cluster.topic, "target", 6);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    tl_proxy_blackhole(detour.proxy, true);
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = 100;
    struct outcome outcome = {0};
    TL_OK(rmq_producer_send_async_with(producer, message, &how, note, &outcome, &err));
    TL_CHECK(tl_wait(is_called, &outcome, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.status), RMQ_ERR_TIMEOUT);
    TL_EQUAL(rmq_producer_send_with(producer, message, &how, NULL, &err), RMQ_ERR_TIMEOUT);
    TL_CHECK(rmq_error_maybe_stored(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

static void the_codes_that_are_tried_again_can_be_chosen(void)
{
    struct tl_detour detour;
    rmq_error *err = NULL;
    tl_detour_start(&detour, 4, NULL);
    rmq_producer *producer = patient_producer(&detour, "215,16");
    rmq_message *message = tl_message(detour.cluster.topic, "target", 6);
    TL_CHECK(tl_proxy_script(detour.proxy, "answer request 310 times 2 code 215 remark flow"));
    TL_OK(rmq_producer_send(producer, message, WAIT_MS, NULL, &err));
    TL_EQUAL(tl_proxy_seen(detour.proxy, SEND_V2), 3);
    TL_CHECK(tl_proxy_script(detour.proxy, "answer request 310 times 1 code 2 remark busy"));
    TL_EQUAL(rmq_producer_send(producer, message, WAIT_MS, NULL, &err), RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 2);
    TL_CHECK(!rmq_error_retriable(err));
    TL_EQUAL(tl_proxy_seen(detour.proxy, SEND_V2), 4);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_producer *none = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "g";
    options.namesrv_addr = "127.0.0.1:1";
    options.retry_response_codes = "1;2";
    TL_EQUAL(rmq_producer_create(&options, &none, NULL), RMQ_ERR_INVALID);
    tl_detour_stop(&detour);
}

static void a_batch_can_be_sent_without_waiting(void)
{
    struct tl_cluster cluster;
    static struct tl_seen seen;
    struct outcome outcome = {0};
    rmq_error *err = NULL;
    rmq_message *messages[20];
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 20; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        messages[i] = tl_message(cluster.topic, "target", 6);
        TL_EQUAL(rmq_message_set_property(messages[i], "n", number), RMQ_OK);
    }
    TL_OK(rmq_producer_send_batch_async(producer, (const rmq_message *const *)messages, 20, NULL,
                                        note, &outcome, &err));
    for (int i = 0; i < 20; i++) {
        rmq_message_destroy(messages[i]);
    }
    TL_CHECK(tl_wait(is_called, &outcome, WAIT_MS));
    TL_EQUAL(atomic_load(&outcome.status), RMQ_OK);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 20, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void sends_go_to_the_vip_port_when_asked_to(void)
{
    struct tl_cluster cluster;
    char brokers[256];
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 4);
    tl_cluster_needs_own(&cluster);
    struct tl_proxy *vip = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct tl_namesrv *ns = tl_namesrv_start();
    int port = atoi(strrchr(tl_proxy_addr(vip), ':') + 1);
    snprintf(brokers, sizeof brokers, "a@127.0.0.1:%d", port + 2); /* nobody need listen there */
    tl_namesrv_brokers(ns, cluster.topic, brokers, 4);
    tl_producer_options_init(&options);
    options.producer_group = cluster.group;
    options.namesrv_addr = tl_namesrv_addr(ns);
    options.vip_channel_enabled = true;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "target", 6);
    TL_OK(rmq_producer_send(producer, message, WAIT_MS, NULL, &err));
    TL_OK(rmq_producer_send_oneway(producer, message, &err));
    TL_CHECK(async_queue(producer, message, NULL) >= 0);
    TL_CHECK(tl_proxy_seen(vip, SEND_V2) >= 2);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(ns);
    tl_proxy_stop(vip);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_key_names_the_same_queue_in_every_kind_of_send),
        TL_CASE(a_message_group_keeps_to_one_queue),
        TL_CASE(a_batch_is_of_one_message_group),
        TL_CASE(choices_see_the_queues_sorted_by_broker_and_id),
        TL_CASE(a_send_may_have_a_deadline_of_its_own),
        TL_CASE(the_codes_that_are_tried_again_can_be_chosen),
        TL_CASE(a_batch_can_be_sent_without_waiting),
        TL_CASE(sends_go_to_the_vip_port_when_asked_to),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

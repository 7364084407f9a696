/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The whole line: a producer, a broker, a push consumer. Runs against the broker in the process, or
 * any with RMQ_NAMESRV.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 15000

static void a_listener_gets_what_was_sent(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 500);
    tl_seen_wait(&seen, 500, WAIT_MS);
    TL_EQUAL(atomic_load(&seen.total), 500);
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void poll_gets_what_was_sent(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int64_t end = tl_now_ms() + WAIT_MS;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 100);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", NULL, NULL);
    while (atomic_load(&seen.different) < 100 && tl_now_ms() < end) {
        rmq_batch *batch = NULL;
        rmq_status st = rmq_consumer_poll(consumer, &batch, 500, NULL);
        if (st == RMQ_ERR_TIMEOUT) {
            continue;
        }
        TL_EQUAL(st, RMQ_OK);
        for (size_t i = 0; i < rmq_batch_count(batch); i++) {
            tl_seen_add(&seen, rmq_batch_at(batch, i));
        }
        TL_CHECK(rmq_batch_at(batch, rmq_batch_count(batch)) == NULL);
        TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
        TL_EQUAL(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL), RMQ_ERR_INVALID);
        rmq_batch_destroy(batch);
    }
    TL_EQUAL(atomic_load(&seen.different), 100);
    TL_EQUAL(atomic_load(&seen.total), 100);
    rmq_batch *none = NULL;
    TL_EQUAL(rmq_consumer_poll(consumer, &none, 0, NULL), RMQ_ERR_TIMEOUT);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* One message through poll; the batch is the caller's. */
static rmq_batch *take_one(rmq_consumer *consumer)
{
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_poll(consumer, &batch, WAIT_MS, &err));
    TL_EQUAL(rmq_batch_count(batch), 1);
    return batch;
}

static void every_field_arrives(void)
{
    static const char body[] = "b\0d\xff y";
    struct tl_cluster cluster;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    rmq_error *err = NULL;
    size_t size = 0;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, "标签"));
    TL_OK(rmq_message_add_key(message, "k1"));
    TL_OK(rmq_message_add_key(message, "k2"));
    TL_OK(rmq_message_set_property(message, "name", "ünï \"quoted\" \\"));
    rmq_message_set_flag(message, 42);
    TL_OK(rmq_message_copy_body(message, body, sizeof body));
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    rmq_consumer *consumer = tl_consumer(&cluster, "*", NULL, NULL);
    rmq_batch *batch = take_one(consumer);
    const rmq_message_view *view = rmq_batch_at(batch, 0);
    TL_CHECK(strcmp(rmq_message_view_topic(view), cluster.topic) == 0);
    TL_CHECK(strcmp(rmq_message_view_tag(view), "标签") == 0);
    TL_CHECK(strcmp(rmq_message_view_keys(view), "k1 k2") == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "name"), "ünï \"quoted\" \\") == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "absent"), "") == 0);
    TL_CHECK(strcmp(rmq_message_view_id(view), rmq_send_result_msg_id(result)) == 0);
    TL_CHECK(strcmp(rmq_message_view_offset_id(view), rmq_send_result_offset_msg_id(result)) == 0);
    TL_CHECK(strcmp(rmq_message_view_broker_name(view), rmq_send_result_broker_name(result)) == 0);
    TL_EQUAL(rmq_message_view_queue_id(view), rmq_send_result_queue_id(result));
    TL_EQUAL(rmq_message_view_queue_offset(view), rmq_send_result_queue_offset(result));
    TL_EQUAL(rmq_message_view_flag(view), 42);
    TL_EQUAL(rmq_message_view_reconsume_times(view), 0);
    TL_CHECK(rmq_message_view_store_timestamp_ms(view) >= rmq_message_view_born_timestamp_ms(view));
    TL_CHECK(memcmp(rmq_message_view_body(view, &size), body, sizeof body) == 0);
    TL_EQUAL(size, sizeof body);
    const rmq_message_view *kept = rmq_message_view_retain(view);
    TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(batch);
    rmq_consumer_destroy(consumer);
    TL_CHECK(strcmp(rmq_message_view_keys(kept), "k1 k2") == 0); /* outlives batch and consumer */
    rmq_message_view_release(kept);
    rmq_message_destroy(message);
    rmq_send_result_destroy(result);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_client_is_opened_with_options_as_text(void)
{
    struct tl_cluster cluster;
    rmq_producer *producer = NULL;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    char options[512];
    tl_cluster_start(&cluster, 1);
    snprintf(options, sizeof options, "producerGroup=%s;namesrvAddr=%s", cluster.group,
             cluster.namesrv);
    TL_OK(rmq_producer_open(options, &producer, &err));
    TL_OK(rmq_producer_send_body(producer, cluster.topic, "order 17", 8, 0, NULL, &err));
    snprintf(options, sizeof options,
             "consumerGroup=%s;namesrvAddr=%s;consumeFromWhere=CONSUME_FROM_FIRST_OFFSET",
             cluster.group, cluster.namesrv);
    TL_OK(rmq_consumer_open(options, cluster.topic, "*", NULL, NULL, &consumer, &err));
    rmq_batch *batch = take_one(consumer);
    const char *body = rmq_message_view_body(rmq_batch_at(batch, 0), NULL);
    TL_CHECK(strcmp(body, "order 17") == 0);
    TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(batch);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void expect_refused(rmq_status st, rmq_error *err, const char *words)
{
    TL_EQUAL(st, RMQ_ERR_INVALID);
    if (!strstr(rmq_error_message(err), words)) {
        tl_fail(__FILE__, __LINE__, "\"%s\" does not say %s", rmq_error_message(err), words);
    }
    rmq_error_destroy(err);
}

static void what_cannot_be_opened_is_told_and_nothing_is_left(void)
{
    static const char group[] = "consumerGroup=readers;namesrvAddr=127.0.0.1:1";
    rmq_producer *producer = NULL;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_producer_open("producerGroop=shop", &producer, &err);
    expect_refused(st, err, "producerGroup");
    err = NULL;
    st = rmq_producer_open(NULL, &producer, &err);
    expect_refused(st, err, "text is required");
    err = NULL;
    st = rmq_consumer_open(group, "no topic", "*", NULL, NULL, &consumer, &err);
    expect_refused(st, err, "no topic");
    TL_CHECK(producer == NULL && consumer == NULL);
}

static void send_tagged(const struct tl_cluster *cluster, rmq_producer *producer, const char *tag,
                        int number)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_set_tag(message, tag));
    TL_OK(rmq_message_set_property(message, "n", text));
    TL_OK(rmq_message_copy_body(message, text, strlen(text)));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
}

static void tags_with_equal_hashes_are_told_apart(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 100; i++) { /* Aa and BB have the same hash */
        send_tagged(&cluster, producer, i % 2 == 0 ? "Aa" : "BB", i);
    }
    for (int i = 100; i < 150; i++) {
        send_tagged(&cluster, producer, i % 2 == 0 ? "标签甲" : "other", i);
    }
    rmq_consumer *consumer = tl_consumer(&cluster, "Aa || 标签甲", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 75, WAIT_MS);
    send_tagged(&cluster, producer, "BB", 151);
    send_tagged(&cluster, producer, "Aa", 152);
    tl_seen_wait(&seen, 76, WAIT_MS);
    for (int i = 0; i < 153; i++) {
        bool wanted = i < 150 ? i % 2 == 0 : i == 152;
        TL_EQUAL(atomic_load(&seen.times[i]), wanted ? 1 : 0);
    }
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct sent {
    atomic_int good, bad;
};

static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct sent *sent = user;
    atomic_fetch_add(result != NULL && err == NULL ? &sent->good : &sent->bad, 1);
}

static void every_asynchronous_send_completes_once(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    struct sent sent = {0};
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 5000; i++) {
        rmq_message *message = NULL;
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        TL_OK(rmq_message_create(cluster.topic, &message, &err));
        TL_OK(rmq_message_set_property(message, "n", text));
        TL_OK(rmq_message_copy_body(message, text, strlen(text)));
        TL_OK(rmq_producer_send_async(producer, message, on_sent, &sent, &err));
        rmq_message_destroy(message);
    }
    TL_OK(rmq_producer_shutdown(producer, WAIT_MS, &err));
    TL_EQUAL(atomic_load(&sent.good), 5000);
    TL_EQUAL(atomic_load(&sent.bad), 0);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 5000, WAIT_MS);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_batch_is_one_request_with_an_id_for_each(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    rmq_message *messages[50];
    rmq_send_result *result = NULL;
    rmq_error *err = NULL;
    int commas = 0;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 50; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        TL_OK(rmq_message_create(cluster.topic, &messages[i], &err));
        TL_OK(rmq_message_set_property(messages[i], "n", text));
        TL_OK(rmq_message_copy_body(messages[i], text, strlen(text)));
    }
    TL_OK(rmq_producer_send_batch(producer, (const rmq_message *const *)messages, 50, 0, &result,
                                  &err));
    for (const char *p = rmq_send_result_msg_id(result); *p != '\0'; p++) {
        commas += *p == ',';
    }
    TL_EQUAL(commas, 49);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 50, WAIT_MS);
    for (int i = 0; i < 50; i++) {
        rmq_message_destroy(messages[i]);
    }
    rmq_send_result_destroy(result);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void large_bodies_are_compressed_and_come_back(void)
{
    static const char *const ways[] = {"ZLIB", "LZ4", "ZSTD", "NONE"};
    static char body[100000];
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (char)('a' + i * i % 23);
    }
    rmq_consumer *consumer = tl_consumer(&cluster, "*", NULL, NULL);
    for (int i = 0; i < 4; i++) {
        rmq_producer_options options;
        rmq_producer *producer = NULL;
        rmq_message *message = NULL;
        size_t size = 0;
        tl_producer_options_init(&options);
        options.producer_group = "compressing";
        options.namesrv_addr = cluster.namesrv;
        options.compress_type = ways[i];
        TL_OK(rmq_producer_create(&options, &producer, &err));
        TL_OK(rmq_message_create(cluster.topic, &message, &err));
        TL_OK(rmq_message_borrow_body(message, body, sizeof body));
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_batch *batch = take_one(consumer);
        const void *got = rmq_message_view_body(rmq_batch_at(batch, 0), &size);
        TL_EQUAL(size, sizeof body);
        TL_CHECK(memcmp(got, body, size) == 0);
        TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(batch);
        rmq_message_destroy(message);
        rmq_producer_destroy(producer);
    }
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void a_group_goes_on_where_it_stopped(void)
{
    static struct tl_seen first;
    static struct tl_seen second;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 40);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &first);
    tl_seen_wait(&first, 40, WAIT_MS);
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    rmq_consumer_destroy(consumer);
    tl_send(&cluster, producer, "m", 40, 40);
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &second);
    tl_seen_wait(&second, 40, WAIT_MS);
    for (int i = 0; i < 80; i++) {
        TL_EQUAL(atomic_load(&first.times[i]), i < 40);
        TL_EQUAL(atomic_load(&second.times[i]), i >= 40);
    }
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void shares_move_when_members_come_and_go(void)
{
    static struct tl_seen seen; /* of both */
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *one = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 0, 100);
    rmq_consumer *two = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", 100, 100);
    tl_seen_wait(&seen, 200, WAIT_MS);
    TL_OK(rmq_consumer_shutdown(one, 0, &err));
    rmq_consumer_destroy(one);
    tl_send(&cluster, producer, "m", 200, 100);
    tl_seen_wait(&seen, 300, WAIT_MS);
    rmq_consumer_destroy(two);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Refuses each message the first time. */
static rmq_consume_result later_once(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    (void)count;
    rmq_consume_context_set_delay_level(context, 1);
    if (rmq_message_view_reconsume_times(messages[0]) == 0) {
        return RMQ_RECONSUME_LATER;
    }
    tl_seen_add(user, messages[0]);
    return RMQ_CONSUME_SUCCESS;
}

static void what_is_refused_comes_again(void)
{
    static struct tl_seen seen;
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", later_once, &seen);
    tl_send(&cluster, producer, "m", 0, 20);
    tl_seen_wait(&seen, 20, 20000); /* delay level 1 is a second */
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static const struct tl_case cases[] = {
    TL_CASE(a_listener_gets_what_was_sent),
    TL_CASE(poll_gets_what_was_sent),
    TL_CASE(every_field_arrives),
    TL_CASE(a_client_is_opened_with_options_as_text),
    TL_CASE(what_cannot_be_opened_is_told_and_nothing_is_left),
    TL_CASE(tags_with_equal_hashes_are_told_apart),
    TL_CASE(every_asynchronous_send_completes_once),
    TL_CASE(a_batch_is_one_request_with_an_id_for_each),
    TL_CASE(large_bodies_are_compressed_and_come_back),
    TL_CASE(a_group_goes_on_where_it_stopped),
    TL_CASE(shares_move_when_members_come_and_go),
    TL_CASE(what_is_refused_comes_again),
};

int main(int argc, char **argv)
{
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

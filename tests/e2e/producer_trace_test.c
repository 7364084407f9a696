/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The message trace: what is recorded of sends and listener calls, when it is sent, what is
 * dropped. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS 20000

/* Each case has a trace topic of its own: a real broker keeps what is there. */
static void trace_topic(const struct tl_cluster *cluster, char *out, size_t room)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    snprintf(out, room, "Trace-%s", cluster->topic);
    TL_OK(rmq_admin_create(cluster->namesrv, &admin, &err));
    TL_OK(rmq_admin_create_topic(admin, NULL, out, 1, 1, 6, 0, &err));
    rmq_admin_destroy(admin);
}

static rmq_producer *traced(const struct tl_cluster *cluster, const char *topic)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options = tl_producer_options(cluster);
    options.enable_msg_trace = true;
    options.customized_trace_topic = topic;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

/* Text of all trace messages that there are, and the keys of the last. */
struct records {
    char text[65536];
    char keys[4096];
    size_t messages;
};

static void read_records(const struct tl_cluster *cluster, const char *topic, size_t wanted,
                         struct records *records)
{
    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;
    size_t len = 0;
    memset(records, 0, sizeof *records);
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    while (records->messages < wanted) {
        rmq_batch *batch = NULL;
        TL_OK(rmq_consumer_poll(consumer, &batch, WAIT_MS, &err));
        for (size_t i = 0; i < rmq_batch_count(batch); i++) {
            const rmq_message_view *view = rmq_batch_at(batch, i);
            size_t size = 0;
            const void *body = rmq_message_view_body(view, &size);
            TL_CHECK(len + size < sizeof records->text);
            memcpy(records->text + len, body, size);
            len += size;
            snprintf(records->keys, sizeof records->keys, "%s", rmq_message_view_keys(view));
            records->messages++;
        }
        TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(batch);
    }
    rmq_consumer_destroy(consumer);
}

static rmq_message *message_of(const struct tl_cluster *cluster, const char *key)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_EQUAL(rmq_message_set_tag(message, "tag"), RMQ_OK);
    TL_EQUAL(rmq_message_add_key(message, key), RMQ_OK);
    TL_EQUAL(rmq_message_copy_body(message, "traced", 6), RMQ_OK);
    return message;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what)) {
        n++;
    }
    return n;
}

static void each_send_leaves_a_record_that_is_found_by_id_and_key(void)
{
    struct tl_cluster cluster;
    static struct records records;
    char topic[128];
    char id[64];
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    tl_cluster_start(&cluster, 2);
    trace_topic(&cluster, topic, sizeof topic);
    rmq_producer *producer = traced(&cluster, topic);
    rmq_message *message = message_of(&cluster, "order-17");
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    snprintf(id, sizeof id, "%s", rmq_send_result_msg_id(result));
    char offset_id[64];
    snprintf(offset_id, sizeof offset_id, "%s", rmq_send_result_offset_msg_id(result));
    rmq_send_result_destroy(result);
    TL_OK(rmq_producer_shutdown(producer, 0, &err)); /* sends what is still collected */
    uint64_t sent = 0;
    uint64_t dropped = 0;
    rmq_producer_trace_counts(producer, &sent, &dropped);
    TL_EQUAL(sent, 1);
    TL_EQUAL(dropped, 0);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    read_records(&cluster, topic, 1, &records);
    TL_CHECK(strncmp(records.text, "Pub\001", 4) == 0);
    char wanted[256];
    snprintf(wanted, sizeof wanted, "\001%s\001%s\001%s\001tag\001order-17\001", cluster.group,
             cluster.topic, id);
    TL_CHECK(strstr(records.text, wanted) != NULL);
    snprintf(wanted, sizeof wanted, "\0010\001%s\001true\002", offset_id);
    TL_CHECK(strstr(records.text, wanted) != NULL);
    snprintf(wanted, sizeof wanted, "%s order-17", id);
    TL_CHECK(strcmp(records.keys, wanted) == 0);
    tl_cluster_stop(&cluster);
}

static void records_travel_ten_in_a_message_and_a_batch_has_one_for_each(void)
{
    struct tl_cluster cluster;
    static struct records records;
    char topic[128];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    trace_topic(&cluster, topic, sizeof topic);
    rmq_producer *producer = traced(&cluster, topic);
    rmq_message *message = message_of(&cluster, "k");
    for (int i = 0; i < 7; i++) {
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    }
    const rmq_message *batch[] = {message, message, message};
    TL_OK(rmq_producer_send_batch(producer, batch, 3, 0, NULL, &err));
    read_records(&cluster, topic, 1, &records);
    TL_EQUAL(count_of(records.text, "Pub\001"), 10);
    TL_EQUAL(count_of(records.text, "\001true\002"), 10);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void the_trace_can_be_switched_at_any_time(void)
{
    struct tl_cluster cluster;
    static struct records records;
    char topic[128];
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 2);
    trace_topic(&cluster, topic, sizeof topic);
    options = tl_producer_options(&cluster);
    options.customized_trace_topic = topic;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = message_of(&cluster, "k");
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_set_trace(producer, true, &err));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_set_trace(producer, false, &err));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_set_trace(producer, true, &err));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    TL_EQUAL(rmq_producer_set_trace(producer, true, NULL), RMQ_ERR_CLOSED);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    read_records(&cluster, topic, 1, &records);
    TL_EQUAL(count_of(records.text, "Pub\001"), 2);
    tl_cluster_stop(&cluster);
}

static void records_beyond_the_bound_are_dropped_and_counted(void)
{
    struct tl_cluster cluster;
    char brokers[256];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    struct tl_proxy *proxy = tl_proxy_start(rmq_broker_addr(cluster.broker));
    struct tl_namesrv *ns = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "a@%s", rmq_broker_addr(cluster.broker));
    tl_namesrv_brokers(ns, cluster.topic, brokers, 2);
    snprintf(brokers, sizeof brokers, "b@%s", tl_proxy_addr(proxy));
    tl_namesrv_brokers(ns, "Hole", brokers, 2);
    TL_CHECK(tl_proxy_script(proxy, "drop request 310"));
    snprintf(cluster.namesrv, sizeof cluster.namesrv, "%s", tl_namesrv_addr(ns));
    rmq_producer *producer = traced(&cluster, "Hole");
    rmq_message *message = message_of(&cluster, "k");
    const rmq_message *batch[100];
    for (int i = 0; i < 100; i++) {
        batch[i] = message;
    }
    for (int i = 0; i < 30; i++) {
        TL_OK(rmq_producer_send_batch(producer, batch, 100, 0, NULL, &err));
    }
    uint64_t dropped = 0;
    rmq_producer_trace_counts(producer, NULL, &dropped);
    TL_EQUAL(dropped, 3000 - 2048);
    TL_OK(rmq_producer_shutdown(producer, 100, &err));
    uint64_t sent = 1;
    rmq_producer_trace_counts(producer, &sent, &dropped);
    TL_EQUAL(sent, 0);
    TL_EQUAL(dropped, 3000);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(ns);
    tl_proxy_stop(proxy);
    tl_cluster_stop(&cluster);
}

static rmq_transaction_state by_user(const rmq_message *message, const char *id, void *user)
{
    (void)message;
    (void)id;
    return *(const rmq_transaction_state *)user;
}

static void the_end_of_a_transaction_leaves_a_record(void)
{
    static const rmq_transaction_state states[] = {RMQ_TRANSACTION_COMMIT, RMQ_TRANSACTION_ROLLBACK,
                                                   RMQ_TRANSACTION_UNKNOWN};
    static const char *const names[] = {"COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"};
    static struct records records;
    struct tl_cluster cluster;
    char topic[128];
    char wanted[3][256];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    trace_topic(&cluster, topic, sizeof topic);
    rmq_producer *producer = traced(&cluster, topic);
    rmq_message *message = message_of(&cluster, "order-17");
    for (int i = 0; i < 3; i++) {
        rmq_send_result *result = NULL;
        rmq_transaction_state state = states[i];
        TL_OK(rmq_producer_send_in_transaction(producer, message, by_user, &state, 0, NULL, &result,
                                               &err));
        const char *id = rmq_send_result_msg_id(result);
        snprintf(wanted[i], sizeof wanted[i], "\001%s\001%s\001%s\001tag\001order-17\001",
                 cluster.group, cluster.topic, id);
        TL_CHECK(strlen(wanted[i]) < 200);
        rmq_send_result_destroy(result);
    }
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    read_records(&cluster, topic, 1, &records);
    TL_EQUAL(count_of(records.text, "Pub\001"), 3);
    TL_EQUAL(count_of(records.text, "EndTransaction\001"), 3);
    for (int i = 0; i < 3; i++) {
        char end[64];
        snprintf(end, sizeof end, "\001%s\001false\002", names[i]);
        TL_EQUAL(count_of(records.text, wanted[i]), 2); /* of the half message, and of its end */
        TL_EQUAL(count_of(records.text, end), 1);
    }
    tl_cluster_stop(&cluster);
}

static rmq_consume_result later_once(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    (void)context;
    (void)count;
    atomic_fetch_add((atomic_int *)user, 1);
    return rmq_message_view_reconsume_times(messages[0]) == 0 ? RMQ_RECONSUME_LATER
                                                              : RMQ_CONSUME_SUCCESS;
}

static bool is_once(void *arg)
{
    return atomic_load((atomic_int *)arg) >= 1;
}

static void each_listener_call_leaves_records_before_and_after(void)
{
    struct tl_cluster cluster;
    static struct records records;
    static atomic_int calls;
    char topic[128];
    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;
    tl_cluster_start(&cluster, 1);
    trace_topic(&cluster, topic, sizeof topic);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = message_of(&cluster, "order-17");
    rmq_send_result *result = NULL;
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "traced-readers";
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.listener = later_once;
    options.listener_user = &calls;
    options.enable_msg_trace = true;
    options.customized_trace_topic = topic;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(is_once, &calls, WAIT_MS));
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    uint64_t sent = 0;
    uint64_t dropped = 0;
    rmq_consumer_trace_counts(consumer, &sent, &dropped);
    TL_EQUAL(sent, 2);
    TL_EQUAL(dropped, 0);
    TL_EQUAL(rmq_consumer_set_trace(consumer, true, NULL), RMQ_ERR_CLOSED);
    rmq_consumer_destroy(consumer);
    read_records(&cluster, topic, 1, &records);
    char request[64] = "";
    const char *id = rmq_send_result_msg_id(result);
    char wanted[256];
    TL_EQUAL(sscanf(records.text,
                    "SubBefore\001%*[0-9]\001%*[^\001]\001traced-readers\001%63[0-9A-F]", request),
             1);
    snprintf(wanted, sizeof wanted, "\001%s\001%s\0010\001order-17\002", request, id);
    TL_CHECK(strstr(records.text, wanted) != NULL);
    snprintf(wanted, sizeof wanted, "SubAfter\001%s\001%s\001", request, id);
    TL_CHECK(strstr(records.text, wanted) != NULL);
    TL_CHECK(strstr(records.text, "\001false\001order-17\0014\001") != NULL);
    snprintf(wanted, sizeof wanted, "%s order-17", id);
    TL_CHECK(strcmp(records.keys, wanted) == 0); /* once each, though two records have them */
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(each_send_leaves_a_record_that_is_found_by_id_and_key),
        TL_CASE(records_travel_ten_in_a_message_and_a_batch_has_one_for_each),
        TL_CASE(the_trace_can_be_switched_at_any_time),
        TL_CASE(records_beyond_the_bound_are_dropped_and_counted),
        TL_CASE(the_end_of_a_transaction_leaves_a_record),
        TL_CASE(each_listener_call_leaves_records_before_and_after),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

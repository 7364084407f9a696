/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Administration through the public API: topics, routes, clusters, offsets, groups, messages by
 * id. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 10000

static void a_created_topic_can_be_used_at_once(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    char *text = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    tl_cluster_start(&cluster, 4);
    rmq_admin *admin = tl_admin(&cluster);
    snprintf(cluster.topic + strlen(cluster.topic), 8, "-made");
    TL_EQUAL(rmq_admin_topic_route(admin, cluster.topic, 0, &text, &err), RMQ_ERR_NO_ROUTE);
    TL_CHECK(strstr(rmq_error_message(err), cluster.topic) != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_OK(rmq_admin_create_topic(admin, NULL, cluster.topic, 3, 3, 6, WAIT_MS, &err));
    TL_OK(rmq_admin_topic_route(admin, cluster.topic, 0, &text, &err));
    TL_CHECK(strstr(text, "\"readQueueNums\":3") != NULL);
    rmq_string_free(text);
    TL_OK(rmq_admin_topic_list(admin, 0, &text, &err));
    TL_CHECK(tl_has_line(text, cluster.topic));
    rmq_string_free(text);
    TL_OK(rmq_admin_topic_status(admin, cluster.topic, 0, &list, &count, &err));
    TL_EQUAL(count, 3);
    for (size_t i = 0; i < count; i++) {
        TL_EQUAL(list[i].queue_id, i);
        TL_EQUAL(list[i].max_offset, 0);
    }
    rmq_admin_queue_status_free(list, count);
    TL_OK(rmq_admin_create_topic(admin, NULL, cluster.topic, 6, 6, 6, WAIT_MS, &err));
    TL_OK(rmq_admin_topic_status(admin, cluster.topic, 0, &list, &count, &err));
    TL_EQUAL(count, 6);
    rmq_admin_queue_status_free(list, count);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

static void wrong_arguments_are_refused(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_admin *admin = tl_admin(&cluster);
    TL_EQUAL(rmq_admin_create_topic(admin, NULL, "bad topic", 1, 1, 6, 0, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_admin_create_topic(admin, NULL, "T", -1, 1, 6, 0, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(rmq_admin_create_topic(admin, "no-such-cluster", "T", 1, 1, 6, 0, &err),
             RMQ_ERR_NO_BROKER);
    TL_CHECK(strstr(rmq_error_message(err), "no-such-cluster") != NULL);
    rmq_error_destroy(err);
    const rmq_message_view *view = NULL;
    TL_EQUAL(rmq_admin_view_message(admin, "not an id", 0, &view, NULL), RMQ_ERR_INVALID);
    rmq_admin_destroy(admin);
    rmq_admin_destroy(NULL);
    tl_cluster_stop(&cluster);
}

static void a_dead_name_server_is_named(void)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    char *text = NULL;
    TL_OK(rmq_admin_create("127.0.0.1:1", &admin, &err));
    TL_EQUAL(rmq_admin_cluster_info(admin, 2000, &text, &err), RMQ_ERR_NO_NAMESRV);
    TL_CHECK(strstr(rmq_error_message(err), "127.0.0.1:1") != NULL);
    rmq_error_destroy(err);
    rmq_admin_destroy(admin);
}

static void the_cluster_shows_its_brokers(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    char *text = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_admin *admin = tl_admin(&cluster);
    TL_OK(rmq_admin_cluster_info(admin, 0, &text, &err));
    TL_CHECK(strstr(text, "brokerAddrTable") != NULL);
    TL_CHECK(strstr(text, "\"0\":") != NULL);
    if (cluster.broker) {
        TL_CHECK(strstr(text, rmq_broker_addr(cluster.broker)) != NULL);
    }
    rmq_string_free(text);
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

static void a_message_is_found_by_its_offset_id(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    rmq_message *message = NULL;
    const rmq_message_view *view = NULL;
    char body[10000];
    memset(body, 'v', sizeof body); /* compressed on its way */
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    rmq_message_set_tag(message, "tag");
    rmq_message_add_key(message, "k1");
    rmq_message_add_key(message, "k2");
    rmq_message_set_property(message, "name", "value");
    rmq_message_copy_body(message, body, sizeof body);
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    rmq_admin *admin = tl_admin(&cluster);
    TL_OK(rmq_admin_view_message(admin, rmq_send_result_offset_msg_id(result), 0, &view, &err));
    TL_CHECK(strcmp(rmq_message_view_topic(view), cluster.topic) == 0);
    TL_CHECK(strcmp(rmq_message_view_tag(view), "tag") == 0);
    TL_CHECK(strcmp(rmq_message_view_keys(view), "k1 k2") == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "name"), "value") == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "none"), "") == 0);
    TL_CHECK(strcmp(rmq_message_view_id(view), rmq_send_result_msg_id(result)) == 0);
    TL_CHECK(strcmp(rmq_message_view_offset_id(view), rmq_send_result_offset_msg_id(result)) == 0);
    TL_EQUAL(rmq_message_view_queue_offset(view), rmq_send_result_queue_offset(result));
    size_t size = 0;
    TL_CHECK(memcmp(rmq_message_view_body(view, &size), body, sizeof body) == 0);
    TL_EQUAL(size, sizeof body);
    TL_CHECK(strchr(rmq_message_view_store_host(view), ':') != NULL);
    rmq_message_view_release(view);
    char missing[64];
    snprintf(missing, sizeof missing, "%.16s%016X", rmq_send_result_offset_msg_id(result),
             0x7ffffff);
    TL_EQUAL(rmq_admin_view_message(admin, missing, 0, &view, NULL), RMQ_ERR_NOT_FOUND);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_admin_destroy(admin);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct end_wait {
    rmq_admin *admin;
    const char *topic;
    int64_t wanted;
};

/* A real broker moves the end of a queue behind the answer to the send. */
static bool has_end(void *arg)
{
    const struct end_wait *wait = arg;
    rmq_error *err = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    TL_OK(rmq_admin_topic_status(wait->admin, wait->topic, 0, &list, &count, &err));
    bool reached = count == 1 && list[0].max_offset == wait->wanted;
    rmq_admin_queue_status_free(list, count);
    return reached;
}

static void an_offset_that_is_not_stored_is_not_zero(void)
{
    struct tl_cluster cluster;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    char *members = NULL;
    int64_t offset = -7;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 10);
    rmq_admin *admin = tl_admin(&cluster);
    TL_CHECK(tl_wait(has_end, &(struct end_wait){admin, cluster.topic, 10}, WAIT_MS));
    TL_OK(rmq_admin_topic_status(admin, cluster.topic, 0, &list, &count, &err));
    TL_EQUAL(count, 1);
    TL_EQUAL(list[0].max_offset, 10);
    TL_CHECK(list[0].last_update_ms > 0);
    rmq_status st = rmq_admin_consumer_offset(admin, cluster.group, cluster.topic,
                                              list[0].broker_name, 0, 0, &offset, NULL);
    if (st == RMQ_OK && !cluster.broker) {
        TL_EQUAL(offset, 0); /* a broker before 5.0 says so to every client */
    } else {
        TL_EQUAL(st, RMQ_ERR_NOT_FOUND);
        TL_EQUAL(offset, -7);
    }
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 10, WAIT_MS);
    TL_OK(rmq_admin_group_members(admin, cluster.group, cluster.topic, 0, &members, &err));
    TL_CHECK(tl_has_line(members, rmq_consumer_client_id(consumer)));
    rmq_string_free(members);
    TL_OK(rmq_consumer_shutdown(consumer, 0, &err));
    rmq_consumer_destroy(consumer);
    TL_OK(rmq_admin_consumer_offset(admin, cluster.group, cluster.topic, list[0].broker_name, 0, 0,
                                    &offset, &err));
    TL_EQUAL(offset, 10);
    rmq_admin_queue_status_free(list, count);
    rmq_admin_destroy(admin);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct key_wait {
    rmq_admin *admin;
    const char *topic;
    const char *key;
    size_t wanted;
};

/* A broker makes its index behind the answer to the send. */
static bool has_index(void *arg)
{
    struct key_wait *wait = arg;
    const rmq_message_view **list = NULL;
    size_t count = 0;
    if (rmq_admin_query_message(wait->admin, wait->topic, wait->key, 32, 0, 0, 0, &list, &count,
                                NULL) != RMQ_OK) {
        return false;
    }
    rmq_admin_messages_free(list, count);
    return count == wait->wanted;
}

static void messages_are_found_by_key_and_by_unique_id(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    rmq_send_result *result = NULL;
    const rmq_message_view **list = NULL;
    size_t count = 0;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_admin_create(cluster.namesrv, &admin, &err));
    char id[64];
    for (int i = 0; i < 6; i++) {
        rmq_message *message = NULL;
        char key[32];
        snprintf(key, sizeof key, "order-%d", i % 3);
        TL_OK(rmq_message_create(cluster.topic, &message, &err));
        TL_EQUAL(rmq_message_add_key(message, "first"), RMQ_OK);
        TL_EQUAL(rmq_message_add_key(message, key), RMQ_OK);
        TL_EQUAL(rmq_message_copy_body(message, key, strlen(key)), RMQ_OK);
        TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
        snprintf(id, sizeof id, "%s", rmq_send_result_msg_id(result));
        rmq_send_result_destroy(result);
        rmq_message_destroy(message);
    }
    TL_CHECK(tl_wait(has_index, &(struct key_wait){admin, cluster.topic, "first", 6}, 20000));
    TL_OK(
        rmq_admin_query_message(admin, cluster.topic, "order-1", 32, 0, 0, 0, &list, &count, &err));
    TL_EQUAL(count, 2);
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        TL_CHECK(memcmp(rmq_message_view_body(list[i], &size), "order-1", 7) == 0);
        TL_EQUAL(size, 7);
        TL_CHECK(strcmp(rmq_message_view_keys(list[i]), "first order-1") == 0);
    }
    rmq_admin_messages_free(list, count);
    TL_OK(rmq_admin_query_message(admin, cluster.topic, "first", 32, 0, 0, 0, &list, &count, &err));
    TL_EQUAL(count, 6);
    rmq_admin_messages_free(list, count);
    TL_OK(rmq_admin_query_unique_id(admin, cluster.topic, id, 0, &list, &count, &err));
    TL_EQUAL(count, 1);
    TL_CHECK(strcmp(rmq_message_view_id(list[0]), id) == 0);
    rmq_admin_messages_free(list, count);
    TL_EQUAL(
        rmq_admin_query_message(admin, cluster.topic, "order-9", 32, 0, 0, 0, &list, &count, &err),
        RMQ_ERR_NOT_FOUND);
    TL_CHECK(strstr(rmq_error_message(err), "order-9") != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_EQUAL(
        rmq_admin_query_message(admin, cluster.topic, "first", 32, 0, 1000, 0, &list, &count, NULL),
        RMQ_ERR_NOT_FOUND);
    rmq_admin_destroy(admin);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void the_ends_of_a_queue_can_be_asked_for(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    rmq_queue_status *queues = NULL;
    size_t count = 0;
    int64_t offset = -1;
    int64_t stored = -1;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_admin_create(cluster.namesrv, &admin, &err));
    tl_send(&cluster, producer, "m", 0, 5);
    TL_CHECK(tl_wait(has_end, &(struct end_wait){admin, cluster.topic, 5}, WAIT_MS));
    TL_OK(rmq_admin_topic_status(admin, cluster.topic, 0, &queues, &count, &err));
    const char *broker = queues[0].broker_name;
    TL_OK(rmq_admin_max_offset(admin, cluster.topic, broker, 0, 0, &offset, &err));
    TL_EQUAL(offset, 5);
    TL_OK(rmq_admin_min_offset(admin, cluster.topic, broker, 0, 0, &offset, &err));
    TL_EQUAL(offset, 0);
    TL_OK(rmq_admin_earliest_store_time(admin, cluster.topic, broker, 0, 0, &stored, &err));
    TL_CHECK(stored > 1600000000000);
    TL_OK(rmq_admin_search_offset(admin, cluster.topic, broker, 0, stored, 0, &offset, &err));
    TL_EQUAL(offset, 0);
    TL_OK(rmq_admin_search_offset(admin, cluster.topic, broker, 0, stored + 86400000, 0, &offset,
                                  &err));
    TL_CHECK(offset >= 4); /* the last, or behind it, as the broker's version has it */
    TL_EQUAL(rmq_admin_max_offset(admin, cluster.topic, "nobody", 0, 0, &offset, NULL),
             RMQ_ERR_NO_BROKER);
    TL_EQUAL(rmq_admin_max_offset(admin, cluster.topic, NULL, 0, 0, &offset, NULL),
             RMQ_ERR_INVALID);
    rmq_admin_queue_status_free(queues, count);
    rmq_admin_destroy(admin);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_deleted_topic_is_gone_with_its_messages(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_queue_status *list = NULL;
    size_t count = 0;
    char *text = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 5);
    rmq_producer_destroy(producer);
    rmq_admin *admin = tl_admin(&cluster);
    TL_OK(rmq_admin_delete_topic(admin, NULL, cluster.topic, 0, &err));
    TL_EQUAL(rmq_admin_topic_route(admin, cluster.topic, 0, &text, NULL), RMQ_ERR_NO_ROUTE);
    TL_OK(rmq_admin_topic_list(admin, 0, &text, &err));
    TL_CHECK(!tl_has_line(text, cluster.topic));
    rmq_string_free(text);
    TL_EQUAL(rmq_admin_delete_topic(admin, NULL, cluster.topic, 0, &err), RMQ_ERR_NO_ROUTE);
    TL_CHECK(strstr(rmq_error_message(err), cluster.topic) != NULL);
    rmq_error_destroy(err);
    err = NULL;
    TL_OK(rmq_admin_create_topic(admin, NULL, cluster.topic, 1, 1, 6, WAIT_MS, &err));
    TL_OK(rmq_admin_topic_status(admin, cluster.topic, 0, &list, &count, &err));
    TL_EQUAL(count, 1);
    TL_EQUAL(list[0].max_offset, 0);
    rmq_admin_queue_status_free(list, count);
    TL_EQUAL(rmq_admin_delete_topic(admin, "no-such-cluster", cluster.topic, 0, NULL),
             RMQ_ERR_NO_BROKER);
    TL_OK(rmq_admin_delete_topic(admin, NULL, cluster.topic, 0, &err));
    rmq_admin_destroy(admin);
    tl_cluster_stop(&cluster);
}

/* Whether a name server knows the topic. */
static bool is_routed(const char *namesrv, const char *topic)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    char *text = NULL;
    TL_OK(rmq_admin_create(namesrv, &admin, &err));
    rmq_status st = rmq_admin_topic_route(admin, topic, 0, &text, NULL);
    TL_CHECK(st == RMQ_OK || st == RMQ_ERR_NO_ROUTE);
    rmq_string_free(text);
    rmq_admin_destroy(admin);
    return st == RMQ_OK;
}

static void a_topic_is_deleted_at_every_name_server_that_lives(void)
{
    rmq_error *err = NULL;
    rmq_namesrv *servers[2];
    rmq_broker_config *config = NULL;
    rmq_broker *broker = NULL;
    rmq_admin *admin = NULL;
    char both[128];
    char all[160];
    for (int i = 0; i < 2; i++) {
        TL_OK(rmq_namesrv_start(NULL, 0, &servers[i], &err));
    }
    const char *first = rmq_namesrv_addr(servers[0]);
    const char *second = rmq_namesrv_addr(servers[1]);
    snprintf(both, sizeof both, "%s;%s", first, second);
    snprintf(all, sizeof all, "127.0.0.1:1;%s", both);
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "namesrvAddr", both, &err));
    TL_OK(rmq_broker_start(config, &broker, &err));
    rmq_broker_config_destroy(config);
    TL_OK(rmq_broker_create_topic(broker, "Everywhere", 2, &err));
    TL_CHECK(is_routed(first, "Everywhere") && is_routed(second, "Everywhere"));
    TL_OK(rmq_admin_create(all, &admin, &err));
    TL_CHECK(rmq_admin_delete_topic(admin, NULL, "Everywhere", WAIT_MS, &err) != RMQ_OK);
    TL_CHECK(strstr(rmq_error_message(err), "name server 127.0.0.1:1") != NULL);
    rmq_error_destroy(err);
    TL_CHECK(!is_routed(first, "Everywhere") && !is_routed(second, "Everywhere"));
    rmq_admin_destroy(admin);
    rmq_broker_stop(broker);
    rmq_namesrv_stop(servers[0]);
    rmq_namesrv_stop(servers[1]);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_created_topic_can_be_used_at_once),
        TL_CASE(wrong_arguments_are_refused),
        TL_CASE(a_dead_name_server_is_named),
        TL_CASE(the_cluster_shows_its_brokers),
        TL_CASE(a_message_is_found_by_its_offset_id),
        TL_CASE(an_offset_that_is_not_stored_is_not_zero),
        TL_CASE(messages_are_found_by_key_and_by_unique_id),
        TL_CASE(the_ends_of_a_queue_can_be_asked_for),
        TL_CASE(a_deleted_topic_is_gone_with_its_messages),
        TL_CASE(a_topic_is_deleted_at_every_name_server_that_lives),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

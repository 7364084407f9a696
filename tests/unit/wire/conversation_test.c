/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies of the recorded conversations: what real brokers, name servers and clients sent, read by
 * the decoders; and the compressed registration and old route forms, which do not occur there.
 */
#include "recorded.h"
#include "vectors.h"

#include "base/mem.h"
#include "wire/bodies.h"
#include "wire/compress.h"
#include "wire/frame.h"
#include "wire/heartbeat.h"
#include "wire/properties.h"

Suite *conversation_suite(void);

/* Messages back to back, to the last byte; each has the CRC that it names and is encoded to the
 * same bytes. */
static void check_messages(struct rq_slice body, const char *what)
{
    struct rq_cursor c = rq_cursor(body.p, body.n);
    while (rq_cursor_left(&c) > 0) {
        const char *start = c.p;
        struct rq_msg msg;
        rmq_error *err = NULL;
        rmq_status st = rq_msg_decode(&c, &msg, &err);
        ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
        ck_assert_msg(rq_msg_crc_ok(&msg), "%s: CRC", what);
        size_t size = rq_msg_encoded_size(&msg);
        ck_assert_uint_eq(size, (size_t)msg.total_size);
        char *again = malloc(size);
        rq_msg_encode(&msg, size, again);
        ck_assert_msg(memcmp(again, start, size) == 0, "%s: encoded differently", what);
        free(again);
        if (msg.sys_flag & RQ_SYS_COMPRESSED) {
            enum rq_compression type;
            char *plain;
            size_t n;
            ck_assert_int_eq(rq_compression_of_sys_flag(msg.sys_flag, &type, NULL), RMQ_OK);
            ck_assert_int_eq(rq_decompress(type, msg.body.p, msg.body.n, 1 << 20, &plain, &n, NULL),
                             RMQ_OK);
            rq_free(plain);
        }
    }
}

static void check_batch(struct rq_slice body, const char *what)
{
    struct rq_cursor c = rq_cursor(body.p, body.n);
    struct rq_buf out;
    struct rq_batch_item item;
    rmq_status st;
    rq_buf_init(&out, 0);
    while ((st = rq_batch_next(&c, &item, NULL)) == RMQ_OK) {
        ck_assert_msg(rq_props_get(item.properties, RQ_PROP_UNIQ_KEY).n == RQ_MSGID_V4,
                      "%s: UNIQ_KEY", what);
        rq_batch_add(&out, &item);
    }
    ck_assert_msg(st == RMQ_ERR_NOT_FOUND && rq_slice_eq(body, rq_slice(out.data, out.len)),
                  "%s: batch", what);
    rq_buf_free(&out);
}

static void check_request(const struct rq_frame *frame, const char *what)
{
    struct rq_heartbeat heartbeat;
    struct rq_lock_body lock;
    struct rq_topic_table topics;
    struct rq_group_table group;
    struct rq_slice body = frame->body;
    switch (frame->header.code) {
    case RQ_REQ_HEART_BEAT:
        ck_assert_msg(rq_heartbeat_parse(body, &heartbeat, NULL) == RMQ_OK, "%s", what);
        ck_assert_msg(heartbeat.producer_count + heartbeat.consumer_count > 0 ||
                          heartbeat.without_sub,
                      "%s", what);
        rq_heartbeat_clear(&heartbeat);
        break;
    case RQ_REQ_REGISTER_BROKER:
        ck_assert_msg(rq_register_body_parse(body, false, frame->header.version, 1 << 20, &topics,
                                             NULL) == RMQ_OK,
                      "%s", what);
        ck_assert_msg(topics.count > 0 && topics.version.timestamp_ms > 0, "%s", what);
        rq_topic_table_clear(&topics);
        break;
    case RQ_REQ_LOCK_BATCH_MQ:
    case RQ_REQ_UNLOCK_BATCH_MQ:
        ck_assert_msg(rq_lock_body_parse(body, &lock, NULL) == RMQ_OK && lock.queue_count > 0, "%s",
                      what);
        rq_lock_body_clear(&lock);
        break;
    case RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
        ck_assert_msg(rq_group_config_parse(body, &group, NULL) == RMQ_OK, "%s", what);
        rq_group_table_clear(&group);
        break;
    case RQ_REQ_SEND_BATCH_MESSAGE:
        check_batch(body, what);
        break;
    case RQ_REQ_CHECK_TRANSACTION_STATE:
        check_messages(body, what);
        break;
    default:
        break;
    }
}

static void check_answer(int32_t code, struct rq_slice body, const char *what)
{
    struct rq_route_data route;
    struct rq_cluster_info cluster;
    struct rq_names names;
    struct rq_lock_body lock;
    struct rq_connections connections;
    struct rq_queue_table table;
    switch (code) {
    case RQ_REQ_PULL_MESSAGE:
    case RQ_REQ_LITE_PULL_MESSAGE:
    case RQ_REQ_POP_MESSAGE:
    case RQ_REQ_VIEW_MESSAGE_BY_ID:
    case RQ_REQ_QUERY_MESSAGE:
        ck_assert_msg(body.n > 0, "%s: no message", what);
        check_messages(body, what);
        break;
    case RQ_REQ_GET_ROUTEINFO_BY_TOPIC:
        ck_assert_msg(rq_route_data_parse(body, &route, NULL) == RMQ_OK, "%s", what);
        ck_assert_msg(route.broker_count == 1 && route.brokers[0].addr_count == 1 &&
                          route.queue_count == 1,
                      "%s", what);
        ck_assert_int_eq(route.brokers[0].addrs[0].id, 0);
        rq_route_data_clear(&route);
        break;
    case RQ_REQ_GET_BROKER_CLUSTER_INFO:
        ck_assert_msg(rq_cluster_info_parse(body, &cluster, NULL) == RMQ_OK, "%s", what);
        ck_assert_msg(cluster.broker_count == 1 && cluster.cluster_count == 1, "%s", what);
        rq_cluster_info_clear(&cluster);
        break;
    case RQ_REQ_GET_CONSUMER_LIST_BY_GROUP:
        ck_assert_msg(rq_names_parse(body, RQ_LIST_CONSUMER_IDS, &names, NULL) == RMQ_OK &&
                          names.count > 0,
                      "%s", what);
        rq_names_clear(&names);
        break;
    case RQ_REQ_LOCK_BATCH_MQ:
        ck_assert_msg(rq_lock_answer_parse(body, &lock, NULL) == RMQ_OK && lock.queue_count > 0,
                      "%s", what);
        rq_lock_body_clear(&lock);
        break;
    case RQ_REQ_GET_CONSUMER_CONNECTION_LIST:
    case RQ_REQ_GET_PRODUCER_CONNECTION_LIST:
        ck_assert_msg(rq_connections_parse(body, &connections, NULL) == RMQ_OK &&
                          connections.count > 0,
                      "%s", what);
        rq_connections_clear(&connections);
        break;
    case RQ_REQ_GET_TOPIC_STATS_INFO:
        ck_assert_msg(rq_queue_table_parse(body, RQ_QUEUE_TABLE_TOPIC_STATS, &table, NULL) ==
                          RMQ_OK,
                      "%s", what);
        ck_assert_msg(table.count == 2 && strcmp(table.rows[0].mq.broker_name, "broker-a") == 0,
                      "%s", what);
        rq_queue_table_clear(&table);
        break;
    case RQ_REQ_GET_CONSUME_STATS:
        ck_assert_msg(rq_queue_table_parse(body, RQ_QUEUE_TABLE_CONSUME_STATS, &table, NULL) ==
                          RMQ_OK,
                      "%s", what);
        rq_queue_table_clear(&table);
        break;
    default:
        break;
    }
}

static void check_body(const struct recorded *recorded)
{
    const struct rq_frame *frame = &recorded->frame;
    if (!rq_header_is_response(&frame->header)) {
        check_request(frame, recorded->what);
    } else if (frame->header.code == RQ_RESP_SUCCESS) {
        check_answer(recorded->request, frame->body, recorded->what);
    }
}

START_TEST(each_body_of_the_recorded_conversations_is_understood)
{
    recorded_each(check_body);
}
END_TEST

START_TEST(a_registration_that_java_compressed_is_read)
{
    cJSON *json = vectors_read("route.json");
    int found = 0;
    for (const cJSON *item = rq_json_get(json, "cases")->child; item; item = item->next) {
        if (strcmp(rq_json_str(item, "name", ""), "register broker body, compressed") != 0) {
            continue;
        }
        size_t n;
        char *bytes = vectors_hex(item, "hex", &n);
        struct rq_topic_table table;
        rmq_error *err = NULL;
        rmq_status st = rq_register_body_parse(rq_slice(bytes, n), true, RQ_VERSION_V5_3_3, 1 << 16,
                                               &table, &err);
        ck_assert_msg(st == RMQ_OK, "%s", rmq_error_message(err));
        ck_assert_uint_eq(table.count, 1);
        ck_assert_str_eq(table.topics[0].name, "TopicTest");
        ck_assert_int_eq(table.topics[0].perm, 6);
        ck_assert(table.version.timestamp_ms == INT64_C(1767225600123));
        rq_topic_table_clear(&table);
        free(bytes);
        found++;
    }
    ck_assert_int_eq(found, 1);
    rq_json_free(json);
}
END_TEST

START_TEST(old_and_strict_forms_of_a_route_read_the_same)
{
    static const char *const forms[] = {
        "{\"brokerDatas\":[{\"brokerAddrs\":{1:\"h:2\",0:\"h:1\"},\"brokerName\":\"b\",\"cluster\":"
        "\"c\"},{}],"
        "\"queueDatas\":[{\"brokerName\":\"b\",\"perm\":6,\"readQueueNums\":4,\"topicSynFlag\":3,"
        "\"writeQueueNums\":5},{}]}",
        "{\"queueDatas\":[{\"writeQueueNums\":\"5\",\"readQueueNums\":\"4\",\"perm\":\"6\","
        "\"brokerName\":\"b\","
        "\"topicSysFlag\":3}],\"unknown\":{\"a\":[1,{}]},\"brokerDatas\":[{\"cluster\":\"c\","
        "\"brokerName\":\"b\","
        "\"brokerAddrs\":{\"0\":\"h:1\",\"1\":\"h:2\",\"x\":\"y\"}}]}"};
    for (size_t i = 0; i < 2; i++) {
        struct rq_route_data route;
        ck_assert_int_eq(rq_route_data_parse(rq_slice_str(forms[i]), &route, NULL), RMQ_OK);
        ck_assert_uint_eq(route.broker_count, 1);
        ck_assert_uint_eq(route.brokers[0].addr_count, 2);
        ck_assert_str_eq(route.brokers[0].addrs[0].addr, "h:1");
        ck_assert_str_eq(route.brokers[0].addrs[1].addr, "h:2");
        ck_assert_uint_eq(route.queue_count, 1);
        ck_assert_int_eq(route.queues[0].write_queue_nums, 5);
        ck_assert_int_eq(route.queues[0].topic_sys_flag, 3);
        rq_route_data_clear(&route);
        for (size_t cut = 0; cut < strlen(forms[i]); cut++) {
            ck_assert_int_eq(rq_route_data_parse(rq_slice(forms[i], cut), &route, NULL),
                             RMQ_ERR_PROTOCOL);
        }
    }
}
END_TEST

START_TEST(queue_tables_read_object_keys_lists_and_nothing_else)
{
    static const char *const good[] = {
        "{\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}:5}}",
        ("{\"offsetTable\":{\"{\\\"brokerName\\\":\\\"b\\\",\\\"queueId\\\":0,\\\"topic\\\":"
         "\\\"t\\\"}\":5}}"),
        "{\"offsetTable\":[{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\",\"offset\":5}]}"};
    static const char *const bad[] = {
        "{\"offsetTable\":{\"x\":5}}",
        "{\"offsetTable\":{{\"brokerName\":\"b\"}:5}}",
        "{\"offsetTable\":{{\"brokerName\":\"b\",\"topic\":\"t\"}:{}}}",
        "{\"offsetTable\":[5]}",
        "[]",
        "5"};
    struct rq_queue_table table;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(
            rq_queue_table_parse(rq_slice_str(good[i]), RQ_QUEUE_TABLE_OFFSETS, &table, NULL),
            RMQ_OK);
        ck_assert_uint_eq(table.count, 1);
        ck_assert(table.rows[0].offset == 5 && strcmp(table.rows[0].mq.topic, "t") == 0);
        rq_queue_table_clear(&table);
        for (size_t cut = 0; cut < strlen(good[i]); cut++) {
            ck_assert_int_eq(
                rq_queue_table_parse(rq_slice(good[i], cut), RQ_QUEUE_TABLE_OFFSETS, &table, NULL),
                RMQ_ERR_PROTOCOL);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(rq_queue_table_parse(rq_slice_str(bad[i]), RQ_QUEUE_TABLE_OFFSETS, &table,
                                           NULL) == RMQ_ERR_PROTOCOL,
                      "%s", bad[i]);
    }
}
END_TEST

Suite *conversation_suite(void)
{
    Suite *suite = suite_create("conversation");
    TCase *tc = tcase_create("conversation");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, each_body_of_the_recorded_conversations_is_understood);
    tcase_add_test(tc, a_registration_that_java_compressed_is_read);
    tcase_add_test(tc, old_and_strict_forms_of_a_route_read_the_same);
    tcase_add_test(tc, queue_tables_read_object_keys_lists_and_nothing_else);
    suite_add_tcase(suite, tc);
    return suite;
}

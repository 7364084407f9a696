/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Each operation of wire with its 1st, 2nd … Nth allocation failing: it says so with a status and
 * an error, nothing is leaked, and the same operation works afterwards. cJSON allocates through the
 * same functions here.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/mem.h"
#include "wire/bodies.h"
#include "wire/compress.h"
#include "wire/frame.h"
#include "wire/heartbeat.h"

Suite *wire_suite(void);

struct operation {
    const char *name;
    rmq_status (*run)(rmq_error **err);
};

#define ROUTE                                                                                      \
    "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"h:1\",1:\"h:2\"},\"brokerName\":\"b\",\"cluster\":"   \
    "\"c\"}],"                                                                                     \
    "\"queueDatas\":[{\"brokerName\":\"b\",\"perm\":6,\"readQueueNums\":4,\"writeQueueNums\":4}]," \
    "\"topicQueueMappingByBroker\":{\"b\":{\"bname\":\"b\",\"currIdMap\":{0:0,1:3},\"epoch\":1,"   \
    "\"scope\":\"__global__\",\"totalQueues\":2}}}"
#define SUBSCRIPTION                                                                               \
    "{\"classFilterMode\":false,\"codeSet\":[65,66],\"expressionType\":\"TAG\",\"subString\":\"A " \
    "|| B\","                                                                                      \
    "\"subVersion\":1767225600123,\"tagsSet\":[\"A\",\"B\"],\"topic\":\"T\"}"
#define HEARTBEAT                                                                                  \
    "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g\",\"subscriptionDataSet\":"       \
    "[" SUBSCRIPTION "]}],"                                                                        \
    "\"producerDataSet\":[{\"groupName\":\"p\"}]}"
#define TOPICS                                                                                     \
    "{\"dataVersion\":{\"counter\":1},\"topicConfigTable\":{\"T\":{\"attributes\":{\"k\":\"v\"},"  \
    "\"perm\":6}},\"topicQueueMappingInfoMap\":{\"T\":{\"bname\":\"b\",\"currIdMap\":{0:1,1:0},"   \
    "\"topic\":\"T\"}}}"
#define OFFSETS "{\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}:5}}"

static rmq_status encode_frame(rmq_error **err)
{
    char big[2000];
    memset(big, '\n', sizeof big);
    struct rq_hdr_send fields = {.topic = rq_slice_str("T"),
                                 .properties = rq_slice(big, sizeof big)};
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &fields);
    struct rq_buf out;
    rq_buf_init(&out, 0);
    rmq_status st = rq_frame_encode(&out, &spec, 0, err);
    rq_buf_free(&out);
    return st;
}

static rmq_status create_subscription(rmq_error **err)
{
    struct rq_subscription *sub = NULL;
    rmq_status st = rq_subscription_create("T", "A || B", NULL, 1, &sub, err);
    if (st == RMQ_OK) {
        struct rq_subscription *copy = rq_subscription_copy(sub);
        st = copy ? RMQ_OK : RMQ_ERR_NOMEM;
        rq_subscription_destroy(copy);
    }
    rq_subscription_destroy(sub);
    return st;
}

static rmq_status parse_route(rmq_error **err)
{
    struct rq_route_data route;
    rmq_status st = rq_route_data_parse(rq_slice_str(ROUTE), &route, err);
    if (st == RMQ_OK) {
        struct rq_static_queue *queues = NULL;
        size_t count = 0;
        st = rq_static_queues(route.mappings, route.mapping_count, &queues, &count, err);
        rq_free(queues);
        rq_route_data_clear(&route);
    }
    return st;
}

static rmq_status parse_heartbeat(rmq_error **err)
{
    struct rq_heartbeat heartbeat;
    struct rq_buf out;
    rmq_status st = rq_heartbeat_parse(rq_slice_str(HEARTBEAT), &heartbeat, err);
    if (st == RMQ_OK) {
        rq_buf_init(&out, 0);
        rq_heartbeat_write(&heartbeat, &out);
        st = rq_buf_status(&out);
        rq_buf_free(&out);
        rq_heartbeat_clear(&heartbeat);
    }
    return st;
}

static rmq_status parse_offsets(rmq_error **err)
{
    struct rq_queue_table table;
    rmq_status st =
        rq_queue_table_parse(rq_slice_str(OFFSETS), RQ_QUEUE_TABLE_OFFSETS, &table, err);
    if (st == RMQ_OK) {
        rq_queue_table_clear(&table);
    }
    return st;
}

static rmq_status register_compressed(rmq_error **err)
{
    struct rq_topic_table table;
    struct rq_topic_table back;
    struct rq_buf out;
    rmq_status st = rq_topic_table_parse(rq_slice_str(TOPICS), &table, err);
    if (st) {
        return st;
    }
    rq_buf_init(&out, 0);
    st = rq_register_body_write_compressed(&table, &out, err);
    if (st == RMQ_OK) {
        st = rq_register_body_parse(rq_slice(out.data, out.len), true, RQ_VERSION_OURS, 1 << 16,
                                    &back, err);
    }
    if (st == RMQ_OK) {
        /* Attributes are an extra that is dropped when it cannot be read: all else must be
         * there. */
        ck_assert_uint_eq(back.count, 1);
        rq_topic_table_clear(&back);
    }
    rq_buf_free(&out);
    rq_topic_table_clear(&table);
    return st;
}

static rmq_status parse_connections(rmq_error **err)
{
    struct rq_connections connections;
    rmq_status st = rq_connections_parse(
        rq_slice_str(
            "{\"connectionSet\":[{\"clientId\":\"c\"}],\"subscriptionTable\":{\"T\":" SUBSCRIPTION
            "}}"),
        &connections, err);
    if (st == RMQ_OK) {
        rq_connections_clear(&connections);
    }
    return st;
}

static rmq_status parse_cluster(rmq_error **err)
{
    struct rq_cluster_info info;
    rmq_status st =
        rq_cluster_info_parse(rq_slice_str("{\"brokerAddrTable\":{\"b\":{\"brokerAddrs\":{0:\"h:"
                                           "1\"}}},\"clusterAddrTable\":{\"c\":[\"b\"]}}"),
                              &info, err);
    if (st == RMQ_OK) {
        rq_cluster_info_clear(&info);
    }
    return st;
}

static rmq_status parse_lists(rmq_error **err)
{
    struct rq_names names;
    struct rq_lock_body lock;
    struct rq_group_table groups;
    rmq_status st =
        rq_names_parse(rq_slice_str("{\"topicList\":[\"a\",\"b\"]}"), RQ_LIST_TOPICS, &names, err);
    if (st) {
        return st;
    }
    rq_names_clear(&names);
    st = rq_lock_answer_parse(
        rq_slice_str("{\"lockOKMQSet\":[{\"topic\":\"t\",\"brokerName\":\"b\"}]}"), &lock, err);
    if (st) {
        return st;
    }
    rq_lock_body_clear(&lock);
    st =
        rq_group_table_parse(rq_slice_str("{\"subscriptionGroupTable\":{\"g\":{}}}"), &groups, err);
    if (st == RMQ_OK) {
        rq_group_table_clear(&groups);
    }
    return st;
}

static rmq_status compress_with(enum rq_compression type, rmq_error **err)
{
    static char body[20000];
    struct rq_buf out;
    char *plain = NULL;
    size_t n = 0;
    rq_buf_init(&out, 0);
    rmq_status st =
        rq_compress(type, RQ_COMPRESS_LEVEL_DEFAULT, rq_slice(body, sizeof body), &out, err);
    if (st == RMQ_OK) {
        st = rq_decompress(type, out.data, out.len, sizeof body, &plain, &n, err);
    }
    rq_free(plain);
    rq_buf_free(&out);
    return st;
}

static rmq_status compress_zlib(rmq_error **err)
{
    return compress_with(RQ_COMPRESSION_ZLIB, err);
}

static rmq_status compress_lz4(rmq_error **err)
{
    return compress_with(RQ_COMPRESSION_LZ4, err);
}

static rmq_status compress_zstd(rmq_error **err)
{
    return compress_with(RQ_COMPRESSION_ZSTD, err);
}

static const struct operation operations[] = {
    {"encode a frame", encode_frame},
    {"create a subscription", create_subscription},
    {"parse a route", parse_route},
    {"parse and write a heartbeat", parse_heartbeat},
    {"parse offsets", parse_offsets},
    {"write and parse a registration", register_compressed},
    {"parse connections", parse_connections},
    {"parse cluster info", parse_cluster},
    {"parse lists", parse_lists},
    {"zlib", compress_zlib},
    {"lz4", compress_lz4},
    {"zstd", compress_zstd},
};

/* Returns whether the nth allocation was reached. */
static bool run_failing(const struct operation *op, size_t n)
{
    rmq_error *err = NULL;
    size_t live = rq_mem_live();
    size_t before = rq_mem_fail_at(n);
    rmq_status st = op->run(&err);
    bool reached = rq_mem_fail_at(0) - before >= n;
    ck_assert_msg(reached || st == RMQ_OK, "%s without a failure: %s", op->name,
                  rmq_error_message(err));
    /* A failure inside cJSON is reported as text that does not parse: it tells no reasons. */
    ck_assert_msg(st == RMQ_OK || st == RMQ_ERR_NOMEM || st == RMQ_ERR_PROTOCOL,
                  "%s, allocation %zu: %s", op->name, n, rmq_status_name(st));
    rmq_error_destroy(err);
    ck_assert_msg(rq_mem_live() == live, "%s, allocation %zu: %zu blocks leaked", op->name, n,
                  rq_mem_live() - live);
    return reached;
}

START_TEST(each_operation_survives_the_failure_of_any_allocation)
{
    cJSON_Hooks hooks = {.malloc_fn = rq_alloc, .free_fn = rq_free};
    cJSON_InitHooks(&hooks);
    rq_mem_count(1);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        size_t n = 1;
        while (run_failing(&operations[i], n)) {
            n++;
        }
        ck_assert_msg(n > 1, "%s allocates nothing", operations[i].name);
        ck_assert_int_eq(operations[i].run(NULL), RMQ_OK);
    }
    rq_mem_count(0);
    cJSON_InitHooks(NULL);
}
END_TEST

START_TEST(encoding_into_a_warm_buffer_and_decoding_allocate_nothing)
{
    struct rq_hdr_send fields = {.producer_group = rq_slice_str("g"),
                                 .topic = rq_slice_str("T"),
                                 .default_topic = rq_slice_str("TBW102"),
                                 .properties = rq_slice_str("KEYS\x01"
                                                            "k\x02WAIT\x01true\x02")};
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &fields);
    struct rq_buf out;
    struct rq_frame frame;
    struct rq_hdr_send back;
    rq_buf_init(&out, 0);
    rq_buf_reserve(&out, 4096);
    rq_mem_count(1);
    size_t before = rq_mem_fail_at(1);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
    ck_assert_int_eq(rq_frame_decode(out.data, out.len, &frame, NULL), RMQ_OK);
    ck_assert_int_eq(rq_fields_decode(&rq_tab_send_v2, &frame.header, &back, NULL), RMQ_OK);
    ck_assert_uint_eq(rq_mem_fail_at(0), before);
    rq_mem_count(0);
    ck_assert(rq_slice_eq(back.properties, fields.properties));
    rq_buf_free(&out);
}
END_TEST

Suite *wire_suite(void)
{
    Suite *suite = suite_create("wire");
    TCase *tc = tcase_create("wire");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, each_operation_survives_the_failure_of_any_allocation);
    tcase_add_test(tc, encoding_into_a_warm_buffer_and_decoding_allocate_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

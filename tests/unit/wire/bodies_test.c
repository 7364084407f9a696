/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* JSON bodies that Java wrote: each is parsed, written again, and must mean the same; each is cut
 * at every byte. */
#include "wire/bodies.h"

#include "vectors.h"
#include "wire/heartbeat.h"

Suite *bodies_suite(void);

/* One function for each kind of body: reads a text and writes what was read. */
#define REWRITE(function, type, parse, write, clear)                                               \
    static rmq_status function(struct rq_slice text, struct rq_buf *out)                           \
    {                                                                                              \
        struct type body;                                                                          \
        rmq_status st = parse;                                                                     \
        if (st == RMQ_OK) {                                                                        \
            write;                                                                                 \
            clear(&body);                                                                          \
        }                                                                                          \
        return st;                                                                                 \
    }

REWRITE(heartbeat, rq_heartbeat, rq_heartbeat_parse(text, &body, NULL),
        rq_heartbeat_write(&body, out), rq_heartbeat_clear)
REWRITE(lock, rq_lock_body, rq_lock_body_parse(text, &body, NULL), rq_lock_body_write(&body, out),
        rq_lock_body_clear)
REWRITE(locked, rq_lock_body, rq_lock_answer_parse(text, &body, NULL),
        rq_lock_answer_write(body.queues, body.queue_count, out), rq_lock_body_clear)
REWRITE(offsets, rq_queue_table, rq_queue_table_parse(text, RQ_QUEUE_TABLE_OFFSETS, &body, NULL),
        rq_queue_table_write(&body, RQ_QUEUE_TABLE_OFFSETS, out), rq_queue_table_clear)
REWRITE(consumer_ids, rq_names, rq_names_parse(text, RQ_LIST_CONSUMER_IDS, &body, NULL),
        rq_names_write(body.items, body.count, RQ_LIST_CONSUMER_IDS, out), rq_names_clear)
REWRITE(directly, rq_consume_directly, rq_consume_directly_parse(text, &body, NULL),
        rq_consume_directly_write(&body, out), rq_consume_directly_clear)
REWRITE(connections, rq_connections, rq_connections_parse(text, &body, NULL),
        rq_connections_write(&body, out), rq_connections_clear)
REWRITE(route, rq_route_data, rq_route_data_parse(text, &body, NULL),
        rq_route_data_write(&body, out), rq_route_data_clear)
REWRITE(cluster, rq_cluster_info, rq_cluster_info_parse(text, &body, NULL),
        rq_cluster_info_write(&body, out), rq_cluster_info_clear)
REWRITE(topics, rq_topic_table, rq_topic_table_parse(text, &body, NULL),
        rq_topic_table_write(&body, out), rq_topic_table_clear)
REWRITE(registration, rq_topic_table,
        rq_register_body_parse(text, false, 479, 1 << 20, &body, NULL),
        rq_register_body_write(&body, out), rq_topic_table_clear)

static const struct {
    const char *class_name;
    rmq_status (*rewrite)(struct rq_slice text, struct rq_buf *out);
} bodies[] = {
    {"HeartbeatData", heartbeat},
    {"LockBatchRequestBody", lock},
    {"UnlockBatchRequestBody", lock},
    {"LockBatchResponseBody", locked},
    {"OffsetSerializeWrapper", offsets},
    {"ResetOffsetBody", offsets},
    {"GetConsumerListByGroupResponseBody", consumer_ids},
    {"ConsumeMessageDirectlyResult", directly},
    {"ConsumerConnection", connections},
    {"ProducerConnection", connections},
    {"TopicRouteData", route},
    {"ClusterInfo", cluster},
    {"TopicConfigSerializeWrapper", topics},
    {"RegisterBrokerBody", registration},
};

/* RMQ_ERR_UNSUPPORTED: not one of these; a compressed registration is no text. */
static rmq_status rewrite(const char *class_name, const char *name, struct rq_slice text,
                          struct rq_buf *out)
{
    if (strstr(name, "compress")) {
        return RMQ_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        if (strcmp(class_name, bodies[i].class_name) == 0) {
            return bodies[i].rewrite(text, out);
        }
    }
    return RMQ_ERR_UNSUPPORTED;
}

/* Members that a writer of ours leaves out or adds without a change of meaning. */
static void drop_members(cJSON *json)
{
    static const char *const names[] = {"filterServerTable", "mappingDataVersion",
                                        "topicQueueMappingDetailMap", "topicQueueMappingInfoMap"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(json, names[i]);
        cJSON_DeleteItemFromObjectCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(json, "topicConfigSerializeWrapper"), names[i]);
    }
}

static cJSON *canonical(struct rq_slice text)
{
    cJSON *json = NULL;
    rmq_error *err = NULL;
    ck_assert_msg(rq_json_parse(text, &json, &err) == RMQ_OK, "%s", rmq_error_message(err));
    drop_members(json);
    return json;
}

static int check_file(const char *file)
{
    cJSON *json = vectors_read(file);
    int checked = 0;
    for (const cJSON *item = rq_json_get(json, "cases")->child; item; item = item->next) {
        const char *name = rq_json_str(item, "name", "");
        const char *class_name = rq_json_str(item, "class", "");
        size_t n = 0;
        char *text = vectors_hex(item, "hex", &n);
        struct rq_buf out;
        rq_buf_init(&out, 0);
        rmq_status st = rewrite(class_name, name, rq_slice(text, n), &out);
        if (st != RMQ_ERR_UNSUPPORTED) {
            ck_assert_msg(st == RMQ_OK, "%s: %s", name, rmq_status_name(st));
            cJSON *want = canonical(rq_slice(text, n));
            cJSON *got = canonical(rq_slice(out.data, out.len));
            ck_assert_msg(cJSON_Compare(want, got, true), "%s: wrote %s", name, rq_buf_cstr(&out));
            rq_json_free(want);
            rq_json_free(got);
            checked++;
            for (size_t cut = 0; cut < n; cut++) {
                struct rq_buf nothing;
                rq_buf_init(&nothing, 0);
                char *exact = malloc(cut ? cut : 1);
                memcpy(exact, text, cut);
                ck_assert_int_ne(rewrite(class_name, name, rq_slice(exact, cut), &nothing), RMQ_OK);
                free(exact);
                rq_buf_free(&nothing);
            }
        }
        rq_buf_free(&out);
        free(text);
    }
    rq_json_free(json);
    return checked;
}

START_TEST(heartbeats_locks_offsets_and_lists_mean_the_same_when_written_again)
{
    ck_assert_int_ge(check_file("heartbeat.json"), 14);
}
END_TEST

START_TEST(routes_clusters_and_topics_mean_the_same_when_written_again)
{
    ck_assert_int_ge(check_file("route.json"), 7);
}
END_TEST

START_TEST(assignments_tell_queues_and_whether_they_are_popped)
{
    struct rq_assignments out;
    struct rq_slice two = rq_slice_str("{\"messageQueueAssignments\":[{\"messageQueue\":{"
                                       "\"brokerName\":\"b\",\"queueId\":-1,\"topic\":"
                                       "\"T\"},\"mode\":\"POP\"},{\"messageQueue\":{\"brokerName\":"
                                       "\"b\",\"queueId\":3,\"topic\":\"T\"}}]}");
    ck_assert_int_eq(rq_assignments_parse(two, &out, NULL), RMQ_OK);
    ck_assert_uint_eq(out.count, 2);
    ck_assert(out.pops[0] && !out.pops[1]);
    ck_assert_int_eq(out.queues[0].queue_id, -1);
    ck_assert_int_eq(out.queues[1].queue_id, 3);
    rq_assignments_clear(&out);
    /* nobody knows is not the same as nothing */
    ck_assert_int_eq(rq_assignments_parse(rq_slice_str("{}"), &out, NULL), RMQ_ERR_NOT_FOUND);
    ck_assert_int_eq(
        rq_assignments_parse(rq_slice_str("{\"messageQueueAssignments\":[]}"), &out, NULL), RMQ_OK);
    ck_assert_uint_eq(out.count, 0);
    rq_assignments_clear(&out);
    ck_assert_int_eq(
        rq_assignments_parse(rq_slice_str("{\"messageQueueAssignments\":[{\"mode\":\"POP\"}]}"),
                             &out, NULL),
        RMQ_ERR_PROTOCOL);
}
END_TEST

START_TEST(mappings_of_static_topics_come_with_either_form_of_a_registration)
{
    struct rq_topic_config topic = {.name = "S", .read_queue_nums = 2, .write_queue_nums = 2};
    struct rq_queue_mapping_id ids[] = {{.logical = 0, .physical = 1},
                                        {.logical = 5, .physical = 0}};
    struct rq_queue_mapping_info mapping = {.topic = "S",
                                            .scope = RQ_MAPPING_SCOPE_GLOBAL,
                                            .broker_name = "b",
                                            .total_queues = 6,
                                            .epoch = 1700000000000,
                                            .ids = ids,
                                            .id_count = 2};
    const struct rq_topic_table table = {
        .topics = &topic, .count = 1, .mappings = &mapping, .mapping_count = 1};
    for (int compressed = 0; compressed < 2; compressed++) {
        struct rq_buf out;
        struct rq_topic_table back;
        rq_buf_init(&out, 0);
        if (compressed) {
            ck_assert_int_eq(rq_register_body_write_compressed(&table, &out, NULL), RMQ_OK);
        } else {
            rq_register_body_write(&table, &out);
        }
        struct rq_slice body = rq_slice(out.data, out.len);
        ck_assert_int_eq(rq_register_body_parse(body, compressed, 479, 1 << 20, &back, NULL),
                         RMQ_OK);
        ck_assert_uint_eq(back.mapping_count, 1);
        ck_assert_str_eq(back.mappings[0].topic, "S");
        ck_assert_str_eq(back.mappings[0].broker_name, "b");
        ck_assert_str_eq(back.mappings[0].scope, RQ_MAPPING_SCOPE_GLOBAL);
        ck_assert_int_eq(back.mappings[0].total_queues, 6);
        ck_assert_int_eq(back.mappings[0].epoch, 1700000000000);
        ck_assert_uint_eq(back.mappings[0].id_count, 2);
        ck_assert_int_eq(back.mappings[0].ids[1].logical, 5);
        ck_assert_int_eq(back.mappings[0].ids[1].physical, 0);
        rq_topic_table_clear(&back);
        if (compressed) { /* before 5.0 there was no such section */
            ck_assert_int_eq(rq_register_body_parse(body, true, 407, 1 << 20, &back, NULL), RMQ_OK);
            ck_assert_uint_eq(back.mapping_count, 0);
            rq_topic_table_clear(&back);
        }
        rq_buf_free(&out);
    }
}
END_TEST

START_TEST(a_compressed_registration_reads_back)
{
    struct rq_topic_config topics[2] = {
        {.name = "A", .read_queue_nums = 4, .write_queue_nums = 8, .perm = 6},
        {.name = "\xE4\xB8\xBB",
         .read_queue_nums = 1,
         .write_queue_nums = 2,
         .perm = 7,
         .multi_tag = true}};
    struct rq_topic_table table = {
        .topics = topics, .count = 2, .version = {.timestamp_ms = 5, .counter = 7}};
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_register_body_write_compressed(&table, &out, NULL), RMQ_OK);
    struct rq_topic_table back;
    ck_assert_int_eq(
        rq_register_body_parse(rq_slice(out.data, out.len), true, 479, 1 << 20, &back, NULL),
        RMQ_OK);
    ck_assert_uint_eq(back.count, 2);
    ck_assert_str_eq(back.topics[0].name, "A");
    ck_assert_int_eq(back.topics[0].write_queue_nums, 8);
    ck_assert_str_eq(back.topics[1].name, "\xE4\xB8\xBB");
    ck_assert(back.topics[1].multi_tag);
    ck_assert(back.version.counter == 7 && back.version.timestamp_ms == 5);
    rq_topic_table_clear(&back);
    for (size_t cut = 0; cut < out.len; cut++) {
        ck_assert_int_ne(
            rq_register_body_parse(rq_slice(out.data, cut), true, 479, 1 << 20, &back, NULL),
            RMQ_OK);
    }
    ck_assert_int_eq(rq_register_body_parse(rq_slice(out.data, out.len), true, 479, 8, &back, NULL),
                     RMQ_ERR_TOO_LARGE);
    rq_buf_free(&out);
}
END_TEST

/* So many codes of the first topic, and so many topics, in one heartbeat. */
static rmq_status beat(int codes, int topics)
{
    struct rq_heartbeat body;
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_buf_add_str(&text, "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g\","
                          "\"subscriptionDataSet\":[{\"topic\":\"t\",\"codeSet\":[0");
    for (int i = 1; i < codes; i++) {
        rq_buf_addf(&text, ",%d", i);
    }
    rq_buf_add_str(&text, "]}");
    for (int i = 1; i < topics; i++) {
        rq_buf_addf(&text, ",{\"topic\":\"t%d\"}", i);
    }
    rq_buf_add_str(&text, "]}]}");
    rmq_status st = rq_heartbeat_parse(rq_slice(text.data, text.len), &body, NULL);
    if (!st) {
        rq_heartbeat_clear(&body);
    }
    rq_buf_free(&text);
    return st;
}

START_TEST(a_heartbeat_has_a_most_of_topics_and_of_codes)
{
    ck_assert_int_eq(beat(RQ_SUBSCRIPTION_TAGS_MAX, RQ_HEARTBEAT_TOPICS_MAX), RMQ_OK);
    ck_assert_int_eq(beat(RQ_SUBSCRIPTION_TAGS_MAX + 1, 1), RMQ_ERR_PROTOCOL);
    ck_assert_int_eq(beat(1, RQ_HEARTBEAT_TOPICS_MAX + 1), RMQ_ERR_PROTOCOL);
}
END_TEST

Suite *bodies_suite(void)
{
    Suite *suite = suite_create("bodies");
    TCase *tc = tcase_create("bodies");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, heartbeats_locks_offsets_and_lists_mean_the_same_when_written_again);
    tcase_add_test(tc, routes_clusters_and_topics_mean_the_same_when_written_again);
    tcase_add_test(tc, assignments_tell_queues_and_whether_they_are_popped);
    tcase_add_test(tc, mappings_of_static_topics_come_with_either_form_of_a_registration);
    tcase_add_test(tc, a_compressed_registration_reads_back);
    tcase_add_test(tc, a_heartbeat_has_a_most_of_topics_and_of_codes);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Frames that Java wrote, in both serializations and both directions: read as Java reads them, and
 * the same when written again. */
#include "java_frame.h"
#include "recorded.h"
#include "vectors.h"

#include "base/mem.h"

Suite *recorded_frame_suite(void);

/* ---- remoting.json ---- */

static void check_vector(const cJSON *item)
{
    const char *name = rq_json_str(item, "name", "");
    const cJSON *decoded = rq_json_get(item, "decoded");
    struct rq_frame frame;
    rmq_error *err = NULL;
    size_t n;
    char *bytes = vectors_hex(item, "frame_hex", &n);
    rmq_status st = rq_frame_decode(bytes, n, &frame, &err);
    if (rq_json_get(item, "error")) {
        ck_assert_msg(st == RMQ_ERR_PROTOCOL, "%s: accepted", name);
        rmq_error_destroy(err);
    } else {
        ck_assert_msg(st == RMQ_OK, "%s: %s", name, rmq_error_message(err));
        java_check_header(&frame.header, decoded, name);
        java_check_body(frame.body, rq_json_str(decoded, "body_hex", ""), name);
        java_check_written_again(&frame, RQ_SERIALIZE_JSON, name);
        java_check_written_again(&frame, RQ_SERIALIZE_BINARY, name);
    }
    free(bytes);
}

START_TEST(each_recorded_command_decodes_to_what_java_saw_and_means_the_same_when_written_again)
{
    cJSON *json = java_read_remoting();
    const cJSON *item;
    cJSON_ArrayForEach(item, rq_json_get(json, "encode"))
    {
        check_vector(item);
    }
    cJSON_ArrayForEach(item, rq_json_get(json, "decode"))
    {
        check_vector(item);
    }
    rq_json_free(json);
}
END_TEST

START_TEST(a_frame_cut_at_any_byte_is_incomplete_and_its_header_is_refused)
{
    cJSON *json = java_read_remoting();
    const cJSON *item;
    cJSON_ArrayForEach(item, rq_json_get(json, "encode"))
    {
        size_t n;
        char *bytes = vectors_hex(item, "frame_hex", &n);
        size_t header = rq_frame_header_size(bytes) - RQ_FRAME_PREFIX;
        for (size_t cut = 0; cut < n; cut++) {
            size_t total = 7;
            char *part = malloc(cut ? cut : 1);
            memcpy(part, bytes, cut);
            ck_assert_int_eq(rq_frame_size(part, cut, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
            ck_assert_uint_eq(total, cut < RQ_FRAME_PREFIX ? 0 : n);
            struct rq_frame frame;
            ck_assert_int_eq(rq_frame_decode(part, cut, &frame, NULL), RMQ_ERR_PROTOCOL);
            free(part);
        }
        for (size_t cut = 0; cut < header; cut++) {
            struct rq_header out;
            char *part = malloc(cut ? cut : 1);
            memcpy(part, bytes + RQ_FRAME_PREFIX, cut);
            ck_assert_int_eq(rq_header_decode((enum rq_serialize)bytes[4], part, cut, &out, NULL),
                             RMQ_ERR_PROTOCOL);
            free(part);
        }
        free(bytes);
    }
    rq_json_free(json);
}
END_TEST

START_TEST(a_send_with_letters_is_the_same_struct_as_one_with_long_names)
{
    cJSON *json = java_read_remoting();
    const cJSON *item;
    cJSON_ArrayForEach(item, rq_json_get(json, "send_header_v2_to_v1"))
    {
        struct rq_header header = {.ext_count = 0};
        const cJSON *field;
        cJSON_ArrayForEach(field, rq_json_get(item, "v2_extFields"))
        {
            header.ext[header.ext_count++] =
                (struct rq_ext){rq_slice_str(field->string), rq_slice_str(field->valuestring)};
        }
        struct rq_hdr_send send;
        ck_assert_int_eq(rq_fields_decode(&rq_tab_send_v2, &header, &send, NULL), RMQ_OK);
        struct rq_frame_spec spec =
            rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_SEND_MESSAGE, &rq_tab_send, &send);
        struct rq_buf out;
        rq_buf_init(&out, 0);
        ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
        struct rq_frame frame;
        ck_assert_int_eq(rq_frame_decode(out.data, out.len, &frame, NULL), RMQ_OK);
        java_check_ext(&frame.header, rq_json_get(item, "v1_fields"), "long names");
        rq_buf_free(&out);
    }
    rq_json_free(json);
}
END_TEST

/* ---- recorded conversations ---- */

struct code_table {
    int32_t code;
    const struct rq_fields *request;
    const struct rq_fields *answer;
};

static const struct code_table tables[] = {
    {RQ_REQ_PULL_MESSAGE, &rq_tab_pull, &rq_tab_pull_response},
    {RQ_REQ_LITE_PULL_MESSAGE, &rq_tab_pull, &rq_tab_pull_response},
    {RQ_REQ_QUERY_MESSAGE, &rq_tab_query_message, &rq_tab_query_message_response},
    {RQ_REQ_QUERY_CONSUMER_OFFSET, &rq_tab_query_consumer_offset, &rq_tab_offset_response},
    {RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, NULL},
    {RQ_REQ_UPDATE_AND_CREATE_TOPIC, &rq_tab_create_topic, NULL},
    {RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP, &rq_tab_search_offset, &rq_tab_offset_response},
    {RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &rq_tab_offset_response},
    {RQ_REQ_GET_MIN_OFFSET, &rq_tab_queue, &rq_tab_offset_response},
    {RQ_REQ_GET_EARLIEST_MSG_STORETIME, &rq_tab_queue, &rq_tab_timestamp_response},
    {RQ_REQ_VIEW_MESSAGE_BY_ID, &rq_tab_view_message, NULL},
    {RQ_REQ_HEART_BEAT, NULL, &rq_tab_heartbeat_response},
    {RQ_REQ_UNREGISTER_CLIENT, &rq_tab_unregister_client, NULL},
    {RQ_REQ_CONSUMER_SEND_MSG_BACK, &rq_tab_send_back, NULL},
    {RQ_REQ_END_TRANSACTION, &rq_tab_end_transaction, NULL},
    {RQ_REQ_GET_CONSUMER_LIST_BY_GROUP, &rq_tab_consumer_group, NULL},
    {RQ_REQ_CHECK_TRANSACTION_STATE, &rq_tab_check_transaction, NULL},
    {RQ_REQ_NOTIFY_CONSUMER_IDS_CHANGED, &rq_tab_consumer_group, NULL},
    {RQ_REQ_REGISTER_BROKER, &rq_tab_register_broker, &rq_tab_register_broker_response},
    {RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, NULL},
    {RQ_REQ_GET_TOPIC_STATS_INFO, &rq_tab_topic, NULL},
    {RQ_REQ_GET_CONSUMER_CONNECTION_LIST, &rq_tab_consumer_group, NULL},
    {RQ_REQ_GET_PRODUCER_CONNECTION_LIST, &rq_tab_producer_group, NULL},
    {RQ_REQ_GET_CONSUME_STATS, &rq_tab_consume_stats, NULL},
    {RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, NULL},
    {RQ_REQ_DELETE_TOPIC_IN_NAMESRV, &rq_tab_topic, NULL},
    {RQ_REQ_GET_CONSUMER_RUNNING_INFO, &rq_tab_running_info, NULL},
    {RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &rq_tab_send_response},
    {RQ_REQ_SEND_BATCH_MESSAGE, &rq_tab_send_v2, &rq_tab_send_response},
    {RQ_REQ_SEND_REPLY_MESSAGE_V2, &rq_tab_send_v2, &rq_tab_send_response},
    {RQ_REQ_PUSH_REPLY_MESSAGE_TO_CLIENT, &rq_tab_reply, NULL},
    {RQ_REQ_GET_TOPIC_CONFIG, &rq_tab_topic, NULL},
    {RQ_REQ_POP_MESSAGE, &rq_tab_pop, &rq_tab_pop_response},
    {RQ_REQ_ACK_MESSAGE, &rq_tab_ack, NULL},
    {RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &rq_tab_ack, &rq_tab_change_invisible_response},
};

static const struct code_table *table_of(int32_t code)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (tables[i].code == code) {
            return &tables[i];
        }
    }
    return NULL;
}

static void add_field(void *user, struct rq_slice name, struct rq_slice value)
{
    struct rq_buf *out = user;
    rq_buf_add_slice(out, name);
    rq_buf_add_char(out, '=');
    rq_buf_add_slice(out, value);
    rq_buf_add_char(out, '\n');
}

static struct rq_buf fields_text(const struct rq_fields *table, const void *fields)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    rq_fields_each(table, fields, add_field, &out);
    return out;
}

/* Every extField that Java wrote is known to the table and comes back the same, through the struct
 * and in both forms. */
static void check_fields(const struct rq_frame *frame, const struct rq_fields *table,
                         const char *what)
{
    union {
        uint64_t align;
        char bytes[1024];
    } one, two;
    rmq_error *err = NULL;
    ck_assert(table->size <= sizeof one);
    rmq_status st = rq_fields_decode(table, &frame->header, &one, &err);
    ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
    for (int serialize = RQ_SERIALIZE_JSON; serialize <= RQ_SERIALIZE_BINARY; serialize++) {
        struct rq_frame_spec spec = rq_frame_request((enum rq_serialize)serialize, 1, table, &one);
        struct rq_buf out;
        rq_buf_init(&out, 0);
        ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
        struct rq_frame again;
        ck_assert_int_eq(rq_frame_decode(out.data, out.len, &again, NULL), RMQ_OK);
        for (size_t i = 0; i < frame->header.ext_count; i++) {
            const struct rq_ext *ext = &frame->header.ext[i];
            char *name = rq_slice_dup(ext->name);
            bool free_field = strcmp(name, "ReqT") == 0;
            ck_assert_msg(free_field ||
                              java_same_text(rq_header_ext(&again.header, name), ext->value),
                          "%s: extField %s is lost in form %d", what, name, serialize);
            rq_free(name);
        }
        ck_assert_int_eq(rq_fields_decode(table, &again.header, &two, NULL), RMQ_OK);
        struct rq_buf a = fields_text(table, &one);
        struct rq_buf b = fields_text(table, &two);
        ck_assert_msg(java_same_text(rq_slice(a.data, a.len), rq_slice(b.data, b.len)) ||
                          serialize == RQ_SERIALIZE_BINARY,
                      "%s", what);
        rq_buf_free(&a);
        rq_buf_free(&b);
        rq_buf_free(&out);
    }
}

static void check_command_fields(const struct recorded *recorded)
{
    const struct rq_frame *frame = &recorded->frame;
    const struct rq_header *header = &frame->header;
    const struct code_table *table = table_of(recorded->request);
    if (rq_header_is_response(header)) {
        if (table && table->answer && header->code == RQ_RESP_SUCCESS) {
            check_fields(frame, table->answer, recorded->what);
        }
    } else if (table && table->request) {
        check_fields(frame, table->request, recorded->what);
    } else {
        ck_assert_msg(header->ext_count == (rq_header_ext(header, "ReqT").p ? 1 : 0),
                      "%s: no table", recorded->what);
    }
}

static void check_recorded(const struct recorded *recorded)
{
    const struct rq_frame *frame = &recorded->frame;
    size_t total;
    ck_assert_int_eq(
        rq_frame_size(recorded->bytes.p, recorded->bytes.n, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
    ck_assert_uint_eq(total, recorded->bytes.n);
    java_check_header(&frame->header, rq_json_get(recorded->line, "decoded"), recorded->what);
    ck_assert_uint_eq(frame->body.n, (size_t)rq_json_i64(recorded->line, "body_len", -1));
    java_check_written_again(frame, RQ_SERIALIZE_JSON, recorded->what);
    java_check_written_again(frame, RQ_SERIALIZE_BINARY, recorded->what);
    check_command_fields(recorded);
}

START_TEST(each_frame_of_the_recorded_conversations_is_understood)
{
    recorded_each(check_recorded);
}
END_TEST

Suite *recorded_frame_suite(void)
{
    Suite *suite = suite_create("recorded_frame");
    TCase *tc = tcase_create("recorded_frame");
    tcase_set_timeout(tc, 60);
    tcase_add_test(
        tc, each_recorded_command_decodes_to_what_java_saw_and_means_the_same_when_written_again);
    tcase_add_test(tc, a_frame_cut_at_any_byte_is_incomplete_and_its_header_is_refused);
    tcase_add_test(tc, a_send_with_letters_is_the_same_struct_as_one_with_long_names);
    tcase_add_test(tc, each_frame_of_the_recorded_conversations_is_understood);
    suite_add_tcase(suite, tc);
    return suite;
}

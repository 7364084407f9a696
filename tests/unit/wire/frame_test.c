/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Frames: recorded ones of Java in both serializations, both directions; malformed ones; what the writer guarantees. */
#include <check.h>
#include <limits.h>

#include "vectors.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "wire/frame.h"

Suite *frame_suite(void);

/* ---- comparing with what Java decoded ---- */

/* cJSON texts cannot hold a NUL: the vectors are read with U+E000 in its place, which is undone here. */
static struct rq_buf expected_text(const char *text)
{
    struct rq_buf out;
    rq_buf_init(&out, 0);
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "\xEE\x80\x80", 3) == 0) {
            rq_buf_add_char(&out, '\0');
            p += 2;
        } else {
            rq_buf_add_char(&out, *p);
        }
    }
    return out;
}

static void check_text(struct rq_slice got, const cJSON *expected, const char *what)
{
    if (!cJSON_IsString(expected)) {
        ck_assert_msg(got.p == NULL, "%s: %.*s where Java has null", what, (int)got.n, got.p);
        return;
    }
    struct rq_buf text = expected_text(expected->valuestring);
    ck_assert_msg(got.p && rq_slice_eq(got, rq_slice(text.data, text.len)),
                  "%s: \"%.*s\" where Java has %s", what, (int)got.n, got.p ? got.p : "",
                  expected->valuestring);
    rq_buf_free(&text);
}

static size_t distinct_names(const struct rq_header *header)
{
    size_t count = 0;
    for (size_t i = 0; i < header->ext_count; i++) {
        bool again = false;
        for (size_t k = i + 1; k < header->ext_count; k++) {
            again = again || rq_slice_eq(header->ext[i].name, header->ext[k].name);
        }
        count += !again;
    }
    return count;
}

static void check_ext(const struct rq_header *header, const cJSON *expected, const char *what)
{
    ck_assert_msg(distinct_names(header) == (size_t)cJSON_GetArraySize(expected),
                  "%s: %u extFields", what, header->ext_count);
    const cJSON *item;
    cJSON_ArrayForEach(item, expected)
    {
        bool null_key = strcmp(item->string, "null") == 0; /* how the vectors show an empty key */
        check_text(rq_header_ext(header, null_key ? "" : item->string), item, what);
    }
}

static void check_header(const struct rq_header *header, const cJSON *expected, const char *what)
{
    ck_assert_msg(header->code == rq_json_i32(expected, "code", INT_MIN), "%s: code %d", what,
                  header->code);
    ck_assert_msg(header->flag == rq_json_i32(expected, "flag", INT_MIN), "%s: flag %d", what,
                  header->flag);
    ck_assert_msg(header->opaque == rq_json_i32(expected, "opaque", INT_MIN), "%s: opaque %d", what,
                  header->opaque);
    ck_assert_msg(header->version == rq_json_i32(expected, "version", INT_MIN), "%s: version %d",
                  what, header->version);
    const char *language = rq_json_str(expected, "language", NULL);
    ck_assert_msg(language ? strcmp(rq_language_name(header->language), language) == 0
                           : header->language == RQ_LANGUAGE_UNKNOWN,
                  "%s: language %d", what, header->language);
    bool json = strcmp(rq_json_str(expected, "serialize", ""), "JSON") == 0;
    ck_assert_msg(header->serialize == (json ? RQ_SERIALIZE_JSON : RQ_SERIALIZE_BINARY), "%s: form",
                  what);
    check_text(header->remark, rq_json_get(expected, "remark"), what);
    check_ext(header, rq_json_get(expected, "extFields"), what);
}

static void check_body(struct rq_slice body, const char *hex, const char *what)
{
    char *bytes = malloc(strlen(hex) / 2 + 1);
    ck_assert(rq_hex_parse(rq_slice_str(hex), bytes));
    ck_assert_msg(rq_slice_eq(body, rq_slice(bytes, strlen(hex) / 2)), "%s: body", what);
    free(bytes);
}

/* Equal in meaning: the binary form knows no empty text, and one side may be it. */
static bool same_text(struct rq_slice a, struct rq_slice b)
{
    return rq_slice_eq(a, b) || (a.n == 0 && b.n == 0);
}

static void check_same(const struct rq_header *a, const struct rq_header *b, const char *what)
{
    ck_assert_msg(a->code == b->code && a->flag == b->flag && a->opaque == b->opaque &&
                      a->version == b->version && same_text(a->remark, b->remark),
                  "%s: written again it means something else", what);
    for (size_t i = 0; i < a->ext_count; i++) {
        char *name = rq_slice_dup(a->ext[i].name);
        ck_assert_msg(same_text(rq_header_ext(a, name), rq_header_ext(b, name)), "%s: extField %s",
                      what, name);
        rq_free(name);
    }
}

/* Writes a decoded frame again in one form, decodes that and compares. */
static void write_again(const struct rq_frame *frame, enum rq_serialize serialize, const char *what)
{
    struct rq_frame_spec spec = {.serialize = serialize,
                                 .code = frame->header.code,
                                 .flag = frame->header.flag,
                                 .opaque = frame->header.opaque,
                                 .version = frame->header.version,
                                 .language = frame->header.language,
                                 .remark = frame->header.remark,
                                 .extra = frame->header.ext,
                                 .extra_count = frame->header.ext_count};
    struct rq_buf out;
    rq_buf_init(&out, 0);
    rmq_error *err = NULL;
    rmq_status st = rq_frame_encode(&out, &spec, frame->body.n, &err);
    if (serialize == RQ_SERIALIZE_BINARY && frame->header.code > INT16_MAX) {
        ck_assert_int_eq(st, RMQ_ERR_INVALID);
        rmq_error_destroy(err);
        rq_buf_free(&out);
        return;
    }
    ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
    ck_assert_uint_eq(rq_frame_header_size(out.data), out.len);
    rq_buf_add_slice(&out, frame->body);
    struct rq_frame again;
    st = rq_frame_decode(out.data, out.len, &again, &err);
    ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
    check_same(&frame->header, &again.header, what);
    ck_assert(rq_slice_eq(frame->body, again.body));
    ck_assert_int_eq(again.header.serialize, serialize);
    rq_buf_free(&out);
}

/* ---- remoting.json ---- */

static cJSON *read_remoting(void)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(
        rq_sys_read_file("tests/vectors/remoting.json", RQ_BUF_MAX_DEFAULT, &text, NULL), RMQ_OK);
    char *p = (char *)(uintptr_t)rq_buf_cstr(&text);
    while ((p = strstr(p, "\\u0000"))) {
        memcpy(p, "\\ue000", 6);
    }
    cJSON *json = NULL;
    ck_assert_int_eq(rq_json_parse(rq_slice(text.data, text.len), &json, NULL), RMQ_OK);
    rq_buf_free(&text);
    return json;
}

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
        check_header(&frame.header, decoded, name);
        check_body(frame.body, rq_json_str(decoded, "body_hex", ""), name);
        write_again(&frame, RQ_SERIALIZE_JSON, name);
        write_again(&frame, RQ_SERIALIZE_BINARY, name);
    }
    free(bytes);
}

START_TEST(each_recorded_command_decodes_to_what_java_saw_and_means_the_same_when_written_again)
{
    cJSON *json = read_remoting();
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
    cJSON *json = read_remoting();
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

/* Every extField that Java wrote is known to the table and comes back the same, through the struct and in both forms. */
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
            ck_assert_msg(free_field || same_text(rq_header_ext(&again.header, name), ext->value),
                          "%s: extField %s is lost in form %d", what, name, serialize);
            rq_free(name);
        }
        ck_assert_int_eq(rq_fields_decode(table, &again.header, &two, NULL), RMQ_OK);
        struct rq_buf a = fields_text(table, &one);
        struct rq_buf b = fields_text(table, &two);
        ck_assert_msg(same_text(rq_slice(a.data, a.len), rq_slice(b.data, b.len)) ||
                          serialize == RQ_SERIALIZE_BINARY,
                      "%s", what);
        rq_buf_free(&a);
        rq_buf_free(&b);
        rq_buf_free(&out);
    }
}

/* Code of the request with an opaque on a connection and direction; the newest wins. */
struct asked {
    int conn;
    int32_t opaque;
    bool from_client;
    int32_t code;
};

static struct asked asked[2048];
static size_t asked_count;

static int32_t code_asked(int conn, int32_t opaque, bool from_client)
{
    for (size_t i = asked_count; i > 0; i--) {
        const struct asked *a = &asked[i - 1];
        if (a->conn == conn && a->opaque == opaque && a->from_client == from_client) {
            return a->code;
        }
    }
    return -1;
}

static void check_command_fields(const struct rq_frame *frame, const cJSON *line, const char *what)
{
    int conn = rq_json_i32(line, "conn", 0);
    bool from_client = strcmp(rq_json_str(line, "dir", ""), "c2s") == 0;
    const struct rq_header *header = &frame->header;
    if (!rq_header_is_response(header)) {
        asked[asked_count++] = (struct asked){conn, header->opaque, from_client, header->code};
        const struct code_table *table = table_of(header->code);
        if (table && table->request) {
            check_fields(frame, table->request, what);
        } else {
            ck_assert_msg(header->ext_count == (rq_header_ext(header, "ReqT").p ? 1 : 0),
                          "%s: no table", what);
        }
        return;
    }
    const struct code_table *table = table_of(code_asked(conn, header->opaque, !from_client));
    if (table && table->answer && header->code == RQ_RESP_SUCCESS) {
        check_fields(frame, table->answer, what);
    }
}

static void check_conversation(const char *path)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, RQ_BUF_MAX_DEFAULT, &text, NULL), RMQ_OK);
    size_t count = 0;
    asked_count = 0;
    char *end;
    for (char *p = text.data; p < text.data + text.len; p = end + 1) {
        end = memchr(p, '\n', (size_t)(text.data + text.len - p));
        if (!end) {
            end = text.data + text.len;
        }
        cJSON *line = NULL;
        ck_assert_int_eq(rq_json_parse(rq_slice(p, (size_t)(end - p)), &line, NULL), RMQ_OK);
        char what[128];
        snprintf(what, sizeof what, "%s:%zu (%s)", path, count + 1, rq_json_str(line, "step", ""));
        size_t n;
        size_t total;
        char *bytes = vectors_hex(line, "hex", &n);
        struct rq_frame frame;
        rmq_error *err = NULL;
        ck_assert_int_eq(rq_frame_size(bytes, n, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
        ck_assert_uint_eq(total, n);
        rmq_status st = rq_frame_decode(bytes, n, &frame, &err);
        ck_assert_msg(st == RMQ_OK, "%s: %s", what, rmq_error_message(err));
        check_header(&frame.header, rq_json_get(line, "decoded"), what);
        ck_assert_uint_eq(frame.body.n, (size_t)rq_json_i64(line, "body_len", -1));
        write_again(&frame, RQ_SERIALIZE_JSON, what);
        write_again(&frame, RQ_SERIALIZE_BINARY, what);
        check_command_fields(&frame, line, what);
        free(bytes);
        rq_json_free(line);
        count++;
    }
    ck_assert_uint_gt(count, 200);
    rq_buf_free(&text);
}

START_TEST(each_frame_of_the_recorded_conversations_is_understood)
{
    check_conversation("tests/vectors/frames-5.3.3.jsonl");
    check_conversation("tests/vectors/frames-5.3.3-binary.jsonl");
    check_conversation("tests/vectors/frames-4.9.7.jsonl");
}
END_TEST

START_TEST(a_send_with_letters_is_the_same_struct_as_one_with_long_names)
{
    cJSON *json = read_remoting();
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
        check_ext(&frame.header, rq_json_get(item, "v1_fields"), "long names");
        rq_buf_free(&out);
    }
    rq_json_free(json);
}
END_TEST

/* ---- malformed frames ---- */

START_TEST(hopeless_lengths_and_unknown_kinds_are_refused_as_soon_as_they_are_seen)
{
    static const uint32_t lengths[] = {
        0, 1, 3, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, RQ_FRAME_MAX - 3};
    size_t total;
    char bytes[RQ_FRAME_PREFIX] = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        rq_store_be32(bytes, lengths[i]);
        rmq_status st = rq_frame_size(bytes, 4, RQ_FRAME_MAX, &total, NULL);
        ck_assert_msg(st == RMQ_ERR_PROTOCOL || st == RMQ_ERR_TOO_LARGE, "length %u: %d",
                      lengths[i], st);
        ck_assert_uint_eq(total, 0);
    }
    rq_store_be32(bytes, RQ_FRAME_MAX - 4);
    ck_assert_int_eq(rq_frame_size(bytes, sizeof bytes, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
    ck_assert_uint_eq(total, RQ_FRAME_MAX);
    rq_store_be32(bytes, 6);
    for (int kind = 0; kind < 256; kind++) {
        bytes[4] = (char)kind;
        rmq_status expected = kind <= RQ_SERIALIZE_BINARY ? RMQ_OK : RMQ_ERR_PROTOCOL;
        ck_assert_int_eq(rq_frame_size(bytes, 5, RQ_FRAME_MAX, &total, NULL), expected);
        ck_assert_int_eq(rq_frame_size(bytes, 8, RQ_FRAME_MAX, &total, NULL), expected);
    }
    bytes[4] = 0;
    bytes[7] = 2;
    ck_assert_int_eq(rq_frame_size(bytes, 8, RQ_FRAME_MAX, &total, NULL), RMQ_OK);
    bytes[7] = 3;
    ck_assert_int_eq(rq_frame_size(bytes, 8, RQ_FRAME_MAX, &total, NULL), RMQ_ERR_PROTOCOL);
}
END_TEST

static rmq_status decode_text(const char *text, struct rq_header *out)
{
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    rmq_status st = rq_header_decode(RQ_SERIALIZE_JSON, copy, n, out, NULL);
    free(copy); /* the slices are not looked at */
    return st;
}

START_TEST(broken_json_headers_are_refused)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[]",
                                      "null",
                                      "{}",
                                      "{\"code\":1",
                                      "{\"code\":1}}",
                                      "{\"code\":1,}",
                                      "{\"code\":x}",
                                      "{\"code\":}",
                                      "{\"code\":1.5}",
                                      "{\"code\":99999999999}",
                                      "{\"code\":null}",
                                      "{\"code\" 1}",
                                      "{\"code\":1 \"flag\":0}",
                                      "{code:1}",
                                      "{\"code\":1,\"flag\":1}",
                                      "{\"code\":1,\"remark\":\"\\x\"}",
                                      "{\"code\":1,\"remark\":\"\\u12g4\"}",
                                      "{\"code\":1,\"remark\":\"abc}",
                                      "{\"code\":1,\"x\":[}",
                                      "{\"code\":1,\"x\":[1,2}",
                                      "{\"code\":1,\"x\":{\"a\":[1,2}]}",
                                      "{\"code\":1,\"extFields\":[]}",
                                      "{\"code\":1,\"extFields\":{\"a\"}}",
                                      "{\"code\":1,\"extFields\":{\"a\":\"b\"}",
                                      "{\"code\":1,\"x\":\"\\",
                                      "{\"code\":1,\"x\":1a}",
                                      "{\"code\":1,\"x\":nul}",
                                      "{\"code\":1,\"x\":+1}",
                                      ("{\"code\":1,\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]"
                                      "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}")};
    struct rq_header out;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(decode_text(bad[i], &out) == RMQ_ERR_PROTOCOL, "accepted: %s", bad[i]);
    }
    ck_assert_int_eq(decode_text("{\"code\":1}", &out), RMQ_OK);
    ck_assert_int_eq(decode_text("{\"code\":1,\"flag\":1,\"opaque\":5}", &out), RMQ_OK);
    ck_assert_int_eq(
        decode_text("{\"code\":1,\"version\":null,\"language\":null,\"extFields\":null}", &out),
        RMQ_OK);
    ck_assert_int_eq(out.language, RQ_LANGUAGE_JAVA);
    ck_assert(!out.has_ext);
}
END_TEST

START_TEST(lone_surrogates_become_the_replacement_character)
{
    char text[] = "{\"code\":1,\"remark\":\"\\ud83d|\\ude00|\\ud83d\\u0041|\\ud83d\\ude00\"}";
    struct rq_header out;
    ck_assert_int_eq(rq_header_decode(RQ_SERIALIZE_JSON, text, strlen(text), &out, NULL), RMQ_OK);
    ck_assert(rq_slice_eq_str(out.remark, "\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD"
                                          "A|\xF0\x9F\x98\x80"));
}
END_TEST

static rmq_status decode_many(int count, enum rq_serialize serialize)
{
    struct rq_ext ext[RQ_HEADER_MAX_EXT + 1];
    char names[RQ_HEADER_MAX_EXT + 1][16];
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        ext[i] = (struct rq_ext){rq_slice_str(names[i]), rq_slice_str("v")};
    }
    struct rq_frame_spec spec = rq_frame_request(serialize, 1, NULL, NULL);
    spec.extra = ext;
    spec.extra_count = (size_t)count;
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
    struct rq_frame frame;
    rmq_status st = rq_frame_decode(out.data, out.len, &frame, NULL);
    rq_buf_free(&out);
    return st;
}

START_TEST(sixty_four_ext_fields_are_read_and_more_are_refused)
{
    for (int serialize = RQ_SERIALIZE_JSON; serialize <= RQ_SERIALIZE_BINARY; serialize++) {
        ck_assert_int_eq(decode_many(RQ_HEADER_MAX_EXT, (enum rq_serialize)serialize), RMQ_OK);
        ck_assert_int_eq(decode_many(RQ_HEADER_MAX_EXT + 1, (enum rq_serialize)serialize),
                         RMQ_ERR_PROTOCOL);
    }
}
END_TEST

/* ---- the writer ---- */

START_TEST(the_opaque_and_the_body_length_can_be_set_after_writing)
{
    static const int32_t opaques[] = {0, 1, -1, INT32_MAX, INT32_MIN, 123456};
    for (int serialize = RQ_SERIALIZE_JSON; serialize <= RQ_SERIALIZE_BINARY; serialize++) {
        struct rq_hdr_topic fields = {.topic = rq_slice_str("T")};
        struct rq_frame_spec spec =
            rq_frame_request((enum rq_serialize)serialize, 105, &rq_tab_topic, &fields);
        struct rq_buf out;
        rq_buf_init(&out, 0);
        rq_buf_add_str(&out, "before");
        ck_assert_int_eq(rq_frame_encode(&out, &spec, 100, NULL), RMQ_OK);
        char *frame = out.data + 6;
        size_t header = rq_frame_header_size(frame);
        ck_assert_uint_eq(header, out.len - 6);
        ck_assert_uint_eq(rq_load_be32(frame), header - 4 + 100);
        ck_assert_int_eq(rq_frame_patch_body_len(frame, 0, NULL), RMQ_OK);
        ck_assert_int_eq(rq_frame_patch_body_len(frame, RQ_FRAME_MAX - header + 1, NULL),
                         RMQ_ERR_TOO_LARGE);
        for (size_t i = 0; i < sizeof opaques / sizeof opaques[0]; i++) {
            struct rq_frame decoded;
            rq_frame_patch_opaque(frame, opaques[i]);
            ck_assert_int_eq(rq_frame_decode(frame, header, &decoded, NULL), RMQ_OK);
            ck_assert_int_eq(decoded.header.opaque, opaques[i]);
            ck_assert(decoded.header.has_ext);
            ck_assert(rq_slice_eq_str(rq_header_ext(&decoded.header, "topic"), "T"));
        }
        rq_buf_free(&out);
    }
}
END_TEST

START_TEST(a_request_without_fields_has_an_empty_ext_fields_object)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_HEART_BEAT, NULL, NULL);
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_OK);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out) + RQ_FRAME_PREFIX, "\"extFields\":{}"));
    rq_buf_free(&out);
}
END_TEST

START_TEST(frames_beyond_the_limits_are_refused_and_leave_the_buffer_as_it_was)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, 1, NULL, NULL);
    struct rq_buf out;
    rq_buf_init(&out, 1000);
    rq_buf_add_str(&out, "xyz");
    ck_assert_int_eq(rq_frame_encode(&out, &spec, RQ_FRAME_MAX, NULL), RMQ_ERR_TOO_LARGE);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, SIZE_MAX, NULL), RMQ_ERR_TOO_LARGE);
    ck_assert_uint_eq(out.len, 3);
    char *big = calloc(1, 2000);
    spec.remark = rq_slice(memset(big, 'r', 2000), 2000);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_ERR_TOO_LARGE);
    ck_assert_uint_eq(out.len, 3);
    free(big);
    spec = rq_frame_request(RQ_SERIALIZE_BINARY, RQ_REQ_POP_MESSAGE, NULL, NULL);
    rq_buf_clear(&out);
    ck_assert_int_eq(rq_frame_encode(&out, &spec, 0, NULL), RMQ_ERR_INVALID);
    rq_buf_free(&out);
}
END_TEST

/* ---- fields ---- */

static rmq_status decode_pull(const char *const *pairs, struct rq_hdr_pull *out, rmq_error **err)
{
    struct rq_header header = {.ext_count = 0};
    for (; pairs[0]; pairs += 2) {
        header.ext[header.ext_count++] =
            (struct rq_ext){rq_slice_str(pairs[0]), rq_slice_str(pairs[1])};
    }
    return rq_fields_decode(&rq_tab_pull, &header, out, err);
}

#define PULL_REST                                                                                  \
    "topic", "T", "queueOffset", "9223372036854775807", "maxMsgNums", "32", "sysFlag", "3",        \
        "commitOffset", "0", "suspendTimeoutMillis", "15000", "subVersion", "0"

START_TEST(fields_are_read_in_any_order_and_unknown_ones_are_passed_over)
{
    const char *pairs[] = {"zzz", "1", "subscription",  "",  "queueId",     "-3", PULL_REST,
                           "a",   "b", "consumerGroup", "g", "maxMsgBytes", "7",  NULL};
    struct rq_hdr_pull pull;
    ck_assert_int_eq(decode_pull(pairs, &pull, NULL), RMQ_OK);
    ck_assert_int_eq(pull.queue_id, -3);
    ck_assert(pull.queue_offset == INT64_MAX);
    ck_assert(rq_slice_eq_str(pull.consumer_group, "g"));
    ck_assert(pull.subscription.p && pull.subscription.n == 0);
    ck_assert(RQ_HAS(pull, &pull, max_msg_bytes));
    ck_assert(!RQ_HAS(pull, &pull, request_source));
    ck_assert(pull.expression_type.p == NULL);
}
END_TEST

START_TEST(a_missing_or_unreadable_field_is_named_in_the_error)
{
    static const char *const bad[] = {"", "x", "1x", "2147483648", "1.0", " 1", "--1"};
    struct rq_hdr_pull pull;
    rmq_error *err = NULL;
    const char *missing[] = {"consumerGroup", "g", PULL_REST, NULL};
    ck_assert_int_eq(decode_pull(missing, &pull, &err), RMQ_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "queueId"));
    rmq_error_destroy(err);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *pairs[] = {"consumerGroup", "g", "queueId", bad[i], PULL_REST, NULL};
        err = NULL;
        ck_assert_msg(decode_pull(pairs, &pull, &err) == RMQ_ERR_PROTOCOL, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "queueId"));
        rmq_error_destroy(err);
    }
}
END_TEST

START_TEST(any_text_but_true_is_false)
{
    static const struct {
        const char *text;
        bool value;
    } cases[] = {{"true", true},   {"TRUE", true}, {"True", true},
                 {"false", false}, {"1", false},   {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rq_header header = {.ext_count = 2};
        header.ext[0] = (struct rq_ext){rq_slice_str("topic"), rq_slice_str("T")};
        header.ext[1] = (struct rq_ext){rq_slice_str("lo"), rq_slice_str(cases[i].text)};
        struct rq_hdr_topic topic;
        ck_assert_int_eq(rq_fields_decode(&rq_tab_topic, &header, &topic, NULL), RMQ_OK);
        ck_assert_int_eq(topic.lo, cases[i].value);
        ck_assert(RQ_HAS(topic, &topic, lo));
    }
}
END_TEST

START_TEST(codes_have_names)
{
    ck_assert_str_eq(rq_request_name(310), "SEND_MESSAGE_V2");
    ck_assert_str_eq(rq_response_name(17), "TOPIC_NOT_EXIST");
    ck_assert_str_eq(rq_request_name(-5), "UNKNOWN");
    ck_assert_str_eq(rq_response_name(99999), "UNKNOWN");
    ck_assert_str_eq(rq_version_name(479), "V5_3_3");
    ck_assert_str_eq(rq_version_name(1), "");
    ck_assert_int_eq(rq_language_of(rq_slice_str("NODE_JS")), 13);
}
END_TEST

Suite *frame_suite(void)
{
    Suite *suite = suite_create("frame");
    TCase *tc = tcase_create("frame");
    tcase_set_timeout(tc, 60);
    tcase_add_test(
        tc, each_recorded_command_decodes_to_what_java_saw_and_means_the_same_when_written_again);
    tcase_add_test(tc, a_frame_cut_at_any_byte_is_incomplete_and_its_header_is_refused);
    tcase_add_test(tc, each_frame_of_the_recorded_conversations_is_understood);
    tcase_add_test(tc, a_send_with_letters_is_the_same_struct_as_one_with_long_names);
    tcase_add_test(tc, hopeless_lengths_and_unknown_kinds_are_refused_as_soon_as_they_are_seen);
    tcase_add_test(tc, broken_json_headers_are_refused);
    tcase_add_test(tc, lone_surrogates_become_the_replacement_character);
    tcase_add_test(tc, sixty_four_ext_fields_are_read_and_more_are_refused);
    tcase_add_test(tc, the_opaque_and_the_body_length_can_be_set_after_writing);
    tcase_add_test(tc, a_request_without_fields_has_an_empty_ext_fields_object);
    tcase_add_test(tc, frames_beyond_the_limits_are_refused_and_leave_the_buffer_as_it_was);
    tcase_add_test(tc, fields_are_read_in_any_order_and_unknown_ones_are_passed_over);
    tcase_add_test(tc, a_missing_or_unreadable_field_is_named_in_the_error);
    tcase_add_test(tc, any_text_but_true_is_false);
    tcase_add_test(tc, codes_have_names);
    suite_add_tcase(suite, tc);
    return suite;
}

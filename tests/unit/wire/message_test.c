/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Stored messages, batches, properties and ids against what the Java library wrote and read. */
#include "wire/message.h"

#include "base/jhash.h"
#include "base/mem.h"
#include "vectors.h"
#include "wire/compress.h"
#include "wire/properties.h"
#include "wire/subscription.h"

Suite *message_suite(void);

static void expect_host(const struct rq_host *host, const cJSON *want)
{
    size_t n = 0;
    char *ip = vectors_hex(want, "ip_hex", &n);
    ck_assert_uint_eq(host->len, n);
    ck_assert_mem_eq(host->addr, ip, n);
    ck_assert_int_eq(host->port, rq_json_i32(want, "port", -1));
    free(ip);
}

static void expect_bytes(struct rq_slice got, const cJSON *want, const char *member)
{
    size_t n = 0;
    char *bytes = vectors_hex(want, member, &n);
    ck_assert_uint_eq(got.n, n);
    ck_assert(n == 0 || memcmp(got.p, bytes, n) == 0);
    free(bytes);
}

static void expect_properties(struct rq_slice props, const cJSON *want)
{
    int count = 0;
    for (const cJSON *item = want ? want->child : NULL; item; item = item->next, count++) {
        struct rq_slice value = rq_props_get(props, item->string);
        ck_assert_msg(rq_slice_eq_str(value, item->valuestring), "%s is %.*s", item->string,
                      (int)value.n, value.p);
    }
    struct rq_prop prop;
    while (rq_props_next(&props, &prop)) {
        char *name = rq_slice_dup(prop.name);
        ck_assert_msg(cJSON_GetObjectItemCaseSensitive(want, name) != NULL, "extra %s", name);
        rq_free(name);
    }
}

static void expect_fields(const struct rq_msg *msg, const cJSON *want)
{
    ck_assert_int_eq(msg->total_size, rq_json_i32(want, "storeSize", -1));
    ck_assert_int_eq(msg->magic, rq_json_i32(want, "magic", -1));
    ck_assert_int_eq(msg->body_crc, rq_json_i32(want, "bodyCRC", -1));
    ck_assert_int_eq(msg->queue_id, rq_json_i32(want, "queueId", -1));
    ck_assert_int_eq(msg->flag, rq_json_i32(want, "flag", -1));
    ck_assert(msg->queue_offset == rq_json_i64(want, "queueOffset", -1));
    ck_assert(msg->commit_log_offset == rq_json_i64(want, "physicalOffset", -1));
    ck_assert_int_eq(msg->sys_flag, rq_json_i32(want, "sysFlag_wire", -1));
    ck_assert(msg->born_timestamp_ms == rq_json_i64(want, "bornTimestamp", -1));
    ck_assert(msg->store_timestamp_ms == rq_json_i64(want, "storeTimestamp", -1));
    ck_assert_int_eq(msg->reconsume_times, rq_json_i32(want, "reconsumeTimes", -1));
    ck_assert(msg->prepared_transaction_offset ==
              rq_json_i64(want, "preparedTransactionOffset", -1));
    expect_host(&msg->born_host, rq_json_get(want, "bornHost"));
    expect_host(&msg->store_host, rq_json_get(want, "storeHost"));
    ck_assert(rq_slice_eq_str(msg->topic, rq_json_str(want, "topic", "?")));
    ck_assert(rq_msg_crc_ok(msg));
}

static void expect_body(const struct rq_msg *msg, const cJSON *want)
{
    expect_bytes(msg->body, want, "body_wire_hex");
    if (!(msg->sys_flag & RQ_SYS_COMPRESSED)) {
        return;
    }
    enum rq_compression type;
    ck_assert_int_eq(rq_compression_of_sys_flag(msg->sys_flag, &type, NULL), RMQ_OK);
    char *body = NULL;
    size_t n = 0;
    rmq_error *err = NULL;
    ck_assert_msg(rq_decompress(type, msg->body.p, msg->body.n, 1 << 20, &body, &n, &err) == RMQ_OK,
                  "%s", rmq_error_message(err));
    expect_bytes(rq_slice(body, n), want, "body_hex");
    rq_free(body);
}

START_TEST(each_recorded_message_decodes_to_what_java_saw_and_encodes_to_the_same_bytes)
{
    cJSON *json = vectors_read("message.json");
    int seen = 0;
    for (const cJSON *item = rq_json_get(json, "cases")->child; item; item = item->next, seen++) {
        size_t n = 0;
        char *bytes = vectors_hex(item, "hex", &n);
        struct rq_cursor c = rq_cursor(bytes, n);
        struct rq_msg msg;
        rmq_error *err = NULL;
        ck_assert_msg(rq_msg_decode(&c, &msg, &err) == RMQ_OK, "%s: %s",
                      rq_json_str(item, "name", ""), rmq_error_message(err));
        const cJSON *want = rq_json_get(item, "decoded");
        if (want) {
            expect_fields(&msg, want);
            expect_body(&msg, want);
            expect_properties(msg.properties, rq_json_get(want, "properties"));
        } else {
            enum rq_compression type = RQ_COMPRESSION_ZLIB;
            char *body = NULL;
            size_t len = 0;
            ck_assert_int_eq(
                rq_decompress(type, msg.body.p, msg.body.n, 1 << 20, &body, &len, NULL),
                RMQ_ERR_PROTOCOL);
        }
        ck_assert_uint_eq(rq_msg_encoded_size(&msg), n);
        char *again = malloc(n);
        rq_msg_encode(&msg, n, again);
        ck_assert_msg(memcmp(again, bytes, n) == 0, "%s: other bytes",
                      rq_json_str(item, "name", ""));
        free(again);
        free(bytes);
    }
    ck_assert_int_eq(seen, 31);
    rq_json_free(json);
}
END_TEST

START_TEST(a_message_cut_at_any_byte_or_with_any_length_changed_is_an_error)
{
    cJSON *json = vectors_read("message.json");
    const cJSON *item = rq_json_get(json, "cases")->child->next->next;
    size_t n = 0;
    char *bytes = vectors_hex(item, "hex", &n);
    for (size_t cut = 0; cut < n; cut++) {
        char *exact = malloc(cut ? cut : 1);
        memcpy(exact, bytes, cut);
        struct rq_cursor c = rq_cursor(exact, cut);
        struct rq_msg msg;
        ck_assert_int_eq(rq_msg_decode(&c, &msg, NULL), RMQ_ERR_PROTOCOL);
        ck_assert(!rq_cursor_ok(&c));
        free(exact);
    }
    static const size_t lengths[] = {0, 84};
    static const uint32_t values[] = {0, 7, 0x7fffffff, 0x80000000, 0xffffffff, 90};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 6; k++) {
            char *changed = malloc(n);
            memcpy(changed, bytes, n);
            rq_store_be32(changed + lengths[i], values[k]);
            struct rq_cursor c = rq_cursor(changed, n);
            struct rq_msg msg;
            ck_assert_int_eq(rq_msg_decode(&c, &msg, NULL), RMQ_ERR_PROTOCOL);
            free(changed);
        }
    }
    free(bytes);
    rq_json_free(json);
}
END_TEST

START_TEST(property_strings_read_as_java_reads_them)
{
    cJSON *json = vectors_read("message.json");
    for (const cJSON *item = rq_json_get(json, "properties_decode")->child; item;
         item = item->next) {
        size_t n = 0;
        char *bytes = vectors_hex(item, "properties_hex", &n);
        expect_properties(rq_slice(bytes, n), rq_json_get(item, "map"));
        free(bytes);
    }
    for (const cJSON *item = rq_json_get(json, "properties_encode")->child; item;
         item = item->next) {
        struct rq_buf out;
        rq_buf_init(&out, 0);
        for (const cJSON *p = rq_json_get(item, "map")->child; p; p = p->next) {
            rq_props_add_str(&out, 0, p->string, rq_slice_str(p->valuestring));
        }
        expect_properties(rq_slice(out.data, out.len), rq_json_get(item, "map"));
        ck_assert_uint_eq(out.len, strlen(rq_json_str(item, "properties_hex", "")) / 2);
        rq_buf_free(&out);
    }
    rq_json_free(json);
}
END_TEST

START_TEST(batches_read_as_java_wrote_them_and_are_written_to_the_same_bytes)
{
    cJSON *json = vectors_read("message.json");
    for (const cJSON *item = rq_json_get(json, "batch")->child; item; item = item->next) {
        size_t n = 0;
        char *bytes = vectors_hex(item, "encoded_hex", &n);
        struct rq_cursor c = rq_cursor(bytes, n);
        struct rq_buf again;
        rq_buf_init(&again, 0);
        struct rq_batch_item got;
        const cJSON *want = rq_json_get(item, "decoded")->child;
        while (rq_batch_next(&c, &got, NULL) == RMQ_OK) {
            ck_assert_ptr_nonnull(want);
            ck_assert_int_eq(got.flag, rq_json_i32(want, "flag", -1));
            expect_bytes(got.body, want, "body_hex");
            expect_properties(got.properties, rq_json_get(want, "properties"));
            ck_assert_int_eq(rq_batch_add(&again, &got), RMQ_OK);
            want = want->next;
        }
        ck_assert_ptr_null(want);
        ck_assert(rq_cursor_ok(&c));
        ck_assert_uint_eq(again.len, n);
        ck_assert_mem_eq(again.data, bytes, n);
        for (size_t cut = 1; cut < n; cut++) {
            struct rq_cursor part = rq_cursor(bytes, cut);
            rmq_status st = RMQ_OK;
            while (st == RMQ_OK) {
                st = rq_batch_next(&part, &got, NULL);
            }
            ck_assert(st == RMQ_ERR_PROTOCOL || st == RMQ_ERR_NOT_FOUND);
        }
        rq_buf_free(&again);
        free(bytes);
    }
    rq_json_free(json);
}
END_TEST

START_TEST(ids_are_those_of_java)
{
    cJSON *json = vectors_read("message.json");
    for (const cJSON *item = rq_json_get(json, "offset_msg_id")->child; item; item = item->next) {
        struct rq_host host;
        int64_t offset = 0;
        const char *id = rq_json_str(item, "msgId", "");
        ck_assert_int_eq(rq_msgid_parse_offset(rq_slice_str(id), &host, &offset, NULL), RMQ_OK);
        ck_assert(offset == rq_json_i64(item, "offset", -1));
        expect_host(&host, rq_json_get(item, "host"));
        char again[RQ_MSGID_MAX + 1];
        rq_msgid_of_offset(&host, offset, again);
        ck_assert_str_eq(again, id);
    }
    for (const cJSON *item = rq_json_get(json, "unique_id")->child; item; item = item->next) {
        struct rq_unique_parts parts;
        const char *id = rq_json_str(item, "uniqId", "");
        ck_assert_int_eq(rq_msgid_parse_unique(rq_slice_str(id), &parts, NULL), RMQ_OK);
        ck_assert_int_eq(parts.pid, rq_json_i32(item, "pid", -1));
        ck_assert(parts.month_ms == (uint32_t)rq_json_i64(item, "ms_since_month_start_u32", -1));
        ck_assert_int_eq(parts.counter, rq_json_i32(item, "counter_u16", -1));
        char again[RQ_MSGID_MAX + 1];
        rq_msgid_of_unique(&parts, again);
        ck_assert_str_eq(again, id);
    }
    ck_assert_int_eq(
        rq_msgid_parse_offset(rq_slice_str("zz"), &(struct rq_host){0}, &(int64_t){0}, NULL),
        RMQ_ERR_INVALID);
    rq_json_free(json);
}
END_TEST

START_TEST(hosts_read_and_write_numeric_addresses)
{
    static const char *const good[] = {"127.0.0.1:10911", "[::1]:9876", "[2001:db8::5]:65535",
                                       "0.0.0.0:0"};
    static const char *const bad[] = {
        "",        "127.0.0.1",     "127.0.0.1:", ":1",          "[::1]",
        "1.2.3:5", "1.2.3.4:70000", "1.2.3.4:-1", "[1.2.3.4]:5", "name:5"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct rq_host host;
        char text[RQ_HOST_TEXT];
        ck_assert_int_eq(rq_host_parse(rq_slice_str(good[i]), &host, NULL), RMQ_OK);
        rq_host_text(&host, text);
        ck_assert_str_eq(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rq_host host;
        ck_assert_msg(rq_host_parse(rq_slice_str(bad[i]), &host, NULL) == RMQ_ERR_INVALID, "%s",
                      bad[i]);
    }
}
END_TEST

/* MessageQueue.hashCode, of the parts that we hash, too. */
static int32_t queue_hash(const cJSON *row)
{
    uint32_t hash = 31 + (uint32_t)rq_java_hash(rq_slice_str(rq_json_str(row, "brokerName", "")));
    hash = hash * 31 + (uint32_t)rq_json_i32(row, "queueId", -1);
    hash = hash * 31 + (uint32_t)rq_java_hash(rq_slice_str(rq_json_str(row, "topic", "")));
    return (int32_t)hash;
}

START_TEST(hashes_of_the_parts_of_a_queue_are_those_of_java)
{
    cJSON *json = vectors_read("hash.json");
    const cJSON *row = NULL;
    int rows = 0;
    cJSON_ArrayForEach(row, rq_json_get(json, "message_queue"))
    {
        ck_assert_int_eq(queue_hash(row), rq_json_i32(row, "hashCode", 0));
        rows++;
    }
    ck_assert_int_ge(rows, 3);
    rq_json_free(json);
}
END_TEST

START_TEST(tag_hashes_and_subscriptions_are_those_of_java)
{
    cJSON *json = vectors_read("hash.json");
    for (const cJSON *item = rq_json_get(json, "string_hash")->child; item; item = item->next) {
        size_t n = 0;
        char *text = vectors_hex(item, "utf8_hex", &n);
        ck_assert_int_eq(rq_java_hash(rq_slice(text, n)), rq_json_i32(item, "hashCode", -1));
        ck_assert(rq_tags_code(rq_slice(text, n)) == rq_json_i64(item, "tagsCode", -1));
        free(text);
    }
    for (const cJSON *item = rq_json_get(json, "subscription")->child; item; item = item->next) {
        const char *expression = rq_json_str(item, "expression", NULL);
        struct rq_subscription *sub = NULL;
        rmq_status st = rq_subscription_create("T", expression, NULL, 1, &sub, NULL);
        if (rq_json_get(item, "error")) {
            ck_assert_int_eq(st, RMQ_ERR_INVALID);
            continue;
        }
        ck_assert_msg(st == RMQ_OK, "%s", expression);
        ck_assert_str_eq(sub->sub_string, rq_json_str(item, "subString", "?"));
        ck_assert_int_eq((int)sub->tag_count, cJSON_GetArraySize(rq_json_get(item, "tagsSet")));
        ck_assert_int_eq((int)sub->code_count, cJSON_GetArraySize(rq_json_get(item, "codeSet")));
        for (const cJSON *tag = rq_json_get(item, "tagsSet")->child; tag; tag = tag->next) {
            ck_assert(rq_subscription_match_tag(sub, rq_slice_str(tag->valuestring)));
        }
        for (const cJSON *code = rq_json_get(item, "codeSet")->child; code; code = code->next) {
            ck_assert(rq_subscription_match_code(sub, (int64_t)code->valuedouble));
        }
        rq_subscription_destroy(sub);
    }
    rq_json_free(json);
}
END_TEST

START_TEST(tags_with_equal_hashes_are_told_apart_by_text)
{
    struct rq_subscription *sub = NULL;
    ck_assert_int_eq(rq_subscription_create("T", "Aa || \xE6\xA0\x87", NULL, 1, &sub, NULL),
                     RMQ_OK);
    ck_assert(rq_subscription_match_code(sub, rq_tags_code(rq_slice_str("BB"))));
    ck_assert(rq_subscription_match_tag(sub, rq_slice_str("Aa")));
    ck_assert(!rq_subscription_match_tag(sub, rq_slice_str("BB")));
    ck_assert(!rq_subscription_match_tag(sub, rq_slice(NULL, 0)));
    rq_subscription_destroy(sub);
}
END_TEST

static rmq_status subscribe_tags(int count)
{
    struct rq_subscription *sub = NULL;
    struct rq_buf text;
    rq_buf_init(&text, 0);
    for (int i = 0; i < count; i++) {
        rq_buf_addf(&text, i ? "||%d" : "%d", i);
    }
    rmq_status st = rq_subscription_create("T", rq_buf_cstr(&text), NULL, 1, &sub, NULL);
    ck_assert(st != RMQ_OK || sub->tag_count == (size_t)count);
    rq_subscription_destroy(sub);
    rq_buf_free(&text);
    return st;
}

START_TEST(an_expression_has_a_most_of_tags)
{
    ck_assert_int_eq(subscribe_tags(RQ_SUBSCRIPTION_TAGS_MAX), RMQ_OK);
    ck_assert_int_eq(subscribe_tags(RQ_SUBSCRIPTION_TAGS_MAX + 1), RMQ_ERR_INVALID);
}
END_TEST

static void round_trip(enum rq_compression type, size_t n, bool noise)
{
    char *in = malloc(n ? n : 1);
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        in[i] = noise ? (char)(seed >> 24) : (char)('a' + i % 26);
    }
    struct rq_buf out;
    rq_buf_init(&out, 0);
    ck_assert_int_eq(rq_compress(type, 5, rq_slice(in, n), &out, NULL), RMQ_OK);
    char *back = NULL;
    size_t len = 0;
    ck_assert_int_eq(rq_decompress(type, out.data, out.len, n, &back, &len, NULL), RMQ_OK);
    ck_assert_uint_eq(len, n);
    ck_assert(n == 0 || memcmp(back, in, n) == 0);
    rq_free(back);
    if (n > 1) {
        ck_assert_int_eq(rq_decompress(type, out.data, out.len, n - 1, &back, &len, NULL),
                         RMQ_ERR_TOO_LARGE);
        ck_assert_int_eq(rq_decompress(type, out.data, out.len / 2, n, &back, &len, NULL),
                         RMQ_ERR_PROTOCOL);
        out.data[out.len / 2] ^= 0x55;
        if (rq_decompress(type, out.data, out.len, n, &back, &len, NULL) == RMQ_OK) {
            rq_free(back); /* LZ4 and zstd frames carry no checksum by default */
        }
    }
    rq_buf_free(&out);
    free(in);
}

START_TEST(bodies_of_all_sizes_survive_compression_and_bad_ones_are_errors)
{
    static const enum rq_compression types[] = {RQ_COMPRESSION_ZLIB, RQ_COMPRESSION_LZ4,
                                                RQ_COMPRESSION_ZSTD};
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 1 << 20, (4 << 20) - 1024};
    for (size_t t = 0; t < 3; t++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            round_trip(types[t], sizes[s], false);
            round_trip(types[t], sizes[s], true);
        }
    }
}
END_TEST

Suite *message_suite(void)
{
    Suite *suite = suite_create("message");
    TCase *tc = tcase_create("message");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc,
                   each_recorded_message_decodes_to_what_java_saw_and_encodes_to_the_same_bytes);
    tcase_add_test(tc, a_message_cut_at_any_byte_or_with_any_length_changed_is_an_error);
    tcase_add_test(tc, property_strings_read_as_java_reads_them);
    tcase_add_test(tc, batches_read_as_java_wrote_them_and_are_written_to_the_same_bytes);
    tcase_add_test(tc, ids_are_those_of_java);
    tcase_add_test(tc, hosts_read_and_write_numeric_addresses);
    tcase_add_test(tc, hashes_of_the_parts_of_a_queue_are_those_of_java);
    tcase_add_test(tc, tag_hashes_and_subscriptions_are_those_of_java);
    tcase_add_test(tc, tags_with_equal_hashes_are_told_apart_by_text);
    tcase_add_test(tc, an_expression_has_a_most_of_tags);
    tcase_add_test(tc, bodies_of_all_sizes_survive_compression_and_bad_ones_are_errors);
    suite_add_tcase(suite, tc);
    return suite;
}

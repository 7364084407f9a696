/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Stores recorded from the Java brokers, opened and compared with their manifests. */
#include <check.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sys.h"
#include "fixture.h"
#include "store/record.h"
#include "wire/compress.h"
#include "wire/properties.h"

Suite *recorded_suite(void);

#define MANIFEST_MAX ((size_t)4 << 20)
#define BODY_MAX     ((size_t)1 << 20)

static cJSON *read_manifest(const char *name)
{
    char path[FIXTURE_PATH];
    struct rq_buf text;
    cJSON *json = NULL;
    snprintf(path, sizeof path, "tests/vectors/%s.manifest.json", name);
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, MANIFEST_MAX, &text, NULL), RMQ_OK);
    ck_assert_int_eq(rq_json_parse(rq_slice(text.data, text.len), &json, NULL), RMQ_OK);
    rq_buf_free(&text);
    return json;
}

static void check_sha1(struct rq_slice body, const char *expected)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    unsigned n = 0;
    ck_assert_int_eq(EVP_Digest(body.p, body.n, digest, &n, EVP_sha1(), NULL), 1);
    for (unsigned i = 0; i < n; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    ck_assert_str_eq(hex, expected);
}

static void check_body(const struct rq_msg *msg, const cJSON *expected)
{
    ck_assert_int_eq((int64_t)msg->body.n, rq_json_i64(expected, "stored_body_len", -1));
    struct rq_slice body = msg->body;
    char *inflated = NULL;
    if (msg->sys_flag & RQ_SYS_COMPRESSED) {
        size_t n = 0;
        ck_assert_int_eq(
            rq_decompress(RQ_COMPRESSION_ZLIB, body.p, body.n, BODY_MAX, &inflated, &n, NULL),
            RMQ_OK);
        body = rq_slice(inflated, n);
    }
    ck_assert_int_eq((int64_t)body.n, rq_json_i64(expected, "body_len", -1));
    check_sha1(body, rq_json_str(expected, "body_sha1", ""));
    rq_free(inflated);
}

static void check_properties(const struct rq_msg *msg, const cJSON *expected)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, rq_json_get(expected, "properties"))
    {
        struct rq_slice value = rq_props_get(msg->properties, item->string);
        ck_assert_msg(rq_slice_eq_str(value, item->valuestring), "property %s", item->string);
    }
}

static void check_message(struct fixture *fix, struct rq_slice topic, int queue_id,
                          const cJSON *expected)
{
    struct rq_store_result result;
    struct rq_store_entry entry;
    int64_t offset = rq_json_i64(expected, "queueOffset", -1);
    rq_store_get(fix->store, topic, queue_id, offset, 1, 0, NULL, &result);
    ck_assert_int_eq(result.status, RQ_GET_FOUND);
    ck_assert_int_eq(result.msg_count, 1);
    ck_assert_int_eq(result.next_begin_offset, offset + 1);
    ck_assert(rq_store_entry(fix->store, topic, queue_id, offset, &entry));
    ck_assert_int_eq(entry.tags_code, rq_json_i64(expected, "tagsCode", -1));
    ck_assert_int_eq(entry.size, rq_json_i64(expected, "size", -1));
    struct rq_cursor c = rq_cursor(result.refs[0].p, result.refs[0].n);
    struct rq_msg msg;
    ck_assert_int_eq(rq_msg_decode(&c, &msg, NULL), RMQ_OK);
    ck_assert(rq_msg_crc_ok(&msg));
    ck_assert_int_eq(msg.commit_log_offset, rq_json_i64(expected, "commitLogOffset", -1));
    ck_assert_int_eq(msg.store_timestamp_ms, rq_json_i64(expected, "storeTimestamp", -1));
    ck_assert_int_eq(msg.reconsume_times, rq_json_i64(expected, "reconsumeTimes", -1));
    ck_assert_int_eq(msg.flag, rq_json_i64(expected, "flag", -1));
    ck_assert_int_eq(rq_store_time_of(fix->store, topic, queue_id, offset), msg.store_timestamp_ms);
    check_body(&msg, expected);
    check_properties(&msg, expected);
    rq_store_result_release(&result);
}

/* How many messages. */
static int64_t check_queues(struct fixture *fix, const cJSON *manifest)
{
    int64_t count = 0;
    const cJSON *queue;
    cJSON_ArrayForEach(queue, rq_json_get(manifest, "queues"))
    {
        const char *slash = strrchr(queue->string, '/');
        struct rq_slice topic = rq_slice(queue->string, (size_t)(slash - queue->string));
        int id = atoi(slash + 1);
        bool empty = rq_json_i64(queue, "maxOffset", -1) == 0; /* such a queue needs no file */
        ck_assert_msg(empty || rq_store_has_queue(fix->store, topic, id), "%s", queue->string);
        ck_assert_int_eq(rq_store_min_offset(fix->store, topic, id),
                         rq_json_i64(queue, "minOffset", -1));
        ck_assert_int_eq(rq_store_max_offset(fix->store, topic, id),
                         rq_json_i64(queue, "maxOffset", -1));
        const cJSON *message;
        cJSON_ArrayForEach(message, rq_json_get(queue, "messages"))
        {
            check_message(fix, topic, id, message);
            count++;
        }
    }
    return count;
}

static int compare_offsets(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Offsets found for a key, ascending. */
static size_t look_up(struct fixture *fix, const char *topic, const char *key, int64_t *found)
{
    struct rq_store_ref refs[64];
    size_t n = rq_store_query(fix->store, rq_slice_str(topic), rq_slice_str(key), 0, INT64_MAX / 2,
                              64, refs, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        struct rq_record record;
        rq_record_read(refs[i].p, refs[i].n, true, &record);
        found[i] = record.commit_log_offset;
        rq_store_ref_release(&refs[i]);
    }
    qsort(found, n, sizeof *found, compare_offsets);
    return n;
}

/* At least what Java finds; with exact, nothing else. */
static void check_lookups(struct fixture *fix, const cJSON *manifest, bool exact)
{
    const cJSON *look;
    int looks = 0;
    cJSON_ArrayForEach(look, rq_json_get(manifest, "index_lookups"))
    {
        int64_t found[64];
        const char *key = rq_json_str(look, "key", "");
        size_t n = look_up(fix, rq_json_str(look, "topic", ""), key, found);
        const cJSON *offsets = rq_json_get(look, "commitLogOffsets");
        size_t expected = (size_t)cJSON_GetArraySize(offsets);
        ck_assert_msg(exact ? n == expected : n >= expected, "key %s: %zu of %zu", key, n,
                      expected);
        for (size_t i = 0; i < expected; i++) {
            int64_t offset = -1;
            rq_json_value_i64(cJSON_GetArrayItem(offsets, (int)i), &offset);
            ck_assert_msg(bsearch(&offset, found, n, sizeof offset, compare_offsets) != NULL,
                          "key %s offset %lld", key, (long long)offset);
        }
        looks++;
    }
    ck_assert_int_gt(looks, 0);
}

static void check_totals(struct fixture *fix, const cJSON *manifest, int64_t messages)
{
    const cJSON *totals = rq_json_get(manifest, "totals");
    struct rq_store_info info;
    rq_store_info(fix->store, &info);
    ck_assert_int_eq(messages, rq_json_i64(totals, "messages_in_queues", -1));
    ck_assert_int_eq(info.min_commit_log_offset, rq_json_i64(totals, "commitlog_min_offset", -1));
    ck_assert_int_eq(info.max_commit_log_offset, rq_json_i64(totals, "commitlog_max_offset", -1));
    ck_assert_int_eq(info.dispatched_commit_log_offset, info.max_commit_log_offset);
}

static void check_store(const char *name, bool exact_lookups)
{
    struct fixture fix;
    cJSON *manifest = read_manifest(name);
    fixture_begin(&fix);
    fixture_unpack(&fix, name);
    for (int round = 0; round < 2; round++) { /* the second time after our own stop */
        fixture_open(&fix);
        check_totals(&fix, manifest, check_queues(&fix, manifest));
        check_lookups(&fix, manifest, exact_lookups);
        fixture_close(&fix);
    }
    rq_json_free(manifest);
    fixture_end(&fix);
}

START_TEST(the_clean_store_of_5_3_3_gives_its_manifest)
{
    check_store("store-5.3.3", true);
}
END_TEST

START_TEST(the_clean_store_of_4_9_7_gives_its_manifest)
{
    check_store("store-4.9.7", true);
}
END_TEST

START_TEST(the_crashed_store_recovers_to_its_manifest)
{
    check_store("store-5.3.3-crashed", false);
}
END_TEST

START_TEST(the_torn_store_recovers_to_its_manifest)
{
    check_store("store-5.3.3-torn", false);
}
END_TEST

START_TEST(queues_and_index_come_back_when_their_directories_were_removed)
{
    struct fixture fix;
    cJSON *manifest = read_manifest("store-5.3.3");
    fixture_begin(&fix);
    fixture_unpack(&fix, "store-5.3.3");
    rq_sys_rmtree(fixture_path(&fix, "consumequeue"));
    rq_sys_rmtree(fixture_path(&fix, "index"));
    fixture_open(&fix);
    check_totals(&fix, manifest, check_queues(&fix, manifest));
    check_lookups(&fix, manifest, true);
    rq_json_free(manifest);
    fixture_end(&fix);
}
END_TEST

Suite *recorded_suite(void)
{
    Suite *suite = suite_create("recorded");
    TCase *tc = tcase_create("recorded");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_clean_store_of_5_3_3_gives_its_manifest);
    tcase_add_test(tc, the_clean_store_of_4_9_7_gives_its_manifest);
    tcase_add_test(tc, the_crashed_store_recovers_to_its_manifest);
    tcase_add_test(tc, the_torn_store_recovers_to_its_manifest);
    tcase_add_test(tc, queues_and_index_come_back_when_their_directories_were_removed);
    suite_add_tcase(suite, tc);
    return suite;
}

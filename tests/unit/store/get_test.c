/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Reading: every status of a get, limits, filters, times, keys. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/jhash.h"
#include "base/sys.h"
#include "base/time.h"
#include "fixture.h"
#include "store/index.h"
#include "store/record.h"
#include "unit/wire/vectors.h"

Suite *get_suite(void);

static void append_many(struct fixture *fix, const char *topic, int queue_id, unsigned from,
                        unsigned count, size_t size, const char *properties)
{
    for (unsigned i = from; i < from + count; i++) {
        struct rq_msg msg = fixture_msg(topic, queue_id, size, i, properties);
        fixture_append(fix, &msg);
    }
}

static void expect(struct fixture *fix, const char *topic, int queue_id, int64_t offset,
                   enum rq_get_status st, int64_t next)
{
    struct rq_store_result result;
    fixture_get(fix, topic, queue_id, offset, 32, &result);
    ck_assert_str_eq(rq_get_status_name(result.status), rq_get_status_name(st));
    ck_assert_int_eq(result.next_begin_offset, next);
    rq_store_result_release(&result);
}

START_TEST(each_place_of_an_offset_has_its_status_and_next_offset)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    expect(&fix, "T", 0, 0, RQ_GET_NO_MATCHED_LOGIC_QUEUE, 0);
    struct rq_msg msg = fixture_msg("T", 0, 10, 0, NULL);
    struct rq_store_put put;
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    expect(&fix, "T", 0, 0, RQ_GET_NO_MESSAGE_IN_QUEUE, 0); /* not dispatched yet */
    rq_store_dispatch(fix.store);
    append_many(&fix, "T", 0, 1, 9, 10, NULL);
    expect(&fix, "T", 0, 0, RQ_GET_FOUND, 10);
    expect(&fix, "T", 0, 9, RQ_GET_FOUND, 10);
    expect(&fix, "T", 0, 10, RQ_GET_OFFSET_OVERFLOW_ONE, 10);
    expect(&fix, "T", 0, 11, RQ_GET_OFFSET_OVERFLOW_BADLY, 10);
    expect(&fix, "T", 0, -1, RQ_GET_OFFSET_TOO_SMALL, 0);
    expect(&fix, "T", 1, 0, RQ_GET_NO_MATCHED_LOGIC_QUEUE, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_get_stops_at_its_limits_but_returns_one_message_always)
{
    struct fixture fix;
    struct rq_store_result result;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 0, 19, 10000, NULL);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 0, 32, 25000, NULL, &result);
    ck_assert_int_eq(result.msg_count, 2);
    ck_assert_int_eq(result.next_begin_offset, 2);
    rq_store_result_release(&result);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 3, 32, 100, NULL, &result);
    ck_assert_int_eq(result.msg_count, 1);
    rq_store_result_release(&result);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 3, 4, 0, NULL, &result);
    ck_assert_int_eq(result.msg_count, 4);
    rq_store_result_release(&result);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 0, 1000, 0, NULL, &result);
    ck_assert_int_eq(result.msg_count, 19);
    rq_store_result_release(&result);
    append_many(&fix, "T", 0, 19, 20, 10, NULL);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 15, 1000, 0, NULL, &result);
    ck_assert_int_eq(result.msg_count, 5); /* one queue file only */
    rq_store_result_release(&result);
    fixture_end(&fix);
}
END_TEST

START_TEST(messages_far_behind_count_as_on_disk_with_smaller_limits)
{
    struct fixture fix;
    struct rq_store_result result;
    fixture_begin(&fix);
    fix.options.access_message_in_memory_max_ratio = 0;
    fixture_open(&fix);
    append_many(&fix, "T", 0, 0, 20, 100, NULL);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 0, 32, 0, NULL, &result);
    ck_assert_int_eq(result.msg_count, 8);
    ck_assert(result.suggest_pulling_from_slave);
    rq_store_result_release(&result);
    ck_assert(!rq_store_in_memory(fix.store, rq_slice_str("T"), 0, 0));
    fixture_end(&fix);
}
END_TEST

START_TEST(a_filter_of_tags_skips_what_does_not_match_and_moves_on)
{
    struct fixture fix;
    struct rq_store_result result;
    const int32_t codes[] = {2598919, 857175}; /* TagA, 标签 */
    struct rq_store_filter filter = {.codes = codes, .count = 2};
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 0, 3, 10, "TAGS\1TagB\2");
    append_many(&fix, "T", 0, 3, 2, 10, "TAGS\1TagA\2");
    append_many(&fix, "T", 0, 5, 2, 10, NULL);
    append_many(&fix, "T", 0, 7, 1, 10, "TAGS\1标签\2");
    append_many(&fix, "T", 0, 8, 2, 10, "TAGS\1TagB\2");
    rq_store_get(fix.store, rq_slice_str("T"), 0, 0, 32, 0, &filter, &result);
    ck_assert_int_eq(result.status, RQ_GET_FOUND);
    ck_assert_int_eq(result.msg_count, 3);
    ck_assert_uint_eq(result.ref_count, 2);
    ck_assert_int_eq(result.next_begin_offset, 10);
    rq_store_result_release(&result);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 8, 32, 0, &filter, &result);
    ck_assert_int_eq(result.status, RQ_GET_NO_MATCHED_MESSAGE);
    ck_assert_int_eq(result.next_begin_offset, 10);
    fixture_end(&fix);
}
END_TEST

static bool odd_flag(struct rq_slice record, void *user)
{
    int *calls = user;
    return (*calls)++ % 2 == 1 && record.n > 0;
}

START_TEST(a_filter_of_records_is_asked_for_each)
{
    struct fixture fix;
    struct rq_store_result result;
    int calls = 0;
    struct rq_store_filter filter = {.match = odd_flag, .user = &calls};
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 0, 10, 10, NULL);
    rq_store_get(fix.store, rq_slice_str("T"), 0, 0, 32, 0, &filter, &result);
    ck_assert_int_eq(result.msg_count, 5);
    ck_assert_int_eq(calls, 10);
    rq_store_result_release(&result);
    fixture_end(&fix);
}
END_TEST

START_TEST(offsets_by_time_have_both_bounds)
{
    struct fixture fix;
    struct rq_slice topic = rq_slice_str("T");
    int64_t times[30];
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 30; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 10, i, NULL);
        int64_t before = i > 0 ? times[i - 1] : 0;
        while (i % 3 == 0 && rq_wall_ms() <= before) { /* a new millisecond every third message */
        }
        times[i] = fixture_append(&fix, &msg).store_timestamp;
    }
    for (unsigned i = 0; i < 30; i++) {
        unsigned first = i;
        unsigned last = i;
        while (first > 0 && times[first - 1] == times[i]) {
            first--;
        }
        while (last < 29 && times[last + 1] == times[i]) {
            last++;
        }
        ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, times[i], false), first);
        ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, times[i], true), last);
        ck_assert_int_eq(rq_store_time_of(fix.store, topic, 0, i), times[i]);
    }
    ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, 0, false), 0);
    ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, 0, true), 0);
    ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, times[29] + 1, false), 30);
    ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, times[29] + 1, true), 29);
    ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 7, 0, false), 0);
    ck_assert_int_eq(rq_store_earliest_time(fix.store, topic, 0), times[0]);
    ck_assert_int_eq(rq_store_earliest_time_of_all(fix.store), times[0]);
    ck_assert_int_eq(rq_store_time_of(fix.store, topic, 0, 30), -1);
    fixture_end(&fix);
}
END_TEST

static size_t count_key(struct fixture *fix, const char *topic, const char *key, int64_t begin,
                        int64_t end)
{
    struct rq_store_ref refs[64];
    size_t n = rq_store_query(fix->store, rq_slice_str(topic), rq_slice_str(key), begin, end, 64,
                              refs, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        rq_store_ref_release(&refs[i]);
    }
    return n;
}

START_TEST(keys_are_found_and_equal_hashes_do_not_mix)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "AaTopic", 0, 0, 1, 10, "KEYS\1Aa k2\2UNIQ_KEY\1id1\2");
    struct rq_msg msg = fixture_msg("BBTopic", 0, 10, 0, "KEYS\1BB\2");
    int64_t time = fixture_append(&fix, &msg).store_timestamp;
    for (int round = 0; round < 2; round++) {
        ck_assert_uint_eq(count_key(&fix, "AaTopic", "Aa", 0, INT64_MAX / 2), 1);
        ck_assert_uint_eq(count_key(&fix, "AaTopic", "k2", 0, INT64_MAX / 2), 1);
        ck_assert_uint_eq(count_key(&fix, "AaTopic", "id1", 0, INT64_MAX / 2), 1);
        ck_assert_uint_eq(count_key(&fix, "AaTopic", "BB", 0, INT64_MAX / 2), 0);
        ck_assert_uint_eq(count_key(&fix, "BBTopic", "Aa", 0, INT64_MAX / 2), 0);
        ck_assert_uint_eq(count_key(&fix, "BBTopic", "BB", time, time), 1);
        ck_assert_uint_eq(count_key(&fix, "BBTopic", "BB", time + 1, time + 5000), 0);
        ck_assert_uint_eq(count_key(&fix, "BBTopic", "BB", 0, time - 1), 0);
        fixture_reopen(&fix);
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(hashes_of_keys_are_those_of_java)
{
    cJSON *json = vectors_read("hash.json");
    const cJSON *row = NULL;
    int rows = 0;
    cJSON_ArrayForEach(row, rq_json_get(json, "index_key_hash"))
    {
        uint32_t hash = UINT32_MAX;
        if (!rq_json_get(row, "topic")) { /* a text without '#' whose hash has no positive one */
            ck_assert_int_eq(rq_java_hash(rq_slice_str(rq_json_str(row, "index_key", ""))),
                             INT32_MIN);
            continue;
        }
        ck_assert_int_eq(rq_index_hash(rq_slice_str(rq_json_str(row, "topic", NULL)),
                                       rq_slice_str(rq_json_str(row, "key", NULL)), &hash),
                         RMQ_OK);
        ck_assert_int_eq(hash, rq_json_i64(row, "keyHash", -1));
        ck_assert_int_eq(hash % 5000000, rq_json_i64(row, "slot_of_5000000", -1));
        rows++;
    }
    ck_assert_int_ge(rows, 7);
    rq_json_free(json);
}
END_TEST

START_TEST(a_view_is_refused_where_no_record_begins)
{
    struct fixture fix;
    struct rq_store_ref ref;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 0, 2, 100, NULL);
    ck_assert(rq_store_view(fix.store, 0, &ref));
    ck_assert_uint_eq(ref.n, 192);
    rq_store_ref_release(&ref);
    ck_assert(!rq_store_view(fix.store, 1, &ref));
    ck_assert(!rq_store_view(fix.store, -5, &ref));
    ck_assert(!rq_store_view(fix.store, 384, &ref));
    ck_assert(!rq_store_view(fix.store, INT64_MAX, &ref));
    fixture_end(&fix);
}
END_TEST

START_TEST(a_deleted_topic_is_gone_and_begins_anew)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 0, 30, 100, NULL);
    append_many(&fix, "U", 0, 0, 3, 100, NULL);
    rq_store_delete_topic(fix.store, rq_slice_str("T"));
    ck_assert(!rq_store_has_queue(fix.store, rq_slice_str("T"), 0));
    ck_assert(!fixture_has(&fix, "consumequeue/T"));
    append_many(&fix, "T", 0, 0, 5, 100, NULL);
    fixture_check_queue(&fix, "T", 0, 5, 0);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 5, 0);
    fixture_check_queue(&fix, "U", 0, 3, 0);
    rq_sys_rmtree(fixture_path(&fix, "checkpoint"));
    fixture_crash(&fix); /* the whole log is followed again, with both lives of the topic */
    rq_sys_rmtree(fixture_path(&fix, "consumequeue"));
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 5, 0);
    fixture_end(&fix);
}
END_TEST

static void echo(const struct rq_store_arrival *arrival, void *user)
{
    struct fixture *fix = user;
    struct rq_store_put put;
    if (rq_slice_eq_str(arrival->topic, "T")) {
        struct rq_msg msg = fixture_msg("Echo", 0, 10, (unsigned)arrival->max_offset, NULL);
        rq_store_append(fix->store, &msg, &put);
        rq_store_dispatch(fix->store);
    }
}

START_TEST(a_listener_may_append_also_while_a_topic_is_deleted)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    rq_store_set_listener(fix.store, echo, &fix);
    append_many(&fix, "T", 0, 0, 3, 10, NULL);
    struct rq_msg msg = fixture_msg("T", 0, 10, 3, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    rq_store_delete_topic(fix.store, rq_slice_str("T")); /* dispatches the last one first */
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("Echo"), 0), 4);
    ck_assert(!rq_store_has_queue(fix.store, rq_slice_str("T"), 0));
    rq_store_set_listener(fix.store, NULL, NULL);
    fixture_end(&fix);
}
END_TEST

/* Key number i: ten blocks of Aa or BB, which have one hash in all combinations. */
static void make_equal_key(unsigned i, char key[24])
{
    key[0] = '\0';
    for (int bit = 0; bit < 10; bit++) {
        strcat(key, i >> bit & 1 ? "BB" : "Aa");
    }
}

/* In one index file, and in several. */
START_TEST(a_thousand_keys_of_one_hash_are_each_found_alone)
{
    struct fixture fix;
    char key[24];
    char properties[40];
    fixture_begin(&fix);
    fix.options.max_index_num = _i == 0 ? 2000 : 200;
    fixture_open(&fix);
    for (unsigned i = 0; i < 1024; i++) {
        make_equal_key(i, key);
        snprintf(properties, sizeof properties, "KEYS\1%s\2", key);
        append_many(&fix, "T", 0, i, 1, 10, properties);
    }
    for (unsigned i = 0; i < 1024; i++) {
        struct rq_store_ref refs[2];
        struct rq_record record;
        make_equal_key(i, key);
        ck_assert_uint_eq(rq_store_query(fix.store, rq_slice_str("T"), rq_slice_str(key), 0,
                                         INT64_MAX / 2, 2, refs, NULL, NULL),
                          1);
        ck_assert_int_eq(rq_record_read(refs[0].p, refs[0].n, true, &record), RQ_RECORD_GOOD);
        ck_assert_int_eq(record.queue_offset, i);
        rq_store_ref_release(&refs[0]);
    }
    fixture_end(&fix);
}
END_TEST

Suite *get_suite(void)
{
    Suite *suite = suite_create("get");
    TCase *tc = tcase_create("get");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, each_place_of_an_offset_has_its_status_and_next_offset);
    tcase_add_test(tc, a_get_stops_at_its_limits_but_returns_one_message_always);
    tcase_add_test(tc, messages_far_behind_count_as_on_disk_with_smaller_limits);
    tcase_add_test(tc, a_filter_of_tags_skips_what_does_not_match_and_moves_on);
    tcase_add_test(tc, a_filter_of_records_is_asked_for_each);
    tcase_add_test(tc, offsets_by_time_have_both_bounds);
    tcase_add_test(tc, keys_are_found_and_equal_hashes_do_not_mix);
    tcase_add_test(tc, hashes_of_keys_are_those_of_java);
    tcase_add_test(tc, a_view_is_refused_where_no_record_begins);
    tcase_add_test(tc, a_deleted_topic_is_gone_and_begins_anew);
    tcase_add_test(tc, a_listener_may_append_also_while_a_topic_is_deleted);
    tcase_add_loop_test(tc, a_thousand_keys_of_one_hash_are_each_found_alone, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

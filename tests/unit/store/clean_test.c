/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Retention, and what an idle store costs. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/time.h"
#include "fixture.h"
#include "store/record.h"

Suite *clean_suite(void);

static void append_many(struct fixture *fix, const char *topic, unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++) {
        struct rq_msg msg = fixture_msg(topic, 0, 1000, i, "KEYS\1k\2");
        fixture_append(fix, &msg);
    }
}

/* Makes a file look n hours old. */
static void age(const struct fixture *fix, const char *file, int hours)
{
    struct timeval times[2];
    gettimeofday(&times[0], NULL);
    times[0].tv_sec -= hours * 3600;
    times[1] = times[0];
    ck_assert_int_eq(utimes(fixture_path(fix, file), times), 0);
}

START_TEST(expired_files_go_and_queues_begin_where_the_log_begins)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "Old", 0, 30);
    append_many(&fix, "T", 0, 200);
    age(&fix, "commitlog/00000000000000000000", 73);
    age(&fix, "commitlog/00000000000000065536", 73);
    struct rq_store_result held;
    fixture_get(&fix, "Old", 0, 0, 1, &held);
    ck_assert_int_eq(held.status, RQ_GET_FOUND);
    ck_assert_int_eq(rq_store_clean(fix.store, true), 2);
    ck_assert(!fixture_has(&fix, "commitlog/00000000000000065536"));
    struct rq_store_info info;
    rq_store_info(fix.store, &info);
    ck_assert_int_eq(info.min_commit_log_offset, 2 * 65536);
    for (int round = 0; round < 2; round++) {
        int64_t min = rq_store_min_offset(fix.store, rq_slice_str("T"), 0);
        ck_assert_int_gt(min, 60);
        ck_assert_int_lt(min, 100);
        fixture_check_queue(&fix, "T", 0, 200, 0);
        struct rq_store_entry entry;
        ck_assert(rq_store_entry(fix.store, rq_slice_str("T"), 0, min, &entry));
        ck_assert_int_ge(entry.commit_log_offset, 2 * 65536);
        ck_assert_int_eq(rq_store_min_offset(fix.store, rq_slice_str("Old"), 0), 30);
        ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("Old"), 0), 30);
        struct rq_store_result result;
        fixture_get(&fix, "Old", 0, 0, 1, &result);
        ck_assert_int_eq(result.status, RQ_GET_OFFSET_TOO_SMALL);
        ck_assert_int_eq(result.next_begin_offset, 30);
        fixture_reopen(&fix);
    }
    struct rq_msg msg = fixture_msg("Old", 0, 10, 30, NULL);
    ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, 30); /* numbers go on */
    struct rq_record record;
    ck_assert_int_eq(rq_record_read(held.refs[0].p, held.refs[0].n, true, &record), RQ_RECORD_GOOD);
    rq_store_result_release(&held);
    fixture_end(&fix);
}
END_TEST

START_TEST(young_files_and_the_last_one_stay)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 100);
    ck_assert_int_eq(rq_store_clean(fix.store, true), 0);
    age(&fix, "commitlog/00000000000000000000", 71);
    ck_assert_int_eq(rq_store_clean(fix.store, true), 0);
    age(&fix, "commitlog/00000000000000000000", 100);
    age(&fix, "commitlog/00000000000000065536", 100);
    ck_assert_int_eq(rq_store_clean(fix.store, true), 1);
    ck_assert(fixture_has(&fix, "commitlog/00000000000000065536"));
    fixture_check_queue(&fix, "T", 0, 100, 0);
    fixture_end(&fix);
}
END_TEST

static long resident_kb(void)
{
    long size = 0;
    long resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

START_TEST(an_idle_store_with_1600_queues_stays_small_and_an_empty_one_opens_at_once)
{
    struct fixture fix;
    char topic[24];
    fixture_begin(&fix);
    rq_table_defaults(&rq_store_table, &fix.options); /* sizes of a real broker */
    fix.options.store_path_root_dir = fix.dir;
    fix.options.message_index_enable = false;
    int64_t began = rq_mono_ms();
    fixture_open(&fix);
    int64_t took = rq_mono_ms() - began;
    ck_assert_int_lt(took, 500); /* a few, but the machine may be busy */
    long before = resident_kb();
    for (int i = 0; i < 200; i++) {
        snprintf(topic, sizeof topic, "Topic%d", i);
        for (int queue = 0; queue < 8; queue++) {
            struct rq_msg msg = fixture_msg(topic, queue, 10, 0, NULL);
            fixture_append(&fix, &msg);
        }
    }
    long grown = resident_kb() - before;
    ck_assert_msg(grown < 40 * 1024, "%ld KiB", grown);
    struct stat info;
    ck_assert_int_eq(stat(fixture_path(&fix, "commitlog/00000000000000000000"), &info), 0);
    ck_assert_int_eq(info.st_size, 1 << 30);
    ck_assert_int_lt(info.st_blocks * 512, 16 << 20);
    fixture_end(&fix);
}
END_TEST

Suite *clean_suite(void)
{
    Suite *suite = suite_create("clean");
    TCase *tc = tcase_create("clean");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, expired_files_go_and_queues_begin_where_the_log_begins);
    tcase_add_test(tc, young_files_and_the_last_one_stay);
    tcase_add_test(tc, an_idle_store_with_1600_queues_stays_small_and_an_empty_one_opens_at_once);
    suite_add_tcase(suite, tc);
    return suite;
}

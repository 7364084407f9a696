/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Retention, and what an idle store costs. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "fixture.h"
#include "store/disk.h"
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

/* Which hour it is, and one that it is not and will not be soon. */
static void set_hours(struct fixture *fix, bool now, char text[16])
{
    time_t t = time(NULL);
    struct tm local;
    localtime_r(&t, &local);
    int hour = now ? local.tm_hour : (local.tm_hour + 12) % 24;
    snprintf(text, 16, "%02d;%02d", hour, (hour + 1) % 24);
    fix->options.delete_when = text;
}

static int log_files(struct fixture *fix)
{
    struct rq_store_info info;
    rq_store_info(fix->store, &info);
    return (int)(info.max_commit_log_offset / 65536 - info.min_commit_log_offset / 65536) + 1;
}

START_TEST(expired_files_go_at_the_hour_or_when_the_disk_fills_and_not_before)
{
    struct fixture fix;
    char hours[16];
    for (int now = 0; now < 2; now++) {
        fixture_begin(&fix);
        set_hours(&fix, now, hours);
        fixture_open(&fix);
        append_many(&fix, "T", 0, 200);
        age(&fix, "commitlog/00000000000000000000", 73);
        rq_disk_pretend_used(rq_store_disk(fix.store), 74);
        ck_assert_int_eq(rq_store_clean(fix.store, false), now);
        rq_disk_pretend_used(rq_store_disk(fix.store), 76);
        ck_assert_int_eq(rq_store_clean(fix.store, false), !now);
        ck_assert_int_eq(log_files(&fix), 3);
        ck_assert(!rq_store_refuses(fix.store, (char[RQ_PUT_REASON_MAX]){0}));
        fixture_check_queue(&fix, "T", 0, 200, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(retention_changes_while_the_store_is_open)
{
    struct fixture fix;
    char hours[16];
    fixture_begin(&fix);
    set_hours(&fix, false, hours);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 200);
    age(&fix, "commitlog/00000000000000000000", 5);
    rq_disk_pretend_used(rq_store_disk(fix.store), 20);
    ck_assert_int_eq(rq_store_clean(fix.store, false), 0);
    struct rq_store_options changed = fix.options;
    changed.file_reserved_time_h = 4;
    rq_store_change(fix.store, &changed);
    ck_assert_int_eq(rq_store_clean(fix.store, false), 0);
    changed.disk_max_used_space_ratio = 10;
    rq_store_change(fix.store, &changed);
    ck_assert_int_eq(rq_store_clean(fix.store, false), 1);
    fixture_check_queue(&fix, "T", 0, 200, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(above_the_forcible_ratio_young_files_go_but_the_last_and_only_if_that_is_allowed)
{
    struct fixture fix;
    char hours[16];
    for (int forcibly = 0; forcibly < 2; forcibly++) {
        fixture_begin(&fix);
        set_hours(&fix, false, hours);
        fix.options.clean_file_forcibly_enable = forcibly;
        fix.options.delete_file_batch_max = 2;
        fixture_open(&fix);
        append_many(&fix, "T", 0, 200);
        ck_assert_int_eq(log_files(&fix), 4);
        rq_disk_pretend_used(rq_store_disk(fix.store), 85);
        ck_assert_int_eq(rq_store_clean(fix.store, false), 0);
        rq_disk_pretend_used(rq_store_disk(fix.store), 86);
        ck_assert_int_eq(rq_store_clean(fix.store, false), forcibly ? 2 : 0);
        ck_assert_int_eq(rq_store_clean(fix.store, false), forcibly ? 1 : 0);
        ck_assert_int_eq(rq_store_clean(fix.store, false), 0);
        ck_assert(!rq_store_refuses(fix.store, (char[RQ_PUT_REASON_MAX]){0}));
        fixture_check_queue(&fix, "T", 0, 200, 0);
        fixture_reopen(&fix);
        fixture_check_queue(&fix, "T", 0, 200, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(above_the_warning_ratio_nothing_is_taken_until_the_disk_is_at_the_forcible_one)
{
    struct fixture fix;
    struct rq_store_put put;
    struct rq_msg msg = fixture_msg("T", 0, 10, 1, NULL);
    fixture_begin(&fix);
    fix.options.disk_space_warning_level_ratio = 99; /* taken as 90 */
    fix.options.disk_space_clean_forcibly_ratio = 80;
    fixture_open(&fix);
    append_many(&fix, "T", 0, 1);
    static const struct {
        int used;
        bool taken;
    } steps[] = {{89, true}, {91, false}, {89, false}, {81, false},
                 {80, true}, {90, true},  {91, false}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        rq_disk_pretend_used(rq_store_disk(fix.store), steps[i].used);
        rq_store_clean(fix.store, false);
        rq_store_append(fix.store, &msg, &put);
        ck_assert_msg(put.status == (steps[i].taken ? RQ_PUT_OK : RQ_PUT_SERVICE_NOT_AVAILABLE),
                      "at %d: %s", steps[i].used, rq_put_status_name(put.status));
        ck_assert(steps[i].taken || strstr(put.reason, "disk full"));
        struct rq_store_result result;
        fixture_get(&fix, "T", 0, 0, 1, &result); /* reading goes on */
        ck_assert_int_eq(result.status, RQ_GET_FOUND);
        rq_store_result_release(&result);
    }
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
    ck_assert_int_lt(took, 5000); /* a few, but the machine may be busy */
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

START_TEST(a_forked_child_maps_no_file_of_the_store)
{
    struct fixture fix;
    int status = 0;
    (_i == 0 ? fixture_begin : fixture_begin_in_memory)(&fix);
    fixture_open(&fix);
    append_many(&fix, "T", 0, 100);
    ck_assert_int_gt(fixture_mappings(&fix), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(fixture_mappings(&fix) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    append_many(&fix, "T", 100, 100);
    fixture_check_queue(&fix, "T", 0, 200, 0);
    fixture_end(&fix);
}
END_TEST

Suite *clean_suite(void)
{
    Suite *suite = suite_create("clean");
    TCase *tc = tcase_create("clean");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, expired_files_go_and_queues_begin_where_the_log_begins);
    tcase_add_test(tc, expired_files_go_at_the_hour_or_when_the_disk_fills_and_not_before);
    tcase_add_test(tc, retention_changes_while_the_store_is_open);
    tcase_add_test(
        tc, above_the_forcible_ratio_young_files_go_but_the_last_and_only_if_that_is_allowed);
    tcase_add_test(tc,
                   above_the_warning_ratio_nothing_is_taken_until_the_disk_is_at_the_forcible_one);
    tcase_add_test(tc, young_files_and_the_last_one_stay);
    tcase_add_test(tc, an_idle_store_with_1600_queues_stays_small_and_an_empty_one_opens_at_once);
    tcase_add_loop_test(tc, a_forked_child_maps_no_file_of_the_store, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

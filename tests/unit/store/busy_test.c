/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* When bytes move on: what a slow append refuses, flushes and commits by pages, deletions one by
 * one. */
#include <check.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/time.h"
#include "fixture.h"
#include "store/store_priv.h"

Suite *busy_suite(void);

#define NEVER_MS 3600000
#define WAIT_MS  20000
#define SIZE     500

static enum rq_put_status append(struct fixture *fix, unsigned n)
{
    struct rq_store_put put;
    struct rq_msg msg = fixture_msg("T", 0, SIZE, n, NULL);
    rq_store_append(fix->store, &msg, &put);
    rq_store_dispatch(fix->store);
    return put.status;
}

static int64_t visible(struct fixture *fix)
{
    return rq_store_max_offset(fix->store, rq_slice_str("T"), 0);
}

static void *append_second(void *arg)
{
    return append(arg, 1) == RQ_PUT_OK ? arg : NULL;
}

START_TEST(while_an_append_hangs_further_ones_are_refused_as_busy)
{
    struct fixture fix;
    pthread_t thread;
    fixture_begin(&fix);
    fix.options.os_page_cache_busy_time_out_mills = 300;
    fixture_open(&fix);
    ck_assert(!rq_store_is_busy(fix.store));
    ck_assert_int_eq(append(&fix, 0), RQ_PUT_OK);
    rq_disk_hang(rq_store_disk(fix.store), true);
    ck_assert_int_eq(pthread_create(&thread, NULL, append_second, &fix), 0);
    int64_t deadline = rq_mono_ms() + WAIT_MS;
    while (!rq_store_is_busy(fix.store)) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(1000);
    }
    ck_assert_int_eq(append(&fix, 2), RQ_PUT_OS_PAGE_CACHE_BUSY);
    rq_disk_set_clock_offset(rq_store_disk(fix.store),
                             4 * (int64_t)NEVER_MS); /* so long no append takes */
    ck_assert(!rq_store_is_busy(fix.store));
    rq_disk_set_clock_offset(rq_store_disk(fix.store), 0);
    rq_disk_hang(rq_store_disk(fix.store), false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!rq_store_is_busy(fix.store));
    ck_assert_int_eq(append(&fix, 2), RQ_PUT_OK);
    fixture_check_queue(&fix, "T", 0, 3, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(without_flush_by_time_only_enough_pages_are_flushed_at_once)
{
    struct fixture fix;
    struct rq_store_info info;
    fixture_begin(&fix);
    fix.options.flush_commit_log_timed = false;
    fix.options.flush_commit_log_least_pages = 2;
    fix.options.flush_interval_commit_log_ms = NEVER_MS;
    fix.options.flush_interval_consume_queue_ms = NEVER_MS;
    fixture_open(&fix);
    for (unsigned n = 0; n * SIZE < 2 * RQ_STORE_PAGE; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    }
    int64_t deadline = rq_mono_ms() + WAIT_MS;
    do {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(1000);
        rq_store_info(fix.store, &info);
    } while (info.flushed_commit_log_offset < 2 * RQ_STORE_PAGE);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_write_buffer_is_copied_when_enough_pages_wait)
{
    struct fixture fix;
    fixture_begin(&fix);
    fix.options.transient_store_pool_enable = true;
    fix.options.transient_store_pool_size = 2;
    fix.options.commit_interval_commit_log_ms = NEVER_MS;
    fix.options.commit_commit_log_thorough_interval_ms = NEVER_MS;
    fix.options.flush_interval_commit_log_ms = NEVER_MS;
    fix.options.flush_interval_consume_queue_ms = NEVER_MS;
    fixture_open(&fix);
    fix.store->log.buffers.commit_ms = rq_mono_ms();
    unsigned n = 0;
    for (; (n + 1) * (SIZE + 120) < 4 * RQ_STORE_PAGE; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
        ck_assert_int_eq(visible(&fix), 0);
    }
    for (unsigned more = 0; more < 8; more++) {
        ck_assert_int_eq(append(&fix, n++), RQ_PUT_OK);
    }
    ck_assert_int_gt(visible(&fix), 20);
    int64_t seen = visible(&fix);
    ck_assert_int_eq(append(&fix, n++), RQ_PUT_OK);
    ck_assert_int_eq(visible(&fix), seen);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, n, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_write_buffer_is_copied_after_the_thorough_interval_whatever_waits)
{
    struct fixture fix;
    fixture_begin(&fix);
    fix.options.transient_store_pool_enable = true;
    fix.options.transient_store_pool_size = 2;
    fix.options.commit_interval_commit_log_ms = 3;
    fix.options.commit_commit_log_thorough_interval_ms = 3;
    fixture_open(&fix);
    for (unsigned n = 0; n < 3; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
        int64_t deadline = rq_mono_ms() + WAIT_MS;
        while (visible(&fix) <= (int64_t)n) {
            ck_assert_int_lt(rq_mono_ms(), deadline);
            usleep(1000);
        }
    }
    fixture_end(&fix);
}
END_TEST

static void age(const struct fixture *fix, const char *file)
{
    struct timeval times[2];
    gettimeofday(&times[0], NULL);
    times[0].tv_sec -= 100 * 3600;
    times[1] = times[0];
    ck_assert_int_eq(utimes(fixture_path(fix, file), times), 0);
}

START_TEST(old_files_are_deleted_one_by_one_with_a_pause)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned n = 0; n < 500; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    }
    fixture_close(&fix);
    age(&fix, "commitlog/00000000000000000000");
    age(&fix, "commitlog/00000000000000065536");
    age(&fix, "commitlog/00000000000000131072");
    fix.options.clean_resource_interval_ms = 10;
    fix.options.delete_commit_log_files_interval_ms = NEVER_MS;
    fixture_open(&fix);
    rq_disk_pretend_used(rq_store_disk(fix.store), 80); /* any hour is right */
    int64_t deadline = rq_mono_ms() + WAIT_MS;
    while (fixture_has(&fix, "commitlog/00000000000000000000")) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(1000);
    }
    ck_assert(fixture_has(&fix, "commitlog/00000000000000065536"));
    fixture_close(&fix);
    fix.options.delete_commit_log_files_interval_ms = 1;
    fixture_open(&fix);
    rq_disk_pretend_used(rq_store_disk(fix.store), 80);
    while (fixture_has(&fix, "commitlog/00000000000000131072")) {
        ck_assert_int_lt(rq_mono_ms(), deadline + WAIT_MS);
        usleep(1000);
    }
    fixture_end(&fix);
}
END_TEST

Suite *busy_suite(void)
{
    Suite *suite = suite_create("busy");
    TCase *tc = tcase_create("busy");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, while_an_append_hangs_further_ones_are_refused_as_busy);
    tcase_add_test(tc, without_flush_by_time_only_enough_pages_are_flushed_at_once);
    tcase_add_test(tc, a_write_buffer_is_copied_when_enough_pages_wait);
    tcase_add_test(tc, a_write_buffer_is_copied_after_the_thorough_interval_whatever_waits);
    tcase_add_test(tc, old_files_are_deleted_one_by_one_with_a_pause);
    suite_add_tcase(suite, tc);
    return suite;
}

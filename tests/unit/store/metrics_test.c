/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Figures of a running store. */
#include <check.h>

#include "fixture.h"
#include "store/metrics.h"

Suite *metrics_suite(void);

START_TEST(buckets_are_powers_of_two)
{
    struct rq_histogram histogram = {0};
    struct rq_store_histogram out;
    static const int64_t values[] = {-5, 0, 1, 2, 3, 4, 1000, INT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0] - 1; i++) {
        rq_histogram_add(&histogram, values[i]);
    }
    rq_histogram_read(&histogram, &out);
    ck_assert_uint_eq(out.count, 7);
    ck_assert_uint_eq(out.sum, 1010);
    ck_assert_uint_eq(out.buckets[0], 2);
    ck_assert_uint_eq(out.buckets[1], 1);
    ck_assert_uint_eq(out.buckets[2], 2);
    ck_assert_uint_eq(out.buckets[3], 1);
    ck_assert_uint_eq(out.buckets[10], 1);
    rq_histogram_add(&histogram, values[7]);
    rq_histogram_read(&histogram, &out);
    ck_assert_uint_eq(out.buckets[RQ_STORE_BUCKETS - 1], 1);
}
END_TEST

START_TEST(appends_and_flushes_are_counted)
{
    struct fixture fix;
    struct rq_store_metrics now;
    fixture_begin(&fix);
    fix.options.flush_interval_commit_log_ms = 3600000; /* only when asked */
    fix.options.flush_interval_consume_queue_ms = 3600000;
    fixture_open(&fix);
    for (int i = 0; i < 100; i++) {
        struct rq_msg msg = fixture_msg("T", i % 2, 200, (unsigned)i, "KEYS\001k\002");
        fixture_append(&fix, &msg);
    }
    rq_store_metrics(fix.store, &now);
    ck_assert_uint_eq(now.info.put_messages, 100);
    ck_assert_int_eq(now.append_step, RQ_METRICS_APPEND_STEP);
    ck_assert_uint_eq(now.append_us.count,
                      (100 + RQ_METRICS_APPEND_STEP - 1) / RQ_METRICS_APPEND_STEP);
    ck_assert_int_eq(now.dispatch_lag_bytes, 0);
    ck_assert_int_eq(now.dispatch_lag_ms, 0);
    ck_assert_int_gt(now.dirty_pages, 0);
    ck_assert_uint_eq(now.flush_us.count, 0);
    ck_assert_int_eq(now.queues, 2);
    ck_assert_int_ge(now.mapped_files, 4);
    ck_assert_int_gt(now.mapped_bytes, 65536);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    rq_store_metrics(fix.store, &now);
    ck_assert_int_eq(now.dirty_pages, 0);
    ck_assert_uint_eq(now.flush_us.count, 1);
    ck_assert_uint_eq(now.flush_messages.count, 1);
    ck_assert_uint_eq(now.flush_messages.sum, 100);
    ck_assert_uint_eq(now.flush_bytes, (uint64_t)now.info.max_commit_log_offset);
    fixture_end(&fix);
}
END_TEST

START_TEST(what_is_not_dispatched_is_a_lag)
{
    struct fixture fix;
    struct rq_store_metrics now;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 200, 1, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    rq_store_metrics(fix.store, &now);
    ck_assert_int_eq(now.dispatch_lag_bytes, put.next_commit_log_offset);
    rq_store_dispatch(fix.store);
    rq_store_metrics(fix.store, &now);
    ck_assert_int_eq(now.dispatch_lag_bytes, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(what_a_crash_left_in_memory_is_flushed_behind_the_open_store)
{
    struct fixture fix;
    struct rq_store_metrics now;
    fixture_begin(&fix);
    fix.options.flush_interval_commit_log_ms = 3600000; /* only when asked */
    fix.options.flush_interval_consume_queue_ms = 3600000;
    fixture_open(&fix);
    for (int i = 0; i < 300; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 400, (unsigned)i, NULL);
        fixture_append(&fix, &msg);
    }
    fixture_crash(&fix);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 300, 0);
    rq_store_metrics(fix.store, &now);
    ck_assert_int_eq(now.info.flushed_commit_log_offset, 0);
    ck_assert_int_gt(now.dirty_pages, 0);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    rq_store_metrics(fix.store, &now);
    ck_assert_int_eq(now.info.flushed_commit_log_offset, now.info.max_commit_log_offset);
    ck_assert_uint_eq(now.flush_bytes, (uint64_t)now.info.max_commit_log_offset);
    fixture_end(&fix);
}
END_TEST

Suite *metrics_suite(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = tcase_create("metrics");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, buckets_are_powers_of_two);
    tcase_add_test(tc, appends_and_flushes_are_counted);
    tcase_add_test(tc, what_is_not_dispatched_is_a_lag);
    tcase_add_test(tc, what_a_crash_left_in_memory_is_flushed_behind_the_open_store);
    suite_add_tcase(suite, tc);
    return suite;
}

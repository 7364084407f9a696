/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Appending to write buffers: what is seen when, what a kill loses, what happens without a free
 * one. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/alloc.h>

#include "base/bytes.h"
#include "base/time.h"
#include "fixture.h"
#include "store/record.h"

Suite *write_buffer_suite(void);

#define SIZE 500

/* What malloc gives may hold anything. */
static void *dirty_malloc(size_t n)
{
    void *p = malloc(n);
    if (p) {
        memset(p, 'x', n);
    }
    return p;
}

static void begin(struct fixture *fix, int buffers, bool wake)
{
    fixture_begin(fix);
    fix->options.transient_store_pool_enable = true;
    fix->options.transient_store_pool_size = buffers;
    fix->options.wake_commit_when_put_message = wake;
    fix->options.commit_interval_commit_log_ms = 3600000;
    fix->options.commit_commit_log_least_pages = 0;
    fix->options.flush_interval_commit_log_ms = 3600000;
    fix->options.flush_interval_consume_queue_ms = 3600000;
}

static enum rq_put_status append(struct fixture *fix, unsigned n)
{
    struct rq_store_put put;
    struct rq_msg msg = fixture_msg("T", 0, SIZE, n, "KEYS\1k\2");
    rq_store_append(fix->store, &msg, &put);
    rq_store_dispatch(fix->store);
    return put.status;
}

/* All that was appended becomes visible: by us, or by a thread of the store that is at it just
 * now. */
static void show(struct fixture *fix, int64_t count)
{
    ck_assert_int_eq(rq_store_flush(fix->store, NULL), RMQ_OK);
    rq_store_dispatch(fix->store);
    int64_t deadline = rq_mono_ms() + 20000;
    while (rq_store_max_offset(fix->store, rq_slice_str("T"), 0) < count) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(1000);
    }
}

START_TEST(messages_go_through_the_buffers_over_many_files)
{
    for (int buffers = 1; buffers <= 5; buffers += 2) {
        for (int sync = 0; sync < 2; sync++) {
            struct fixture fix;
            begin(&fix, buffers, true);
            fix.options.flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
            fixture_open(&fix);
            for (unsigned n = 0; n < 1000; n++) {
                ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
            }
            show(&fix, 1000);
            fixture_check_queue(&fix, "T", 0, 1000, 0);
            fixture_reopen(&fix);
            fixture_check_queue(&fix, "T", 0, 1000, 0);
            ck_assert_int_eq(append(&fix, 1000), RQ_PUT_OK);
            fixture_reopen(&fix);
            fixture_check_queue(&fix, "T", 0, 1001, 0);
            fixture_end(&fix);
        }
    }
}
END_TEST

START_TEST(what_is_not_committed_is_not_seen_and_a_kill_loses_only_that)
{
    struct fixture fix;
    begin(&fix, 3, false);
    fixture_open(&fix);
    for (unsigned n = 0; n < 150; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    }
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), 0);
    show(&fix, 150);
    fixture_check_queue(&fix, "T", 0, 150, 0);
    for (unsigned n = 150; n < 200; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    }
    fixture_crash(&fix);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 150, 0);
    for (unsigned n = 150; n < 400; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    }
    fixture_reopen(&fix); /* closing commits */
    fixture_check_queue(&fix, "T", 0, 400, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_record_in_a_buffer_is_found_by_who_asks_for_what_is_stored)
{
    struct fixture fix;
    struct rq_store_put put;
    struct rq_store_ref ref;
    struct rq_msg msg = fixture_msg("T", 0, SIZE, 0, NULL);
    begin(&fix, 3, false);
    fixture_open(&fix);
    ck_assert_int_eq(append(&fix, 0), RQ_PUT_OK);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    ck_assert(!rq_store_view(fix.store, put.commit_log_offset, &ref));
    ck_assert(rq_store_view_stored(fix.store, put.commit_log_offset, &ref));
    ck_assert_uint_eq(ref.n, put.next_commit_log_offset - put.commit_log_offset);
    rq_store_ref_release(&ref);
    ck_assert(!rq_store_view_stored(fix.store, put.commit_log_offset + 1, &ref));
    ck_assert(!rq_store_view_stored(fix.store, put.next_commit_log_offset, &ref));
    fixture_end(&fix);
}
END_TEST

/* Bytes of the first log file behind its blank record that are not 0. */
static size_t rubbish_behind_blank(const struct fixture *fix)
{
    char bytes[65536];
    FILE *file = fopen(fixture_path(fix, "commitlog/00000000000000000000"), "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    fclose(file);
    size_t at = 0;
    while (rq_load_be32(bytes + at + 4) != RQ_RECORD_MAGIC_BLANK) {
        at += rq_load_be32(bytes + at);
    }
    ck_assert_uint_eq(rq_load_be32(bytes + at), sizeof bytes - at);
    size_t found = 0;
    for (size_t i = at + RQ_RECORD_BLANK_BYTES; i < sizeof bytes; i++) {
        found += bytes[i] != 0;
    }
    return found;
}

START_TEST(nothing_that_was_in_memory_before_lies_behind_the_end_of_a_file)
{
    struct fixture fix;
    begin(&fix, 1, true);
    ck_assert_int_eq(rmq_set_allocator(dirty_malloc, realloc, free), RMQ_OK);
    fixture_open(&fix);
    for (unsigned n = 0; n < 200; n++) {
        ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    }
    show(&fix, 200);
    fixture_close(&fix);
    ck_assert_uint_eq(rubbish_behind_blank(&fix), 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(the_interval_commits_when_puts_do_not)
{
    struct fixture fix;
    begin(&fix, 3, false);
    fix.options.commit_interval_commit_log_ms = 5;
    fixture_open(&fix);
    ck_assert_int_eq(append(&fix, 0), RQ_PUT_OK);
    int64_t deadline = rq_mono_ms() + 20000;
    while (rq_store_max_offset(fix.store, rq_slice_str("T"), 0) < 1) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(2000);
    }
    fixture_check_queue(&fix, "T", 0, 1, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(without_a_free_buffer_messages_are_refused_as_busy_when_that_is_wanted)
{
    struct fixture fix;
    struct rq_store_put put;
    unsigned n = 0;
    begin(&fix, 2, false);
    fix.options.fast_fail_if_no_buffer_in_store_pool = true;
    fixture_open(&fix);
    while (append(&fix, n) == RQ_PUT_OK) {
        ck_assert_uint_lt(++n, 400);
    }
    ck_assert_uint_gt(n, 65536 / (SIZE + 120)); /* the second file has the last one */
    struct rq_msg msg = fixture_msg("T", 0, SIZE, n, NULL);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OS_PAGE_CACHE_BUSY);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, n + 1, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_warmed_file_takes_messages_like_any_other)
{
    for (int sync = 0; sync < 2; sync++) {
        struct fixture fix;
        fixture_begin(&fix);
        fix.options.warm_maped_file_enable = true;
        fix.options.flush_least_pages_when_warm_maped_file = 3;
        fix.options.flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
        fixture_open(&fix);
        for (unsigned n = 0; n < 500; n++) {
            ck_assert_int_eq(append(&fix, n), RQ_PUT_OK);
        }
        fixture_reopen(&fix);
        fixture_check_queue(&fix, "T", 0, 500, 0);
        fixture_end(&fix);
    }
}
END_TEST

Suite *write_buffer_suite(void)
{
    Suite *suite = suite_create("write_buffer");
    TCase *tc = tcase_create("write_buffer");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, messages_go_through_the_buffers_over_many_files);
    tcase_add_test(tc, what_is_not_committed_is_not_seen_and_a_kill_loses_only_that);
    tcase_add_test(tc, a_record_in_a_buffer_is_found_by_who_asks_for_what_is_stored);
    tcase_add_test(tc, nothing_that_was_in_memory_before_lies_behind_the_end_of_a_file);
    tcase_add_test(tc, the_interval_commits_when_puts_do_not);
    tcase_add_test(tc, without_a_free_buffer_messages_are_refused_as_busy_when_that_is_wanted);
    tcase_add_test(tc, a_warmed_file_takes_messages_like_any_other);
    suite_add_tcase(suite, tc);
    return suite;
}

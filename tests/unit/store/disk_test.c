/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The disk that fails on request, and what a power cut leaves of a store. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/time.h"
#include "look.h"
#include "store/disk.h"

Suite *disk_suite(void);

#define SIZE 500

static enum rq_put_status append(struct fixture *fix, unsigned seed, struct rq_store_put *put)
{
    struct rq_msg msg = fixture_msg("T", 0, SIZE, seed, "KEYS\1k\2");
    rq_store_append(fix->store, &msg, put);
    rq_store_dispatch(fix->store);
    return put->status;
}

START_TEST(exactly_the_nth_append_fails_with_the_errno_that_was_asked_for)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    rq_disk_fail(rq_store_disk(fix.store), RQ_DISK_WRITE, 2, 1, EROFS);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(append(&fix, i, &put), RQ_PUT_OK);
    }
    ck_assert_int_eq(append(&fix, 2, &put), RQ_PUT_SERVICE_NOT_AVAILABLE);
    ck_assert_ptr_nonnull(strstr(put.reason, strerror(EROFS)));
    ck_assert_int_eq(append(&fix, 2, &put), RQ_PUT_OK);
    ck_assert_int_eq(put.queue_offset, 2);
    fixture_check_queue(&fix, "T", 0, 3, 0);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 3, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_full_disk_refuses_with_the_reason_and_takes_messages_again_by_itself)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_OK);
    rq_disk_fail(rq_store_disk(fix.store), RQ_DISK_ALLOCATE, 0, -1, ENOSPC);
    unsigned stored = 1;
    while (append(&fix, stored, &put) == RQ_PUT_OK) {
        ck_assert_uint_lt(++stored, 1000);
    }
    ck_assert_int_eq(put.status, RQ_PUT_SERVICE_NOT_AVAILABLE);
    ck_assert_msg(strstr(put.reason, "disk full"), "%s", put.reason);
    ck_assert_uint_le(stored, 21); /* there is no queue file for more: they are not taken */
    fixture_check_queue(&fix, "T", 0, 20, 0); /* reading goes on, and no half record */
    rq_disk_clear(rq_store_disk(fix.store));
    int64_t deadline = rq_mono_ms() + 10000;
    while (append(&fix, stored, &put) != RQ_PUT_OK) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(5000);
    }
    fixture_check_queue(&fix, "T", 0, stored + 1, 0);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, stored + 1, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_disk_that_fills_between_the_keys_of_a_message_leaves_each_key_once)
{
    struct fixture fix;
    struct rq_store_ref refs[8];
    fixture_begin(&fix); /* an index file takes 199 keys */
    fixture_open(&fix);
    for (unsigned i = 0; i < 67; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 100, i, "UNIQ_KEY\1u\2KEYS\1a b\2");
        if (i == 66) {
            rq_disk_fail(rq_store_disk(fix.store), RQ_DISK_ALLOCATE, 0, -1, ENOSPC);
        }
        fixture_append(&fix, &msg);
    }
    struct rq_store_info info;
    rq_store_info(fix.store, &info);
    ck_assert(!info.writable);
    ck_assert_int_lt(info.dispatched_commit_log_offset, info.max_commit_log_offset);
    rq_disk_clear(rq_store_disk(fix.store));
    rq_store_dispatch(fix.store);
    rq_store_info(fix.store, &info);
    ck_assert(info.writable);
    size_t n = rq_store_query(fix.store, rq_slice_str("T"), rq_slice_str("b"), 0, INT64_MAX, 8,
                              refs, NULL, NULL);
    ck_assert_uint_eq(n, 8);
    for (size_t i = 0; i < n; i++) {
        rq_store_ref_release(&refs[i]);
    }
    fixture_close(&fix);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.index_entries, 67 * 3);
    fixture_end(&fix);
}
END_TEST

static bool is_writable(struct fixture *fix)
{
    struct rq_store_info info;
    rq_store_info(fix->store, &info);
    return info.writable;
}

START_TEST(a_store_without_room_says_so_and_finds_room_again_without_an_append)
{
    static const struct {
        enum rq_disk_op op;
        int error;
    } faults[] = {{RQ_DISK_ALLOCATE, ENOSPC}, {RQ_DISK_MAP, EMFILE}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct fixture fix;
        struct rq_store_put put;
        fixture_begin(&fix);
        fixture_open(&fix);
        rq_disk_fail(rq_store_disk(fix.store), faults[i].op, 0, -1, faults[i].error);
        ck_assert(is_writable(&fix)); /* nobody has met it yet */
        ck_assert_int_ne(append(&fix, 0, &put), RQ_PUT_OK);
        ck_assert(!is_writable(&fix));
        rq_disk_clear(rq_store_disk(fix.store));
        int64_t deadline = rq_mono_ms() + 10000;
        while (!is_writable(&fix)) {
            ck_assert_int_lt(rq_mono_ms(), deadline);
            usleep(5000);
        }
        ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_OK);
        fixture_check_queue(&fix, "T", 0, 1, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_log_that_cannot_be_written_says_so_until_it_can)
{
    for (int sync = 0; sync < 2; sync++) {
        struct fixture fix;
        struct rq_store_put put;
        struct rq_store_info info;
        fixture_begin(&fix);
        fix.options.flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
        fixture_open(&fix);
        ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_OK);
        rq_disk_fail(rq_store_disk(fix.store), RQ_DISK_WRITE, 0, -1, EIO);
        ck_assert(is_writable(&fix)); /* nobody has met it yet */
        ck_assert_int_ne(append(&fix, 1, &put), RQ_PUT_OK);
        rq_store_info(fix.store, &info);
        ck_assert(!info.writable);
        ck_assert_str_eq(info.reason, put.reason);
        rq_disk_clear(rq_store_disk(fix.store));
        rq_store_info(fix.store, &info);
        ck_assert(info.writable);
        ck_assert_str_eq(info.reason, "");
        ck_assert_int_eq(append(&fix, 1, &put), RQ_PUT_OK);
        fixture_reopen(&fix);
        fixture_check_queue(&fix, "T", 0, 2, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(faults_are_not_used_up_by_who_asks_whether_messages_are_taken)
{
    static const struct {
        enum rq_disk_op op;
        int64_t times; /* for three appends: to make a file is tried twice */
    } faults[] = {{RQ_DISK_WRITE, 3}, {RQ_DISK_MAP, 6}, {RQ_DISK_ALLOCATE, 6}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct fixture fix;
        struct rq_store_put put;
        fixture_begin(&fix);
        fixture_open(&fix);
        rq_disk_fail(rq_store_disk(fix.store), faults[i].op, 0, faults[i].times, EIO);
        for (int failed = 0; failed < 3; failed++) {
            for (int asked = 0; failed > 0 && asked < 5; asked++) {
                rq_store_retry(fix.store);
                ck_assert(!is_writable(&fix));
            }
            rq_store_retry(fix.store);
            ck_assert_msg(append(&fix, 0, &put) != RQ_PUT_OK, "fault %zu, %d", i, failed);
        }
        rq_store_retry(fix.store);
        ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_OK);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_file_that_cannot_be_mapped_refuses_until_it_can)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    rq_disk_fail(rq_store_disk(fix.store), RQ_DISK_MAP, 0, -1, EMFILE);
    ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_CREATE_MAPPED_FILE_FAILED);
    ck_assert_ptr_nonnull(strstr(put.reason, strerror(EMFILE)));
    rq_disk_clear(rq_store_disk(fix.store));
    int64_t deadline = rq_mono_ms() + 10000;
    while (append(&fix, 0, &put) != RQ_PUT_OK) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(5000);
    }
    fixture_check_queue(&fix, "T", 0, 1, 0);
    fixture_end(&fix);
}
END_TEST

static void wait_until_seen(struct fixture *fix, int64_t max)
{
    int64_t deadline = rq_mono_ms() + 10000;
    while (rq_store_max_offset(fix->store, rq_slice("T", 1), 0) < max) {
        ck_assert_int_lt(rq_mono_ms(), deadline);
        usleep(1000);
    }
}

/* With synchronous flush a system call writes the records, and may fail. */
START_TEST(a_write_to_the_log_that_fails_is_told_and_leaves_no_message)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fix.options.flush_disk_type = RQ_FLUSH_SYNC;
    fixture_open(&fix);
    ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_OK);
    wait_until_seen(&fix, 1);
    rq_sys_fail(RQ_SYS_WRITE, 1, EIO, true);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(append(&fix, 1, &put), RQ_PUT_SERVICE_NOT_AVAILABLE);
        ck_assert_ptr_nonnull(strstr(put.reason, strerror(EIO)));
        ck_assert_ptr_nonnull(strstr(put.reason, "commitlog/"));
    }
    rq_sys_fail(RQ_SYS_WRITE, 0, 0, false);
    ck_assert_int_eq(append(&fix, 1, &put), RQ_PUT_OK);
    ck_assert_int_eq(put.queue_offset, 1);
    wait_until_seen(&fix, 2);
    fixture_check_queue(&fix, "T", 0, 2, 0);
    fixture_crash(&fix);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 2, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_torn_append_is_no_message_neither_now_nor_after_a_crash)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    for (size_t bytes = 0; bytes < SIZE; bytes += 45) {
        fixture_open(&fix);
        for (unsigned i = 0; i < 5; i++) {
            ck_assert_int_eq(
                append(&fix, (unsigned)rq_store_max_offset(fix.store, rq_slice("T", 1), 0), &put),
                RQ_PUT_OK);
        }
        unsigned max = (unsigned)rq_store_max_offset(fix.store, rq_slice("T", 1), 0);
        rq_disk_tear(rq_store_disk(fix.store), 0, bytes);
        ck_assert_int_eq(append(&fix, max, &put), RQ_PUT_SERVICE_NOT_AVAILABLE);
        if (bytes % 2) {
            ck_assert_int_eq(append(&fix, max, &put), RQ_PUT_OK);
            max++;
        }
        fixture_crash(&fix);
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, max, 0);
        fixture_close(&fix);
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(while_the_dispatcher_pauses_nothing_new_is_seen)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    ck_assert_int_eq(append(&fix, 0, &put), RQ_PUT_OK);
    rq_store_pause_dispatch(fix.store, true);
    for (unsigned i = 1; i < 10; i++) {
        ck_assert_int_eq(append(&fix, i, &put), RQ_PUT_OK);
    }
    fixture_check_queue(&fix, "T", 0, 1, 0);
    rq_store_pause_dispatch(fix.store, false);
    fixture_check_queue(&fix, "T", 0, 10, 0);
    rq_store_pause_dispatch(fix.store, true);
    ck_assert_int_eq(append(&fix, 10, &put), RQ_PUT_OK);
    fixture_reopen(&fix); /* closing is not kept from its work */
    fixture_check_queue(&fix, "T", 0, 11, 0);
    fixture_end(&fix);
}
END_TEST

/* Makes an image, opens it, checks that its queue is whole, and returns how many messages it
 * has. */
static int64_t messages_after_cut(struct fixture *fix, uint64_t seed)
{
    struct fixture after = *fix;
    snprintf(after.dir, sizeof after.dir, "%.500s.cut", fix->dir);
    after.options.store_path_root_dir = after.dir;
    after.options.flush_disk_type = RQ_FLUSH_SYNC; /* what was not synced ends at its first hole */
    ck_assert_int_eq(rq_disk_image(rq_store_disk(fix->store), after.dir, seed, NULL), RMQ_OK);
    fixture_open(&after);
    int64_t n = rq_store_max_offset(after.store, rq_slice("T", 1), 0);
    fixture_check_queue(&after, "T", 0, n, 0);
    fixture_end(&after);
    return n;
}

START_TEST(a_power_cut_leaves_what_was_synced_and_any_part_of_the_rest)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fix.options.flush_interval_commit_log_ms = 3600000; /* synced only when asked */
    fix.options.flush_interval_consume_queue_ms = 3600000;
    fixture_open(&fix);
    ck_assert_int_eq(rq_disk_image(rq_store_disk(fix.store), "/nowhere", 1, NULL), RMQ_ERR_INVALID);
    ck_assert_int_eq(rq_store_record_power(fix.store, NULL), RMQ_OK);
    for (unsigned i = 0; i < 300; i++) {
        ck_assert_int_eq(append(&fix, i, &put), RQ_PUT_OK);
        if (i == 199) {
            ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
        }
    }
    bool some_lost = false;
    bool some_kept = false;
    for (uint64_t seed = 0; seed < 40; seed++) {
        int64_t n = messages_after_cut(&fix, seed);
        ck_assert_int_ge(n, 200);
        ck_assert_int_le(n, seed == 0 ? 200 : 300);
        some_lost = some_lost || n < 300;
        some_kept = some_kept || n > 200;
    }
    ck_assert(some_lost && some_kept);
    char durable[FIXTURE_PATH + 16];
    snprintf(durable, sizeof durable, "%s.durable", fix.dir);
    ck_assert_int_eq(access(durable, F_OK), 0);
    fixture_end(&fix);
    ck_assert_int_ne(access(durable, F_OK), 0);
}
END_TEST

Suite *disk_suite(void)
{
    Suite *suite = suite_create("disk");
    TCase *tc = tcase_create("disk");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, exactly_the_nth_append_fails_with_the_errno_that_was_asked_for);
    tcase_add_test(tc, a_full_disk_refuses_with_the_reason_and_takes_messages_again_by_itself);
    tcase_add_test(tc, a_disk_that_fills_between_the_keys_of_a_message_leaves_each_key_once);
    tcase_add_test(tc, a_store_without_room_says_so_and_finds_room_again_without_an_append);
    tcase_add_test(tc, a_log_that_cannot_be_written_says_so_until_it_can);
    tcase_add_test(tc, faults_are_not_used_up_by_who_asks_whether_messages_are_taken);
    tcase_add_test(tc, a_file_that_cannot_be_mapped_refuses_until_it_can);
    tcase_add_test(tc, a_write_to_the_log_that_fails_is_told_and_leaves_no_message);
    tcase_add_test(tc, a_torn_append_is_no_message_neither_now_nor_after_a_crash);
    tcase_add_test(tc, while_the_dispatcher_pauses_nothing_new_is_seen);
    tcase_add_test(tc, a_power_cut_leaves_what_was_synced_and_any_part_of_the_rest);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Files: safe replacement with a backup, injected faults, trees. Errors and threads ride along. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mpsc.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/time.h"

Suite *sys_suite(void);

static char dir[] = "/tmp/rmq-sys-XXXXXX";

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    ck_assert_int_eq(rq_sys_rmtree(dir), 0);
    ck_assert_int_ne(access(dir, F_OK), 0);
}

static void expect_content(const char *path, const char *want)
{
    struct rq_buf buf;
    rq_buf_init(&buf, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 1000, &buf, NULL), RMQ_OK);
    ck_assert_str_eq(rq_buf_cstr(&buf), want);
    rq_buf_free(&buf);
}

START_TEST(a_replaced_file_keeps_the_last_good_one_as_backup)
{
    char path[256];
    char bak[300];
    snprintf(path, sizeof path, "%s/deep/er/file.json", dir);
    snprintf(bak, sizeof bak, "%s.bak", path);
    char parent[256];
    snprintf(parent, sizeof parent, "%s/deep/er", dir);
    ck_assert_int_eq(rq_sys_mkdirs(parent), 0);
    ck_assert_int_eq(rq_sys_write_file(path, "one", 3, true, NULL), RMQ_OK);
    ck_assert_int_ne(access(bak, F_OK), 0);
    ck_assert_int_eq(rq_sys_write_file(path, "two", 3, true, NULL), RMQ_OK);
    expect_content(path, "two");
    expect_content(bak, "one");
}
END_TEST

START_TEST(a_file_system_without_second_names_keeps_a_copy_as_backup)
{
    char path[256];
    char bak[300];
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(bak, sizeof bak, "%s.bak", path);
    rq_sys_fail(RQ_SYS_LINK, 1, EPERM, true);
    ck_assert_int_eq(rq_sys_write_file(path, "one", 3, true, NULL), RMQ_OK);
    ck_assert_int_ne(access(bak, F_OK), 0);
    ck_assert_int_eq(rq_sys_write_file(path, "two", 3, true, NULL), RMQ_OK);
    ck_assert_int_eq(rq_sys_write_file(path, "three", 5, true, NULL), RMQ_OK);
    rq_sys_fail(RQ_SYS_LINK, 1, EIO, true);
    ck_assert_int_eq(rq_sys_write_file(path, "four", 4, true, NULL), RMQ_ERR_IO);
    rq_sys_fail(RQ_SYS_LINK, 0, 0, false);
    expect_content(path, "three");
    expect_content(bak, "two");
}
END_TEST

START_TEST(a_failed_write_leaves_the_old_file_whole)
{
    static const enum rq_sys_op ops[] = {RQ_SYS_OPEN, RQ_SYS_WRITE, RQ_SYS_SYNC, RQ_SYS_RENAME};
    char path[256];
    snprintf(path, sizeof path, "%s/f", dir);
    ck_assert_int_eq(rq_sys_write_file(path, "good", 4, true, NULL), RMQ_OK);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        rmq_error *err = NULL;
        rq_sys_fail(ops[i], 1, ENOSPC, false);
        ck_assert_int_eq(rq_sys_write_file(path, "bad", 3, true, &err), RMQ_ERR_DISK_FULL);
        rq_sys_fail(ops[i], 0, 0, false);
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), path));
        rmq_error_destroy(err);
        expect_content(path, "good");
    }
}
END_TEST

START_TEST(a_missing_file_is_told_from_a_failing_one)
{
    struct rq_buf buf;
    rq_buf_init(&buf, 0);
    ck_assert_int_eq(rq_sys_read_file("/nowhere/at/all", 10, &buf, NULL), RMQ_ERR_NOT_FOUND);
    char path[256];
    snprintf(path, sizeof path, "%s/big", dir);
    ck_assert_int_eq(rq_sys_write_file(path, "0123456789A", 11, false, NULL), RMQ_OK);
    ck_assert_int_eq(rq_sys_read_file(path, 10, &buf, NULL), RMQ_ERR_TOO_LARGE);
    rq_buf_free(&buf);
}
END_TEST

START_TEST(an_error_carries_numbers_words_and_marks)
{
    rmq_error *err = NULL;
    ck_assert_int_eq(rq_error_set_remote(&err, 17, "broker-a", "topic %s: %d", "T", 5),
                     RMQ_ERR_BROKER);
    ck_assert_int_eq(rmq_error_remote_code(err), 17);
    ck_assert_str_eq(rmq_error_broker(err), "broker-a");
    ck_assert_str_eq(rmq_error_message(err), "topic T: 5");
    rq_error_mark(err, true, true);
    rmq_error *copy = rq_error_copy(err);
    rmq_error_destroy(err);
    ck_assert(rmq_error_retriable(copy) && rmq_error_maybe_stored(copy));
    ck_assert_str_eq(rmq_error_message(copy), "topic T: 5");
    rmq_error_destroy(copy);
    ck_assert_str_eq(rmq_error_message(NULL), "");
    ck_assert_str_eq(rmq_status_name(RMQ_ERR_TIMEOUT), "RMQ_ERR_TIMEOUT");
    ck_assert_str_eq(rmq_status_name((rmq_status)-999), "RMQ_ERR_UNKNOWN");
}
END_TEST

struct item {
    struct rq_mpsc_node node;
    int producer;
    int number;
};

enum { PRODUCERS = 4, ITEMS = 20000 };

static struct rq_mpsc queue;
static struct item items[PRODUCERS][ITEMS];

static void produce(void *arg)
{
    struct item *mine = arg;
    for (int i = 0; i < ITEMS; i++) {
        rq_mpsc_push(&queue, &mine[i].node);
    }
}

START_TEST(items_of_each_producer_arrive_once_and_in_order)
{
    rq_mpsc_init(&queue);
    struct rq_thread threads[PRODUCERS];
    int next[PRODUCERS] = {0};
    for (int p = 0; p < PRODUCERS; p++) {
        for (int i = 0; i < ITEMS; i++) {
            items[p][i] = (struct item){.producer = p, .number = i};
        }
        ck_assert_int_eq(rq_thread_start(&threads[p], "producer", produce, items[p]), RMQ_OK);
    }
    for (int got = 0; got < PRODUCERS * ITEMS;) {
        for (struct rq_mpsc_node *n = rq_mpsc_take_all(&queue); n; n = n->next, got++) {
            struct item *it = (struct item *)n;
            ck_assert_int_eq(it->number, next[it->producer]++);
        }
    }
    for (int p = 0; p < PRODUCERS; p++) {
        rq_thread_join(&threads[p]);
    }
    ck_assert(rq_mpsc_empty(&queue));
}
END_TEST

START_TEST(deadlines_saturate)
{
    ck_assert(rq_deadline_ms(-1) == RQ_FOREVER);
    ck_assert(rq_deadline_ms(INT64_MAX) == RQ_FOREVER);
    ck_assert(rq_deadline_ms(INT64_MAX / 1000) == RQ_FOREVER);
    int64_t now = rq_mono_ms();
    ck_assert(rq_deadline_ms(1000) >= now + 1000);
    ck_assert(rq_left_ms(now - 1) == 1);
    ck_assert(rq_left_ms(RQ_FOREVER) > INT64_MAX / 2);
    ck_assert(rq_timeout_ms(0, 5) == 5);
    ck_assert(rq_timeout_ms(INT64_MIN, 5) == 5);
    ck_assert(rq_timeout_ms(7, 5) == 7);
    ck_assert(rq_timeout_ms(INT64_MAX, 5) == RQ_TIMEOUT_MOST_MS);
}
END_TEST

START_TEST(a_difference_of_times_that_does_not_fit_is_the_largest_or_the_least)
{
    ck_assert(rq_ms_between(10, 17) == 7);
    ck_assert(rq_ms_between(17, 10) == -7);
    ck_assert(rq_ms_between(INT64_MIN, 1) == INT64_MAX);
    ck_assert(rq_ms_between(INT64_MAX, -2) == INT64_MIN);
    ck_assert(rq_ms_between(INT64_MAX, INT64_MAX) == 0);
}
END_TEST

Suite *sys_suite(void)
{
    Suite *suite = suite_create("sys");
    TCase *tc = tcase_create("sys");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_replaced_file_keeps_the_last_good_one_as_backup);
    tcase_add_test(tc, a_file_system_without_second_names_keeps_a_copy_as_backup);
    tcase_add_test(tc, a_failed_write_leaves_the_old_file_whole);
    tcase_add_test(tc, a_missing_file_is_told_from_a_failing_one);
    tcase_add_test(tc, an_error_carries_numbers_words_and_marks);
    tcase_add_test(tc, items_of_each_producer_arrive_once_and_in_order);
    tcase_add_test(tc, deadlines_saturate);
    tcase_add_test(tc, a_difference_of_times_that_does_not_fit_is_the_largest_or_the_least);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Holes in a consume queue: small ones are filled, one that would need many files is refused, and
 * retention keeps the messages around them. And a queue that begins anew. */
#include <check.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "fixture.h"
#include "store/consume_queue.h"

Suite *hole_suite(void);

#define FILE_ENTRIES 10

static struct rq_consume_queue *begin(struct fixture *fix)
{
    struct rq_consume_queue *queue;
    fixture_begin(fix);
    ck_assert_int_eq(rq_consume_queue_create(fixture_path(fix, "consumequeue/T/0"),
                                             rq_slice_str("T"), 0,
                                             (size_t)FILE_ENTRIES * RQ_CQ_ENTRY_BYTES, &queue),
                     RMQ_OK);
    return queue;
}

/* Message number i is of 50 bytes at offset 100 + 100 * i of the commit log. */
static void put(struct rq_consume_queue *queue, int64_t number)
{
    struct rq_store_entry entry = {.commit_log_offset = 100 + 100 * number, .size = 50};
    ck_assert_int_eq(rq_consume_queue_put(queue, number, &entry, NULL), RMQ_OK);
}

START_TEST(a_hole_of_many_files_is_refused_and_makes_none)
{
    struct fixture fix;
    struct rq_store_entry entry = {.commit_log_offset = 100, .size = 50};
    struct rq_consume_queue *queue = begin(&fix);
    ck_assert_int_eq(rq_consume_queue_put(queue, 0, &entry, NULL), RMQ_OK);
    entry.commit_log_offset = 200;
    ck_assert_int_eq(rq_consume_queue_put(queue, 900000, &entry, NULL), RMQ_ERR_CORRUPT);
    ck_assert_uint_eq(queue->files.count, 1);
    ck_assert_int_eq(rq_consume_queue_put(queue, 3 * FILE_ENTRIES, &entry, NULL), RMQ_OK);
    ck_assert_uint_eq(queue->files.count, 4);
    ck_assert_int_eq(rq_consume_queue_max(queue), 3 * FILE_ENTRIES + 1);
    rq_consume_queue_release(queue);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_file_whose_last_slots_are_blank_goes_with_its_last_message_and_not_before)
{
    struct fixture fix;
    struct rq_consume_queue *queue = begin(&fix);
    for (int64_t number = 0; number < 5; number++) {
        put(queue, number);
    }
    put(queue, FILE_ENTRIES + 2);
    for (int64_t number = 0; number < 5; number++) {
        ck_assert_int_eq(rq_consume_queue_clean(queue, 100 + 100 * number), 0);
        ck_assert_int_eq(rq_consume_queue_min(queue), number);
    }
    ck_assert_int_eq(rq_consume_queue_clean(queue, 600), 1);
    ck_assert_int_eq(rq_consume_queue_min(queue), FILE_ENTRIES + 2);
    ck_assert_int_eq(rq_consume_queue_clean(queue, 10000), 0); /* the last file stays */
    rq_consume_queue_release(queue);
    fixture_end(&fix);
}
END_TEST

START_TEST(numbers_begin_anew_only_when_the_old_files_are_gone)
{
    struct fixture fix;
    struct rq_store_entry entry = {.commit_log_offset = 10000, .size = 50};
    struct rq_store_entry read;
    char file[2 * FIXTURE_PATH];
    char aside[2 * FIXTURE_PATH];
    struct rq_consume_queue *queue = begin(&fix);
    for (int64_t number = 0; number < 2 * FILE_ENTRIES + 1; number++) {
        put(queue, number);
    }
    snprintf(file, sizeof file, "%s", fixture_path(&fix, "consumequeue/T/0/00000000000000000200"));
    snprintf(aside, sizeof aside, "%s", fixture_path(&fix, "aside"));
    ck_assert_int_eq(rename(file, aside), 0); /* a directory cannot be unlinked */
    ck_assert_int_eq(mkdir(file, 0755), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rq_consume_queue_put(queue, 0, &entry, NULL), RMQ_ERR_IO);
        ck_assert_uint_eq(queue->files.count, 2);
    }
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(rq_consume_queue_put(queue, 0, &entry, NULL), RMQ_OK);
    ck_assert_int_eq(rq_consume_queue_max(queue), 1);
    ck_assert(rq_consume_queue_entry(queue, 0, &read));
    ck_assert_int_eq(read.commit_log_offset, 10000);
    rq_consume_queue_release(queue);
    fixture_end(&fix);
}
END_TEST

Suite *hole_suite(void)
{
    Suite *suite = suite_create("hole");
    TCase *tc = tcase_create("hole");
    tcase_add_test(tc, a_hole_of_many_files_is_refused_and_makes_none);
    tcase_add_test(tc, a_file_whose_last_slots_are_blank_goes_with_its_last_message_and_not_before);
    tcase_add_test(tc, numbers_begin_anew_only_when_the_old_files_are_gone);
    suite_add_tcase(suite, tc);
    return suite;
}

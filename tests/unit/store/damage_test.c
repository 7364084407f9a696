/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Single damaged numbers, and files of other names and lengths: they cost what they hit. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "look.h"
#include "store/mapped_file.h"

Suite *damage_suite(void);

#define MESSAGES 200

static void overwrite(const struct fixture *fix, const char *name, off_t at, const void *p,
                      size_t n)
{
    int fd = open(fixture_path(fix, name), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, p, n, at), (ssize_t)n);
    close(fd);
}

/* Opens a new store with 200 messages in one queue, of 20 entries a file; closed. */
static void make(struct fixture *fix)
{
    fixture_begin(fix);
    fixture_open(fix);
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 100, i, "KEYS\1k\2");
        fixture_append(fix, &msg);
    }
    fixture_close(fix);
}

START_TEST(a_damaged_entry_hides_its_own_message_only)
{
    static const int64_t wrong[] = {(int64_t)1 << 40, INT64_MAX - 10, INT64_MAX, INT64_MIN, -1};
    struct fixture fix;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char bytes[8];
        make(&fix);
        rq_store_be64(bytes, (uint64_t)wrong[i]);
        overwrite(&fix, "consumequeue/T/0/00000000000000000000", 5 * 20, bytes, sizeof bytes);
        fixture_open(&fix);
        struct rq_store_result result;
        fixture_get(&fix, "T", 0, 0, 32, &result);
        ck_assert_int_eq(result.status, RQ_GET_FOUND);
        ck_assert_int_eq(result.next_begin_offset, 20); /* the end of that file */
        ck_assert_int_eq(result.msg_count, 19);
        rq_store_result_release(&result);
        ck_assert_int_eq(rq_store_time_of(fix.store, rq_slice_str("T"), 0, 5), -1);
        ck_assert(!rq_store_in_memory(fix.store, rq_slice_str("T"), 0, 5) || wrong[i] >= 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(an_entry_with_another_message_is_passed_over)
{
    /* message 9, its middle, its begin, and bytes that are too few for one */
    static const struct {
        int64_t number;
        int32_t shift;
        int32_t size;
    } wrong[] = {{9, 0, 0}, {9, 50, 0}, {5, 0, -1}, {5, 0, 1}, {5, 0, -200}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct fixture fix;
        struct rq_store_result result;
        char bytes[12];
        make(&fix);
        struct rq_msg msg = fixture_msg("T", 0, 100, 0, "KEYS\1k\2");
        int32_t size = (int32_t)rq_msg_encoded_size(&msg);
        rq_store_be64(bytes, (uint64_t)(wrong[i].number * size + wrong[i].shift));
        rq_store_be32(bytes + 8, (uint32_t)(size + wrong[i].size));
        overwrite(&fix, "consumequeue/T/0/00000000000000000000", 5 * 20, bytes, sizeof bytes);
        fixture_open(&fix);
        fixture_get(&fix, "T", 0, 0, 32, &result);
        ck_assert_int_eq(result.status, RQ_GET_FOUND);
        ck_assert_int_eq(result.next_begin_offset, 20); /* the end of that file */
        ck_assert_int_eq(result.msg_count, 19);
        rq_store_result_release(&result);
        fixture_end(&fix);
    }
}
END_TEST

/* Entry 145 becomes wrong and 146 none, so that the queue seems to end there. */
static void end_wrongly(const struct fixture *fix, int queue_id, uint64_t offset)
{
    char name[FIXTURE_PATH];
    char bytes[2 * 20] = "";
    snprintf(name, sizeof name, "consumequeue/T/%d/00000000000000002800", queue_id);
    rq_store_be64(bytes, offset);
    rq_store_be32(bytes + 8, 256);
    rq_store_be64(bytes + 20, UINT64_MAX);
    rq_store_be32(bytes + 28, 256);
    overwrite(fix, name, 5 * 20, bytes, sizeof bytes);
}

/* Opens a new store with 200 messages in each of two queues and in four log files, and one of a
 * third queue behind them; closed. */
static void make_three(struct fixture *fix)
{
    fixture_begin(fix);
    fixture_open(fix);
    for (unsigned i = 0; i < 2 * MESSAGES; i++) {
        struct rq_msg msg = fixture_msg("T", (int)(i % 2), 500, i / 2, NULL);
        fixture_append(fix, &msg);
    }
    struct rq_msg last = fixture_msg("T", 2, 500, 0, NULL);
    fixture_append(fix, &last);
    fixture_close(fix);
}

START_TEST(queues_that_lack_entries_are_built_again_whatever_their_last_ones_say)
{
    /* behind the log, within a message of its last file, a message's begin, and before all that
     * recovery comes by */
    static const uint64_t wrong[] = {0x6fffffffffffffff, 200000, 65536, 2000};
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof wrong[0]; i++) {
        struct fixture fix;
        make_three(&fix);
        end_wrongly(&fix, 0, wrong[i / 2]);
        end_wrongly(&fix, 1, 200000);
        if (i % 2 == 1) { /* as after a kill */
            close(open(fixture_path(&fix, "abort"), O_WRONLY | O_CREAT, 0644));
        }
        fixture_open(&fix);
        for (int queue = 0; queue < 2; queue++) {
            fixture_check_queue(&fix, "T", queue, MESSAGES, 0);
            struct rq_msg msg = fixture_msg("T", queue, 500, MESSAGES, NULL);
            ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, MESSAGES);
        }
        fixture_close(&fix);
        ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_queue_file_whose_name_is_no_multiple_of_its_size_is_made_again)
{
    struct fixture fix;
    char from[3 * FIXTURE_PATH];
    make(&fix);
    fix.options.mapped_file_size_consume_queue = 20 * 4096; /* whole pages: nothing behind */
    ck_assert_int_eq(remove(fixture_path(&fix, "contents")), 0);
    fixture_open(&fix);
    fixture_close(&fix);
    ck_assert_int_eq(remove(fixture_path(&fix, "contents")), 0);
    snprintf(from, sizeof from, "%s", fixture_path(&fix, "consumequeue/T/0/00000000000000000000"));
    ck_assert_int_eq(rename(from, fixture_path(&fix, "consumequeue/T/0/00000000000000000007")), 0);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, MESSAGES, 0);
    ck_assert(!fixture_has(&fix, "consumequeue/T/0/00000000000000000007"));
    fixture_end(&fix);
}
END_TEST

START_TEST(a_log_file_at_the_end_of_all_numbers_is_passed_over)
{
    struct fixture fix;
    make(&fix);
    const char *name = "commitlog/09223372036854710272"; /* 2^63 - 65536 */
    int fd = open(fixture_path(&fix, name), O_RDWR | O_CREAT, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, 65536), 0);
    close(fd);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, MESSAGES, 0);
    fixture_close(&fix);
    ck_assert(fixture_has(&fix, name));
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
    fixture_end(&fix);
}
END_TEST

START_TEST(times_of_an_index_file_that_cannot_be_are_no_trouble)
{
    static const uint64_t wrong[] = {0x8000000000000000u, 0x7FFFFFFFFFFFFFFFu, UINT64_MAX};
    struct fixture fix;
    struct rq_store_ref refs[64];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char command[3 * FIXTURE_PATH];
        char name[64] = "";
        char bytes[8];
        make(&fix);
        snprintf(command, sizeof command, "ls %s", fixture_path(&fix, "index"));
        FILE *list = popen(command, "r");
        ck_assert_ptr_nonnull(list);
        ck_assert_int_eq(fscanf(list, "%17s", name), 1);
        pclose(list);
        snprintf(command, sizeof command, "index/%s", name);
        rq_store_be64(bytes, wrong[i]);
        overwrite(&fix, command, 0, bytes, sizeof bytes);
        fixture_open(&fix);
        size_t n = rq_store_query(fix.store, rq_slice_str("T"), rq_slice_str("k"), 0, INT64_MAX, 64,
                                  refs, NULL, NULL);
        for (size_t k = 0; k < n; k++) {
            rq_store_ref_release(&refs[k]);
        }
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_file_of_another_length_is_refused_and_stays)
{
    struct fixture fix;
    struct rq_mapped_file *file = NULL;
    struct stat info;
    const struct rq_mapped_file_kind kind = {.first_step = RQ_STORE_PAGE,
                                             .last_step = RQ_STORE_PAGE};
    fixture_begin(&fix);
    const char *path = fixture_path(&fix, "00000000000000000000");
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("precious", f);
    fclose(f);
    ck_assert_int_eq(rq_mapped_file_open(path, 0, 65536, &kind, true, &file, NULL),
                     RMQ_ERR_CORRUPT);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(info.st_size, 8);
    fixture_end(&fix);
}
END_TEST

Suite *damage_suite(void)
{
    Suite *suite = suite_create("damage");
    TCase *tc = tcase_create("damage");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_damaged_entry_hides_its_own_message_only);
    tcase_add_test(tc, an_entry_with_another_message_is_passed_over);
    tcase_add_test(tc, queues_that_lack_entries_are_built_again_whatever_their_last_ones_say);
    tcase_add_test(tc, a_queue_file_whose_name_is_no_multiple_of_its_size_is_made_again);
    tcase_add_test(tc, a_log_file_at_the_end_of_all_numbers_is_passed_over);
    tcase_add_test(tc, times_of_an_index_file_that_cannot_be_are_no_trouble);
    tcase_add_test(tc, a_file_of_another_length_is_refused_and_stays);
    suite_add_tcase(suite, tc);
    return suite;
}

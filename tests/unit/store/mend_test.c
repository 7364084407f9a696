/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Damage in the commit log with messages behind it: what is lost is lost, everything else stays,
 * under its number. */
#include <check.h>
#include <fcntl.h>
#include <rmq/log.h>
#include <rmq/store.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "store/record.h"

Suite *mend_suite(void);

#define SIZE     500
#define RECORD   (SIZE + 92 + 7 + 8) /* with its key */
#define IN_FILE  (65536 / RECORD)
#define MESSAGES 400
#define FILE_0   "commitlog/00000000000000000000"
#define FILE_1   "commitlog/00000000000000065536"

#define STORE_TIME_AT 56 /* of a record with IPv4 hosts */

static struct fixture fix;

static void append_many(unsigned from, unsigned count)
{
    for (unsigned i = from; i < from + count; i++) {
        char properties[32];
        snprintf(properties, sizeof properties, "KEYS\1key-%05u\2", i);
        struct rq_msg msg = fixture_msg("T", 0, SIZE, i, properties);
        ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, i);
    }
}

static void fill(void)
{
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(0, MESSAGES);
    fixture_close(&fix);
}

static void write_bytes(const char *file, int64_t at, const char *bytes, size_t n)
{
    int fd = open(fixture_path(&fix, file), O_WRONLY);
    ck_assert_int_eq(pwrite(fd, bytes, n, (off_t)at), (ssize_t)n);
    close(fd);
}

static void mark_crashed(void)
{
    close(open(fixture_path(&fix, "abort"), O_WRONLY | O_CREAT, 0644));
}

static bool is_there(int64_t number)
{
    struct rq_store_result result;
    struct rq_record record;
    fixture_get(&fix, "T", 0, number, 1, &result);
    bool there =
        result.status == RQ_GET_FOUND &&
        rq_record_read(result.refs[0].p, result.refs[0].n, true, &record) == RQ_RECORD_GOOD &&
        record.queue_offset == number;
    rq_store_result_release(&result);
    return there;
}

static bool is_found(int64_t number)
{
    char key[16];
    struct rq_store_ref ref = {0};
    snprintf(key, sizeof key, "key-%05d", (int)number);
    size_t n = rq_store_query(fix.store, rq_slice_str("T"), rq_slice_str(key), 0, INT64_MAX, 1,
                              &ref, NULL, NULL);
    rq_store_ref_release(&ref);
    return n == 1;
}

/* Messages [from, upto) are lost, and no other of the first count. */
static void check_lost(int64_t from, int64_t upto, int64_t count)
{
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), count);
    for (int64_t i = 0; i < count; i++) {
        bool lost = i >= from && i < upto;
        ck_assert_msg(is_there(i) == !lost, "message %d", (int)i);
        ck_assert_msg(is_found(i) == !lost, "key of message %d", (int)i);
    }
}

/* Looking up by time does not stumble over the blank slots. */
static void check_times(int64_t number)
{
    struct rq_slice topic = rq_slice_str("T");
    int64_t time = rq_store_time_of(fix.store, topic, 0, number);
    ck_assert_int_gt(time, 0);
    int64_t lower = rq_store_offset_by_time(fix.store, topic, 0, time, false);
    int64_t upper = rq_store_offset_by_time(fix.store, topic, 0, time, true);
    ck_assert_int_le(lower, number);
    ck_assert_int_ge(upper, number);
    ck_assert_int_eq(rq_store_time_of(fix.store, topic, 0, upper), time);
    ck_assert_int_eq(rq_store_offset_by_time(fix.store, topic, 0, 1, false), 0);
}

/* The store goes on, and whoever walks the log meets no damage any more. */
static void check_goes_on(int64_t from, int64_t upto)
{
    rmq_store *store = NULL;
    rmq_store_check check;
    append_many(MESSAGES, 20);
    check_lost(from, upto, MESSAGES + 20);
    check_times(5);
    check_times(MESSAGES - 5);
    fixture_crash(&fix);
    fixture_open(&fix);
    check_lost(from, upto, MESSAGES + 20);
    fixture_close(&fix);
    ck_assert_int_eq(rmq_store_open(fix.dir, NULL, &store, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_OK);
    ck_assert_int_eq(check.damaged_places, 0);
    ck_assert_int_eq(check.missing_files, 0);
    ck_assert_int_eq(check.queue_entries, MESSAGES + 20 - (upto - from));
    ck_assert_int_eq(check.queue_entries_missing, 0);
    ck_assert_int_eq(check.queue_entries_wrong, 0);
    rmq_store_close(store);
    fixture_open(&fix);
    check_lost(from, upto, MESSAGES + 20);
    fixture_end(&fix);
}

static char told[4096];

static void keep_errors(rmq_log_level level, const char *line, void *user)
{
    size_t n = strlen(told);
    (void)user;
    if (level == RMQ_LOG_ERROR) {
        snprintf(told + n, sizeof told - n, "%s\n", line);
    }
}

/* Opens the store, which says once, and as an error, which bytes of the log are lost. */
static void open_and_hear(int64_t from, int64_t to)
{
    char numbers[64];
    told[0] = '\0';
    rmq_log_set(RMQ_LOG_ERROR, keep_errors, NULL);
    fixture_open(&fix);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    snprintf(numbers, sizeof numbers, "from=%lld to=%lld", (long long)from, (long long)to);
    ck_assert_msg(strstr(told, numbers) && strchr(told, '\n') == told + strlen(told) - 1, "%s",
                  told);
}

START_TEST(a_log_file_in_the_middle_that_lost_its_end_costs_only_that)
{
    for (int crashed = 0; crashed < 2; crashed++) {
        fill();
        ck_assert_int_eq(truncate(fixture_path(&fix, FILE_1), 10 * RECORD + 100), 0);
        if (crashed) {
            mark_crashed();
            ck_assert_int_eq(unlink(fixture_path(&fix, "checkpoint")), 0);
        }
        open_and_hear(65536 + 10 * RECORD, 2 * 65536);
        check_lost(IN_FILE + 10, 2 * IN_FILE, MESSAGES);
        check_goes_on(IN_FILE + 10, 2 * IN_FILE);
    }
}
END_TEST

START_TEST(a_log_file_in_the_middle_that_is_missing_costs_only_that)
{
    fill();
    ck_assert_int_eq(unlink(fixture_path(&fix, FILE_1)), 0);
    open_and_hear(65536, 2 * 65536);
    check_lost(IN_FILE, 2 * IN_FILE, MESSAGES);
    check_goes_on(IN_FILE, 2 * IN_FILE);
}
END_TEST

START_TEST(a_record_damaged_in_the_middle_costs_only_itself)
{
    for (int sync = 0; sync < 2; sync++) {
        fill();
        fix.options.flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
        write_bytes(FILE_1, 7 * RECORD + 4, "", 1);
        mark_crashed();
        ck_assert_int_eq(unlink(fixture_path(&fix, "checkpoint")), 0);
        fixture_open(
            /* with synchronous flush, too: files behind the next one are more than a torn tail */
            &fix);
        fix.options.flush_disk_type = RQ_FLUSH_ASYNC;
        fixture_reopen(&fix);
        check_lost(IN_FILE + 7, IN_FILE + 8, MESSAGES);
        check_goes_on(IN_FILE + 7, IN_FILE + 8);
    }
}
END_TEST

/* A broker that cuts a log leaves the bytes behind the end, and what it writes there is newer. */
START_TEST(older_records_behind_the_end_of_a_closed_store_do_not_come_back)
{
    static const char zeros[5 * 20];
    static const char old[] = {0, 0, 1, 0, 0, 0, 0, 0}; /* a store time of 2004 */
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(0, 10);
    fixture_close(&fix);
    write_bytes("consumequeue/T/0/00000000000000000000", 5 * 20, zeros, sizeof zeros);
    write_bytes(FILE_0, 5 * RECORD + 4, "", 1);
    for (int i = 6; i < 10; i++) {
        write_bytes(FILE_0, i * RECORD + STORE_TIME_AT, old, sizeof old);
    }
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 5, 0);
    append_many(5, 5);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 10, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(many_damaged_records_and_the_begin_of_a_file_are_passed_over_together)
{
    char rubbish[3 * RECORD];
    memset(rubbish, 0xDA, sizeof rubbish);
    fill();
    fix.options.force_verify_prop_crc = false;
    write_bytes(FILE_1, 0, rubbish, sizeof rubbish);
    mark_crashed();
    ck_assert_int_eq(unlink(fixture_path(&fix, "checkpoint")), 0);
    fixture_open(&fix);
    check_lost(IN_FILE, IN_FILE + 3, MESSAGES);
    check_goes_on(IN_FILE, IN_FILE + 3);
}
END_TEST

/* Counts the times that all of it was done. */
static bool count_ends(int64_t done, int64_t total, void *user)
{
    *(int *)user += done == total;
    return true;
}

START_TEST(rebuilding_refuses_damage_and_salvages_what_is_left_when_told)
{
    rmq_store_options options;
    rmq_error *err = NULL;
    int ends = 0;
    fill();
    write_bytes(FILE_1, 7 * RECORD + 4, "", 1);
    rmq_store_options_init(&options, sizeof options);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, &err), RMQ_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "--salvage"));
    rmq_error_destroy(err);
    options.salvage = true;
    options.progress = count_ends;
    options.user = &ends;
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, NULL), RMQ_OK);
    ck_assert_int_eq(ends, 2); /* checked, then built */
    fixture_open(&fix);
    check_lost(IN_FILE + 7, IN_FILE + 8, MESSAGES);
    check_goes_on(IN_FILE + 7, IN_FILE + 8);
}
END_TEST

START_TEST(files_that_do_not_fit_the_option_of_their_size_are_refused_untouched)
{
    rmq_error *err = NULL;
    fill();
    fix.options.mapped_file_size_commit_log = 65536 * 4;
    ck_assert_int_eq(rq_store_open(&fix.options, &fix.store, &err), RMQ_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "262144"));
    rmq_error_destroy(err);
    fix.options.mapped_file_size_commit_log = 65536;
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, MESSAGES, 0);
    fixture_end(&fix);
}
END_TEST

Suite *mend_suite(void)
{
    Suite *suite = suite_create("mend");
    TCase *tc = tcase_create("mend");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_log_file_in_the_middle_that_lost_its_end_costs_only_that);
    tcase_add_test(tc, a_log_file_in_the_middle_that_is_missing_costs_only_that);
    tcase_add_test(tc, a_record_damaged_in_the_middle_costs_only_itself);
    tcase_add_test(tc, older_records_behind_the_end_of_a_closed_store_do_not_come_back);
    tcase_add_test(tc, many_damaged_records_and_the_begin_of_a_file_are_passed_over_together);
    tcase_add_test(tc, rebuilding_refuses_damage_and_salvages_what_is_left_when_told);
    tcase_add_test(tc, files_that_do_not_fit_the_option_of_their_size_are_refused_untouched);
    suite_add_tcase(suite, tc);
    return suite;
}

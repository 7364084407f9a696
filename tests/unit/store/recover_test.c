/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What comes back after kills and damage. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/sys.h"
#include "base/time.h"
#include "fixture.h"
#include "store/record.h"

Suite *recover_suite(void);

#define SIZE     500
#define OVERHEAD 92

static void append_many(struct fixture *fix, unsigned from, unsigned count, const char *properties)
{
    for (unsigned i = from; i < from + count; i++) {
        struct rq_msg msg = fixture_msg("T", 0, SIZE, i, properties);
        fixture_append(fix, &msg);
    }
}

/* Writes bytes into a closed store's file. */
static void damage(const struct fixture *fix, const char *file, int64_t at, const void *bytes,
                   size_t n)
{
    int fd = open(fixture_path(fix, file), O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, n, (off_t)at), (ssize_t)n);
    close(fd);
}

static void mark_crashed(const struct fixture *fix)
{
    close(open(fixture_path(fix, "abort"), O_WRONLY | O_CREAT, 0644));
}

static int64_t log_end(struct fixture *fix)
{
    struct rq_store_info info;
    rq_store_info(fix->store, &info);
    return info.max_commit_log_offset;
}

START_TEST(a_killed_store_comes_back_with_every_message_and_goes_on)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned round = 0; round < 5; round++) {
        append_many(&fix, round * 173, 173, "KEYS\1k\2");
        fixture_crash(&fix);
        ck_assert(fixture_has(&fix, "abort"));
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, (round + 1) * 173, 0);
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(messages_that_were_appended_but_not_dispatched_are_there_after_a_kill)
{
    struct fixture fix;
    struct rq_store_put put;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 10, NULL);
    for (unsigned i = 10; i < 200; i++) {
        struct rq_msg msg = fixture_msg("T", 0, SIZE, i, NULL);
        ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    }
    fixture_crash(&fix);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 200, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_record_torn_at_any_place_is_cut_off_and_those_before_stay)
{
    static const size_t places[] = {0, 3, 4, 7, 8, 20, 28, 36, 56, 84, 88, 300, 589};
    char zeros[SIZE + OVERHEAD] = {0};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct fixture fix;
        fixture_begin(&fix);
        fixture_open(&fix);
        append_many(&fix, 0, 20, NULL);
        fixture_close(&fix);
        mark_crashed(&fix);
        size_t record = SIZE + OVERHEAD;
        damage(&fix, "commitlog/00000000000000000000", (int64_t)(19 * record + places[i]), zeros,
               record - places[i]);
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, 19, 0);
        unsigned next = (unsigned)rq_store_max_offset(fix.store, rq_slice_str("T"), 0);
        append_many(&fix, next, 5, NULL);
        fixture_check_queue(&fix, "T", 0, next + 5, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_record_that_lost_the_end_of_its_properties_is_cut_off)
{
    static const char zeros[3];
    static const struct {
        size_t bytes; /* that are zero at the end of the last record */
        bool crashed;
        int64_t left;
    } cases[] = {{3, true, 19}, {3, false, 20}, {1, true, 20}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture fix;
        fixture_begin(&fix);
        fixture_open(&fix);
        append_many(&fix, 0, 20, "KEYS\1key\2");
        int64_t end = log_end(&fix);
        fixture_close(&fix);
        damage(&fix, "commitlog/00000000000000000000", end - (int64_t)cases[i].bytes, zeros,
               cases[i].bytes);
        if (cases[i].crashed) {
            mark_crashed(&fix);
        }
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, cases[i].left, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(rubbish_behind_the_end_is_never_taken_for_messages)
{
    struct fixture fix;
    char rubbish[20000];
    srand(7);
    for (size_t i = 0; i < sizeof rubbish; i++) {
        rubbish[i] = (char)rand();
    }
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 20, NULL);
    int64_t end = log_end(&fix);
    fixture_close(&fix);
    for (int crashed = 0; crashed < 2; crashed++) {
        damage(&fix, "commitlog/00000000000000000000", end, rubbish, sizeof rubbish);
        if (crashed) {
            mark_crashed(&fix);
        }
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, 20, 0);
        ck_assert_int_eq(log_end(&fix), end);
        fixture_close(&fix);
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(old_records_behind_a_cut_do_not_come_back_after_the_next_kill)
{
    struct fixture fix;
    char zero = 0;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 40, NULL);
    fixture_close(&fix);
    mark_crashed(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "checkpoint")), 0);
    fix.options.flush_disk_type = RQ_FLUSH_SYNC;
    /* Nothing says that record 20 was ever synced: 21 to 39 go with it, but their bytes are there,
     * at the places of records of the same size. */
    damage(&fix, "commitlog/00000000000000000000", 20 * (SIZE + OVERHEAD) + 4, &zero, 1);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 20, 0);
    append_many(&fix, 20, 1, NULL);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    fixture_crash(&fix);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 21, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(queue_entries_that_were_zeroed_or_cut_off_are_built_again)
{
    struct fixture fix;
    char zeros[400] = {0};
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 75, NULL);
    fixture_close(&fix);
    mark_crashed(&fix);
    damage(&fix, "consumequeue/T/0/00000000000000001200", 100, zeros, 60);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 75, 0);
    fixture_close(&fix);
    mark_crashed(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "consumequeue/T/0/00000000000000001200")), 0);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 75, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_queue_entry_that_no_log_can_hold_is_no_entry)
{
    struct fixture fix;
    char offset[8];
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 75, NULL);
    fixture_close(&fix);
    mark_crashed(&fix);
    rq_store_be64(offset, INT64_MAX - 10);
    damage(&fix, "consumequeue/T/0/00000000000000001200", 100, offset, sizeof offset);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 75, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(queue_entries_before_the_checkpoint_are_healed_when_a_hole_shows)
{
    struct fixture fix;
    char zeros[400] = {0};
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 300, NULL);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    fixture_close(&fix);
    mark_crashed(&fix);
    /* A checkpoint far ahead makes recovery begin in the last file; the queue lost more than
     * that. */
    char checkpoint[8];
    rq_store_be64(checkpoint, (uint64_t)rq_wall_ms() + 100000);
    for (int64_t at = 0; at < 24; at += 8) {
        damage(&fix, "checkpoint", at, checkpoint, sizeof checkpoint);
    }
    damage(&fix, "consumequeue/T/0/00000000000000005200", 0, zeros, 400);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 300, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(entries_of_messages_that_the_log_lost_are_dropped)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 300, NULL);
    fixture_close(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "commitlog/00000000000000131072")), 0);
    fixture_open(&fix);
    int64_t max = rq_store_max_offset(fix.store, rq_slice_str("T"), 0);
    ck_assert_int_eq(max, 2 * (65536 / (SIZE + OVERHEAD)));
    fixture_check_queue(&fix, "T", 0, max, 0);
    append_many(&fix, (unsigned)max, 10, NULL);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, max + 10, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_log_file_of_wrong_length_is_named)
{
    struct fixture fix;
    rmq_error *err = NULL;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 200, NULL);
    fixture_close(&fix);
    ck_assert_int_eq(truncate(fixture_path(&fix, "commitlog/00000000000000000000"), 70000), 0);
    ck_assert_int_eq(rq_store_open(&fix.options, &fix.store, &err), RMQ_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "commitlog/00000000000000000000"));
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "70000"));
    rmq_error_destroy(err);
    fix.store = NULL;
    fixture_end(&fix);
}
END_TEST

START_TEST(the_only_log_file_and_one_before_empty_ones_may_lose_their_end)
{
    for (int files = 1; files <= 3; files++) {
        struct fixture fix;
        fixture_begin(&fix);
        fixture_open(&fix);
        append_many(&fix, 0, 50, NULL);
        fixture_close(&fix);
        /* as a crash leaves the file that was made ahead, whole or not */
        for (int i = 1; i < files; i++) {
            char name[64];
            snprintf(name, sizeof name, "commitlog/%020d", i * 65536);
            close(open(fixture_path(&fix, name), O_WRONLY | O_CREAT, 0644));
            ck_assert_int_eq(truncate(fixture_path(&fix, name), i == 1 ? 0 : 65536), 0);
        }
        ck_assert_int_eq(truncate(fixture_path(&fix, "commitlog/00000000000000000000"),
                                  10 * (SIZE + OVERHEAD) + 7),
                         0);
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, 10, 0);
        append_many(&fix, 10, 150, NULL);
        fixture_check_queue(&fix, "T", 0, 160, 0);
        fixture_reopen(&fix);
        fixture_check_queue(&fix, "T", 0, 160, 0);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_last_log_file_that_was_cut_keeps_what_it_has)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 150, NULL);
    fixture_close(&fix);
    ck_assert_int_eq(truncate(fixture_path(&fix, "commitlog/00000000000000065536"), 3000), 0);
    fixture_open(&fix);
    int64_t max = 65536 / (SIZE + OVERHEAD) + 3000 / (SIZE + OVERHEAD);
    fixture_check_queue(&fix, "T", 0, max, 0);
    append_many(&fix, (unsigned)max, 10, NULL);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, max + 10, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(queues_that_lost_files_are_built_again_on_a_normal_start)
{
    static const char *const lost[] = {
        "consumequeue/T", "consumequeue/T/1", "consumequeue/T/0/00000000000000000400",
        "consumequeue/T/0/00000000000000000000", "consumequeue/T/0/00000000000000001600"};
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 100, NULL);
    for (unsigned i = 0; i < 5; i++) {
        struct rq_msg msg = fixture_msg("T", 1, SIZE, i, NULL);
        fixture_append(&fix, &msg);
        msg = fixture_msg("U", 0, SIZE, i, NULL);
        fixture_append(&fix, &msg);
    }
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        fixture_close(&fix);
        ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, lost[i])), 0);
        fixture_open(&fix);
        fixture_check_queue(&fix, "T", 0, 100, 0);
        fixture_check_queue(&fix, "T", 1, 5, 0);
        fixture_check_queue(&fix, "U", 0, 5, 0);
        ck_assert_int_eq(rq_store_min_offset(fix.store, rq_slice_str("T"), 0), 0);
    }
    fixture_close(&fix);
    ck_assert_int_eq(truncate(fixture_path(&fix, "consumequeue/T/0/00000000000000000400"), 90), 0);
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 100, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_file_made_ahead_or_not_yet_sized_is_tolerated)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 100, NULL);
    fixture_close(&fix);
    mark_crashed(&fix);
    const char *ahead = "commitlog/00000000000000065536";
    close(open(fixture_path(&fix, ahead), O_WRONLY | O_CREAT, 0644));
    ck_assert_int_eq(truncate(fixture_path(&fix, ahead), 65536), 0);
    close(open(fixture_path(&fix, "commitlog/00000000000000131072"), O_WRONLY | O_CREAT, 0644));
    fixture_open(&fix);
    fixture_check_queue(&fix, "T", 0, 100, 0);
    append_many(&fix, 100, 200, NULL);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 0, 300, 0);
    fixture_end(&fix);
}
END_TEST

static size_t count_key(struct fixture *fix, const char *key)
{
    struct rq_store_ref refs[64];
    size_t n = rq_store_query(fix->store, rq_slice_str("T"), rq_slice_str(key), 0, INT64_MAX / 2,
                              64, refs, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        rq_store_ref_release(&refs[i]);
    }
    return n;
}

START_TEST(keys_are_found_after_a_kill_also_those_before_the_checkpoint)
{
    struct fixture fix;
    char properties[32];
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(properties, sizeof properties, "KEYS\1key%u\2", i);
        append_many(&fix, i, 1, properties);
        if (i == 250) {
            ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
        }
    }
    fixture_crash(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(properties, sizeof properties, "key%u", i);
        ck_assert_msg(count_key(&fix, properties) == 1, "%s", properties);
    }
    fixture_end(&fix);
}
END_TEST

START_TEST(keys_of_messages_that_come_where_the_log_lost_others_are_found)
{
    struct fixture fix;
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many(&fix, 0, 300, "KEYS\1old\2");
    fixture_close(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "commitlog/00000000000000131072")), 0);
    fixture_open(&fix);
    int64_t max = rq_store_max_offset(fix.store, rq_slice_str("T"), 0);
    append_many(&fix, (unsigned)max, 10, "KEYS\1new\2");
    ck_assert_uint_eq(count_key(&fix, "new"), 10);
    ck_assert_uint_eq(count_key(&fix, "old"), 64); /* and more */
    fixture_reopen(&fix);
    ck_assert_uint_eq(count_key(&fix, "new"), 10);
    fixture_end(&fix);
}
END_TEST

START_TEST(an_index_that_lost_files_is_built_again_on_a_normal_start)
{
    struct fixture fix;
    char properties[32];
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(properties, sizeof properties, "KEYS\1key%u\2", i);
        append_many(&fix, i, 1, properties);
    }
    fixture_close(&fix);
    ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, "index")), 0);
    fixture_open(&fix);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(properties, sizeof properties, "key%u", i);
        ck_assert_msg(count_key(&fix, properties) == 1, "%s", properties);
    }
    fixture_end(&fix);
}
END_TEST

/* ---- kills at random times ---- */

/* Appends numbered messages to queues 0 … 3 for ever; each acknowledged number is written to the
 * pipe. */
static void child(struct fixture *fix, int out, bool sync, unsigned next[4])
{
    fix->options.flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
    if (rq_store_open(&fix->options, &fix->store, NULL) != RMQ_OK) {
        _exit(1);
    }
    for (unsigned i = 0;; i++) {
        int queue = (int)(i % 4);
        struct rq_msg msg = fixture_msg("T", queue, 1000, next[queue], "KEYS\1k\2");
        struct rq_store_put put;
        if (rq_store_append(fix->store, &msg, &put) != RQ_PUT_OK) {
            _exit(1);
        }
        rq_store_dispatch(fix->store);
        if (sync && rq_store_flush(fix->store, NULL) != RMQ_OK) {
            _exit(1);
        }
        next[queue]++;
        if (write(out, &queue, sizeof queue) != sizeof queue) {
            _exit(1);
        }
    }
}

static void kill_once(struct fixture *fix, int round, unsigned next[4])
{
    int pipe_fds[2];
    ck_assert_int_eq(pipe(pipe_fds), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(pipe_fds[0]);
        child(fix, pipe_fds[1], round % 4 == 3, next);
    }
    close(pipe_fds[1]);
    int acknowledged = 1 + rand() % 300;
    int queue;
    while (read(pipe_fds[0], &queue, sizeof queue) == sizeof queue) {
        next[queue]++;
        if (--acknowledged == 0) {
            kill(pid, SIGKILL);
        }
    }
    close(pipe_fds[0]);
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
}

START_TEST(no_acknowledged_message_is_lost_by_twenty_kills)
{
    struct fixture fix;
    unsigned next[4] = {0};
    unsigned seed = (unsigned)rq_wall_ms();
    printf("seed of kills: %u\n", seed);
    srand(seed);
    fixture_begin(&fix);
    for (int round = 0; round < 20; round++) {
        kill_once(&fix, round, next);
        fixture_open(&fix);
        for (int i = 0; i < 4; i++) {
            int64_t max = rq_store_max_offset(fix.store, rq_slice_str("T"), i);
            ck_assert_int_ge(max, next[i]);
            ck_assert_int_le(max, next[i] + 1); /* one may have been stored and not acknowledged */
            fixture_check_queue(&fix, "T", i, max, 0);
            next[i] = (unsigned)max;
        }
        fixture_close(&fix);
    }
    fixture_end(&fix);
}
END_TEST

Suite *recover_suite(void)
{
    Suite *suite = suite_create("recover");
    TCase *tc = tcase_create("recover");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_killed_store_comes_back_with_every_message_and_goes_on);
    tcase_add_test(tc, messages_that_were_appended_but_not_dispatched_are_there_after_a_kill);
    tcase_add_test(tc, a_record_torn_at_any_place_is_cut_off_and_those_before_stay);
    tcase_add_test(tc, a_record_that_lost_the_end_of_its_properties_is_cut_off);
    tcase_add_test(tc, rubbish_behind_the_end_is_never_taken_for_messages);
    tcase_add_test(tc, old_records_behind_a_cut_do_not_come_back_after_the_next_kill);
    tcase_add_test(tc, queue_entries_that_were_zeroed_or_cut_off_are_built_again);
    tcase_add_test(tc, a_queue_entry_that_no_log_can_hold_is_no_entry);
    tcase_add_test(tc, queue_entries_before_the_checkpoint_are_healed_when_a_hole_shows);
    tcase_add_test(tc, entries_of_messages_that_the_log_lost_are_dropped);
    tcase_add_test(tc, a_log_file_of_wrong_length_is_named);
    tcase_add_test(tc, the_only_log_file_and_one_before_empty_ones_may_lose_their_end);
    tcase_add_test(tc, a_last_log_file_that_was_cut_keeps_what_it_has);
    tcase_add_test(tc, queues_that_lost_files_are_built_again_on_a_normal_start);
    tcase_add_test(tc, an_index_that_lost_files_is_built_again_on_a_normal_start);
    tcase_add_test(tc, a_file_made_ahead_or_not_yet_sized_is_tolerated);
    tcase_add_test(tc, keys_are_found_after_a_kill_also_those_before_the_checkpoint);
    tcase_add_test(tc, keys_of_messages_that_come_where_the_log_lost_others_are_found);
    tcase_add_test(tc, no_acknowledged_message_is_lost_by_twenty_kills);
    suite_add_tcase(suite, tc);
    return suite;
}

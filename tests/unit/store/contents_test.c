/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queues and index that were removed by hand are built again after a crash, too, and what was
 * deleted on purpose is not. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sys.h"
#include "base/time.h"
#include "look.h"
#include "store/disk.h"

Suite *contents_suite(void);

#define SIZE    500
#define WAIT_MS 20000

static struct fixture fix;

static void append_many(const char *topic, int queue_id, unsigned from, unsigned upto,
                        const char *properties)
{
    for (unsigned i = from; i < upto; i++) {
        struct rq_msg msg = fixture_msg(topic, queue_id, SIZE, i, properties);
        ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, i);
    }
}

/* Until the file that tells the next start what there is says so. */
static void wait_for_line(const char *line)
{
    int64_t deadline = rq_mono_ms() + WAIT_MS;
    bool found = false;
    while (!found) {
        struct rq_buf text;
        rq_buf_init(&text, 1 << 20);
        if (rq_sys_read_file(fixture_path(&fix, "contents"), 1 << 20, &text, NULL) == RMQ_OK) {
            found = strstr(rq_buf_cstr(&text), line) != NULL;
        }
        rq_buf_free(&text);
        ck_assert_msg(found || rq_mono_ms() < deadline, "%s", line);
        usleep(found ? 0 : 2000);
    }
}

/* Messages of T/1 and U/0 in the first file, of T/0 in many behind it, the last ones an hour later:
 * recovery does not come by the first file. */
static void fill(void)
{
    fixture_begin(&fix);
    fix.options.flush_interval_consume_queue_ms = 5;
    fix.options.flush_consume_queue_thorough_interval_ms = 5;
    fixture_open(&fix);
    append_many("T", 1, 0, 5, "KEYS\1early\2");
    append_many("U", 0, 0, 5, NULL);
    append_many("T", 0, 0, 400, NULL);
    rq_disk_set_clock_offset(rq_store_disk(fix.store), 3600000);
    append_many("T", 0, 400, 500, NULL);
    wait_for_line("queue 1 0 5 T\n");
    wait_for_line("queue 0 0 500 T\n");
    ck_assert_int_eq(rq_store_flush(fix.store, NULL),
                     RMQ_OK); /* the checkpoint is of the last message now */
}

static void crash(void)
{
    fixture_crash(&fix);
    fix.options.flush_consume_queue_thorough_interval_ms = 3600000;
}

static void check_all(void)
{
    struct rq_store_ref refs[8];
    fixture_check_queue(&fix, "T", 1, 5, 0);
    fixture_check_queue(&fix, "T", 0, 500, 0);
    ck_assert_int_eq(rq_store_min_offset(fix.store, rq_slice_str("T"), 1), 0);
    size_t n = rq_store_query(fix.store, rq_slice_str("T"), rq_slice_str("early"), 0, INT64_MAX, 8,
                              refs, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        rq_store_ref_release(&refs[i]);
    }
    ck_assert_uint_eq(n, 5);
}

START_TEST(what_was_removed_by_hand_after_a_crash_is_built_again)
{
    static const char *const lost[] = {"consumequeue/T/1", "consumequeue/T", "index",
                                       "consumequeue"};
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        fill();
        crash();
        ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, lost[i])), 0);
        fixture_open(&fix);
        check_all();
        crash(); /* at once: the list still counts */
        ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, lost[i])), 0);
        fixture_open(&fix);
        check_all();
        struct rq_msg msg = fixture_msg("T", 1, SIZE, 5, NULL);
        ck_assert_int_eq(fixture_append(&fix, &msg).queue_offset, 5);
        fixture_end(&fix);
    }
}
END_TEST

/* How many files the directory of the index has. */
static int index_files(void)
{
    int count = 0;
    DIR *dir = opendir(fixture_path(&fix, "index"));
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

/* Path of the newest one. */
static const char *last_index_file(void)
{
    char name[FIXTURE_PATH] = "index/";
    DIR *dir = opendir(fixture_path(&fix, "index"));
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (e->d_name[0] != '.' && strcmp(e->d_name, strrchr(name, '/') + 1) > 0) {
            snprintf(name, sizeof name, "index/%s", e->d_name);
        }
    }
    closedir(dir);
    return fixture_path(&fix, name);
}

START_TEST(an_index_file_that_was_cut_short_is_made_again_once)
{
    for (int crashed = 0; crashed < 2; crashed++) {
        fill();
        append_many("T", 2, 0, 300, "KEYS\1late\2"); /* an index file takes 199 */
        wait_for_line("queue 2 0 300 T\n");          /* a copy finds no file that goes away */
        int files = index_files();
        ck_assert_int_gt(files, 1);
        if (crashed) {
            crash();
        } else {
            fixture_close(&fix);
        }
        ck_assert_int_eq(truncate(last_index_file(), 1000), 0);
        ck_assert_int_eq(unlink(fixture_path(&fix, "contents")), 0); /* as in a Java store */
        fixture_open(&fix);
        check_all();
        fixture_close(&fix);
        ck_assert_int_eq(index_files(), files);
        rmq_store_check check = look_verify(&fix);
        ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
        ck_assert_int_eq(check.index_entries, 305);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_topic_that_was_deleted_does_not_come_back_after_a_crash)
{
    fill();
    rq_store_delete_topic(fix.store, rq_slice_str("U"));
    crash();
    fixture_open(&fix);
    ck_assert(!rq_store_has_queue(fix.store, rq_slice_str("U"), 0));
    check_all();
    fixture_end(&fix);
}
END_TEST

START_TEST(a_store_that_another_broker_had_in_between_is_taken_as_it_is)
{
    fill();
    crash();
    ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, "consumequeue/U")), 0);
    FILE *f = fopen(fixture_path(&fix, "abort"), "w");
    ck_assert_ptr_nonnull(f);
    fputs("4711", f); /* as Java writes it */
    fclose(f);
    fixture_open(&fix);
    ck_assert(!rq_store_has_queue(fix.store, rq_slice_str("U"), 0));
    check_all();
    fixture_end(&fix);
}
END_TEST

/* The messages of queue 1 are gone, with all of its files but the last. */
static void fill_and_expire(void)
{
    char path[100];
    fixture_begin(&fix);
    fixture_open(&fix);
    append_many("T", 1, 0, 50, NULL); /* three files of the queue; all in the first of the log */
    append_many("T", 0, 0, 200, NULL);
    fixture_close(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "commitlog/00000000000000000000")), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "consumequeue/T/1/%020d", i * 400);
        ck_assert_int_eq(unlink(fixture_path(&fix, path)), 0);
    }
}

START_TEST(numbers_go_on_when_another_broker_has_only_deleted_what_expired)
{
    fill_and_expire();
    fixture_open(&fix);
    ck_assert_int_eq(rq_store_min_offset(fix.store, rq_slice_str("T"), 1), 50);
    append_many("T", 1, 50, 60, NULL);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 1, 60, 0);
    fixture_check_queue(&fix, "T", 0, 200, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(numbers_go_on_when_only_queues_without_messages_are_left)
{
    fill_and_expire();
    rq_sys_rmtree(fixture_path(&fix, "consumequeue/T/0"));
    fixture_open(&fix);
    append_many("T", 1, 50, 60, NULL);
    fixture_reopen(&fix);
    fixture_check_queue(&fix, "T", 1, 60, 0);
    fixture_end(&fix);
}
END_TEST

Suite *contents_suite(void)
{
    Suite *suite = suite_create("contents");
    TCase *tc = tcase_create("contents");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, what_was_removed_by_hand_after_a_crash_is_built_again);
    tcase_add_test(tc, an_index_file_that_was_cut_short_is_made_again_once);
    tcase_add_test(tc, a_topic_that_was_deleted_does_not_come_back_after_a_crash);
    tcase_add_test(tc, a_store_that_another_broker_had_in_between_is_taken_as_it_is);
    tcase_add_test(tc, numbers_go_on_when_another_broker_has_only_deleted_what_expired);
    tcase_add_test(tc, numbers_go_on_when_only_queues_without_messages_are_left);
    suite_add_tcase(suite, tc);
    return suite;
}

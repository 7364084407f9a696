/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* rmq_store_rebuild: queues and index that are wrong or missing are built anew, and nobody else has
 * the store meanwhile. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "look.h"

Suite *rebuild_suite(void);

static void find_file(const struct fixture *fix, const char *dir, char out[FIXTURE_PATH])
{
    char line[FIXTURE_PATH];
    char command[2 * FIXTURE_PATH];
    snprintf(command, sizeof command, "ls %s/%s", fix->dir, dir);
    FILE *list = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, list));
    pclose(list);
    line[strcspn(line, "\n")] = '\0';
    snprintf(out, FIXTURE_PATH, "%s/%.40s", dir, line);
}

START_TEST(a_first_log_file_that_lost_its_end_does_not_set_the_size_of_the_others)
{
    struct fixture fix;
    rmq_store_options options;
    rmq_store_info info;
    look_make(&fix);
    ck_assert_int_eq(truncate(fixture_path(&fix, "commitlog/00000000000000000000"), 30000), 0);
    rmq_store *store = look_open(&fix);
    rmq_store_get_info(store, &info, sizeof info);
    ck_assert_int_eq(info.commit_log_file_size, 65536);
    rmq_store_close(store);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    int64_t left = check.log_messages;
    ck_assert_int_gt(left, LOOK_MESSAGES / 2);
    rmq_store_options_init(&options, sizeof options);
    options.salvage = true;
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, NULL), RMQ_OK);
    check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.queue_entries, left);
    fixture_end(&fix);
}
END_TEST

static void check_rebuild(const struct fixture *fix)
{
    rmq_error *err = NULL;
    rmq_status st = rmq_store_rebuild(fix->dir, NULL, &err);
    ck_assert_msg(st == RMQ_OK, "rebuild: %s", rmq_error_message(err));
    rmq_store_check check = look_verify(fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.queue_entries, LOOK_MESSAGES);
    ck_assert_int_eq(check.index_entries, 3 * LOOK_MESSAGES);
}

START_TEST(a_wrong_queue_entry_is_found_and_mended)
{
    static const off_t places[] = {7, 11, 19}; /* offset, size, tags code */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct fixture fix;
        look_make(&fix);
        look_flip(&fix, "consumequeue/T/1/00000000000000000400", 60 + places[i]);
        rmq_store_check check = look_verify(&fix);
        ck_assert_int_eq(check.verdict, RMQ_STORE_REBUILD);
        ck_assert_int_eq(check.queue_entries, LOOK_MESSAGES - 1);
        ck_assert_int_ge(check.queue_entries_wrong, 1);
        check_rebuild(&fix);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(an_entry_of_rubbish_in_a_whole_log_is_no_damage)
{
    struct fixture fix;
    char rubbish[20];
    look_make(&fix);
    memset(rubbish, '0', sizeof rubbish);
    int fd = open(fixture_path(&fix, "consumequeue/T/1/00000000000000000400"), O_RDWR);
    ck_assert_int_eq(pwrite(fd, rubbish, sizeof rubbish, 60), (ssize_t)sizeof rubbish);
    close(fd);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_REBUILD);
    ck_assert_int_eq(check.queue_entries_wrong, 1);
    ck_assert_int_eq(check.queue_entries_ahead, 0);
    ck_assert_int_eq(check.queue_entries_missing, 0);
    check_rebuild(&fix);
    fixture_end(&fix);
}
END_TEST

START_TEST(missing_queue_files_are_found_and_mended)
{
    struct fixture fix;
    look_make(&fix);
    rq_sys_rmtree(fixture_path(&fix, "consumequeue/T/2"));
    ck_assert_int_eq(unlink(fixture_path(&fix, "consumequeue/T/0/00000000000000000400")), 0);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_REBUILD);
    ck_assert_int_ge(check.queue_entries_missing, LOOK_MESSAGES / LOOK_QUEUES);
    ck_assert_int_eq(check.damaged_places, 0);
    check_rebuild(&fix);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_wrong_index_entry_is_found_and_mended)
{
    static const off_t places[] = {0, 11, 19}; /* hash, offset, link */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct fixture fix;
        char name[FIXTURE_PATH];
        look_make(&fix);
        find_file(&fix, "index", name);
        look_flip(&fix, name, 40 + 100 * 4 + 150 * 20 + places[i]);
        rmq_store_check check = look_verify(&fix);
        ck_assert_int_eq(check.verdict, RMQ_STORE_REBUILD);
        ck_assert_int_ge(check.index_entries_wrong + check.index_chains_broken, 1);
        check_rebuild(&fix);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(a_changed_slot_of_the_index_is_found)
{
    struct fixture fix;
    char name[FIXTURE_PATH];
    look_make(&fix);
    find_file(&fix, "index", name);
    look_flip(&fix, name, 40 + 50 * 4 + 3);
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_REBUILD);
    fixture_end(&fix);
}
END_TEST

START_TEST(an_index_file_that_was_cut_does_not_set_the_size_of_new_ones)
{
    struct fixture fix;
    rmq_store_info info;
    char path[FIXTURE_PATH];
    look_make(&fix);
    find_file(&fix, "index", path);
    ck_assert_int_eq(truncate(fixture_path(&fix, path), 100), 0);
    check_rebuild(&fix);
    rmq_store *store = look_open(&fix);
    rmq_store_get_info(store, &info, sizeof info);
    rmq_store_close(store);
    ck_assert_int_eq(info.max_hash_slot_num, 100);
    ck_assert_int_eq(info.max_index_num, 200);
    fixture_end(&fix);
}
END_TEST

START_TEST(what_cannot_be_rebuilt_stays_as_it_is)
{
    struct fixture fix;
    rmq_store_options options;
    look_make(&fix);
    rmq_store_options_init(&options, sizeof options);
    options.salvage = true;
    options.message_delay_level = "soon";
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, NULL), RMQ_ERR_INVALID);
    options.message_delay_level = NULL;
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
    const char *log_file = fixture_path(&fix, "commitlog/00000000000000065536");
    ck_assert_int_eq(truncate(log_file, 65537), 0);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, NULL), RMQ_ERR_CORRUPT);
    ck_assert_int_eq(truncate(log_file, 65536), 0);
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
    fixture_end(&fix);
}
END_TEST

/* Somebody who wants the store while it is rebuilt. */
struct intruder {
    const struct rq_store_options *options;
    int calls;
    int opened;
};

static bool try_to_open(int64_t done, int64_t total, void *user)
{
    struct intruder *intruder = user;
    struct rq_store *store = NULL;
    (void)done;
    (void)total;
    intruder->calls++;
    intruder->opened += rq_store_open(intruder->options, &store, NULL) != RMQ_ERR_EXISTS;
    rq_store_close(store);
    return true;
}

START_TEST(nobody_opens_a_store_while_it_is_looked_at_and_rebuilt)
{
    struct fixture fix;
    rmq_store_options options;
    look_make(&fix);
    struct intruder intruder = {.options = &fix.options};
    rmq_store_options_init(&options, sizeof options);
    options.progress = try_to_open;
    options.user = &intruder;
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, NULL), RMQ_OK);
    ck_assert_int_gt(intruder.calls, 0);
    ck_assert_int_eq(intruder.opened, 0);
    fixture_open(&fix);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, &options, NULL), RMQ_ERR_EXISTS);
    fixture_end(&fix);
}
END_TEST

Suite *rebuild_suite(void)
{
    Suite *suite = suite_create("rebuild");
    TCase *tc = tcase_create("rebuild");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_first_log_file_that_lost_its_end_does_not_set_the_size_of_the_others);
    tcase_add_test(tc, a_wrong_queue_entry_is_found_and_mended);
    tcase_add_test(tc, an_entry_of_rubbish_in_a_whole_log_is_no_damage);
    tcase_add_test(tc, missing_queue_files_are_found_and_mended);
    tcase_add_test(tc, a_wrong_index_entry_is_found_and_mended);
    tcase_add_test(tc, a_changed_slot_of_the_index_is_found);
    tcase_add_test(tc, an_index_file_that_was_cut_does_not_set_the_size_of_new_ones);
    tcase_add_test(tc, what_cannot_be_rebuilt_stays_as_it_is);
    tcase_add_test(tc, nobody_opens_a_store_while_it_is_looked_at_and_rebuilt);
    suite_add_tcase(suite, tc);
    return suite;
}

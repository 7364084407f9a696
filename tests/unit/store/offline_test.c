/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* <rmq/store.h>: looking into stores, ours and recorded ones, checking them, damaging them,
 * building them anew. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/store.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/sys.h"
#include "fixture.h"

Suite *offline_suite(void);

#define MANIFEST_MAX ((size_t)4 << 20)
#define MESSAGES     600
#define QUEUES       3

/* ---- helpers ---- */

static rmq_store *open_store(const struct fixture *fix)
{
    rmq_store *store = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_store_open(fix->dir, NULL, &store, &err);
    ck_assert_msg(st == RMQ_OK, "open: %s", rmq_error_message(err));
    return store;
}

static rmq_store_check verify(const struct fixture *fix)
{
    rmq_store *store = open_store(fix);
    rmq_store_check check;
    rmq_error *err = NULL;
    rmq_status st = rmq_store_verify(store, &check, sizeof check, &err);
    ck_assert_msg(st == RMQ_OK, "verify: %s", rmq_error_message(err));
    rmq_store_close(store);
    return check;
}

/* 600 messages with keys and tags in three queues, in several log files; closed. */
static void make_store(struct fixture *fix)
{
    fixture_begin(fix);
    fixture_open(fix);
    for (int i = 0; i < MESSAGES; i++) {
        char properties[64];
        snprintf(properties, sizeof properties,
                 "KEYS\001k%d all\002TAGS\001t%d\002UNIQ_KEY\001u%d\002", i, i % 5, i);
        struct rq_msg msg = fixture_msg("T", i % QUEUES, 300, (unsigned)i, properties);
        fixture_append(fix, &msg);
    }
    fixture_close(fix);
}

/* Changes the byte at a place of a file. */
static void flip(const struct fixture *fix, const char *name, off_t at)
{
    char byte;
    int fd = open(fixture_path(fix, name), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte = (char)(byte ^ 0x55);
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

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

/* ---- recorded stores ---- */

static cJSON *read_manifest(const char *name)
{
    char path[FIXTURE_PATH];
    struct rq_buf text;
    cJSON *json = NULL;
    snprintf(path, sizeof path, "tests/vectors/%s.manifest.json", name);
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, MANIFEST_MAX, &text, NULL), RMQ_OK);
    ck_assert_int_eq(rq_json_parse(rq_slice(text.data, text.len), &json, NULL), RMQ_OK);
    rq_buf_free(&text);
    return json;
}

static void compare_message(const rmq_store *store, size_t index, const cJSON *expected)
{
    rmq_store_message msg;
    int64_t offset = rq_json_i64(expected, "queueOffset", -1);
    ck_assert_int_eq(rmq_store_message_at(store, index, offset, &msg, sizeof msg, NULL), RMQ_OK);
    ck_assert_int_eq(msg.queue_offset, offset);
    ck_assert_int_eq(msg.commit_log_offset, rq_json_i64(expected, "commitLogOffset", -1));
    ck_assert_int_eq(msg.size, rq_json_i64(expected, "size", -1));
    ck_assert_int_eq(msg.tags_code, rq_json_i64(expected, "tagsCode", -1));
    ck_assert_int_eq(msg.flag, rq_json_i64(expected, "flag", -1));
    ck_assert_int_eq(msg.sys_flag, rq_json_i64(expected, "sysFlag", -1));
    ck_assert_int_eq(msg.store_timestamp_ms, rq_json_i64(expected, "storeTimestamp", -1));
    ck_assert_int_eq(msg.reconsume_times, rq_json_i64(expected, "reconsumeTimes", -1));
    ck_assert_int_eq((int64_t)msg.body_size, rq_json_i64(expected, "stored_body_len", -1));
    ck_assert_str_eq(msg.msg_id, rq_json_str(expected, "msgId", ""));
}

/* after: the offsets that the manifest tells are those after recovery; messages only where the
 * queue has them already. */
static void compare_queues(const rmq_store *store, const cJSON *manifest, bool after)
{
    rmq_store_queue queue;
    size_t compared = 0;
    const cJSON *queues = rq_json_get(manifest, "queues");
    for (size_t i = 0; rmq_store_queue_at(store, i, &queue, sizeof queue); i++) {
        char name[300];
        snprintf(name, sizeof name, "%s/%d", queue.topic, queue.queue_id);
        const cJSON *expected = rq_json_get(queues, name);
        ck_assert_msg(expected != NULL || queue.max_offset == 0, "%s", name);
        ck_assert_int_eq(queue.min_offset, rq_json_i64(expected, "minOffset", 0));
        ck_assert_int_eq(queue.log_max_offset, rq_json_i64(expected, "maxOffset", 0));
        ck_assert(after || queue.max_offset == queue.log_max_offset);
        const cJSON *message;
        cJSON_ArrayForEach(message, rq_json_get(expected, "messages"))
        {
            if (!after) {
                compare_message(store, i, message);
            }
        }
        compared++;
    }
    ck_assert_uint_ge(compared, 13);
}

static void compare_store(const char *name, rmq_store_verdict verdict, bool after)
{
    struct fixture fix;
    rmq_store_check check;
    cJSON *manifest = read_manifest(name);
    const cJSON *totals = rq_json_get(manifest, "totals");
    fixture_begin(&fix);
    fixture_unpack(&fix, name);
    rmq_store *store = open_store(&fix);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_OK);
    ck_assert_int_eq(check.verdict, verdict);
    ck_assert_int_eq(check.commit_log_min_offset, rq_json_i64(totals, "commitlog_min_offset", -1));
    ck_assert_int_eq(check.commit_log_max_offset, rq_json_i64(totals, "commitlog_max_offset", -1));
    ck_assert_int_eq(check.queue_entries + check.queue_entries_missing,
                     rq_json_i64(totals, "messages_in_queues", -1));
    ck_assert_int_gt(check.index_entries, 900);
    compare_queues(store, manifest, after);
    rmq_store_close(store);
    rq_json_free(manifest);
    fixture_end(&fix);
}

START_TEST(recorded_stores_are_whole_and_give_their_manifests)
{
    compare_store("store-5.3.3", RMQ_STORE_WHOLE, false);
    compare_store("store-4.9.7", RMQ_STORE_WHOLE, false);
}
END_TEST

START_TEST(crashed_stores_are_unfinished_and_give_what_recovery_makes)
{
    compare_store("store-5.3.3-crashed", RMQ_STORE_UNFINISHED, false);
    compare_store("store-5.3.3-torn", RMQ_STORE_UNFINISHED, true);
}
END_TEST

/* ---- our stores ---- */

START_TEST(a_closed_store_is_whole_and_tells_what_is_in_it)
{
    struct fixture fix;
    make_store(&fix);
    rmq_store *store = open_store(&fix);
    rmq_store_info info;
    rmq_store_get_info(store, &info, sizeof info);
    ck_assert(info.closed && !info.in_use);
    ck_assert_int_eq(info.messages, MESSAGES);
    ck_assert_int_eq(info.topics, 1);
    ck_assert_int_eq(info.queues, QUEUES);
    ck_assert_int_eq(info.index_entries, 3 * MESSAGES);
    ck_assert_int_eq(info.max_hash_slot_num, 100);
    ck_assert_int_eq(info.max_index_num, 200);
    ck_assert_int_eq(info.commit_log_file_size, 65536);
    ck_assert_int_eq(info.consume_queue_file_size, 400);
    ck_assert_int_ge(info.last_store_timestamp_ms, info.first_store_timestamp_ms);
    rmq_store_close(store);
    rmq_store_check check = verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.queue_entries, MESSAGES);
    ck_assert_int_eq(check.index_entries, 3 * MESSAGES);
    ck_assert_int_eq(check.log_messages, MESSAGES);
    fixture_end(&fix);
}
END_TEST

START_TEST(looking_changes_no_file)
{
    struct fixture fix;
    char command[3 * FIXTURE_PATH];
    make_store(&fix);
    snprintf(command, sizeof command,
             "cd %s && find . -printf '%%p %%T@ %%s\\n' | sort > ../sums.$$ && chmod -R a-w .",
             fix.dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(verify(&fix).verdict, RMQ_STORE_WHOLE);
    snprintf(command, sizeof command, "cd %s && chmod -R u+w . && rm -f ../sums.*", fix.dir);
    ck_assert_int_eq(system(command), 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_store_in_use_is_shown_but_not_checked)
{
    struct fixture fix;
    rmq_store_info info;
    rmq_store_check check;
    make_store(&fix);
    fixture_open(&fix);
    rmq_store *store = open_store(&fix);
    rmq_store_get_info(store, &info, sizeof info);
    ck_assert(info.in_use && !info.closed);
    ck_assert_int_eq(info.messages, MESSAGES);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_ERR_BUSY);
    rmq_store_close(store);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, NULL, NULL), RMQ_ERR_EXISTS);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_directory_without_a_store_is_not_found)
{
    struct fixture fix;
    rmq_store *store = NULL;
    fixture_begin(&fix);
    ck_assert_int_eq(rmq_store_open(fix.dir, NULL, &store, NULL), RMQ_ERR_NOT_FOUND);
    ck_assert_int_eq(rmq_store_open("/nowhere", NULL, &store, NULL), RMQ_ERR_NOT_FOUND);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, NULL, NULL), RMQ_ERR_NOT_FOUND);
    fixture_end(&fix);
}
END_TEST

/* ---- damage ---- */

START_TEST(a_changed_body_is_found_and_the_messages_behind_it_are_not_lost)
{
    struct fixture fix;
    make_store(&fix);
    flip(&fix, "commitlog/00000000000000065536", 10000);
    rmq_store_check check = verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    ck_assert_int_eq(check.damaged_places, 1);
    ck_assert_int_eq(check.log_messages, MESSAGES - 1);
    ck_assert_int_gt(check.damaged_bytes, 300);
    ck_assert_int_lt(check.damaged_bytes, 600);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, NULL, NULL), RMQ_ERR_CORRUPT);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_changed_last_message_of_a_closed_store_is_damage)
{
    struct fixture fix;
    make_store(&fix);
    rmq_store *store = open_store(&fix);
    rmq_store_info info;
    char name[64];
    rmq_store_get_info(store, &info, sizeof info);
    rmq_store_close(store);
    int64_t at = info.commit_log_max_offset - 200;
    snprintf(name, sizeof name, "commitlog/%020lld", (long long)(at / 65536 * 65536));
    flip(&fix, name, (off_t)(at % 65536));
    rmq_store_check check = verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    ck_assert_int_eq(check.queue_entries_ahead, 1);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_missing_log_file_is_found)
{
    struct fixture fix;
    make_store(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "commitlog/00000000000000065536")), 0);
    rmq_store_check check = verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    ck_assert_int_eq(check.missing_files, 1);
    ck_assert_int_gt(check.log_messages, MESSAGES / 2);
    fixture_end(&fix);
}
END_TEST

static void check_rebuild(const struct fixture *fix)
{
    rmq_error *err = NULL;
    rmq_status st = rmq_store_rebuild(fix->dir, NULL, &err);
    ck_assert_msg(st == RMQ_OK, "rebuild: %s", rmq_error_message(err));
    rmq_store_check check = verify(fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.queue_entries, MESSAGES);
    ck_assert_int_eq(check.index_entries, 3 * MESSAGES);
}

START_TEST(a_wrong_queue_entry_is_found_and_mended)
{
    static const off_t places[] = {7, 11, 19}; /* offset, size, tags code */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct fixture fix;
        make_store(&fix);
        flip(&fix, "consumequeue/T/1/00000000000000000400", 60 + places[i]);
        rmq_store_check check = verify(&fix);
        ck_assert_int_eq(check.verdict, RMQ_STORE_REBUILD);
        ck_assert_int_eq(check.queue_entries, MESSAGES - 1);
        ck_assert_int_ge(check.queue_entries_wrong, 1);
        check_rebuild(&fix);
        fixture_end(&fix);
    }
}
END_TEST

START_TEST(missing_queue_files_are_found_and_mended)
{
    struct fixture fix;
    make_store(&fix);
    rq_sys_rmtree(fixture_path(&fix, "consumequeue/T/2"));
    ck_assert_int_eq(unlink(fixture_path(&fix, "consumequeue/T/0/00000000000000000400")), 0);
    rmq_store_check check = verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_REBUILD);
    ck_assert_int_ge(check.queue_entries_missing, MESSAGES / QUEUES);
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
        make_store(&fix);
        find_file(&fix, "index", name);
        flip(&fix, name, 40 + 100 * 4 + 150 * 20 + places[i]);
        rmq_store_check check = verify(&fix);
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
    make_store(&fix);
    find_file(&fix, "index", name);
    flip(&fix, name, 40 + 50 * 4 + 3);
    ck_assert_int_eq(verify(&fix).verdict, RMQ_STORE_REBUILD);
    fixture_end(&fix);
}
END_TEST

START_TEST(messages_of_a_deleted_topic_are_no_damage)
{
    struct fixture fix;
    static const char topics[] = "{\"topicConfigTable\":{\"Other\":{\"topicName\":\"Other\"}}}";
    make_store(&fix);
    rq_sys_rmtree(fixture_path(&fix, "consumequeue/T"));
    ck_assert_int_eq(verify(&fix).verdict, RMQ_STORE_REBUILD);
    rq_sys_mkdirs(fixture_path(&fix, "config"));
    ck_assert_int_eq(rq_sys_write_file(fixture_path(&fix, "config/topics.json"), topics,
                                       sizeof topics - 1, false, NULL),
                     RMQ_OK);
    ck_assert_int_eq(verify(&fix).verdict, RMQ_STORE_WHOLE);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_topic_that_was_made_again_is_whole)
{
    struct fixture fix;
    make_store(&fix);
    fixture_open(&fix);
    rq_store_delete_topic(fix.store, rq_slice_str("T"));
    for (int i = 0; i < 50; i++) {
        struct rq_msg msg = fixture_msg("T", i % 2, 100, (unsigned)i, "KEYS\001again\002");
        fixture_append(&fix, &msg);
    }
    fixture_close(&fix);
    rmq_store_check check = verify(&fix);
    ck_assert_int_eq(check.queue_entries, 50);
    ck_assert_int_eq(check.queue_entries_wrong, 0);
    fixture_end(&fix);
}
END_TEST

static bool stop_at_once(int64_t done, int64_t total, void *user)
{
    ck_assert_int_le(done, total);
    ++*(int *)user;
    return false;
}

START_TEST(progress_may_stop_a_check)
{
    struct fixture fix;
    int calls = 0;
    rmq_store *store = NULL;
    rmq_store_check check;
    rmq_store_options options;
    make_store(&fix);
    rmq_store_options_init(&options, sizeof options);
    options.progress = stop_at_once;
    options.user = &calls;
    ck_assert_int_eq(rmq_store_open(fix.dir, &options, &store, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_ERR_STATE);
    ck_assert_int_eq(calls, 1);
    rmq_store_close(store);
    fixture_end(&fix);
}
END_TEST

Suite *offline_suite(void)
{
    Suite *suite = suite_create("offline");
    TCase *tc = tcase_create("offline");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, recorded_stores_are_whole_and_give_their_manifests);
    tcase_add_test(tc, crashed_stores_are_unfinished_and_give_what_recovery_makes);
    tcase_add_test(tc, a_closed_store_is_whole_and_tells_what_is_in_it);
    tcase_add_test(tc, looking_changes_no_file);
    tcase_add_test(tc, a_store_in_use_is_shown_but_not_checked);
    tcase_add_test(tc, a_directory_without_a_store_is_not_found);
    tcase_add_test(tc, a_changed_body_is_found_and_the_messages_behind_it_are_not_lost);
    tcase_add_test(tc, a_changed_last_message_of_a_closed_store_is_damage);
    tcase_add_test(tc, a_missing_log_file_is_found);
    tcase_add_test(tc, a_wrong_queue_entry_is_found_and_mended);
    tcase_add_test(tc, missing_queue_files_are_found_and_mended);
    tcase_add_test(tc, a_wrong_index_entry_is_found_and_mended);
    tcase_add_test(tc, a_changed_slot_of_the_index_is_found);
    tcase_add_test(tc, messages_of_a_deleted_topic_are_no_damage);
    tcase_add_test(tc, a_topic_that_was_made_again_is_whole);
    tcase_add_test(tc, progress_may_stop_a_check);
    suite_add_tcase(suite, tc);
    return suite;
}

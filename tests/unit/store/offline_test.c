/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* <rmq/store.h>: looking into stores, ours and recorded ones, and checking damaged ones. */
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
#include "look.h"
#include "store/consume_queue.h"

Suite *offline_suite(void);

#define MANIFEST_MAX ((size_t)4 << 20)

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
    rmq_store *store = look_open(&fix);
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
    look_make(&fix);
    rmq_store *store = look_open(&fix);
    rmq_store_info info;
    rmq_store_get_info(store, &info, sizeof info);
    ck_assert(info.closed && !info.in_use);
    ck_assert_int_eq(info.messages, LOOK_MESSAGES);
    ck_assert_int_eq(info.topics, 1);
    ck_assert_int_eq(info.queues, LOOK_QUEUES);
    ck_assert_int_eq(info.index_entries, 3 * LOOK_MESSAGES);
    ck_assert_int_eq(info.max_hash_slot_num, 100);
    ck_assert_int_eq(info.max_index_num, 200);
    ck_assert_int_eq(info.commit_log_file_size, 65536);
    ck_assert_int_eq(info.consume_queue_file_size, 400);
    ck_assert_int_ge(info.last_store_timestamp_ms, info.first_store_timestamp_ms);
    rmq_store_close(store);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.queue_entries, LOOK_MESSAGES);
    ck_assert_int_eq(check.index_entries, 3 * LOOK_MESSAGES);
    ck_assert_int_eq(check.log_messages, LOOK_MESSAGES);
    fixture_end(&fix);
}
END_TEST

START_TEST(looking_changes_no_file)
{
    struct fixture fix;
    char command[3 * FIXTURE_PATH];
    look_make(&fix);
    snprintf(command, sizeof command,
             "cd %s && find . -printf '%%p %%T@ %%s\\n' | sort > ../sums.$$ && chmod -R a-w .",
             fix.dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
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
    look_make(&fix);
    fixture_open(&fix);
    rmq_store *store = look_open(&fix);
    rmq_store_get_info(store, &info, sizeof info);
    ck_assert(info.in_use && !info.closed);
    ck_assert_int_eq(info.messages, LOOK_MESSAGES);
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

START_TEST(a_store_opened_by_a_relative_path_is_read_when_the_directory_has_changed)
{
    struct fixture fix;
    rmq_store *store = NULL;
    rmq_store_check check;
    int home = open(".", O_RDONLY | O_DIRECTORY);
    look_make(&fix);
    ck_assert_int_eq(chdir(fix.dir), 0);
    ck_assert_int_eq(rmq_store_open(".", NULL, &store, NULL), RMQ_OK);
    ck_assert_int_eq(fchdir(home), 0);
    close(home);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_OK);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.log_messages, LOOK_MESSAGES);
    rmq_store_close(store);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_changed_body_is_found_and_the_messages_behind_it_are_not_lost)
{
    struct fixture fix;
    look_make(&fix);
    look_flip(&fix, "commitlog/00000000000000065536", 10000);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    ck_assert_int_eq(check.damaged_places, 1);
    ck_assert_int_eq(check.log_messages, LOOK_MESSAGES - 1);
    ck_assert_int_gt(check.damaged_bytes, 300);
    ck_assert_int_lt(check.damaged_bytes, 600);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, NULL, NULL), RMQ_ERR_CORRUPT);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_changed_last_message_of_a_closed_store_is_damage)
{
    struct fixture fix;
    look_make(&fix);
    rmq_store *store = look_open(&fix);
    rmq_store_info info;
    char name[64];
    rmq_store_get_info(store, &info, sizeof info);
    rmq_store_close(store);
    int64_t at = info.commit_log_max_offset - 200;
    snprintf(name, sizeof name, "commitlog/%020lld", (long long)(at / 65536 * 65536));
    look_flip(&fix, name, (off_t)(at % 65536));
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    ck_assert_int_eq(check.queue_entries_ahead, 1);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_missing_log_file_is_found)
{
    struct fixture fix;
    look_make(&fix);
    ck_assert_int_eq(unlink(fixture_path(&fix, "commitlog/00000000000000065536")), 0);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_DAMAGED);
    ck_assert_int_eq(check.missing_files, 1);
    ck_assert_int_gt(check.log_messages, LOOK_MESSAGES / 2);
    fixture_end(&fix);
}
END_TEST

START_TEST(messages_of_a_deleted_topic_are_no_damage)
{
    struct fixture fix;
    static const char topics[] = "{\"topicConfigTable\":{\"Other\":{\"topicName\":\"Other\"}}}";
    look_make(&fix);
    rq_sys_rmtree(fixture_path(&fix, "consumequeue/T"));
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_REBUILD);
    rq_sys_mkdirs(fixture_path(&fix, "config"));
    ck_assert_int_eq(rq_sys_write_file(fixture_path(&fix, "config/topics.json"), topics,
                                       sizeof topics - 1, false, NULL),
                     RMQ_OK);
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
    fixture_end(&fix);
}
END_TEST

static void note_finding(const char *text, void *user)
{
    snprintf(user, FIXTURE_PATH, "%s", text);
}

/* The last finding of a check. */
static rmq_store_verdict verify_and_tell(const struct fixture *fix, char finding[FIXTURE_PATH])
{
    rmq_store *store = NULL;
    rmq_store_check check;
    rmq_store_options options;
    finding[0] = '\0';
    rmq_store_options_init(&options, sizeof options);
    options.finding = note_finding;
    options.user = finding;
    ck_assert_int_eq(rmq_store_open(fix->dir, &options, &store, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_OK);
    rmq_store_close(store);
    return check.verdict;
}

START_TEST(an_index_that_is_gone_is_missing)
{
    struct fixture fix;
    char finding[FIXTURE_PATH];
    look_make(&fix);
    ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, "index")), 0);
    ck_assert_int_eq(look_verify(&fix).index_entries_missing, 3 * LOOK_MESSAGES);
    ck_assert_int_eq(verify_and_tell(&fix, finding), RMQ_STORE_REBUILD);
    ck_assert_msg(strstr(finding, "no key index, 1800 keys") && strstr(finding, "next start"), "%s",
                  finding);
    fixture_open(&fix);
    fixture_close(&fix);
    ck_assert_int_eq(verify_and_tell(&fix, finding), RMQ_STORE_WHOLE);
    ck_assert_int_eq(rq_sys_rmtree(fixture_path(&fix, "index")), 0);
    ck_assert_int_eq(unlink(fixture_path(&fix, "contents")), 0); /* as in a Java store */
    ck_assert_int_eq(verify_and_tell(&fix, finding), RMQ_STORE_REBUILD);
    ck_assert_msg(strstr(finding, "no key index") && !strstr(finding, "next start"), "%s", finding);
    ck_assert_int_eq(rmq_store_rebuild(fix.dir, NULL, NULL), RMQ_OK);
    ck_assert_int_eq(look_verify(&fix).verdict, RMQ_STORE_WHOLE);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_store_whose_broker_keeps_no_index_lacks_none)
{
    struct fixture fix;
    fixture_begin(&fix);
    fix.options.message_index_enable = false;
    fixture_open(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 100, 0, "KEYS\001k\002");
    fixture_append(&fix, &msg);
    fixture_close(&fix);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.verdict, RMQ_STORE_WHOLE);
    ck_assert_int_eq(check.index_entries_missing, 0);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_topic_that_was_made_again_is_whole)
{
    struct fixture fix;
    look_make(&fix);
    fixture_open(&fix);
    rq_store_delete_topic(fix.store, rq_slice_str("T"));
    for (int i = 0; i < 50; i++) {
        struct rq_msg msg = fixture_msg("T", i % 2, 100, (unsigned)i, "KEYS\001again\002");
        fixture_append(&fix, &msg);
    }
    fixture_close(&fix);
    rmq_store_check check = look_verify(&fix);
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
    look_make(&fix);
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

/* ---- queues with blank slots ---- */

/* Ten messages in one queue; slots 5 and 6 are blank, as after messages that were lost. */
static void make_store_with_blanks(struct fixture *fix)
{
    static const char blanks[2][RQ_CQ_ENTRY_BYTES] = {{[8] = 0x7F, '\xFF', '\xFF', '\xFF'},
                                                      {[8] = 0x7F, '\xFF', '\xFF', '\xFF'}};
    fixture_begin(fix);
    fixture_open(fix);
    for (unsigned i = 0; i < 10; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 300, i, NULL);
        fixture_append(fix, &msg);
    }
    fixture_close(fix);
    int fd = open(fixture_path(fix, "consumequeue/T/0/00000000000000000000"), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, blanks, sizeof blanks, 5 * RQ_CQ_ENTRY_BYTES), sizeof blanks);
    close(fd);
}

START_TEST(blank_slots_do_not_move_the_begin_of_a_queue)
{
    struct fixture fix;
    rmq_store_queue queue;
    make_store_with_blanks(&fix);
    rmq_store *store = look_open(&fix);
    ck_assert(rmq_store_queue_at(store, 0, &queue, sizeof queue));
    ck_assert_int_eq(queue.min_offset, 0);
    ck_assert_int_eq(queue.max_offset, 10);
    rmq_store_close(store);
    fixture_end(&fix);
}
END_TEST

START_TEST(blank_slots_hide_no_message_behind_damage)
{
    struct fixture fix;
    rmq_store_message msg;
    make_store_with_blanks(&fix);
    rmq_store *store = look_open(&fix);
    ck_assert_int_eq(rmq_store_message_at(store, 0, 3, &msg, sizeof msg, NULL), RMQ_OK);
    rmq_store_close(store);
    look_flip(&fix, "commitlog/00000000000000000000", (off_t)msg.commit_log_offset + msg.size - 50);
    rmq_store_check check = look_verify(&fix);
    ck_assert_int_eq(check.damaged_places, 1);
    ck_assert_int_eq(check.damaged_bytes, msg.size);
    ck_assert_int_eq(check.log_messages, 9);
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
    tcase_add_test(tc, a_store_opened_by_a_relative_path_is_read_when_the_directory_has_changed);
    tcase_add_test(tc, a_changed_body_is_found_and_the_messages_behind_it_are_not_lost);
    tcase_add_test(tc, a_changed_last_message_of_a_closed_store_is_damage);
    tcase_add_test(tc, a_missing_log_file_is_found);
    tcase_add_test(tc, messages_of_a_deleted_topic_are_no_damage);
    tcase_add_test(tc, an_index_that_is_gone_is_missing);
    tcase_add_test(tc, a_store_whose_broker_keeps_no_index_lacks_none);
    tcase_add_test(tc, a_topic_that_was_made_again_is_whole);
    tcase_add_test(tc, progress_may_stop_a_check);
    tcase_add_test(tc, blank_slots_do_not_move_the_begin_of_a_queue);
    tcase_add_test(tc, blank_slots_hide_no_message_behind_damage);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of the broker's tables without a network: topics, groups, offsets, queue locks,
 * settings. */
#include <check.h>
#include <errno.h>
#include <rmq/broker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/thread.h"
#include "broker/broker.h"
#include "broker/groups.h"
#include "broker/offsets.h"
#include "broker/queue_locks.h"
#include "broker/topics.h"
#include "unit/broker/raw.h"

static char dir[64];
static char path[128];

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/rmq-tables-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/table.json", dir);
}

static void teardown(void)
{
    rq_sys_rmtree(dir);
}

static void write_text(const char *name, const char *text)
{
    ck_assert_int_eq(rq_sys_write_file(name, text, strlen(text), false, NULL), RMQ_OK);
}

static struct rq_slice name(const char *text)
{
    return rq_slice_str(text);
}

START_TEST(topics_of_a_java_file_are_read_and_written_again)
{
    struct rq_topics topics;
    struct rq_topic_info info;
    bool changed;
    write_text(
        path,
        "{\n\t\"dataVersion\":{\"counter\":7,\"stateVersion\":0,\"timestamp\":1700000000000},\n"
        "\t\"topicConfigTable\":{\n\t\t\"T\":{\"attributes\":{\"+message.type\":\"FIFO\"},"
        "\"order\":true,\"perm\":4,\"readQueueNums\":3,\"topicFilterType\":\"MULTI_TAG\","
        "\"topicName\":\"T\",\"topicSysFlag\":1,\"writeQueueNums\":2},\"D\":{}}}");
    rq_topics_init(&topics);
    ck_assert_int_eq(rq_topics_set_path(&topics, path), RMQ_OK);
    ck_assert_int_eq(rq_topics_load(&topics, NULL), RMQ_OK);
    ck_assert(rq_topics_get(&topics, name("T"), &info));
    ck_assert_int_eq(info.read_queue_nums, 3);
    ck_assert_int_eq(info.write_queue_nums, 2);
    ck_assert_int_eq(info.perm, 4);
    ck_assert_int_eq(info.sys_flag, 1);
    ck_assert(info.order && info.multi_tag);
    ck_assert(rq_topics_get(&topics, name("D"), &info));
    ck_assert_int_eq(info.read_queue_nums, 16);
    ck_assert_int_eq(rq_topics_version(&topics).counter, 7);
    info.perm = 2;
    ck_assert_int_eq(rq_topics_put(&topics, name("D"), &info, rq_slice(NULL, 0), &changed), RMQ_OK);
    ck_assert(changed);
    ck_assert_int_eq(rq_topics_put(&topics, name("D"), &info, rq_slice(NULL, 0), &changed), RMQ_OK);
    ck_assert(!changed);
    ck_assert_int_eq(rq_topics_persist(&topics, NULL), RMQ_OK);
    rq_topics_free(&topics);

    rq_topics_init(&topics);
    rq_topics_set_path(&topics, path);
    ck_assert_int_eq(rq_topics_load(&topics, NULL), RMQ_OK);
    ck_assert_int_eq(rq_topics_version(&topics).counter, 8);
    ck_assert(rq_topics_get(&topics, name("D"), &info));
    ck_assert_int_eq(info.perm, 2);
    struct rq_buf text;
    rq_buf_init(&text, 0);
    ck_assert(rq_topics_write_one(&topics, name("T"), &text));
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&text), "\"+message.type\":\"FIFO\""));
    rq_buf_free(&text);
    rq_topics_free(&topics);
}
END_TEST

START_TEST(a_broken_file_gives_way_to_its_backup_and_two_broken_ones_are_an_error)
{
    struct rq_topics topics;
    struct rq_topic_info info;
    rmq_error *err = NULL;
    char bak[160];
    snprintf(bak, sizeof bak, "%s.bak", path);
    write_text(path, "{\"topicConfigTable\":{\"T\"");
    write_text(bak, "{\"topicConfigTable\":{\"B\":{}}}");
    rq_topics_init(&topics);
    rq_topics_set_path(&topics, path);
    ck_assert_int_eq(rq_topics_load(&topics, NULL), RMQ_OK);
    ck_assert(rq_topics_get(&topics, name("B"), &info));
    write_text(bak, "nothing");
    ck_assert_int_eq(rq_topics_load(&topics, &err), RMQ_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), bak));
    rmq_error_destroy(err);
    rq_topics_free(&topics);
}
END_TEST

/* What a power cut or a hand may leave of the file. */
static void abuse(int kind)
{
    char zeros[200] = {0};
    unlink(path);
    if (kind == 0) {
        write_text(path, "");
    } else if (kind == 1) {
        ck_assert_int_eq(rq_sys_write_file(path, zeros, sizeof zeros, false, NULL), RMQ_OK);
    } else if (kind == 2) {
        write_text(path,
                   "{\n\t\"dataVersion\":{\"counter\":1},\n\t\"offsetTable\":{\n\t\"T@G\":{0:1");
    } else if (kind == 3) {
        ck_assert_int_eq(symlink(path, path), 0); /* cannot be read, whoever asks */
    }
}

START_TEST(offsets_come_from_the_backup_whatever_became_of_the_file)
{
    struct rq_offsets offsets;
    for (int kind = 0; kind < 5; kind++) {
        rq_offsets_init(&offsets);
        ck_assert_int_eq(rq_offsets_set_path(&offsets, path), RMQ_OK);
        for (int64_t at = 10; at <= 20; at += 10) {
            rq_offsets_commit(&offsets, name("G"), name("T"), 0, at, NULL);
            ck_assert_int_eq(rq_offsets_persist(&offsets, NULL), RMQ_OK);
        }
        rq_offsets_free(&offsets);
        abuse(kind);
        for (int round = 0; round < 2; round++) { /* the second reads what the first one wrote */
            rq_offsets_init(&offsets);
            rq_offsets_set_path(&offsets, path);
            ck_assert_int_eq(rq_offsets_load(&offsets, NULL), RMQ_OK);
            ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 0), round ? 11 : 10);
            rq_offsets_commit(&offsets, name("G"), name("T"), 0, 11, NULL);
            ck_assert_int_eq(rq_offsets_persist(&offsets, NULL), RMQ_OK);
            rq_offsets_free(&offsets);
        }
    }
}
END_TEST

START_TEST(the_good_backup_of_a_broken_file_stays_until_there_is_a_good_file)
{
    struct rq_topics topics;
    struct rq_topic_info info;
    bool changed;
    char bak[160];
    snprintf(bak, sizeof bak, "%s.bak", path);
    for (uint64_t failing = 1; failing <= 2; failing++) {
        write_text(path, "{\"topicConfigTable\":{\"T\"");
        write_text(bak, "{\"topicConfigTable\":{\"B\":{}}}");
        for (int round = 0; round < 2; round++) {
            rq_topics_init(&topics);
            rq_topics_set_path(&topics, path);
            ck_assert_int_eq(rq_topics_load(&topics, NULL), RMQ_OK);
            ck_assert(rq_topics_get(&topics, name("B"), &info));
            ck_assert_int_eq(rq_topics_put(&topics, name("N"), &info, rq_slice(NULL, 0), &changed),
                             RMQ_OK);
            rq_sys_fail(RQ_SYS_RENAME, round == 0 ? failing : 0, EIO, false);
            rmq_status st = rq_topics_persist(&topics, NULL);
            rq_sys_fail(RQ_SYS_RENAME, 0, 0, false);
            ck_assert(round == 0 || st == RMQ_OK);
            rq_topics_free(&topics);
        }
    }
}
END_TEST

START_TEST(what_is_no_object_is_no_table)
{
    static const char *const texts[] = {"null", "[]", "0", "\"offsetTable\""};
    struct rq_offsets offsets;
    char bak[160];
    snprintf(bak, sizeof bak, "%s.bak", path);
    write_text(bak, "{\"offsetTable\":{\"T@G\":{0:10}}}");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_text(path, texts[i]);
        rq_offsets_init(&offsets);
        rq_offsets_set_path(&offsets, path);
        ck_assert_int_eq(rq_offsets_load(&offsets, NULL), RMQ_OK);
        ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 0), 10);
        rq_offsets_free(&offsets);
    }
}
END_TEST

START_TEST(a_file_that_the_system_does_not_give_is_not_written_over)
{
    struct rq_offsets offsets;
    rmq_error *err = NULL;
    ck_assert_int_eq(symlink(path, path), 0); /* cannot be read, whoever asks */
    rq_offsets_init(&offsets);
    rq_offsets_set_path(&offsets, path);
    ck_assert_int_eq(rq_offsets_load(&offsets, &err), RMQ_ERR_IO);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), path));
    rmq_error_destroy(err);
    rq_offsets_free(&offsets);
}
END_TEST

START_TEST(a_broken_file_without_backup_is_kept_beside_the_next_one)
{
    struct rq_offsets offsets;
    struct rq_buf text;
    char aside[160];
    snprintf(aside, sizeof aside, "%s.broken", path);
    for (int round = 0; round < 2; round++) { /* the second finds the one that the first left */
        const char *broken = round ? "{\"offsetTable\":{" : "{\"offsetTable\":{\"T@G\":{0:1";
        write_text(path, broken);
        rq_offsets_init(&offsets);
        rq_offsets_set_path(&offsets, path);
        ck_assert_int_eq(rq_offsets_load(&offsets, NULL), RMQ_OK);
        rq_offsets_commit(&offsets, name("G"), name("T"), 0, 5, NULL);
        ck_assert_int_eq(rq_offsets_persist(&offsets, NULL), RMQ_OK);
        rq_offsets_free(&offsets);
        rq_buf_init(&text, 0);
        ck_assert_int_eq(rq_sys_read_file(aside, 4096, &text, NULL), RMQ_OK);
        ck_assert_str_eq(rq_buf_cstr(&text), broken);
        rq_buf_free(&text);
        ck_assert_int_eq(rq_sys_read_file(path, 4096, &text, NULL), RMQ_OK);
        ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&text), "0:5"));
        rq_buf_free(&text);
    }
}
END_TEST

START_TEST(a_missing_file_is_an_empty_table)
{
    struct rq_topics topics;
    rq_topics_init(&topics);
    rq_topics_set_path(&topics, path);
    ck_assert_int_eq(rq_topics_load(&topics, NULL), RMQ_OK);
    ck_assert_uint_eq(rq_topics_count(&topics), 0);
    rq_topics_free(&topics);
}
END_TEST

enum { WRITERS = 4, TOPICS_EACH = 25 };

static struct rq_topics shared_topics;

static void add_and_persist(void *arg)
{
    const char *prefix = arg;
    for (int i = 0; i < TOPICS_EACH; i++) {
        char topic[32];
        struct rq_topic_info info = {.read_queue_nums = 1, .write_queue_nums = 1, .perm = 6};
        snprintf(topic, sizeof topic, "%s%d", prefix, i);
        bool created = false;
        ck_assert_int_eq(rq_topics_add(&shared_topics, name(topic), &info, &created), RMQ_OK);
        ck_assert(created);
        rmq_error *err = NULL;
        rmq_status st = rq_topics_persist(&shared_topics, &err);
        ck_assert_msg(st == RMQ_OK, "%s", rmq_error_message(err));
    }
}

START_TEST(a_table_written_by_several_threads_at_once_ends_whole_and_newest)
{
    static char prefixes[WRITERS][2] = {"a", "b", "c", "d"};
    struct rq_thread writers[WRITERS];
    rq_topics_init(&shared_topics);
    rq_topics_set_path(&shared_topics, path);
    for (int i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(rq_thread_start(&writers[i], "writer", add_and_persist, prefixes[i]),
                         RMQ_OK);
    }
    for (int i = 0; i < WRITERS; i++) {
        rq_thread_join(&writers[i]);
    }
    rq_topics_free(&shared_topics);
    rq_topics_init(&shared_topics);
    rq_topics_set_path(&shared_topics, path);
    ck_assert_int_eq(rq_topics_load(&shared_topics, NULL), RMQ_OK);
    ck_assert_uint_eq(rq_topics_count(&shared_topics), WRITERS * TOPICS_EACH);
    rq_topics_free(&shared_topics);
}
END_TEST

START_TEST(an_unknown_group_is_created_only_where_that_is_allowed)
{
    struct rq_groups groups;
    struct rq_group_info info;
    rq_groups_init(&groups);
    ck_assert(!rq_groups_get(&groups, name("G"), &info));
    groups.auto_create = true;
    ck_assert(rq_groups_get(&groups, name("G"), &info));
    ck_assert_int_eq(info.retry_max_times, 16);
    ck_assert_int_eq(info.retry_queue_nums, 1);
    ck_assert(info.consume_enable);
    ck_assert(!rq_groups_get(&groups, name("bad group"), &info));
    ck_assert(!rq_groups_exists(&groups, name("bad group")));
    rq_groups_free(&groups);
}
END_TEST

START_TEST(groups_keep_members_of_their_file_that_have_no_meaning_here)
{
    struct rq_groups groups;
    struct rq_group_info info;
    struct rq_buf text;
    write_text(path, "{\"forbiddenTable\":{\"G\":{\"T\":4}},\"subscriptionGroupTable\":{\"G\":{"
                     "\"groupName\":\"G\",\"retryMaxTimes\":3,\"attributes\":{\"a\":\"b\"},"
                     "\"groupRetryPolicy\":{\"type\":\"EXPONENTIAL\"},\"brokerId\":1}}}");
    rq_groups_init(&groups);
    rq_groups_set_path(&groups, path);
    ck_assert_int_eq(rq_groups_load(&groups, NULL), RMQ_OK);
    ck_assert(rq_groups_get(&groups, name("G"), &info));
    ck_assert_int_eq(info.retry_max_times, 3);
    rq_buf_init(&text, 0);
    rq_groups_write(&groups, &text);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&text), "\"forbiddenTable\":{\"G\":{\"T\":4}}"));
    ck_assert_ptr_nonnull(strstr(text.data, "\"attributes\":{\"a\":\"b\"}"));
    ck_assert_ptr_nonnull(strstr(text.data, "EXPONENTIAL"));
    rq_buf_free(&text);
    rq_groups_free(&groups);
}
END_TEST

START_TEST(offsets_of_a_java_file_with_bare_keys_are_read_and_written_again)
{
    struct rq_offsets offsets;
    write_text(
        path,
        "{\"groupTopicMap\":{\"G\":[\"T\"]},\"offsetTable\":{\"T@G\":{0:12,1:9007199254740993\n\t},"
        "\"%RETRY%G@G\":{\"0\":3}}}");
    rq_offsets_init(&offsets);
    rq_offsets_set_path(&offsets, path);
    ck_assert_int_eq(rq_offsets_load(&offsets, NULL), RMQ_OK);
    ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 0), 12);
    ck_assert(rq_offsets_query(&offsets, name("G"), name("T"), 1) == INT64_C(9007199254740993));
    ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("%RETRY%G"), 0), 3);
    ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 2), RQ_OFFSET_NONE);
    ck_assert(rq_offsets_commit(&offsets, name("G"), name("T"), 40, 1, NULL));
    ck_assert_int_eq(rq_offsets_persist(&offsets, NULL), RMQ_OK);
    rq_offsets_free(&offsets);

    rq_offsets_init(&offsets);
    rq_offsets_set_path(&offsets, path);
    ck_assert_int_eq(rq_offsets_load(&offsets, NULL), RMQ_OK);
    ck_assert(rq_offsets_query(&offsets, name("G"), name("T"), 1) == INT64_C(9007199254740993));
    ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 40), 1);
    rq_offsets_free(&offsets);
}
END_TEST

START_TEST(a_pending_reset_hides_commits_until_it_is_taken)
{
    struct rq_offsets offsets;
    rmq_status st = RMQ_ERR_NOMEM;
    rq_offsets_init(&offsets);
    ck_assert(rq_offsets_commit(&offsets, name("G"), name("T"), 0, 5, NULL));
    ck_assert_int_eq(rq_offsets_reset(&offsets, name("G"), name("T"), 0, 2), RMQ_OK);
    ck_assert(!rq_offsets_commit(&offsets, name("G"), name("T"), 0, 6, &st));
    ck_assert_int_eq(st, RMQ_OK);
    ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 0), 2);
    ck_assert_int_eq(rq_offsets_take_reset(&offsets, name("G"), name("T"), 0), 2);
    ck_assert_int_eq(rq_offsets_take_reset(&offsets, name("G"), name("T"), 0), RQ_OFFSET_NONE);
    ck_assert(rq_offsets_commit(&offsets, name("G"), name("T"), 0, 6, NULL));
    rq_offsets_remove_topic(&offsets, name("T"));
    ck_assert_int_eq(rq_offsets_query(&offsets, name("G"), name("T"), 0), RQ_OFFSET_NONE);
    rq_offsets_free(&offsets);
}
END_TEST

START_TEST(offsets_with_impossible_names_and_queues_are_refused)
{
    struct rq_offsets offsets;
    rmq_status st = RMQ_OK;
    char huge[4096];
    memset(huge, 'a', sizeof huge);
    rq_offsets_init(&offsets);
    ck_assert(!rq_offsets_commit(&offsets, name("G"), name("T"), -1, 5, &st));
    ck_assert_int_eq(st, RMQ_ERR_INVALID);
    ck_assert(!rq_offsets_commit(&offsets, name("G"), name("T"), 1 << 30, 5, &st));
    ck_assert_int_eq(st, RMQ_ERR_INVALID);
    ck_assert(!rq_offsets_commit(&offsets, rq_slice(huge, sizeof huge), name("T"), 0, 5, &st));
    ck_assert_int_eq(st, RMQ_ERR_INVALID);
    rq_offsets_free(&offsets);
}
END_TEST

START_TEST(a_queue_lock_expires_a_minute_after_its_last_renewal)
{
    struct rq_queue_locks locks;
    const struct rq_mq mq = {.topic = "T", .broker_name = "b", .queue_id = 1};
    rq_queue_locks_init(&locks);
    ck_assert(rq_queue_locks_take(&locks, "G", &mq, "a", 1000));
    ck_assert(!rq_queue_locks_take(&locks, "G", &mq, "b", 1000 + RQ_QUEUE_LOCK_MS));
    ck_assert(rq_queue_locks_take(&locks, "H", &mq, "b", 1000));
    ck_assert(rq_queue_locks_take(&locks, "G", &mq, "b", 1001 + RQ_QUEUE_LOCK_MS));
    ck_assert(!rq_queue_locks_take(&locks, "G", &mq, "a", 1001 + RQ_QUEUE_LOCK_MS));
    ck_assert(rq_queue_locks_group_holds(&locks, name("G"), 1001 + RQ_QUEUE_LOCK_MS));
    rq_queue_locks_expire(&locks, 2000 + 2 * RQ_QUEUE_LOCK_MS);
    ck_assert(!rq_queue_locks_group_holds(&locks, name("G"), 0));
    rq_queue_locks_free(&locks);
}
END_TEST

START_TEST(settings_know_the_names_of_broker_conf_and_guess_at_others)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_broker_config_create(&config, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_set(config, "brokerName", "x", NULL), RMQ_OK);
    ck_assert_str_eq(rmq_broker_config_get(config, "brokerName"), "x");
    ck_assert_int_eq(rmq_broker_config_set(config, "flushDiskType", "SYNC_FLUSH", NULL), RMQ_OK);
    ck_assert_str_eq(rmq_broker_config_get(config, "flushDiskType"), "SYNC_FLUSH");
    ck_assert_int_eq(rmq_broker_config_set(config, "useEpollNativeSelector", "true", NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_set(config, "listenPrt", "1", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "listenPort"));
    ck_assert_int_eq(rmq_broker_config_set(config, "listenPort", "70000", &err), RMQ_ERR_INVALID);
    ck_assert_ptr_null(rmq_broker_config_get(config, "nothing"));
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
}
END_TEST

START_TEST(a_properties_file_is_read_and_an_error_names_its_line)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_broker_config_create(&config, NULL), RMQ_OK);
    write_text(path,
               "# a comment\r\n\r\n brokerName = a name \r\nlistenPort=10999\nnobodyKnowsThis=1\n"
               "brokerRole=ASYNC_MASTER\nenablePropertyFilter=true");
    ck_assert_int_eq(rmq_broker_config_load(config, path, NULL), RMQ_OK);
    ck_assert_str_eq(rmq_broker_config_get(config, "brokerName"), "a name");
    ck_assert_str_eq(rmq_broker_config_get(config, "listenPort"), "10999");
    write_text(path, "brokerName=x\nlistenPort=abc\n");
    ck_assert_int_eq(rmq_broker_config_load(config, path, &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), ":2:"));
    write_text(path, "\xEF\xBB\xBF"
                     "brokerName=\\\n  split\n");
    ck_assert_int_eq(rmq_broker_config_load(config, path, NULL), RMQ_OK);
    ck_assert_str_eq(rmq_broker_config_get(config, "brokerName"), "split");
    ck_assert_int_eq(rmq_broker_config_load(config, "/nowhere/broker.conf", &err), RMQ_ERR_IO);
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
}
END_TEST

START_TEST(who_asks_for_a_guard_is_not_left_without_one)
{
    static const char *const names[] = {"aclEnable", "authenticationEnabled",
                                        "authorizationEnabled"};
    const char *name = names[_i];
    char text[64];
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_broker_config_create(&config, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_set(config, name, "false", NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_set(config, name, "true", &err), RMQ_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), name));
    rmq_error_destroy(err);
    err = NULL;
    snprintf(text, sizeof text, "brokerName=x\n%s = True\n", name);
    write_text(path, text);
    ck_assert_int_eq(rmq_broker_config_load(config, path, &err), RMQ_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), ":2:"));
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
}
END_TEST

static void check_refused(const char *key, const char *value, const char *word)
{
    rmq_broker_config *config = NULL;
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_broker_config_create(&config, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_set(config, key, value, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_start(config, &broker, &err), RMQ_ERR_INVALID);
    ck_assert_msg(strstr(rmq_error_message(err), key) && strstr(rmq_error_message(err), word), "%s",
                  rmq_error_message(err));
    rmq_error_destroy(err);
    rmq_broker_config_destroy(config);
}

START_TEST(a_broker_with_a_name_or_an_hour_that_is_none_says_which_and_does_not_start)
{
    check_refused("brokerName", "", "0 characters");
    check_refused("brokerName", "a b", "0x20 at 1");
    check_refused("brokerName", "a/b", "0x2f");
    check_refused("brokerName", "a..b", "nothing before a dot");
    check_refused("brokerClusterName", "a@b", "0x40");
    check_refused("deleteWhen", "4am", "4am");
}
END_TEST

START_TEST(a_broker_may_be_named_like_its_host)
{
    const char *const pairs[] = {"brokerName", "node-1.example.org", "deleteWhen", "99", NULL};
    rmq_broker *broker = start_broker(pairs);
    struct raw *raw = raw_open(rmq_broker_addr(broker));
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, "one")->header.code, RQ_RESP_SUCCESS);
    raw_close(raw);
    rmq_broker_stop(broker);
}
END_TEST

START_TEST(every_setting_can_be_listed)
{
    const char *text[5];
    size_t count = 0;
    while (rmq_broker_config_field(count, &text[0], &text[1], &text[2], &text[3], &text[4])) {
        for (size_t i = 0; i < 5; i++) {
            ck_assert_ptr_nonnull(text[i]);
        }
        ck_assert(text[0][0] && text[4][0]);
        count++;
    }
    ck_assert_uint_gt(count, 60);
}
END_TEST

START_TEST(delays_beyond_a_log_that_has_lost_its_end_go_on_at_its_end)
{
    rmq_broker *broker = start_broker(NULL);
    struct rq_schedule schedule;
    write_text(path, "{\"offsetTable\":{\"1\":5}}");
    ck_assert_int_eq(rq_schedule_init(&schedule, broker, broker->background, path, NULL), RMQ_OK);
    ck_assert_int_eq(rq_schedule_load(&schedule, NULL), RMQ_OK);
    ck_assert_int_eq(rq_schedule_offset(&schedule, 1), 5);
    rq_schedule_fit(&schedule);
    ck_assert_int_eq(rq_schedule_offset(&schedule, 1), 0);
    rq_schedule_free(&schedule);
    rmq_broker_stop(broker);
}
END_TEST

Suite *tables_suite(void)
{
    Suite *suite = suite_create("broker/tables");
    TCase *tc = tcase_create("tables");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, topics_of_a_java_file_are_read_and_written_again);
    tcase_add_test(tc, a_broken_file_gives_way_to_its_backup_and_two_broken_ones_are_an_error);
    tcase_add_test(tc, offsets_come_from_the_backup_whatever_became_of_the_file);
    tcase_add_test(tc, the_good_backup_of_a_broken_file_stays_until_there_is_a_good_file);
    tcase_add_test(tc, what_is_no_object_is_no_table);
    tcase_add_test(tc, a_file_that_the_system_does_not_give_is_not_written_over);
    tcase_add_test(tc, a_broken_file_without_backup_is_kept_beside_the_next_one);
    tcase_add_test(tc, a_missing_file_is_an_empty_table);
    tcase_add_test(tc, a_table_written_by_several_threads_at_once_ends_whole_and_newest);
    tcase_add_test(tc, an_unknown_group_is_created_only_where_that_is_allowed);
    tcase_add_test(tc, groups_keep_members_of_their_file_that_have_no_meaning_here);
    tcase_add_test(tc, offsets_of_a_java_file_with_bare_keys_are_read_and_written_again);
    tcase_add_test(tc, a_pending_reset_hides_commits_until_it_is_taken);
    tcase_add_test(tc, offsets_with_impossible_names_and_queues_are_refused);
    tcase_add_test(tc, delays_beyond_a_log_that_has_lost_its_end_go_on_at_its_end);
    tcase_add_test(tc, a_queue_lock_expires_a_minute_after_its_last_renewal);
    tcase_add_test(tc, settings_know_the_names_of_broker_conf_and_guess_at_others);
    tcase_add_test(tc, a_properties_file_is_read_and_an_error_names_its_line);
    tcase_add_loop_test(tc, who_asks_for_a_guard_is_not_left_without_one, 0, 3);
    tcase_add_test(tc, a_broker_with_a_name_or_an_hour_that_is_none_says_which_and_does_not_start);
    tcase_add_test(tc, a_broker_may_be_named_like_its_host);
    tcase_add_test(tc, every_setting_can_be_listed);
    suite_add_tcase(suite, tc);
    return suite;
}

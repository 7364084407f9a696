/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What administrators ask about a group, over sockets: its statistics, copies of its offsets, its
 * settings. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/server.h"
#include "unit/broker/raw.h"

static rmq_broker *broker;
static struct raw *raw;

/* A group that subscribes to T, and has offsets of two more, one of which is no topic any more. */
static void setup(void)
{
    static const char *const topics[] = {"T", "Other", "Gone"};
    broker = start_broker(NULL);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, "T", 1);
    raw_create_topic(raw, "Other", 1);
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        ck_assert(rq_offsets_commit(&broker->offsets, rq_slice_str("G"), rq_slice_str(topics[i]), 0,
                                    1, NULL));
    }
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static struct raw_answer *stats_of(const char *list)
{
    struct rq_hdr_consume_stats header = {.consumer_group = rq_slice_str("G")};
    if (list) {
        RQ_SET(consume_stats, &header, topic_list, rq_slice_str(list));
    }
    return raw_call(raw, RQ_REQ_GET_CONSUME_STATS, &rq_tab_consume_stats, &header,
                    rq_slice(NULL, 0));
}

static size_t times_in(const struct raw_answer *answer, const char *text)
{
    struct rq_slice rest = answer->body;
    size_t count = 0;
    const char *found;
    while ((found = memmem(rest.p, rest.n, text, strlen(text)))) {
        rest.n -= (size_t)(found + 1 - rest.p);
        rest.p = found + 1;
        count++;
    }
    return count;
}

START_TEST(statistics_are_of_the_topics_that_are_listed_or_else_subscribed_to)
{
    static const char *const lists[] = {NULL, "", ";"};
    struct raw_answer *answer;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        answer = stats_of(lists[i]);
        ck_assert_uint_eq(times_in(answer, "\"topic\":\"T\""), 1);
        ck_assert_uint_eq(times_in(answer, "\"topic\":"), 1);
    }
    answer = stats_of("Other;Gone;Other");
    ck_assert_uint_eq(times_in(answer, "\"topic\":\"Other\""), 1);
    ck_assert_uint_eq(times_in(answer, "\"topic\":"), 1);
}
END_TEST

static void clone_offsets(bool offline)
{
    struct rq_hdr_clone_group_offset header = {.src_group = rq_slice_str("G"),
                                               .dest_group = rq_slice_str("H")};
    RQ_SET(clone_group_offset, &header, offline, offline);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_CLONE_GROUP_OFFSET, &rq_tab_clone_group_offset, &header,
                              rq_slice(NULL, 0))
                         ->header.code,
                     RQ_RESP_SUCCESS);
}

static int64_t copy_of(const char *topic)
{
    return rq_offsets_query(&broker->offsets, rq_slice_str("H"), rq_slice_str(topic), 0);
}

START_TEST(offsets_are_copied_of_what_an_online_group_subscribes_to)
{
    clone_offsets(false);
    ck_assert_int_eq(copy_of("T"), 1);
    ck_assert_int_eq(copy_of("Other"), RQ_OFFSET_NONE);
    clone_offsets(true);
    ck_assert_int_eq(copy_of("Other"), 1);
    ck_assert_int_eq(copy_of("Gone"), RQ_OFFSET_NONE);
}
END_TEST

static int32_t put_group(int32_t code, const char *json)
{
    return raw_call(raw, code, NULL, NULL, rq_slice_str(json))->header.code;
}

START_TEST(attributes_of_a_group_are_refused)
{
    ck_assert_int_eq(put_group(RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                               "{\"groupName\":\"New\",\"attributes\":{\"+any\":\"1\"}}"),
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(put_group(RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
                               "{\"groupConfigList\":[{\"groupName\":\"New\","
                               "\"attributes\":{\"-any\":\"\"}}]}"),
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert(!rq_groups_exists(&broker->groups, rq_slice_str("New")));
    ck_assert_int_eq(put_group(RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                               "{\"groupName\":\"New\",\"attributes\":{}}"),
                     RQ_RESP_SUCCESS);
    ck_assert(rq_groups_exists(&broker->groups, rq_slice_str("New")));
}
END_TEST

/* A task that keeps the background loop from writing anything. */
static struct rq_task blocker;
static atomic_int blocking; /* 1: runs, 2: may end */

static void block(struct rq_task *task)
{
    (void)task;
    atomic_store(&blocking, 1);
    while (atomic_load(&blocking) != 2) {
        raw_pause();
    }
}

static bool file_has(const char *dir, const char *name, const char *text)
{
    char path[512];
    struct rq_buf found;
    snprintf(path, sizeof path, "%s/config/%s", dir, name);
    rq_buf_init(&found, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 1 << 20, &found, NULL), RMQ_OK);
    bool has = memmem(found.data, found.len, text, strlen(text)) != NULL;
    rq_buf_free(&found);
    return has;
}

START_TEST(what_an_administrator_was_told_is_done_is_in_the_files)
{
    char dir[] = "/tmp/rmq-unit-XXXXXX";
    const char *const pairs[] = {"storePathRootDir", dir, NULL};
    const char *const group = "{\"groupName\":\"Made\"}";
    const struct rq_hdr_topic topic = {.topic = rq_slice_str("Short")};
    const struct rq_hdr_reset_offset reset = {
        .topic = topic.topic, .group = rq_slice_str("Old"), .timestamp = 0, .is_force = true};
    const struct rq_hdr_clone_group_offset copy = {.src_group = reset.group,
                                                   .dest_group = rq_slice_str("Copy"),
                                                   .topic = topic.topic,
                                                   .offline = true};
    const struct rq_hdr_delete_group old = {.group_name = rq_slice_str("Old"),
                                            .clean_offset = true};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    rmq_broker *kept = start_broker(pairs);
    struct raw *own = raw_open(rmq_broker_addr(kept));
    raw_create_topic(own, "Short", 1);
    raw_heartbeat(own, "c", "Old", "Short", "*", 1);
    raw_produce(own, "Short", 0, NULL, "x");
    ck_assert(rq_offsets_commit(&kept->offsets, old.group_name, topic.topic, 0, 1, NULL));
    rq_broker_persist(kept);
    blocker.run = block;
    atomic_store(&blocking, 0);
    ck_assert(rq_loop_post(kept->background, &blocker));
    ck_eventually(atomic_load(&blocking) == 1);

    ck_assert(file_has(dir, "consumerOffset.json", "\"Short@Old\":{0:1}"));
    raw_call(own, RQ_REQ_CLONE_GROUP_OFFSET, &rq_tab_clone_group_offset, &copy, rq_slice(NULL, 0));
    ck_assert(file_has(dir, "consumerOffset.json", "\"Short@Copy\":{0:1}"));
    raw_call(own, RQ_REQ_INVOKE_BROKER_TO_RESET_OFFSET, &rq_tab_reset_offset, &reset,
             rq_slice(NULL, 0));
    ck_assert(file_has(dir, "consumerOffset.json", "\"Short@Old\":{0:0}"));
    ck_assert(file_has(dir, "topics.json", "\"Short\""));
    raw_call(own, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &topic, rq_slice(NULL, 0));
    ck_assert(!file_has(dir, "topics.json", "\"Short\""));
    ck_assert(!file_has(dir, "consumerOffset.json", "Short@Old"));
    ck_assert(file_has(dir, "subscriptionGroup.json", "\"Old\""));
    raw_call(own, RQ_REQ_DELETE_SUBSCRIPTIONGROUP, &rq_tab_delete_group, &old, rq_slice(NULL, 0));
    ck_assert(!file_has(dir, "subscriptionGroup.json", "\"Old\""));
    raw_call(own, RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NULL, NULL, rq_slice_str(group));
    ck_assert(file_has(dir, "subscriptionGroup.json", "\"Made\""));

    atomic_store(&blocking, 2);
    raw_close(own);
    rmq_broker_stop(kept);
    ck_assert_int_eq(rq_sys_rmtree(dir), 0);
}
END_TEST

Suite *admin_group_suite(void)
{
    Suite *suite = suite_create("broker/admin_group");
    TCase *tc = tcase_create("admin_group");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, statistics_are_of_the_topics_that_are_listed_or_else_subscribed_to);
    tcase_add_test(tc, offsets_are_copied_of_what_an_online_group_subscribes_to);
    tcase_add_test(tc, attributes_of_a_group_are_refused);
    tcase_add_test(tc, what_an_administrator_was_told_is_done_is_in_the_files);
    suite_add_tcase(suite, tc);
    return suite;
}

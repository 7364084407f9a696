/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Groups over sockets: members and notices of change, offsets, queue locks, "consume later" and
 * dead letters. */
#include "unit/broker/raw.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/time.h"

static rmq_broker *broker;
static struct raw *raw;

static void setup(void)
{
    static const char *const pairs[] = {"messageDelayLevel", "1s 2s 1s", NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static bool next_is_notice(struct raw *from, const char *group)
{
    struct raw_answer notice;
    return raw_next(from, &notice, RAW_WAIT_MS) && !rq_header_is_response(&notice.header) &&
           notice.header.code == RQ_REQ_NOTIFY_CONSUMER_IDS_CHANGED &&
           rq_header_is_oneway(&notice.header) &&
           rq_slice_eq_str(rq_header_ext(&notice.header, "consumerGroup"), group);
}

static struct raw_answer *ids(const char *group)
{
    struct rq_hdr_consumer_group header = {.consumer_group = rq_slice_str(group)};
    return raw_call(raw, RQ_REQ_GET_CONSUMER_LIST_BY_GROUP, &rq_tab_consumer_group, &header,
                    rq_slice(NULL, 0));
}

START_TEST(members_are_told_when_one_joins_and_when_one_leaves)
{
    struct raw *one = raw_open(rmq_broker_addr(broker));
    struct raw *two = raw_open(rmq_broker_addr(broker));
    raw_heartbeat(one, "one", "G", "T", "*", 1);
    raw_heartbeat(two, "two", "G", "T", "*", 1);
    ck_assert(next_is_notice(one, "G"));
    ck_assert(raw_has(ids("G"), "\"one\""));
    ck_assert(raw_has(ids("G"), "\"two\""));
    raw_close(two);
    ck_assert(next_is_notice(one, "G"));
    ck_assert(!raw_has(ids("G"), "\"two\""));
    raw_close(one);
    ck_eventually(ids("G")->header.code == RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_repeated_heartbeat_gives_no_notice_but_a_new_topic_does)
{
    struct raw *one = raw_open(rmq_broker_addr(broker));
    struct raw *watcher = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    raw_heartbeat(one, "one", "G", "T", "*", 1);
    raw_heartbeat(watcher, "watcher", "G", "T", "*", 1);
    raw_heartbeat(one, "one", "G", "T", "A", 2); /* a newer expression is taken silently */
    ck_assert(!raw_next(watcher, &answer, 30));
    raw_heartbeat(one, "one", "G", "Other", "*", 3);
    ck_assert(next_is_notice(watcher, "G"));
    raw_close(watcher);
    raw_close(one);
}
END_TEST

/* What a heartbeat of the second version without subscriptions is told. */
static bool is_sub_changed(struct raw *from, const char *client_id, int fingerprint)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"clientID\":\"%s\",\"consumerDataSet\":[{\"groupName\":\"G\","
             "\"consumeType\":\"CONSUME_PASSIVELY\",\"messageModel\":\"CLUSTERING\","
             "\"consumeFromWhere\":\"CONSUME_FROM_LAST_OFFSET\",\"subscriptionDataSet\":[]}],"
             "\"producerDataSet\":[],\"heartbeatFingerprint\":%d,\"withoutSub\":true}",
             client_id, fingerprint);
    struct raw_answer *answer = raw_call(from, RQ_REQ_HEART_BEAT, NULL, NULL, rq_slice_str(body));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    return rq_slice_eq_str(rq_header_ext(&answer->header, "IS_SUB_CHANGE"), "true");
}

START_TEST(a_member_learns_that_another_heartbeat_of_its_group_came_between)
{
    struct raw *other = raw_open(rmq_broker_addr(broker));
    (void)is_sub_changed(raw, "one", 7);
    ck_assert(!is_sub_changed(raw, "one", 7));
    (void)is_sub_changed(other, "two", 7); /* it joins */
    ck_assert(!is_sub_changed(other, "two", 7));
    ck_assert(is_sub_changed(other, "two", 8));
    ck_assert(is_sub_changed(raw, "one", 7));
    ck_assert(!is_sub_changed(raw, "one", 7));
    ck_assert(is_sub_changed(raw, "one", 0));
    ck_assert(is_sub_changed(raw, "one", 0)); /* so it is always told in the first version */
    ck_assert(is_sub_changed(raw, "one", 7));
    ck_assert(!is_sub_changed(raw, "one", 7));
    raw_close(other);
}
END_TEST

START_TEST(an_unregistered_member_is_gone_at_once)
{
    struct rq_hdr_unregister_client header = {.client_id = rq_slice_str("c"),
                                              .consumer_group = rq_slice_str("G")};
    struct raw_answer *answer = raw_heartbeat(raw, "c", "G", "T", "*", 1);
    ck_assert(rq_slice_eq_str(rq_header_ext(&answer->header, "IS_SUPPORT_HEART_BEAT_V2"), "true"));
    ck_assert_int_eq(ids("G")->header.code, RQ_RESP_SUCCESS);
    raw_call(raw, RQ_REQ_UNREGISTER_CLIENT, &rq_tab_unregister_client, &header, rq_slice(NULL, 0));
    ck_assert_int_eq(ids("G")->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_silent_client_is_forgotten)
{
    static const char *const pairs[] = {"channelExpiredTimeout", "1000", NULL};
    rmq_broker *strict = start_broker(pairs);
    struct raw *one = raw_open(rmq_broker_addr(strict));
    raw_heartbeat(one, "one", "G", "T", "*", 1);
    ck_assert(raw_is_closed(one));
    raw_close(one);
    rmq_broker_stop(strict);
}
END_TEST

START_TEST(a_question_to_a_consumer_is_passed_on_and_its_answer_back)
{
    struct raw *consumer = raw_open(rmq_broker_addr(broker));
    struct raw_answer asked;
    struct rq_msg msg;
    raw_heartbeat(consumer, "c", "G", "T", "*", 1);
    const struct raw_answer *sent = raw_produce(raw, "T", 0, NULL, "taste this");
    char id[64];
    struct rq_slice given = rq_header_ext(&sent->header, "msgId");
    snprintf(id, sizeof id, "%.*s", (int)given.n, given.p);
    struct rq_hdr_consume_directly header = {.consumer_group = rq_slice_str("G"),
                                             .client_id = rq_slice_str("c"),
                                             .msg_id = rq_slice_str(id)};
    int32_t opaque = raw_send(raw, RQ_REQ_CONSUME_MESSAGE_DIRECTLY, 0, &rq_tab_consume_directly,
                              &header, rq_slice(NULL, 0));
    ck_assert(raw_next(consumer, &asked, RAW_WAIT_MS));
    ck_assert_int_eq(asked.header.code, RQ_REQ_CONSUME_MESSAGE_DIRECTLY);
    ck_assert(rq_slice_eq_str(rq_header_ext(&asked.header, "brokerName"), "broker-a"));
    ck_assert_uint_eq(raw_messages(&asked, &msg, 1), 1);
    ck_assert(rq_slice_eq_str(msg.body, "taste this"));
    raw_reply(consumer, asked.header.opaque, RQ_RESP_SUCCESS,
              rq_slice_str("{\"consumeResult\":\"CR_SUCCESS\"}"));
    ck_assert(raw_next(raw, &raw->answer, RAW_WAIT_MS));
    ck_assert_int_eq(raw->answer.header.opaque, opaque);
    ck_assert(raw_has(&raw->answer, "CR_SUCCESS"));

    struct rq_hdr_running_info info = {.consumer_group = rq_slice_str("G"),
                                       .client_id = rq_slice_str("c")};
    raw_send(raw, RQ_REQ_GET_CONSUMER_RUNNING_INFO, 0, &rq_tab_running_info, &info,
             rq_slice(NULL, 0));
    ck_assert(raw_next(consumer, &asked, RAW_WAIT_MS));
    raw_close(consumer); /* it goes instead of answering */
    ck_assert(raw_next(raw, &raw->answer, RAW_WAIT_MS));
    ck_assert_int_eq(raw->answer.header.code, RQ_RESP_SYSTEM_ERROR);
    ck_eventually(ids("G")->header.code == RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_GET_CONSUMER_RUNNING_INFO, &rq_tab_running_info, &info,
                              rq_slice(NULL, 0))
                         ->header.code,
                     RQ_RESP_SYSTEM_ERROR);
}
END_TEST

/* ---- offsets ---- */

static struct raw_answer *query_on(struct raw *connection, const char *topic, int32_t queue_id,
                                   int zero_if_not_found)
{
    struct rq_hdr_query_consumer_offset header = {
        .consumer_group = rq_slice_str("G"), .topic = rq_slice_str(topic), .queue_id = queue_id};
    if (zero_if_not_found >= 0) {
        RQ_SET(query_consumer_offset, &header, set_zero_if_not_found, zero_if_not_found != 0);
    }
    return raw_call(connection, RQ_REQ_QUERY_CONSUMER_OFFSET, &rq_tab_query_consumer_offset,
                    &header, rq_slice(NULL, 0));
}

static struct raw_answer *query(const char *topic, int32_t queue_id, int zero_if_not_found)
{
    return query_on(raw, topic, queue_id, zero_if_not_found);
}

static int32_t commit(const char *group, const char *topic, int32_t queue_id, int64_t offset)
{
    struct rq_hdr_update_consumer_offset header = {.consumer_group = rq_slice_str(group),
                                                   .topic = rq_slice_str(topic),
                                                   .queue_id = queue_id,
                                                   .commit_offset = offset};
    return raw_call(raw, RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, &header,
                    rq_slice(NULL, 0))
        ->header.code;
}

START_TEST(a_group_without_offset_starts_a_young_queue_at_zero)
{
    raw_produce(raw, "T", 0, NULL, "x");
    const struct raw_answer *answer = query("T", 0, -1);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "offset"), 0);
    ck_assert_int_eq(query("T", 0, 0)->header.code, RQ_RESP_QUERY_NOT_FOUND);
    ck_assert_int_eq(query("T", 1, -1)->header.code, RQ_RESP_QUERY_NOT_FOUND); /* an empty queue */
}
END_TEST

START_TEST(a_committed_offset_is_answered_also_a_lower_one)
{
    raw_produce(raw, "T", 0, NULL, "x");
    ck_assert_int_eq(commit("G", "T", 0, 7), RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST);
    raw_heartbeat(raw, "one", "G", "T", "*", 1);
    ck_assert_int_eq(commit("G", "T", 0, 7), RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(query("T", 0, 0), "offset"), 7);
    ck_assert_int_eq(commit("G", "T", 0, 3), RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(query("T", 0, -1), "offset"), 3);
    ck_assert_int_eq(commit("G", "NoTopic", 0, 3), RQ_RESP_TOPIC_NOT_EXIST);
    ck_assert_int_eq(commit("bad group", "T", 0, 3), RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST);
}
END_TEST

START_TEST(offsets_beyond_a_log_that_has_lost_its_end_go_on_at_its_end)
{
    char path[] = "/tmp/rmq-group-XXXXXX";
    const char *const pairs[] = {"storePathRootDir", path, NULL};
    ck_assert_ptr_nonnull(mkdtemp(path));
    write_config(path, "consumerOffset.json",
                 "{\"offsetTable\":{\"T@G\":{0:9,1:0},\"Gone@G\":{3:1}}}");
    for (int round = 0; round < 2; round++) { /* the second reads what the first one wrote */
        rmq_broker *lossy = start_broker(pairs);
        struct raw *own = raw_open(rmq_broker_addr(lossy));
        raw_produce(own, "T", 0, NULL, "x");
        ck_assert_int_eq(raw_i64(query_on(own, "T", 0, 0), "offset"), 0);
        ck_assert_int_eq(raw_i64(query_on(own, "T", 1, 0), "offset"), 0);
        raw_close(own);
        rmq_broker_stop(lossy);
    }
    ck_assert_int_eq(rq_sys_rmtree(path), 0);
}
END_TEST

START_TEST(the_ends_of_a_queue_and_offsets_by_time_are_answered)
{
    int64_t before_ms = rq_wall_ms();
    raw_produce(raw, "T", 0, NULL, "x");
    raw_produce(raw, "T", 0, NULL, "y");
    struct rq_hdr_queue queue = {.topic = rq_slice_str("T")};
    ck_assert_int_eq(
        raw_i64(raw_call(raw, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &queue, rq_slice(NULL, 0)),
                "offset"),
        2);
    ck_assert_int_eq(
        raw_i64(raw_call(raw, RQ_REQ_GET_MIN_OFFSET, &rq_tab_queue, &queue, rq_slice(NULL, 0)),
                "offset"),
        0);
    ck_assert_int_ge(raw_i64(raw_call(raw, RQ_REQ_GET_EARLIEST_MSG_STORETIME, &rq_tab_queue, &queue,
                                      rq_slice(NULL, 0)),
                             "timestamp"),
                     before_ms);
    struct rq_hdr_search_offset search = {.topic = rq_slice_str("T"),
                                          .timestamp = before_ms - 1000};
    ck_assert_int_eq(raw_i64(raw_call(raw, RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP, &rq_tab_search_offset,
                                      &search, rq_slice(NULL, 0)),
                             "offset"),
                     0);
    search.timestamp = rq_wall_ms() + 100000;
    ck_assert_int_eq(raw_i64(raw_call(raw, RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP, &rq_tab_search_offset,
                                      &search, rq_slice(NULL, 0)),
                             "offset"),
                     2);
}
END_TEST

START_TEST(a_reset_is_answered_to_the_next_pull_once)
{
    struct rq_hdr_reset_offset reset = {
        .topic = rq_slice_str("T"), .group = rq_slice_str("G"), .timestamp = -1};
    raw_produce(raw, "T", 0, NULL, "x");
    raw_produce(raw, "T", 0, NULL, "y");
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code, RQ_RESP_SUCCESS);
    const struct raw_answer *answer = raw_call(raw, RQ_REQ_INVOKE_BROKER_TO_RESET_OFFSET,
                                               &rq_tab_reset_offset, &reset, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(answer, "{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"T\"}:2"));
    ck_assert_int_eq(commit("G", "T", 0, 1), RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(query("T", 0, -1), "offset"), 2);
    answer = raw_pull_now(raw, "G", "T", 0, 0, "*");
    ck_assert_int_eq(answer->header.code, RQ_RESP_PULL_OFFSET_MOVED);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 2);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code, RQ_RESP_SUCCESS);
}
END_TEST

/* ---- locks ---- */

static bool lock(const char *client, int32_t code)
{
    struct rq_mq mq = {.topic = "T", .broker_name = "broker-a", .queue_id = 3};
    const struct rq_lock_body body = {
        .consumer_group = "G", .client_id = client, .queues = &mq, .queue_count = 1};
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_lock_body_write(&body, &text);
    const struct raw_answer *answer =
        raw_call(raw, code, NULL, NULL, rq_slice(text.data, text.len));
    rq_buf_free(&text);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    return raw_has(answer, "\"queueId\":3");
}

START_TEST(a_queue_lock_has_one_holder_until_it_is_given_back)
{
    ck_assert(lock("a", RQ_REQ_LOCK_BATCH_MQ));
    ck_assert(lock("a", RQ_REQ_LOCK_BATCH_MQ));
    ck_assert(!lock("b", RQ_REQ_LOCK_BATCH_MQ));
    lock("b", RQ_REQ_UNLOCK_BATCH_MQ);
    ck_assert(!lock("b", RQ_REQ_LOCK_BATCH_MQ));
    lock("a", RQ_REQ_UNLOCK_BATCH_MQ);
    ck_assert(lock("b", RQ_REQ_LOCK_BATCH_MQ));
}
END_TEST

/* ---- consume later ---- */

static int32_t send_back(int64_t offset, int32_t level, int32_t most)
{
    struct rq_hdr_send_back header = {.offset = offset,
                                      .group = rq_slice_str("G"),
                                      .delay_level = level,
                                      .origin_topic = rq_slice_str("T")};
    RQ_SET(send_back, &header, max_reconsume_times, most);
    return raw_call(raw, RQ_REQ_CONSUMER_SEND_MSG_BACK, &rq_tab_send_back, &header,
                    rq_slice(NULL, 0))
        ->header.code;
}

/* Waits until a topic's first queue has a message at the offset, and gives it. */
static void wait_for(const char *topic, int64_t offset, struct rq_msg *msg)
{
    struct raw_answer *answer;
    ck_eventually((answer = raw_pull_now(raw, "G", topic, 0, offset, "*"))->header.code ==
                  RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msg, 1), 1);
}

START_TEST(a_message_sent_back_comes_again_after_its_delay)
{
    struct rq_msg msg;
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    raw_produce(raw, "T", 0, "A", "x");
    int64_t start_ms = rq_mono_ms();
    ck_assert_int_eq(send_back(0, 1, 16), RQ_RESP_SUCCESS);
    wait_for("%RETRY%G", 0, &msg);
    ck_assert_int_ge(rq_mono_ms() - start_ms, 900);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_DELAY), "1"));
    ck_assert(rq_slice_eq_str(msg.body, "x"));
    ck_assert_int_eq(msg.reconsume_times, 1);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_RETRY_TOPIC), "T"));
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_TAGS), "A"));
    ck_assert_uint_eq(rq_props_get(msg.properties, RQ_PROP_ORIGIN_MESSAGE_ID).n, 32);
}
END_TEST

START_TEST(a_delay_level_beyond_the_highest_is_the_highest)
{
    struct rq_msg msg;
    raw_produce(raw, "T", 0, "A", "x");
    ck_assert_int_eq(send_back(0, 99, 16), RQ_RESP_SUCCESS);
    wait_for("%RETRY%G", 0, &msg);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_DELAY), "3"));
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_REAL_TOPIC), "%RETRY%G"));
}
END_TEST

START_TEST(a_message_sent_back_too_often_becomes_a_dead_letter)
{
    struct rq_msg msg;
    raw_produce(raw, "T", 0, "A", "x");
    ck_assert_int_eq(send_back(0, 1, 0), RQ_RESP_SUCCESS);
    wait_for("%DLQ%G", 0, &msg);
    ck_assert(rq_slice_eq_str(msg.body, "x"));
    ck_assert_int_eq(send_back(0, -1, 16), RQ_RESP_SUCCESS);
    wait_for("%DLQ%G", 1, &msg);
    ck_assert_int_eq(send_back(123456, 1, 16), RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_message_sent_back_goes_where_the_retry_topic_has_a_queue)
{
    struct rq_msg msg;
    raw_heartbeat(raw, "c", "G", "T", "*", 1); /* makes the retry topic, with one queue */
    ck_assert_int_eq(raw_call(raw, RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NULL, NULL,
                              rq_slice_str("{\"groupName\":\"G\",\"retryQueueNums\":8}"))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    raw_produce(raw, "T", 0, "A", "x");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(send_back(0, 1, 16), RQ_RESP_SUCCESS);
    }
    wait_for("%RETRY%G", 2, &msg);
}
END_TEST

static void send_with_times(int32_t reconsume_times)
{
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    RQ_SET(send, &header, reconsume_times, reconsume_times);
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("x"))
            ->header.code,
        RQ_RESP_SUCCESS);
}

START_TEST(a_message_that_came_back_as_often_as_can_be_counted_is_counted_no_further)
{
    struct rq_msg msg;
    send_with_times(INT32_MAX);
    ck_assert_int_eq(send_back(0, 0, INT32_MAX), RQ_RESP_SUCCESS);
    wait_for("%DLQ%G", 0, &msg);
    ck_assert_int_eq(msg.reconsume_times, INT32_MAX);
    send_with_times(INT32_MAX - 1);
    wait_for("T", 1, &msg);
    ck_assert_int_eq(send_back(msg.commit_log_offset, 0, INT32_MAX), RQ_RESP_SUCCESS);
    wait_for("%RETRY%G", 0, &msg);
    ck_assert_int_eq(msg.reconsume_times, INT32_MAX);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_DELAY), "3"));
}
END_TEST

START_TEST(a_delayed_message_is_delivered_when_its_time_has_come)
{
    struct rq_msg msg;
    struct rq_hdr_send header =
        raw_send_header("T", 0, rq_slice_str("DELAY\0011\002TAGS\001A\002"));
    int64_t start_ms = rq_mono_ms();
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("later"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "queueId"), 0);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code, RQ_RESP_PULL_NOT_FOUND);
    wait_for("T", 0, &msg);
    ck_assert_int_ge(rq_mono_ms() - start_ms, 900);
    ck_assert(rq_slice_eq_str(msg.body, "later"));
    ck_assert(rq_slice_eq_str(msg.topic, "T"));
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "B")->header.code,
                     RQ_RESP_PULL_RETRY_IMMEDIATELY);
}
END_TEST

START_TEST(a_send_to_a_retry_topic_beyond_its_limit_is_a_dead_letter)
{
    struct rq_msg msg;
    struct rq_hdr_send header = raw_send_header("%RETRY%G", 0, rq_slice_str("DELAY\0012\002"));
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    RQ_SET(send, &header, reconsume_times, 4);
    RQ_SET(send, &header, max_reconsume_times, 3);
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("x"))
            ->header.code,
        RQ_RESP_SUCCESS);
    wait_for("%DLQ%G", 0, &msg);
    ck_assert_int_eq(msg.reconsume_times, 4);
    ck_assert(rq_slice_eq_str(rq_props_get(msg.properties, RQ_PROP_DELAY), "-1"));
}
END_TEST

Suite *group_suite(void)
{
    Suite *suite = suite_create("broker/group");
    TCase *tc = tcase_create("group");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, members_are_told_when_one_joins_and_when_one_leaves);
    tcase_add_test(tc, a_repeated_heartbeat_gives_no_notice_but_a_new_topic_does);
    tcase_add_test(tc, a_member_learns_that_another_heartbeat_of_its_group_came_between);
    tcase_add_test(tc, an_unregistered_member_is_gone_at_once);
    tcase_add_test(tc, a_silent_client_is_forgotten);
    tcase_add_test(tc, a_question_to_a_consumer_is_passed_on_and_its_answer_back);
    tcase_add_test(tc, a_group_without_offset_starts_a_young_queue_at_zero);
    tcase_add_test(tc, a_committed_offset_is_answered_also_a_lower_one);
    tcase_add_test(tc, offsets_beyond_a_log_that_has_lost_its_end_go_on_at_its_end);
    tcase_add_test(tc, the_ends_of_a_queue_and_offsets_by_time_are_answered);
    tcase_add_test(tc, a_reset_is_answered_to_the_next_pull_once);
    tcase_add_test(tc, a_queue_lock_has_one_holder_until_it_is_given_back);
    tcase_add_test(tc, a_message_sent_back_comes_again_after_its_delay);
    tcase_add_test(tc, a_delay_level_beyond_the_highest_is_the_highest);
    tcase_add_test(tc, a_message_sent_back_goes_where_the_retry_topic_has_a_queue);
    tcase_add_test(tc, a_message_sent_back_too_often_becomes_a_dead_letter);
    tcase_add_test(tc, a_message_that_came_back_as_often_as_can_be_counted_is_counted_no_further);
    tcase_add_test(tc, a_delayed_message_is_delivered_when_its_time_has_come);
    tcase_add_test(tc, a_send_to_a_retry_topic_beyond_its_limit_is_a_dead_letter);
    suite_add_tcase(suite, tc);
    return suite;
}

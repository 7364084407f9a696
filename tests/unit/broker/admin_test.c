/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What administrators ask, over sockets: reports, statistics, settings at run time, what a group
 * may not read, where consumers are. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/time.h"
#include "broker/broker.h"
#include "unit/broker/raw.h"

static rmq_broker *broker;
static struct raw *raw;

static void setup(void)
{
    broker = start_broker(NULL);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, "T", 2);
    raw_produce(raw, "T", 0, "a", "one");
    raw_produce(raw, "T", 0, "b", "two");
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static void commit(const char *group, int64_t offset)
{
    struct rq_hdr_update_consumer_offset header = {
        .consumer_group = rq_slice_str(group), .topic = rq_slice_str("T"), .commit_offset = offset};
    raw_call(raw, RQ_REQ_UPDATE_CONSUMER_OFFSET, &rq_tab_update_consumer_offset, &header,
             rq_slice(NULL, 0));
}

static struct raw_answer *ask_group(int32_t code, const char *group, const char *topic)
{
    struct rq_hdr_group header = {.group = rq_slice_str(group), .topic = rq_slice_str(topic)};
    return raw_call(raw, code, &rq_tab_group, &header, rq_slice(NULL, 0));
}

static struct raw_answer *ask_body(int32_t code, const char *body)
{
    return raw_call(raw, code, NULL, NULL, rq_slice_str(body));
}

START_TEST(the_time_span_of_a_group_is_told_for_each_queue)
{
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    commit("G", 1);
    struct raw_answer *answer = ask_group(RQ_REQ_QUERY_CONSUME_TIME_SPAN, "G", "T");
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(answer, "\"consumeTimeSpanSet\":[{\"consumeTimeStamp\":1"));
    ck_assert(raw_has(answer, "\"queueId\":1"));
    ck_assert_int_eq(ask_group(RQ_REQ_QUERY_CONSUME_TIME_SPAN, "G", "None")->header.code,
                     RQ_RESP_TOPIC_NOT_EXIST);
}
END_TEST

START_TEST(offsets_are_corrected_to_the_slowest_group)
{
    struct rq_hdr_correction_offset header = {.compare_group = rq_slice_str("C"),
                                              .topic = rq_slice_str("T")};
    raw_heartbeat(raw, "c", "A", "T", "*", 1);
    raw_heartbeat(raw, "c", "B", "T", "*", 1);
    commit("A", 2);
    commit("B", 1);
    struct raw_answer *answer = raw_call(raw, RQ_REQ_QUERY_CORRECTION_OFFSET,
                                         &rq_tab_correction_offset, &header, rq_slice(NULL, 0));
    ck_assert(raw_has(answer, "{\"correctionOffsets\":{0:1}}"));
    header.filter_groups = rq_slice_str("X,B");
    answer = raw_call(raw, RQ_REQ_QUERY_CORRECTION_OFFSET, &rq_tab_correction_offset, &header,
                      rq_slice(NULL, 0));
    ck_assert(raw_has(answer, "{\"correctionOffsets\":{0:2}}"));
}
END_TEST

START_TEST(statistics_are_told_by_name_and_key)
{
    struct rq_hdr_stats header = {.stats_name = rq_slice_str("TOPIC_PUT_NUMS"),
                                  .stats_key = rq_slice_str("T")};
    rq_stats_sample(&broker->stats, rq_wall_ms());
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_VIEW_BROKER_STATS_DATA, &rq_tab_stats, &header, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(answer, "\"statsMinute\":{\"avgpt\":1.0000,\"sum\":2,\"tps\":0.2000}"));
    struct rq_hdr_topic gone = {.topic = rq_slice_str("T")};
    raw_call(raw, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &gone, rq_slice(NULL, 0));
    answer =
        raw_call(raw, RQ_REQ_VIEW_BROKER_STATS_DATA, &rq_tab_stats, &header, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
    header.stats_key = rq_slice_str("none");
    answer =
        raw_call(raw, RQ_REQ_VIEW_BROKER_STATS_DATA, &rq_tab_stats, &header, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(the_lag_of_all_groups_is_told_at_once)
{
    struct rq_hdr_broker_consume_stats header = {0};
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    commit("G", 1);
    RQ_SET(broker_consume_stats, &header, is_order, false);
    struct raw_answer *answer = raw_call(raw, RQ_REQ_GET_BROKER_CONSUME_STATS,
                                         &rq_tab_broker_consume_stats, &header, rq_slice(NULL, 0));
    ck_assert(raw_has(answer, "{\"G\":[{\"consumeTps\":"));
    ck_assert(raw_has(answer, "\"totalDiff\":1,"));
    RQ_SET(broker_consume_stats, &header, is_order, true);
    answer = raw_call(raw, RQ_REQ_GET_BROKER_CONSUME_STATS, &rq_tab_broker_consume_stats, &header,
                      rq_slice(NULL, 0));
    ck_assert(raw_has(answer, "\"totalDiff\":0,"));
}
END_TEST

START_TEST(entries_of_a_queue_are_shown)
{
    struct rq_hdr_query_consume_queue header = {.topic = rq_slice_str("T"), .count = 10};
    struct raw_answer *answer = raw_call(raw, RQ_REQ_QUERY_CONSUME_QUEUE,
                                         &rq_tab_query_consume_queue, &header, rq_slice(NULL, 0));
    ck_assert(raw_has(answer, "\"maxQueueIndex\":2,\"minQueueIndex\":0"));
    ck_assert(raw_has(answer, "\"tagsCode\":97"));
    ck_assert(raw_has(answer, "\"tagsCode\":98"));
    header.queue_id = 77;
    answer = raw_call(raw, RQ_REQ_QUERY_CONSUME_QUEUE, &rq_tab_query_consume_queue, &header,
                      rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_group_that_may_not_read_a_topic_is_refused_until_it_may)
{
    struct rq_hdr_group header = {.group = rq_slice_str("G"), .topic = rq_slice_str("T")};
    raw_heartbeat(raw, "c", "G", "T", "*", 1);
    ck_assert(
        raw_has(ask_group(RQ_REQ_QUERY_SUBSCRIPTION_BY_CONSUMER, "G", "T"), "\"subString\":\"*\""));
    RQ_SET(group, &header, readable, false);
    ck_assert(raw_has(raw_call(raw, RQ_REQ_UPDATE_AND_GET_GROUP_FORBIDDEN, &rq_tab_group, &header,
                               rq_slice(NULL, 0)),
                      "\"readable\":false"));
    struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 0, NULL);
    ck_assert_int_eq(answer->header.code, RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(raw_i64(answer, "forbiddenType"), 5);
    ck_assert(raw_has(ask_body(RQ_REQ_GET_ALL_SUBSCRIPTIONGROUP_CONFIG, ""), "{\"G\":{\"T\":1}}"));
    RQ_SET(group, &header, readable, true);
    ck_assert(raw_has(raw_call(raw, RQ_REQ_UPDATE_AND_GET_GROUP_FORBIDDEN, &rq_tab_group, &header,
                               rq_slice(NULL, 0)),
                      "\"readable\":true"));
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, NULL)->header.code, RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(settings_change_while_the_broker_runs)
{
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "brokerPermission=2\n")->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert(raw_has(ask_body(RQ_REQ_GET_BROKER_CONFIG, ""), "brokerPermission=2\n"));
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code, RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(
        ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "brokerPermission=6\nenablePropertyFilter=true")
            ->header.code,
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "*")->header.code, RQ_RESP_SUCCESS);
    ck_assert(raw_has(ask_body(RQ_REQ_GET_BROKER_CONFIG, ""), "enablePropertyFilter=true\n"));
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "aclEnable=true")->header.code,
                     RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_topic_is_made_with_a_queue_at_least)
{
    rmq_error *err = NULL;
    ck_assert_int_eq(rmq_broker_create_topic(broker, "Empty", 0, &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "0 queues are not in 1 …"));
    rmq_error_destroy(err);
    ck_assert_int_eq(rmq_broker_create_topic(broker, "Empty", 1, NULL), RMQ_OK);
}
END_TEST

/* Creates or changes topic "Attributes" with changes of its attributes: the answer's code. */
static int32_t change_attributes(const char *changes)
{
    struct rq_hdr_create_topic header = {.topic = rq_slice_str("Attributes"),
                                         .default_topic = rq_slice_str(RQ_TOPIC_DEFAULT),
                                         .read_queue_nums = 1,
                                         .write_queue_nums = 1,
                                         .perm = 6,
                                         .topic_filter_type = rq_slice_str("SINGLE_TAG")};
    RQ_SET(create_topic, &header, attributes, rq_slice_str(changes));
    return raw_call(raw, RQ_REQ_UPDATE_AND_CREATE_TOPIC, &rq_tab_create_topic, &header,
                    rq_slice(NULL, 0))
        ->header.code;
}

static bool has_attributes(const char *json)
{
    struct rq_hdr_topic topic = {.topic = rq_slice_str("Attributes")};
    return raw_has(raw_call(raw, RQ_REQ_GET_TOPIC_CONFIG, &rq_tab_topic, &topic, rq_slice(NULL, 0)),
                   json);
}

START_TEST(attributes_of_a_topic_change_one_by_one)
{
    ck_assert_int_eq(change_attributes("-message.type"), RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(change_attributes("+message.type=FIFO,+queue.type=SimpleCQ"), RQ_RESP_SUCCESS);
    ck_assert(has_attributes("{\"message.type\":\"FIFO\",\"queue.type\":\"SimpleCQ\"}"));
    ck_assert_int_eq(change_attributes("+reserve.time=5"), RQ_RESP_SUCCESS);
    ck_assert(has_attributes("\"message.type\":\"FIFO\""));
    ck_assert(has_attributes("\"reserve.time\":\"5\""));
    ck_assert_int_eq(change_attributes("+message.type=DELAY,-reserve.time"), RQ_RESP_SUCCESS);
    ck_assert(has_attributes("{\"queue.type\":\"SimpleCQ\",\"message.type\":\"DELAY\"}"));
    ck_assert_int_eq(change_attributes(""), RQ_RESP_SUCCESS);
    ck_assert_int_eq(change_attributes("+reserve.time=6,+message.type=MIXED"),
                     RQ_RESP_INVALID_PARAMETER);
    static const char *const wrong[] = {"+message.type=ODD",
                                        "+reserve.time=-2",
                                        "-reserve.time",
                                        "+queue.type=BatchCQ",
                                        "+unknown=1",
                                        "message.type=FIFO",
                                        "+message.type",
                                        "=",
                                        ",",
                                        "+reserve.time="};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(change_attributes(wrong[i]), RQ_RESP_SYSTEM_ERROR);
    }
    ck_assert(has_attributes("{\"queue.type\":\"SimpleCQ\",\"message.type\":\"DELAY\"}"));
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_AND_CREATE_TOPIC_LIST,
                              "{\"topicConfigList\":[{\"topicName\":\"Attributes\",\"perm\":6,"
                              "\"attributes\":{\"-message.type\":\"\",\"+reserve.time\":\"9\"}}]}")
                         ->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert(has_attributes("{\"queue.type\":\"SimpleCQ\",\"reserve.time\":\"9\"}"));
    ck_assert_int_eq(
        ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "enableMixedMessageType=true")->header.code,
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(change_attributes("+message.type=MIXED"), RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(retention_and_limits_change_while_the_broker_runs)
{
    static char body[2000];
    memset(body, 'x', sizeof body - 1);
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG,
                              "fileReservedTime=48\ndeleteWhen=04;05\nmaxMessageSize=1000")
                         ->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert(raw_has(ask_body(RQ_REQ_GET_BROKER_CONFIG, ""), "fileReservedTime=48\n"));
    ck_assert(raw_has(ask_body(RQ_REQ_GET_BROKER_CONFIG, ""), "deleteWhen=04;05\n"));
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, body)->header.code, RQ_RESP_MESSAGE_ILLEGAL);
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "maxMessageSize=4194304")->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_produce(raw, "T", 0, NULL, body)->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "deleteWhen=noon")->header.code,
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert(raw_has(ask_body(RQ_REQ_GET_BROKER_CONFIG, ""), "deleteWhen=04;05\n"));
}
END_TEST

START_TEST(topics_are_made_by_themselves_only_while_that_is_allowed)
{
    ck_assert_int_eq(
        ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "autoCreateTopicEnable=false")->header.code,
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_produce(raw, "Unasked", 0, NULL, "x")->header.code,
                     RQ_RESP_TOPIC_NOT_EXIST);
    ck_assert_int_eq(
        ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "autoCreateTopicEnable=true")->header.code,
        RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_produce(raw, "Unasked", 0, NULL, "x")->header.code, RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(changed_settings_are_written_to_the_file_that_was_read)
{
    char path[] = "/tmp/rmq-unit-XXXXXX";
    rmq_broker_config *config = NULL;
    rmq_broker *own = NULL;
    char other[64];
    struct rq_buf text;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "# ours\nslaveReadEnable = false\n", 31), 31);
    close(fd);
    ck_assert_int_eq(rmq_broker_config_create(&config, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_config_load(config, path, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_broker_start(config, &own, NULL), RMQ_OK);
    struct raw *to = raw_open(rmq_broker_addr(own));
    ck_assert_int_eq(raw_call(to, RQ_REQ_UPDATE_BROKER_CONFIG, NULL, NULL,
                              rq_slice_str("slaveReadEnable=true\ntransactionCheckMax=7"))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    raw_close(to);
    rmq_broker_stop(own);
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 4096, &text, NULL), RMQ_OK);
    ck_assert_str_eq(rq_buf_cstr(&text), "# ours\nslaveReadEnable=true\ntransactionCheckMax=7\n");
    rq_buf_free(&text);
    rmq_broker_config_destroy(config);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(other, sizeof other, "%s.bak", path);
    ck_assert_int_eq(unlink(other), 0);
}
END_TEST

START_TEST(consumers_are_sent_to_the_broker_that_their_group_names_only_when_slaves_may_be_read)
{
    raw_call(raw, RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NULL, NULL,
             rq_slice_str("{\"groupName\":\"G\",\"brokerId\":7}"));
    ck_assert_int_eq(raw_i64(raw_pull_now(raw, "G", "T", 0, 0, "*"), "suggestWhichBrokerId"), 0);
    ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "slaveReadEnable=true");
    ck_assert_int_eq(raw_i64(raw_pull_now(raw, "G", "T", 0, 0, "*"), "suggestWhichBrokerId"), 7);
}
END_TEST

START_TEST(settings_that_cannot_change_are_refused)
{
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "brokerConfigPath=/x")->header.code,
                     RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "brokerPermission=77")->header.code,
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "listenPort=77")->header.code,
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_BROKER_CONFIG, "nobodyKnows=77")->header.code,
                     RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(thresholds_for_cold_data_are_kept)
{
    ck_assert_int_eq(ask_body(RQ_REQ_UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "G=1024\n")->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert(raw_has(ask_body(RQ_REQ_GET_COLD_DATA_FLOW_CTR_INFO, ""), "{\"G\":1024}"));
    ask_body(RQ_REQ_REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "G");
    ck_assert(raw_has(ask_body(RQ_REQ_GET_COLD_DATA_FLOW_CTR_INFO, ""), "\"configTable\":{}"));
}
END_TEST

START_TEST(a_master_without_slaves_says_so)
{
    ck_assert(raw_has(ask_body(RQ_REQ_GET_BROKER_HA_STATUS, ""), "\"inSyncSlaveNums\":0"));
    ck_assert_int_eq(ask_body(RQ_REQ_GET_BROKER_EPOCH_CACHE, "")->header.code,
                     RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(a_master_tells_where_it_is_and_takes_news_of_its_group)
{
    struct rq_hdr_min_broker_id_change change = {.min_broker_addr = rq_slice_str("10.0.0.1:10911")};
    struct rq_hdr_ha_info nothing = {0};
    struct rq_hdr_ha_info news = {.master_ha_address = rq_slice_str("10.0.0.1:10912")};
    struct rq_slice none = rq_slice(NULL, 0);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_NOTIFY_MIN_BROKER_ID_CHANGE, &rq_tab_min_broker_id_change,
                              &change, none)
                         ->header.code,
                     RQ_RESP_SUCCESS);
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_EXCHANGE_BROKER_HA_INFO, &rq_tab_ha_info, &nothing, none);
    ck_assert(
        rq_slice_eq_str(rq_header_ext(&answer->header, "masterAddress"), rmq_broker_addr(broker)));
    ck_assert_uint_gt(rq_header_ext(&answer->header, "masterHaAddress").n, 0);
    ck_assert_int_eq(raw_i64(answer, "masterFlushOffset"), 0);
    answer = raw_call(raw, RQ_REQ_EXCHANGE_BROKER_HA_INFO, &rq_tab_ha_info, &news, none);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(rq_header_ext(&answer->header, "masterAddress").n, 0);
    ck_assert_int_eq(ask_body(RQ_REQ_NOTIFY_BROKER_ROLE_CHANGED, "{}")->header.code,
                     RQ_RESP_SUCCESS);
}
END_TEST

static int32_t set_read_ahead(const char *mode)
{
    struct rq_hdr_read_ahead header = {.mode = rq_slice_str(mode)};
    return raw_call(raw, RQ_REQ_SET_COMMITLOG_READ_MODE, &rq_tab_read_ahead, &header,
                    rq_slice(NULL, 0))
        ->header.code;
}

START_TEST(reading_ahead_is_switched_by_the_two_modes_there_are)
{
    ck_assert_int_eq(set_read_ahead("1"), RQ_RESP_SUCCESS);
    ck_assert_int_eq(set_read_ahead("0"), RQ_RESP_SUCCESS);
    ck_assert_int_eq(set_read_ahead("7"), RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(set_read_ahead("much"), RQ_RESP_SYSTEM_ERROR);
}
END_TEST

START_TEST(parts_that_a_classic_master_runs_without_are_answered_as_there)
{
    struct rq_hdr_user nobody = {0};
    struct rq_hdr_user user = {.username = rq_slice_str("u")};
    struct rq_slice none = rq_slice(NULL, 0);
    ck_assert(raw_has(ask_body(RQ_REQ_CHECK_ROCKSDB_CQ_WRITE_PROGRESS, ""), "\"checkStatus\":2"));
    ck_assert_int_eq(ask_body(RQ_REQ_EXPORT_ROCKSDB_CONFIG_TO_JSON, "")->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert_int_eq(ask_body(RQ_REQ_POP_ROLLBACK, "")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_AUTH_GET_USER, &rq_tab_user, &nobody, none)->header.code,
                     RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_AUTH_GET_USER, &rq_tab_user, &user, none)->header.code,
                     RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(ask_body(RQ_REQ_AUTH_LIST_ACL, "")->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

/* Answers the broker's question 221 as a consumer does. */
static void answer_status(struct raw *consumer, const char *offset)
{
    struct raw_answer question;
    char body[256];
    snprintf(body, sizeof body,
             "{\"messageQueueTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}:%s}}",
             offset);
    do {
        ck_assert(raw_next(consumer, &question, RAW_WAIT_MS));
    } while (question.header.code != RQ_REQ_GET_CONSUMER_STATUS_FROM_CLIENT);
    raw_reply(consumer, question.header.opaque, RQ_RESP_SUCCESS, rq_slice_str(body));
}

START_TEST(every_member_of_a_group_is_asked_where_it_is)
{
    struct rq_hdr_consumer_status header = {.topic = rq_slice_str("T"), .group = rq_slice_str("G")};
    struct raw *one = raw_open(rmq_broker_addr(broker));
    struct raw *two = raw_open(rmq_broker_addr(broker));
    raw_heartbeat(one, "one", "G", "T", "*", 1);
    raw_heartbeat(two, "two", "G", "T", "*", 1);
    raw_send(raw, RQ_REQ_INVOKE_BROKER_TO_GET_CONSUMER_STATUS, 0, &rq_tab_consumer_status, &header,
             rq_slice(NULL, 0));
    answer_status(one, "11");
    answer_status(two, "22");
    ck_assert(raw_next(raw, &raw->answer, RAW_WAIT_MS));
    ck_assert_int_eq(raw->answer.header.code, RQ_RESP_SUCCESS);
    ck_assert(
        raw_has(&raw->answer, "\"one\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}:11}"));
    ck_assert(raw_has(&raw->answer, ":22}"));
    raw_close(one);
    raw_close(two);
}
END_TEST

START_TEST(a_group_that_is_not_online_cannot_be_asked)
{
    struct rq_hdr_consumer_status header = {.topic = rq_slice_str("T"), .group = rq_slice_str("G")};
    ck_assert_int_eq(raw_call(raw, RQ_REQ_INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
                              &rq_tab_consumer_status, &header, rq_slice(NULL, 0))
                         ->header.code,
                     RQ_RESP_CONSUMER_NOT_ONLINE);
}
END_TEST

START_TEST(runtime_info_has_the_keys_that_the_tool_reads)
{
    static const char *const keys[] = {"putTps",
                                       "getTransferredTps",
                                       "getTransferedTps",
                                       "msgPutTotalTodayNow",
                                       "putLatency99",
                                       "commitLogDirCapacity",
                                       "EndTransactionQueueSize",
                                       "dispatchMaxBuffer",
                                       "runtime",
                                       "scheduleMessageOffset_1",
                                       "timerCongestNum",
                                       "ackThreadPoolQueueHeadWaitTimeMills"};
    struct raw_answer *answer = ask_body(RQ_REQ_GET_BROKER_RUNTIME_INFO, "");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        ck_assert_msg(raw_has(answer, keys[i]), "%s", keys[i]);
    }
    ck_assert(raw_has(answer, "\"msgPutTotalTodayNow\":\"2\""));
}
END_TEST

Suite *admin_suite(void);

Suite *admin_suite(void)
{
    Suite *suite = suite_create("admin");
    TCase *tc = tcase_create("admin");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, the_time_span_of_a_group_is_told_for_each_queue);
    tcase_add_test(tc, offsets_are_corrected_to_the_slowest_group);
    tcase_add_test(tc, a_topic_is_made_with_a_queue_at_least);
    tcase_add_test(tc, statistics_are_told_by_name_and_key);
    tcase_add_test(tc, the_lag_of_all_groups_is_told_at_once);
    tcase_add_test(tc, entries_of_a_queue_are_shown);
    tcase_add_test(tc, a_group_that_may_not_read_a_topic_is_refused_until_it_may);
    tcase_add_test(tc, settings_change_while_the_broker_runs);
    tcase_add_test(tc, changed_settings_are_written_to_the_file_that_was_read);
    tcase_add_test(
        tc, consumers_are_sent_to_the_broker_that_their_group_names_only_when_slaves_may_be_read);
    tcase_add_test(tc, settings_that_cannot_change_are_refused);
    tcase_add_test(tc, attributes_of_a_topic_change_one_by_one);
    tcase_add_test(tc, retention_and_limits_change_while_the_broker_runs);
    tcase_add_test(tc, topics_are_made_by_themselves_only_while_that_is_allowed);
    tcase_add_test(tc, thresholds_for_cold_data_are_kept);
    tcase_add_test(tc, a_master_without_slaves_says_so);
    tcase_add_test(tc, a_master_tells_where_it_is_and_takes_news_of_its_group);
    tcase_add_test(tc, reading_ahead_is_switched_by_the_two_modes_there_are);
    tcase_add_test(tc, parts_that_a_classic_master_runs_without_are_answered_as_there);
    tcase_add_test(tc, every_member_of_a_group_is_asked_where_it_is);
    tcase_add_test(tc, a_group_that_is_not_online_cannot_be_asked);
    tcase_add_test(tc, runtime_info_has_the_keys_that_the_tool_reads);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The usual way of a message through a broker over sockets: route, send, pull, parked pulls, tags,
 * batches. */
#include "unit/broker/raw.h"

#include <string.h>

#include "base/time.h"
#include "broker/broker.h"

static rmq_broker *broker;
static struct raw *raw;

static void setup(void)
{
    broker = start_broker(NULL);
    raw = raw_open(rmq_broker_addr(broker));
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static bool remark_has(const struct raw_answer *answer, const char *text)
{
    return answer->header.remark.p &&
           memmem(answer->header.remark.p, answer->header.remark.n, text, strlen(text)) != NULL;
}

START_TEST(a_started_broker_is_registered_with_its_template_topic)
{
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    struct raw_answer *answer = raw_route(ns, RQ_TOPIC_DEFAULT);
    struct rq_route_data route;
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(rq_route_data_parse(answer->body, &route, NULL), RMQ_OK);
    ck_assert_uint_eq(route.queue_count, 1);
    ck_assert_int_eq(route.queues[0].write_queue_nums, 8);
    ck_assert_int_eq(route.queues[0].perm, 7);
    ck_assert_str_eq(route.brokers[0].addrs[0].addr, rmq_broker_addr(broker));
    rq_route_data_clear(&route);
    raw_close(ns);
}
END_TEST

START_TEST(the_route_has_bare_keys_for_old_clients_only)
{
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    struct rq_hdr_topic header = {.topic = rq_slice_str(RQ_TOPIC_DEFAULT)};
    ck_assert(raw_has(raw_route(ns, RQ_TOPIC_DEFAULT), "{\"0\":"));
    ns->version = RQ_VERSION_V4_9_3;
    ck_assert(raw_has(raw_route(ns, RQ_TOPIC_DEFAULT), "{0:"));
    RQ_SET(topic, &header, accept_standard_json_only, true);
    ck_assert(raw_has(
        raw_call(ns, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &header, rq_slice(NULL, 0)),
        "{\"0\":"));
    raw_close(ns);
}
END_TEST

START_TEST(an_unknown_topic_has_no_route)
{
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    const struct raw_answer *answer = raw_route(ns, "Nowhere");
    ck_assert_int_eq(answer->header.code, RQ_RESP_TOPIC_NOT_EXIST);
    ck_assert(remark_has(answer, "Nowhere"));
    raw_close(ns);
}
END_TEST

START_TEST(a_sent_message_comes_back_with_all_that_it_had)
{
    struct rq_msg msgs[4];
    const struct raw_answer *sent = raw_produce(raw, "T", 1, "A", "hello");
    ck_assert_int_eq(sent->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(sent, "queueId"), 1);
    ck_assert_int_eq(raw_i64(sent, "queueOffset"), 0);
    ck_assert_uint_eq(rq_header_ext(&sent->header, "msgId").n, 32);
    ck_assert(rq_header_ext(&sent->header, "transactionId").n > 0);
    ck_assert(rq_slice_eq_str(rq_header_ext(&sent->header, "TRACE_ON"), "true"));
    raw_produce(raw, "T", 1, NULL, "again");
    const struct raw_answer *answer = raw_pull_now(raw, "G", "T", 1, 0, "*");
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 2);
    ck_assert_int_eq(raw_i64(answer, "minOffset"), 0);
    ck_assert_int_eq(raw_i64(answer, "maxOffset"), 2);
    ck_assert(rq_slice_eq_str(answer->header.remark, "FOUND"));
    ck_assert_uint_eq(raw_messages(answer, msgs, 4), 2);
    ck_assert(rq_slice_eq_str(msgs[0].body, "hello"));
    ck_assert(rq_slice_eq_str(msgs[0].topic, "T"));
    ck_assert(rq_slice_eq_str(rq_props_get(msgs[0].properties, RQ_PROP_TAGS), "A"));
    ck_assert(rq_slice_eq_str(rq_props_get(msgs[0].properties, RQ_PROP_CLUSTER), "DefaultCluster"));
    ck_assert(rq_props_get(msgs[0].properties, RQ_PROP_UNIQ_KEY).n > 0);
    ck_assert(rq_slice_eq_str(msgs[1].body, "again"));
    ck_assert_int_eq(msgs[1].queue_offset, 1);
}
END_TEST

START_TEST(both_serializations_and_the_long_names_are_served)
{
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    raw->serialize = RQ_SERIALIZE_BINARY;
    ck_assert_int_eq(raw_produce(raw, "T", 0, "A", "binary")->header.code, RQ_RESP_SUCCESS);
    raw->serialize = RQ_SERIALIZE_JSON;
    const struct raw_answer *answer =
        raw_call(raw, RQ_REQ_SEND_MESSAGE, &rq_tab_send, &header, rq_slice_str("long"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "queueOffset"), 1);
}
END_TEST

START_TEST(the_first_send_makes_the_topic_with_at_most_the_templates_queues)
{
    struct raw *ns = raw_open(rmq_broker_namesrv_addr(broker));
    struct rq_hdr_send header = raw_send_header("Auto", -1, rq_slice(NULL, 0));
    header.default_topic_queue_nums = 100;
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("x"))
            ->header.code,
        RQ_RESP_SUCCESS);
    struct raw_answer *answer;
    ck_eventually((answer = raw_route(ns, "Auto"))->header.code == RQ_RESP_SUCCESS);
    ck_assert(raw_has(answer, "\"writeQueueNums\":8"));
    ck_assert(raw_has(answer, "\"perm\":6"));
    raw_close(ns);
}
END_TEST

START_TEST(sends_that_may_not_be_are_refused)
{
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    ck_assert_int_eq(raw_produce(raw, RQ_TOPIC_SCHEDULE, 0, NULL, "x")->header.code,
                     RQ_RESP_NO_PERMISSION);
    ck_assert_int_eq(raw_produce(raw, "bad name", 0, NULL, "x")->header.code,
                     RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(raw_produce(raw, "T", 4, NULL, "x")->header.code, RQ_RESP_INVALID_PARAMETER);
    header.topic = rq_slice_str("U");
    header.default_topic = rq_slice_str("NoTemplate");
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("x"))
            ->header.code,
        RQ_RESP_TOPIC_NOT_EXIST);
}
END_TEST

START_TEST(a_body_above_the_limit_is_illegal)
{
    const char *const pairs[] = {"maxMessageSize", "1000", NULL};
    rmq_broker *small = start_broker(pairs);
    struct raw *other = raw_open(rmq_broker_addr(small));
    char body[1002];
    memset(body, 'x', sizeof body);
    body[1001] = '\0';
    ck_assert_int_eq(raw_produce(other, "T", 0, NULL, body)->header.code, RQ_RESP_MESSAGE_ILLEGAL);
    body[1000] = '\0';
    ck_assert_int_eq(raw_produce(other, "T", 0, NULL, body)->header.code, RQ_RESP_SUCCESS);
    raw_close(other);
    rmq_broker_stop(small);
}
END_TEST

START_TEST(a_batch_gets_consecutive_offsets_and_all_ids)
{
    struct rq_buf body;
    struct rq_msg msgs[8];
    rq_buf_init(&body, 0);
    for (int i = 0; i < 3; i++) {
        char text[16];
        snprintf(text, sizeof text, "b%d", i);
        const struct rq_batch_item item = {.body = rq_slice_str(text),
                                           .properties =
                                               rq_slice_str("UNIQ_KEY\001k\002TAGS\001A\002")};
        ck_assert_int_eq(rq_batch_add(&body, &item), RMQ_OK);
    }
    struct rq_hdr_send header = raw_send_header("T", 2, rq_slice_str("UNIQ_KEY\001batch\002"));
    RQ_SET(send, &header, batch, true);
    struct raw_answer *answer = raw_call(raw, RQ_REQ_SEND_BATCH_MESSAGE, &rq_tab_send_v2, &header,
                                         rq_slice(body.data, body.len));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(rq_header_ext(&answer->header, "msgId").n, 3 * 32 + 2);
    answer = raw_pull_now(raw, "G", "T", 2, 0, "A");
    ck_assert_uint_eq(raw_messages(answer, msgs, 8), 3);
    ck_assert_int_eq(msgs[2].queue_offset, 2);
    ck_assert(rq_slice_eq_str(msgs[2].body, "b2"));
    ck_assert(rq_slice_eq_str(rq_props_get(msgs[2].properties, RQ_PROP_UNIQ_KEY), "k"));
    ck_assert(rq_slice_eq_str(rq_props_get(msgs[2].properties, RQ_PROP_CLUSTER), "DefaultCluster"));
    rq_buf_free(&body);
}
END_TEST

START_TEST(a_damaged_batch_is_illegal_and_stores_nothing)
{
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    RQ_SET(send, &header, batch, true);
    raw_produce(raw, "T", 0, NULL, "first");
    ck_assert_int_eq(raw_call(raw, RQ_REQ_SEND_BATCH_MESSAGE, &rq_tab_send_v2, &header,
                              rq_slice_str("no batch at all, but some bytes"))
                         ->header.code,
                     RQ_RESP_MESSAGE_ILLEGAL);
    ck_assert_int_eq(raw_i64(raw_pull_now(raw, "G", "T", 0, 0, "*"), "maxOffset"), 1);
}
END_TEST

START_TEST(only_messages_with_a_wanted_tag_are_returned)
{
    struct rq_msg msgs[8];
    static const char *const tags[] = {"A", "B", "C", "A"};
    for (int i = 0; i < 4; i++) {
        raw_produce(raw, "T", 0, tags[i], tags[i]);
    }
    const struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 0, "A || C");
    ck_assert_uint_eq(raw_messages(answer, msgs, 8), 3);
    ck_assert(rq_slice_eq_str(msgs[1].body, "C"));
    answer = raw_pull_now(raw, "G", "T", 0, 0, "Z");
    ck_assert_int_eq(answer->header.code, RQ_RESP_PULL_RETRY_IMMEDIATELY);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 4);
    ck_assert(rq_slice_eq_str(answer->header.remark, "NO_MATCHED_MESSAGE"));
}
END_TEST

START_TEST(offsets_outside_a_queue_are_moved)
{
    raw_produce(raw, "T", 0, NULL, "x");
    const struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 9, "*");
    ck_assert_int_eq(answer->header.code, RQ_RESP_PULL_OFFSET_MOVED);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 1);
    answer = raw_pull_now(raw, "G", "T", 0, 1, "*");
    ck_assert_int_eq(answer->header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert(rq_slice_eq_str(answer->header.remark, "OFFSET_OVERFLOW_ONE"));
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 1, 3, "*")->header.code,
                     RQ_RESP_PULL_OFFSET_MOVED);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 4, 0, "*")->header.code,
                     RQ_RESP_INVALID_PARAMETER);
    ck_assert_int_eq(raw_pull_now(raw, "G", "None", 0, 0, "*")->header.code,
                     RQ_RESP_TOPIC_NOT_EXIST);
}
END_TEST

START_TEST(a_pull_without_heartbeat_is_told_that_there_is_no_subscription)
{
    raw_produce(raw, "T", 0, "A", "x");
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, NULL)->header.code,
                     RQ_RESP_SUBSCRIPTION_NOT_EXIST);
    ck_assert_int_eq(raw_heartbeat(raw, "c1", "G", "T", "B", 5)->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, NULL)->header.code,
                     RQ_RESP_PULL_RETRY_IMMEDIATELY);
    raw_heartbeat(raw, "c1", "G", "T", "A", 6);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, NULL)->header.code, RQ_RESP_SUCCESS);
}
END_TEST

START_TEST(a_parked_pull_is_woken_by_a_message)
{
    struct raw *consumer = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    struct rq_msg msgs[2];
    raw_produce(raw, "T", 0, NULL, "x");
    int32_t opaque = raw_pull(consumer, "G", "T", 0, 1, "*", 60000);
    ck_assert(!raw_next(consumer, &answer, 50));
    raw_produce(raw, "T", 0, NULL, "news");
    ck_assert(raw_next(consumer, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.opaque, opaque);
    ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(&answer, msgs, 2), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "news"));
    raw_close(consumer);
}
END_TEST

START_TEST(a_parked_pull_is_woken_by_its_tag_only)
{
    struct raw *consumer = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    struct rq_msg msgs[4];
    raw_produce(raw, "T", 0, "A", "x");
    raw_pull(consumer, "G", "T", 0, 1, "B", 60000);
    ck_eventually(atomic_load(&broker->hold.count) == 1);
    raw_produce(raw, "T", 0, "A", "y");
    ck_assert(!raw_next(consumer, &answer, 50));
    raw_produce(raw, "T", 0, "B", "z");
    ck_assert(raw_next(consumer, &answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&answer, msgs, 4), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "z"));
    raw_close(consumer);
}
END_TEST

START_TEST(a_parked_pull_is_answered_when_its_time_is_up)
{
    struct raw_answer answer;
    raw_produce(raw, "T", 0, NULL, "x");
    int64_t start_ms = rq_mono_ms();
    raw_pull(raw, "G", "T", 0, 1, "*", 200);
    ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
    ck_assert_int_ge(rq_mono_ms() - start_ms, 190);
    ck_assert_int_eq(answer.header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert_int_eq(raw_i64(&answer, "nextBeginOffset"), 1);
}
END_TEST

START_TEST(many_parked_pulls_on_one_connection_are_all_woken)
{
    struct raw *consumer = raw_open(rmq_broker_addr(broker));
    struct raw_answer answer;
    raw_create_topic(raw, "Wide", 16);
    for (int32_t i = 0; i < 16; i++) {
        raw_pull(consumer, "G", "Wide", i, 0, "*", 60000);
    }
    for (int32_t i = 0; i < 16; i++) {
        raw_produce(raw, "Wide", i, NULL, "x");
    }
    for (int32_t i = 0; i < 16; i++) {
        ck_assert(raw_next(consumer, &answer, RAW_WAIT_MS));
        ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    }
    raw_close(consumer);
}
END_TEST

START_TEST(stopping_answers_parked_pulls)
{
    rmq_broker *other = start_broker(NULL);
    struct raw *consumer = raw_open(rmq_broker_addr(other));
    struct raw_answer answer;
    raw_produce(consumer, "T", 0, NULL, "x");
    raw_pull(consumer, "G", "T", 0, 1, "*", 60000);
    raw_produce(consumer, "T", 1, NULL, "the pull before this has been parked");
    rmq_broker_stop(other);
    ck_assert(raw_next(consumer, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert(raw_is_closed(consumer));
    raw_close(consumer);
}
END_TEST

START_TEST(an_unknown_code_is_answered_so_and_a_one_way_one_never)
{
    struct raw_answer answer;
    raw_send(raw, 9999, RQ_FLAG_ONEWAY, NULL, NULL, rq_slice(NULL, 0));
    const struct raw_answer *unknown = raw_call(raw, 9998, NULL, NULL, rq_slice(NULL, 0));
    ck_assert_int_eq(unknown->header.code, RQ_RESP_REQUEST_CODE_NOT_SUPPORTED);
    ck_assert(rq_slice_eq_str(unknown->header.remark, " request type 9998 not supported"));
    ck_assert(!raw_next(raw, &answer, 20));
}
END_TEST

static void produce_with_key(const char *topic, const char *key)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, RQ_PROP_KEYS, rq_slice_str(key));
    struct rq_hdr_send header = raw_send_header(topic, 0, rq_slice(props.data, props.len));
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str(key));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    rq_buf_free(&props);
}

/* How many messages of the topic the broker finds by the key; *msg is the first. */
static size_t find(const char *topic, const char *key, int64_t begin_ms, int64_t end_ms,
                   struct rq_msg *msg)
{
    struct rq_msg found[4];
    struct rq_hdr_query_message header = {.topic = rq_slice_str(topic),
                                          .key = rq_slice_str(key),
                                          .max_num = 32,
                                          .begin_timestamp = begin_ms,
                                          .end_timestamp = end_ms};
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_QUERY_MESSAGE, &rq_tab_query_message, &header, rq_slice(NULL, 0));
    if (answer->header.code == RQ_RESP_QUERY_NOT_FOUND) {
        return 0;
    }
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    size_t count = raw_messages(answer, found, 4);
    ck_assert_uint_ge(count, 1);
    *msg = found[0];
    return count;
}

START_TEST(topics_and_keys_of_equal_hashes_are_told_apart_to_the_millisecond)
{
    struct rq_msg msg;
    produce_with_key("AaTopic", "Aa");
    produce_with_key("BBTopic", "BB");
    ck_assert_uint_eq(find("AaTopic", "BB", 0, INT64_MAX, &msg), 0);
    ck_assert_uint_eq(find("BBTopic", "Aa", 0, INT64_MAX, &msg), 0);
    ck_assert_uint_eq(find("AaTopic", "Aa", 0, INT64_MAX, &msg), 1);
    ck_assert(rq_slice_eq_str(msg.topic, "AaTopic") && rq_slice_eq_str(msg.body, "Aa"));
    ck_assert_uint_eq(find("BBTopic", "BB", 0, INT64_MAX, &msg), 1);
    ck_assert(rq_slice_eq_str(msg.topic, "BBTopic") && rq_slice_eq_str(msg.body, "BB"));
    int64_t at = msg.store_timestamp_ms;
    ck_assert_uint_eq(find("BBTopic", "BB", at, at, &msg), 1);
    ck_assert_uint_eq(find("BBTopic", "BB", at, INT64_MAX, &msg), 1);
    ck_assert_uint_eq(find("BBTopic", "BB", 0, at, &msg), 1);
    ck_assert_uint_eq(find("BBTopic", "BB", at + 1, INT64_MAX, &msg), 0);
    ck_assert_uint_eq(find("BBTopic", "BB", 0, at - 1, &msg), 0);
}
END_TEST

START_TEST(a_one_way_send_is_stored_and_not_answered)
{
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(NULL, 0));
    raw_send(raw, RQ_REQ_SEND_MESSAGE_V2, RQ_FLAG_ONEWAY, &rq_tab_send_v2, &header,
             rq_slice_str("x"));
    ck_assert_int_eq(raw_i64(raw_produce(raw, "T", 0, NULL, "y"), "queueOffset"), 1);
}
END_TEST

Suite *service_suite(void)
{
    Suite *suite = suite_create("broker/service");
    TCase *tc = tcase_create("service");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_started_broker_is_registered_with_its_template_topic);
    tcase_add_test(tc, the_route_has_bare_keys_for_old_clients_only);
    tcase_add_test(tc, an_unknown_topic_has_no_route);
    tcase_add_test(tc, a_sent_message_comes_back_with_all_that_it_had);
    tcase_add_test(tc, both_serializations_and_the_long_names_are_served);
    tcase_add_test(tc, the_first_send_makes_the_topic_with_at_most_the_templates_queues);
    tcase_add_test(tc, sends_that_may_not_be_are_refused);
    tcase_add_test(tc, a_body_above_the_limit_is_illegal);
    tcase_add_test(tc, a_batch_gets_consecutive_offsets_and_all_ids);
    tcase_add_test(tc, a_damaged_batch_is_illegal_and_stores_nothing);
    tcase_add_test(tc, only_messages_with_a_wanted_tag_are_returned);
    tcase_add_test(tc, offsets_outside_a_queue_are_moved);
    tcase_add_test(tc, a_pull_without_heartbeat_is_told_that_there_is_no_subscription);
    tcase_add_test(tc, a_parked_pull_is_woken_by_a_message);
    tcase_add_test(tc, a_parked_pull_is_woken_by_its_tag_only);
    tcase_add_test(tc, a_parked_pull_is_answered_when_its_time_is_up);
    tcase_add_test(tc, many_parked_pulls_on_one_connection_are_all_woken);
    tcase_add_test(tc, stopping_answers_parked_pulls);
    tcase_add_test(tc, an_unknown_code_is_answered_so_and_a_one_way_one_never);
    tcase_add_test(tc, a_one_way_send_is_stored_and_not_answered);
    tcase_add_test(tc, topics_and_keys_of_equal_hashes_are_told_apart_to_the_millisecond);
    suite_add_tcase(suite, tc);
    return suite;
}

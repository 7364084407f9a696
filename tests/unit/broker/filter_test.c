/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* SQL92 subscriptions over sockets: what is let through, what waits, and what is answered when the
 * expression or the broker does not allow it. */
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/time.h"
#include "broker/broker.h"
#include "unit/broker/raw.h"

static rmq_broker *broker;
static struct raw *raw;

static void open_with(const char *const *pairs)
{
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
    raw->expression_type = RQ_EXPRESSION_SQL92;
    raw_create_topic(raw, "T", 1);
}

static void open_broker(const char *enabled)
{
    const char *const pairs[] = {"enablePropertyFilter", enabled, NULL};
    open_with(pairs);
}

static void setup(void)
{
    open_broker("true");
}

static void teardown(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static void produce(struct raw *by, const char *amount)
{
    struct rq_buf properties;
    rq_buf_init(&properties, 0);
    rq_props_add_str(&properties, 0, "amount", rq_slice_str(amount));
    struct rq_hdr_send header = raw_send_header("T", 0, rq_slice(properties.data, properties.len));
    ck_assert_int_eq(
        raw_call(by, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &header, rq_slice_str("b"))
            ->header.code,
        RQ_RESP_SUCCESS);
    rq_buf_free(&properties);
}

static struct raw_answer *check_config(const char *type, const char *expression)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_addf(
        &body,
        "{\"clientId\":\"c\",\"group\":\"G\",\"subscriptionData\":{\"expressionType\":\"%s\","
        "\"subString\":\"%s\",\"topic\":\"T\"}}",
        type, expression);
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_CHECK_CLIENT_CONFIG, NULL, NULL, rq_slice(body.data, body.len));
    rq_buf_free(&body);
    return answer;
}

START_TEST(only_messages_that_the_expression_lets_through_come)
{
    struct rq_msg msgs[8];
    const char *amounts[] = {"1", "20", "3", "none", "40"};
    for (size_t i = 0; i < 5; i++) {
        produce(raw, amounts[i]);
    }
    struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 0, "amount > 10");
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 8), 2);
    ck_assert_int_eq(msgs[0].queue_offset, 1);
    ck_assert_int_eq(msgs[1].queue_offset, 4);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 5);
    answer = raw_pull_now(raw, "G", "T", 0, 0, "amount > 100");
    ck_assert_int_eq(answer->header.code, RQ_RESP_PULL_RETRY_IMMEDIATELY);
    ck_assert_int_eq(raw_i64(answer, "nextBeginOffset"), 5);
}
END_TEST

START_TEST(the_expression_of_a_heartbeat_filters_pulls)
{
    struct rq_msg msgs[8];
    produce(raw, "1");
    produce(raw, "20");
    raw_heartbeat(raw, "c", "G", "T", "amount BETWEEN 15 AND 25", 1);
    struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 0, NULL);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 8), 1);
    ck_assert_int_eq(msgs[0].queue_offset, 1);
}
END_TEST

START_TEST(a_parked_pull_sleeps_on_when_what_came_does_not_match)
{
    struct rq_msg msgs[8];
    struct raw_answer answer;
    struct raw *producer = raw_open(rmq_broker_addr(broker));
    produce(producer, "1");
    int32_t opaque = raw_pull(raw, "G", "T", 0, 1, "amount > 10", RAW_WAIT_MS);
    ck_eventually(atomic_load(&broker->hold.count) == 1);
    for (int i = 0; i < 20; i++) {
        produce(producer, "2");
    }
    produce(producer, "30");
    ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.opaque, opaque);
    ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(&answer, msgs, 8), 1);
    ck_assert_int_eq(msgs[0].queue_offset, 21);
    raw_close(producer);
}
END_TEST

START_TEST(a_parked_pull_that_never_matches_is_told_at_its_deadline_how_far_it_has_looked)
{
    struct raw_answer answer;
    struct raw *producer = raw_open(rmq_broker_addr(broker));
    produce(producer, "1");
    raw_pull(raw, "G", "T", 0, 1, "amount > 10", 1500);
    ck_eventually(atomic_load(&broker->hold.count) == 1);
    produce(producer, "2");
    ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
    ck_assert_int_ne(answer.header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(&answer, "nextBeginOffset"), 2);
    raw_close(producer);
}
END_TEST

START_TEST(a_pull_whose_place_in_the_queue_is_gone_is_told_the_next_one)
{
    const char *const pairs[] = {"enablePropertyFilter", "true", "mappedFileSizeConsumeQueue",
                                 "200", NULL};
    char path[512];
    struct raw_answer answer;
    teardown();
    open_with(pairs);
    for (int i = 0; i < 30; i++) {
        produce(raw, "1");
    }
    ck_eventually(rq_store_max_offset(broker->store, rq_slice_str("T"), 0) == 30);
    snprintf(path, sizeof path, "%s/consumequeue/T/0/%020d", rmq_broker_store_path(broker), 200);
    ck_assert_int_eq(truncate(path, 0), 0);
    raw_pull(raw, "G", "T", 0, 12, "amount > 10", 10 * RAW_WAIT_MS);
    ck_assert(raw_next(raw, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_PULL_NOT_FOUND);
    ck_assert_int_eq(raw_i64(&answer, "nextBeginOffset"), 20);
}
END_TEST

START_TEST(a_connection_that_closes_while_its_pull_is_looked_at_is_no_problem)
{
    struct raw *producer = raw_open(rmq_broker_addr(broker));
    for (int round = 0; round < 20; round++) {
        struct raw *consumer = raw_open(rmq_broker_addr(broker));
        consumer->expression_type = RQ_EXPRESSION_SQL92;
        raw_pull(consumer, "G", "T", 0, round, "amount > 10", RAW_WAIT_MS);
        produce(producer, "2");
        raw_close(consumer);
    }
    raw_close(producer);
}
END_TEST

START_TEST(a_wrong_expression_is_refused_wherever_it_comes_in)
{
    produce(raw, "1");
    ck_assert_int_eq(check_config("SQL92", "amount > 10")->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(check_config("SQL92", "amount >")->header.code,
                     RQ_RESP_SUBSCRIPTION_PARSE_FAILED);
    ck_assert_int_eq(check_config("XPATH", "amount")->header.code,
                     RQ_RESP_SUBSCRIPTION_PARSE_FAILED);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, "amount >")->header.code,
                     RQ_RESP_SUBSCRIPTION_PARSE_FAILED);
    raw_heartbeat(raw, "c", "G", "T", "amount >", 1);
    ck_assert_int_eq(raw_pull_now(raw, "G", "T", 0, 0, NULL)->header.code,
                     RQ_RESP_FILTER_DATA_NOT_EXIST);
}
END_TEST

START_TEST(a_broker_without_property_filter_says_so)
{
    teardown();
    open_broker("false");
    ck_assert_int_eq(check_config("SQL92", "amount > 10")->header.code, RQ_RESP_SYSTEM_ERROR);
    ck_assert_int_eq(check_config("TAG", "a")->header.code, RQ_RESP_SUCCESS);
    struct raw_answer *answer = raw_pull_now(raw, "G", "T", 0, 0, "amount > 10");
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
    ck_assert(rq_slice_eq_str(answer->header.remark,
                              "The broker does not support consumer to filter message by SQL92"));
}
END_TEST

Suite *filter_suite(void);

Suite *filter_suite(void)
{
    Suite *suite = suite_create("filter");
    TCase *tc = tcase_create("filter");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, only_messages_that_the_expression_lets_through_come);
    tcase_add_test(tc, the_expression_of_a_heartbeat_filters_pulls);
    tcase_add_test(tc, a_parked_pull_sleeps_on_when_what_came_does_not_match);
    tcase_add_test(tc,
                   a_parked_pull_that_never_matches_is_told_at_its_deadline_how_far_it_has_looked);
    tcase_add_test(tc, a_pull_whose_place_in_the_queue_is_gone_is_told_the_next_one);
    tcase_add_test(tc, a_connection_that_closes_while_its_pull_is_looked_at_is_no_problem);
    tcase_add_test(tc, a_wrong_expression_is_refused_wherever_it_comes_in);
    tcase_add_test(tc, a_broker_without_property_filter_says_so);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Replies over sockets: passed on to who asked, stored or not, and what the replier is told when
 * nobody is there. */
#include "unit/broker/raw.h"

#include <string.h>

#include "base/time.h"

#define REPLY_TOPIC "DefaultCluster_REPLY_TOPIC"

static rmq_broker *broker;
static struct raw *asker;
static struct raw *replier;

static void start(const char *const *pairs)
{
    broker = start_broker(pairs);
    asker = raw_open(rmq_broker_addr(broker));
    replier = raw_open(rmq_broker_addr(broker));
    raw_heartbeat(asker, "asker", "CG", "T", "*", 1);
}

static void stop(void)
{
    raw_close(asker);
    raw_close(replier);
    rmq_broker_stop(broker);
}

static int32_t send_reply(int32_t code, const char *client)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, RQ_PROP_CORRELATION_ID, rq_slice_str("c-1"));
    rq_props_add_str(&props, 0, RQ_PROP_MSG_TYPE, rq_slice_str("reply"));
    if (client) {
        rq_props_add_str(&props, 0, RQ_PROP_REPLY_TO_CLIENT, rq_slice_str(client));
    }
    struct rq_hdr_send header = raw_send_header(REPLY_TOPIC, 0, rq_slice(props.data, props.len));
    int32_t opaque = raw_send(replier, code, 0,
                              code == RQ_REQ_SEND_REPLY_MESSAGE ? &rq_tab_send : &rq_tab_send_v2,
                              &header, rq_slice_str("here"));
    rq_buf_free(&props);
    return opaque;
}

/* The requester gets the reply and answers it. */
static void take_reply(int32_t code)
{
    struct raw_answer pushed;
    ck_assert(raw_next(asker, &pushed, RAW_WAIT_MS));
    struct rq_slice properties = rq_header_ext(&pushed.header, "properties");
    ck_assert_int_eq(pushed.header.code, RQ_REQ_PUSH_REPLY_MESSAGE_TO_CLIENT);
    ck_assert(rq_slice_eq_str(pushed.body, "here"));
    ck_assert(rq_slice_eq_str(rq_header_ext(&pushed.header, "topic"), REPLY_TOPIC));
    ck_assert(rq_slice_eq_str(rq_props_get(properties, RQ_PROP_CORRELATION_ID), "c-1"));
    ck_assert(rq_props_get(properties, RQ_PROP_PUSH_REPLY_TIME).n > 0);
    ck_assert(rq_slice_eq_str(rq_header_ext(&pushed.header, "storeHost"), rmq_broker_addr(broker)));
    raw_reply(asker, pushed.header.opaque, code, rq_slice(NULL, 0));
}

static int64_t stored(void)
{
    struct rq_hdr_queue header = {.topic = rq_slice_str(REPLY_TOPIC)};
    return raw_i64(
        raw_call(replier, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &header, rq_slice(NULL, 0)),
        "offset");
}

START_TEST(a_reply_is_passed_on_and_stored_before_it_is_answered)
{
    struct raw_answer answer;
    const int32_t codes[] = {RQ_REQ_SEND_REPLY_MESSAGE_V2, RQ_REQ_SEND_REPLY_MESSAGE};
    start(NULL);
    for (int i = 0; i < 2; i++) {
        int32_t opaque = send_reply(codes[i], "asker");
        take_reply(RQ_RESP_SUCCESS);
        ck_assert(raw_next(replier, &answer, RAW_WAIT_MS));
        ck_assert_int_eq(answer.header.opaque, opaque);
        ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
        ck_assert_int_eq(raw_i64(&answer, "queueOffset"), i);
        ck_assert_int_eq(stored(), i + 1);
    }
    stop();
}
END_TEST

START_TEST(a_reply_that_is_not_stored_has_the_message_id_0)
{
    const char *const pairs[] = {"storeReplyMessageEnable", "false", NULL};
    struct raw_answer answer;
    start(pairs);
    send_reply(RQ_REQ_SEND_REPLY_MESSAGE_V2, "asker");
    take_reply(RQ_RESP_SUCCESS);
    ck_assert(raw_next(replier, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_SUCCESS);
    ck_assert(rq_slice_eq_str(rq_header_ext(&answer.header, "msgId"), "0"));
    ck_assert_int_eq(stored(), 0);
    stop();
}
END_TEST

START_TEST(a_reply_to_nobody_is_refused)
{
    struct raw_answer answer;
    start(NULL);
    send_reply(RQ_REQ_SEND_REPLY_MESSAGE_V2, "somebody else");
    ck_assert(raw_next(replier, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_SYSTEM_ERROR);
    ck_assert(memmem(answer.header.remark.p, answer.header.remark.n, "not found", 9) != NULL);
    send_reply(RQ_REQ_SEND_REPLY_MESSAGE_V2, NULL);
    ck_assert(raw_next(replier, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_SYSTEM_ERROR);
    send_reply(RQ_REQ_SEND_REPLY_MESSAGE_V2, "asker");
    take_reply(RQ_RESP_SYSTEM_ERROR);
    ck_assert(raw_next(replier, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_SYSTEM_ERROR);
    send_reply(RQ_REQ_SEND_REPLY_MESSAGE_V2, "asker");
    raw_close(asker);
    ck_assert(raw_next(replier, &answer, RAW_WAIT_MS));
    ck_assert_int_eq(answer.header.code, RQ_RESP_SYSTEM_ERROR);
    asker = raw_open(rmq_broker_addr(broker));
    stop();
}
END_TEST

Suite *reply_suite(void)
{
    Suite *suite = suite_create("reply");
    TCase *tcase = tcase_create("broker");
    tcase_add_test(tcase, a_reply_is_passed_on_and_stored_before_it_is_answered);
    tcase_add_test(tcase, a_reply_that_is_not_stored_has_the_message_id_0);
    tcase_add_test(tcase, a_reply_to_nobody_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

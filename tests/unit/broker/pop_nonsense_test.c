/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Requests about POP with fields and bodies that make no sense: each has an answer, and the broker
 * goes on. */
#include <string.h>

#include "unit/broker/raw.h"
#include "wire/pop.h"

#define GROUP "pop-group"
#define TOPIC "Pop"

static rmq_broker *broker;
static struct raw *raw;

static void open_all(void)
{
    broker = start_broker(NULL);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, TOPIC, 1);
}

static void close_all(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

static const int32_t codes[] = {RQ_REQ_POP_MESSAGE,       RQ_REQ_ACK_MESSAGE,
                                RQ_REQ_BATCH_ACK_MESSAGE, RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME,
                                RQ_REQ_PEEK_MESSAGE,      RQ_REQ_NOTIFICATION,
                                RQ_REQ_POLLING_INFO};

static const char *const numbers[] = {"0",
                                      "-1",
                                      "1",
                                      "31",
                                      "33",
                                      "2147483647",
                                      "-2147483648",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "999",
                                      "x",
                                      "",
                                      "1.5",
                                      "300"};
static const char *const texts[] = {TOPIC,
                                    GROUP,
                                    "",
                                    "%RETRY%" GROUP "_" TOPIC,
                                    "*",
                                    "a || b",
                                    "||",
                                    "0 0 0 0 0 broker-a 0 0",
                                    "0 1 60000 0 1 broker-a 0 9223372036854775807",
                                    "-1 -1 -1 -1 2 b -1 -1",
                                    "1 2 3",
                                    "9 9 9 999 0 b 0 1",
                                    "   ",
                                    "SQL92",
                                    "TAG",
                                    "true",
                                    "rmq_sys_REVIVE_LOG_DefaultCluster"};
static const char *const bodies[] = {
    "",
    "{",
    "{}",
    "{\"acks\":7}",
    "{\"acks\":[null,1,\"x\",[]]}",
    "{\"acks\":[{\"b\":\"/////w==\",\"c\":\"" GROUP
    "\",\"q\":0,\"r\":\"0\",\"rq\":0,\"so\":0,\"t\":\"" TOPIC "\"}]}",
    "{\"acks\":[{\"b\":\"AQ==\",\"c\":\"" GROUP
    "\",\"q\":2147483647,\"r\":\"1\",\"rq\":999,\"so\":9223372036854775807,\"t\":\"" TOPIC "\"}]}",
    "{\"acks\":[{\"b\":\"%%%%\",\"c\":\"g\",\"q\":-1,\"r\":\"9\",\"rq\":-5,\"so\":-1}]}"};

static unsigned seed;
static unsigned random_of(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return seed / 65536u % n;
}

static const char *any(const char *const *list, size_t count)
{
    return list[random_of((unsigned)count)];
}

#define ANY(list) any(list, sizeof(list) / sizeof(list)[0])

static void add_field(struct rq_buf *json, bool *first, const char *name, const char *value)
{
    if (random_of(8) == 0) {
        return;
    }
    rq_buf_addf(json, "%s\"%s\":\"%s\"", *first ? "" : ",", name, value);
    *first = false;
}

static void send_nonsense(struct raw *to, int32_t code)
{
    static const char *const wishes[] = {"queueId",  "maxMsgNums", "invisibleTime", "pollTime",
                                         "bornTime", "initMode",   "offset"};
    static const char *const words[] = {"consumerGroup", "topic",     "extraInfo", "exp",
                                        "expType",       "attemptId", "order"};
    struct rq_buf json;
    struct rq_buf frame;
    bool first = true;
    const char *body = ANY(bodies);
    rq_buf_init(&json, 0);
    rq_buf_init(&frame, 0);
    rq_buf_addf(&json,
                "{\"code\":%d,\"language\":\"JAVA\",\"version\":400,\"opaque\":%u,\"flag\":0,"
                "\"extFields\":{",
                (int)code, random_of(30000));
    for (size_t i = 0; i < 7; i++) {
        add_field(&json, &first, wishes[i], i == 3 ? "1" : ANY(numbers));
        add_field(&json, &first, words[i],
                  i < 2 && random_of(2) ? (i ? TOPIC : GROUP) : ANY(texts));
    }
    rq_buf_add_str(&json, "}}");
    rq_buf_add_be32(&frame, (uint32_t)(4 + json.len + strlen(body)));
    rq_buf_add_be32(&frame, (uint32_t)json.len);
    rq_buf_add(&frame, json.data, json.len);
    rq_buf_add_str(&frame, body);
    raw_bytes(to, frame.data, frame.len);
    rq_buf_free(&json);
    rq_buf_free(&frame);
}

START_TEST(random_fields_are_answered_and_the_broker_lives)
{
    struct rq_msg msgs[32];
    int answered = 0;
    seed = (unsigned)_i + 1;
    for (int i = 0; i < 5; i++) {
        raw_produce(raw, TOPIC, 0, "a", "x");
    }
    struct raw *wild = raw_open(rmq_broker_addr(broker));
    for (int i = 0; i < 600; i++) {
        send_nonsense(wild, codes[random_of(7)]);
        if (raw_next(wild, &wild->answer, 3000)) {
            answered++;
        } else {
            raw_close(wild);
            wild = raw_open(rmq_broker_addr(broker));
        }
    }
    raw_close(wild);
    ck_assert_int_gt(answered, 550);
    raw_produce(raw, TOPIC, 0, "a", "good");
    struct rq_hdr_pop fields = {.consumer_group = rq_slice_str(GROUP),
                                .topic = rq_slice_str(TOPIC),
                                .max_msg_nums = 32,
                                .invisible_time = 60000,
                                .poll_time = 5000,
                                .init_mode = RQ_POP_FROM_MIN};
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_POP_MESSAGE, &rq_tab_pop, &fields, rq_slice(NULL, 0));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_ge(raw_messages(answer, msgs, 32), 1);
}
END_TEST

Suite *pop_nonsense_suite(void)
{
    Suite *suite = suite_create("broker/pop_nonsense");
    TCase *tc = tcase_create("nonsense");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, random_fields_are_answered_and_the_broker_lives, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

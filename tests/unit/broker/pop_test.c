/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* POP against a running broker: what is given out, acknowledged, given back, in order and while
 * waiting. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "broker/broker.h"
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

struct wish {
    int queue_id;
    int max;
    int64_t invisible_ms;
    int64_t poll_ms;
    bool order;
    const char *attempt;
    const char *expression;
};

static int32_t send_pop(struct raw *to, struct wish wish)
{
    struct rq_hdr_pop fields = {.consumer_group = rq_slice_str(GROUP),
                                .topic = rq_slice_str(TOPIC),
                                .queue_id = wish.queue_id,
                                .max_msg_nums = wish.max ? wish.max : 32,
                                .invisible_time = wish.invisible_ms ? wish.invisible_ms : 60000,
                                .poll_time = wish.poll_ms,
                                .init_mode = RQ_POP_FROM_MIN};
    RQ_SET(pop, &fields, order, wish.order);
    if (wish.attempt) {
        RQ_SET(pop, &fields, attempt_id, rq_slice_str(wish.attempt));
    }
    if (wish.expression) {
        RQ_SET(pop, &fields, exp, rq_slice_str(wish.expression));
        RQ_SET(pop, &fields, exp_type, rq_slice_str("TAG"));
    }
    return raw_send(to, RQ_REQ_POP_MESSAGE, 0, &rq_tab_pop, &fields, rq_slice(NULL, 0));
}

static struct raw_answer *pop(struct wish wish)
{
    send_pop(raw, wish);
    ck_assert(raw_next(raw, &raw->answer, RAW_WAIT_MS));
    return &raw->answer;
}

static int64_t end_of(int queue_id)
{
    struct rq_hdr_queue fields = {.topic = rq_slice_str(TOPIC), .queue_id = queue_id};
    return raw_i64(raw_call(raw, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &fields, rq_slice(NULL, 0)),
                   "offset");
}

/* Sends a message and waits until it can be read. */
static void produce(int queue_id, const char *tag, const char *body)
{
    int64_t offset = raw_i64(raw_produce(raw, TOPIC, queue_id, tag, body), "queueOffset");
    ck_eventually(end_of(queue_id) > offset);
}

static struct rq_slice field(const struct raw_answer *answer, const char *name)
{
    return rq_header_ext(&answer->header, name);
}

/* The handle of a message of an answer, as a client makes it. */
struct handle {
    char text[256];
    struct rq_pop_handle parts;
};

static struct handle handle_of(const struct raw_answer *answer, const struct rq_msg *msg)
{
    struct handle handle = {0};
    struct rq_buf text;
    struct rq_slice own = rq_props_get(msg->properties, RQ_PROP_POP_CK);
    rq_buf_init(&text, 0);
    if (own.p) {
        rq_buf_add_slice(&text, own);
    } else {
        struct rq_pop_handle parts = {.pop_time_ms = raw_i64(answer, "popTime"),
                                      .invisible_ms = raw_i64(answer, "invisibleTime"),
                                      .revive_qid = (int32_t)raw_i64(answer, "reviveQid"),
                                      .retry = '0',
                                      .broker_name = rq_slice_str("broker-a"),
                                      .queue_id = msg->queue_id,
                                      .offset = msg->queue_offset};
        ck_assert(rq_pop_find_start(field(answer, "startOffsetInfo"), '0', msg->queue_id,
                                    &parts.start_offset));
        rq_pop_handle_write(&parts, &text);
    }
    ck_assert(text.len < sizeof handle.text);
    memcpy(handle.text, text.data, text.len);
    rq_buf_free(&text);
    ck_assert(rq_pop_handle_parse(rq_slice_str(handle.text), &handle.parts));
    return handle;
}

static struct raw_answer *ack_call(int32_t code, const struct handle *handle, int64_t invisible_ms)
{
    char room[RQ_POP_TOPIC_ROOM];
    struct rq_slice topic;
    ck_assert(rq_pop_marked_topic(rq_slice_str(TOPIC), rq_slice_str(GROUP), handle->parts.retry,
                                  room, &topic));
    struct rq_hdr_ack fields = {.consumer_group = rq_slice_str(GROUP),
                                .topic = topic,
                                .queue_id = handle->parts.queue_id,
                                .extra_info = rq_slice_str(handle->text),
                                .offset = handle->parts.offset};
    if (invisible_ms >= 0) {
        RQ_SET(ack, &fields, invisible_time, invisible_ms);
    }
    return raw_call(raw, code, &rq_tab_ack, &fields, rq_slice(NULL, 0));
}

static int32_t ack(const struct handle *handle)
{
    return ack_call(RQ_REQ_ACK_MESSAGE, handle, -1)->header.code;
}

START_TEST(a_pop_tells_where_its_messages_are_and_nobody_else_gets_them)
{
    struct rq_msg msgs[32];
    for (int i = 0; i < 3; i++) {
        produce(0, "a", "one");
    }
    struct raw_answer *answer = pop((struct wish){.queue_id = -1, .max = 2});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert(rq_slice_eq_str(field(answer, "startOffsetInfo"), "0 0 0"));
    ck_assert(rq_slice_eq_str(field(answer, "msgOffsetInfo"), "0 0 0,1"));
    ck_assert_int_eq(raw_i64(answer, "restNum"), 1);
    ck_assert_int_eq(raw_i64(answer, "invisibleTime"), 60000);
    struct handle first = handle_of(answer, &msgs[0]);
    ck_assert_int_eq(ack(&first), RQ_RESP_SUCCESS);
    ck_assert_int_eq(ack(&first), RQ_RESP_SUCCESS); /* harmless */
    answer = pop((struct wish){.queue_id = 0});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert_int_eq(msgs[0].queue_offset, 2);
    answer = pop((struct wish){.queue_id = -1});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
}
END_TEST

static bool counted(const char *name, const char *key, const char *sum)
{
    struct rq_hdr_stats header = {.stats_name = rq_slice_str(name), .stats_key = rq_slice_str(key)};
    return raw_has(
        raw_call(raw, RQ_REQ_VIEW_BROKER_STATS_DATA, &rq_tab_stats, &header, rq_slice(NULL, 0)),
        sum);
}

START_TEST(pops_and_acknowledgements_are_counted_by_topic_and_group)
{
    struct rq_msg msgs[32];
    produce(0, "a", "one");
    produce(0, "a", "two");
    struct raw_answer *answer = pop((struct wish){.queue_id = -1});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    struct handle first = handle_of(answer, &msgs[0]);
    struct handle second = handle_of(answer, &msgs[1]);
    ck_assert_int_eq(ack(&first), RQ_RESP_SUCCESS);
    ck_assert_int_eq(ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &second, 60000)->header.code,
                     RQ_RESP_SUCCESS);
    rq_stats_sample(&broker->stats, rq_wall_ms());
    ck_assert(
        counted("GROUP_GET_NUMS", TOPIC "@" GROUP, "\"statsMinute\":{\"avgpt\":2.0000,\"sum\":2,"));
    ck_assert(
        counted("GROUP_CK_NUMS", TOPIC "@" GROUP, "\"statsMinute\":{\"avgpt\":1.0000,\"sum\":2,"));
    ck_assert(
        counted("GROUP_ACK_NUMS", TOPIC "@" GROUP, "\"statsMinute\":{\"avgpt\":1.0000,\"sum\":2,"));
    ck_assert(counted("BROKER_ACK_NUMS", "DefaultCluster", "\"sum\":2,"));
}
END_TEST

START_TEST(what_is_not_acknowledged_comes_back_from_the_retry_topic)
{
    struct rq_msg msgs[32];
    produce(0, "a", "kept");
    produce(0, "b", "done");
    struct raw_answer *answer = pop((struct wish){.queue_id = -1, .invisible_ms = 300});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    struct handle second = handle_of(answer, &msgs[1]);
    ck_assert_int_eq(ack(&second), RQ_RESP_SUCCESS);
    for (int times = 1; times <= 3; times++) {
        answer = pop((struct wish){.queue_id = -1, .invisible_ms = 300, .poll_ms = 8000});
        ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
        ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
        ck_assert(rq_slice_eq_str(msgs[0].body, "kept"));
        ck_assert(rq_slice_eq_str(msgs[0].topic, TOPIC));
        ck_assert_int_eq(msgs[0].reconsume_times, times);
        ck_assert(rq_props_get(msgs[0].properties, RQ_PROP_FIRST_POP_TIME).p != NULL);
    }
    struct handle last = handle_of(answer, &msgs[0]);
    ck_assert_int_eq(last.parts.retry, '1');
    ck_assert_int_eq(ack(&last), RQ_RESP_SUCCESS);
    answer = pop((struct wish){.queue_id = -1, .poll_ms = 700});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
}
END_TEST

START_TEST(a_changed_time_makes_a_new_handle_and_voids_the_old_one)
{
    struct rq_msg msgs[32];
    produce(0, "a", "later");
    struct raw_answer *answer = pop((struct wish){.queue_id = -1, .invisible_ms = 400});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    struct handle handle = handle_of(answer, &msgs[0]);
    answer = ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &handle, 2000);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_int_eq(raw_i64(answer, "invisibleTime"), 2000);
    ck_assert_int_gt(raw_i64(answer, "popTime"), handle.parts.pop_time_ms);
    ck_assert_int_eq(raw_i64(answer, "reviveQid"), handle.parts.revive_qid);
    int64_t changed = rq_mono_ms();
    ck_assert_int_eq(ack(&handle), RQ_RESP_SUCCESS); /* of nothing */
    answer = pop((struct wish){.queue_id = -1, .poll_ms = 9000});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert_int_ge(rq_mono_ms() - changed, 1900);
}
END_TEST

START_TEST(a_handle_with_an_impossible_time_is_refused)
{
    static const char *const texts[] = {"0 9223372036854775807 60000 0 0 broker-a 0 0",
                                        "0 1 9223372036854775807 0 0 broker-a 0 0",
                                        "0 -1 60000 0 0 broker-a 0 0"};
    struct rq_msg msgs[32];
    produce(0, "a", "x");
    struct raw_answer *answer = pop((struct wish){.queue_id = -1});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    struct handle handle = handle_of(answer, &msgs[0]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(handle.text, sizeof handle.text, "%s", texts[i]);
        answer = ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &handle, 1000);
        ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
        ck_assert_int_eq(ack(&handle), RQ_RESP_SYSTEM_ERROR);
    }
}
END_TEST

START_TEST(a_batch_acknowledges_messages_of_several_queues)
{
    struct rq_msg msgs[32];
    struct rq_buf body;
    raw_create_topic(raw, TOPIC, 2);
    for (int i = 0; i < 6; i++) {
        produce(i % 2, "a", "x");
    }
    struct raw_answer *answer = pop((struct wish){.queue_id = -1, .invisible_ms = 300});
    size_t count = raw_messages(answer, msgs, 32);
    ck_assert_uint_eq(count, 6);
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"acks\":[");
    for (int queue = 0; queue < 2; queue++) {
        const struct rq_pop_batch_ack piece = {.group = rq_slice_str(GROUP),
                                               .topic = rq_slice_str(TOPIC),
                                               .retry = '0',
                                               .queue_id = queue,
                                               .revive_qid = (int32_t)raw_i64(answer, "reviveQid"),
                                               .pop_time_ms = raw_i64(answer, "popTime"),
                                               .invisible_ms = 300,
                                               .bits = {queue ? 7 : 5}, /* one of queue 0 is left */
                                               .bit_bytes = 1};
        rq_buf_add_str(&body, queue ? "," : "");
        rq_pop_batch_ack_write(&piece, &body);
    }
    rq_buf_add_str(&body, "],\"brokerName\":\"broker-a\"}");
    answer = raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice(body.data, body.len));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    rq_buf_free(&body);
    answer = pop((struct wish){.queue_id = -1, .poll_ms = 8000});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    answer = pop((struct wish){.queue_id = -1, .poll_ms = 500});
    ck_assert_int_eq(answer->header.code, RQ_RESP_POLLING_TIMEOUT);
    answer = raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice_str("{\"acks\":[]}"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_NO_MESSAGE);
    answer = raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice_str("{\"acks\":[{}]}"));
    ck_assert_int_eq(answer->header.code, RQ_RESP_SYSTEM_ERROR);
}
END_TEST

static int32_t waiting(int queue_id)
{
    struct rq_hdr_notification fields = {
        .consumer_group = rq_slice_str(GROUP), .topic = rq_slice_str(TOPIC), .queue_id = queue_id};
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_POLLING_INFO, &rq_tab_notification, &fields, rq_slice(NULL, 0));
    return (int32_t)raw_i64(answer, "pollingNum");
}

START_TEST(each_message_wakes_one_of_those_that_wait)
{
    struct raw *waiters[3];
    struct rq_msg msgs[32];
    int got = 0;
    for (int i = 0; i < 3; i++) {
        waiters[i] = raw_open(rmq_broker_addr(broker));
        send_pop(waiters[i], (struct wish){.queue_id = -1, .poll_ms = 20000});
    }
    ck_eventually(waiting(-1) == 3);
    produce(0, "a", "first");
    ck_eventually(waiting(-1) == 2);
    produce(0, "a", "second");
    ck_eventually(waiting(-1) == 1);
    for (int i = 0; i < 3 && got < 2; i++) { /* they were answered, the oldest first */
        if (raw_next(waiters[i], &waiters[i]->answer, RAW_WAIT_MS)) {
            got += (int)raw_messages(&waiters[i]->answer, msgs, 32);
        }
    }
    ck_assert_int_eq(got, 2);
    for (int i = 0; i < 3; i++) {
        raw_close(waiters[i]);
    }
    ck_eventually(waiting(-1) == 0);
    produce(0, "a", "third"); /* not for a connection that is gone */
    ck_assert_uint_eq(raw_messages(pop((struct wish){.queue_id = -1}), msgs, 32), 1);
}
END_TEST

START_TEST(tags_choose_what_is_popped)
{
    struct rq_msg msgs[32];
    produce(0, "no", "1");
    produce(0, "yes", "2");
    produce(0, "no", "3");
    produce(0, "yes", "4");
    struct raw_answer *answer = pop((struct wish){.queue_id = -1, .expression = "yes || other"});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert(rq_slice_eq_str(field(answer, "msgOffsetInfo"), "0 0 1,3"));
    answer = pop((struct wish){.queue_id = -1, .expression = "||"});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUBSCRIPTION_PARSE_FAILED);
}
END_TEST

START_TEST(in_order_nothing_follows_before_all_is_acknowledged)
{
    struct rq_msg msgs[32];
    struct handle handles[2];
    for (int i = 0; i < 4; i++) {
        produce(0, "a", "x");
    }
    struct wish wish = {.queue_id = 0, .max = 2, .order = true, .attempt = "one"};
    struct raw_answer *answer = pop(wish);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert_int_eq(raw_i64(answer, "reviveQid"), RQ_POP_ORDER_QUEUE);
    ck_assert(rq_slice_eq_str(field(answer, "orderCountInfo"), "0 0 0"));
    handles[0] = handle_of(answer, &msgs[0]);
    handles[1] = handle_of(answer, &msgs[1]);
    wish.attempt = "two";
    ck_assert_int_eq(pop(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);
    ck_assert_int_eq(ack(&handles[1]), RQ_RESP_SUCCESS);
    ck_assert_int_eq(pop(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);

    /* Who waits is woken by the last acknowledgement. */
    struct raw *waiter = raw_open(rmq_broker_addr(broker));
    wish.poll_ms = 20000;
    wish.invisible_ms = 500;
    send_pop(waiter, wish);
    ck_eventually(waiting(0) == 1);
    ck_assert_int_eq(ack(&handles[0]), RQ_RESP_SUCCESS);
    ck_assert(raw_next(waiter, &waiter->answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&waiter->answer, msgs, 32), 2);
    ck_assert_int_eq(msgs[0].queue_offset, 2);
    raw_close(waiter);

    /* Its time passes: the same again, as the second time. */
    wish.attempt = "three";
    answer = pop(wish);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 2);
    ck_assert_int_eq(msgs[0].queue_offset, 2);
    ck_assert_int_eq(rq_pop_find_order_count(field(answer, "orderCountInfo"), '0', 0, 2), 1);
    handles[0] = handle_of(answer, &msgs[0]);
    ck_assert_int_eq(ack_call(RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, &handles[0], 60000)->header.code,
                     RQ_RESP_SUCCESS);
    wish.attempt = "four";
    wish.poll_ms = 800;
    ck_assert_int_eq(pop(wish)->header.code, RQ_RESP_POLLING_TIMEOUT);
}
END_TEST

static struct raw_answer *ask(int32_t code, int64_t poll_ms)
{
    struct rq_hdr_notification fields = {
        .consumer_group = rq_slice_str(GROUP), .topic = rq_slice_str(TOPIC), .queue_id = -1};
    RQ_SET(notification, &fields, max_msg_nums, 10);
    RQ_SET(notification, &fields, poll_time, poll_ms);
    return raw_call(raw, code, &rq_tab_notification, &fields, rq_slice(NULL, 0));
}

START_TEST(a_notice_tells_that_there_is_something_and_a_peek_shows_it)
{
    struct rq_msg msgs[32];
    struct raw_answer *answer = ask(RQ_REQ_NOTIFICATION, 100);
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert(rq_slice_eq_str(field(answer, "hasMsg"), "false"));
    ck_assert_int_eq(ask(RQ_REQ_PEEK_MESSAGE, 0)->header.code, RQ_RESP_PULL_NOT_FOUND);
    produce(0, "a", "x");
    ck_assert(rq_slice_eq_str(field(ask(RQ_REQ_NOTIFICATION, 5000), "hasMsg"), "true"));
    for (int i = 0; i < 2; i++) {
        answer = ask(RQ_REQ_PEEK_MESSAGE, 0);
        ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
        ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    }
    ck_assert_uint_eq(raw_messages(pop((struct wish){.queue_id = -1}), msgs, 32), 1);
}
END_TEST

static void start_with_store(const char *path)
{
    const char *pairs[] = {"storePathRootDir", path, NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

static void ack_as_batch(const struct rq_pop_handle *handle)
{
    struct rq_pop_batch_ack piece = {.group = rq_slice_str(GROUP),
                                     .topic = rq_slice_str(TOPIC),
                                     .retry = handle->retry,
                                     .queue_id = handle->queue_id,
                                     .revive_qid = handle->revive_qid,
                                     .start_offset = handle->start_offset,
                                     .pop_time_ms = handle->pop_time_ms,
                                     .invisible_ms = handle->invisible_ms,
                                     .bit_bytes = 1};
    struct rq_buf body;
    piece.bits[0] = (uint8_t)(1u << (handle->offset - handle->start_offset));
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"brokerName\":\"broker-a\",\"acks\":[");
    rq_pop_batch_ack_write(&piece, &body);
    rq_buf_add_str(&body, "]}");
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, rq_slice(body.data, body.len))
            ->header.code,
        RQ_RESP_SUCCESS);
    rq_buf_free(&body);
}

START_TEST(checkpoints_and_blocks_survive_a_restart)
{
    char path[] = "/tmp/rmq-pop-XXXXXX";
    char command[64];
    struct rq_msg msgs[32];
    ck_assert_ptr_nonnull(mkdtemp(path));
    start_with_store(path);
    raw_create_topic(raw, TOPIC, 1);
    for (int i = 0; i < 3; i++) {
        produce(0, "a", i == 1 ? "middle" : "other");
    }
    struct raw_answer *answer = pop((struct wish){.queue_id = -1, .invisible_ms = 1500});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 3);
    struct handle first = handle_of(answer, &msgs[0]);
    struct handle third = handle_of(answer, &msgs[2]);
    ck_assert_int_eq(ack(&first), RQ_RESP_SUCCESS);
    ack_as_batch(&third.parts);
    close_all();

    start_with_store(path);
    answer = pop((struct wish){.queue_id = -1, .poll_ms = 9000, .invisible_ms = 60000});
    ck_assert_int_eq(answer->header.code, RQ_RESP_SUCCESS);
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "middle"));
    struct handle again = handle_of(answer, &msgs[0]);
    ck_assert_int_eq(ack(&again), RQ_RESP_SUCCESS);
    produce(0, "a", "in order");
    struct wish order = {.queue_id = 0, .order = true, .attempt = "x"};
    ck_assert_uint_eq(raw_messages(pop(order), msgs, 32), 1);
    close_all();

    start_with_store(path);
    order.attempt = "y";
    ck_assert_int_eq(pop(order)->header.code, RQ_RESP_POLLING_TIMEOUT);
    order.attempt = "x";
    ck_assert_uint_eq(raw_messages(pop(order), msgs, 32), 1);
    close_all();
    snprintf(command, sizeof command, "rm -rf %s", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(who_waits_is_answered_when_the_group_is_reset)
{
    struct rq_msg msgs[32];
    struct rq_hdr_reset_offset reset = {
        .topic = rq_slice_str(TOPIC), .group = rq_slice_str(GROUP), .timestamp = 0};
    produce(0, "a", "again");
    struct raw_answer *answer = pop((struct wish){.queue_id = -1});
    ck_assert_uint_eq(raw_messages(answer, msgs, 32), 1);
    struct handle handle = handle_of(answer, &msgs[0]);
    ck_assert_int_eq(ack(&handle), RQ_RESP_SUCCESS);
    struct raw *waiter = raw_open(rmq_broker_addr(broker));
    send_pop(waiter, (struct wish){.queue_id = 0, .poll_ms = 20000});
    ck_eventually(waiting(0) == 1);
    ck_assert_int_eq(raw_call(raw, RQ_REQ_INVOKE_BROKER_TO_RESET_OFFSET, &rq_tab_reset_offset,
                              &reset, rq_slice(NULL, 0))
                         ->header.code,
                     RQ_RESP_SUCCESS);
    ck_assert(raw_next(waiter, &waiter->answer, RAW_WAIT_MS));
    ck_assert_uint_eq(raw_messages(&waiter->answer, msgs, 32), 1);
    ck_assert(rq_slice_eq_str(msgs[0].body, "again"));
    raw_close(waiter);
}
END_TEST

static bool has_topic(const char *name)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(name)};
    return raw_call(raw, RQ_REQ_GET_TOPIC_CONFIG, &rq_tab_topic, &fields, rq_slice(NULL, 0))
               ->header.code == RQ_RESP_SUCCESS;
}

START_TEST(a_deleted_topic_takes_its_retry_topic_along)
{
    char name[RQ_POP_TOPIC_ROOM];
    struct rq_hdr_topic fields = {.topic = rq_slice_str(TOPIC)};
    ck_assert_uint_gt(rq_pop_retry_topic(rq_slice_str(TOPIC), rq_slice_str(GROUP), name), 0);
    produce(0, "a", "kept");
    pop((struct wish){.queue_id = -1, .invisible_ms = 300});
    ck_eventually(has_topic(name));
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &fields, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_SUCCESS);
    ck_assert(!has_topic(TOPIC));
    ck_assert(!has_topic(name));
    fields.topic = rq_slice_str("");
    ck_assert_int_eq(
        raw_call(raw, RQ_REQ_DELETE_TOPIC_IN_BROKER, &rq_tab_topic, &fields, rq_slice(NULL, 0))
            ->header.code,
        RQ_RESP_INVALID_PARAMETER);
}
END_TEST

Suite *pop_suite(void)
{
    Suite *suite = suite_create("broker/pop");
    TCase *tc = tcase_create("pop");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_test(tc, a_pop_tells_where_its_messages_are_and_nobody_else_gets_them);
    tcase_add_test(tc, pops_and_acknowledgements_are_counted_by_topic_and_group);
    tcase_add_test(tc, what_is_not_acknowledged_comes_back_from_the_retry_topic);
    tcase_add_test(tc, a_changed_time_makes_a_new_handle_and_voids_the_old_one);
    tcase_add_test(tc, a_handle_with_an_impossible_time_is_refused);
    tcase_add_test(tc, a_batch_acknowledges_messages_of_several_queues);
    tcase_add_test(tc, each_message_wakes_one_of_those_that_wait);
    tcase_add_test(tc, tags_choose_what_is_popped);
    tcase_add_test(tc, who_waits_is_answered_when_the_group_is_reset);
    tcase_add_test(tc, a_deleted_topic_takes_its_retry_topic_along);
    tcase_add_test(tc, in_order_nothing_follows_before_all_is_acknowledged);
    tcase_add_test(tc, a_notice_tells_that_there_is_something_and_a_peek_shows_it);
    suite_add_tcase(suite, tc);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_test(life, checkpoints_and_blocks_survive_a_restart);
    suite_add_tcase(suite, life);
    return suite;
}

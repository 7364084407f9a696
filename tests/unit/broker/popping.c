/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the tests of POP do over and over. */
#include "unit/broker/popping.h"

#include <string.h>

#include "base/time.h"

rmq_broker *broker;
struct raw *raw;

void pop_open(void)
{
    broker = start_broker(NULL);
    raw = raw_open(rmq_broker_addr(broker));
    raw_create_topic(raw, TOPIC, 1);
}

void pop_close(void)
{
    raw_close(raw);
    rmq_broker_stop(broker);
}

void pop_open_with_store(const char *path)
{
    const char *pairs[] = {"storePathRootDir", path, NULL};
    broker = start_broker(pairs);
    raw = raw_open(rmq_broker_addr(broker));
}

int32_t pop_send(struct raw *to, struct pop_wish wish)
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

struct raw_answer *pop_now(struct pop_wish wish)
{
    pop_send(raw, wish);
    ck_assert(raw_next(raw, &raw->answer, RAW_WAIT_MS));
    return &raw->answer;
}

static int64_t end_of(int queue_id)
{
    struct rq_hdr_queue fields = {.topic = rq_slice_str(TOPIC), .queue_id = queue_id};
    return raw_i64(raw_call(raw, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &fields, rq_slice(NULL, 0)),
                   "offset");
}

void pop_produce(int queue_id, const char *tag, const char *body)
{
    int64_t offset = raw_i64(raw_produce(raw, TOPIC, queue_id, tag, body), "queueOffset");
    ck_eventually(end_of(queue_id) > offset);
}

struct rq_slice pop_field(const struct raw_answer *answer, const char *name)
{
    return rq_header_ext(&answer->header, name);
}

struct pop_handle pop_handle_of(const struct raw_answer *answer, const struct rq_msg *msg)
{
    struct pop_handle handle = {0};
    struct rq_buf text;
    struct rq_slice own = rq_props_get(msg->properties, RQ_PROP_POP_CK);
    rq_buf_init(&text, 0);
    if (own.p) {
        rq_buf_add_slice(&text, own);
    } else {
        struct rq_pop_handle parts = {.pop_time_ms = raw_i64(answer, "popTime"),
                                      .invisible_ms = raw_i64(answer, "invisibleTime"),
                                      .revive_qid = (int32_t)raw_i64(answer, "reviveQid"),
                                      .retry = rq_pop_retry_mark(msg->topic),
                                      .broker_name = rq_slice_str("broker-a"),
                                      .queue_id = msg->queue_id,
                                      .offset = msg->queue_offset};
        ck_assert(rq_pop_find_start(pop_field(answer, "startOffsetInfo"), parts.retry,
                                    msg->queue_id, &parts.start_offset));
        rq_pop_handle_write(&parts, &text);
    }
    ck_assert(text.len < sizeof handle.text);
    memcpy(handle.text, text.data, text.len);
    rq_buf_free(&text);
    ck_assert(rq_pop_handle_parse(rq_slice_str(handle.text), &handle.parts));
    handle.parts.broker_name = rq_slice_str("broker-a"); /* that of text stays in this frame */
    return handle;
}

struct raw_answer *pop_ack_call(int32_t code, const struct pop_handle *handle, int64_t invisible_ms)
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

int32_t pop_ack(const struct pop_handle *handle)
{
    return pop_ack_call(RQ_REQ_ACK_MESSAGE, handle, -1)->header.code;
}

void pop_ack_as_batch(const struct rq_pop_handle *handle)
{
    char bits[32] = {0};
    int64_t bit = handle->offset - handle->start_offset;
    ck_assert(bit >= 0 && bit < (int64_t)sizeof bits * 8);
    bits[bit / 8] = (char)(1u << bit % 8);
    const struct rq_pop_batch_ack piece = {.group = rq_slice_str(GROUP),
                                           .topic = rq_slice_str(TOPIC),
                                           .retry = handle->retry,
                                           .queue_id = handle->queue_id,
                                           .revive_qid = handle->revive_qid,
                                           .start_offset = handle->start_offset,
                                           .pop_time_ms = handle->pop_time_ms,
                                           .invisible_ms = handle->invisible_ms,
                                           .bits = rq_slice(bits, (size_t)bit / 8 + 1)};
    struct rq_buf body;
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

int32_t pop_waiting(int queue_id)
{
    struct rq_hdr_notification fields = {
        .consumer_group = rq_slice_str(GROUP), .topic = rq_slice_str(TOPIC), .queue_id = queue_id};
    struct raw_answer *answer =
        raw_call(raw, RQ_REQ_POLLING_INFO, &rq_tab_notification, &fields, rq_slice(NULL, 0));
    return (int32_t)raw_i64(answer, "pollingNum");
}

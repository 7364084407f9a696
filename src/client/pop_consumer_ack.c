/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a program says of popped messages: acknowledged, one by one or together, or wanted later. Blocking, on the program's threads. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/pop_consumer_priv.h"
#include "client/queue_ask.h"
#include "wire/pop.h"

#define DEFAULT_TIMEOUT_MS 5000
#define BITS_MAX           (sizeof((struct rq_pop_batch_ack *)0)->bits * 8)

/* A handle in pieces, and what is made of it. */
struct place {
    struct rq_pop_handle handle;
    char broker_name[RQ_NAME_MAX];
    char room[RQ_POP_TOPIC_ROOM];
    struct rq_slice topic; /* the real one: perhaps a retry topic */
};

static rmq_status read_handle(struct rmq_pop_consumer *consumer, const char *topic,
                              const char *text, struct place *out, rmq_error **err)
{
    struct rq_slice group = rq_slice_str(consumer->options.consumer_group);
    struct rq_pop_handle *handle = &out->handle;
    if (!rq_pop_handle_parse(rq_slice_str(text), handle) || handle->queue_id < 0 ||
        handle->offset < 0 || handle->broker_name.n >= sizeof out->broker_name ||
        !rq_pop_marked_topic(rq_slice_str(topic), group, handle->retry, out->room, &out->topic)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "\"%s\" is no handle of a popped message", text);
    }
    memcpy(out->broker_name, handle->broker_name.p, handle->broker_name.n);
    out->broker_name[handle->broker_name.n] = '\0';
    return RMQ_OK;
}

static struct rq_queue_ask question(struct rmq_pop_consumer *consumer, const char *topic,
                                    const char *broker_name, int code,
                                    const struct rq_fields *table, const void *fields,
                                    int64_t timeout_ms)
{
    return (struct rq_queue_ask){
        .instance = consumer->instance,
        .name = {.topic = topic, .broker_name = broker_name},
        .pick = RQ_PICK_MASTER,
        .code = code,
        .table = table,
        .fields = fields,
        .deadline_ms = rq_mono_ms() + (timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS)};
}

static struct rq_hdr_ack header_of(const struct rmq_pop_consumer *consumer,
                                   const struct place *place, const char *handle)
{
    return (struct rq_hdr_ack){.consumer_group = rq_slice_str(consumer->options.consumer_group),
                               .topic = place->topic,
                               .queue_id = place->handle.queue_id,
                               .extra_info = rq_slice_str(handle),
                               .offset = place->handle.offset};
}

rmq_status rq_pop_consumer_ack_one(struct rmq_pop_consumer *consumer, const char *topic,
                                   const char *handle, int64_t timeout_ms, rmq_error **err)
{
    struct place place;
    struct rq_reply reply;
    rmq_status st = read_handle(consumer, topic, handle, &place, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_ack fields = header_of(consumer, &place, handle);
    struct rq_queue_ask ask = question(consumer, topic, place.broker_name, RQ_REQ_ACK_MESSAGE,
                                       &rq_tab_ack, &fields, timeout_ms);
    st = rq_queue_ask_wait(&ask, "acknowledgement", 0, &reply, err);
    if (st == RMQ_OK) {
        rq_reply_free(&reply);
    }
    return st;
}

rmq_status rmq_pop_consumer_ack(rmq_pop_consumer *consumer, const char *topic, const char *handle,
                                int64_t timeout_ms, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    topic = rq_pop_consumer_full(consumer, topic, room);
    rmq_status st = rq_pop_consumer_enter(consumer, topic, handle, err);
    if (st == RMQ_OK) {
        st = rq_pop_consumer_ack_one(consumer, topic, handle, timeout_ms, err);
        rq_callbacks_leave(&consumer->callbacks);
    }
    return st;
}

/* ---- together ---- */

struct batch {
    struct rmq_pop_consumer *consumer;
    const char *topic;
    const char *const *handles;
    size_t count;
    bool *done; /* by handle */
};

static bool same_pop(const struct rq_pop_handle *a, const struct rq_pop_handle *b)
{
    return a->start_offset == b->start_offset && a->pop_time_ms == b->pop_time_ms &&
           a->revive_qid == b->revive_qid && a->retry == b->retry && a->queue_id == b->queue_id &&
           rq_slice_eq(a->broker_name, b->broker_name);
}

/* The piece that begins with handle i: all of the same pop and queue. */
static void add_piece(struct batch *batch, size_t first, struct rq_buf *body)
{
    struct rq_pop_handle head;
    (void)rq_pop_handle_parse(rq_slice_str(batch->handles[first]), &head);
    struct rq_pop_batch_ack piece = {
        .group = rq_slice_str(batch->consumer->options.consumer_group),
        .topic = rq_slice_str(batch->topic),
        .retry = head.retry,
        .start_offset = head.start_offset,
        .queue_id = head.queue_id,
        .revive_qid = head.revive_qid,
        .pop_time_ms = head.pop_time_ms,
        .invisible_ms = head.invisible_ms};
    for (size_t i = first; i < batch->count; i++) {
        struct rq_pop_handle handle;
        if (batch->done[i] || !rq_pop_handle_parse(rq_slice_str(batch->handles[i]), &handle) ||
            !same_pop(&head, &handle)) {
            continue;
        }
        int64_t bit = handle.offset - head.start_offset;
        if (bit >= 0 && bit < (int64_t)BITS_MAX) {
            piece.bits[bit / 8] |= (uint8_t)(1u << bit % 8);
            piece.bit_bytes = (size_t)bit / 8 + 1 > piece.bit_bytes ? (size_t)bit / 8 + 1
                                                                     : piece.bit_bytes;
            batch->done[i] = true;
        }
    }
    rq_pop_batch_ack_write(&piece, body);
}

static bool fits(const struct batch *batch, size_t i, struct rq_slice broker_name)
{
    struct rq_pop_handle handle;
    return !batch->done[i] && rq_pop_handle_parse(rq_slice_str(batch->handles[i]), &handle) &&
           rq_slice_eq(handle.broker_name, broker_name) && handle.offset >= handle.start_offset &&
           handle.offset - handle.start_offset < (int64_t)BITS_MAX;
}

/* One request with all that the broker of the first handle gave out. */
static rmq_status ack_broker(struct batch *batch, const struct place *place, int64_t timeout_ms,
                             rmq_error **err)
{
    struct rq_buf body;
    struct rq_reply reply;
    bool any = false;
    struct rq_slice broker_name = rq_slice_str(place->broker_name);
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"acks\":[");
    for (size_t i = 0; i < batch->count; i++) {
        if (fits(batch, i, broker_name)) {
            rq_buf_add_str(&body, any ? "," : "");
            add_piece(batch, i, &body);
            any = true;
        }
    }
    rq_buf_add_str(&body, "],\"brokerName\":");
    rq_json_add_string(&body, broker_name);
    rq_buf_add_char(&body, '}');
    rmq_status st = rq_buf_status(&body);
    if (st == RMQ_OK) {
        struct rq_queue_ask ask = question(batch->consumer, batch->topic, place->broker_name,
                                           RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, timeout_ms);
        ask.body = rq_slice(body.data, body.len);
        st = rq_queue_ask_wait(&ask, "acknowledgements", 0, &reply, err);
        if (st == RMQ_OK) {
            rq_reply_free(&reply);
        }
    } else {
        rq_error_set(err, st, "acknowledgements of %zu messages", batch->count);
    }
    rq_buf_free(&body);
    return st;
}

static rmq_status ack_all(struct batch *batch, int64_t timeout_ms, rmq_error **err)
{
    rmq_status first = RMQ_OK;
    for (size_t i = 0; i < batch->count; i++) {
        struct place place;
        rmq_error **told = first == RMQ_OK ? err : NULL;
        if (batch->done[i]) {
            continue;
        }
        rmq_status st =
            read_handle(batch->consumer, batch->topic, batch->handles[i], &place, told);
        if (st == RMQ_OK && fits(batch, i, place.handle.broker_name)) {
            st = ack_broker(batch, &place, timeout_ms, told);
        } else if (st == RMQ_OK) {
            st = rq_pop_consumer_ack_one(batch->consumer, batch->topic, batch->handles[i], timeout_ms, told);
        }
        batch->done[i] = true;
        first = first == RMQ_OK ? st : first;
    }
    return first;
}

rmq_status rmq_pop_consumer_ack_batch(rmq_pop_consumer *consumer, const char *topic,
                                      const char *const *handles, size_t count, int64_t timeout_ms,
                                      rmq_error **err)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; handles && i < count; i++) {
        if (!handles[i]) {
            return rq_error_set(err, RMQ_ERR_INVALID, "handle %zu is NULL", i);
        }
    }
    char room[RQ_NAMESPACED_MAX];
    topic = rq_pop_consumer_full(consumer, topic, room);
    st = rq_pop_consumer_enter(consumer, topic, handles, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct batch batch = {.consumer = consumer,
                          .topic = topic,
                          .handles = handles,
                          .count = count,
                          .done = rq_calloc(count + 1, sizeof *batch.done)};
    st = batch.done ? ack_all(&batch, timeout_ms, err)
                    : rq_error_set(err, RMQ_ERR_NOMEM, "%zu acknowledgements", count);
    rq_free(batch.done);
    rq_callbacks_leave(&consumer->callbacks);
    return st;
}

/* ---- later ---- */

static rmq_status change(struct rmq_pop_consumer *consumer, const char *topic, const char *handle,
                         int64_t invisible_ms, int64_t timeout_ms, char **out, rmq_error **err)
{
    struct place place;
    struct rq_reply reply;
    struct rq_hdr_change_invisible_response head;
    rmq_status st = read_handle(consumer, topic, handle, &place, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_ack fields = header_of(consumer, &place, handle);
    RQ_SET(ack, &fields, invisible_time, invisible_ms);
    struct rq_queue_ask ask =
        question(consumer, topic, place.broker_name, RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME,
                 &rq_tab_ack, &fields, timeout_ms);
    st = rq_queue_ask_wait(&ask, "change of the invisible time", 0, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_fields_decode(&rq_tab_change_invisible_response, &reply.header, &head, err);
    rq_reply_free(&reply);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf text;
    struct rq_pop_handle fresh = place.handle;
    fresh.pop_time_ms = head.pop_time;
    fresh.invisible_ms = head.invisible_time;
    fresh.revive_qid = head.revive_qid;
    if (head.revive_qid != RQ_POP_ORDER_QUEUE) {
        fresh.start_offset = place.handle.offset; /* a checkpoint of its own */
    }
    rq_buf_init(&text, 0);
    rq_pop_handle_write(&fresh, &text);
    *out = rq_buf_detach(&text);
    return *out ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "handle");
}

rmq_status rmq_pop_consumer_change_invisible_time(rmq_pop_consumer *consumer, const char *topic,
                                                  const char *handle, int64_t invisible_ms,
                                                  int64_t timeout_ms, char **new_handle,
                                                  rmq_error **err)
{
    if (!new_handle || invisible_ms < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "new_handle is NULL, or a time of %lld ms",
                            (long long)invisible_ms);
    }
    char room[RQ_NAMESPACED_MAX];
    topic = rq_pop_consumer_full(consumer, topic, room);
    rmq_status st = rq_pop_consumer_enter(consumer, topic, handle, err);
    if (st == RMQ_OK) {
        st = change(consumer, topic, handle, invisible_ms, timeout_ms, new_handle, err);
        rq_callbacks_leave(&consumer->callbacks);
    }
    return st;
}

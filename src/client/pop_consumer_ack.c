/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a program says of popped messages: acknowledged, one by one or together, or wanted later.
 * Blocking, on the program's threads. */
#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/pop_consumer_priv.h"
#include "client/popped.h"
#include "client/queue_ask.h"

#define DEFAULT_TIMEOUT_MS 5000

static rmq_status read_handle(struct rmq_pop_consumer *consumer, const char *topic,
                              const char *text, struct rq_pop_place *out, rmq_error **err)
{
    return rq_pop_place_read(consumer->options.consumer_group, topic, text, out)
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_INVALID, "\"%s\" is no handle of a popped message",
                              text);
}

static struct rq_queue_ask question(struct rmq_pop_consumer *consumer, const char *topic,
                                    const char *broker_name, int code,
                                    const struct rq_fields *table, const void *fields,
                                    int64_t timeout_ms)
{
    return (struct rq_queue_ask){.instance = consumer->instance,
                                 .name = {.topic = topic, .broker_name = broker_name},
                                 .pick = RQ_PICK_MASTER,
                                 .code = code,
                                 .table = table,
                                 .fields = fields,
                                 .deadline_ms =
                                     rq_mono_ms() + rq_timeout_ms(timeout_ms, DEFAULT_TIMEOUT_MS)};
}

rmq_status rq_pop_consumer_ack_one(struct rmq_pop_consumer *consumer, const char *topic,
                                   const char *handle, int64_t timeout_ms, rmq_error **err)
{
    struct rq_pop_place place;
    struct rq_reply reply;
    rmq_status st = read_handle(consumer, topic, handle, &place, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_ack fields =
        rq_pop_place_header(&place, consumer->options.consumer_group, handle);
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
    rmq_status st = rq_pop_consumer_enter(consumer, topic, handle, "handle", err);
    if (st == RMQ_OK) {
        st = rq_pop_consumer_ack_one(consumer, topic, handle, timeout_ms, err);
        rq_callbacks_leave(&consumer->callbacks);
    }
    return st;
}

/* ---- together ---- */

/* One request with all that the broker of the first handle gave out. */
static rmq_status ack_broker(struct rmq_pop_consumer *consumer, struct rq_pop_acks *acks,
                             const char *broker_name, int64_t timeout_ms, rmq_error **err)
{
    struct rq_buf body;
    struct rq_reply reply;
    rq_buf_init(&body, 0);
    rq_pop_acks_write(acks, rq_slice_str(broker_name), &body);
    rmq_status st = rq_buf_status(&body);
    if (st == RMQ_OK) {
        struct rq_queue_ask ask = question(consumer, acks->topic, broker_name,
                                           RQ_REQ_BATCH_ACK_MESSAGE, NULL, NULL, timeout_ms);
        ask.body = rq_slice(body.data, body.len);
        st = rq_queue_ask_wait(&ask, "acknowledgements", 0, &reply, err);
        if (st == RMQ_OK) {
            rq_reply_free(&reply);
        }
    } else {
        rq_error_set(err, st, "acknowledgements of %zu messages", acks->count);
    }
    rq_buf_free(&body);
    return st;
}

static rmq_status ack_all(struct rmq_pop_consumer *consumer, struct rq_pop_acks *acks,
                          int64_t timeout_ms, rmq_error **err)
{
    rmq_status first = RMQ_OK;
    for (size_t i = 0; i < acks->count; i++) {
        struct rq_pop_place place;
        rmq_error **told = first == RMQ_OK ? err : NULL;
        if (acks->done[i]) {
            continue;
        }
        rmq_status st = read_handle(consumer, acks->topic, acks->handles[i], &place, told);
        if (st == RMQ_OK && rq_pop_acks_fits(acks, i, place.handle.broker_name)) {
            st = ack_broker(consumer, acks, place.broker_name, timeout_ms, told);
        } else if (st == RMQ_OK) {
            st = rq_pop_consumer_ack_one(consumer, acks->topic, acks->handles[i], timeout_ms, told);
        }
        acks->done[i] = true;
        first = first == RMQ_OK ? st : first;
    }
    return first;
}

rmq_status rmq_pop_consumer_ack_batch(rmq_pop_consumer *consumer, const char *topic,
                                      const char *const *handles, size_t count, int64_t timeout_ms,
                                      rmq_error **err)
{
    if (!handles) {
        return rq_error_set(err, RMQ_ERR_INVALID, "handles is NULL");
    }
    for (size_t i = 0; i < count; i++) {
        if (!handles[i]) {
            return rq_error_set(err, RMQ_ERR_INVALID, "handle %zu is NULL", i);
        }
    }
    char room[RQ_NAMESPACED_MAX];
    topic = rq_pop_consumer_full(consumer, topic, room);
    rmq_status st = rq_pop_consumer_enter(consumer, topic, handles, "handles", err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_pop_acks acks = {.group = consumer->options.consumer_group,
                               .topic = topic,
                               .handles = handles,
                               .count = count,
                               .done = rq_calloc(count + 1, sizeof *acks.done)};
    st = acks.done ? ack_all(consumer, &acks, timeout_ms, err)
                   : rq_error_set(err, RMQ_ERR_NOMEM, "%zu acknowledgements", count);
    rq_free(acks.done);
    rq_callbacks_leave(&consumer->callbacks);
    return st;
}

/* ---- later ---- */

static rmq_status change(struct rmq_pop_consumer *consumer, const char *topic, const char *handle,
                         int64_t invisible_ms, int64_t timeout_ms, char **out, rmq_error **err)
{
    struct rq_pop_place place;
    struct rq_reply reply;
    struct rq_hdr_change_invisible_response head;
    rmq_status st = read_handle(consumer, topic, handle, &place, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_ack fields =
        rq_pop_place_header(&place, consumer->options.consumer_group, handle);
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
    rmq_status st = rq_pop_consumer_enter(consumer, topic, handle, "handle", err);
    if (st == RMQ_OK) {
        st = change(consumer, topic, handle, invisible_ms, timeout_ms, new_handle, err);
        rq_callbacks_leave(&consumer->callbacks);
    }
    return st;
}

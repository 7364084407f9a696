/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Batches of messages: one request whose body holds many, stored as one append, so that all of them
 * are there or none. Loop thread of the connection. Counterpart:
 * SendMessageProcessor.sendBatchMessage.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/send_answer.h"
#include "broker/send_priv.h"
#include "wire/names.h"

#define BATCH_MAX 65536 /* messages; a longer one is refused */

struct batch {
    struct rq_msg *msgs;
    int64_t *offsets;
    size_t count;
    size_t cap;
};

static rmq_status grow_batch(struct batch *batch)
{
    size_t cap = batch->cap ? batch->cap * 2 : 64;
    struct rq_msg *msgs = cap <= BATCH_MAX ? rq_realloc(batch->msgs, cap * sizeof *msgs) : NULL;
    if (!msgs) {
        return cap > BATCH_MAX ? RMQ_ERR_TOO_LARGE : RMQ_ERR_NOMEM;
    }
    batch->msgs = msgs;
    batch->cap = cap;
    return RMQ_OK;
}

static rmq_status add_child(struct rq_sending *sending, struct batch *batch,
                            const struct rq_batch_item *item)
{
    if (batch->count == batch->cap) {
        rmq_status st = grow_batch(batch);
        if (st) {
            return st;
        }
    }
    struct rq_msg *msg = &batch->msgs[batch->count++];
    *msg = sending->msg;
    msg->flag = item->flag;
    msg->body = item->body.p ? item->body : rq_slice("", 0);
    msg->properties = item->properties;
    return RMQ_OK;
}

static rmq_status read_batch(struct rq_sending *sending, struct batch *batch, rmq_error **err)
{
    struct rq_slice body = sending->request->in->body;
    struct rq_cursor cursor = rq_cursor(body.p, body.n);
    struct rq_batch_item item;
    rmq_status st;
    while ((st = rq_batch_next(&cursor, &item, err)) == RMQ_OK) {
        if ((st = add_child(sending, batch, &item))) {
            return st;
        }
    }
    return st == RMQ_ERR_NOT_FOUND ? RMQ_OK : st;
}

static bool check_batch(const struct rq_sending *sending)
{
    struct rq_slice topic = sending->header.topic;
    if (rq_topic_is_retry(topic)) {
        rq_answer_text(sending->request->conn, &sending->request->to, RQ_RESP_MESSAGE_ILLEGAL,
                       "batch request does not support retry group %.*s", RQ_TEXT(topic));
        return false;
    }
    if (sending->found.transaction || rq_found_delay_level(&sending->found) > 0) {
        return rq_sending_refuse(
            sending, RQ_RESP_MESSAGE_ILLEGAL,
            "the message is illegal: a batch can be neither transactional nor delayed");
    }
    size_t most = (size_t)sending->broker->settings.store.max_message_size;
    if (sending->request->in->body.n > most) {
        rq_answer_text(sending->request->conn, &sending->request->to, RQ_RESP_MESSAGE_ILLEGAL,
                       "the message is illegal: batch of %zu bytes > limit %zu",
                       sending->request->in->body.n, most);
        return false;
    }
    return true;
}

static void store_batch(struct rq_sending *sending, struct batch *batch)
{
    struct rq_store_put put;
    batch->offsets = rq_calloc(batch->count, sizeof *batch->offsets);
    if (!batch->offsets) {
        rq_sending_refuse(sending, RQ_RESP_SYSTEM_ERROR, "out of memory");
        return;
    }
    int64_t begin_us = rq_mono_us();
    (void)rq_store_append_batch(sending->broker->store, batch->msgs, batch->count, batch->offsets,
                                &put);
    if (put.status == RQ_PUT_OK) {
        rq_broker_dispatch_soon(sending->request);
    }
    rq_sending_count(sending, &put, batch->count, begin_us);
    int32_t queue_id = sending->msg.queue_id;
    if (sending->logical.mapping) {
        rq_sending_tell_logical(sending, &put, &queue_id);
    }
    rq_send_answer_batch(sending->request, &put, queue_id, sending->found.unique_key,
                         batch->offsets, batch->count);
}

void rq_sending_put_batch(struct rq_sending *sending)
{
    struct batch batch = {0};
    rmq_error *err = NULL;
    rq_sending_look_through(sending);
    if (!check_batch(sending) || !rq_sending_choose_queue(sending)) {
        return;
    }
    rq_sending_fill(sending);
    rmq_status st = read_batch(sending, &batch, &err);
    if (st || batch.count == 0) {
        rq_sending_refuse(sending,
                          st == RMQ_ERR_NOMEM ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_MESSAGE_ILLEGAL,
                          err  ? rmq_error_message(err)
                          : st ? rmq_status_text(st)
                               : "the batch is empty");
    } else {
        store_batch(sending, &batch);
    }
    rmq_error_destroy(err);
    rq_free(batch.msgs);
    rq_free(batch.offsets);
}

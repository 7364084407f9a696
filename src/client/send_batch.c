/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * From messages to one operation: checks of a batch, one record for each message with an id of its
 * own, the envelope, which is never compressed. On the sender's thread. Counterpart: MessageBatch.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/producer.h"
#include "client/send_priv.h"
#include "client/unique_id.h"
#include "wire/message.h"
#include "wire/names.h"
#include "wire/properties.h"

static const char *topic_of(const rmq_message *message)
{
    return message->text;
}

static rmq_status check_batch_item(const rmq_message *first, const rmq_message *message,
                                   size_t index, rmq_error **err)
{
    if (!message) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message %zu of the batch is NULL", index);
    }
    if (!message->body || message->body->size == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message %zu of the batch has no body", index);
    }
    if (strcmp(topic_of(first), topic_of(message)) != 0) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "message %zu of the batch is for topic %s, the first for %s", index,
                            topic_of(message), topic_of(first));
    }
    if (first->wait_store_ok != message->wait_store_ok) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "message %zu of the batch has another wait flag than the first", index);
    }
    if (message->timed) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message %zu of the batch has a time of delivery",
                            index);
    }
    if (message->delay_level > 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message %zu of the batch has delay level %d",
                            index, (int)message->delay_level);
    }
    return RMQ_OK;
}

rmq_status rq_send_check_batch(const struct rmq_producer *producer,
                               const rmq_message *const *messages, size_t count, size_t *bytes,
                               rmq_error **err)
{
    if (!messages || count == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            messages ? "the batch has no messages" : "messages is NULL");
    }
    if (!messages[0]) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message 0 of the batch is NULL");
    }
    rmq_status st = rq_send_check_topic(messages[0], err);
    if (st == RMQ_OK && rq_topic_is_retry(rq_slice_str(topic_of(messages[0])))) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "a batch cannot go to retry topic %s",
                          topic_of(messages[0]));
    }
    size_t sum = 0;
    for (size_t i = 0; i < count && st == RMQ_OK; i++) {
        st = check_batch_item(messages[0], messages[i], i, err);
        sum += st == RMQ_OK ? messages[i]->body->size : 0;
    }
    if (st == RMQ_OK && sum > (size_t)producer->options.max_message_size) {
        st = rq_error_set(err, RMQ_ERR_TOO_LARGE,
                          "bodies of the batch have %zu bytes, maxMessageSize is %d", sum,
                          (int)producer->options.max_message_size);
    }
    *bytes = sum;
    return st;
}

static void add_id(struct rq_buf *ids, struct rq_slice id)
{
    size_t comma = ids->len > 0;
    if (rq_buf_reserve(ids, comma + id.n)) {
        char *p = ids->data + ids->len;
        *p = ',';
        memcpy(p + comma, id.p, id.n);
        ids->len += comma + id.n;
    }
}

rmq_status rq_send_add_item(const rmq_message *message, struct rq_slice more_pairs,
                            struct rq_slice id, struct rq_buf *out, struct rq_buf *ids,
                            rmq_error **err)
{
    size_t at =
        rq_batch_begin(out, message->flag, rq_slice(message->body->data, message->body->size));
    size_t properties_at = out->len;
    rq_send_add_pairs(out, rq_message_pairs(message), true);
    rq_send_add_pairs(out, more_pairs, true);
    rq_send_add_own(out, id.p, id.n, message->wait_store_ok, 0);
    if (rq_buf_status(out) == RMQ_OK) {
        rmq_status st = rq_send_check_properties(out->len - properties_at, topic_of(message), err);
        if (st != RMQ_OK) {
            out->len = at;
            return st;
        }
    }
    rq_batch_end(out, at);
    add_id(ids, id);
    rmq_status st = rq_buf_status(out) != RMQ_OK ? rq_buf_status(out) : rq_buf_status(ids);
    return st == RMQ_OK ? st : rq_error_set(err, st, "batch for topic %s", topic_of(message));
}

static rmq_status encode_batch(struct rq_send_op *op, const rmq_message *const *messages,
                               size_t count, struct rq_buf *out, struct rq_buf *ids,
                               rmq_error **err)
{
    struct rq_unique_ids unique;
    rmq_status st = RMQ_OK;
    rq_unique_ids_take(&unique, op->started_ms, count);
    for (size_t i = 0; i < count && st == RMQ_OK; i++) {
        size_t n = rq_unique_ids_next(&unique);
        st = rq_send_add_item(messages[i], op->more_pairs, rq_slice(unique.text, n), out, ids, err);
    }
    size_t limit = (size_t)op->producer->options.max_message_size;
    if (st == RMQ_OK && out->len > limit) {
        st = rq_error_set(err, RMQ_ERR_TOO_LARGE,
                          "batch of %zu messages has %zu bytes, maxMessageSize is %zu", count,
                          out->len, limit);
    }
    if (st == RMQ_OK) {
        op->body = rq_send_wrap_buf(out);
        op->ids = rq_buf_detach(ids);
        st = op->body && op->ids ? RMQ_OK
                                 : rq_error_set(err, RMQ_ERR_NOMEM, "batch of %zu messages", count);
    }
    return st;
}

/* Bytes of an item, at most: what the message has, the item's frame, WAIT and UNIQ_KEY. */
static size_t item_size(const rmq_message *message)
{
    return message->body->size + (message->text_len - message->topic_len) + RQ_SEND_ITEM_OWN;
}

/* Room for all, so that no record is copied as the buffers grow. A batch for which there is none is
 * refused when it is encoded. */
static void make_room(const struct rq_send_op *op, const rmq_message *const *messages, size_t count,
                      struct rq_buf *out, struct rq_buf *ids)
{
    size_t sum = count * op->more_pairs.n;
    size_t ids_size = count * (strlen(op->unique_id) + 1);
    for (size_t i = 0; i < count; i++) {
        sum += item_size(messages[i]);
    }
    if (sum < RQ_SEND_BATCH_MAX && ids_size < RQ_SEND_BATCH_MAX) {
        (void)rq_buf_reserve(out, sum + 1);
        (void)rq_buf_reserve(ids, ids_size + 1);
    }
}

/* The envelope: what travels once for all. */
static rmq_status prepare_envelope(struct rq_send_op *op, const rmq_message *first, rmq_error **err)
{
    rq_send_begin_text(op, first);
    op->batch = true;
    op->flag = 0;
    op->reconsume_times = 0;
    op->max_reconsume_times = -1;
    size_t n = rq_unique_id(op->started_ms, op->unique_id);
    rq_send_add_own(&op->text, op->unique_id, n, first->wait_store_ok, 0);
    return rq_send_end_text(op, err);
}

rmq_status rq_send_prepare_batch(struct rq_send_op *op, const rmq_message *const *messages,
                                 size_t count, rmq_error **err)
{
    rmq_status st = prepare_envelope(op, messages[0], err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf body, ids;
    rq_buf_init(&body, RQ_SEND_BATCH_MAX);
    rq_buf_init(&ids, RQ_SEND_BATCH_MAX);
    make_room(op, messages, count, &body, &ids);
    st = encode_batch(op, messages, count, &body, &ids, err);
    rq_buf_free(&body);
    rq_buf_free(&ids);
    return st;
}

rmq_status rq_send_prepare_carrier(struct rq_send_op *op, const rmq_message *envelope,
                                   struct rq_buf *body, struct rq_buf *ids, rmq_error **err)
{
    rmq_status st = prepare_envelope(op, envelope, err);
    if (st != RMQ_OK) {
        return st;
    }
    op->body = rq_send_wrap_buf(body);
    op->ids = rq_buf_detach(ids);
    return op->body && op->ids ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "batch");
}

size_t rq_send_item_stored(const rmq_message *message)
{
    return message->body->size + message->text_len + RQ_SEND_ITEM_STORED;
}

/* What the namespace adds to a message: once to its topic, once as a property. */
static size_t namespace_size(const struct rmq_producer *producer)
{
    const char *name_space = producer->options.namespace_name;
    return name_space ? 2 * (strlen(name_space) + 1) + sizeof RQ_PROP_INSTANCE_ID : 0;
}

size_t rq_send_batch_fits(const struct rmq_producer *producer, const rmq_message *const *messages,
                          size_t count)
{
    size_t limit = (size_t)producer->options.max_message_size;
    size_t more = namespace_size(producer);
    size_t sum = 0;
    size_t n = 0;
    while (n < count && messages[n] && messages[n]->body &&
           rq_message_same_group(messages[0], messages[n]) &&
           sum + more + rq_send_item_stored(messages[n]) <= limit) {
        sum += more + rq_send_item_stored(messages[n]);
        n++;
    }
    return n > 0 ? n : 1;
}

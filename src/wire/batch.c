/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The body of SEND_BATCH_MESSAGE, and of inner batches: items of size, magic 0, CRC 0, flag, body
 * with a 4-byte and properties with a 2-byte length. Called by producers, by the broker's send, and
 * by consumers that unwrap. Counterpart: MessageDecoder.encodeMessage, MessageBatch.
 */
#include "base/err.h"
#include "wire/message.h"

#define ITEM_FIXED 22 /* size 4, magic 4, CRC 4, flag 4, body length 4, properties length 2 */

rmq_status rq_batch_next(struct rq_cursor *c, struct rq_batch_item *item, rmq_error **err)
{
    size_t left = rq_cursor_left(c);
    if (left == 0 && !c->bad) {
        return RMQ_ERR_NOT_FOUND;
    }
    uint32_t size = rq_cursor_be32(c);
    const char *bytes = size >= ITEM_FIXED ? rq_cursor_take(c, size - 4) : NULL;
    struct rq_cursor one = bytes ? rq_cursor(bytes, size - 4) : (struct rq_cursor){.bad = true};
    rq_cursor_take(&one, 8); /* magic and CRC mean nothing here */
    item->flag = (int32_t)rq_cursor_be32(&one);
    item->body = rq_cursor_slice(&one, rq_cursor_be32(&one));
    item->properties = rq_cursor_slice(&one, rq_cursor_be16(&one));
    if (c->bad || one.bad || rq_cursor_left(&one) != 0 ||
        item->properties.n > RQ_MSG_PROPERTIES_MAX) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "batch: item of size %u with %zu bytes left",
                            size, left);
    }
    return RMQ_OK;
}

size_t rq_batch_item_size(const struct rq_batch_item *item)
{
    return ITEM_FIXED + item->body.n + item->properties.n;
}

rmq_status rq_batch_add(struct rq_buf *out, const struct rq_batch_item *item)
{
    if (item->properties.n > RQ_MSG_PROPERTIES_MAX || item->body.n > INT32_MAX / 2) {
        if (out->status == RMQ_OK) {
            out->status = RMQ_ERR_TOO_LARGE;
        }
        return out->status;
    }
    size_t size = rq_batch_item_size(item);
    if (!rq_buf_reserve(out, size)) {
        return rq_buf_status(out);
    }
    rq_buf_add_be32(out, (uint32_t)size);
    rq_buf_add_be64(out, 0);
    rq_buf_add_be32(out, (uint32_t)item->flag);
    rq_buf_add_be32(out, (uint32_t)item->body.n);
    rq_buf_add_slice(out, item->body);
    rq_buf_add_be16(out, (uint16_t)item->properties.n);
    rq_buf_add_slice(out, item->properties);
    return rq_buf_status(out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The body of SEND_BATCH_MESSAGE, and of inner batches: items of size, magic 0, CRC 0, flag, body
 * with a 4-byte and properties with a 2-byte length. Called by producers, by the broker's send, and
 * by consumers that unwrap. Counterpart: MessageDecoder.encodeMessage, MessageBatch.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "wire/message.h"

#define ITEM_FIXED 22 /* size 4, magic 4, CRC 4, flag 4, body length 4, properties length 2 */
#define FLAG_AT    12
#define BODY_AT    16 /* its length, then its bytes, then the properties' length */

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

static size_t item_size(const struct rq_batch_item *item)
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
    if (!rq_buf_reserve(out, item_size(item))) {
        return rq_buf_status(out);
    }
    size_t at = rq_batch_begin(out, item->flag, item->body);
    rq_buf_add_slice(out, item->properties);
    rq_batch_end(out, at);
    return rq_buf_status(out);
}

size_t rq_batch_begin(struct rq_buf *out, int32_t flag, struct rq_slice body)
{
    size_t at = out->len;
    if (rq_buf_reserve(out, ITEM_FIXED + body.n)) {
        char *item = out->data + at;
        memset(item, 0, FLAG_AT); /* size, which end knows, magic and CRC */
        rq_store_be32(item + FLAG_AT, (uint32_t)flag);
        rq_store_be32(item + BODY_AT, (uint32_t)body.n);
        if (body.n > 0) {
            memcpy(item + BODY_AT + 4, body.p, body.n);
        }
        out->len += ITEM_FIXED + body.n;
    }
    return at;
}

void rq_batch_end(struct rq_buf *out, size_t at)
{
    if (rq_buf_status(out) == RMQ_OK) {
        char *item = out->data + at;
        size_t size = out->len - at;
        size_t body_n = rq_load_be32(item + BODY_AT);
        rq_store_be32(item, (uint32_t)size);
        rq_store_be16(item + BODY_AT + 4 + body_n, (uint16_t)(size - ITEM_FIXED - body_n));
    }
}

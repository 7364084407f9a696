/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Scanner of the compact header: code 2, language 1, version 2, opaque 4, flag 4, remark with a
 * 4-byte length, then the block of extFields with a 4-byte length, each a name with a 2-byte and a
 * value with a 4-byte length. Counterpart: RocketMQSerializable.
 */
#include "base/bytes.h"
#include "base/err.h"
#include "wire/header_priv.h"

/* A text with a signed 4-byte length; an empty one is null, as in Java. */
static struct rq_slice text32(struct rq_cursor *c)
{
    uint32_t n = rq_cursor_be32(c);
    struct rq_slice text = rq_cursor_slice(c, n);
    return n ? text : rq_slice(NULL, 0);
}

static rmq_status decode_ext(struct rq_cursor c, struct rq_header *out, rmq_error **err)
{
    size_t size = rq_cursor_left(&c);
    while (rq_cursor_left(&c) > 0) {
        if (out->ext_count == RQ_HEADER_MAX_EXT) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "binary header: more than %d extFields",
                                RQ_HEADER_MAX_EXT);
        }
        struct rq_ext *ext = &out->ext[out->ext_count];
        uint16_t n = rq_cursor_be16(&c);
        ext->name = rq_cursor_slice(&c, n);
        ext->value = text32(&c);
        if (!rq_cursor_ok(&c) || n > INT16_MAX) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL,
                                "binary header: extField %u does not fit into %zu bytes",
                                out->ext_count, size);
        }
        out->ext_count++;
    }
    return RMQ_OK;
}

rmq_status rq_header_decode_binary(char *p, size_t n, struct rq_header *out, rmq_error **err)
{
    if (n < RQ_HEADER_BINARY_SIZE) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "binary header of %zu bytes, the least is %d", n,
                            RQ_HEADER_BINARY_SIZE);
    }
    struct rq_cursor c = rq_cursor(p, n);
    out->code = (int16_t)rq_cursor_be16(&c);
    uint8_t language = rq_cursor_u8(&c);
    out->language = language < RQ_LANGUAGE_COUNT ? language : RQ_LANGUAGE_UNKNOWN;
    out->version = (int16_t)rq_cursor_be16(&c);
    out->opaque = (int32_t)rq_cursor_be32(&c);
    out->flag = (int32_t)rq_cursor_be32(&c);
    out->remark = text32(&c);
    uint32_t ext_size = rq_cursor_be32(&c);
    const char *ext = rq_cursor_take(&c, ext_size);
    if (!rq_cursor_ok(&c)) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL,
                            "binary header of %zu bytes: remark or extFields are longer", n);
    }
    out->has_ext = ext_size > 0;
    return decode_ext(rq_cursor(ext, ext_size), out, err);
}

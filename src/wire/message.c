/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Codec of stored messages. Decoding is a list of fields on a cursor, then one question whether all
 * was there. Called by consumers on the answer of a pull and by the store on its commit log.
 * Counterparts: MessageDecoder, MessageExtEncoder.
 */
#include "wire/message.h"

#include <string.h>

#include "base/crc.h"
#include "base/err.h"

#define HOST_V4_SIZE 8
#define HOST_V6_SIZE 20

/* Size and magic of the message at p, without looking further. false: fewer than 8 bytes, or a size
 * below 8. */
static bool peek(const void *p, size_t n, int32_t *size, int32_t *magic)
{
    if (n < 8) {
        return false;
    }
    *size = (int32_t)rq_load_be32(p);
    *magic = (int32_t)rq_load_be32((const char *)p + 4);
    return *size >= 8;
}

static void take_host(struct rq_cursor *c, bool v6, struct rq_host *out)
{
    out->len = v6 ? 16 : 4;
    const char *addr = rq_cursor_take(c, out->len);
    if (addr) {
        memcpy(out->addr, addr, out->len);
    }
    out->port = (int32_t)rq_cursor_be32(c);
}

static void decode_fields(struct rq_cursor *c, struct rq_msg *out)
{
    out->body_crc = (int32_t)rq_cursor_be32(c);
    out->queue_id = (int32_t)rq_cursor_be32(c);
    out->flag = (int32_t)rq_cursor_be32(c);
    out->queue_offset = (int64_t)rq_cursor_be64(c);
    out->commit_log_offset = (int64_t)rq_cursor_be64(c);
    out->sys_flag = (int32_t)rq_cursor_be32(c);
    out->born_timestamp_ms = (int64_t)rq_cursor_be64(c);
    take_host(c, out->sys_flag & RQ_SYS_BORN_HOST_V6, &out->born_host);
    out->store_timestamp_ms = (int64_t)rq_cursor_be64(c);
    take_host(c, out->sys_flag & RQ_SYS_STORE_HOST_V6, &out->store_host);
    out->reconsume_times = (int32_t)rq_cursor_be32(c);
    out->prepared_transaction_offset = (int64_t)rq_cursor_be64(c);
    out->body = rq_cursor_slice(c, rq_cursor_be32(c));
    size_t topic_len = out->magic == RQ_MSG_MAGIC_V2 ? rq_cursor_be16(c) : rq_cursor_u8(c);
    out->topic = rq_cursor_slice(c, topic_len);
    out->properties = rq_cursor_slice(c, rq_cursor_be16(c));
}

static rmq_status bad_message(struct rq_cursor *c, rmq_error **err, const char *what, int32_t value,
                              size_t left)
{
    c->bad = true;
    return rq_error_set(err, RMQ_ERR_PROTOCOL, "message: %s %d with %zu bytes left", what,
                        (int)value, left);
}

rmq_status rq_msg_decode(struct rq_cursor *c, struct rq_msg *out, rmq_error **err)
{
    size_t left = rq_cursor_left(c);
    const char *start = c->p;
    if (c->bad || !peek(start, left, &out->total_size, &out->magic)) {
        return bad_message(c, err, "size", left < 4 ? 0 : (int32_t)rq_load_be32(start), left);
    }
    if (out->magic != RQ_MSG_MAGIC_V1 && out->magic != RQ_MSG_MAGIC_V2) {
        return bad_message(c, err, "unknown magic", out->magic, left);
    }
    if ((size_t)out->total_size > left) {
        return bad_message(c, err, "size", out->total_size, left);
    }
    struct rq_cursor one = rq_cursor(start + 8, (size_t)out->total_size - 8);
    decode_fields(&one, out);
    out->more_properties = rq_slice(NULL, 0);
    if (!rq_cursor_ok(&one) || rq_cursor_left(&one) != 0) {
        return bad_message(c, err, "fields do not agree with size", out->total_size, left);
    }
    bool v2 = out->magic == RQ_MSG_MAGIC_V2;
    if (out->topic.n > (v2 ? RQ_MSG_TOPIC_MAX_V2 : RQ_MSG_TOPIC_MAX_V1) ||
        out->properties.n > RQ_MSG_PROPERTIES_MAX || out->body.n > INT32_MAX) {
        return bad_message(c, err, "negative length in size", out->total_size, left);
    }
    c->p = start + out->total_size;
    return RMQ_OK;
}

int32_t rq_msg_body_crc(struct rq_slice body)
{
    return (int32_t)(rq_crc32(0, body.p, body.n) & INT32_MAX);
}

bool rq_msg_crc_ok(const struct rq_msg *msg)
{
    return rq_msg_body_crc(msg->body) == msg->body_crc;
}

/* Properties as they are written: the second part behind the first, with the 0x02 that may be
 * missing between them. */
static size_t properties_size(const struct rq_msg *msg)
{
    size_t n = msg->properties.n;
    bool join = n && msg->more_properties.n && msg->properties.p[n - 1] != '\x02';
    return n + join + msg->more_properties.n;
}

static size_t host_size(const struct rq_host *host)
{
    return host->len == 16 ? HOST_V6_SIZE : HOST_V4_SIZE;
}

size_t rq_msg_encoded_size(const struct rq_msg *msg)
{
    size_t properties = properties_size(msg);
    if (msg->topic.n > RQ_MSG_TOPIC_MAX_V2 || properties > RQ_MSG_PROPERTIES_MAX ||
        msg->body.n > INT32_MAX / 2) {
        return 0;
    }
    size_t fixed = msg->topic.n > RQ_MSG_TOPIC_MAX_V1 ? RQ_MSG_SIZE_MIN + 1 : RQ_MSG_SIZE_MIN;
    return fixed + msg->body.n + msg->topic.n + properties + host_size(&msg->born_host) +
           host_size(&msg->store_host) - (size_t)2 * HOST_V4_SIZE;
}

static char *put32(char *w, int32_t v)
{
    rq_store_be32(w, (uint32_t)v);
    return w + 4;
}

static char *put64(char *w, int64_t v)
{
    rq_store_be64(w, (uint64_t)v);
    return w + 8;
}

static char *put_bytes(char *w, struct rq_slice s)
{
    if (s.n) {
        memcpy(w, s.p, s.n);
    }
    return w + s.n;
}

static char *put_host(char *w, const struct rq_host *host)
{
    size_t len = host->len == 16 ? 16 : 4;
    memcpy(w, host->addr, len);
    return put32(w + len, host->port);
}

static char *put_text_fields(const struct rq_msg *msg, char *w)
{
    if (msg->topic.n > RQ_MSG_TOPIC_MAX_V1) {
        rq_store_be16(w, (uint16_t)msg->topic.n);
        w += 2;
    } else {
        *w++ = (char)msg->topic.n;
    }
    w = put_bytes(w, msg->topic);
    size_t properties = properties_size(msg);
    rq_store_be16(w, (uint16_t)properties);
    w = put_bytes(w + 2, msg->properties);
    if (properties != msg->properties.n + msg->more_properties.n) {
        *w++ = '\x02';
    }
    return put_bytes(w, msg->more_properties);
}

void rq_msg_encode(const struct rq_msg *msg, size_t size, char *out)
{
    int32_t sys_flag = msg->sys_flag & ~(RQ_SYS_BORN_HOST_V6 | RQ_SYS_STORE_HOST_V6);
    sys_flag |= msg->born_host.len == 16 ? RQ_SYS_BORN_HOST_V6 : 0;
    sys_flag |= msg->store_host.len == 16 ? RQ_SYS_STORE_HOST_V6 : 0;
    char *w = put32(out, (int32_t)size);
    w = put32(w, msg->topic.n > RQ_MSG_TOPIC_MAX_V1 ? RQ_MSG_MAGIC_V2 : RQ_MSG_MAGIC_V1);
    w = put32(w, msg->body_crc);
    w = put32(w, msg->queue_id);
    w = put32(w, msg->flag);
    w = put64(w, msg->queue_offset);
    w = put64(w, msg->commit_log_offset);
    w = put32(w, sys_flag);
    w = put64(w, msg->born_timestamp_ms);
    w = put_host(w, &msg->born_host);
    w = put64(w, msg->store_timestamp_ms);
    w = put_host(w, &msg->store_host);
    w = put32(w, msg->reconsume_times);
    w = put64(w, msg->prepared_transaction_offset);
    w = put32(w, (int32_t)msg->body.n);
    w = put_bytes(w, msg->body);
    put_text_fields(msg, w);
}

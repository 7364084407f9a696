/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The stored message and the batch body. Pure functions, any thread. */
#include "wire/message.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"

#define CRC_MASK        0x7FFFFFFF
#define BATCH_ITEM_FIXED 22 /* size, magic, CRC, flag, body length: 4 each; properties length: 2 */

bool rq_msg_peek(const void *p, size_t n, int32_t *size, int32_t *magic)
{
    if (n < 8) {
        return false;
    }
    *size = (int32_t)rq_load_be32(p);
    *magic = (int32_t)rq_load_be32((const char *)p + RQ_MSG_AT_MAGIC);
    return *size >= 8;
}

static struct rq_host take_host(struct rq_cursor *c, bool v6)
{
    struct rq_host host = {.len = v6 ? 16 : 4};
    const char *p = rq_cursor_take(c, host.len);
    if (p) {
        memcpy(host.addr, p, host.len);
    }
    host.port = (int32_t)rq_cursor_be32(c);
    return host;
}

static int32_t take_i32(struct rq_cursor *c)
{
    return (int32_t)rq_cursor_be32(c);
}

static int64_t take_i64(struct rq_cursor *c)
{
    return (int64_t)rq_cursor_be64(c);
}

/* A length that is signed on the wire: a negative one is as bad as one that is too long. */
static struct rq_slice take_sized(struct rq_cursor *c, int64_t n)
{
    if (n < 0) {
        c->bad = true;
        return rq_slice(NULL, 0);
    }
    return rq_cursor_slice(c, (size_t)n);
}

static void decode_fields(struct rq_cursor *c, struct rq_msg *out)
{
    out->total_size = take_i32(c);
    out->magic = take_i32(c);
    out->body_crc = take_i32(c);
    out->queue_id = take_i32(c);
    out->flag = take_i32(c);
    out->queue_offset = take_i64(c);
    out->commit_log_offset = take_i64(c);
    out->sys_flag = take_i32(c);
    out->born_timestamp_ms = take_i64(c);
    out->born_host = take_host(c, out->sys_flag & RQ_SYS_BORN_HOST_V6);
    out->store_timestamp_ms = take_i64(c);
    out->store_host = take_host(c, out->sys_flag & RQ_SYS_STORE_HOST_V6);
    out->reconsume_times = take_i32(c);
    out->prepared_transaction_offset = take_i64(c);
    out->body = take_sized(c, take_i32(c));
    bool v2 = out->magic == RQ_MSG_MAGIC_V2;
    out->topic = take_sized(c, v2 ? (int16_t)rq_cursor_be16(c) : (int8_t)rq_cursor_u8(c));
    out->properties = take_sized(c, (int16_t)rq_cursor_be16(c));
    out->more_properties = rq_slice(NULL, 0);
}

rmq_status rq_msg_decode(struct rq_cursor *c, struct rq_msg *out, rmq_error **err)
{
    int32_t size = 0;
    int32_t magic = 0;
    size_t left = rq_cursor_left(c);
    if (c->bad || !rq_msg_peek(c->p, left, &size, &magic)) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "message: size missing or below 8 in %zu bytes", left);
    }
    if (magic != RQ_MSG_MAGIC_V1 && magic != RQ_MSG_MAGIC_V2) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "message: magic 0x%08x is unknown", (unsigned)magic);
    }
    if ((size_t)size > left) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "message: size %d, only %zu bytes are there", size, left);
    }
    struct rq_cursor own = rq_cursor(c->p, (size_t)size);
    decode_fields(&own, out);
    if (!rq_cursor_ok(&own) || rq_cursor_left(&own) != 0) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "message: its parts do not add up to its size %d", size);
    }
    rq_cursor_take(c, (size_t)size);
    return RMQ_OK;
}

int32_t rq_msg_body_crc(struct rq_slice body)
{
    return body.n ? (int32_t)(rq_crc32(0, body.p, body.n) & CRC_MASK) : 0;
}

bool rq_msg_crc_ok(const struct rq_msg *msg)
{
    return rq_msg_body_crc(msg->body) == msg->body_crc;
}

static bool is_v2(const struct rq_msg *msg)
{
    return msg->topic.n > RQ_MSG_TOPIC_MAX_V1;
}

/* Whether a separator must be put between the two parts of the properties. */
static size_t joint(const struct rq_msg *msg)
{
    return msg->properties.n && msg->more_properties.n &&
                   msg->properties.p[msg->properties.n - 1] != '\x02'
               ? 1
               : 0;
}

static size_t properties_size(const struct rq_msg *msg)
{
    return msg->properties.n + joint(msg) + msg->more_properties.n;
}

size_t rq_msg_encoded_size(const struct rq_msg *msg)
{
    if (msg->topic.n > RQ_MSG_TOPIC_MAX_V2 || msg->properties.n > RQ_MSG_PROPERTIES_MAX ||
        properties_size(msg) > RQ_MSG_PROPERTIES_MAX || msg->body.n > INT32_MAX / 2) {
        return 0;
    }
    return RQ_MSG_SIZE_MIN + (msg->born_host.len == 16 ? 12u : 0u) + (msg->store_host.len == 16 ? 12u : 0u) +
           (is_v2(msg) ? 1u : 0u) + msg->body.n + msg->topic.n + properties_size(msg);
}

static char *put32(char *p, int32_t v)
{
    rq_store_be32(p, (uint32_t)v);
    return p + 4;
}

static char *put64(char *p, int64_t v)
{
    rq_store_be64(p, (uint64_t)v);
    return p + 8;
}

static char *put_bytes(char *p, struct rq_slice s)
{
    if (s.n) {
        memcpy(p, s.p, s.n);
    }
    return p + s.n;
}

static char *put_host(char *p, const struct rq_host *host)
{
    size_t n = host->len == 16 ? 16 : 4;
    memcpy(p, host->addr, n);
    return put32(p + n, host->port);
}

static int32_t sys_flag_of(const struct rq_msg *msg)
{
    int32_t flag = msg->sys_flag & ~(RQ_SYS_BORN_HOST_V6 | RQ_SYS_STORE_HOST_V6);
    flag |= msg->born_host.len == 16 ? RQ_SYS_BORN_HOST_V6 : 0;
    return flag | (msg->store_host.len == 16 ? RQ_SYS_STORE_HOST_V6 : 0);
}

void rq_msg_encode(const struct rq_msg *msg, size_t size, char *out)
{
    char *p = put32(out, (int32_t)size);
    p = put32(p, is_v2(msg) ? RQ_MSG_MAGIC_V2 : RQ_MSG_MAGIC_V1);
    p = put32(p, msg->body_crc);
    p = put32(p, msg->queue_id);
    p = put32(p, msg->flag);
    p = put64(p, msg->queue_offset);
    p = put64(p, msg->commit_log_offset);
    p = put32(p, sys_flag_of(msg));
    p = put64(p, msg->born_timestamp_ms);
    p = put_host(p, &msg->born_host);
    p = put64(p, msg->store_timestamp_ms);
    p = put_host(p, &msg->store_host);
    p = put32(p, msg->reconsume_times);
    p = put64(p, msg->prepared_transaction_offset);
    p = put32(p, (int32_t)msg->body.n);
    p = put_bytes(p, msg->body);
    if (is_v2(msg)) {
        rq_store_be16(p, (uint16_t)msg->topic.n);
        p += 2;
    } else {
        *p++ = (char)msg->topic.n;
    }
    p = put_bytes(p, msg->topic);
    rq_store_be16(p, (uint16_t)properties_size(msg));
    p = put_bytes(p + 2, msg->properties);
    if (joint(msg)) {
        *p++ = '\x02';
    }
    put_bytes(p, msg->more_properties);
}

void rq_msg_patch_place(char *msg, int64_t queue_offset, int64_t commit_log_offset)
{
    put64(msg + RQ_MSG_AT_QUEUE_OFFSET, queue_offset);
    put64(msg + RQ_MSG_AT_COMMIT_LOG_OFFSET, commit_log_offset);
}

void rq_msg_patch_store_timestamp(char *msg, int64_t store_timestamp_ms)
{
    int32_t sys_flag = (int32_t)rq_load_be32(msg + RQ_MSG_AT_SYS_FLAG);
    put64(msg + RQ_MSG_AT_STORE_TIMESTAMP + (sys_flag & RQ_SYS_BORN_HOST_V6 ? 12 : 0), store_timestamp_ms);
}

size_t rq_msg_body_len_at(int32_t sys_flag)
{
    return 84 + (sys_flag & RQ_SYS_BORN_HOST_V6 ? 12u : 0u) + (sys_flag & RQ_SYS_STORE_HOST_V6 ? 12u : 0u);
}

rmq_status rq_batch_next(struct rq_cursor *c, struct rq_batch_item *item, rmq_error **err)
{
    if (rq_cursor_ok(c) && rq_cursor_left(c) == 0) {
        return RMQ_ERR_NOT_FOUND;
    }
    size_t left = rq_cursor_left(c);
    int32_t size = take_i32(c);
    if (!rq_cursor_ok(c) || size < BATCH_ITEM_FIXED || (size_t)size > left) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "batch: item size %d, %zu bytes are left", size, left);
    }
    struct rq_cursor own = rq_cursor(c->p, (size_t)size - 4);
    rq_cursor_take(&own, 8);
    item->flag = take_i32(&own);
    item->body = take_sized(&own, take_i32(&own));
    item->properties = take_sized(&own, (int16_t)rq_cursor_be16(&own));
    if (!rq_cursor_ok(&own) || rq_cursor_left(&own) != 0) {
        c->bad = true;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "batch: the parts of an item do not add up to its size %d",
                            size);
    }
    rq_cursor_take(c, (size_t)size - 4);
    return RMQ_OK;
}

size_t rq_batch_item_size(const struct rq_batch_item *item)
{
    return BATCH_ITEM_FIXED + item->body.n + item->properties.n;
}

rmq_status rq_batch_add(struct rq_buf *out, const struct rq_batch_item *item)
{
    size_t size = rq_batch_item_size(item);
    if (item->properties.n > RQ_MSG_PROPERTIES_MAX || size > INT32_MAX) {
        out->status = out->status ? out->status : RMQ_ERR_TOO_LARGE;
    }
    rq_buf_add_be32(out, (uint32_t)size);
    rq_buf_add_be32(out, 0);
    rq_buf_add_be32(out, 0);
    rq_buf_add_be32(out, (uint32_t)item->flag);
    rq_buf_add_be32(out, (uint32_t)item->body.n);
    rq_buf_add_slice(out, item->body);
    rq_buf_add_be16(out, (uint16_t)item->properties.n);
    rq_buf_add_slice(out, item->properties);
    return rq_buf_status(out);
}

rmq_status rq_host_parse(struct rq_slice text, struct rq_host *out, rmq_error **err)
{
    char ip[RQ_HOST_TEXT];
    const char *colon = text.n ? memrchr(text.p, ':', text.n) : NULL;
    size_t n = colon ? (size_t)(colon - text.p) : 0;
    bool brackets = n > 2 && text.p[0] == '[' && text.p[n - 1] == ']';
    struct rq_slice host = brackets ? rq_slice(text.p + 1, n - 2) : rq_slice(text.p, n);
    int32_t port = -1;
    *out = (struct rq_host){.len = brackets ? 16 : 4};
    bool good = colon && host.n && host.n < sizeof ip &&
                rq_slice_to_i32(rq_slice(colon + 1, text.n - n - 1), &port) && port >= 0 && port <= 65535;
    if (good) {
        memcpy(ip, host.p, host.n);
        ip[host.n] = '\0';
        good = inet_pton(brackets ? AF_INET6 : AF_INET, ip, out->addr) == 1;
    }
    if (!good) {
        return rq_error_set(err, RMQ_ERR_INVALID, "\"%.*s\" is no numeric address and port",
                            (int)(text.n < 100 ? text.n : 100), text.p ? text.p : "");
    }
    out->port = port;
    return RMQ_OK;
}

size_t rq_host_text(const struct rq_host *host, char out[RQ_HOST_TEXT])
{
    char ip[INET6_ADDRSTRLEN] = "";
    inet_ntop(host->len == 16 ? AF_INET6 : AF_INET, host->addr, ip, sizeof ip);
    int n = snprintf(out, RQ_HOST_TEXT, host->len == 16 ? "[%s]:%d" : "%s:%d", ip, host->port);
    return n > 0 ? (size_t)n : 0;
}

bool rq_host_equal(const struct rq_host *a, const struct rq_host *b)
{
    return a->len == b->len && a->port == b->port && memcmp(a->addr, b->addr, a->len) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Records of the commit log, written and checked. Pure functions, any thread. */
#include "store/record.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "wire/properties.h"

#define HOST_V4_BYTES 8
#define HOST_V6_BYTES 20
#define BODY_CRC_MASK 0x7FFFFFFFu

static enum rq_put_status refuse(char reason[RQ_PUT_REASON_MAX], enum rq_put_status st,
                                 const char *what, size_t have, size_t limit)
{
    snprintf(reason, RQ_PUT_REASON_MAX, "%s: %zu bytes, limit %zu", what, have, limit);
    return st;
}

static enum rq_put_status check_topic_and_body(const struct rq_store_options *options,
                                               const struct rq_msg *msg, size_t body_max,
                                               char *reason)
{
    size_t topic_max =
        options->auto_message_version_on_topic_len ? RQ_RECORD_TOPIC_MAX : RQ_MSG_TOPIC_MAX_V1;
    if (msg->topic.n == 0 || msg->topic.n > topic_max || msg->topic.p[0] == '.' ||
        memchr(msg->topic.p, '/', msg->topic.n) || memchr(msg->topic.p, '\0', msg->topic.n)) {
        return refuse(reason, RQ_PUT_MESSAGE_ILLEGAL, "topic not usable", msg->topic.n, topic_max);
    }
    if (!msg->body.p || msg->body.n > body_max) {
        return refuse(reason, RQ_PUT_MESSAGE_ILLEGAL, msg->body.p ? "body too large" : "no body",
                      msg->body.n, body_max);
    }
    if (msg->queue_id < 0) {
        snprintf(reason, RQ_PUT_REASON_MAX, "queue id %d is negative", msg->queue_id);
        return RQ_PUT_MESSAGE_ILLEGAL;
    }
    return RQ_PUT_OK;
}

/* Room for the CRC property. */
static void plan_tail(const struct rq_msg *msg, size_t size, struct rq_record_plan *plan)
{
    struct rq_msg bare = *msg;
    bare.properties = bare.more_properties = rq_slice(NULL, 0);
    struct rq_slice last = msg->more_properties.n > 0 ? msg->more_properties : msg->properties;
    bool separated = last.n == 0 || last.p[last.n - 1] == RQ_PROP_VALUE_END;
    plan->properties = (uint16_t)(size - rq_msg_encoded_size(&bare));
    plan->tail = RQ_RECORD_CRC_BYTES + !separated;
}

enum rq_put_status rq_record_plan(const struct rq_store_options *options, const struct rq_msg *msg,
                                  size_t body_max, struct rq_record_plan *plan,
                                  char reason[RQ_PUT_REASON_MAX])
{
    enum rq_put_status st = check_topic_and_body(options, msg, body_max, reason);
    if (st != RQ_PUT_OK) {
        return st;
    }
    size_t size = rq_msg_encoded_size(msg);
    size_t limit = body_max + RQ_RECORD_EXTRA_BYTES;
    if (size == 0) { /* topic and body were looked at, so it is the properties */
        return refuse(reason, RQ_PUT_PROPERTIES_SIZE_EXCEEDED, "properties too large",
                      msg->properties.n + msg->more_properties.n, RQ_MSG_PROPERTIES_MAX);
    }
    plan->properties = plan->tail = 0;
    if (options->enabled_append_prop_crc) {
        plan_tail(msg, size, plan);
        size += plan->tail;
        if (plan->properties + plan->tail > RQ_MSG_PROPERTIES_MAX) {
            return refuse(reason, RQ_PUT_PROPERTIES_SIZE_EXCEEDED, "properties too large",
                          (size_t)plan->properties + plan->tail, RQ_MSG_PROPERTIES_MAX);
        }
    }
    if (size > limit) {
        return refuse(reason, RQ_PUT_MESSAGE_ILLEGAL, "message too large", size, limit);
    }
    plan->size = (uint32_t)size;
    plan->body_crc = rq_msg_body_crc(msg->body);
    return RQ_PUT_OK;
}

/* The digits come lowest first. */
static void write_crc(char *to, const struct rq_record_plan *plan)
{
    char *tail = to + plan->size - RQ_RECORD_CRC_BYTES;
    size_t name = sizeof RQ_RECORD_CRC_NAME - 1;
    rq_store_be32(to, plan->size);
    rq_store_be16(to + plan->size - plan->tail - plan->properties - 2,
                  (uint16_t)(plan->properties + plan->tail));
    if (plan->tail > RQ_RECORD_CRC_BYTES) {
        tail[-1] = RQ_PROP_VALUE_END;
    }
    uint32_t crc = rq_crc32(0, to, plan->size - RQ_RECORD_CRC_BYTES) & BODY_CRC_MASK;
    memcpy(tail, RQ_RECORD_CRC_NAME, name);
    tail[name] = RQ_PROP_NAME_END;
    for (size_t i = name + 1; i + 1 < RQ_RECORD_CRC_BYTES; i++, crc /= 10) {
        tail[i] = (char)('0' + crc % 10);
    }
    tail[RQ_RECORD_CRC_BYTES - 1] = RQ_PROP_VALUE_END;
}

bool rq_record_crc_ok(const char *p, const struct rq_record *record)
{
    struct rq_slice digits = rq_props_get(record->properties, RQ_RECORD_CRC_NAME);
    uint64_t expected = 0;
    if (digits.n != 10 || record->size <= RQ_RECORD_CRC_BYTES) {
        return false;
    }
    for (size_t i = digits.n; i-- > 0;) {
        if (digits.p[i] < '0' || digits.p[i] > '9') {
            return false;
        }
        expected = expected * 10 + (uint64_t)(digits.p[i] - '0');
    }
    return expected == (rq_crc32(0, p, record->size - RQ_RECORD_CRC_BYTES) & BODY_CRC_MASK);
}

void rq_record_write(char *to, const struct rq_msg *msg, const struct rq_record_plan *plan,
                     int64_t queue_offset, int64_t commit_log_offset, int64_t store_timestamp)
{
    struct rq_msg placed = *msg;
    placed.body_crc = plan->body_crc;
    placed.queue_offset = queue_offset;
    placed.commit_log_offset = commit_log_offset;
    placed.store_timestamp_ms = store_timestamp;
    /* The size comes last: a process that is killed in here leaves no record, not one whose
     * properties are cut. */
    rq_msg_encode(&placed, 0, to);
    if (plan->tail > 0) {
        write_crc(to, plan);
    }
    atomic_thread_fence(memory_order_release);
    rq_store_be32(to, plan->size);
}

void rq_record_write_blank(char *to, uint32_t n)
{
    rq_store_be32(to, n);
    rq_store_be32(to + RQ_MSG_AT_MAGIC, RQ_RECORD_MAGIC_BLANK);
}

/* The fields between magic and body. */
static uint32_t read_fixed(struct rq_cursor *c, struct rq_record *out)
{
    uint32_t crc = rq_cursor_be32(c);
    out->queue_id = (int32_t)rq_cursor_be32(c);
    rq_cursor_take(c, 4); /* flag */
    out->queue_offset = (int64_t)rq_cursor_be64(c);
    out->commit_log_offset = (int64_t)rq_cursor_be64(c);
    out->sys_flag = (int32_t)rq_cursor_be32(c);
    rq_cursor_take(c, 8); /* born time */
    rq_cursor_take(c, out->sys_flag & RQ_SYS_BORN_HOST_V6 ? HOST_V6_BYTES : HOST_V4_BYTES);
    out->store_timestamp = (int64_t)rq_cursor_be64(c);
    rq_cursor_take(c, out->sys_flag & RQ_SYS_STORE_HOST_V6 ? HOST_V6_BYTES : HOST_V4_BYTES);
    rq_cursor_take(c, 4); /* reconsume times */
    out->prepared_transaction_offset = (int64_t)rq_cursor_be64(c);
    return crc;
}

size_t rq_record_bytes(const char *p, size_t n, size_t left)
{
    if (n < RQ_RECORD_BLANK_BYTES) {
        return 0;
    }
    size_t size = rq_load_be32(p);
    uint32_t magic = rq_load_be32(p + RQ_MSG_AT_MAGIC);
    if (magic == RQ_RECORD_MAGIC_BLANK) {
        return RQ_RECORD_BLANK_BYTES;
    }
    if ((magic != RQ_RECORD_MAGIC_V1 && magic != RQ_RECORD_MAGIC_V2) || size > left) {
        return 0;
    }
    struct rq_record fixed;
    struct rq_cursor c = rq_cursor(p + RQ_RECORD_BLANK_BYTES, n - RQ_RECORD_BLANK_BYTES);
    read_fixed(&c, &fixed);
    size_t body = rq_cursor_be32(&c);
    /* Behind the body stand topic and properties, and the size of each. */
    bool fits = rq_cursor_ok(&c) && body <= size && size - body <= n + 2 * (UINT16_MAX + 2);
    return fits ? size : 0;
}

bool rq_record_is_message(const char *p, size_t n, int32_t queue_id, int64_t number)
{
    size_t head = n < RQ_RECORD_HEAD_MAX ? n : RQ_RECORD_HEAD_MAX;
    return n > RQ_RECORD_BLANK_BYTES && rq_record_bytes(p, head, n) == n &&
           (int32_t)rq_load_be32(p + RQ_MSG_AT_QUEUE_ID) == queue_id &&
           (int64_t)rq_load_be64(p + RQ_MSG_AT_QUEUE_OFFSET) == number;
}

enum rq_record_kind rq_record_read(const char *p, size_t left, bool check_crc,
                                   struct rq_record *out)
{
    if (left < RQ_RECORD_BLANK_BYTES) {
        return RQ_RECORD_BAD;
    }
    out->size = rq_load_be32(p);
    uint32_t magic = rq_load_be32(p + RQ_MSG_AT_MAGIC);
    if (out->size > left || out->size < RQ_RECORD_BLANK_BYTES) {
        return RQ_RECORD_BAD;
    }
    if (magic != RQ_RECORD_MAGIC_V1 && magic != RQ_RECORD_MAGIC_V2) {
        return magic == RQ_RECORD_MAGIC_BLANK ? RQ_RECORD_BLANK : RQ_RECORD_BAD;
    }
    struct rq_cursor c = rq_cursor(p + RQ_RECORD_BLANK_BYTES, out->size - RQ_RECORD_BLANK_BYTES);
    uint32_t crc = read_fixed(&c, out);
    out->body = rq_cursor_slice(&c, rq_cursor_be32(&c));
    size_t topic_size = magic == RQ_RECORD_MAGIC_V2 ? rq_cursor_be16(&c) : rq_cursor_u8(&c);
    out->topic = rq_cursor_slice(&c, topic_size);
    out->properties = rq_cursor_slice(&c, rq_cursor_be16(&c));
    if (!rq_cursor_ok(&c) || rq_cursor_left(&c) > 0 || out->queue_id < 0 || topic_size == 0) {
        return RQ_RECORD_BAD;
    }
    if (check_crc && (rq_crc32(0, out->body.p, out->body.n) & BODY_CRC_MASK) != crc) {
        return RQ_RECORD_BAD;
    }
    return RQ_RECORD_GOOD;
}

static void note_property(struct rq_slice name, struct rq_slice value,
                          struct rq_record_properties *out)
{
    if (rq_slice_eq(name, rq_slice("TAGS", 4))) {
        out->tags = value;
    } else if (rq_slice_eq(name, rq_slice("KEYS", 4))) {
        out->keys = value;
    } else if (rq_slice_eq(name, rq_slice("DELAY", 5))) {
        out->delay = value;
    } else if (rq_slice_eq(name, rq_slice("UNIQ_KEY", 8))) {
        out->unique_key = value;
    }
}

void rq_record_properties(struct rq_slice properties, struct rq_record_properties *out)
{
    *out = (struct rq_record_properties){0};
    const char *p = properties.p;
    const char *end = p + properties.n;
    while (p < end) {
        const char *stop = memchr(p, RQ_PROP_VALUE_END, (size_t)(end - p));
        stop = stop ? stop : end;
        const char *split = memchr(p, RQ_PROP_NAME_END, (size_t)(stop - p));
        if (split && split > p && split + 1 < stop) {
            note_property(rq_slice(p, (size_t)(split - p)),
                          rq_slice(split + 1, (size_t)(stop - split - 1)), out);
        }
        p = stop < end ? stop + 1 : end;
    }
}

bool rq_record_next_key(struct rq_slice *keys, struct rq_slice *out)
{
    while (keys->n > 0 && *keys->p == ' ') {
        keys->p++;
        keys->n--;
    }
    if (keys->n == 0) {
        return false;
    }
    const char *blank = memchr(keys->p, ' ', keys->n);
    size_t n = blank ? (size_t)(blank - keys->p) : keys->n;
    *out = rq_slice(keys->p, n);
    keys->p += n;
    keys->n -= n;
    return true;
}

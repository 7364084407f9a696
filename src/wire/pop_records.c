/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Records of the revive topic and the body of a batch acknowledgement (see wire/pop.h), as the Java
 * side's JSON has them: members in the order of their names, short or long ones when reading. Pure
 * functions.
 */
#include <string.h>

#include "base/base64.h"
#include "wire/pop.h"

static void add_text(struct rq_buf *out, bool *first, const char *name, struct rq_slice text)
{
    rq_json_add_member(out, first, name);
    rq_json_add_string(out, text);
}

static void add_number(struct rq_buf *out, bool *first, const char *name, int64_t value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_i64(out, value);
}

static bool read_text(const cJSON *json, const char *name, const char *long_name,
                      struct rq_slice *out)
{
    const char *text = rq_json_str(json, name, NULL);
    if (!text && long_name) {
        text = rq_json_str(json, long_name, NULL);
    }
    *out = rq_slice_str(text);
    return text != NULL;
}

static int64_t read_number(const cJSON *json, const char *name, const char *long_name, int64_t def)
{
    return rq_json_i64(json, name, rq_json_i64(json, long_name, def));
}

static bool read_queue_id(const cJSON *json, const char *name, const char *long_name, int32_t *out)
{
    int64_t value = read_number(json, name, long_name, -1);
    *out = (int32_t)value;
    return value >= 0 && value <= INT32_MAX;
}

/* ---- checkpoints ---- */

void rq_pop_checkpoint_write(const struct rq_pop_checkpoint *checkpoint, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    add_number(out, &first, "bm", (int32_t)checkpoint->acked);
    add_text(out, &first, "bn", checkpoint->broker_name);
    add_text(out, &first, "c", checkpoint->group);
    rq_json_add_member(out, &first, "d");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < checkpoint->count; i++) {
        rq_buf_addf(out, i ? ",%d" : "%d", (int)checkpoint->diffs[i]);
    }
    rq_buf_add_char(out, ']');
    add_number(out, &first, "it", checkpoint->invisible_ms);
    add_number(out, &first, "n", checkpoint->count);
    add_number(out, &first, "pt", checkpoint->pop_time_ms);
    add_number(out, &first, "q", checkpoint->queue_id);
    add_number(out, &first, "reviveTime", checkpoint->pop_time_ms + checkpoint->invisible_ms);
    add_number(out, &first, "ro", 0);
    add_number(out, &first, "so", checkpoint->start_offset);
    add_text(out, &first, "t", checkpoint->topic);
    rq_buf_add_char(out, '}');
}

/* Without a list the messages are neighbours, as very old brokers wrote it. */
static bool read_diffs(const cJSON *json, struct rq_pop_checkpoint *out)
{
    const cJSON *list = rq_json_get(json, "d");
    int count = list && cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    for (int32_t i = 0; i < out->count; i++) {
        int64_t diff = i;
        if (count > 0 && (i >= count || !rq_json_value_i64(cJSON_GetArrayItem(list, i), &diff))) {
            return false;
        }
        if (diff < 0 || diff > INT32_MAX) {
            return false;
        }
        out->diffs[i] = (int32_t)diff;
    }
    return true;
}

rmq_status rq_pop_checkpoint_read(const cJSON *json, struct rq_pop_checkpoint *out)
{
    memset(out, 0, sizeof *out);
    int64_t count = rq_json_i64(json, "n", -1);
    out->acked = (uint32_t)rq_json_i64(json, "bm", 0);
    out->start_offset = rq_json_i64(json, "so", -1);
    out->pop_time_ms = rq_json_i64(json, "pt", -1);
    out->invisible_ms = rq_json_i64(json, "it", -1);
    if (!read_text(json, "t", NULL, &out->topic) || !read_text(json, "c", NULL, &out->group) ||
        !read_queue_id(json, "q", "q", &out->queue_id) || count < 0 || count > RQ_POP_MAX ||
        !rq_pop_number_ok(out->start_offset) || !rq_pop_number_ok(out->pop_time_ms) ||
        !rq_pop_number_ok(out->invisible_ms)) {
        return RMQ_ERR_PROTOCOL;
    }
    (void)read_text(json, "bn", NULL, &out->broker_name);
    out->count = (uint8_t)count;
    return read_diffs(json, out) ? RMQ_OK : RMQ_ERR_PROTOCOL;
}

/* ---- acknowledgements ---- */

void rq_pop_ack_write(const struct rq_pop_ack *ack, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    add_number(out, &first, "ao", ack->count ? -1 : ack->offset);
    if (ack->count) {
        rq_json_add_member(out, &first, "aol");
        rq_buf_add_char(out, '[');
        for (size_t i = 0; i < ack->count; i++) {
            rq_buf_addf(out, i ? ",%lld" : "%lld", (long long)ack->offsets[i]);
        }
        rq_buf_add_char(out, ']');
    }
    add_text(out, &first, "bn", ack->broker_name);
    add_text(out, &first, "c", ack->group);
    add_number(out, &first, "pt", ack->pop_time_ms);
    add_number(out, &first, "q", ack->queue_id);
    add_number(out, &first, "so", ack->start_offset);
    add_text(out, &first, "t", ack->topic);
    rq_buf_add_char(out, '}');
}

rmq_status rq_pop_ack_read(const cJSON *json, struct rq_pop_ack *out)
{
    memset(out, 0, sizeof *out);
    out->offset = read_number(json, "ao", "ackOffset", -1);
    out->start_offset = read_number(json, "so", "startOffset", -1);
    out->pop_time_ms = read_number(json, "pt", "popTime", -1);
    (void)read_text(json, "bn", "brokerName", &out->broker_name);
    return read_text(json, "t", "topic", &out->topic) &&
                   read_text(json, "c", "consumerGroup", &out->group) &&
                   read_queue_id(json, "q", "queueId", &out->queue_id)
               ? RMQ_OK
               : RMQ_ERR_PROTOCOL;
}

const cJSON *rq_pop_ack_offsets(const cJSON *json)
{
    const cJSON *list = rq_json_get(json, "aol");
    list = list ? list : rq_json_get(json, "ackOffsetList");
    return list && cJSON_IsArray(list) && list->child ? list : NULL;
}

/* ---- batches: the bit set is bytes in base64 ---- */

void rq_pop_batch_ack_write(const struct rq_pop_batch_ack *ack, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "b");
    rq_buf_add_char(out, '"');
    rq_base64_add(out, ack->bits, RQ_BASE64);
    rq_buf_add_char(out, '"');
    add_text(out, &first, "c", ack->group);
    add_number(out, &first, "it", ack->invisible_ms);
    add_number(out, &first, "pt", ack->pop_time_ms);
    add_number(out, &first, "q", ack->queue_id);
    add_text(out, &first, "r", rq_slice(&ack->retry, 1));
    add_number(out, &first, "rq", ack->revive_qid);
    add_number(out, &first, "so", ack->start_offset);
    add_text(out, &first, "t", ack->topic);
    rq_buf_add_char(out, '}');
}

rmq_status rq_pop_batch_ack_read(const cJSON *json, struct rq_buf *bits,
                                 struct rq_pop_batch_ack *out)
{
    struct rq_slice retry;
    struct rq_slice text;
    memset(out, 0, sizeof *out);
    if (!read_text(json, "c", "consumerGroup", &out->group) ||
        !read_text(json, "t", "topic", &out->topic) || !read_text(json, "r", "retry", &retry) ||
        retry.n != 1 || !read_text(json, "b", "bitSet", &text) ||
        !read_queue_id(json, "q", "queueId", &out->queue_id) ||
        !read_queue_id(json, "rq", "reviveQueueId", &out->revive_qid)) {
        return RMQ_ERR_PROTOCOL;
    }
    out->retry = retry.p[0];
    out->start_offset = read_number(json, "so", "startOffset", -1);
    out->pop_time_ms = read_number(json, "pt", "popTime", -1);
    out->invisible_ms = read_number(json, "it", "invisibleTime", -1);
    if (!rq_base64_read(text, RQ_BASE64, bits) || out->start_offset < 0) {
        return RMQ_ERR_PROTOCOL;
    }
    out->bits = rq_slice(bits->data, bits->len);
    return RMQ_OK;
}

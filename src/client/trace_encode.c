/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Trace records as text (see the header). */
#include "client/trace_encode.h"

#include <string.h>

#define FIELD_END  '\001'
#define RECORD_END '\002'

/* A separator inside a value would make two fields of it. */
static void add_field(struct rq_buf *out, struct rq_slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        rq_buf_add_char(out, c == FIELD_END || c == RECORD_END ? ' ' : c);
    }
    rq_buf_add_char(out, FIELD_END);
}

static void add_number(struct rq_buf *out, int64_t value)
{
    rq_buf_add_i64(out, value);
    rq_buf_add_char(out, FIELD_END);
}

static void add_bool(struct rq_buf *out, bool value)
{
    rq_buf_add_str(out, value ? "true\001" : "false\001");
}

/* The last field of a record has no end of its own. */
static void end_record(struct rq_buf *out)
{
    if (out->len > 0 && rq_buf_status(out) == RMQ_OK) {
        out->data[out->len - 1] = RECORD_END;
    }
}

void rq_trace_write_pub(struct rq_buf *out, const struct rq_trace_pub *record)
{
    rq_buf_add_str(out, "Pub\001");
    add_number(out, record->time_ms);
    add_field(out, record->region);
    add_field(out, record->group);
    add_field(out, record->topic);
    add_field(out, record->msg_id);
    add_field(out, record->tags);
    add_field(out, record->keys);
    add_field(out, record->store_host);
    add_number(out, (int64_t)record->body_size);
    add_number(out, record->cost_ms);
    add_number(out, record->kind);
    add_field(out, record->offset_msg_id);
    add_bool(out, record->success);
    end_record(out);
}

void rq_trace_write_before(struct rq_buf *out, const struct rq_trace_sub *record)
{
    rq_buf_add_str(out, "SubBefore\001");
    add_number(out, record->time_ms);
    add_field(out, record->region);
    add_field(out, record->group);
    add_field(out, record->request_id);
    add_field(out, record->msg_id);
    add_number(out, record->retries);
    add_field(out, record->keys);
    end_record(out);
}

void rq_trace_write_after(struct rq_buf *out, const struct rq_trace_sub *record)
{
    rq_buf_add_str(out, "SubAfter\001");
    add_field(out, record->request_id);
    add_field(out, record->msg_id);
    add_number(out, record->cost_ms);
    add_bool(out, record->success);
    add_field(out, record->keys);
    add_number(out, record->outcome);
    add_number(out, record->time_ms);
    add_field(out, record->group);
    end_record(out);
}

void rq_trace_write_end(struct rq_buf *out, const struct rq_trace_end *record)
{
    rq_buf_add_str(out, "EndTransaction\001");
    add_number(out, record->time_ms);
    add_field(out, record->region);
    add_field(out, record->group);
    add_field(out, record->topic);
    add_field(out, record->msg_id);
    add_field(out, record->tags);
    add_field(out, record->keys);
    add_field(out, record->store_host);
    add_number(out, record->kind);
    add_field(out, record->transaction_id);
    add_field(out, record->state);
    add_bool(out, record->from_check);
    end_record(out);
}

static bool has_word(const struct rq_buf *keys, const char *word, size_t n)
{
    const char *p = keys->data;
    const char *end = p + keys->len;
    while (p < end) {
        const char *blank = memchr(p, ' ', (size_t)(end - p));
        const char *stop = blank ? blank : end;
        if ((size_t)(stop - p) == n && memcmp(p, word, n) == 0) {
            return true;
        }
        p = stop + 1;
    }
    return false;
}

void rq_trace_add_keys(struct rq_buf *keys, struct rq_slice words)
{
    const char *p = words.p;
    const char *end = p + words.n;
    while (p < end) {
        const char *blank = memchr(p, ' ', (size_t)(end - p));
        const char *stop = blank ? blank : end;
        size_t n = (size_t)(stop - p);
        if (n > 0 && !(keys->len > 0 && has_word(keys, p, n))) {
            if (keys->len > 0) {
                rq_buf_add_char(keys, ' ');
            }
            rq_buf_add(keys, p, n);
        }
        p = stop + 1;
    }
}

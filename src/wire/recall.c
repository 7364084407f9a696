/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Recall handles (see the header), written by brokers and read by both sides. */
#include "wire/recall.h"

#include <string.h>

#include "base/base64.h"

#define PARTS 5

void rq_recall_handle_write(const struct rq_recall_handle *handle, struct rq_buf *out)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_buf_add_str(&text, "v1 ");
    rq_buf_add_slice(&text, handle->topic);
    rq_buf_add_char(&text, ' ');
    rq_buf_add_slice(&text, handle->broker_name);
    rq_buf_add_char(&text, ' ');
    rq_buf_add_i64(&text, handle->time_ms);
    rq_buf_add_char(&text, ' ');
    rq_buf_add_slice(&text, handle->message_id);
    if (rq_buf_status(&text) == RMQ_OK) {
        rq_base64_add(out, rq_slice(text.data, text.len), RQ_BASE64_URL);
    } else {
        out->status = rq_buf_status(&text);
    }
    rq_buf_free(&text);
}

bool rq_recall_handle_read(struct rq_slice handle, struct rq_buf *text,
                           struct rq_recall_handle *out)
{
    struct rq_slice parts[PARTS] = {{0}};
    size_t count = 0;
    if (!rq_base64_read(handle, RQ_BASE64_URL, text)) {
        return false;
    }
    const char *p = text->data;
    const char *end = p + text->len;
    while (p && p < end && count < PARTS) {
        const char *blank = memchr(p, ' ', (size_t)(end - p));
        size_t n = blank ? (size_t)(blank - p) : (size_t)(end - p);
        parts[count++] = rq_slice(p, n);
        p += n + 1;
    }
    *out = (struct rq_recall_handle){
        .topic = parts[1], .broker_name = parts[2], .message_id = parts[4]};
    return count == PARTS && rq_slice_eq_str(parts[0], "v1") &&
           rq_slice_to_i64(parts[3], &out->time_ms);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Recall handles (see the header), written by brokers and read by both sides. */
#include "wire/recall.h"

#include <string.h>

#define PARTS 5

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void add_base64(struct rq_slice in, struct rq_buf *out)
{
    for (size_t i = 0; i < in.n; i += 3) {
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++) {
            group = group << 8 | (i + k < in.n ? (uint8_t)in.p[i + k] : 0);
        }
        rq_buf_add_char(out, alphabet[group >> 18 & 63]);
        rq_buf_add_char(out, alphabet[group >> 12 & 63]);
        rq_buf_add_char(out, i + 1 < in.n ? alphabet[group >> 6 & 63] : '=');
        rq_buf_add_char(out, i + 2 < in.n ? alphabet[group & 63] : '=');
    }
}

static bool read_base64(struct rq_slice in, struct rq_buf *out)
{
    uint32_t bits = 0;
    int count = 0;
    while (in.n && in.p[in.n - 1] == '=') {
        in.n--;
    }
    for (size_t i = 0; i < in.n; i++) {
        const char *found = in.p[i] ? strchr(alphabet, in.p[i]) : NULL;
        if (!found) {
            return false;
        }
        bits = bits << 6 | (uint32_t)(found - alphabet);
        count += 6;
        if (count >= 8) {
            count -= 8;
            rq_buf_add_char(out, (char)(bits >> count & 0xFF));
        }
    }
    return rq_buf_status(out) == RMQ_OK;
}

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
    add_base64(rq_slice(text.data, text.len), out);
    rq_buf_free(&text);
}

bool rq_recall_handle_read(struct rq_slice handle, struct rq_buf *text,
                           struct rq_recall_handle *out)
{
    struct rq_slice parts[PARTS] = {{0}};
    size_t count = 0;
    if (!read_base64(handle, text)) {
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

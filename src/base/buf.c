/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The growing buffer: doubles from 256 bytes, never beyond its limit. Owned by one thread at a
 * time. */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"

#define FIRST_CAPACITY 256

void rq_buf_init(struct rq_buf *buf, size_t max)
{
    *buf = (struct rq_buf){.max = max ? max : RQ_BUF_MAX_DEFAULT};
}

void rq_buf_init_over(struct rq_buf *buf, char *memory, size_t cap, size_t max)
{
    rq_buf_init(buf, max);
    buf->data = memory;
    buf->cap = cap;
    buf->borrowed = true;
}

static void forget(struct rq_buf *buf)
{
    buf->data = NULL;
    buf->len = 0;
    buf->cap = 0;
    buf->borrowed = false;
}

void rq_buf_free(struct rq_buf *buf)
{
    if (!buf->borrowed) {
        rq_free(buf->data);
    }
    forget(buf);
}

/* Memory of its own with the present bytes in it; NULL when there is none. */
static char *move_out(struct rq_buf *buf, size_t cap)
{
    if (!buf->borrowed) {
        return rq_realloc(buf->data, cap);
    }
    char *data = rq_alloc(cap);
    if (data && buf->len > 0) {
        memcpy(data, buf->data, buf->len);
    }
    return data;
}

void rq_buf_clear(struct rq_buf *buf)
{
    buf->len = 0;
    buf->status = RMQ_OK;
}

rmq_status rq_buf_status(const struct rq_buf *buf)
{
    return buf->status;
}

bool rq_buf_grow(struct rq_buf *buf, size_t more)
{
    if (buf->status) {
        return false;
    }
    if (more > buf->max || buf->len > buf->max - more) {
        buf->status = RMQ_ERR_TOO_LARGE;
        return false;
    }
    size_t need = buf->len + more;
    size_t cap = buf->cap ? buf->cap : FIRST_CAPACITY;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    char *data = move_out(buf, cap);
    if (!data) {
        buf->status = RMQ_ERR_NOMEM;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    buf->borrowed = false;
    return true;
}

void rq_buf_add(struct rq_buf *buf, const void *p, size_t n)
{
    if (n && rq_buf_reserve(buf, n)) {
        memcpy(buf->data + buf->len, p, n);
        buf->len += n;
    }
}

void rq_buf_add_str(struct rq_buf *buf, const char *text)
{
    rq_buf_add(buf, text, strlen(text));
}

void rq_buf_add_slice(struct rq_buf *buf, struct rq_slice s)
{
    rq_buf_add(buf, s.p, s.n);
}

void rq_buf_add_char(struct rq_buf *buf, char c)
{
    rq_buf_add(buf, &c, 1);
}

size_t rq_i64_to_text(int64_t v, char *out)
{
    char text[20];
    char *end = text + sizeof text;
    char *p = end;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u);
    if (v < 0) {
        *--p = '-';
    }
    memcpy(out, p, (size_t)(end - p));
    return (size_t)(end - p);
}

void rq_buf_add_i64(struct rq_buf *buf, int64_t v)
{
    if (rq_buf_reserve(buf, 21)) {
        buf->len += rq_i64_to_text(v, buf->data + buf->len);
    }
}

void rq_buf_addf(struct rq_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rq_buf_addv(buf, fmt, args);
    va_end(args);
}

void rq_buf_addv(struct rq_buf *buf, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) {
        buf->status = RMQ_ERR_INTERNAL;
    } else if (rq_buf_reserve(buf, (size_t)n + 1)) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
    }
    va_end(again);
}

void rq_buf_add_u8(struct rq_buf *buf, uint8_t v)
{
    rq_buf_add(buf, &v, 1);
}

void rq_buf_add_be16(struct rq_buf *buf, uint16_t v)
{
    char bytes[2];
    rq_store_be16(bytes, v);
    rq_buf_add(buf, bytes, sizeof bytes);
}

void rq_buf_add_be32(struct rq_buf *buf, uint32_t v)
{
    char bytes[4];
    rq_store_be32(bytes, v);
    rq_buf_add(buf, bytes, sizeof bytes);
}

void rq_buf_add_be64(struct rq_buf *buf, uint64_t v)
{
    char bytes[8];
    rq_store_be64(bytes, v);
    rq_buf_add(buf, bytes, sizeof bytes);
}

const char *rq_buf_cstr(struct rq_buf *buf)
{
    if (!rq_buf_reserve(buf, 1)) {
        return "";
    }
    buf->data[buf->len] = '\0';
    return buf->data;
}

char *rq_buf_detach(struct rq_buf *buf)
{
    if (!rq_buf_reserve(buf, 1)) {
        rq_buf_free(buf);
        return NULL;
    }
    buf->data[buf->len] = '\0';
    char *data = buf->borrowed ? move_out(buf, buf->len + 1) : buf->data;
    if (data) {
        data[buf->len] = '\0';
        forget(buf);
    } else {
        buf->status = RMQ_ERR_NOMEM;
    }
    return data;
}

const char *rq_fixed_to_text(double v, int decimals, char out[RQ_FIXED_MAX])
{
    static const int64_t powers[] = {1,      10,      100,      1000,      10000,
                                     100000, 1000000, 10000000, 100000000, 1000000000};
    int64_t power = powers[decimals < 0 ? 0 : decimals > 9 ? 9 : decimals];
    bool minus = v < 0;
    double magnitude = minus ? -v : v;
    if (!(magnitude * (double)power < 9e18)) {
        magnitude = 0;
    }
    int64_t scaled = (int64_t)(magnitude * (double)power + 0.5);
    int n = snprintf(out, RQ_FIXED_MAX, "%s%lld", minus && scaled ? "-" : "",
                     (long long)(scaled / power));
    if (power > 1) {
        (void)snprintf(out + n, RQ_FIXED_MAX - (size_t)n, ".%0*lld", decimals > 9 ? 9 : decimals,
                       (long long)(scaled % power));
    }
    return out;
}

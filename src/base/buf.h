/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A growing byte buffer with a limit and a sticky error: after the first failure (out of memory,
 * beyond the limit) appends do nothing, and the writer asks once at the end with rq_buf_status.
 * Owned by one thread at a time. data is not NUL-terminated unless rq_buf_cstr is used.
 */
#ifndef RQ_BASE_BUF_H
#define RQ_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/export.h>
#include <rmq/status.h>

#include "base/slice.h"

struct rq_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max; /* most that len may become */
    rmq_status status;
    bool borrowed; /* data is not ours to free or to grow in place */
};

#define RQ_BUF_MAX_DEFAULT ((size_t)64 << 20)

/* max 0 = RQ_BUF_MAX_DEFAULT; allocates nothing */
void rq_buf_init(struct rq_buf *buf, size_t max);
/* The same over memory of the caller's, which outlives the buffer; more than cap is moved to memory
 * of its own. */
void rq_buf_init_over(struct rq_buf *buf, char *memory, size_t cap, size_t max);
void rq_buf_free(struct rq_buf *buf);
void rq_buf_clear(struct rq_buf *buf); /* keeps the memory, clears the error */
rmq_status rq_buf_status(const struct rq_buf *buf);
bool rq_buf_grow(struct rq_buf *buf, size_t more); /* what reserve does when there is none */
/* room for more bytes; false sets the error */
static inline bool rq_buf_reserve(struct rq_buf *buf, size_t more)
{
    bool there =
        buf->status == RMQ_OK && more <= buf->cap - buf->len && buf->len + more <= buf->max;
    return there || rq_buf_grow(buf, more);
}
void rq_buf_add(struct rq_buf *buf, const void *p, size_t n);
void rq_buf_add_str(struct rq_buf *buf, const char *text);
void rq_buf_add_slice(struct rq_buf *buf, struct rq_slice s);
void rq_buf_add_char(struct rq_buf *buf, char c);
void rq_buf_add_i64(struct rq_buf *buf, int64_t v); /* as decimal text */
void rq_buf_addf(struct rq_buf *buf, const char *fmt, ...) RMQ_PRINTF(2, 3);
void rq_buf_addv(struct rq_buf *buf, const char *fmt, va_list args) RMQ_PRINTF(2, 0);
void rq_buf_add_u8(struct rq_buf *buf, uint8_t v);
void rq_buf_add_be16(struct rq_buf *buf, uint16_t v);
void rq_buf_add_be32(struct rq_buf *buf, uint32_t v);
void rq_buf_add_be64(struct rq_buf *buf, uint64_t v);
const char *rq_buf_cstr(struct rq_buf *buf); /* adds a NUL behind len; "" after an error */
/* NUL-terminated, rq_free by the caller; NULL after an error */
char *rq_buf_detach(struct rq_buf *buf);

/* v with so many decimals (0 … 9) and a point, whatever the program's locale is; beyond 64 bits and
 * for NaN "0". out has room for RQ_FIXED_MAX bytes; NUL at the end. */
#define RQ_FIXED_MAX 40
const char *rq_fixed_to_text(double v, int decimals, char out[RQ_FIXED_MAX]);

/* Decimal text of v written to out, which has room for 21 bytes; returns the length, no NUL. */
size_t rq_i64_to_text(int64_t v, char *out);

#endif

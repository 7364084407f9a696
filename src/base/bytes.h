/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Big-endian loads and stores, a look at eight bytes at once, and a reading cursor with a sticky
 * error: after the first short or bad field it returns zeros, and the decoder asks rq_cursor_ok
 * once at the end.
 */
#ifndef RQ_BASE_BYTES_H
#define RQ_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

static inline uint16_t rq_load_be16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}

static inline uint32_t rq_load_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

static inline uint64_t rq_load_be64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

static inline void rq_store_be16(void *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}

static inline void rq_store_be32(void *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

static inline void rq_store_be64(void *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

/* Eight bytes of a text at once, the first one lowest. below and equal mark those that are below n
 * (at most 0x80), or c; marks behind the first may be wrong. first: the place of the first mark, of
 * which there is one. */
#define RQ_EIGHT(c) ((uint64_t)(c)*UINT64_C(0x0101010101010101))

static inline uint64_t rq_eight_load(const void *p)
{
    return __builtin_bswap64(rq_load_be64(p));
}

static inline uint64_t rq_eight_below(uint64_t bytes, unsigned char n)
{
    return (bytes - RQ_EIGHT(n)) & ~bytes & RQ_EIGHT(0x80);
}

static inline uint64_t rq_eight_equal(uint64_t bytes, unsigned char c)
{
    return rq_eight_below(bytes ^ RQ_EIGHT(c), 1);
}

static inline size_t rq_eight_first(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

struct rq_cursor {
    const char *p;
    const char *end;
    bool bad;
};

static inline struct rq_cursor rq_cursor(const void *p, size_t n)
{
    if (n == 0) { /* no arithmetic on NULL */
        static const char nothing[1];
        return (struct rq_cursor){.p = nothing, .end = nothing, .bad = false};
    }
    return (struct rq_cursor){.p = p, .end = (const char *)p + n, .bad = false};
}

static inline size_t rq_cursor_left(const struct rq_cursor *c)
{
    return (size_t)(c->end - c->p);
}

static inline bool rq_cursor_ok(const struct rq_cursor *c)
{
    return !c->bad;
}

/* The next n bytes, or NULL with the error set. */
static inline const char *rq_cursor_take(struct rq_cursor *c, size_t n)
{
    if (c->bad || n > rq_cursor_left(c)) {
        c->bad = true;
        return NULL;
    }
    const char *p = c->p;
    c->p += n;
    return p;
}

static inline uint8_t rq_cursor_u8(struct rq_cursor *c)
{
    const char *p = rq_cursor_take(c, 1);
    return p ? (uint8_t)*p : 0;
}

static inline uint16_t rq_cursor_be16(struct rq_cursor *c)
{
    const char *p = rq_cursor_take(c, 2);
    return p ? rq_load_be16(p) : 0;
}

static inline uint32_t rq_cursor_be32(struct rq_cursor *c)
{
    const char *p = rq_cursor_take(c, 4);
    return p ? rq_load_be32(p) : 0;
}

static inline uint64_t rq_cursor_be64(struct rq_cursor *c)
{
    const char *p = rq_cursor_take(c, 8);
    return p ? rq_load_be64(p) : 0;
}

static inline struct rq_slice rq_cursor_slice(struct rq_cursor *c, size_t n)
{
    const char *p = rq_cursor_take(c, n);
    return rq_slice(p, p ? n : 0);
}

#endif

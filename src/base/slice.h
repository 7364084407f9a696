/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A borrowed run of bytes: pointer and length, owned by somebody else. p may be NULL when n is
 * 0. */
#ifndef RQ_BASE_SLICE_H
#define RQ_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rq_slice {
    const char *p;
    size_t n;
};

static inline struct rq_slice rq_slice(const void *p, size_t n)
{
    return (struct rq_slice){.p = p, .n = n};
}

/* Of a C string; NULL gives the empty slice with p == NULL. */
static inline struct rq_slice rq_slice_str(const char *text)
{
    return (struct rq_slice){.p = text, .n = text ? strlen(text) : 0};
}

static inline bool rq_slice_eq(struct rq_slice a, struct rq_slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool rq_slice_eq_str(struct rq_slice a, const char *text)
{
    return rq_slice_eq(a, rq_slice_str(text));
}

/* Byte order, shorter first when one is a prefix of the other. */
int rq_slice_cmp(struct rq_slice a, struct rq_slice b);

/* Decimal integers with optional sign; false on anything else, also on overflow and empty text. */
bool rq_slice_to_i64(struct rq_slice s, int64_t *out);
bool rq_slice_to_i32(struct rq_slice s, int32_t *out);

/* Without what is a blank or below at both ends, as Java's trim. */
struct rq_slice rq_slice_trim(struct rq_slice s);

/* Cuts the piece before the next separator off the front of rest, the last one without; false when
 * nothing is left. */
bool rq_slice_next(struct rq_slice *rest, char separator, struct rq_slice *piece);

/* Whether a list separated by ';' (NULL = empty) has the word, as it stands. */
bool rq_slice_is_listed(struct rq_slice word, const char *list);

/* NUL-terminated copy, NULL when out of memory. */
char *rq_slice_dup(struct rq_slice s);

#endif

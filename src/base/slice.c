/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Slices: comparison and numbers. Pure functions, any thread. */
#include "base/slice.h"

#include "base/mem.h"

int rq_slice_cmp(struct rq_slice a, struct rq_slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    if (c != 0) {
        return c;
    }
    return a.n < b.n ? -1 : a.n > b.n;
}

bool rq_slice_to_i64(struct rq_slice s, int64_t *out)
{
    size_t i = 0;
    bool negative = false;
    if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+')) {
        negative = s.p[0] == '-';
        i = 1;
    }
    if (i == s.n) {
        return false;
    }
    /* Collected as a negative number, whose range is the larger one. */
    int64_t v = 0;
    for (; i < s.n; i++) {
        int digit = s.p[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_sub_overflow(v, digit, &v)) {
            return false;
        }
    }
    if (!negative && v == INT64_MIN) {
        return false;
    }
    *out = negative ? v : -v;
    return true;
}

bool rq_slice_to_i32(struct rq_slice s, int32_t *out)
{
    int64_t v = 0;
    if (!rq_slice_to_i64(s, &v) || v < INT32_MIN || v > INT32_MAX) {
        return false;
    }
    *out = (int32_t)v;
    return true;
}

char *rq_slice_dup(struct rq_slice s)
{
    return rq_strndup(s.p, s.n);
}

struct rq_slice rq_slice_trim(struct rq_slice s)
{
    while (s.n && (unsigned char)s.p[0] <= ' ') {
        s = rq_slice(s.p + 1, s.n - 1);
    }
    while (s.n && (unsigned char)s.p[s.n - 1] <= ' ') {
        s.n--;
    }
    return s;
}

bool rq_slice_next(struct rq_slice *rest, char separator, struct rq_slice *piece)
{
    if (rest->n == 0) {
        return false;
    }
    const char *end = memchr(rest->p, separator, rest->n);
    *piece = rq_slice(rest->p, end ? (size_t)(end - rest->p) : rest->n);
    *rest = end ? rq_slice(end + 1, rest->n - piece->n - 1) : rq_slice(NULL, 0);
    return true;
}

bool rq_slice_is_listed(struct rq_slice word, const char *list)
{
    struct rq_slice rest = rq_slice_str(list);
    struct rq_slice piece;
    while (rq_slice_next(&rest, ';', &piece)) {
        if (rq_slice_eq(piece, word)) {
            return true;
        }
    }
    return false;
}

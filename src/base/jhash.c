/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Java's view of a text: UTF-16 code units made from UTF-8 on the fly. Invalid bytes give U+FFFD
 * one by one, as a lenient decoder does.
 */
#include "base/jhash.h"

#include <string.h>

struct units {
    const unsigned char *p;
    const unsigned char *end;
    uint32_t low; /* pending low surrogate, 0 = none */
};

/* One code point from 2 to 4 bytes, or U+FFFD for one byte that starts nothing valid. */
static uint32_t decode_long(struct units *u)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = *u->p;
    int n = c >= 0xF0 && c < 0xF8 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 0;
    if (c >= 0xF8 || n == 0 || u->end - u->p < n) {
        u->p++;
        return 0xFFFD;
    }
    uint32_t v = c & (0xFFu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((u->p[i] & 0xC0) != 0x80) {
            u->p++;
            return 0xFFFD;
        }
        v = (v << 6) | (u->p[i] & 0x3Fu);
    }
    if (v < least[n] || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) {
        u->p++;
        return 0xFFFD;
    }
    u->p += n;
    return v;
}

/* The next code unit, or -1 at the end. */
static int32_t next_unit(struct units *u)
{
    if (u->low) {
        int32_t low = (int32_t)u->low;
        u->low = 0;
        return low;
    }
    if (u->p == u->end) {
        return -1;
    }
    if (*u->p < 0x80) {
        return *u->p++;
    }
    uint32_t v = decode_long(u);
    if (v >= 0x10000) {
        v -= 0x10000;
        u->low = 0xDC00 + (v & 0x3FF);
        return (int32_t)(0xD800 + (v >> 10));
    }
    return (int32_t)v;
}

static struct units units_of(struct rq_slice s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    return (struct units){.p = p, .end = p + s.n};
}

/* Eight ASCII characters at once, as long as there are eight: the powers of 31 let them be added up
 * independently. */
static uint32_t hash_ascii(struct units *u)
{
    enum { P1 = 31, P2 = P1 * P1, P3 = P2 * P1, P4 = P2 * P2 };
    uint32_t h = 0;
    while (u->end - u->p >= 8) {
        const unsigned char *p = u->p;
        uint64_t word;
        memcpy(&word, p, sizeof word);
        if (word & UINT64_C(0x8080808080808080)) {
            break;
        }
        uint32_t high = (uint32_t)P3 * p[0] + (uint32_t)P2 * p[1] + (uint32_t)P1 * p[2] + p[3];
        uint32_t low = (uint32_t)P3 * p[4] + (uint32_t)P2 * p[5] + (uint32_t)P1 * p[6] + p[7];
        h = ((uint32_t)P4 * h + high) * (uint32_t)P4 + low;
        u->p += 8;
    }
    return h;
}

int32_t rq_java_hash(struct rq_slice utf8)
{
    struct units u = units_of(utf8);
    uint32_t h = hash_ascii(&u);
    for (int32_t unit = next_unit(&u); unit >= 0; unit = next_unit(&u)) {
        h = 31 * h + (uint32_t)unit;
    }
    return (int32_t)h;
}

int rq_java_compare(struct rq_slice a, struct rq_slice b)
{
    struct units ua = units_of(a);
    struct units ub = units_of(b);
    for (;;) {
        int32_t x = next_unit(&ua);
        int32_t y = next_unit(&ub);
        if (x != y || x < 0) {
            return x < y ? -1 : x > y;
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Characters of text: hex digits, and code points as UTF-8. Pure functions. */
#ifndef RQ_BASE_TEXT_H
#define RQ_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The value of a hex digit of either case, -1 for another character. */
static inline int rq_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The value of the four hex digits at p, which has n bytes; -1 when there are none. */
static inline int32_t rq_hex4(const char *p, size_t n)
{
    int32_t v = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i < n ? rq_hex_digit(p[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        v = v << 4 | digit;
    }
    return v;
}

/* Writes a code point (at most 0x10FFFF) as UTF-8; returns what follows its 1 to 4 bytes. */
static inline char *rq_utf8_put(char *w, uint32_t v)
{
    if (v < 0x80) {
        *w++ = (char)v;
        return w;
    }
    if (v < 0x800) {
        *w++ = (char)(0xC0 | v >> 6);
    } else {
        if (v < 0x10000) {
            *w++ = (char)(0xE0 | v >> 12);
        } else {
            *w++ = (char)(0xF0 | v >> 18);
            *w++ = (char)(0x80 | (v >> 12 & 0x3F));
        }
        *w++ = (char)(0x80 | (v >> 6 & 0x3F));
    }
    *w++ = (char)(0x80 | (v & 0x3F));
    return w;
}

#endif

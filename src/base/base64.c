/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Base64: three bytes are four characters (see the header). */
#include "base/base64.h"

#include <string.h>

#define COMMON "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char *const alphabets[] = {[RQ_BASE64] = COMMON "+/", [RQ_BASE64_URL] = COMMON "-_"};

void rq_base64_add(struct rq_buf *out, struct rq_slice bytes, enum rq_base64 alphabet)
{
    const char *letters = alphabets[alphabet];
    const unsigned char *p = (const unsigned char *)bytes.p;
    for (size_t i = 0; i < bytes.n; i += 3) {
        bool second = i + 1 < bytes.n;
        bool third = i + 2 < bytes.n;
        unsigned group = (unsigned)p[i] << 16;
        group |= second ? (unsigned)p[i + 1] << 8 : 0;
        group |= third ? p[i + 2] : 0;
        const char four[] = {letters[group >> 18], letters[group >> 12 & 63],
                             second ? letters[group >> 6 & 63] : '=',
                             third ? letters[group & 63] : '='};
        rq_buf_add(out, four, sizeof four);
    }
}

bool rq_base64_read(struct rq_slice text, enum rq_base64 alphabet, struct rq_buf *out)
{
    const char *letters = alphabets[alphabet];
    unsigned bits = 0;
    int count = 0;
    while (text.n && text.p[text.n - 1] == '=') {
        text.n--;
    }
    for (size_t i = 0; i < text.n; i++) {
        const char *found = text.p[i] ? strchr(letters, text.p[i]) : NULL;
        if (!found) {
            return false;
        }
        bits = bits << 6 | (unsigned)(found - letters);
        count += 6;
        if (count >= 8) {
            count -= 8;
            rq_buf_add_u8(out, (uint8_t)(bits >> count));
        }
    }
    return rq_buf_status(out) == RMQ_OK;
}

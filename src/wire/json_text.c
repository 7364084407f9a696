/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Quoting of header texts in two passes: the first counts what the escapes add, so that room is
 * made once; the second copies. Text beyond ASCII goes to the general writer of base, which checks
 * it.
 */
#include "wire/json_text.h"

#include <string.h>

#include "base/json.h"

/* Bytes that the escape of a character below 0x80 adds. */
static size_t escape_extra(unsigned char c)
{
    if (c >= 0x20) {
        return c == '"' || c == '\\';
    }
    return c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f' ? 1 : 5;
}

static char *put_escape(char *w, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    *w++ = '\\';
    if (c >= 0x20) {
        *w++ = (char)c;
    } else if (shorts[c]) {
        *w++ = shorts[c];
    } else {
        memcpy(w, "u00", 3);
        w[3] = hex[c >> 4];
        w[4] = hex[c & 15];
        w += 5;
    }
    return w;
}

void rq_json_text_add(struct rq_buf *out, struct rq_slice text)
{
    const unsigned char *p = (const unsigned char *)text.p;
    size_t extra = 0;
    unsigned char all = 0;
    for (size_t i = 0; i < text.n; i++) {
        all |= p[i];
        extra += escape_extra(p[i]);
    }
    if (all >= 0x80) {
        rq_json_add_string(out, text);
        return;
    }
    if (!rq_buf_reserve(out, text.n + extra + 2)) {
        return;
    }
    char *w = out->data + out->len;
    *w++ = '"';
    if (extra == 0 && text.n) {
        memcpy(w, p, text.n);
        w += text.n;
    }
    for (size_t i = 0; extra && i < text.n; i++) {
        if (escape_extra(p[i])) {
            w = put_escape(w, p[i]);
        } else {
            *w++ = (char)p[i];
        }
    }
    *w++ = '"';
    out->len = (size_t)(w - out->data);
}

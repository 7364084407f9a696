/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Quoting of header texts in two passes: the first counts what the escapes add, so that room is
 * made once; the second copies. Both step over plain runs by eight bytes. Text beyond ASCII goes to
 * the general writer of base, which checks it.
 */
#include "wire/json_text.h"

#include <string.h>

#include "base/bytes.h"
#include "base/json.h"

/* Bytes that the escape of a character below 0x80 adds. */
static size_t escape_extra(unsigned char c)
{
    if (c >= 0x20) {
        return c == '"' || c == '\\';
    }
    return c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f' ? 1 : 5;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* How many bytes from p on are ASCII and need no escape. */
static size_t plain_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t bytes = rq_eight_load(p + i);
        uint64_t marks = rq_eight_below(bytes, 0x20) | (bytes & RQ_EIGHT(0x80)) |
                         rq_eight_equal(bytes, '"') | rq_eight_equal(bytes, '\\');
        if (marks) {
            return i + rq_eight_first(marks);
        }
    }
    while (i < n && is_plain(p[i])) {
        i++;
    }
    return i;
}

/* What the escapes of a text add; SIZE_MAX when it is not ASCII. */
static size_t escapes_of(const unsigned char *p, size_t n)
{
    size_t extra = 0;
    for (size_t i = plain_run(p, n); i < n; i += 1 + plain_run(p + i + 1, n - i - 1)) {
        if (p[i] >= 0x80) {
            return SIZE_MAX;
        }
        extra += escape_extra(p[i]);
    }
    return extra;
}

static char *put_run(char *w, const unsigned char *p, size_t run)
{
    memcpy(w, p, run);
    return w + run;
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
    size_t extra = escapes_of(p, text.n);
    if (extra == SIZE_MAX) {
        rq_json_add_string(out, text);
        return;
    }
    if (!rq_buf_reserve(out, text.n + extra + 2)) {
        return;
    }
    char *w = out->data + out->len;
    *w++ = '"';
    for (size_t i = 0; i < text.n;) {
        size_t run = plain_run(p + i, text.n - i);
        w = put_run(w, p + i, run);
        i += run;
        if (i < text.n) {
            w = put_escape(w, p[i++]);
        }
    }
    *w++ = '"';
    out->len = (size_t)(w - out->data);
}

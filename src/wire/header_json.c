/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Scanner of JSON headers: one pass over the frame's own bytes, strings unescaped where they lie.
 * Lenient where Java is: numbers may be text, unknown members are skipped at any (bounded) depth
 * without recursion, a later duplicate wins. Counterpart: RemotingSerializable.
 */
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"
#include "wire/header_priv.h"

#define LONG_STRING 64

struct scan {
    char *start;
    char *p;
    char *end;
    const char *why; /* first thing that was wrong; NULL = all well */
};

static bool fail(struct scan *s, const char *why)
{
    if (!s->why) {
        s->why = why;
    }
    return false;
}

static void skip_blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) {
        s->p++;
    }
}

/* Skips blanks and takes the character when it is c. */
static bool take(struct scan *s, char c)
{
    skip_blanks(s);
    if (s->p < s->end && *s->p == c) {
        s->p++;
        return true;
    }
    return false;
}

/* A \u escape whose digits start at *r; a pair of surrogates becomes one character, a lone one
 * U+FFFD. Never longer than its text. */
static char *unescape_unicode(struct scan *s, char **r, char *w)
{
    int32_t unit = rq_hex4(*r, (size_t)(s->end - *r));
    if (unit < 0) {
        fail(s, "bad \\u escape");
        return w;
    }
    *r += 4;
    uint32_t v = (uint32_t)unit;
    if (v >= 0xD800 && v < 0xE000) {
        int32_t low = v < 0xDC00 && s->end - *r >= 6 && (*r)[0] == '\\' && (*r)[1] == 'u'
                          ? rq_hex4(*r + 2, (size_t)(s->end - *r - 2))
                          : -1;
        if (low >= 0xDC00 && low < 0xE000) {
            v = 0x10000 + ((v - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
            *r += 6;
        } else {
            v = 0xFFFD;
        }
    }
    return rq_utf8_put(w, v);
}

/* The escape behind a backslash at **r. */
static char *unescape(struct scan *s, char **r, char *w)
{
    static const char from[] = "\"\\/bfnrt'";
    static const char to[] = "\"\\/\b\f\n\r\t'";
    char c = *(*r)++;
    if (c == 'u') {
        return unescape_unicode(s, r, w);
    }
    const char *at = c ? strchr(from, c) : NULL;
    if (!at) {
        fail(s, "bad escape");
        return w;
    }
    *w++ = to[at - from];
    return w;
}

/* The first quote or backslash from r on, or the end. Behind so many plain bytes that calls are
 * cheaper, as in the ids of a batch. */
static char *skip_long(char *r, char *end)
{
    char *quote = memchr(r, '"', (size_t)(end - r));
    end = quote ? quote : end;
    char *backslash = memchr(r, '\\', (size_t)(end - r));
    return backslash ? backslash : end;
}

/* The first quote or backslash from r on, or the end. */
static char *skip_plain(char *r, char *end)
{
    const char *far = end - r >= LONG_STRING ? r + LONG_STRING : end;
    while (far - r >= 8) {
        uint64_t bytes = rq_eight_load(r);
        uint64_t marks = rq_eight_equal(bytes, '"') | rq_eight_equal(bytes, '\\');
        if (marks) {
            return r + rq_eight_first(marks);
        }
        r += 8;
    }
    if (far < end) {
        return skip_long(r, end);
    }
    while (r < end && *r != '"' && *r != '\\') {
        r++;
    }
    return r;
}

/* A string whose opening quote is at p. */
static bool scan_string(struct scan *s, struct rq_slice *out)
{
    char *start = ++s->p;
    char *r = skip_plain(start, s->end);
    char *w = r;
    while (r < s->end && *r != '"') {
        if (*r != '\\') {
            *w++ = *r++;
            continue;
        }
        if (++r == s->end) {
            break;
        }
        w = unescape(s, &r, w);
        if (s->why) {
            return false;
        }
    }
    if (r >= s->end) {
        return fail(s, "string without end");
    }
    s->p = r + 1;
    *out = rq_slice(start, (size_t)(w - start));
    return true;
}

/* Steps over a string without touching it. */
static bool skip_string(struct scan *s)
{
    s->p++;
    while (s->p < s->end && *s->p != '"') {
        s->p += *s->p == '\\' && s->end - s->p > 1 ? 2 : 1;
    }
    if (s->p >= s->end) {
        return fail(s, "string without end");
    }
    s->p++;
    return true;
}

/* An object or array at p, whatever it holds: *out is its text. */
static bool skip_container(struct scan *s, struct rq_slice *out)
{
    char open[RQ_HEADER_MAX_DEPTH];
    size_t depth = 0;
    char *start = s->p;
    do {
        char c = s->p < s->end ? *s->p : '\0';
        if (s->p >= s->end) {
            return fail(s, "container without end");
        }
        if (c == '"') {
            if (!skip_string(s)) {
                return false;
            }
            continue;
        }
        s->p++;
        if (c == '{' || c == '[') {
            if (depth == RQ_HEADER_MAX_DEPTH) {
                return fail(s, "nested too deep");
            }
            open[depth++] = c;
        } else if (c == '}' || c == ']') {
            if (open[--depth] != (c == '}' ? '{' : '[')) {
                return fail(s, "brackets do not match");
            }
        }
    } while (depth > 0);
    *out = rq_slice(start, (size_t)(s->p - start));
    return true;
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

/* true, false, or what a number is made of. */
static bool is_scalar(struct rq_slice word)
{
    if (rq_slice_eq_str(word, "true") || rq_slice_eq_str(word, "false")) {
        return true;
    }
    for (size_t i = 0; i < word.n; i++) {
        char c = word.p[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit &&
            (i == 0 ? c != '-' : c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-')) {
            return false;
        }
    }
    return word.n > 0;
}

/* Any value as text; null gives p == NULL. */
static bool scan_value(struct scan *s, struct rq_slice *out)
{
    skip_blanks(s);
    if (s->p >= s->end) {
        return fail(s, "value missing");
    }
    if (*s->p == '"') {
        return scan_string(s, out);
    }
    if (*s->p == '{' || *s->p == '[') {
        return skip_container(s, out);
    }
    char *start = s->p;
    while (s->p < s->end && is_word(*s->p)) {
        s->p++;
    }
    struct rq_slice word = rq_slice(start, (size_t)(s->p - start));
    if (rq_slice_eq_str(word, "null")) {
        word = rq_slice(NULL, 0);
    } else if (!is_scalar(word)) {
        return fail(s, "not a value");
    }
    *out = word;
    return true;
}

/* Name and colon of a member. */
static bool scan_name(struct scan *s, struct rq_slice *name)
{
    skip_blanks(s);
    if (s->p >= s->end || *s->p != '"') {
        return fail(s, "member name expected");
    }
    return scan_string(s, name) && (take(s, ':') || fail(s, "colon expected"));
}

/* Behind a member: true when another one follows, false at the end of the object or on an error. */
static bool more_members(struct scan *s)
{
    if (take(s, ',')) {
        return true;
    }
    if (!take(s, '}')) {
        fail(s, "comma or end of object expected");
    }
    return false;
}

static bool scan_ext(struct scan *s, struct rq_header *out)
{
    skip_blanks(s);
    if (s->p >= s->end || *s->p != '{') {
        struct rq_slice value = {NULL, 0};
        return scan_value(s, &value) && (value.p == NULL || fail(s, "extFields is no object"));
    }
    s->p++;
    out->has_ext = true;
    out->ext_count = 0;
    if (take(s, '}')) {
        return true;
    }
    do {
        if (out->ext_count == RQ_HEADER_MAX_EXT) {
            return fail(s, "too many extFields");
        }
        struct rq_ext *ext = &out->ext[out->ext_count];
        if (!scan_name(s, &ext->name) || !scan_value(s, &ext->value)) {
            return false;
        }
        out->ext_count++;
    } while (more_members(s));
    return !s->why;
}

/* Where a member of the header's own goes, by name; NULL for others. */
static int32_t *number_member(struct rq_header *out, struct rq_slice name)
{
    if (name.n == 4) {
        return memcmp(name.p, "code", 4) == 0   ? &out->code
               : memcmp(name.p, "flag", 4) == 0 ? &out->flag
                                                : NULL;
    }
    return rq_slice_eq_str(name, "opaque")    ? &out->opaque
           : rq_slice_eq_str(name, "version") ? &out->version
                                              : NULL;
}

struct seen {
    bool code;
    bool opaque;
};

static bool scan_number(struct scan *s, int32_t *into, bool *there)
{
    struct rq_slice value = {NULL, 0};
    if (!scan_value(s, &value)) {
        return false;
    }
    *there = value.p != NULL;
    return value.p == NULL || rq_slice_to_i32(value, into) || fail(s, "member is no number");
}

static bool scan_member(struct scan *s, struct rq_header *out, struct seen *seen)
{
    struct rq_slice name = {NULL, 0};
    struct rq_slice value = {NULL, 0};
    if (!scan_name(s, &name)) {
        return false;
    }
    int32_t *number = number_member(out, name);
    if (number) {
        bool other;
        return scan_number(s, number,
                           number == &out->code     ? &seen->code
                           : number == &out->opaque ? &seen->opaque
                                                    : &other);
    }
    if (rq_slice_eq_str(name, "extFields")) {
        return scan_ext(s, out);
    }
    if (!scan_value(s, &value)) {
        return false;
    }
    if (rq_slice_eq_str(name, "remark")) {
        out->remark = value;
    } else if (rq_slice_eq_str(name, "language") && value.p) {
        int32_t n;
        out->language = !rq_slice_to_i32(value, &n)                ? rq_language_of(value)
                        : n >= 0 && n < (int32_t)RQ_LANGUAGE_COUNT ? n
                                                                   : RQ_LANGUAGE_UNKNOWN;
    }
    return true;
}

static bool scan_header(struct scan *s, struct rq_header *out)
{
    struct seen seen = {false, false};
    if (!take(s, '{')) {
        return fail(s, "no object");
    }
    if (!take(s, '}')) {
        do {
            if (!scan_member(s, out, &seen)) {
                return false;
            }
        } while (more_members(s));
    }
    skip_blanks(s);
    if (s->why) {
        return false;
    }
    if (s->p != s->end) {
        return fail(s, "bytes behind the object");
    }
    if (!seen.code) {
        return fail(s, "no code");
    }
    return seen.opaque || !rq_header_is_response(out) || fail(s, "answer without opaque");
}

rmq_status rq_header_decode_json(char *p, size_t n, struct rq_header *out, rmq_error **err)
{
    struct scan s = {.start = p, .p = p, .end = p + n};
    if (scan_header(&s, out)) {
        return RMQ_OK;
    }
    size_t at = s.p < s.end ? (size_t)(s.p - s.start) : n;
    return rq_error_set(err, RMQ_ERR_PROTOCOL, "JSON header of %zu bytes: %s at byte %zu", n, s.why,
                        at);
}

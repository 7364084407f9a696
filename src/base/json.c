/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Java's JSON made standard, then parsed by cJSON. One pass over the text keeps a stack of
 * containers (no recursion): it checks nesting, quotes bare keys, turns object keys into text, and
 * quotes integers that a double would round, so that the readers below get every digit back. Pure
 * functions, any thread.
 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* Digits that a double holds exactly. */
#define SAFE_DIGITS 15
#define JSON_MAX    ((size_t)64 << 20)
#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

struct reader {
    const char *p;
    const char *end;
    struct rq_buf out;
    char stack[RQ_JSON_MAX_DEPTH]; /* '{' object, '[' array, 'K' an object that is a key */
    int depth;
    bool want_key;    /* the next token is a member name */
    bool in_key;      /* there is a 'K' */
    size_t key_start; /* where its text begins in out */
};

static rmq_status bad(const char *what, size_t at, rmq_error **err)
{
    return rq_error_set(err, RMQ_ERR_PROTOCOL, "JSON: %s at byte %zu", what, at);
}

/* Length of the valid UTF-8 sequence at p, 0 when there is none. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
                 : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
                 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                               : 0;
    if (len == 0 || len > n) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF4 && p[1] > 0x8F);
    return overlong || beyond ? 0 : len;
}

/* One that may not stand between quotes as it is. */
static bool is_special(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

static void add_escaped(struct rq_buf *out, char c)
{
    static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (const char *p = shorts; *p; p += 2) {
        if (*p == c) {
            rq_buf_add_char(out, '\\');
            rq_buf_add_char(out, p[1]);
            return;
        }
    }
    rq_buf_addf(out, "\\u%04x", (unsigned char)c);
}

/* A byte that belongs to no character becomes U+FFFD, as Java decodes it: else two names that
 * differ here would be one when they are written. */
static void add_text(struct rq_buf *out, struct rq_slice text, bool escape)
{
    size_t plain = 0;
    for (size_t i = 0; i < text.n;) {
        size_t len = utf8_len((const unsigned char *)text.p + i, text.n - i);
        if (len > 0 && !(escape && is_special(text.p[i]))) {
            i += len;
            continue;
        }
        rq_buf_add(out, text.p + plain, i - plain);
        if (len == 0) {
            rq_buf_add_str(out, REPLACEMENT);
        } else {
            add_escaped(out, text.p[i]);
        }
        plain = ++i;
    }
    if (plain < text.n) {
        rq_buf_add(out, text.p + plain, text.n - plain);
    }
}

static void copy_string(struct reader *r)
{
    const char *start = r->p++;
    while (r->p < r->end && *r->p != '"') {
        r->p += *r->p == '\\' && r->end - r->p > 1 ? 2 : 1;
    }
    if (r->p < r->end) {
        r->p++;
    }
    add_text(&r->out, rq_slice(start, (size_t)(r->p - start)), false);
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.' || c == '_' || c == '$';
}

/* A bare token: as a key it is quoted; as a value a long integer is quoted, too, and nothing else
 * changed. */
static void copy_word(struct reader *r)
{
    const char *start = r->p;
    bool integer = true;
    while (r->p < r->end && is_word(*r->p)) {
        integer = integer && ((*r->p >= '0' && *r->p <= '9') || (*r->p == '-' && r->p == start));
        r->p++;
    }
    size_t n = (size_t)(r->p - start);
    bool quote = r->want_key || (integer && n > SAFE_DIGITS);
    if (quote) {
        rq_buf_add_char(&r->out, '"');
    }
    rq_buf_add(&r->out, start, n);
    if (quote) {
        rq_buf_add_char(&r->out, '"');
    }
}

static bool open_container(struct reader *r, char c)
{
    if (r->depth == RQ_JSON_MAX_DEPTH) {
        return false;
    }
    bool key = c == '{' && r->want_key && r->depth > 0;
    if (key && r->in_key) {
        return false; /* each level would double the backslashes of the one inside */
    }
    if (key) {
        r->in_key = true;
        r->key_start = r->out.len;
    }
    r->stack[r->depth++] = key ? 'K' : c;
    rq_buf_add_char(&r->out, c);
    r->want_key = c == '{';
    return true;
}

/* An object that was a key: what was written for it becomes one string. */
static void object_key_to_string(struct reader *r)
{
    if (rq_buf_status(&r->out) != RMQ_OK) {
        return;
    }
    struct rq_buf text;
    rq_buf_init(&text, JSON_MAX);
    rq_buf_add(&text, r->out.data + r->key_start, r->out.len - r->key_start);
    r->out.len = r->key_start;
    if (rq_buf_status(&text)) {
        r->out.status = rq_buf_status(&text);
    } else {
        rq_json_add_string(&r->out, rq_slice(text.data, text.len));
    }
    rq_buf_free(&text);
}

static bool close_container(struct reader *r, char c)
{
    if (r->depth == 0) {
        return false;
    }
    char open = r->stack[--r->depth];
    if ((c == ']') != (open == '[')) {
        return false;
    }
    rq_buf_add_char(&r->out, c);
    if (open == 'K') {
        r->in_key = false;
        object_key_to_string(r);
    }
    r->want_key = false;
    return true;
}

static bool in_object(const struct reader *r)
{
    return r->depth > 0 && r->stack[r->depth - 1] != '[';
}

/* One token; false on a character that cannot stand here. */
static bool step(struct reader *r)
{
    char c = *r->p;
    if (c == '"') {
        copy_string(r);
    } else if (is_word(c)) {
        copy_word(r);
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        r->p++;
    } else if (c == ',' || c == ':') {
        r->p++;
        rq_buf_add_char(&r->out, c);
        r->want_key = c == ',' && in_object(r);
    } else if (c == '{' || c == '[') {
        r->p++;
        return open_container(r, c);
    } else {
        r->p++;
        return (c == '}' || c == ']') && close_container(r, c);
    }
    return true;
}

static rmq_status standardize(struct reader *r, struct rq_slice text, rmq_error **err)
{
    while (r->p < r->end) {
        size_t at = (size_t)(r->p - text.p);
        if (!step(r)) {
            return bad("unexpected character or nesting", at, err);
        }
    }
    if (r->depth != 0) {
        return bad("text ends inside a container", text.n, err);
    }
    rq_buf_add_char(&r->out, '\0');
    if (rq_buf_status(&r->out)) {
        return rq_error_set(err, rq_buf_status(&r->out), "JSON of %zu bytes: %s", text.n,
                            rmq_status_text(rq_buf_status(&r->out)));
    }
    return RMQ_OK;
}

rmq_status rq_json_parse(struct rq_slice text, cJSON **out, rmq_error **err)
{
    *out = NULL;
    if (text.n == 0) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "JSON: empty text");
    }
    struct reader r = {.p = text.p, .end = text.p + text.n};
    rq_buf_init(&r.out, JSON_MAX);
    rmq_status st = standardize(&r, text, err);
    if (st == RMQ_OK) {
        const char *stop = NULL;
        *out = cJSON_ParseWithOpts(r.out.data, &stop, true);
        if (!*out) {
            size_t at = stop ? (size_t)(stop - r.out.data) : 0;
            st = rq_error_set(err, RMQ_ERR_PROTOCOL, "JSON: syntax near byte %zu of %zu", at,
                              text.n);
        }
    }
    rq_buf_free(&r.out);
    return st;
}

void rq_json_free(cJSON *json)
{
    cJSON_Delete(json);
}

const cJSON *rq_json_get(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    return item && !cJSON_IsNull(item) ? item : NULL;
}

bool rq_json_value_i64(const cJSON *item, int64_t *out)
{
    if (cJSON_IsString(item)) {
        return rq_slice_to_i64(rq_slice_str(item->valuestring), out);
    }
    if (!cJSON_IsNumber(item) || item->valuedouble < -9.2e18 || item->valuedouble > 9.2e18) {
        return false;
    }
    *out = (int64_t)item->valuedouble;
    return true;
}

int64_t rq_json_i64(const cJSON *json, const char *name, int64_t def)
{
    int64_t v = 0;
    return rq_json_value_i64(rq_json_get(json, name), &v) ? v : def;
}

int32_t rq_json_i32(const cJSON *json, const char *name, int32_t def)
{
    int64_t v = rq_json_i64(json, name, def);
    return v < INT32_MIN || v > INT32_MAX ? def : (int32_t)v;
}

bool rq_json_bool(const cJSON *json, const char *name, bool def)
{
    const cJSON *item = rq_json_get(json, name);
    if (cJSON_IsBool(item)) {
        return cJSON_IsTrue(item);
    }
    if (cJSON_IsString(item)) {
        return strcmp(item->valuestring, "true") == 0;
    }
    return def;
}

const char *rq_json_str(const cJSON *json, const char *name, const char *def)
{
    const cJSON *item = rq_json_get(json, name);
    return cJSON_IsString(item) ? item->valuestring : def;
}

void rq_json_add_string(struct rq_buf *out, struct rq_slice text)
{
    rq_buf_add_char(out, '"');
    add_text(out, text, true);
    rq_buf_add_char(out, '"');
}

void rq_json_add_member(struct rq_buf *out, bool *first, const char *name)
{
    if (!*first) {
        rq_buf_add_char(out, ',');
    }
    *first = false;
    rq_json_add_string(out, rq_slice_str(name));
    rq_buf_add_char(out, ':');
}

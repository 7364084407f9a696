/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Properties files (see the header). */
#include "base/propfile.h"

#include <string.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/text.h"

#define BOM "\xEF\xBB\xBF"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

void rq_propfile_init(struct rq_propfile *file, struct rq_slice text)
{
    *file = (struct rq_propfile){.rest = text, .next_line = 1};
    if (text.n >= 3 && memcmp(text.p, BOM, 3) == 0) {
        file->rest = rq_slice(text.p + 3, text.n - 3);
    }
    rq_buf_init(&file->logical, RQ_PROPFILE_MAX);
    rq_buf_init(&file->key, RQ_PROPFILE_MAX);
    rq_buf_init(&file->value, RQ_PROPFILE_MAX);
}

void rq_propfile_free(struct rq_propfile *file)
{
    rq_buf_free(&file->logical);
    rq_buf_free(&file->key);
    rq_buf_free(&file->value);
}

rmq_status rq_propfile_status(const struct rq_propfile *file)
{
    rmq_status st = rq_buf_status(&file->logical);
    st = st ? st : rq_buf_status(&file->key);
    return st ? st : rq_buf_status(&file->value);
}

/* ---- lines ---- */

static size_t line_length(struct rq_slice text)
{
    size_t n = 0;
    while (n < text.n && text.p[n] != '\n' && text.p[n] != '\r') {
        n++;
    }
    return n;
}

/* Takes one line as it stands; its end, "\n", "\r" or "\r\n", goes with it. */
static struct rq_slice take_line(struct rq_propfile *file)
{
    struct rq_slice rest = file->rest;
    struct rq_slice line = rq_slice(rest.p, line_length(rest));
    size_t n = line.n;
    if (n < rest.n) {
        n += n + 1 < rest.n && rest.p[n] == '\r' && rest.p[n + 1] == '\n' ? 2 : 1;
    }
    file->rest = rq_slice(rest.p + n, rest.n - n);
    file->next_line++;
    return line;
}

static struct rq_slice skip_blanks(struct rq_slice line)
{
    while (line.n && is_blank(line.p[0])) {
        line = rq_slice(line.p + 1, line.n - 1);
    }
    return line;
}

/* Whether it ends with a backslash that no other one escapes. */
static bool goes_on(struct rq_slice line)
{
    size_t n = 0;
    while (n < line.n && line.p[line.n - 1 - n] == '\\') {
        n++;
    }
    return n % 2 == 1;
}

/* The next lines that belong together; nothing is in them at the end of the text. */
static void take_logical(struct rq_propfile *file)
{
    bool more = true;
    rq_buf_clear(&file->logical);
    for (bool first = true; more && file->rest.n;) {
        int number = file->next_line;
        struct rq_slice whole = take_line(file);
        struct rq_slice line = skip_blanks(whole);
        if (first && (line.n == 0 || line.p[0] == '#' || line.p[0] == '!')) {
            continue;
        }
        if (first) {
            file->line = number;
            file->text = whole;
            first = false;
        }
        file->text.n = (size_t)(whole.p + whole.n - file->text.p);
        more = goes_on(line);
        rq_buf_add(&file->logical, line.p, line.n - more);
    }
}

/* ---- key and value ---- */

/* What a backslash and a letter stand for. */
static const char letters[] = "\\tnrf";
static const char meanings[] = "\\\t\n\r\f";

/* What follows a backslash; the bytes that it takes. */
static size_t add_escaped(struct rq_slice s, struct rq_buf *out)
{
    const char *letter = strchr(letters, s.p[0]);
    int32_t code = s.p[0] == 'u' ? rq_hex4(s.p + 1, s.n - 1) : -1;
    if (code > 0) {
        char utf8[4];
        rq_buf_add(out, utf8, (size_t)(rq_utf8_put(utf8, (uint32_t)code) - utf8));
        return 5;
    }
    rq_buf_add_char(out, letter && s.p[0] ? meanings[letter - letters] : s.p[0]);
    return 1;
}

static void unescape(struct rq_slice s, struct rq_buf *out)
{
    rq_buf_clear(out);
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\' && i + 1 < s.n) {
            i += add_escaped(rq_slice(s.p + i + 1, s.n - i - 1), out);
        } else {
            rq_buf_add_char(out, s.p[i]);
        }
    }
}

static void split(struct rq_propfile *file)
{
    struct rq_slice line = rq_slice(file->logical.data, file->logical.len);
    size_t n = 0;
    while (n < line.n && line.p[n] != '=' && line.p[n] != ':' && !is_blank(line.p[n])) {
        n += line.p[n] == '\\' && n + 1 < line.n ? 2 : 1;
    }
    struct rq_slice value = skip_blanks(rq_slice(line.p + n, line.n - n));
    file->has_separator = value.n > 0;
    if (value.n && (value.p[0] == '=' || value.p[0] == ':')) {
        value = skip_blanks(rq_slice(value.p + 1, value.n - 1));
    }
    while (value.n && is_blank(value.p[value.n - 1])) {
        value.n--;
    }
    unescape(rq_slice(line.p, n), &file->key);
    unescape(value, &file->value);
}

bool rq_propfile_next(struct rq_propfile *file)
{
    do {
        take_logical(file);
    } while (file->logical.len == 0 && file->rest.n && rq_propfile_status(file) == RMQ_OK);
    if (file->logical.len == 0) {
        return false;
    }
    split(file);
    return rq_propfile_status(file) == RMQ_OK;
}

/* ---- all of them ---- */

static rmq_status tell_one(struct rq_propfile *file, const char *name, rq_propfile_fn fn,
                           void *user, rmq_error **err)
{
    rmq_error *detail = NULL;
    rmq_status st = file->has_separator ? fn(user, file, &detail) : RMQ_ERR_INVALID;
    if (st == RMQ_ERR_NOMEM) {
        st = rq_error_set(err, st, "out of memory");
    } else if (st) {
        st = rq_error_set(err, st, "%s%s%d: %s", name ? name : "line ", name ? ":" : "", file->line,
                          file->has_separator ? rmq_error_message(detail) : "no \"=\" in the line");
    }
    rmq_error_destroy(detail);
    return st;
}

rmq_status rq_propfile_each(struct rq_slice text, const char *name, rq_propfile_fn fn, void *user,
                            rmq_error **err)
{
    struct rq_propfile file;
    rmq_status st = RMQ_OK;
    const char *zero = text.n ? memchr(text.p, '\0', text.n) : NULL;
    if (zero) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s: byte %zu is zero: this is no UTF-8 text",
                            name ? name : "properties", (size_t)(zero - text.p));
    }
    rq_propfile_init(&file, text);
    while (!st && rq_propfile_next(&file)) {
        st = tell_one(&file, name, fn, user, err);
    }
    if (!st && rq_propfile_status(&file)) {
        st = rq_propfile_status(&file);
        st = rq_error_set(err, st, "%s: %s", name ? name : "properties", rmq_status_text(st));
    }
    rq_propfile_free(&file);
    return st;
}

rmq_status rq_propfile_read(const char *path, struct rq_buf *out, rmq_error **err)
{
    rq_buf_init(out, RQ_PROPFILE_MAX);
    rmq_status st = rq_sys_read_stream(path, RQ_PROPFILE_MAX, out, err);
    return st == RMQ_ERR_NOT_FOUND
               ? rq_error_set(err, RMQ_ERR_IO, "%s", err ? rmq_error_message(*err) : "")
               : st;
}

/* ---- editing ---- */

/* As a line that is read as the same value: an end of line would begin another property, and blanks
 * before and behind a value do not count. */
static void add_pair(struct rq_slice key, struct rq_slice value, struct rq_buf *out)
{
    rq_buf_add_slice(out, key);
    rq_buf_add_char(out, '=');
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        const char *meaning = memchr(meanings, c, sizeof meanings - 1);
        if (meaning) {
            rq_buf_add_char(out, '\\');
            rq_buf_add_char(out, letters[meaning - meanings]);
        } else if (c == ' ' && (i == 0 || i + 1 == value.n)) {
            rq_buf_add_str(out, "\\u0020");
        } else {
            rq_buf_add_char(out, c);
        }
    }
}

void rq_propfile_edit(struct rq_slice text, struct rq_slice key, struct rq_slice value,
                      struct rq_buf *out)
{
    struct rq_propfile file;
    struct rq_slice old = rq_slice(NULL, 0);
    rq_propfile_init(&file, text);
    while (rq_propfile_next(&file)) {
        if (rq_slice_eq(rq_slice(file.key.data, file.key.len), key)) {
            old = file.text;
        }
    }
    rq_propfile_free(&file);
    if (old.p) {
        rq_buf_add(out, text.p, (size_t)(old.p - text.p));
        add_pair(key, value, out);
        rq_buf_add(out, old.p + old.n, text.n - (size_t)(old.p + old.n - text.p));
        return;
    }
    rq_buf_add_slice(out, text);
    if (text.n && text.p[text.n - 1] != '\n') {
        rq_buf_add_char(out, '\n');
    }
    add_pair(key, value, out);
    rq_buf_add_char(out, '\n');
}

rmq_status rq_propfile_change(const char *path, struct rq_slice pairs, rmq_error **err)
{
    struct rq_buf text;
    struct rq_buf edited;
    rq_buf_init(&text, RQ_PROPFILE_MAX);
    rq_buf_init(&edited, RQ_PROPFILE_MAX);
    rmq_status st = rq_sys_read_file(path, RQ_PROPFILE_MAX, &text, NULL);
    bool is_new = st == RMQ_ERR_NOT_FOUND;
    st = is_new ? RMQ_OK : st;
    for (size_t at = 0; at < pairs.n;) {
        struct rq_slice key = rq_slice_str(pairs.p + at);
        struct rq_slice value = rq_slice_str(key.p + key.n + 1);
        struct rq_buf swap = text;
        rq_propfile_edit(rq_slice(text.data, text.len), key, value, &edited);
        text = edited;
        edited = swap;
        rq_buf_clear(&edited);
        at += key.n + value.n + 2;
    }
    st = st ? st : rq_buf_status(&text);
    st = st ? rq_error_set(err, st, "%s: %s", path, rmq_status_text(st))
            : rq_sys_write_file(path, text.data, text.len, !is_new, err);
    rq_buf_free(&text);
    rq_buf_free(&edited);
    return st;
}

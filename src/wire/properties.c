/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The property string. Pure functions, any thread. */
#include "wire/properties.h"

#include <string.h>

#include "base/err.h"

bool rq_props_next(struct rq_slice *rest, struct rq_prop *out)
{
    while (rest->n) {
        const char *end = memchr(rest->p, RQ_PROP_VALUE_END, rest->n);
        size_t n = end ? (size_t)(end - rest->p) : rest->n;
        struct rq_slice pair = rq_slice(rest->p, n);
        *rest = rq_slice(rest->p + n + (end ? 1 : 0), rest->n - n - (end ? 1 : 0));
        const char *middle = pair.n ? memchr(pair.p, RQ_PROP_NAME_END, pair.n) : NULL;
        if (middle && middle > pair.p && middle < pair.p + pair.n - 1) {
            size_t name = (size_t)(middle - pair.p);
            out->name = rq_slice(pair.p, name);
            out->value = rq_slice(middle + 1, pair.n - name - 1);
            return true;
        }
    }
    return false;
}

struct rq_slice rq_props_get(struct rq_slice props, const char *name)
{
    struct rq_slice wanted = rq_slice_str(name);
    struct rq_slice found = rq_slice(NULL, 0);
    struct rq_prop prop;
    while (rq_props_next(&props, &prop)) {
        if (rq_slice_eq(prop.name, wanted)) {
            found = prop.value;
        }
    }
    return found;
}

int64_t rq_props_get_i64(struct rq_slice props, const char *name, int64_t def)
{
    int64_t v = 0;
    return rq_slice_to_i64(rq_props_get(props, name), &v) ? v : def;
}

void rq_props_add(struct rq_buf *out, size_t start, struct rq_slice name, struct rq_slice value)
{
    if (out->len > start && out->data[out->len - 1] != RQ_PROP_VALUE_END) {
        rq_buf_add_char(out, RQ_PROP_VALUE_END);
    }
    rq_buf_add_slice(out, name);
    rq_buf_add_char(out, RQ_PROP_NAME_END);
    rq_buf_add_slice(out, value);
    rq_buf_add_char(out, RQ_PROP_VALUE_END);
}

void rq_props_add_str(struct rq_buf *out, size_t start, const char *name, struct rq_slice value)
{
    rq_props_add(out, start, rq_slice_str(name), value);
}

void rq_props_add_i64(struct rq_buf *out, size_t start, const char *name, int64_t value)
{
    char text[24];
    rq_props_add(out, start, rq_slice_str(name), rq_slice(text, rq_i64_to_text(value, text)));
}

static bool is_one_of(struct rq_slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rq_slice_eq_str(name, names[i])) {
            return true;
        }
    }
    return false;
}

void rq_props_copy_without(struct rq_buf *out, size_t start, struct rq_slice props,
                           const char *const *names, size_t count)
{
    struct rq_prop prop;
    while (rq_props_next(&props, &prop)) {
        if (!is_one_of(prop.name, names, count)) {
            rq_props_add(out, start, prop.name, prop.value);
        }
    }
}

bool rq_props_reserved(struct rq_slice name)
{
    static const struct {
        const char *name;
        bool reserved;
    } rows[] = {
#define ROW(literal, is_reserved) {literal, is_reserved},
        RQ_PROP_NAMES(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].reserved && rq_slice_eq_str(name, rows[i].name)) {
            return true;
        }
    }
    return false;
}

static bool blank(struct rq_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] > ' ') {
            return false;
        }
    }
    return true;
}

static bool has_separator(struct rq_slice s)
{
    return s.n && (memchr(s.p, RQ_PROP_NAME_END, s.n) || memchr(s.p, RQ_PROP_VALUE_END, s.n));
}

rmq_status rq_props_check(struct rq_slice name, struct rq_slice value, rmq_error **err)
{
    if (has_separator(name) || has_separator(value)) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "property \"%.*s\": bytes 1 and 2 separate properties and cannot be in one",
                            (int)(name.n < 200 ? name.n : 200), name.p);
    }
    if (blank(name) || blank(value)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "property \"%.*s\": name and value must not be blank",
                            (int)(name.n < 200 ? name.n : 200), name.p ? name.p : "");
    }
    if (rq_props_reserved(name)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "property \"%.*s\" is reserved by RocketMQ", (int)name.n,
                            name.p);
    }
    return RMQ_OK;
}

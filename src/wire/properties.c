/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Property strings, read and written without a map: a message has a handful of properties, and
 * walking them is cheaper than hashing. Called by producers, consumers, store and broker, on any
 * thread. Counterpart: MessageDecoder.
 */
#include "wire/properties.h"

#include <string.h>

#include "base/err.h"

static const char *const reserved_names[] = {
#define RESERVED_(literal, reserved) (reserved) ? (literal) : NULL,
    RQ_PROP_NAMES(RESERVED_)
#undef RESERVED_
};

bool rq_props_next(struct rq_slice *rest, struct rq_prop *out)
{
    while (rest->n > 0) {
        const char *start = rest->p;
        const char *end = memchr(start, RQ_PROP_VALUE_END, rest->n);
        size_t n = end ? (size_t)(end - start) : rest->n;
        size_t step = end ? n + 1 : n;
        *rest = rq_slice(start + step, rest->n - step);
        const char *middle = memchr(start, RQ_PROP_NAME_END, n);
        if (middle && middle > start && middle + 1 < start + n) {
            out->name = rq_slice(start, (size_t)(middle - start));
            out->value = rq_slice(middle + 1, (size_t)(start + n - middle - 1));
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
    int64_t v;
    return rq_slice_to_i64(rq_props_get(props, name), &v) ? v : def;
}

void rq_props_add(struct rq_buf *out, size_t start, struct rq_slice name, struct rq_slice value)
{
    if (!rq_buf_reserve(out, rq_props_pair_size(name, value) + 1)) {
        return;
    }
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
    char digits[21];
    rq_props_add_str(out, start, name, rq_slice(digits, rq_i64_to_text(value, digits)));
}

static bool is_one_of(struct rq_slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i] && rq_slice_eq_str(name, names[i])) {
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
    return is_one_of(name, reserved_names, sizeof reserved_names / sizeof reserved_names[0]);
}

static bool is_blank(struct rq_slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        if ((unsigned char)text.p[i] > ' ') {
            return false;
        }
    }
    return true;
}

static bool has_separator(struct rq_slice text)
{
    return text.n &&
           (memchr(text.p, RQ_PROP_NAME_END, text.n) || memchr(text.p, RQ_PROP_VALUE_END, text.n));
}

rmq_status rq_props_check(struct rq_slice name, struct rq_slice value, rmq_error **err)
{
    const char *why = is_blank(name) || is_blank(value)             ? "name or value is blank"
                      : rq_props_reserved(name)                     ? "the name is reserved"
                      : has_separator(name) || has_separator(value) ? "byte 1 or 2 in name or value"
                                                                    : NULL;
    if (!why) {
        return RMQ_OK;
    }
    return rq_error_set(err, RMQ_ERR_INVALID, "property \"%.*s\": %s",
                        name.n > 80 ? 80 : (int)name.n, name.p ? name.p : "", why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Helpers of the JSON bodies; see body_priv.h. Any thread. */
#include "base/err.h"
#include "base/mem.h"
#include "wire/body_priv.h"

rmq_status rq_body_open(struct rq_slice text, const char *what, cJSON **out, rmq_error **err)
{
    rmq_status st = rq_json_parse(text.p ? text : rq_slice("", 0), out, err);
    if (st == RMQ_OK && !cJSON_IsObject(*out)) {
        rq_json_free(*out);
        *out = NULL;
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "%s: body of %zu bytes is no JSON object", what,
                            text.n);
    }
    return st;
}

size_t rq_body_count(const cJSON *json)
{
    return json ? (size_t)cJSON_GetArraySize(json) : 0;
}

rmq_status rq_body_array(size_t count, size_t item_size, void *out, rmq_error **err)
{
    void **place = out;
    *place = NULL;
    if (count == 0) {
        return RMQ_OK;
    }
    *place = rq_calloc(count, item_size);
    if (!*place) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for %zu items of a body", count);
    }
    return RMQ_OK;
}

const cJSON *rq_body_first(const cJSON *json)
{
    return json ? json->child : NULL;
}

const char *rq_body_text(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : "";
}

rmq_status rq_body_strings(const cJSON *array, const char ***items, size_t *count, rmq_error **err)
{
    size_t room = rq_body_count(array);
    *count = 0;
    rmq_status st = rq_body_array(room, sizeof **items, items, err);
    if (st != RMQ_OK) {
        return st;
    }
    for (const cJSON *item = rq_body_first(array); item && *count < room; item = item->next) {
        if (cJSON_IsString(item)) {
            (*items)[(*count)++] = item->valuestring;
        }
    }
    return RMQ_OK;
}

void rq_body_add_text(struct rq_buf *out, bool *first, const char *name, const char *value)
{
    if (value) {
        rq_json_add_member(out, first, name);
        rq_json_add_string(out, rq_slice_str(value));
    }
}

void rq_body_add_i64(struct rq_buf *out, bool *first, const char *name, int64_t value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_i64(out, value);
}

void rq_body_add_bool(struct rq_buf *out, bool *first, const char *name, bool value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_str(out, value ? "true" : "false");
}

void rq_body_next(struct rq_buf *out, size_t index)
{
    if (index > 0) {
        rq_buf_add_char(out, ',');
    }
}

void rq_body_add_strings(struct rq_buf *out, bool *first, const char *name,
                         const char *const *items, size_t count)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        rq_body_next(out, i);
        rq_json_add_string(out, rq_slice_str(items[i]));
    }
    rq_buf_add_char(out, ']');
}

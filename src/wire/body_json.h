/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Small helpers shared by the files that write and parse JSON bodies: members by type, arrays. For this folder only. */
#ifndef RQ_WIRE_BODY_JSON_H
#define RQ_WIRE_BODY_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

static inline void rq_body_text(struct rq_buf *out, bool *first, const char *name, const char *value)
{
    rq_json_add_member(out, first, name);
    rq_json_add_string(out, rq_slice_str(value ? value : ""));
}

static inline void rq_body_i64(struct rq_buf *out, bool *first, const char *name, int64_t value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_i64(out, value);
}

static inline void rq_body_bool(struct rq_buf *out, bool *first, const char *name, bool value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_str(out, value ? "true" : "false");
}

/* Number of elements of an array or object, 0 for anything else. */
static inline size_t rq_body_size(const cJSON *json)
{
    return cJSON_IsArray(json) || cJSON_IsObject(json) ? (size_t)cJSON_GetArraySize(json) : 0;
}

/* First element, NULL when there is none: for (item = rq_body_first(list); item; item = item->next). */
static inline const cJSON *rq_body_first(const cJSON *json)
{
    return cJSON_IsArray(json) || cJSON_IsObject(json) ? json->child : NULL;
}

/* A zeroed array of count elements, one at least, so that NULL means out of memory. */
static inline void *rq_body_array(size_t count, size_t size)
{
    return rq_calloc(count ? count : 1, size);
}

static inline rmq_status rq_body_nomem(const char *what, rmq_error **err)
{
    return rq_error_set(err, RMQ_ERR_NOMEM, "%s: out of memory", what);
}

#endif

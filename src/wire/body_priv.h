/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the parsers and writers of JSON bodies share: opening a body, making room for its arrays,
 * appending members. */
#ifndef RQ_WIRE_BODY_PRIV_H
#define RQ_WIRE_BODY_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

/* Parses a body that must be an object. what: "route", for errors. */
rmq_status rq_body_open(struct rq_slice text, const char *what, cJSON **out, rmq_error **err);

/* Children of an array or object member (0 when json is NULL), and zeroed room for as many items:
 * *out is NULL when there are none. */
size_t rq_body_count(const cJSON *json);
rmq_status rq_body_array(size_t count, size_t item_size, void *out, rmq_error **err);

/* First child of an array or object, NULL when there is none or json is NULL; the others follow by
 * next. */
const cJSON *rq_body_first(const cJSON *json);

/* Text of a child, "" for anything else. */
const char *rq_body_text(const cJSON *item);

/* Strings of a JSON array, borrowed; items that are no strings are dropped. */
rmq_status rq_body_strings(const cJSON *array, const char ***items, size_t *count, rmq_error **err);

/* Members, with the comma that is due. A NULL text is left out. */
void rq_body_add_text(struct rq_buf *out, bool *first, const char *name, const char *value);
void rq_body_add_i64(struct rq_buf *out, bool *first, const char *name, int64_t value);
void rq_body_add_bool(struct rq_buf *out, bool *first, const char *name, bool value);
void rq_body_add_strings(struct rq_buf *out, bool *first, const char *name,
                         const char *const *items, size_t count);

/* A comma before every item but the first. */
void rq_body_next(struct rq_buf *out, size_t index);

#endif

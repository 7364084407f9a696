/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * JSON for bodies and files, as the Java side writes it: bare integer keys and whole objects as
 * keys are accepted and become text ({0:1} reads as {"0":1}; {{"a":1}:5} reads as {"{\"a\":1}":5},
 * the key being the object's canonical text without blanks, which holds no such key itself). A cJSON
 * tree below. Depth and size are bounded. Bad text is an error, never a crash.
 */
#ifndef RQ_BASE_JSON_H
#define RQ_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <rmq/error.h>

#include "base/buf.h"
#include "base/slice.h"

#define RQ_JSON_MAX_DEPTH 64

rmq_status rq_json_parse(struct rq_slice text, cJSON **out, rmq_error **err);
void rq_json_free(cJSON *json);

/* Members with defaults: the default when json is NULL, the member is absent or of another type.
 * Numbers given as text are read. Integers up to 2^63 keep all digits (cJSON itself holds doubles;
 * the reader keeps the raw text where a double would lose). */
int64_t rq_json_i64(const cJSON *json, const char *name, int64_t def);
int32_t rq_json_i32(const cJSON *json, const char *name, int32_t def);
bool rq_json_bool(const cJSON *json, const char *name, bool def);
const char *rq_json_str(const cJSON *json, const char *name, const char *def);
/* case-sensitive; NULL for JSON null, too */
const cJSON *rq_json_get(const cJSON *json, const char *name);
bool rq_json_value_i64(const cJSON *item, int64_t *out); /* a number, or text that is one */

/* Writing: appended to a buffer, so that Java's forms can be made (bare keys where a peer needs
 * them). */
/* quoted and escaped; invalid UTF-8 becomes U+FFFD */
void rq_json_add_string(struct rq_buf *out, struct rq_slice text);
void rq_json_add_member(struct rq_buf *out, bool *first, const char *name); /* [,]"name": */

#endif

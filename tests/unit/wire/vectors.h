/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Reading the recorded vectors of tests/vectors in unit tests: the file, the list of cases, hex
 * fields. */
#ifndef RQ_TESTS_WIRE_VECTORS_H
#define RQ_TESTS_WIRE_VECTORS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sys.h"
#include "wire/msgid.h"

static inline cJSON *vectors_read(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "tests/vectors/%s", name);
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rmq_error *err = NULL;
    ck_assert_msg(rq_sys_read_file(path, RQ_BUF_MAX_DEFAULT, &text, &err) == RMQ_OK, "%s",
                  rmq_error_message(err));
    cJSON *json = NULL;
    ck_assert_msg(rq_json_parse(rq_slice(text.data, text.len), &json, &err) == RMQ_OK, "%s: %s",
                  path, rmq_error_message(err));
    rq_buf_free(&text);
    return json;
}

/* Bytes of a hex member in memory of exactly their size, so that sanitizers see a read beyond;
 * free() it. */
static inline char *vectors_hex(const cJSON *item, const char *member, size_t *n)
{
    const char *hex = rq_json_str(item, member, "");
    *n = strlen(hex) / 2;
    char *bytes = malloc(*n ? *n : 1);
    ck_assert(rq_hex_parse(rq_slice_str(hex), bytes));
    return bytes;
}

#endif

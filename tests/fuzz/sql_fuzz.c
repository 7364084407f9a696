/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* SQL92 filters: up to the first NUL an expression, then a property string. Whatever compiles is
 * evaluated, twice with the same result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    struct rq_slice properties = end ? rq_slice(end + 1, size - n - 1) : rq_slice("", 0);
    struct rq_sql *sql = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_sql_compile(rq_slice(data, n), &sql, &err);
    if ((st == RMQ_OK) != (sql != NULL) || (st != RMQ_OK) != (err != NULL)) {
        abort();
    }
    if (sql && rq_sql_evaluate(sql, properties) != rq_sql_evaluate(sql, properties)) {
        abort();
    }
    rq_sql_destroy(sql);
    rmq_error_destroy(err);
    return 0;
}

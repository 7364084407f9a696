/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * SQL92 filters: an expression over a message's properties, compiled once and evaluated for each
 * message, with the grammar, the conversions and the three-valued logic of the Java broker, its
 * oddities included (what follows a complete expression is ignored; "a" alone is false). A compiled
 * one is immutable, so any thread may evaluate it. Counterparts: SqlFilter, SelectorParser, the
 * expression classes.
 */
#ifndef RQ_BROKER_SQL_H
#define RQ_BROKER_SQL_H

#include <stdbool.h>

#include <rmq/error.h>

#include "base/slice.h"

/* Parentheses, signs and NOTs inside each other, and comparisons of comparisons. Chains of AND and
 * OR have no limit. */
#define RQ_SQL_MAX_DEPTH 256

struct rq_sql;

enum rq_sql_result {
    RQ_SQL_FALSE,
    RQ_SQL_TRUE,
    RQ_SQL_NULL, /* unknown: a property is missing */
    RQ_SQL_ERROR /* where Java throws: a value cannot be compared */
};

/* Errors: RMQ_ERR_INVALID with the place, RMQ_ERR_NOMEM. */
rmq_status rq_sql_compile(struct rq_slice text, struct rq_sql **out, rmq_error **err);
void rq_sql_destroy(struct rq_sql *sql); /* NULL is accepted */

/* properties: a message's property string. A message matches when the result is RQ_SQL_TRUE. */
enum rq_sql_result rq_sql_evaluate(const struct rq_sql *sql, struct rq_slice properties);

#endif

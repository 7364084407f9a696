/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The parser of SQL92 filters at work, for its rules (sql_parse.c) and what they build
 * (sql_tree.c). Pure but for memory. */
#ifndef RQ_BROKER_SQL_PARSER_H
#define RQ_BROKER_SQL_PARSER_H

#include "broker/sql_priv.h"

struct rq_sql_parser {
    struct rq_sql *sql;
    struct rq_slice text;
    struct rq_sql_token token; /* the one ahead */
    int32_t depth;             /* of calls */
    rmq_status st;
    rmq_error **err;
};

/* Notes the first error, with its place; RQ_SQL_NONE. */
int32_t rq_sql_fail_at(struct rq_sql_parser *parser, size_t at, const char *what);
int32_t rq_sql_fail(struct rq_sql_parser *parser, const char *what); /* at the token ahead */

/* ---- nodes: indexes, RQ_SQL_NONE after an error ---- */

static inline struct rq_sql_node rq_sql_node_of(enum rq_sql_op op, int32_t left, int32_t right)
{
    return (struct rq_sql_node){
        .op = op, .left = left, .right = right, .high = RQ_SQL_NONE, .next = RQ_SQL_NONE};
}

static inline const struct rq_sql_node *rq_sql_node_at(const struct rq_sql_parser *parser,
                                                       int32_t index)
{
    return &parser->sql->nodes[index];
}

int32_t rq_sql_add(struct rq_sql_parser *parser, struct rq_sql_node node);
int32_t rq_sql_add_constant(struct rq_sql_parser *parser, struct rq_sql_value value);
int32_t rq_sql_depth_of(const struct rq_sql_parser *parser, int32_t index); /* 0 of none */

/* ---- what may stand where ---- */

/* The node where a boolean must be: a property is converted, others that are none are errors. */
int32_t rq_sql_as_boolean(struct rq_sql_parser *parser, int32_t index);

/* Whether values may be compared by order, and for equality; false after an error. */
bool rq_sql_check_ordered(struct rq_sql_parser *parser, int32_t index);
bool rq_sql_check_equal(struct rq_sql_parser *parser, int32_t left, int32_t right);

#endif

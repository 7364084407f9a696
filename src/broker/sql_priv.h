/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Parts of the SQL92 filter: values and nodes, for the parser that makes them and the evaluator;
 * tokens, for lexer and parser. */
#ifndef RQ_BROKER_SQL_PRIV_H
#define RQ_BROKER_SQL_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/sql.h"

/* Integer and Long are told apart because text is converted to the type of the other side. */
enum rq_sql_type {
    RQ_SQL_T_NULL,
    RQ_SQL_T_BOOL,
    RQ_SQL_T_INT,
    RQ_SQL_T_LONG,
    RQ_SQL_T_DOUBLE,
    RQ_SQL_T_STRING
};

struct rq_sql_value {
    enum rq_sql_type type;
    union {
        bool b;
        int64_t i;
        double d;
        struct rq_slice s; /* inside the filter's text or the message's properties */
    } u;
};

enum rq_sql_op {
    RQ_SQL_CONST,
    RQ_SQL_PROPERTY, /* value.u.s is the name */
    RQ_SQL_NEGATE,
    RQ_SQL_NOT,
    RQ_SQL_CAST, /* a property where a boolean must be */
    RQ_SQL_AND,  /* children: a list from left on */
    RQ_SQL_OR,
    RQ_SQL_EQUAL,
    RQ_SQL_GREATER,
    RQ_SQL_GREATER_EQUAL,
    RQ_SQL_LESS,
    RQ_SQL_LESS_EQUAL,
    RQ_SQL_BETWEEN,  /* left, right = low, high */
    RQ_SQL_CONTAINS, /* value.u.s is what is looked for */
    RQ_SQL_STARTS_WITH,
    RQ_SQL_ENDS_WITH,
    RQ_SQL_IN /* left; right: a list of constants */
};

#define RQ_SQL_NONE (-1)

struct rq_sql_node {
    enum rq_sql_op op;
    bool negated; /* BETWEEN, CONTAINS, STARTS_WITH, ENDS_WITH, IN */
    int32_t depth;
    int32_t left; /* indexes of nodes */
    int32_t right;
    int32_t high;
    int32_t next; /* in the list of a parent */
    struct rq_sql_value value;
};

struct rq_sql {
    char *text; /* the expression; strings without their doubled quotes */
    struct rq_sql_node *nodes;
    int32_t count;
    int32_t cap;
    int32_t root;
};

/* ---- lexer ---- */

enum rq_sql_token_type {
    RQ_SQL_END,
    RQ_SQL_BAD, /* no token begins with this character */
    RQ_SQL_K_NOT,
    RQ_SQL_K_AND,
    RQ_SQL_K_OR,
    RQ_SQL_K_BETWEEN,
    RQ_SQL_K_IN,
    RQ_SQL_K_TRUE,
    RQ_SQL_K_FALSE,
    RQ_SQL_K_NULL,
    RQ_SQL_K_IS,
    RQ_SQL_K_CONTAINS,
    RQ_SQL_K_STARTSWITH,
    RQ_SQL_K_ENDSWITH,
    RQ_SQL_DECIMAL,
    RQ_SQL_FLOATING,
    RQ_SQL_STRING,
    RQ_SQL_ID,
    RQ_SQL_P_EQUAL,
    RQ_SQL_P_NOT_EQUAL,
    RQ_SQL_P_GREATER,
    RQ_SQL_P_GREATER_EQUAL,
    RQ_SQL_P_LESS,
    RQ_SQL_P_LESS_EQUAL,
    RQ_SQL_P_OPEN,
    RQ_SQL_P_COMMA,
    RQ_SQL_P_CLOSE,
    RQ_SQL_P_PLUS,
    RQ_SQL_P_MINUS
};

struct rq_sql_token {
    enum rq_sql_token_type type;
    size_t at; /* of the first character, from 0 */
    size_t n;
};

/* The token at or behind a place, blanks and comments skipped. */
struct rq_sql_token rq_sql_next_token(struct rq_slice text, size_t at);

/* ---- values ---- */

/* Java's Integer.valueOf, Long.valueOf, Double.valueOf; false where they throw. */
bool rq_sql_to_integer(struct rq_slice text, enum rq_sql_type type, struct rq_sql_value *out);
bool rq_sql_to_double(struct rq_slice text, struct rq_sql_value *out);

/* Order of two values, neither null, the left one as in Java converted to the right one's type or
 * the other way round; -1 also for types that cannot be compared. False where Java throws. */
bool rq_sql_compare(struct rq_sql_value left, struct rq_sql_value right, int *out);

#endif

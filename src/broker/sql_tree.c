/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the parser of SQL92 filters builds: nodes, each one deeper than its parts, and what may
 * stand where. */
#include "base/err.h"
#include "base/mem.h"
#include "broker/sql_parser.h"

#define NODES_MAX (1 << 20)

/* ---- errors ---- */

int32_t rq_sql_fail_at(struct rq_sql_parser *parser, size_t at, const char *what)
{
    if (!parser->st) {
        parser->st = rq_error_set(parser->err, RMQ_ERR_INVALID,
                                  "Invalid MessageSelector. At character %zu: %s", at + 1, what);
    }
    return RQ_SQL_NONE;
}

int32_t rq_sql_fail(struct rq_sql_parser *parser, const char *what)
{
    return rq_sql_fail_at(parser, parser->token.at, what);
}

/* ---- nodes ---- */

int32_t rq_sql_depth_of(const struct rq_sql_parser *parser, int32_t index)
{
    return index == RQ_SQL_NONE ? 0 : parser->sql->nodes[index].depth;
}

/* One deeper than the deepest of its parts. */
int32_t rq_sql_add(struct rq_sql_parser *parser, struct rq_sql_node node)
{
    struct rq_sql *sql = parser->sql;
    int32_t depths[] = {rq_sql_depth_of(parser, node.left), rq_sql_depth_of(parser, node.right),
                        rq_sql_depth_of(parser, node.high)};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        node.depth = depths[i] >= node.depth ? depths[i] + 1 : node.depth;
    }
    if (node.depth > RQ_SQL_MAX_DEPTH) {
        return rq_sql_fail(parser, "nested too deeply");
    }
    if (sql->count == sql->cap) {
        int32_t cap = sql->cap ? sql->cap * 2 : 16;
        struct rq_sql_node *nodes =
            cap <= NODES_MAX ? rq_realloc(sql->nodes, (size_t)cap * sizeof *nodes) : NULL;
        if (!nodes) {
            parser->st = rq_error_set(parser->err, RMQ_ERR_NOMEM, "no memory for a filter");
            return RQ_SQL_NONE;
        }
        sql->nodes = nodes;
        sql->cap = cap;
    }
    sql->nodes[sql->count] = node;
    return sql->count++;
}

int32_t rq_sql_add_constant(struct rq_sql_parser *parser, struct rq_sql_value value)
{
    struct rq_sql_node node = rq_sql_node_of(RQ_SQL_CONST, RQ_SQL_NONE, RQ_SQL_NONE);
    node.value = value;
    return rq_sql_add(parser, node);
}

/* ---- what may stand where ---- */

/* TRUE, FALSE and NULL are constants and booleans at once. */
static bool is_boolean(const struct rq_sql_parser *parser, int32_t index)
{
    const struct rq_sql_node *node = rq_sql_node_at(parser, index);
    if (node->op == RQ_SQL_CONST) {
        return node->value.type == RQ_SQL_T_BOOL || node->value.type == RQ_SQL_T_NULL;
    }
    return node->op != RQ_SQL_PROPERTY && node->op != RQ_SQL_NEGATE;
}

static bool is_number(const struct rq_sql_node *node)
{
    return node->value.type == RQ_SQL_T_INT || node->value.type == RQ_SQL_T_LONG ||
           node->value.type == RQ_SQL_T_DOUBLE;
}

int32_t rq_sql_as_boolean(struct rq_sql_parser *parser, int32_t index)
{
    if (parser->st || is_boolean(parser, index)) {
        return index;
    }
    if (rq_sql_node_at(parser, index)->op == RQ_SQL_PROPERTY) {
        return rq_sql_add(parser, rq_sql_node_of(RQ_SQL_CAST, index, RQ_SQL_NONE));
    }
    return rq_sql_fail(parser, "what stands before does not give a boolean value");
}

/* Numbers, properties and their negations have an order. */
bool rq_sql_check_ordered(struct rq_sql_parser *parser, int32_t index)
{
    if (parser->st) {
        return false;
    }
    const struct rq_sql_node *node = rq_sql_node_at(parser, index);
    if (node->op == RQ_SQL_CONST ? !is_number(node) : is_boolean(parser, index)) {
        (void)rq_sql_fail(parser, "a value that cannot be compared");
        return false;
    }
    return true;
}

bool rq_sql_check_equal(struct rq_sql_parser *parser, int32_t left, int32_t right)
{
    if (parser->st) {
        return false;
    }
    const struct rq_sql_node *a = rq_sql_node_at(parser, left);
    const struct rq_sql_node *b = rq_sql_node_at(parser, right);
    bool constants = a->op == RQ_SQL_CONST && b->op == RQ_SQL_CONST;
    if ((a->op == RQ_SQL_CONST && a->value.type == RQ_SQL_T_NULL) ||
        (b->op == RQ_SQL_CONST && b->value.type == RQ_SQL_T_NULL) ||
        (constants && is_boolean(parser, left) && !is_boolean(parser, right))) {
        (void)rq_sql_fail(parser, "a value that cannot be compared");
        return false;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The parser of SQL92 filters: recursive descent of bounded depth, one function per rule of the
 * Java grammar, which looks one token ahead and, behind a comparison, two. Pure but for memory.
 * Counterpart: SelectorParser.
 */
#include <float.h>
#include <math.h>

#include "base/err.h"
#include "base/mem.h"
#include "broker/sql_parser.h"

static int32_t or_expression(struct rq_sql_parser *parser);

/* ---- tokens ---- */

static void look(struct rq_sql_parser *parser, size_t at)
{
    parser->token = rq_sql_next_token(parser->text, at);
    if (parser->token.type == RQ_SQL_BAD) {
        (void)rq_sql_fail(parser, "a character that begins nothing");
    }
}

static struct rq_sql_token take(struct rq_sql_parser *parser)
{
    struct rq_sql_token token = parser->token;
    look(parser, token.at + token.n);
    return token;
}

static bool is(const struct rq_sql_parser *parser, enum rq_sql_token_type type)
{
    return !parser->st && parser->token.type == type;
}

static bool take_if(struct rq_sql_parser *parser, enum rq_sql_token_type type)
{
    if (!is(parser, type)) {
        return false;
    }
    (void)take(parser);
    return true;
}

static bool expect(struct rq_sql_parser *parser, enum rq_sql_token_type type, const char *what)
{
    if (take_if(parser, type)) {
        return true;
    }
    (void)rq_sql_fail(parser, what);
    return false;
}

/* ---- literals ---- */

/* The text between the quotes, with '' for each quote inside; made single in place. */
static struct rq_slice string_of(struct rq_sql_parser *parser, struct rq_sql_token token)
{
    char *p = parser->sql->text + token.at + 1;
    size_t n = 0;
    for (size_t i = 0; i + 2 < token.n; i++) {
        p[n++] = p[i];
        i += p[i] == '\'';
    }
    return rq_slice(p, n);
}

static bool take_string(struct rq_sql_parser *parser, struct rq_slice *out)
{
    if (!is(parser, RQ_SQL_STRING)) {
        (void)rq_sql_fail(parser, "a string in single quotes is expected");
        return false;
    }
    *out = string_of(parser, take(parser));
    return true;
}

static int32_t decimal_literal(struct rq_sql_parser *parser)
{
    struct rq_sql_token token = take(parser);
    struct rq_slice text = rq_slice(parser->text.p + token.at, token.n);
    struct rq_sql_value value;
    if (text.p[text.n - 1] == 'l' || text.p[text.n - 1] == 'L') {
        text.n--;
    }
    if (!rq_sql_to_integer(text, RQ_SQL_T_INT, &value) &&
        !rq_sql_to_integer(text, RQ_SQL_T_LONG, &value)) {
        return rq_sql_fail_at(parser, token.at, "a number beyond 64 bits");
    }
    return rq_sql_add_constant(parser, value);
}

/* Java refuses what is smaller than its smallest positive number, so 0.0 as well. */
static int32_t floating_literal(struct rq_sql_parser *parser)
{
    struct rq_sql_token token = take(parser);
    struct rq_sql_value value;
    if (!rq_sql_to_double(rq_slice(parser->text.p + token.at, token.n), &value)) {
        parser->st = rq_error_set(parser->err, RMQ_ERR_NOMEM, "no memory for a filter");
        return RQ_SQL_NONE;
    }
    if (value.u.d > DBL_MAX || value.u.d <= 0) {
        return rq_sql_fail_at(parser, token.at, "a number that is too large or not above 0.0");
    }
    return rq_sql_add_constant(parser, value);
}

static int32_t word_literal(struct rq_sql_parser *parser)
{
    struct rq_sql_token token = take(parser);
    struct rq_sql_value value = {.type = RQ_SQL_T_BOOL, .u.b = token.type == RQ_SQL_K_TRUE};
    if (token.type == RQ_SQL_K_NULL) {
        value.type = RQ_SQL_T_NULL;
    }
    return rq_sql_add_constant(parser, value);
}

static int32_t property(struct rq_sql_parser *parser)
{
    struct rq_sql_token token = take(parser);
    struct rq_sql_node node = rq_sql_node_of(RQ_SQL_PROPERTY, RQ_SQL_NONE, RQ_SQL_NONE);
    node.value = (struct rq_sql_value){.type = RQ_SQL_T_STRING,
                                       .u.s = rq_slice(parser->text.p + token.at, token.n)};
    return rq_sql_add(parser, node);
}

/* ---- rules ---- */

static int32_t parenthesis(struct rq_sql_parser *parser)
{
    (void)take(parser);
    int32_t left = or_expression(parser);
    return expect(parser, RQ_SQL_P_CLOSE, "a closing parenthesis is expected") ? left : RQ_SQL_NONE;
}

static int32_t primary(struct rq_sql_parser *parser)
{
    struct rq_sql_value value = {.type = RQ_SQL_T_STRING};
    switch (parser->token.type) {
    case RQ_SQL_STRING:
        return take_string(parser, &value.u.s) ? rq_sql_add_constant(parser, value) : RQ_SQL_NONE;
    case RQ_SQL_DECIMAL:
        return decimal_literal(parser);
    case RQ_SQL_FLOATING:
        return floating_literal(parser);
    case RQ_SQL_K_TRUE:
    case RQ_SQL_K_FALSE:
    case RQ_SQL_K_NULL:
        return word_literal(parser);
    case RQ_SQL_ID:
        return property(parser);
    case RQ_SQL_P_OPEN:
        return parenthesis(parser);
    default:
        return rq_sql_fail(parser, "a value, a property or a parenthesis is expected");
    }
}

static int32_t unary(struct rq_sql_parser *parser);

static int32_t unary_within(struct rq_sql_parser *parser)
{
    if (take_if(parser, RQ_SQL_P_PLUS)) {
        return unary(parser);
    }
    if (take_if(parser, RQ_SQL_P_MINUS)) {
        int32_t value = unary(parser);
        return parser->st ? RQ_SQL_NONE
                          : rq_sql_add(parser, rq_sql_node_of(RQ_SQL_NEGATE, value, RQ_SQL_NONE));
    }
    if (take_if(parser, RQ_SQL_K_NOT)) {
        int32_t value = rq_sql_as_boolean(parser, unary(parser));
        return parser->st ? RQ_SQL_NONE
                          : rq_sql_add(parser, rq_sql_node_of(RQ_SQL_NOT, value, RQ_SQL_NONE));
    }
    return primary(parser);
}

static int32_t unary(struct rq_sql_parser *parser)
{
    if (parser->st) {
        return RQ_SQL_NONE;
    }
    if (parser->depth >= RQ_SQL_MAX_DEPTH) {
        return rq_sql_fail(parser, "nested too deeply");
    }
    parser->depth++;
    int32_t index = unary_within(parser);
    parser->depth--;
    return parser->st ? RQ_SQL_NONE : index;
}

static int32_t ordered(struct rq_sql_parser *parser, int32_t left, enum rq_sql_op op)
{
    (void)take(parser);
    int32_t right = unary(parser);
    if (!rq_sql_check_ordered(parser, left) || !rq_sql_check_ordered(parser, right)) {
        return RQ_SQL_NONE;
    }
    return rq_sql_add(parser, rq_sql_node_of(op, left, right));
}

static int32_t text_test(struct rq_sql_parser *parser, int32_t left, enum rq_sql_op op,
                         bool negated)
{
    struct rq_sql_node node = rq_sql_node_of(op, left, RQ_SQL_NONE);
    (void)take(parser);
    node.negated = negated;
    node.value.type = RQ_SQL_T_STRING;
    return take_string(parser, &node.value.u.s) ? rq_sql_add(parser, node) : RQ_SQL_NONE;
}

/* Two constants must be in order; only without NOT, as in Java. */
static bool check_bounds(struct rq_sql_parser *parser, const struct rq_sql_node *node)
{
    const struct rq_sql_node *low = rq_sql_node_at(parser, node->right);
    const struct rq_sql_node *high = rq_sql_node_at(parser, node->high);
    int order = 0;
    if (node->negated || low->op != RQ_SQL_CONST || high->op != RQ_SQL_CONST) {
        return true;
    }
    if (!rq_sql_compare(high->value, low->value, &order) || order < 0) {
        (void)rq_sql_fail(parser, "the bounds of BETWEEN are not in order");
        return false;
    }
    return true;
}

static int32_t between(struct rq_sql_parser *parser, int32_t left, bool negated)
{
    struct rq_sql_node node = rq_sql_node_of(RQ_SQL_BETWEEN, left, RQ_SQL_NONE);
    (void)take(parser);
    node.negated = negated;
    node.right = unary(parser);
    if (!expect(parser, RQ_SQL_K_AND, "AND is expected after the first bound of BETWEEN")) {
        return RQ_SQL_NONE;
    }
    node.high = unary(parser);
    if (!rq_sql_check_ordered(parser, left) || !rq_sql_check_ordered(parser, node.right) ||
        !rq_sql_check_ordered(parser, node.high) || !check_bounds(parser, &node)) {
        return RQ_SQL_NONE;
    }
    return rq_sql_add(parser, node);
}

/* Strings in parentheses, as a list of constants. */
static int32_t string_list(struct rq_sql_parser *parser)
{
    int32_t first = RQ_SQL_NONE;
    int32_t last = RQ_SQL_NONE;
    do {
        struct rq_sql_value value = {.type = RQ_SQL_T_STRING};
        if (!take_string(parser, &value.u.s)) {
            return RQ_SQL_NONE;
        }
        int32_t item = rq_sql_add_constant(parser, value);
        if (item == RQ_SQL_NONE) {
            return RQ_SQL_NONE;
        }
        if (first == RQ_SQL_NONE) {
            first = item;
        } else {
            parser->sql->nodes[last].next = item;
        }
        last = item;
    } while (take_if(parser, RQ_SQL_P_COMMA));
    return first;
}

static int32_t in(struct rq_sql_parser *parser, int32_t left, bool negated)
{
    struct rq_sql_node node = rq_sql_node_of(RQ_SQL_IN, left, RQ_SQL_NONE);
    (void)take(parser);
    node.negated = negated;
    if (!expect(parser, RQ_SQL_P_OPEN, "a list in parentheses is expected after IN")) {
        return RQ_SQL_NONE;
    }
    node.right = string_list(parser);
    if (!expect(parser, RQ_SQL_P_CLOSE, "a closing parenthesis is expected")) {
        return RQ_SQL_NONE;
    }
    if (rq_sql_node_at(parser, left)->op != RQ_SQL_PROPERTY) {
        return rq_sql_fail(parser, "IN needs a property");
    }
    return rq_sql_add(parser, node);
}

/* A comparison with left, whose operator is the token ahead; *more false: there is none. */
static int32_t compare_with(struct rq_sql_parser *parser, int32_t left, bool *more)
{
    bool negated = take_if(parser, RQ_SQL_K_NOT);
    if (parser->st) {
        return RQ_SQL_NONE;
    }
    switch (parser->token.type) {
    case RQ_SQL_K_CONTAINS:
        return text_test(parser, left, RQ_SQL_CONTAINS, negated);
    case RQ_SQL_K_STARTSWITH:
        return text_test(parser, left, RQ_SQL_STARTS_WITH, negated);
    case RQ_SQL_K_ENDSWITH:
        return text_test(parser, left, RQ_SQL_ENDS_WITH, negated);
    case RQ_SQL_K_BETWEEN:
        return between(parser, left, negated);
    case RQ_SQL_K_IN:
        return in(parser, left, negated);
    default:
        break;
    }
    if (negated) {
        return rq_sql_fail(parser,
                           "CONTAINS, STARTSWITH, ENDSWITH, BETWEEN or IN is expected after NOT");
    }
    switch (parser->token.type) {
    case RQ_SQL_P_GREATER:
        return ordered(parser, left, RQ_SQL_GREATER);
    case RQ_SQL_P_GREATER_EQUAL:
        return ordered(parser, left, RQ_SQL_GREATER_EQUAL);
    case RQ_SQL_P_LESS:
        return ordered(parser, left, RQ_SQL_LESS);
    case RQ_SQL_P_LESS_EQUAL:
        return ordered(parser, left, RQ_SQL_LESS_EQUAL);
    default:
        *more = false;
        return left;
    }
}

static int32_t comparison(struct rq_sql_parser *parser)
{
    int32_t left = unary(parser);
    for (bool more = true; more && !parser->st;) {
        left = compare_with(parser, left, &more);
    }
    return parser->st ? RQ_SQL_NONE : left;
}

static int32_t negate_if(struct rq_sql_parser *parser, bool negated, int32_t index)
{
    return negated && !parser->st
               ? rq_sql_add(parser, rq_sql_node_of(RQ_SQL_NOT, index, RQ_SQL_NONE))
               : index;
}

static int32_t equal(struct rq_sql_parser *parser, int32_t left)
{
    bool negated = take(parser).type == RQ_SQL_P_NOT_EQUAL;
    int32_t right = comparison(parser);
    if (!rq_sql_check_equal(parser, left, right)) {
        return RQ_SQL_NONE;
    }
    return negate_if(parser, negated,
                     rq_sql_add(parser, rq_sql_node_of(RQ_SQL_EQUAL, left, right)));
}

static int32_t is_null(struct rq_sql_parser *parser, int32_t left)
{
    (void)take(parser);
    bool negated = take_if(parser, RQ_SQL_K_NOT);
    if (!expect(parser, RQ_SQL_K_NULL, "NULL or NOT NULL is expected after IS")) {
        return RQ_SQL_NONE;
    }
    int32_t null = rq_sql_add_constant(parser, (struct rq_sql_value){.type = RQ_SQL_T_NULL});
    if (parser->st) {
        return RQ_SQL_NONE;
    }
    return negate_if(parser, negated, rq_sql_add(parser, rq_sql_node_of(RQ_SQL_EQUAL, left, null)));
}

static int32_t equality(struct rq_sql_parser *parser)
{
    int32_t left = comparison(parser);
    for (;;) {
        if (is(parser, RQ_SQL_P_EQUAL) || is(parser, RQ_SQL_P_NOT_EQUAL)) {
            left = equal(parser, left);
        } else if (is(parser, RQ_SQL_K_IS)) {
            left = is_null(parser, left);
        } else {
            return parser->st ? RQ_SQL_NONE : left;
        }
    }
}

/* A chain of AND or OR becomes one node with a list of children: the result and what is evaluated
 * are the same as from left to right. */
static int32_t chain(struct rq_sql_parser *parser, enum rq_sql_op op, enum rq_sql_token_type word,
                     int32_t (*part)(struct rq_sql_parser *))
{
    int32_t left = part(parser);
    if (!is(parser, word)) {
        return parser->st ? RQ_SQL_NONE : left;
    }
    left = rq_sql_as_boolean(parser, left);
    int32_t last = left;
    int32_t depth = rq_sql_depth_of(parser, parser->st ? RQ_SQL_NONE : left);
    while (take_if(parser, word)) {
        int32_t right = rq_sql_as_boolean(parser, part(parser));
        if (parser->st) {
            return RQ_SQL_NONE;
        }
        parser->sql->nodes[last].next = right;
        last = right;
        depth = rq_sql_depth_of(parser, right) > depth ? rq_sql_depth_of(parser, right) : depth;
    }
    if (parser->st) {
        return RQ_SQL_NONE;
    }
    struct rq_sql_node node = rq_sql_node_of(op, left, RQ_SQL_NONE);
    node.depth = depth + 1;
    return rq_sql_add(parser, node);
}

static int32_t and_expression(struct rq_sql_parser *parser)
{
    return chain(parser, RQ_SQL_AND, RQ_SQL_K_AND, equality);
}

static int32_t or_expression(struct rq_sql_parser *parser)
{
    return chain(parser, RQ_SQL_OR, RQ_SQL_K_OR, and_expression);
}

/* ---- life ---- */

rmq_status rq_sql_compile(struct rq_slice text, struct rq_sql **out, rmq_error **err)
{
    struct rq_sql *sql = rq_calloc(1, sizeof *sql);
    *out = NULL;
    if (sql) {
        sql->text = rq_slice_dup(rq_slice(text.p ? text.p : "", text.n));
    }
    if (!sql || !sql->text) {
        rq_sql_destroy(sql);
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a filter");
    }
    struct rq_sql_parser parser = {.sql = sql, .text = rq_slice(sql->text, text.n), .err = err};
    look(&parser, 0);
    sql->root = rq_sql_as_boolean(&parser, or_expression(&parser));
    if (parser.st) {
        rq_sql_destroy(sql);
        return parser.st;
    }
    *out = sql;
    return RMQ_OK;
}

void rq_sql_destroy(struct rq_sql *sql)
{
    if (sql) {
        rq_free(sql->nodes);
        rq_free(sql->text);
        rq_free(sql);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Evaluation of SQL92 filters: down the nodes, no deeper than the parser allows, without allocation
 * but for very long numbers. What is evaluated, and in which order, is what Java evaluates, because
 * a value that cannot be compared ends it all. Pure. Counterpart: the expression classes.
 */
#include "broker/sql_priv.h"
#include "wire/properties.h"

struct evaluation {
    const struct rq_sql *sql;
    struct rq_slice properties;
    bool failed; /* Java has thrown */
};

static struct rq_sql_value evaluate(struct evaluation *ev, int32_t index);

static struct rq_sql_value null_value(void)
{
    return (struct rq_sql_value){.type = RQ_SQL_T_NULL};
}

static struct rq_sql_value bool_value(bool b)
{
    return (struct rq_sql_value){.type = RQ_SQL_T_BOOL, .u.b = b};
}

static struct rq_sql_value fail(struct evaluation *ev)
{
    ev->failed = true;
    return null_value();
}

static bool is_null(struct rq_sql_value value)
{
    return value.type == RQ_SQL_T_NULL;
}

static bool is_bool(struct rq_sql_value value, bool b)
{
    return value.type == RQ_SQL_T_BOOL && value.u.b == b;
}

static struct rq_sql_value property(const struct evaluation *ev, struct rq_slice name)
{
    struct rq_sql_value value = null_value();
    struct rq_slice rest = ev->properties;
    struct rq_prop prop;
    while (rq_props_next(&rest, &prop)) {
        if (rq_slice_eq(prop.name, name)) {
            value = (struct rq_sql_value){.type = RQ_SQL_T_STRING, .u.s = prop.value};
        }
    }
    return value;
}

static struct rq_sql_value negate(struct rq_sql_value value)
{
    switch (value.type) {
    case RQ_SQL_T_INT:
        value.u.i = (int32_t)(0U - (uint32_t)value.u.i);
        return value;
    case RQ_SQL_T_LONG:
        value.u.i = (int64_t)(0U - (uint64_t)value.u.i);
        return value;
    case RQ_SQL_T_DOUBLE:
        value.u.d = -value.u.d;
        return value;
    default:
        return null_value();
    }
}

/* AND and OR: one child that equals stop decides; else null when one was null. */
static struct rq_sql_value chain(struct evaluation *ev, const struct rq_sql_node *node, bool stop)
{
    bool unknown = false;
    for (int32_t i = node->left; i != RQ_SQL_NONE; i = ev->sql->nodes[i].next) {
        struct rq_sql_value value = evaluate(ev, i);
        if (ev->failed || is_bool(value, stop)) {
            return value;
        }
        unknown = unknown || is_null(value);
    }
    return unknown ? null_value() : bool_value(!stop);
}

static struct rq_sql_value equal(struct evaluation *ev, const struct rq_sql_node *node)
{
    struct rq_sql_value left = evaluate(ev, node->left);
    struct rq_sql_value right = ev->failed ? null_value() : evaluate(ev, node->right);
    int order = 0;
    if (is_null(left) || is_null(right)) {
        return is_null(left) && !is_null(right) ? null_value() : bool_value(is_null(left));
    }
    if (!rq_sql_compare(left, right, &order)) {
        return fail(ev);
    }
    return bool_value(order == 0);
}

static bool holds(enum rq_sql_op op, int order)
{
    switch (op) {
    case RQ_SQL_GREATER:
        return order > 0;
    case RQ_SQL_GREATER_EQUAL:
        return order >= 0;
    case RQ_SQL_LESS:
        return order < 0;
    default:
        return order <= 0;
    }
}

/* left is known, right is evaluated only when left is not null. Two texts are compared as
 * numbers. */
static struct rq_sql_value compare(struct evaluation *ev, struct rq_sql_value left,
                                   enum rq_sql_op op, int32_t right_index)
{
    int order = 0;
    if (is_null(left)) {
        return left;
    }
    struct rq_sql_value right = evaluate(ev, right_index);
    if (ev->failed || is_null(right)) {
        return null_value();
    }
    if (left.type == RQ_SQL_T_STRING && right.type == RQ_SQL_T_STRING &&
        (!rq_sql_to_double(left.u.s, &left) || !rq_sql_to_double(right.u.s, &right))) {
        return fail(ev);
    }
    return rq_sql_compare(left, right, &order) ? bool_value(holds(op, order)) : fail(ev);
}

/* low <= value AND value <= high, or with NOT: value < low OR value > high. */
static struct rq_sql_value between(struct evaluation *ev, const struct rq_sql_node *node)
{
    struct rq_sql_value value = evaluate(ev, node->left);
    if (ev->failed) {
        return value;
    }
    struct rq_sql_value first =
        compare(ev, value, node->negated ? RQ_SQL_LESS : RQ_SQL_GREATER_EQUAL, node->right);
    if (ev->failed || is_bool(first, node->negated)) {
        return first;
    }
    struct rq_sql_value second =
        compare(ev, value, node->negated ? RQ_SQL_GREATER : RQ_SQL_LESS_EQUAL, node->high);
    if (ev->failed || is_bool(second, node->negated)) {
        return second;
    }
    return is_null(first) || is_null(second) ? null_value() : bool_value(!node->negated);
}

static bool text_holds(enum rq_sql_op op, struct rq_slice text, struct rq_slice part)
{
    if (part.n > text.n) {
        return false;
    }
    if (op == RQ_SQL_STARTS_WITH) {
        return memcmp(text.p, part.p, part.n) == 0;
    }
    if (op == RQ_SQL_ENDS_WITH) {
        return memcmp(text.p + (text.n - part.n), part.p, part.n) == 0;
    }
    return memmem(text.p, text.n, part.p, part.n) != NULL;
}

/* An empty text to look for, no text to look in: false, also with NOT. */
static struct rq_sql_value text_test(struct evaluation *ev, const struct rq_sql_node *node)
{
    struct rq_slice part = node->value.u.s;
    if (part.n == 0) {
        return bool_value(false);
    }
    struct rq_sql_value value = evaluate(ev, node->left);
    if (ev->failed || value.type != RQ_SQL_T_STRING) {
        return bool_value(false);
    }
    return bool_value(text_holds(node->op, value.u.s, part) != node->negated);
}

static struct rq_sql_value in(struct evaluation *ev, const struct rq_sql_node *node)
{
    struct rq_sql_value value = evaluate(ev, node->left);
    if (value.type != RQ_SQL_T_STRING) {
        return null_value();
    }
    bool found = false;
    for (int32_t i = node->right; i != RQ_SQL_NONE && !found; i = ev->sql->nodes[i].next) {
        found = rq_slice_eq(value.u.s, ev->sql->nodes[i].value.u.s);
    }
    return bool_value(found != node->negated);
}

static struct rq_sql_value evaluate_unary(struct evaluation *ev, const struct rq_sql_node *node)
{
    struct rq_sql_value value = evaluate(ev, node->left);
    if (ev->failed || node->op == RQ_SQL_NEGATE) {
        return negate(value);
    }
    if (is_null(value)) {
        return value;
    }
    return bool_value(node->op == RQ_SQL_NOT ? !value.u.b : is_bool(value, true));
}

static struct rq_sql_value evaluate(struct evaluation *ev, int32_t index)
{
    const struct rq_sql_node *node = &ev->sql->nodes[index];
    switch (node->op) {
    case RQ_SQL_CONST:
        return node->value;
    case RQ_SQL_PROPERTY:
        return property(ev, node->value.u.s);
    case RQ_SQL_NEGATE:
    case RQ_SQL_NOT:
    case RQ_SQL_CAST:
        return evaluate_unary(ev, node);
    case RQ_SQL_AND:
        return chain(ev, node, false);
    case RQ_SQL_OR:
        return chain(ev, node, true);
    case RQ_SQL_EQUAL:
        return equal(ev, node);
    case RQ_SQL_BETWEEN:
        return between(ev, node);
    case RQ_SQL_CONTAINS:
    case RQ_SQL_STARTS_WITH:
    case RQ_SQL_ENDS_WITH:
        return text_test(ev, node);
    case RQ_SQL_IN:
        return in(ev, node);
    default:
        return compare(ev, evaluate(ev, node->left), node->op, node->right);
    }
}

enum rq_sql_result rq_sql_evaluate(const struct rq_sql *sql, struct rq_slice properties)
{
    struct evaluation ev = {.sql = sql, .properties = properties};
    struct rq_sql_value value = evaluate(&ev, sql->root);
    if (ev.failed) {
        return RQ_SQL_ERROR;
    }
    if (value.type != RQ_SQL_T_BOOL) {
        return RQ_SQL_NULL;
    }
    return value.u.b ? RQ_SQL_TRUE : RQ_SQL_FALSE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Values of SQL92 filters: text into numbers as Java reads it, and the order of two values. Pure
 * functions. Counterpart: ComparisonExpression. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"
#include "broker/sql_priv.h"

#define SHORT_NUMBER 64

bool rq_sql_to_integer(struct rq_slice text, enum rq_sql_type type, struct rq_sql_value *out)
{
    int64_t value = 0;
    if (!rq_slice_to_i64(text, &value) ||
        (type == RQ_SQL_T_INT && (value < INT32_MIN || value > INT32_MAX))) {
        return false;
    }
    *out = (struct rq_sql_value){.type = type, .u.i = value};
    return true;
}

/* ---- doubles ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static size_t run(struct rq_slice text, size_t *i, bool (*is)(char))
{
    size_t start = *i;
    while (*i < text.n && is(text.p[*i])) {
        (*i)++;
    }
    return *i - start;
}

static bool take(struct rq_slice text, size_t *i, char low)
{
    if (*i < text.n && (text.p[*i] | 0x20) == low) {
        (*i)++;
        return true;
    }
    return false;
}

static bool take_exponent(struct rq_slice text, size_t *i)
{
    if (*i < text.n && (text.p[*i] == '+' || text.p[*i] == '-')) {
        (*i)++;
    }
    return run(text, i, is_digit) > 0;
}

/* The form of a number without its sign: [digits][.digits][e digits][f|d], or hexadecimal with an
 * exponent that must be there. */
static bool is_java_double(struct rq_slice text, size_t *significant)
{
    size_t i = 0;
    bool hex = text.n > 1 && text.p[0] == '0' && (text.p[1] | 0x20) == 'x';
    bool (*is)(char) = hex ? is_hex : is_digit;
    i = hex ? 2 : 0;
    size_t count = run(text, &i, is);
    if (i < text.n && text.p[i] == '.') {
        i++;
        count += run(text, &i, is);
    }
    if (count == 0) {
        return false;
    }
    if (take(text, &i, hex ? 'p' : 'e') ? !take_exponent(text, &i) : hex) {
        return false;
    }
    *significant = i;
    if (!take(text, &i, 'f')) {
        (void)take(text, &i, 'd');
    }
    return i == text.n;
}

/* As in the C locale, whatever the program has set. */
static bool convert(struct rq_slice text, double *out)
{
    char small[SHORT_NUMBER];
    char *copy = text.n < sizeof small ? small : rq_alloc(text.n + 1);
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    bool ok = copy && locale;
    if (ok) {
        memcpy(copy, text.p, text.n);
        copy[text.n] = '\0';
        *out = strtod_l(copy, NULL, locale);
    }
    if (locale) {
        freelocale(locale);
    }
    if (copy != small) {
        rq_free(copy);
    }
    return ok;
}

bool rq_sql_to_double(struct rq_slice text, struct rq_sql_value *out)
{
    double value = 0;
    size_t significant = 0;
    text = rq_slice_trim(text);
    bool minus = text.n && text.p[0] == '-';
    if (text.n && (minus || text.p[0] == '+')) {
        text = rq_slice(text.p + 1, text.n - 1);
    }
    if (rq_slice_eq_str(text, "NaN")) {
        value = NAN;
    } else if (rq_slice_eq_str(text, "Infinity")) {
        value = INFINITY;
    } else if (!is_java_double(text, &significant) ||
               !convert(rq_slice(text.p, significant), &value)) {
        return false;
    }
    *out = (struct rq_sql_value){.type = RQ_SQL_T_DOUBLE, .u.d = minus ? -value : value};
    return true;
}

/* ---- order ---- */

static bool is_number(enum rq_sql_type type)
{
    return type == RQ_SQL_T_INT || type == RQ_SQL_T_LONG || type == RQ_SQL_T_DOUBLE;
}

static double as_double(struct rq_sql_value value)
{
    return value.type == RQ_SQL_T_DOUBLE ? value.u.d : (double)value.u.i;
}

static int order_of_ints(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Double.compareTo: -0.0 is less than 0.0, NaN greater than all and equal to itself. */
static int order_of_doubles(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return (isnan(a) != 0) - (isnan(b) != 0);
    }
    if (a < b || a > b) {
        return a < b ? -1 : 1;
    }
    return (signbit(b) != 0) - (signbit(a) != 0);
}

static int order_of_numbers(struct rq_sql_value a, struct rq_sql_value b)
{
    if (a.type == RQ_SQL_T_DOUBLE || b.type == RQ_SQL_T_DOUBLE) {
        return order_of_doubles(as_double(a), as_double(b));
    }
    return order_of_ints(a.u.i, b.u.i);
}

static bool as_type(struct rq_slice text, enum rq_sql_type type, struct rq_sql_value *out)
{
    return type == RQ_SQL_T_DOUBLE ? rq_sql_to_double(text, out)
                                   : rq_sql_to_integer(text, type, out);
}

static bool is_true(struct rq_slice text)
{
    return text.n == 4 && strncasecmp(text.p, "true", 4) == 0;
}

/* Text on one side, another type on the other. */
static bool compare_with_text(struct rq_sql_value left, struct rq_sql_value right, int *out)
{
    struct rq_sql_value converted;
    if (left.type == RQ_SQL_T_BOOL) {
        return false;
    }
    if (right.type == RQ_SQL_T_BOOL) {
        *out = (int)is_true(left.u.s) - (int)right.u.b;
        return true;
    }
    if (left.type == RQ_SQL_T_STRING) {
        if (!as_type(left.u.s, right.type, &converted)) {
            return false;
        }
        *out = order_of_numbers(converted, right);
        return true;
    }
    if (!as_type(right.u.s, left.type, &converted)) {
        return false;
    }
    *out = order_of_numbers(left, converted);
    return true;
}

bool rq_sql_compare(struct rq_sql_value left, struct rq_sql_value right, int *out)
{
    *out = -1;
    if (is_number(left.type) && is_number(right.type)) {
        *out = order_of_numbers(left, right);
    } else if (left.type == RQ_SQL_T_STRING && right.type == RQ_SQL_T_STRING) {
        *out = rq_slice_cmp(left.u.s, right.u.s);
    } else if (left.type == RQ_SQL_T_BOOL && right.type == RQ_SQL_T_BOOL) {
        *out = (int)left.u.b - (int)right.u.b;
    } else if (left.type == RQ_SQL_T_STRING || right.type == RQ_SQL_T_STRING) {
        return compare_with_text(left, right, out);
    }
    return true;
}

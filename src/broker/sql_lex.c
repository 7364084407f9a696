/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tokens of SQL92 filters: the longest match wins, keywords in any case. Pure functions.
 * Counterpart: SelectorParserTokenManager. */
#include "broker/sql_priv.h"

static const struct keyword {
    const char *name;
    enum rq_sql_token_type type;
} keywords[] = {
    {"NOT", RQ_SQL_K_NOT},
    {"AND", RQ_SQL_K_AND},
    {"OR", RQ_SQL_K_OR},
    {"BETWEEN", RQ_SQL_K_BETWEEN},
    {"IN", RQ_SQL_K_IN},
    {"TRUE", RQ_SQL_K_TRUE},
    {"FALSE", RQ_SQL_K_FALSE},
    {"NULL", RQ_SQL_K_NULL},
    {"IS", RQ_SQL_K_IS},
    {"CONTAINS", RQ_SQL_K_CONTAINS},
    {"STARTSWITH", RQ_SQL_K_STARTSWITH},
    {"ENDSWITH", RQ_SQL_K_ENDSWITH},
};

static const struct symbol {
    const char *text;
    enum rq_sql_token_type type;
} symbols[] = {
    /* the longer ones first */
    {"<>", RQ_SQL_P_NOT_EQUAL}, {">=", RQ_SQL_P_GREATER_EQUAL}, {"<=", RQ_SQL_P_LESS_EQUAL},
    {"=", RQ_SQL_P_EQUAL},      {">", RQ_SQL_P_GREATER},        {"<", RQ_SQL_P_LESS},
    {"(", RQ_SQL_P_OPEN},       {",", RQ_SQL_P_COMMA},          {")", RQ_SQL_P_CLOSE},
    {"+", RQ_SQL_P_PLUS},       {"-", RQ_SQL_P_MINUS},
};

/* The character at a place; NUL, which begins no token, beyond the end. */
static char at(struct rq_slice text, size_t i)
{
    return i < text.n ? text.p[i] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool is_name_start(char c)
{
    return (upper(c) >= 'A' && upper(c) <= 'Z') || c == '_' || c == '$';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Each of the following returns the place behind what it is named for, or where it began when there
 * is none. */

/* A line comment needs the end of its line. */
static size_t line_comment(struct rq_slice text, size_t i)
{
    size_t end = i + 2;
    if (at(text, i) != '-' || at(text, i + 1) != '-') {
        return i;
    }
    while (end < text.n && text.p[end] != '\n' && text.p[end] != '\r') {
        end++;
    }
    if (end >= text.n) {
        return i;
    }
    return text.p[end] == '\r' && at(text, end + 1) == '\n' ? end + 2 : end + 1;
}

static size_t block_comment(struct rq_slice text, size_t i)
{
    if (at(text, i) != '/' || at(text, i + 1) != '*') {
        return i;
    }
    for (size_t end = i + 2; end + 1 < text.n; end++) {
        if (text.p[end] == '*' && text.p[end + 1] == '/') {
            return end + 2;
        }
    }
    return i;
}

static size_t skip(struct rq_slice text, size_t i)
{
    size_t start;
    do {
        start = i;
        while (i < text.n && is_blank(text.p[i])) {
            i++;
        }
        i = line_comment(text, i);
        i = block_comment(text, i);
    } while (i != start);
    return i;
}

static size_t digits(struct rq_slice text, size_t i)
{
    while (is_digit(at(text, i))) {
        i++;
    }
    return i;
}

static size_t exponent(struct rq_slice text, size_t i)
{
    size_t start = i;
    if (upper(at(text, i)) != 'E') {
        return start;
    }
    i++;
    if (at(text, i) == '+' || at(text, i) == '-') {
        i++;
    }
    return is_digit(at(text, i)) ? digits(text, i) : start;
}

static size_t floating(struct rq_slice text, size_t i)
{
    size_t whole = digits(text, i);
    if (at(text, whole) == '.' && (whole > i || is_digit(at(text, whole + 1)))) {
        return exponent(text, digits(text, whole + 1));
    }
    size_t end = whole > i ? exponent(text, whole) : i;
    return end > whole ? end : i;
}

static size_t decimal(struct rq_slice text, size_t i)
{
    if (at(text, i) == '0') {
        return i + 1;
    }
    size_t end = digits(text, i);
    return end > i && upper(at(text, end)) == 'L' ? end + 1 : end;
}

static size_t string(struct rq_slice text, size_t i)
{
    size_t end = i + 1;
    if (at(text, i) != '\'') {
        return i;
    }
    while (end < text.n) {
        if (text.p[end] != '\'') {
            end++;
        } else if (at(text, end + 1) == '\'') {
            end += 2;
        } else {
            return end + 1;
        }
    }
    return i;
}

static size_t name(struct rq_slice text, size_t i)
{
    if (!is_name_start(at(text, i))) {
        return i;
    }
    while (is_name_start(at(text, i)) || is_digit(at(text, i))) {
        i++;
    }
    return i;
}

static enum rq_sql_token_type type_of_name(const char *p, size_t n)
{
    for (size_t k = 0; k < sizeof keywords / sizeof keywords[0]; k++) {
        size_t i = 0;
        while (i < n && keywords[k].name[i] == upper(p[i])) {
            i++;
        }
        if (i == n && keywords[k].name[n] == '\0') {
            return keywords[k].type;
        }
    }
    return RQ_SQL_ID;
}

static struct rq_sql_token token(enum rq_sql_token_type type, size_t start, size_t end)
{
    return (struct rq_sql_token){.type = type, .at = start, .n = end - start};
}

static struct rq_sql_token number(struct rq_slice text, size_t i)
{
    size_t as_floating = floating(text, i);
    size_t as_decimal = decimal(text, i);
    return as_floating > as_decimal ? token(RQ_SQL_FLOATING, i, as_floating)
                                    : token(RQ_SQL_DECIMAL, i, as_decimal);
}

static struct rq_sql_token symbol(struct rq_slice text, size_t i)
{
    for (size_t k = 0; k < sizeof symbols / sizeof symbols[0]; k++) {
        size_t n = strlen(symbols[k].text);
        if (text.n - i >= n && memcmp(text.p + i, symbols[k].text, n) == 0) {
            return token(symbols[k].type, i, i + n);
        }
    }
    return token(RQ_SQL_BAD, i, i + 1);
}

struct rq_sql_token rq_sql_next_token(struct rq_slice text, size_t i)
{
    i = skip(text, i);
    if (i >= text.n) {
        return token(RQ_SQL_END, i, i);
    }
    size_t end = name(text, i);
    if (end > i) {
        return token(type_of_name(text.p + i, end - i), i, end);
    }
    end = string(text, i);
    if (end > i) {
        return token(RQ_SQL_STRING, i, end);
    }
    if (is_digit(text.p[i]) || (text.p[i] == '.' && is_digit(at(text, i + 1)))) {
        return number(text, i);
    }
    return symbol(text, i);
}

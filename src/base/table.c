/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Option tables: defaults, text values, checks, and the nearest name for a mistyped key. Pure
 * functions over caller's structs. */
#include "base/table.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"

static char *field_of(void *object, const struct rq_option *option)
{
    return (char *)object + option->offset;
}

static const char *const_field_of(const void *object, const struct rq_option *option)
{
    return (const char *)object + option->offset;
}

static int64_t get_number(const struct rq_option *option, const void *object)
{
    const char *p = const_field_of(object, option);
    int64_t v64 = 0;
    int32_t v32 = 0;
    bool flag = false;
    switch (option->type) {
    case RQ_OPT_I64:
        memcpy(&v64, p, sizeof v64);
        return v64;
    case RQ_OPT_BOOL:
        memcpy(&flag, p, sizeof flag);
        return flag;
    default:
        memcpy(&v32, p, sizeof v32);
        return v32;
    }
}

static void set_number(const struct rq_option *option, void *object, int64_t v)
{
    char *p = field_of(object, option);
    int32_t v32 = (int32_t)v;
    bool flag = v != 0;
    switch (option->type) {
    case RQ_OPT_I64:
        memcpy(p, &v, sizeof v);
        break;
    case RQ_OPT_BOOL:
        memcpy(p, &flag, sizeof flag);
        break;
    default:
        memcpy(p, &v32, sizeof v32);
        break;
    }
}

static const char *get_string(const struct rq_option *option, const void *object)
{
    const char *text;
    memcpy(&text, const_field_of(object, option), sizeof text);
    return text;
}

static void set_string(const struct rq_option *option, void *object, const char *text)
{
    memcpy(field_of(object, option), &text, sizeof text);
}

/* The index-th name of "A|B|C", empty beyond. */
static struct rq_slice enum_name(const char *names, int64_t index)
{
    while (names && *names) {
        const char *bar = strchr(names, '|');
        size_t n = bar ? (size_t)(bar - names) : strlen(names);
        if (index-- == 0) {
            return rq_slice(names, n);
        }
        names = bar ? bar + 1 : NULL;
    }
    return rq_slice(NULL, 0);
}

static bool parse_enum(const struct rq_option *option, const char *value, int64_t *out)
{
    for (int64_t i = 0;; i++) {
        struct rq_slice name = enum_name(option->range, i);
        if (!name.n) {
            return false;
        }
        if (name.n == strlen(value) && strncasecmp(name.p, value, name.n) == 0) {
            *out = i;
            return true;
        }
    }
}

static bool parse_number(const struct rq_option *option, const char *value, int64_t *out)
{
    if (option->type == RQ_OPT_ENUM) {
        return parse_enum(option, value, out);
    }
    if (option->type == RQ_OPT_BOOL) {
        *out = strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0;
        return *out || strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0;
    }
    return rq_slice_to_i64(rq_slice_str(value), out);
}

static bool is_number(const struct rq_option *option)
{
    return option->type == RQ_OPT_I32 || option->type == RQ_OPT_I64;
}

static bool in_range(const struct rq_option *option, int64_t v)
{
    if (option->type == RQ_OPT_ENUM) {
        return v >= 0 && enum_name(option->range, v).n > 0;
    }
    return !is_number(option) || (v >= option->min && v <= option->max);
}

void rq_table_defaults(const struct rq_table *table, void *object)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_option *option = &table->options[i];
        int64_t v = 0;
        if (option->type == RQ_OPT_STRING) {
            set_string(option, object, option->def);
        } else {
            parse_number(option, option->def, &v);
            set_number(option, object, v);
        }
    }
}

const struct rq_option *rq_table_find(const struct rq_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

#define NAME_MAX_LEN 64

/* Levenshtein distance over one row; names are short. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LEN + 1];
    size_t n = strlen(b);
    if (n > NAME_MAX_LEN) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            size_t swap = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = swap < best ? swap : best;
        }
    }
    return row[n];
}

const char *rq_table_nearest(const struct rq_table *table, const char *name)
{
    const char *nearest = NULL;
    size_t best = strlen(name) / 3 + 2;
    for (size_t i = 0; i < table->count; i++) {
        size_t d = distance(name, table->options[i].name);
        if (d < best) {
            best = d;
            nearest = table->options[i].name;
        }
    }
    return nearest;
}

static rmq_status unknown_key(const struct rq_table *table, const char *name, rmq_error **err)
{
    const char *nearest = rq_table_nearest(table, name);
    if (nearest) {
        return rq_error_set(err, RMQ_ERR_INVALID, "unknown %s option \"%s\", did you mean \"%s\"?",
                            table->object, name, nearest);
    }
    return rq_error_set(err, RMQ_ERR_INVALID, "unknown %s option \"%s\"", table->object, name);
}

static void range_text(const struct rq_option *option, struct rq_buf *out)
{
    if (is_number(option)) {
        rq_buf_add_i64(out, option->min);
        rq_buf_add_str(out, " … ");
        rq_buf_add_i64(out, option->max);
    } else if (option->type == RQ_OPT_BOOL) {
        rq_buf_add_str(out, "true|false");
    } else {
        rq_buf_add_str(out, option->range ? option->range : "");
    }
}

static rmq_status bad_value(const struct rq_table *table, const struct rq_option *option,
                            const char *value, rmq_error **err)
{
    struct rq_buf range;
    rq_buf_init(&range, 0);
    range_text(option, &range);
    rmq_status st = rq_error_set(err, RMQ_ERR_INVALID, "%s option %s: \"%s\" is not %s %s",
                                 table->object, option->name, value,
                                 is_number(option) ? "a number in" : "one of", rq_buf_cstr(&range));
    rq_buf_free(&range);
    return st;
}

/* Whether the remark of a string is a plain list of words, "A|B|C", of which it is one. */
static bool is_choice(const struct rq_option *option)
{
    const char *range = option->range ? option->range : "";
    return strchr(range, '|') &&
           range[strspn(range, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_|")] == '\0';
}

rmq_status rq_table_set(const struct rq_table *table, void *object, const char *name,
                        const char *value, rmq_error **err)
{
    const struct rq_option *option = rq_table_find(table, name);
    if (!option) {
        return unknown_key(table, name, err);
    }
    int64_t v = 0;
    if (option->type == RQ_OPT_STRING && is_choice(option) && !parse_enum(option, value, &v)) {
        return bad_value(table, option, value, err);
    }
    if (option->type == RQ_OPT_STRING) {
        char *copy = rq_strdup(value);
        if (!copy) {
            return rq_error_set(err, RMQ_ERR_NOMEM, "option %s: out of memory", name);
        }
        const char *old = get_string(option, object);
        union {
            const char *in;
            char *out;
        } cast = {.in = old};
        rq_free(cast.out);
        set_string(option, object, copy);
        return RMQ_OK;
    }
    if (!parse_number(option, value, &v) || !in_range(option, v)) {
        return bad_value(table, option, value, err);
    }
    set_number(option, object, v);
    return RMQ_OK;
}

rmq_status rq_table_make_absolute(const struct rq_table *table, void *object, const char *name,
                                  rmq_error **err)
{
    const char *path = get_string(rq_table_find(table, name), object);
    if (!path || !*path || *path == '/') {
        return RMQ_OK;
    }
    char *absolute = rq_sys_absolute(path);
    if (!absolute) {
        return rq_error_set(err, errno == ENOMEM ? RMQ_ERR_NOMEM : RMQ_ERR_IO,
                            "option %s: present directory: %s", name, strerror(errno));
    }
    rmq_status st = rq_table_set(table, object, name, absolute, err);
    rq_free(absolute);
    return st;
}

rmq_status rq_table_check(const struct rq_table *table, const void *object, rmq_error **err)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_option *option = &table->options[i];
        if (option->type == RQ_OPT_STRING) {
            continue;
        }
        int64_t v = get_number(option, object);
        if (!in_range(option, v)) {
            char text[24];
            text[rq_i64_to_text(v, text)] = '\0';
            return bad_value(table, option, text, err);
        }
    }
    return RMQ_OK;
}

rmq_status rq_table_copy(const struct rq_table *table, void *to, const void *from)
{
    memcpy(to, from, table->struct_size);
    rmq_status st = RMQ_OK;
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_option *option = &table->options[i];
        if (option->type == RQ_OPT_STRING) {
            const char *text = get_string(option, from);
            char *copy = st ? NULL : rq_strdup(text);
            st = text && !copy ? RMQ_ERR_NOMEM : st;
            set_string(option, to, copy);
        }
    }
    if (st) {
        rq_table_free(table, to);
    }
    return st;
}

void rq_table_free(const struct rq_table *table, void *object)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_option *option = &table->options[i];
        if (option->type == RQ_OPT_STRING) {
            union {
                const char *in;
                char *out;
            } cast = {.in = get_string(option, object)};
            rq_free(cast.out);
            set_string(option, object, NULL);
        }
    }
}

void rq_table_value_text(const struct rq_option *option, const void *object, struct rq_buf *out)
{
    if (option->type == RQ_OPT_STRING) {
        const char *text = get_string(option, object);
        rq_buf_add_str(out, text ? text : "");
    } else if (option->type == RQ_OPT_ENUM) {
        rq_buf_add_slice(out, enum_name(option->range, get_number(option, object)));
    } else if (option->type == RQ_OPT_BOOL) {
        rq_buf_add_str(out, get_number(option, object) ? "true" : "false");
    } else {
        rq_buf_add_i64(out, get_number(option, object));
    }
}

const char *rq_option_type_name(enum rq_option_type type)
{
    static const char *const names[] = {"string", "int32", "int64", "bool", "enum"};
    return names[type];
}

bool rq_table_tell(const struct rq_table *table, size_t index, const char **name, const char **type,
                   const char **default_value, const char **range, const char **help)
{
    if (index >= table->count) {
        return false;
    }
    const struct rq_option *option = &table->options[index];
    rq_tell(name, option->name);
    rq_tell(type, rq_option_type_name(option->type));
    rq_tell(default_value, option->def ? option->def : "");
    rq_tell(range, option->range ? option->range : "");
    rq_tell(help, option->help);
    return true;
}

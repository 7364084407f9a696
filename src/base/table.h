/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Option tables: one row per option gives name, type, default, range, help and the place in the
 * options struct. The struct's defaults, the key=value form, the checks and the reference page all
 * come from the rows. Tables are const; structs belong to one thread.
 */
#ifndef RQ_BASE_TABLE_H
#define RQ_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"

enum rq_option_type {
    /* const char *; owned by the caller of rq_table_set (rq_strdup, freed by rq_table_free) */
    RQ_OPT_STRING,
    RQ_OPT_I32,
    RQ_OPT_I64,
    RQ_OPT_BOOL,
    RQ_OPT_ENUM /* int with names in range "A|B|C", value = index */
};

struct rq_option {
    const char *name;
    enum rq_option_type type;
    size_t offset;
    const char *def;   /* as text; NULL = a NULL string */
    int64_t min, max;  /* numbers only */
    const char *range; /* enum names "A|B|C"; for strings such a list, a remark, or NULL */
    const char *help;
};

struct rq_table {
    const char *object; /* "producer", for messages */
    const struct rq_option *options;
    size_t count;
    size_t struct_size;
};

/* Fills a struct with the defaults. String options get NULL or static text: not owned. */
void rq_table_defaults(const struct rq_table *table, void *object);

const struct rq_option *rq_table_find(const struct rq_table *table, const char *name);
/* by edit distance; NULL when none is near */
const char *rq_table_nearest(const struct rq_table *table, const char *name);

/* Checks a text value and stores it; strings are duplicated, a previous value is not freed (see
 * owned below). */
rmq_status rq_table_set(const struct rq_table *table, void *object, const char *name,
                        const char *value, rmq_error **err);

/* The path in a text option, if there is one, is written from the root on: a host may change its
 * directory while the path is in use. The struct is one for rq_table_set. RMQ_ERR_IO. */
rmq_status rq_table_make_absolute(const struct rq_table *table, void *object, const char *name,
                                  rmq_error **err);

/* Checks ranges of a struct filled by a program. */
rmq_status rq_table_check(const struct rq_table *table, const void *object, rmq_error **err);

/* Deep copy: to gets its own copies of all strings. rq_table_free frees them. A struct used with
 * rq_table_set must have been made by rq_table_copy, which lets rq_table_set free the previous
 * value. */
rmq_status rq_table_copy(const struct rq_table *table, void *to, const void *from);
void rq_table_free(const struct rq_table *table, void *object);

void rq_table_value_text(const struct rq_option *option, const void *object, struct rq_buf *out);
const char *rq_option_type_name(enum rq_option_type type);

/* Stores a text where one is wanted. */
static inline void rq_tell(const char **to, const char *text)
{
    if (to) {
        *to = text;
    }
}

/* What a row says of itself, never NULL; what is not wanted is NULL. False behind the last one. */
bool rq_table_tell(const struct rq_table *table, size_t index, const char **name, const char **type,
                   const char **default_value, const char **range, const char **help);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Text of a properties file, read as Java reads it: comments with '#' and '!', keys that end at
 * '=', ':' or a blank, lines that a backslash continues, escapes. Unlike there, bytes are UTF-8, a
 * byte order mark is passed over, and blanks behind a value do not count. And edited, so that
 * comments and order stay. Any thread. Counterpart: java.util.Properties.
 */
#ifndef RQ_BASE_PROPFILE_H
#define RQ_BASE_PROPFILE_H

#include <stdbool.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/slice.h"

#define RQ_PROPFILE_MAX ((size_t)1 << 20) /* bytes of a file, and so of a line */

struct rq_propfile {
    struct rq_slice rest;
    int next_line;
    struct rq_buf logical; /* lines that belong together, joined */
    /* of the property that was read */
    int line;             /* its first, from 1 */
    struct rq_slice text; /* all its lines as they stand, without the end of the last one */
    bool has_separator;
    struct rq_buf key;
    struct rq_buf value;
};

void rq_propfile_init(struct rq_propfile *file, struct rq_slice text);
void rq_propfile_free(struct rq_propfile *file);

/* The next property; false at the end, and without memory. */
bool rq_propfile_next(struct rq_propfile *file);
rmq_status rq_propfile_status(const struct rq_propfile *file);

/* The text with one value changed: where the key stands last, or behind all else. */
void rq_propfile_edit(struct rq_slice text, struct rq_slice key, struct rq_slice value,
                      struct rq_buf *out);

/* The same in a file, which need not be there yet, for "key\0value\0key\0value\0"; the old one is
 * kept as .bak. */
rmq_status rq_propfile_change(const char *path, struct rq_slice pairs, rmq_error **err);

#endif

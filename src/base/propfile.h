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

/* One property of a text: RMQ_OK, or why it is refused. */
typedef rmq_status (*rq_propfile_fn)(void *user, struct rq_propfile *file, rmq_error **err);

/* Tells fn every property of a text, up to the first that it refuses: the error names the place, as
 * "name:line: …". name NULL: "line …: …". A line without a separator is refused, and so is a text
 * with a byte of zero. */
rmq_status rq_propfile_each(struct rq_slice text, const char *name, rq_propfile_fn fn, void *user,
                            rmq_error **err);

/* Text of a file, appended to out, which is initialised here and freed by the caller. RMQ_ERR_IO
 * also when there is none. */
rmq_status rq_propfile_read(const char *path, struct rq_buf *out, rmq_error **err);

/* The text with one value changed: where the key stands last, or behind all else. */
void rq_propfile_edit(struct rq_slice text, struct rq_slice key, struct rq_slice value,
                      struct rq_buf *out);

/* The same in a file, which need not be there yet, for "key\0value\0key\0value\0"; the old one is
 * kept as .bak. */
rmq_status rq_propfile_change(const char *path, struct rq_slice pairs, rmq_error **err);

#endif

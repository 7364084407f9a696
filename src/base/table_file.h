/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A JSON file that holds one table, as those below a broker's config/ do: read with its .bak as
 * fallback, written whole when the table has changed. Any thread. Counterpart: ConfigManager.
 */
#ifndef RQ_BASE_TABLE_FILE_H
#define RQ_BASE_TABLE_FILE_H

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/thread.h"

struct rq_table_file {
    /* taken before the table's lock: one writer at a time, the newest text last */
    struct rq_mutex file_lock;
    char *path;     /* immutable after create; NULL = nothing is read or written */
    bool dirty;     /* guarded by the table's lock: changed since it was last written */
    bool is_broken; /* guarded by file_lock: the .bak is the good one and must stay */
};

void rq_table_file_init(struct rq_table_file *file);
void rq_table_file_free(struct rq_table_file *file);

/* At start. path is copied; RMQ_ERR_NOMEM. */
rmq_status rq_table_file_set_path(struct rq_table_file *file, const char *path);

/* Reads the file, or its .bak when the file is missing, empty, unreadable or no JSON, and gives the
 * tree to read. Neither there: RMQ_OK, read is not called. A broken .bak behind a broken file is
 * RMQ_ERR_CORRUPT. A file that is no JSON and has no .bak stays as .broken beside the next one. The
 * table is clean afterwards. */
rmq_status rq_table_file_load(struct rq_table_file *file,
                              rmq_status (*read)(void *table, const cJSON *root), void *table,
                              rmq_error **err);

/* Writes the file when the table is dirty, keeping the old one as .bak. lock is the table's: it is
 * held while write_locked puts the members of the object into out (line = what begins a line), and
 * not while the disk works. The table stays dirty when it fails. */
rmq_status rq_table_file_persist(struct rq_table_file *file, struct rq_mutex *lock,
                                 void (*write_locked)(void *table, struct rq_buf *out,
                                                      const char *line),
                                 void *table, rmq_error **err);

#endif

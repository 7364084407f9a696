/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Offsets of a broadcasting consumer in a file of its own: <dir>/<clientId>/<group>/offsets.json,
 * in Java's shape, replaced atomically, with a backup. What is not in memory is kept in the file.
 * Offsets are set in memory by the I/O thread; a thread of the store writes them, since a disk may
 * be slow. Counterpart: LocalFileOffsetStore.
 */
#ifndef RQ_CLIENT_OFFSET_STORE_LOCAL_H
#define RQ_CLIENT_OFFSET_STORE_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "wire/mq.h"

struct rq_local_offsets;

/* Reads the file, else its backup, else begins empty, with a warning when a file cannot be read.
 * dir NULL = ~/.rocketmq_offsets. Errors: RMQ_ERR_NOMEM, RMQ_ERR_IO (no thread). */
rmq_status rq_local_offsets_open(const char *dir, const char *client_id, const char *group,
                                 struct rq_local_offsets **out, rmq_error **err);

/* Any thread. */
bool rq_local_offsets_get(struct rq_local_offsets *store, const struct rq_mq *queue,
                          int64_t *offset);
void rq_local_offsets_set(struct rq_local_offsets *store, const struct rq_mq *queue,
                          int64_t offset);
void rq_local_offsets_write_soon(struct rq_local_offsets *store);
/* Writes what has changed, now; false: it could not, which is logged. Blocks on the disk. */
bool rq_local_offsets_write(struct rq_local_offsets *store);

/* Writes, and ends the thread. NULL is accepted. */
void rq_local_offsets_close(struct rq_local_offsets *store);

#endif

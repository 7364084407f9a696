/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Write buffers of the commit log: memory of a file's size, locked, into which messages are
 * appended; they are copied to the file (committed) later, so that no append waits for the page
 * cache. Readers see what is committed. Counterparts: TransientStorePool, CommitRealTimeService.
 */
#ifndef RQ_STORE_WRITE_BUFFER_H
#define RQ_STORE_WRITE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/thread.h"

#define RQ_WRITE_BUFFERS_MAX 64

struct rq_write_buffers {
    bool on;          /* immutable after open */
    size_t file_size; /* immutable after open */
    /* held while bytes are committed; guards commit_ms */
    struct rq_mutex commit_lock;
    int64_t commit_ms; /* monotonic: the last commit */
    /* atomic: commit-log offset up to which bytes are in their files; release behind them */
    atomic_llong committed;
    /* guarded by lock (rank: mapped file) */
    struct rq_mutex lock;
    char *free[RQ_WRITE_BUFFERS_MAX];
    int free_count;
};

void rq_write_buffers_init(struct rq_write_buffers *buffers);
void rq_write_buffers_free(struct rq_write_buffers *buffers);

/* Makes the buffers, count of them; nothing is appended to one before this. Locking them in memory
 * is tried only. RMQ_ERR_NOMEM. */
rmq_status rq_write_buffers_open(struct rq_write_buffers *buffers, int count, size_t file_size,
                                 rmq_error **err);

/* One that is free; NULL when there is none: then the file itself is written to. */
char *rq_write_buffers_take(struct rq_write_buffers *buffers);
void rq_write_buffers_give(struct rq_write_buffers *buffers, char *buffer);
bool rq_write_buffers_any(struct rq_write_buffers *buffers);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The checkpoint file: up to which store time log, queues and index are surely on disk. Recovery
 * after a crash begins there. Written by the flusher only. Counterpart: StoreCheckpoint.
 */
#ifndef RQ_STORE_CHECKPOINT_H
#define RQ_STORE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "store/disk.h"

struct rq_checkpoint {
    char *path;
    struct rq_disk *disk;    /* NULL = the plain calls */
    int64_t commit_log_time; /* physicMsgTimestamp */
    int64_t queue_time;      /* logicsMsgTimestamp */
    int64_t index_time;      /* indexMsgTimestamp */
    int64_t master_flushed_offset;
    int64_t confirm_offset;
    bool changed;
};

/* Reads the file; all zero when it is missing. A file shorter than its fields is taken for
 * missing. */
rmq_status rq_checkpoint_load(struct rq_checkpoint *checkpoint, const char *path, rmq_error **err);
void rq_checkpoint_free(struct rq_checkpoint *checkpoint);

/* Writes and syncs the file when something changed. */
rmq_status rq_checkpoint_flush(struct rq_checkpoint *checkpoint, rmq_error **err);

/* Raises a time; a lower one is ignored. */
void rq_checkpoint_raise(struct rq_checkpoint *checkpoint, int64_t *time, int64_t to);

/* Messages stored before this are on disk in log and queues (and index when asked): three seconds
 * before the smallest time, as others of the same millisecond may have come later. */
int64_t rq_checkpoint_min(const struct rq_checkpoint *checkpoint, bool with_index);

#endif

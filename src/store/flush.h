/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The flush thread: commit log, consume queues, index and checkpoint to disk at their intervals;
 * with synchronous flush it answers all that waited with one sync (group commit). It also retries a
 * failed dispatch and runs retention. Counterparts: FlushRealTimeService, GroupCommitService,
 * FlushConsumeQueueService, CleanCommitLogService.
 */
#ifndef RQ_STORE_FLUSH_H
#define RQ_STORE_FLUSH_H

#include "base/thread.h"
#include "store/store.h"

struct rq_flusher {
    struct rq_thread thread;
    struct rq_mutex sync; /* held while files are synced: the thread, or rq_store_flush */
    /* guarded by lock */
    struct rq_mutex lock;
    struct rq_cond work;
    struct rq_store_waiter *waiters; /* newest first */
    int64_t waiting;                 /* how many they are */
    int64_t expected; /* how many they were when a sync was done, with those whom it answered */
    int64_t sync_us;  /* how long the last one took */
    int64_t gathered; /* the thread waits until they are so many; 0 = it does not */
    bool wake;
    bool stop;
    char failure[RQ_PUT_REASON_MAX]; /* why the last sync failed, for those that are refused */
    char dispatch_failure[RQ_PUT_REASON_MAX]; /* why the dispatcher's last try failed */
    /* owned by the thread */
    int32_t not_gathered; /* syncs that do not wait for more senders */
    /* monotonic times of what is due next */
    int64_t log_due_ms;
    int64_t log_thorough_ms;
    int64_t queue_due_ms;
    int64_t queue_thorough_ms;
    int64_t clean_due_ms;
    int32_t clean_left;    /* files that this look may still delete */
    int64_t commit_due_ms; /* of write buffers */
    int64_t log_file;      /* start of the log file at the last thorough flush */
};

rmq_status rq_flusher_start(struct rq_flusher *flusher, struct rq_store *store, rmq_error **err);
void rq_flusher_init(struct rq_flusher *flusher);
/* Joins; waiters that remain are the caller's to complete. */
void rq_flusher_stop(struct rq_flusher *flusher);
void rq_flusher_free(struct rq_flusher *flusher);

/* Something was appended and shall be synced now, when it is at least so many pages. */
void rq_flusher_wake(struct rq_flusher *flusher, struct rq_store *store, int32_t least_pages);

/* Completes waiters: those on disk OK, those past their deadline, and with failed all others. */
void rq_flusher_complete(struct rq_flusher *flusher, struct rq_store *store, bool failed);

/* Everything to disk, in the order log, queues, index, checkpoint. */
rmq_status rq_store_flush_all(struct rq_store *store, rmq_error **err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The commit log: every message of every queue, one after the other, in mapped files. Appending is
 * one short lock: place, time, copy. A helper thread reserves blocks, brings pages into memory and
 * makes the next file ahead, so that no append waits for the file system. Counterpart: CommitLog.
 */
#ifndef RQ_STORE_COMMIT_LOG_H
#define RQ_STORE_COMMIT_LOG_H

#include "base/thread.h"
#include "store/consume_queue.h"
#include "store/mapped_file_queue.h"
#include "store/record.h"
#include "store/write_buffer.h"

/* Most bytes of one reservation of blocks. */
#define RQ_COMMIT_LOG_LAST_STEP ((size_t)64 << 20)

/* Records of an append up to this size are made on the stage. */
#define RQ_COMMIT_LOG_STAGE ((size_t)64 << 10)

struct rq_commit_log {
    /* immutable after init */
    const struct rq_store_options *options;
    struct rq_mapped_file_queue files;
    struct rq_disk *disk;            /* NULL = the plain calls */
    struct rq_write_buffers buffers; /* its own locks */
    /* guarded by lock (rank 70) */
    struct rq_mutex lock;
    struct rq_mapped_file *current; /* the last of files, borrowed */
    /* Where records are made that a system call writes to the file; NULL = they are made in the map,
     * or in the file's buffer. */
    char *stage;
    int64_t last_timestamp;  /* store times never go back */
    int64_t refuse_until_ms; /* monotonic: no space, not tried again before; 0 = there was space */
    size_t refused_bytes;    /* what there was no space for */
    char refuse_reason[RQ_PUT_REASON_MAX];
    bool write_fails; /* the last write of an append */
    uint64_t put_bytes;
    /* atomic: written with the lock, read by anybody, relaxed. in_lock_since_ms: wall clock, 0 =
     * nobody appends now */
    atomic_ullong put_messages;
    atomic_llong in_lock_since_ms;
    /* atomic: release behind the bytes, acquire by readers */
    atomic_llong max_offset;
    /* atomic: written by the flusher */
    atomic_llong flushed;
    /* guarded by ahead_lock (rank 80): blocks and files made ahead, by the helper or an appender
     * that could not wait */
    struct rq_mutex ahead_lock;
    struct rq_cond ahead_work;
    struct rq_mapped_file *ahead_of; /* retained: the file written to, when there is work in it */
    size_t ahead_pos;                /* where it was written to then */
    struct rq_mapped_file *spare;    /* the next file, not yet in files */
    int64_t spare_start;             /* wanted; -1 = none */
    bool stop;
    struct rq_thread helper;
};

/* options must outlive the log. Loads the files; recovery then calls rq_commit_log_set_end, and
 * rq_commit_log_start last. */
rmq_status rq_commit_log_init(struct rq_commit_log *log, const char *dir,
                              const struct rq_store_options *options);
rmq_status rq_commit_log_load(struct rq_commit_log *log, bool *lengthened, rmq_error **err);
rmq_status rq_commit_log_set_end(struct rq_commit_log *log, int64_t end, bool wipe_tail,
                                 rmq_error **err);
/* Recovery after a crash: what is in memory from an offset on need not be on disk; it is
 * afterwards. */
rmq_status rq_commit_log_sync_from(struct rq_commit_log *log, int64_t from, rmq_error **err);

/* Recovery: from there on nothing counts as being on disk; the flusher brings it there. */
void rq_commit_log_unflush_from(struct rq_commit_log *log, int64_t from);

rmq_status rq_commit_log_start(struct rq_commit_log *log, rmq_error **err);
void rq_commit_log_stop(struct rq_commit_log *log); /* ends the helper, deletes an unused spare */
void rq_commit_log_free(struct rq_commit_log *log);

/* Appends count planned messages of one queue, all or none. Between rq_commit_log_enter and _leave.
 * total = sum of plans[].size. */
struct rq_append {
    struct rq_consume_queue *queue;
    const struct rq_msg *msgs;
    const struct rq_record_plan *plans;
    size_t count;
    size_t total;
    int64_t *offsets; /* of each, or NULL */
};
enum rq_put_status rq_commit_log_append_locked(struct rq_commit_log *log,
                                               const struct rq_append *append,
                                               struct rq_store_put *out);

/* Takes the append lock and notes since when it is held; lets it go. */
void rq_commit_log_enter(struct rq_commit_log *log);
void rq_commit_log_leave(struct rq_commit_log *log);

/* Since when an append holds the lock, in milliseconds; 0 = none does. */
int64_t rq_commit_log_held_ms(const struct rq_commit_log *log);

/* Whether there is room for the append that was refused last, and what could not be written can be
 * now; if not, why. The disk is asked as often as by appends, so that the answer changes without
 * any; faults that a test asked for are not used up. Without the append lock. */
bool rq_commit_log_takes(struct rq_commit_log *log, char reason[RQ_PUT_REASON_MAX]);

/* The next append asks the disk again, although one was refused just now. Without the append lock. */
void rq_commit_log_retry(struct rq_commit_log *log);

/* Copies what is in write buffers to the files; returns up to where. Without the append lock. */
int64_t rq_commit_log_commit(struct rq_commit_log *log);

/* The same when commitCommitLogLeastPages wait, or commitCommitLogThoroughInterval has passed. */
void rq_commit_log_commit_due(struct rq_commit_log *log);

/* Up to where the files hold the log: readers go no further. */
static inline int64_t rq_commit_log_committed(const struct rq_commit_log *log)
{
    return log->buffers.on ? atomic_load_explicit(&log->buffers.committed, memory_order_acquire)
                           : atomic_load_explicit(&log->max_offset, memory_order_acquire);
}

/* Writes everything up to the present end to disk. time_of_end receives the store time there. The
 * flusher only. */
rmq_status rq_commit_log_flush(struct rq_commit_log *log, int64_t *time_of_end, rmq_error **err);

/* After a failed flush: the pages that are not on disk count as changed again. */
void rq_commit_log_redirty(struct rq_commit_log *log);

static inline int64_t rq_commit_log_max(const struct rq_commit_log *log)
{
    return atomic_load_explicit(&log->max_offset, memory_order_acquire);
}

static inline int64_t rq_commit_log_flushed(const struct rq_commit_log *log)
{
    return atomic_load_explicit(&log->flushed, memory_order_acquire);
}

static inline int64_t rq_commit_log_min(struct rq_commit_log *log)
{
    return rq_mapped_file_queue_min(&log->files);
}

/* A reader's place in the log: keeps the file it is in. Zero-initialised; released with
 * rq_log_reader_done. */
struct rq_log_reader {
    struct rq_mapped_file *file;
};

/* Pointer to the byte at offset and how many bytes follow in its file up to end (at most the log's
 * max_offset as read by the caller); NULL when the log does not hold it. */
const char *rq_log_reader_at(struct rq_log_reader *reader, struct rq_commit_log *log,
                             int64_t offset, int64_t end, size_t *left);
void rq_log_reader_done(struct rq_log_reader *reader);

#endif

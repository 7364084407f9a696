/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One consume queue: where in the commit log message i of a topic's queue is. Entries of 20 bytes:
 * commit-log offset (8), size (4), tags code (8). Written by the dispatcher only, read by any
 * thread. Counterpart: ConsumeQueue.
 */
#ifndef RQ_STORE_CONSUME_QUEUE_H
#define RQ_STORE_CONSUME_QUEUE_H

#include "base/slice.h"
#include "store/mapped_file_queue.h"

#define RQ_CQ_ENTRY_BYTES 20
#define RQ_CQ_CODES_MAX   16 /* tags codes told of one batch */
/* size in the slots before the first message: offset 0, tags code 0 */
#define RQ_CQ_BLANK_SIZE 0x7FFFFFFF

struct rq_consume_queue {
    /* immutable after create */
    char *name;
    struct rq_slice topic; /* name */
    int32_t queue_id;
    bool delivery_times; /* SCHEDULE_TOPIC_XXXX: the tags code is when the message is due */
    /* atomic: the table's reference, and one of each who found the queue and uses it */
    atomic_uint refs;
    struct rq_mapped_file_queue files;
    /* atomic: bytes from the queue's beginning; end is released behind the entry, both acquired by
     * readers */
    atomic_llong end;
    atomic_llong min;
    /* atomic: relaxed, set once by the deletion of the topic */
    atomic_bool removed;
    /* owned by the dispatcher (recovery before it): end of the last message in the commit log, 0 =
     * none */
    int64_t max_commit_log_offset;
    /* recovery only: files are damaged or missing, the queue is built again from the log */
    bool rebuild;
    bool met; /* recovery only: the look ahead for queues that lack messages was at one of it */
    /* owned by the dispatcher: what the present batch brought */
    struct rq_consume_queue *next_touched;
    bool touched;
    bool codes_all;
    size_t code_count;
    int64_t codes[RQ_CQ_CODES_MAX];
    /* guarded by the append lock, set by recovery: number of the next message */
    int64_t next_offset;
    /* owned by the flusher */
    int64_t flushed;
    int64_t marked; /* end at the last mark */
};

/* With one reference, the caller's. */
rmq_status rq_consume_queue_create(const char *dir, struct rq_slice topic, int32_t queue_id,
                                   size_t file_size, struct rq_consume_queue **out);
void rq_consume_queue_retain(struct rq_consume_queue *queue);
/* The last one frees it and unmaps its files. NULL is accepted. */
void rq_consume_queue_release(struct rq_consume_queue *queue);

/* Opens the files and finds the end: the first entry without a size. Damaged ones are removed, and
 * rebuild is set. */
rmq_status rq_consume_queue_load(struct rq_consume_queue *queue, rmq_error **err);

/* Recovery: removes damaged files and sets rebuild, for every entry can be made from the log again.
 * why is logged. */
rmq_status rq_consume_queue_discard(struct rq_consume_queue *queue, const char *why,
                                    rmq_error **err);

/* Recovery: entries of messages at or behind commit_log_end are dropped. */
rmq_status rq_consume_queue_truncate(struct rq_consume_queue *queue, int64_t commit_log_end,
                                     rmq_error **err);

/* Recovery: entries from number on are dropped; the one before it is a message's, or there is
 * none. */
rmq_status rq_consume_queue_cut(struct rq_consume_queue *queue, int64_t number, rmq_error **err);

/* Recovery after a crash, before the log is followed from commit_log_from on: entries of messages
 * from there on go, as pages between them may be missing. They are made again. */
rmq_status rq_consume_queue_rewind(struct rq_consume_queue *queue, int64_t commit_log_from,
                                   rmq_error **err);

/* Recovery: entries of messages that begin in [from, to) of the commit log become blank slots; the
 * messages are lost. */
void rq_consume_queue_blank(struct rq_consume_queue *queue, int64_t commit_log_from,
                            int64_t commit_log_to);

/* Recovery after a crash: what is in memory need not be on disk; the next flush writes
 * everything. */
void rq_consume_queue_distrust(struct rq_consume_queue *queue);

/* Recovery after a crash: what stands behind the end becomes zero, so that it is never taken for
 * entries later. */
rmq_status rq_consume_queue_wipe_tail(struct rq_consume_queue *queue, rmq_error **err);

/* Moves min to the first message that begins at or behind commit_log_min; to the end when there is
 * none. */
void rq_consume_queue_correct_min(struct rq_consume_queue *queue, int64_t commit_log_min);

/* Deletes leading files of which every message is gone (never the last file). Returns files
 * deleted. With the dispatcher held off. */
int rq_consume_queue_clean(struct rq_consume_queue *queue, int64_t commit_log_min);

/* Deletes all files. */
rmq_status rq_consume_queue_clear(struct rq_consume_queue *queue, rmq_error **err);

/* Dispatcher: puts the entry of message number offset. An entry that is there already is passed
 * over. A gap before it is filled with blank slots, so that entry i is message i always.
 * RMQ_ERR_DISK_FULL and RMQ_ERR_IO may be tried again. */
rmq_status rq_consume_queue_put(struct rq_consume_queue *queue, int64_t offset,
                                const struct rq_store_entry *entry, rmq_error **err);

/* Writes what waits to disk when it is at least least_pages (0 = anything). */
rmq_status rq_consume_queue_flush(struct rq_consume_queue *queue, int32_t least_pages,
                                  rmq_error **err);

/* The same in one go for many queues: notes what waits, and whether it is worth a flush; then, when
 * all files are on disk by other means, that it is there. */
bool rq_consume_queue_mark(struct rq_consume_queue *queue, int32_t least_pages);
void rq_consume_queue_marked_is_flushed(struct rq_consume_queue *queue);

/* Entries from number offset on that lie in one file: pointer and count; the file is retained.
 * count 0: none (file NULL). */
struct rq_cq_run {
    const char *p;
    size_t count;
    struct rq_mapped_file *file;
};
void rq_consume_queue_run(struct rq_consume_queue *queue, int64_t offset, struct rq_cq_run *out);

/* One entry; false outside [min, max), for a blank slot, and for what can be no entry. */
bool rq_consume_queue_entry(struct rq_consume_queue *queue, int64_t offset,
                            struct rq_store_entry *out);

static inline int64_t rq_consume_queue_max(const struct rq_consume_queue *queue)
{
    return atomic_load_explicit(&queue->end, memory_order_acquire) / RQ_CQ_ENTRY_BYTES;
}

static inline int64_t rq_consume_queue_min(const struct rq_consume_queue *queue)
{
    return atomic_load_explicit(&queue->min, memory_order_acquire) / RQ_CQ_ENTRY_BYTES;
}

/* Reads an entry at p; false for a blank slot. */
bool rq_cq_read(const char *p, struct rq_store_entry *out);

/* Whether a slot's content can be an entry: its message has a size, and its end is an offset. */
static inline bool rq_cq_is_entry(const struct rq_store_entry *entry)
{
    return entry->size > 0 && entry->commit_log_offset >= 0 &&
           entry->commit_log_offset <= INT64_MAX - entry->size;
}

#endif

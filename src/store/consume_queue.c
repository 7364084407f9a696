/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Consume queues at work: putting, reading and flushing entries, and deleting what is too old.
 * Written by the one thread that dispatches (or recovers), read by any. Counterpart: ConsumeQueue.
 */
#include "store/consume_queue.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/consume_queue_priv.h"
#include "wire/names.h"

/* messages of a log file of 1 GiB; a larger hole is no hole but a wrong number */
#define GAP_MAX_ENTRIES 12000000
#define GAP_MAX_FILES   64 /* and so is one that needs so many files */
#define OFFSET_MAX      (INT64_MAX / RQ_CQ_ENTRY_BYTES / 2)

static const struct rq_mapped_file_kind file_kind = {
    .first_step = RQ_STORE_PAGE, .last_step = (size_t)1 << 20, .page_by_page = true};

rmq_status rq_consume_queue_create(const char *dir, struct rq_slice topic, int32_t queue_id,
                                   size_t file_size, struct rq_consume_queue **out)
{
    struct rq_consume_queue *queue = rq_calloc(1, sizeof *queue);
    if (!queue) {
        return RMQ_ERR_NOMEM;
    }
    atomic_init(&queue->refs, 1);
    rmq_status st = rq_mapped_file_queue_init(&queue->files, dir, file_size, &file_kind);
    queue->name = rq_slice_dup(topic);
    if (st != RMQ_OK || !queue->name) {
        rq_consume_queue_release(queue);
        return RMQ_ERR_NOMEM;
    }
    queue->topic = rq_slice(queue->name, topic.n);
    queue->queue_id = queue_id;
    queue->delivery_times = rq_slice_eq_str(topic, RQ_TOPIC_SCHEDULE);
    *out = queue;
    return RMQ_OK;
}

void rq_consume_queue_retain(struct rq_consume_queue *queue)
{
    atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
}

void rq_consume_queue_release(struct rq_consume_queue *queue)
{
    if (queue && atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) == 1) {
        rq_mapped_file_queue_free(&queue->files);
        rq_free(queue->name);
        rq_free(queue);
    }
}

bool rq_cq_read(const char *p, struct rq_store_entry *out)
{
    out->commit_log_offset = (int64_t)rq_load_be64(p);
    out->size = (int32_t)rq_load_be32(p + 8);
    out->tags_code = (int64_t)rq_load_be64(p + 12);
    return out->commit_log_offset != 0 || out->size != RQ_CQ_BLANK_SIZE;
}

rmq_status rq_consume_queue_clear(struct rq_consume_queue *queue, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && queue->files.count > 0) {
        st = rq_mapped_file_queue_remove_last(&queue->files, err);
    }
    if (st == RMQ_OK) { /* else a put would look for its place in the file that is left */
        rq_cq_set_min(queue, 0);
        queue->max_commit_log_offset = 0;
        rq_cq_set_end(queue, 0);
    }
    return st;
}

bool rq_cq_entry_at(struct rq_consume_queue *queue, int64_t at, struct rq_store_entry *out,
                    bool *real)
{
    struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, at);
    if (file) {
        *real = rq_cq_read(file->data + (at - file->start), out);
        rq_mapped_file_release(file);
    }
    return file != NULL;
}

/* An entry whose file another process may have shortened. */
static bool find_entry(struct rq_consume_queue *queue, int64_t number, struct rq_store_entry *out)
{
    int64_t at = number * RQ_CQ_ENTRY_BYTES;
    struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, at);
    bool found =
        file && rq_mapped_file_can_read(file) && rq_cq_read(file->data + (at - file->start), out);
    rq_mapped_file_release(file);
    return found && rq_cq_is_entry(out);
}

/* Number of the first real entry in [from, upto), upto when there is none. */
static int64_t next_real(struct rq_consume_queue *queue, int64_t from, int64_t upto,
                         struct rq_store_entry *out)
{
    while (from < upto && !find_entry(queue, from, out)) {
        from++;
    }
    return from;
}

/* Entries are ordered; a blank slot counts as the entry behind it. */
int64_t rq_cq_first_from(struct rq_consume_queue *queue, int64_t commit_log_min)
{
    int64_t low = rq_mapped_file_queue_min(&queue->files) / RQ_CQ_ENTRY_BYTES;
    int64_t end = rq_cq_end(queue) / RQ_CQ_ENTRY_BYTES;
    int64_t high = end;
    struct rq_store_entry entry = {0};
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int64_t real = next_real(queue, middle, high, &entry);
        if (real == high || entry.commit_log_offset >= commit_log_min) {
            high = middle;
        } else {
            low = real + 1;
        }
    }
    return next_real(queue, low, end, &entry) * RQ_CQ_ENTRY_BYTES;
}

void rq_consume_queue_correct_min(struct rq_consume_queue *queue, int64_t commit_log_min)
{
    rq_cq_set_min(queue, rq_cq_first_from(queue, commit_log_min));
}

int rq_consume_queue_clean(struct rq_consume_queue *queue, int64_t commit_log_min)
{
    const struct rq_mapped_file_queue *files = &queue->files;
    int64_t keep = rq_cq_first_from(queue, commit_log_min);
    int deleted = 0;
    rq_cq_set_min(queue, keep);
    while (files->count > 1 && files->files[0]->start + (int64_t)files->file_size <= keep &&
           rq_mapped_file_can_read(files->files[0]) &&
           rq_mapped_file_queue_remove_first(&queue->files, NULL) == RMQ_OK) {
        deleted++;
    }
    return deleted;
}

/* ---- putting ---- */

/* A file with room for one more entry at the queue's end, its blocks reserved. */
static rmq_status file_for_put(struct rq_consume_queue *queue, struct rq_mapped_file **out,
                               rmq_error **err)
{
    struct rq_mapped_file *file = rq_mapped_file_queue_last(&queue->files);
    int64_t end = rq_cq_end(queue);
    rmq_status st = RMQ_OK;
    if (!file || end - file->start >= (int64_t)queue->files.file_size) {
        int64_t start = end - end % (int64_t)queue->files.file_size;
        st = rq_mapped_file_queue_make(&queue->files, start, &file, err);
        if (st != RMQ_OK) {
            return st;
        }
        rq_mapped_file_set_written(file, 0);
        st = rq_mapped_file_queue_add(&queue->files, file, err);
        if (st != RMQ_OK) {
            rq_mapped_file_release(file);
            return st;
        }
    }
    size_t upto = (size_t)(end - file->start) + RQ_CQ_ENTRY_BYTES;
    if (!rq_mapped_file_has_room(file, upto)) {
        st = rq_mapped_file_reserve(file, upto, err);
    }
    *out = file;
    return st;
}

static rmq_status put_at_end(struct rq_consume_queue *queue, const struct rq_store_entry *entry,
                             rmq_error **err)
{
    struct rq_mapped_file *file;
    rmq_status st = file_for_put(queue, &file, err);
    if (st == RMQ_OK) {
        int64_t end = rq_cq_end(queue);
        size_t at = (size_t)(end - file->start);
        rq_cq_write(file->data + at, entry);
        rq_mapped_file_set_written(file, at + RQ_CQ_ENTRY_BYTES);
        rq_cq_set_end(queue, end + RQ_CQ_ENTRY_BYTES);
    }
    return st;
}

static rmq_status fill_gap(struct rq_consume_queue *queue, int64_t upto, rmq_error **err)
{
    const struct rq_store_entry blank = {.size = RQ_CQ_BLANK_SIZE};
    bool fresh = queue->files.count == 0;
    if (fresh) {
        int64_t start = upto - upto % (int64_t)queue->files.file_size;
        rq_cq_set_min(queue, upto);
        rq_cq_set_end(queue, start);
    } else if (upto - rq_cq_end(queue) > (int64_t)GAP_MAX_ENTRIES * RQ_CQ_ENTRY_BYTES ||
               upto - rq_cq_end(queue) > (int64_t)queue->files.file_size * GAP_MAX_FILES) {
        return rq_error_set(err, RMQ_ERR_CORRUPT, "message number %lld, but the queue ends at %lld",
                            (long long)(upto / RQ_CQ_ENTRY_BYTES),
                            (long long)(rq_cq_end(queue) / RQ_CQ_ENTRY_BYTES));
    } else {
        RQ_LOG(WARN, "hole in a consume queue filled", "topic=%.*s queue=%d from=%lld to=%lld",
               (int)queue->topic.n, queue->topic.p, queue->queue_id,
               (long long)(rq_cq_end(queue) / RQ_CQ_ENTRY_BYTES),
               (long long)(upto / RQ_CQ_ENTRY_BYTES));
    }
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && rq_cq_end(queue) < upto) {
        st = put_at_end(queue, &blank, err);
    }
    return st;
}

rmq_status rq_consume_queue_put(struct rq_consume_queue *queue, int64_t offset,
                                const struct rq_store_entry *entry, rmq_error **err)
{
    if (entry->commit_log_offset + entry->size <= queue->max_commit_log_offset) {
        return RMQ_OK; /* built already */
    }
    if (offset < 0 || offset > OFFSET_MAX) {
        return rq_error_set(err, RMQ_ERR_CORRUPT, "message number %lld", (long long)offset);
    }
    int64_t at = offset * RQ_CQ_ENTRY_BYTES;
    rmq_status st = RMQ_OK;
    if (offset == 0 && rq_cq_end(queue) > 0 && queue->max_commit_log_offset > 0) {
        /* The topic was deleted and made again: its numbers began anew. */
        st = rq_consume_queue_clear(queue, err);
    } else if (at < rq_cq_end(queue)) {
        return RMQ_OK;
    }
    if (st == RMQ_OK && at > rq_cq_end(queue)) {
        st = fill_gap(queue, at, err);
    }
    if (st == RMQ_OK) {
        st = put_at_end(queue, entry, err);
    }
    if (st == RMQ_OK) {
        queue->max_commit_log_offset = entry->commit_log_offset + entry->size;
    }
    return st;
}

/* ---- flushing ---- */

bool rq_consume_queue_mark(struct rq_consume_queue *queue, int32_t least_pages)
{
    int64_t end = atomic_load_explicit(&queue->end, memory_order_acquire);
    int64_t first = rq_mapped_file_queue_min(&queue->files);
    queue->flushed = queue->flushed > end || queue->flushed < first ? first : queue->flushed;
    queue->marked = end;
    int64_t waiting = end / RQ_STORE_PAGE - queue->flushed / RQ_STORE_PAGE;
    return queue->flushed < end && waiting >= least_pages;
}

void rq_consume_queue_marked_is_flushed(struct rq_consume_queue *queue)
{
    queue->flushed = queue->marked;
}

rmq_status rq_consume_queue_flush(struct rq_consume_queue *queue, int32_t least_pages,
                                  rmq_error **err)
{
    if (!rq_consume_queue_mark(queue, least_pages)) {
        return RMQ_OK;
    }
    int64_t end = queue->marked;
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && queue->flushed < end) {
        struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, queue->flushed);
        if (!file) {
            queue->flushed = end; /* deleted meanwhile */
            break;
        }
        int64_t upto = end - file->start;
        upto = upto > (int64_t)file->size ? (int64_t)file->size : upto;
        st = rq_mapped_file_flush(file, (size_t)upto, err);
        if (st == RMQ_OK) {
            queue->flushed = file->start + upto;
        } else { /* entries do not change, so nobody needs to be held off */
            rq_mapped_file_redirty(file, file->flushed, (size_t)upto);
        }
        rq_mapped_file_release(file);
    }
    return st;
}

/* ---- reading ---- */

void rq_consume_queue_run(struct rq_consume_queue *queue, int64_t offset, struct rq_cq_run *out)
{
    *out = (struct rq_cq_run){0};
    int64_t end = atomic_load_explicit(&queue->end, memory_order_acquire);
    if (offset < 0 || offset > OFFSET_MAX || offset * RQ_CQ_ENTRY_BYTES >= end) {
        return;
    }
    int64_t at = offset * RQ_CQ_ENTRY_BYTES;
    struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, at);
    if (!file) {
        return;
    }
    int64_t stop = file->start + (int64_t)file->size;
    stop = stop < end ? stop : end;
    out->p = file->data + (at - file->start);
    out->count = (size_t)((stop - at) / RQ_CQ_ENTRY_BYTES);
    out->file = file;
}

bool rq_consume_queue_entry(struct rq_consume_queue *queue, int64_t offset,
                            struct rq_store_entry *out)
{
    bool within = offset >= rq_consume_queue_min(queue) && offset < rq_consume_queue_max(queue);
    return within && find_entry(queue, offset, out);
}

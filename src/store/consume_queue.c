/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Consume queues: putting and reading entries, finding the end, cutting off. Written by the one
 * thread that dispatches (or recovers), read by any. Counterpart: ConsumeQueue.
 */
#include "store/consume_queue.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define SCHEDULE_TOPIC "SCHEDULE_TOPIC_XXXX"
#define RECOVER_FILES  3
/* messages of a log file of 1 GiB; a larger hole is no hole but a wrong number */
#define GAP_MAX_ENTRIES 12000000
#define GAP_MAX_FILES   64 /* and so is one that needs so many files */
#define OFFSET_MAX      (INT64_MAX / RQ_CQ_ENTRY_BYTES / 2)

static const struct rq_mapped_file_kind file_kind = {
    .first_step = RQ_STORE_PAGE, .last_step = (size_t)1 << 20, .keeps_fd = false};

rmq_status rq_consume_queue_create(const char *dir, struct rq_slice topic, int32_t queue_id,
                                   size_t file_size, struct rq_consume_queue **out)
{
    struct rq_consume_queue *queue = rq_calloc(1, sizeof *queue);
    if (!queue) {
        return RMQ_ERR_NOMEM;
    }
    rmq_status st = rq_mapped_file_queue_init(&queue->files, dir, file_size, &file_kind);
    queue->name = rq_slice_dup(topic);
    if (st != RMQ_OK || !queue->name) {
        rq_consume_queue_destroy(queue);
        return RMQ_ERR_NOMEM;
    }
    queue->topic = rq_slice(queue->name, topic.n);
    queue->queue_id = queue_id;
    queue->delivery_times = rq_slice_eq_str(topic, SCHEDULE_TOPIC);
    *out = queue;
    return RMQ_OK;
}

void rq_consume_queue_destroy(struct rq_consume_queue *queue)
{
    if (queue) {
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

static void write_entry(char *p, const struct rq_store_entry *entry)
{
    rq_store_be64(p, (uint64_t)entry->commit_log_offset);
    rq_store_be32(p + 8, (uint32_t)entry->size);
    rq_store_be64(p + 12, (uint64_t)entry->tags_code);
}

static int64_t end_of(const struct rq_consume_queue *queue)
{
    return atomic_load_explicit(&queue->end, memory_order_relaxed);
}

static void set_end(struct rq_consume_queue *queue, int64_t end)
{
    atomic_store_explicit(&queue->end, end, memory_order_release);
}

static void set_min(struct rq_consume_queue *queue, int64_t min)
{
    atomic_store_explicit(&queue->min, min, memory_order_release);
}

/* ---- loading ---- */

/* Entries of one file that have a size; the last real one moves the queue's end in the commit
 * log. */
static size_t walk_file(struct rq_consume_queue *queue, const struct rq_mapped_file *file)
{
    size_t at = 0;
    for (; at + RQ_CQ_ENTRY_BYTES <= file->size; at += RQ_CQ_ENTRY_BYTES) {
        struct rq_store_entry entry;
        bool real = rq_cq_read(file->data + at, &entry);
        if (entry.commit_log_offset < 0 || entry.size <= 0) {
            break;
        }
        if (real) {
            queue->max_commit_log_offset = entry.commit_log_offset + entry.size;
        }
    }
    return at;
}

static rmq_status set_positions(struct rq_consume_queue *queue, int64_t end, rmq_error **err)
{
    rmq_status st = rq_mapped_file_queue_truncate(&queue->files, end, err);
    struct rq_mapped_file *last = rq_mapped_file_queue_last(&queue->files);
    if (st == RMQ_OK && last && last->start == end && queue->files.count > 1) {
        st = rq_mapped_file_queue_remove_last(&queue->files, err); /* made, but not yet written */
    }
    set_end(queue, end);
    queue->flushed = end;
    return st;
}

rmq_status rq_consume_queue_wipe_tail(struct rq_consume_queue *queue, rmq_error **err)
{
    struct rq_mapped_file *last = rq_mapped_file_queue_last(&queue->files);
    int64_t end = end_of(queue);
    return last && end - last->start < (int64_t)last->size
               ? rq_mapped_file_wipe(last, (size_t)(end - last->start), false, err)
               : RMQ_OK;
}

rmq_status rq_consume_queue_discard(struct rq_consume_queue *queue, const char *why,
                                    rmq_error **err)
{
    RQ_LOG(WARN, "consume queue is damaged and will be built again", "path=%s reason=%s",
           queue->files.dir, why);
    queue->rebuild = true;
    rmq_status st = rq_consume_queue_clear(queue, err);
    if (st == RMQ_OK && rq_sys_rmtree(queue->files.dir) < 0) {
        st = rq_error_set(err, rq_store_io_status(errno), "remove %s: %s", queue->files.dir,
                          strerror(errno));
    }
    return st;
}

static rmq_status pass_on(rmq_error **err, rmq_error *own, rmq_status st)
{
    if (err) {
        *err = own;
    } else {
        rmq_error_destroy(own);
    }
    return st;
}

static rmq_status load_files(struct rq_consume_queue *queue, rmq_error **err)
{
    rmq_error *own = NULL;
    rmq_status st = rq_mapped_file_queue_load(&queue->files, NULL, &own);
    if (st == RMQ_ERR_CORRUPT) {
        st = rq_consume_queue_discard(queue, rmq_error_message(own), err);
    } else if (st != RMQ_OK) {
        return pass_on(err, own, st);
    } else if (!rq_mapped_file_queue_is_whole(&queue->files)) {
        st = rq_consume_queue_discard(queue, "a file is missing", err);
    }
    rmq_error_destroy(own);
    return st;
}

/* Follows the entries from the file at index i to their end. */
static int64_t find_end_from(struct rq_consume_queue *queue, size_t i)
{
    const struct rq_mapped_file_queue *files = &queue->files;
    int64_t end = files->files[i]->start;
    for (; i < files->count; i++) {
        size_t valid = walk_file(queue, files->files[i]);
        end += (int64_t)valid;
        if (valid + RQ_CQ_ENTRY_BYTES <= files->file_size) {
            break;
        }
    }
    return end;
}

/* Begins a few files before the last one, and further back while there is no message: a power cut
 * may have emptied the last files. */
static int64_t find_end(struct rq_consume_queue *queue)
{
    size_t i = queue->files.count;
    int64_t end;
    do {
        i = i > RECOVER_FILES ? i - RECOVER_FILES : 0;
        end = find_end_from(queue, i);
    } while (queue->max_commit_log_offset == 0 && i > 0);
    return end;
}

rmq_status rq_consume_queue_load(struct rq_consume_queue *queue, rmq_error **err)
{
    rmq_status st = load_files(queue, err);
    if (st != RMQ_OK || queue->files.count == 0) {
        return st;
    }
    int64_t end = find_end(queue);
    set_min(queue, queue->files.files[0]->start);
    if (queue->max_commit_log_offset == 0) { /* nothing, or blank slots only: as if never made */
        return rq_consume_queue_clear(queue, err);
    }
    return set_positions(queue, end, err);
}

rmq_status rq_consume_queue_clear(struct rq_consume_queue *queue, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && queue->files.count > 0) {
        st = rq_mapped_file_queue_remove_last(&queue->files, err);
    }
    set_min(queue, 0);
    queue->max_commit_log_offset = 0;
    set_end(queue, 0);
    return st;
}

/* The entry whose first byte is at, without bounds of min and end; false when no file has it. */
static bool entry_at(struct rq_consume_queue *queue, int64_t at, struct rq_store_entry *out,
                     bool *real)
{
    struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, at);
    if (file) {
        *real = rq_cq_read(file->data + (at - file->start), out);
        rq_mapped_file_release(file);
    }
    return file != NULL;
}

/* Byte behind the last entry whose message begins before commit_log_end; that entry's message is
 * then the last one known. */
static int64_t find_cut(struct rq_consume_queue *queue, int64_t commit_log_end)
{
    int64_t start = rq_mapped_file_queue_min(&queue->files);
    int64_t end = end_of(queue);
    int64_t keep = start;
    queue->max_commit_log_offset = 0;
    for (int64_t at = end - RQ_CQ_ENTRY_BYTES; at >= start; at -= RQ_CQ_ENTRY_BYTES) {
        struct rq_store_entry entry;
        bool real;
        if (entry_at(queue, at, &entry, &real) && real && entry.size > 0 &&
            entry.commit_log_offset < commit_log_end) {
            keep = at + RQ_CQ_ENTRY_BYTES;
            queue->max_commit_log_offset = entry.commit_log_offset + entry.size;
            break;
        }
    }
    return keep;
}

rmq_status rq_consume_queue_truncate(struct rq_consume_queue *queue, int64_t commit_log_end,
                                     rmq_error **err)
{
    int64_t end = end_of(queue);
    int64_t keep = find_cut(queue, commit_log_end);
    if (keep == end) {
        return RMQ_OK;
    }
    RQ_LOG(WARN, "consume queue entries without message dropped",
           "topic=%.*s queue=%d from=%lld to=%lld", (int)queue->topic.n, queue->topic.p,
           queue->queue_id, (long long)(keep / RQ_CQ_ENTRY_BYTES),
           (long long)(end / RQ_CQ_ENTRY_BYTES));
    if (keep == 0) {
        return rq_consume_queue_clear(queue, err);
    }
    rmq_status st = set_positions(queue, keep, err);
    return st == RMQ_OK ? rq_consume_queue_wipe_tail(queue, err) : st;
}

rmq_status rq_consume_queue_rewind(struct rq_consume_queue *queue, int64_t commit_log_from,
                                   rmq_error **err)
{
    int64_t keep = find_cut(queue, commit_log_from);
    if (queue->max_commit_log_offset ==
        0) { /* nothing before it: the first entry says where the queue begins */
        return rq_consume_queue_clear(queue, err);
    }
    return set_positions(queue, keep, err);
}

void rq_consume_queue_distrust(struct rq_consume_queue *queue)
{
    for (size_t i = 0; i < queue->files.count; i++) {
        queue->files.files[i]->flushed = 0;
    }
    queue->flushed = rq_mapped_file_queue_min(&queue->files);
}

/* Number of the first real entry in [from, upto), upto when there is none. */
static int64_t next_real(struct rq_consume_queue *queue, int64_t from, int64_t upto,
                         struct rq_store_entry *out)
{
    bool real = false;
    while (from < upto && !(entry_at(queue, from * RQ_CQ_ENTRY_BYTES, out, &real) && real)) {
        from++;
    }
    return from;
}

/* First byte of the first real entry whose message begins at or behind commit_log_min; entries are
 * ordered, a blank slot counts as the entry behind it. */
static int64_t first_from(struct rq_consume_queue *queue, int64_t commit_log_min)
{
    int64_t low = rq_mapped_file_queue_min(&queue->files) / RQ_CQ_ENTRY_BYTES;
    int64_t end = end_of(queue) / RQ_CQ_ENTRY_BYTES;
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

void rq_consume_queue_blank(struct rq_consume_queue *queue, int64_t commit_log_from,
                            int64_t commit_log_to)
{
    const struct rq_store_entry blank = {.size = RQ_CQ_BLANK_SIZE};
    int64_t first = first_from(queue, commit_log_from);
    int64_t at = first;
    for (; at < end_of(queue); at += RQ_CQ_ENTRY_BYTES) {
        struct rq_store_entry entry;
        struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, at);
        bool real = file && rq_cq_read(file->data + (at - file->start), &entry);
        bool beyond = real && entry.commit_log_offset >= commit_log_to;
        if (real && !beyond) {
            write_entry(file->data + (at - file->start), &blank);
            file->flushed = 0;
        }
        rq_mapped_file_release(file);
        if (beyond) {
            break;
        }
    }
    if (at > first) {
        RQ_LOG(ERROR, "messages of a queue are lost", "topic=%.*s queue=%d from=%lld to=%lld",
               (int)queue->topic.n, queue->topic.p, queue->queue_id,
               (long long)(first / RQ_CQ_ENTRY_BYTES), (long long)(at / RQ_CQ_ENTRY_BYTES));
    }
}

void rq_consume_queue_correct_min(struct rq_consume_queue *queue, int64_t commit_log_min)
{
    set_min(queue, first_from(queue, commit_log_min));
}

int rq_consume_queue_clean(struct rq_consume_queue *queue, int64_t commit_log_min)
{
    int deleted = 0;
    while (queue->files.count > 1) {
        struct rq_mapped_file *first = queue->files.files[0];
        size_t entries = queue->files.file_size / RQ_CQ_ENTRY_BYTES;
        struct rq_store_entry entry;
        bool real = rq_cq_read(first->data + (entries - 1) * RQ_CQ_ENTRY_BYTES, &entry);
        if (real && entry.commit_log_offset >= commit_log_min) {
            break;
        }
        if (rq_mapped_file_queue_remove_first(&queue->files, NULL) != RMQ_OK) {
            break;
        }
        deleted++;
    }
    rq_consume_queue_correct_min(queue, commit_log_min);
    return deleted;
}

/* ---- putting ---- */

/* A file with room for one more entry at the queue's end, its blocks reserved. */
static rmq_status file_for_put(struct rq_consume_queue *queue, struct rq_mapped_file **out,
                               rmq_error **err)
{
    struct rq_mapped_file *file = rq_mapped_file_queue_last(&queue->files);
    int64_t end = end_of(queue);
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
        int64_t end = end_of(queue);
        size_t at = (size_t)(end - file->start);
        write_entry(file->data + at, entry);
        rq_mapped_file_set_written(file, at + RQ_CQ_ENTRY_BYTES);
        set_end(queue, end + RQ_CQ_ENTRY_BYTES);
    }
    return st;
}

static rmq_status fill_gap(struct rq_consume_queue *queue, int64_t upto, rmq_error **err)
{
    const struct rq_store_entry blank = {.size = RQ_CQ_BLANK_SIZE};
    bool fresh = queue->files.count == 0;
    if (fresh) {
        int64_t start = upto - upto % (int64_t)queue->files.file_size;
        set_min(queue, upto);
        set_end(queue, start);
    } else if (upto - end_of(queue) > (int64_t)GAP_MAX_ENTRIES * RQ_CQ_ENTRY_BYTES ||
               upto - end_of(queue) > (int64_t)queue->files.file_size * GAP_MAX_FILES) {
        return rq_error_set(err, RMQ_ERR_CORRUPT, "message number %lld, but the queue ends at %lld",
                            (long long)(upto / RQ_CQ_ENTRY_BYTES),
                            (long long)(end_of(queue) / RQ_CQ_ENTRY_BYTES));
    } else {
        RQ_LOG(WARN, "hole in a consume queue filled", "topic=%.*s queue=%d from=%lld to=%lld",
               (int)queue->topic.n, queue->topic.p, queue->queue_id,
               (long long)(end_of(queue) / RQ_CQ_ENTRY_BYTES),
               (long long)(upto / RQ_CQ_ENTRY_BYTES));
    }
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && end_of(queue) < upto) {
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
    if (offset == 0 && end_of(queue) > 0 && queue->max_commit_log_offset > 0) {
        /* The topic was deleted and made again: its numbers began anew. */
        st = rq_consume_queue_clear(queue, err);
    } else if (at < end_of(queue)) {
        return RMQ_OK;
    }
    if (st == RMQ_OK && at > end_of(queue)) {
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
    struct rq_cq_run run;
    if (offset < rq_consume_queue_min(queue)) {
        return false;
    }
    rq_consume_queue_run(queue, offset, &run);
    bool real = run.count > 0 && rq_cq_read(run.p, out);
    rq_mapped_file_release(run.file);
    return real;
}

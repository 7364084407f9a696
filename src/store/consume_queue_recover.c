/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Consume queues at the start of a store: finding the end of what stands in the files, and bringing
 * the entries into agreement with the commit log. Before any other thread exists. Counterparts:
 * ConsumeQueue.recover, ConsumeQueue.truncateDirtyLogicFiles.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/sys.h"
#include "store/consume_queue_priv.h"

#define RECOVER_FILES 3

/* Entries of one file that have a size; the last real one moves the queue's end in the commit
 * log. */
static size_t walk_file(struct rq_consume_queue *queue, const struct rq_mapped_file *file)
{
    size_t at = 0;
    for (; at + RQ_CQ_ENTRY_BYTES <= file->size; at += RQ_CQ_ENTRY_BYTES) {
        struct rq_store_entry entry;
        bool real = rq_cq_read(file->data + at, &entry);
        if (!rq_cq_is_entry(&entry)) {
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
    rq_cq_set_end(queue, end);
    queue->flushed = end;
    return st;
}

rmq_status rq_consume_queue_wipe_tail(struct rq_consume_queue *queue, rmq_error **err)
{
    struct rq_mapped_file *last = rq_mapped_file_queue_last(&queue->files);
    int64_t end = rq_cq_end(queue);
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
    rq_cq_set_min(queue, queue->files.files[0]->start);
    if (queue->max_commit_log_offset == 0) { /* nothing, or blank slots only: as if never made */
        return rq_consume_queue_clear(queue, err);
    }
    return set_positions(queue, end, err);
}

/* Byte behind the last entry whose message begins before commit_log_end; that entry's message is
 * then the last one known. */
static int64_t find_cut(struct rq_consume_queue *queue, int64_t commit_log_end)
{
    int64_t start = rq_mapped_file_queue_min(&queue->files);
    int64_t end = rq_cq_end(queue);
    int64_t keep = start;
    queue->max_commit_log_offset = 0;
    for (int64_t at = end - RQ_CQ_ENTRY_BYTES; at >= start; at -= RQ_CQ_ENTRY_BYTES) {
        struct rq_store_entry entry;
        bool real;
        if (rq_cq_entry_at(queue, at, &entry, &real) && real && rq_cq_is_entry(&entry) &&
            entry.commit_log_offset < commit_log_end) {
            keep = at + RQ_CQ_ENTRY_BYTES;
            queue->max_commit_log_offset = entry.commit_log_offset + entry.size;
            break;
        }
    }
    return keep;
}

static rmq_status drop_from(struct rq_consume_queue *queue, int64_t keep, rmq_error **err)
{
    int64_t end = rq_cq_end(queue);
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

rmq_status rq_consume_queue_truncate(struct rq_consume_queue *queue, int64_t commit_log_end,
                                     rmq_error **err)
{
    return drop_from(queue, find_cut(queue, commit_log_end), err);
}

rmq_status rq_consume_queue_cut(struct rq_consume_queue *queue, int64_t number, rmq_error **err)
{
    struct rq_store_entry last;
    bool any = rq_consume_queue_entry(queue, number - 1, &last);
    queue->max_commit_log_offset = any ? last.commit_log_offset + last.size : 0;
    return drop_from(queue, number * RQ_CQ_ENTRY_BYTES, err);
}

rmq_status rq_consume_queue_rewind(struct rq_consume_queue *queue, int64_t commit_log_from,
                                   rmq_error **err)
{
    int64_t keep = find_cut(queue, commit_log_from);
    if (queue->max_commit_log_offset > 0) {
        return set_positions(queue, keep, err);
    }
    /* Nothing before it: the first entry says where the queue begins. */
    return rq_consume_queue_clear(queue, err);
}

void rq_consume_queue_distrust(struct rq_consume_queue *queue)
{
    for (size_t i = 0; i < queue->files.count; i++) {
        queue->files.files[i]->flushed = 0;
    }
    queue->flushed = rq_mapped_file_queue_min(&queue->files);
}

void rq_consume_queue_blank(struct rq_consume_queue *queue, int64_t commit_log_from,
                            int64_t commit_log_to)
{
    const struct rq_store_entry blank = {.size = RQ_CQ_BLANK_SIZE};
    int64_t first = rq_cq_first_from(queue, commit_log_from);
    int64_t at = first;
    for (; at < rq_cq_end(queue); at += RQ_CQ_ENTRY_BYTES) {
        struct rq_store_entry entry;
        struct rq_mapped_file *file = rq_mapped_file_queue_find(&queue->files, at);
        bool real = file && rq_cq_read(file->data + (at - file->start), &entry);
        bool beyond = real && entry.commit_log_offset >= commit_log_to;
        if (real && !beyond) {
            rq_cq_write(file->data + (at - file->start), &blank);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The commit log on its way to disk: from write buffers to the files, from the files to the disk.
 * Threads: one flusher, and whoever commits. */
#include "store/commit_log.h"

#include "base/time.h"

/* ---- commit ---- */

/* The file is full, or left: its buffer is free for another. */
static void free_buffer(struct rq_commit_log *log, struct rq_mapped_file *file)
{
    rq_mutex_lock(&log->lock);
    char *buffer = file == log->current ? NULL : file->buffer;
    if (buffer) {
        file->buffer = NULL;
    }
    rq_mutex_unlock(&log->lock);
    if (buffer) {
        rq_write_buffers_give(&log->buffers, buffer);
    }
}

/* One file's part of [from, end); returns where it ends. */
static int64_t commit_file(struct rq_commit_log *log, struct rq_mapped_file *file, int64_t from,
                           int64_t end)
{
    int64_t stop = file->start + (int64_t)file->size;
    stop = stop < end ? stop : end;
    size_t at = (size_t)(from - file->start);
    rq_mutex_lock(&log->lock);
    const char *buffer = file->buffer; /* only who holds commit_lock takes it away */
    rq_mutex_unlock(&log->lock);
    if (buffer) {
        memcpy(file->data + at, buffer + at, (size_t)(stop - from));
    }
    atomic_store_explicit(&log->buffers.committed, stop, memory_order_release);
    if (stop == file->start + (int64_t)file->size) {
        free_buffer(log, file);
    }
    return stop;
}

/* With commit_lock. */
static int64_t commit_to(struct rq_commit_log *log, int64_t end)
{
    log->buffers.commit_ms = rq_mono_ms();
    int64_t at = rq_commit_log_committed(log);
    while (at < end) {
        struct rq_mapped_file *file = rq_mapped_file_queue_find(&log->files, at);
        if (file) {
            at = commit_file(log, file, at, end);
            rq_mapped_file_release(file);
        } else { /* deleted by retention */
            int64_t first = rq_commit_log_min(log);
            at = first > at ? first : end;
            atomic_store_explicit(&log->buffers.committed, at, memory_order_release);
        }
    }
    return at > end ? at : end;
}

int64_t rq_commit_log_commit(struct rq_commit_log *log)
{
    int64_t end = rq_commit_log_max(log);
    if (log->buffers.on) {
        rq_mutex_lock(&log->buffers.commit_lock);
        end = commit_to(log, end);
        rq_mutex_unlock(&log->buffers.commit_lock);
    }
    return end;
}

/* A file that is full is always worth it. */
static bool is_commit_due(const struct rq_commit_log *log, int64_t end)
{
    int64_t done = rq_commit_log_committed(log);
    int64_t size = log->options->mapped_file_size_commit_log;
    int64_t pages = end / RQ_STORE_PAGE - done / RQ_STORE_PAGE;
    return done < end &&
           (pages >= log->options->commit_commit_log_least_pages || end / size != done / size ||
            rq_mono_ms() >=
                log->buffers.commit_ms + log->options->commit_commit_log_thorough_interval_ms);
}

void rq_commit_log_commit_due(struct rq_commit_log *log)
{
    if (!log->buffers.on) {
        return;
    }
    rq_mutex_lock(&log->buffers.commit_lock);
    int64_t end = rq_commit_log_max(log);
    if (is_commit_due(log, end)) {
        commit_to(log, end);
    }
    rq_mutex_unlock(&log->buffers.commit_lock);
}

/* ---- flush ---- */

rmq_status rq_commit_log_flush(struct rq_commit_log *log, int64_t *time_of_end, rmq_error **err)
{
    rq_mutex_lock(&log->lock);
    int64_t end = rq_commit_log_max(log);
    *time_of_end = log->last_timestamp;
    rq_mutex_unlock(&log->lock);
    rq_commit_log_commit(log);
    int64_t flushed = rq_commit_log_flushed(log);
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && flushed < end) {
        struct rq_mapped_file *file = rq_mapped_file_queue_find(&log->files, flushed);
        if (!file) { /* deleted by retention before it was flushed: go on behind it */
            int64_t first = rq_commit_log_min(log);
            if (first <= flushed) {
                break;
            }
            flushed = first;
            continue;
        }
        int64_t upto = end - file->start;
        upto = upto > (int64_t)file->size ? (int64_t)file->size : upto;
        st = rq_mapped_file_flush(file, (size_t)upto, err);
        if (st == RMQ_OK) {
            flushed = file->start + upto;
            atomic_store_explicit(&log->flushed, flushed, memory_order_release);
        }
        rq_mapped_file_release(file);
    }
    return st;
}

void rq_commit_log_redirty(struct rq_commit_log *log)
{
    rq_mutex_lock(&log->lock);
    int64_t end = rq_commit_log_committed(log);
    int64_t at = rq_commit_log_flushed(log);
    while (at < end) {
        struct rq_mapped_file *file = rq_mapped_file_queue_find(&log->files, at);
        if (!file) {
            break;
        }
        int64_t stop = file->start + (int64_t)file->size;
        stop = stop < end ? stop : end;
        rq_mapped_file_redirty(file, (size_t)(at - file->start), (size_t)(stop - file->start));
        rq_mapped_file_release(file);
        at = stop;
    }
    rq_mutex_unlock(&log->lock);
}

/* ---- recovery ---- */

rmq_status rq_commit_log_sync_from(struct rq_commit_log *log, int64_t from, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; st == RMQ_OK && i < log->files.count; i++) {
        struct rq_mapped_file *file = log->files.files[i];
        if (file->start + (int64_t)file->size > from) {
            file->flushed = 0;
            file->has_name = false;
            st = rq_mapped_file_flush(file, rq_mapped_file_written(file), err);
        }
    }
    return st;
}

void rq_commit_log_unflush_from(struct rq_commit_log *log, int64_t from)
{
    for (size_t i = 0; i < log->files.count; i++) {
        struct rq_mapped_file *file = log->files.files[i];
        if (file->start + (int64_t)file->size > from) {
            file->flushed = 0;
            file->has_name = false;
        }
    }
    if (from < rq_commit_log_flushed(log)) {
        atomic_store_explicit(&log->flushed, from, memory_order_release);
    }
}

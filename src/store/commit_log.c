/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The commit log: append, change of file, reading. Threads: any. */
#include "store/commit_log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "store/commit_log_ahead.h"

#define FIRST_STEP    ((size_t)1 << 20)
#define RETRY_FULL_MS 100 /* a full disk is asked again at most this often */

static const struct rq_mapped_file_kind file_kind = {.first_step = FIRST_STEP,
                                                     .last_step = RQ_COMMIT_LOG_LAST_STEP,
                                                     .keeps_fd = true,
                                                     .syncs_name = true};

/* Held for less than a microsecond, so that a thread that finds it taken spins for a while before
 * it sleeps, where the system can do that. */
static void init_append_lock(struct rq_mutex *lock)
{
#ifdef __GLIBC__
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) == 0) {
        bool done = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP) == 0 &&
                    pthread_mutex_init(&lock->m, &attr) == 0;
        pthread_mutexattr_destroy(&attr);
        if (done) {
            return;
        }
    }
#endif
    rq_mutex_init(lock);
}

rmq_status rq_commit_log_init(struct rq_commit_log *log, const char *dir,
                              const struct rq_store_options *options)
{
    *log = (struct rq_commit_log){.options = options, .spare_start = -1};
    init_append_lock(&log->lock);
    rq_mutex_init(&log->ahead_lock);
    rq_cond_init(&log->ahead_work);
    rq_write_buffers_init(&log->buffers);
    /* Pieces are quicker to bring into memory than pages, but each sync writes the last one again:
     * too much for syncs that follow one another within a millisecond. Of these each would also make
     * every page of the map that was written read-only again: a system call for each append is less.
     * Without memory for a stage appends go to the map. */
    struct rq_mapped_file_kind kind = file_kind;
    kind.page_by_page = options->flush_disk_type == RQ_FLUSH_SYNC;
    log->stage = kind.page_by_page ? rq_alloc(RQ_COMMIT_LOG_STAGE) : NULL;
    return rq_mapped_file_queue_init(&log->files, dir, (size_t)options->mapped_file_size_commit_log,
                                     &kind);
}

rmq_status rq_commit_log_load(struct rq_commit_log *log, bool *lengthened, rmq_error **err)
{
    *lengthened = false;
    return rq_mapped_file_queue_load(&log->files, lengthened, err);
}

void rq_commit_log_free(struct rq_commit_log *log)
{
    rq_mapped_file_release(log->ahead_of);
    rq_mapped_file_release(log->spare);
    for (size_t i = 0; i < log->files.count; i++) { /* what could not be committed */
        if (log->files.files[i]->buffer) {
            rq_write_buffers_give(&log->buffers, log->files.files[i]->buffer);
            log->files.files[i]->buffer = NULL;
        }
    }
    rq_mapped_file_queue_free(&log->files);
    rq_write_buffers_free(&log->buffers);
    rq_free(log->stage);
    rq_cond_destroy(&log->ahead_work);
    rq_mutex_destroy(&log->ahead_lock);
    rq_mutex_destroy(&log->lock);
}

rmq_status rq_commit_log_set_end(struct rq_commit_log *log, int64_t end, bool wipe_tail,
                                 rmq_error **err)
{
    rmq_status st = rq_mapped_file_queue_truncate(&log->files, end, err);
    struct rq_mapped_file *last = rq_mapped_file_queue_last(&log->files);
    if (st == RMQ_OK && last && wipe_tail) {
        /* Records that were cut off must not come back behind new ones. */
        st = rq_mapped_file_wipe(last, (size_t)(end - last->start), true, err);
    }
    if (last && log->files.kind.page_by_page) {
        rq_mapped_file_new_from(last, (size_t)(end - last->start));
    }
    log->current = last;
    atomic_store_explicit(&log->max_offset, end, memory_order_release);
    atomic_store_explicit(&log->buffers.committed, end, memory_order_release);
    atomic_store_explicit(&log->flushed, end, memory_order_release);
    return st;
}

/* ---- append ---- */

/* Where the byte at pos is written. */
static char *place(const struct rq_mapped_file *file, size_t pos)
{
    return (file->buffer ? file->buffer : file->data) + pos;
}

/* A blank record takes the rest of the file. In the file itself there are zeros behind it, in a
 * buffer whatever was in that memory. */
static void fill_up(struct rq_mapped_file *file, size_t pos)
{
    size_t left = file->size - pos;
    if (file->buffer) {
        memset(file->buffer + pos, 0, left);
    }
    rq_record_write_blank(place(file, pos), (uint32_t)left);
    rq_mapped_file_set_written(file, file->size);
}

/* Blocks for what fill_up writes: at a file's first append after the start there are none yet, and
 * of a buffer everything is copied to the file. */
static rmq_status reserve_rest(struct rq_commit_log *log, struct rq_mapped_file *file, size_t pos,
                               rmq_error **err)
{
    size_t upto = file->buffer ? file->size : pos + RQ_RECORD_BLANK_BYTES;
    return rq_log_ahead_reserve(log, file, upto, err);
}

/* Room for n bytes and a blank behind them in the current file, or in a new one after a blank in
 * this. Nothing has changed when it fails. */
static rmq_status make_room(struct rq_commit_log *log, size_t n, rmq_error **err)
{
    struct rq_mapped_file *file = log->current;
    size_t pos = file ? rq_mapped_file_written(file) : 0;
    if (file && pos + n + RQ_RECORD_BLANK_BYTES <= file->size) {
        return rq_log_ahead_reserve(log, file, pos + n + RQ_RECORD_BLANK_BYTES, err);
    }
    int64_t start = file ? file->start + (int64_t)file->size : 0;
    struct rq_mapped_file *next = NULL;
    bool has_rest = file && pos < file->size;
    rmq_status st = has_rest ? reserve_rest(log, file, pos, err) : RMQ_OK;
    if (st == RMQ_OK) {
        st = rq_log_ahead_take(log, start, &next, err);
    }
    if (st == RMQ_OK) {
        rq_mapped_file_set_written(next, 0);
        next->flushed = 0;
        st = rq_log_ahead_reserve(log, next, n + RQ_RECORD_BLANK_BYTES, err);
    }
    if (st == RMQ_OK) {
        st = rq_mapped_file_queue_add(&log->files, next, err);
    }
    if (st != RMQ_OK) {
        if (next) {
            rq_mapped_file_unlink(next, NULL);
            rq_mapped_file_release(next);
        }
        return st;
    }
    if (has_rest) {
        fill_up(file, pos);
    }
    next->buffer = log->buffers.on ? rq_write_buffers_take(&log->buffers) : NULL;
    if (file) {
        rq_log_ahead_leave(log, file);
    }
    log->current = next;
    atomic_store_explicit(&log->max_offset, start, memory_order_release);
    return RMQ_OK;
}

static enum rq_put_status refuse(struct rq_commit_log *log, size_t n, struct rq_store_put *out,
                                 rmq_status st, rmq_error *err)
{
    const char *why = err ? rmq_error_message(err) : rmq_status_text(st);
    if (log->refuse_until_ms == 0) {
        RQ_LOG(WARN, "no room for messages", "reason=%s", why);
    }
    snprintf(log->refuse_reason, sizeof log->refuse_reason, "%s%s",
             st == RMQ_ERR_DISK_FULL ? "disk full: " : "", why);
    log->refuse_until_ms = rq_mono_ms() + RETRY_FULL_MS;
    log->refused_bytes = n;
    memcpy(out->reason, log->refuse_reason, sizeof out->reason);
    rmq_error_destroy(err);
    return st == RMQ_ERR_DISK_FULL ? RQ_PUT_SERVICE_NOT_AVAILABLE
                                   : RQ_PUT_CREATE_MAPPED_FILE_FAILED;
}

/* The slow path of an append: the reserved blocks or the file end. */
static enum rq_put_status get_room(struct rq_commit_log *log, size_t n, struct rq_store_put *out)
{
    if (log->refuse_until_ms != 0 && rq_mono_ms() < log->refuse_until_ms) {
        memcpy(out->reason, log->refuse_reason, sizeof out->reason);
        return RQ_PUT_SERVICE_NOT_AVAILABLE;
    }
    rmq_error *err = NULL;
    rmq_status st = make_room(log, n, &err);
    if (st != RMQ_OK) {
        return refuse(log, n, out, st, err);
    }
    rq_log_ahead_begin_locked(log);
    if (log->refuse_until_ms != 0) {
        RQ_LOG(WARN, "room for messages again", "%s", "");
        log->refuse_until_ms = 0;
    }
    return RQ_PUT_OK;
}

void rq_commit_log_enter(struct rq_commit_log *log)
{
    rq_mutex_lock(&log->lock);
    atomic_store_explicit(&log->in_lock_since_ms, rq_disk_now_ms(log->disk), memory_order_relaxed);
}

void rq_commit_log_leave(struct rq_commit_log *log)
{
    atomic_store_explicit(&log->in_lock_since_ms, 0, memory_order_relaxed);
    rq_mutex_unlock(&log->lock);
}

int64_t rq_commit_log_held_ms(const struct rq_commit_log *log)
{
    int64_t since = atomic_load_explicit(&log->in_lock_since_ms, memory_order_relaxed);
    return since == 0 ? 0 : rq_disk_now_ms(log->disk) - since;
}

void rq_commit_log_retry(struct rq_commit_log *log)
{
    rq_commit_log_enter(log);
    if (log->refuse_until_ms != 0) {
        log->refuse_until_ms = 1; /* long over; the next append tells that there is room again */
    }
    rq_commit_log_leave(log);
}

/* The time at which the lock was taken, so that no append reads the clock twice. */
static int64_t store_time(struct rq_commit_log *log)
{
    int64_t now = atomic_load_explicit(&log->in_lock_since_ms, memory_order_relaxed);
    log->last_timestamp = now > log->last_timestamp ? now : log->last_timestamp;
    return log->last_timestamp;
}

/* The lock is held, so this needs no locked addition. */
static void count_messages(struct rq_commit_log *log, unsigned long long more)
{
    unsigned long long now = atomic_load_explicit(&log->put_messages, memory_order_relaxed);
    atomic_store_explicit(&log->put_messages, now + more, memory_order_relaxed);
}

static void write_records(struct rq_commit_log *log, const struct rq_append *append, char *to,
                          struct rq_store_put *out)
{
    struct rq_consume_queue *queue = append->queue;
    int64_t offset = out->commit_log_offset;
    for (size_t i = 0; i < append->count; i++) {
        const struct rq_record_plan *plan = &append->plans[i];
        int32_t kind = append->msgs[i].sys_flag & RQ_SYS_TRANSACTION_MASK;
        bool counted = kind == 0 || kind == RQ_SYS_TRANSACTION_COMMIT;
        int64_t number = counted ? queue->next_offset : 0;
        rq_record_write(to, &append->msgs[i], plan, number, offset, out->store_timestamp);
        out->queue_offset = i == 0 ? number : out->queue_offset;
        queue->next_offset += counted;
        if (append->offsets) {
            append->offsets[i] = offset;
        }
        to += plan->size;
        offset += plan->size;
    }
    out->next_commit_log_offset = offset;
    count_messages(log, append->count);
    log->put_bytes += append->total;
}

/* What write_records counted did not come about. */
static void take_back(struct rq_commit_log *log, const struct rq_append *append,
                      int64_t next_offset)
{
    count_messages(log, 0 - (unsigned long long)append->count);
    log->put_bytes -= append->total;
    append->queue->next_offset = next_offset;
}

/* The first bytes of an append land behind the end of the log, as after a write that failed half
 * way. */
static void write_torn(struct rq_commit_log *log, const struct rq_append *append, char *to,
                       size_t bytes, struct rq_store_put *out)
{
    int64_t next_offset = append->queue->next_offset;
    char *whole = rq_alloc(append->total);
    if (whole) {
        write_records(log, append, whole, out);
        memcpy(to, whole, bytes < append->total ? bytes : append->total);
        take_back(log, append, next_offset);
        rq_free(whole);
    }
}

static enum rq_put_status write_failed(struct rq_commit_log *log, int error,
                                       struct rq_store_put *out)
{
    snprintf(out->reason, sizeof out->reason, "%swrite %s: %s",
             error == ENOSPC || error == EDQUOT ? "disk full: " : "", log->current->path,
             strerror(error));
    if (!log->write_fails) {
        RQ_LOG(ERROR, "messages cannot be written to the commit log", "reason=%s", out->reason);
    }
    log->write_fails = true;
    return RQ_PUT_SERVICE_NOT_AVAILABLE;
}

static void write_works(struct rq_commit_log *log)
{
    if (log->write_fails) {
        RQ_LOG(WARN, "messages can be written to the commit log again", "path=%s",
               log->current->path);
        log->write_fails = false;
    }
}

/* Records that came whole, and yet with an error, must not be found there at the next start. */
static int write_none(const struct rq_mapped_file *file, size_t pos)
{
    static const char none[RQ_RECORD_BLANK_BYTES];
    return rq_mapped_file_write(file, pos, none, sizeof none);
}

/* Whether the write that failed last would go well now, tried with the zeros that are to be behind
 * the end of the log. */
static enum rq_put_status try_write(struct rq_commit_log *log, struct rq_store_put *out)
{
    const struct rq_mapped_file *file = log->current;
    size_t pos = rq_mapped_file_written(file);
    int error = rq_disk_fault(log->disk, RQ_DISK_WRITE);
    if (!error && log->stage && !file->buffer &&
        rq_mapped_file_has_room(log->current, pos + RQ_RECORD_BLANK_BYTES)) {
        error = write_none(file, pos);
    }
    if (error) {
        return write_failed(log, error, out);
    }
    write_works(log);
    return RQ_PUT_OK;
}

bool rq_commit_log_takes(struct rq_commit_log *log, char reason[RQ_PUT_REASON_MAX])
{
    struct rq_store_put out = {.reason = ""};
    rq_commit_log_enter(log);
    rq_disk_ask(true);
    enum rq_put_status st =
        log->refuse_until_ms == 0 ? RQ_PUT_OK : get_room(log, log->refused_bytes, &out);
    if (st == RQ_PUT_OK && log->write_fails) {
        st = try_write(log, &out);
    }
    rq_disk_ask(false);
    rq_commit_log_leave(log);
    memcpy(reason, out.reason, sizeof out.reason);
    return st == RQ_PUT_OK;
}

/* What a test asked to go wrong with this append, for which there is room at to. */
static enum rq_put_status meet_faults(struct rq_commit_log *log, const struct rq_append *append,
                                      char *to, struct rq_store_put *out)
{
    size_t bytes;
    int error = rq_disk_fault(log->disk, RQ_DISK_WRITE);
    if (!error && rq_disk_tears(log->disk, &bytes)) {
        write_torn(log, append, to, bytes, out);
        error = EIO;
    }
    return error ? write_failed(log, error, out) : RQ_PUT_OK;
}

/* There is room. */
static enum rq_put_status write_append(struct rq_commit_log *log, const struct rq_append *append,
                                       struct rq_mapped_file *file, size_t pos,
                                       struct rq_store_put *out)
{
    if (!log->stage || file->buffer || append->total > RQ_COMMIT_LOG_STAGE) {
        write_records(log, append, place(file, pos), out);
        return RQ_PUT_OK;
    }
    int64_t next_offset = append->queue->next_offset;
    write_records(log, append, log->stage, out);
    int error = rq_mapped_file_write(file, pos, log->stage, append->total);
    if (!error) {
        return RQ_PUT_OK;
    }
    take_back(log, append, next_offset);
    (void)write_none(file, pos);
    return write_failed(log, error, out);
}

enum rq_put_status rq_commit_log_append_locked(struct rq_commit_log *log,
                                               const struct rq_append *append,
                                               struct rq_store_put *out)
{
    struct rq_mapped_file *file = log->current;
    size_t pos = file ? rq_mapped_file_written(file) : 0;
    size_t need = pos + append->total + RQ_RECORD_BLANK_BYTES;
    if (append->total + RQ_RECORD_BLANK_BYTES > log->files.file_size) {
        snprintf(out->reason, sizeof out->reason, "%zu bytes do not fit a commit-log file of %zu",
                 append->total, log->files.file_size);
        return RQ_PUT_MESSAGE_ILLEGAL;
    }
    if (!file || need > file->size || !rq_mapped_file_has_room(file, need)) {
        enum rq_put_status st = get_room(log, append->total, out);
        if (st != RQ_PUT_OK) {
            return st;
        }
        file = log->current;
        pos = rq_mapped_file_written(file);
    }
    out->commit_log_offset = file->start + (int64_t)pos;
    out->store_timestamp = store_time(log);
    enum rq_put_status st = meet_faults(log, append, place(file, pos), out);
    if (st == RQ_PUT_OK) {
        st = write_append(log, append, file, pos, out);
    }
    if (st != RQ_PUT_OK) {
        return st;
    }
    write_works(log);
    rq_mapped_file_set_written(file, pos + append->total);
    atomic_store_explicit(&log->max_offset, out->next_commit_log_offset, memory_order_release);
    rq_log_ahead_look_locked(log, file, pos, pos + append->total);
    return RQ_PUT_OK;
}

/* ---- reading ---- */

const char *rq_log_reader_at(struct rq_log_reader *reader, struct rq_commit_log *log,
                             int64_t offset, int64_t end, size_t *left)
{
    struct rq_mapped_file *file = reader->file;
    if (offset < 0 || offset >= end) {
        return NULL;
    }
    if (!file || offset < file->start || offset - file->start >= (int64_t)file->size) {
        rq_mapped_file_release(file);
        file = rq_mapped_file_queue_find(&log->files, offset);
        reader->file = file;
        if (!file) {
            return NULL;
        }
    }
    int64_t stop = file->start + (int64_t)file->size;
    stop = stop < end ? stop : end;
    *left = (size_t)(stop - offset);
    return file->data + (offset - file->start);
}

void rq_log_reader_done(struct rq_log_reader *reader)
{
    rq_mapped_file_release(reader->file);
    reader->file = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The commit log's helper thread: blocks, pages and the next file ahead of the appends. */
#include "store/commit_log_ahead.h"

#include <sys/mman.h>

#include "base/err.h"

#define LAST_STEP   RQ_COMMIT_LOG_LAST_STEP
#define READY_STEP  ((size_t)1 << 20)
#define READY_AHEAD ((size_t)4 << 20)
/* the next file is made when less than this, or half a file, is left */
#define SPARE_WHEN_LEFT ((size_t)128 << 20)

static bool is_sync(const struct rq_commit_log *log)
{
    return log->options->flush_disk_type == RQ_FLUSH_SYNC;
}

/* Without ahead_lock: it takes a while. The file may be in use meanwhile. */
static void ready(const struct rq_commit_log *log, struct rq_mapped_file *file, size_t from,
                  size_t upto)
{
    rq_mapped_file_touch(file, from, upto);
    if (is_sync(log)) {
        rq_mapped_file_use_blocks(file, from, upto);
    }
    file->readied = upto;
}

/* The next pages are brought into memory, so that appends do not fault while they hold the lock;
 * with synchronous flush their blocks are in use then, so that syncs are spared the turns of the
 * file system's journal. */
static void ready_next(const struct rq_commit_log *log, struct rq_mapped_file *file, size_t pos)
{
    size_t from = pos / RQ_STORE_PAGE * RQ_STORE_PAGE;
    size_t upto = atomic_load_explicit(&file->reserved, memory_order_acquire);
    from = from < file->readied ? file->readied : from;
    upto = upto < pos + READY_AHEAD ? upto : pos + READY_AHEAD;
    upto = upto < file->size ? upto / READY_STEP * READY_STEP : upto;
    if (upto > from) {
        ready(log, file, from, upto);
    }
}

/* Half a step of blocks, and a little more than the pages to touch, are kept ahead. */
static bool needs_blocks(struct rq_mapped_file *file, size_t pos)
{
    size_t reserved = atomic_load_explicit(&file->reserved, memory_order_relaxed);
    size_t step = reserved < LAST_STEP ? reserved : LAST_STEP;
    return reserved < file->size && reserved - pos < step / 2 + READY_STEP;
}

/* The helper's work, one item at a time; true when something was done. Holds ahead_lock, but for
 * touching. */
static bool work_ahead(struct rq_commit_log *log)
{
    struct rq_mapped_file *file = log->ahead_of;
    size_t pos = log->ahead_pos;
    if (!file) {
        return false;
    }
    log->ahead_of = NULL;
    if (needs_blocks(file, pos)) {
        size_t reserved = atomic_load_explicit(&file->reserved, memory_order_relaxed);
        /* A failure is found again by the append. */
        rq_mapped_file_reserve(file, reserved + 1, NULL);
    }
    rq_mutex_unlock(&log->ahead_lock);
    ready_next(log, file, pos);
    rq_mapped_file_release(file);
    rq_mutex_lock(&log->ahead_lock);
    return true;
}

rmq_status rq_log_ahead_reserve(struct rq_commit_log *log, struct rq_mapped_file *file, size_t upto,
                                rmq_error **err)
{
    rq_mutex_lock(&log->ahead_lock);
    rmq_status st = rq_mapped_file_reserve(file, upto, err);
    rq_mutex_unlock(&log->ahead_lock);
    return st;
}

/* warmMapedFileEnable: the whole file in memory for good, as far as the system lets us. Without
 * ahead_lock, but for reserving: the file may be in use already. */
static void warm_up(struct rq_commit_log *log, struct rq_mapped_file *file)
{
    size_t step = (size_t)log->options->flush_least_pages_when_warm_maped_file * RQ_STORE_PAGE;
    bool go_on = rq_log_ahead_reserve(log, file, file->size, NULL) == RMQ_OK;
    for (size_t at = 0; go_on && at < file->size;) {
        size_t upto = file->size - at > step ? at + step : file->size;
        ready(log, file, at, upto);
        at = upto;
        rq_mutex_lock(&log->ahead_lock);
        go_on = !log->stop;
        rq_mutex_unlock(&log->ahead_lock);
    }
    if (go_on) {
        mlock(file->data, file->size);
    }
}

static size_t first_part(const struct rq_mapped_file *file)
{
    return file->size < READY_AHEAD ? file->size : READY_AHEAD;
}

static bool make_spare(struct rq_commit_log *log)
{
    if (log->spare || log->spare_start < 0) {
        return false;
    }
    int64_t start = log->spare_start;
    rmq_status st = rq_mapped_file_queue_make(&log->files, start, &log->spare, NULL);
    if (st != RMQ_OK) {
        log->spare_start = -1;
        return true;
    }
    struct rq_mapped_file *spare = log->spare;
    rq_mapped_file_set_written(spare, 0);
    spare->flushed = 0;
    rq_mapped_file_reserve(spare, is_sync(log) ? first_part(spare) : 1, NULL);
    rq_mapped_file_retain(spare);
    rq_mutex_unlock(&log->ahead_lock);
    if (log->options->warm_maped_file_enable) {
        warm_up(log, spare);
    } else if (is_sync(log)) {
        ready_next(log, spare, 0);
    }
    rq_mapped_file_release(spare);
    rq_mutex_lock(&log->ahead_lock);
    return true;
}

static void helper_run(void *arg)
{
    struct rq_commit_log *log = arg;
    rq_mutex_lock(&log->ahead_lock);
    while (!log->stop) {
        if (!work_ahead(log) && !make_spare(log)) {
            rq_cond_wait(&log->ahead_work, &log->ahead_lock);
        }
    }
    rq_mutex_unlock(&log->ahead_lock);
}

/* Tells the helper where appends are. With ahead_lock. */
static void set_place(struct rq_commit_log *log, struct rq_mapped_file *file, size_t pos)
{
    if (log->ahead_of != file) {
        rq_mapped_file_release(log->ahead_of);
        rq_mapped_file_retain(file);
        log->ahead_of = file;
    }
    log->ahead_pos = pos;
    rq_cond_signal(&log->ahead_work);
}

/* Tells the helper what will be needed. */
static void ask_locked(struct rq_commit_log *log, struct rq_mapped_file *file, size_t pos)
{
    rq_mutex_lock(&log->ahead_lock);
    size_t left = file->size - pos;
    if (log->spare_start < 0 && (left < file->size / 2 || left < SPARE_WHEN_LEFT)) {
        log->spare_start = file->start + (int64_t)file->size;
    }
    set_place(log, file, pos);
    rq_mutex_unlock(&log->ahead_lock);
}

rmq_status rq_log_ahead_take(struct rq_commit_log *log, int64_t start, struct rq_mapped_file **out,
                             rmq_error **err)
{
    rq_mutex_lock(&log->ahead_lock);
    rmq_status st = RMQ_OK;
    if (log->spare && log->spare->start == start) {
        *out = log->spare;
        log->spare = NULL;
    } else {
        st = rq_mapped_file_queue_make(&log->files, start, out, err);
    }
    log->spare_start = -1;
    rq_mutex_unlock(&log->ahead_lock);
    return st;
}

void rq_log_ahead_look_locked(struct rq_commit_log *log, struct rq_mapped_file *file, size_t before,
                              size_t after)
{
    size_t middle = file->size / 2;
    if (before / READY_STEP != after / READY_STEP || (before < middle && after >= middle)) {
        ask_locked(log, file, after);
    }
}

void rq_log_ahead_begin_locked(struct rq_commit_log *log)
{
    if (is_sync(log)) {
        rq_mutex_lock(&log->ahead_lock);
        set_place(log, log->current, rq_mapped_file_written(log->current));
        rq_mutex_unlock(&log->ahead_lock);
    }
}

void rq_log_ahead_leave(struct rq_commit_log *log, struct rq_mapped_file *file)
{
    rq_mutex_lock(&log->ahead_lock);
    rq_mapped_file_close_fd(file);
    rq_mutex_unlock(&log->ahead_lock);
}

rmq_status rq_commit_log_start(struct rq_commit_log *log, rmq_error **err)
{
    rmq_status st = rq_thread_start(&log->helper, "rq-store-ahead", helper_run, log);
    return st == RMQ_OK ? st : rq_error_set(err, st, "start the store's helper thread");
}

void rq_commit_log_stop(struct rq_commit_log *log)
{
    rq_mutex_lock(&log->ahead_lock);
    log->stop = true;
    rq_cond_signal(&log->ahead_work);
    rq_mutex_unlock(&log->ahead_lock);
    rq_thread_join(&log->helper);
    if (log->spare) {
        rq_mapped_file_unlink(log->spare, NULL);
        rq_mapped_file_release(log->spare);
        log->spare = NULL;
    }
}

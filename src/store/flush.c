/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The flush thread. Owns the checkpoint; everything else is read under its owner's locks. */
#include "store/flush.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "store/contents.h"
#include "store/store_priv.h"

#define RETRY_MS         1000 /* a failed sync is tried again so often */
#define TOGETHER_MIN     32   /* queues that wait: then the whole file system is synced */
#define GATHER_MAX_US    5000 /* that a sync waits for more senders */
#define NOT_GATHERED     16   /* syncs, when gathering brought too few */
#define TIME_OUT_STEP_MS 10   /* how exactly waiters' deadlines are watched */

void rq_flusher_init(struct rq_flusher *flusher)
{
    *flusher = (struct rq_flusher){0};
    rq_mutex_init(&flusher->sync);
    rq_mutex_init(&flusher->lock);
    rq_cond_init(&flusher->work);
}

void rq_flusher_free(struct rq_flusher *flusher)
{
    rq_cond_destroy(&flusher->work);
    rq_mutex_destroy(&flusher->lock);
    rq_mutex_destroy(&flusher->sync);
}

/* ---- waiters ---- */

bool rq_store_park(struct rq_store *store, int64_t next_commit_log_offset,
                   struct rq_store_waiter *waiter)
{
    struct rq_flusher *flusher = &store->flusher;
    if (store->options.flush_disk_type != RQ_FLUSH_SYNC) {
        return false;
    }
    waiter->offset = next_commit_log_offset;
    waiter->deadline_ms = rq_deadline_ms(store->options.sync_flush_timeout_ms);
    rq_mutex_lock(&flusher->lock);
    bool waits = rq_commit_log_flushed(&store->log) < next_commit_log_offset;
    if (waits) {
        waiter->next = flusher->waiters;
        flusher->waiters = waiter;
        flusher->waiting++;
        if (flusher->waiting == flusher->gathered) {
            rq_cond_signal(&flusher->work);
        }
    }
    rq_mutex_unlock(&flusher->lock);
    return waits;
}

void rq_flusher_wake(struct rq_flusher *flusher, struct rq_store *store, int32_t least_pages)
{
    int64_t waiting = rq_commit_log_max(&store->log) - rq_commit_log_flushed(&store->log);
    if (waiting <= 0 || waiting < (int64_t)least_pages * RQ_STORE_PAGE) {
        return;
    }
    rq_mutex_lock(&flusher->lock);
    if (!flusher->wake) {
        flusher->wake = true;
        rq_cond_signal(&flusher->work);
    }
    rq_mutex_unlock(&flusher->lock);
}

/* What becomes of a waiter now; false: it goes on waiting. */
static bool settle(const struct rq_store_waiter *waiter, int64_t flushed, int64_t now, bool failed,
                   enum rq_put_status *st)
{
    if (waiter->offset <= flushed) {
        *st = RQ_PUT_OK;
    } else if (failed) {
        *st = RQ_PUT_SERVICE_NOT_AVAILABLE;
    } else {
        *st = RQ_PUT_FLUSH_DISK_TIMEOUT;
        return now >= waiter->deadline_ms;
    }
    return true;
}

static struct rq_store_waiter *reversed(struct rq_store_waiter *list)
{
    struct rq_store_waiter *first = NULL;
    while (list) {
        struct rq_store_waiter *next = list->next;
        list->next = first;
        first = list;
        list = next;
    }
    return first;
}

void rq_flusher_complete(struct rq_flusher *flusher, struct rq_store *store, bool failed)
{
    int64_t flushed = rq_commit_log_flushed(&store->log);
    int64_t now = rq_mono_ms();
    rq_mutex_lock(&flusher->lock);
    struct rq_store_waiter *list = reversed(flusher->waiters);
    flusher->waiters = NULL;
    if (list && list->offset <= flushed) {
        flusher->expected = flusher->waiting;
    }
    flusher->waiting = 0;
    rq_mutex_unlock(&flusher->lock);
    int64_t left = 0;
    struct rq_store_waiter *stay = NULL;
    struct rq_store_waiter *stay_last = NULL;
    while (list) {
        struct rq_store_waiter *waiter = list;
        enum rq_put_status st;
        list = waiter->next;
        waiter->more = list && list->offset <= flushed;
        if (settle(waiter, flushed, now, failed, &st)) {
            waiter->done(waiter, st);
        } else {
            waiter->next = stay;
            stay = waiter;
            left++;
            stay_last = stay_last ? stay_last : waiter;
        }
    }
    if (stay) { /* newest first, as the list is kept; those parked meanwhile are newer */
        rq_mutex_lock(&flusher->lock);
        stay_last->next = NULL;
        struct rq_store_waiter **end = &flusher->waiters;
        while (*end) {
            end = &(*end)->next;
        }
        *end = stay;
        flusher->waiting += left;
        rq_mutex_unlock(&flusher->lock);
    }
}

/* ---- syncing ---- */

static bool failing_now(struct rq_store *store)
{
    return atomic_load_explicit(&store->health, memory_order_relaxed) & RQ_HEALTH_FLUSH;
}

static void note_sync(struct rq_store *store, rmq_status st, const rmq_error *err)
{
    bool failing = st != RMQ_OK;
    const char *why = err ? rmq_error_message(err) : rmq_status_text(st);
    if (failing) {
        rq_mutex_lock(&store->flusher.lock);
        snprintf(store->flusher.failure, sizeof store->flusher.failure, "%s", why);
        rq_mutex_unlock(&store->flusher.lock);
    }
    if (failing != failing_now(store)) {
        rq_store_set_health(store, RQ_HEALTH_FLUSH, failing);
        if (failing) {
            RQ_LOG(ERROR, "commit log cannot be written to disk, no more messages are taken",
                   "reason=%s", why);
        } else {
            RQ_LOG(WARN, "commit log can be written to disk again", "%s", "");
        }
    }
}

/* What one sync of the log took and brought; bytes 0 = there was nothing to do. */
static void measure_sync(struct rq_store *store, rmq_status st, int64_t us, int64_t bytes,
                         uint64_t messages)
{
    struct rq_metrics *metrics = &store->metrics;
    if (st != RMQ_OK) {
        atomic_fetch_add_explicit(&metrics->flush_failures, 1, memory_order_relaxed);
    } else if (bytes > 0) {
        rq_histogram_add(&metrics->flush_us, us);
        rq_histogram_add(&metrics->flush_messages, (int64_t)(messages - metrics->flushed_messages));
        metrics->flushed_messages = messages;
        atomic_fetch_add_explicit(&metrics->flush_bytes, (unsigned long long)bytes,
                                  memory_order_relaxed);
        rq_mutex_lock(&store->flusher.lock);
        store->flusher.sync_us = us;
        rq_mutex_unlock(&store->flusher.lock);
    }
}

static rmq_status sync_log(struct rq_store *store, rmq_error **err)
{
    int64_t time = 0;
    rmq_error *own = NULL;
    if (failing_now(store)) {
        rq_commit_log_redirty(&store->log);
    }
    int64_t began_us = rq_mono_us();
    int64_t from = rq_commit_log_flushed(&store->log);
    uint64_t messages = atomic_load_explicit(&store->log.put_messages, memory_order_relaxed);
    rmq_status st = rq_commit_log_flush(&store->log, &time, &own);
    measure_sync(store, st, rq_mono_us() - began_us, rq_commit_log_flushed(&store->log) - from,
                 messages);
    if (st == RMQ_OK) {
        rq_checkpoint_raise(&store->checkpoint, &store->checkpoint.commit_log_time, time);
    }
    note_sync(store, st, own);
    if (err && own) {
        *err = own;
    } else {
        rmq_error_destroy(own);
    }
    return st;
}

/* Store time up to which everything has queue and index entries. */
static int64_t dispatched_time(struct rq_store *store)
{
    return atomic_load_explicit(&store->dispatcher.last_time, memory_order_acquire);
}

/* Marks what waits in each queue; how many are worth a flush. */
static size_t mark_queues(struct rq_store *store, int32_t least_pages)
{
    size_t count = 0;
    struct rq_consume_queue *queue;
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        count += rq_consume_queue_mark(queue, least_pages);
    }
    return count;
}

/* Whether the queues' files are on the file system of the file that is open since the start, and so
 * are told of its errors. */
static bool share_file_system(const struct rq_store *store)
{
    struct stat queues;
    struct stat lock;
    return stat(store->queues.dir, &queues) == 0 && fstat(store->lock.fd, &lock) == 0 &&
           queues.st_dev == lock.st_dev;
}

/* Each sync of a file is a turn of the disk and of its journal: many at once are one call. */
static bool sync_queues_together(struct rq_store *store, int32_t least_pages)
{
    struct rq_consume_queue *queue;
    if (mark_queues(store, least_pages) < TOGETHER_MIN || !share_file_system(store) ||
        rq_disk_sync_all(&store->disk, store->lock.fd) < 0) {
        return false; /* one by one then, which also tells the file that cannot be written */
    }
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        rq_consume_queue_marked_is_flushed(queue);
    }
    return true;
}

static rmq_status sync_queues(struct rq_store *store, int32_t least_pages, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    struct rq_consume_queue *queue;
    if (sync_queues_together(store, least_pages)) {
        return RMQ_OK;
    }
    for (size_t i = 0; st == RMQ_OK && (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        st = rq_consume_queue_flush(queue, least_pages, err);
    }
    return st;
}

static rmq_status flush_all(struct rq_store *store, bool list, rmq_error **err)
{
    rq_mutex_lock(&store->flusher.sync);
    int64_t time = dispatched_time(store);
    rmq_status st = sync_log(store, err);
    if (st == RMQ_OK) {
        st = sync_queues(store, 0, err);
    }
    if (st == RMQ_OK) {
        rq_checkpoint_raise(&store->checkpoint, &store->checkpoint.queue_time, time);
        st = rq_index_flush(&store->index, err);
    }
    if (st == RMQ_OK) {
        rq_checkpoint_raise(&store->checkpoint, &store->checkpoint.index_time, time);
        st = rq_checkpoint_flush(&store->checkpoint, err);
    }
    if (st == RMQ_OK && list) {
        st = rq_contents_write(store, err);
    }
    rq_mutex_unlock(&store->flusher.sync);
    return st;
}

rmq_status rq_store_flush_all(struct rq_store *store, rmq_error **err)
{
    return flush_all(store, false, err);
}

rmq_status rq_store_flush(struct rq_store *store, rmq_error **err)
{
    rmq_status st = rq_store_flush_all(store, err);
    rq_flusher_complete(&store->flusher, store, st != RMQ_OK);
    return st;
}

/* ---- the thread ---- */

static void log_failure(const char *what, rmq_status st, rmq_error *err)
{
    if (st != RMQ_OK) {
        RQ_LOG(ERROR, what, "reason=%s", err ? rmq_error_message(err) : rmq_status_text(st));
    }
    rmq_error_destroy(err);
}

static bool log_flush_due(struct rq_store *store, int64_t now)
{
    int64_t waiting = rq_commit_log_max(&store->log) - rq_commit_log_flushed(&store->log);
    if (waiting <= 0 && !failing_now(store)) {
        return false;
    }
    int64_t least = (int64_t)store->options.flush_commit_log_least_pages * RQ_STORE_PAGE;
    return waiting >= least || now >= store->flusher.log_thorough_ms || failing_now(store);
}

static void flush_log(struct rq_store *store, bool asked, int64_t now)
{
    struct rq_flusher *flusher = &store->flusher;
    bool due = now >= flusher->log_due_ms;
    if (!asked && !(due && log_flush_due(store, now))) {
        flusher->log_due_ms =
            due ? now + store->options.flush_interval_commit_log_ms : flusher->log_due_ms;
        return;
    }
    rq_mutex_lock(&flusher->sync);
    rmq_status st = sync_log(store, NULL);
    rq_mutex_unlock(&flusher->sync);
    now = rq_mono_ms();
    flusher->log_due_ms =
        now + (st == RMQ_OK ? store->options.flush_interval_commit_log_ms : RETRY_MS);
    flusher->log_thorough_ms = now + store->options.flush_commit_log_thorough_interval_ms;
    rq_flusher_complete(flusher, store, st != RMQ_OK);
    /* What is on disk now may be shown; and what failed before is tried again. */
    rq_store_dispatch(store);
}

static bool log_file_changed(struct rq_store *store)
{
    int64_t file = rq_commit_log_max(&store->log) / store->options.mapped_file_size_commit_log;
    bool changed = file != store->flusher.log_file;
    store->flusher.log_file = file;
    return changed;
}

/* Whether it was due. */
static bool flush_queues(struct rq_store *store, int64_t now)
{
    struct rq_flusher *flusher = &store->flusher;
    if (now < flusher->queue_due_ms) {
        return false;
    }
    flusher->queue_due_ms = now + store->options.flush_interval_consume_queue_ms;
    rmq_error *err = NULL;
    rmq_status st;
    if (now >= flusher->queue_thorough_ms || log_file_changed(store)) {
        flusher->queue_thorough_ms = now + store->options.flush_consume_queue_thorough_interval_ms;
        st = flush_all(store, true, &err);
    } else {
        rq_mutex_lock(&flusher->sync);
        st = sync_queues(store, store->options.flush_consume_queue_least_pages, &err);
        if (st == RMQ_OK) {
            st = rq_checkpoint_flush(&store->checkpoint, &err);
        }
        rq_mutex_unlock(&flusher->sync);
    }
    log_failure("flush of queues and checkpoint failed", st, err);
    if (atomic_load_explicit(&store->health, memory_order_relaxed) & RQ_HEALTH_DISPATCH) {
        rq_store_dispatch(store);
    }
    return true;
}

static int64_t next_due(struct rq_flusher *flusher)
{
    int64_t due =
        flusher->log_due_ms < flusher->queue_due_ms ? flusher->log_due_ms : flusher->queue_due_ms;
    due = flusher->clean_due_ms < due ? flusher->clean_due_ms : due;
    due = flusher->commit_due_ms < due ? flusher->commit_due_ms : due;
    int64_t soon = rq_mono_ms() + TIME_OUT_STEP_MS;
    return flusher->waiters && soon < due ? soon : due;
}

/* Who was answered by the last sync mostly sends again at once. When a sync takes longer than that,
 * it pays to let them come and to serve them together with those who came during the sync, instead
 * of half of them each time. With few of them in time the next syncs do not wait. */
static void gather_locked(struct rq_flusher *flusher)
{
    if (flusher->not_gathered > 0) {
        flusher->not_gathered--;
        return;
    }
    int64_t patience = flusher->sync_us / 2 < GATHER_MAX_US ? flusher->sync_us / 2 : GATHER_MAX_US;
    int64_t deadline_us = rq_mono_us() + patience;
    bool in_time = true;
    flusher->gathered = flusher->expected - flusher->expected / 8;
    while (in_time && !flusher->stop && flusher->waiting > 0 &&
           flusher->waiting < flusher->gathered) {
        in_time = rq_cond_wait_until_us(&flusher->work, &flusher->lock, deadline_us);
    }
    flusher->gathered = 0;
    flusher->not_gathered = in_time ? 0 : NOT_GATHERED;
}

/* Waits for work; whether a sync was asked for. */
static bool wait_for_work(struct rq_store *store, bool *stop)
{
    struct rq_flusher *flusher = &store->flusher;
    rq_mutex_lock(&flusher->lock);
    if (!flusher->wake && !flusher->stop) {
        rq_cond_wait_until(&flusher->work, &flusher->lock, next_due(flusher));
    }
    bool asked = flusher->wake && !failing_now(store);
    if (asked) {
        gather_locked(flusher);
    }
    flusher->wake = false;
    *stop = flusher->stop;
    rq_mutex_unlock(&flusher->lock);
    return asked;
}

/* Takes the wish for a sync, if there is one. */
static bool asked_meanwhile(struct rq_store *store)
{
    struct rq_flusher *flusher = &store->flusher;
    rq_mutex_lock(&flusher->lock);
    bool asked = flusher->wake && !failing_now(store);
    flusher->wake = flusher->wake && !asked;
    rq_mutex_unlock(&flusher->lock);
    return asked;
}

/* A full disk is watched more closely, so that sending goes on soon after it has room. */
static int64_t clean_interval(struct rq_store *store)
{
    int64_t interval = store->options.clean_resource_interval_ms;
    bool full = atomic_load_explicit(&store->health, memory_order_relaxed) & RQ_HEALTH_DISK;
    return full && interval > RETRY_MS ? RETRY_MS : interval;
}

static void commit_buffers(struct rq_store *store, int64_t now)
{
    if (now >= store->flusher.commit_due_ms) {
        store->flusher.commit_due_ms = now + store->options.commit_interval_commit_log_ms;
        rq_commit_log_commit_due(&store->log);
        rq_store_dispatch(store);
    }
}

/* One file at a time, so that nothing waits for the deletion of many. */
static void clean(struct rq_store *store, int64_t now)
{
    struct rq_flusher *flusher = &store->flusher;
    if (now < flusher->clean_due_ms) {
        return;
    }
    if (flusher->clean_left == 0) {
        flusher->clean_left = store->options.delete_file_batch_max;
    }
    flusher->clean_left = rq_store_clean_some(store, false, 1) > 0 ? flusher->clean_left - 1 : 0;
    flusher->clean_due_ms =
        now + (flusher->clean_left > 0 ? store->options.delete_commit_log_files_interval_ms
                                       : clean_interval(store));
}

static void flusher_run(void *arg)
{
    struct rq_store *store = arg;
    struct rq_flusher *flusher = &store->flusher;
    bool stop = false;
    while (!stop) {
        bool asked = wait_for_work(store, &stop);
        int64_t now = rq_mono_ms();
        commit_buffers(store, now);
        flush_log(store, asked, now);
        if (flush_queues(store, now) && asked_meanwhile(store)) {
            /* Who came meanwhile may be past his deadline, and has had no sync yet. */
            flush_log(store, true, rq_mono_ms());
        } else {
            rq_flusher_complete(flusher, store, failing_now(store));
        }
        clean(store, now);
    }
}

rmq_status rq_flusher_start(struct rq_flusher *flusher, struct rq_store *store, rmq_error **err)
{
    int64_t now = rq_mono_ms();
    flusher->log_due_ms = now + store->options.flush_interval_commit_log_ms;
    flusher->log_thorough_ms = now + store->options.flush_commit_log_thorough_interval_ms;
    flusher->queue_due_ms = now + store->options.flush_interval_consume_queue_ms;
    flusher->queue_thorough_ms = now + store->options.flush_consume_queue_thorough_interval_ms;
    flusher->clean_due_ms = now + store->options.clean_resource_interval_ms;
    flusher->commit_due_ms =
        store->log.buffers.on ? now + store->options.commit_interval_commit_log_ms : RQ_FOREVER;
    log_file_changed(store);
    rmq_status st = rq_thread_start(&flusher->thread, "rq-store-flush", flusher_run, store);
    return st == RMQ_OK ? st : rq_error_set(err, st, "start the flush thread");
}

void rq_flusher_stop(struct rq_flusher *flusher)
{
    rq_mutex_lock(&flusher->lock);
    flusher->stop = true;
    rq_cond_signal(&flusher->work);
    rq_mutex_unlock(&flusher->lock);
    rq_thread_join(&flusher->thread);
}

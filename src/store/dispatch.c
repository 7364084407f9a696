/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Dispatch of records to consume queues and index. Runs on the thread that appended, or on the
 * flusher's. */
#include "store/dispatch.h"

#include <stdio.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/log.h"
#include "store/store_priv.h"

#define BATCH_RECORDS    1024 /* after so many the listener is told, whatever follows */
#define UNKNOWN_LEVEL_MS 1000

void rq_dispatcher_init(struct rq_dispatcher *dispatcher)
{
    *dispatcher = (struct rq_dispatcher){0};
    rq_mutex_init(&dispatcher->role);
}

void rq_dispatcher_free(struct rq_dispatcher *dispatcher)
{
    rq_log_reader_done(&dispatcher->reader);
    rq_mutex_destroy(&dispatcher->role);
}

/* Counts from the store time; that stays ahead of a clock that was set back: then from now on, for
 * what is due later than its level allows is delivered at once. */
static int64_t delivery_time(const struct rq_store *store, const struct rq_record *record,
                             struct rq_slice level_text)
{
    int32_t level;
    if (!rq_slice_to_i32(level_text, &level) || level <= 0) {
        return 0;
    }
    level = level > store->delay_levels ? store->delay_levels : level;
    int64_t delay = level > 0 ? store->delays_ms[level - 1] : UNKNOWN_LEVEL_MS;
    int64_t now = rq_disk_now_ms(store->log.disk);
    int64_t from = record->store_timestamp < now ? record->store_timestamp : now;
    return from < INT64_MAX - delay ? from + delay : INT64_MAX;
}

static int64_t tags_code(const struct rq_store *store, const struct rq_consume_queue *queue,
                         const struct rq_record *record,
                         const struct rq_record_properties *properties)
{
    if (queue->delivery_times && properties->delay.n > 0) {
        int64_t at = delivery_time(store, record, properties->delay);
        if (at > 0) {
            return at;
        }
    }
    return properties->tags.n > 0 ? rq_java_hash(properties->tags) : 0;
}

static void touch(struct rq_dispatcher *dispatcher, struct rq_consume_queue *queue, int64_t code)
{
    if (!queue->touched) {
        queue->touched = true;
        queue->codes_all = false;
        queue->code_count = 0;
        queue->next_touched = dispatcher->touched;
        dispatcher->touched = queue;
    }
    for (size_t i = 0; i < queue->code_count; i++) {
        if (queue->codes[i] == code) {
            return;
        }
    }
    if (queue->code_count < RQ_CQ_CODES_MAX) {
        queue->codes[queue->code_count++] = code;
    } else {
        queue->codes_all = true;
    }
}

static rmq_status queue_of(struct rq_store *store, const struct rq_record *record,
                           struct rq_consume_queue **out)
{
    struct rq_consume_queue *queue = store->dispatcher.last_queue;
    rmq_status st = RMQ_OK;
    if (!queue || queue->queue_id != record->queue_id ||
        !rq_slice_eq(queue->topic, record->topic)) {
        st = rq_queue_table_get(&store->queues, record->topic, record->queue_id, &queue);
        if (st == RMQ_OK) {
            rq_consume_queue_release(queue); /* whoever has the role keeps it from going */
            store->dispatcher.last_queue = queue;
        }
    }
    *out = queue;
    return st;
}

static rmq_status put_queue_entry(struct rq_store *store, const struct rq_record *record,
                                  const struct rq_record_properties *properties, rmq_error **err)
{
    int32_t kind = record->sys_flag & RQ_SYS_TRANSACTION_MASK;
    if (kind == RQ_SYS_TRANSACTION_PREPARED || kind == RQ_SYS_TRANSACTION_ROLLBACK) {
        return RMQ_OK;
    }
    struct rq_consume_queue *queue;
    rmq_status st = queue_of(store, record, &queue);
    if (st == RMQ_OK) {
        struct rq_store_entry entry = {.commit_log_offset = record->commit_log_offset,
                                       .size = (int32_t)record->size,
                                       .tags_code = tags_code(store, queue, record, properties)};
        st = rq_consume_queue_put(queue, record->queue_offset, &entry, err);
        if (st == RMQ_OK) {
            touch(&store->dispatcher, queue, entry.tags_code);
        }
    }
    if (st == RMQ_ERR_CORRUPT || st == RMQ_ERR_INVALID) {
        RQ_LOG(ERROR, "message without queue entry", "offset=%lld topic=%.*s queue=%d number=%lld",
               (long long)record->commit_log_offset, (int)record->topic.n, record->topic.p,
               record->queue_id, (long long)record->queue_offset);
        if (err) {
            rmq_error_destroy(*err);
            *err = NULL;
        }
        return RMQ_OK;
    }
    return st;
}

rmq_status rq_dispatch_record(struct rq_store *store, const struct rq_record *record,
                              rmq_error **err)
{
    struct rq_record_properties properties;
    rq_record_properties(record->properties, &properties);
    rmq_status st = put_queue_entry(store, record, &properties, err);
    if (st == RMQ_OK && store->options.message_index_enable) {
        st = rq_index_put(&store->index, record, &properties, err);
    }
    if (st == RMQ_OK) {
        atomic_store_explicit(&store->dispatcher.last_time, record->store_timestamp,
                              memory_order_release);
    }
    return st;
}

/* ---- running ---- */

static void tell_listener(struct rq_dispatcher *dispatcher)
{
    struct rq_consume_queue *queue = dispatcher->touched;
    dispatcher->touched = NULL;
    while (queue) {
        struct rq_consume_queue *next = queue->next_touched;
        queue->touched = false;
        if (dispatcher->arrived) {
            struct rq_store_arrival arrival = {.topic = queue->topic,
                                               .queue_id = queue->queue_id,
                                               .max_offset = rq_consume_queue_max(queue),
                                               .tags_codes = queue->codes,
                                               .tags_count = queue->code_count,
                                               .tags_all = queue->codes_all};
            dispatcher->arrived(&arrival, dispatcher->user);
        }
        queue = next;
    }
}

static void note_failure(struct rq_store *store, rmq_status st, const rmq_error *err)
{
    struct rq_dispatcher *dispatcher = &store->dispatcher;
    bool failing = st != RMQ_OK;
    const char *why = err ? rmq_error_message(err) : rmq_status_text(st);
    if (failing) {
        rq_mutex_lock(&store->flusher.lock);
        snprintf(store->flusher.dispatch_failure, sizeof store->flusher.dispatch_failure, "%s%s",
                 st == RMQ_ERR_DISK_FULL ? "disk full: " : "", why);
        rq_mutex_unlock(&store->flusher.lock);
    }
    if (failing != dispatcher->failing) {
        dispatcher->failing = failing;
        rq_store_set_health(store, RQ_HEALTH_DISPATCH, failing);
        if (failing) {
            RQ_LOG(ERROR, "queue entries cannot be written", "reason=%s", why);
        } else {
            RQ_LOG(WARN, "queue entries can be written again", "%s", "");
        }
    }
}

/* The record at offset: its entries, and where the next one begins. A negative result is a failure
 * to try again. */
static int64_t step(struct rq_store *store, int64_t offset, int64_t end, rmq_error **err)
{
    struct rq_record record;
    size_t left = 0;
    const char *p = rq_log_reader_at(&store->dispatcher.reader, &store->log, offset, end, &left);
    if (!p) {
        int64_t min = rq_commit_log_min(&store->log); /* deleted before it was dispatched */
        return min > offset ? min : end;
    }
    enum rq_record_kind kind = rq_record_read(p, left, false, &record);
    if (kind == RQ_RECORD_GOOD) {
        return rq_dispatch_record(store, &record, err) == RMQ_OK ? offset + record.size : -1;
    }
    if (kind == RQ_RECORD_BAD) {
        RQ_LOG(ERROR, "damaged record, the rest of its file is passed over", "offset=%lld",
               (long long)offset);
    }
    const struct rq_mapped_file *file = store->dispatcher.reader.file;
    return file->start + (int64_t)file->size;
}

static int64_t limit_of(struct rq_store *store)
{
    struct rq_dispatcher *dispatcher = &store->dispatcher;
    if (atomic_load_explicit(&dispatcher->paused, memory_order_relaxed)) {
        return atomic_load_explicit(&dispatcher->done, memory_order_relaxed);
    }
    return rq_store_visible_end(store);
}

/* One batch; false when there is nothing more to do. */
static bool run_batch(struct rq_store *store)
{
    struct rq_dispatcher *dispatcher = &store->dispatcher;
    int64_t done = atomic_load_explicit(&dispatcher->done, memory_order_relaxed);
    int64_t end = limit_of(store);
    rmq_error *err = NULL;
    int64_t next = done;
    int records = 0;
    for (; done < end && records < BATCH_RECORDS; records++) {
        next = step(store, done, end, &err);
        if (next < 0) {
            break;
        }
        done = next;
    }
    if (next < 0) {
        note_failure(store, err ? rmq_error_status(err) : RMQ_ERR_IO, err);
    } else if (records > 0) {
        note_failure(store, RMQ_OK, NULL);
    }
    rmq_error_destroy(err);
    atomic_store_explicit(&dispatcher->done, done, memory_order_release);
    tell_listener(dispatcher);
    return next >= 0 && records > 0;
}

void rq_dispatch_run_locked(struct rq_store *store)
{
    while (run_batch(store)) {
    }
}

static void run_while_pending(struct rq_store *store)
{
    struct rq_dispatcher *dispatcher = &store->dispatcher;
    while (atomic_load_explicit(&dispatcher->pending, memory_order_seq_cst) &&
           rq_mutex_trylock(&dispatcher->role)) {
        atomic_store_explicit(&dispatcher->pending, false, memory_order_seq_cst);
        rq_dispatch_run_locked(store);
        rq_mutex_unlock(&dispatcher->role);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

void rq_store_dispatch(struct rq_store *store)
{
    if (store->options.flush_disk_type == RQ_FLUSH_SYNC) {
        rq_flusher_wake(&store->flusher, store, 0);
    } else if (!store->options.flush_commit_log_timed) {
        rq_flusher_wake(&store->flusher, store, store->options.flush_commit_log_least_pages);
    }
    if (store->options.wake_commit_when_put_message) {
        rq_commit_log_commit_due(&store->log);
    }
    atomic_store_explicit(&store->dispatcher.pending, true, memory_order_seq_cst);
    run_while_pending(store);
}

void rq_dispatch_hold(struct rq_store *store)
{
    rq_mutex_lock(&store->dispatcher.role);
}

void rq_dispatch_let_go(struct rq_store *store)
{
    rq_mutex_unlock(&store->dispatcher.role);
    atomic_thread_fence(memory_order_seq_cst);
    run_while_pending(store);
}

bool rq_store_dispatch_all(struct rq_store *store)
{
    struct rq_dispatcher *dispatcher = &store->dispatcher;
    int64_t end = rq_commit_log_max(&store->log);
    rq_commit_log_commit(&store->log);
    if (atomic_load_explicit(&dispatcher->done, memory_order_acquire) < end) {
        rq_dispatch_hold(store);
        rq_dispatch_run_locked(store);
        rq_dispatch_let_go(store);
    }
    return atomic_load_explicit(&dispatcher->done, memory_order_acquire) >= end;
}

void rq_store_pause_dispatch(struct rq_store *store, bool paused)
{
    atomic_store_explicit(&store->dispatcher.paused, paused, memory_order_relaxed);
    rq_store_dispatch(store);
}

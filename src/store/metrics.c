/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Histograms, and the answer to rq_store_metrics. Any thread. */
#include "store/metrics.h"

#include <string.h>

#include "store/store_priv.h"

void rq_histogram_add(struct rq_histogram *histogram, int64_t value)
{
    size_t i = 0;
    uint64_t n = value > 0 ? (uint64_t)value : 0;
    while (i + 1 < RQ_STORE_BUCKETS && n >> i > 0) {
        i++;
    }
    atomic_fetch_add_explicit(&histogram->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, n, memory_order_relaxed);
}

void rq_histogram_read(const struct rq_histogram *histogram, struct rq_store_histogram *out)
{
    out->count = 0;
    for (size_t i = 0; i < RQ_STORE_BUCKETS; i++) {
        out->buckets[i] = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        out->count += out->buckets[i];
    }
    out->sum = atomic_load_explicit(&histogram->sum, memory_order_relaxed);
}

static void count_files(struct rq_mapped_file_queue *files, struct rq_store_metrics *out)
{
    rq_mutex_lock(&files->lock);
    out->mapped_files += (int64_t)files->count;
    out->mapped_bytes += (int64_t)(files->count * files->file_size);
    rq_mutex_unlock(&files->lock);
}

static void count_queues(struct rq_store *store, struct rq_store_metrics *out)
{
    struct rq_consume_queue *queue;
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        out->queues++;
        count_files(&queue->files, out);
    }
}

void rq_store_metrics(struct rq_store *store, struct rq_store_metrics *out)
{
    memset(out, 0, sizeof *out);
    rq_store_info(store, &out->info);
    int64_t dispatched = atomic_load_explicit(&store->dispatcher.last_time, memory_order_acquire);
    rq_mutex_lock(&store->log.lock);
    int64_t last = store->log.last_timestamp;
    rq_mutex_unlock(&store->log.lock);
    bool lags = out->info.max_commit_log_offset > out->info.dispatched_commit_log_offset;
    out->dispatch_lag_bytes =
        lags ? out->info.max_commit_log_offset - out->info.dispatched_commit_log_offset : 0;
    out->dispatch_lag_ms = lags && dispatched > 0 && last > dispatched ? last - dispatched : 0;
    int64_t dirty = out->info.max_commit_log_offset - out->info.flushed_commit_log_offset;
    out->dirty_pages = dirty > 0 ? (dirty + RQ_STORE_PAGE - 1) / RQ_STORE_PAGE : 0;
    out->append_step = RQ_METRICS_APPEND_STEP;
    rq_histogram_read(&store->metrics.append_us, &out->append_us);
    rq_histogram_read(&store->metrics.flush_us, &out->flush_us);
    rq_histogram_read(&store->metrics.flush_messages, &out->flush_messages);
    out->flush_bytes = atomic_load_explicit(&store->metrics.flush_bytes, memory_order_relaxed);
    out->flush_failures =
        atomic_load_explicit(&store->metrics.flush_failures, memory_order_relaxed);
    count_files(&store->log.files, out);
    count_queues(store, out);
    rq_mutex_lock(&store->index.lock);
    out->mapped_files += (int64_t)store->index.count;
    out->mapped_bytes += (int64_t)(store->index.count * store->index.file_size);
    rq_mutex_unlock(&store->index.lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Figures of the store for programs. Any thread. */
#include <string.h>

#include <rmq/broker.h>

#include "broker/broker.h"

_Static_assert(RMQ_BROKER_BUCKETS == RQ_STORE_BUCKETS, "histograms are copied");
_Static_assert(sizeof(rmq_broker_histogram) == sizeof(struct rq_store_histogram),
               "histograms are copied");

static void copy(rmq_broker_histogram *out, const struct rq_store_histogram *in)
{
    memcpy(out, in, sizeof *out);
}

void rmq_broker_get_store_metrics(const rmq_broker *broker, rmq_broker_store_metrics *out,
                                  size_t size)
{
    struct rq_store_metrics now;
    if (!out || rq_broker_check(broker, NULL)) {
        return;
    }
    rq_store_metrics(broker->store, &now);
    rmq_broker_store_metrics all = {
        .commit_log_min_offset = now.info.min_commit_log_offset,
        .commit_log_max_offset = now.info.max_commit_log_offset,
        .commit_log_flushed_offset = now.info.flushed_commit_log_offset,
        .commit_log_dispatched_offset = now.info.dispatched_commit_log_offset,
        .dispatch_lag_bytes = now.dispatch_lag_bytes,
        .dispatch_lag_ms = now.dispatch_lag_ms,
        .commit_log_dirty_pages = now.dirty_pages,
        .consume_queues = now.queues,
        .mapped_files = now.mapped_files,
        .mapped_bytes = now.mapped_bytes,
        .put_messages = now.info.put_messages,
        .put_bytes = now.info.put_bytes,
        .get_messages = now.info.get_messages,
        .get_bytes = now.info.get_bytes,
        .flush_bytes = now.flush_bytes,
        .flush_failures = now.flush_failures,
        .disk_used_ratio = now.info.disk_used_ratio,
        .writable = now.info.writable,
        .append_step = now.append_step,
    };
    copy(&all.append_us, &now.append_us);
    copy(&all.flush_us, &now.flush_us);
    copy(&all.flush_messages, &now.flush_messages);
    memset(out, 0, size);
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
}

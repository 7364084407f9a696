/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Figures of a running store that are more than counters: how long appends and flushes took, how
 * much a flush wrote. Counting is relaxed atomics; one append of RQ_METRICS_APPEND_STEP is
 * measured, since two looks at the clock cost a tenth of an append. Counterpart: StoreStatsService.
 */
#ifndef RQ_STORE_METRICS_H
#define RQ_STORE_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

#define RQ_METRICS_APPEND_STEP 8

/* Counts by powers of two: bucket i has the values below 2^i, the last one all others. */
struct rq_histogram {
    /* atomic: relaxed counters */
    atomic_ullong buckets[RQ_STORE_BUCKETS];
    atomic_ullong sum;
};

struct rq_metrics {
    struct rq_histogram append_us;
    struct rq_histogram flush_us;
    struct rq_histogram flush_messages; /* messages of one sync */
    /* atomic: relaxed counters */
    atomic_ullong flush_bytes;
    atomic_ullong flush_failures;
    /* owned by the flusher: messages on disk */
    uint64_t flushed_messages;
};

void rq_histogram_add(struct rq_histogram *histogram, int64_t value);
void rq_histogram_read(const struct rq_histogram *histogram, struct rq_store_histogram *out);

#endif

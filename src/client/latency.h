/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Histogram of answer times, fixed buckets: what the statistics of a client show of each broker.
 * Written by any thread, read by any; a reader sees each bucket right and all of them nearly of the
 * same moment.
 */
#ifndef RQ_CLIENT_LATENCY_H
#define RQ_CLIENT_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"

/* 100 µs … 5 s in steps of 1, 2, 5; the last one is everything above */
#define RQ_LATENCY_BUCKETS 17

struct rq_latency {
    atomic_uint_fast64_t buckets[RQ_LATENCY_BUCKETS]; /* atomic: relaxed */
    atomic_uint_fast64_t sum_us;                      /* atomic: relaxed */
};

void rq_latency_add(struct rq_latency *latency, int64_t us);

/* Upper bound of the bucket in which the n-th of hundred parts lies, in µs; 0 without answers,
 * INT64_MAX in the last bucket. */
int64_t rq_latency_percentile(const struct rq_latency *latency, int percent);

/* Appends {"count":…,"sumUs":…,"p50Us":…,"p99Us":…,"leUs":[…],"counts":[…]}; the last count is
 * above all bounds. */
void rq_latency_write(const struct rq_latency *latency, struct rq_buf *out);

#endif

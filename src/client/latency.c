/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Histogram of answer times (see the header). */
#include "client/latency.h"

static const int64_t bounds_us[RQ_LATENCY_BUCKETS - 1] = {
    100,   200,    500,    1000,   2000,    5000,    10000,   20000,
    50000, 100000, 200000, 500000, 1000000, 2000000, 3000000, 5000000};

void rq_latency_add(struct rq_latency *latency, int64_t us)
{
    size_t i = 0;
    while (i < RQ_LATENCY_BUCKETS - 1 && us > bounds_us[i]) {
        i++;
    }
    atomic_fetch_add_explicit(&latency->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&latency->sum_us, us > 0 ? (uint_fast64_t)us : 0,
                              memory_order_relaxed);
}

static uint64_t count_of(const struct rq_latency *latency)
{
    uint64_t count = 0;
    for (size_t i = 0; i < RQ_LATENCY_BUCKETS; i++) {
        count += atomic_load_explicit(&latency->buckets[i], memory_order_relaxed);
    }
    return count;
}

int64_t rq_latency_percentile(const struct rq_latency *latency, int percent)
{
    uint64_t total = count_of(latency);
    uint64_t wanted = (total * (uint64_t)percent + 99) / 100;
    uint64_t seen = 0;
    for (size_t i = 0; total > 0 && i < RQ_LATENCY_BUCKETS - 1; i++) {
        seen += atomic_load_explicit(&latency->buckets[i], memory_order_relaxed);
        if (seen >= wanted) {
            return bounds_us[i];
        }
    }
    return total > 0 ? INT64_MAX : 0;
}

/* A value in the last bucket has no bound: null. */
static void write_percentile(const struct rq_latency *latency, const char *name, int percent,
                             struct rq_buf *out)
{
    int64_t us = rq_latency_percentile(latency, percent);
    if (us == INT64_MAX) {
        rq_buf_addf(out, ",\"%s\":null", name);
    } else {
        rq_buf_addf(out, ",\"%s\":%lld", name, (long long)us);
    }
}

void rq_latency_write(const struct rq_latency *latency, struct rq_buf *out)
{
    rq_buf_addf(out, "{\"count\":%llu,\"sumUs\":%llu", (unsigned long long)count_of(latency),
                (unsigned long long)atomic_load_explicit(&latency->sum_us, memory_order_relaxed));
    write_percentile(latency, "p50Us", 50, out);
    write_percentile(latency, "p99Us", 99, out);
    rq_buf_add_str(out, ",\"leUs\":[");
    for (size_t i = 0; i < RQ_LATENCY_BUCKETS - 1; i++) {
        rq_buf_addf(out, "%s%lld", i ? "," : "", (long long)bounds_us[i]);
    }
    rq_buf_add_str(out, "],\"counts\":[");
    for (size_t i = 0; i < RQ_LATENCY_BUCKETS; i++) {
        rq_buf_addf(
            out, "%s%llu", i ? "," : "",
            (unsigned long long)atomic_load_explicit(&latency->buckets[i], memory_order_relaxed));
    }
    rq_buf_add_str(out, "]}");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What `rmq bench produce` and `rmq bench consume` share: a histogram of times, the begin of a
 * measurement, the report, progress.
 */
#ifndef RQ_TOOLS_BENCH_H
#define RQ_TOOLS_BENCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/tool.h"

/* Times in µs in buckets that are at most 1/32 wide: below 64 exact, then 32 for each power of two.
 * Belongs to one thread. */
#define BENCH_BUCKETS 1024
struct bench_times {
    uint64_t buckets[BENCH_BUCKETS];
    uint64_t count;
};

void bench_add(struct bench_times *times, int64_t us);
void bench_merge(struct bench_times *into, const struct bench_times *from);

struct bench_moment {
    int64_t wall_us;
    int64_t cpu_us; /* user and system time of this process */
};
struct bench_moment bench_now(void);

struct bench_report {
    const char *what;
    int64_t count, size, errors;
    struct bench_moment begin, end;
    const struct bench_times *times;
};
void bench_print(const struct bench_report *report, bool json);

/* A line on the terminal that says how far it is, made by a thread of its own; none when standard
 * error is no terminal. */
struct bench_progress {
    pthread_t thread;
    bool running;
    atomic_bool stop;   /* atomic: relaxed, only ends the loop */
    atomic_llong *done; /* atomic: relaxed, counted by whoever works */
    int64_t total;
};
void bench_progress_start(struct bench_progress *progress, atomic_llong *done, int64_t total);
void bench_progress_stop(struct bench_progress *progress);

#endif

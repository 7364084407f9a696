/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq bench`: choice of the benchmark, and what both have in common. See bench.h.
 */
#include "tools/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tools/text.h"

#define EXACT     64 /* times below are their own bucket */
#define PER_POWER 32

static size_t bucket_of(int64_t us)
{
    if (us < EXACT) {
        return us > 0 ? (size_t)us : 0;
    }
    unsigned power = 63U - (unsigned)__builtin_clzll((unsigned long long)us); /* at least 6 */
    size_t within = (size_t)((us >> (power - 5)) & (PER_POWER - 1));
    size_t bucket = EXACT + (power - 6) * PER_POWER + within;
    return bucket < BENCH_BUCKETS ? bucket : BENCH_BUCKETS - 1;
}

static int64_t bucket_value(size_t bucket)
{
    if (bucket < EXACT) {
        return (int64_t)bucket;
    }
    size_t power = (bucket - EXACT) / PER_POWER + 6;
    size_t within = (bucket - EXACT) % PER_POWER;
    return (int64_t)((uint64_t)(PER_POWER + within) << (power - 5));
}

void bench_add(struct bench_times *times, int64_t us)
{
    times->buckets[bucket_of(us)]++;
    times->count++;
}

void bench_merge(struct bench_times *into, const struct bench_times *from)
{
    for (size_t i = 0; i < BENCH_BUCKETS; i++) {
        into->buckets[i] += from->buckets[i];
    }
    into->count += from->count;
}

static int64_t quantile(const struct bench_times *times, double q)
{
    if (times->count == 0) {
        return 0;
    }
    uint64_t rank = (uint64_t)(q * (double)(times->count - 1));
    uint64_t seen = 0;
    for (size_t i = 0; i < BENCH_BUCKETS; i++) {
        seen += times->buckets[i];
        if (seen > rank) {
            return bucket_value(i);
        }
    }
    return bucket_value(BENCH_BUCKETS - 1);
}

static int64_t in_us(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

struct bench_moment bench_now(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (struct bench_moment){.wall_us = tool_now_us(),
                                 .cpu_us = in_us(usage.ru_utime) + in_us(usage.ru_stime)};
}

void bench_print(const struct bench_report *report, bool json)
{
    struct rusage usage = {0};
    struct tool_text line = {0};
    double wall = (double)(report->end.wall_us - report->begin.wall_us) / 1e6;
    double cpu = (double)(report->end.cpu_us - report->begin.cpu_us) / (double)report->count;
    double rate = wall > 0 ? (double)report->count / wall : 0;
    int64_t p50 = quantile(report->times, 0.5);
    int64_t p99 = quantile(report->times, 0.99);
    int64_t p999 = quantile(report->times, 0.999);
    getrusage(RUSAGE_SELF, &usage);
    if (json) {
        tool_json_open(&line);
        tool_json_text(&line, "what", report->what);
        tool_json_number(&line, "count", report->count);
        tool_json_number(&line, "size", report->size);
        tool_json_real(&line, "wall_s", wall, 4);
        tool_json_real(&line, "msgs_per_s", rate, 0);
        tool_json_real(&line, "cpu_us_per_msg", cpu, 3);
        tool_json_number(&line, "max_rss_kb", usage.ru_maxrss);
        tool_json_number(&line, "errors", report->errors);
        tool_json_number(&line, "p50_us", p50);
        tool_json_number(&line, "p99_us", p99);
        tool_json_number(&line, "p999_us", p999);
        tool_json_close(&line);
    } else {
        tool_text_format(&line, "%s: %" PRId64 " messages of %" PRId64 " bytes in %.2f s\n",
                         report->what, report->count, report->size, wall);
        tool_text_format(
            &line, "    %.0f messages/s, %.2f µs CPU a message of this process, %ld KiB at most\n",
            rate, cpu, usage.ru_maxrss);
        if (report->times->count > 0) {
            tool_text_format(&line,
                             "    time of a send: p50 %" PRId64 " µs, p99 %" PRId64
                             " µs, p99.9 %" PRId64 " µs\n",
                             p50, p99, p999);
        }
        tool_text_format(&line, "    %" PRId64 " errors", report->errors);
    }
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

static void *show_progress(void *user)
{
    struct bench_progress *progress = user;
    struct timespec pause = {.tv_nsec = 500000000};
    long long before = 0;
    while (!atomic_load_explicit(&progress->stop, memory_order_relaxed)) {
        nanosleep(&pause, NULL);
        long long done = atomic_load_explicit(progress->done, memory_order_relaxed);
        fprintf(stderr, "\r%lld of %lld, %lld/s   ", done, (long long)progress->total,
                (done - before) * 2);
        before = done;
    }
    fputs("\r\033[K", stderr);
    return NULL;
}

void bench_progress_start(struct bench_progress *progress, atomic_llong *done, int64_t total)
{
    progress->done = done;
    progress->total = total;
    atomic_init(&progress->stop, false);
    progress->running = isatty(STDERR_FILENO) &&
                        pthread_create(&progress->thread, NULL, show_progress, progress) == 0;
}

void bench_progress_stop(struct bench_progress *progress)
{
    if (progress->running) {
        atomic_store_explicit(&progress->stop, true, memory_order_relaxed);
        pthread_join(progress->thread, NULL);
        progress->running = false;
    }
}

static const struct tool_command commands[] = {
    {"produce", "measures sending", tool_bench_produce},
    {"consume", "measures receiving", tool_bench_consume},
};

int tool_bench(int argc, char **argv)
{
    return tool_dispatch(
        "rmq bench",
        "Benchmarks: CPU time is that of this process alone; a warm-up is not counted.\n", commands,
        TOOL_COUNT(commands), argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The log. Level and sink are process-wide per library; a line is made on the caller's stack and
 * handed over whole. Reading the sink takes no lock on the way when the level is off.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

#define LINE_MAX_BYTES 1024

static atomic_int level_now = RMQ_LOG_WARN; /* atomic: relaxed, a filter only */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static rmq_log_fn sink_fn; /* guarded by sink_lock */
static void *sink_user;    /* guarded by sink_lock */

const char *rmq_log_level_name(rmq_log_level level)
{
    static const char *const names[] = {"OFF", "ERROR", "WARN", "INFO", "DEBUG"};
    return level >= RMQ_LOG_OFF && level <= RMQ_LOG_DEBUG ? names[level] : "UNKNOWN";
}

void rmq_log_set(rmq_log_level level, rmq_log_fn sink, void *user)
{
    pthread_mutex_lock(&sink_lock);
    sink_fn = sink;
    sink_user = user;
    pthread_mutex_unlock(&sink_lock);
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

bool rq_log_enabled(rmq_log_level level)
{
    return (int)level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

static void write_stderr(rmq_log_level level, const char *line)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    struct tm tm;
    localtime_r(&ts.tv_sec, &tm);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &tm);
    fprintf(stderr, "%s.%03ld %s librmq: %s\n", stamp, ts.tv_nsec / 1000000,
            rmq_log_level_name(level), line);
}

void rq_log_write(rmq_log_level level, const char *sentence, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    int n = snprintf(line, sizeof line, "%s", sentence);
    size_t at = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    if (fmt[0] && at + 1 < sizeof line) {
        line[at++] = ' ';
        va_list args;
        va_start(args, fmt);
        vsnprintf(line + at, sizeof line - at, fmt, args);
        va_end(args);
    }
    for (char *p = line; *p; p++) { /* a peer's text must not forge lines */
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = ' ';
        }
    }
    pthread_mutex_lock(&sink_lock);
    rmq_log_fn sink = sink_fn;
    void *user = sink_user;
    pthread_mutex_unlock(&sink_lock);
    if (sink) {
        sink(level, line, user);
    } else {
        write_stderr(level, line);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Clocks, by the vDSO. */
#include "base/time.h"

#include <time.h>

static int64_t clock_us(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t rq_mono_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t rq_thread_cpu_us(void)
{
    return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

int64_t rq_mono_ms(void)
{
    return clock_us(CLOCK_MONOTONIC) / 1000;
}

int64_t rq_wall_ms(void)
{
    return clock_us(CLOCK_REALTIME) / 1000;
}

int64_t rq_deadline_ms(int64_t timeout_ms)
{
    int64_t now = rq_mono_ms();
    /* a deadline has to fit in microseconds, too: those who wait count in them */
    if (timeout_ms < 0 || timeout_ms > INT64_MAX / 1000 - now) {
        return RQ_FOREVER;
    }
    return now + timeout_ms;
}

int64_t rq_left_ms(int64_t deadline_ms)
{
    int64_t left = deadline_ms - rq_mono_ms();
    return left > 1 ? left : 1;
}

int64_t rq_ms_between(int64_t then_ms, int64_t now_ms)
{
    int64_t ms;
    if (__builtin_sub_overflow(now_ms, then_ms, &ms)) {
        return then_ms < now_ms ? INT64_MAX : INT64_MIN;
    }
    return ms;
}

int64_t rq_timeout_ms(int64_t timeout_ms, int64_t otherwise_ms)
{
    if (timeout_ms <= 0) {
        return otherwise_ms;
    }
    return timeout_ms < RQ_TIMEOUT_MOST_MS ? timeout_ms : RQ_TIMEOUT_MOST_MS;
}

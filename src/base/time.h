/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Clocks. Time-outs use the monotonic clock; the wall clock is only for stamps that go on the wire
 * or to disk. */
#ifndef RQ_BASE_TIME_H
#define RQ_BASE_TIME_H

#include <stdint.h>

int64_t rq_mono_ms(void);
int64_t rq_mono_us(void);
int64_t rq_wall_ms(void);
int64_t rq_thread_cpu_us(void); /* processor time of the calling thread so far */

#define RQ_FOREVER INT64_MAX /* a deadline that never comes */

/* now + timeout_ms, RQ_FOREVER for a negative timeout, saturating. */
int64_t rq_deadline_ms(int64_t timeout_ms);

/* How long it is to a deadline: at least 1, since 0 means the default where times are given. */
int64_t rq_left_ms(int64_t deadline_ms);

/* From then to now, negative when then is later. Times of peers may be any number: what does not
 * fit is the largest or the least. */
int64_t rq_ms_between(int64_t then_ms, int64_t now_ms);

/* A time-out as a program gives it: otherwise_ms for 0 and less, and at most a day, so that sums of
 * it and of clocks stay in range. */
#define RQ_TIMEOUT_MOST_MS 86400000
int64_t rq_timeout_ms(int64_t timeout_ms, int64_t otherwise_ms);

#endif

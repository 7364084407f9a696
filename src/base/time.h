/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Clocks. Time-outs use the monotonic clock; the wall clock is only for stamps that go on the wire or to disk. */
#ifndef RQ_BASE_TIME_H
#define RQ_BASE_TIME_H

#include <stdint.h>

int64_t rq_mono_ms(void);
int64_t rq_mono_us(void);
int64_t rq_wall_ms(void);

#define RQ_FOREVER INT64_MAX /* a deadline that never comes */

/* now + timeout_ms, RQ_FOREVER for a negative timeout, saturating. */
int64_t rq_deadline_ms(int64_t timeout_ms);

#endif

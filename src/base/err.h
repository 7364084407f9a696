/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Making of rmq_error: described once, where the failure is found, and passed up untouched. */
#ifndef RQ_BASE_ERR_H
#define RQ_BASE_ERR_H

#include <stdbool.h>

#include <rmq/error.h>

/* Sets *err (ignored when err is NULL) and returns status, so that a caller can write return
 * rq_error_set(…). An error that *err held is freed first. retriable follows from the status
 * (time-outs, connection, busy, no route). */
rmq_status rq_error_set(rmq_error **err, rmq_status status, const char *fmt, ...) RMQ_PRINTF(3, 4);
#if defined(__clang_analyzer__) && !defined(RQ_BASE_ERR_INSIDE)
/* What an analyzer of one file must know: the status comes back. */
void rq_error_uses(const char *fmt, ...);
static inline rmq_status rq_error_returns(rmq_error **err, rmq_status status)
{
    (void)err;
    return status;
}
/* NOLINTNEXTLINE(readability-identifier-naming) */
#define rq_error_set(err, status, ...) (rq_error_uses(__VA_ARGS__), rq_error_returns(err, status))
#endif

/* An answer with an error code: message "<what>: broker <broker> answered <code> <remark>". */
rmq_status rq_error_set_remote(rmq_error **err, int code, const char *broker, const char *fmt, ...)
    RMQ_PRINTF(4, 5);

/* Refinements of an error that was just made; harmless for NULL and for the static out-of-memory
 * error. */
void rq_error_mark(rmq_error *err, bool retriable, bool maybe_stored);
void rq_error_set_broker(rmq_error *err, const char *broker);

rmq_error *rq_error_copy(const rmq_error *err);

#endif

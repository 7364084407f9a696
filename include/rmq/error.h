/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Error detail: the optional last out-parameter of functions that can fail. Passing NULL is
 * welcome. When a function fails and err is not NULL, *err is set to an error that the caller owns;
 * on success *err is left alone. Out of memory gives a static error, so *err is never NULL after a
 * failure. Errors are immutable: any thread may read one.
 */
#ifndef RMQ_ERROR_H
#define RMQ_ERROR_H

#include <stdbool.h>

#include <rmq/export.h>
#include <rmq/status.h>

typedef struct rmq_error rmq_error;

RMQ_BEGIN_DECLS

/* Status of the error; RMQ_OK for NULL. Since 0.1.0. */
RMQ_API rmq_status rmq_error_status(const rmq_error *err);

/* Response code of the broker or name server when one answered, else 0. Since 0.1.0. */
RMQ_API int rmq_error_remote_code(const rmq_error *err);

/* What happened, with numbers, addresses and the peer's own words. Borrowed until the error is
 * destroyed; "" for NULL, never NULL. Since 0.1.0. */
RMQ_API const char *rmq_error_message(const rmq_error *err);

/* Name or address of the broker or name server concerned, or "". Borrowed. Since 0.1.0. */
RMQ_API const char *rmq_error_broker(const rmq_error *err);

/* Whether calling again may succeed. Since 0.1.0. */
RMQ_API bool rmq_error_retriable(const rmq_error *err);

/* Whether the message may have been stored all the same: the request was sent and its answer is not
 * known, or the broker refused it and named its place in the log. Since 0.1.0. */
RMQ_API bool rmq_error_maybe_stored(const rmq_error *err);

/* Frees the error. NULL is accepted. Since 0.1.0. */
RMQ_API void rmq_error_destroy(rmq_error *err);

RMQ_END_DECLS

#endif

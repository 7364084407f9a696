/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Log: a level and a sink. The default sink writes warnings and errors to standard error. */
#ifndef RMQ_LOG_H
#define RMQ_LOG_H

#include <rmq/export.h>
#include <rmq/status.h>

typedef enum rmq_log_level {
    RMQ_LOG_OFF = 0,
    RMQ_LOG_ERROR = 1,
    RMQ_LOG_WARN = 2,
    RMQ_LOG_INFO = 3,
    RMQ_LOG_DEBUG = 4
} rmq_log_level;

/* A sink gets one finished line without a newline: a sentence, then key=value pairs. It may be
 * called from any thread, also from several at once, and must not call back into the library. line
 * is borrowed for the call. */
typedef void (*rmq_log_fn)(rmq_log_level level, const char *line, void *user);

RMQ_BEGIN_DECLS

/* Sets the process-wide sink and level of this library; NULL restores the default sink. user is
 * passed to the sink and must live until the sink is replaced. Any thread; lines that are being
 * written may still reach the old sink. Since 0.1.0. */
RMQ_API void rmq_log_set(rmq_log_level level, rmq_log_fn sink, void *user);

/* Name of a level, "WARN". Static, never NULL. Since 0.1.0. */
RMQ_API const char *rmq_log_level_name(rmq_log_level level);

RMQ_END_DECLS

#endif

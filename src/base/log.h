/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The log macro: the level is tested before arguments are evaluated. A sentence that stands, then
 * key=value pairs; never bodies or secrets; nothing per message above debug. A repeated failure is
 * logged when it starts and when it ends. */
#ifndef RQ_BASE_LOG_H
#define RQ_BASE_LOG_H

#include <stdbool.h>

#include <rmq/log.h>

bool rq_log_enabled(rmq_log_level level);
void rq_log_write(rmq_log_level level, const char *sentence, const char *fmt, ...) RMQ_PRINTF(3, 4);

/* RQ_LOG(WARN, "route refresh failed", "topic=%s code=%d", topic, code); fmt may be "". */
#define RQ_LOG(level, sentence, ...)                                                               \
    do {                                                                                           \
        if (rq_log_enabled(RMQ_LOG_##level)) {                                                     \
            rq_log_write(RMQ_LOG_##level, (sentence), __VA_ARGS__);                                \
        }                                                                                          \
    } while (0)

#endif

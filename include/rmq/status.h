/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Status: what every function that can fail returns. One table gives number, name and text. */
#ifndef RMQ_STATUS_H
#define RMQ_STATUS_H

#include <rmq/export.h>

/* X(name, number, text) */
#define RMQ_STATUS_MAP(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(ERR_INVALID, -1, "invalid argument or option")                                               \
    X(ERR_NOMEM, -2, "out of memory")                                                              \
    X(ERR_TIMEOUT, -3, "deadline passed")                                                          \
    X(ERR_CLOSED, -4, "handle is shut down")                                                       \
    X(ERR_STATE, -5, "not allowed in this state")                                                  \
    X(ERR_CONNECT, -6, "could not connect")                                                        \
    X(ERR_DISCONNECTED, -7, "connection lost before the answer")                                   \
    X(ERR_RESOLVE, -8, "host name could not be resolved")                                          \
    X(ERR_NO_NAMESRV, -9, "no name server answered")                                               \
    X(ERR_NO_ROUTE, -10, "no route for the topic")                                                 \
    X(ERR_NO_BROKER, -11, "broker has no usable address")                                          \
    X(ERR_BROKER, -12, "the peer answered with an error code")                                     \
    X(ERR_TOO_LARGE, -13, "larger than a limit")                                                   \
    X(ERR_BUSY, -14, "a local limit is reached, try later")                                        \
    X(ERR_PROTOCOL, -15, "the peer sent bytes that do not follow the protocol")                    \
    X(ERR_UNSUPPORTED, -16, "not supported")                                                       \
    X(ERR_NOT_FOUND, -17, "not found")                                                             \
    X(ERR_EXISTS, -18, "exists already")                                                           \
    X(ERR_IO, -19, "file or system call failed")                                                   \
    X(ERR_CORRUPT, -20, "stored data is damaged")                                                  \
    X(ERR_DISK_FULL, -21, "disk full")                                                             \
    X(ERR_FORKED, -22, "handle was inherited through fork")                                        \
    X(ERR_INTERNAL, -23, "internal error")

typedef enum rmq_status {
#define RMQ_STATUS_ENUM(name, number, text) RMQ_##name = (number),
    RMQ_STATUS_MAP(RMQ_STATUS_ENUM)
#undef RMQ_STATUS_ENUM
} rmq_status;

RMQ_BEGIN_DECLS

/* Name of a status, such as "RMQ_ERR_TIMEOUT"; "RMQ_ERR_UNKNOWN" for a number that is none. Static,
 * never NULL. Any thread. Since 0.1.0. */
RMQ_API const char *rmq_status_name(rmq_status status);

/* Sentence for a status, such as "deadline passed". Static, never NULL. Any thread. Since 0.1.0. */
RMQ_API const char *rmq_status_text(rmq_status status);

RMQ_END_DECLS

#endif

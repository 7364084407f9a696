/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Version of the headers, and at run time of the library. */
#ifndef RMQ_VERSION_H
#define RMQ_VERSION_H

#include <rmq/export.h>

#define RMQ_VERSION_MAJOR  0
#define RMQ_VERSION_MINOR  1
#define RMQ_VERSION_PATCH  0
#define RMQ_VERSION_STRING "0.1.0"
#define RMQ_VERSION_NUM    ((RMQ_VERSION_MAJOR << 16) | (RMQ_VERSION_MINOR << 8) | RMQ_VERSION_PATCH)

RMQ_BEGIN_DECLS

/* Version of the library that is running, as RMQ_VERSION_NUM; differs from the macro when a program
 * meets another library than it was compiled with. Any thread. Since 0.1.0. */
RMQ_API int rmq_version(void);

/* The same as text, "0.1.0". Static, never NULL. Any thread. Since 0.1.0. */
RMQ_API const char *rmq_version_string(void);

RMQ_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Allocator of the library. */
#ifndef RMQ_ALLOC_H
#define RMQ_ALLOC_H

#include <stddef.h>

#include <rmq/export.h>
#include <rmq/status.h>

RMQ_BEGIN_DECLS

/* Replaces malloc, realloc and free for everything that this library allocates itself. Call it
 * before any other function of the library and at most once; all three must be given. The functions
 * are called from any thread. Returns RMQ_ERR_INVALID when one is NULL, RMQ_ERR_STATE when the
 * library has allocated already. Third-party libraries below (libevent, cJSON, zstd …) keep their
 * own. Since 0.1.0. */
RMQ_API rmq_status rmq_set_allocator(void *(*malloc_fn)(size_t),
                                     void *(*realloc_fn)(void *, size_t), void (*free_fn)(void *));

RMQ_END_DECLS

#endif

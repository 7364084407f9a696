/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Inside of net: memory of received frames. A stream of pull answers takes and gives back some
 * hundred KiB all the time, which an allocator returns to the system and asks back, page by page;
 * so a loop keeps a few large ones for the frames to come, and nothing when none has come for a
 * while.
 */
#ifndef RQ_NET_FRAME_REF_H
#define RQ_NET_FRAME_REF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"

#define RQ_FRAME_CACHE_SLOTS 16

/* Counted bytes of a received frame. */
struct rq_frame_ref {
    _Atomic uint32_t refs; /* atomic: as any count */
    uint32_t cap;
    struct rq_loop *home; /* held, or NULL: whose cache it goes to; immutable */
    char bytes[];
};

struct rq_frame_cache {
    /* atomic: filled by anyone where there is NULL, emptied by the loop's thread; seq_cst with
     * open */
    _Atomic(struct rq_frame_ref *) slots[RQ_FRAME_CACHE_SLOTS];
    atomic_bool open; /* atomic: seq_cst, written by the loop's thread: frames are kept */
    /* owned by the loop's thread */
    bool used; /* since the timer was started */
    struct rq_timer timer;
};

void rq_frame_cache_init(struct rq_frame_cache *cache);
/* Frees what is kept; nothing is kept from here on until the next take. Loop's thread, or when it
 * has ended. */
void rq_frame_cache_drain(struct rq_frame_cache *cache);

/* Memory for a frame of n bytes, with one reference; NULL when out of memory. Loop's thread. */
struct rq_frame_ref *rq_frame_ref_take(struct rq_loop *loop, size_t n);
/* The same frame with room for cap bytes, when it has one reference; NULL when out of memory:
 * nothing has changed. */
struct rq_frame_ref *rq_frame_ref_grow(struct rq_frame_ref *ref, size_t cap);

#endif

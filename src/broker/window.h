/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A bit for each message of a queue from the first open one on: whether it is done. The owner
 * guards it. */
#ifndef RQ_BROKER_WINDOW_H
#define RQ_BROKER_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rq_window {
    int64_t base; /* first message that is not known to be done; bit 0 */
    uint8_t *bits;
    size_t bytes;
};

bool rq_window_init(struct rq_window *window, int64_t base); /* false: out of memory */
void rq_window_free(struct rq_window *window);
bool rq_window_has(const struct rq_window *window, int64_t offset); /* done; all before base are */
/* false: no memory, or too far ahead */
bool rq_window_mark(struct rq_window *window, int64_t offset);

/* How many of the bytes there are up to the last done message. */
size_t rq_window_used(const struct rq_window *window);

/* Moves base to the first message that is not done, at least to min, at most (unless min is more)
 * to end. */
void rq_window_advance(struct rq_window *window, int64_t min, int64_t end);

#endif

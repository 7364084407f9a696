/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Pulls of static topics: the logical offset that is asked for is one of a physical queue, here or
 * on another broker that led the logical queue before; what was found is told in logical offsets
 * again. Counterpart: PullMessageProcessor, rewriteRequestForStaticTopic and its like.
 */
#ifndef RQ_BROKER_PULL_STATIC_H
#define RQ_BROKER_PULL_STATIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/logical_queue.h"

/* The logical queue of a pull. Counted, immutable; a parked pull keeps it. */
struct rq_pull_static {
    _Atomic uint32_t refs; /* atomic: as any count */
    struct rq_logical_queue logical;
    const struct rq_mapping_item *item; /* in the mapping: the physical queue that is read */
};

struct rq_pull_offsets {
    int64_t next_begin;
    int64_t min;
    int64_t max;
};

/* Puts physical queue and offset in the place of the logical ones. A commit that came along is for
 * the queue that it falls into. *out is a reference, NULL when the request is for a physical queue.
 * false: it was refused, or another broker has been asked and its answer will be passed on. */
bool rq_pull_map(const struct rq_request *request, struct rq_hdr_pull *header,
                 struct rq_pull_static **out);
struct rq_pull_static *rq_pull_static_retain(struct rq_pull_static *mapped); /* NULL is accepted */
void rq_pull_static_release(struct rq_pull_static *mapped);                  /* the same */

/* Whether the topic's mapping has changed since. Any thread. */
bool rq_pull_static_is_outdated(struct rmq_broker *broker, const struct rq_pull_static *mapped);

/* What to answer to a pull at a physical offset that came out with code, and its offsets: physical
 * ones in, logical ones out. At the end of a queue that leads no more it goes on in the next. */
int32_t rq_pull_static_tell(const struct rq_pull_static *mapped, int64_t offset, int32_t code,
                            struct rq_pull_offsets *offsets);

/* What to add to the physical offsets of the messages that were read. */
int64_t rq_pull_static_delta(const struct rq_pull_static *mapped);

#endif

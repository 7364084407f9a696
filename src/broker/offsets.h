/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Consumer offsets by topic@group and queue: consumerOffset.json in memory, with the offsets that a
 * reset made pending. Any thread. Counterpart: ConsumerOffsetManager.
 */
#ifndef RQ_BROKER_OFFSETS_H
#define RQ_BROKER_OFFSETS_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/table_file.h"
#include "base/thread.h"
#include "broker/data_version.h"

#define RQ_OFFSET_NONE (-1)

struct rq_offsets {
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* "topic@group" -> struct queue_offsets */
    struct rq_data_version version;
    struct rq_table_file file;
};

void rq_offsets_init(struct rq_offsets *offsets);
/* at start; NULL: nothing is written */
rmq_status rq_offsets_set_path(struct rq_offsets *offsets, const char *path);
void rq_offsets_free(struct rq_offsets *offsets);
rmq_status rq_offsets_load(struct rq_offsets *offsets, rmq_error **err);

/* At start, before anybody else has them: an offset beyond the end of its queue becomes that end.
 * A log that has lost its end is written anew from there, and what comes in the place of the lost
 * messages would be taken for consumed. */
void rq_offsets_fit(struct rq_offsets *offsets,
                    int64_t (*end)(void *user, struct rq_slice topic, int32_t queue_id),
                    void *user);

rmq_status rq_offsets_persist(struct rq_offsets *offsets, rmq_error **err); /* only when dirty */

/* false: nothing was stored, because a reset is pending, or for want of memory (*st, may be NULL).
 * Lower offsets are accepted. */
bool rq_offsets_commit(struct rq_offsets *offsets, struct rq_slice group, struct rq_slice topic,
                       int32_t queue_id, int64_t offset, rmq_status *st);

/* The committed offset (the pending one of a reset first), or RQ_OFFSET_NONE. */
int64_t rq_offsets_query(struct rq_offsets *offsets, struct rq_slice group, struct rq_slice topic,
                         int32_t queue_id);

/* Sets the committed offset and makes the next pull of the queue go there. */
rmq_status rq_offsets_reset(struct rq_offsets *offsets, struct rq_slice group,
                            struct rq_slice topic, int32_t queue_id, int64_t offset);

/* Takes a pending reset: its offset once, then RQ_OFFSET_NONE. */
int64_t rq_offsets_take_reset(struct rq_offsets *offsets, struct rq_slice group,
                              struct rq_slice topic, int32_t queue_id);

void rq_offsets_remove_topic(struct rq_offsets *offsets, struct rq_slice topic);
void rq_offsets_remove_group(struct rq_offsets *offsets, struct rq_slice group);

/* Copies the offsets of one group on one topic to another group. */
rmq_status rq_offsets_clone(struct rq_offsets *offsets, struct rq_slice from, struct rq_slice to,
                            struct rq_slice topic);

/* Calls each for every pair that matches (p NULL matches all), with the lock held: each must not
 * come back here. */
void rq_offsets_each(struct rq_offsets *offsets, struct rq_slice group, struct rq_slice topic,
                     void (*each)(struct rq_slice topic, struct rq_slice group, void *user),
                     void *user);

/* The members of the file and of body 43, without the braces around. */
void rq_offsets_write(struct rq_offsets *offsets, struct rq_buf *out);

#endif

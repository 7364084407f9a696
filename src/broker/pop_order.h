/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Ordered POP: what a group has popped from a queue and not acknowledged blocks the queue until it
 * is, or its time is up; then it is popped again. In memory and in consumerOrderInfo.json. Any
 * thread. Counterpart: ConsumerOrderInfoManager.
 */
#ifndef RQ_BROKER_POP_ORDER_H
#define RQ_BROKER_POP_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/table_file.h"
#include "base/thread.h"
#include "wire/pop.h"

struct rq_pop_orders {
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* "topic@group" -> struct queues */
    struct rq_table_file file;
};

/* A queue of a topic, as a group reads it. Borrowed. */
struct rq_pop_place {
    struct rq_slice topic;
    struct rq_slice group;
    int32_t queue_id;
};

void rq_pop_orders_init(struct rq_pop_orders *orders);
rmq_status rq_pop_orders_set_path(struct rq_pop_orders *orders, const char *path);
rmq_status rq_pop_orders_load(struct rq_pop_orders *orders, rmq_error **err);
rmq_status rq_pop_orders_persist(struct rq_pop_orders *orders, rmq_error **err);
void rq_pop_orders_free(struct rq_pop_orders *orders);

/* When the queue may be popped, in ms of the wall clock; 0 = now. The same attempt is never blocked
 * by itself. */
int64_t rq_pop_order_blocked_until(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                                   struct rq_slice attempt_id, int64_t invisible_ms,
                                   int64_t now_ms);

/* Messages were popped: appends how often each was before to counts. Errors: RMQ_ERR_NOMEM, nothing
 * is remembered. */
rmq_status rq_pop_order_update(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                               struct rq_slice attempt_id, int64_t pop_time_ms,
                               int64_t invisible_ms, const int64_t *offsets, size_t count,
                               struct rq_buf *counts);

/* One is acknowledged: the offset that the group has reached. -1: it is not among what was popped;
 * RQ_POP_ORDER_STALE: that was at another time. */
#define RQ_POP_ORDER_STALE (-2)
int64_t rq_pop_order_commit(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                            int64_t offset, int64_t pop_time_ms);

/* One becomes visible at another time. */
void rq_pop_order_set_visible(struct rq_pop_orders *orders, const struct rq_pop_place *place,
                              int64_t offset, int64_t pop_time_ms, int64_t visible_ms);
void rq_pop_order_clear(struct rq_pop_orders *orders, const struct rq_pop_place *place);

#endif

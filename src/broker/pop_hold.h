/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Pops that wait for messages, by topic: an arrival wakes one of each group, a pop that leaves
 * something wakes the next one. Time is kept by one timer on the background loop. Any thread.
 * Counterpart: PopLongPollingService.
 */
#ifndef RQ_BROKER_POP_HOLD_H
#define RQ_BROKER_POP_HOLD_H

#include <stdatomic.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/thread.h"
#include "broker/pop.h"
#include "net/loop.h"
#include "store/store.h"

struct rq_session;

struct rq_pop_hold {
    struct rmq_broker *broker;
    struct rq_loop *loop; /* background; a reference */
    atomic_size_t count;  /* atomic: seq_cst, see rq_pop_hold_arrived */

    struct rq_mutex lock;   /* rank: hold; guards all below */
    struct rq_map topics;   /* topic, also retry topic -> struct hold_topic */
    struct rq_heap by_time; /* parked.of_time by the next look */
    int64_t armed_ms;
    bool closed;
    struct rq_task arm_task;
    struct rq_timer timer; /* owned by the background loop */
};

void rq_pop_hold_init(struct rq_pop_hold *hold, struct rmq_broker *broker,
                      struct rq_loop *background);

/* Answers all that wait and takes no more. The loops must still run. */
void rq_pop_hold_close(struct rq_pop_hold *hold);
void rq_pop_hold_free(struct rq_pop_hold *hold);

/* Waits for at most timeout_ms; looks once more first. It will be answered. Loop thread of the
 * session. */
void rq_pop_hold_wait(struct rq_pop_hold *hold, struct rq_session *session,
                      const struct rq_reply_to *to, const struct rq_pop_ask *ask,
                      int64_t timeout_ms);

/* The store's listener. */
void rq_pop_hold_arrived(struct rq_pop_hold *hold, const struct rq_store_arrival *arrival);

/* Something may be there for one of a group: the next one looks. */
void rq_pop_hold_wake(struct rq_pop_hold *hold, struct rq_slice topic, struct rq_slice group,
                      int32_t queue_id);

/* How many of a group wait for a queue. */
int32_t rq_pop_hold_count(struct rq_pop_hold *hold, const struct rq_pop_place *place);

/* The connection has closed. Loop thread of the session. */
void rq_pop_hold_drop(struct rq_pop_hold *hold, struct rq_session *session);

#endif

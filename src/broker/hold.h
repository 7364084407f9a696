/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Parked pulls: requests that found nothing wait here by topic and queue until the store tells of
 * an arrival, or their time is up. They are woken by the thread that dispatches; time is kept by
 * one timer on the background loop. Counterpart: PullRequestHoldService.
 */
#ifndef RQ_BROKER_HOLD_H
#define RQ_BROKER_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/status.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/thread.h"
#include "broker/clients.h"
#include "namesrv/answer.h"
#include "net/loop.h"
#include "store/store.h"

struct rmq_broker;
struct rq_session;
struct rq_pull_static;

/* A pull once it has been checked. Borrowed for calls; a parked one has copies. */
struct rq_pull {
    struct rq_slice topic;
    struct rq_slice group;
    int32_t queue_id;
    int32_t max_msgs;
    int32_t topic_sys_flag;
    int32_t group_sys_flag;
    int64_t broker_id; /* to suggest: when the reader keeps up, and when it does not */
    int64_t slow_broker_id;
    int64_t offset;
    struct rq_shared_subscription *sub; /* NULL = every message */
    struct rq_pull_static *mapped;      /* the logical queue of a static topic, else NULL */
};

struct rq_hold {
    struct rmq_broker *broker;
    struct rq_loop *loop;   /* background; a reference */
    _Atomic size_t count;   /* atomic: acq_rel, see rq_hold_arrived; parked ones */
    struct rq_mutex lock;   /* rank: hold; guards all below */
    struct rq_map queues;   /* topic and queue id -> struct hold_queue */
    struct rq_heap by_time; /* parked.of_time by deadline */
    int64_t armed_ms;       /* when the timer will look, RQ_FOREVER = not at all */
    bool closed;
    struct rq_task arm_task;
    struct rq_timer timer; /* owned by the background loop */
};

void rq_hold_init(struct rq_hold *hold, struct rmq_broker *broker, struct rq_loop *background);

/* Answers all that wait and takes no more. The loops must still run. */
void rq_hold_close(struct rq_hold *hold);
void rq_hold_free(struct rq_hold *hold); /* after close; not on the background loop */

/* Parks a pull for at most timeout_ms. Failure: it has not been answered. Loop thread of the
 * session. */
rmq_status rq_hold_park(struct rq_hold *hold, struct rq_session *session,
                        const struct rq_reply_to *to, const struct rq_pull *pull,
                        int64_t timeout_ms);

/* The store's listener: wakes what waits for the queue and may match. */
void rq_hold_arrived(struct rq_hold *hold, const struct rq_store_arrival *arrival);

/* The group's offset in the queue was set from outside: what it has parked there is answered now.
 * (One that another loop is about to park may still wait for its time.) Any loop thread. */
void rq_hold_reset(struct rq_hold *hold, struct rq_slice topic, int32_t queue_id,
                   struct rq_slice group);

/* The mapping of the topic's queues has changed: all that is parked there is answered now. Any
 * thread. */
void rq_hold_wake_topic(struct rq_hold *hold, struct rq_slice topic);

/* The connection has closed: what it parked is forgotten. Loop thread of the session. */
void rq_hold_drop(struct rq_hold *hold, struct rq_session *session);

enum rq_pull_wait {
    RQ_PULL_ANSWERS,  /* in any case */
    RQ_PULL_MAY_PARK, /* nothing there: it is parked */
    RQ_PULL_MAY_STAY  /* as before, and what came does not match: it goes on waiting behind that */
};

/* Reads the store and answers (pull.c). False: nothing was answered, it is to wait for messages
 * from pull->offset on. Any thread. */
bool rq_pull_answer(struct rmq_broker *broker, struct rq_conn *conn, const struct rq_reply_to *to,
                    struct rq_pull *pull, enum rq_pull_wait wait);

#endif

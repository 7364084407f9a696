/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Locks of message queues by the members of a group, for ordered consumption. Any thread; time is
 * given by the caller. Counterpart: RebalanceLockManager. */
#ifndef RQ_BROKER_QUEUE_LOCKS_H
#define RQ_BROKER_QUEUE_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/status.h>

#include "base/map.h"
#include "base/slice.h"
#include "base/thread.h"
#include "wire/mq.h"

#define RQ_QUEUE_LOCK_MS 60000 /* after the last renewal */

struct rq_queue_locks {
    struct rq_mutex lock; /* rank: broker tables; guards the table */
    struct rq_map table;  /* group NUL topic NUL broker NUL queue -> struct queue_lock */
};

void rq_queue_locks_init(struct rq_queue_locks *locks);
void rq_queue_locks_free(struct rq_queue_locks *locks);

/* Whether the client holds the queue's lock now, taking or renewing it when it may. */
bool rq_queue_locks_take(struct rq_queue_locks *locks, const char *group, const struct rq_mq *mq,
                         const char *client_id, int64_t now_ms);
void rq_queue_locks_release(struct rq_queue_locks *locks, const char *group, const struct rq_mq *mq,
                            const char *client_id);

/* Whether any member of the group holds an unexpired lock: the group consumes in order. */
bool rq_queue_locks_group_holds(struct rq_queue_locks *locks, struct rq_slice group,
                                int64_t now_ms);

/* Removes the expired ones. */
void rq_queue_locks_expire(struct rq_queue_locks *locks, int64_t now_ms);

#endif

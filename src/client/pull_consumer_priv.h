/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a pull consumer, shared by pull_consumer.c (life), pull_consumer_pull.c and
 * pull_consumer_offsets.c. Membership and shares come from a consumer whose queues are not pulled
 * (client/consumer_priv.h). Counterpart: DefaultMQPullConsumerImpl.
 */
#ifndef RQ_CLIENT_PULL_CONSUMER_PRIV_H
#define RQ_CLIENT_PULL_CONSUMER_PRIV_H

#include <rmq/pull_consumer.h>

#include "base/list.h"
#include "base/thread.h"
#include "client/callbacks.h"
#include "client/consumer_priv.h"
#include "client/queue_ask.h"

/* What is remembered of a queue. Lives until the consumer is destroyed. */
struct rq_pull_queue {
    struct rq_list node; /* guarded by the consumer's lock */
    struct rq_mq name;   /* immutable, own texts */

    /* guarded by the consumer's lock */
    int64_t offset; /* -1 = none */
    int64_t stored; /* confirmed by the broker; -1 = nothing */
    bool storing;
    int64_t broker_id; /* suggested by the broker for the next pull */

    /* loop, while storing */
    struct rmq_pull_consumer *consumer;
    struct rq_queue_ask ask;
    struct rq_hdr_update_consumer_offset fields;
};

struct rmq_pull_consumer {
    /* immutable after create */
    rmq_pull_consumer_options options; /* own copy */
    struct rmq_consumer *inner;
    struct rq_instance *instance; /* inner's */
    struct rq_callbacks callbacks;

    struct rq_mutex lock; /* rank 10 */
    struct rq_cond change;

    /* guarded by lock */
    struct rq_list queues; /* struct rq_pull_queue.node */
    int storing;           /* queues that are */
    rmq_error *refused;    /* why the last store failed; NULL */
    bool closing;

    /* loop */
    struct rq_list pulls; /* under way: struct pull_op.node */
    struct rq_timer persist_timer;
};

/* ---- pull_consumer_pull.c ---- */

void rq_pull_consumer_cancel_pulls(struct rmq_pull_consumer *consumer); /* loop */

/* ---- pull_consumer_offsets.c ---- */

/* The queue's record, made when there is none; NULL: no memory. */
struct rq_pull_queue *rq_pull_queue_get_locked(struct rmq_pull_consumer *consumer,
                                               const struct rq_mq *name);
void rq_pull_consumer_on_persist(struct rq_timer *timer); /* loop */

/* Stores what is not stored yet; waits until the deadline. Not on the loop. */
rmq_status rq_pull_consumer_persist(struct rmq_pull_consumer *consumer, int64_t deadline_ms,
                                    rmq_error **err);
void rq_pull_consumer_free_queues(struct rmq_pull_consumer *consumer); /* none is storing */

/* ---- pull_consumer.c ---- */

/* Checks a handle, what the call cannot do without, and (not NULL) a queue's name. what: the word
 * for needed, which may be the consumer once more. */
rmq_status rq_pull_consumer_check(struct rmq_pull_consumer *consumer, const struct rq_mq *name,
                                  const void *needed, const char *what, rmq_error **err);

/* A topic's full name, in room or topic itself; consumer and topic may be NULL. */
static inline const char *rq_pull_consumer_full(const struct rmq_pull_consumer *consumer,
                                                const char *topic, char room[RQ_NAMESPACED_MAX])
{
    return rq_namespace_wrap(consumer ? consumer->options.namespace_name : NULL, topic, room);
}

#endif

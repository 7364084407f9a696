/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * POP: messages of any queue of a topic, given out for a time. Several consumers pop from one
 * queue; each pop of a queue is one at a time. Any thread. Counterpart: PopMessageProcessor.
 */
#ifndef RQ_BROKER_POP_H
#define RQ_BROKER_POP_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/clients.h"
#include "broker/pop_order.h"
#include "namesrv/answer.h"

struct rmq_broker;
struct rq_request;

#define RQ_POP_LOCKS 64

/* A pop or (is_notice) a question whether there is something to pop, once it has been checked.
 * Borrowed for calls; a parked one has copies. */
struct rq_pop_ask {
    struct rq_slice topic;
    struct rq_slice group;
    struct rq_slice attempt_id;
    struct rq_shared_subscription *sub; /* NULL = every message */
    int32_t queue_id;                   /* -1 = all */
    int32_t max_msgs;
    int32_t init_mode; /* enum rq_pop_init */
    int64_t invisible_ms;
    bool order;
    bool is_notice;
};

struct rq_pop_outcome {
    /* not answered: when to look again (wall clock, 0 = when something comes): a blocked queue will
     * be free, or has more messages than one look passes over */
    int64_t look_ms;
    bool more; /* answered, and something is left for the next one */
};

/* Looks and answers. false: there is nothing, nothing was answered. last: is answered in any
 * case. */
bool rq_pop_answer(struct rmq_broker *broker, struct rq_conn *conn, const struct rq_reply_to *to,
                   const struct rq_pop_ask *ask, bool last, struct rq_pop_outcome *out);

/* Answers that there are too many that wait. */
void rq_pop_answer_full(struct rq_conn *conn, const struct rq_reply_to *to,
                        const struct rq_pop_ask *ask);

/* The lock of a queue as a group pops it. */
struct rq_mutex *rq_pop_lock(struct rmq_broker *broker, const struct rq_pop_place *place);

#endif

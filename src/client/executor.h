/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The callback thread: one per process, shared by all clients and counted, started by the first
 * that needs it. It runs what would be the user's code on the I/O thread: send callbacks, notices.
 * Work is intrusive, so posting allocates nothing; many posts made before the thread has run share
 * one wake-up. Counterpart: the callback executor of NettyRemotingClient.
 */
#ifndef RQ_CLIENT_EXECUTOR_H
#define RQ_CLIENT_EXECUTOR_H

#include <stdbool.h>

#include <rmq/error.h>

#include "base/mpsc.h"

struct rq_executor;

/* Embedded by the owner; may be posted again as soon as run has been entered. */
struct rq_work {
    struct rq_mpsc_node node;
    void (*run)(struct rq_work *work);
};

/* The shared executor, started when there is none. Each get needs a put; the last put stops the
 * thread and joins it, unless it is called on the callback thread itself, which then ends on its
 * own. Any thread. */
rmq_status rq_executor_get(struct rq_executor **out, rmq_error **err);
void rq_executor_put(struct rq_executor *executor);

/* Any thread. In order, each exactly once. In a forked child nothing runs. */
void rq_executor_post(struct rq_executor *executor, struct rq_work *work);

/* Whether the caller is the callback thread of any executor. */
bool rq_executor_in(void);

#endif

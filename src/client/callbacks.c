/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Counted asynchronous calls of a handle (see the header). Any thread. */
#include "client/callbacks.h"

#include "base/err.h"

void rq_callbacks_init(struct rq_callbacks *callbacks)
{
    *callbacks = (struct rq_callbacks){0};
    rq_mutex_init(&callbacks->lock);
    rq_cond_init(&callbacks->change);
}

void rq_callbacks_destroy(struct rq_callbacks *callbacks)
{
    if (callbacks->executor) {
        rq_executor_put(callbacks->executor);
    }
    rq_cond_destroy(&callbacks->change);
    rq_mutex_destroy(&callbacks->lock);
}

/* The executor is got outside the lock; of two that come at once one is put back. */
static rmq_status need_executor(struct rq_callbacks *callbacks, rmq_error **err)
{
    struct rq_executor *executor = NULL;
    rq_mutex_lock(&callbacks->lock);
    bool has = callbacks->executor != NULL;
    rq_mutex_unlock(&callbacks->lock);
    if (has) {
        return RMQ_OK;
    }
    rmq_status st = rq_executor_get(&executor, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_mutex_lock(&callbacks->lock);
    if (!callbacks->executor) {
        callbacks->executor = executor;
        executor = NULL;
    }
    rq_mutex_unlock(&callbacks->lock);
    if (executor) {
        rq_executor_put(executor);
    }
    return RMQ_OK;
}

rmq_status rq_callbacks_enter(struct rq_callbacks *callbacks, bool posts, rmq_error **err)
{
    rmq_status st = posts ? need_executor(callbacks, err) : RMQ_OK;
    if (st != RMQ_OK) {
        return st;
    }
    rq_mutex_lock(&callbacks->lock);
    bool closed = callbacks->closed;
    callbacks->pending += !closed;
    rq_mutex_unlock(&callbacks->lock);
    return closed ? rq_error_set(err, RMQ_ERR_CLOSED, "the consumer is shut down") : RMQ_OK;
}

void rq_callbacks_post(struct rq_callbacks *callbacks, struct rq_work *work)
{
    rq_executor_post(callbacks->executor, work);
}

void rq_callbacks_leave(struct rq_callbacks *callbacks)
{
    rq_mutex_lock(&callbacks->lock);
    callbacks->pending--;
    rq_cond_broadcast(&callbacks->change);
    rq_mutex_unlock(&callbacks->lock);
}

bool rq_callbacks_is_closed(struct rq_callbacks *callbacks)
{
    rq_mutex_lock(&callbacks->lock);
    bool closed = callbacks->closed;
    rq_mutex_unlock(&callbacks->lock);
    return closed;
}

void rq_callbacks_close(struct rq_callbacks *callbacks)
{
    rq_mutex_lock(&callbacks->lock);
    callbacks->closed = true;
    rq_mutex_unlock(&callbacks->lock);
}

void rq_callbacks_wait(struct rq_callbacks *callbacks)
{
    rq_mutex_lock(&callbacks->lock);
    while (callbacks->pending > 0 && !rq_executor_in()) {
        rq_cond_wait(&callbacks->change, &callbacks->lock);
    }
    rq_mutex_unlock(&callbacks->lock);
}

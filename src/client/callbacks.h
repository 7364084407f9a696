/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The asynchronous calls of one handle: counted from their beginning until their callback has
 * returned, so that closing can wait for them. The callback thread is got when the first one needs
 * it. Any thread.
 */
#ifndef RQ_CLIENT_CALLBACKS_H
#define RQ_CLIENT_CALLBACKS_H

#include <stdbool.h>

#include "base/thread.h"
#include "client/executor.h"

struct rq_callbacks {
    struct rq_mutex lock; /* rank 12 */
    struct rq_cond change;

    /* guarded by lock */
    struct rq_executor *executor; /* NULL until needed */
    int pending;
    bool closed;
};

void rq_callbacks_init(struct rq_callbacks *callbacks);
void rq_callbacks_destroy(struct rq_callbacks *callbacks); /* after close; not on the I/O thread */

/* Counts a call; posts: it will end by a post. Errors: RMQ_ERR_CLOSED, and those of
 * rq_executor_get. */
rmq_status rq_callbacks_enter(struct rq_callbacks *callbacks, bool posts, rmq_error **err);
void rq_callbacks_post(struct rq_callbacks *callbacks, struct rq_work *work);
void rq_callbacks_leave(struct rq_callbacks *callbacks);
bool rq_callbacks_is_closed(struct rq_callbacks *callbacks);

/* No enter succeeds after this. */
void rq_callbacks_close(struct rq_callbacks *callbacks);

/* Waits until all have left; on the callback thread not at all. */
void rq_callbacks_wait(struct rq_callbacks *callbacks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Tells a program that the queues of a topic were shared out anew: two lists, on the callback
 * thread. Made on the I/O thread; what cannot be told for want of memory is logged. Counterpart:
 * MessageQueueListener.
 */
#ifndef RQ_CLIENT_QUEUE_NOTICES_H
#define RQ_CLIENT_QUEUE_NOTICES_H

#include <rmq/queue.h>

#include "client/callbacks.h"

struct rq_subscribed;
struct rmq_consumer;

/* Loop. Our queues of a topic, in a new list. Errors: RMQ_ERR_NOMEM. */
rmq_status rq_queue_list_of_share(struct rq_subscribed *topic, struct rmq_queue_list **out);

/* Loop. */
void rq_queue_notices_post(struct rq_callbacks *callbacks, struct rq_subscribed *topic,
                           rmq_queues_changed_fn fn, void *user);

#endif

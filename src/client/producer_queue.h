/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Where a send goes and how long it may take, as the program asked for it. On the sender's thread.
 * Counterpart: MessageQueueSelector.
 */
#ifndef RQ_CLIENT_PRODUCER_QUEUE_H
#define RQ_CLIENT_PRODUCER_QUEUE_H

#include "client/producer.h"
#include "client/route.h"

/* At most one of broker_name, selector, choice and key is set. All borrowed. */
struct rq_send_target {
    int64_t timeout_ms; /* 0 = the option's */
    const char *broker_name;
    int32_t queue_id;
    rmq_queue_selector_fn selector;
    rmq_queue_choice_fn choice;
    void *user; /* of selector or choice */
    const char *key;
};

/* From public options, NULL = none. Errors: RMQ_ERR_INVALID. */
rmq_status rq_target_set(struct rq_send_target *target, const rmq_send_options *from,
                         rmq_error **err);

static inline bool rq_target_is_chosen(const struct rq_send_target *target)
{
    return target->broker_name || target->selector || target->choice || target->key;
}

/* The route, retained, and the queue when the target says which (else queue->broker stays NULL);
 * waits for a route only then. Messages of a group go to the group's queue unless the target says
 * otherwise; those of a batch must then be of one. route stays NULL when none is known yet. Errors:
 * those of rq_producer_route, RMQ_ERR_NO_BROKER, RMQ_ERR_NO_ROUTE, RMQ_ERR_INVALID. */
rmq_status rq_target_find(struct rmq_producer *producer, struct rq_send_target *target,
                          const rmq_message *const *messages, size_t count, int64_t deadline_ms,
                          struct rq_route **route, struct rq_route_queue *queue, rmq_error **err);

/* The snapshot of a topic, retained, waiting for a first one until the deadline; a shutdown is
 * noticed in between. */
rmq_status rq_producer_route(struct rmq_producer *producer, const char *topic, size_t topic_len,
                             int64_t deadline_ms, struct rq_route **out, rmq_error **err);

#endif

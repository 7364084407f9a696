/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The inside of a pop consumer, shared by pop_consumer.c (life, pop) and pop_consumer_ack.c. */
#ifndef RQ_CLIENT_POP_CONSUMER_PRIV_H
#define RQ_CLIENT_POP_CONSUMER_PRIV_H

#include <stdatomic.h>

#include <rmq/pop_consumer.h>

#include "base/list.h"
#include "client/callbacks.h"
#include "client/instance.h"
#include "wire/namespace.h"

struct rmq_pop_consumer {
    /* immutable after create */
    rmq_pop_consumer_options options; /* own copy */
    struct rq_instance *instance;
    struct rq_callbacks callbacks;

    atomic_uint turn; /* atomic: relaxed: which broker is asked first */

    struct rq_list pops; /* loop: under way */
};

/* Counts a call; rq_callbacks_leave ends it. what: the word for needed. */
rmq_status rq_pop_consumer_enter(struct rmq_pop_consumer *consumer, const char *topic,
                                 const void *needed, const char *what, rmq_error **err);

/* Blocking. */
rmq_status rq_pop_consumer_ack_one(struct rmq_pop_consumer *consumer, const char *topic,
                                   const char *handle, int64_t timeout_ms, rmq_error **err);

/* A topic's full name, in room or topic itself; consumer and topic may be NULL. */
static inline const char *rq_pop_consumer_full(const struct rmq_pop_consumer *consumer,
                                               const char *topic, char room[RQ_NAMESPACED_MAX])
{
    return rq_namespace_wrap(consumer ? consumer->options.namespace_name : NULL, topic, room);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Inner side of rmq_queue_list: names with their own copies of the texts. One thread at a time. */
#ifndef RQ_CLIENT_QUEUE_LIST_H
#define RQ_CLIENT_QUEUE_LIST_H

#include <stdbool.h>

#include <rmq/queue.h>

#include "wire/mq.h"
#include "client/route.h"

struct rmq_queue_list {
    size_t count;
    size_t cap;
    struct rq_mq *items; /* topic is the start of one allocation that holds both texts */
};

/* A copy of a name: its texts are one allocation, freed by rq_mq_clear. Errors: RMQ_ERR_NOMEM. */
rmq_status rq_mq_copy(struct rq_mq *to, const struct rq_mq *from);
void rq_mq_clear(struct rq_mq *name);

rmq_status rq_queue_list_add(struct rmq_queue_list *list, const struct rq_mq *name);

/* A copy with full names, for the caller to destroy. Errors: RMQ_ERR_NOMEM. */
rmq_status rq_queue_list_wrap(const struct rmq_queue_list *list, const char *name_space,
                              struct rmq_queue_list **out, rmq_error **err);
bool rq_queue_list_has(const struct rmq_queue_list *list, const struct rq_mq *name);

/* The readable queues of a route, in a new list. Errors: RMQ_ERR_NOMEM. */
rmq_status rq_queue_list_of_route(const struct rq_route *route, const char *topic,
                                  struct rmq_queue_list **out);

/* The readable queues of a topic, asked for at the name server each time; waits, timeout_ms 0 = 5000.
 * The topic is as the program names it, and so it is in the list. Not on the I/O thread. Errors: those
 * of rq_route_wait. */
struct rq_instance;
rmq_status rq_queue_list_fetch_named(struct rq_instance *instance, const char *name_space,
                                     const char *topic, int64_t timeout_ms,
                                     struct rmq_queue_list **out, rmq_error **err);

/* The same for pops, which know brokers and no logical queues: at least one queue of each broker
 * that has messages of the topic, which is named in full. Asked for only while none are known. */
rmq_status rq_queue_list_fetch_brokers(struct rq_instance *instance, const char *topic,
                                       int64_t timeout_ms, struct rmq_queue_list **out,
                                       rmq_error **err);

#endif

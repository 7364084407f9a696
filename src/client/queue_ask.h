/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One question about one queue to its broker, asked from any thread: the topic's route is looked up
 * when the broker is not known yet, the request goes out on the I/O thread, and there is one end in
 * any case. Used by who asks for single queues: pull consumers, seeks, POP.
 */
#ifndef RQ_CLIENT_QUEUE_ASK_H
#define RQ_CLIENT_QUEUE_ASK_H

#include "client/instance.h"
#include "wire/mq.h"

struct rq_queue_ask {
    /* set before; all borrowed until done */
    struct rq_instance *instance;
    struct rq_mq name;
    enum rq_pick pick;
    int64_t broker_id; /* for RQ_PICK_ID */
    int code;
    const struct rq_fields *table;
    const void *fields;
    struct rq_slice body;
    int64_t deadline_ms;
    /* Loop; once. answer is NULL unless status is RMQ_OK; err (borrowed) tells why there was no
     * route. */
    void (*done)(struct rq_queue_ask *ask, rmq_status status, struct rq_in *answer,
                 const rmq_error *err);

    /* loop */
    bool sent;
    bool cancelled;
    bool looked_again;
    bool greeted;
    struct rq_timer greeting;
    int64_t greet_until_ms;
    struct rq_lookup lookup;
    struct rq_request request;
};

void rq_queue_ask(struct rq_queue_ask *ask);

/* Loop. done is called with RMQ_ERR_CLOSED, now or as soon as the look-up of the route, or the wait
 * for a heartbeat, ends. */
void rq_queue_ask_cancel(struct rq_queue_ask *ask);

/* The same, waiting; not on the I/O thread. An answer with code SUCCESS, to be freed with
 * rq_reply_free; not_found is the code that becomes RMQ_ERR_NOT_FOUND, 0 = none. what: "offset of
 * group g", for messages. */
rmq_status rq_queue_ask_wait(struct rq_queue_ask *ask, const char *what, int32_t not_found,
                             struct rq_reply *reply, rmq_error **err);

/* The common questions, waiting. */
rmq_status rq_queue_max_offset(struct rq_instance *instance, const struct rq_mq *name,
                               int64_t timeout_ms, int64_t *out, rmq_error **err);
rmq_status rq_queue_min_offset(struct rq_instance *instance, const struct rq_mq *name,
                               int64_t timeout_ms, int64_t *out, rmq_error **err);
rmq_status rq_queue_search_offset(struct rq_instance *instance, const struct rq_mq *name,
                                  int64_t timestamp_ms, int64_t timeout_ms, int64_t *out,
                                  rmq_error **err);

/* RMQ_ERR_NOT_FOUND: the group has none. */
rmq_status rq_queue_committed(struct rq_instance *instance, const char *group,
                              const struct rq_mq *name, int64_t timeout_ms, int64_t *out,
                              rmq_error **err);

#endif

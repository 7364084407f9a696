/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests that a consumer's state machines make to brokers and name servers. I/O thread only.
 */
#ifndef RQ_CLIENT_CONSUMER_ASK_H
#define RQ_CLIENT_CONSUMER_ASK_H

#include <stdint.h>

#include "base/list.h"
#include "client/instance.h"

#define RQ_ASK_TIMEOUT_MS 3000 /* member lists, offsets */
#define RQ_RETRY_FIRST_MS 50   /* after the first failure of a kind, then doubling … */
#define RQ_RETRY_MOST_MS  1000 /* … to this */

struct rmq_consumer;

/* One request of a consumer. Has exactly one end: an answer, a failure, or RMQ_ERR_CLOSED by
 * cancelling. */
struct rq_ask {
    struct rq_request request;
    struct rq_list node; /* in consumer->asks while under way */
    struct rmq_consumer *consumer;
    void (*done)(struct rq_ask *ask, rmq_status status, struct rq_in *answer);
};

/* Sends a request whose done is set; peer NULL ends in RMQ_ERR_NO_BROKER. */
void rq_consumer_ask(struct rmq_consumer *consumer, struct rq_ask *ask, struct rq_peer *peer,
                     int code, const struct rq_fields *table, const void *fields,
                     int64_t timeout_ms);
void rq_consumer_ask_with(struct rmq_consumer *consumer, struct rq_ask *ask, struct rq_peer *peer,
                          int code, const struct rq_fields *table, const void *fields,
                          struct rq_slice body, int64_t timeout_ms);

/* done is called with RMQ_ERR_CLOSED, now or soon. */
void rq_consumer_cancel(struct rq_ask *ask);

/* The delay to wait now before a request is repeated; doubles the next. */
int64_t rq_retry_delay(int64_t *delay_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests of a producer that wait for their replies, which brokers push over the producer's
 * connections (326). producer_request.c sends them. Counterpart: RequestFutureHolder.
 */
#ifndef RQ_CLIENT_REQUESTS_H
#define RQ_CLIENT_REQUESTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/producer.h>

#include "base/heap.h"
#include "client/events.h"
#include "client/executor.h"
#include "client/instance.h"
#include "client/unique_id.h"
#include "client/waiter.h"

struct rq_requests;

/* Where the outcome goes: to a callback, into an event queue, or, with neither, to who waits. */
struct rq_request_way {
    rmq_request_fn done;
    void *user;
    rmq_events *events;
    uint64_t token;
};

/* A request that waits for its reply, or has got it. */
struct rq_pending {
    struct rq_requests *requests; /* a reference */
    /* atomic: relaxed up, acq_rel down: of the sender, the send, the table or completion */
    atomic_int refs;
    char id[RQ_UNIQUE_ID_MAX + 1];
    int64_t started_ms;
    int64_t deadline_ms;         /* monotonic */
    struct rq_heap_node of_time; /* guarded by the table's lock */
    bool stored;                 /* likewise: the request is at a broker */
    struct rq_request_way way;
    struct rmq_event event; /* the request is freed with it */
    struct rq_waiter waiter;
    struct rq_work work;
    /* outcome: exactly one */
    struct rq_views *reply;
    rmq_error *err;
};

/* The table of a producer. Counted: the producer, and each request that somebody still holds. NULL
 * when out of memory. */
struct rq_requests *rq_requests_create(struct rmq_producer *producer);
void rq_requests_release(struct rq_requests *requests);

/* Loop. A reply has come to the instance; false: it is none of this producer's requests. */
bool rq_requests_reply(struct rq_requests *requests, struct rq_peer *peer, struct rq_in *in);

/* No request is taken any more; waits until deadline_ms for replies, then completes the rest with
 * RMQ_ERR_CLOSED, and waits for callbacks, but not on the callback thread. false when some were cut
 * off. */
bool rq_requests_close(struct rq_requests *requests, int64_t deadline_ms);

/* Gives up timer and callback thread; after close, not on the callback thread. */
void rq_requests_end(struct rq_requests *requests);

/* Blocks until then, or until some request has come to its end. */
void rq_requests_pause(struct rq_requests *requests, int64_t until_ms);

/* ---- one request, any thread ---- */

/* With a correlation id of its own and one reference; in no table yet. NULL when out of memory. */
struct rq_pending *rq_pending_create(struct rq_requests *requests, int64_t timeout_ms);
void rq_pending_retain(struct rq_pending *request);
void rq_pending_drop(struct rq_pending *request); /* NULL is fine */

/* Into the table, which has a reference of its own. Errors: RMQ_ERR_CLOSED, RMQ_ERR_NOMEM, and what
 * starting the callback thread gives. */
rmq_status rq_pending_enlist(struct rq_requests *requests, struct rq_pending *request,
                             rmq_error **err);

/* A broker has it. */
void rq_pending_sent(struct rq_pending *request);

/* Out of the table, with its reference: the caller writes the outcome and completes it. false: it
 * has been claimed. */
bool rq_pending_claim(struct rq_pending *request);

/* Hands the outcome to where it goes. A request without callback and event queue is left to who
 * waits, and ends with rq_pending_completed. */
void rq_pending_complete(struct rq_pending *request);

/* The outcome of a claimed request has been taken; drops the table's reference. */
void rq_pending_completed(struct rq_pending *request);

#endif

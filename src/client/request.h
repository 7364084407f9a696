/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests of a producer: messages whose consumers reply, and the replies, which brokers push over
 * the producer's connections (326). Counterparts: DefaultMQProducerImpl.request,
 * RequestFutureHolder, MessageUtil.
 */
#ifndef RQ_CLIENT_REQUEST_H
#define RQ_CLIENT_REQUEST_H

#include <rmq/producer.h>

#include "client/instance.h"

struct rq_requests;

/* Requests of a producer that wait for replies. Counted: the producer, and each request that
 * somebody still holds. NULL when out of memory. */
struct rq_requests *rq_requests_create(struct rmq_producer *producer);
void rq_requests_release(struct rq_requests *requests);

/* Loop. A reply has come to the instance; false: it is none of this producer's requests. */
bool rq_requests_reply(struct rq_requests *requests, struct rq_peer *peer, struct rq_in *in);

/* No request is taken any more; waits until deadline_ms for replies, then completes the rest with
 * RMQ_ERR_CLOSED, and waits for callbacks, but not on the callback thread. false when some were cut
 * off. */
bool rq_requests_close(struct rq_requests *requests, int64_t deadline_ms);
/* gives up timer and callback thread; after close, not on it */
void rq_requests_end(struct rq_requests *requests);

#endif

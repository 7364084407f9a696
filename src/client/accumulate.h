/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Automatic batches: asynchronous sends of small messages wait a moment for others of their topic
 * and travel as one request. Each stays a send of its own, with its place in the window, its
 * callback or event, its queue offset. A batch leaves when it is full, by the thread that filled
 * it, or when its first message has waited long enough, by the I/O thread. Counterpart:
 * ProduceAccumulator.
 */
#ifndef RQ_CLIENT_ACCUMULATE_H
#define RQ_CLIENT_ACCUMULATE_H

#include "client/send.h"

struct rq_accumulator;

/* NULL when out of memory. */
struct rq_accumulator *rq_accumulator_create(struct rmq_producer *producer);
void rq_accumulator_free(struct rq_accumulator *accumulator); /* after close; NULL is accepted */

/* Whether the message, with so many more bytes of properties, may wait for others: small, not
 * delayed, not of a group, not to a retry topic. */
bool rq_accumulator_takes(const struct rq_accumulator *accumulator, const rmq_message *message,
                          size_t more);

/* Puts an operation with its message into the open batch of the topic. On RMQ_OK it completes
 * through rq_send_deliver. Errors: RMQ_ERR_TOO_LARGE (properties), RMQ_ERR_NOMEM; the operation is
 * the caller's then. */
rmq_status rq_accumulator_add(struct rq_accumulator *accumulator, struct rq_send_op *op,
                              const rmq_message *message, rmq_error **err);

/* Sends all open batches now. NULL is accepted. */
void rq_accumulator_flush(struct rq_accumulator *accumulator);

/* No batch leaves by itself any more; what is still open is flushed. NULL is accepted. */
void rq_accumulator_close(struct rq_accumulator *accumulator);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Transactions of a producer: ending them (transaction.c), and the broker's questions about those
 * that were not ended (transaction_check.c), answered on the callback thread or through the event
 * queue. Counterparts: TransactionMQProducer, DefaultMQProducerImpl.checkTransactionState.
 */
#ifndef RQ_CLIENT_TRANSACTION_H
#define RQ_CLIENT_TRANSACTION_H

#include <rmq/producer.h>

#include "base/buf.h"
#include "client/instance.h"
#include "wire/command.h"

struct rq_checks;

/* Questions to a producer. Counted: the producer, and each question that somebody still holds. NULL
 * when out of memory. */
struct rq_checks *rq_checks_create(struct rmq_producer *producer);
void rq_checks_release(struct rq_checks *checks);

/* Loop. A question has come. */
void rq_checks_ask(struct rq_checks *checks, struct rq_peer *peer, struct rq_in *in);

/* No callback begins any more; waits for the one that runs until deadline_ms, but not on the
 * callback thread. */
void rq_checks_close(struct rq_checks *checks, int64_t deadline_ms);
/* gives up the callback thread; after close, not on it */
void rq_checks_end(struct rq_checks *checks);

/* What END_TRANSACTION says of a state. */
int32_t rq_transaction_sys_flag(rmq_transaction_state state);

#endif

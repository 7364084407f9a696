/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queues and index that lost something: made again from the commit log, though the walk of recovery
 * does not come by there. Recovery only. */
#ifndef RQ_STORE_HEAL_H
#define RQ_STORE_HEAL_H

#include "store/store_priv.h"

/* What a queue lacks of messages before upto. */
rmq_status rq_heal_queue(struct rq_store *store, struct rq_consume_queue *queue, int64_t upto,
                         rmq_error **err);

/* The same for all queues that are marked for rebuilding, along the log once. */
rmq_status rq_heal_marked(struct rq_store *store, int64_t upto, rmq_error **err);

/* The whole index from the whole log. */
rmq_status rq_heal_index(struct rq_store *store, int64_t upto, rmq_error **err);

#endif

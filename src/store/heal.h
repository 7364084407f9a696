/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queues and index that lost something: made again from the commit log, though the walk of recovery
 * does not come by there. Recovery only. */
#ifndef RQ_STORE_HEAL_H
#define RQ_STORE_HEAL_H

#include "store/store_priv.h"

/* Before a record is dispatched that recovery meets, following the log from walked on: when its
 * queue lacks messages before walked, as after the deletion of a topic, they are put there, and
 * those of all other queues with records behind, along the log once. *healed: up to which record
 * that is done; 0 at first. */
rmq_status rq_heal_before(struct rq_store *store, const struct rq_record *record, int64_t walked,
                          int64_t *healed, rmq_error **err);

/* Drops the entries of a queue behind the last one that the log agrees with, and marks the queue for
 * rebuilding: what lacks entries may have wrong ones before the hole. */
rmq_status rq_heal_cut(struct rq_store *store, struct rq_consume_queue *queue, rmq_error **err);

/* Messages before upto of all queues that are marked for rebuilding. */
rmq_status rq_heal_marked(struct rq_store *store, int64_t upto, rmq_error **err);

/* The whole index from the whole log. */
rmq_status rq_heal_index(struct rq_store *store, int64_t upto, rmq_error **err);

#endif

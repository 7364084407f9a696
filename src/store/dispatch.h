/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The dispatcher follows the commit log: queue entry, index entry, notice to the listener. There is
 * no thread and no polling: whoever appended runs it, and a thread that finds another at it leaves
 * its records to that one. Counterpart: ReputMessageService.
 */
#ifndef RQ_STORE_DISPATCH_H
#define RQ_STORE_DISPATCH_H

#include "base/thread.h"
#include "store/commit_log.h"
#include "store/record.h"

struct rq_dispatcher {
    struct rq_mutex role; /* held by the thread that dispatches */
    /* atomic: seq_cst, so that a caller whose trylock fails is seen by the holder after its
     * unlock */
    atomic_bool pending;
    /* atomic: commit-log offset up to which entries exist; release behind them */
    atomic_llong done;
    /* atomic: relaxed; a test keeps it from going on */
    atomic_bool paused;
    /* immutable once messages come */
    rq_store_arrival_fn arrived;
    void *user;
    /* guarded by role */
    struct rq_log_reader reader;
    struct rq_consume_queue *touched;    /* borrowed: queues are removed with the role only */
    struct rq_consume_queue *last_queue; /* of the last record: neighbours are often of one queue */
    bool failing;
    /* atomic: store time of the last record with entries; release behind them */
    atomic_llong last_time;
};

void rq_dispatcher_init(struct rq_dispatcher *dispatcher);
void rq_dispatcher_free(struct rq_dispatcher *dispatcher);

/* Makes the entries of one record; recovery uses it, too. With the role, or before other threads
 * exist. */
rmq_status rq_dispatch_record(struct rq_store *store, const struct rq_record *record,
                              rmq_error **err);

/* Keeps the dispatcher away, and lets it go on with what came meanwhile. Not from the listener. */
void rq_dispatch_hold(struct rq_store *store);
void rq_dispatch_let_go(struct rq_store *store);

/* Runs to the end with the role held by the caller, telling the listener. */
void rq_dispatch_run_locked(struct rq_store *store);

#endif

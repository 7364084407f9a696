/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The inside of the checkpoints, shared by pop_checkpoint.c (table, records) and pop_revive.c (what
 * happens when their time is up). */
#ifndef RQ_BROKER_POP_PRIV_H
#define RQ_BROKER_POP_PRIV_H

#include "broker/pop_checkpoint.h"

struct rq_pop_pending {
    struct rq_pop_checkpoint checkpoint; /* texts below; acked is guarded by the table's lock */
    int64_t deadline_ms;                 /* wall clock */
    int32_t revive_qid;
    int64_t record; /* queue offset of its record */
    size_t heap_at;
    struct rq_list by_record;
    char text[];
};

/* Found by nobody any more; its record still counts as not done. */
void rq_pop_pending_leave_locked(struct rq_pops *pops, struct rq_pop_pending *pending);

/* Its record is done. Frees it. */
void rq_pop_pending_end_locked(struct rq_pop_pending *pending);

/* Found again, with another deadline. When there is no place for it, its record goes on counting as
 * not done, so that a restart finds it. */
void rq_pop_pending_come_back_locked(struct rq_pops *pops, struct rq_pop_pending *pending,
                                     int64_t deadline_ms);

/* The record of an acknowledgement; what it is of stays as it was. */
rmq_status rq_pops_append_ack_locked(struct rq_pops *pops, int32_t revive_qid,
                                     const struct rq_pop_ack *ack, int64_t deliver_ms);

/* ---- pop_revive.c ---- */

void rq_pops_init_timer(struct rq_pops *pops);
void rq_pops_arm_locked(struct rq_pops *pops); /* the earliest deadline may have changed */

#endif

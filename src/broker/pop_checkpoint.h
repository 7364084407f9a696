/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What was popped and is not acknowledged. Each pop of a queue leaves a checkpoint, in memory and
 * as a record of the revive topic; acknowledgements are records behind it. When its time is up,
 * what lacks an acknowledgement goes to the group's retry topic. After a restart the table is made
 * from the records. Records and topics are those of the Java broker; other than there they are
 * written at once and not by a timer. Any thread. Counterparts: PopBufferMergeService,
 * PopReviveService.
 */
#ifndef RQ_BROKER_POP_CHECKPOINT_H
#define RQ_BROKER_POP_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/list.h"
#include "base/map.h"
#include "base/thread.h"
#include "net/loop.h"
#include "wire/names.h"
#include "wire/pop.h"

#define RQ_POP_REVIVE_QUEUES 8

struct rmq_broker;
struct rq_pop_pending;

struct rq_pops {
    struct rmq_broker *broker;
    struct rq_loop *loop;           /* background; a reference; NULL = not initialised */
    char revive_topic[RQ_NAME_MAX]; /* immutable after init */

    /* owned by the background loop */
    struct rq_timer timer;
    struct rq_task arm_task;
    bool stopped;

    /* rank: broker tables; guards all below, and is held while a record is appended */
    struct rq_mutex lock;
    struct rq_map pending;        /* key of a checkpoint -> struct rq_pop_pending */
    struct rq_pop_pending **heap; /* the earliest deadline first */
    size_t heap_count;
    size_t heap_cap;
    struct rq_list by_record[RQ_POP_REVIVE_QUEUES]; /* in the order of their records */
    int64_t last_record[RQ_POP_REVIVE_QUEUES];      /* newest record of the queue; -1 = none */
    uint32_t turn;                                  /* chooses the revive queue */
    int64_t armed_ms; /* wall clock; when the timer will look; INT64_MAX = not at all */
};

rmq_status rq_pops_init(struct rq_pops *pops, struct rmq_broker *broker, struct rq_loop *background,
                        rmq_error **err);

/* Reads the records; when store and tables are there, before the first request. */
void rq_pops_load(struct rq_pops *pops);
void rq_pops_start(struct rq_pops *pops);
void rq_pops_stop(struct rq_pops *pops); /* waits; not on the background loop */
/* how far the records are done, into the offsets table */
void rq_pops_commit(struct rq_pops *pops);
void rq_pops_free(struct rq_pops *pops);

int32_t rq_pops_next_queue(struct rq_pops *pops);

/* Appends a checkpoint's record and remembers it. Failure: nothing was popped. The caller
 * dispatches. */
rmq_status rq_pops_add(struct rq_pops *pops, int32_t revive_qid,
                       const struct rq_pop_checkpoint *checkpoint);

/* Acknowledges messages; those that nobody waits for (any longer) are passed over. RMQ_ERR_IO: the
 * record could not be written; all stays as it was. */
rmq_status rq_pops_ack(struct rq_pops *pops, int32_t revive_qid, const struct rq_pop_ack *ack);

#endif

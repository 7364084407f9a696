/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Transactional messages. A half message waits in the half topic until its producer ends it; what
 * has ended is noted in the op topic by the queue offset of the half message. The window tells of
 * each half message from the group's committed offset on whether it has ended. Those that have not
 * are asked about, from time to time, at a producer of their group. Topics, records and offsets are
 * those of the Java broker. Counterparts: TransactionalMessageServiceImpl,
 * TransactionalMessageBridge, TransactionalMessageCheckService, TransactionalOpBatchService.
 */
#ifndef RQ_BROKER_TRANSACTION_H
#define RQ_BROKER_TRANSACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/thread.h"
#include "broker/window.h"
#include "net/loop.h"
#include "store/store.h"
#include "wire/message.h"

#define RQ_TRANSACTION_CLAIMS_MAX 72 /* one of each loop that serves connections */

struct rmq_broker;

/* A record of the op topic that was read and still speaks of half messages in the window. */
struct rq_op_mark {
    int64_t op_offset;
    int64_t highest; /* half message that it names */
};

struct rq_transactions {
    struct rmq_broker *broker;
    struct rq_loop *loop; /* background; a reference; NULL = not initialised */

    /* owned by the background loop */
    struct rq_timer check_timer;
    struct rq_timer op_timer;
    struct rq_task op_task;
    bool stopped;
    bool in_round;
    int64_t scan_at; /* next half message of the round */
    int64_t scan_end;
    int64_t op_next;        /* next op record to read */
    struct rq_op_mark *ops; /* a queue: [op_first, op_first + op_count) */
    size_t op_first;
    size_t op_count;
    size_t op_cap;
    uint32_t turn; /* which producer of a group is asked next */

    struct rq_mutex lock;                      /* rank: broker tables; guards all below */
    struct rq_window window;                   /* of half messages: done is ended */
    int64_t claims[RQ_TRANSACTION_CLAIMS_MAX]; /* half messages that somebody is ending just now */
    size_t claim_count;
    int64_t looked_at; /* half message that the check has in hand; RQ_ENDED = none */
    struct rq_cond looked;
    /* unique key -> struct moved: half messages that a check has written anew */
    struct rq_map moved;
    struct rq_buf op_text; /* "12,13,": what the next op record will say */
};

rmq_status rq_transactions_init(struct rq_transactions *transactions, struct rmq_broker *broker,
                                struct rq_loop *background, rmq_error **err);
void rq_transactions_start(struct rq_transactions *transactions);
/* waits; not on the background loop */
void rq_transactions_stop(struct rq_transactions *transactions);
/* Writes what the op topic still lacks: when no request can come any more, before the store
 * closes. */
void rq_transactions_finish(struct rq_transactions *transactions);
void rq_transactions_free(struct rq_transactions *transactions);

/* Makes a half message of msg; props is the caller's, to be freed after the append. */
void rq_transaction_prepare(struct rq_msg *msg, struct rq_slice unique_key, struct rq_buf *props);

/* Takes the right to end a half message: the offset to settle or let go afterwards, which is that
 * of its newest copy. RQ_ENDED: it has ended already, or is being ended. While the check has it in
 * hand, waits: a copy may come of it, and an answer to a question may come that soon. Any thread but
 * that of the check. */
#define RQ_ENDED (-1)
int64_t rq_transaction_claim(struct rq_transactions *transactions, int64_t half_offset,
                             struct rq_slice unique_key);
void rq_transaction_settle(struct rq_transactions *transactions, int64_t claimed);
void rq_transaction_let_go(struct rq_transactions *transactions, int64_t claimed);

/* A half message was written anew at offset; it is ended there. Before its old copy is settled. */
void rq_transaction_moved(struct rq_transactions *transactions, struct rq_slice unique_key,
                          int64_t offset);

/* For the check, on the background loop. */
/* Takes a half message in hand, one at a time; false when it has ended, or somebody is ending it. */
bool rq_transaction_look(struct rq_transactions *transactions, int64_t half_offset);
/* Gives back what was taken in hand; ended: by the check itself. */
void rq_transaction_looked(struct rq_transactions *transactions, bool ended);
bool rq_transaction_has_ended(struct rq_transactions *transactions, int64_t half_offset);
/* an op record says so */
void rq_transaction_mark(struct rq_transactions *transactions, int64_t half_offset);
/* Moves the window to its first message that has not ended, at least to min (retention took the
 * rest), at most to end; the new base. */
int64_t rq_transaction_advance(struct rq_transactions *transactions, int64_t min, int64_t end);
void rq_transaction_forget(struct rq_transactions *transactions, struct rq_slice unique_key);
void rq_transaction_check(struct rq_timer *timer);
/* also when nobody else runs any more */
void rq_transaction_write_ops(struct rq_transactions *transactions);

/* Takes in the op records that have come; RMQ_ERR_BUSY: there are more, call again. */
rmq_status rq_transaction_read_ops(struct rq_transactions *transactions);

/* The record of a queue's message; false when it is not there. Release it. */
bool rq_transaction_record(struct rmq_broker *broker, const char *topic, int64_t offset,
                           struct rq_store_ref *ref, struct rq_msg *msg);

#endif

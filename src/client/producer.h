/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a producer, shared by the files that make it up: producer.c (creation, entering),
 * producer_send.c (blocking sends), producer_async.c (the others), producer_request.c (requests),
 * producer_queue.c (where they go), producer_trace.c (records of its sends), producer_close.c
 * (shutdown). Counterpart: DefaultMQProducerImpl.
 */
#ifndef RQ_CLIENT_PRODUCER_H
#define RQ_CLIENT_PRODUCER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/producer.h>

#include "base/thread.h"
#include "client/instance.h"
#include "client/options.h"

struct rq_send_pool;   /* client/send.h */
struct rq_trace;       /* client/trace.h */
struct rq_hooks;       /* client/hooks.h */
struct rq_accumulator; /* client/accumulate.h */

struct rmq_producer {
    /* immutable after create */
    uint64_t mark; /* rq_fork_mark of the process that made it */
    rmq_producer_options options;
    int compression; /* enum rq_compression, 0 = none */
    int32_t retry_codes[RQ_RETRY_CODES_MAX];
    size_t retry_code_count;
    struct rq_instance *instance;
    struct rq_send_pool *pool;
    /* atomic: release when made, acquire by readers; NULL until the trace is switched on for the
     * first time. */
    _Atomic(struct rq_trace *) trace;
    /* atomic: release when added, acquire by senders; NULL = none. */
    _Atomic(struct rq_hooks *) hooks;
    struct rq_accumulator *accumulator; /* NULL without autoBatch */
    struct rq_timer stats_timer;        /* owned by the loop */
    struct rq_member member;
    struct rq_watch brokers; /* of the template topic, see watch_brokers; owned by the loop */
    bool is_member;
    struct rq_checks *checks;     /* client/transaction.h */
    struct rq_requests *requests; /* client/requests.h */

    atomic_uint next_queue; /* atomic: relaxed: round robin */
    /* A thread counts itself and then looks whether the producer is closed; shutdown closes and
     * then looks whether somebody is inside: one of them sees the other, so nobody uses the
     * instance after it is given up. */
    atomic_uint entered; /* atomic: seq_cst up, release down */
    atomic_bool closed;  /* atomic: seq_cst */

    struct rq_mutex lock; /* rank 5: life; never held while a send or the loop is waited for */
    struct rq_cond ended;
    int life;          /* guarded by lock: enum in producer_close.c */
    bool has_instance; /* guarded by lock */
};

/* ---- producer.c ---- */

/* Hooks of a send that passed the checks, see rq_hooks_begin. */
struct rmq_send_context;
rmq_status rq_producer_begin_hooks(struct rmq_producer *producer,
                                   const rmq_message *const *messages, size_t count,
                                   rmq_send_mode mode, struct rmq_send_context **out,
                                   rmq_error **err);
/* The same of rq_hooks_end, on the sender's thread. */
void rq_producer_end_hooks(const struct rmq_producer *producer, struct rmq_send_context *context,
                           const rmq_send_result *result, const rmq_error *err);

/* What a send carries, under full names: the program's messages, or with a namespace copies of them
 * that unname frees. */
struct rq_named {
    const rmq_message *const *messages;
    rmq_message **copies; /* NULL: none were needed */
    size_t count;
};
rmq_status rq_producer_name(const struct rmq_producer *producer, const rmq_message *const *messages,
                            size_t count, struct rq_named *out, rmq_error **err);
void rq_producer_unname(struct rq_named *named);

/* A thread enters before it uses the instance and leaves after it. Errors: RMQ_ERR_INVALID,
 * RMQ_ERR_FORKED, RMQ_ERR_CLOSED. */
rmq_status rq_producer_enter(struct rmq_producer *producer, rmq_error **err);
void rq_producer_leave(struct rmq_producer *producer);

/* Around calls to the program from inside a send of the producer, on the sender's thread: what was
 * set before is returned, to be set again. asks: whether this thread is in such a call, where a
 * shutdown would wait for the send for ever. */
const struct rmq_producer *rq_producer_set_asking(const struct rmq_producer *producer);
bool rq_producer_asks(const struct rmq_producer *producer);

/* For the library's own messages (send-back to a retry topic): a producer on an instance that
 * somebody else holds, without a group of its own at the brokers. */
rmq_status rq_producer_create_inner(struct rq_instance *instance,
                                    const rmq_producer_options *options, rmq_producer **out,
                                    rmq_error **err);

/* ---- producer_send.c ---- */

/* timeout_ms 0: the option's. */
int64_t rq_producer_deadline_ms(const struct rmq_producer *producer, int64_t now_ms,
                                int64_t timeout_ms);

/* A blocking send of a half message; *result is the caller's on RMQ_OK. */
rmq_status rq_producer_send_half(struct rmq_producer *producer, const rmq_message *message,
                                 int64_t timeout_ms, rmq_send_result **result, rmq_error **err);

/* ---- producer_async.c ---- */

/* Sends a message of the library's own; done is called exactly once when RMQ_OK was returned (see
 * RQ_SEND_INNER), and never otherwise. */
rmq_status rq_producer_send_inner(struct rmq_producer *producer, const rmq_message *message,
                                  rmq_send_fn done, void *user, rmq_error **err);

/* ---- producer_trace.c ---- */

/* An operation was answered: leaves a record. Machine. */
struct rq_send_op;
struct rq_hdr_send_response;
void rq_producer_trace_sent(struct rmq_producer *producer, const struct rq_send_op *op,
                            const struct rq_hdr_send_response *fields);

/* A transaction was decided; what the record does not have yet is filled in. Any thread that has
 * entered. */
struct rq_trace_end;
void rq_producer_trace_ended(struct rmq_producer *producer, struct rq_trace_end *record,
                             rmq_transaction_state state);

/* ---- producer_stats.c ---- */

void rq_producer_stats_start(struct rmq_producer *producer); /* loop */
void rq_producer_stats_stop(struct rmq_producer *producer);  /* loop; harmless twice */

/* ---- producer_close.c ---- */

/* Everything has been completed: gives up what is shared. Not on the callback thread. */
void rq_producer_give_up(struct rmq_producer *producer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What files of a send share: send_prepare.c (single messages) and send_batch.c, on the sender's
 * thread; send.c and send_again.c; send_pool.c (operation objects) and send_complete.c, any thread.
 */
#ifndef RQ_CLIENT_SEND_PRIV_H
#define RQ_CLIENT_SEND_PRIV_H

#include "client/send.h"

/* Whether clients may send to it at all. Errors: RMQ_ERR_INVALID. */
rmq_status rq_send_check_topic(const rmq_message *message, rmq_error **err);

/* Appends "name 0x01 value 0x02" for each pair of the message; the counts of a retry only when they
 * do not travel in the header. */
void rq_send_add_pairs(struct rq_buf *out, struct rq_slice pairs, bool counts_too);

/* WAIT, UNIQ_KEY, and with a level above 0 DELAY. */
void rq_send_add_own(struct rq_buf *out, const char *unique_id, size_t unique_n, bool wait,
                     int32_t delay_level);
rmq_status rq_send_check_properties(size_t size, const char *topic, rmq_error **err);

/* The operation's text: topic, then properties, which the caller appends in between. */
void rq_send_begin_text(struct rq_send_op *op, const rmq_message *message);
rmq_status rq_send_end_text(struct rq_send_op *op, rmq_error **err);

/* A body of what the buffer holds, which is detached; NULL when out of memory. */
struct rq_body *rq_send_wrap_buf(struct rq_buf *buf);

/* ---- send_pool.c; those that end in locked with the pool's lock ---- */

void rq_send_leave_window_locked(struct rq_send_op *op);
/* An operation is off the active list, or the callbacks have run. */
void rq_send_tell_drain_locked(struct rq_send_pool *pool);

/* A one-way send that waits for its connection: it is counted when that has it, or it is dropped.
 * Errors of rq_peer_oneway. */
rmq_status rq_send_keep_oneway(struct rq_send_op *op, struct rq_peer *peer, struct rq_out *out);

/* By an attempt that has ended. Machine. */
static inline bool rq_send_may_be_stored(const struct rq_send_op *op)
{
    return op->maybe_stored || op->has_result;
}

/* A send is over: counts it, once. */
void rq_send_count_locked(struct rq_send_op *op);

/* The completion was received. The object must be off the active list: the machine may put it among
 * the free ones from here on. Returns whether the machine has ended; if not, it frees the object
 * when it does. */
bool rq_send_note_consumed(struct rq_send_op *op);

/* What a send leaves behind; without the lock. Then it is put among the free ones, whose references
 * of the pool are dropped last. */
void rq_send_clean(struct rq_send_op *op);
void rq_send_put_free_locked(struct rq_send_pool *pool, struct rq_send_op *op);
void rq_send_unlock_and_drop(struct rq_send_pool *pool, unsigned refs);
void rq_send_recycle(struct rq_send_op *op); /* all of it for one; without the lock */

/* ---- send.c ---- */

/* Makes attempts until one is under way or the send is over. */
void rq_send_make_attempts(struct rq_send_op *op);

/* The call of an attempt, to the broker of op->queue. Errors: RMQ_ERR_CLOSED (cut off) and those of
 * rq_peer_call. */
rmq_status rq_send_call(struct rq_send_op *op, int64_t deadline_ms, enum rq_call_mode mode);

/* What an attempt met with that got no answer. */
void rq_send_note_status(struct rq_send_op *op, rmq_status status);

/* ---- send_line.c ---- */

/* The call of an attempt to a fixed queue: sends to one queue keep their order, so one that finds
 * no connection waits in line, at the newest address of its broker, however often there is none. */
rmq_status rq_send_in_line(struct rq_send_op *op, int64_t deadline_ms);

/* The same message queue, wherever it is by this route; without it there all stays. */
void rq_send_take_route(struct rq_send_op *op, struct rq_route *route);

/* ---- send_again.c: loop ---- */

/* Goes on after so many ms: with the next attempt, or with the end when there is none. */
void rq_send_pause(struct rq_send_op *op, int64_t ms);

/* A busy broker that no other can stand in for gets some time: attempts at once would all fall into
 * the same moment. false: not now. */
bool rq_send_pause_first(struct rq_send_op *op, int32_t code, int64_t now_ms);

/* A connection that could not be made took nothing of the message, and is tried for ever. While no
 * other broker could take it, waiting for this one is no attempt, unless the attempt's share is
 * used up. Gives the send one more attempt then. One to a fixed queue waits within its attempt
 * instead, in order. */
void rq_send_uncount_wait(struct rq_send_op *op, rmq_status status, int64_t now_ms);

/* The broker does not lead the logical queue: nothing is stored and nobody is to blame, so being
 * asked at the wrong place is no attempt. The newest route tells who does; while queues are being
 * moved name servers may not know either, so the second time in a row (again) waits first. false:
 * there is no time left for it. */
bool rq_send_follow_queue(struct rq_send_op *op, bool again, int64_t now_ms);

/* ---- send_complete.c ---- */

/* The machine of an operation that the shutdown had claimed has ended; state: just before. */
void rq_send_end_cut(struct rq_send_op *op, unsigned state);

void rq_send_run_callbacks(struct rq_work *work);
void rq_send_post_work(struct rq_task *task);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Inside of calls, for net only. */
#ifndef RQ_NET_CALL_PRIV_H
#define RQ_NET_CALL_PRIV_H

#include "net/call.h"

/* Ends a call that is in no table and no waiting list: permit, then done. */
void rq_call_complete(struct rq_call *call, rmq_status st, struct rq_in *in);

/* rq_call_start without touching peer and finished. */
rmq_status rq_call_enter(struct rq_conn *conn, struct rq_call *call, struct rq_out *out,
                         int64_t deadline_ms);

/* Fills in what a blocking call needs. rq_sync_wait sleeps until done or the deadline, which
 * takes the call back. */
void rq_sync_prepare(struct rq_sync_call *sync);
rmq_status rq_sync_wait(struct rq_sync_call *sync, int64_t deadline_ms);

/* rq_call_cancel for a call of a peer, in its table or waiting for a connection. client.c. */
bool rq_peer_take_back(struct rq_peer *peer, struct rq_call *call);

bool rq_call_take_out(struct rq_conn *conn, struct rq_call *call);

/* Keeps the whole answer: on_answer of rq_peer_call_reply. */
struct rq_reply_call {
    struct rq_sync_call sync;
    struct rq_reply *reply;
};
void rq_reply_prepare(struct rq_reply_call *call, struct rq_reply *reply);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Request and answer: a call waits in its connection's table under its opaque until the answer, its
 * deadline, or the end of the connection. The caller embeds struct rq_call; net allocates nothing
 * per call. Exactly one of these happens to a started call: done is called once, or rq_call_cancel
 * took it back. Works in both directions (a broker calls its clients, too). Counterpart:
 * ResponseFuture.
 */
#ifndef RQ_NET_CALL_H
#define RQ_NET_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/list.h"
#include "net/conn.h"
#include "net/gate.h"

struct rq_peer;

struct rq_call {
    /* Set by the caller. On the loop thread; answer is NULL unless status is RMQ_OK (then its
     * code may be any) and valid during the call. status: RMQ_OK, RMQ_ERR_TIMEOUT,
     * RMQ_ERR_DISCONNECTED, RMQ_ERR_CONNECT or RMQ_ERR_RESOLVE (peer.h), RMQ_ERR_CLOSED. The
     * call is the caller's again when done is entered. */
    void (*done)(struct rq_call *call, rmq_status status, struct rq_in *answer);
    void *user;
    /* Nobody sleeps for this answer: while many such calls are under way, it may be taken up to
     * 2 ms later, together with others. */
    bool bulk;

    /* Readable in done and after: whether the request may have reached the peer (written, or
     * perhaps written). */
    bool maybe_sent;
    int64_t deadline_ms; /* likewise: the one that it was given; monotonic */

    /* Private. */
    struct rq_conn *conn; /* whose table it is in; not referenced */
    struct rq_peer *peer; /* of rq_peer_call */
    struct rq_out *out;   /* while it waits for a connection: guarded by the peer's lock */
    struct rq_list node;  /* likewise; then the sweep's and the end's own */
    int32_t opaque;
    bool patient; /* RQ_PATIENT */
    bool failing; /* guarded by the peer's lock: the loop has it off the waiting list, to end it */
    void (*finished)(struct rq_call *call); /* before done, or when taken back; NULL = none */
};

/* Sends the request and waits in the background. Takes out in any case. RMQ_OK: done will be
 * called. Any other: it will not; the status says why (RMQ_ERR_DISCONNECTED, RMQ_ERR_BUSY,
 * RMQ_ERR_NOMEM, RMQ_ERR_FORKED). done may run before this returns. deadline_ms is monotonic
 * (rq_deadline_ms), kept to about 10 ms. Any thread that holds a reference to conn. */
rmq_status rq_call_start(struct rq_conn *conn, struct rq_call *call, struct rq_out *out,
                         int64_t deadline_ms);

/* Takes a call back. true: done was not called and will not be. false: done has been called, or
 * is being called now. On the loop thread, for a call whose done has not been called; on another
 * thread only by who holds a reference to the connection (rq_call_start) or the peer
 * (rq_peer_call) of the call. */
bool rq_call_cancel(struct rq_call *call);

/* What a blocking caller gets. header and body lie in ref's bytes. */
struct rq_reply {
    struct rq_frame_ref *ref;
    struct rq_slice body;
    struct rq_header header;
};

/* A blocking call: sends, sleeps, and wakes with the answer. Must not run on the loop thread.
 * on_answer (may be NULL) reads the answer on the loop thread while the caller sleeps: the
 * cheapest way, nothing is copied. */
struct rq_sync_call {
    struct rq_call call; /* call.user is free for on_answer */
    void (*on_answer)(struct rq_sync_call *sync, struct rq_in *answer);
    struct rq_gate gate; /* private */
    rmq_status status;
};

void rq_reply_free(struct rq_reply *reply); /* harmless for a zeroed one */

#endif

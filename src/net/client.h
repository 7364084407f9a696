/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Peers: the remote addresses of one client (or of a broker that registers with name servers), one
 * connection each, on one loop. A peer connects in the background at first use and again whenever
 * its connection ends while somebody holds it: at once the first time, then with back-off (100 ms,
 * growing to 4 s, with jitter, but 1 s at most while calls wait: a process is about one attempt per
 * second and address at most). Each attempt resolves the name anew and tries all its addresses. An
 * outage is logged when it starts and when it ends. Counterpart: NettyRemotingClient.
 */
#ifndef RQ_NET_CLIENT_H
#define RQ_NET_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/slice.h"
#include "net/call.h"
#include "net/conn.h"
#include "net/loop.h"

struct rq_peers;
struct rq_peer;

struct rq_peers_options {
    /* All on the loop thread, all may be NULL. */
    /* Answer with rq_peer_send or rq_conn_send(in->conn). */
    void (*on_request)(void *user, struct rq_peer *peer, struct rq_in *in);
    void (*on_connected)(void *user, struct rq_peer *peer);
    void (*on_disconnected)(void *user, struct rq_peer *peer, rmq_status why);
    /* Seam for TLS: how the bytes of a new connection move; *self is its own. NULL = plain.
     * Returns NULL when out of memory. */
    const struct rq_transport *(*transport)(void *user, struct rq_peer *peer, void **self);
    void *user;
    int64_t connect_timeout_ms; /* per address; 0 = 3000 */
    int64_t idle_ms;            /* 0 = 120000 */
    int64_t backoff_first_ms;   /* 0 = 100 */
    int64_t backoff_most_ms;    /* 0 = 4000; the wait is half of it or more */
    size_t max_frame;           /* 0 = RQ_NET_MAX_FRAME */
    size_t max_queued;          /* output bytes per connection; 0 = 64 MiB */
    int32_t max_async;          /* asynchronous calls in flight of all peers together; 0 = 65535 */
    int32_t max_oneway;         /* one-way frames not yet written, likewise; 0 = 65535 */
    bool hidden;                /* connections are not for children of fork (base/fork.h) */
};

enum rq_call_mode {
    RQ_WAIT, /* not connected: wait for the connection, until the deadline or a failed attempt */
    RQ_FAIL_FAST, /* as RQ_WAIT, but fail at once while attempts fail or one takes very long */
    RQ_PATIENT,   /* wait until the deadline, whatever fails in between */
    RQ_AT_ONCE    /* do not wait: RMQ_ERR_DISCONNECTED */
};

/* Keeps a reference to the loop. Any thread. */
rmq_status rq_peers_create(struct rq_loop *loop, const struct rq_peers_options *options,
                           struct rq_peers **out, rmq_error **err) RMQ_MUST_USE;

/* Completes all calls (RMQ_ERR_CLOSED), closes all connections; when it returns no callback runs
 * or will run. Peers still held by somebody stay valid, closed, until released. Called on the
 * loop thread it does the same without waiting. NULL is accepted. */
void rq_peers_destroy(struct rq_peers *peers);

/* The peer of an address "host:port", "[v6]:port"; made and connecting when new. The caller
 * holds a reference. Any thread. RMQ_ERR_INVALID: no such form; RMQ_ERR_CLOSED, RMQ_ERR_NOMEM,
 * RMQ_ERR_FORKED. */
rmq_status rq_peer_get(struct rq_peers *peers, const char *address, struct rq_peer **out,
                       rmq_error **err) RMQ_MUST_USE;
struct rq_peer *rq_peer_retain(struct rq_peer *peer);
/* The connection stays until it is idle; NULL is accepted. */
void rq_peer_put(struct rq_peer *peer);

/* What log lines call the peer ("namesrv=…" instead of "peer=…"). Loop, before it returns to the
 * loop for the first time; static text. */
void rq_peer_set_role(struct rq_peer *peer, const char *role);

const char *rq_peer_address(const struct rq_peer *peer); /* as given; immutable */
bool rq_peer_connected(struct rq_peer *peer);            /* any thread; a hint */

/* The current connection, retained for the caller, or NULL. Any thread. */
struct rq_conn *rq_peer_conn(struct rq_peer *peer);

/* What hinders the peer: the last connect attempt's failure ("connect to a:1 (10.0.0.1:1):
 * Connection refused"), made into an error of the given status. Any thread. Returns status. */
rmq_status rq_peer_error(struct rq_peer *peer, rmq_status status, rmq_error **err);

/* An asynchronous call: as rq_call_start, plus waiting for the connection; one that had none at its
 * deadline ends with the reason of that (RMQ_ERR_CONNECT, RMQ_ERR_RESOLVE), not with
 * RMQ_ERR_TIMEOUT. RMQ_ERR_BUSY also when max_async are in flight. done is never called within this
 * function when it runs on the loop thread. */
rmq_status rq_peer_call(struct rq_peer *peer, struct rq_call *call, struct rq_out *out,
                        int64_t deadline_ms, enum rq_call_mode mode);

/* Takes a call of rq_peer_call back that still waits for a connection of this peer: nothing of it
 * was sent, and nothing will be. false: it does not wait, or not yet. Any thread, also while
 * another one is making the call. */
bool rq_peer_take_waiting(struct rq_peer *peer, struct rq_call *call);

/* Blocking calls, not on the loop thread; they end likewise. */
rmq_status rq_peer_call_sync(struct rq_peer *peer, struct rq_sync_call *sync, struct rq_out *out,
                             int64_t deadline_ms, enum rq_call_mode mode);
rmq_status rq_peer_call_reply(struct rq_peer *peer, struct rq_out *out, int64_t deadline_ms,
                              enum rq_call_mode mode, struct rq_reply *reply);

/* A frame that expects no answer: one-way request, or an answer to the peer's request. Takes out
 * in any case. Not connected: RMQ_ERR_DISCONNECTED, and a connection is begun; RMQ_ERR_BUSY when
 * max_oneway are queued. To wait for the connection instead use rq_peer_oneway, which keeps the
 * frame until connected or deadline_ms, whatever fails in between. Then over (NULL: nobody asks) is
 * called once for each RMQ_OK, on the loop or within rq_peer_oneway: RMQ_OK when a connection has
 * the frame, else why it was dropped. */
rmq_status rq_peer_send(struct rq_peer *peer, struct rq_out *out);
typedef void rq_oneway_over(void *user, struct rq_peer *peer, rmq_status status);
rmq_status rq_peer_oneway(struct rq_peer *peer, struct rq_out *out, int64_t deadline_ms,
                          rq_oneway_over *over, void *user);

/* Drops the current connection, as when the peer said that it goes away; a new one is made at
 * once. Any thread. */
void rq_peer_reset(struct rq_peer *peer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Inside of peers, for net only: client.c (peers), client_connect.c (their connections),
 * client_call.c (calls). */
#ifndef RQ_NET_CLIENT_PRIV_H
#define RQ_NET_CLIENT_PRIV_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "base/thread.h"
#include "net/client.h"
#include "net/connect.h"
#include "net/gate.h"
#include "net/loop_priv.h"

struct rq_peers {
    /* immutable after create */
    struct rq_loop *loop; /* referenced until destroy, held until freed */
    struct rq_peers_options options;

    _Atomic uint32_t refs; /* atomic: as any count; the creator, each peer, each one-way frame */
    _Atomic int32_t async_calls; /* atomic: relaxed; permits taken */
    _Atomic int32_t oneways;     /* atomic: relaxed */
    _Atomic size_t oneway_bytes; /* atomic: relaxed; of those that wait for a connection */

    struct rq_mutex lock; /* rank 88 */
    /* guarded by lock */
    struct rq_map peers; /* by address; each holds a reference */
    bool closed;

    /* owned by the loop's thread */
    int open;              /* connections whose on_close has not come */
    struct rq_gate *ended; /* opened when open is 0 after destroy */
};

struct rq_peer {
    /* immutable after create */
    struct rq_peers *peers; /* referenced */
    char *address;
    char host[RQ_HOST_MAX];
    uint16_t port;

    _Atomic uint32_t refs;    /* atomic: as any count */
    _Atomic uint32_t holders; /* atomic: as any count; references of users */

    struct rq_mutex lock; /* rank 90 */
    /* guarded by lock */
    struct rq_conn *conn;   /* referenced; NULL when not connected */
    struct rq_list waiting; /* calls without a connection, oldest first */
    bool closed;
    bool kick_posted;
    bool connecting;         /* written by the loop only */
    int64_t attempt_ms;      /* when the last attempt began */
    bool failing;            /* it, or the one before, failed */
    rmq_status failure;      /* why */
    int64_t next_attempt_ms; /* not before, unless calls wait and */
    int64_t wanted_attempt_ms;
    char *reason; /* text, or NULL */

    struct rq_task kick_task; /* posted at most once at a time: kick_posted */

    /* owned by the loop's thread */
    struct rq_connect connect;
    const char *role; /* in log lines; static */
    bool dormant;     /* closed as idle: connects again when asked, not by itself */
    int64_t connected_ms;
    int64_t backoff_ms; /* 0 = the next attempt is at once */
    int64_t outage_ms;  /* when the outage that was logged began, 0 = none */
    int attempts;       /* since then */
    uint32_t seed;      /* of the jitter */
    struct rq_timer retry_timer;
    struct rq_timer wait_timer; /* earliest deadline of waiting */
};

/* client.c */
void rq_peer_ref(struct rq_peer *peer);
void rq_peer_unref(struct rq_peer *peer);
void rq_peers_unref(struct rq_peers *peers);

/* client_connect.c */
void rq_peer_connect_init(struct rq_peer *peer);
/* The loop shall look at the peer: connect, deadlines. */
void rq_peer_kick_locked(struct rq_peer *peer);

/* client_call.c; loop. */
void rq_peer_flush_locked(struct rq_peer *peer, struct rq_conn *conn, struct rq_list *failed);
void rq_peer_take_waiting_locked(struct rq_peer *peer, bool patient_too, struct rq_list *list);
void rq_peer_fail_list(struct rq_list *list, rmq_status st);
void rq_peer_expire(struct rq_timer *wait_timer);
int64_t rq_peer_first_deadline_locked(struct rq_peer *peer);

#endif

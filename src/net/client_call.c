/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Calls of a peer: handed to its connection, or waiting for one in the order of their coming;
 * permits bound how many are in flight. Any thread, but what is marked "loop". Counterpart:
 * NettyRemotingAbstract's invokeSync, invokeAsync, invokeOneway.
 */
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "net/call_priv.h"
#include "net/client_priv.h"
#include "net/conn_priv.h"

static bool take_permit(_Atomic int32_t *count, int32_t max)
{
    if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < max) {
        return true;
    }
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
    return false;
}

static void async_finished(struct rq_call *call)
{
    atomic_fetch_sub_explicit(&call->peer->peers->async_calls, 1, memory_order_relaxed);
}

static rmq_status refuse(struct rq_out *out, rmq_status st)
{
    rq_out_destroy(out);
    return st;
}

/* Why a call without a connection does not even wait; RMQ_OK when it does. The loop tries on
 * meanwhile, whoever calls. */
static rmq_status hopeless_locked(const struct rq_peer *peer, enum rq_call_mode mode)
{
    if (peer->closed) {
        return RMQ_ERR_CLOSED;
    }
    if (mode != RQ_FAIL_FAST) {
        return mode == RQ_AT_ONCE ? RMQ_ERR_DISCONNECTED : RMQ_OK;
    }
    if (peer->failing) {
        return peer->failure;
    }
    int64_t limit = peer->peers->options.connect_timeout_ms;
    bool is_long = peer->connecting && rq_mono_ms() - peer->attempt_ms > limit;
    return is_long ? RMQ_ERR_CONNECT : RMQ_OK;
}

/* What hindered a call that waited for a connection until its deadline. */
static rmq_status hindrance_locked(const struct rq_peer *peer)
{
    return peer->failing ? peer->failure : RMQ_ERR_CONNECT;
}

static rmq_status wait_locked(struct rq_peer *peer, struct rq_call *call, struct rq_out *out,
                              int64_t deadline_ms, enum rq_call_mode mode)
{
    rmq_status st = hopeless_locked(peer, mode);
    if (st != RMQ_OK) {
        return st;
    }
    call->conn = NULL;
    call->out = out;
    call->patient = mode == RQ_PATIENT;
    call->deadline_ms = deadline_ms;
    call->maybe_sent = false;
    rq_list_add_tail(&peer->waiting, &call->node);
    rq_peer_kick_locked(peer);
    return RMQ_OK;
}

/* The open connection, retained. NULL: the call waits for one, unless *st says why not. */
static struct rq_conn *conn_or_wait(struct rq_peer *peer, struct rq_call *call, struct rq_out *out,
                                    int64_t deadline_ms, enum rq_call_mode mode, rmq_status *st)
{
    struct rq_conn *conn = NULL;
    rq_mutex_lock(&peer->lock);
    call->peer = peer;
    call->out = NULL;
    call->failing = false;
    if (peer->conn && rq_conn_is_open(peer->conn)) {
        conn = rq_conn_retain(peer->conn);
    } else {
        *st = wait_locked(peer, call, out, deadline_ms, mode);
    }
    rq_mutex_unlock(&peer->lock);
    return conn;
}

/* Takes out in any case. */
static rmq_status begin(struct rq_peer *peer, struct rq_call *call, struct rq_out *out,
                        int64_t deadline_ms, enum rq_call_mode mode)
{
    rmq_status st = rq_buf_status(&out->head);
    if (st != RMQ_OK) {
        return refuse(out, st);
    }
    struct rq_conn *conn = conn_or_wait(peer, call, out, deadline_ms, mode, &st);
    if (conn) {
        st = rq_call_enter(conn, call, out, deadline_ms);
        rq_conn_release(conn);
        return st;
    }
    return st == RMQ_OK ? st : refuse(out, st);
}

rmq_status rq_peer_call(struct rq_peer *peer, struct rq_call *call, struct rq_out *out,
                        int64_t deadline_ms, enum rq_call_mode mode)
{
    struct rq_peers *peers = peer->peers;
    if (rq_loop_forked(peers->loop)) {
        return refuse(out, RMQ_ERR_FORKED);
    }
    if (!take_permit(&peers->async_calls, peers->options.max_async)) {
        return refuse(out, RMQ_ERR_BUSY);
    }
    call->finished = async_finished;
    rmq_status st = begin(peer, call, out, deadline_ms, mode);
    if (st != RMQ_OK) {
        atomic_fetch_sub_explicit(&peers->async_calls, 1, memory_order_relaxed);
    }
    return st;
}

/* A blocking caller gave up: a connection that is silent all the time will be replaced. One that
 * had none is told why. */
static rmq_status gave_up(struct rq_peer *peer, const struct rq_call *call)
{
    rmq_status st = RMQ_ERR_TIMEOUT;
    if (!call->maybe_sent) {
        rq_mutex_lock(&peer->lock);
        st = hindrance_locked(peer);
        rq_mutex_unlock(&peer->lock);
        return st;
    }
    struct rq_conn *conn = rq_peer_conn(peer);
    if (conn) {
        rq_conn_count_timeouts(conn, 1);
        rq_conn_release(conn);
    }
    return st;
}

rmq_status rq_peer_call_sync(struct rq_peer *peer, struct rq_sync_call *sync, struct rq_out *out,
                             int64_t deadline_ms, enum rq_call_mode mode)
{
    if (rq_loop_forked(peer->peers->loop)) {
        return refuse(out, RMQ_ERR_FORKED);
    }
    rq_sync_prepare(sync);
    rmq_status st = begin(peer, &sync->call, out, RQ_FOREVER, mode);
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_sync_wait(sync, deadline_ms);
    return st == RMQ_ERR_TIMEOUT ? gave_up(peer, &sync->call) : st;
}

rmq_status rq_peer_call_reply(struct rq_peer *peer, struct rq_out *out, int64_t deadline_ms,
                              enum rq_call_mode mode, struct rq_reply *reply)
{
    struct rq_reply_call call;
    rq_reply_prepare(&call, reply);
    return rq_peer_call_sync(peer, &call.sync, out, deadline_ms, mode);
}

/* The frame, when the call waits for a connection. */
static struct rq_out *unwait_locked(struct rq_call *call)
{
    struct rq_out *out = call->failing ? NULL : call->out;
    if (out) {
        call->out = NULL;
        rq_list_remove(&call->node);
    }
    return out;
}

bool rq_peer_take_waiting(struct rq_peer *peer, struct rq_call *call)
{
    rq_mutex_lock(&peer->lock);
    struct rq_out *out = unwait_locked(call);
    rq_mutex_unlock(&peer->lock);
    if (!out) {
        return false;
    }
    rq_out_destroy(out);
    if (call->finished) {
        call->finished(call);
    }
    return true;
}

bool rq_peer_take_back(struct rq_peer *peer, struct rq_call *call)
{
    struct rq_conn *conn = NULL;
    rq_mutex_lock(&peer->lock);
    struct rq_out *out = unwait_locked(call);
    if (!out && !call->failing && peer->conn && peer->conn == call->conn) {
        /* Any other connection has ended, and completed its calls before the peer let go of it. */
        conn = rq_conn_retain(peer->conn);
    }
    rq_mutex_unlock(&peer->lock);
    if (out) {
        rq_out_destroy(out);
        return true;
    }
    bool taken = conn && rq_call_take_out(conn, call);
    rq_conn_release(conn);
    return taken;
}

/* ---- one-way ---- */

/* A one-way frame that waits for a connection. */
struct waiting_oneway {
    struct rq_call call;
    rq_oneway_over *over;
    void *user;
    size_t size; /* counted in oneway_bytes */
    bool sent;   /* a connection has it */
};

/* Frames without a connection may be as many as one connection may have to write. */
static bool take_room(struct rq_peers *peers, size_t size)
{
    size_t before = atomic_fetch_add_explicit(&peers->oneway_bytes, size, memory_order_relaxed);
    bool fits = before + size <= peers->options.max_queued;
    if (!fits) {
        atomic_fetch_sub_explicit(&peers->oneway_bytes, size, memory_order_relaxed);
    }
    return fits;
}

static void free_oneway(struct waiting_oneway *oneway, struct rq_peers *peers)
{
    atomic_fetch_sub_explicit(&peers->oneway_bytes, oneway->size, memory_order_relaxed);
    rq_free(oneway);
}

static void oneway_done(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    struct waiting_oneway *oneway = RQ_CONTAINER_OF(call, struct waiting_oneway, call);
    (void)in;
    if (oneway->over) {
        oneway->over(oneway->user, call->peer, oneway->sent ? RMQ_OK : st);
    }
    free_oneway(oneway, call->peer->peers);
}

static void oneway_written(void *arg)
{
    struct rq_peers *peers = arg;
    atomic_fetch_sub_explicit(&peers->oneways, 1, memory_order_relaxed);
    rq_peers_unref(peers);
}

/* From here on the frame's end returns the permit. */
static rmq_status admit_oneway(struct rq_peers *peers, struct rq_out *out)
{
    if (rq_loop_forked(peers->loop)) {
        return refuse(out, RMQ_ERR_FORKED);
    }
    if (!take_permit(&peers->oneways, peers->options.max_oneway)) {
        return refuse(out, RMQ_ERR_BUSY);
    }
    atomic_fetch_add_explicit(&peers->refs, 1, memory_order_relaxed);
    out->permit = oneway_written;
    out->permit_user = peers;
    return RMQ_OK;
}

static rmq_status send_oneway(struct rq_conn *conn, struct rq_out *out)
{
    rmq_status st = rq_conn_send(conn, out);
    rq_conn_release(conn);
    return st;
}

rmq_status rq_peer_send(struct rq_peer *peer, struct rq_out *out)
{
    rmq_status st = admit_oneway(peer->peers, out);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_conn *conn = rq_peer_conn(peer);
    if (!conn) {
        return refuse(out, RMQ_ERR_DISCONNECTED);
    }
    return send_oneway(conn, out);
}

/* A connection that comes up meanwhile takes the frame as it is: no answer will come to it. */
static rmq_status wait_oneway(struct rq_peer *peer, struct rq_out *out, int64_t deadline_ms,
                              rq_oneway_over *over, void *user, struct rq_conn **conn)
{
    struct waiting_oneway *oneway = rq_calloc(1, sizeof *oneway);
    size_t size = rq_out_size(out);
    rmq_status st = oneway ? rq_buf_status(&out->head) : RMQ_ERR_NOMEM;
    if (st == RMQ_OK && !take_room(peer->peers, size)) {
        st = RMQ_ERR_BUSY;
    } else if (st == RMQ_OK) {
        oneway->size = size;
        oneway->call.done = oneway_done;
        oneway->over = over;
        oneway->user = user;
        *conn = conn_or_wait(peer, &oneway->call, out, deadline_ms, RQ_PATIENT, &st);
    }
    if (oneway && (st != RMQ_OK || *conn)) {
        free_oneway(oneway, peer->peers);
    }
    return st == RMQ_OK ? st : refuse(out, st);
}

rmq_status rq_peer_oneway(struct rq_peer *peer, struct rq_out *out, int64_t deadline_ms,
                          rq_oneway_over *over, void *user)
{
    rmq_status st = admit_oneway(peer->peers, out);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_conn *conn = rq_peer_conn(peer);
    if (!conn) {
        st = wait_oneway(peer, out, deadline_ms, over, user, &conn);
    }
    if (!conn) {
        return st;
    }
    st = send_oneway(conn, out);
    if (st == RMQ_OK && over) {
        over(user, peer, st);
    }
    return st;
}

/* ---- loop: the waiting list ---- */

static struct rq_call *pop_waiting(struct rq_list *list)
{
    struct rq_list *node = rq_list_pop(list);
    return node ? RQ_CONTAINER_OF(node, struct rq_call, node) : NULL;
}

void rq_peer_flush_locked(struct rq_peer *peer, struct rq_conn *conn, struct rq_list *failed)
{
    struct rq_call *call;
    while ((call = pop_waiting(&peer->waiting)) != NULL) {
        struct rq_out *out = call->out;
        call->out = NULL;
        if (call->done == oneway_done) {
            RQ_CONTAINER_OF(call, struct waiting_oneway, call)->sent =
                rq_conn_send(conn, out) == RMQ_OK;
            rq_list_add_tail(failed, &call->node);
        } else if (rq_call_enter(conn, call, out, call->deadline_ms) != RMQ_OK) {
            rq_list_add_tail(failed, &call->node);
        }
    }
}

/* Into a list of the loop's own, for rq_peer_fail_list: it cannot be taken back any more. */
static void take_to_fail_locked(struct rq_call *call, struct rq_list *list)
{
    call->failing = true;
    rq_list_remove(&call->node);
    rq_list_add_tail(list, &call->node);
}

void rq_peer_take_waiting_locked(struct rq_peer *peer, bool patient_too, struct rq_list *list)
{
    RQ_LIST_FOREACH_SAFE(node, next, &peer->waiting)
    {
        struct rq_call *call = RQ_CONTAINER_OF(node, struct rq_call, node);
        if (patient_too || !call->patient) {
            take_to_fail_locked(call, list);
        }
    }
}

void rq_peer_fail_list(struct rq_list *list, rmq_status st)
{
    struct rq_call *call;
    while ((call = pop_waiting(list)) != NULL) {
        struct rq_out *out = call->out;
        call->out = NULL;
        rq_out_destroy(out);
        rq_call_complete(call, st, NULL);
    }
}

int64_t rq_peer_first_deadline_locked(struct rq_peer *peer)
{
    int64_t first = RQ_FOREVER;
    RQ_LIST_FOREACH_SAFE(node, next, &peer->waiting)
    {
        struct rq_call *call = RQ_CONTAINER_OF(node, struct rq_call, node);
        if (call->deadline_ms < first) {
            first = call->deadline_ms;
        }
    }
    return first;
}

void rq_peer_expire(struct rq_timer *wait_timer)
{
    struct rq_peer *peer = RQ_CONTAINER_OF(wait_timer, struct rq_peer, wait_timer);
    struct rq_list expired;
    rq_list_init(&expired);
    int64_t now = rq_loop_now(peer->peers->loop);
    int64_t next_ms = RQ_FOREVER;
    rq_mutex_lock(&peer->lock);
    RQ_LIST_FOREACH_SAFE(node, next, &peer->waiting)
    {
        struct rq_call *call = RQ_CONTAINER_OF(node, struct rq_call, node);
        if (call->deadline_ms <= now) {
            take_to_fail_locked(call, &expired);
        } else if (call->deadline_ms < next_ms) {
            next_ms = call->deadline_ms;
        }
    }
    rmq_status why = hindrance_locked(peer);
    rq_mutex_unlock(&peer->lock);
    rq_timer_start_at(peer->peers->loop, wait_timer, next_ms);
    rq_peer_fail_list(&expired, why);
}

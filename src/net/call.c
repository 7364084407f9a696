/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The table of calls of a connection. The opaque is chosen so that its low bits are a free slot:
 * finding the call of an answer is one look. One sweep timer serves all deadlines: set for the
 * earliest, it scans the table; blocking callers keep their own deadline and need none. Whoever
 * takes a call out of the table, under its lock, completes it. Counterpart: NettyRemotingAbstract's
 * responseTable.
 */
#include "net/call.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/call_priv.h"
#include "net/conn_priv.h"

#define FIRST_SLOTS  16
#define MOST_SLOTS   ((uint32_t)1 << 20)
#define OPAQUE_MASK  0x7fffffffU
#define SWEEP_GAP_MS 10 /* two sweeps are at least so far apart */

static void sweep(struct rq_timer *timer);
static void arm_sweep(struct rq_task *task);

void rq_calls_init(struct rq_calls *calls)
{
    rq_mutex_init(&calls->lock);
    calls->armed_ms = RQ_FOREVER;
    calls->arm_task.run = arm_sweep;
    rq_timer_init(&calls->sweep, sweep);
}

void rq_calls_free(struct rq_calls *calls)
{
    rq_free(calls->slots);
    rq_mutex_destroy(&calls->lock);
}

static bool grow_locked(struct rq_calls *calls)
{
    uint32_t cap = calls->cap ? calls->cap * 2 : FIRST_SLOTS;
    struct rq_call **slots = cap <= MOST_SLOTS ? rq_calloc(cap, sizeof *slots) : NULL;
    if (!slots) {
        return false;
    }
    for (uint32_t i = 0; i < calls->cap; i++) {
        struct rq_call *call = calls->slots[i];
        if (call) {
            slots[(uint32_t)call->opaque & (cap - 1)] = call;
        }
    }
    rq_free(calls->slots);
    calls->slots = slots;
    calls->cap = cap;
    return true;
}

static bool insert_locked(struct rq_calls *calls, struct rq_call *call)
{
    if (calls->count * 2 >= calls->cap && !grow_locked(calls) && calls->count >= calls->cap) {
        return false;
    }
    uint32_t opaque = calls->next_opaque;
    while (calls->slots[opaque & (calls->cap - 1)]) {
        opaque = (opaque + 1) & OPAQUE_MASK;
    }
    calls->next_opaque = (opaque + 1) & OPAQUE_MASK;
    call->opaque = (int32_t)opaque;
    calls->slots[opaque & (calls->cap - 1)] = call;
    calls->count++;
    calls->bulk += call->bulk;
    return true;
}

static struct rq_call *find_locked(struct rq_calls *calls, int32_t opaque)
{
    if (!calls->cap) {
        return NULL;
    }
    struct rq_call *call = calls->slots[(uint32_t)opaque & (calls->cap - 1)];
    return call && call->opaque == opaque ? call : NULL;
}

static void remove_locked(struct rq_calls *calls, const struct rq_call *call)
{
    calls->slots[(uint32_t)call->opaque & (calls->cap - 1)] = NULL;
    calls->count--;
    calls->bulk -= call->bulk;
}

/* Remembers that the sweep must come earlier. true: the loop must be told. */
static bool lower_deadline_locked(struct rq_calls *calls, int64_t deadline_ms)
{
    if (deadline_ms >= calls->armed_ms) {
        return false;
    }
    calls->armed_ms = deadline_ms;
    bool tell = !calls->arm_posted;
    calls->arm_posted = true;
    return tell;
}

void rq_call_complete(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    if (call->finished) {
        call->finished(call);
    }
    call->done(call, st, in);
}

/* Our own call, perhaps completed (and its struct gone) already: looked for by opaque and
 * address. */
static bool withdraw(struct rq_conn *conn, const struct rq_call *call, int32_t opaque)
{
    rq_mutex_lock(&conn->calls.lock);
    bool found = find_locked(&conn->calls, opaque) == call;
    if (found) {
        remove_locked(&conn->calls, call);
    }
    rq_mutex_unlock(&conn->calls.lock);
    return found;
}

bool rq_call_take_out(struct rq_conn *conn, struct rq_call *call)
{
    return withdraw(conn, call, call->opaque);
}

bool rq_call_cancel(struct rq_call *call)
{
    bool taken = call->peer ? rq_peer_take_back(call->peer, call)
                            : call->conn && rq_call_take_out(call->conn, call);
    if (taken && call->finished) {
        call->finished(call);
    }
    return taken;
}

static rmq_status enter(struct rq_conn *conn, struct rq_call *call, int32_t *opaque, bool *tell)
{
    struct rq_calls *calls = &conn->calls;
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&calls->lock);
    if (calls->closed) {
        st = RMQ_ERR_DISCONNECTED;
    } else if (!insert_locked(calls, call)) {
        st = calls->cap >= MOST_SLOTS ? RMQ_ERR_BUSY : RMQ_ERR_NOMEM;
    } else {
        *opaque = call->opaque;
        *tell = lower_deadline_locked(calls, call->deadline_ms);
        if (!call->bulk) {
            rq_conn_bulk_interrupt_locked(conn);
        }
    }
    rq_mutex_unlock(&calls->lock);
    return st;
}

static void tell_loop(struct rq_conn *conn)
{
    rq_conn_retain(conn);
    if (!rq_loop_post(conn->loop, &conn->calls.arm_task)) {
        rq_conn_release(conn);
    }
}

rmq_status rq_call_start(struct rq_conn *conn, struct rq_call *call, struct rq_out *out,
                         int64_t deadline_ms)
{
    call->peer = NULL;
    call->finished = NULL;
    return rq_call_enter(conn, call, out, deadline_ms);
}

rmq_status rq_call_enter(struct rq_conn *conn, struct rq_call *call, struct rq_out *out,
                         int64_t deadline_ms)
{
    rmq_status st = rq_buf_status(&out->head);
    if (st == RMQ_OK && !rq_conn_is_open(conn)) {
        st = RMQ_ERR_DISCONNECTED;
    } else if (st == RMQ_OK && rq_loop_forked(conn->loop)) {
        st = RMQ_ERR_FORKED;
    }
    int32_t opaque = 0;
    bool tell = false;
    call->conn = conn;
    call->deadline_ms = deadline_ms;
    call->maybe_sent = true;
    if (st == RMQ_OK) {
        st = enter(conn, call, &opaque, &tell);
    }
    if (st != RMQ_OK) {
        call->conn = NULL;
        call->maybe_sent = false;
        rq_out_destroy(out);
        return st;
    }
    /* From here on the call may be completed at any moment, by the sweep or the end of the
     * connection. */
    out->is_call = true;
    out->opaque = opaque;
    rq_frame_patch_opaque(out->head.data, opaque);
    if (tell) {
        tell_loop(conn);
    }
    st = rq_conn_send(conn, out);
    if (st == RMQ_OK) {
        return st;
    }
    return withdraw(conn, call, opaque) ? st : RMQ_OK;
}

void rq_calls_answer(struct rq_conn *conn, struct rq_in *in)
{
    struct rq_calls *calls = &conn->calls;
    rq_mutex_lock(&calls->lock);
    struct rq_call *call = find_locked(calls, in->header->opaque);
    if (call) {
        remove_locked(calls, call);
    }
    rq_mutex_unlock(&calls->lock);
    if (call) {
        rq_call_complete(call, RMQ_OK, in);
    } else {
        RQ_LOG(DEBUG, "answer without a waiting call dropped", "peer=%s opaque=%d", conn->remote,
               (int)in->header->opaque);
    }
}

/* ---- deadlines ---- */

static void arm_sweep(struct rq_task *task)
{
    struct rq_calls *calls = RQ_CONTAINER_OF(task, struct rq_calls, arm_task);
    struct rq_conn *conn = RQ_CONTAINER_OF(calls, struct rq_conn, calls);
    rq_mutex_lock(&calls->lock);
    int64_t due = calls->closed ? RQ_FOREVER : calls->armed_ms;
    calls->arm_posted = false;
    rq_mutex_unlock(&calls->lock);
    if (due != RQ_FOREVER && due < calls->last_sweep_ms + SWEEP_GAP_MS) {
        due = calls->last_sweep_ms + SWEEP_GAP_MS;
    }
    rq_timer_start_at(conn->loop, &calls->sweep, due);
    rq_conn_release(conn);
}

/* Takes the expired calls out, into list, and finds the next deadline. */
static int expire_locked(struct rq_calls *calls, int64_t now, struct rq_list *list)
{
    int n = 0;
    calls->armed_ms = RQ_FOREVER;
    for (uint32_t i = 0; i < calls->cap; i++) {
        struct rq_call *call = calls->slots[i];
        if (!call) {
            continue;
        }
        if (call->deadline_ms <= now) {
            remove_locked(calls, call);
            rq_list_add_tail(list, &call->node);
            n++;
        } else if (call->deadline_ms < calls->armed_ms) {
            calls->armed_ms = call->deadline_ms;
        }
    }
    return n;
}

static void complete_list(struct rq_list *list, rmq_status st)
{
    struct rq_list *node;
    while ((node = rq_list_pop(list)) != NULL) {
        rq_call_complete(RQ_CONTAINER_OF(node, struct rq_call, node), st, NULL);
    }
}

static void sweep(struct rq_timer *timer)
{
    struct rq_calls *calls = RQ_CONTAINER_OF(timer, struct rq_calls, sweep);
    struct rq_conn *conn = RQ_CONTAINER_OF(calls, struct rq_conn, calls);
    struct rq_list expired;
    rq_list_init(&expired);
    int64_t now = rq_loop_now(conn->loop);
    calls->last_sweep_ms = now;
    rq_mutex_lock(&calls->lock);
    int n = expire_locked(calls, now, &expired);
    int64_t due = calls->armed_ms;
    rq_mutex_unlock(&calls->lock);
    if (due != RQ_FOREVER && due < now + SWEEP_GAP_MS) {
        due = now + SWEEP_GAP_MS;
    }
    rq_timer_start_at(conn->loop, timer, due);
    if (n > 0) {
        rq_conn_retain(conn);
        complete_list(&expired, RMQ_ERR_TIMEOUT);
        rq_conn_count_timeouts(conn, n);
        rq_conn_release(conn);
    }
}

/* ---- the end of a connection ---- */

void rq_calls_close(struct rq_conn *conn)
{
    rq_mutex_lock(&conn->calls.lock);
    conn->calls.closed = true;
    rq_mutex_unlock(&conn->calls.lock);
    rq_timer_stop(&conn->calls.sweep);
}

void rq_calls_mark_unsent(struct rq_conn *conn, int32_t opaque)
{
    rq_mutex_lock(&conn->calls.lock);
    struct rq_call *call = find_locked(&conn->calls, opaque);
    if (call) {
        call->maybe_sent = false;
    }
    rq_mutex_unlock(&conn->calls.lock);
}

void rq_calls_complete_all(struct rq_conn *conn, rmq_status st)
{
    struct rq_calls *calls = &conn->calls;
    struct rq_list all;
    rq_list_init(&all);
    rq_mutex_lock(&calls->lock);
    expire_locked(calls, RQ_FOREVER, &all);
    rq_mutex_unlock(&calls->lock);
    complete_list(&all, st);
}

/* ---- blocking calls ---- */

static void sync_done(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    struct rq_sync_call *sync = RQ_CONTAINER_OF(call, struct rq_sync_call, call);
    sync->status = st;
    if (st == RMQ_OK && sync->on_answer) {
        sync->on_answer(sync, in);
    }
    rq_gate_open(&sync->gate);
}

void rq_sync_prepare(struct rq_sync_call *sync)
{
    sync->call.done = sync_done;
    sync->call.finished = NULL;
    sync->call.peer = NULL;
    sync->call.out = NULL;
    sync->call.bulk = false;
    sync->status = RMQ_OK;
    rq_gate_init(&sync->gate);
}

rmq_status rq_sync_wait(struct rq_sync_call *sync, int64_t deadline_ms)
{
    if (!rq_gate_wait(&sync->gate, deadline_ms)) {
        if (rq_call_cancel(&sync->call)) {
            return RMQ_ERR_TIMEOUT;
        }
        rq_gate_wait(&sync->gate, RQ_FOREVER);
    }
    return sync->status;
}

static void keep_reply(struct rq_sync_call *sync, struct rq_in *in)
{
    struct rq_reply *reply = RQ_CONTAINER_OF(sync, struct rq_reply_call, sync)->reply;
    reply->ref = rq_in_keep(in);
    if (!reply->ref) {
        sync->status = RMQ_ERR_NOMEM;
        return;
    }
    reply->body = in->body;
    size_t used = in->header->ext_count * sizeof in->header->ext[0];
    memcpy(&reply->header, in->header, offsetof(struct rq_header, ext) + used);
}

void rq_reply_prepare(struct rq_reply_call *call, struct rq_reply *reply)
{
    reply->ref = NULL;
    call->reply = reply;
    call->sync.on_answer = keep_reply;
}

void rq_reply_free(struct rq_reply *reply)
{
    rq_frame_ref_release(reply->ref);
    reply->ref = NULL;
}

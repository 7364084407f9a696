/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What may come between two attempts of a send: a pause before the same broker is asked again, the
 * return of the only broker, and the newest route when a logical queue is led by another broker by
 * now (see send_priv.h). On the I/O thread.
 */
#include "base/time.h"
#include "client/fault.h"
#include "client/producer.h"
#include "client/send_priv.h"

#define PAUSE_MS  100 /* half of it to one and a half, before the second attempt */
#define DOUBLINGS 4

/* ---- a newer route ---- */

static void leader_found(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err)
{
    struct rq_send_op *op = RQ_CONTAINER_OF(lookup, struct rq_send_op, lookup);
    (void)err; /* the refusal is the better reason */
    if (rq_send_is_cut(op)) {
        return;
    }
    if (route && op->fixed_queue) {
        rq_send_take_route(op, route);
    }
    rq_send_make_attempts(op);
}

static void find_leader(struct rq_send_op *op)
{
    op->lookup.default_queues = 0;
    op->lookup.refresh = true;
    op->lookup.done = leader_found;
    rq_instance_lookup(op->producer->instance, &op->lookup, op->text.data, op->deadline_ms);
}

/* ---- a broker that cannot be reached ---- */

void rq_send_uncount_wait(struct rq_send_op *op, rmq_status status, int64_t now_ms)
{
    bool unreached = (status == RMQ_ERR_CONNECT || status == RMQ_ERR_RESOLVE) &&
                     !op->call.maybe_sent && op->call.deadline_ms > now_ms;
    if (unreached && !op->fixed_queue &&
        !rq_fault_has_spare(op->route, op->queue.broker->health, now_ms)) {
        op->attempts_max++;
    }
}

/* ---- pauses ---- */

static void go_on(struct rq_timer *timer)
{
    struct rq_send_op *op = RQ_CONTAINER_OF(timer, struct rq_send_op, pause);
    rq_list_remove(&op->pausing);
    if (rq_send_is_cut(op)) {
        return;
    }
    if (op->last_code == RQ_RESP_NOT_LEADER_FOR_QUEUE) {
        find_leader(op);
    } else {
        rq_send_make_attempts(op);
    }
}

void rq_send_pause(struct rq_send_op *op, int64_t ms)
{
    rq_list_add_tail(&op->pool->paused, &op->pausing);
    rq_timer_init(&op->pause, go_on);
    rq_timer_start(rq_instance_loop(op->producer->instance), &op->pause, ms);
}

/* The pause doubles, and is another for each send, so that those that were refused together do not
 * come back together. false: there is no time left for it. */
static bool start_pause(struct rq_send_op *op, int64_t now_ms)
{
    int doubled = op->attempt - 1 < DOUBLINGS ? op->attempt - 1 : DOUBLINGS;
    int64_t most = (int64_t)PAUSE_MS << doubled;
    int64_t pause = most / 2 + op->attempt_us % most;
    if (now_ms + pause >= op->deadline_ms) {
        return false;
    }
    rq_send_pause(op, pause);
    return true;
}

bool rq_send_pause_first(struct rq_send_op *op, int32_t code, int64_t now_ms)
{
    return code == RQ_RESP_SYSTEM_BUSY && op->attempt < op->attempts_max &&
           !rq_fault_has_spare(op->route, op->queue.broker->health, now_ms) &&
           start_pause(op, now_ms);
}

void rq_send_release_paused(struct rq_send_pool *pool)
{
    struct rq_list *node;
    while ((node = rq_list_pop(&pool->paused))) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, pausing);
        rq_timer_stop(&op->pause);
        (void)rq_send_is_cut(op);
    }
}

bool rq_send_follow_queue(struct rq_send_op *op, bool again, int64_t now_ms)
{
    op->attempts_max++;
    if (again) {
        return start_pause(op, now_ms);
    }
    find_leader(op);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends to a fixed queue while its broker is away: they wait in the peer's list of calls, in the
 * order of their coming, and go over to another peer together when a route says that the broker is
 * there by now. Joining is on the thread that makes the attempt, moving on the I/O thread; the line
 * of the instance keeps them apart, so that of two sends of one thread the second never comes to
 * the new address before the first. Counterpart: none; the Java client fails them.
 */
#include <string.h>

#include "client/producer.h"
#include "client/send_priv.h"

/* ---- joining ---- */

void rq_send_take_route(struct rq_send_op *op, struct rq_route *route)
{
    struct rq_route_queue queue;
    if (rq_route_find_queue(route, op->queue.broker_name, op->queue.id, &queue) &&
        queue.broker->sends) {
        rq_route_retain(route);
        op->queue = queue;
        rq_route_release(op->route);
        op->route = route;
    }
}

rmq_status rq_send_in_line(struct rq_send_op *op, int64_t deadline_ms)
{
    struct rq_instance *instance = op->producer->instance;
    rmq_status st = rq_send_call(op, deadline_ms, RQ_AT_ONCE);
    if (st != RMQ_ERR_DISCONNECTED || !rq_send_untry(op)) {
        return st;
    }
    rq_instance_enter_line(instance);
    struct rq_route *newest =
        rq_instance_publish_route(instance, rq_slice(op->text.data, op->topic_len));
    if (newest) {
        rq_send_take_route(op, newest);
    }
    st = rq_send_call(op, deadline_ms, RQ_PATIENT);
    rq_instance_leave_line(instance);
    rq_route_release(newest);
    return st;
}

/* ---- moving ---- */

/* Nobody but the I/O thread changes what is read of a send whose attempt is under way. */
static bool is_moved(const struct rq_send_op *op, const struct rq_route *route)
{
    struct rq_route_queue queue;
    unsigned state = atomic_load_explicit(&op->state, memory_order_acquire);
    return (state & (RQ_SEND_DELIVERED | RQ_SEND_STARTING | RQ_SEND_TRIED)) == RQ_SEND_TRIED &&
           op->fixed_queue && strcmp(op->text.data, route->topic) == 0 &&
           rq_route_find_queue(route, op->queue.broker_name, op->queue.id, &queue) &&
           queue.broker->sends && queue.broker->sends != op->queue.broker->sends;
}

/* Takes those off the old line, into a list of op.pausing. */
static void take_moved(struct rq_send_pool *pool, const struct rq_route *route,
                       struct rq_list *moved)
{
    rq_mutex_lock(&pool->lock);
    RQ_LIST_FOREACH_SAFE(node, next, &pool->active)
    {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, node);
        if (is_moved(op, route) && rq_peer_take_waiting(op->queue.broker->sends, &op->call)) {
            rq_list_add_tail(moved, &op->pausing);
        }
    }
    rq_mutex_unlock(&pool->lock);
}

static void join_again(struct rq_send_op *op, struct rq_route *route)
{
    int64_t deadline_ms = op->call.deadline_ms;
    if (!rq_send_may_be_stored(op)) {
        rq_send_not_stored(op);
    }
    rq_send_take_route(op, route);
    rmq_status st = rq_send_call(op, deadline_ms, RQ_PATIENT);
    if (st != RMQ_OK) { /* it ends behind the line */
        rq_send_note_status(op, st);
        rq_send_pause(op, 0);
    }
}

void rq_send_move_line(struct rq_send_pool *pool, struct rq_route *route)
{
    struct rq_list moved;
    struct rq_list *node;
    rq_list_init(&moved);
    take_moved(pool, route, &moved);
    while ((node = rq_list_pop(&moved))) {
        join_again(RQ_CONTAINER_OF(node, struct rq_send_op, pausing), route);
    }
}

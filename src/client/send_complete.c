/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * How sends complete: to waiting threads, on the callback thread, in the program's event loop (see
 * send.h), and what shutdown does to those that do not. Completions of a batch are received under
 * one hold of the pool's lock.
 */
#include "base/err.h"
#include "base/time.h"
#include "client/hooks.h"
#include "client/send_priv.h"
#include "net/client.h"

#define POLL_MS 2 /* drain on the callback thread looks again */

/* The starter, or the shutdown behind the machine's last step: nobody writes to it any more. */
rmq_error *rq_send_cut_error(const struct rq_send_op *op)
{
    rmq_error *err = NULL;
    rmq_error *why = NULL;
    struct rq_buf where;
    bool tried = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_TRIED) != 0;
    const struct rq_route_broker *broker = op->queue.broker;
    rq_buf_init(&where, 0);
    if (!tried && broker && broker->sends && !rq_peer_connected(broker->sends)) {
        (void)rq_peer_error(broker->sends, RMQ_ERR_CONNECT, &why);
    }
    if (broker) {
        const char *addr = rq_route_addr_of(broker, RQ_MASTER_ID);
        rq_buf_addf(&where, "; broker %s (%s)%s%s", broker->name, addr ? addr : "no master",
                    why ? ": " : "", why ? rmq_error_message(why) : "");
    }
    rq_error_set(
        &err, RMQ_ERR_CLOSED, "send to topic %s: the producer was shut down before it was %s%s",
        op->text.len ? op->text.data : "", tried ? "answered" : "sent", rq_buf_cstr(&where));
    rq_error_set_broker(err, broker ? broker->name : "");
    rq_error_mark(err, false, tried);
    rmq_error_destroy(why);
    rq_buf_free(&where);
    return err;
}

static void destroy_event(struct rmq_event *event)
{
    struct rq_send_op *op = RQ_CONTAINER_OF(event, struct rq_send_op, event);
    bool cut = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
    if (cut) {
        /* Made for the event; the operation's own is the machine's. */
        rmq_error_destroy(event->error);
    }
    event->error = NULL;
    rq_send_consumed(op);
}

static void post_event(struct rq_send_op *op, bool cut)
{
    struct rq_send_pool *pool = op->pool;
    struct rmq_event *event = &op->event;
    rq_list_init(&event->node);
    event->type = RMQ_EVENT_SENT;
    event->text = NULL;
    event->error = cut ? rq_send_cut_error(op) : op->error;
    event->result = event->error ? NULL : &op->result;
    event->destroy = destroy_event;
    /* It is the program's from here on: shutdown does not wait until it has been looked at. */
    rq_mutex_lock(&pool->lock);
    rq_send_leave_window_locked(op);
    rq_list_remove(&op->node);
    rq_send_count_locked(op);
    rq_send_tell_drain_locked(pool);
    rq_mutex_unlock(&pool->lock);
    rq_events_post(pool->events, event);
}

static void post_work(struct rq_send_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    if (pool->executor) {
        rq_executor_post(pool->executor, &pool->work);
        rq_mutex_unlock(&pool->lock);
    } else { /* the pool has ended meanwhile: all was called back */
        rq_send_unlock_and_drop(pool, 1);
    }
}

void rq_send_post_work(struct rq_task *task)
{
    post_work(RQ_CONTAINER_OF(task, struct rq_send_pool, post_work));
}

/* Once for all that is completed until the callback thread looks. On the loop at the end of the
 * turn, when the answers of a whole read are there: a callback thread that is quicker than the loop
 * would be woken for each of them. The work has a reference of the pool: the run before it may take
 * what it is posted for, and the producer be gone when it is its turn. */
static void wake_callbacks(struct rq_send_pool *pool)
{
    if (atomic_exchange_explicit(&pool->work_posted, true, memory_order_acq_rel)) {
        return;
    }
    rq_mutex_lock(&pool->lock);
    pool->refs++;
    rq_mutex_unlock(&pool->lock);
    if (!rq_loop_in(pool->loop) || !rq_loop_post(pool->loop, &pool->post_work)) {
        post_work(pool);
    }
}

static bool is_cut(struct rq_send_op *op)
{
    return (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
}

static void call_back(struct rq_send_op *op)
{
    bool cut = is_cut(op);
    rmq_error *err = cut ? rq_send_cut_error(op) : op->error;
    struct rmq_send_context *hooked = op->hooked;
    op->hooked = NULL;
    rq_hooks_end(hooked, err ? NULL : &op->result, err);
    if (op->mode == RQ_SEND_EVENT) {
        post_event(op, cut);
    } else {
        op->done(err ? NULL : &op->result, err, op->user);
    }
    if (cut) {
        rmq_error_destroy(err);
    }
}

static void post_completion(struct rq_send_op *op)
{
    struct rq_send_pool *pool = op->pool; /* once pushed, op may be called back and gone */
    if (rq_mpsc_push(&pool->completed, &op->completed)) {
        wake_callbacks(pool);
    }
}

static void dispatch(struct rq_send_op *op, bool cut)
{
    switch (op->mode) {
    case RQ_SEND_ASYNC:
        post_completion(op);
        break;
    case RQ_SEND_EVENT:
        if (op->hooked) {
            post_completion(op); /* the hooks run on the callback thread first */
        } else {
            post_event(op, cut);
        }
        break;
    case RQ_SEND_INNER:
        call_back(op);
        rq_send_consumed(op);
        break;
    default:
        rq_waiter_done(&op->waiter);
        break;
    }
}

void rq_send_end_cut(struct rq_send_op *op, unsigned state)
{
    if (state & RQ_SEND_STARTING) {
        dispatch(op, true);
    } else if (state & RQ_SEND_CONSUMED) {
        rq_send_recycle(op);
    }
}

void rq_send_deliver(struct rq_send_op *op)
{
    unsigned old = atomic_fetch_or_explicit(&op->state, RQ_SEND_DELIVERED | RQ_SEND_MACHINE_DONE,
                                            memory_order_acq_rel);
    if (old & RQ_SEND_DELIVERED) {
        rq_send_end_cut(op, old);
    } else {
        dispatch(op, false);
    }
}

/* The places in the window are given back before the callbacks run: a callback may send. */
static void begin_callbacks(struct rq_send_pool *pool, struct rq_mpsc_node *first)
{
    rq_mutex_lock(&pool->lock);
    pool->calling = true;
    for (struct rq_mpsc_node *node = first; node; node = node->next) {
        rq_send_leave_window_locked(RQ_CONTAINER_OF(node, struct rq_send_op, completed));
    }
    rq_mutex_unlock(&pool->lock);
}

/* With what they hold of the pool goes the reference of the work. */
static void end_callbacks(struct rq_send_pool *pool, struct rq_mpsc_node *first)
{
    rq_mutex_lock(&pool->lock);
    for (struct rq_mpsc_node *node = first; node; node = node->next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        rq_list_remove(&op->node);
        rq_send_count_locked(op);
    }
    rq_mutex_unlock(&pool->lock);
    struct rq_list done;
    rq_list_init(&done);
    for (struct rq_mpsc_node *node = first, *next; node; node = next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        next = node->next;
        if (rq_send_note_consumed(op)) {
            rq_send_clean(op);
            rq_list_add_tail(&done, &op->node);
        }
    }
    unsigned refs = 1;
    rq_mutex_lock(&pool->lock);
    for (struct rq_list *node; (node = rq_list_pop(&done)); refs++) {
        rq_send_put_free_locked(pool, RQ_CONTAINER_OF(node, struct rq_send_op, node));
    }
    pool->calling = false;
    rq_send_tell_drain_locked(pool);
    rq_send_unlock_and_drop(pool, refs);
}

void rq_send_run_callbacks(struct rq_work *work)
{
    struct rq_send_pool *pool = RQ_CONTAINER_OF(work, struct rq_send_pool, work);
    (void)atomic_exchange_explicit(&pool->work_posted, false, memory_order_acq_rel);
    struct rq_mpsc_node *first = rq_mpsc_take_all(&pool->completed);
    begin_callbacks(pool, first);
    struct rq_mpsc_node *called = NULL; /* those with an event are the program's by now */
    for (struct rq_mpsc_node *node = first, *next; node; node = next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        next = node->next;
        if (op->mode != RQ_SEND_EVENT) {
            node->next = called;
            called = node;
        }
        call_back(op);
    }
    end_callbacks(pool, called);
}

/* ---- shutdown ---- */

void rq_send_pool_close(struct rq_send_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    pool->closing = true;
    rq_cond_broadcast(&pool->room);
    rq_mutex_unlock(&pool->lock);
}

static bool has_undelivered_locked(struct rq_send_pool *pool)
{
    RQ_LIST_FOREACH_SAFE(node, next, &pool->active)
    {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, node);
        if (!(atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_DELIVERED)) {
            return true;
        }
    }
    return false;
}

static bool is_busy_locked(struct rq_send_pool *pool, bool callback)
{
    return callback ? has_undelivered_locked(pool) : pool->calling || !rq_list_empty(&pool->active);
}

bool rq_send_pool_drain(struct rq_send_pool *pool, int64_t deadline_ms)
{
    bool callback = rq_executor_in();
    rq_mutex_lock(&pool->lock);
    bool in_time = true;
    bool busy = true;
    while (in_time) {
        busy = is_busy_locked(pool, callback);
        if (!busy) {
            break;
        }
        int64_t now = rq_mono_ms();
        int64_t until = callback && now + POLL_MS < deadline_ms ? now + POLL_MS : deadline_ms;
        (void)rq_cond_wait_until(&pool->change, &pool->lock, until);
        in_time = rq_mono_ms() < deadline_ms;
    }
    busy = is_busy_locked(pool, callback);
    rq_mutex_unlock(&pool->lock);
    return !busy;
}

/* Claims the completion of an undelivered operation for the shutdown. Returns the state before: with
 * RQ_SEND_DELIVERED it is somebody else's. */
static unsigned claim_cut(struct rq_send_op *op)
{
    unsigned old = atomic_load_explicit(&op->state, memory_order_acquire);
    while (!(old & RQ_SEND_DELIVERED)) {
        if (atomic_compare_exchange_weak_explicit(&op->state, &old,
                                                  old | RQ_SEND_DELIVERED | RQ_SEND_CUT,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            return old;
        }
    }
    return old;
}

size_t rq_send_pool_cut(struct rq_send_pool *pool, struct rq_mpsc_node **claimed)
{
    size_t count = 0;
    *claimed = NULL;
    rq_mutex_lock(&pool->lock);
    RQ_LIST_FOREACH_SAFE(node, following, &pool->active)
    {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, node);
        unsigned old = claim_cut(op);
        if (!(old & (RQ_SEND_DELIVERED | RQ_SEND_STARTING))) {
            op->completed.next = *claimed;
            *claimed = &op->completed;
        }
        count += !(old & RQ_SEND_DELIVERED);
    }
    rq_mutex_unlock(&pool->lock);
    return count;
}

/* Machines that wait for a connection come to their end. */
void rq_send_end_waits(struct rq_mpsc_node *claimed)
{
    for (struct rq_mpsc_node *node = claimed; node; node = node->next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        bool tried = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_TRIED) != 0;
        if (tried && op->queue.broker && op->queue.broker->sends &&
            rq_peer_take_waiting(op->queue.broker->sends, &op->call)) {
            if (!rq_send_may_be_stored(op)) {
                rq_send_not_stored(op);
            }
            (void)rq_send_is_cut(op);
        }
    }
}

/* Returns those that are of another mode. */
static struct rq_mpsc_node *complete_mode(struct rq_mpsc_node *claimed, bool inner)
{
    struct rq_mpsc_node *others = NULL;
    for (struct rq_mpsc_node *node = claimed, *next; node; node = next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        next = node->next;
        if ((op->mode == RQ_SEND_INNER) == inner) {
            dispatch(op, true);
        } else {
            node->next = others;
            others = node;
        }
    }
    return others;
}

/* Claimed ones stay until their completion is received, which cannot be before it is dispatched
 * here. Carriers tell their passengers whether they have left. */
void rq_send_complete_cut(struct rq_mpsc_node *claimed)
{
    (void)complete_mode(complete_mode(claimed, true), false);
}

void rq_send_pool_end(struct rq_send_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    struct rq_executor *executor = pool->executor;
    pool->executor = NULL;
    rq_mutex_unlock(&pool->lock);
    rq_executor_put(executor);
}

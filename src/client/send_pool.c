/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Operation objects of a producer: taken by senders, given back when both sides have let go of
 * them; the window of asynchronous sends, and the counts. One lock. How they complete is in
 * send_complete.c.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/send_priv.h"

/* Operations kept for the next send. Those of a batch are free when its last callback has run,
 * while others fill the window again: so it is more than the answers that come at once. */
#define FREE_MAX   2048
#define KEEP_BYTES 8192 /* buffers of a free operation that are kept */
/* sends from callbacks may fill the window this many times: they cannot wait */
#define CALLBACK_EXCESS 2

struct rq_send_pool *rq_send_pool_create(const rmq_producer_options *options)
{
    struct rq_send_pool *pool = rq_calloc(1, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    rq_mpsc_init(&pool->completed);
    atomic_init(&pool->work_posted, false);
    pool->work.run = rq_send_run_callbacks;
    pool->post_work.run = rq_send_post_work;
    pool->events = options->events;
    pool->window_max = options->max_async_in_flight;
    pool->window_bytes_max = options->max_async_in_flight_bytes;
    rq_mutex_init(&pool->lock);
    rq_cond_init(&pool->room);
    rq_cond_init(&pool->change);
    pool->refs = 1;
    rq_list_init(&pool->active);
    rq_list_init(&pool->paused);
    rq_list_init(&pool->free);
    return pool;
}

static void free_op(struct rq_send_op *op)
{
    rq_buf_free(&op->text);
    rq_buf_free(&op->history);
    rq_free(op);
}

static void free_pool(struct rq_send_pool *pool)
{
    struct rq_list *node;
    while ((node = rq_list_pop(&pool->free))) {
        free_op(RQ_CONTAINER_OF(node, struct rq_send_op, node));
    }
    rq_cond_destroy(&pool->room);
    rq_cond_destroy(&pool->change);
    rq_mutex_destroy(&pool->lock);
    rq_free(pool);
}

void rq_send_unlock_and_drop(struct rq_send_pool *pool, unsigned refs)
{
    pool->refs -= refs;
    bool last = pool->refs == 0;
    rq_mutex_unlock(&pool->lock);
    if (last) {
        free_pool(pool);
    }
}

void rq_send_pool_release(struct rq_send_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    rq_send_unlock_and_drop(pool, 1);
}

/* What a send leaves behind. Without the lock: nobody else knows the operation any more. */
void rq_send_clean(struct rq_send_op *op)
{
    rq_body_release(op->body);
    rq_route_release(op->route);
    rmq_error_destroy(op->error);
    rq_free(op->ids);
    op->body = NULL;
    op->route = NULL;
    op->error = NULL;
    op->ids = NULL;
    if (op->text.cap > KEEP_BYTES) {
        rq_buf_free(&op->text);
    }
    rq_buf_free(&op->history);
}

void rq_send_put_free_locked(struct rq_send_pool *pool, struct rq_send_op *op)
{
    if (pool->free_count < FREE_MAX) {
        pool->free_count++;
        rq_list_add_head(&pool->free, &op->node);
    } else {
        free_op(op);
    }
}

/* Both sides have let go: the object is free. */
void rq_send_recycle(struct rq_send_op *op)
{
    struct rq_send_pool *pool = op->pool;
    rq_send_clean(op);
    rq_mutex_lock(&pool->lock);
    rq_send_put_free_locked(pool, op);
    rq_send_unlock_and_drop(pool, 1);
}

/* Who waits is not woken for each place: an eighth of the window must be free. */
static bool has_much_room_locked(const struct rq_send_pool *pool)
{
    return pool->window <= pool->window_max - pool->window_max / 8 &&
           (pool->window_bytes <= pool->window_bytes_max - pool->window_bytes_max / 8 ||
            pool->window == 0);
}

void rq_send_leave_window_locked(struct rq_send_op *op)
{
    struct rq_send_pool *pool = op->pool;
    if (op->in_window) {
        op->in_window = false;
        pool->window--;
        pool->window_bytes -= (int64_t)op->window_size;
        if (pool->room_waiters > 0 && has_much_room_locked(pool)) {
            rq_cond_signal(&pool->room);
        }
    }
}

static bool window_fits_locked(const struct rq_send_pool *pool, size_t size, int32_t times)
{
    /* A message larger than the whole window may go alone. */
    return pool->window == 0 ||
           (pool->window < (int64_t)pool->window_max * times &&
            pool->window_bytes + (int64_t)size <= pool->window_bytes_max * times);
}

static rmq_status full_window(struct rq_send_pool *pool, rmq_status status, rmq_error **err)
{
    pool->counts.busy++;
    return rq_error_set(err, status,
                        "%d asynchronous sends with %lld bytes are under way, limits %d and %lld",
                        (int)pool->window, (long long)pool->window_bytes, (int)pool->window_max,
                        (long long)pool->window_bytes_max);
}

static rmq_status enter_window_locked(struct rq_send_pool *pool, size_t size, bool wait,
                                      int64_t deadline_ms, bool *waited, rmq_error **err)
{
    bool callback = rq_executor_in();
    while (!pool->closing && !window_fits_locked(pool, size, callback ? CALLBACK_EXCESS : 1)) {
        if (!wait || callback) {
            return full_window(pool, RMQ_ERR_BUSY, err);
        }
        *waited = true;
        pool->room_waiters++;
        bool in_time = rq_cond_wait_until(&pool->room, &pool->lock, deadline_ms);
        pool->room_waiters--;
        if (!in_time) {
            if (pool->room_waiters > 0) {
                rq_cond_signal(&pool->room); /* the wake-up may have been meant for us alone */
            }
            return full_window(pool, RMQ_ERR_BUSY, err);
        }
    }
    if (*waited && pool->room_waiters > 0 && has_much_room_locked(pool)) {
        rq_cond_signal(&pool->room); /* the next one, since places that are left may be the last */
    }
    return RMQ_OK;
}

static void reset_op(struct rq_send_op *op, struct rq_send_pool *pool,
                     const struct rq_send_order *order)
{
    atomic_store_explicit(&op->state, RQ_SEND_STARTING, memory_order_relaxed);
    op->pool = pool;
    op->mode = order->mode;
    op->done = order->done;
    op->user = order->user;
    op->event.token = order->token;
    op->event.source = order->source;
    op->hooked = order->hooked;
    op->more_pairs = rq_slice(NULL, 0);
    op->window_size = order->size;
    op->messages = order->carrier ? 0 : order->messages > 0 ? (uint32_t)order->messages : 1;
    op->deadline_ms = order->deadline_ms;
    op->batch = false;
    op->half = false;
    op->reply = false;
    op->fixed_queue = false;
    op->kept = false;
    op->queue = (struct rq_route_queue){0};
    op->last = NULL;
    op->attempt = 0;
    op->maybe_stored = false;
    op->has_result = false;
    op->last_status = RMQ_OK;
    op->last_code = 0;
    rq_waiter_init(&op->waiter);
}

static struct rq_send_op *make_op(void)
{
    struct rq_send_op *op = rq_calloc(1, sizeof *op);
    if (op) {
        rq_buf_init(&op->text, (size_t)16 << 20);
        rq_buf_init(&op->history, 4096);
        rq_list_init(&op->node);
        rq_list_init(&op->mate);
        atomic_init(&op->state, 0);
    }
    return op;
}

rmq_status rq_send_pool_take(struct rq_send_pool *pool, const struct rq_send_order *order,
                             struct rq_send_op **out, rmq_error **err)
{
    bool windowed = order->mode == RQ_SEND_ASYNC || order->mode == RQ_SEND_EVENT;
    bool waited = false;
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&pool->lock);
    if (windowed) {
        st = enter_window_locked(pool, order->size, order->wait, order->deadline_ms, &waited, err);
    }
    if (st == RMQ_OK && pool->closing && !order->carrier) {
        st = rq_error_set(err, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    bool calls = order->mode == RQ_SEND_ASYNC || (order->mode == RQ_SEND_EVENT && order->hooked);
    if (st == RMQ_OK && calls && !pool->executor) {
        st = rq_executor_get(&pool->executor, err);
    }
    if (st != RMQ_OK) {
        rq_mutex_unlock(&pool->lock);
        return st;
    }
    struct rq_list *node = rq_list_pop(&pool->free);
    struct rq_send_op *op = node ? RQ_CONTAINER_OF(node, struct rq_send_op, node) : make_op();
    if (!op) {
        rq_mutex_unlock(&pool->lock);
        return rq_error_set(err, RMQ_ERR_NOMEM, "send");
    }
    pool->free_count -= node ? 1 : 0;
    reset_op(op, pool, order);
    pool->refs++;
    rq_list_add_tail(&pool->active, &op->node);
    op->in_window = windowed;
    op->waited = waited;
    if (op->messages > 0) {
        pool->counts.sends++;
        pool->counts.messages += op->messages;
        pool->counts.bytes += order->size;
    }
    if (windowed) {
        pool->window++;
        pool->window_bytes += (int64_t)order->size;
    }
    rq_mutex_unlock(&pool->lock);
    *out = op;
    return RMQ_OK;
}

void rq_send_tell_drain_locked(struct rq_send_pool *pool)
{
    if (pool->closing && !pool->calling && rq_list_empty(&pool->active)) {
        rq_cond_broadcast(&pool->change);
    }
}

/* A send is over. What the machine wrote may be read only when it was not cut off. */
void rq_send_count_locked(struct rq_send_op *op)
{
    struct rq_send_counts *counts = &op->pool->counts;
    unsigned state = atomic_load_explicit(&op->state, memory_order_acquire);
    if (state & RQ_SEND_CUT) {
        counts->cut_off += op->messages > 0;
        return;
    }
    counts->retries += op->attempt > 1 ? (uint64_t)op->attempt - 1 : 0;
    if (op->messages == 0) { /* its passengers are counted */
        return;
    }
    if (op->has_result) {
        counts->stored++;
    } else if (op->mode == RQ_SEND_ONEWAY && op->last_status == RMQ_OK) {
        counts->oneway += !op->kept;
    } else {
        counts->failed++;
        counts->maybe_stored += op->maybe_stored;
    }
}

static void kept_is_over(void *user, struct rq_peer *peer, rmq_status status)
{
    struct rq_send_pool *pool = user;
    rq_mutex_lock(&pool->lock);
    bool first = status != RMQ_OK && !pool->dropping;
    pool->dropping = status != RMQ_OK;
    pool->counts.oneway += status == RMQ_OK;
    pool->counts.failed += status != RMQ_OK;
    rq_send_unlock_and_drop(pool, 1);
    if (first) {
        rmq_error *why = NULL;
        (void)rq_peer_error(peer, status, &why);
        RQ_LOG(WARN, "one-way sends are lost: no connection took them in time", "reason=\"%s\"",
               rmq_error_message(why));
        rmq_error_destroy(why);
    }
}

rmq_status rq_send_keep_oneway(struct rq_send_op *op, struct rq_peer *peer, struct rq_out *out)
{
    struct rq_send_pool *pool = op->pool;
    op->kept = true;
    rq_mutex_lock(&pool->lock);
    pool->refs++;
    rq_mutex_unlock(&pool->lock);
    rmq_status st = rq_peer_oneway(peer, out, op->deadline_ms, kept_is_over, pool);
    if (st != RMQ_OK) {
        rq_mutex_lock(&pool->lock);
        rq_send_unlock_and_drop(pool, 1);
    }
    return st;
}

void rq_send_pool_counts(struct rq_send_pool *pool, struct rq_send_counts *counts, int32_t *window,
                         int64_t *window_bytes)
{
    rq_mutex_lock(&pool->lock);
    *counts = pool->counts;
    *window = pool->window;
    *window_bytes = pool->window_bytes;
    rq_mutex_unlock(&pool->lock);
}

bool rq_send_note_consumed(struct rq_send_op *op)
{
    unsigned old = atomic_fetch_or_explicit(&op->state, RQ_SEND_CONSUMED, memory_order_acq_rel);
    return (old & RQ_SEND_MACHINE_DONE) != 0;
}

void rq_send_consumed(struct rq_send_op *op)
{
    struct rq_send_pool *pool = op->pool;
    rq_mutex_lock(&pool->lock);
    rq_send_leave_window_locked(op);
    rq_list_remove(&op->node);
    if (op->mode != RQ_SEND_EVENT) { /* an event was counted when it was posted */
        rq_send_count_locked(op);
    }
    rq_send_tell_drain_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (rq_send_note_consumed(op)) {
        rq_send_recycle(op);
    }
}

/* The shutdown may have claimed it, but tells nobody: it was never started. */
void rq_send_pool_untake(struct rq_send_op *op)
{
    (void)atomic_fetch_or_explicit(&op->state, RQ_SEND_DELIVERED | RQ_SEND_MACHINE_DONE,
                                   memory_order_acq_rel);
    if (op->mode == RQ_SEND_EVENT) { /* there will be no event */
        rq_mutex_lock(&op->pool->lock);
        rq_send_count_locked(op);
        rq_mutex_unlock(&op->pool->lock);
    }
    rq_send_consumed(op);
}

bool rq_send_started(struct rq_send_op *op)
{
    unsigned old = atomic_load_explicit(&op->state, memory_order_relaxed);
    while ((old & (RQ_SEND_STARTING | RQ_SEND_DELIVERED)) == RQ_SEND_STARTING) {
        if (atomic_compare_exchange_weak_explicit(&op->state, &old,
                                                  old & ~(unsigned)RQ_SEND_STARTING,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            return true;
        }
    }
    return !(old & RQ_SEND_STARTING);
}

/* false: it is delivered, and nothing is changed. */
static bool change_undelivered(struct rq_send_op *op, unsigned clear, unsigned set)
{
    unsigned old = atomic_load_explicit(&op->state, memory_order_relaxed);
    while (!(old & RQ_SEND_DELIVERED)) {
        if (atomic_compare_exchange_weak_explicit(&op->state, &old, (old & ~clear) | set,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool rq_send_try(struct rq_send_op *op)
{
    return change_undelivered(op, RQ_SEND_STARTING, RQ_SEND_TRIED);
}

bool rq_send_untry(struct rq_send_op *op)
{
    return change_undelivered(op, rq_send_may_be_stored(op) ? 0 : RQ_SEND_TRIED, RQ_SEND_STARTING);
}

void rq_send_not_stored(struct rq_send_op *op)
{
    (void)atomic_fetch_and_explicit(&op->state, ~(unsigned)RQ_SEND_TRIED, memory_order_acq_rel);
}

bool rq_send_is_cut(struct rq_send_op *op)
{
    if (!(atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_DELIVERED)) {
        return false;
    }
    rq_send_end_cut(
        op, atomic_fetch_or_explicit(&op->state, RQ_SEND_MACHINE_DONE, memory_order_acq_rel));
    return true;
}

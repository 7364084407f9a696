/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Operation objects of a producer: taken by senders, completed by the I/O thread, received by waiting threads, the callback thread or the program's
 * event loop (see send.h). One lock; completions of a batch are received under one hold of it.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/hooks.h"
#include "client/send.h"

#define FREE_MAX   1024  /* operations kept for the next send */
#define KEEP_BYTES 16384 /* buffers of a free operation that are kept */
#define CALLBACK_EXCESS                                                                            \
    2             /* sends from callbacks may fill the window this many times: they cannot wait */
#define POLL_MS 2 /* drain on the callback thread looks again */

static void run_callbacks(struct rq_work *work);
static void post_work(struct rq_task *task);

struct rq_send_pool *rq_send_pool_create(const rmq_producer_options *options)
{
    struct rq_send_pool *pool = rq_calloc(1, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    rq_mpsc_init(&pool->completed);
    atomic_init(&pool->work_posted, false);
    pool->work.run = run_callbacks;
    pool->post_work.run = post_work;
    pool->events = options->events;
    pool->window_max = options->max_async_in_flight;
    pool->window_bytes_max = options->max_async_in_flight_bytes;
    rq_mutex_init(&pool->lock);
    rq_cond_init(&pool->room);
    rq_cond_init(&pool->change);
    pool->refs = 1;
    rq_list_init(&pool->active);
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

static void unlock_and_drop(struct rq_send_pool *pool, unsigned refs)
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
    unlock_and_drop(pool, 1);
}

/* What a send leaves behind. Without the lock: nobody else knows the operation any more. */
static void clean_op(struct rq_send_op *op)
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

static void put_free_locked(struct rq_send_pool *pool, struct rq_send_op *op)
{
    if (pool->free_count < FREE_MAX) {
        pool->free_count++;
        rq_list_add_head(&pool->free, &op->node);
    } else {
        free_op(op);
    }
}

/* Both sides have let go: the object is free. */
static void recycle(struct rq_send_op *op)
{
    struct rq_send_pool *pool = op->pool;
    clean_op(op);
    rq_mutex_lock(&pool->lock);
    put_free_locked(pool, op);
    unlock_and_drop(pool, 1);
}

/* Who waits is not woken for each place: an eighth of the window must be free. */
static bool has_much_room_locked(const struct rq_send_pool *pool)
{
    return pool->window <= pool->window_max - pool->window_max / 8 &&
           (pool->window_bytes <= pool->window_bytes_max - pool->window_bytes_max / 8 ||
            pool->window == 0);
}

static void leave_window_locked(struct rq_send_op *op)
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
    atomic_store_explicit(&op->state, 0, memory_order_relaxed);
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

static void tell_drain_locked(struct rq_send_pool *pool)
{
    if (pool->closing && rq_list_empty(&pool->active)) {
        rq_cond_broadcast(&pool->change);
    }
}

/* A send is over. What the machine wrote may be read only when it was not cut off. */
static void count_locked(struct rq_send_op *op)
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
        counts->oneway++;
    } else {
        counts->failed++;
        counts->maybe_stored += op->maybe_stored;
    }
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

/* The completion was received. The object must be off the active list: the machine may put it among the free ones from here on. Returns
 * whether the machine has ended; if not, it frees the object when it does. */
static bool note_consumed(struct rq_send_op *op)
{
    unsigned old = atomic_fetch_or_explicit(&op->state, RQ_SEND_CONSUMED, memory_order_acq_rel);
    return (old & RQ_SEND_MACHINE_DONE) != 0;
}

void rq_send_consumed(struct rq_send_op *op)
{
    struct rq_send_pool *pool = op->pool;
    rq_mutex_lock(&pool->lock);
    leave_window_locked(op);
    rq_list_remove(&op->node);
    if (op->mode != RQ_SEND_EVENT) { /* an event was counted when it was posted */
        count_locked(op);
    }
    tell_drain_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (note_consumed(op)) {
        recycle(op);
    }
}

bool rq_send_pool_untake(struct rq_send_op *op)
{
    unsigned old = atomic_fetch_or_explicit(&op->state, RQ_SEND_DELIVERED | RQ_SEND_MACHINE_DONE,
                                            memory_order_acq_rel);
    if (!(old & RQ_SEND_DELIVERED) || op->mode == RQ_SEND_SYNC || op->mode == RQ_SEND_ONEWAY) {
        if (op->mode == RQ_SEND_EVENT) { /* there will be no event */
            rq_mutex_lock(&op->pool->lock);
            count_locked(op);
            rq_mutex_unlock(&op->pool->lock);
        }
        rq_send_consumed(op);
        return true;
    }
    if (old & RQ_SEND_CONSUMED) {
        recycle(op);
    }
    return false;
}

/* The machine of an operation that the shutdown had completed has ended. */
static void end_cut_machine(struct rq_send_op *op)
{
    unsigned old = atomic_fetch_or_explicit(&op->state, RQ_SEND_MACHINE_DONE, memory_order_acq_rel);
    if (old & RQ_SEND_CONSUMED) {
        recycle(op);
    }
}

bool rq_send_is_cut(struct rq_send_op *op)
{
    if (!(atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_DELIVERED)) {
        return false;
    }
    end_cut_machine(op);
    return true;
}

/* ---- completion ---- */

static rmq_error *cut_error(void)
{
    rmq_error *err = NULL;
    rq_error_set(&err, RMQ_ERR_CLOSED, "the producer was shut down before the send was answered");
    rq_error_mark(err, false, true);
    return err;
}

static void destroy_event(struct rmq_event *event)
{
    struct rq_send_op *op = RQ_CONTAINER_OF(event, struct rq_send_op, event);
    bool cut = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
    if (cut) {
        rmq_error_destroy(
            event->error); /* made for the event; the operation's own is the machine's */
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
    event->error = cut ? cut_error() : op->error;
    event->result = event->error ? NULL : &op->result;
    event->destroy = destroy_event;
    /* It is the program's from here on: shutdown does not wait until it has been looked at. */
    rq_mutex_lock(&pool->lock);
    leave_window_locked(op);
    rq_list_remove(&op->node);
    count_locked(op);
    tell_drain_locked(pool);
    rq_mutex_unlock(&pool->lock);
    rq_events_post(pool->events, event);
}

static void post_work(struct rq_task *task)
{
    struct rq_send_pool *pool = RQ_CONTAINER_OF(task, struct rq_send_pool, post_work);
    rq_executor_post(pool->executor, &pool->work);
}

/* Once for all that is completed until the callback thread looks. On the loop at the end of the turn, when the answers of a whole read are there: a
 * callback thread that is quicker than the loop would be woken for each of them. */
static void wake_callbacks(struct rq_send_pool *pool)
{
    if (atomic_exchange_explicit(&pool->work_posted, true, memory_order_acq_rel)) {
        return;
    }
    if (!rq_loop_in(pool->loop) || !rq_loop_post(pool->loop, &pool->post_work)) {
        rq_executor_post(pool->executor, &pool->work);
    }
}

static bool is_cut(struct rq_send_op *op)
{
    return (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
}

static void call_back(struct rq_send_op *op)
{
    bool cut = is_cut(op);
    rmq_error *err = cut ? cut_error() : op->error;
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
    if (rq_mpsc_push(&op->pool->completed, &op->completed)) {
        wake_callbacks(op->pool);
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

void rq_send_deliver(struct rq_send_op *op)
{
    unsigned old = atomic_fetch_or_explicit(&op->state, RQ_SEND_DELIVERED | RQ_SEND_MACHINE_DONE,
                                            memory_order_acq_rel);
    if (!(old & RQ_SEND_DELIVERED)) {
        dispatch(op, false);
    } else if (old & RQ_SEND_CONSUMED) {
        recycle(op);
    }
}

/* The places in the window are given back before the callbacks run: a callback may send. */
static void leave_window_all(struct rq_send_pool *pool, struct rq_mpsc_node *first)
{
    rq_mutex_lock(&pool->lock);
    for (struct rq_mpsc_node *node = first; node; node = node->next) {
        leave_window_locked(RQ_CONTAINER_OF(node, struct rq_send_op, completed));
    }
    rq_mutex_unlock(&pool->lock);
}

static void consume_all(struct rq_send_pool *pool, struct rq_mpsc_node *first)
{
    rq_mutex_lock(&pool->lock);
    for (struct rq_mpsc_node *node = first; node; node = node->next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        rq_list_remove(&op->node);
        count_locked(op);
    }
    rq_mutex_unlock(&pool->lock);
    struct rq_list done;
    rq_list_init(&done);
    for (struct rq_mpsc_node *node = first, *next; node; node = next) {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, completed);
        next = node->next;
        if (note_consumed(op)) {
            clean_op(op);
            rq_list_add_tail(&done, &op->node);
        }
    }
    unsigned refs = 0;
    rq_mutex_lock(&pool->lock);
    for (struct rq_list *node; (node = rq_list_pop(&done)); refs++) {
        put_free_locked(pool, RQ_CONTAINER_OF(node, struct rq_send_op, node));
    }
    tell_drain_locked(pool);
    unlock_and_drop(pool, refs);
}

static void run_callbacks(struct rq_work *work)
{
    struct rq_send_pool *pool = RQ_CONTAINER_OF(work, struct rq_send_pool, work);
    (void)atomic_exchange_explicit(&pool->work_posted, false, memory_order_acq_rel);
    struct rq_mpsc_node *first = rq_mpsc_take_all(&pool->completed);
    leave_window_all(pool, first);
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
    consume_all(pool, called);
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

bool rq_send_pool_drain(struct rq_send_pool *pool, int64_t deadline_ms)
{
    bool callback = rq_executor_in();
    rq_mutex_lock(&pool->lock);
    bool in_time = true;
    bool busy = true;
    while (in_time) {
        busy = callback ? has_undelivered_locked(pool) : !rq_list_empty(&pool->active);
        if (!busy) {
            break;
        }
        int64_t now = rq_mono_ms();
        int64_t until = callback && now + POLL_MS < deadline_ms ? now + POLL_MS : deadline_ms;
        (void)rq_cond_wait_until(&pool->change, &pool->lock, until);
        in_time = rq_mono_ms() < deadline_ms;
    }
    busy = callback ? has_undelivered_locked(pool) : !rq_list_empty(&pool->active);
    rq_mutex_unlock(&pool->lock);
    return !busy;
}

/* Claims the completion of an undelivered operation for the shutdown. */
static bool claim_cut(struct rq_send_op *op)
{
    unsigned old = atomic_load_explicit(&op->state, memory_order_acquire);
    while (!(old & RQ_SEND_DELIVERED)) {
        if (atomic_compare_exchange_weak_explicit(&op->state, &old,
                                                  old | RQ_SEND_DELIVERED | RQ_SEND_CUT,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

size_t rq_send_pool_cut(struct rq_send_pool *pool)
{
    struct rq_mpsc_node *first = NULL;
    size_t count = 0;
    rq_mutex_lock(&pool->lock);
    RQ_LIST_FOREACH_SAFE(node, following, &pool->active)
    {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, node);
        if (claim_cut(op)) {
            op->completed.next = first;
            first = &op->completed;
            count++;
        }
    }
    rq_mutex_unlock(&pool->lock);
    /* Claimed ones stay until their completion is received, which cannot be before it is dispatched here. */
    for (struct rq_mpsc_node *node = first, *next; node; node = next) {
        next = node->next;
        dispatch(RQ_CONTAINER_OF(node, struct rq_send_op, completed), true);
    }
    return count;
}

void rq_send_pool_end(struct rq_send_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    struct rq_executor *executor = pool->executor;
    pool->executor = NULL;
    rq_mutex_unlock(&pool->lock);
    rq_executor_put(executor);
}

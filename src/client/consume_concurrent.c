/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The workers of a pool. A worker takes the oldest run that nobody has exhausted, claims messages
 * from it until none is left, and calls the listener for each claim; what it consumed in one piece
 * is reported in one piece, at the end of the run or, when the listener is slow, after each call.
 * Counterpart: ConsumeMessageConcurrentlyService.
 */
#include "base/mem.h"
#include "base/time.h"
#include "client/pool_priv.h"
#include "wire/message.h"

#define SLOW_NS 50000 /* a listener call this long: report and measure after each */

/* Messages consumed in one piece and not reported yet. */
struct piece {
    uint32_t from;
    uint32_t to;
};

/* ---- consuming: one worker, no lock held ---- */

static void report(struct rq_pool *pool, struct rq_pulled *pulled, struct piece *piece)
{
    if (piece->to > piece->from) {
        pool->options.ops->done(pool, pulled, piece->from, piece->to);
    }
    piece->from = piece->to;
}

static bool needs_preparing(const struct rq_pulled *pulled, const struct rmq_message_view *view)
{
    return pulled->popped || (view->sys_flag & RQ_SYS_COMPRESSED);
}

uint32_t rq_worker_prepare(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at,
                           uint32_t count)
{
    struct rq_pool *pool = worker->pool;
    for (uint32_t i = 0; i < count; i++) {
        struct rmq_message_view *view = pulled->views[at + i];
        if (needs_preparing(pulled, view) && !pool->options.ops->prepare(pool, pulled, at + i)) {
            return i;
        }
        worker->views[i] = view;
    }
    return count;
}

void rq_worker_shrink(struct rq_pulled *pulled, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++) {
        if (pulled->views[i]->sys_flag & RQ_SYS_COMPRESSED) {
            rq_process_queue_let_go(pulled->queue, pulled->views[i]);
        }
    }
}

static void call_listener(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at,
                          uint32_t count, struct piece *piece)
{
    struct rq_pool *pool = worker->pool;
    struct rmq_consume_context context = RQ_CONTEXT_DEFAULT;
    rmq_consume_result result = rq_worker_listen(worker, count, &context);
    rq_worker_shrink(pulled, at, count);
    uint32_t good = 0;
    if (result == RMQ_CONSUME_SUCCESS && context.ack_index >= 0) {
        good = (uint32_t)context.ack_index < count ? (uint32_t)context.ack_index + 1 : count;
    }
    piece->to = at + good;
    if (good < count) {
        report(pool, pulled, piece);
        pool->options.ops->later(pool, pulled, at + good, at + count, context.delay_level);
        *piece = (struct piece){.from = at + count, .to = at + count};
    }
}

void rq_worker_note_call(struct rq_worker *worker, uint32_t at, uint32_t count)
{
    atomic_store_explicit(&worker->at, at, memory_order_relaxed);
    atomic_store_explicit(&worker->count, count, memory_order_relaxed);
    uint64_t calls = atomic_load_explicit(&worker->calls, memory_order_relaxed);
    atomic_store_explicit(&worker->calls, calls + 1, memory_order_relaxed);
}

static void consume(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at, uint32_t count,
                    struct piece *piece)
{
    if (at != piece->to) {
        report(worker->pool, pulled, piece);
        *piece = (struct piece){.from = at, .to = at};
    }
    rq_worker_note_call(worker, at, count);
    while (count > 0) {
        uint32_t good = rq_worker_prepare(worker, pulled, at, count);
        if (good > 0) {
            call_listener(worker, pulled, at, good, piece);
        }
        if (good < count) { /* the one behind them goes its own way */
            report(worker->pool, pulled, piece);
            good++;
            *piece = (struct piece){.from = at + good, .to = at + good};
        }
        at += good;
        count -= good;
    }
}

static void note_speed(struct rq_pool *pool, int64_t start_us, uint32_t calls)
{
    int64_t ns = (rq_mono_us() - start_us) * 1000 / calls;
    int64_t old = atomic_load_explicit(&pool->listener_ns, memory_order_relaxed);
    int64_t average = old < 0 ? ns : (old * 7 + ns) / 8;
    atomic_store_explicit(&pool->listener_ns, average, memory_order_relaxed);
}

static bool is_slow(struct rq_pool *pool)
{
    int64_t ns = atomic_load_explicit(&pool->listener_ns, memory_order_relaxed);
    return ns < 0 || ns > SLOW_NS;
}

static void consume_run(struct rq_worker *worker, struct rq_run *run)
{
    struct rq_pool *pool = worker->pool;
    struct piece piece = {0, 0};
    uint32_t most = (uint32_t)pool->options.batch_max;
    uint32_t calls = 0;
    bool slow = is_slow(pool);
    int64_t start_us = rq_mono_us();
    while (!rq_pool_is_stopping(pool)) {
        uint32_t count;
        uint32_t at = rq_run_claim(run, most, &count);
        if (count == 0) {
            break;
        }
        consume(worker, run->pulled, at, count, &piece);
        calls++;
        if (slow) {
            report(pool, run->pulled, &piece);
            note_speed(pool, start_us, calls);
            slow = is_slow(pool);
            start_us = rq_mono_us();
            calls = 0;
        }
    }
    report(pool, run->pulled, &piece);
    if (calls > 0) {
        note_speed(pool, start_us, calls);
    }
}

static bool is_dropped(const struct rq_pulled *pulled)
{
    return rq_process_queue_is_dropped(pulled->queue);
}

static void consume_again(struct rq_worker *worker, struct rq_again *again)
{
    struct piece piece = {again->index, again->index};
    if (!rq_pool_is_stopping(worker->pool) && !is_dropped(again->pulled)) {
        consume(worker, again->pulled, again->index, 1, &piece);
        report(worker->pool, again->pulled, &piece);
    }
}

/* ---- a worker's life ---- */

static void enter_locked(struct rq_worker *worker, struct rq_pulled *pulled) RQ_REQUIRES(lock)
{
    worker->pulled = pulled;
    worker->pool->in_hands++;
}

static void end_turn(struct rq_worker *worker, struct rq_run *run, struct rq_pulled *pulled)
{
    struct rq_pool *pool = worker->pool;
    rq_mutex_lock(&pool->lock);
    bool listed = run && rq_run_is_exhausted(run) && rq_pool_unlink_locked(run);
    worker->pulled = NULL;
    pool->leaving -= worker->leaving ? 1 : 0;
    worker->leaving = false;
    bool last = rq_pool_leave_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (listed) {
        rq_pulled_release(pulled);
    }
    rq_pulled_release(pulled);
    if (last) {
        pool->options.ops->quiet(pool);
    }
}

static void leave_turn(struct rq_worker *worker)
{
    struct rq_pool *pool = worker->pool;
    rq_mutex_lock(&pool->lock);
    pool->leaving -= worker->leaving ? 1 : 0;
    worker->leaving = false;
    rq_mutex_unlock(&pool->lock);
    rq_pool_leave(pool);
}

/* One turn of an ordered queue. false: none waits. Enters and returns with the lock held. */
static bool ordered_turn_locked(struct rq_worker *worker) RQ_REQUIRES(lock)
{
    struct rq_pool *pool = worker->pool;
    struct rq_turn *turn = rq_pool_next_turn_locked(pool);
    if (!turn) {
        return false;
    }
    pool->in_hands++;
    rq_mutex_unlock(&pool->lock);
    rq_pool_end_turn(pool, turn, rq_worker_consume_turn(worker, turn));
    leave_turn(worker);
    rq_mutex_lock(&pool->lock);
    return true;
}

static bool job_locked(struct rq_worker *worker) RQ_REQUIRES(lock)
{
    struct rq_pool *pool = worker->pool;
    struct rq_list *node = rq_list_pop(&pool->jobs);
    if (!node) {
        return false;
    }
    struct rq_pool_job *job = RQ_CONTAINER_OF(node, struct rq_pool_job, node);
    pool->in_hands++;
    rq_mutex_unlock(&pool->lock);
    job->turn(job, true);
    leave_turn(worker);
    rq_mutex_lock(&pool->lock);
    return true;
}

/* One piece of work. false: there is none. Enters and returns with the lock held. */
static bool turn_locked(struct rq_worker *worker) RQ_REQUIRES(lock)
{
    struct rq_pool *pool = worker->pool;
    if (job_locked(worker)) {
        return true;
    }
    struct rq_again *again = rq_pool_pop_again_locked(pool);
    struct rq_run *run = again ? NULL : rq_pool_next_run_locked(pool);
    if (!again && !run) {
        return ordered_turn_locked(worker);
    }
    struct rq_pulled *pulled = again ? again->pulled : run->pulled;
    enter_locked(worker, pulled);
    rq_mutex_unlock(&pool->lock);
    if (again) {
        consume_again(worker, again);
        rq_free(again);
    } else {
        consume_run(worker, run);
    }
    end_turn(worker, run, pulled);
    rq_mutex_lock(&pool->lock);
    return true;
}

/* Fewer workers are wanted: the last one ends, and the one before it looks. */
static bool ends_locked(struct rq_worker *worker) RQ_REQUIRES(lock)
{
    struct rq_pool *pool = worker->pool;
    if (worker->index < pool->threads || worker->index != pool->started - 1) {
        return false;
    }
    pool->started--;
    rq_pool_pass_on_locked(pool);
    rq_cond_broadcast(&pool->change);
    return true;
}

/* One that is too many takes no work, and no signal that is meant for one who does. */
static void wait_as_surplus_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    pool->surplus++;
    rq_pool_pass_on_locked(pool);
    rq_cond_wait(&pool->change, &pool->lock);
    pool->surplus--;
}

void rq_pool_work(void *arg)
{
    struct rq_worker *worker = arg;
    struct rq_pool *pool = worker->pool;
    rq_mutex_lock(&pool->lock);
    pool->arriving--;
    while (!rq_pool_is_stopping(pool) && !ends_locked(worker)) {
        if (worker->index >= pool->threads) {
            wait_as_surplus_locked(pool);
        } else if (!turn_locked(worker) && !rq_pool_is_stopping(pool)) {
            pool->idle++;
            rq_cond_wait(&pool->work, &pool->lock);
            pool->idle--;
            pool->waking -= pool->waking > 0 ? 1 : 0;
        }
    }
    rq_mutex_unlock(&pool->lock);
}

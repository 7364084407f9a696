/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Ordered consumption in the pool: a queue has one turn, and who has the turn in hands consumes the
 * queue's messages one batch after the other, each only when the one before it is settled. A turn
 * goes back when the queue is empty, when its lock is not held, when the handler wants a pause, or
 * when it has lasted long enough. Workers and takers; the I/O thread submits. Counterpart:
 * ConsumeMessageOrderlyService.
 */
#include "base/time.h"
#include "client/pool_priv.h"

#define YIELD_MS 0

/* ---- the list of turns ---- */

bool rq_pool_submit_turn(struct rq_pool *pool, struct rq_turn *turn, bool *first)
{
    rq_mutex_lock(&pool->lock);
    *first = false;
    turn->again = turn->busy;
    bool take =
        !turn->busy && !turn->parked && rq_list_empty(&turn->node) && !rq_pool_is_stopping(pool);
    if (take) {
        *first = !rq_pool_has_work_locked(pool);
        rq_list_add_tail(&pool->turns, &turn->node);
        rq_pool_offer_locked(pool, 1);
    }
    rq_pool_unlock_and_wake(pool);
    return take;
}

bool rq_pool_unpark(struct rq_pool *pool, struct rq_turn *turn)
{
    rq_mutex_lock(&pool->lock);
    bool was = turn->parked;
    turn->parked = false;
    rq_mutex_unlock(&pool->lock);
    return was;
}

bool rq_pool_withdraw_turn(struct rq_pool *pool, struct rq_turn *turn)
{
    rq_mutex_lock(&pool->lock);
    bool listed = !rq_list_empty(&turn->node);
    rq_list_remove(&turn->node);
    rq_pool_update_fd_locked(pool);
    rq_mutex_unlock(&pool->lock);
    return listed;
}

bool rq_pool_turn_is_busy(struct rq_pool *pool, const struct rq_turn *turn)
{
    rq_mutex_lock(&pool->lock);
    bool busy = turn->busy;
    rq_mutex_unlock(&pool->lock);
    return busy;
}

struct rq_turn *rq_pool_next_turn_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    struct rq_list *node = rq_list_pop(&pool->turns);
    if (!node) {
        return NULL;
    }
    struct rq_turn *turn = RQ_CONTAINER_OF(node, struct rq_turn, node);
    turn->busy = true;
    turn->again = false;
    return turn;
}

bool rq_pool_end_turn(struct rq_pool *pool, struct rq_turn *turn, int64_t wait_ms)
{
    rq_mutex_lock(&pool->lock);
    bool stopping = rq_pool_is_stopping(pool);
    bool relist = !stopping && (wait_ms == YIELD_MS || (wait_ms < 0 && turn->again));
    turn->busy = false;
    turn->again = false;
    turn->parked = !stopping && wait_ms > 0;
    bool first = relist && !rq_pool_has_work_locked(pool);
    if (relist) {
        rq_list_add_tail(&pool->turns, &turn->node);
        rq_pool_offer_locked(pool, 1);
    }
    rq_pool_unlock_and_wake(pool);
    if (!relist) {
        pool->options.ops->turn_left(pool, turn, stopping ? RQ_TURN_OVER : wait_ms);
    }
    return first;
}

/* ---- a worker's turn ---- */

/* Bodies that cannot be read have been reported and go to the dead letters; what is before them is
 * consumed, and the queue waits until they are gone. A broadcasting consumer gives them up at
 * once. */
static int64_t consume_batch(struct rq_worker *worker, struct rq_turn *turn,
                             struct rq_pulled *pulled, uint32_t from, uint32_t count)
{
    struct rq_pool *pool = worker->pool;
    uint32_t good = rq_worker_prepare(worker, pulled, from, count);
    if (good < count) {
        rq_process_queue_put_back(pulled->queue, pulled, from + good);
    }
    if (good == 0) {
        return rq_process_queue_is_done(pulled->queue, pulled->views[from]) ? 0 : RQ_TURN_OVER;
    }
    struct rmq_consume_context context = RQ_CONTEXT_DEFAULT;
    rmq_consume_result result = rq_worker_listen(worker, good, &context);
    rq_worker_shrink(pulled, from, good);
    return pool->options.ops->turn_result(pool, turn, pulled, from, from + good, result, &context);
}

int64_t rq_worker_consume_turn(struct rq_worker *worker, struct rq_turn *turn)
{
    struct rq_pool *pool = worker->pool;
    const struct rq_pool_ops *ops = pool->options.ops;
    uint32_t most = (uint32_t)pool->options.batch_max;
    int64_t deadline_ms = rq_deadline_ms(pool->options.turn_most_ms);
    int64_t wait_ms = 0;
    while (wait_ms == 0 && rq_mono_ms() < deadline_ms) {
        struct rq_pulled *pulled = NULL;
        uint32_t from = 0;
        uint32_t count = 0;
        if (rq_pool_is_stopping(pool) ||
            !ops->turn_take(pool, turn, most, &pulled, &from, &count)) {
            return RQ_TURN_OVER;
        }
        rq_worker_note_call(worker, from, count);
        wait_ms = consume_batch(worker, turn, pulled, from, count);
        rq_pulled_release(pulled);
    }
    return wait_ms;
}

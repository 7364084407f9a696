/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Takers of a pool: threads of the program that poll. Any thread. What they took counts as in hands
 * until it is given back.
 */
#include "base/mem.h"
#include "base/time.h"
#include "client/pool_priv.h"

static void take_locked(struct rq_pool *pool, struct rq_batch_node *batch) RQ_REQUIRES(lock)
{
    struct rq_again *again = rq_pool_pop_again_locked(pool);
    if (again) {
        batch->pulled = again->pulled;
        batch->from = again->index;
        batch->count = 1;
        rq_free(again);
        return;
    }
    /* Claims are made under the lock here, so a run that is not exhausted has something left. */
    struct rq_run *run = rq_pool_next_run_locked(pool);
    if (run) {
        batch->pulled = run->pulled;
        batch->from = rq_run_claim(run, (uint32_t)pool->options.batch_max, &batch->count);
        rq_list_remove(&run->node);
        if (rq_run_is_exhausted(run)) {
            rq_pulled_release(run->pulled);
        } else {
            rq_list_add_head(&pool->ready, &run->node);
        }
    }
}

/* An ordered queue's next messages. The lock is let go meanwhile; in_hands counts the turn. */
static void take_of_turn_locked(struct rq_pool *pool, struct rq_batch_node *batch) RQ_REQUIRES(lock)
{
    struct rq_turn *turn = rq_pool_next_turn_locked(pool);
    if (!turn) {
        return;
    }
    pool->in_hands++;
    rq_mutex_unlock(&pool->lock);
    bool taken = pool->options.ops->turn_take(pool, turn, (uint32_t)pool->options.batch_max,
                                              &batch->pulled, &batch->from, &batch->count);
    if (taken) {
        batch->turn = turn;
    } else {
        batch->pulled = NULL;
        rq_pool_end_turn(pool, turn, RQ_TURN_OVER);
        rq_pool_leave(pool);
    }
    rq_mutex_lock(&pool->lock);
    pool->in_hands -= taken ? 1 : 0; /* the batch counts from here on */
}

rmq_status rq_pool_take(struct rq_pool *pool, int64_t deadline_ms, struct rq_batch_node *batch,
                        bool *more)
{
    rmq_status st = RMQ_OK;
    batch->pulled = NULL;
    batch->turn = NULL;
    rq_mutex_lock(&pool->lock);
    while (st == RMQ_OK && !batch->pulled) {
        if (rq_pool_is_stopping(pool)) {
            st = RMQ_ERR_CLOSED;
        } else if (rq_pool_has_work_locked(pool)) {
            take_locked(pool, batch);
            if (!batch->pulled) {
                take_of_turn_locked(pool, batch);
            }
        } else {
            pool->takers++;
            bool in_time = rq_cond_wait_until(&pool->work, &pool->lock, deadline_ms);
            pool->takers--;
            bool late = !in_time && !rq_pool_has_work_locked(pool) && !rq_pool_is_stopping(pool);
            st = late ? RMQ_ERR_TIMEOUT : RMQ_OK;
        }
    }
    if (batch->pulled) {
        batch->taken_ms = rq_mono_ms();
        rq_list_add_tail(&pool->batches, &batch->node);
        pool->in_hands++;
        if (rq_pool_has_work_locked(pool) && pool->takers > 0) {
            rq_cond_signal(&pool->work);
        }
    }
    *more = rq_pool_has_work_locked(pool);
    rq_pool_update_fd_locked(pool);
    rq_mutex_unlock(&pool->lock);
    return st;
}

bool rq_pool_give_back(struct rq_pool *pool, struct rq_batch_node *batch)
{
    rq_mutex_lock(&pool->lock);
    bool mine = !rq_list_empty(&batch->node);
    rq_list_remove(&batch->node);
    rq_mutex_unlock(&pool->lock);
    return mine;
}

void rq_pool_leave(struct rq_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    bool last = rq_pool_leave_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (last) {
        pool->options.ops->quiet(pool);
    }
}

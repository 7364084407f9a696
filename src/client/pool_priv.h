/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a pool, shared by pool.c (the list of work, start and end), pool_take.c (takers),
 * consume_concurrent.c (workers) and consume_orderly.c (turns of ordered queues).
 */
#ifndef RQ_CLIENT_POOL_PRIV_H
#define RQ_CLIENT_POOL_PRIV_H

#include "client/pool.h"

/* One message offered once more. */
struct rq_again {
    struct rq_list node;
    struct rq_pulled *pulled; /* referenced */
    uint32_t index;
};

struct rq_worker {
    struct rq_pool *pool;
    int32_t index;
    struct rq_thread thread;        /* guarded by pool->lock until joined */
    const rmq_message_view **views; /* owned by the worker: room for batch_max */

    struct rq_pulled *pulled; /* guarded by pool->lock: in hands */
    bool leaving;             /* guarded by pool->lock: its listener waits in shutdown */

    /* atomic: relaxed, written by the worker, read by the I/O thread's guard and search for
     * stuck messages */
    _Atomic uint64_t calls;
    atomic_uint at;
    atomic_uint count;

    /* owned by the I/O thread */
    uint64_t seen_calls;
    int64_t seen_ms;
};

/* What a worker's thread runs. consume_concurrent.c. */
void rq_pool_work(void *arg);

/* consume_orderly.c: one turn of a queue, no lock held; wait_ms as of turn_result. */
int64_t rq_worker_consume_turn(struct rq_worker *worker, struct rq_turn *turn);
/* Takes the oldest turn off the list, into hands. */
struct rq_turn *rq_pool_next_turn_locked(struct rq_pool *pool) RQ_REQUIRES(lock);

/* consume_concurrent.c: makes bodies readable and notes them in worker->views; returns how many
 * from the first on are, before one that is not. */
uint32_t rq_worker_prepare(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at,
                           uint32_t count);
/* consumer_trace.c: calls the listener with worker->views, leaving trace records when that is asked
 * for. */
rmq_consume_result rq_worker_listen(struct rq_worker *worker, uint32_t count,
                                    struct rmq_consume_context *context);
void rq_worker_note_call(struct rq_worker *worker, uint32_t at, uint32_t count);
/* Expanded bodies are kept only while somebody looks at them: a cache full of them would need
 * many times its limit. */
void rq_worker_shrink(struct rq_pulled *pulled, uint32_t at, uint32_t count);

/* pool.c */
bool rq_pool_has_work_locked(const struct rq_pool *pool) RQ_REQUIRES(lock);
void rq_pool_update_fd_locked(struct rq_pool *pool) RQ_REQUIRES(lock);
/* There is more work for somebody: messages of it. */
void rq_pool_offer_locked(struct rq_pool *pool, int64_t messages) RQ_REQUIRES(lock);
/* A worker leaves that was counted as awake for what was listed meanwhile: another comes for it. */
void rq_pool_pass_on_locked(struct rq_pool *pool) RQ_REQUIRES(lock);
/* Signals come after the lock: who wakes would only go to sleep again for it. */
void rq_pool_unlock_and_wake(struct rq_pool *pool) RQ_REQUIRES(lock);
struct rq_again *rq_pool_pop_again_locked(struct rq_pool *pool) RQ_REQUIRES(lock);
/* The next run, which goes behind the others, so that the next worker takes another one. The
 * caller gets a reference. */
struct rq_run *rq_pool_next_run_locked(struct rq_pool *pool) RQ_REQUIRES(lock);
/* Takes a run off the list; true when it was there: the list's reference is the caller's then. */
bool rq_pool_unlink_locked(struct rq_run *run) RQ_REQUIRES(lock);
/* Somebody's hands are empty again; true for the last one after a stop, who tells quiet. */
bool rq_pool_leave_locked(struct rq_pool *pool) RQ_REQUIRES(lock);

static inline bool rq_pool_is_stopping(struct rq_pool *pool)
{
    return atomic_load_explicit(&pool->stopping, memory_order_acquire);
}

/* Claims up to most messages of a run; *count is 0 when none is left. */
static inline uint32_t rq_run_claim(struct rq_run *run, uint32_t most, uint32_t *count)
{
    uint32_t at = atomic_fetch_add_explicit(&run->next, most, memory_order_relaxed);
    uint32_t left = at < run->end ? run->end - at : 0;
    *count = left < most ? left : most;
    return at;
}

static inline bool rq_run_is_exhausted(struct rq_run *run)
{
    return atomic_load_explicit(&run->next, memory_order_relaxed) >= run->end;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The list of work, who is woken for it, and the pool's start and end. More workers are woken only
 * when those awake do not get on (rq_pool_guard), so a fast listener costs one wake-up per burst.
 * The I/O thread submits and withdraws.
 */
#include "client/pool.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/pool_priv.h"

#define SHARE_NS      200000 /* work of this much for those awake wakes another worker */
#define WARN_EVERY_MS 30000
#define GUARD_CALLS   50 /* calls between two guards that one worker with a fast listener makes */

static struct rq_pulled *pulled_of(struct rq_list *run_node)
{
    return RQ_CONTAINER_OF(run_node, struct rq_run, node)->pulled;
}

/* ---- the list of work ---- */

bool rq_pool_unlink_locked(struct rq_run *run) RQ_REQUIRES(lock)
{
    if (rq_list_empty(&run->node)) {
        return false;
    }
    rq_list_remove(&run->node);
    return true;
}

bool rq_pool_has_work_locked(const struct rq_pool *pool) RQ_REQUIRES(lock)
{
    return !rq_list_empty(&pool->ready) || !rq_list_empty(&pool->again) ||
           !rq_list_empty(&pool->turns) || !rq_list_empty(&pool->jobs);
}

/* The descriptor of takers is readable while a take would return at once. */
void rq_pool_update_fd_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    bool readable = rq_pool_has_work_locked(pool) || rq_pool_is_stopping(pool);
    if (pool->fd < 0 || readable == pool->readable) {
        return;
    }
    uint64_t value = 1;
    ssize_t n =
        readable ? write(pool->fd, &value, sizeof value) : read(pool->fd, &value, sizeof value);
    if (n == (ssize_t)sizeof value) {
        pool->readable = readable;
    }
}

static struct rq_worker *make_worker(struct rq_pool *pool, int32_t index)
{
    size_t views = (size_t)pool->options.batch_max;
    struct rq_worker *worker =
        rq_calloc(1, sizeof *worker + views * sizeof(const rmq_message_view *));
    if (worker) {
        worker->pool = pool;
        worker->index = index;
        worker->views = (const rmq_message_view **)(void *)(worker + 1);
    }
    return worker;
}

/* It is tried again all the time. */
static void note_no_worker_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    int64_t now_ms = rq_mono_ms();
    if (now_ms >= pool->quiet_until_ms) {
        pool->quiet_until_ms = now_ms + WARN_EVERY_MS;
        RQ_LOG(WARN, "a consumer's worker could not be started", "running=%d wanted=%d",
               (int)pool->started, (int)pool->threads);
    }
}

static bool start_worker_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    if (pool->started >= pool->threads || rq_pool_is_stopping(pool)) {
        return false;
    }
    struct rq_worker **place = &pool->workers[pool->started];
    if (!*place) {
        *place = make_worker(pool, pool->started);
    } else {
        rq_thread_join(&(*place)->thread); /* it has ended, or is about to without our lock */
    }
    char name[16];
    snprintf(name, sizeof name, "rmq-consume-%u", (unsigned)pool->started % 1000U);
    rmq_status st =
        *place ? rq_thread_start(&(*place)->thread, name, rq_pool_work, *place) : RMQ_ERR_NOMEM;
    if (st != RMQ_OK) {
        note_no_worker_locked(pool);
        return false;
    }
    pool->started++;
    pool->arriving++;
    return true;
}

static int64_t awake_locked(const struct rq_pool *pool) RQ_REQUIRES(lock)
{
    return pool->started - pool->idle - pool->surplus + pool->waking;
}

/* Makes sure that `wanted` more workers come for work. */
static void wake_locked(struct rq_pool *pool, int64_t wanted) RQ_REQUIRES(lock)
{
    for (int64_t i = 0; i < wanted; i++) {
        if (pool->waking < pool->idle) {
            pool->waking++;
            pool->owed++;
        } else if (!start_worker_locked(pool)) {
            return;
        }
    }
}

static int64_t backlog_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    int64_t count = 0;
    for (struct rq_list *node = pool->again.next; node != &pool->again; node = node->next) {
        count++;
    }
    for (struct rq_list *node = pool->ready.next; node != &pool->ready; node = node->next) {
        struct rq_run *run = RQ_CONTAINER_OF(node, struct rq_run, node);
        uint32_t next = atomic_load_explicit(&run->next, memory_order_relaxed);
        count += next < run->end ? run->end - next : 0;
    }
    for (struct rq_list *node = pool->turns.next; node != &pool->turns; node = node->next) {
        count++; /* a queue is for one worker, however much it has */
    }
    return count;
}

/* Workers that should come for new work beyond those that are at work already. */
static int64_t wanted_locked(struct rq_pool *pool, int64_t messages) RQ_REQUIRES(lock)
{
    int64_t ns = atomic_load_explicit(&pool->listener_ns, memory_order_relaxed);
    int64_t awake = awake_locked(pool);
    int64_t useful = ns <= 0 ? 1 : ns < SHARE_NS ? messages * ns / SHARE_NS + 1 : messages;
    useful = useful < messages ? useful : messages;
    return useful > awake ? useful - awake : 0;
}

void rq_pool_offer_locked(struct rq_pool *pool, int64_t messages) RQ_REQUIRES(lock)
{
    if (pool->options.listener) {
        wake_locked(pool, wanted_locked(pool, messages));
        return;
    }
    rq_pool_update_fd_locked(pool);
    if (pool->takers > 0) {
        pool->owed++;
    }
}

void rq_pool_pass_on_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    if (rq_pool_has_work_locked(pool)) {
        wake_locked(pool, 1); /* whoever else is awake may be one who leaves, too */
    }
    for (; pool->owed > 0; pool->owed--) {
        rq_cond_signal(&pool->work);
    }
}

void rq_pool_unlock_and_wake(struct rq_pool *pool)
{
    int32_t owed = pool->owed;
    pool->owed = 0;
    rq_mutex_unlock(&pool->lock);
    for (; owed > 0; owed--) {
        rq_cond_signal(&pool->work);
    }
}

bool rq_pool_submit(struct rq_pool *pool, struct rq_pulled *pulled)
{
    rq_mutex_lock(&pool->lock);
    bool stopped = rq_pool_is_stopping(pool);
    bool first = !stopped && !rq_pool_has_work_locked(pool);
    if (!stopped) {
        rq_list_add_tail(&pool->ready, &pulled->run.node);
        rq_pool_offer_locked(pool, pulled->count);
    }
    if (pool->options.ops->wake_soon && pool->owed > 0) {
        rq_mutex_unlock(&pool->lock);
        pool->options.ops->wake_soon(pool);
    } else {
        rq_pool_unlock_and_wake(pool);
    }
    if (stopped) {
        rq_pulled_release(pulled);
    }
    return first;
}

void rq_pool_wake(struct rq_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    rq_pool_unlock_and_wake(pool);
}

rmq_status rq_pool_submit_again(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t index)
{
    struct rq_again *again = rq_alloc(sizeof *again);
    if (!again) {
        return RMQ_ERR_NOMEM;
    }
    *again = (struct rq_again){.pulled = pulled, .index = index};
    rq_pulled_retain(pulled);
    rq_mutex_lock(&pool->lock);
    rq_list_add_tail(&pool->again, &again->node);
    rq_pool_offer_locked(pool, 1);
    rq_pool_unlock_and_wake(pool);
    return RMQ_OK;
}

bool rq_pool_submit_job(struct rq_pool *pool, struct rq_pool_job *job)
{
    rq_mutex_lock(&pool->lock);
    bool taken = pool->options.listener && !rq_pool_is_stopping(pool);
    if (taken) {
        rq_list_add_tail(&pool->jobs, &job->node);
        wake_locked(pool, 1); /* an administrator waits, whatever else there is to do */
    }
    rq_pool_unlock_and_wake(pool);
    return taken;
}

void rq_pool_withdraw(struct rq_pool *pool, struct rq_pulled *pulled)
{
    rq_mutex_lock(&pool->lock);
    atomic_store_explicit(&pulled->run.next, pulled->run.end, memory_order_relaxed);
    bool listed = rq_pool_unlink_locked(&pulled->run);
    rq_pool_update_fd_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (listed) {
        rq_pulled_release(pulled);
    }
}

struct rq_again *rq_pool_pop_again_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    struct rq_list *node = rq_list_pop(&pool->again);
    return node ? RQ_CONTAINER_OF(node, struct rq_again, node) : NULL;
}

struct rq_run *rq_pool_next_run_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    while (!rq_list_empty(&pool->ready)) {
        struct rq_run *run = RQ_CONTAINER_OF(pool->ready.next, struct rq_run, node);
        rq_list_remove(&run->node);
        if (!rq_run_is_exhausted(run)) {
            rq_list_add_tail(&pool->ready, &run->node);
            rq_pulled_retain(run->pulled);
            return run;
        }
        rq_pulled_release(run->pulled); /* those at work on it hold their own */
    }
    return NULL;
}

bool rq_pool_leave_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    pool->in_hands--;
    if (!rq_pool_is_stopping(pool)) {
        return false;
    }
    rq_cond_broadcast(&pool->change);
    return pool->in_hands == 0;
}

/* ---- the I/O thread's looks ---- */

bool rq_pool_guard(struct rq_pool *pool)
{
    if (!pool->options.listener) {
        return false;
    }
    rq_mutex_lock(&pool->lock);
    uint64_t calls = 0;
    for (int32_t i = 0; i < pool->started; i++) {
        calls += atomic_load_explicit(&pool->workers[i]->calls, memory_order_relaxed);
    }
    int64_t backlog = rq_pool_is_stopping(pool) ? 0 : backlog_locked(pool);
    int64_t awake = awake_locked(pool);
    bool stalled = calls - pool->guard_calls < (uint64_t)(awake * GUARD_CALLS);
    pool->guard_calls = calls;
    if (backlog > 0 && (stalled || awake == 0)) {
        wake_locked(pool, backlog - pool->waking - pool->arriving); /* those come for some of it */
    }
    bool again = backlog > 0 && awake_locked(pool) < pool->threads;
    rq_pool_unlock_and_wake(pool);
    return again;
}

static void look_at_worker(struct rq_worker *worker, int64_t now_ms, int64_t timeout_ms,
                           void (*fn)(void *user, struct rq_pulled *pulled, uint32_t from,
                                      uint32_t to),
                           void *user)
{
    uint64_t calls = atomic_load_explicit(&worker->calls, memory_order_relaxed);
    if (calls != worker->seen_calls || !worker->pulled) {
        worker->seen_calls = calls;
        worker->seen_ms = now_ms;
    } else if (now_ms - worker->seen_ms >= timeout_ms) {
        uint32_t at = atomic_load_explicit(&worker->at, memory_order_relaxed);
        uint32_t count = atomic_load_explicit(&worker->count, memory_order_relaxed);
        fn(user, worker->pulled, at, at + count);
    }
}

void rq_pool_each_stuck(struct rq_pool *pool, int64_t now_ms, int64_t timeout_ms,
                        void (*fn)(void *user, struct rq_pulled *pulled, uint32_t from,
                                   uint32_t to),
                        void *user)
{
    rq_mutex_lock(&pool->lock);
    for (int32_t i = 0; i < pool->started; i++) {
        look_at_worker(pool->workers[i], now_ms, timeout_ms, fn, user);
    }
    for (struct rq_list *node = pool->batches.next; node != &pool->batches; node = node->next) {
        struct rq_batch_node *batch = RQ_CONTAINER_OF(node, struct rq_batch_node, node);
        if (now_ms - batch->taken_ms >= timeout_ms) {
            fn(user, batch->pulled, batch->from, batch->from + batch->count);
        }
    }
    rq_mutex_unlock(&pool->lock);
}

/* ---- start and end ---- */

rmq_status rq_pool_init(struct rq_pool *pool, const struct rq_pool_options *options,
                        rmq_error **err)
{
    *pool = (struct rq_pool){.options = *options, .fd = -1};
    atomic_init(&pool->stopping, false);
    atomic_init(&pool->listener_ns, -1);
    rq_list_init(&pool->ready);
    rq_list_init(&pool->again);
    rq_list_init(&pool->turns);
    rq_list_init(&pool->jobs);
    rq_list_init(&pool->batches);
    rq_mutex_init(&pool->lock);
    rq_cond_init(&pool->work);
    rq_cond_init(&pool->change);
    if (!options->listener) {
        pool->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return pool->fd >= 0 ? RMQ_OK
                             : rq_error_set(err, RMQ_ERR_IO, "descriptor for polling: no eventfd");
    }
    pool->threads = options->threads;
    pool->workers = rq_calloc(RQ_POOL_THREADS_MOST, sizeof(struct rq_worker *));
    return pool->workers ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "workers");
}

/* Surplus workers end one after the other, the last first, so that those that are there stay the
 * first ones. */
void rq_pool_set_threads(struct rq_pool *pool, int32_t threads)
{
    rq_mutex_lock(&pool->lock);
    pool->threads = threads;
    rq_cond_broadcast(&pool->work); /* those who are too many now leave it */
    rq_cond_broadcast(&pool->change);
    if (rq_pool_has_work_locked(pool)) {
        wake_locked(pool, wanted_locked(pool, backlog_locked(pool)));
    }
    rq_pool_unlock_and_wake(pool);
}

static void drop_work(struct rq_pool *pool)
{
    for (struct rq_again *again = rq_pool_pop_again_locked(pool); again;
         again = rq_pool_pop_again_locked(pool)) {
        rq_pulled_release(again->pulled);
        rq_free(again);
    }
    for (struct rq_list *node = rq_list_pop(&pool->ready); node; node = rq_list_pop(&pool->ready)) {
        rq_pulled_release(pulled_of(node));
    }
    for (struct rq_list *node = rq_list_pop(&pool->turns); node; node = rq_list_pop(&pool->turns)) {
        pool->options.ops->turn_left(pool, RQ_CONTAINER_OF(node, struct rq_turn, node),
                                     RQ_TURN_OVER);
    }
}

void rq_pool_destroy(struct rq_pool *pool)
{
    drop_work(pool);
    for (int32_t i = 0; pool->workers && i < RQ_POOL_THREADS_MOST; i++) {
        rq_free(pool->workers[i]);
    }
    rq_free(pool->workers);
    if (pool->fd >= 0) {
        close(pool->fd);
    }
    rq_cond_destroy(&pool->work);
    rq_cond_destroy(&pool->change);
    rq_mutex_destroy(&pool->lock);
}

void rq_pool_stop(struct rq_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    bool first = !rq_pool_is_stopping(pool);
    atomic_store_explicit(&pool->stopping, true, memory_order_release);
    bool quiet = first && pool->in_hands == 0;
    rq_pool_update_fd_locked(pool);
    rq_cond_broadcast(&pool->work);
    rq_cond_broadcast(&pool->change);
    struct rq_list jobs;
    rq_list_init(&jobs);
    for (struct rq_list *node = rq_list_pop(&pool->jobs); node; node = rq_list_pop(&pool->jobs)) {
        rq_list_add_tail(&jobs, node);
    }
    rq_mutex_unlock(&pool->lock);
    for (struct rq_list *node = rq_list_pop(&jobs); node; node = rq_list_pop(&jobs)) {
        struct rq_pool_job *job = RQ_CONTAINER_OF(node, struct rq_pool_job, node);
        job->turn(job, false);
    }
    if (quiet) {
        pool->options.ops->quiet(pool);
    }
}

int32_t rq_pool_in_hands(struct rq_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    int32_t count = pool->in_hands;
    rq_mutex_unlock(&pool->lock);
    return count;
}

static struct rq_worker *own_worker_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    for (int32_t i = 0; i < pool->started; i++) {
        if (rq_thread_is_self(&pool->workers[i]->thread)) {
            return pool->workers[i];
        }
    }
    return NULL;
}

bool rq_pool_in(struct rq_pool *pool)
{
    rq_mutex_lock(&pool->lock);
    bool in = own_worker_locked(pool) != NULL;
    rq_mutex_unlock(&pool->lock);
    return in;
}

bool rq_pool_wait_others(struct rq_pool *pool, int64_t deadline_ms)
{
    rq_mutex_lock(&pool->lock);
    struct rq_worker *self = own_worker_locked(pool);
    if (self && !self->leaving) {
        self->leaving = true;
        pool->leaving++;
        rq_cond_broadcast(&pool->change);
    }
    bool in_time = true;
    while (in_time && pool->in_hands > pool->leaving) {
        in_time = rq_cond_wait_until(&pool->change, &pool->lock, deadline_ms);
    }
    bool alone = pool->in_hands <= pool->leaving;
    rq_mutex_unlock(&pool->lock);
    return alone;
}

void rq_pool_join(struct rq_pool *pool)
{
    for (int32_t i = 0; pool->workers && i < RQ_POOL_THREADS_MOST && pool->workers[i]; i++) {
        rq_thread_join(&pool->workers[i]->thread);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The workers of a consumer. A worker takes the oldest run that nobody has exhausted, claims messages from it until none is left, and calls the
 * listener for each claim; what it consumed in one piece is reported in one piece, at the end of the run or, when the listener is slow,
 * after each call. More workers are woken only when those awake do not get on (rq_pool_guard), so a fast listener costs one wake-up per
 * burst. Counterpart: ConsumeMessageConcurrentlyService.
 */
#include "client/consume_concurrent.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "wire/message.h"

#define SLOW_NS 50000         /* a listener call this long: report and measure after each */
#define SHARE_NS 200000       /* work of this much for those awake wakes another worker */
#define GUARD_CALLS 50        /* calls between two guards that one worker with a fast listener surely makes */

/* One message offered once more. */
struct rq_again {
    struct rq_list node;
    struct rq_pulled *pulled; /* referenced */
    uint32_t index;
};

struct rq_worker {
    struct rq_pool *pool;
    struct rq_thread thread; /* guarded by pool->lock until joined */
    const rmq_message_view **views; /* owned by the worker: room for batch_max */

    struct rq_pulled *pulled; /* guarded by pool->lock: in hands */
    bool leaving;             /* guarded by pool->lock: its listener waits in shutdown */

    /* atomic: relaxed, written by the worker, read by the I/O thread's guard and search for stuck messages */
    _Atomic uint64_t calls;
    atomic_uint at;
    atomic_uint count;

    /* owned by the I/O thread */
    uint64_t seen_calls;
    int64_t seen_ms;
};

/* Messages consumed in one piece and not reported yet. */
struct piece {
    uint32_t from;
    uint32_t to;
};

static struct rq_pulled *pulled_of(struct rq_list *run_node)
{
    return RQ_CONTAINER_OF(run_node, struct rq_run, node)->pulled;
}

/* ---- consuming: one worker, no lock held ---- */

static void report(struct rq_pool *pool, struct rq_pulled *pulled, struct piece *piece)
{
    if (piece->to > piece->from) {
        pool->options.ops->done(pool, pulled, piece->from, piece->to);
    }
    piece->from = piece->to;
}

static bool needs_expanding(const struct rmq_message_view *view)
{
    return (view->sys_flag & RQ_SYS_COMPRESSED) &&
           !atomic_load_explicit(&view->expanded, memory_order_acquire);
}

/* Makes bodies readable; returns how many from the first on are, before one that is not. */
static uint32_t prepare(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at, uint32_t count)
{
    struct rq_pool *pool = worker->pool;
    for (uint32_t i = 0; i < count; i++) {
        struct rmq_message_view *view = pulled->views[at + i];
        if (needs_expanding(view) && !pool->options.ops->prepare(pool, pulled, at + i)) {
            return i;
        }
        worker->views[i] = view;
    }
    return count;
}

/* Expanded bodies are kept only while somebody looks at them: a cache full of them would need many times its limit. */
static void shrink(struct rq_pulled *pulled, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++) {
        if (pulled->views[i]->sys_flag & RQ_SYS_COMPRESSED) {
            rq_view_shrink(pulled->views[i]);
        }
    }
}

static void call_listener(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at,
                          uint32_t count, struct piece *piece)
{
    struct rq_pool *pool = worker->pool;
    struct rmq_consume_context context = {.ack_index = INT32_MAX, .delay_level = 0};
    rmq_consume_result result = pool->options.listener(worker->views, count, &context,
                                                       pool->options.listener_user);
    shrink(pulled, at, count);
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

static void consume(struct rq_worker *worker, struct rq_pulled *pulled, uint32_t at, uint32_t count,
                    struct piece *piece)
{
    if (at != piece->to) {
        report(worker->pool, pulled, piece);
        *piece = (struct piece){.from = at, .to = at};
    }
    atomic_store_explicit(&worker->at, at, memory_order_relaxed);
    atomic_store_explicit(&worker->count, count, memory_order_relaxed);
    uint64_t calls = atomic_load_explicit(&worker->calls, memory_order_relaxed);
    atomic_store_explicit(&worker->calls, calls + 1, memory_order_relaxed);
    while (count > 0) {
        uint32_t good = prepare(worker, pulled, at, count);
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

static bool is_stopping(struct rq_pool *pool)
{
    return atomic_load_explicit(&pool->stopping, memory_order_acquire);
}

static uint32_t claim(struct rq_run *run, uint32_t most, uint32_t *count)
{
    uint32_t at = atomic_fetch_add_explicit(&run->next, most, memory_order_relaxed);
    uint32_t left = at < run->end ? run->end - at : 0;
    *count = left < most ? left : most;
    return at;
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
    while (!is_stopping(pool)) {
        uint32_t count;
        uint32_t at = claim(run, most, &count);
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
    if (!is_stopping(worker->pool) && !is_dropped(again->pulled)) {
        consume(worker, again->pulled, again->index, 1, &piece);
        report(worker->pool, again->pulled, &piece);
    }
}

/* ---- the list of work ---- */

/* Takes a run off the list, when it is still there, with the list's reference. */
static bool unlink_locked(struct rq_run *run) RQ_REQUIRES(lock)
{
    if (rq_list_empty(&run->node)) {
        return false;
    }
    rq_list_remove(&run->node);
    return true;
}

static bool is_exhausted(struct rq_run *run)
{
    return atomic_load_explicit(&run->next, memory_order_relaxed) >= run->end;
}

static bool has_work_locked(const struct rq_pool *pool) RQ_REQUIRES(lock)
{
    return !rq_list_empty(&pool->ready) || !rq_list_empty(&pool->again);
}

/* The descriptor of takers is readable while a take would return at once. */
static void update_fd_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    bool readable = has_work_locked(pool) || is_stopping(pool);
    if (pool->fd < 0 || readable == pool->readable) {
        return;
    }
    uint64_t value = 1;
    ssize_t n = readable ? write(pool->fd, &value, sizeof value) : read(pool->fd, &value, sizeof value);
    if (n == (ssize_t)sizeof value) {
        pool->readable = readable;
    }
}

static void work(void *arg);

static bool start_worker_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    if (pool->started >= pool->options.threads) {
        return false;
    }
    struct rq_worker *worker = &pool->workers[pool->started];
    char name[16];
    snprintf(name, sizeof name, "rmq-consume-%u", (unsigned)pool->started % 1000U);
    rmq_status st = rq_thread_start(&worker->thread, name, work, worker);
    if (st != RMQ_OK) {
        RQ_LOG(WARN, "a consumer's worker could not be started", "running=%d wanted=%d",
               (int)pool->started, (int)pool->options.threads);
        return false;
    }
    pool->started++;
    return true;
}

static int64_t awake_locked(const struct rq_pool *pool) RQ_REQUIRES(lock)
{
    return pool->started - pool->idle + pool->waking;
}

/* Makes sure that `wanted` more workers come for work. */
static void wake_locked(struct rq_pool *pool, int64_t wanted) RQ_REQUIRES(lock)
{
    for (int64_t i = 0; i < wanted; i++) {
        if (pool->waking < pool->idle) {
            pool->waking++;
            rq_cond_signal(&pool->work);
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
    return count;
}

/* Workers that should come for new work beyond those that are at work already. */
static int64_t wanted_locked(struct rq_pool *pool, int64_t messages) RQ_REQUIRES(lock)
{
    int64_t ns = atomic_load_explicit(&pool->listener_ns, memory_order_relaxed);
    int64_t awake = awake_locked(pool);
    int64_t useful = ns <= 0 ? 1 : messages * ns / SHARE_NS + 1;
    if (useful > messages) {
        useful = messages;
    }
    return useful > awake ? useful - awake : 0;
}

static void offer_locked(struct rq_pool *pool, int64_t messages) RQ_REQUIRES(lock)
{
    if (pool->options.listener) {
        wake_locked(pool, wanted_locked(pool, messages));
        return;
    }
    update_fd_locked(pool);
    if (pool->takers > 0) {
        rq_cond_signal(&pool->work);
    }
}

bool rq_pool_submit(struct rq_pool *pool, struct rq_pulled *pulled)
{
    rq_mutex_lock(&pool->lock);
    bool stopped = is_stopping(pool);
    bool first = !stopped && !has_work_locked(pool);
    if (!stopped) {
        rq_list_add_tail(&pool->ready, &pulled->run.node);
        offer_locked(pool, pulled->count);
    }
    rq_mutex_unlock(&pool->lock);
    if (stopped) {
        rq_pulled_release(pulled);
    }
    return first;
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
    offer_locked(pool, 1);
    rq_mutex_unlock(&pool->lock);
    return RMQ_OK;
}

void rq_pool_withdraw(struct rq_pool *pool, struct rq_pulled *pulled)
{
    rq_mutex_lock(&pool->lock);
    atomic_store_explicit(&pulled->run.next, pulled->run.end, memory_order_relaxed);
    bool listed = unlink_locked(&pulled->run);
    update_fd_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (listed) {
        rq_pulled_release(pulled);
    }
}

static struct rq_again *pop_again_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    struct rq_list *node = rq_list_pop(&pool->again);
    return node ? RQ_CONTAINER_OF(node, struct rq_again, node) : NULL;
}

/* The next run, which goes behind the others, so that the next worker takes another one. The caller gets a reference. */
static struct rq_run *next_run_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    while (!rq_list_empty(&pool->ready)) {
        struct rq_run *run = RQ_CONTAINER_OF(pool->ready.next, struct rq_run, node);
        rq_list_remove(&run->node);
        if (!is_exhausted(run)) {
            rq_list_add_tail(&pool->ready, &run->node);
            rq_pulled_retain(run->pulled);
            return run;
        }
        rq_pulled_release(run->pulled); /* those at work on it hold their own */
    }
    return NULL;
}

/* ---- a worker's life ---- */

static void enter_locked(struct rq_worker *worker, struct rq_pulled *pulled) RQ_REQUIRES(lock)
{
    worker->pulled = pulled;
    worker->pool->in_hands++;
}

/* Tells whether this was the last one after a stop. */
static bool leave_locked(struct rq_pool *pool) RQ_REQUIRES(lock)
{
    pool->in_hands--;
    if (!is_stopping(pool)) {
        return false;
    }
    rq_cond_broadcast(&pool->change);
    return pool->in_hands == 0;
}

static void end_turn(struct rq_worker *worker, struct rq_run *run, struct rq_pulled *pulled)
{
    struct rq_pool *pool = worker->pool;
    rq_mutex_lock(&pool->lock);
    bool listed = run && is_exhausted(run) && unlink_locked(run);
    worker->pulled = NULL;
    pool->leaving -= worker->leaving ? 1 : 0;
    worker->leaving = false;
    bool last = leave_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (listed) {
        rq_pulled_release(pulled);
    }
    rq_pulled_release(pulled);
    if (last) {
        pool->options.ops->quiet(pool);
    }
}

/* One piece of work. false: there is none. Enters and returns with the lock held. */
static bool turn_locked(struct rq_worker *worker) RQ_REQUIRES(lock)
{
    struct rq_pool *pool = worker->pool;
    struct rq_again *again = pop_again_locked(pool);
    struct rq_run *run = again ? NULL : next_run_locked(pool);
    if (!again && !run) {
        return false;
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

static void work(void *arg)
{
    struct rq_worker *worker = arg;
    struct rq_pool *pool = worker->pool;
    rq_mutex_lock(&pool->lock);
    while (!is_stopping(pool)) {
        if (!turn_locked(worker) && !is_stopping(pool)) {
            pool->idle++;
            rq_cond_wait(&pool->work, &pool->lock);
            pool->idle--;
            pool->waking -= pool->waking > 0 ? 1 : 0;
        }
    }
    rq_mutex_unlock(&pool->lock);
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
        calls += atomic_load_explicit(&pool->workers[i].calls, memory_order_relaxed);
    }
    int64_t backlog = is_stopping(pool) ? 0 : backlog_locked(pool);
    int64_t awake = awake_locked(pool);
    bool stalled = calls - pool->guard_calls < (uint64_t)(awake * GUARD_CALLS);
    pool->guard_calls = calls;
    if (backlog > 0 && (stalled || awake == 0)) {
        wake_locked(pool, backlog);
    }
    bool again = backlog > 0 && awake_locked(pool) < pool->options.threads;
    rq_mutex_unlock(&pool->lock);
    return again;
}

static void look_at_worker(struct rq_worker *worker, int64_t now_ms, int64_t timeout_ms,
                           void (*fn)(void *user, struct rq_pulled *pulled, uint32_t from, uint32_t to),
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
                        void (*fn)(void *user, struct rq_pulled *pulled, uint32_t from, uint32_t to),
                        void *user)
{
    rq_mutex_lock(&pool->lock);
    for (int32_t i = 0; i < pool->started; i++) {
        look_at_worker(&pool->workers[i], now_ms, timeout_ms, fn, user);
    }
    for (struct rq_list *node = pool->batches.next; node != &pool->batches; node = node->next) {
        struct rq_batch_node *batch = RQ_CONTAINER_OF(node, struct rq_batch_node, node);
        if (now_ms - batch->taken_ms >= timeout_ms) {
            fn(user, batch->pulled, batch->from, batch->from + batch->count);
        }
    }
    rq_mutex_unlock(&pool->lock);
}

/* ---- takers ---- */

static void take_locked(struct rq_pool *pool, struct rq_batch_node *batch) RQ_REQUIRES(lock)
{
    struct rq_again *again = pop_again_locked(pool);
    if (again) {
        *batch = (struct rq_batch_node){.pulled = again->pulled, .from = again->index, .count = 1};
        rq_free(again);
        return;
    }
    /* Claims are made under the lock here, so a run that is not exhausted has something left. */
    struct rq_run *run = next_run_locked(pool);
    if (run) {
        batch->pulled = run->pulled;
        batch->from = claim(run, (uint32_t)pool->options.batch_max, &batch->count);
        rq_list_remove(&run->node);
        if (is_exhausted(run)) {
            rq_pulled_release(run->pulled);
        } else {
            rq_list_add_head(&pool->ready, &run->node);
        }
    }
}

rmq_status rq_pool_take(struct rq_pool *pool, int64_t deadline_ms, struct rq_batch_node *batch, bool *more)
{
    rmq_status st = RMQ_OK;
    batch->pulled = NULL;
    rq_mutex_lock(&pool->lock);
    while (st == RMQ_OK && !batch->pulled) {
        if (is_stopping(pool)) {
            st = RMQ_ERR_CLOSED;
        } else if (has_work_locked(pool)) {
            take_locked(pool, batch);
        } else {
            pool->takers++;
            bool in_time = rq_cond_wait_until(&pool->work, &pool->lock, deadline_ms);
            pool->takers--;
            bool late = !in_time && !has_work_locked(pool) && !is_stopping(pool);
            st = late ? RMQ_ERR_TIMEOUT : RMQ_OK;
        }
    }
    if (batch->pulled) {
        batch->taken_ms = rq_mono_ms();
        rq_list_add_tail(&pool->batches, &batch->node);
        pool->in_hands++;
        if (has_work_locked(pool) && pool->takers > 0) {
            rq_cond_signal(&pool->work);
        }
    }
    *more = has_work_locked(pool);
    update_fd_locked(pool);
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
    bool last = leave_locked(pool);
    rq_mutex_unlock(&pool->lock);
    if (last) {
        pool->options.ops->quiet(pool);
    }
}

/* ---- start and end ---- */

rmq_status rq_pool_init(struct rq_pool *pool, const struct rq_pool_options *options, rmq_error **err)
{
    *pool = (struct rq_pool){.options = *options, .fd = -1};
    atomic_init(&pool->stopping, false);
    atomic_init(&pool->listener_ns, -1);
    rq_list_init(&pool->ready);
    rq_list_init(&pool->again);
    rq_list_init(&pool->batches);
    rq_mutex_init(&pool->lock);
    rq_cond_init(&pool->work);
    rq_cond_init(&pool->change);
    if (!options->listener) {
        pool->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return pool->fd >= 0 ? RMQ_OK
                             : rq_error_set(err, RMQ_ERR_IO, "descriptor for polling: no eventfd");
    }
    size_t threads = (size_t)options->threads;
    size_t views = (size_t)options->batch_max;
    pool->workers = rq_calloc(threads, sizeof *pool->workers);
    const rmq_message_view **room = rq_calloc(threads * views, sizeof *room);
    if (!pool->workers || !room) {
        rq_free(pool->workers);
        rq_free(room);
        pool->workers = NULL;
        return rq_error_set(err, RMQ_ERR_NOMEM, "%zu workers", threads);
    }
    for (size_t i = 0; i < threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].views = room + i * views;
    }
    return RMQ_OK;
}

static void drop_work(struct rq_pool *pool)
{
    for (struct rq_again *again = pop_again_locked(pool); again; again = pop_again_locked(pool)) {
        rq_pulled_release(again->pulled);
        rq_free(again);
    }
    for (struct rq_list *node = rq_list_pop(&pool->ready); node; node = rq_list_pop(&pool->ready)) {
        rq_pulled_release(pulled_of(node));
    }
}

void rq_pool_destroy(struct rq_pool *pool)
{
    drop_work(pool);
    if (pool->workers) {
        rq_free(pool->workers[0].views);
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
    bool first = !is_stopping(pool);
    atomic_store_explicit(&pool->stopping, true, memory_order_release);
    bool quiet = first && pool->in_hands == 0;
    update_fd_locked(pool);
    rq_cond_broadcast(&pool->work);
    rq_cond_broadcast(&pool->change);
    rq_mutex_unlock(&pool->lock);
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
        if (rq_thread_is_self(&pool->workers[i].thread)) {
            return &pool->workers[i];
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
    for (int32_t i = 0; i < pool->options.threads && pool->workers; i++) {
        rq_thread_join(&pool->workers[i].thread);
    }
}

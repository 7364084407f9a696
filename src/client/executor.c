/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The shared callback thread (see the header). Posters wake the thread only when it sleeps; the
 * thread takes all that is there, runs it, and sleeps when there is nothing.
 */
#include "client/executor.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/fork_mark.h"

struct rq_executor {
    struct rq_mpsc queue; /* taken and filled under lock */
    struct rq_thread thread;
    uint64_t mark; /* immutable after create */
    struct rq_mutex lock;
    struct rq_cond ready;
    bool stopping;      /* guarded by lock */
    bool sleeping;      /* guarded by lock */
    bool self_destruct; /* guarded by lock: the thread frees the executor when it ends */
};

/* The home of the shared executor: one per process, so that a lock held by another thread during
 * fork is not inherited. */
struct home {
    uint64_t mark;
    struct rq_mutex lock;
    struct rq_executor *shared; /* guarded by lock */
    unsigned users;             /* guarded by lock */
};

static _Atomic(struct home *) current_home;
static _Thread_local bool on_callback_thread;

static struct home *find_home(void)
{
    struct home *home = atomic_load_explicit(&current_home, memory_order_acquire);
    if (home && !rq_forked_since(home->mark)) {
        return home;
    }
    struct home *made = rq_calloc(1, sizeof *made);
    if (!made) {
        return NULL;
    }
    made->mark = rq_fork_mark();
    rq_mutex_init(&made->lock);
    /* A home inherited through fork is left behind: its lock may be held for ever. */
    if (!atomic_compare_exchange_strong_explicit(&current_home, &home, made, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        rq_mutex_destroy(&made->lock);
        rq_free(made);
        return home;
    }
    return made;
}

static void free_executor(struct rq_executor *executor)
{
    rq_cond_destroy(&executor->ready);
    rq_mutex_destroy(&executor->lock);
    rq_free(executor);
}

/* Waits for work and takes all of it. NULL when the executor stops and nothing is left. Work is
 * taken under the lock under which it is posted: a poster is through with the executor before its
 * work can run, which may give the executor up. */
static struct rq_mpsc_node *wait_for_work(struct rq_executor *executor)
{
    rq_mutex_lock(&executor->lock);
    while (rq_mpsc_empty(&executor->queue) && !executor->stopping) {
        executor->sleeping = true;
        rq_cond_wait(&executor->ready, &executor->lock);
    }
    executor->sleeping = false;
    struct rq_mpsc_node *first = rq_mpsc_take_all(&executor->queue);
    rq_mutex_unlock(&executor->lock);
    return first;
}

static void run_executor(void *arg)
{
    struct rq_executor *executor = arg;
    on_callback_thread = true;
    struct rq_mpsc_node *node;
    while ((node = wait_for_work(executor))) {
        while (node) {
            struct rq_work *work = RQ_CONTAINER_OF(node, struct rq_work, node);
            node = node->next;
            work->run(work);
        }
    }
    rq_mutex_lock(&executor->lock);
    bool free_here = executor->self_destruct;
    rq_mutex_unlock(&executor->lock);
    if (free_here) {
        free_executor(executor);
    }
}

static rmq_status make_executor(struct rq_executor **out, rmq_error **err)
{
    struct rq_executor *executor = rq_calloc(1, sizeof *executor);
    if (!executor) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "callback thread");
    }
    rq_mpsc_init(&executor->queue);
    rq_mutex_init(&executor->lock);
    rq_cond_init(&executor->ready);
    executor->mark = rq_fork_mark();
    rmq_status st = rq_thread_start(&executor->thread, "rmq-callback", run_executor, executor);
    if (st != RMQ_OK) {
        free_executor(executor);
        return rq_error_set(err, st, "callback thread could not be started");
    }
    *out = executor;
    return RMQ_OK;
}

rmq_status rq_executor_get(struct rq_executor **out, rmq_error **err)
{
    struct home *home = find_home();
    if (!home) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "callback thread");
    }
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&home->lock);
    if (!home->shared) {
        st = make_executor(&home->shared, err);
    }
    if (st == RMQ_OK) {
        home->users++;
        *out = home->shared;
    }
    rq_mutex_unlock(&home->lock);
    return st;
}

void rq_executor_put(struct rq_executor *executor)
{
    struct home *home = find_home();
    if (!executor || rq_forked_since(executor->mark) || !home) {
        return;
    }
    rq_mutex_lock(&home->lock);
    bool last = home->shared == executor && --home->users == 0;
    if (last) {
        home->shared = NULL;
    }
    rq_mutex_unlock(&home->lock);
    if (!last) {
        return;
    }
    bool self = rq_thread_is_self(&executor->thread);
    struct rq_thread thread = executor->thread;
    rq_mutex_lock(&executor->lock);
    executor->stopping = true;
    executor->self_destruct = self;
    rq_cond_signal(&executor->ready);
    rq_mutex_unlock(&executor->lock);
    if (self) {
        (void)pthread_detach(thread.id);
        return;
    }
    rq_thread_join(&thread);
    free_executor(executor);
}

void rq_executor_post(struct rq_executor *executor, struct rq_work *work)
{
    rq_mutex_lock(&executor->lock);
    bool first = rq_mpsc_push(&executor->queue, &work->node);
    if (first && executor->sleeping) {
        executor->sleeping = false;
        rq_cond_signal(&executor->ready);
    }
    rq_mutex_unlock(&executor->lock);
}

bool rq_executor_in(void)
{
    return on_callback_thread;
}

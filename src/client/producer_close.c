/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Shutdown of a producer: no send is taken any more, those under way are waited for, then cut off;
 * the instance is given up. From any thread, from a callback, and twice. Counterpart:
 * DefaultMQProducerImpl.shutdown.
 */
#include "client/producer.h"

#include "base/err.h"
#include "base/time.h"
#include "client/accumulate.h"
#include "client/fork_mark.h"
#include "client/requests.h"
#include "client/send.h"
#include "client/trace.h"
#include "client/transaction.h"
#include "client/waiter.h"

#define SHUTDOWN_MS 3000
#define TRACE_MS    100 /* the last trace records have at least this time */

enum life { LIFE_OPEN, LIFE_CLOSING, LIFE_CLOSED };

struct removal {
    struct rmq_producer *producer;
    struct rq_waiter waiter;
    int64_t timeout_ms;
};

static void removed(void *user)
{
    struct removal *removal = user;
    rq_waiter_done(&removal->waiter);
}

static void remove_on_loop(void *arg)
{
    struct removal *removal = arg;
    struct rmq_producer *producer = removal->producer;
    rq_producer_stats_stop(producer);
    rq_instance_unwatch(producer->instance, &producer->brokers);
    rq_instance_remove(producer->instance, &producer->member, removal->timeout_ms, removed,
                       removal);
}

static void leave_group(struct rmq_producer *producer, int64_t timeout_ms)
{
    if (!producer->is_member) {
        return;
    }
    struct removal removal = {.producer = producer, .timeout_ms = timeout_ms};
    rq_waiter_init(&removal.waiter);
    if (rq_instance_run(producer->instance, remove_on_loop, &removal) == RMQ_OK) {
        rq_waiter_wait(&removal.waiter);
    }
    producer->is_member = false;
}

static void nothing(void *arg)
{
    (void)arg;
}

struct cutting {
    struct rq_send_pool *pool;
    struct rq_mpsc_node *claimed;
};

static void end_machines(void *arg)
{
    struct cutting *cutting = arg;
    rq_send_release_paused(cutting->pool);
    rq_send_end_waits(cutting->claimed);
}

/* Threads inside a send function are on their way out: the pool is closed and all is completed. */
static void wait_for_threads(struct rmq_producer *producer)
{
    rq_mutex_lock(&producer->lock);
    while (atomic_load_explicit(&producer->entered, memory_order_seq_cst) > 0) {
        (void)rq_cond_wait_until(&producer->ended, &producer->lock, rq_mono_ms() + 1);
    }
    rq_mutex_unlock(&producer->lock);
}

void rq_producer_give_up(struct rmq_producer *producer)
{
    rq_mutex_lock(&producer->lock);
    bool has = producer->has_instance;
    producer->has_instance = false;
    rq_mutex_unlock(&producer->lock);
    if (!has) {
        return;
    }
    (void)rq_send_pool_drain(producer->pool, RQ_FOREVER);
    rq_checks_close(producer->checks, RQ_FOREVER);
    (void)rq_requests_close(producer->requests, 0);
    rq_requests_end(producer->requests);
    wait_for_threads(producer);
    /* The loop may still be at the end of the last completion. */
    (void)rq_instance_run(producer->instance, nothing, NULL);
    rq_instance_put(producer->instance);
    rq_send_pool_end(producer->pool);
    rq_checks_end(producer->checks);
}

static rmq_status stop(struct rmq_producer *producer, int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline = rq_mono_ms() + timeout_ms;
    atomic_store_explicit(&producer->closed, true, memory_order_seq_cst);
    rq_accumulator_flush(producer->accumulator);
    bool all_replied = rq_requests_close(producer->requests, deadline);
    rq_send_pool_close(producer->pool);
    size_t cut = 0;
    if (!rq_send_pool_drain(producer->pool, deadline)) {
        struct cutting cutting = {.pool = producer->pool};
        cut = rq_send_pool_cut(producer->pool, &cutting.claimed);
        /* A step of a machine that had begun before, perhaps with a body of the program's, ends on
         * the loop before this returns; a later one sees the cut. */
        (void)rq_instance_run(producer->instance, end_machines, &cutting);
        rq_send_complete_cut(cutting.claimed);
    }
    rq_accumulator_close(producer->accumulator);
    int64_t left = deadline - rq_mono_ms();
    rq_trace_close(atomic_load_explicit(&producer->trace, memory_order_acquire),
                   left > TRACE_MS ? left : TRACE_MS);
    left = deadline - rq_mono_ms();
    leave_group(producer, left > 200 ? left : 200);
    rq_checks_close(producer->checks, deadline);
    if (!rq_executor_in()) {
        rq_producer_give_up(producer);
    }
    if (cut > 0) {
        return rq_error_set(err, RMQ_ERR_TIMEOUT,
                            "%zu sends were not answered within %lld ms of the shutdown", cut,
                            (long long)timeout_ms);
    }
    if (!all_replied) {
        return rq_error_set(err, RMQ_ERR_TIMEOUT,
                            "there were requests without a reply after %lld ms",
                            (long long)timeout_ms);
    }
    return RMQ_OK;
}

/* A second shutdown waits for the first, unless it is called from a callback for which the first
 * may be waiting. */
static rmq_status wait_for_other(struct rmq_producer *producer, int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline = rq_mono_ms() + timeout_ms;
    bool in_time = !rq_executor_in();
    rq_mutex_lock(&producer->lock);
    while (producer->life == LIFE_CLOSING && in_time) {
        in_time = rq_cond_wait_until(&producer->ended, &producer->lock, deadline);
    }
    bool closed = producer->life == LIFE_CLOSED;
    rq_mutex_unlock(&producer->lock);
    if (closed || rq_executor_in()) {
        return RMQ_OK;
    }
    return rq_error_set(err, RMQ_ERR_TIMEOUT, "another thread is still shutting the producer down");
}

rmq_status rmq_producer_shutdown(rmq_producer *producer, int64_t timeout_ms, rmq_error **err)
{
    if (!producer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "producer is NULL");
    }
    if (rq_forked_since(producer->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the producer was made by the parent process");
    }
    if (rq_producer_asks(producer)) {
        return rq_error_set(err, RMQ_ERR_STATE,
                            "a shutdown in a selector or hook of a send, for which it would wait");
    }
    int64_t timeout = rq_timeout_ms(timeout_ms, SHUTDOWN_MS);
    rq_mutex_lock(&producer->lock);
    bool first = producer->life == LIFE_OPEN;
    if (first) {
        producer->life = LIFE_CLOSING;
    }
    rq_mutex_unlock(&producer->lock);
    if (!first) {
        return wait_for_other(producer, timeout, err);
    }
    rmq_status st = stop(producer, timeout, err);
    rq_mutex_lock(&producer->lock);
    producer->life = LIFE_CLOSED;
    rq_cond_broadcast(&producer->ended);
    rq_mutex_unlock(&producer->lock);
    return st;
}

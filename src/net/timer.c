/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The timers of a loop: a heap by their time. Loop thread only. */
#include "base/time.h"
#include "net/loop_priv.h"

static struct rq_timer *timer_of(struct rq_heap_node *node)
{
    return RQ_CONTAINER_OF(node, struct rq_timer, node);
}

void rq_timer_init(struct rq_timer *timer, void (*fire)(struct rq_timer *timer))
{
    *timer = (struct rq_timer){.fire = fire};
}

void rq_timer_start(struct rq_loop *loop, struct rq_timer *timer, int64_t after_ms)
{
    int64_t now = rq_loop_now(loop);
    rq_timer_start_at(loop, timer, after_ms > RQ_FOREVER - now ? RQ_FOREVER : now + after_ms);
}

void rq_timer_start_at(struct rq_loop *loop, struct rq_timer *timer, int64_t due_ms)
{
    rq_timer_stop(timer);
    if (due_ms != RQ_FOREVER) {
        rq_heap_add(&loop->timers, &timer->node, due_ms);
    }
}

void rq_timer_stop(struct rq_timer *timer)
{
    rq_heap_remove(&timer->node);
}

bool rq_timer_running(const struct rq_timer *timer)
{
    return rq_heap_has(&timer->node);
}

int64_t rq_timers_next(const struct rq_loop *loop)
{
    const struct rq_heap_node *first = rq_heap_first(&loop->timers);
    return first ? first->key : RQ_FOREVER;
}

/* Whoever is in the list of this turn may still be stopped, and started again, by one before it. */
void rq_timers_run(struct rq_loop *loop)
{
    struct rq_heap due;
    struct rq_heap_node *first;
    rq_heap_init(&due);
    while ((first = rq_heap_first(&loop->timers)) && first->key <= loop->now_ms) {
        int64_t key = first->key;
        rq_heap_remove(first);
        rq_heap_add(&due, first, key);
    }
    /* One that is started again for now is not among them: it waits for the next turn. */
    while ((first = rq_heap_first(&due))) {
        struct rq_timer *timer = timer_of(first);
        rq_timer_stop(timer);
        timer->fire(timer);
    }
}

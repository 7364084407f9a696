/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The timers of a loop: a pairing heap of embedded nodes, so that starting one needs no memory.
 * Loop thread only.
 */
#include "base/time.h"
#include "net/loop_priv.h"

/* Two heaps become one. Both are roots: no sibling, no prev. */
static struct rq_timer *meld(struct rq_timer *a, struct rq_timer *b)
{
    if (!a) {
        return b;
    }
    if (!b) {
        return a;
    }
    if (b->due_ms < a->due_ms) {
        struct rq_timer *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->sibling = a->child;
    if (a->child) {
        a->child->prev = b;
    }
    a->child = b;
    return a;
}

/* The children of a removed root, melded in pairs from left to right, then all into one from
 * right to left. */
static struct rq_timer *meld_children(struct rq_timer *first)
{
    struct rq_timer *pairs = NULL; /* chained by sibling, last pair first */
    while (first) {
        struct rq_timer *a = first;
        struct rq_timer *b = a->sibling;
        first = b ? b->sibling : NULL;
        a->sibling = NULL;
        a->prev = NULL;
        if (b) {
            b->sibling = NULL;
            b->prev = NULL;
        }
        a = meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    struct rq_timer *root = NULL;
    while (pairs) {
        struct rq_timer *next = pairs->sibling;
        pairs->sibling = NULL;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

static void unlink_timer(struct rq_timer *timer)
{
    struct rq_loop *loop = timer->loop;
    struct rq_timer *rest = meld_children(timer->child);
    if (!timer->prev) {
        loop->timers = rest;
    } else {
        if (timer->prev->child == timer) {
            timer->prev->child = timer->sibling;
        } else {
            timer->prev->sibling = timer->sibling;
        }
        if (timer->sibling) {
            timer->sibling->prev = timer->prev;
        }
        loop->timers = meld(loop->timers, rest);
    }
    timer->child = NULL;
    timer->sibling = NULL;
    timer->prev = NULL;
    timer->loop = NULL;
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
    if (due_ms == RQ_FOREVER) {
        return;
    }
    timer->due_ms = due_ms;
    timer->loop = loop;
    loop->timers = meld(loop->timers, timer);
}

void rq_timer_stop(struct rq_timer *timer)
{
    if (timer->loop) {
        unlink_timer(timer);
    }
}

bool rq_timer_running(const struct rq_timer *timer)
{
    return timer->loop != NULL;
}

int64_t rq_timers_next(const struct rq_loop *loop)
{
    return loop->timers ? loop->timers->due_ms : RQ_FOREVER;
}

void rq_timers_run(struct rq_loop *loop)
{
    /* One that is started again for now waits for the next turn: the clock stands still in here. */
    int64_t now = loop->now_ms;
    while (loop->timers && loop->timers->due_ms <= now) {
        struct rq_timer *timer = loop->timers;
        unlink_timer(timer);
        timer->fire(timer);
    }
}

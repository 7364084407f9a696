/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Inside of the loop, for net only. */
#ifndef RQ_NET_LOOP_PRIV_H
#define RQ_NET_LOOP_PRIV_H

#include <stdatomic.h>
#include <sys/types.h>

#include <event2/event.h>

#include "base/list.h"
#include "base/thread.h"
#include "net/frame_ref.h"
#include "net/loop.h"
#include "net/rest.h"
#include "wire/frame.h"

#define RQ_LOOP_SCRATCH ((size_t)256 << 10)

struct rq_loop {
    /* immutable after create */
    struct event_base *base;
    struct event *wake_event;
    struct event *tick_event; /* owned by the loop's thread: the next timer */
    int wake_fd;
    bool shared;
    pid_t pid;
    const volatile uint32_t *alive; /* page that reads 0 in a forked child; NULL: compare pids */
    struct rq_thread thread;

    struct rq_mpsc tasks;
    /* atomic: acq_rel exchanges pair a push with the check before sleeping. */
    _Atomic uint32_t sleeping;
    /* atomic: as any count; of the shared loop: falls to 0 under its lock only. */
    _Atomic uint32_t refs;
    _Atomic uint32_t holds; /* atomic: as any count; the struct's memory, not the thread */
    _Atomic bool stop;      /* atomic: relaxed, followed by a post */
    struct rq_task stop_task;

    /* owned by the loop's thread */
    struct rq_heap timers; /* rq_timer.node */
    int64_t armed_ms;      /* due time that tick_event is set to, or RQ_FOREVER */
    int64_t now_ms;
    int busy;     /* things that need further turns before the loop may end */
    int look_ups; /* threads of resolve.c at work */
    struct rq_list look_ups_waiting;
    struct rq_list flush;  /* struct rq_flush: to be called at the end of the turn */
    char *scratch;         /* RQ_LOOP_SCRATCH bytes that all connections read into */
    struct rq_frame frame; /* the frame being handled */
    struct rq_frame_cache frames;
    uint32_t handled; /* frames in this turn */
    struct rq_rest rest;
    bool self_destroy; /* last reference dropped on the loop thread */
};

/* Something to do once at the end of the turn. */
struct rq_flush {
    struct rq_list node; /* points to itself when not listed */
    void (*run)(struct rq_flush *flush);
};

static inline void rq_loop_flush_later(struct rq_loop *loop, struct rq_flush *flush)
{
    if (rq_list_empty(&flush->node)) {
        rq_list_add_tail(&loop->flush, &flush->node);
    }
}

/* First thing in every callback of the event base: the loop does not sleep, and the clock is
 * read again. */
void rq_loop_awake(struct rq_loop *loop);

/* Keeps the struct's memory, not the thread: for connections that somebody still holds when the
 * loop has ended. */
static inline void rq_loop_hold(struct rq_loop *loop)
{
    atomic_fetch_add_explicit(&loop->holds, 1, memory_order_relaxed);
}
void rq_loop_unhold(struct rq_loop *loop);

/* A hint for other threads: it would take a wake-up to reach the loop now. */
static inline bool rq_loop_sleeps(struct rq_loop *loop)
{
    return atomic_load_explicit(&loop->sleeping, memory_order_relaxed) != 0;
}

int64_t rq_timers_next(const struct rq_loop *loop); /* earliest due time, or RQ_FOREVER */
void rq_timers_run(struct rq_loop *loop);           /* fires what is due at now_ms */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * An event loop: one named thread around one event base. Everything that belongs to a loop
 * (connections, timers, listeners, look-ups) is touched by its thread only; other threads post
 * tasks. A wake-up is paid once per batch: only when the loop sleeps, and only by the first who
 * finds it asleep. The thread blocks all signals. After a fork the child's copy is inert: posting
 * fails, put returns at once. Counterpart: Netty's NioEventLoop.
 */
#ifndef RQ_NET_LOOP_H
#define RQ_NET_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/heap.h"
#include "base/mpsc.h"

struct rq_loop;

/* Something to do on the loop thread. Embedded by its owner in memory that was zeroed; run may post
 * it again or free it. */
struct rq_task {
    struct rq_mpsc_node node;
    void (*run)(struct rq_task *task);
    atomic_bool waits; /* atomic: acq_rel: posted, and has not begun to run */
};

/* One-shot timer. Embedded; zeroed or rq_timer_init before first use. All functions on the loop
 * thread only. The timer must be stopped before its memory goes away; fire may start it again.
 * Starting and stopping allocate nothing and cannot fail. */
struct rq_timer {
    struct rq_heap_node node; /* by due time, monotonic, in ms; in none = not running */
    void (*fire)(struct rq_timer *timer);
};

/* Name: at most 15 characters. The creator holds one reference. */
rmq_status rq_loop_create(const char *name, struct rq_loop **out, rmq_error **err) RMQ_MUST_USE;

/* The loop of the process, made at first need. Each get needs a put. A forked child gets a loop
 * of its own. Any thread. */
rmq_status rq_loop_shared_get(struct rq_loop **out, rmq_error **err) RMQ_MUST_USE;

void rq_loop_retain(struct rq_loop *loop);

/* Drops a reference; with the last one the loop runs what was posted, stops, and its thread is
 * joined. On the loop's own thread it does not wait: the thread ends by itself after the current
 * turn. NULL is accepted. */
void rq_loop_put(struct rq_loop *loop);

bool rq_loop_in(const struct rq_loop *loop); /* is this the loop's thread? */
/* True in a child of the process that made it; no system call. */
bool rq_loop_forked(const struct rq_loop *loop);

/* Runs the task on the loop thread, in the order of posting; never within this call, even on the
 * loop thread. One that waits already runs once, and sees what its posters did before. False only
 * in a forked child, where the task will never run. Any thread that holds a reference to the
 * loop. */
bool rq_loop_post(struct rq_loop *loop, struct rq_task *task);

/* Runs fn on the loop thread and waits until it has returned; directly when called there. False
 * in a forked child: not run. */
bool rq_loop_run(struct rq_loop *loop, void (*fn)(void *arg), void *arg);

/* Monotonic milliseconds, read once per turn of the loop. Loop thread. */
int64_t rq_loop_now(struct rq_loop *loop);

void rq_timer_init(struct rq_timer *timer, void (*fire)(struct rq_timer *timer));
/* Restarts when running. */
void rq_timer_start(struct rq_loop *loop, struct rq_timer *timer, int64_t after_ms);
void rq_timer_start_at(struct rq_loop *loop, struct rq_timer *timer, int64_t due_ms);
void rq_timer_stop(struct rq_timer *timer); /* harmless when not running */
bool rq_timer_running(const struct rq_timer *timer);

#endif

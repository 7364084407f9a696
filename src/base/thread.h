/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Threads, locks and conditions: thin names over pthreads. Every thread of ours has a name of at
 * most 15 characters and blocks all signals, so that the program's handlers run on its own threads.
 *
 * Lock ranks, taken in rising order only: client handle 10, instance 20, process queue 30, offsets
 * 35, route 40, event queue 50, broker tables 60, hold 65, store append 70, consume queue 75,
 * mapped file 80, connection 90, pending calls 95, log 100.
 */
#ifndef RQ_BASE_THREAD_H
#define RQ_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/status.h>

#if defined(__clang__)
#define RQ_REQUIRES(lock) __attribute__((annotate("requires " #lock)))
#else
#define RQ_REQUIRES(lock)
#endif

struct rq_mutex {
    pthread_mutex_t m;
};

struct rq_cond {
    pthread_cond_t c; /* on the monotonic clock */
};

void rq_mutex_init(struct rq_mutex *mutex);
void rq_mutex_destroy(struct rq_mutex *mutex);
void rq_mutex_lock(struct rq_mutex *mutex);
bool rq_mutex_trylock(struct rq_mutex *mutex);
void rq_mutex_unlock(struct rq_mutex *mutex);

void rq_cond_init(struct rq_cond *cond);
void rq_cond_destroy(struct rq_cond *cond);
void rq_cond_signal(struct rq_cond *cond);
void rq_cond_broadcast(struct rq_cond *cond);
void rq_cond_wait(struct rq_cond *cond, struct rq_mutex *mutex);
/* false when deadline_ms (monotonic) passed; RQ_FOREVER waits without one. */
bool rq_cond_wait_until(struct rq_cond *cond, struct rq_mutex *mutex, int64_t deadline_ms);
/* The same with a deadline in microseconds. */
bool rq_cond_wait_until_us(struct rq_cond *cond, struct rq_mutex *mutex, int64_t deadline_us);

struct rq_thread {
    pthread_t id;
    bool started;
};

rmq_status rq_thread_start(struct rq_thread *thread, const char *name, void (*run)(void *arg),
                           void *arg) RMQ_MUST_USE;
void rq_thread_join(struct rq_thread *thread); /* harmless when not started */
bool rq_thread_is_self(const struct rq_thread *thread);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One thread waits until another says that something is done: a futex word, cheaper than a lock and
 * a condition for each blocking send. The waker touches the waiter's memory only with the exchange
 * that lets it go, so it may live on the waiter's stack.
 */
#ifndef RQ_CLIENT_WAITER_H
#define RQ_CLIENT_WAITER_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct rq_waiter {
    /* atomic: 0 nobody waits, 1 a thread sleeps, 2 done (released by the waker, acquired by the
     * waiter). */
    _Atomic uint32_t word;
};

static inline void rq_waiter_init(struct rq_waiter *waiter)
{
    atomic_init(&waiter->word, 0);
}

static inline void rq_waiter_wait(struct rq_waiter *waiter)
{
    uint32_t seen = 0;
    if (!atomic_compare_exchange_strong_explicit(&waiter->word, &seen, 1, memory_order_acquire,
                                                 memory_order_acquire)) {
        return;
    }
    while (atomic_load_explicit(&waiter->word, memory_order_acquire) == 1) {
        (void)syscall(SYS_futex, &waiter->word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
}

static inline void rq_waiter_done(struct rq_waiter *waiter)
{
    if (atomic_exchange_explicit(&waiter->word, 2, memory_order_acq_rel) == 1) {
        /* The memory may be gone by now: the kernel then finds nobody there, and a stranger who
         * sleeps there looks again. */
        (void)syscall(SYS_futex, &waiter->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

#endif

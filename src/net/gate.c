/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The gate on the kernel's futex. A blocking call sleeps on one in its own stack frame and the I/O
 * thread opens it: cheaper than mutex and condition, and no thread ever waits for a lock that a
 * just woken one holds.
 */
#include "net/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

enum { SHUT = 0, SLEEPER = 1, OPEN = 2 };

void rq_gate_open(struct rq_gate *gate)
{
    if (atomic_exchange_explicit(&gate->state, OPEN, memory_order_acq_rel) == SLEEPER) {
        syscall(SYS_futex, &gate->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static bool is_open(struct rq_gate *gate)
{
    return atomic_load_explicit(&gate->state, memory_order_acquire) == OPEN;
}

bool rq_gate_wait(struct rq_gate *gate, int64_t deadline_ms)
{
    uint32_t shut = SHUT;
    if (!atomic_compare_exchange_strong_explicit(&gate->state, &shut, SLEEPER, memory_order_acquire,
                                                 memory_order_acquire) &&
        shut == OPEN) {
        return true;
    }
    struct timespec until = {.tv_sec = (time_t)(deadline_ms / 1000),
                             .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    struct timespec *limit = deadline_ms == RQ_FOREVER ? NULL : &until;
    while (!is_open(gate)) {
        /* FUTEX_WAIT_BITSET takes an absolute time on the monotonic clock. */
        long rc = syscall(SYS_futex, &gate->state, FUTEX_WAIT_BITSET_PRIVATE, SLEEPER, limit, NULL,
                          FUTEX_BITSET_MATCH_ANY);
        if (rc != 0 && errno == ETIMEDOUT) {
            return is_open(gate);
        }
    }
    return true;
}

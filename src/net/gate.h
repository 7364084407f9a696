/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A gate that opens once: one thread sleeps until another opens it. One word, no lock, one system
 * call on each side at most; the sleeper may free the word as soon as it has woken (a late wake-up
 * of a freed word is harmless by the kernel's rules).
 */
#ifndef RQ_NET_GATE_H
#define RQ_NET_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rq_gate {
    /* atomic: 0 shut, 1 shut with a sleeper, 2 open; release by the opener, acquire by the
     * sleeper. */
    _Atomic uint32_t state;
};

static inline void rq_gate_init(struct rq_gate *gate)
{
    atomic_init(&gate->state, 0);
}

void rq_gate_open(struct rq_gate *gate);

/* Waits until open; false when deadline_ms (monotonic, RQ_FOREVER for none) passed. One sleeper
 * only. */
bool rq_gate_wait(struct rq_gate *gate, int64_t deadline_ms);

#endif

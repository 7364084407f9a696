/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Hand-over from many threads to one: producers push nodes, the consumer takes the whole list at
 * once, oldest first. push tells whether the list was empty, which is the one case in which the
 * consumer must be woken: the cost of a wake-up is shared by all that was pushed before it ran.
 * Lock-free.
 */
#ifndef RQ_BASE_MPSC_H
#define RQ_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct rq_mpsc_node {
    struct rq_mpsc_node *next;
};

struct rq_mpsc {
    /* atomic: newest first; release on push, acquire on take */
    _Atomic(struct rq_mpsc_node *) head;
};

static inline void rq_mpsc_init(struct rq_mpsc *queue)
{
    atomic_init(&queue->head, NULL);
}

/* Any thread. Returns true when the list was empty. */
static inline bool rq_mpsc_push(struct rq_mpsc *queue, struct rq_mpsc_node *node)
{
    struct rq_mpsc_node *old = atomic_load_explicit(&queue->head, memory_order_relaxed);
    do {
        node->next = old;
    } while (!atomic_compare_exchange_weak_explicit(&queue->head, &old, node, memory_order_release,
                                                    memory_order_relaxed));
    return old == NULL;
}

static inline bool rq_mpsc_empty(struct rq_mpsc *queue)
{
    return atomic_load_explicit(&queue->head, memory_order_acquire) == NULL;
}

/* Consumer only: everything pushed so far, oldest first, NULL when there is nothing. */
static inline struct rq_mpsc_node *rq_mpsc_take_all(struct rq_mpsc *queue)
{
    struct rq_mpsc_node *node = atomic_exchange_explicit(&queue->head, NULL, memory_order_acquire);
    struct rq_mpsc_node *first = NULL;
    while (node) {
        struct rq_mpsc_node *next = node->next;
        node->next = first;
        first = node;
        node = next;
    }
    return first;
}

#endif

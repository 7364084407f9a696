/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A pairing heap of embedded nodes: the least key first, any node may leave at any time. Nothing is
 * allocated, so nothing fails. Adding is one step; taking the first out, or one from the midst, is
 * a few, amortized: O(log n), however the keys are chosen. Not thread-safe.
 */
#ifndef RQ_BASE_HEAP_H
#define RQ_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rq_heap;

struct rq_heap_node {
    struct rq_heap_node *child;
    struct rq_heap_node *sibling;
    struct rq_heap_node
        *prev;            /* parent of a first child, else the sibling before; NULL: the root */
    struct rq_heap *heap; /* NULL = in none */
    int64_t key;
};

struct rq_heap {
    struct rq_heap_node *root;
    uint64_t steps; /* comparisons ever made: what a test can say about the cost */
};

static inline void rq_heap_init(struct rq_heap *heap)
{
    *heap = (struct rq_heap){0};
}

static inline void rq_heap_node_init(struct rq_heap_node *node)
{
    *node = (struct rq_heap_node){0};
}

/* The node is in no heap. */
void rq_heap_add(struct rq_heap *heap, struct rq_heap_node *node, int64_t key);

/* Out of its heap; harmless for one that is in none. */
void rq_heap_remove(struct rq_heap_node *node);

/* The node with the least key, NULL = empty. It stays. */
static inline struct rq_heap_node *rq_heap_first(const struct rq_heap *heap)
{
    return heap->root;
}

static inline bool rq_heap_has(const struct rq_heap_node *node)
{
    return node->heap != NULL;
}

#endif

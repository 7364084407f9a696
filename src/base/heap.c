/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The pairing heap (see the header): roots are melded, the lesser one becomes the parent. */
#include "base/heap.h"

/* Two heaps become one. Both are roots: no sibling, no prev. */
static struct rq_heap_node *meld(struct rq_heap *heap, struct rq_heap_node *a,
                                 struct rq_heap_node *b)
{
    if (!a) {
        return b;
    }
    if (!b) {
        return a;
    }
    heap->steps++;
    if (b->key < a->key) {
        struct rq_heap_node *swap = a;
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

/* Makes a root of a child, and returns the sibling behind it. */
static struct rq_heap_node *cut_off(struct rq_heap_node *node)
{
    struct rq_heap_node *next = node->sibling;
    node->sibling = NULL;
    node->prev = NULL;
    return next;
}

/* The children of a removed root, melded in pairs from left to right, then all into one from right
 * to left. */
static struct rq_heap_node *meld_children(struct rq_heap *heap, struct rq_heap_node *first)
{
    struct rq_heap_node *pairs = NULL; /* chained by sibling, last pair first */
    while (first) {
        struct rq_heap_node *a = first;
        struct rq_heap_node *b = cut_off(a);
        first = b ? cut_off(b) : NULL;
        a = meld(heap, a, b);
        a->sibling = pairs;
        pairs = a;
    }
    struct rq_heap_node *root = NULL;
    while (pairs) {
        struct rq_heap_node *pair = pairs;
        pairs = cut_off(pair);
        root = meld(heap, root, pair);
    }
    return root;
}

void rq_heap_add(struct rq_heap *heap, struct rq_heap_node *node, int64_t key)
{
    *node = (struct rq_heap_node){.heap = heap, .key = key};
    heap->root = meld(heap, heap->root, node);
}

void rq_heap_remove(struct rq_heap_node *node)
{
    struct rq_heap *heap = node->heap;
    if (!heap) {
        return;
    }
    struct rq_heap_node *rest = meld_children(heap, node->child);
    if (!node->prev) {
        heap->root = rest;
    } else {
        if (node->prev->child == node) {
            node->prev->child = node->sibling;
        } else {
            node->prev->sibling = node->sibling;
        }
        if (node->sibling) {
            node->sibling->prev = node->prev;
        }
        heap->root = meld(heap, heap->root, rest);
    }
    rq_heap_node_init(node);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Intrusive doubly linked list. The head is a node that points to itself when empty. Not
 * thread-safe. */
#ifndef RQ_BASE_LIST_H
#define RQ_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct rq_list {
    struct rq_list *next;
    struct rq_list *prev;
};

#define RQ_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void rq_list_init(struct rq_list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool rq_list_empty(const struct rq_list *head)
{
    return head->next == head;
}

static inline void rq_list_add_tail(struct rq_list *head, struct rq_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void rq_list_add_head(struct rq_list *head, struct rq_list *node)
{
    node->next = head->next;
    node->prev = head;
    head->next->prev = node;
    head->next = node;
}

/* Takes the node out and leaves it pointing to itself, so that a second remove is harmless. */
static inline void rq_list_remove(struct rq_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node;
    node->prev = node;
}

static inline struct rq_list *rq_list_pop(struct rq_list *head)
{
    struct rq_list *node = head->next;
    if (node == head) {
        return NULL;
    }
    rq_list_remove(node);
    return node;
}

#define RQ_LIST_FOREACH_SAFE(it, tmp, head)                                                        \
    for (struct rq_list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)

#endif

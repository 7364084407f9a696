/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Order and equality of message queues and client ids, as the Java side sorts them before it shares
 * queues out: two members that sort differently would both take a queue, or neither. Pure
 * functions, any thread. Counterpart: MessageQueue.compareTo.
 */
#include "wire/mq.h"

#include <stdlib.h>
#include <string.h>

#include "base/jhash.h"
#include "base/slice.h"

static int compare_text(const char *a, const char *b)
{
    return rq_java_compare(rq_slice_str(a), rq_slice_str(b));
}

/* Java's order: topic, broker name (both by UTF-16 units), queue id. All members of a group must
 * sort alike. */
static int compare_queues(const struct rq_mq *a, const struct rq_mq *b)
{
    int order = compare_text(a->topic, b->topic);
    if (order == 0) {
        order = compare_text(a->broker_name, b->broker_name);
    }
    if (order == 0) {
        order = (a->queue_id > b->queue_id) - (a->queue_id < b->queue_id);
    }
    return order;
}

bool rq_mq_equal(const struct rq_mq *a, const struct rq_mq *b)
{
    return a->queue_id == b->queue_id && strcmp(a->broker_name, b->broker_name) == 0 &&
           strcmp(a->topic, b->topic) == 0;
}

static int order_queues(const void *a, const void *b)
{
    return compare_queues(a, b);
}

static int order_clients(const void *a, const void *b)
{
    return compare_text(*(const char *const *)a, *(const char *const *)b);
}

void rq_mq_sort(struct rq_mq *queues, size_t count)
{
    if (count > 1) {
        qsort(queues, count, sizeof *queues, order_queues);
    }
}

void rq_mq_sort_clients(const char **clients, size_t count)
{
    if (count > 1) {
        qsort(clients, count, sizeof *clients, order_clients);
    }
}

static bool is_in(const struct rq_mq *queue, const struct rq_mq *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rq_mq_equal(queue, &list[i])) {
            return true;
        }
    }
    return false;
}

void rq_mq_diff(const struct rq_mq *owned, size_t owned_count, const struct rq_mq *share,
                size_t share_count, bool *gone, bool *added)
{
    for (size_t i = 0; i < owned_count; i++) {
        gone[i] = !is_in(&owned[i], share, share_count);
    }
    for (size_t i = 0; i < share_count; i++) {
        added[i] = !is_in(&share[i], owned, owned_count) && !is_in(&share[i], share, i);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The process queue of ordered consumption: messages are taken in the order of their offsets, and
 * those that were taken stay until they are done or are put back. A pull's cursor (run.next) is
 * used under the queue's lock here. Counterparts: takeMessages, commit, rollback and
 * makeMessageToConsumeAgain of ProcessQueue.
 */
#include "client/process_queue.h"

static uint32_t cursor_of(struct rq_pulled *pulled)
{
    return atomic_load_explicit(&pulled->run.next, memory_order_relaxed);
}

static void set_cursor(struct rq_pulled *pulled, uint32_t at)
{
    atomic_store_explicit(&pulled->run.next, at, memory_order_relaxed);
}

static uint32_t skip_done_locked(const struct rq_pulled *pulled, uint32_t at) RQ_REQUIRES(lock)
{
    while (at < pulled->count && (pulled->views[at]->state & RQ_VIEW_DONE)) {
        at++;
    }
    return at;
}

static struct rq_pulled *first_untaken_locked(struct rq_process_queue *queue, uint32_t *at)
    RQ_REQUIRES(lock)
{
    for (struct rq_list *node = queue->pulled.next; node != &queue->pulled; node = node->next) {
        struct rq_pulled *pulled = RQ_CONTAINER_OF(node, struct rq_pulled, node);
        *at = skip_done_locked(pulled, cursor_of(pulled));
        if (*at < pulled->count) {
            return pulled;
        }
    }
    return NULL;
}

bool rq_process_queue_take(struct rq_process_queue *queue, uint32_t most, struct rq_pulled **pulled,
                           uint32_t *from, uint32_t *count)
{
    rq_mutex_lock(&queue->lock);
    *count = 0;
    *pulled = queue->dropped ? NULL : first_untaken_locked(queue, from);
    while (*pulled && *count < most && *from + *count < (*pulled)->count &&
           !((*pulled)->views[*from + *count]->state & (RQ_VIEW_DONE | RQ_VIEW_BACK))) {
        (*count)++;
    }
    if (*count > 0) {
        set_cursor(*pulled, *from + *count);
        rq_pulled_retain(*pulled);
    }
    rq_mutex_unlock(&queue->lock);
    return *count > 0;
}

void rq_process_queue_put_back(struct rq_process_queue *queue, struct rq_pulled *pulled,
                               uint32_t from)
{
    rq_mutex_lock(&queue->lock);
    set_cursor(pulled, from);
    rq_mutex_unlock(&queue->lock);
}

void rq_process_queue_put_all_back(struct rq_process_queue *queue)
{
    rq_mutex_lock(&queue->lock);
    for (struct rq_list *node = queue->pulled.next; node != &queue->pulled; node = node->next) {
        struct rq_pulled *pulled = RQ_CONTAINER_OF(node, struct rq_pulled, node);
        set_cursor(pulled, pulled->low);
    }
    rq_mutex_unlock(&queue->lock);
}

bool rq_process_queue_taken(struct rq_process_queue *queue, struct rq_pulled **pulled,
                            uint32_t *from, uint32_t *to)
{
    bool found = false;
    rq_mutex_lock(&queue->lock);
    if (!queue->dropped && !rq_list_empty(&queue->pulled)) {
        *pulled = RQ_CONTAINER_OF(queue->pulled.next, struct rq_pulled, node);
        *from = (*pulled)->low;
        *to = cursor_of(*pulled);
        found = *to > *from;
    }
    if (found) {
        rq_pulled_retain(*pulled);
    }
    rq_mutex_unlock(&queue->lock);
    return found;
}

bool rq_process_queue_is_done(struct rq_process_queue *queue, const struct rmq_message_view *view)
{
    rq_mutex_lock(&queue->lock);
    bool done = (view->state & RQ_VIEW_DONE) != 0;
    rq_mutex_unlock(&queue->lock);
    return done;
}

/* ---- for people ---- */

static void note_taken_locked(struct rq_pulled *pulled, struct rq_process_info *out)
    RQ_REQUIRES(lock)
{
    uint32_t at = cursor_of(pulled);
    at = at < pulled->count ? at : pulled->count;
    if (at > pulled->low) {
        out->taken_min =
            out->taken_count > 0 ? out->taken_min : pulled->views[pulled->low]->queue_offset;
        out->taken_max = pulled->views[at - 1]->queue_offset;
        out->taken_count += at - pulled->low;
    }
}

void rq_process_queue_info(struct rq_process_queue *queue, struct rq_process_info *out)
{
    *out = (struct rq_process_info){0};
    rq_mutex_lock(&queue->lock);
    out->count = queue->count;
    out->bytes = queue->bytes;
    for (struct rq_list *node = queue->pulled.next; node != &queue->pulled; node = node->next) {
        struct rq_pulled *pulled = RQ_CONTAINER_OF(node, struct rq_pulled, node);
        if (node == queue->pulled.next) {
            out->min_offset = pulled->views[pulled->low]->queue_offset;
        }
        out->max_offset = pulled->views[pulled->count - 1]->queue_offset;
        note_taken_locked(pulled, out);
    }
    rq_mutex_unlock(&queue->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The process queue. A queue is pulled in ascending offsets by one pull at a time, so pulls are
 * appended and no tree is needed; what an odd broker sends twice or out of order is left out when
 * the pull is grouped. The I/O thread puts and drops, workers and pollers finish. Counterpart:
 * ProcessQueue.
 */
#include "client/process_queue.h"

#include "base/mem.h"
#include "client/popped.h"

void rq_process_queue_init(struct rq_process_queue *queue, const struct rq_process_limits *limits)
{
    rq_mutex_init(&queue->lock);
    rq_list_init(&queue->pulled);
    queue->count = 0;
    queue->bytes = 0;
    queue->grown = 0;
    queue->next_offset = -1;
    queue->max_offset = -1;
    queue->limits = *limits;
    queue->waiting = false;
    queue->stranded = false;
    queue->dropped = false;
    queue->release = NULL;
}

void rq_process_queue_destroy(struct rq_process_queue *queue)
{
    rq_mutex_destroy(&queue->lock);
}

void rq_process_queue_start(struct rq_process_queue *queue, int64_t offset)
{
    rq_mutex_lock(&queue->lock);
    queue->next_offset = offset;
    rq_mutex_unlock(&queue->lock);
}

/* ---- one pull ---- */

rmq_status rq_pulled_create(struct rq_views *views, int64_t from, size_t memory,
                            bool (*keep)(const struct rmq_message_view *view, void *user),
                            void *user, struct rq_pulled **out)
{
    *out = NULL;
    struct rq_pulled *pulled = rq_alloc(sizeof *pulled + views->count * sizeof *pulled->views);
    if (!pulled) {
        return RMQ_ERR_NOMEM;
    }
    uint32_t count = 0;
    bool ordered = from != RQ_ANY_ORDER;
    for (size_t i = 0; i < views->count; i++) {
        struct rmq_message_view *view = &views->items[i];
        if (ordered && view->queue_offset < from) {
            continue;
        }
        if (!keep || keep(view, user)) {
            from = ordered ? view->queue_offset + 1 : from;
            view->owner = pulled;
            view->state = 0;
            view->hands = 0;
            pulled->views[count++] = view;
        }
    }
    if (count == 0) {
        rq_free(pulled);
        rq_views_release(views);
        return RMQ_OK;
    }
    rq_list_init(&pulled->node);
    rq_list_init(&pulled->run.node);
    pulled->run.pulled = pulled;
    pulled->run.end = count;
    atomic_init(&pulled->run.next, 0);
    pulled->queue = NULL;
    pulled->owner = views;
    pulled->popped = NULL;
    pulled->memory = memory;
    pulled->count = count;
    pulled->low = 0;
    pulled->left = count;
    atomic_init(&pulled->refs, 1);
    *out = pulled;
    return RMQ_OK;
}

void rq_pulled_retain(struct rq_pulled *pulled)
{
    atomic_fetch_add_explicit(&pulled->refs, 1, memory_order_relaxed);
}

void rq_pulled_release(struct rq_pulled *pulled)
{
    if (atomic_fetch_sub_explicit(&pulled->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    struct rq_process_queue *queue = pulled->queue;
    rq_views_release(pulled->owner);
    rq_popped_release(pulled->popped);
    rq_free(pulled);
    if (queue && queue->release) {
        queue->release(queue);
    }
}

/* ---- the queue ---- */

static int64_t growth(const struct rmq_message_view *view)
{
    return view->state & RQ_VIEW_GREW ? (int64_t)view->expanded_size - (int64_t)view->body_size : 0;
}

static int64_t counted_size(const struct rmq_message_view *view)
{
    return (int64_t)view->body_size + growth(view);
}

static int64_t smallest_offset_locked(const struct rq_process_queue *queue) RQ_REQUIRES(lock)
{
    if (rq_list_empty(&queue->pulled)) {
        return queue->next_offset;
    }
    const struct rq_pulled *first = RQ_CONTAINER_OF(queue->pulled.next, struct rq_pulled, node);
    return first->views[first->low]->queue_offset;
}

/* Whether the queue is within tenths/10 of its limits. Nothing cached always fits, so that one
 * large message cannot stop a queue. */
static bool fits_locked(const struct rq_process_queue *queue, int64_t tenths) RQ_REQUIRES(lock)
{
    if (queue->count == 0) {
        return true;
    }
    const struct rq_process_limits *limits = &queue->limits;
    int64_t span = queue->max_offset - smallest_offset_locked(queue);
    return queue->count <= limits->count * tenths / 10 &&
           queue->bytes <= limits->bytes / 10 * tenths && span <= limits->span * tenths / 10;
}

/* A waiting pull starts again only when a quarter is free: then it brings a full load instead of
 * a few messages. */
static bool woken_locked(struct rq_process_queue *queue) RQ_REQUIRES(lock)
{
    if (!queue->waiting || !fits_locked(queue, 7)) {
        return false;
    }
    queue->waiting = false;
    return true;
}

bool rq_process_queue_put(struct rq_process_queue *queue, struct rq_pulled *pulled,
                          int64_t next_offset)
{
    rq_mutex_lock(&queue->lock);
    bool taken = !queue->dropped;
    if (taken && next_offset > queue->next_offset) {
        queue->next_offset = next_offset;
    }
    if (taken && pulled) {
        for (uint32_t i = 0; i < pulled->count; i++) {
            queue->bytes += counted_size(pulled->views[i]);
        }
        queue->count += pulled->count;
        queue->max_offset = pulled->views[pulled->count - 1]->queue_offset;
        rq_list_add_tail(&queue->pulled, &pulled->node);
    }
    rq_mutex_unlock(&queue->lock);
    return taken;
}

bool rq_process_queue_has_room(struct rq_process_queue *queue)
{
    rq_mutex_lock(&queue->lock);
    bool room = fits_locked(queue, 10);
    queue->waiting = !room;
    rq_mutex_unlock(&queue->lock);
    return room;
}

const char *rq_process_queue_full(struct rq_process_queue *queue)
{
    const char *why = NULL;
    rq_mutex_lock(&queue->lock);
    queue->waiting = !fits_locked(queue, 10);
    if (queue->waiting) {
        why = queue->count > queue->limits.count             ? "count"
              : queue->bytes > queue->limits.bytes / 10 * 10 ? "size"
                                                             : "span";
    }
    rq_mutex_unlock(&queue->lock);
    return why;
}

static void mark_done_locked(struct rq_process_queue *queue, struct rq_pulled *pulled,
                             uint32_t from, uint32_t to) RQ_REQUIRES(lock)
{
    for (uint32_t i = from; i < to; i++) {
        struct rmq_message_view *view = pulled->views[i];
        if (!(view->state & RQ_VIEW_DONE)) {
            queue->bytes -= counted_size(view);
            queue->grown -= growth(view);
            queue->count--;
            pulled->left--;
            view->state |= RQ_VIEW_DONE;
        }
    }
    while (pulled->low < pulled->count && (pulled->views[pulled->low]->state & RQ_VIEW_DONE)) {
        pulled->low++;
    }
}

void rq_process_queue_done(struct rq_process_queue *queue, struct rq_pulled *pulled, uint32_t from,
                           uint32_t to, struct rq_process_done *out)
{
    rq_mutex_lock(&queue->lock);
    *out = (struct rq_process_done){.dropped = queue->dropped};
    if (!queue->dropped && pulled->left > 0) {
        int64_t grown = queue->grown;
        mark_done_locked(queue, pulled, from, to);
        out->grown = grown - queue->grown;
        if (pulled->left == 0) {
            rq_list_remove(&pulled->node);
            out->emptied = true;
        }
        out->has_room = woken_locked(queue);
    }
    rq_mutex_unlock(&queue->lock);
}

int64_t rq_process_queue_grew(struct rq_process_queue *queue, struct rmq_message_view *view)
{
    int64_t more = 0;
    rq_mutex_lock(&queue->lock);
    if (!queue->dropped && !(view->state & (RQ_VIEW_DONE | RQ_VIEW_GREW))) {
        view->state |= RQ_VIEW_GREW;
        more = growth(view);
        queue->bytes += more;
        queue->grown += more;
    }
    rq_mutex_unlock(&queue->lock);
    return more;
}

void rq_process_queue_hold(struct rq_process_queue *queue, struct rmq_message_view *view)
{
    rq_mutex_lock(&queue->lock);
    view->hands++;
    rq_mutex_unlock(&queue->lock);
}

void rq_process_queue_let_go(struct rq_process_queue *queue, struct rmq_message_view *view)
{
    rq_mutex_lock(&queue->lock);
    view->hands--;
    if (view->hands == 0) {
        rq_view_shrink(view);
    }
    rq_mutex_unlock(&queue->lock);
}

bool rq_process_queue_begin_back(struct rq_process_queue *queue, struct rmq_message_view *view)
{
    rq_mutex_lock(&queue->lock);
    bool mine = !queue->dropped && !(view->state & (RQ_VIEW_DONE | RQ_VIEW_BACK));
    if (mine) {
        view->state |= RQ_VIEW_BACK;
    }
    rq_mutex_unlock(&queue->lock);
    return mine;
}

void rq_process_queue_end_back(struct rq_process_queue *queue, struct rmq_message_view *view)
{
    rq_mutex_lock(&queue->lock);
    view->state &= ~RQ_VIEW_BACK;
    rq_mutex_unlock(&queue->lock);
}

void rq_process_queue_strand(struct rq_process_queue *queue, struct rmq_message_view *view)
{
    rq_mutex_lock(&queue->lock);
    view->state |= RQ_VIEW_STRANDED;
    queue->stranded = true;
    rq_mutex_unlock(&queue->lock);
}

static struct rq_pulled *find_stranded_locked(struct rq_process_queue *queue, uint32_t *index)
    RQ_REQUIRES(lock)
{
    for (struct rq_list *node = queue->pulled.next; node != &queue->pulled; node = node->next) {
        struct rq_pulled *pulled = RQ_CONTAINER_OF(node, struct rq_pulled, node);
        for (uint32_t i = pulled->low; i < pulled->count; i++) {
            if (pulled->views[i]->state & RQ_VIEW_STRANDED) {
                pulled->views[i]->state &= ~RQ_VIEW_STRANDED;
                *index = i;
                return pulled;
            }
        }
    }
    return NULL;
}

struct rq_pulled *rq_process_queue_stranded(struct rq_process_queue *queue, uint32_t *index)
{
    rq_mutex_lock(&queue->lock);
    struct rq_pulled *pulled =
        queue->stranded && !queue->dropped ? find_stranded_locked(queue, index) : NULL;
    queue->stranded = pulled != NULL;
    if (pulled) {
        rq_pulled_retain(pulled);
    }
    rq_mutex_unlock(&queue->lock);
    return pulled;
}

bool rq_process_queue_is_first(struct rq_process_queue *queue, const struct rq_pulled *pulled,
                               uint32_t index)
{
    rq_mutex_lock(&queue->lock);
    bool first = !queue->dropped && queue->pulled.next == &pulled->node && pulled->low == index;
    rq_mutex_unlock(&queue->lock);
    return first;
}

int64_t rq_process_queue_commit_offset(struct rq_process_queue *queue)
{
    rq_mutex_lock(&queue->lock);
    int64_t offset = queue->next_offset < 0 ? -1 : smallest_offset_locked(queue);
    rq_mutex_unlock(&queue->lock);
    return offset;
}

bool rq_process_queue_is_dropped(struct rq_process_queue *queue)
{
    rq_mutex_lock(&queue->lock);
    bool dropped = queue->dropped;
    rq_mutex_unlock(&queue->lock);
    return dropped;
}

void rq_process_queue_set_limits(struct rq_process_queue *queue,
                                 const struct rq_process_limits *limits)
{
    rq_mutex_lock(&queue->lock);
    queue->limits = *limits;
    rq_mutex_unlock(&queue->lock);
}

int64_t rq_process_queue_drop(struct rq_process_queue *queue, struct rq_list *out)
{
    rq_mutex_lock(&queue->lock);
    int64_t grown = queue->grown;
    queue->dropped = true;
    queue->waiting = false;
    queue->count = 0;
    queue->bytes = 0;
    queue->grown = 0;
    for (struct rq_list *node = rq_list_pop(&queue->pulled); node;
         node = rq_list_pop(&queue->pulled)) {
        rq_list_add_tail(out, node);
    }
    rq_mutex_unlock(&queue->lock);
    return grown;
}

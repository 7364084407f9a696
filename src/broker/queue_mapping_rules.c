/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a mapping must be like, what may follow one, and offsets of a logical queue's items. Pure
 * functions. Counterparts: TopicQueueMappingUtils, LogicQueueMappingItem. */
#include <string.h>

#include "base/err.h"
#include "broker/queue_mapping.h"

/* ---- what a queue must be like ---- */

static bool has_illegal_field(const struct rq_mapping_item *item)
{
    return item->gen < 0 || item->queue_id < 0 || item->start_offset < 0;
}

/* What is wrong with two items that follow one another, or NULL. */
static const char *wrong_between(const struct rq_mapping_item *item,
                                 const struct rq_mapping_item *next)
{
    if (item->logic_offset < 0) {
        return "an item that is not the last has no logic offset";
    }
    if (item->gen >= next->gen) {
        return "the gen does not increase";
    }
    if (next->logic_offset < 0) {
        return NULL;
    }
    return item->logic_offset >= next->logic_offset ||
                   rq_item_logical_end(item) >= next->logic_offset
               ? "the logic offset does not increase"
               : NULL;
}

static const char *wrong_with(const struct rq_mapped_queue *queue)
{
    for (size_t i = queue->count; i-- > 0;) {
        const struct rq_mapping_item *item = &queue->items[i];
        const char *wrong = has_illegal_field(item) ? "a field must not be negative" : NULL;
        if (!wrong && item->end_offset != -1 && item->end_offset < item->start_offset) {
            wrong = "the endOffset is smaller than the startOffset";
        }
        if (!wrong && i + 1 < queue->count) {
            wrong = wrong_between(item, item + 1);
        }
        if (wrong) {
            return wrong;
        }
    }
    return NULL;
}

rmq_status rq_queue_mapping_check(const struct rq_queue_mapping *mapping, rmq_error **err)
{
    for (size_t i = 0; i < mapping->count; i++) {
        const char *wrong = wrong_with(&mapping->queues[i]);
        if (wrong) {
            return rq_error_set(err, RMQ_ERR_INVALID, "static topic %s, queue %d: %s",
                                mapping->topic, mapping->queues[i].id, wrong);
        }
    }
    return RMQ_OK;
}

/* ---- what may follow ---- */

static bool same_place(const struct rq_mapping_item *a, const struct rq_mapping_item *b)
{
    return a->queue_id == b->queue_id && a->start_offset == b->start_offset &&
           strcmp(a->broker_name, b->broker_name) == 0;
}

/* Items with one gen are one item: only what was not decided may have been decided. The first ones
 * may be gone on either side, since they go when their messages are gone. */
static bool keeps_items(const struct rq_mapped_queue *old, const struct rq_mapped_queue *next)
{
    size_t i = 0;
    size_t k = 0;
    while (i < old->count && k < next->count) {
        const struct rq_mapping_item *was = &old->items[i];
        const struct rq_mapping_item *is = &next->items[k];
        if (was->gen == is->gen &&
            (!same_place(was, is) ||
             (was->logic_offset != -1 && was->logic_offset != is->logic_offset))) {
            return false;
        }
        i += was->gen <= is->gen;
        k += is->gen <= was->gen;
    }
    return true;
}

static bool same_leader(const struct rq_mapped_queue *a, const struct rq_mapped_queue *b)
{
    return rq_mapped_leader(a)->gen == rq_mapped_leader(b)->gen &&
           same_place(rq_mapped_leader(a), rq_mapped_leader(b));
}

static rmq_status check_succession(const struct rq_queue_mapping *next,
                                   const struct rq_queue_mapping *old, rmq_error **err)
{
    if (next->epoch < old->epoch) {
        return rq_error_set(err, RMQ_ERR_INVALID, "Can't accept data with small epoch %lld < %lld",
                            (long long)next->epoch, (long long)old->epoch);
    }
    if (strcmp(next->scope, old->scope) != 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "Can't accept data with unmatched scope %s != %s",
                            next->scope, old->scope);
    }
    bool same_epoch = next->epoch == old->epoch;
    for (size_t i = 0; i < old->count; i++) {
        const struct rq_mapped_queue *was = &old->queues[i];
        const struct rq_mapped_queue *is = rq_queue_mapping_find(next, was->id);
        if (!is && same_epoch) {
            return rq_error_set(err, RMQ_ERR_INVALID, "queue %d is missing, and the epoch equal",
                                was->id);
        }
        if (is && !keeps_items(was, is)) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "queue %d has an item that is another one than it was", was->id);
        }
        if (is && same_epoch && !same_leader(was, is)) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "The new leader of queue %d is different but epoch equal", was->id);
        }
    }
    return RMQ_OK;
}

rmq_status rq_queue_mapping_succeed(struct rq_queue_mapping *next,
                                    const struct rq_queue_mapping *old, bool force, rmq_error **err)
{
    rmq_status st = force ? RMQ_OK : check_succession(next, old, err);
    if (st) {
        return st;
    }
    st = rq_queue_mapping_complete(next, old);
    return st ? rq_error_set(err, st, "out of memory") : RMQ_OK;
}

/* ---- arithmetic ---- */

/* at - from + to. Offsets come from peers: nonsense gives nonsense, but no overflow. */
static int64_t move_offset(int64_t at, int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)at - (uint64_t)from + (uint64_t)to);
}

bool rq_queue_mapping_has_item(const struct rq_queue_mapping *mapping,
                               const struct rq_mapping_item *item)
{
    return strcmp(item->broker_name, mapping->broker_name) == 0;
}

bool rq_queue_mapping_leads(const struct rq_queue_mapping *mapping,
                            const struct rq_mapped_queue *queue)
{
    return queue && rq_queue_mapping_has_item(mapping, rq_mapped_leader(queue));
}

const struct rq_mapping_item *rq_mapped_item_at(const struct rq_mapped_queue *queue,
                                                int64_t logical_offset)
{
    const struct rq_mapping_item *first = NULL;
    for (size_t i = queue->count; i-- > 0;) {
        const struct rq_mapping_item *item = &queue->items[i];
        if (item->logic_offset < 0) {
            continue;
        }
        if (logical_offset >= item->logic_offset) {
            return item;
        }
        first = item;
    }
    return first;
}

const struct rq_mapping_item *rq_mapped_item_after(const struct rq_mapped_queue *queue,
                                                   const struct rq_mapping_item *item)
{
    bool last = item == rq_mapped_leader(queue);
    return last || item[1].logic_offset < 0 ? NULL : item + 1;
}

int64_t rq_item_physical(const struct rq_mapping_item *item, int64_t logical_offset)
{
    return move_offset(logical_offset, item->logic_offset, item->start_offset);
}

int64_t rq_item_logical(const struct rq_mapping_item *item, int64_t physical_offset)
{
    return physical_offset < item->start_offset
               ? item->logic_offset
               : move_offset(physical_offset, item->start_offset, item->logic_offset);
}

int64_t rq_item_logical_bounded(const struct rq_mapping_item *item, int64_t physical_offset)
{
    if (item->logic_offset < 0) {
        return -1;
    }
    bool beyond = item->end_offset >= item->start_offset && physical_offset > item->end_offset;
    return rq_item_logical(item, beyond ? item->end_offset : physical_offset);
}

bool rq_item_has_end(const struct rq_mapping_item *item)
{
    return item->end_offset > item->start_offset;
}

int64_t rq_item_logical_end(const struct rq_mapping_item *item)
{
    return item->end_offset >= item->start_offset
               ? move_offset(item->end_offset, item->start_offset, item->logic_offset)
               : item->logic_offset;
}

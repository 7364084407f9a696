/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The mapping of a static topic as one broker has it: for each logical queue that it leads or has
 * led, the physical queues, on this and other brokers, that hold its messages one after the other.
 * The last item is the leader: where messages are written. An item whose logic offset is negative
 * is not decided yet: messages may come, but nobody knows their logical offsets. Counted, and
 * immutable once it is in the table (queue_mappings.h). Counterparts: TopicQueueMappingDetail,
 * LogicQueueMappingItem, TopicQueueMappingUtils.
 */
#ifndef RQ_BROKER_QUEUE_MAPPING_H
#define RQ_BROKER_QUEUE_MAPPING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"

/* A physical queue's part of a logical one. Offsets of the physical queue from start_offset on are
 * those of the logical one from logic_offset on. */
struct rq_mapping_item {
    int32_t gen; /* grows along the items */
    int32_t queue_id;
    char *broker_name;
    int64_t logic_offset; /* -1: not decided yet */
    int64_t start_offset;
    int64_t end_offset; /* first one that is not its any more; -1: not decided */
    int64_t time_of_start;
    int64_t time_of_end;
};

struct rq_mapped_queue {
    int32_t id; /* the logical one */
    struct rq_mapping_item *items;
    size_t count; /* never 0 */
};

struct rq_queue_mapping {
    _Atomic uint32_t refs; /* atomic: as any count */
    char *topic;
    char *scope;
    char *broker_name; /* whose view this is */
    int32_t total_queues;
    int64_t epoch;
    bool dirty;
    struct rq_mapped_queue *queues; /* by id, rising */
    size_t count;
};

/* From JSON, with one reference. RMQ_ERR_PROTOCOL: no object, or without topic or broker name;
 * RMQ_ERR_NOMEM. */
rmq_status rq_queue_mapping_parse(const cJSON *json, struct rq_queue_mapping **out,
                                  rmq_error **err);
/* The same without queues. NULL when out of memory. */
struct rq_queue_mapping *rq_queue_mapping_like(const struct rq_queue_mapping *mapping);
struct rq_queue_mapping *rq_queue_mapping_retain(struct rq_queue_mapping *mapping);
void rq_queue_mapping_release(struct rq_queue_mapping *mapping); /* NULL is accepted */

/* Adds a copy of a queue that is behind all there are, without its first skip items. Before the
 * mapping is shared. RMQ_ERR_NOMEM. */
rmq_status rq_queue_mapping_add(struct rq_queue_mapping *mapping,
                                const struct rq_mapped_queue *queue, size_t skip);

/* Adds copies of all that another one has and this one has not. Likewise. */
rmq_status rq_queue_mapping_complete(struct rq_queue_mapping *mapping,
                                     const struct rq_queue_mapping *from);

/* NULL when the broker knows nothing of that logical queue. */
const struct rq_mapped_queue *rq_queue_mapping_find(const struct rq_queue_mapping *mapping,
                                                    int32_t id);

void rq_queue_mapping_write(const struct rq_queue_mapping *mapping, struct rq_buf *out);
/* What name servers are told: which physical queue each logical one is led by, of those that this
 * broker leads. */
void rq_queue_mapping_write_info(const struct rq_queue_mapping *mapping, struct rq_buf *out);

/* ---- rules ---- */

/* The items of each queue follow one another. RMQ_ERR_INVALID. */
rmq_status rq_queue_mapping_check(const struct rq_queue_mapping *mapping, rmq_error **err);

/* Makes next, which nobody else has, the successor of old: what it does not name stays as it was.
 * Unless force: with an epoch before the old one, another scope, or items that are other ones than
 * they were, it is refused with RMQ_ERR_INVALID. */
rmq_status rq_queue_mapping_succeed(struct rq_queue_mapping *next,
                                    const struct rq_queue_mapping *old, bool force,
                                    rmq_error **err);

/* ---- arithmetic of one queue ---- */

static inline const struct rq_mapping_item *rq_mapped_leader(const struct rq_mapped_queue *queue)
{
    return &queue->items[queue->count - 1];
}

/* Whether the broker of the mapping leads the queue; queue may be NULL. */
bool rq_queue_mapping_leads(const struct rq_queue_mapping *mapping,
                            const struct rq_mapped_queue *queue);
/* Whether the item's queue is on the broker of the mapping. */
bool rq_queue_mapping_has_item(const struct rq_queue_mapping *mapping,
                               const struct rq_mapping_item *item);

/* The decided item that a logical offset falls into: the last that begins at or before it, else the
 * first. NULL when none is decided. INT64_MAX finds the last one. */
const struct rq_mapping_item *rq_mapped_item_at(const struct rq_mapped_queue *queue,
                                                int64_t logical_offset);

/* The item behind another, when it is decided, else NULL. */
const struct rq_mapping_item *rq_mapped_item_after(const struct rq_mapped_queue *queue,
                                                   const struct rq_mapping_item *item);

/* The physical offset of a logical one. */
int64_t rq_item_physical(const struct rq_mapping_item *item, int64_t logical_offset);

/* The logical offset of a physical one, of a decided item. */
int64_t rq_item_logical(const struct rq_mapping_item *item, int64_t physical_offset);

/* The same, not beyond the item's end; -1 when it is not decided. */
int64_t rq_item_logical_bounded(const struct rq_mapping_item *item, int64_t physical_offset);

/* Whether the item has an end, and anything before it. */
bool rq_item_has_end(const struct rq_mapping_item *item);

/* The logical end as far as the mapping knows it. */
int64_t rq_item_logical_end(const struct rq_mapping_item *item);

#endif

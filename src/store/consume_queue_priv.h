/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the files of a consume queue share: consume_queue.c (at work), consume_queue_recover.c. */
#ifndef RQ_STORE_CONSUME_QUEUE_PRIV_H
#define RQ_STORE_CONSUME_QUEUE_PRIV_H

#include "base/bytes.h"
#include "store/consume_queue.h"

static inline void rq_cq_write(char *p, const struct rq_store_entry *entry)
{
    rq_store_be64(p, (uint64_t)entry->commit_log_offset);
    rq_store_be32(p + 8, (uint32_t)entry->size);
    rq_store_be64(p + 12, (uint64_t)entry->tags_code);
}

static inline int64_t rq_cq_end(const struct rq_consume_queue *queue)
{
    return atomic_load_explicit(&queue->end, memory_order_relaxed);
}

static inline void rq_cq_set_end(struct rq_consume_queue *queue, int64_t end)
{
    atomic_store_explicit(&queue->end, end, memory_order_release);
}

static inline void rq_cq_set_min(struct rq_consume_queue *queue, int64_t min)
{
    atomic_store_explicit(&queue->min, min, memory_order_release);
}

/* ---- consume_queue.c ---- */

/* The entry whose first byte is at, without bounds of min and end; false when no file has it. */
bool rq_cq_entry_at(struct rq_consume_queue *queue, int64_t at, struct rq_store_entry *out,
                    bool *real);

/* First byte of the first real entry whose message begins at or behind commit_log_min. */
int64_t rq_cq_first_from(struct rq_consume_queue *queue, int64_t commit_log_min);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * All consume queues, by topic and queue id. A queue that was found stays valid until the table is
 * freed, also when its topic is deleted meanwhile. Any thread. Counterpart: ConsumeQueueStore.
 */
#ifndef RQ_STORE_QUEUE_TABLE_H
#define RQ_STORE_QUEUE_TABLE_H

#include "base/map.h"
#include "base/thread.h"
#include "store/consume_queue.h"

struct rq_queue_table {
    /* immutable after init */
    char *dir; /* root/consumequeue */
    size_t file_size;
    struct rq_disk *disk; /* set before the first queue is made; NULL = the plain calls */
    /* guarded by lock */
    struct rq_mutex lock;
    struct rq_map queues;          /* key: topic, NUL, queue id in 4 bytes */
    struct rq_consume_queue **all; /* in order of creation, removed ones too */
    size_t count;
    size_t cap;
};

rmq_status rq_queue_table_init(struct rq_queue_table *table, const char *dir, size_t file_size);
void rq_queue_table_free(struct rq_queue_table *table);

/* Opens every queue of the directory. */
rmq_status rq_queue_table_load(struct rq_queue_table *table, rmq_error **err);

struct rq_consume_queue *rq_queue_table_find(struct rq_queue_table *table, struct rq_slice topic,
                                             int32_t queue_id); /* NULL when there is none */

/* Finds or makes (in memory: files come with the first entry). */
rmq_status rq_queue_table_get(struct rq_queue_table *table, struct rq_slice topic, int32_t queue_id,
                              struct rq_consume_queue **out);

/* Queue number index, 0 … count - 1; NULL beyond. Removed queues are passed over by the caller. */
struct rq_consume_queue *rq_queue_table_at(struct rq_queue_table *table, size_t index);

/* Takes the queues of a topic out and deletes their directory. With dispatcher and appenders held
 * off. */
rmq_status rq_queue_table_remove(struct rq_queue_table *table, struct rq_slice topic,
                                 rmq_error **err);

/* Whether a topic can be a directory name. */
bool rq_queue_table_topic_ok(struct rq_slice topic);

#endif

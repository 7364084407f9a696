/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * All consume queues, by topic and queue id. A queue that was found is the finder's to release, and
 * stays what it was until then, also when its topic is deleted meanwhile. Any thread. Counterpart:
 * ConsumeQueueStore.
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
    struct rq_consume_queue **all; /* each with one reference; NULL = free for the next one */
    size_t count;
    size_t cap;
    size_t holes; /* free ones among them */
};

rmq_status rq_queue_table_init(struct rq_queue_table *table, const char *dir, size_t file_size);
void rq_queue_table_free(struct rq_queue_table *table);

/* Opens every queue of the directory. */
rmq_status rq_queue_table_load(struct rq_queue_table *table, rmq_error **err);

/* Retained; NULL when there is none. */
struct rq_consume_queue *rq_queue_table_find(struct rq_queue_table *table, struct rq_slice topic,
                                             int32_t queue_id);

/* Finds or makes (in memory: files come with the first entry); retained. */
rmq_status rq_queue_table_get(struct rq_queue_table *table, struct rq_slice topic, int32_t queue_id,
                              struct rq_consume_queue **out);

/* One queue after the other, retained, *index being 0 at first; NULL at the end. Each that is there
 * all the while comes once. */
struct rq_consume_queue *rq_queue_table_next(struct rq_queue_table *table, size_t *index);

/* Takes the queues of a topic out: they are found no more. With dispatcher and appenders held off.
 * Returns them, tied by next_touched, for rq_queue_table_delete. */
struct rq_consume_queue *rq_queue_table_remove(struct rq_queue_table *table, struct rq_slice topic);

/* Releases queues that were taken out, and deletes the files of their topic. With the dispatcher
 * held off. */
rmq_status rq_queue_table_delete(struct rq_queue_table *table, struct rq_slice topic,
                                 struct rq_consume_queue *removed, rmq_error **err);

/* Whether a topic can be a directory name. */
bool rq_queue_table_topic_ok(struct rq_slice topic);

#endif

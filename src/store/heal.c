/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Walks along the commit log for parts of queues and index. */
#include "store/heal.h"

#include <inttypes.h>

#include "base/log.h"

typedef rmq_status (*take_fn)(struct rq_store *store, const struct rq_record *record, void *user,
                              rmq_error **err);

/* Every good record of [from, upto), up to the first place where there is none. */
static rmq_status each_record(struct rq_store *store, int64_t from, int64_t upto, take_fn take,
                              void *user, rmq_error **err)
{
    struct rq_log_reader reader = {0};
    int64_t min = rq_commit_log_min(&store->log);
    int64_t offset = from > min ? from : min;
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && offset < upto) {
        struct rq_record record;
        enum rq_record_kind kind = rq_recover_read(store, &reader, offset, &record);
        if (kind == RQ_RECORD_BAD) {
            break;
        }
        if (kind == RQ_RECORD_GOOD) {
            st = take(store, &record, user, err);
        }
        offset = kind == RQ_RECORD_GOOD ? offset + record.size
                                        : reader.file->start + (int64_t)reader.file->size;
    }
    rq_log_reader_done(&reader);
    return st;
}

static rmq_status take_for_queue(struct rq_store *store, const struct rq_record *record, void *user,
                                 rmq_error **err)
{
    const struct rq_consume_queue *queue = user;
    return record->queue_id == queue->queue_id && rq_slice_eq(record->topic, queue->topic)
               ? rq_dispatch_record(store, record, err)
               : RMQ_OK;
}

rmq_status rq_heal_queue(struct rq_store *store, struct rq_consume_queue *queue, int64_t upto,
                         rmq_error **err)
{
    RQ_LOG(WARN, "consume queue is rebuilt from the commit log",
           "topic=%.*s queue=%d from=%" PRId64 " to=%" PRId64, (int)queue->topic.n, queue->topic.p,
           queue->queue_id, queue->max_commit_log_offset, upto);
    return each_record(store, queue->max_commit_log_offset, upto, take_for_queue, queue, err);
}

static rmq_status take_marked(struct rq_store *store, const struct rq_record *record, void *user,
                              rmq_error **err)
{
    (void)user;
    struct rq_consume_queue *queue =
        rq_queue_table_find(&store->queues, record->topic, record->queue_id);
    bool marked = queue && queue->rebuild;
    rq_consume_queue_release(queue);
    return marked ? rq_dispatch_record(store, record, err) : RMQ_OK;
}

rmq_status rq_heal_marked(struct rq_store *store, int64_t upto, rmq_error **err)
{
    struct rq_consume_queue *queue;
    int64_t from = upto;
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        if (queue->rebuild) {
            RQ_LOG(WARN, "consume queue lost files and is built again", "topic=%.*s queue=%d",
                   (int)queue->topic.n, queue->topic.p, queue->queue_id);
            from = queue->max_commit_log_offset < from ? queue->max_commit_log_offset : from;
        }
    }
    rmq_status st = each_record(store, from, upto, take_marked, NULL, err);
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        queue->rebuild = false;
    }
    return st;
}

static rmq_status take_for_index(struct rq_store *store, const struct rq_record *record, void *user,
                                 rmq_error **err)
{
    struct rq_record_properties properties;
    (void)user;
    rq_record_properties(record->properties, &properties);
    return rq_index_put(&store->index, record, &properties, err);
}

rmq_status rq_heal_index(struct rq_store *store, int64_t upto, rmq_error **err)
{
    RQ_LOG(WARN, "key index lost files and is built again", "path=%s", store->index.dir);
    rmq_status st = rq_index_truncate(&store->index, 0, err);
    return st == RMQ_OK ? each_record(store, 0, upto, take_for_index, NULL, err) : st;
}

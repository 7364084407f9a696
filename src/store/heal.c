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

/* Whether the log has message number of the queue where its entry says. It cannot disagree about one
 * that has expired, whose number counts. */
static bool entry_is_true(struct rq_store *store, struct rq_log_reader *reader,
                          struct rq_consume_queue *queue, int64_t number)
{
    struct rq_store_entry entry;
    struct rq_record record;
    if (!rq_consume_queue_entry(queue, number, &entry)) {
        return false;
    }
    if (entry.commit_log_offset < rq_commit_log_min(&store->log)) {
        return true;
    }
    return rq_recover_read(store, reader, entry.commit_log_offset, &record) == RQ_RECORD_GOOD &&
           (int32_t)record.size == entry.size && record.queue_offset == number &&
           record.queue_id == queue->queue_id && rq_slice_eq(record.topic, queue->topic);
}

rmq_status rq_heal_cut(struct rq_store *store, struct rq_consume_queue *queue, rmq_error **err)
{
    struct rq_log_reader reader = {0};
    int64_t max = rq_consume_queue_max(queue);
    int64_t keep = max;
    while (keep > rq_consume_queue_min(queue) && !entry_is_true(store, &reader, queue, keep - 1)) {
        keep--;
    }
    rq_log_reader_done(&reader);
    queue->rebuild = true;
    return keep < max ? rq_consume_queue_cut(queue, keep, err) : RMQ_OK;
}

/* Of the queues that are marked for rebuilding, along the log once. */
static rmq_status heal_marked(struct rq_store *store, int64_t upto, rmq_error **err)
{
    struct rq_consume_queue *queue;
    int64_t from = upto;
    rmq_status st = RMQ_OK;
    for (size_t i = 0; st == RMQ_OK && (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        if (queue->rebuild) {
            st = rq_heal_cut(store, queue, err);
            from = queue->max_commit_log_offset < from ? queue->max_commit_log_offset : from;
        }
    }
    if (st == RMQ_OK) {
        st = each_record(store, from, upto, take_marked, NULL, err);
    }
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        queue->rebuild = false;
    }
    return st;
}

rmq_status rq_heal_marked(struct rq_store *store, int64_t upto, rmq_error **err)
{
    struct rq_consume_queue *queue;
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        if (queue->rebuild) {
            RQ_LOG(WARN, "consume queue lost files and is built again", "topic=%.*s queue=%d",
                   (int)queue->topic.n, queue->topic.p, queue->queue_id);
        }
    }
    return heal_marked(store, upto, err);
}

/* ---- queues that lack what lies before the walk ---- */

/* The queue of a record, with a reference; NULL when it has none. */
static struct rq_consume_queue *queue_of(struct rq_store *store, const struct rq_record *record)
{
    int32_t kind = record->sys_flag & RQ_SYS_TRANSACTION_MASK;
    struct rq_consume_queue *queue = NULL;
    bool counted = kind == 0 || kind == RQ_SYS_TRANSACTION_COMMIT;
    return counted && rq_queue_table_get(&store->queues, record->topic, record->queue_id, &queue) ==
                          RMQ_OK
               ? queue
               : NULL;
}

/* record: its first one from walked on. A queue that ends before it and yet says to have what is
 * behind it has a wrong entry, and lacks whatever this hides. */
static bool lacks(struct rq_store *store, const struct rq_consume_queue *queue,
                  const struct rq_record *record, int64_t walked)
{
    int64_t max = rq_consume_queue_max(queue);
    bool wrong = record->queue_offset >= max &&
                 record->commit_log_offset + record->size <= queue->max_commit_log_offset;
    return wrong || (queue->max_commit_log_offset < walked &&
                     rq_commit_log_min(&store->log) < walked && record->queue_offset > max);
}

struct ahead {
    int64_t walked;
    int64_t upto; /* where the last record ends */
    size_t found;
};

static rmq_status mark_lacking(struct rq_store *store, const struct rq_record *record, void *user,
                               rmq_error **err)
{
    struct ahead *ahead = user;
    struct rq_consume_queue *queue = queue_of(store, record);
    (void)err;
    if (queue && !queue->met) {
        queue->met = true;
        if (lacks(store, queue, record, ahead->walked)) {
            queue->rebuild = true;
            ahead->found++;
        }
    }
    rq_consume_queue_release(queue);
    ahead->upto = record->commit_log_offset + record->size;
    return RMQ_OK;
}

rmq_status rq_heal_before(struct rq_store *store, const struct rq_record *record, int64_t walked,
                          int64_t *healed, rmq_error **err)
{
    if (record->commit_log_offset < *healed) {
        return RMQ_OK;
    }
    struct rq_consume_queue *queue = queue_of(store, record);
    bool needed = queue && lacks(store, queue, record, walked);
    rq_consume_queue_release(queue);
    if (!needed) {
        return RMQ_OK;
    }
    struct ahead ahead = {.walked = walked};
    rmq_status st =
        each_record(store, record->commit_log_offset, INT64_MAX, mark_lacking, &ahead, err);
    *healed = ahead.upto;
    RQ_LOG(WARN, "consume queues are rebuilt from the commit log",
           "queues=%zu topic=%.*s to=%" PRId64, ahead.found, (int)record->topic.n, record->topic.p,
           walked);
    return st == RMQ_OK ? heal_marked(store, walked, err) : st;
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
    if (st == RMQ_OK) {
        st = each_record(store, 0, upto, take_for_index, NULL, err);
    }
    if (st == RMQ_OK && store->index.unreadable > 0) { /* else a power cut could take both */
        st = rq_index_flush(&store->index, err);
    }
    if (st == RMQ_OK) {
        rq_index_drop_unreadable(&store->index);
    }
    return st;
}

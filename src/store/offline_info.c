/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What <rmq/store.h> tells of a store without checking it: totals, queues, single messages. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/offline.h"
#include "wire/msgid.h"

_Static_assert(sizeof((rmq_store_message *)0)->msg_id >= RQ_MSGID_MAX + 1, "room for a message id");

static void count_queues(const struct rmq_store *store, rmq_store_info *info)
{
    const char *topic = "";
    for (size_t i = 0; i < store->queue_count; i++) {
        const struct rq_offline_queue *queue = store->queues[i];
        if (queue->virtual) {
            continue;
        }
        info->topics += strcmp(queue->topic, topic) != 0;
        topic = queue->topic;
        info->queues++;
        info->consume_queue_files += (int64_t)queue->files.count;
        info->messages += queue->max - queue->min;
        int64_t size = (int64_t)queue->files.file_size; /* that of a file cut short is less */
        info->consume_queue_file_size =
            size > info->consume_queue_file_size ? size : info->consume_queue_file_size;
    }
}

void rmq_store_get_info(const rmq_store *store, rmq_store_info *out, size_t size)
{
    if (!store || !out) {
        return;
    }
    int64_t min = store->log.count > 0 ? store->log.files[0].start : 0;
    rmq_store_info info = {
        .commit_log_min_offset = min,
        .commit_log_max_offset = store->log_end,
        .commit_log_file_size = (int64_t)store->log.file_size,
        .commit_log_files = (int64_t)store->log.count,
        .index_files = (int64_t)store->index_files.count,
        .index_entries = store->index_entries,
        .first_store_timestamp_ms = store->first_time,
        .last_store_timestamp_ms = store->last_time,
        .physic_msg_timestamp_ms = store->checkpoint.commit_log_time,
        .logics_msg_timestamp_ms = store->checkpoint.queue_time,
        .index_msg_timestamp_ms = store->checkpoint.index_time,
        .max_hash_slot_num = (int32_t)store->index.slots,
        .max_index_num = (int32_t)store->index.entries,
        .closed = store->closed,
        .in_use = store->in_use,
    };
    count_queues(store, &info);
    memset(out, 0, size);
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
}

/* Queues that a check found by their messages only come behind all others, and are not shown. */
static const struct rq_offline_queue *queue_at(const struct rmq_store *store, size_t index)
{
    return store && index < store->queue_count && !store->queues[index]->virtual
               ? store->queues[index]
               : NULL;
}

bool rmq_store_queue_at(const rmq_store *store, size_t index, rmq_store_queue *out, size_t size)
{
    const struct rq_offline_queue *queue = queue_at(store, index);
    if (!queue) {
        return false;
    }
    rmq_store_queue all = {.topic = queue->topic,
                           .queue_id = queue->queue_id,
                           .files = (int32_t)queue->files.count,
                           .min_offset = queue->min,
                           .max_offset = queue->max,
                           .commit_log_max_offset = queue->log_end,
                           .log_max_offset = -1};
    if (store->verified) {
        all.log_max_offset = queue->next > 0 ? queue->next : queue->max;
    }
    memset(out, 0, size);
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
    return true;
}

static void fill_message(const struct rq_msg *msg, const struct rq_store_entry *entry,
                         rmq_store_message *out)
{
    *out = (rmq_store_message){
        .queue_offset = msg->queue_offset,
        .commit_log_offset = msg->commit_log_offset,
        .tags_code = entry->tags_code,
        .born_timestamp_ms = msg->born_timestamp_ms,
        .store_timestamp_ms = msg->store_timestamp_ms,
        .prepared_transaction_offset = msg->prepared_transaction_offset,
        .body = msg->body.p,
        .body_size = msg->body.n,
        .properties = msg->properties.p,
        .properties_size = msg->properties.n,
        .size = msg->total_size,
        .flag = msg->flag,
        .sys_flag = msg->sys_flag,
        .reconsume_times = msg->reconsume_times,
    };
    rq_msgid_of_offset(&msg->store_host, msg->commit_log_offset, out->msg_id);
}

/* The message that an entry of a queue leads to; false when it is not there. */
static bool read_message(const struct rmq_store *store, const struct rq_offline_queue *queue,
                         int64_t number, const struct rq_store_entry *entry, struct rq_msg *out)
{
    struct rq_record record;
    if (rq_offline_record(store, entry->commit_log_offset, true, &record) != RQ_RECORD_GOOD ||
        record.queue_offset != number || record.queue_id != queue->queue_id ||
        !rq_slice_eq_str(record.topic, queue->topic)) {
        return false;
    }
    const char *p = rq_offline_at(&store->log, entry->commit_log_offset, record.size);
    struct rq_cursor c = rq_cursor(p, p ? record.size : 0);
    return rq_msg_decode(&c, out, NULL) == RMQ_OK;
}

rmq_status rmq_store_message_at(const rmq_store *store, size_t index, int64_t offset,
                                rmq_store_message *out, size_t size, rmq_error **err)
{
    const struct rq_offline_queue *queue = queue_at(store, index);
    struct rq_store_entry entry;
    struct rq_msg msg;
    bool real = false;
    bool found = queue && offset >= queue->min && rq_offline_entry(queue, offset, &entry, &real);
    bool good = found && real && read_message(store, queue, offset, &entry, &msg);
    rmq_status st = queue ? rq_offline_take_trouble(queue->files.trouble, err) : RMQ_OK;
    if (st != RMQ_OK) {
        return st;
    }
    if (!found || !real) {
        return rq_error_set(err, RMQ_ERR_NOT_FOUND, "there is no message %" PRId64, offset);
    }
    if (!good) {
        return rq_error_set(err, RMQ_ERR_CORRUPT,
                            "topic %s queue %d: entry %" PRId64
                            " leads to commit-log offset %" PRId64 ", where its message is not",
                            queue->topic, queue->queue_id, offset, entry.commit_log_offset);
    }
    rmq_store_message all;
    fill_message(&msg, &entry, &all);
    memset(out, 0, size);
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
    return RMQ_OK;
}

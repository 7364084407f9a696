/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Consume queues against the commit log: entry i is message i, with its size and tags code, and
 * there is none beside. */
#include <inttypes.h>
#include <string.h>

#include "base/jhash.h"
#include "store/verify.h"
#include "wire/message.h"
#include "wire/names.h"

/* from here down a tags code is a place in consumequeue_ext */
#define EXT_ADDRESS (-2147483649LL)

static rmq_status queue_of(struct rq_verify *v, const struct rq_record *record,
                           struct rq_offline_queue **out)
{
    struct rq_offline_queue *queue = v->last_queue;
    if (queue && queue->queue_id == record->queue_id &&
        rq_slice_eq_str(record->topic, queue->topic)) {
        *out = queue;
        return RMQ_OK;
    }
    rmq_status st = rq_offline_queue_of(v->store, record->topic, record->queue_id, out);
    v->last_queue = st == RMQ_OK ? *out : NULL;
    return st;
}

/* Delay levels may have changed since, and the clock may have been set back before the message was
 * stored: of a delivery time it is only certain that no hash is so high. */
static bool tags_code_ok(const struct rq_record *record,
                         const struct rq_record_properties *properties, int64_t code)
{
    if (code <= EXT_ADDRESS) {
        return true;
    }
    if (properties->delay.n > 0 && rq_slice_eq_str(record->topic, RQ_TOPIC_SCHEDULE)) {
        return code > INT32_MAX;
    }
    return code == (properties->tags.n > 0 ? rq_java_hash(properties->tags) : 0);
}

static void note_missing(struct rq_offline_queue *queue, const struct rq_record *record)
{
    queue->missing++;
    queue->late += record->queue_offset >= queue->max;
}

static void note_wrong(struct rq_verify *v, struct rq_offline_queue *queue,
                       const struct rq_record *record, const struct rq_store_entry *entry)
{
    queue->wrong++;
    rq_verify_tell(v,
                   "topic %s queue %d: entry %" PRId64 " says offset %" PRId64
                   " size %d tags code %" PRId64 ", the message is at %" PRId64 " with %u bytes",
                   queue->topic, queue->queue_id, record->queue_offset, entry->commit_log_offset,
                   entry->size, entry->tags_code, record->commit_log_offset, record->size);
}

static bool is_behind_files(const struct rmq_store *store, const struct rq_store_entry *entry)
{
    const struct rq_offline_file *last = &store->log.files[store->log.count - 1];
    return entry->commit_log_offset >= last->start + (int64_t)last->size;
}

rmq_status rq_verify_queue_record(struct rq_verify *v, const struct rq_record *record,
                                  const struct rq_record_properties *properties)
{
    int32_t kind = record->sys_flag & RQ_SYS_TRANSACTION_MASK;
    struct rq_offline_queue *queue;
    struct rq_store_entry entry;
    bool real;
    if (kind == RQ_SYS_TRANSACTION_PREPARED || kind == RQ_SYS_TRANSACTION_ROLLBACK) {
        return RMQ_OK;
    }
    rmq_status st = queue_of(v, record, &queue);
    if (st != RMQ_OK) {
        return st == RMQ_ERR_INVALID ? RMQ_OK : st;
    }
    if (record->queue_offset < queue->next) { /* the topic was deleted and made again */
        queue->wrong -= queue->astray;
        queue->missing = queue->late = queue->astray = 0;
    }
    queue->next = record->queue_offset < INT64_MAX ? record->queue_offset + 1 : INT64_MAX;
    if (!rq_offline_entry(queue, record->queue_offset, &entry, &real) || !real) {
        note_missing(queue, record);
    } else if (is_behind_files(v->store, &entry)) {
        queue->astray++;
        note_wrong(v, queue, record, &entry);
    } else if (entry.commit_log_offset > record->commit_log_offset) {
        note_missing(queue, record); /* or that of a topic before it was deleted and made again */
    } else if (entry.commit_log_offset != record->commit_log_offset ||
               entry.size != (int32_t)record->size ||
               !tags_code_ok(record, properties, entry.tags_code)) {
        note_wrong(v, queue, record, &entry);
    } else {
        queue->matched++;
    }
    return RMQ_OK;
}

/* ---- what is left ---- */

/* Whether the broker knows the topic; without the file of topics it may, and its own topics need
 * not be there. */
static bool is_known(const struct rq_verify *v, const struct rq_offline_queue *queue)
{
    const cJSON *table = rq_json_get(v->topics_file, "topicConfigTable");
    return !table || rq_json_get(table, queue->topic) ||
           strncmp(queue->topic, "RMQ_SYS_", 8) == 0 || strncmp(queue->topic, "rmq_sys_", 8) == 0 ||
           strcmp(queue->topic, RQ_TOPIC_SCHEDULE) == 0;
}

static bool leads_to_its_message(const struct rq_verify *v, const struct rq_offline_queue *queue,
                                 int64_t number, const struct rq_store_entry *entry)
{
    struct rq_record record;
    return rq_offline_record(v->store, entry->commit_log_offset, false, &record) ==
               RQ_RECORD_GOOD &&
           record.queue_offset == number && record.queue_id == queue->queue_id &&
           rq_slice_eq_str(record.topic, queue->topic);
}

/* Entries that no message led to. */
static void tell_extra(struct rq_verify *v, struct rq_offline_queue *queue, int64_t extra)
{
    for (int64_t i = queue->first; i < queue->max && extra > 0; i++) {
        struct rq_store_entry entry;
        bool real;
        if (rq_offline_entry(queue, i, &entry, &real) && real &&
            entry.commit_log_offset >= v->log_min &&
            entry.commit_log_offset < v->out.commit_log_max_offset &&
            !leads_to_its_message(v, queue, i, &entry)) {
            extra--;
            rq_verify_tell(v,
                           "topic %s queue %d: entry %" PRId64
                           " leads to commit-log offset %" PRId64 ", where its message is not",
                           queue->topic, queue->queue_id, i, entry.commit_log_offset);
        }
    }
}

static void check_files(struct rq_verify *v, struct rq_offline_queue *queue)
{
    for (size_t i = 0; i < queue->files.count; i++) {
        const struct rq_offline_file *file = &queue->files.files[i];
        if (file->size != queue->files.file_size &&
            !(file->size == 0 && i + 1 == queue->files.count)) {
            queue->wrong++;
            rq_verify_tell(v, "topic %s queue %d: file %020" PRId64 " has %zu bytes, expected %zu",
                           queue->topic, queue->queue_id, file->start, file->size,
                           queue->files.file_size);
        }
    }
    if (queue->hole >= 0) {
        queue->wrong++;
        rq_verify_tell(v,
                       "topic %s queue %d: nothing at entry %" PRId64 ", but there are later files",
                       queue->topic, queue->queue_id, queue->hole);
    }
}

static void end_queue(struct rq_verify *v, struct rq_offline_queue *queue)
{
    int64_t live = 0;
    int64_t wrong_before = queue->wrong - queue->astray;
    for (int64_t i = queue->first; i < queue->max; i++) {
        struct rq_store_entry entry;
        bool real;
        if (!rq_offline_entry(queue, i, &entry, &real) || !real) {
            continue;
        }
        v->out.queue_entries_expired += entry.commit_log_offset < v->log_min;
        v->out.queue_entries_ahead += entry.commit_log_offset >= v->out.commit_log_max_offset;
        live += entry.commit_log_offset >= v->log_min &&
                entry.commit_log_offset < v->out.commit_log_max_offset;
    }
    v->out.queue_entries_ahead -= queue->astray;
    int64_t extra = live - queue->matched - wrong_before;
    check_files(v, queue);
    if (extra > 0) {
        queue->wrong += extra;
        tell_extra(v, queue, extra);
    }
    if (queue->missing > 0) {
        rq_verify_tell(v,
                       "topic %s queue %d: %" PRId64 " messages without entry, it ends at %" PRId64,
                       queue->topic, queue->queue_id, queue->missing, queue->max);
    }
    v->out.queue_entries += queue->matched;
    v->out.queue_entries_missing += queue->missing;
    v->out.queue_entries_wrong += queue->wrong;
}

void rq_verify_queues_end(struct rq_verify *v)
{
    v->late = 0;
    for (size_t i = 0; i < v->store->queue_count; i++) {
        struct rq_offline_queue *queue = v->store->queues[i];
        if (queue->virtual && !is_known(v, queue)) {
            continue; /* messages of a topic that was deleted */
        }
        end_queue(v, queue);
        v->late += queue->late;
    }
    if (v->out.queue_entries_ahead > 0) {
        rq_verify_tell(
            v, "%" PRId64 " queue entries for messages behind the end of the commit log, %" PRId64,
            v->out.queue_entries_ahead, v->out.commit_log_max_offset);
    }
}

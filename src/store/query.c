/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Questions about the store: offsets, times, single records, keys. Any thread. */
#include <string.h>

#include "store/store_priv.h"

bool rq_store_has_queue(struct rq_store *store, struct rq_slice topic, int32_t queue_id)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    rq_consume_queue_release(queue);
    return queue != NULL;
}

int64_t rq_store_min_offset(struct rq_store *store, struct rq_slice topic, int32_t queue_id)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    int64_t min = queue ? rq_consume_queue_min(queue) : 0;
    rq_consume_queue_release(queue);
    return min;
}

int64_t rq_store_max_offset(struct rq_store *store, struct rq_slice topic, int32_t queue_id)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    int64_t max = queue ? rq_consume_queue_max(queue) : 0;
    rq_consume_queue_release(queue);
    return max;
}

bool rq_store_entry(struct rq_store *store, struct rq_slice topic, int32_t queue_id, int64_t offset,
                    struct rq_store_entry *out)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    bool found = queue && rq_consume_queue_entry(queue, offset, out);
    rq_consume_queue_release(queue);
    return found;
}

/* ---- records ---- */

/* Of the log before end. */
static bool read_before(struct rq_store *store, struct rq_log_reader *reader, int64_t offset,
                        int64_t end, struct rq_record *out, const char **start)
{
    size_t left = 0;
    *start = rq_log_reader_at(reader, &store->log, offset, end, &left);
    return *start && rq_mapped_file_can_read(reader->file) &&
           rq_record_read(*start, left, false, out) == RQ_RECORD_GOOD &&
           out->commit_log_offset == offset;
}

static bool read_record(struct rq_store *store, struct rq_log_reader *reader, int64_t offset,
                        struct rq_record *out, const char **start)
{
    return read_before(store, reader, offset, rq_store_visible_end(store), out, start);
}

static bool view(struct rq_store *store, int64_t commit_log_offset, int64_t end,
                 struct rq_store_ref *out)
{
    struct rq_log_reader reader = {0};
    struct rq_record record;
    const char *start;
    if (!read_before(store, &reader, commit_log_offset, end, &record, &start)) {
        rq_log_reader_done(&reader);
        return false;
    }
    *out = (struct rq_store_ref){.p = start, .n = record.size, .file = reader.file};
    return true;
}

bool rq_store_view(struct rq_store *store, int64_t commit_log_offset, struct rq_store_ref *out)
{
    return view(store, commit_log_offset, rq_store_visible_end(store), out);
}

bool rq_store_view_stored(struct rq_store *store, int64_t commit_log_offset,
                          struct rq_store_ref *out)
{
    int64_t committed = rq_commit_log_committed(&store->log);
    if (commit_log_offset >= committed && commit_log_offset < rq_commit_log_max(&store->log)) {
        committed = rq_commit_log_commit(&store->log); /* it is in a write buffer only */
    }
    return view(store, commit_log_offset, committed, out);
}

bool rq_store_read_log(struct rq_store *store, int64_t commit_log_offset, size_t max,
                       struct rq_store_ref *out)
{
    struct rq_log_reader reader = {0};
    size_t left = 0;
    const char *p = rq_log_reader_at(&reader, &store->log, commit_log_offset,
                                     rq_commit_log_committed(&store->log), &left);
    if (!p) {
        return false;
    }
    *out = (struct rq_store_ref){.p = p, .n = left < max ? left : max, .file = reader.file};
    return true;
}

/* ---- times ---- */

/* Store time of the message of an entry, -1 when it is gone. */
static int64_t time_at(struct rq_store *store, struct rq_log_reader *reader,
                       struct rq_consume_queue *queue, int64_t offset)
{
    struct rq_store_entry entry;
    struct rq_record record;
    const char *start;
    if (!rq_consume_queue_entry(queue, offset, &entry) ||
        !read_record(store, reader, entry.commit_log_offset, &record, &start)) {
        return -1;
    }
    return record.store_timestamp;
}

/* First offset whose time is at least (after: more than) time_ms; max when there is none. Times do
 * not go down along a queue. */
static int64_t first_at(struct rq_store *store, struct rq_consume_queue *queue, int64_t time_ms,
                        bool after)
{
    struct rq_log_reader reader = {0};
    int64_t low = rq_consume_queue_min(queue);
    int64_t high = rq_consume_queue_max(queue);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int64_t at = middle; /* a lost message counts as the one behind it */
        int64_t time = -1;
        while (at < high && (time = time_at(store, &reader, queue, at)) < 0) {
            at++;
        }
        if (at == high || (after ? time > time_ms : time >= time_ms)) {
            high = middle;
        } else {
            low = at + 1;
        }
    }
    rq_log_reader_done(&reader);
    return low;
}

int64_t rq_store_offset_by_time(struct rq_store *store, struct rq_slice topic, int32_t queue_id,
                                int64_t time_ms, bool upper)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    if (!queue) {
        return 0;
    }
    int64_t min = rq_consume_queue_min(queue);
    int64_t at = first_at(store, queue, time_ms, upper);
    if (upper) {
        at = at > min ? at - 1 : min;
    }
    rq_consume_queue_release(queue);
    return at;
}

int64_t rq_store_time_of(struct rq_store *store, struct rq_slice topic, int32_t queue_id,
                         int64_t offset)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    if (!queue) {
        return -1;
    }
    struct rq_log_reader reader = {0};
    int64_t time = time_at(store, &reader, queue, offset);
    rq_log_reader_done(&reader);
    rq_consume_queue_release(queue);
    return time;
}

int64_t rq_store_earliest_time(struct rq_store *store, struct rq_slice topic, int32_t queue_id)
{
    return rq_store_time_of(store, topic, queue_id, rq_store_min_offset(store, topic, queue_id));
}

int64_t rq_store_earliest_time_of_all(struct rq_store *store)
{
    struct rq_log_reader reader = {0};
    struct rq_record record;
    const char *start;
    int64_t min = rq_commit_log_min(&store->log);
    int64_t time = read_record(store, &reader, min, &record, &start) ? record.store_timestamp : -1;
    rq_log_reader_done(&reader);
    return time;
}

bool rq_store_in_memory(struct rq_store *store, struct rq_slice topic, int32_t queue_id,
                        int64_t offset)
{
    struct rq_store_entry entry;
    if (!rq_store_entry(store, topic, queue_id, offset, &entry)) {
        return false;
    }
    int64_t memory =
        store->machine_memory / 100 * store->options.access_message_in_memory_max_ratio;
    return rq_commit_log_max(&store->log) - entry.commit_log_offset <= memory;
}

/* ---- keys ---- */

#define HITS_AT_ONCE 64

/* Whether a record really has the topic and key, in the asked time. */
static bool has_key(const struct rq_record *record, struct rq_slice topic, struct rq_slice key,
                    int64_t begin_ms, int64_t end_ms)
{
    if (record->store_timestamp < begin_ms || record->store_timestamp > end_ms ||
        !rq_slice_eq(record->topic, topic)) {
        return false;
    }
    struct rq_record_properties properties;
    rq_record_properties(record->properties, &properties);
    if (rq_slice_eq(properties.unique_key, key)) {
        return true;
    }
    struct rq_slice one;
    while (rq_record_next_key(&properties.keys, &one)) {
        if (rq_slice_eq(one, key)) {
            return true;
        }
    }
    return false;
}

static bool has_ref(const struct rq_store_ref *refs, size_t n, const char *p)
{
    for (size_t i = 0; i < n; i++) {
        if (refs[i].p == p) {
            return true;
        }
    }
    return false;
}

size_t rq_store_query(struct rq_store *store, struct rq_slice topic, struct rq_slice key,
                      int64_t begin_ms, int64_t end_ms, size_t max, struct rq_store_ref *refs,
                      int64_t *last_time, int64_t *last_offset)
{
    int64_t offsets[HITS_AT_ONCE];
    struct rq_index_hits state = {0};
    struct rq_log_reader reader = {0};
    size_t n = 0;
    size_t hits;
    size_t limit = (size_t)store->options.max_msgs_num_batch;
    max = max < limit ? max : limit;
    do {
        hits = rq_index_query(&store->index, topic, key, begin_ms, end_ms, &state, offsets,
                              HITS_AT_ONCE);
        for (size_t i = 0; i < hits && n < max; i++) {
            struct rq_record record;
            const char *start;
            if (read_record(store, &reader, offsets[i], &record, &start) &&
                has_key(&record, topic, key, begin_ms, end_ms) && !has_ref(refs, n, start)) {
                rq_mapped_file_retain(reader.file);
                refs[n] = (struct rq_store_ref){.p = start, .n = record.size, .file = reader.file};
                n++;
            }
        }
    } while (hits == HITS_AT_ONCE && n < max);
    rq_log_reader_done(&reader);
    int64_t time;
    int64_t offset;
    rq_index_last(&store->index, &time, &offset);
    if (last_time) {
        *last_time = time;
    }
    if (last_offset) {
        *last_offset = offset;
    }
    return n;
}

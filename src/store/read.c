/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Reading a queue: messages for a pull answer, as references into the commit log. Any thread.
 * Counterpart: DefaultMessageStore.getMessage. */
#include "store/store_priv.h"

static const char *const get_names[] = {
    [RQ_GET_FOUND] = "FOUND",
    [RQ_GET_NO_MATCHED_MESSAGE] = "NO_MATCHED_MESSAGE",
    [RQ_GET_MESSAGE_WAS_REMOVING] = "MESSAGE_WAS_REMOVING",
    [RQ_GET_OFFSET_FOUND_NULL] = "OFFSET_FOUND_NULL",
    [RQ_GET_OFFSET_OVERFLOW_BADLY] = "OFFSET_OVERFLOW_BADLY",
    [RQ_GET_OFFSET_OVERFLOW_ONE] = "OFFSET_OVERFLOW_ONE",
    [RQ_GET_OFFSET_TOO_SMALL] = "OFFSET_TOO_SMALL",
    [RQ_GET_NO_MATCHED_LOGIC_QUEUE] = "NO_MATCHED_LOGIC_QUEUE",
    [RQ_GET_NO_MESSAGE_IN_QUEUE] = "NO_MESSAGE_IN_QUEUE",
};

const char *rq_get_status_name(enum rq_get_status status)
{
    size_t i = (size_t)status;
    return i < sizeof get_names / sizeof get_names[0] ? get_names[i] : "UNKNOWN";
}

void rq_store_result_release(struct rq_store_result *result)
{
    for (size_t i = 0; i < result->ref_count; i++) {
        rq_store_ref_release(&result->refs[i]);
    }
    result->ref_count = 0;
}

/* ---- one get ---- */

struct get {
    struct rq_store *store;
    int32_t queue_id;
    int64_t number; /* of the message that is looked at */
    struct rq_store_result *out;
    const struct rq_store_filter *filter;
    struct rq_log_reader reader;
    int64_t log_end;
    int64_t log_min;
    int64_t memory_from; /* records from this offset on count as being in memory */
    size_t max_msgs;
    size_t max_bytes;
    const struct rq_mapped_file *looked_at; /* whether it can be read: then readable */
    bool readable;
    int64_t next_readable; /* entries below point into a file that is gone */
    int64_t last_read;     /* offset of the last message looked at */
};

static bool wanted_code(const struct rq_store_filter *filter, int64_t tags_code)
{
    if (!filter || filter->count == 0) {
        return true;
    }
    for (size_t i = 0; i < filter->count; i++) {
        if (filter->codes[i] == (int32_t)tags_code) {
            return true;
        }
    }
    return false;
}

/* Whether one more message of this size would be too much. The first one always goes. */
static bool is_full(const struct get *get, const struct rq_store_entry *entry)
{
    const struct rq_store_result *out = get->out;
    const struct rq_store_options *options = &get->store->options;
    if (out->msg_count == 0) {
        return false;
    }
    bool memory = entry->commit_log_offset >= get->memory_from;
    size_t bytes = out->bytes + (size_t)entry->size;
    size_t msgs = (size_t)out->msg_count;
    size_t most_bytes = (size_t)(memory ? options->max_transfer_bytes_on_message_in_memory
                                        : options->max_transfer_bytes_on_message_in_disk);
    size_t most_msgs = (size_t)(memory ? options->max_transfer_count_on_message_in_memory
                                       : options->max_transfer_count_on_message_in_disk);
    return msgs >= get->max_msgs || msgs >= most_msgs || bytes > most_bytes ||
           bytes > get->max_bytes;
}

/* Adds a record to the answer, to the last reference when it follows it; false when there are too
 * many references. */
static bool add_ref(struct rq_store_result *out, const char *p, size_t n,
                    struct rq_mapped_file *file)
{
    struct rq_store_ref *last = out->ref_count > 0 ? &out->refs[out->ref_count - 1] : NULL;
    if (last && last->file == file && last->p + last->n == p) {
        last->n += n;
    } else if (out->ref_count < RQ_STORE_MAX_REFS) {
        rq_mapped_file_retain(file);
        out->refs[out->ref_count++] = (struct rq_store_ref){.p = p, .n = n, .file = file};
    } else {
        return false;
    }
    out->msg_count++;
    out->bytes += n;
    return true;
}

/* The message of an entry, whose file is there; NULL when it is not, or when the entry is wrong:
 * what is not the message would make those beside it unreadable for a client. */
static const char *find_message(struct get *get, const struct rq_store_entry *entry)
{
    size_t left = 0;
    const char *p = rq_log_reader_at(&get->reader, &get->store->log, entry->commit_log_offset,
                                     get->log_end, &left);
    if (p && get->looked_at != get->reader.file) {
        get->looked_at = get->reader.file;
        get->readable = rq_mapped_file_can_read(get->reader.file);
    }
    bool there = p && get->readable && entry->size > 0 && left >= (size_t)entry->size;
    bool right = there && rq_record_is_message(p, (size_t)entry->size, get->queue_id, get->number);
    return right ? p : NULL;
}

/* One entry; false ends the scan before it. */
static bool take_entry(struct get *get, const struct rq_store_entry *entry)
{
    struct rq_store_result *out = get->out;
    if (entry->commit_log_offset < get->next_readable) {
        return true;
    }
    if (is_full(get, entry)) {
        return false;
    }
    bool gone = entry->commit_log_offset < get->log_min;
    bool damaged = entry->commit_log_offset >= get->log_end;
    get->last_read = gone || damaged ? get->last_read : entry->commit_log_offset;
    if (!wanted_code(get->filter, entry->tags_code)) {
        out->status = out->msg_count == 0 ? RQ_GET_NO_MATCHED_MESSAGE : out->status;
        return true;
    }
    const char *p = gone ? NULL : find_message(get, entry);
    if (!p) {
        out->status = out->msg_count == 0 ? RQ_GET_MESSAGE_WAS_REMOVING : out->status;
        get->next_readable = gone ? get->log_min : 0;
        return true;
    }
    if (get->filter && get->filter->match &&
        !get->filter->match(rq_slice(p, (size_t)entry->size), get->filter->user)) {
        out->status = out->msg_count == 0 ? RQ_GET_NO_MATCHED_MESSAGE : out->status;
        return true;
    }
    if (!add_ref(out, p, (size_t)entry->size, get->reader.file)) {
        return false;
    }
    out->status = RQ_GET_FOUND;
    get->next_readable = 0;
    return true;
}

static void scan(struct get *get, const struct rq_cq_run *run, int64_t offset)
{
    size_t i = 0;
    get->out->status = RQ_GET_NO_MATCHED_MESSAGE;
    for (; i < run->count; i++) {
        struct rq_store_entry entry;
        get->number = offset + (int64_t)i;
        if (rq_cq_read(run->p + i * RQ_CQ_ENTRY_BYTES, &entry) && !take_entry(get, &entry)) {
            break;
        }
    }
    get->out->next_begin_offset = offset + (int64_t)i;
}

static size_t scan_limit(const struct rq_store_options *options, size_t max_msgs)
{
    size_t bytes = (size_t)options->max_filter_message_size;
    size_t wanted = max_msgs * RQ_CQ_ENTRY_BYTES;
    return (bytes > wanted ? bytes : wanted) / RQ_CQ_ENTRY_BYTES;
}

/* The answers that need no look at messages; false: there are some to look at. */
static bool settle_bounds(struct rq_store_result *out, int64_t offset)
{
    out->next_begin_offset = offset;
    if (out->max_offset == 0) {
        out->status = RQ_GET_NO_MESSAGE_IN_QUEUE;
        out->next_begin_offset = 0;
    } else if (offset < out->min_offset) {
        out->status = RQ_GET_OFFSET_TOO_SMALL;
        out->next_begin_offset = out->min_offset;
    } else if (offset == out->max_offset) {
        out->status = RQ_GET_OFFSET_OVERFLOW_ONE;
    } else if (offset > out->max_offset) {
        out->status = RQ_GET_OFFSET_OVERFLOW_BADLY;
        out->next_begin_offset = out->max_offset;
    } else {
        return false;
    }
    return true;
}

static int64_t memory_bytes(const struct rq_store *store)
{
    return store->machine_memory / 100 * store->options.access_message_in_memory_max_ratio;
}

static void scan_queue(struct rq_store *store, struct rq_consume_queue *queue, int64_t offset,
                       struct get *get)
{
    struct rq_cq_run run;
    struct rq_store_result *out = get->out;
    rq_consume_queue_run(queue, offset, &run);
    size_t most = scan_limit(&store->options, get->max_msgs);
    size_t known = (size_t)(out->max_offset - offset);
    /* No further than the answer says that the queue goes: behind it there may be new messages that
     * end behind log_end. */
    run.count = run.count < known ? run.count : known;
    run.count = run.count < most ? run.count : most;
    if (run.count == 0 || !rq_mapped_file_can_read(run.file)) {
        int64_t entries = store->options.mapped_file_size_consume_queue / RQ_CQ_ENTRY_BYTES;
        out->status = RQ_GET_OFFSET_FOUND_NULL;
        out->next_begin_offset = offset - offset % entries + entries;
        rq_mapped_file_release(run.file);
        return;
    }
    scan(get, &run, offset);
    out->suggest_pulling_from_slave = get->log_end - get->last_read > memory_bytes(store);
    rq_log_reader_done(&get->reader);
    rq_mapped_file_release(run.file);
}

/* From an offset that the queue has. */
static void get_from(struct rq_store *store, struct rq_consume_queue *queue, int64_t offset,
                     int32_t max_msgs, size_t max_bytes, const struct rq_store_filter *filter,
                     struct rq_store_result *out)
{
    int64_t end = rq_commit_log_committed(&store->log);
    struct get get = {.store = store,
                      .queue_id = queue->queue_id,
                      .out = out,
                      .filter = filter,
                      .log_end = end,
                      .log_min = rq_commit_log_min(&store->log),
                      .memory_from = end - memory_bytes(store),
                      .max_msgs = max_msgs > 0 ? (size_t)max_msgs : 1,
                      .max_bytes = max_bytes > 0 ? max_bytes : SIZE_MAX,
                      .last_read = end};
    scan_queue(store, queue, offset, &get);
    atomic_fetch_add_explicit(&store->get_messages, (unsigned long long)out->msg_count,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&store->get_bytes, out->bytes, memory_order_relaxed);
}

void rq_store_get(struct rq_store *store, struct rq_slice topic, int32_t queue_id, int64_t offset,
                  int32_t max_msgs, size_t max_bytes, const struct rq_store_filter *filter,
                  struct rq_store_result *out)
{
    struct rq_consume_queue *queue = rq_queue_table_find(&store->queues, topic, queue_id);
    out->msg_count = 0;
    out->bytes = 0;
    out->ref_count = 0;
    out->suggest_pulling_from_slave = false;
    if (!queue) {
        out->status = RQ_GET_NO_MATCHED_LOGIC_QUEUE;
        out->next_begin_offset = out->min_offset = out->max_offset = 0;
        return;
    }
    out->min_offset = rq_consume_queue_min(queue);
    out->max_offset = rq_consume_queue_max(queue);
    if (!settle_bounds(out, offset)) {
        get_from(store, queue, offset, max_msgs, max_bytes, filter, out);
    }
    rq_consume_queue_release(queue);
}

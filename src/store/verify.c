/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The check of a whole store: one walk along the commit log, with the index going along and the
 * queues looked up. Counterpart: none in Java; the rules are those of
 * CommitLog.checkMessageAndReturnSize, ConsumeQueue and IndexFile.
 */
#include "store/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"

#define PROGRESS_BYTES ((int64_t)16 << 20)
#define TOPICS_MAX     ((size_t)64 << 20)
#define TORN_LOOK      ((size_t)1 << 20) /* so far behind the end is looked for remains */
#define RESYNC_TRIES   1000              /* then the next file is where to go on */
#define FINDING_MAX    512

void rq_verify_tell(struct rq_verify *v, const char *fmt, ...)
{
    char text[FINDING_MAX];
    const rmq_store_options *options = &v->store->options;
    if (!options->finding || v->findings >= options->max_findings) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    v->findings++;
    options->finding(text, options->user);
}

/* ---- files ---- */

static void check_file_sizes(struct rq_verify *v)
{
    const struct rq_offline_files *log = &v->store->log;
    for (size_t i = 0; i < log->count; i++) {
        const struct rq_offline_file *file = &log->files[i];
        if (file->size != log->file_size && !(file->size == 0 && i + 1 == log->count)) {
            v->out.damaged_places++;
            rq_verify_tell(v, "commit-log file %020" PRId64 " has %zu bytes, expected %zu",
                           file->start, file->size, log->file_size);
        }
        if (i > 0 && log->file_size > 0) {
            const struct rq_offline_file *before = &log->files[i - 1];
            int64_t gap = file->start - before->start - (int64_t)log->file_size;
            if (gap != 0) {
                v->out.missing_files += gap > 0 ? gap / (int64_t)log->file_size : 1;
                rq_verify_tell(
                    v, "commit-log files are missing between %020" PRId64 " and %020" PRId64,
                    before->start, file->start);
            }
        }
    }
}

static void load_topics(struct rq_verify *v)
{
    char path[PATH_MAX];
    struct rq_buf text;
    rq_buf_init(&text, TOPICS_MAX);
    snprintf(path, sizeof path, "%s/config/topics.json", v->store->root);
    if (rq_sys_read_file(path, TOPICS_MAX, &text, NULL) == RMQ_OK &&
        rq_json_parse(rq_slice(text.data, text.len), &v->topics_file, NULL) != RMQ_OK) {
        v->topics_file = NULL;
    }
    rq_buf_free(&text);
}

/* ---- the log ---- */

/* Where the first message of a queue behind an offset begins, as its entry says. */
static int64_t first_behind(const struct rq_offline_queue *queue, int64_t offset)
{
    struct rq_store_entry entry;
    bool real = false;
    int64_t number = rq_offline_first_from(queue, offset + 1);
    return rq_offline_entry(queue, number, &entry, &real) && real ? entry.commit_log_offset
                                                                  : INT64_MAX;
}

/* Where a good record begins behind bytes that are none: the queues know, else it is the begin of a
 * later file. -1 = nowhere. */
static int64_t resync(const struct rq_verify *v, int64_t offset)
{
    const struct rmq_store *store = v->store;
    struct rq_record record;
    const struct rq_offline_file *file = rq_offline_from(&store->log, offset + 1);
    int64_t next_file = file ? file->start : INT64_MAX;
    for (int tries = 0; tries < RESYNC_TRIES && offset < next_file; tries++) {
        int64_t best = next_file;
        for (size_t i = 0; i < store->queue_count; i++) {
            int64_t at = first_behind(store->queues[i], offset);
            best = at < best ? at : best;
        }
        if (best == INT64_MAX) {
            return -1;
        }
        if (rq_offline_record(store, best, true, &record) == RQ_RECORD_GOOD) {
            return best;
        }
        offset = best;
    }
    for (; file; file = rq_offline_from(&store->log, file->start + 1)) {
        if (rq_offline_record(store, file->start, true, &record) == RQ_RECORD_GOOD) {
            return file->start;
        }
    }
    return -1;
}

static rmq_status check_record(struct rq_verify *v, const struct rq_record *record)
{
    struct rq_record_properties properties;
    rq_record_properties(record->properties, &properties);
    v->out.log_messages++;
    v->out.log_bytes += record->size;
    rmq_status st = rq_verify_queue_record(v, record, &properties);
    return st == RMQ_OK ? rq_verify_index_record(v, record, &properties) : st;
}

static rmq_status tell_progress(struct rq_verify *v, int64_t offset, bool last, rmq_error **err)
{
    const rmq_store_options *options = &v->store->options;
    if (!options->progress || (!last && offset - v->told < PROGRESS_BYTES)) {
        return RMQ_OK;
    }
    v->told = offset;
    int64_t total = v->store->log_end - v->log_min;
    int64_t done = offset - v->log_min;
    return options->progress(done < total ? done : total, total, options->user)
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_STATE, "stopped after %" PRId64 " of %" PRId64 " bytes",
                              done, total);
}

/* Bytes that are no record at *offset: goes on behind them; false at the end of the log. */
static bool pass_damage(struct rq_verify *v, int64_t *offset)
{
    int64_t next = resync(v, *offset);
    if (next < 0) {
        return false;
    }
    v->out.damaged_places++;
    v->out.damaged_bytes += next - *offset;
    rq_verify_tell(v, "no message at commit-log offset %" PRId64 ", the next one is at %" PRId64,
                   *offset, next);
    *offset = next;
    return true;
}

static rmq_status walk_log(struct rq_verify *v, rmq_error **err)
{
    const struct rmq_store *store = v->store;
    int64_t offset = v->log_min;
    int64_t end = offset;
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK) {
        struct rq_record record;
        enum rq_record_kind kind = rq_offline_record(store, offset, true, &record);
        if (store->trouble.st != RMQ_OK) {
            return rq_offline_take_trouble(&v->store->trouble, err);
        }
        if (kind == RQ_RECORD_BAD && !pass_damage(v, &offset)) {
            break;
        }
        if (kind == RQ_RECORD_GOOD) {
            st = check_record(v, &record);
        }
        if (kind != RQ_RECORD_BAD) {
            offset += record.size;
            end = kind == RQ_RECORD_GOOD || rq_offline_left(&store->log, offset) > 0 ? offset : end;
        }
        if (st == RMQ_OK) {
            st = tell_progress(v, offset, false, err);
        } else {
            rq_error_set(err, st, "no memory for a queue");
        }
    }
    v->out.commit_log_max_offset = end;
    return st;
}

/* What stands behind the end. */
static void look_at_tail(struct rq_verify *v)
{
    const struct rmq_store *store = v->store;
    int64_t end = v->out.commit_log_max_offset;
    size_t left = rq_offline_left(&store->log, end);
    struct rq_record record;
    if (left == 0 || rq_offline_record(store, end, false, &record) == RQ_RECORD_BLANK) {
        return;
    }
    left = left < TORN_LOOK ? left : TORN_LOOK;
    const char *p = rq_offline_at(&store->log, end, left);
    left = p ? left : 0;
    while (left > 0 && p[left - 1] == 0) {
        left--;
    }
    v->out.torn_bytes = (int64_t)left;
    if (left > 0 && !store->closed) {
        rq_verify_tell(v, "%zu bytes behind the last message, at commit-log offset %" PRId64, left,
                       end);
    }
}

/* ---- verdict ---- */

static rmq_store_verdict judge(const struct rq_verify *v)
{
    const rmq_store_check *out = &v->out;
    bool closed = v->store->closed;
    int64_t missing = out->queue_entries_missing - (closed ? 0 : v->late);
    int64_t index_missing = out->index_entries_missing - (closed ? 0 : v->index_late);
    if (out->damaged_places > 0 || out->missing_files > 0 ||
        (closed && out->queue_entries_ahead > 0)) {
        return RMQ_STORE_DAMAGED;
    }
    if (missing > 0 || index_missing > 0 || out->queue_entries_wrong > 0 ||
        out->index_entries_wrong > 0 || out->index_chains_broken > 0) {
        return RMQ_STORE_REBUILD;
    }
    return closed ? RMQ_STORE_WHOLE : RMQ_STORE_UNFINISHED;
}

static void reset_queues(struct rmq_store *store)
{
    for (size_t i = 0; i < store->queue_count; i++) {
        struct rq_offline_queue *queue = store->queues[i];
        queue->next = queue->matched = queue->missing = queue->wrong = queue->late = 0;
        queue->astray = 0;
    }
}

rmq_status rmq_store_verify(rmq_store *store, rmq_store_check *out, size_t size, rmq_error **err)
{
    struct rq_verify v = {.store = store};
    if (!store || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s is NULL", store ? "out" : "store");
    }
    if (store->in_use) {
        return rq_error_set(err, RMQ_ERR_BUSY, "the store in %s is in use by a broker",
                            store->root);
    }
    v.log_min = v.told = store->log.count > 0 ? store->log.files[0].start : 0;
    v.out.commit_log_min_offset = v.log_min;
    rq_offline_take_trouble(&store->trouble, NULL); /* of a call that ended for another reason */
    reset_queues(store);
    check_file_sizes(&v);
    load_topics(&v);
    rq_verify_index_begin(&v);
    rmq_status st = walk_log(&v, err);
    if (st == RMQ_OK) {
        look_at_tail(&v);
        rq_verify_queues_end(&v);
        st = rq_verify_index_end(&v);
        st = st == RMQ_OK ? rq_offline_take_trouble(&store->trouble, err)
                          : rq_error_set(err, st, "no memory for the slots of an index file");
    }
    if (st == RMQ_OK) {
        st = tell_progress(&v, v.out.commit_log_max_offset, true, err);
    }
    rq_json_free(v.topics_file);
    store->verified = st == RMQ_OK;
    v.out.verdict = (int32_t)judge(&v);
    memset(out, 0, size);
    memcpy(out, &v.out, size < sizeof v.out ? size : sizeof v.out);
    return st;
}

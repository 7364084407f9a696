/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The file "contents": writing, reading, comparing. */
#include "store/contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/time.h"
#include "store/store_priv.h"

#define FILE_CONTENTS "contents"
#define FILE_MAX      ((size_t)64 << 20)

static int64_t first_of(struct rq_consume_queue *queue)
{
    return rq_mapped_file_queue_min(&queue->files) / RQ_CQ_ENTRY_BYTES;
}

/* What is on disk of a queue. */
static void add_queue(struct rq_buf *text, struct rq_consume_queue *queue)
{
    bool listed = rq_consume_queue_max(queue) > 0 && !memchr(queue->topic.p, '\n', queue->topic.n);
    if (listed && !atomic_load_explicit(&queue->removed, memory_order_relaxed)) {
        rq_buf_addf(text, "queue %d %" PRId64 " %" PRId64 " %s\n", queue->queue_id, first_of(queue),
                    queue->flushed / RQ_CQ_ENTRY_BYTES, queue->name);
    }
}

rmq_status rq_contents_write(struct rq_store *store, rmq_error **err)
{
    char path[PATH_MAX];
    struct rq_buf text;
    struct rq_consume_queue *queue;
    int64_t time;
    int64_t offset;
    rq_index_last(&store->index, &time, &offset);
    rq_buf_init(&text, FILE_MAX);
    rq_buf_addf(&text, "run %s\nlog %" PRId64 "\n", store->run, rq_commit_log_max(&store->log));
    if (store->options.message_index_enable) {
        rq_buf_addf(&text, "index %zu %" PRId64 "\n", rq_index_files(&store->index), offset);
    }
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        add_queue(&text, queue);
    }
    rq_store_path(store, FILE_CONTENTS, path);
    rmq_status st = rq_buf_status(&text);
    uint32_t crc = rq_crc32(0, text.data, text.len);
    if (st == RMQ_OK && crc != store->contents_crc) {
        st = rq_sys_write_file(path, text.data, text.len, false, err);
        store->contents_crc = st == RMQ_OK ? crc : 0;
    }
    rq_buf_free(&text);
    return st;
}

/* Empty at the end. */
static struct rq_slice take_word(struct rq_slice *rest, char end)
{
    struct rq_slice word = rq_slice(NULL, 0);
    (void)rq_slice_next(rest, end, &word);
    return word;
}

static bool take_number(struct rq_slice *rest, int64_t *out)
{
    return rq_slice_to_i64(take_word(rest, ' '), out);
}

/* ---- reading ---- */

/* A file below the root; empty when it cannot be read. */
static void read_text(const char *root, const char *name, struct rq_buf *out)
{
    char path[PATH_MAX];
    rmq_error *own = NULL;
    snprintf(path, sizeof path, "%s/%s", root, name);
    rq_buf_init(out, FILE_MAX);
    if (rq_sys_read_file(path, FILE_MAX, out, &own) != RMQ_OK) {
        out->len = 0;
    }
    rmq_error_destroy(own);
}

void rq_contents_begin(struct rq_store *store, bool closed)
{
    struct rq_buf list;
    struct rq_buf abort;
    read_text(store->root, FILE_CONTENTS, &list);
    read_text(store->root, "abort", &abort);
    struct rq_slice rest = rq_slice(list.data, list.len);
    struct rq_slice line = take_word(&rest, '\n');
    bool named =
        rq_slice_eq_str(take_word(&line, ' '), "run") && line.n > 0 && line.n < sizeof store->run;
    struct rq_slice pid_and_run = rq_slice(abort.data, abort.len);
    take_word(&pid_and_run, ' ');
    store->contents_count = named && (closed || rq_slice_eq(pid_and_run, line));
    if (store->contents_count) {
        memcpy(store->run, line.p, line.n);
        store->run[line.n] = '\0';
    } else {
        snprintf(store->run, sizeof store->run, "%" PRIx64, (uint64_t)rq_wall_ms());
    }
    rq_buf_free(&abort);
    rq_buf_free(&list);
}

/* Whether the log has nothing any more of what was before the first entry that is left, so that no
 * entry can be made again, and with the rest of them the number of the next message would be lost:
 * retention of another broker, in whose run nothing was stored. */
static bool begins_expired(struct rq_store *store, struct rq_consume_queue *queue)
{
    struct rq_store_entry entry;
    return rq_consume_queue_entry(queue, first_of(queue), &entry) &&
           entry.commit_log_offset < rq_commit_log_min(&store->log);
}

/* After a crash retention may have gone on since the list was written, so that the first number
 * tells nothing. */
static rmq_status compare_queue(struct rq_store *store, struct rq_slice line, bool crashed,
                                rmq_error **err)
{
    int64_t id;
    int64_t first;
    int64_t max;
    struct rq_consume_queue *queue;
    if (!take_number(&line, &id) || !take_number(&line, &first) || !take_number(&line, &max) ||
        id < 0 || id > INT32_MAX) {
        return RMQ_OK;
    }
    rmq_status st = rq_queue_table_get(&store->queues, line, (int32_t)id, &queue);
    if (st != RMQ_OK) {
        return st == RMQ_ERR_INVALID ? RMQ_OK : rq_error_set(err, st, "no memory for a queue");
    }
    if (!crashed && first_of(queue) > first && !begins_expired(store, queue)) {
        st = rq_consume_queue_discard(queue, "its first files are missing", err);
    } else {
        queue->rebuild |= queue->files.count == 0 || rq_consume_queue_max(queue) < max;
    }
    rq_consume_queue_release(queue);
    return st;
}

/* After a crash its last entries may be gone; they are made again anyway. */
static bool index_differs(struct rq_store *store, struct rq_slice line, bool crashed)
{
    int64_t files;
    int64_t then;
    int64_t time;
    int64_t now;
    rq_index_last(&store->index, &time, &now);
    return take_number(&line, &files) && take_number(&line, &then) &&
           ((size_t)files > store->index.count || (!crashed && now < then));
}

rmq_status rq_contents_compare(struct rq_store *store, int64_t log_end, bool *index_lost,
                               rmq_error **err)
{
    struct rq_buf text;
    bool crashed = log_end < 0;
    bool counts = crashed && store->contents_count;
    read_text(store->root, FILE_CONTENTS, &text);
    struct rq_slice rest = rq_slice(text.data, text.len);
    rmq_status st = RMQ_OK;
    while (rest.n > 0 && st == RMQ_OK) {
        struct rq_slice line = take_word(&rest, '\n');
        struct rq_slice what = take_word(&line, ' ');
        int64_t end;
        if (!crashed && rq_slice_eq_str(what, "log")) {
            counts = take_number(&line, &end) && end == log_end;
        } else if (counts && rq_slice_eq_str(what, "index")) {
            *index_lost |=
                store->options.message_index_enable && index_differs(store, line, crashed);
        } else if (counts && rq_slice_eq_str(what, "queue")) {
            st = compare_queue(store, line, crashed, err);
        }
    }
    rq_buf_free(&text);
    if (!counts && st == RMQ_OK) {
        /* Another broker's store: nor may it count after the next crash. */
        char path[PATH_MAX];
        rq_store_path(store, FILE_CONTENTS, path);
        rq_sys_unlink(path);
    }
    return st;
}

/* ---- of a store that is only looked at ---- */

enum rq_contents_index rq_contents_index(const char *root, int64_t log_end)
{
    struct rq_buf text;
    bool counts = false;
    bool named = false;
    read_text(root, FILE_CONTENTS, &text);
    struct rq_slice rest = rq_slice(text.data, text.len);
    while (rest.n > 0) {
        struct rq_slice line = take_word(&rest, '\n');
        struct rq_slice what = take_word(&line, ' ');
        int64_t end;
        if (rq_slice_eq_str(what, "log")) {
            counts = take_number(&line, &end) && end == log_end;
        }
        named = named || rq_slice_eq_str(what, "index");
    }
    rq_buf_free(&text);
    return !counts ? RQ_CONTENTS_UNKNOWN : named ? RQ_CONTENTS_INDEX : RQ_CONTENTS_NO_INDEX;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The file "closed". Runs inside open and close, where no other thread uses the store. */
#include "store/closed.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/sys.h"
#include "store/store_priv.h"

#define FILE_CLOSED "closed"
#define FILE_MAX    ((size_t)64 << 20)

static int64_t first_of(struct rq_consume_queue *queue)
{
    return rq_mapped_file_queue_min(&queue->files) / RQ_CQ_ENTRY_BYTES;
}

rmq_status rq_closed_write(struct rq_store *store, rmq_error **err)
{
    char path[PATH_MAX];
    struct rq_buf text;
    struct rq_consume_queue *queue;
    int64_t time;
    int64_t offset;
    rq_index_last(&store->index, &time, &offset);
    rq_buf_init(&text, FILE_MAX);
    rq_buf_addf(&text, "log %" PRId64 "\n", rq_commit_log_max(&store->log));
    if (store->options.message_index_enable) {
        rq_buf_addf(&text, "index %zu %" PRId64 "\n", store->index.count, offset);
    }
    for (size_t i = 0; (queue = rq_queue_table_at(&store->queues, i)); i++) {
        int64_t max = rq_consume_queue_max(queue);
        if (!atomic_load_explicit(&queue->removed, memory_order_relaxed) && max > 0 &&
            !memchr(queue->topic.p, '\n', queue->topic.n)) {
            rq_buf_addf(&text, "queue %d %" PRId64 " %" PRId64 " %s\n", queue->queue_id,
                        first_of(queue), max, queue->name);
        }
    }
    rq_store_path(store, FILE_CLOSED, path);
    rmq_status st = rq_buf_status(&text);
    if (st == RMQ_OK) {
        st = rq_sys_write_file(path, text.data, text.len, false, err);
    }
    rq_buf_free(&text);
    return st;
}

void rq_closed_remove(struct rq_store *store)
{
    char path[PATH_MAX];
    rq_store_path(store, FILE_CLOSED, path);
    rq_sys_unlink(path);
}

static struct rq_slice take_word(struct rq_slice *rest, char end)
{
    const char *stop = memchr(rest->p, end, rest->n);
    size_t n = stop ? (size_t)(stop - rest->p) : rest->n;
    struct rq_slice word = rq_slice(rest->p, n);
    rest->p += stop ? n + 1 : n;
    rest->n -= stop ? n + 1 : n;
    return word;
}

static bool take_number(struct rq_slice *rest, int64_t *out)
{
    return rq_slice_to_i64(take_word(rest, ' '), out);
}

static rmq_status compare_queue(struct rq_store *store, struct rq_slice line, rmq_error **err)
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
    if (first_of(queue) > first) {
        return rq_consume_queue_discard(queue, "its first files are missing", err);
    }
    queue->rebuild |= rq_consume_queue_max(queue) < max;
    return RMQ_OK;
}

static bool index_differs(struct rq_store *store, struct rq_slice line)
{
    int64_t files;
    int64_t then;
    int64_t time;
    int64_t now;
    rq_index_last(&store->index, &time, &now);
    return take_number(&line, &files) && take_number(&line, &then) &&
           ((size_t)files > store->index.count || now < then);
}

rmq_status rq_closed_compare(struct rq_store *store, int64_t log_end, bool *index_lost,
                             rmq_error **err)
{
    char path[PATH_MAX];
    struct rq_buf text;
    rmq_error *own = NULL;
    rq_store_path(store, FILE_CLOSED, path);
    rq_buf_init(&text, FILE_MAX);
    rmq_status st = rq_sys_read_file(path, FILE_MAX, &text, &own);
    rmq_error_destroy(own);
    struct rq_slice rest = rq_slice(text.data, st == RMQ_OK ? text.len : 0);
    *index_lost = false;
    st = RMQ_OK;
    bool ours = false;
    while (rest.n > 0 && st == RMQ_OK) {
        struct rq_slice line = take_word(&rest, '\n');
        struct rq_slice what = take_word(&line, ' ');
        int64_t end;
        if (rq_slice_eq_str(what, "log")) {
            ours = take_number(&line, &end) && end == log_end;
        } else if (ours && rq_slice_eq_str(what, "index")) {
            *index_lost = store->options.message_index_enable && index_differs(store, line);
        } else if (ours && rq_slice_eq_str(what, "queue")) {
            st = compare_queue(store, line, err);
        }
    }
    rq_buf_free(&text);
    return st;
}

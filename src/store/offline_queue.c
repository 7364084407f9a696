/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The consume queues of a store that is only looked at. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/offline.h"
#include "store/queue_table.h"

#define QUEUE_DIGITS 20
#define QUEUE_AHEAD  ((size_t)8 << 10) /* of each of many queues */
#define KEY_MAX      (RQ_RECORD_TOPIC_MAX + 1 + sizeof(int32_t))

static void free_queue(struct rq_offline_queue *queue)
{
    if (queue) {
        rq_offline_files_free(&queue->files);
        rq_free(queue->topic);
        rq_free(queue);
    }
}

void rq_offline_queues_free(struct rmq_store *store)
{
    for (size_t i = 0; i < store->queue_count; i++) {
        free_queue(store->queues[i]);
    }
    rq_free(store->queues);
    rq_map_free(&store->by_name, NULL);
}

static struct rq_slice key_of(struct rq_slice topic, int32_t queue_id, char room[KEY_MAX])
{
    memcpy(room, topic.p, topic.n);
    room[topic.n] = '\0';
    memcpy(room + topic.n + 1, &queue_id, sizeof queue_id);
    return rq_slice(room, topic.n + 1 + sizeof queue_id);
}

static rmq_status add_queue(struct rmq_store *store, struct rq_slice topic, int32_t queue_id,
                            struct rq_offline_queue **out)
{
    char room[KEY_MAX];
    struct rq_offline_queue *queue = NULL;
    if (store->queue_count == store->queue_cap) {
        size_t cap = store->queue_cap > 0 ? store->queue_cap * 2 : 64;
        struct rq_offline_queue **list = rq_realloc(store->queues, cap * sizeof(*list));
        if (!list) {
            return RMQ_ERR_NOMEM;
        }
        store->queues = list;
        store->queue_cap = cap;
    }
    queue = rq_calloc(1, sizeof *queue);
    if (queue) {
        queue->topic = rq_slice_dup(topic);
        queue->queue_id = queue_id;
        queue->hole = -1;
    }
    if (!queue || !queue->topic ||
        rq_map_put(&store->by_name, key_of(topic, queue_id, room), queue) != RMQ_OK) {
        free_queue(queue);
        return RMQ_ERR_NOMEM;
    }
    store->queues[store->queue_count++] = queue;
    *out = queue;
    return RMQ_OK;
}

rmq_status rq_offline_queue_of(struct rmq_store *store, struct rq_slice topic, int32_t queue_id,
                               struct rq_offline_queue **out)
{
    char room[KEY_MAX];
    if (topic.n > RQ_RECORD_TOPIC_MAX) {
        return RMQ_ERR_INVALID;
    }
    *out = rq_map_get(&store->by_name, key_of(topic, queue_id, room));
    if (*out) {
        return RMQ_OK;
    }
    rmq_status st = add_queue(store, topic, queue_id, out);
    if (st == RMQ_OK) {
        (*out)->virtual = true;
    }
    return st;
}

/* ---- entries ---- */

bool rq_offline_entry(const struct rq_offline_queue *queue, int64_t number,
                      struct rq_store_entry *out, bool *real)
{
    if (number < queue->first || number >= queue->max) {
        return false;
    }
    const char *p = rq_offline_at(&queue->files, number * RQ_CQ_ENTRY_BYTES, RQ_CQ_ENTRY_BYTES);
    if (p) {
        *real = rq_cq_read(p, out);
    }
    return p != NULL;
}

/* NULL when the file ends before it. */
static const char *entry_at(const struct rq_offline_queue *queue,
                            const struct rq_offline_file *file, size_t at)
{
    return rq_offline_read(&queue->files, queue->files.window, file, at, RQ_CQ_ENTRY_BYTES);
}

/* Entries with a size of one file; the last real one moves the queue's end in the commit log. */
static int64_t walk_file(struct rq_offline_queue *queue, const struct rq_offline_file *file)
{
    int64_t count = 0;
    const char *p;
    for (size_t at = 0; (p = entry_at(queue, file, at)); at += RQ_CQ_ENTRY_BYTES, count++) {
        struct rq_store_entry entry;
        bool real = rq_cq_read(p, &entry);
        if (!rq_cq_is_entry(&entry)) {
            break;
        }
        queue->log_end = real ? entry.commit_log_offset + entry.size : queue->log_end;
    }
    return count;
}

/* A full file is followed by the next; anything behind the first slot without size is no entry. */
static void find_end(struct rq_offline_queue *queue)
{
    queue->first = queue->files.files[0].start / RQ_CQ_ENTRY_BYTES;
    queue->max = queue->first;
    for (size_t i = 0; i < queue->files.count; i++) {
        const struct rq_offline_file *file = &queue->files.files[i];
        struct rq_store_entry entry = {0};
        const char *p = entry_at(queue, file, 0);
        if (p) {
            rq_cq_read(p, &entry);
        }
        if (file->start != queue->max * RQ_CQ_ENTRY_BYTES) {
            queue->hole = entry.size > 0 ? queue->max : queue->hole;
            return;
        }
        queue->max += walk_file(queue, file);
    }
}

/* Number of the first real entry in [from, upto), upto when there is none. */
static int64_t next_real(const struct rq_offline_queue *queue, int64_t from, int64_t upto,
                         struct rq_store_entry *out)
{
    bool real = false;
    while (from < upto &&
           !(rq_offline_entry(queue, from, out, &real) && real && rq_cq_is_entry(out))) {
        from++;
    }
    return from;
}

int64_t rq_offline_first_from(const struct rq_offline_queue *queue, int64_t offset)
{
    int64_t low = queue->first;
    int64_t high = queue->max;
    struct rq_store_entry entry = {0};
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int64_t real = next_real(queue, middle, high, &entry);
        if (real == high || entry.commit_log_offset >= offset) {
            high = middle;
        } else {
            low = real + 1;
        }
    }
    return next_real(queue, low, queue->max, &entry);
}

/* ---- loading ---- */

static rmq_status load_queue(struct rmq_store *store, const char *topic_dir, const char *topic,
                             const char *name, rmq_error **err)
{
    char dir[PATH_MAX];
    int32_t id;
    struct rq_offline_queue *queue;
    int64_t log_min = store->log.count > 0 ? store->log.files[0].start : 0;
    if (!rq_slice_to_i32(rq_slice_str(name), &id) || id < 0) {
        return RMQ_OK;
    }
    if (snprintf(dir, sizeof dir, "%s/%s", topic_dir, name) >= (int)sizeof dir) {
        return rq_error_set(err, RMQ_ERR_INVALID, "path too long: %s", topic_dir);
    }
    rmq_status st = add_queue(store, rq_slice_str(topic), id, &queue);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "no memory for a queue");
    }
    st = rq_offline_files_load(&queue->files, dir, QUEUE_DIGITS, QUEUE_AHEAD, &store->trouble, err);
    if (st == RMQ_OK && queue->files.count > 0) {
        find_end(queue);
        queue->min = rq_offline_first_from(queue, log_min);
        rq_offline_window_free(queue->files.window); /* of many queues: until it is needed again */
    }
    return st;
}

static rmq_status load_topic(struct rmq_store *store, const char *root, const char *topic,
                             rmq_error **err)
{
    char dir[PATH_MAX];
    if (!rq_queue_table_topic_ok(rq_slice_str(topic)) ||
        snprintf(dir, sizeof dir, "%s/%s", root, topic) >= (int)sizeof dir) {
        return RMQ_OK;
    }
    DIR *d = opendir(dir);
    if (!d) {
        return errno == ENOTDIR
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", dir, strerror(errno));
    }
    rmq_status st = RMQ_OK;
    for (struct dirent *e = readdir(d); e && st == RMQ_OK; e = readdir(d)) {
        st = load_queue(store, dir, topic, e->d_name, err);
    }
    closedir(d);
    return st;
}

static int compare_queues(const void *a, const void *b)
{
    struct rq_offline_queue *const *x = a;
    struct rq_offline_queue *const *y = b;
    int order = strcmp((*x)->topic, (*y)->topic);
    return order != 0 ? order
                      : ((*x)->queue_id > (*y)->queue_id) - ((*x)->queue_id < (*y)->queue_id);
}

rmq_status rq_offline_queues_load(struct rmq_store *store, rmq_error **err)
{
    char root[PATH_MAX];
    snprintf(root, sizeof root, "%s/consumequeue", store->root);
    DIR *d = opendir(root);
    if (!d) {
        return errno == ENOENT
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", root, strerror(errno));
    }
    rmq_status st = RMQ_OK;
    for (struct dirent *e = readdir(d); e && st == RMQ_OK; e = readdir(d)) {
        st = load_topic(store, root, e->d_name, err);
    }
    closedir(d);
    if (store->queue_count > 0) {
        qsort(store->queues, store->queue_count, sizeof(*store->queues), compare_queues);
    }
    return st;
}

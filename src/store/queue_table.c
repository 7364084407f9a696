/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The table of consume queues: look-up, making, loading a tree of directories, deleting a topic. */
#include "store/queue_table.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define TOPIC_MAX 255
#define KEY_MAX   (TOPIC_MAX + 5)

rmq_status rq_queue_table_init(struct rq_queue_table *table, const char *dir, size_t file_size)
{
    *table = (struct rq_queue_table){.file_size = file_size};
    rq_mutex_init(&table->lock);
    rq_map_init(&table->queues);
    table->dir = rq_strdup(dir);
    return table->dir ? RMQ_OK : RMQ_ERR_NOMEM;
}

void rq_queue_table_free(struct rq_queue_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        rq_consume_queue_release(table->all[i]);
    }
    rq_free(table->all);
    rq_map_free(&table->queues, NULL);
    rq_free(table->dir);
    rq_mutex_destroy(&table->lock);
}

bool rq_queue_table_topic_ok(struct rq_slice topic)
{
    return topic.n > 0 && topic.n <= TOPIC_MAX && topic.p[0] != '.' &&
           !memchr(topic.p, '/', topic.n) && !memchr(topic.p, '\0', topic.n);
}

/* Key of a queue; empty for a topic that cannot be one. */
static struct rq_slice make_key(char key[KEY_MAX], struct rq_slice topic, int32_t queue_id)
{
    if (!rq_queue_table_topic_ok(topic) || queue_id < 0) {
        return rq_slice(NULL, 0);
    }
    memcpy(key, topic.p, topic.n);
    key[topic.n] = '\0';
    rq_store_be32(key + topic.n + 1, (uint32_t)queue_id);
    return rq_slice(key, topic.n + 5);
}

struct rq_consume_queue *rq_queue_table_find(struct rq_queue_table *table, struct rq_slice topic,
                                             int32_t queue_id)
{
    char room[KEY_MAX];
    struct rq_slice key = make_key(room, topic, queue_id);
    if (key.n == 0) {
        return NULL;
    }
    rq_mutex_lock(&table->lock);
    struct rq_consume_queue *queue = rq_map_get(&table->queues, key);
    if (queue) {
        rq_consume_queue_retain(queue);
    }
    rq_mutex_unlock(&table->lock);
    return queue;
}

static bool grow_locked(struct rq_queue_table *table)
{
    if (table->count < table->cap || table->holes > 0) {
        return true;
    }
    size_t cap = table->cap > 0 ? table->cap * 2 : 16;
    struct rq_consume_queue **all = rq_realloc(table->all, cap * sizeof(*all));
    if (!all) {
        return false;
    }
    table->all = all;
    table->cap = cap;
    return true;
}

/* For which there is room. */
static void put_locked(struct rq_queue_table *table, struct rq_consume_queue *queue)
{
    size_t i = table->count;
    if (table->holes > 0) {
        for (i = 0; table->all[i]; i++) {
        }
        table->holes--;
    } else {
        table->count++;
    }
    table->all[i] = queue;
}

static rmq_status make_locked(struct rq_queue_table *table, struct rq_slice key,
                              struct rq_slice topic, int32_t queue_id,
                              struct rq_consume_queue **out)
{
    char dir[PATH_MAX];
    int n = snprintf(dir, sizeof dir, "%s/%.*s/%d", table->dir, (int)topic.n, topic.p, queue_id);
    if (n < 0 || n >= (int)sizeof dir) {
        return RMQ_ERR_INVALID;
    }
    if (!grow_locked(table)) {
        return RMQ_ERR_NOMEM;
    }
    rmq_status st = rq_consume_queue_create(dir, topic, queue_id, table->file_size, out);
    if (st != RMQ_OK) {
        return st;
    }
    (*out)->files.kind.disk = table->disk;
    st = rq_map_put(&table->queues, key, *out);
    if (st != RMQ_OK) {
        rq_consume_queue_release(*out);
        *out = NULL;
        return st;
    }
    put_locked(table, *out);
    return RMQ_OK;
}

rmq_status rq_queue_table_get(struct rq_queue_table *table, struct rq_slice topic, int32_t queue_id,
                              struct rq_consume_queue **out)
{
    char room[KEY_MAX];
    struct rq_slice key = make_key(room, topic, queue_id);
    *out = NULL;
    if (key.n == 0) {
        return RMQ_ERR_INVALID;
    }
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&table->lock);
    *out = rq_map_get(&table->queues, key);
    if (!*out) {
        st = make_locked(table, key, topic, queue_id, out);
    }
    if (st == RMQ_OK) {
        rq_consume_queue_retain(*out);
    }
    rq_mutex_unlock(&table->lock);
    return st;
}

struct rq_consume_queue *rq_queue_table_next(struct rq_queue_table *table, size_t *index)
{
    struct rq_consume_queue *queue = NULL;
    rq_mutex_lock(&table->lock);
    while (!queue && *index < table->count) {
        queue = table->all[(*index)++];
    }
    if (queue) {
        rq_consume_queue_retain(queue);
    }
    rq_mutex_unlock(&table->lock);
    return queue;
}

/* ---- loading ---- */

static rmq_status load_queue(struct rq_queue_table *table, const char *topic, const char *name,
                             rmq_error **err)
{
    int32_t queue_id;
    struct rq_consume_queue *queue;
    if (!rq_slice_to_i32(rq_slice_str(name), &queue_id) || queue_id < 0) {
        RQ_LOG(WARN, "entry in a store directory passed over", "path=%s/%s/%s", table->dir, topic,
               name);
        return RMQ_OK;
    }
    rmq_status st = rq_queue_table_get(table, rq_slice_str(topic), queue_id, &queue);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "queue %s/%s: %s", topic, name, rmq_status_text(st));
    }
    st = rq_consume_queue_load(queue, err);
    rq_consume_queue_release(queue);
    return st;
}

/* Calls each for the entries of a directory but those that begin with a dot. A directory that is
 * missing has none. */
static rmq_status each_entry(struct rq_queue_table *table, const char *topic, rmq_error **err,
                             rmq_status (*each)(struct rq_queue_table *table, const char *topic,
                                                const char *name, rmq_error **err))
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", table->dir, topic ? topic : "");
    DIR *dir = n > 0 && n < (int)sizeof path ? opendir(path) : NULL;
    if (!dir) {
        return errno == ENOENT || errno == ENOTDIR
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", path, strerror(errno));
    }
    rmq_status st = RMQ_OK;
    for (struct dirent *e = readdir(dir); e && st == RMQ_OK; e = readdir(dir)) {
        if (e->d_name[0] != '.') {
            st = each(table, topic, e->d_name, err);
        }
    }
    closedir(dir);
    return st;
}

static rmq_status load_topic(struct rq_queue_table *table, const char *none, const char *topic,
                             rmq_error **err)
{
    (void)none;
    return each_entry(table, topic, err, load_queue);
}

rmq_status rq_queue_table_load(struct rq_queue_table *table, rmq_error **err)
{
    return each_entry(table, NULL, err, load_topic);
}

/* ---- deleting ---- */

struct rq_consume_queue *rq_queue_table_remove(struct rq_queue_table *table, struct rq_slice topic)
{
    struct rq_consume_queue *removed = NULL;
    rq_mutex_lock(&table->lock);
    for (size_t i = 0; i < table->count; i++) {
        struct rq_consume_queue *queue = table->all[i];
        if (queue && rq_slice_eq(queue->topic, topic)) {
            char room[KEY_MAX];
            rq_map_remove(&table->queues, make_key(room, topic, queue->queue_id));
            atomic_store_explicit(&queue->removed, true, memory_order_relaxed);
            table->all[i] = NULL;
            table->holes++;
            queue->next_touched = removed;
            removed = queue;
        }
    }
    rq_mutex_unlock(&table->lock);
    return removed;
}

rmq_status rq_queue_table_delete(struct rq_queue_table *table, struct rq_slice topic,
                                 struct rq_consume_queue *removed, rmq_error **err)
{
    char path[PATH_MAX];
    while (removed) {
        struct rq_consume_queue *next = removed->next_touched;
        rq_consume_queue_release(removed);
        removed = next;
    }
    int n = snprintf(path, sizeof path, "%s/%.*s", table->dir, (int)topic.n, topic.p);
    if (!rq_queue_table_topic_ok(topic) || n < 0 || n >= (int)sizeof path) {
        return rq_error_set(err, RMQ_ERR_INVALID, "topic cannot be a directory name");
    }
    if (rq_sys_rmtree(path) < 0) {
        return rq_error_set(err, rq_store_io_status(errno), "remove %s: %s", path, strerror(errno));
    }
    return RMQ_OK;
}

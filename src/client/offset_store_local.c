/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Offsets in a local file; see the header. */
#include "client/offset_store_local.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/time.h"
#include "wire/bodies.h"

#define FILE_MAX      ((size_t)64 << 20)
#define KEY_MAX       1024
#define WARN_EVERY_MS 30000
#define FOLDER        ".rocketmq_offsets"

struct entry {
    struct rq_mq queue; /* texts behind the struct */
    int64_t offset;
    bool ours; /* set since the file was read: the file does not count any more */
    char text[];
};

struct rq_local_offsets {
    char *path; /* immutable */
    struct rq_thread thread;
    struct rq_mutex file_lock; /* rank 20: held while the file is written */
    int64_t quiet_until_ms;    /* guarded by file_lock */
    bool broken;               /* guarded by file_lock: the file is no good backup */

    struct rq_mutex lock; /* rank 35 */
    struct rq_cond change;
    struct rq_map entries; /* guarded by lock; key: topic NUL broker NUL id */
    bool dirty;            /* guarded by lock */
    bool due;              /* guarded by lock: a write is asked for */
    bool stop;             /* guarded by lock */
};

/* ---- entries ---- */

static void make_key(struct rq_buf *key, const struct rq_mq *queue)
{
    rq_buf_init(key, KEY_MAX);
    rq_buf_add(key, queue->topic, strlen(queue->topic) + 1);
    rq_buf_add(key, queue->broker_name, strlen(queue->broker_name) + 1);
    rq_buf_add_i64(key, queue->queue_id);
}

static struct entry *make_entry(const struct rq_mq *queue)
{
    size_t topic = strlen(queue->topic) + 1;
    size_t broker = strlen(queue->broker_name) + 1;
    struct entry *entry = rq_calloc(1, sizeof *entry + topic + broker);
    if (entry) {
        memcpy(entry->text, queue->topic, topic);
        memcpy(entry->text + topic, queue->broker_name, broker);
        entry->queue = (struct rq_mq){
            .topic = entry->text, .broker_name = entry->text + topic, .queue_id = queue->queue_id};
    }
    return entry;
}

static struct entry *find_locked(struct rq_local_offsets *store, const struct rq_mq *queue,
                                 bool make) RQ_REQUIRES(lock)
{
    struct rq_buf key;
    make_key(&key, queue);
    struct entry *entry = NULL;
    if (rq_buf_status(&key) == RMQ_OK) {
        entry = rq_map_get(&store->entries, rq_slice(key.data, key.len));
    }
    if (!entry && make && rq_buf_status(&key) == RMQ_OK) {
        entry = make_entry(queue);
        if (entry && rq_map_put(&store->entries, rq_slice(key.data, key.len), entry) != RMQ_OK) {
            rq_free(entry);
            entry = NULL;
        }
    }
    rq_buf_free(&key);
    return entry;
}

bool rq_local_offsets_get(struct rq_local_offsets *store, const struct rq_mq *queue,
                          int64_t *offset)
{
    rq_mutex_lock(&store->lock);
    const struct entry *entry = find_locked(store, queue, false);
    *offset = entry ? entry->offset : -1;
    rq_mutex_unlock(&store->lock);
    return *offset >= 0;
}

void rq_local_offsets_set(struct rq_local_offsets *store, const struct rq_mq *queue, int64_t offset)
{
    rq_mutex_lock(&store->lock);
    struct entry *entry = find_locked(store, queue, true);
    if (entry && (!entry->ours || entry->offset != offset)) {
        entry->offset = offset;
        entry->ours = true;
        store->dirty = true;
    }
    rq_mutex_unlock(&store->lock);
}

/* ---- reading ---- */

static void take_rows(struct rq_local_offsets *store, const struct rq_queue_table *table)
{
    rq_mutex_lock(&store->lock);
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_queue_stat *row = &table->rows[i];
        struct entry *entry = row->offset >= 0 ? find_locked(store, &row->mq, true) : NULL;
        if (entry && !entry->ours) {
            entry->offset = row->offset;
        }
    }
    rq_mutex_unlock(&store->lock);
}

/* RMQ_ERR_NOT_FOUND: there is none. */
static rmq_status read_file(struct rq_local_offsets *store, const char *path, rmq_error **err)
{
    struct rq_buf text;
    struct rq_queue_table table;
    rq_buf_init(&text, FILE_MAX);
    rmq_status st = rq_sys_read_file(path, FILE_MAX, &text, err);
    if (st == RMQ_OK) {
        st = rq_queue_table_parse(rq_slice(text.data, text.len), RQ_QUEUE_TABLE_OFFSETS, &table,
                                  err);
    }
    if (st == RMQ_OK) {
        take_rows(store, &table);
        rq_queue_table_clear(&table);
    }
    rq_buf_free(&text);
    return st;
}

/* A file that was removed or torn must not end a consumer: the backup, then the start policy. */
static void load(struct rq_local_offsets *store)
{
    rmq_error *err = NULL;
    rmq_status st = read_file(store, store->path, &err);
    store->broken = st != RMQ_OK && st != RMQ_ERR_NOT_FOUND;
    if (store->broken) {
        RQ_LOG(WARN, "the offset file cannot be read, its backup is tried", "why=%s",
               rmq_error_message(err));
    }
    rmq_error_destroy(err);
    if (st == RMQ_OK) {
        return;
    }
    struct rq_buf backup;
    rq_buf_init(&backup, 0);
    rq_buf_addf(&backup, "%s.bak", store->path);
    err = NULL;
    st = read_file(store, rq_buf_cstr(&backup), &err);
    if (st != RMQ_OK && (st != RMQ_ERR_NOT_FOUND || store->broken)) {
        RQ_LOG(WARN, "there is no offset file that can be read, consumeFromWhere counts", "why=%s",
               rmq_error_message(err));
    }
    rmq_error_destroy(err);
    rq_buf_free(&backup);
}

/* ---- writing ---- */

static void write_row(struct rq_buf *out, const struct entry *entry, bool first)
{
    rq_buf_add_str(out, first ? "{\n\t\t\t\"brokerName\":" : ",{\n\t\t\t\"brokerName\":");
    rq_json_add_string(out, rq_slice_str(entry->queue.broker_name));
    rq_buf_addf(out, ",\n\t\t\t\"queueId\":%d,\n\t\t\t\"topic\":", (int)entry->queue.queue_id);
    rq_json_add_string(out, rq_slice_str(entry->queue.topic));
    rq_buf_addf(out, "\n\t\t}:%lld", (long long)entry->offset);
}

static void write_table(struct rq_local_offsets *store, struct rq_buf *out)
{
    const struct rq_map_entry *item;
    bool first = true;
    rq_buf_add_str(out, "{\n\t\"offsetTable\":{");
    rq_mutex_lock(&store->lock);
    for (size_t i = 0; (item = rq_map_next(&store->entries, &i));) {
        write_row(out, item->value, first);
        first = false;
    }
    store->dirty = false;
    rq_mutex_unlock(&store->lock);
    rq_buf_add_str(out, "\n\t}\n}");
}

static rmq_status make_folder(const char *path, rmq_error **err)
{
    char *folder = rq_strdup(path);
    if (!folder) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", path);
    }
    *strrchr(folder, '/') = '\0';
    int failed = rq_sys_mkdirs(folder);
    rmq_status st =
        failed ? rq_error_set(err, RMQ_ERR_IO, "%s: %s", folder, strerror(errno)) : RMQ_OK;
    rq_free(folder);
    return st;
}

static void note_failure(struct rq_local_offsets *store, rmq_error *err)
{
    int64_t now_ms = rq_mono_ms();
    if (now_ms >= store->quiet_until_ms) {
        store->quiet_until_ms = now_ms + WARN_EVERY_MS;
        RQ_LOG(WARN, "offsets could not be written, tried again", "why=%s", rmq_error_message(err));
    }
    rmq_error_destroy(err);
}

static bool replace_file(struct rq_local_offsets *store)
{
    struct rq_buf text;
    rmq_error *err = NULL;
    (void)read_file(store, store->path, NULL); /* what others have put there stays */
    rq_buf_init(&text, FILE_MAX);
    write_table(store, &text);
    rmq_status st = rq_buf_status(&text);
    if (st == RMQ_OK) {
        st = make_folder(store->path, &err);
    }
    if (st == RMQ_OK) {
        st = rq_sys_write_file(store->path, text.data, text.len, !store->broken, &err);
    }
    rq_buf_free(&text);
    if (st == RMQ_OK) {
        store->broken = false;
        return true;
    }
    note_failure(store, err);
    rq_mutex_lock(&store->lock);
    store->dirty = true;
    rq_mutex_unlock(&store->lock);
    return false;
}

bool rq_local_offsets_write(struct rq_local_offsets *store)
{
    rq_mutex_lock(&store->file_lock);
    rq_mutex_lock(&store->lock);
    bool dirty = store->dirty;
    rq_mutex_unlock(&store->lock);
    bool good = !dirty || replace_file(store);
    rq_mutex_unlock(&store->file_lock);
    return good;
}

static void write_when_asked(void *arg)
{
    struct rq_local_offsets *store = arg;
    rq_mutex_lock(&store->lock);
    while (!store->stop) {
        if (!store->due) {
            rq_cond_wait(&store->change, &store->lock);
            continue;
        }
        store->due = false;
        rq_mutex_unlock(&store->lock);
        rq_local_offsets_write(store);
        rq_mutex_lock(&store->lock);
    }
    rq_mutex_unlock(&store->lock);
}

void rq_local_offsets_write_soon(struct rq_local_offsets *store)
{
    rq_mutex_lock(&store->lock);
    store->due = store->dirty;
    if (store->due) {
        rq_cond_signal(&store->change);
    }
    rq_mutex_unlock(&store->lock);
}

/* ---- open and close ---- */

static const char *home(void)
{
    const char *dir = getenv("HOME");
    const struct passwd *user = dir && *dir ? NULL : getpwuid(getuid());
    if (user) {
        dir = user->pw_dir;
    }
    return dir && *dir ? dir : "/tmp";
}

/* Written from the root on: the host may change its directory while the consumer runs. */
static char *make_path(const char *dir, const char *client_id, const char *group)
{
    struct rq_buf path;
    rq_buf_init(&path, 0);
    if (dir && *dir) {
        rq_buf_add_str(&path, dir);
    } else {
        rq_buf_addf(&path, "%s/%s", home(), FOLDER);
    }
    rq_buf_addf(&path, "/%s/%s/offsets.json", client_id, group);
    const char *text = rq_buf_cstr(&path);
    errno = ENOMEM;
    char *absolute = rq_buf_status(&path) ? NULL : rq_sys_absolute(text);
    rq_buf_free(&path);
    return absolute;
}

static void free_store(struct rq_local_offsets *store)
{
    rq_map_free(&store->entries, rq_free);
    rq_cond_destroy(&store->change);
    rq_mutex_destroy(&store->lock);
    rq_mutex_destroy(&store->file_lock);
    rq_free(store->path);
    rq_free(store);
}

rmq_status rq_local_offsets_open(const char *dir, const char *client_id, const char *group,
                                 struct rq_local_offsets **out, rmq_error **err)
{
    struct rq_local_offsets *store = rq_calloc(1, sizeof *store);
    if (!store) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "local offsets");
    }
    rq_mutex_init(&store->file_lock);
    rq_mutex_init(&store->lock);
    rq_cond_init(&store->change);
    rq_map_init(&store->entries);
    store->path = make_path(dir, client_id, group);
    rmq_status st = RMQ_OK;
    if (!store->path) {
        st = rq_error_set(err, errno == ENOMEM ? RMQ_ERR_NOMEM : RMQ_ERR_IO, "local offsets: %s",
                          strerror(errno));
    }
    if (st == RMQ_OK) {
        load(store);
        st = rq_thread_start(&store->thread, "rmq-offsets", write_when_asked, store);
        if (st != RMQ_OK) {
            rq_error_set(err, st, "thread that writes local offsets");
        }
    }
    if (st != RMQ_OK) {
        free_store(store);
        return st;
    }
    *out = store;
    return RMQ_OK;
}

void rq_local_offsets_close(struct rq_local_offsets *store)
{
    if (!store) {
        return;
    }
    rq_mutex_lock(&store->lock);
    store->stop = true;
    rq_cond_signal(&store->change);
    rq_mutex_unlock(&store->lock);
    rq_thread_join(&store->thread);
    rq_local_offsets_write(store);
    free_store(store);
}

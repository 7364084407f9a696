/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The index as a whole: files in a directory, putting, repairing, asking. Everything under the
 * index's lock. */
#include "store/index_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/time.h"

#define NAME_DIGITS 17
#define NAME_TRIES  1000
#define KEY_ROOM    512 /* longer ones are hashed on the heap */

#define REDIRTY_STEP ((size_t)1 << 20)

static const struct rq_mapped_file_kind file_kind = {
    .first_step = (size_t)64 << 10, .last_step = (size_t)4 << 20, .page_by_page = true};

static struct rq_mapped_file_kind kind_of(const struct rq_index *index)
{
    struct rq_mapped_file_kind kind = file_kind;
    kind.disk = index->disk;
    return kind;
}

rmq_status rq_index_init(struct rq_index *index, const char *dir,
                         const struct rq_store_options *options)
{
    *index = (struct rq_index){.slots = (uint32_t)options->max_hash_slot_num,
                               .entries = (uint32_t)options->max_index_num};
    index->file_size = rq_index_file_size(index->slots, index->entries);
    rq_mutex_init(&index->lock);
    index->dir = rq_strdup(dir);
    return index->dir ? RMQ_OK : RMQ_ERR_NOMEM;
}

void rq_index_free(struct rq_index *index)
{
    for (size_t i = 0; i < index->count; i++) {
        rq_mapped_file_release(index->files[i]);
    }
    rq_free(index->files);
    rq_free(index->dir);
    rq_mutex_destroy(&index->lock);
}

/* ---- files ---- */

static rmq_status add_locked(struct rq_index *index, struct rq_mapped_file *file)
{
    if (index->count == index->cap) {
        size_t cap = index->cap > 0 ? index->cap * 2 : 4;
        struct rq_mapped_file **files = rq_realloc(index->files, cap * sizeof(*files));
        if (!files) {
            return RMQ_ERR_NOMEM;
        }
        index->files = files;
        index->cap = cap;
    }
    index->files[index->count++] = file;
    return RMQ_OK;
}

static int compare_files(const void *a, const void *b)
{
    struct rq_mapped_file *const *x = a;
    struct rq_mapped_file *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

/* False when that is no name of an index file. */
static bool path_of(const struct rq_index *index, const char *name, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%s", index->dir, name);
    return strlen(name) == NAME_DIGITS && strspn(name, "0123456789") == NAME_DIGITS && n > 0 &&
           n < PATH_MAX;
}

static rmq_status load_file(struct rq_index *index, const char *name, rmq_error **err)
{
    char path[PATH_MAX];
    if (!path_of(index, name, path)) {
        return RMQ_OK;
    }
    struct rq_mapped_file *file;
    rmq_error *own = NULL;
    struct rq_mapped_file_kind kind = kind_of(index);
    rmq_status st = rq_mapped_file_open(path, 0, index->file_size, &kind, false, &file, &own);
    if (st == RMQ_ERR_CORRUPT) {
        RQ_LOG(WARN, "index file passed over", "reason=%s", rmq_error_message(own));
        rmq_error_destroy(own);
        index->unreadable++;
        return RMQ_OK;
    }
    if (st == RMQ_OK) {
        st = add_locked(index, file);
        if (st != RMQ_OK) {
            rq_mapped_file_release(file);
        }
    } else if (err) {
        *err = own;
        return st;
    }
    rmq_error_destroy(own);
    return st;
}

rmq_status rq_index_load(struct rq_index *index, rmq_error **err)
{
    DIR *dir = opendir(index->dir);
    if (!dir) {
        return errno == ENOENT
                   ? RMQ_OK
                   : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", index->dir, strerror(errno));
    }
    rmq_status st = RMQ_OK;
    for (struct dirent *e = readdir(dir); e && st == RMQ_OK; e = readdir(dir)) {
        st = load_file(index, e->d_name, err);
    }
    closedir(dir);
    if (index->count > 0) {
        qsort(index->files, index->count, sizeof(*index->files), compare_files);
    }
    return st;
}

static bool is_open_locked(const struct rq_index *index, const char *path)
{
    bool is = false;
    for (size_t i = 0; !is && i < index->count; i++) {
        is = strcmp(index->files[i]->path, path) == 0;
    }
    return is;
}

void rq_index_drop_unreadable(struct rq_index *index)
{
    char path[PATH_MAX];
    rq_mutex_lock(&index->lock);
    DIR *dir = index->unreadable > 0 ? opendir(index->dir) : NULL;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        if (path_of(index, e->d_name, path) && !is_open_locked(index, path)) {
            (void)rq_sys_unlink(path);
        }
    }
    if (dir) {
        closedir(dir);
    }
    index->unreadable = 0;
    rq_mutex_unlock(&index->lock);
}

/* Name from the wall clock in local time; the millisecond moves on while the name is taken. */
static rmq_status new_path(const struct rq_index *index, char path[PATH_MAX], rmq_error **err)
{
    int64_t now = rq_wall_ms();
    for (int i = 0; i < NAME_TRIES; i++, now++) {
        time_t seconds = (time_t)(now / 1000);
        struct tm local;
        if (!localtime_r(&seconds, &local)) {
            break;
        }
        int n = snprintf(path, PATH_MAX, "%s/%04d%02d%02d%02d%02d%02d%03d", index->dir,
                         local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour,
                         local.tm_min, local.tm_sec, (int)(now % 1000));
        if (n < 0 || n >= PATH_MAX) {
            break;
        }
        int fd = rq_sys_open(path, O_RDONLY, 0);
        if (fd < 0) {
            return RMQ_OK;
        }
        close(fd);
    }
    return rq_error_set(err, RMQ_ERR_IO, "no name for an index file in %s", index->dir);
}

static rmq_status new_file_locked(struct rq_index *index, struct rq_mapped_file **out,
                                  rmq_error **err)
{
    char path[PATH_MAX];
    struct rq_mapped_file *file = NULL;
    rmq_status st = new_path(index, path, err);
    if (st == RMQ_OK && rq_sys_mkdirs(index->dir) < 0) {
        st = rq_error_set(err, rq_store_io_status(errno), "make %s: %s", index->dir,
                          strerror(errno));
    }
    if (st == RMQ_OK) {
        struct rq_mapped_file_kind kind = kind_of(index);
        st = rq_mapped_file_open(path, 0, index->file_size, &kind, true, &file, err);
    }
    if (st == RMQ_OK) {
        st = rq_mapped_file_reserve(file, rq_index_file_place(index, 2), err);
    }
    if (st == RMQ_OK) {
        struct rq_index_header header = {.index_count = 1};
        if (index->count > 0) { /* what Java sets, and what the first entry's seconds count from */
            struct rq_index_header old;
            rq_index_file_read_header(index, index->files[index->count - 1], &old);
            header.begin_time = header.end_time = old.end_time;
            header.begin_offset = header.end_offset = old.end_offset;
        }
        rq_index_file_write_header(file, &header);
        st = add_locked(index, file);
    }
    if (st != RMQ_OK && file) {
        rq_mapped_file_unlink(file, NULL);
        rq_mapped_file_release(file);
    }
    *out = file;
    return st;
}

/* The file for one more entry. */
static rmq_status file_for_put(struct rq_index *index, struct rq_mapped_file **out,
                               struct rq_index_header *header, rmq_error **err)
{
    struct rq_mapped_file *file = index->count > 0 ? index->files[index->count - 1] : NULL;
    rmq_status st = RMQ_OK;
    if (file) {
        rq_index_file_read_header(index, file, header);
    }
    if (!file || header->index_count >= index->entries) {
        st = new_file_locked(index, &file, err);
        if (st != RMQ_OK) {
            return st;
        }
        rq_index_file_read_header(index, file, header);
    }
    size_t upto = rq_index_file_place(index, header->index_count + 1);
    if (!rq_mapped_file_has_room(file, upto)) {
        st = rq_mapped_file_reserve(file, upto, err);
    }
    *out = file;
    return st;
}

/* ---- putting ---- */

rmq_status rq_index_hash(struct rq_slice topic, struct rq_slice key, uint32_t *out)
{
    char room[KEY_ROOM];
    size_t n = topic.n + 1 + key.n;
    char *text = n <= sizeof room ? room : rq_alloc(n);
    if (!text) {
        return RMQ_ERR_NOMEM;
    }
    memcpy(text, topic.p, topic.n);
    text[topic.n] = '#';
    memcpy(text + topic.n + 1, key.p, key.n);
    int32_t hash = rq_java_hash(rq_slice(text, n));
    if (text != room) {
        rq_free(text);
    }
    *out = hash == INT32_MIN ? 0 : (uint32_t)(hash < 0 ? -hash : hash);
    return RMQ_OK;
}

static rmq_status put_key_locked(struct rq_index *index, const struct rq_record *record,
                                 struct rq_slice key, rmq_error **err)
{
    uint32_t hash;
    struct rq_index_header header;
    struct rq_mapped_file *file;
    rmq_status st = rq_index_hash(record->topic, key, &hash);
    if (st == RMQ_OK) {
        st = file_for_put(index, &file, &header, err);
    }
    if (st == RMQ_OK) {
        rq_index_file_put(index, file, &header, hash, record);
    }
    return st;
}

static bool known_locked(const struct rq_index *index, const struct rq_record *record)
{
    if (index->count == 0) {
        return false;
    }
    struct rq_index_header header;
    rq_index_file_read_header(index, index->files[index->count - 1], &header);
    return record->commit_log_offset < header.end_offset;
}

/* How many entries the message at an offset has at the index's end: some of its keys, when the disk
 * was full in between. */
static size_t entries_at_end_locked(const struct rq_index *index, int64_t offset)
{
    size_t found = 0;
    bool more = true;
    for (size_t i = index->count; more && i-- > 0;) {
        struct rq_index_header header;
        rq_index_file_read_header(index, index->files[i], &header);
        if (header.end_offset != offset) {
            break; /* as nearly always */
        }
        for (uint32_t number = header.index_count; more && --number > 0; found += more) {
            more = rq_index_file_offset(index, index->files[i], number) == offset;
        }
    }
    return found;
}

/* Its keys that are not there yet: the unique one first, then the others. */
static rmq_status put_keys_locked(struct rq_index *index, const struct rq_record *record,
                                  const struct rq_record_properties *properties, rmq_error **err)
{
    size_t done = entries_at_end_locked(index, record->commit_log_offset);
    size_t number = 0;
    rmq_status st = RMQ_OK;
    if (properties->unique_key.n > 0 && number++ >= done) {
        st = put_key_locked(index, record, properties->unique_key, err);
    }
    struct rq_slice keys = properties->keys;
    struct rq_slice key;
    while (st == RMQ_OK && rq_record_next_key(&keys, &key)) {
        if (number++ >= done) {
            st = put_key_locked(index, record, key, err);
        }
    }
    return st;
}

rmq_status rq_index_put(struct rq_index *index, const struct rq_record *record,
                        const struct rq_record_properties *properties, rmq_error **err)
{
    if ((record->sys_flag & RQ_SYS_TRANSACTION_MASK) == RQ_SYS_TRANSACTION_ROLLBACK ||
        (properties->unique_key.n == 0 && properties->keys.n == 0)) {
        return RMQ_OK;
    }
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&index->lock);
    if (!known_locked(index, record)) {
        st = put_keys_locked(index, record, properties, err);
    }
    rq_mutex_unlock(&index->lock);
    return st;
}

/* After a failed sync, piece by piece, so that puts and queries go on. All that was changed has its
 * blocks reserved. */
static void redirty(struct rq_index *index, struct rq_mapped_file *file)
{
    size_t end = atomic_load_explicit(&file->reserved, memory_order_acquire);
    for (size_t at = 0; at < end; at += REDIRTY_STEP) {
        rq_mutex_lock(&index->lock);
        rq_mapped_file_redirty(file, at, end - at < REDIRTY_STEP ? end : at + REDIRTY_STEP);
        rq_mutex_unlock(&index->lock);
    }
}

rmq_status rq_index_flush(struct rq_index *index, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    bool more = true;
    for (size_t i = 0; st == RMQ_OK && more; i++) {
        rq_mutex_lock(&index->lock);
        struct rq_mapped_file *file = i < index->count ? index->files[i] : NULL;
        more = file != NULL;
        bool dirty = more && (i + 1 == index->count || file->flushed < file->size);
        if (dirty) {
            rq_mapped_file_retain(file);
        }
        bool last = i + 1 >= index->count;
        rq_mutex_unlock(&index->lock);
        if (dirty) {
            file->flushed = 0; /* slots anywhere may have changed */
            st = rq_mapped_file_flush(file, file->size, err);
            file->flushed = last ? 0 : file->flushed;
            if (st != RMQ_OK) {
                redirty(index, file);
            }
            rq_mapped_file_release(file);
        }
    }
    return st;
}

/* ---- repair ---- */

static rmq_status truncate_last(struct rq_index *index, int64_t commit_log_offset, bool *done,
                                rmq_error **err)
{
    struct rq_mapped_file *file = index->files[index->count - 1];
    struct rq_index_header header;
    rq_index_file_read_header(index, file, &header);
    file->flushed = 0; /* what is in memory need not be on disk */
    uint32_t number = rq_index_file_good(index, file, &header, commit_log_offset);
    *done = number == header.index_count && number > 1 && header.end_offset < commit_log_offset &&
            !rq_index_file_slots_ahead(index, file, number);
    if (*done) {
        return RMQ_OK;
    }
    if (number > 1) {
        rmq_status st = rq_mapped_file_reserve(file, rq_index_file_place(index, number), err);
        if (st == RMQ_OK) {
            rq_index_file_relink(index, file, &header, number);
        }
        *done = true;
        return st;
    }
    rmq_status st = rq_mapped_file_unlink(file, err);
    if (st == RMQ_OK) {
        index->count--;
        rq_mapped_file_release(file);
    }
    return st;
}

rmq_status rq_index_truncate(struct rq_index *index, int64_t commit_log_offset, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    bool done = false;
    rq_mutex_lock(&index->lock);
    while (st == RMQ_OK && !done && index->count > 0) {
        st = truncate_last(index, commit_log_offset, &done, err);
    }
    rq_mutex_unlock(&index->lock);
    return st;
}

int rq_index_clean(struct rq_index *index, int64_t commit_log_min)
{
    int deleted = 0;
    rq_mutex_lock(&index->lock);
    while (index->count > 1) {
        struct rq_index_header header;
        if (!rq_mapped_file_is_long_enough(index->files[0])) {
            break;
        }
        rq_index_file_read_header(index, index->files[0], &header);
        if (header.end_offset >= commit_log_min ||
            rq_mapped_file_unlink(index->files[0], NULL) != RMQ_OK) {
            break;
        }
        rq_mapped_file_release(index->files[0]);
        index->count--;
        memmove(index->files, index->files + 1, index->count * sizeof(*index->files));
        deleted++;
    }
    rq_mutex_unlock(&index->lock);
    return deleted;
}

/* ---- query ---- */

size_t rq_index_query(struct rq_index *index, struct rq_slice topic, struct rq_slice key,
                      int64_t begin_ms, int64_t end_ms, struct rq_index_hits *state,
                      int64_t *offsets, size_t max)
{
    uint32_t hash;
    size_t n = 0;
    if (rq_index_hash(topic, key, &hash) != RMQ_OK) {
        return 0;
    }
    rq_mutex_lock(&index->lock);
    if (!state->begun) {
        state->begun = true;
        state->file = index->count;
    }
    state->file = state->file > index->count ? index->count : state->file;
    while (n < max && (state->number > 0 || state->file > 0)) {
        bool fresh = state->number == 0;
        state->file -= fresh;
        struct rq_mapped_file *file = index->files[state->file];
        struct rq_index_header header;
        if (!rq_mapped_file_is_long_enough(file)) {
            state->number = 0;
            continue;
        }
        rq_index_file_read_header(index, file, &header);
        if (fresh && header.begin_time <= end_ms && header.end_time >= begin_ms) {
            state->number = rq_index_file_newest(index, file, hash, header.index_count);
        }
        n += rq_index_file_walk(index, file, &header, hash, begin_ms, end_ms, state, offsets + n,
                                max - n);
        if (state->number == 0 && header.begin_time < begin_ms) {
            state->file = 0;
        }
    }
    rq_mutex_unlock(&index->lock);
    return n;
}

void rq_index_last(struct rq_index *index, int64_t *time, int64_t *offset)
{
    struct rq_index_header header = {0};
    rq_mutex_lock(&index->lock);
    if (index->count > 0) {
        rq_index_file_read_header(index, index->files[index->count - 1], &header);
    }
    rq_mutex_unlock(&index->lock);
    *time = header.end_time;
    *offset = header.end_offset;
}

size_t rq_index_files(struct rq_index *index)
{
    rq_mutex_lock(&index->lock);
    size_t count = index->count;
    rq_mutex_unlock(&index->lock);
    return count;
}

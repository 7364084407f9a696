/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Index files: header of 40 bytes, slots of 4 bytes (number of the newest entry), entries of 20 bytes (hash, commit-log offset, seconds since
 * the file's begin, number of the entry before in the same slot). Everything under the index's lock.
 */
#include "store/index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/jhash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/time.h"

#define HEADER_BYTES 40
#define SLOT_BYTES   4
#define ENTRY_BYTES  20
#define NAME_DIGITS  17
#define NAME_TRIES   1000
#define KEY_ROOM     512 /* longer ones are hashed on the heap */

/* Places in the header. */
#define AT_BEGIN_TIME   0
#define AT_END_TIME     8
#define AT_BEGIN_OFFSET 16
#define AT_END_OFFSET   24
#define AT_SLOT_COUNT   32
#define AT_INDEX_COUNT  36

static const struct rq_mapped_file_kind file_kind = {
    .first_step = (size_t)64 << 10, .last_step = (size_t)4 << 20, .keeps_fd = false};

struct header {
    int64_t begin_time;
    int64_t end_time;
    int64_t begin_offset;
    int64_t end_offset;
    uint32_t slot_count;
    uint32_t index_count; /* next number to use, from 1 */
};

rmq_status rq_index_init(struct rq_index *index, const char *dir,
                         const struct rq_store_options *options)
{
    *index = (struct rq_index){.slots = (uint32_t)options->max_hash_slot_num,
                               .entries = (uint32_t)options->max_index_num};
    index->file_size =
        HEADER_BYTES + (size_t)index->slots * SLOT_BYTES + (size_t)index->entries * ENTRY_BYTES;
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

static void read_header(const struct rq_index *index, const struct rq_mapped_file *file,
                        struct header *out)
{
    const char *p = file->data;
    out->begin_time = (int64_t)rq_load_be64(p + AT_BEGIN_TIME);
    out->end_time = (int64_t)rq_load_be64(p + AT_END_TIME);
    out->begin_offset = (int64_t)rq_load_be64(p + AT_BEGIN_OFFSET);
    out->end_offset = (int64_t)rq_load_be64(p + AT_END_OFFSET);
    out->slot_count = rq_load_be32(p + AT_SLOT_COUNT);
    out->index_count = rq_load_be32(p + AT_INDEX_COUNT);
    if (out->index_count < 1 || out->index_count > index->entries) {
        out->index_count =
            out->index_count > INT32_MAX || out->index_count < 1 ? 1 : index->entries;
    }
}

static void write_header(struct rq_mapped_file *file, const struct header *header)
{
    char *p = file->data;
    rq_store_be64(p + AT_BEGIN_TIME, (uint64_t)header->begin_time);
    rq_store_be64(p + AT_END_TIME, (uint64_t)header->end_time);
    rq_store_be64(p + AT_BEGIN_OFFSET, (uint64_t)header->begin_offset);
    rq_store_be64(p + AT_END_OFFSET, (uint64_t)header->end_offset);
    rq_store_be32(p + AT_SLOT_COUNT, header->slot_count);
    rq_store_be32(p + AT_INDEX_COUNT, header->index_count);
}

static char *slot_at(const struct rq_mapped_file *file, uint32_t slot)
{
    return file->data + HEADER_BYTES + (size_t)slot * SLOT_BYTES;
}

static size_t entry_place(const struct rq_index *index, uint32_t number)
{
    return HEADER_BYTES + (size_t)index->slots * SLOT_BYTES + (size_t)number * ENTRY_BYTES;
}

/* Number in a slot, 0 when it is none of this file's. */
static uint32_t slot_value(const struct rq_mapped_file *file, uint32_t slot, uint32_t index_count)
{
    uint32_t number = rq_load_be32(slot_at(file, slot));
    return number < index_count ? number : 0;
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

static rmq_status load_file(struct rq_index *index, const char *name, rmq_error **err)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", index->dir, name);
    if (strlen(name) != NAME_DIGITS || strspn(name, "0123456789") != NAME_DIGITS || n < 0 ||
        n >= (int)sizeof path) {
        return RMQ_OK;
    }
    struct rq_mapped_file *file;
    rmq_error *own = NULL;
    rmq_status st = rq_mapped_file_open(path, 0, index->file_size, &file_kind, false, &file, &own);
    if (st == RMQ_ERR_CORRUPT) {
        RQ_LOG(WARN, "index file passed over", "reason=%s", rmq_error_message(own));
        rmq_error_destroy(own);
        return RMQ_OK;
    }
    if (st == RMQ_OK) {
        st = add_locked(index, file);
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
        st = rq_error_set(err, RMQ_ERR_IO, "make %s: %s", index->dir, strerror(errno));
    }
    if (st == RMQ_OK) {
        st = rq_mapped_file_open(path, 0, index->file_size, &file_kind, true, &file, err);
    }
    if (st == RMQ_OK) {
        st = rq_mapped_file_reserve(file, entry_place(index, 2), err);
    }
    if (st == RMQ_OK) {
        struct header header = {.index_count = 1};
        if (index->count > 0) { /* what Java sets, and what the first entry's seconds count from */
            struct header old;
            read_header(index, index->files[index->count - 1], &old);
            header.begin_time = header.end_time = old.end_time;
            header.begin_offset = header.end_offset = old.end_offset;
        }
        write_header(file, &header);
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
                               struct header *header, rmq_error **err)
{
    struct rq_mapped_file *file = index->count > 0 ? index->files[index->count - 1] : NULL;
    rmq_status st = RMQ_OK;
    if (file) {
        read_header(index, file, header);
    }
    if (!file || header->index_count >= index->entries) {
        st = new_file_locked(index, &file, err);
        if (st != RMQ_OK) {
            return st;
        }
        read_header(index, file, header);
    }
    size_t upto = entry_place(index, header->index_count + 1);
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

static uint32_t seconds_since(int64_t begin, int64_t time)
{
    if (begin <= 0 || time <= begin) {
        return 0;
    }
    int64_t seconds = (time - begin) / 1000;
    return seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

static void write_entry(const struct rq_index *index, struct rq_mapped_file *file,
                        struct header *header, uint32_t hash, const struct rq_record *record)
{
    uint32_t slot = hash % index->slots;
    uint32_t number = header->index_count;
    uint32_t before = slot_value(file, slot, number);
    char *p = file->data + entry_place(index, number);
    rq_store_be32(p, hash);
    rq_store_be64(p + 4, (uint64_t)record->commit_log_offset);
    rq_store_be32(p + 12, seconds_since(header->begin_time, record->store_timestamp));
    rq_store_be32(p + 16, before);
    rq_store_be32(slot_at(file, slot), number);
    if (number <= 1) {
        header->begin_offset = record->commit_log_offset;
        header->begin_time = record->store_timestamp;
    }
    header->slot_count += before == 0;
    header->index_count++;
    header->end_offset = record->commit_log_offset;
    header->end_time = record->store_timestamp;
    write_header(file, header);
}

static rmq_status put_key_locked(struct rq_index *index, const struct rq_record *record,
                                 struct rq_slice key, rmq_error **err)
{
    uint32_t hash;
    struct header header;
    struct rq_mapped_file *file;
    rmq_status st = rq_index_hash(record->topic, key, &hash);
    if (st == RMQ_OK) {
        st = file_for_put(index, &file, &header, err);
    }
    if (st == RMQ_OK) {
        write_entry(index, file, &header, hash, record);
    }
    return st;
}

static bool known_locked(const struct rq_index *index, const struct rq_record *record)
{
    if (index->count == 0) {
        return false;
    }
    struct header header;
    read_header(index, index->files[index->count - 1], &header);
    return record->commit_log_offset < header.end_offset;
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
        if (properties->unique_key.n > 0) {
            st = put_key_locked(index, record, properties->unique_key, err);
        }
        struct rq_slice keys = properties->keys;
        struct rq_slice key;
        while (st == RMQ_OK && rq_record_next_key(&keys, &key)) {
            st = put_key_locked(index, record, key, err);
        }
    }
    rq_mutex_unlock(&index->lock);
    return st;
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
            rq_mapped_file_release(file);
        }
    }
    return st;
}

/* ---- repair ---- */

/* Keeps entries below number and ties their chains anew. */
static void relink(struct rq_index *index, struct rq_mapped_file *file, struct header *header,
                   uint32_t number)
{
    memset(slot_at(file, 0), 0, (size_t)index->slots * SLOT_BYTES);
    header->slot_count = 0;
    for (uint32_t i = 1; i < number; i++) {
        char *p = file->data + entry_place(index, i);
        uint32_t slot = rq_load_be32(p) % index->slots;
        uint32_t before = rq_load_be32(slot_at(file, slot));
        rq_store_be32(p + 16, before);
        rq_store_be32(slot_at(file, slot), i);
        header->slot_count += before == 0;
    }
    const char *last = file->data + entry_place(index, number - 1);
    header->index_count = number;
    header->end_offset = (int64_t)rq_load_be64(last + 4);
    header->end_time = header->begin_time + ((int64_t)rq_load_be32(last + 12) + 1) * 1000;
    write_header(file, header);
}

static rmq_status truncate_last(struct rq_index *index, int64_t commit_log_offset, bool *done,
                                rmq_error **err)
{
    struct rq_mapped_file *file = index->files[index->count - 1];
    struct header header;
    read_header(index, file, &header);
    uint32_t number = 1;
    while (number < header.index_count &&
           (int64_t)rq_load_be64(file->data + entry_place(index, number) + 4) < commit_log_offset) {
        number++;
    }
    *done = number == header.index_count && number > 1 && header.end_offset < commit_log_offset;
    if (*done) {
        return RMQ_OK;
    }
    if (number > 1) {
        rmq_status st = rq_mapped_file_reserve(file, entry_place(index, number), err);
        if (st == RMQ_OK) {
            relink(index, file, &header, number);
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
        struct header header;
        read_header(index, index->files[0], &header);
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

/* Entries of one chain into offsets; state->number is 0 when the chain is at its end. */
static size_t walk_chain(const struct rq_index *index, const struct rq_mapped_file *file,
                         const struct header *header, uint32_t hash, int64_t begin_ms,
                         int64_t end_ms, struct rq_index_hits *state, int64_t *offsets, size_t max)
{
    size_t n = 0;
    uint32_t number = state->number;
    while (number > 0 && n < max) {
        const char *p = file->data + entry_place(index, number);
        uint32_t before = rq_load_be32(p + 16);
        int64_t time = header->begin_time + (int64_t)rq_load_be32(p + 12) * 1000;
        /* The stored second may be up to one before the message's time; in a second file the first entry counts from the old file's end. */
        if (rq_load_be32(p) == hash && time + 1000 > begin_ms && time - 1000 <= end_ms) {
            offsets[n++] = (int64_t)rq_load_be64(p + 4);
        }
        number = before < number ? before : 0; /* chains lead back only; anything else is damage */
        if (time + 1000 <= begin_ms) {
            number = 0;
        }
    }
    state->number = number;
    return n;
}

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
        const struct rq_mapped_file *file = index->files[state->file];
        struct header header;
        read_header(index, file, &header);
        if (fresh && header.begin_time <= end_ms && header.end_time >= begin_ms) {
            state->number = slot_value(file, hash % index->slots, header.index_count);
        }
        n += walk_chain(index, file, &header, hash, begin_ms, end_ms, state, offsets + n, max - n);
        if (state->number == 0 && header.begin_time < begin_ms) {
            state->file = 0;
        }
    }
    rq_mutex_unlock(&index->lock);
    return n;
}

void rq_index_last(struct rq_index *index, int64_t *time, int64_t *offset)
{
    struct header header = {0};
    rq_mutex_lock(&index->lock);
    if (index->count > 0) {
        read_header(index, index->files[index->count - 1], &header);
    }
    rq_mutex_unlock(&index->lock);
    *time = header.end_time;
    *offset = header.end_offset;
}

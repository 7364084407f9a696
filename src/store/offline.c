/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Stores mapped for reading: files, records, opening. */
#include "store/offline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"
#include "store/lock.h"

#define LOG_DIGITS   20
#define MAX_FINDINGS 100

/* ---- files ---- */

static rmq_status map_file(const char *path, struct rq_offline_file *file, rmq_error **err)
{
    struct stat info = {0};
    int fd = rq_sys_open(path, O_RDONLY | O_NONBLOCK, 0); /* a pipe would wait */
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
        int error = errno;
        bool other = fd >= 0 && info.st_mode != 0 && !S_ISREG(info.st_mode);
        if (fd >= 0) {
            close(fd);
        }
        return rq_error_set(err, RMQ_ERR_IO, "open %s: %s", path,
                            other ? "not a file" : strerror(error));
    }
    file->size = (size_t)info.st_size;
    file->data = file->size > 0 ? rq_sys_mmap_file(fd, file->size, false) : NULL;
    int error = errno;
    close(fd);
    return file->data || file->size == 0
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_IO, "map %s: %s", path, strerror(error));
}

static rmq_status add_file(struct rq_offline_files *files, const struct rq_offline_file *file)
{
    if (files->count == files->cap) {
        size_t cap = files->cap > 0 ? files->cap * 2 : 2;
        struct rq_offline_file *list = rq_realloc(files->files, cap * sizeof *list);
        if (!list) {
            return RMQ_ERR_NOMEM;
        }
        files->files = list;
        files->cap = cap;
    }
    files->files[files->count++] = *file;
    return RMQ_OK;
}

static rmq_status load_file(struct rq_offline_files *files, const char *dir, const char *name,
                            rmq_error **err)
{
    char path[PATH_MAX];
    struct rq_offline_file file = {0};
    if (!rq_slice_to_i64(rq_slice_str(name), &file.start)) {
        return RMQ_OK;
    }
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) {
        return rq_error_set(err, RMQ_ERR_INVALID, "path too long: %s", dir);
    }
    rmq_status st = map_file(path, &file, err);
    if (st == RMQ_OK) {
        st = add_file(files, &file);
        if (st != RMQ_OK) {
            rq_error_set(err, st, "no memory for the files of %s", dir);
            if (file.data) {
                rq_sys_munmap((void *)(uintptr_t)file.data, file.size);
            }
        }
    }
    return st;
}

static int compare_files(const void *a, const void *b)
{
    const struct rq_offline_file *x = a;
    const struct rq_offline_file *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The size of a file behind which the next one begins; when none is whole, how far two of them are
 * apart. */
static size_t size_of_each(const struct rq_offline_files *files)
{
    size_t least = files->files[files->count - 1].size;
    for (size_t i = files->count - 1; i > 0; i--) {
        const struct rq_offline_file *file = &files->files[i - 1];
        size_t apart = (size_t)(file[1].start - file->start);
        if (apart == file->size) {
            return apart;
        }
        least = apart < least || i + 1 == files->count ? apart : least;
    }
    return least;
}

rmq_status rq_offline_files_load(struct rq_offline_files *files, const char *dir, size_t digits,
                                 rmq_error **err)
{
    DIR *d = opendir(dir);
    if (!d) {
        return errno == ENOENT ? RMQ_OK
                               : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", dir, strerror(errno));
    }
    rmq_status st = RMQ_OK;
    for (struct dirent *e = readdir(d); e && st == RMQ_OK; e = readdir(d)) {
        if (strlen(e->d_name) == digits && strspn(e->d_name, "0123456789") == digits) {
            st = load_file(files, dir, e->d_name, err);
        }
    }
    closedir(d);
    if (files->count > 0) {
        qsort(files->files, files->count, sizeof *files->files, compare_files);
        files->file_size = size_of_each(files);
    }
    return st;
}

void rq_offline_files_free(struct rq_offline_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        if (files->files[i].data) {
            rq_sys_munmap((void *)(uintptr_t)files->files[i].data, files->files[i].size);
        }
    }
    rq_free(files->files);
    *files = (struct rq_offline_files){0};
}

/* Index of the last file that begins at or before offset; count when there is none. */
static size_t file_before(const struct rq_offline_files *files, int64_t offset)
{
    size_t low = 0;
    size_t high = files->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (files->files[middle].start <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? low - 1 : files->count;
}

const char *rq_offline_at(const struct rq_offline_files *files, int64_t offset, size_t *left)
{
    size_t i = file_before(files, offset);
    if (i == files->count || (uint64_t)(offset - files->files[i].start) >= files->files[i].size) {
        return NULL;
    }
    size_t at = (size_t)(offset - files->files[i].start);
    *left = files->files[i].size - at;
    return files->files[i].data + at;
}

const struct rq_offline_file *rq_offline_from(const struct rq_offline_files *files, int64_t offset)
{
    size_t i = file_before(files, offset);
    if (i == files->count) {
        i = 0;
    } else if (files->files[i].start < offset) {
        i++;
    }
    return i < files->count ? &files->files[i] : NULL;
}

/* ---- records ---- */

enum rq_record_kind rq_offline_record(const struct rmq_store *store, int64_t offset, bool check_crc,
                                      struct rq_record *out)
{
    size_t left = 0;
    const char *p = rq_offline_at(&store->log, offset, &left);
    if (!p) {
        return RQ_RECORD_BAD;
    }
    enum rq_record_kind kind = rq_record_read(p, left, check_crc, out);
    if (kind == RQ_RECORD_GOOD && out->commit_log_offset != offset) {
        return RQ_RECORD_BAD;
    }
    if (kind == RQ_RECORD_BLANK) {
        out->size = (uint32_t)left; /* whatever it says, it goes to the end of its file */
    }
    return kind;
}

int64_t rq_offline_walk(const struct rmq_store *store, int64_t offset, int64_t *last_time)
{
    int64_t end = offset;
    struct rq_record record;
    for (;;) {
        enum rq_record_kind kind = rq_offline_record(store, offset, true, &record);
        if (kind == RQ_RECORD_BAD) {
            return end;
        }
        offset += record.size;
        if (kind == RQ_RECORD_GOOD) {
            *last_time = record.store_timestamp;
        }
        /* The end stays before the blank until the next file turns out to begin where this ends. */
        size_t left;
        end = kind == RQ_RECORD_GOOD || rq_offline_at(&store->log, offset, &left) ? offset : end;
    }
}

/* The end, as the last file with a good first record tells; verify looks at all of them. */
static void find_log_end(struct rmq_store *store)
{
    struct rq_record record;
    for (size_t i = store->log.count; i-- > 0;) {
        int64_t start = store->log.files[i].start;
        if (rq_offline_record(store, start, true, &record) == RQ_RECORD_GOOD || i == 0) {
            store->log_end = rq_offline_walk(store, start, &store->last_time);
            return;
        }
    }
}

/* ---- opening ---- */

void rmq_store_options_init(rmq_store_options *options, size_t size)
{
    rmq_store_options all = {.struct_size = size, .max_findings = MAX_FINDINGS};
    if (options && size >= sizeof options->struct_size) {
        memset(options, 0, size);
        memcpy(options, &all, size < sizeof all ? size : sizeof all);
    }
}

void rq_offline_options(rmq_store_options *out, const rmq_store_options *given)
{
    rmq_store_options_init(out, sizeof *out);
    if (given && given->struct_size >= sizeof given->struct_size) {
        size_t n = given->struct_size < sizeof *out ? given->struct_size : sizeof *out;
        memcpy(out, given, n);
        out->struct_size = sizeof *out;
    }
}

static rmq_status set_paths(struct rmq_store *store, const char *dir, rmq_error **err)
{
    char log[PATH_MAX];
    char abort_path[PATH_MAX];
    struct stat info;
    if (!dir || !*dir || strlen(dir) >= sizeof store->root) {
        return rq_error_set(err, RMQ_ERR_INVALID, "no directory, or its path is too long");
    }
    memcpy(store->root, dir, strlen(dir) + 1);
    snprintf(log, sizeof log, "%s/commitlog", store->root);
    snprintf(abort_path, sizeof abort_path, "%s/abort", store->root);
    const char *own = store->options.commit_log_dir;
    store->commit_log_dir = rq_strdup(own && *own ? own : log);
    store->options.commit_log_dir = NULL;
    store->options.message_delay_level = NULL;
    if (!store->commit_log_dir) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    if (stat(store->commit_log_dir, &info) < 0 || !S_ISDIR(info.st_mode)) {
        return rq_error_set(err, RMQ_ERR_NOT_FOUND, "there is no store in %s: no directory %s", dir,
                            store->commit_log_dir);
    }
    store->closed = access(abort_path, F_OK) < 0;
    return RMQ_OK;
}

static rmq_status load(struct rmq_store *store, rmq_error **err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoint", store->root);
    rmq_status st = rq_offline_files_load(&store->log, store->commit_log_dir, LOG_DIGITS, err);
    if (st == RMQ_OK) {
        st = rq_checkpoint_load(&store->checkpoint, path, err);
    }
    if (st == RMQ_OK) {
        st = rq_offline_queues_load(store, err);
    }
    if (st == RMQ_OK) {
        st = rq_offline_index_load(store, err);
    }
    if (st == RMQ_OK) {
        find_log_end(store);
    }
    return st;
}

rmq_status rq_offline_open(const char *dir, const rmq_store_options *options, int *lock_fd,
                           rmq_store **out, rmq_error **err)
{
    struct rmq_store *store = rq_calloc(1, sizeof *store);
    if (!store) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    rq_offline_options(&store->options, options);
    rq_map_init(&store->by_name);
    rmq_status st = set_paths(store, dir, err);
    if (st == RMQ_OK && lock_fd) {
        st = rq_store_lock(store->root, lock_fd, err);
    } else if (st == RMQ_OK) {
        store->in_use = rq_store_is_locked(store->root);
    }
    if (st == RMQ_OK) {
        st = load(store, err);
    }
    if (st != RMQ_OK) {
        rmq_store_close(store);
        return st;
    }
    *out = store;
    return RMQ_OK;
}

rmq_status rmq_store_open(const char *dir, const rmq_store_options *options, rmq_store **out,
                          rmq_error **err)
{
    return rq_offline_open(dir, options, NULL, out, err);
}

void rmq_store_close(rmq_store *store)
{
    if (!store) {
        return;
    }
    rq_offline_queues_free(store);
    rq_offline_files_free(&store->index_files);
    rq_offline_files_free(&store->log);
    rq_checkpoint_free(&store->checkpoint);
    rq_free(store->commit_log_dir);
    rq_free(store);
}

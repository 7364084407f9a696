/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queues of mapped files: loading a directory, looking up, adding, deleting. */
#include "store/mapped_file_queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define NAME_DIGITS 20
#define MISSING_MAX 1000 /* files in a row; more is another size of files, or another store */

rmq_status rq_mapped_file_queue_init(struct rq_mapped_file_queue *queue, const char *dir,
                                     size_t file_size, const struct rq_mapped_file_kind *kind)
{
    *queue = (struct rq_mapped_file_queue){.file_size = file_size, .kind = *kind};
    rq_mutex_init(&queue->lock);
    queue->dir = rq_strdup(dir);
    return queue->dir ? RMQ_OK : RMQ_ERR_NOMEM;
}

void rq_mapped_file_queue_free(struct rq_mapped_file_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        rq_mapped_file_release(queue->files[i]);
    }
    rq_free(queue->files);
    rq_free(queue->dir);
    rq_mutex_destroy(&queue->lock);
}

static bool parse_name(const char *name, int64_t *start)
{
    return strlen(name) == NAME_DIGITS && strspn(name, "0123456789") == NAME_DIGITS &&
           rq_slice_to_i64(rq_slice_str(name), start) && *start <= RQ_STORE_OFFSET_MAX;
}

static int compare_starts(const void *a, const void *b)
{
    int64_t x;
    int64_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Starts of all files, sorted, as int64_t in out. */
static rmq_status list_starts(const char *dir, struct rq_buf *out, rmq_error **err)
{
    DIR *d = opendir(dir);
    if (!d) {
        return errno == ENOENT ? RMQ_OK
                               : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", dir, strerror(errno));
    }
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        int64_t start;
        if (parse_name(e->d_name, &start)) {
            rq_buf_add(out, &start, sizeof start);
        } else if (e->d_name[0] != '.') {
            RQ_LOG(WARN, "entry in a store directory passed over", "path=%s/%s", dir, e->d_name);
        }
    }
    closedir(d);
    if (out->len > 0) {
        qsort(out->data, out->len / sizeof(int64_t), sizeof(int64_t), compare_starts);
    }
    return rq_buf_status(out);
}

static rmq_status path_of(const struct rq_mapped_file_queue *queue, int64_t start,
                          char path[PATH_MAX], rmq_error **err)
{
    int n = snprintf(path, PATH_MAX, "%s/%020" PRId64, queue->dir, start);
    if (n < 0 || n >= PATH_MAX) {
        return rq_error_set(err, RMQ_ERR_INVALID, "path too long: %s", queue->dir);
    }
    return RMQ_OK;
}

static rmq_status open_at(struct rq_mapped_file_queue *queue, int64_t start, bool create,
                          struct rq_mapped_file **out, rmq_error **err)
{
    char path[PATH_MAX];
    rmq_status st = path_of(queue, start, path, err);
    if (st == RMQ_OK) {
        st = rq_mapped_file_open(path, start, queue->file_size, &queue->kind, create, out, err);
    }
    return st;
}

/* A file that was made but not yet given its length when its writer died. */
static rmq_status drop_empty(struct rq_mapped_file_queue *queue, int64_t start, bool *dropped,
                             rmq_error **err)
{
    char path[PATH_MAX];
    struct stat info;
    rmq_status st = path_of(queue, start, path, err);
    *dropped = st == RMQ_OK && stat(path, &info) == 0 && info.st_size == 0;
    if (*dropped && rq_sys_unlink(path) < 0) {
        return rq_error_set(err, RMQ_ERR_IO, "remove %s: %s", path, strerror(errno));
    }
    return st;
}

/* A file that lost its end; what is missing reads as zero. */
static rmq_status lengthen(struct rq_mapped_file_queue *queue, int64_t start, bool *lengthened,
                           rmq_error **err)
{
    char path[PATH_MAX];
    struct stat info;
    rmq_status st = path_of(queue, start, path, err);
    *lengthened = false;
    if (st != RMQ_OK || stat(path, &info) < 0 || info.st_size >= (off_t)queue->file_size) {
        return st;
    }
    RQ_LOG(WARN, "file is too short, its end is lost", "path=%s bytes=%lld expected=%zu", path,
           (long long)info.st_size, queue->file_size);
    int fd = rq_sys_open(path, O_RDWR, 0);
    if (fd < 0 || rq_sys_ftruncate(fd, (off_t)queue->file_size) < 0) {
        st = rq_error_set(err, RMQ_ERR_IO, "set length of %s: %s", path, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    *lengthened = st == RMQ_OK;
    return st;
}

/* Whether the files' names fit their length: else a wrong length is one of the options, and nothing
 * may be mended. */
static rmq_status check_starts(const struct rq_mapped_file_queue *queue, const int64_t *starts,
                               size_t n, rmq_error **err)
{
    for (size_t i = 1; i < n; i++) {
        int64_t apart = starts[i] - starts[i - 1];
        if (apart % (int64_t)queue->file_size != 0 ||
            apart / (int64_t)queue->file_size > MISSING_MAX) {
            return rq_error_set(err, RMQ_ERR_CORRUPT,
                                "%s/%020" PRId64
                                " is %lld bytes behind the file before it: that does not fit "
                                "files of %zu bytes",
                                queue->dir, starts[i], (long long)apart, queue->file_size);
        }
    }
    return RMQ_OK;
}

static rmq_status add_or_release(struct rq_mapped_file_queue *queue, struct rq_mapped_file *file,
                                 rmq_error **err)
{
    rmq_status st = rq_mapped_file_queue_add(queue, file, err);
    if (st != RMQ_OK) {
        rq_mapped_file_release(file);
    }
    return st;
}

/* Files between the last one and start that are missing. */
static rmq_status fill_up_to(struct rq_mapped_file_queue *queue, int64_t start, bool *lengthened,
                             rmq_error **err)
{
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && queue->count > 0) {
        const struct rq_mapped_file *last = queue->files[queue->count - 1];
        int64_t next = last->start + (int64_t)queue->file_size;
        struct rq_mapped_file *file = NULL;
        if (next >= start) {
            break;
        }
        RQ_LOG(WARN, "a file is missing, its messages are lost", "path=%s/%020" PRId64, queue->dir,
               next);
        st = open_at(queue, next, true, &file, err);
        if (st == RMQ_OK) {
            file->cut = *lengthened = true;
            st = add_or_release(queue, file, err);
        }
    }
    return st;
}

/* One file, which is the last one or not. lengthened: NULL = it must be as long as it should be. */
static rmq_status load_one(struct rq_mapped_file_queue *queue, int64_t start, bool last,
                           bool *lengthened, rmq_error **err)
{
    bool dropped = false;
    bool cut = false;
    struct rq_mapped_file *file = NULL;
    rmq_status st = last ? drop_empty(queue, start, &dropped, err) : RMQ_OK;
    if (st == RMQ_OK && !dropped && lengthened) {
        st = fill_up_to(queue, start, lengthened, err);
    }
    if (st == RMQ_OK && !dropped && lengthened) {
        st = lengthen(queue, start, &cut, err);
        *lengthened = *lengthened || cut;
    }
    if (st == RMQ_OK && !dropped) {
        st = open_at(queue, start, false, &file, err);
    }
    if (st == RMQ_OK && file) {
        file->cut = cut;
        st = add_or_release(queue, file, err);
    }
    return st;
}

static rmq_status load_starts(struct rq_mapped_file_queue *queue, const int64_t *starts, size_t n,
                              bool *lengthened, rmq_error **err)
{
    rmq_status st = lengthened ? check_starts(queue, starts, n, err) : RMQ_OK;
    for (size_t i = 0; st == RMQ_OK && i < n; i++) {
        st = load_one(queue, starts[i], i + 1 == n, lengthened, err);
    }
    return st;
}

rmq_status rq_mapped_file_queue_load(struct rq_mapped_file_queue *queue, bool *lengthened,
                                     rmq_error **err)
{
    struct rq_buf starts;
    rq_buf_init(&starts, 0);
    rmq_status st = list_starts(queue->dir, &starts, err);
    if (st == RMQ_OK && starts.len > 0) {
        int64_t *list = (int64_t *)(void *)starts.data;
        st = load_starts(queue, list, starts.len / sizeof *list, lengthened, err);
    }
    rq_buf_free(&starts);
    return st;
}

bool rq_mapped_file_queue_is_whole(const struct rq_mapped_file_queue *queue)
{
    if (queue->count > 0 && queue->files[0]->start % (int64_t)queue->file_size != 0) {
        return false;
    }
    for (size_t i = 1; i < queue->count; i++) {
        if (queue->files[i]->start != queue->files[i - 1]->start + (int64_t)queue->file_size) {
            return false;
        }
    }
    return true;
}

/* Index of the file that holds offset, or count. */
static size_t index_of_locked(const struct rq_mapped_file_queue *queue, int64_t offset)
{
    if (queue->count == 0 || offset < queue->files[0]->start) {
        return queue->count;
    }
    size_t i = (size_t)((uint64_t)(offset - queue->files[0]->start) / queue->file_size);
    if (i < queue->count && offset >= queue->files[i]->start &&
        (size_t)(offset - queue->files[i]->start) < queue->file_size) {
        return i;
    }
    for (i = 0; i < queue->count; i++) { /* there is a gap between files */
        int64_t from = queue->files[i]->start;
        if (offset >= from && (size_t)(offset - from) < queue->file_size) {
            break;
        }
    }
    return i;
}

struct rq_mapped_file *rq_mapped_file_queue_find(struct rq_mapped_file_queue *queue, int64_t offset)
{
    rq_mutex_lock(&queue->lock);
    size_t i = index_of_locked(queue, offset);
    struct rq_mapped_file *file = i < queue->count ? queue->files[i] : NULL;
    if (file) {
        rq_mapped_file_retain(file);
    }
    rq_mutex_unlock(&queue->lock);
    return file;
}

struct rq_mapped_file *rq_mapped_file_queue_first(struct rq_mapped_file_queue *queue)
{
    rq_mutex_lock(&queue->lock);
    struct rq_mapped_file *file = queue->count > 0 ? queue->files[0] : NULL;
    if (file) {
        rq_mapped_file_retain(file);
    }
    rq_mutex_unlock(&queue->lock);
    return file;
}

struct rq_mapped_file *rq_mapped_file_queue_last(struct rq_mapped_file_queue *queue)
{
    return queue->count > 0 ? queue->files[queue->count - 1] : NULL;
}

int64_t rq_mapped_file_queue_min(struct rq_mapped_file_queue *queue)
{
    rq_mutex_lock(&queue->lock);
    int64_t start = queue->count > 0 ? queue->files[0]->start : 0;
    rq_mutex_unlock(&queue->lock);
    return start;
}

rmq_status rq_mapped_file_queue_make(struct rq_mapped_file_queue *queue, int64_t start,
                                     struct rq_mapped_file **out, rmq_error **err)
{
    if (open_at(queue, start, true, out, NULL) == RMQ_OK) {
        return RMQ_OK;
    }
    /* The usual cause; another one fails again, and is told. */
    if (rq_sys_mkdirs(queue->dir) < 0 && errno == ENOMEM) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for %s", queue->dir);
    }
    return open_at(queue, start, true, out, err);
}

rmq_status rq_mapped_file_queue_add(struct rq_mapped_file_queue *queue, struct rq_mapped_file *file,
                                    rmq_error **err)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&queue->lock);
    if (queue->count == queue->cap) {
        size_t cap = queue->cap > 0 ? queue->cap * 2 : 2;
        struct rq_mapped_file **files = rq_realloc(queue->files, cap * sizeof(*files));
        if (files) {
            queue->files = files;
            queue->cap = cap;
        } else {
            st = rq_error_set(err, RMQ_ERR_NOMEM, "no memory for the files of %s", queue->dir);
        }
    }
    if (st == RMQ_OK) {
        queue->files[queue->count++] = file;
    }
    if (st == RMQ_OK && queue->at_random) {
        rq_mapped_file_read_ahead(file, false);
    }
    rq_mutex_unlock(&queue->lock);
    return st;
}

void rq_mapped_file_queue_read_ahead(struct rq_mapped_file_queue *queue, bool on)
{
    rq_mutex_lock(&queue->lock);
    queue->at_random = !on;
    for (size_t i = 0; i < queue->count; i++) {
        rq_mapped_file_read_ahead(queue->files[i], on);
    }
    rq_mutex_unlock(&queue->lock);
}

static void take_out(struct rq_mapped_file_queue *queue, size_t index)
{
    struct rq_mapped_file *file = queue->files[index];
    rq_mutex_lock(&queue->lock);
    queue->count--;
    memmove(queue->files + index, queue->files + index + 1,
            (queue->count - index) * sizeof(*queue->files));
    rq_mutex_unlock(&queue->lock);
    rq_mapped_file_release(file);
}

/* Takes the file at index out and deletes it; on a failure it stays. */
static rmq_status remove_at(struct rq_mapped_file_queue *queue, size_t index, rmq_error **err)
{
    rmq_status st = rq_mapped_file_unlink(queue->files[index], err);
    if (st == RMQ_OK) {
        take_out(queue, index);
    }
    return st;
}

void rq_mapped_file_queue_forget_first(struct rq_mapped_file_queue *queue,
                                       struct rq_mapped_file *file)
{
    if (queue->count > 0 && queue->files[0] == file) {
        take_out(queue, 0);
    }
}

rmq_status rq_mapped_file_queue_remove_last(struct rq_mapped_file_queue *queue, rmq_error **err)
{
    return queue->count > 0 ? remove_at(queue, queue->count - 1, err) : RMQ_OK;
}

rmq_status rq_mapped_file_queue_remove_first(struct rq_mapped_file_queue *queue, rmq_error **err)
{
    return queue->count > 0 ? remove_at(queue, 0, err) : RMQ_OK;
}

rmq_status rq_mapped_file_queue_truncate(struct rq_mapped_file_queue *queue, int64_t end,
                                         rmq_error **err)
{
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && queue->count > 0 && queue->files[queue->count - 1]->start > end) {
        st = remove_at(queue, queue->count - 1, err);
    }
    for (size_t i = 0; i < queue->count; i++) {
        struct rq_mapped_file *file = queue->files[i];
        size_t valid = (size_t)(end - file->start);
        valid = valid > file->size ? file->size : valid;
        rq_mapped_file_set_written(file, valid);
        file->flushed = valid;
    }
    return st;
}

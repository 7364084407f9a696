/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Files of a store that are only read. None is kept open: a store may have more queues than a
 * process may have descriptors.
 */
#include "store/offline_files.h"

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
#include "base/mem.h"
#include "base/slice.h"
#include "base/sys.h"
#include "store/mapped_file.h"

/* ---- trouble ---- */

static void note(struct rq_offline_trouble *trouble, rmq_status st, rmq_error *err)
{
    if (trouble->st == RMQ_OK) {
        trouble->st = st;
        trouble->err = err;
    } else {
        rmq_error_destroy(err);
    }
}

rmq_status rq_offline_take_trouble(struct rq_offline_trouble *trouble, rmq_error **err)
{
    rmq_status st = trouble->st;
    if (err && trouble->err) {
        *err = trouble->err;
    } else {
        rmq_error_destroy(trouble->err);
    }
    *trouble = (struct rq_offline_trouble){0};
    return st;
}

/* ---- reading ---- */

static int open_regular(const char *path, struct stat *info)
{
    int fd = rq_sys_open(path, O_RDONLY | O_NONBLOCK, 0); /* a pipe would wait */
    int error = fd >= 0 && fstat(fd, info) < 0 ? errno : 0;
    error = fd >= 0 && !error && !S_ISREG(info->st_mode) ? EINVAL : error;
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool path_of(const struct rq_offline_files *files, int64_t start, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%0*" PRId64, files->dir, files->digits, start) < PATH_MAX;
}

/* Bytes [at, at + n) into memory: 0, or the errno; ENODATA when there are fewer. */
static int read_all(int fd, char *to, size_t n, size_t at)
{
    while (n > 0) {
        ssize_t done = rq_sys_pread(fd, to, n, (off_t)at);
        if (done <= 0) {
            return done < 0 ? errno : ENODATA;
        }
        to += done;
        at += (size_t)done;
        n -= (size_t)done;
    }
    return 0;
}

static bool make_room(struct rq_offline_window *window, size_t n)
{
    if (n <= window->room) {
        return true;
    }
    char *data = rq_realloc(window->data, n);
    if (data) {
        window->data = data;
        window->room = n;
    }
    return data != NULL;
}

/* How much to read for n bytes at a place: no more than that, in pages, unless it goes on where the
 * window was. */
static size_t amount(const struct rq_offline_files *files, const struct rq_offline_window *window,
                     const struct rq_offline_file *file, size_t at, size_t n)
{
    bool goes_on = window->file == file && at >= window->from && at <= window->from + window->n;
    size_t want = (n + RQ_STORE_PAGE - 1) / RQ_STORE_PAGE * RQ_STORE_PAGE;
    want = goes_on && want < files->ahead ? files->ahead : want;
    return want < file->size - at ? want : file->size - at;
}

/* Moves the window to n bytes at a place. */
static bool fill(const struct rq_offline_files *files, struct rq_offline_window *window,
                 const struct rq_offline_file *file, size_t at, size_t n)
{
    char path[PATH_MAX];
    struct stat info = {0};
    rmq_error *err = NULL;
    size_t want = amount(files, window, file, at, n);
    window->file = NULL;
    if (!make_room(window, want)) {
        rmq_status st = rq_error_set(&err, RMQ_ERR_NOMEM, "no memory to read %s", files->dir);
        note(files->trouble, st, err);
        return false;
    }
    int fd = path_of(files, file->start, path) ? open_regular(path, &info) : -1;
    int error = fd < 0 ? errno : read_all(fd, window->data, want, at);
    if (fd >= 0) {
        close(fd);
    }
    if (error) {
        rmq_status st =
            rq_error_set(&err, error == ENOMEM ? RMQ_ERR_NOMEM : RMQ_ERR_IO, "read %s: %s", path,
                         error == ENODATA ? "it became shorter" : strerror(error));
        note(files->trouble, st, err);
        return false;
    }
    window->file = file;
    window->from = at;
    window->n = want;
    return true;
}

const char *rq_offline_read(const struct rq_offline_files *files, struct rq_offline_window *window,
                            const struct rq_offline_file *file, size_t at, size_t n)
{
    if (at > file->size || n > file->size - at) {
        return NULL;
    }
    bool there = window->file == file && at >= window->from && at - window->from <= window->n &&
                 n <= window->n - (at - window->from);
    return there || fill(files, window, file, at, n) ? window->data + (at - window->from) : NULL;
}

void rq_offline_window_free(struct rq_offline_window *window)
{
    rq_free(window->data);
    *window = (struct rq_offline_window){0};
}

/* ---- looking up ---- */

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

/* The file that holds an offset, NULL when none does. */
static const struct rq_offline_file *file_of(const struct rq_offline_files *files, int64_t offset)
{
    size_t i = file_before(files, offset);
    const struct rq_offline_file *file = i < files->count ? &files->files[i] : NULL;
    return file && (uint64_t)(offset - file->start) < file->size ? file : NULL;
}

size_t rq_offline_left(const struct rq_offline_files *files, int64_t offset)
{
    const struct rq_offline_file *file = file_of(files, offset);
    return file ? file->size - (size_t)(offset - file->start) : 0;
}

const char *rq_offline_at(const struct rq_offline_files *files, int64_t offset, size_t n)
{
    const struct rq_offline_file *file = file_of(files, offset);
    return file ? rq_offline_read(files, files->window, file, (size_t)(offset - file->start), n)
                : NULL;
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

/* ---- loading ---- */

static rmq_status add_file(struct rq_offline_files *files, const struct rq_offline_file *file,
                           rmq_error **err)
{
    if (files->count == files->cap) {
        size_t cap = files->cap > 0 ? files->cap * 2 : 2;
        struct rq_offline_file *list = rq_realloc(files->files, cap * sizeof *list);
        if (!list) {
            return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for the files of %s", files->dir);
        }
        files->files = list;
        files->cap = cap;
    }
    files->files[files->count++] = *file;
    return RMQ_OK;
}

static rmq_status load_file(struct rq_offline_files *files, const char *name, rmq_error **err)
{
    char path[PATH_MAX];
    struct stat info = {0};
    struct rq_offline_file file;
    if (!rq_slice_to_i64(rq_slice_str(name), &file.start) || file.start > RQ_STORE_OFFSET_MAX) {
        return RMQ_OK;
    }
    if (!path_of(files, file.start, path)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "path too long: %s", files->dir);
    }
    int fd = open_regular(path, &info);
    if (fd < 0) {
        return rq_error_set(err, RMQ_ERR_IO, "open %s: %s", path,
                            info.st_mode && !S_ISREG(info.st_mode) ? "not a file"
                                                                   : strerror(errno));
    }
    close(fd);
    file.size = (size_t)info.st_size;
    return add_file(files, &file, err);
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

static rmq_status init(struct rq_offline_files *files, const char *dir, int digits, size_t ahead,
                       struct rq_offline_trouble *trouble, rmq_error **err)
{
    *files = (struct rq_offline_files){.dir = rq_strdup(dir),
                                       .digits = digits,
                                       .ahead = ahead,
                                       .window = rq_calloc(1, sizeof(struct rq_offline_window)),
                                       .trouble = trouble};
    return files->dir && files->window
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_NOMEM, "no memory for the files of %s", dir);
}

rmq_status rq_offline_files_load(struct rq_offline_files *files, const char *dir, int digits,
                                 size_t ahead, struct rq_offline_trouble *trouble, rmq_error **err)
{
    rmq_status st = init(files, dir, digits, ahead, trouble, err);
    DIR *d = st == RMQ_OK ? opendir(dir) : NULL;
    if (!d) {
        return st != RMQ_OK || errno == ENOENT
                   ? st
                   : rq_error_set(err, RMQ_ERR_IO, "open %s: %s", dir, strerror(errno));
    }
    size_t length = (size_t)digits;
    for (struct dirent *e = readdir(d); e && st == RMQ_OK; e = readdir(d)) {
        if (strlen(e->d_name) == length && strspn(e->d_name, "0123456789") == length) {
            st = load_file(files, e->d_name, err);
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
    if (files->window) {
        rq_offline_window_free(files->window);
    }
    rq_free(files->window);
    rq_free(files->files);
    rq_free(files->dir);
    *files = (struct rq_offline_files){0};
}

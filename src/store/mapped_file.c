/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Mapped files: opening, reserving, flushing, counted unmapping. Threads as said at each function
 * in the header. */
#include "store/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

void rq_mapped_file_retain(struct rq_mapped_file *file)
{
    atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
}

void rq_mapped_file_release(struct rq_mapped_file *file)
{
    if (!file || atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (file->data) {
        rq_sys_munmap(file->data, file->size);
    }
    rq_mapped_file_close_fd(file);
    if (file->length_fd >= 0) {
        rq_fork_close(file->length_fd);
    }
    rq_free(file->path);
    rq_free(file);
}

void rq_mapped_file_close_fd(struct rq_mapped_file *file)
{
    if (file->fd >= 0) {
        rq_fork_close(file->fd);
        file->fd = -1;
    }
}

/* Only a help: a hole that cannot be mapped stays what it is. */
static void map_zeros(struct rq_mapped_file *file, off_t from, off_t upto)
{
    if (upto > from) {
        rq_sys_mmap_zeros(file->data + from, (size_t)(upto - from));
    }
}

/* Where reading a hole takes a block, a full file system would end the process (SIGBUS): holes from
 * a place on are mapped as zeros until they are reserved. */
static void map_holes(struct rq_mapped_file *file, int fd, size_t from)
{
    off_t size = (off_t)file->size;
    off_t hole = file->holes_take_room ? lseek(fd, (off_t)from, SEEK_HOLE) : -1;
    while (hole >= 0 && hole < size) {
        off_t data = lseek(fd, hole, SEEK_DATA);
        map_zeros(file, hole, data < 0 ? size : data);
        hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
    }
}

static rmq_status io_error(rmq_error **err, const char *what, const char *path, int error)
{
    return rq_error_set(err, rq_store_io_status(error), "%s %s: %s", what, path, strerror(error));
}

/* Each read of many messages asks for the length, which by a path takes ten times as long. Not when
 * a log of very many files could take the descriptors that connections need. */
static int open_for_length(const char *path)
{
    struct rlimit limit;
    int fd = rq_sys_open(path, O_RDONLY, 0);
    if (fd < 0) {
        return -1;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd >= limit.rlim_cur / 4) {
        close(fd);
        return -1;
    }
    rq_fork_hide(fd);
    return fd;
}

/* Length of the open file, made right for a new one: fresh is set for that. */
static rmq_status check_size(struct rq_mapped_file *file, bool *fresh, rmq_error **err)
{
    struct stat info;
    if (fstat(file->fd, &info) < 0) {
        return io_error(err, "stat", file->path, errno);
    }
    if (info.st_size == (off_t)file->size) {
        atomic_store_explicit(&file->written, file->size, memory_order_relaxed);
        file->flushed = file->size;
        file->has_name = true;
        return RMQ_OK;
    }
    if (info.st_size != 0) {
        return rq_error_set(err, RMQ_ERR_CORRUPT, "%s has %lld bytes, expected %zu", file->path,
                            (long long)info.st_size, file->size);
    }
    *fresh = true;
    int error = rq_disk_fault(file->disk, RQ_DISK_ALLOCATE);
    if (!error && rq_sys_ftruncate(file->fd, (off_t)file->size) < 0) {
        error = errno;
    }
    return error ? io_error(err, "set length of", file->path, error) : RMQ_OK;
}

static struct rq_mapped_file *new_file(const char *path, int64_t start, size_t size,
                                       const struct rq_mapped_file_kind *kind)
{
    struct rq_mapped_file *file = rq_calloc(1, sizeof *file);
    if (!file) {
        return NULL;
    }
    atomic_init(&file->refs, 1);
    file->fd = -1;
    file->length_fd = -1;
    file->start = start;
    file->size = size;
    file->first_step = kind->first_step;
    file->last_step = kind->last_step;
    file->keeps_fd = kind->keeps_fd;
    file->syncs_name = kind->syncs_name;
    file->disk = kind->disk;
    file->path = rq_strdup(path);
    if (!file->path) {
        rq_mapped_file_release(file);
        return NULL;
    }
    return file;
}

rmq_status rq_mapped_file_open(const char *path, int64_t start, size_t size,
                               const struct rq_mapped_file_kind *kind, bool create,
                               struct rq_mapped_file **out, rmq_error **err)
{
    struct rq_mapped_file *file = new_file(path, start, size, kind);
    if (!file) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for %s", path);
    }
    int error = rq_disk_fault(file->disk, RQ_DISK_MAP);
    file->fd = error ? -1 : rq_sys_open(path, O_RDWR | (create ? O_CREAT : 0), 0644);
    rmq_status st = RMQ_OK;
    if (file->fd < 0) {
        st = io_error(err, "open", path, error ? error : errno);
    } else {
        rq_fork_hide(file->fd);
    }
    bool fresh = false;
    if (st == RMQ_OK) {
        st = check_size(file, &fresh, err);
    }
    if (st == RMQ_OK) {
        file->data = rq_sys_mmap_file(file->fd, size, true);
        st = file->data ? RMQ_OK : io_error(err, "map", path, errno);
    }
    if (st == RMQ_OK) {
        file->holes_take_room = rq_sys_is_tmpfs(file->fd);
        map_holes(file, file->fd, 0);
    }
    if (st != RMQ_OK) {
        if (create && fresh) {
            rq_sys_unlink(path);
        }
        rq_mapped_file_release(file);
        return st;
    }
    if (kind->page_by_page && rq_mapped_file_written(file) == 0) {
        rq_mapped_file_new_from(file, 0);
    }
    if (kind->keeps_fd) {
        file->length_fd = open_for_length(path);
    }
    if (!kind->keeps_fd || rq_mapped_file_written(file) == size) {
        rq_mapped_file_close_fd(file); /* an old file is hardly written again */
    }
    *out = file;
    return RMQ_OK;
}

/* One try: blocks for the first upto bytes. Returns 0 or an errno. */
static int reserve_to(struct rq_mapped_file *file, int fd, size_t upto)
{
    int error = rq_disk_fault(file->disk, RQ_DISK_ALLOCATE);
    if (error || rq_sys_fallocate(fd, (off_t)upto) < 0) {
        return error ? error : errno;
    }
    size_t before = atomic_load_explicit(&file->reserved, memory_order_relaxed);
    if (file->holes_take_room &&
        rq_sys_mmap_over(fd, (off_t)before, file->data + before, upto - before) < 0) {
        return errno;
    }
    atomic_store_explicit(&file->reserved, upto, memory_order_release);
    return 0;
}

static size_t page_begin(size_t at)
{
    return at - at % rq_sys_page();
}

static size_t page_end(size_t at)
{
    return page_begin(at + rq_sys_page() - 1);
}

static size_t next_step(const struct rq_mapped_file *file, size_t upto)
{
    size_t step = atomic_load_explicit(&file->reserved, memory_order_relaxed);
    step = step < file->first_step ? file->first_step : step;
    step = step > file->last_step ? file->last_step : step;
    size_t target = page_end(upto + step);
    return target > file->size ? file->size : target;
}

rmq_status rq_mapped_file_reserve(struct rq_mapped_file *file, size_t upto, rmq_error **err)
{
    if (rq_mapped_file_has_room(file, upto)) {
        return RMQ_OK;
    }
    int fd = file->fd >= 0 ? file->fd : rq_sys_open(file->path, O_RDWR, 0);
    if (fd < 0) {
        return io_error(err, "open", file->path, errno);
    }
    rq_fork_hide(fd);
    int error = reserve_to(file, fd, next_step(file, upto));
    if (error == ENOSPC || error == EDQUOT) { /* a smaller piece may still fit */
        size_t end = page_end(upto);
        error = reserve_to(file, fd, end > file->size ? file->size : end);
    }
    if (fd != file->fd && file->keeps_fd) { /* else an append may be reading it */
        file->fd = fd;
    } else if (fd != file->fd) {
        rq_fork_close(fd);
    }
    return error == 0 ? RMQ_OK : io_error(err, "reserve space in", file->path, error);
}

static void advise_reading(struct rq_mapped_file *file, size_t from, size_t upto)
{
    bool at_random = atomic_load_explicit(&file->at_random, memory_order_relaxed);
    from = page_begin(from);
    madvise(file->data + from, upto - from, at_random ? MADV_RANDOM : MADV_NORMAL);
}

void rq_mapped_file_read_ahead(struct rq_mapped_file *file, bool on)
{
    atomic_store_explicit(&file->at_random, !on, memory_order_relaxed);
    advise_reading(file, 0, file->size);
}

void rq_mapped_file_new_from(struct rq_mapped_file *file, size_t from)
{
    size_t page = page_end(from);
    if (page < file->size) {
        madvise(file->data + page, file->size - page, MADV_RANDOM);
    }
}

static void tell_unreadable(struct rq_mapped_file *file)
{
    if (!atomic_exchange_explicit(&file->told, true, memory_order_relaxed)) {
        RQ_LOG(ERROR, "a file of the store cannot be read any more", "path=%s", file->path);
    }
}

bool rq_mapped_file_is_long_enough(struct rq_mapped_file *file)
{
    struct stat info; /* one that was deleted is whole as long as it is mapped */
    off_t length = (off_t)file->size;
    if (file->length_fd >= 0) {
        length = lseek(file->length_fd, 0, SEEK_END);
    } else if (stat(file->path, &info) == 0) {
        length = info.st_size;
    }
    bool is = length >= (off_t)file->size;
    if (!is) {
        tell_unreadable(file);
    }
    return is;
}

void rq_mapped_file_touch(struct rq_mapped_file *file, size_t from, size_t upto)
{
    from = page_begin(from);
#ifdef MADV_POPULATE_WRITE
    madvise(file->data + from, upto - from, MADV_POPULATE_WRITE);
#endif
    advise_reading(file, from, upto);
}

int rq_mapped_file_write(const struct rq_mapped_file *file, size_t at, const char *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = rq_sys_pwrite(file->fd, p + done, n - done, (off_t)(at + done));
        if (put <= 0) {
            return put < 0 ? errno : EIO;
        }
        done += (size_t)put;
    }
    return 0;
}

/* By an open file of its own, since the system tells an error of writing once to each open file:
 * the map's is for the flusher to hear. The map lets go of the pages before, of all at once: else
 * each that is written is taken from it singly. */
void rq_mapped_file_use_blocks(const struct rq_mapped_file *file, size_t from, size_t upto)
{
    int fd = rq_sys_open(file->path, O_RDWR, 0);
    if (fd >= 0) {
        rq_fork_hide(fd); /* it takes a while */
        madvise(file->data + page_begin(from), upto - page_begin(from), MADV_DONTNEED);
        (void)rq_sys_write_back(fd, (off_t)from, (off_t)(upto - from));
        rq_fork_close(fd);
    }
}

rmq_status rq_mapped_file_flush(struct rq_mapped_file *file, size_t upto, rmq_error **err)
{
    if (upto <= file->flushed) {
        return RMQ_OK;
    }
    size_t from = file->flushed / RQ_STORE_PAGE * RQ_STORE_PAGE;
    if (rq_disk_sync_map(file->disk, file->path, file->data, from, upto) < 0) {
        return io_error(err, "sync", file->path, errno);
    }
    if (file->syncs_name && !file->has_name) {
        if (rq_disk_sync_name(file->disk, file->path) < 0) {
            return io_error(err, "sync the directory of", file->path, errno);
        }
        file->has_name = true;
    }
    file->flushed = upto;
    return RMQ_OK;
}

/* A page that is not is lost, and reading it from a disk that fails could end the process. */
static bool in_memory(char *page)
{
    unsigned char is = 1;
    return mincore(page, 1, &is) < 0 || (is & 1);
}

void rq_mapped_file_redirty(struct rq_mapped_file *file, size_t from, size_t upto)
{
    for (size_t at = page_begin(from); at < upto; at += rq_sys_page()) {
        if (in_memory(file->data + at)) {
            volatile char *p = file->data + at;
            char same = *p;
            *p = same;
        }
    }
}

rmq_status rq_mapped_file_wipe(struct rq_mapped_file *file, size_t at, bool synced, rmq_error **err)
{
    int fd = rq_sys_open(file->path, O_RDWR, 0);
    if (fd < 0) {
        return io_error(err, "open", file->path, errno);
    }
    int error = 0;
    if (rq_sys_ftruncate(fd, (off_t)at) < 0 || rq_sys_ftruncate(fd, (off_t)file->size) < 0) {
        error = errno;
    }
    if (error == 0 && synced && rq_disk_sync_file(file->disk, file->path, fd) < 0) {
        error = errno;
    }
    map_holes(file, fd, page_begin(at));
    close(fd);
    atomic_store_explicit(&file->reserved, 0, memory_order_relaxed);
    return error == 0 ? RMQ_OK : io_error(err, "cut off the end of", file->path, error);
}

rmq_status rq_mapped_file_unlink(struct rq_mapped_file *file, rmq_error **err)
{
    if (rq_sys_unlink(file->path) < 0 && errno != ENOENT) {
        return io_error(err, "remove", file->path, errno);
    }
    return RMQ_OK;
}

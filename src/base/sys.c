/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* File system calls, wrapped: EINTR handled, faults injected for tests. Any thread. */
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

/* Faults for tests. atomic: relaxed, set before the threads that they concern start their work. */
static struct {
    atomic_ullong at; /* 0 = none */
    atomic_int error;
    atomic_bool sticky;
} faults[RQ_SYS_OPS];

void rq_sys_fail(enum rq_sys_op op, uint64_t n, int error, bool every_later)
{
    atomic_store_explicit(&faults[op].error, error, memory_order_relaxed);
    atomic_store_explicit(&faults[op].sticky, every_later, memory_order_relaxed);
    atomic_store_explicit(&faults[op].at, n, memory_order_relaxed);
}

/* Whether a fault is due for op; errno is then set. */
static bool faulted(enum rq_sys_op op)
{
    unsigned long long n = atomic_load_explicit(&faults[op].at, memory_order_relaxed);
    while (n > 0) {
        bool stay = n == 1 && atomic_load_explicit(&faults[op].sticky, memory_order_relaxed);
        if (stay || atomic_compare_exchange_weak_explicit(
                        &faults[op].at, &n, n - 1, memory_order_relaxed, memory_order_relaxed)) {
            if (n == 1) {
                errno = atomic_load_explicit(&faults[op].error, memory_order_relaxed);
                return true;
            }
            return false;
        }
    }
    return false;
}

int rq_sys_open(const char *path, int flags, mode_t mode)
{
    if (faulted(RQ_SYS_OPEN)) {
        return -1;
    }
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

ssize_t rq_sys_write(int fd, const void *p, size_t n)
{
    if (faulted(RQ_SYS_WRITE)) {
        return -1;
    }
    ssize_t done;
    do {
        done = write(fd, p, n);
    } while (done < 0 && errno == EINTR);
    return done;
}

ssize_t rq_sys_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (faulted(RQ_SYS_WRITE)) {
        return -1;
    }
    ssize_t done;
    do {
        done = pwrite(fd, p, n, at);
    } while (done < 0 && errno == EINTR);
    return done;
}

ssize_t rq_sys_pread(int fd, void *p, size_t n, off_t at)
{
    ssize_t done;
    do {
        done = pread(fd, p, n, at);
    } while (done < 0 && errno == EINTR);
    return done;
}

int rq_sys_fdatasync(int fd)
{
    if (faulted(RQ_SYS_SYNC)) {
        return -1;
    }
    int rc;
    do {
        rc = fdatasync(fd);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

size_t rq_sys_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int rq_sys_msync(void *p, size_t n)
{
    size_t before = (uintptr_t)p % rq_sys_page();
    return faulted(RQ_SYS_SYNC) ? -1 : msync((char *)p - before, n + before, MS_SYNC);
}

int rq_sys_write_back(int fd, off_t from, off_t n)
{
    return sync_file_range(fd, from, n,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                               SYNC_FILE_RANGE_WAIT_AFTER);
}

int rq_sys_syncfs(int fd)
{
    return syncfs(fd);
}

/* A child of fork has no use for it, and would keep the blocks of a file that is deleted. */
static void keep_from_children(void *p, size_t size)
{
    (void)madvise(p, size, MADV_DONTFORK);
}

void *rq_sys_mmap_file(int fd, size_t size, bool writable)
{
    if (faulted(RQ_SYS_MMAP)) {
        return NULL;
    }
    void *p = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    keep_from_children(p, size);
    return p;
}

int rq_sys_mmap_over(int fd, off_t from, void *p, size_t size)
{
    if (faulted(RQ_SYS_MMAP)) {
        return -1;
    }
    void *at = mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, from);
    if (at == MAP_FAILED) {
        return -1;
    }
    keep_from_children(p, size);
    return 0;
}

int rq_sys_mmap_zeros(void *p, size_t size)
{
    void *at =
        mmap(p, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return at == MAP_FAILED ? -1 : 0;
}

bool rq_sys_is_tmpfs(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

int rq_sys_munmap(void *p, size_t n)
{
    return munmap(p, n);
}

static int rename_file(const char *from, const char *to)
{
    return faulted(RQ_SYS_RENAME) ? -1 : rename(from, to);
}

static int link_file(const char *from, const char *to)
{
    return faulted(RQ_SYS_LINK) ? -1 : link(from, to);
}

int rq_sys_ftruncate(int fd, off_t size)
{
    if (faulted(RQ_SYS_ALLOCATE)) {
        return -1;
    }
    int rc;
    do {
        rc = ftruncate(fd, size);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

int rq_sys_fallocate(int fd, off_t size)
{
    if (faulted(RQ_SYS_ALLOCATE)) {
        return -1;
    }
    int rc;
    do {
        rc = fallocate(fd, 0, 0, size);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        struct stat info;
        return fstat(fd, &info) == 0 && info.st_size >= size ? 0 : rq_sys_ftruncate(fd, size);
    }
    return rc;
}

int rq_sys_mkdirs(const char *path)
{
    char *copy = rq_strdup(path);
    if (!copy) {
        errno = ENOMEM;
        return -1;
    }
    int rc = 0;
    for (char *p = copy + 1; rc == 0; p++) {
        if (*p == '/' || *p == '\0') {
            char was = *p;
            *p = '\0';
            rc = mkdir(copy, 0755) < 0 && errno != EEXIST ? -1 : 0;
            *p = was;
        }
        if (*p == '\0') {
            break;
        }
    }
    rq_free(copy);
    return rc;
}

char *rq_sys_absolute(const char *path)
{
    char dir[PATH_MAX];
    struct rq_buf full;
    rq_buf_init(&full, 0);
    if (path[0] != '/') {
        if (!getcwd(dir, sizeof dir)) {
            return NULL;
        }
        rq_buf_addf(&full, "%s/", dir);
    }
    rq_buf_add_str(&full, path);
    char *absolute = rq_buf_detach(&full);
    if (!absolute) {
        errno = ENOMEM;
    }
    return absolute;
}

int rq_sys_unlink(const char *path)
{
    return unlink(path);
}

/* One entry of a directory that is being removed: files here, directories by the caller's work
 * list. */
static int remove_entry(int dir, const char *name, struct rq_buf *subdirs)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -1;
    }
    rq_buf_add(subdirs, name, strlen(name) + 1);
    if (rq_buf_status(subdirs)) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* Removes the files of path and lists its directories. */
static int empty_dir(const char *path, struct rq_buf *subdirs)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return errno == ENOENT ? 0 : -1;
    }
    int rc = 0;
    for (struct dirent *e = readdir(dir); e && rc == 0; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            rc = remove_entry(dirfd(dir), e->d_name, subdirs);
        }
    }
    closedir(dir);
    return rc;
}

/* Depth is that of trees of our own making, so plain recursion over directories is bounded by
 * this. */
#define RMTREE_MAX_DEPTH 16

static int rmtree(const char *path, int depth)
{
    if (depth > RMTREE_MAX_DEPTH) {
        errno = ELOOP;
        return -1;
    }
    struct rq_buf subdirs;
    rq_buf_init(&subdirs, 0);
    int rc = empty_dir(path, &subdirs);
    for (size_t at = 0; rc == 0 && at < subdirs.len; at += strlen(subdirs.data + at) + 1) {
        struct rq_buf sub;
        rq_buf_init(&sub, 0);
        rq_buf_addf(&sub, "%s/%s", path, subdirs.data + at);
        const char *below = rq_buf_cstr(&sub);
        if (rq_buf_status(&sub)) { /* an empty path would be taken for a tree that is gone */
            errno = ENOMEM;
            rc = -1;
        } else {
            rc = rmtree(below, depth + 1);
        }
        rq_buf_free(&sub);
    }
    rq_buf_free(&subdirs);
    return rc == 0 && rmdir(path) < 0 && errno != ENOENT ? -1 : rc;
}

int rq_sys_rmtree(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    return S_ISDIR(st.st_mode) ? rmtree(path, 0) : unlink(path);
}

static ssize_t read_some(int fd, void *p, size_t n)
{
    ssize_t done;
    do {
        done = read(fd, p, n);
    } while (done < 0 && errno == EINTR);
    return done;
}

static rmq_status read_whole(const char *path, size_t max, bool stream, struct rq_buf *out,
                             rmq_error **err)
{
    int fd = rq_sys_open(path, O_RDONLY, 0);
    if (fd < 0) {
        rmq_status st = errno == ENOENT ? RMQ_ERR_NOT_FOUND : RMQ_ERR_IO;
        return rq_error_set(err, st, "open %s: %s", path, strerror(errno));
    }
    rmq_status st = RMQ_OK;
    for (;;) {
        if (!rq_buf_reserve(out, 65536)) {
            st = rq_error_set(err, rq_buf_status(out), "read %s: %s", path,
                              rmq_status_text(rq_buf_status(out)));
            break;
        }
        char *to = out->data + out->len;
        ssize_t n =
            stream ? read_some(fd, to, 65536) : rq_sys_pread(fd, to, 65536, (off_t)out->len);
        if (n <= 0) {
            st = n < 0 ? rq_error_set(err, RMQ_ERR_IO, "read %s: %s", path, strerror(errno)) : st;
            break;
        }
        out->len += (size_t)n;
        if (out->len > max) {
            st = rq_error_set(err, RMQ_ERR_TOO_LARGE, "read %s: more than %zu bytes", path, max);
            break;
        }
    }
    close(fd);
    return st;
}

rmq_status rq_sys_read_file(const char *path, size_t max, struct rq_buf *out, rmq_error **err)
{
    return read_whole(path, max, false, out, err);
}

rmq_status rq_sys_read_stream(const char *path, size_t max, struct rq_buf *out, rmq_error **err)
{
    return read_whole(path, max, true, out, err);
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t done = rq_sys_write(fd, p, n);
        if (done < 0) {
            return -1;
        }
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

int rq_sys_sync_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash && slash != path ? rq_strndup(path, (size_t)(slash - path))
                                       : rq_strdup(slash ? "/" : ".");
    if (!dir) {
        errno = ENOMEM;
        return -1;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rq_free(dir);
    if (fd < 0) {
        return -1;
    }
    int rc = fsync(fd);
    int error = errno;
    close(fd);
    errno = error;
    /* a file system whose directories cannot be synced */
    return rc < 0 && error == EINVAL ? 0 : rc;
}

static int write_synced(const char *path, const void *p, size_t n)
{
    int fd = rq_sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) {
        return -1;
    }
    int rc = write_all(fd, p, n) < 0 || rq_sys_fdatasync(fd) < 0 ? -1 : 0;
    int saved = errno;
    if (close(fd) < 0 && rc == 0) {
        return -1;
    }
    errno = saved;
    return rc;
}

static int copy_synced(const char *from, const char *to)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rmq_status st = rq_sys_read_file(from, RQ_BUF_MAX_DEFAULT, &text, NULL);
    int rc = st ? -1 : write_synced(to, text.data, text.len);
    int error = errno;
    rq_buf_free(&text);
    errno = st == RMQ_ERR_NOT_FOUND ? ENOENT : st ? EIO : error;
    return rc;
}

static bool has_no_links(int error)
{
    return error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK;
}

/* The present file stays reachable as .bak at every moment: a second name for it, made before the
 * new one takes its place. Where the file system knows no second names (vfat, exFAT): a copy. */
static int keep_backup(const char *path, const char *bak, const char *bak_tmp)
{
    unlink(bak_tmp);
    int rc = link_file(path, bak_tmp);
    if (rc < 0 && has_no_links(errno)) {
        rc = copy_synced(path, bak_tmp);
    }
    if (rc < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    return rename_file(bak_tmp, bak);
}

rmq_status rq_sys_write_file(const char *path, const void *p, size_t n, bool backup,
                             rmq_error **err)
{
    struct rq_buf names;
    rq_buf_init(&names, 0);
    rq_buf_addf(&names, "%s.tmp%c%s.bak%c%s.bak.tmp", path, 0, path, 0, path);
    const char *tmp = rq_buf_cstr(&names);
    if (rq_buf_status(&names)) {
        rq_buf_free(&names);
        return rq_error_set(err, RMQ_ERR_NOMEM, "write %s: out of memory", path);
    }
    const char *bak = tmp + strlen(tmp) + 1;
    const char *bak_tmp = bak + strlen(bak) + 1;
    rmq_status st = RMQ_OK;
    if (write_synced(tmp, p, n) < 0 || (backup && keep_backup(path, bak, bak_tmp) < 0) ||
        rename_file(tmp, path) < 0) {
        int e = errno;
        st = rq_error_set(err, e == ENOSPC ? RMQ_ERR_DISK_FULL : RMQ_ERR_IO, "write %s: %s", path,
                          strerror(e));
        unlink(tmp);
    } else {
        (void)rq_sys_sync_dir_of(path);
    }
    rq_buf_free(&names);
    return st;
}

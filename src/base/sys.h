/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * System calls on files, wrapped so that tests can make the Nth one fail, stop short or lie. Each
 * wrapper handles EINTR and returns as the call does (-1 with errno).
 */
#ifndef RQ_BASE_SYS_H
#define RQ_BASE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rmq/error.h>

#include "base/buf.h"

enum rq_sys_op {
    RQ_SYS_OPEN,
    RQ_SYS_WRITE,
    RQ_SYS_SYNC,
    RQ_SYS_MMAP,
    RQ_SYS_RENAME,
    RQ_SYS_LINK,
    RQ_SYS_ALLOCATE,
    RQ_SYS_OPS
};

int rq_sys_open(const char *path, int flags, mode_t mode);
ssize_t rq_sys_write(int fd, const void *p, size_t n);
ssize_t rq_sys_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t rq_sys_pread(int fd, void *p, size_t n, off_t at);
int rq_sys_fdatasync(int fd);
/* Of memory, in bytes: 4096 on most machines, up to 65536 on others. What is mapped or advised
 * begins with one. */
size_t rq_sys_page(void);
int rq_sys_msync(void *p, size_t n); /* MS_SYNC; p need not be a page's begin */
/* [from, from + n) is written back; it may still be in the disk's own cache */
int rq_sys_write_back(int fd, off_t from, off_t n);
int rq_sys_syncfs(int fd); /* the whole file system that an open file is on */
/* Maps of files are not there in the child of a fork. NULL on failure, with errno. */
void *rq_sys_mmap_file(int fd, size_t size, bool writable);
/* Bytes of a file from a page's begin on are mapped writable at p, in place of what is there. */
int rq_sys_mmap_over(int fd, off_t from, void *p, size_t size);
/* Zeros that take no memory take the place of what is mapped at p, a page's begin; read only. */
int rq_sys_mmap_zeros(void *p, size_t size);
int rq_sys_munmap(void *p, size_t n);
bool rq_sys_is_tmpfs(int fd);             /* whether an open file is on one */
int rq_sys_sync_dir_of(const char *path); /* makes the name of path durable: syncs its directory */
/* reserves blocks; falls back to ftruncate where unsupported */
int rq_sys_fallocate(int fd, off_t size);
int rq_sys_ftruncate(int fd, off_t size);
int rq_sys_mkdirs(const char *path); /* with parents; 0 also when it exists */
/* The path from the root on, so that it holds when the process changes its directory. NULL on
 * failure, with errno; freed with rq_free. */
char *rq_sys_absolute(const char *path);
int rq_sys_unlink(const char *path);
int rq_sys_rmtree(const char *path); /* removes a directory tree */

/* Whole file into buf (appended). RMQ_ERR_NOT_FOUND when there is none. */
rmq_status rq_sys_read_file(const char *path, size_t max, struct rq_buf *out, rmq_error **err);

/* The same of what may be a pipe: waits for its end. */
rmq_status rq_sys_read_stream(const char *path, size_t max, struct rq_buf *out, rmq_error **err);

/* Replaces a file safely: write path.tmp, sync, keep the old one as path.bak when backup, rename,
 * sync the directory. */
rmq_status rq_sys_write_file(const char *path, const void *p, size_t n, bool backup,
                             rmq_error **err);

/* Tests: the nth call of op from now on fails with error (n 1 = next; 0 clears); every_later keeps
 * failing. */
void rq_sys_fail(enum rq_sys_op op, uint64_t n, int error, bool every_later);

#endif

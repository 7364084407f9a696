/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Locks of open files: they stand against the record lock that Java takes, and against a second
 * store of this process. */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fork.h"
#include "base/sys.h"
#include "store/mapped_file.h"

#define FILE_LOCK "lock"
#define LOCK_TEXT "lock"

static const struct flock first_byte = {.l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

/* Closing alone would leave it to a child that was forked before the descriptor was hidden. */
static void let_go(int fd)
{
    struct flock range = first_byte;
    range.l_type = F_UNLCK;
    (void)fcntl(fd, F_OFD_SETLK, &range);
    rq_fork_close(fd);
}

static rmq_status take(const char *root, const char *path, int fd, rmq_error **err)
{
    struct flock range = first_byte;
    range.l_type = F_WRLCK;
    if (fcntl(fd, F_OFD_SETLK, &range) < 0) {
        return errno == EAGAIN || errno == EACCES
                   ? rq_error_set(err, RMQ_ERR_EXISTS,
                                  "the store in %s is in use by another broker", root)
                   : rq_error_set(err, RMQ_ERR_IO, "lock %s: %s", path, strerror(errno));
    }
    if (rq_sys_pwrite(fd, LOCK_TEXT, strlen(LOCK_TEXT), 0) < 0) {
        return rq_error_set(err, rq_store_io_status(errno), "write %s: %s", path, strerror(errno));
    }
    return RMQ_OK;
}

rmq_status rq_store_lock(const char *root, struct rq_store_lock *lock, rmq_error **err)
{
    char path[PATH_MAX];
    if (lock->fd >= 0) {
        return RMQ_OK;
    }
    snprintf(path, sizeof path, "%s/" FILE_LOCK, root);
    int fd = rq_sys_open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0) {
        return rq_error_set(err, rq_store_io_status(errno), "open %s: %s", path, strerror(errno));
    }
    rq_fork_hide(fd);
    rmq_status st = take(root, path, fd, err);
    if (st == RMQ_OK) {
        lock->fd = fd;
    } else {
        let_go(fd);
    }
    return st;
}

rmq_status rq_store_lock_log(const char *dir, struct rq_store_lock *lock, rmq_error **err)
{
    if (lock->log_fd >= 0) {
        return RMQ_OK;
    }
    int fd = rq_sys_open(dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return rq_error_set(err, rq_store_io_status(errno), "open %s: %s", dir, strerror(errno));
    }
    rq_fork_hide(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        rq_fork_close(fd);
        return rq_error_set(err, RMQ_ERR_EXISTS, "the commit log in %s is in use by another broker",
                            dir);
    }
    lock->log_fd = fd;
    return RMQ_OK;
}

void rq_store_unlock(struct rq_store_lock *lock)
{
    if (lock->log_fd >= 0) {
        (void)flock(lock->log_fd, LOCK_UN);
        rq_fork_close(lock->log_fd);
    }
    if (lock->fd >= 0) {
        let_go(lock->fd);
    }
    *lock = RQ_STORE_UNLOCKED;
}

bool rq_store_is_locked(const char *root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" FILE_LOCK, root);
    int fd = rq_sys_open(path, O_RDONLY, 0);
    if (fd < 0) {
        return false;
    }
    struct flock range = first_byte;
    range.l_type = F_RDLCK;
    bool taken = fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    close(fd);
    return taken;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The locks of a store. That of its directory is one byte of the file "lock", which Java locks, too.
 * The commit log may lie elsewhere, and two stores may be told the same one: its directory is locked
 * itself, as any file in there is taken for one of the log. Any thread. Counterpart:
 * DefaultMessageStore.lock.
 */
#ifndef RQ_STORE_LOCK_H
#define RQ_STORE_LOCK_H

#include <stdbool.h>

#include <rmq/error.h>

/* Descriptors; -1 = not held. */
struct rq_store_lock {
    int fd;     /* the file "lock" */
    int log_fd; /* the commit log's directory */
};
#define RQ_STORE_UNLOCKED ((struct rq_store_lock){.fd = -1, .log_fd = -1})

/* Takes the lock of the directory, making the file when it is missing, unless it is held already;
 * it is held until rq_store_unlock. RMQ_ERR_EXISTS when another process or store has it,
 * RMQ_ERR_IO, RMQ_ERR_DISK_FULL. */
rmq_status rq_store_lock(const char *root, struct rq_store_lock *lock, rmq_error **err);

/* The same of the commit log's directory, which exists. RMQ_ERR_EXISTS, RMQ_ERR_IO. A file system
 * that can lock no directory is no error. */
rmq_status rq_store_lock_log(const char *dir, struct rq_store_lock *lock, rmq_error **err);

/* Gives back what is held. Not in the child of a fork, where the descriptors are closed. */
void rq_store_unlock(struct rq_store_lock *lock);

/* Whether somebody holds it. */
bool rq_store_is_locked(const char *root);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The lock on a store's directory: one byte of the file "lock", which Java locks, too. Any thread.
 * Counterpart: DefaultMessageStore.lock.
 */
#ifndef RQ_STORE_LOCK_H
#define RQ_STORE_LOCK_H

#include <stdbool.h>

#include <rmq/error.h>

/* Takes the lock, making the file when it is missing; it is held until rq_store_unlock. On a
 * failure *fd is -1: RMQ_ERR_EXISTS when another process or store has it, RMQ_ERR_IO,
 * RMQ_ERR_DISK_FULL. */
rmq_status rq_store_lock(const char *root, int *fd, rmq_error **err);

/* Gives the lock back and closes fd. Not in the child of a fork: its copy of fd is of the same
 * lock. */
void rq_store_unlock(int fd);

/* Whether somebody holds it. */
bool rq_store_is_locked(const char *root);

#endif

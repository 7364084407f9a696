/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Descriptors that a child of fork shall not have: as long as it lived it would hold the lock of a
 * store, the port of a server and the blocks of deleted files, also when its parent was killed. A
 * handler of pthread_atfork closes them in the child; it is installed with the first of them, so
 * never in a process that only uses the client. Any thread.
 */
#ifndef RQ_BASE_FORK_H
#define RQ_BASE_FORK_H

/* fd, just opened, is not for children. A fork in between still hands it on, and one with a very
 * large number always. */
void rq_fork_hide(int fd);

/* Closes a descriptor, hidden or not. */
void rq_fork_close(int fd);

/* What another one is about to close. */
void rq_fork_forget(int fd);

#endif

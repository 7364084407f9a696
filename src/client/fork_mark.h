/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Tells without a system call whether this process is a forked child of the one that made a handle:
 * a page of memory that the kernel wipes on fork (MADV_WIPEONFORK). No atfork handler is installed.
 * Any thread.
 */
#ifndef RQ_CLIENT_FORK_MARK_H
#define RQ_CLIENT_FORK_MARK_H

#include <stdbool.h>
#include <stdint.h>

/* Number of this process, never 0, different in a child. Handles keep it and compare. */
uint64_t rq_fork_mark(void);

static inline bool rq_forked_since(uint64_t mark)
{
    return rq_fork_mark() != mark;
}

#endif

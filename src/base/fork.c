/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Descriptors that a child of fork shall not have (see the header). */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define FDS_MAX   65536
#define WORD_BITS 32

/* One bit for each descriptor. atomic: relaxed; a fork is no moment that others could be ordered
 * by. Words of 64 bits have a lock on some machines, which a child may find taken for ever. */
static _Atomic uint32_t hidden_fds[FDS_MAX / WORD_BITS];
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* In the child, which has one thread. Nothing here but close may be called there. */
static void close_hidden(void)
{
    for (int i = 0; i < FDS_MAX / WORD_BITS; i++) {
        uint32_t word = atomic_load_explicit(&hidden_fds[i], memory_order_relaxed);
        if (word != 0) { /* what is only read is no page of the child's own */
            atomic_store_explicit(&hidden_fds[i], 0, memory_order_relaxed);
        }
        for (int bit = 0; word != 0; bit++, word >>= 1) {
            if (word & 1) {
                close(i * WORD_BITS + bit);
            }
        }
    }
}

static void install(void)
{
    (void)pthread_atfork(NULL, NULL, close_hidden);
}

void rq_fork_hide(int fd)
{
    (void)pthread_once(&fork_once, install);
    if (fd >= 0 && fd < FDS_MAX) {
        atomic_fetch_or_explicit(&hidden_fds[fd / WORD_BITS], (uint32_t)1 << fd % WORD_BITS,
                                 memory_order_relaxed);
    }
}

void rq_fork_forget(int fd)
{
    if (fd >= 0 && fd < FDS_MAX) {
        atomic_fetch_and_explicit(&hidden_fds[fd / WORD_BITS], ~((uint32_t)1 << fd % WORD_BITS),
                                  memory_order_relaxed);
    }
}

void rq_fork_close(int fd)
{
    rq_fork_forget(fd); /* first: once it is closed the number may be another's */
    close(fd);
}

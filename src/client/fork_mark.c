/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One page per process holds its number. After a fork the page reads as zero in the child, which
 * then takes a number of its own: the pid. Where the kernel cannot wipe, the pid is asked for each
 * time. Used by the client's handles; any thread.
 */
#include "client/fork_mark.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARK_BYTES 4096

static _Atomic(_Atomic uint64_t *) mark_page;

static _Atomic uint64_t *make_page(void)
{
    void *page = mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (madvise(page, MARK_BYTES, MADV_WIPEONFORK) != 0) {
        munmap(page, MARK_BYTES);
        return NULL;
    }
    _Atomic uint64_t *expected = NULL;
    _Atomic uint64_t *made = page;
    if (!atomic_compare_exchange_strong_explicit(&mark_page, &expected, made, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        munmap(page, MARK_BYTES);
        return expected;
    }
    return made;
}

uint64_t rq_fork_mark(void)
{
    _Atomic uint64_t *page = atomic_load_explicit(&mark_page, memory_order_acquire);
    if (!page) {
        page = make_page();
        if (!page) {
            return (uint64_t)getpid();
        }
    }
    uint64_t mark = atomic_load_explicit(page, memory_order_relaxed);
    if (mark == 0) {
        mark = (uint64_t)getpid();
        atomic_store_explicit(page, mark, memory_order_relaxed);
    }
    return mark;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Programs that start themselves again with one of the libraries of lib/preload/ before libc: for
 * what a switch inside the libraries cannot show. Such tests are skipped under sanitizers, whose
 * run-time wants to be the first library.
 */
#ifndef RQ_TESTS_LIB_PRELOAD_H
#define RQ_TESTS_LIB_PRELOAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Shared with preload/sync.c. */
struct tl_sync {
    _Atomic int64_t good_calls; /* so many go well before the first one fails; INT64_MAX = all */
    _Atomic int error;          /* errno of the others */
};

/* Shared with preload/page.c. */
struct tl_page {
    _Atomic int refused; /* calls that do not fit the pages */
};

/* First thing in main: returns in the process that has the library, with its shared bytes, all zero
 * at first (n bytes, until the process ends). name: "clock", "sync" or "page"; variable: which names
 * the file to it. NULL when this cannot be done: the reason is printed as a skip line. */
void *tl_preload(char **argv, const char *name, const char *variable, size_t n);

/* Shifts the wall clock of the process by ms from what it really is. shared: of tl_preload with
 * "clock". */
void tl_clock_shift(void *shared, int64_t ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Main of an end-to-end test: a list of cases, each a sentence and a function, each in a process of
 * its own with a deadline, so that a crash or a hang is one failed case. Prints "ok NAME", "FAIL
 * NAME: why" or "skip NAME: why", which scripts/run-tests counts.
 */
#ifndef RQ_TESTS_LIB_CASES_H
#define RQ_TESTS_LIB_CASES_H

#include <stdbool.h>
#include <stddef.h>

#include <rmq/error.h>

struct tl_case {
    const char *name;
    void (*run)(void);
    int seconds; /* deadline; 0 = 60 */
};

/* Runs all, or those that the arguments name. TL_FORK=no runs them in this process, for a debugger.
 * Returns what main returns. */
int tl_main(int argc, char **argv, const struct tl_case *cases, size_t count);

/* Ends the case. */
void tl_fail(const char *file, int line, const char *format, ...) RMQ_PRINTF(3, 4);
void tl_skip(const char *format, ...) RMQ_PRINTF(1, 2);

/* Fails with the words of the error unless st is RMQ_OK; destroys err. */
void tl_ok(const char *file, int line, const char *what, rmq_status st, rmq_error *err);

#define TL_CASE(function)                                                                          \
    {                                                                                              \
#function, function, 0                                                                     \
    }
#define TL_CHECK(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tl_fail(__FILE__, __LINE__, "%s", #condition);                                         \
        }                                                                                          \
    } while (0)
#define TL_EQUAL(a, b)                                                                             \
    do {                                                                                           \
        long long tl_a = (long long)(a);                                                           \
        long long tl_b = (long long)(b);                                                           \
        if (tl_a != tl_b) {                                                                        \
            tl_fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", #a, tl_a, #b, tl_b);          \
        }                                                                                          \
    } while (0)

/* TL_OK(rmq_producer_create(&options, &producer, &err)) with a variable rmq_error *err that is
 * NULL. */
#define TL_OK(call)                                                                                \
    do {                                                                                           \
        rmq_status tl_st = (call);                                                                 \
        tl_ok(__FILE__, __LINE__, #call, tl_st, err);                                              \
        err = NULL;                                                                                \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What a process uses now: threads, descriptors, memory, CPU. For tests that look for leaks and for
 * idle costs. */
#ifndef RQ_TESTS_LIB_USAGE_H
#define RQ_TESTS_LIB_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether memory may be judged: sanitizers keep freed memory and shadows of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TL_MEMORY_COUNTS false
#elif defined(__has_feature)
#define TL_MEMORY_COUNTS !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define TL_MEMORY_COUNTS true
#endif

struct tl_usage {
    int threads;
    int descriptors;
    long rss_kb;
    long peak_rss_kb;
    long anon_kb;   /* of rss_kb, what is not mapped from files */
    int64_t cpu_us; /* user + system */
};

struct tl_usage tl_usage_of(pid_t pid); /* 0 = this process; all -1 when it is gone */

/* Names of the threads, separated by blanks, into out. */
void tl_thread_names(pid_t pid, char *out, size_t room);

/* Waits until condition(arg) holds or timeout_ms passed; returns whether it holds. Looks every few
 * ms. */
bool tl_wait(bool (*condition)(void *arg), void *arg, int64_t timeout_ms);
int64_t tl_now_ms(void);   /* monotonic */
int64_t tl_wall_ms(void);  /* as the stamps and delays of messages */
void tl_pause(int64_t ms); /* lets time pass, where that is what the case is about */

#endif

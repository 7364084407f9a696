/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The allocator. The functions of the program's choice are set once before the first allocation;
 * afterwards they are only read, so no lock is needed. Counting and failing the Nth allocation are
 * for tests and cost one relaxed load otherwise.
 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/alloc.h>

static void *(*malloc_hook)(size_t) = malloc;
static void *(*realloc_hook)(void *, size_t) = realloc;
static void (*free_hook)(void *) = free;
static atomic_bool used;

/* Tests only. atomic: relaxed, counters that nothing else depends on. */
static atomic_int counting;
static atomic_size_t fail_at;
static atomic_size_t allocations;
static atomic_size_t live;

rmq_status rmq_set_allocator(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t),
                             void (*free_fn)(void *))
{
    if (!malloc_fn || !realloc_fn || !free_fn) {
        return RMQ_ERR_INVALID;
    }
    if (atomic_load_explicit(&used, memory_order_relaxed)) {
        return RMQ_ERR_STATE;
    }
    malloc_hook = malloc_fn;
    realloc_hook = realloc_fn;
    free_hook = free_fn;
    return RMQ_OK;
}

/* Whether this allocation is the one that a test wants to fail. */
static int should_fail(void)
{
    if (!atomic_load_explicit(&used, memory_order_relaxed)) {
        atomic_store_explicit(&used, true, memory_order_relaxed);
    }
    if (!atomic_load_explicit(&counting, memory_order_relaxed)) {
        return 0;
    }
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    size_t n = atomic_load_explicit(&fail_at, memory_order_relaxed);
    while (n > 0) {
        if (atomic_compare_exchange_weak_explicit(&fail_at, &n, n - 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return n == 1;
        }
    }
    return 0;
}

static void count_live(int more)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed)) {
        if (more) {
            atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
        } else {
            atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
        }
    }
}

void *rq_alloc(size_t size)
{
    if (should_fail()) {
        return NULL;
    }
    void *p = malloc_hook(size ? size : 1);
    if (p) {
        count_live(1);
    }
    return p;
}

void *rq_calloc(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) {
        return NULL;
    }
    void *p = rq_alloc(count * size);
    if (p) {
        memset(p, 0, count * size);
    }
    return p;
}

void *rq_realloc(void *p, size_t size)
{
    if (!p) {
        return rq_alloc(size);
    }
    if (should_fail()) {
        return NULL;
    }
    return realloc_hook(p, size ? size : 1);
}

void rq_free(void *p)
{
    if (p) {
        count_live(0);
        free_hook(p);
    }
}

char *rq_strndup(const char *text, size_t n)
{
    if (n == SIZE_MAX) {
        return NULL;
    }
    char *copy = rq_alloc(n + 1);
    if (copy) {
        if (n) {
            memcpy(copy, text, n);
        }
        copy[n] = '\0';
    }
    return copy;
}

char *rq_strdup(const char *text)
{
    return text ? rq_strndup(text, strlen(text)) : NULL;
}

size_t rq_mem_fail_at(size_t n)
{
    atomic_store_explicit(&fail_at, n, memory_order_relaxed);
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

size_t rq_mem_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}

void rq_mem_count(int on)
{
    atomic_store_explicit(&counting, on, memory_order_relaxed);
    atomic_store_explicit(&allocations, 0, memory_order_relaxed);
    atomic_store_explicit(&live, 0, memory_order_relaxed);
    atomic_store_explicit(&fail_at, 0, memory_order_relaxed);
}

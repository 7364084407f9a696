/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The allocator: everything of ours is allocated here, so that a program can bring its own
 * functions and tests can make the Nth call fail. Any thread.
 */
#ifndef RQ_BASE_MEM_H
#define RQ_BASE_MEM_H

#include <stddef.h>

#include <rmq/export.h>

void *rq_alloc(size_t size) RMQ_MUST_USE;
void *rq_calloc(size_t count, size_t size) RMQ_MUST_USE; /* NULL also when count * size overflows */
void *rq_realloc(void *p, size_t size) RMQ_MUST_USE;
void rq_free(void *p);
char *rq_strdup(const char *text) RMQ_MUST_USE;
char *rq_strndup(const char *text, size_t n) RMQ_MUST_USE; /* copies n bytes and adds NUL */

/* Tests: the Nth allocation from now on fails (1 = the next), once; 0 switches it off. Returns
 * allocations counted so far. */
size_t rq_mem_fail_at(size_t n);
size_t rq_mem_live(void); /* allocations not freed, counted only while rq_mem_count(1) */
void rq_mem_count(int on);

#endif

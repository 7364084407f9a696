/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the tests of <rmq/store.h> share: a store to look into, and damage. */
#ifndef TESTS_UNIT_STORE_LOOK_H
#define TESTS_UNIT_STORE_LOOK_H

#include <sys/types.h>

#include <rmq/store.h>

#include "fixture.h"

#define LOOK_MESSAGES 600
#define LOOK_QUEUES   3

rmq_store *look_open(const struct fixture *fix);

/* Opens, checks and closes it; fails the test when it cannot. */
rmq_store_check look_verify(const struct fixture *fix);

/* 600 messages with keys and tags in three queues, in several log files; closed. */
void look_make(struct fixture *fix);

/* Changes the byte at a place of a file. */
void look_flip(const struct fixture *fix, const char *name, off_t at);

#endif

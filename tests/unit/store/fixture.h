/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the store's tests share: temporary directories, small files, messages, recorded stores. */
#ifndef TESTS_UNIT_STORE_FIXTURE_H
#define TESTS_UNIT_STORE_FIXTURE_H

#include "store/store.h"

#define FIXTURE_PATH 512

struct fixture {
    char dir[FIXTURE_PATH]; /* removed by fixture_end */
    struct rq_store_options options;
    struct rq_store *store; /* NULL when closed */
};

/* A new directory, options with log files of 64 KiB, queue files of 20 entries, index files of 200
 * entries. Nothing is open. */
void fixture_begin(struct fixture *fix);
/* The same in memory, where that is a file system: many deletions are not brought to disk. */
void fixture_begin_in_memory(struct fixture *fix);
void fixture_open(struct fixture *fix); /* fails the test when it cannot */
void fixture_close(struct fixture *fix);
void fixture_reopen(struct fixture *fix);
void fixture_end(struct fixture *fix);

/* As after a kill: the directory as it is now is copied, the store closed, and the copy takes the
 * directory's place. */
void fixture_crash(struct fixture *fix);

/* Mappings of files below the store, in this process; -1 when that cannot be read. Makes no call of
 * Check, so that a forked child may use it. */
int fixture_mappings(const struct fixture *fix);

/* Path of a file below the store. Static buffer. */
const char *fixture_path(const struct fixture *fix, const char *name);
bool fixture_has(const struct fixture *fix, const char *name);

/* Unpacks tests/vectors/<name>.tar.gz; the store of it becomes the directory. */
void fixture_unpack(struct fixture *fix, const char *name);

/* A message to a topic and queue with a body of n bytes (a pattern that starts with seed) and
 * properties (NULL = none). Makes no call of Check, so that a child that will be killed may use it:
 * a kill within Check's own report of where it is would spoil the pipe that all processes of a test
 * share. */
struct rq_msg fixture_msg(const char *topic, int queue_id, size_t n, unsigned seed,
                          const char *properties);

/* Appends and dispatches; fails the test unless it is stored. */
struct rq_store_put fixture_append(struct fixture *fix, const struct rq_msg *msg);

/* Gets up to max messages; the caller releases the result. */
void fixture_get(struct fixture *fix, const char *topic, int queue_id, int64_t offset, int max,
                 struct rq_store_result *out);

/* Every message of a queue, from min to max, is there under its own number with the body of
 * fixture_msg, whose seed is seed + number. */
void fixture_check_queue(struct fixture *fix, const char *topic, int queue_id, int64_t max,
                         unsigned seed);

#endif

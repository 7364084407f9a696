/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Kills and power cuts in a loop: four writers append, each to a queue of its own, and note what
 * was acknowledged; afterwards every acknowledged message must be in the store once, in order,
 * found by its key. Message n of a queue is always the same, so that whatever is there can be
 * checked. Without Check: its processes are killed.
 */
#ifndef TESTS_CRASH_CRASH_H
#define TESTS_CRASH_CRASH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

#define CRASH_WRITERS 4
#define CRASH_TOPIC   "Crash"

/* In memory that outlives the process that is killed. */
struct crash_shared {
    atomic_long acknowledged[CRASH_WRITERS]; /* messages 0 … n - 1 of the queue */
    atomic_bool opened;
    atomic_bool close; /* the child shall close the store */
    atomic_bool failed; /* an append or a flush failed: that is not expected here */
};

/* ---- work.c ---- */

extern bool crash_with_buffers; /* write buffers are used */
void crash_options(struct rq_store_options *options, const char *dir, bool sync);

/* Starts the writers on an open store; they go on behind what it holds. Stop joins them. */
struct crash_work;
struct crash_work *crash_work_start(struct rq_store *store, struct crash_shared *shared, bool sync);
void crash_work_stop(struct crash_work *work);

/* Whether queue `queue` of the store holds the messages 0 … n - 1 for some n >= least, each found
 * by its keys. Says on stderr what is wrong. */
bool crash_check(struct rq_store *store, int queue, int64_t least);

/* Opens the store of a directory, checks all queues, closes it. */
bool crash_check_dir(const char *dir, bool sync, const int64_t least[CRASH_WRITERS]);

/* ---- random.c: splitmix64 ---- */

uint64_t crash_random(uint64_t *state);

/* ---- the loops: each returns whether the round went well; state carries over to the next round
 * ---- */

struct crash_round {
    uint64_t random;
    uint64_t number;
    const char *dir; /* the store; emptied from time to time */
    struct crash_shared *shared;
};

bool crash_kill(struct crash_round *round, bool sync);
bool crash_power(struct crash_round *round);
void crash_power_end(struct crash_round *round); /* ends what the rounds left at work */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Unique message ids (property UNIQ_KEY), made like the Java client's: upper-case hex of address,
 * pid, a number of the process, ms since the start of the month, and a counter. Time never goes
 * back within a process, and a forked child has a prefix of its own. Any thread, lock-free.
 * Counterpart: MessageClientIDSetter.
 */
#ifndef RQ_CLIENT_UNIQUE_ID_H
#define RQ_CLIENT_UNIQUE_ID_H

#include <stddef.h>
#include <stdint.h>

#define RQ_UNIQUE_ID_MAX 56 /* without the NUL: 28 bytes where the machine has IPv6 only; else 32 */

/* Writes an id and a NUL; returns its length. mono_ms: rq_mono_ms() of about now; it only moves the
 * id's time on. */
size_t rq_unique_id(int64_t mono_ms, char out[RQ_UNIQUE_ID_MAX + 1]);

/* Ids that follow one another, for the messages of a batch: what they share is made once. Owned by
 * one thread. */
struct rq_unique_ids {
    uint64_t moment;   /* of the next one */
    int64_t offset_ms; /* to the monotonic time of a moment; the sum is the id's time */
    size_t prefix_len;
    char text[RQ_UNIQUE_ID_MAX + 1]; /* the last one, with a NUL */
};

/* Sets count of them (1 or more) aside. */
void rq_unique_ids_take(struct rq_unique_ids *ids, int64_t mono_ms, size_t count);

/* Makes text the next of those that were taken; returns its length. */
size_t rq_unique_ids_next(struct rq_unique_ids *ids);

#endif

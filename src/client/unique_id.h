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

#endif

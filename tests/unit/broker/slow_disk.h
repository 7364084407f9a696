/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A disk that takes its time, for stores with synchronous flush. Apart from the tests, which cannot
 * see the store's inside: it has a name in common with the protocol. */
#ifndef TESTS_UNIT_BROKER_SLOW_DISK_H
#define TESTS_UNIT_BROKER_SLOW_DISK_H

#include <stdint.h>

struct rq_store;

void slow_disk_begin(struct rq_store *store); /* no sync of the log ends any more */
void slow_disk_end(struct rq_store *store);

int64_t slow_disk_has(struct rq_store *store); /* up to where the log is on disk */

#endif

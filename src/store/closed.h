/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The file "closed": what a store held when it was closed, so that the next start notices queues or index files that were
 * removed meanwhile and builds them again. Ours only: Java neither reads nor writes it, and it counts only while the log still ends where it
 * did. Text, one line each: "log END", "index FILES END", "queue ID FIRST MAX TOPIC" (FIRST: number of the first entry with a file).
 */
#ifndef RQ_STORE_CLOSED_H
#define RQ_STORE_CLOSED_H

#include <stdbool.h>

#include <rmq/error.h>

#include "store/store.h"

/* Writes the file. Called by close when everything else is on disk. */
rmq_status rq_closed_write(struct rq_store *store, rmq_error **err);

/* Recovery: marks queues that hold less than then for rebuilding, and tells whether the index lost files. A missing file, or one of another
 * log, tells nothing. log_end: where the log ends now. */
rmq_status rq_closed_compare(struct rq_store *store, int64_t log_end, bool *index_lost,
                             rmq_error **err);

/* Removes the file: the store changes from now on. */
void rq_closed_remove(struct rq_store *store);

#endif

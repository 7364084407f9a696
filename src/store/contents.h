/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The file "contents": which queues and index files there are, so that the next start notices those
 * that were removed by hand and builds them again, after a clean stop as after a crash. Ours only:
 * Java neither reads nor writes it. After a clean stop it counts while the log still ends where it
 * did, after a crash while the file abort is of the same run: a store that another broker had in
 * between is taken as it is. Text, one line each: "run NAME", "log END", "index FILES END", "queue
 * ID FIRST MAX TOPIC" (numbers of the first entry with a file, and behind the last one that is on
 * disk).
 */
#ifndef RQ_STORE_CONTENTS_H
#define RQ_STORE_CONTENTS_H

#include <stdbool.h>

#include <rmq/error.h>

#include "store/store.h"

/* Opening, before the file abort is written: names this run, or goes on with that of the list that
 * counts. */
void rq_contents_begin(struct rq_store *store, bool closed);

/* Writes the file. While nobody else syncs queues, or with flusher.sync. */
rmq_status rq_contents_write(struct rq_store *store, rmq_error **err);

/* Recovery: marks queues that hold less than the file says for rebuilding, and sets *index_lost
 * when the index lost files. A missing file, or one that does not count, tells nothing. log_end:
 * where the log ends now; -1 after a crash, then before queues are rewound. */
rmq_status rq_contents_compare(struct rq_store *store, int64_t log_end, bool *index_lost,
                               rmq_error **err);

/* What the list of a closed store, whose log ends there, says of its key index. */
enum rq_contents_index {
    RQ_CONTENTS_UNKNOWN, /* there is no list, or it does not count */
    RQ_CONTENTS_NO_INDEX,
    RQ_CONTENTS_INDEX
};
enum rq_contents_index rq_contents_index(const char *root, int64_t log_end);

#endif

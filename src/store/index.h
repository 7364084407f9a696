/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The key index: files of a hash table each, from topic#key to commit-log offsets, newest first. A
 * hit is a hash only: the caller compares topic and key. Written by the dispatcher, read by any
 * thread, under one lock. Counterparts: IndexService, IndexFile, IndexHeader.
 */
#ifndef RQ_STORE_INDEX_H
#define RQ_STORE_INDEX_H

#include "base/thread.h"
#include "store/mapped_file.h"
#include "store/record.h"

struct rq_index {
    /* immutable after init */
    char *dir;
    uint32_t slots;
    uint32_t entries; /* per file; number 0 is never used */
    size_t file_size;
    struct rq_disk *disk; /* set before load; NULL = the plain calls */
    /* guarded by lock */
    struct rq_mutex lock;
    struct rq_mapped_file **files; /* by name, oldest first */
    size_t count;
    size_t cap;
    size_t unreadable; /* files of another size, which nobody reads */
};

rmq_status rq_index_init(struct rq_index *index, const char *dir,
                         const struct rq_store_options *options);
void rq_index_free(struct rq_index *index);

/* Opens the files; those of another size, cut short or made with other options, are passed over
 * with a warning: the index is to be built again then. */
rmq_status rq_index_load(struct rq_index *index, rmq_error **err);

/* Removes what was passed over, when everything that it held is in other files. */
void rq_index_drop_unreadable(struct rq_index *index);

/* After a crash: entries of messages at or behind commit_log_offset go, and the chains of the
 * others are tied again. */
rmq_status rq_index_truncate(struct rq_index *index, int64_t commit_log_offset, rmq_error **err);

/* Dispatcher: the entries of one message. One that the index has already is passed over. */
rmq_status rq_index_put(struct rq_index *index, const struct rq_record *record,
                        const struct rq_record_properties *properties, rmq_error **err);

rmq_status rq_index_flush(struct rq_index *index, rmq_error **err);

/* Commit-log offsets of messages whose topic#key has the hash of this one, stored in [begin_ms,
 * end_ms] give or take a second, newest first; at most max, returns how many. *more_from: 0 at
 * first; moves on, so that a caller who found false hits can ask again. */
struct rq_index_hits {
    size_t file;     /* private: files to look at */
    uint32_t number; /* private: next entry of the chain */
    bool begun;
};
size_t rq_index_query(struct rq_index *index, struct rq_slice topic, struct rq_slice key,
                      int64_t begin_ms, int64_t end_ms, struct rq_index_hits *state,
                      int64_t *offsets, size_t max);

/* How many files it has. */
size_t rq_index_files(struct rq_index *index);

/* Store time and offset of the last message that the index knows. */
void rq_index_last(struct rq_index *index, int64_t *time, int64_t *offset);

/* Retention: deletes files (never the last) of which every message is gone. Returns how many. */
int rq_index_clean(struct rq_index *index, int64_t commit_log_min);

/* Java's hash of topic#key made non-negative. */
rmq_status rq_index_hash(struct rq_slice topic, struct rq_slice key, uint32_t *out);

#endif

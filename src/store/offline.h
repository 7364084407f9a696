/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A store that is only looked at: what <rmq/store.h> tells. Nothing here writes or repairs; files
 * of any size are taken as they are. A read that fails is noted as trouble, which each operation
 * asks for at its end. One thread at a time.
 */
#ifndef RQ_STORE_OFFLINE_H
#define RQ_STORE_OFFLINE_H

#include <limits.h>

#include <rmq/store.h>

#include "base/buf.h"
#include "base/map.h"
#include "store/checkpoint.h"
#include "store/index_file.h"
#include "store/lock.h"
#include "store/offline_files.h"
#include "store/record.h"

struct rq_offline_queue {
    char *topic;
    int32_t queue_id;
    bool virtual; /* has messages, but no directory */
    struct rq_offline_files files;
    int64_t min; /* numbers of messages */
    int64_t max;
    int64_t first;   /* number of the first entry that has a file */
    int64_t log_end; /* behind the last message in the commit log */
    int64_t hole;    /* first entry without size in front of others, -1 = none */
    int64_t next;    /* verify: number that the next message should have */
    int64_t matched; /* verify: entries that match their message */
    int64_t missing;
    int64_t wrong;
    int64_t late; /* of the missing ones: behind the queue's end */
    /* of the wrong ones: lead behind the files of the log, but their message is in it */
    int64_t astray;
};

struct rmq_store {
    char root[PATH_MAX / 2];
    rmq_store_options options;
    struct rq_offline_trouble trouble;
    char *commit_log_dir;
    struct rq_offline_files log;
    struct rq_offline_files index_files;
    struct rq_index index; /* its geometry only */
    struct rq_offline_queue **queues;
    size_t queue_count;
    size_t queue_cap;
    struct rq_map by_name; /* key as of rq_offline_queue_of */
    struct rq_checkpoint checkpoint;
    int64_t log_end;
    int64_t first_time;
    int64_t last_time;
    int64_t index_entries;
    bool verified;
    bool closed;
    bool in_use;
};

/* rmq_store_open, also of a store that is to be changed: with lock not NULL it takes the
 * locks before it looks (RMQ_ERR_EXISTS when somebody has one), and *lock is the caller's to unlock,
 * also after a failure. */
rmq_status rq_offline_open(const char *dir, const rmq_store_options *options,
                           struct rq_store_lock *lock, rmq_store **out, rmq_error **err);

/* The good record at an offset of the commit log; its slices last up to the next read of the
 * log. */
enum rq_record_kind rq_offline_record(const struct rmq_store *store, int64_t offset, bool check_crc,
                                      struct rq_record *out);

/* An entry by its number; false when no file has it. real: it is no blank slot. */
bool rq_offline_entry(const struct rq_offline_queue *queue, int64_t number,
                      struct rq_store_entry *out, bool *real);

/* Number of the first real entry whose message begins at or behind an offset of the commit log; the
 * queue's end when there is none. Entries are ordered, a blank slot counts as the entry behind
 * it. */
int64_t rq_offline_first_from(const struct rq_offline_queue *queue, int64_t offset);

/* offline_queue.c: loads all queues, sorted by topic and id. */
rmq_status rq_offline_queues_load(struct rmq_store *store, rmq_error **err);
void rq_offline_queues_free(struct rmq_store *store);

/* Finds a queue, or makes a virtual one. */
rmq_status rq_offline_queue_of(struct rmq_store *store, struct rq_slice topic, int32_t queue_id,
                               struct rq_offline_queue **out);

/* offline_index.c: loads the index files and finds out how many slots they have. */
rmq_status rq_offline_index_load(struct rmq_store *store, rmq_error **err);

/* Whether an index file has the size that the others have. */
bool rq_offline_index_is_readable(const struct rmq_store *store,
                                  const struct rq_offline_file *file);

/* The header of a file that is readable; false when it could not be read. */
bool rq_offline_index_header(const struct rmq_store *store, const struct rq_offline_file *file,
                             struct rq_index_header *out);

/* Entry of that number, and the number in a slot, of a readable file; NULL, or 0, when it could not
 * be read. Each up to the next call with that window. */
const char *rq_offline_index_entry(const struct rmq_store *store, struct rq_offline_window *window,
                                   const struct rq_offline_file *file, uint32_t number);
uint32_t rq_offline_index_slot(const struct rmq_store *store, struct rq_offline_window *window,
                               const struct rq_offline_file *file, uint32_t slot);

/* Options as the program gave them, completed. */
void rq_offline_options(rmq_store_options *out, const rmq_store_options *given);

#endif

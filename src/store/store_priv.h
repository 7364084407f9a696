/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the modules of the store share: the store itself. */
#ifndef RQ_STORE_STORE_PRIV_H
#define RQ_STORE_STORE_PRIV_H

#include <limits.h>
#include <stdatomic.h>

#include "store/checkpoint.h"
#include "store/commit_log.h"
#include "store/disk.h"
#include "store/dispatch.h"
#include "store/flush.h"
#include "store/index.h"
#include "store/metrics.h"
#include "store/queue_table.h"
#include "store/retention.h"
#include "store/store.h"

#define RQ_DELAY_LEVELS_MAX 64
#define RQ_STORE_ROOT_MAX   (PATH_MAX - 1024) /* room for names of topics and files below it */

/* Why the store takes no messages; 0 = it does. */
enum {
    RQ_HEALTH_CLOSING = 1,
    RQ_HEALTH_FLUSH = 2,    /* the last sync of the commit log failed */
    RQ_HEALTH_DISPATCH = 4, /* a queue entry could not be written */
    RQ_HEALTH_DISK = 8      /* the partition is nearly full */
};

struct rq_store {
    /* immutable after open */
    struct rq_store_options options;
    char root[RQ_STORE_ROOT_MAX];
    int64_t delays_ms[RQ_DELAY_LEVELS_MAX];
    int delay_levels;
    int64_t machine_memory; /* bytes */
    struct rq_store_lock lock;
    char run[32];        /* name of this run, in the files abort and contents */
    bool contents_count; /* the file contents is of this run */
    bool crashed;        /* recovery: it was not closed */
    struct rq_disk disk;
    struct rq_store_watch *watch;  /* while it is opened by rq_store_open_watched, else NULL */
    bool has_parts;                /* log, queues and index are initialised */
    struct rq_retention retention; /* of the options, what may change */
    /* each with its own locks */
    struct rq_commit_log log;
    struct rq_queue_table queues;
    struct rq_index index;
    struct rq_checkpoint checkpoint;
    struct rq_dispatcher dispatcher;
    struct rq_flusher flusher;
    struct rq_metrics metrics;
    uint32_t contents_crc; /* guarded by flusher.sync: of what the file contents holds */
    /* atomic: relaxed bits and counters */
    atomic_uint health;
    atomic_ullong get_messages;
    atomic_ullong get_bytes;
};

static inline void rq_store_set_health(struct rq_store *store, unsigned bit, bool bad)
{
    if (bad) {
        atomic_fetch_or_explicit(&store->health, bit, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&store->health, ~bit, memory_order_relaxed);
    }
}

/* How much of the log may be shown: with synchronous flush only what is on disk. */
static inline int64_t rq_store_visible_end(const struct rq_store *store)
{
    return store->options.flush_disk_type == RQ_FLUSH_SYNC ? rq_commit_log_flushed(&store->log)
                                                           : rq_commit_log_committed(&store->log);
}

/* Path below the root. */
void rq_store_path(const struct rq_store *store, const char *name, char out[PATH_MAX]);

/* recover.c: brings log, queues and index of the loaded store into agreement. normal: it was closed
 * by rq_store_close. */
rmq_status rq_store_recover(struct rq_store *store, bool normal, rmq_error **err);

/* recover.c: a record as recovery accepts it: checked, and at its own place. */
enum rq_record_kind rq_recover_read(struct rq_store *store, struct rq_log_reader *reader,
                                    int64_t offset, struct rq_record *record);

/* clean.c: one round of retention that deletes at most so many files. */
int rq_store_clean_some(struct rq_store *store, bool even_if_not_due, int32_t most);

#endif

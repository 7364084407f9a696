/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The slow disk of the broker's tests: nobody else may sync meanwhile. */
#include "unit/broker/slow_disk.h"

#include "store/store_priv.h"

void slow_disk_begin(struct rq_store *store)
{
    rq_mutex_lock(&store->flusher.sync);
}

void slow_disk_end(struct rq_store *store)
{
    rq_mutex_unlock(&store->flusher.sync);
}

int64_t slow_disk_has(struct rq_store *store)
{
    return rq_commit_log_flushed(&store->log);
}

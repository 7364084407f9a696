/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the cleaning of old files goes by: the only options of a store that another thread may
 * change while they are used, so each is atomic and read alone. Any thread. Counterpart: the part
 * of MessageStoreConfig that CleanCommitLogService reads.
 */
#ifndef RQ_STORE_RETENTION_H
#define RQ_STORE_RETENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct rq_retention {
    /* atomic: relaxed, nothing else hangs on them */
    _Atomic int64_t reserved_ms;
    _Atomic uint32_t hours; /* bit n: hour n of the day */
    _Atomic int max_used;   /* percent */
    _Atomic int warning;    /* percent, as Java takes it */
    _Atomic int forcible;   /* percent, as Java takes it */
    _Atomic bool forced;
};

/* Takes over what the options say; hours that are none (rq_store_check_hours) are passed over. */
void rq_retention_set(struct rq_retention *retention, const struct rq_store_options *options);

/* Whether this is an hour for deleting, by local time. */
bool rq_retention_is_hour(const struct rq_retention *retention, int64_t wall_ms);

/* Above it no messages are taken; above it the oldest files go whatever their age. Parts of one. */
double rq_retention_warning(const struct rq_retention *retention);
double rq_retention_forcible(const struct rq_retention *retention);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Moving on the version of a table that name servers and slaves compare. Guarded by the table's
 * lock. Counterpart: DataVersion. */
#ifndef RQ_BROKER_DATA_VERSION_H
#define RQ_BROKER_DATA_VERSION_H

#include "base/time.h"
#include "wire/bodies.h"

/* The table has changed. */
static inline void rq_data_version_next(struct rq_data_version *version)
{
    version->counter++;
    version->timestamp_ms = rq_wall_ms();
}

#endif

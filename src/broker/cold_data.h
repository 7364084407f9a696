/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Thresholds of groups for reading old data, as an administrator sets them (2001 … 2003). They are
 * kept and told; nothing is slowed down, as in the Java broker with
 * coldDataFlowControlEnable=false, its default. Any thread. Counterpart: ColdDataCgCtrService.
 */
#ifndef RQ_BROKER_COLD_DATA_H
#define RQ_BROKER_COLD_DATA_H

#include "base/map.h"
#include "base/thread.h"

struct rq_cold_data {
    struct rq_mutex lock;     /* rank: broker tables; guards the map */
    struct rq_map thresholds; /* group -> struct threshold */
};

void rq_cold_data_init(struct rq_cold_data *cold);
void rq_cold_data_free(struct rq_cold_data *cold);

#endif

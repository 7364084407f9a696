/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What the parts of a check share: counts, findings, and the place in the index that goes along
 * with the place in the log. */
#ifndef RQ_STORE_VERIFY_H
#define RQ_STORE_VERIFY_H

#include "base/json.h"
#include "store/index_file.h"
#include "store/offline.h"

/* The entry of the index that is due next: entries stand in the order of the messages. */
struct rq_verify_index {
    size_t file;
    uint32_t number;
    struct rq_index_header header; /* of that file */
    bool at_end;
};

struct rq_verify {
    struct rmq_store *store;
    rmq_store_check out;
    int32_t findings;
    cJSON *topics_file; /* config/topics.json; NULL = unknown, then every topic counts */
    struct rq_offline_queue *last_queue;
    struct rq_verify_index index;
    bool without_index; /* the broker that closed the store keeps none */
    int64_t log_min;
    /* entries missing at the ends of queues and index: what dispatch had still to do */
    int64_t late;
    int64_t index_late;
    int64_t told; /* offset at the last call of progress */
};

/* Tells one thing that is wrong. */
void rq_verify_tell(struct rq_verify *v, const char *fmt, ...) RMQ_PRINTF(2, 3);

void rq_verify_index_begin(struct rq_verify *v);
rmq_status rq_verify_index_record(struct rq_verify *v, const struct rq_record *record,
                                  const struct rq_record_properties *properties);
rmq_status rq_verify_index_end(struct rq_verify *v);

/* verify_queue.c */
rmq_status rq_verify_queue_record(struct rq_verify *v, const struct rq_record *record,
                                  const struct rq_record_properties *properties);
void rq_verify_queues_end(struct rq_verify *v);

#endif

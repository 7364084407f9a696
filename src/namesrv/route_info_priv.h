/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tables of the name server that both halves of route_info share: the one that changes them and the
 * one that writes them out. */
#ifndef RQ_NAMESRV_ROUTE_INFO_PRIV_H
#define RQ_NAMESRV_ROUTE_INFO_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "wire/queue_mapping.h"

/* The queues of a topic on one broker. */
struct rq_live_queues {
    char *broker;
    int32_t read_queue_nums;
    int32_t write_queue_nums;
    int32_t perm;
    int32_t sys_flag;
};

/* The logical queues that a broker leads. It stays while the topic does, also when the broker
 * goes. */
struct rq_live_mapping {
    struct rq_queue_mapping_info info;
    char *texts; /* its own */
};

struct rq_live_topic {
    struct rq_live_queues *queues;
    size_t count;
    struct rq_live_mapping *mappings; /* of a static topic: what brokers have told of its queues */
    size_t mapping_count;
};

/* ---- mappings of static topics: route_mapping.c ---- */

/* Keeps a copy of what a broker tells, in the place of what it told before. */
rmq_status rq_live_topic_map(struct rq_live_topic *topic, const struct rq_queue_mapping_info *info);
void rq_live_topic_unmap(struct rq_live_topic *topic); /* frees all */

/* "topicQueueMappingByBroker":{…} */
void rq_live_topic_write_mappings(const struct rq_live_topic *topic, bool bare_keys,
                                  struct rq_buf *out);

#endif

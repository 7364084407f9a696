/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Static topics as clients see them: their message queues are logical ones, "__syslo__global__" and
 * an id, whatever brokers have them. A route tells for each broker which of them it leads now, with
 * an epoch that grows when queues are mapped anew. Counterparts: TopicQueueMappingUtils,
 * MQClientInstance.topicRouteData2EndpointsForStaticTopic.
 */
#ifndef RQ_WIRE_STATIC_TOPIC_H
#define RQ_WIRE_STATIC_TOPIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rmq/error.h>

#include "wire/queue_mapping.h"

#define RQ_LOGICAL_PREFIX  "__syslo__"
#define RQ_LOGICAL_NO_HOST "__syslo__none__" /* in place of a broker: no broker leads the queue */

/* Whether the "broker name" of a message queue says that the queue is a logical one. */
static inline bool rq_broker_name_is_logical(const char *name)
{
    return strncmp(name, RQ_LOGICAL_PREFIX, sizeof RQ_LOGICAL_PREFIX - 1) == 0;
}

/* The broker name of the logical queues of a scope, to be freed with rq_free; NULL when out of
 * memory. And whether a name is that. */
char *rq_logical_name_of(const char *scope);
bool rq_logical_name_is_of(const char *name, const char *scope);

#define RQ_STATIC_QUEUES_MAX 65536 /* of one topic: more is a damaged answer */

/* A logical queue; texts are borrowed from the mappings. */
struct rq_static_queue {
    const char *scope;
    const char *host; /* the broker that leads it; NULL: none does */
    int64_t epoch;    /* of what is known of it */
    int32_t id;
    int32_t own_id; /* of the leader's queue that it is now */
};

/* The queues of a static topic by scope, then id: all that the mappings count, whether led or not,
 * each with the leader of the highest epoch. *out is freed with rq_free. Errors: RMQ_ERR_NOMEM,
 * RMQ_ERR_PROTOCOL. */
rmq_status rq_static_queues(const struct rq_queue_mapping_info *mappings, size_t mapping_count,
                            struct rq_static_queue **out, size_t *count, rmq_error **err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The logical queue of a static topic that a request names. On the thread of the request.
 * Counterpart: TopicQueueMappingContext.
 */
#ifndef RQ_BROKER_LOGICAL_QUEUE_H
#define RQ_BROKER_LOGICAL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/broker.h"
#include "broker/queue_mapping.h"

struct rq_logical_queue {
    struct rq_queue_mapping *mapping;    /* a reference; NULL: the queue is a physical one */
    const struct rq_mapped_queue *queue; /* in the mapping; NULL: this broker knows nothing of it */
    int32_t id;
};

/* false: the queue is a physical one, because the topic is an ordinary one or because the request
 * says so ("lo" is false: it comes from the broker that leads the queue). */
bool rq_logical_find(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                     struct rq_logical_queue *out);

/* Whether this broker leads it; else the request is answered so, and the reference is gone. */
bool rq_logical_leads(const struct rq_request *request, struct rq_logical_queue *logical);

/* The item that a logical offset falls into. NULL: none of the queue's is decided yet; then the
 * request is answered so, and the reference is gone. */
const struct rq_mapping_item *rq_logical_item(const struct rq_request *request,
                                              struct rq_logical_queue *logical, int64_t offset);

/* A request for a physical queue of another broker. NULL when out of memory. */
struct rq_out *rq_logical_request(int32_t code, const struct rq_fields *table, const void *fields);

/* That another broker could not be asked, or what it said. */
void rq_logical_failed(struct rq_conn *conn, const struct rq_reply_to *to,
                       const struct rq_mapping_item *item, rmq_status status,
                       const struct rq_in *answer);

#endif

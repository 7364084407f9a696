/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What brokers tell name servers, and those tell clients, of a static topic: which of its logical
 * queues a broker leads, and by which of its physical queues. Texts are borrowed from the parsed
 * JSON. Counterpart: TopicQueueMappingInfo.
 */
#ifndef RQ_WIRE_QUEUE_MAPPING_H
#define RQ_WIRE_QUEUE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"

#define RQ_MAPPING_SCOPE_GLOBAL "__global__"

struct rq_queue_mapping_id {
    int32_t logical;
    int32_t physical;
};

struct rq_queue_mapping_info {
    const char *topic;
    const char *scope;
    const char *broker_name;
    int32_t total_queues; /* logical ones of the topic, on all brokers */
    int64_t epoch;        /* rises with every change of the topic's mapping */
    bool dirty;
    struct rq_queue_mapping_id *ids; /* owned */
    size_t id_count;
};

/* json is an object. *out is set on RMQ_OK; the caller clears it. RMQ_ERR_PROTOCOL: no broker name;
 * RMQ_ERR_NOMEM. */
rmq_status rq_queue_mapping_info_parse(const cJSON *json, struct rq_queue_mapping_info *out,
                                       rmq_error **err);
void rq_queue_mapping_info_clear(struct rq_queue_mapping_info *info); /* frees ids */

/* bare_keys: integer keys without quotes, for old readers. */
void rq_queue_mapping_info_write(const struct rq_queue_mapping_info *info, bool bare_keys,
                                 struct rq_buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Sends to static topics: the logical queue that is named becomes its leader's physical one, and
 * the answer tells of the logical one. Loop thread of the connection. Counterparts:
 * TopicQueueMappingManager.rewriteRequestForStaticTopic, SendMessageProcessor. */
#include "broker/send_priv.h"

bool rq_sending_map(struct rq_sending *sending)
{
    struct rq_logical_queue *logical = &sending->logical;
    if (!rq_logical_find(sending->request, sending->header.topic, sending->header.queue_id,
                         logical)) {
        return true;
    }
    if (logical->id < 0 && logical->mapping->count > 0) { /* any will do */
        logical->queue = &logical->mapping->queues[0];
        logical->id = logical->queue->id;
    }
    if (!rq_logical_leads(sending->request, logical)) {
        return false;
    }
    sending->header.queue_id = rq_mapped_leader(logical->queue)->queue_id;
    return true;
}

void rq_sending_tell_logical(const struct rq_sending *sending, struct rq_store_put *put,
                             int32_t *queue_id)
{
    if (put->status == RQ_PUT_OK) {
        const struct rq_mapping_item *leader = rq_mapped_leader(sending->logical.queue);
        put->queue_offset = rq_item_logical_bounded(leader, put->queue_offset);
        *queue_id = sending->logical.id;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Logical queues of requests (see the header). */
#include "broker/logical_queue.h"

bool rq_logical_find(const struct rq_request *request, struct rq_slice topic, int32_t queue_id,
                     struct rq_logical_queue *out)
{
    *out = (struct rq_logical_queue){.id = queue_id};
    struct rq_queue_mapping *mapping = rq_queue_mappings_get(&request->broker->mappings, topic);
    if (mapping && rq_slice_eq_str(rq_header_ext(request->in->header, "lo"), "false")) {
        rq_queue_mapping_release(mapping);
        return false;
    }
    out->mapping = mapping;
    out->queue = mapping ? rq_queue_mapping_find(mapping, queue_id) : NULL;
    return mapping != NULL;
}

static void forget(struct rq_logical_queue *logical)
{
    rq_queue_mapping_release(logical->mapping);
    logical->mapping = NULL;
}

bool rq_logical_leads(const struct rq_request *request, struct rq_logical_queue *logical)
{
    if (rq_queue_mapping_leads(logical->mapping, logical->queue)) {
        return true;
    }
    rq_answer_text(request->conn, &request->to, RQ_RESP_NOT_LEADER_FOR_QUEUE,
                   "%s-%d is not led by the broker %s", logical->mapping->topic, logical->id,
                   logical->mapping->broker_name);
    forget(logical);
    return false;
}

const struct rq_mapping_item *rq_logical_item(const struct rq_request *request,
                                              struct rq_logical_queue *logical, int64_t offset)
{
    const struct rq_mapping_item *item = rq_mapped_item_at(logical->queue, offset);
    if (!item) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "%s-%d: nobody knows yet where the queue begins", logical->mapping->topic,
                       logical->id);
        forget(logical);
    }
    return item;
}

struct rq_out *rq_logical_request(int32_t code, const struct rq_fields *table, const void *fields)
{
    const struct rq_ext physical = {.name = rq_slice("lo", 2), .value = rq_slice("false", 5)};
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, code, table, fields);
    spec.extra = &physical;
    spec.extra_count = 1;
    return rq_out_make(&spec, rq_slice(NULL, 0));
}

void rq_logical_failed(struct rq_conn *conn, const struct rq_reply_to *to,
                       const struct rq_mapping_item *item, rmq_status status,
                       const struct rq_in *answer)
{
    if (answer) {
        rq_answer_text(conn, to, RQ_RESP_SYSTEM_ERROR,
                       "broker %s, queue %d: unexpected remote response code %d %.*s",
                       item->broker_name, item->queue_id, answer->header->code,
                       RQ_TEXT(answer->header->remark));
    } else if (status == RMQ_ERR_NOT_FOUND) {
        rq_answer_text(conn, to, RQ_RESP_SYSTEM_ERROR, "cannot find addr for broker %s",
                       item->broker_name);
    } else {
        rq_answer_text(conn, to, RQ_RESP_SYSTEM_ERROR, "broker %s, queue %d: %s", item->broker_name,
                       item->queue_id, rmq_status_text(status));
    }
}

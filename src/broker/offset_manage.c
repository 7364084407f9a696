/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Offsets of groups and queues (14, 15, 29 … 32), their reset and copies (43, 45, 222, 314). Loop
 * thread. Counterparts: ConsumerManageProcessor, AdminBrokerProcessor. */
#include "broker/admin_write.h"
#include "broker/broker.h"
#include "broker/offset_static.h"
#include "wire/names.h"

static void answer_offset(const struct rq_request *request, int64_t offset)
{
    struct rq_hdr_offset_response fields = {.offset = offset};
    rq_answer_fields(request->conn, &request->to, &rq_tab_offset_response, &fields);
}

/* A group without an offset on a queue that is young starts at its beginning; on another one the
 * client decides. */
static bool starts_at_zero(struct rmq_broker *broker,
                           const struct rq_hdr_query_consumer_offset *header)
{
    return rq_store_min_offset(broker->store, header->topic, header->queue_id) <= 0 &&
           rq_store_in_memory(broker->store, header->topic, header->queue_id, 0);
}

void rq_process_query_offset(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_query_consumer_offset header;
    if (!rq_request_decode(request, &rq_tab_query_consumer_offset, &header) ||
        rq_static_query_offset(request, &header)) {
        return;
    }
    int64_t offset =
        rq_offsets_query(&broker->offsets, header.consumer_group, header.topic, header.queue_id);
    if (offset >= 0) {
        answer_offset(request, offset);
        return;
    }
    bool zero_wanted = !RQ_HAS(query_consumer_offset, &header, set_zero_if_not_found) ||
                       header.set_zero_if_not_found;
    if (zero_wanted && starts_at_zero(broker, &header)) {
        answer_offset(request, 0);
        return;
    }
    rq_request_answer(request, RQ_RESP_QUERY_NOT_FOUND,
                      "Not found, maybe this group consumer boot first");
}

void rq_process_update_offset(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_update_consumer_offset header;
    struct rq_topic_info topic;
    rmq_status st = RMQ_OK;
    if (!rq_request_decode(request, &rq_tab_update_consumer_offset, &header) ||
        rq_static_update_offset(request, &header)) {
        return;
    }
    if (!rq_groups_exists(&broker->groups, header.consumer_group)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST,
                       "Group %.*s not exist!", RQ_TEXT(header.consumer_group));
    } else if (!rq_topics_get(&broker->topics, header.topic, &topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "topic[%.*s] not exist", RQ_TEXT(header.topic));
    } else if (header.queue_id < 0 || header.commit_offset < 0) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "queueId %d or offset %lld is negative", header.queue_id,
                       (long long)header.commit_offset);
    } else if (rq_offsets_commit(&broker->offsets, header.consumer_group, header.topic,
                                 header.queue_id, header.commit_offset, &st)) {
        rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
    } else if (st) {
        rq_request_answer(request,
                          st == RMQ_ERR_INVALID ? RQ_RESP_INVALID_PARAMETER : RQ_RESP_SYSTEM_ERROR,
                          rmq_status_text(st));
    } else {
        rq_request_answer(request, RQ_RESP_SUCCESS, "Offset has been previously reset");
    }
}

void rq_process_queue_offset(const struct rq_request *request)
{
    struct rq_store *store = request->broker->store;
    struct rq_hdr_queue header;
    if (!rq_request_decode(request, &rq_tab_queue, &header) ||
        rq_static_queue_offset(request, &header)) {
        return;
    }
    switch (request->in->header->code) {
    case RQ_REQ_GET_MAX_OFFSET:
        answer_offset(request, rq_store_max_offset(store, header.topic, header.queue_id));
        break;
    case RQ_REQ_GET_MIN_OFFSET:
        answer_offset(request, rq_store_min_offset(store, header.topic, header.queue_id));
        break;
    default: {
        struct rq_hdr_timestamp_response fields = {
            .timestamp = rq_store_earliest_time(store, header.topic, header.queue_id)};
        rq_answer_fields(request->conn, &request->to, &rq_tab_timestamp_response, &fields);
    }
    }
}

void rq_process_search_offset(const struct rq_request *request)
{
    struct rq_hdr_search_offset header;
    if (!rq_request_decode(request, &rq_tab_search_offset, &header) ||
        rq_static_search_offset(request, &header)) {
        return;
    }
    answer_offset(request,
                  rq_store_offset_by_time(request->broker->store, header.topic, header.queue_id,
                                          header.timestamp, rq_search_is_upper(&header)));
}

void rq_process_all_offsets(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_char(&body, '{');
    rq_offsets_write(&request->broker->offsets, &body);
    rq_buf_add_char(&body, '}');
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

void rq_process_all_delay_offsets(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_char(&body, '{');
    rq_schedule_write(&request->broker->schedule, &body);
    rq_buf_add_char(&body, '}');
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* Resets one queue and writes it into the answer's table, behind the first with a comma. */
static rmq_status reset_queue(const struct rq_request *request,
                              const struct rq_hdr_reset_offset *header, int32_t queue_id,
                              int64_t offset, bool first, struct rq_buf *body)
{
    struct rmq_broker *broker = request->broker;
    rmq_status st =
        rq_offsets_reset(&broker->offsets, header->group, header->topic, queue_id, offset);
    if (st) {
        return st;
    }
    /* whoever waits there learns it now, not when the next message comes */
    rq_hold_reset(&broker->hold, header->topic, queue_id, header->group);
    rq_pop_hold_wake(&broker->pop_hold, header->topic, header->group, queue_id);
    rq_buf_add_str(body, first ? "{\"brokerName\":" : ",{\"brokerName\":");
    rq_json_add_string(body, rq_slice_str(broker->settings.broker.broker_name));
    rq_buf_addf(body, ",\"queueId\":%d,\"topic\":", queue_id);
    rq_json_add_string(body, header->topic);
    rq_buf_addf(body, "}:%lld", (long long)offset);
    return rq_buf_status(body);
}

static int64_t target_offset(const struct rq_request *request,
                             const struct rq_hdr_reset_offset *header, int32_t queue_id)
{
    struct rq_store *store = request->broker->store;
    return header->timestamp < 0
               ? rq_store_max_offset(store, header->topic, queue_id)
               : rq_store_offset_by_time(store, header->topic, queue_id, header->timestamp, false);
}

static void reset(const struct rq_request *request, const struct rq_hdr_reset_offset *header,
                  const struct rq_topic_info *topic)
{
    struct rq_store *store = request->broker->store;
    struct rq_buf body;
    rmq_status st = RMQ_OK;
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"offsetTable\":{");
    if (RQ_HAS(reset_offset, header, queue_id) && header->queue_id >= 0) {
        int64_t offset = RQ_HAS(reset_offset, header, offset) && header->offset >= 0
                             ? header->offset
                             : target_offset(request, header, header->queue_id);
        bool inside = offset >= rq_store_min_offset(store, header->topic, header->queue_id) &&
                      offset <= rq_store_max_offset(store, header->topic, header->queue_id) + 1;
        st = inside ? reset_queue(request, header, header->queue_id, offset, true, &body)
                    : RMQ_ERR_INVALID;
    } else {
        for (int32_t i = 0; !st && i < topic->read_queue_nums; i++) {
            st = reset_queue(request, header, i, target_offset(request, header, i), i == 0, &body);
        }
    }
    rq_buf_add_str(&body, "}}");
    if (st) {
        rq_buf_free(&body);
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "reset of queue %d failed: %s", header->queue_id, rmq_status_text(st));
        return;
    }
    rq_broker_persist_now(request->broker);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

void rq_process_reset_offset(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_reset_offset header;
    struct rq_topic_info topic;
    if (!rq_request_decode(request, &rq_tab_reset_offset, &header)) {
        return;
    }
    if (!rq_topics_get(&broker->topics, header.topic, &topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "Topic %.*s does not exist", RQ_TEXT(header.topic));
    } else if (!rq_groups_exists(&broker->groups, header.group)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST,
                       "Group %.*s does not exist", RQ_TEXT(header.group));
    } else {
        reset(request, &header, &topic);
    }
}

struct clone {
    struct rq_offsets *offsets;
    struct rq_buf topics; /* names, each with a NUL */
};

static void note_topic(struct rq_slice topic, struct rq_slice group, void *user)
{
    struct clone *clone = user;
    (void)group;
    rq_buf_add_slice(&clone->topics, topic);
    rq_buf_add_char(&clone->topics, '\0');
}

/* Where the source group is online, what it subscribes to is what counts. */
static bool is_cloned(struct rmq_broker *broker, const struct rq_hdr_clone_group_offset *header,
                      struct rq_slice topic)
{
    struct rq_topic_info info;
    return rq_topics_get(&broker->topics, topic, &info) &&
           (header->offline || rq_admin_is_subscribed(broker, header->src_group, topic));
}

void rq_process_clone_offset(const struct rq_request *request)
{
    struct rq_hdr_clone_group_offset header;
    struct clone clone = {.offsets = &request->broker->offsets};
    if (!rq_request_decode(request, &rq_tab_clone_group_offset, &header)) {
        return;
    }
    rq_buf_init(&clone.topics, 0);
    struct rq_slice only = header.topic.n ? header.topic : rq_slice(NULL, 0);
    rq_offsets_each(clone.offsets, header.src_group, only, note_topic, &clone);
    rmq_status st = rq_buf_status(&clone.topics);
    for (size_t at = 0; !st && at < clone.topics.len;) {
        struct rq_slice topic = rq_slice_str(clone.topics.data + at);
        if (is_cloned(request->broker, &header, topic)) {
            st = rq_offsets_clone(clone.offsets, header.src_group, header.dest_group, topic);
        }
        at += topic.n + 1;
    }
    rq_buf_free(&clone.topics);
    rq_broker_persist_now(request->broker);
    rq_request_answer(request, st ? RQ_RESP_SYSTEM_ERROR : RQ_RESP_SUCCESS,
                      st ? rmq_status_text(st) : NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Questions about offsets of static topics (see the header). A question walks from one physical
 * queue to the next: one of this broker answers at once, one of another is asked and goes on with
 * its answer on the background loop.
 */
#include "broker/offset_static.h"

#include <strings.h>

#include "base/list.h"
#include "base/mem.h"
#include "broker/logical_queue.h"

#define NOTHING (-1)

struct question {
    struct rq_remote_call remote;
    struct rmq_broker *broker;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
    int32_t code;
    struct rq_frame_ref *frame; /* owns what the header's texts are in */
    struct rq_logical_queue logical;
    const struct rq_mapping_item *item; /* that is asked about now */
    union {
        struct rq_hdr_query_consumer_offset query;
        struct rq_hdr_update_consumer_offset update;
        struct rq_hdr_search_offset search;
        struct rq_hdr_queue queue;
    } header;
};

static void free_question(struct question *question)
{
    rq_conn_release(question->conn);
    rq_frame_ref_release(question->frame);
    rq_queue_mapping_release(question->logical.mapping);
    rq_free(question);
}

static const struct rq_fields *table_of(int32_t code)
{
    switch (code) {
    case RQ_REQ_QUERY_CONSUMER_OFFSET:
        return &rq_tab_query_consumer_offset;
    case RQ_REQ_UPDATE_CONSUMER_OFFSET:
        return &rq_tab_update_consumer_offset;
    case RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP:
        return &rq_tab_search_offset;
    default:
        return &rq_tab_queue;
    }
}

/* ---- one physical queue ---- */

bool rq_search_is_upper(const struct rq_hdr_search_offset *header)
{
    return header->boundary_type.n == 5 && strncasecmp(header->boundary_type.p, "upper", 5) == 0;
}

/* What this broker knows of its own queue. */
static int64_t ask_here(const struct question *question)
{
    struct rmq_broker *broker = question->broker;
    struct rq_slice topic = rq_slice_str(question->logical.mapping->topic);
    int32_t queue_id = question->item->queue_id;
    switch (question->code) {
    case RQ_REQ_QUERY_CONSUMER_OFFSET:
        return rq_offsets_query(&broker->offsets, question->header.query.consumer_group, topic,
                                queue_id);
    case RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP:
        return rq_store_offset_by_time(broker->store, topic, queue_id,
                                       question->header.search.timestamp,
                                       rq_search_is_upper(&question->header.search));
    case RQ_REQ_GET_MAX_OFFSET:
        return rq_store_max_offset(broker->store, topic, queue_id);
    case RQ_REQ_GET_MIN_OFFSET:
        return rq_store_min_offset(broker->store, topic, queue_id);
    default:
        return rq_store_earliest_time(broker->store, topic, queue_id);
    }
}

/* The request for the item's queue on another broker. */
static struct rq_out *make_request(struct question *question)
{
    const struct rq_mapping_item *item = question->item;
    struct rq_slice bname = rq_slice_str(item->broker_name);
    switch (question->code) {
    case RQ_REQ_QUERY_CONSUMER_OFFSET:
        question->header.query.queue_id = item->queue_id;
        question->header.query.bname = bname;
        RQ_SET(query_consumer_offset, &question->header.query, set_zero_if_not_found, false);
        break;
    case RQ_REQ_UPDATE_CONSUMER_OFFSET:
        question->header.update.queue_id = item->queue_id;
        question->header.update.bname = bname;
        break;
    case RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP:
        question->header.search.queue_id = item->queue_id;
        question->header.search.bname = bname;
        break;
    default:
        question->header.queue.queue_id = item->queue_id;
        question->header.queue.bname = bname;
    }
    return rq_logical_request(question->code, table_of(question->code), &question->header);
}

/* The value of another broker's answer; false: it is none. */
static bool read_value(const struct question *question, const struct rq_in *answer, int64_t *out)
{
    struct rq_hdr_offset_response offset = {0};
    struct rq_hdr_timestamp_response time = {0};
    *out = NOTHING;
    if (question->code == RQ_REQ_QUERY_CONSUMER_OFFSET &&
        answer->header->code == RQ_RESP_QUERY_NOT_FOUND) {
        return true;
    }
    if (answer->header->code != RQ_RESP_SUCCESS) {
        return false;
    }
    if (question->code == RQ_REQ_UPDATE_CONSUMER_OFFSET) {
        return true;
    }
    if (question->code == RQ_REQ_GET_EARLIEST_MSG_STORETIME) {
        bool ok = rq_fields_decode(&rq_tab_timestamp_response, answer->header, &time, NULL) == 0;
        *out = time.timestamp;
        return ok;
    }
    bool ok = rq_fields_decode(&rq_tab_offset_response, answer->header, &offset, NULL) == 0;
    *out = offset.offset;
    return ok;
}

/* ---- the logical queue ---- */

static void answer_offset(const struct question *question, int64_t offset)
{
    struct rq_hdr_offset_response fields = {.offset = offset};
    rq_answer_fields(question->conn, &question->to, &rq_tab_offset_response, &fields);
}

/* To the queue before, which holds older messages; false: this is the first. */
static bool step_back(struct question *question)
{
    if (question->item == question->logical.queue->items) {
        return false;
    }
    question->item--;
    return true;
}

/* What the item's queue has said: answers, true; or goes on to another item. A group's offset is in
 * the newest queue that has one. A time is in the newest queue that has messages of before. */
static bool take(struct question *question, int64_t value)
{
    const struct rq_mapping_item *item = question->item;
    switch (question->code) {
    case RQ_REQ_UPDATE_CONSUMER_OFFSET:
        rq_answer_code(question->conn, &question->to, RQ_RESP_SUCCESS, NULL);
        return true;
    case RQ_REQ_QUERY_CONSUMER_OFFSET:
        if (value < 0 && step_back(question)) {
            return false;
        }
        if (value >= 0) {
            answer_offset(question, rq_item_logical(item, value));
        } else {
            rq_answer_code(question->conn, &question->to, RQ_RESP_QUERY_NOT_FOUND,
                           "Not found, maybe this group consumer boot first");
        }
        return true;
    case RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP:
        if (value <= item->start_offset && step_back(question)) {
            return false;
        }
        answer_offset(question, value < 0 ? value : rq_item_logical(item, value));
        return true;
    case RQ_REQ_GET_MAX_OFFSET:
        answer_offset(question, rq_item_logical(item, value));
        return true;
    case RQ_REQ_GET_MIN_OFFSET:
        answer_offset(question, rq_item_logical_bounded(item, value));
        return true;
    default: {
        struct rq_hdr_timestamp_response fields = {.timestamp = value};
        rq_answer_fields(question->conn, &question->to, &rq_tab_timestamp_response, &fields);
        return true;
    }
    }
}

static void run(struct question *question);

static void answered(struct rq_remote_call *remote, rmq_status status, struct rq_in *answer)
{
    struct question *question = RQ_CONTAINER_OF(remote, struct question, remote);
    int64_t value;
    if (status || !read_value(question, answer, &value)) {
        rq_logical_failed(question->conn, &question->to, question->item, status, answer);
        free_question(question);
    } else if (take(question, value)) {
        free_question(question);
    } else {
        run(question);
    }
}

static void run(struct question *question)
{
    while (rq_queue_mapping_has_item(question->logical.mapping, question->item)) {
        if (take(question, ask_here(question))) {
            free_question(question);
            return;
        }
    }
    question->remote.done = answered;
    rq_remotes_ask(&question->broker->remotes, &question->remote, question->item->broker_name,
                   make_request(question));
}

/* ---- the request ---- */

/* Takes the reference of logical. The header is decoded again, from a frame that stays. */
static struct question *make_question(const struct rq_request *request,
                                      const struct rq_logical_queue *logical,
                                      const struct rq_mapping_item *item)
{
    struct question *question = rq_calloc(1, sizeof *question);
    struct rq_frame_ref *frame = question ? rq_in_keep(request->in) : NULL;
    if (!frame) {
        rq_free(question);
        rq_queue_mapping_release(logical->mapping);
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "out of memory");
        return NULL;
    }
    question->broker = request->broker;
    question->conn = rq_conn_retain(request->conn);
    question->to = request->to;
    question->code = request->in->header->code;
    question->frame = frame;
    question->logical = *logical;
    question->item = item;
    (void)rq_fields_decode(table_of(question->code), request->in->header, &question->header, NULL);
    return question;
}

/* Begins with the queue that a logical offset falls into. */
static void start(const struct rq_request *request, struct rq_logical_queue *logical,
                  int64_t offset)
{
    const struct rq_mapping_item *item = rq_logical_item(request, logical, offset);
    struct question *question = item ? make_question(request, logical, item) : NULL;
    if (question) {
        run(question);
    }
}

bool rq_static_query_offset(const struct rq_request *request,
                            struct rq_hdr_query_consumer_offset *header)
{
    struct rq_logical_queue logical;
    if (!rq_logical_find(request, header->topic, header->queue_id, &logical)) {
        return false;
    }
    if (!rq_logical_leads(request, &logical)) {
        return true;
    }
    const struct rq_mapping_item *leader = rq_mapped_leader(logical.queue);
    if (logical.queue->count == 1 && leader->logic_offset == 0 && leader->start_offset == 0) {
        header->queue_id = leader->queue_id; /* the offsets are the same */
        rq_queue_mapping_release(logical.mapping);
        return false;
    }
    start(request, &logical, INT64_MAX);
    return true;
}

bool rq_static_update_offset(const struct rq_request *request,
                             struct rq_hdr_update_consumer_offset *header)
{
    struct rq_logical_queue logical;
    if (!rq_logical_find(request, header->topic, header->queue_id, &logical)) {
        return false;
    }
    if (!rq_logical_leads(request, &logical)) {
        return true;
    }
    const struct rq_mapping_item *item = rq_logical_item(request, &logical, header->commit_offset);
    if (!item) {
        return true;
    }
    header->commit_offset = rq_item_physical(item, header->commit_offset);
    if (rq_queue_mapping_has_item(logical.mapping, item)) {
        header->queue_id = item->queue_id;
        rq_queue_mapping_release(logical.mapping);
        return false;
    }
    struct question *question = make_question(request, &logical, item);
    if (question) {
        question->header.update.commit_offset = header->commit_offset;
        run(question);
    }
    return true;
}

bool rq_static_search_offset(const struct rq_request *request,
                             const struct rq_hdr_search_offset *header)
{
    struct rq_logical_queue logical;
    if (!rq_logical_find(request, header->topic, header->queue_id, &logical)) {
        return false;
    }
    if (rq_logical_leads(request, &logical)) {
        start(request, &logical, INT64_MAX);
    }
    return true;
}

bool rq_static_queue_offset(const struct rq_request *request, const struct rq_hdr_queue *header)
{
    struct rq_logical_queue logical;
    if (!rq_logical_find(request, header->topic, header->queue_id, &logical)) {
        return false;
    }
    if (rq_logical_leads(request, &logical)) {
        bool newest = request->in->header->code == RQ_REQ_GET_MAX_OFFSET;
        start(request, &logical, newest ? INT64_MAX : 0);
    }
    return true;
}

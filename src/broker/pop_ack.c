/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What becomes of messages that were popped: ACK_MESSAGE, BATCH_ACK_MESSAGE,
 * CHANGE_MESSAGE_INVISIBLETIME. Loop thread of the connection. Counterparts: AckMessageProcessor,
 * ChangeInvisibleTimeProcessor.
 */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/pop.h"
#include "broker/pop_checkpoint.h"
#include "wire/pop.h"

#define BATCH_MAX         4096   /* pieces of one batch */
#define BIT_BYTES_MAX     131072 /* of a piece: far more than one pop reads */
#define INVISIBLE_MOST_MS (365 * 86400000LL)

static bool check_place(const struct rq_request *request, const struct rq_hdr_ack *header)
{
    struct rq_topic_info info;
    if (!rq_topics_get(&request->broker->topics, header->topic, &info)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "topic[%.*s] not exist, apply first please!", RQ_TEXT(header->topic));
        return false;
    }
    if (header->queue_id < 0 || header->queue_id >= info.read_queue_nums) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_MESSAGE_ILLEGAL,
                       "queueId[%d] is illegal, topic:[%.*s] topicConfig.readQueueNums:[%d] "
                       "consumer:[%s]",
                       (int)header->queue_id, RQ_TEXT(header->topic), (int)info.read_queue_nums,
                       rq_conn_remote(request->conn));
        return false;
    }
    return true;
}

/* to_end: the queue's end itself is accepted, too. */
static bool check_offset(const struct rq_request *request, const struct rq_hdr_ack *header,
                         bool to_end)
{
    struct rq_store *store = request->broker->store;
    int64_t least = rq_store_min_offset(store, header->topic, header->queue_id);
    int64_t most = rq_store_max_offset(store, header->topic, header->queue_id);
    if (header->offset >= least && (header->offset < most || (to_end && header->offset == most))) {
        return true;
    }
    rq_answer_text(request->conn, &request->to, RQ_RESP_NO_MESSAGE,
                   "offset is illegal, key:%.*s@%d, commit:%lld, store:%lld~%lld",
                   RQ_TEXT(header->topic), (int)header->queue_id, (long long)header->offset,
                   (long long)least, (long long)most);
    return false;
}

static bool read_handle(const struct rq_request *request, const struct rq_hdr_ack *header,
                        struct rq_pop_handle *out)
{
    if (rq_pop_handle_parse(header->extra_info, out)) {
        return true;
    }
    rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR, "extraInfo [%.*s] is illegal",
                   RQ_TEXT(header->extra_info));
    return false;
}

/* ---- in order ---- */

static const char not_popped[] = "offset is illegal: it is none of those that were popped in order";

/* false: it is none of those that were popped. */
static bool ack_in_order(struct rmq_broker *broker, const struct rq_pop_place *place,
                         int64_t offset, int64_t pop_time_ms)
{
    struct rq_mutex *lock = rq_pop_lock(broker, place);
    bool free_now = false;
    bool known = true;
    rq_mutex_lock(lock);
    int64_t old = rq_offsets_query(&broker->offsets, place->group, place->topic, place->queue_id);
    if (offset >= old) {
        int64_t next = rq_pop_order_commit(&broker->pop_orders, place, offset, pop_time_ms);
        known = next >= 0 || next == RQ_POP_ORDER_STALE;
        if (next >= 0) {
            (void)rq_offsets_commit(&broker->offsets, place->group, place->topic, place->queue_id,
                                    next, NULL);
            free_now = rq_pop_order_blocked_until(&broker->pop_orders, place, rq_slice(NULL, 0), 0,
                                                  rq_wall_ms()) == 0;
        }
    }
    rq_mutex_unlock(lock);
    rq_broker_count_acks(broker, place->topic, place->group, 1);
    if (free_now) {
        rq_pop_hold_wake(&broker->pop_hold, place->topic, place->group, place->queue_id);
    }
    return known;
}

static rmq_status acknowledge(struct rmq_broker *broker, int32_t revive_qid,
                              const struct rq_pop_ack *ack)
{
    rmq_status st = rq_pops_ack(&broker->pops, revive_qid, ack);
    if (st == RMQ_OK) {
        rq_broker_count_acks(broker, ack->topic, ack->group, ack->count ? ack->count : 1);
    }
    return st;
}

/* ---- 200051 ---- */

void rq_process_ack(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_ack header;
    struct rq_pop_handle handle;
    if (!rq_request_decode(request, &rq_tab_ack, &header) || !check_place(request, &header) ||
        !check_offset(request, &header, true) || !read_handle(request, &header, &handle)) {
        return;
    }
    if (handle.revive_qid == RQ_POP_ORDER_QUEUE) {
        const struct rq_pop_place place = {
            .topic = header.topic, .group = header.consumer_group, .queue_id = header.queue_id};
        bool known = ack_in_order(broker, &place, header.offset, handle.pop_time_ms);
        rq_request_answer(request, known ? RQ_RESP_SUCCESS : RQ_RESP_MESSAGE_ILLEGAL,
                          known ? NULL : not_popped);
        return;
    }
    const struct rq_pop_ack ack = {.topic = header.topic,
                                   .group = header.consumer_group,
                                   .broker_name = handle.broker_name,
                                   .queue_id = header.queue_id,
                                   .start_offset = handle.start_offset,
                                   .pop_time_ms = handle.pop_time_ms,
                                   .offset = header.offset};
    rmq_status st = acknowledge(broker, handle.revive_qid, &ack);
    rq_broker_dispatch_soon(request);
    rq_request_answer(request, st == RMQ_OK ? RQ_RESP_SUCCESS : RQ_RESP_SYSTEM_ERROR,
                      st == RMQ_OK ? NULL : "the acknowledgement could not be stored");
}

/* ---- 200151 ---- */

/* As many as a pop gives. */
static size_t offsets_of(struct rq_store *store, struct rq_slice topic,
                         const struct rq_pop_batch_ack *ack, int64_t out[RQ_POP_MAX])
{
    size_t count = 0;
    int64_t least = rq_store_min_offset(store, topic, ack->queue_id);
    int64_t most = rq_store_max_offset(store, topic, ack->queue_id);
    for (size_t i = 0; i < ack->bits.n * 8 && count < RQ_POP_MAX; i++) {
        bool set = (unsigned char)ack->bits.p[i / 8] >> i % 8 & 1;
        if (!set || ack->start_offset > INT64_MAX - (int64_t)i) {
            continue;
        }
        int64_t offset = ack->start_offset + (int64_t)i;
        if (offset >= least && offset <= most) {
            out[count++] = offset;
        }
    }
    return count;
}

static rmq_status ack_messages(struct rmq_broker *broker, const struct rq_pop_batch_ack *piece,
                               struct rq_slice topic, struct rq_slice broker_name)
{
    int64_t offsets[RQ_POP_MAX];
    size_t count = offsets_of(broker->store, topic, piece, offsets);
    if (piece->revive_qid == RQ_POP_ORDER_QUEUE) {
        const struct rq_pop_place place = {
            .topic = topic, .group = piece->group, .queue_id = piece->queue_id};
        bool known = true;
        for (size_t i = 0; i < count; i++) {
            known &= ack_in_order(broker, &place, offsets[i], piece->pop_time_ms);
        }
        return known ? RMQ_OK : RMQ_ERR_INVALID;
    }
    const struct rq_pop_ack ack = {.topic = topic,
                                   .group = piece->group,
                                   .broker_name = broker_name,
                                   .queue_id = piece->queue_id,
                                   .start_offset = piece->start_offset,
                                   .pop_time_ms = piece->pop_time_ms,
                                   .count = count,
                                   .offsets = offsets};
    return count > 0 ? acknowledge(broker, piece->revive_qid, &ack) : RMQ_OK;
}

static rmq_status ack_piece(struct rmq_broker *broker, const cJSON *json,
                            struct rq_slice broker_name)
{
    struct rq_pop_batch_ack piece;
    struct rq_buf bits;
    char room[RQ_POP_TOPIC_ROOM];
    struct rq_slice topic;
    rmq_status st = RMQ_ERR_PROTOCOL;
    rq_buf_init(&bits, BIT_BYTES_MAX);
    if (rq_pop_batch_ack_read(json, &bits, &piece) == RMQ_OK &&
        rq_pop_marked_topic(piece.topic, piece.group, piece.retry, room, &topic)) {
        st = ack_messages(broker, &piece, topic, broker_name);
    }
    rq_buf_free(&bits);
    return st;
}

void rq_process_batch_ack(const struct rq_request *request)
{
    cJSON *json = NULL;
    rmq_status st = RMQ_OK;
    if (rq_json_parse(request->in->body, &json, NULL) != RMQ_OK) {
        rq_request_answer(request, RQ_RESP_NO_MESSAGE, "the body is no list of acknowledgements");
        return;
    }
    const cJSON *acks = rq_json_get(json, "acks");
    struct rq_slice broker_name = rq_slice_str(rq_json_str(json, "brokerName", ""));
    int count = 0;
    for (const cJSON *item = acks && cJSON_IsArray(acks) ? acks->child : NULL;
         item && count < BATCH_MAX; item = item->next) {
        rmq_status one = ack_piece(request->broker, item, broker_name);
        st = st == RMQ_OK ? one : st;
        count++;
    }
    rq_json_free(json);
    rq_broker_dispatch_soon(request);
    if (count == 0) {
        rq_request_answer(request, RQ_RESP_NO_MESSAGE, NULL);
    } else if (st == RMQ_ERR_INVALID) {
        rq_request_answer(request, RQ_RESP_MESSAGE_ILLEGAL, not_popped);
    } else {
        rq_request_answer(request, st == RMQ_OK ? RQ_RESP_SUCCESS : RQ_RESP_SYSTEM_ERROR,
                          st == RMQ_OK ? NULL
                                       : "not every acknowledgement could be read and stored");
    }
}

/* ---- 200053 ---- */

static void answer_change(const struct rq_request *request, int64_t pop_time_ms,
                          int64_t invisible_ms, int32_t revive_qid)
{
    const struct rq_hdr_change_invisible_response fields = {
        .pop_time = pop_time_ms, .invisible_time = invisible_ms, .revive_qid = revive_qid};
    rq_answer_fields(request->conn, &request->to, &rq_tab_change_invisible_response, &fields);
}

static void change_in_order(const struct rq_request *request, const struct rq_hdr_ack *header,
                            const struct rq_pop_handle *handle)
{
    struct rmq_broker *broker = request->broker;
    const struct rq_pop_place place = {
        .topic = header->topic, .group = header->consumer_group, .queue_id = header->queue_id};
    struct rq_mutex *lock = rq_pop_lock(broker, &place);
    int64_t visible = rq_wall_ms() + header->invisible_time;
    rq_mutex_lock(lock);
    if (header->offset >=
        rq_offsets_query(&broker->offsets, place.group, place.topic, place.queue_id)) {
        rq_pop_order_set_visible(&broker->pop_orders, &place, header->offset, handle->pop_time_ms,
                                 visible);
    }
    rq_mutex_unlock(lock);
    rq_pop_hold_wake(&broker->pop_hold, place.topic, place.group, place.queue_id);
    answer_change(request, handle->pop_time_ms, visible - handle->pop_time_ms, RQ_POP_ORDER_QUEUE);
}

/* A new checkpoint takes the message over, then the old one is acknowledged: in this order, so that
 * it is in one of them at any time. */
static rmq_status take_over(struct rmq_broker *broker, const struct rq_hdr_ack *header,
                            const struct rq_pop_handle *handle, int64_t now_ms)
{
    const struct rq_pop_checkpoint fresh = {.topic = header->topic,
                                            .group = header->consumer_group,
                                            .broker_name = handle->broker_name,
                                            .queue_id = header->queue_id,
                                            .start_offset = header->offset,
                                            .pop_time_ms = now_ms,
                                            .invisible_ms = header->invisible_time,
                                            .count = 1};
    const struct rq_pop_ack ack = {.topic = header->topic,
                                   .group = header->consumer_group,
                                   .broker_name = handle->broker_name,
                                   .queue_id = header->queue_id,
                                   .start_offset = handle->start_offset,
                                   .pop_time_ms = handle->pop_time_ms,
                                   .offset = header->offset};
    rmq_status st = rq_pops_add(&broker->pops, handle->revive_qid, &fresh);
    if (st == RMQ_OK) {
        rq_broker_count_checkpoint(broker, header->topic, header->consumer_group);
        st = acknowledge(broker, handle->revive_qid, &ack);
    }
    return st;
}

void rq_process_change_invisible(const struct rq_request *request)
{
    struct rq_hdr_ack header;
    struct rq_pop_handle handle;
    if (!rq_request_decode(request, &rq_tab_ack, &header) || !check_place(request, &header) ||
        !check_offset(request, &header, false) || !read_handle(request, &header, &handle)) {
        return;
    }
    if (header.invisible_time < 0 || header.invisible_time > INVISIBLE_MOST_MS) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "invisibleTime[%lld] is illegal", (long long)header.invisible_time);
        return;
    }
    if (handle.revive_qid == RQ_POP_ORDER_QUEUE) {
        change_in_order(request, &header, &handle);
        return;
    }
    int64_t now = rq_wall_ms();
    if (now <= handle.pop_time_ms) {
        now = handle.pop_time_ms + 1; /* never the checkpoint that it is to replace */
    }
    rmq_status st = take_over(request->broker, &header, &handle, now);
    rq_broker_dispatch_soon(request);
    if (st == RMQ_OK) {
        answer_change(request, now, header.invisible_time, handle.revive_qid);
    } else {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, "the message could not be taken over");
    }
}

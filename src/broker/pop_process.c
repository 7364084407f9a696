/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The requests that look for messages to pop: POP_MESSAGE, PEEK_MESSAGE, NOTIFICATION,
 * POLLING_INFO. Loop thread of the connection. Counterparts: PopMessageProcessor,
 * PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor.
 */
#include <string.h>

#include "base/time.h"
#include "broker/broker.h"
#include "broker/filter.h"
#include "broker/pop.h"
#include "broker/pop_look.h"

#define POLL_MOST_MS      86400000
#define INVISIBLE_MOST_MS (365 * 86400000LL)

static bool refuse_topic(const struct rq_request *request, struct rq_slice topic)
{
    rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                   "topic[%.*s] not exist, apply first please!", RQ_TEXT(topic));
    return false;
}

static bool check_group(const struct rq_request *request, struct rq_slice group)
{
    struct rq_group_info info;
    if (!rq_groups_get(&request->broker->groups, group, &info)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST,
                       "subscription group [%.*s] does not exist", RQ_TEXT(group));
        return false;
    }
    if (!info.consume_enable) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_NO_PERMISSION,
                       "subscription group no permission, %.*s", RQ_TEXT(group));
        return false;
    }
    return true;
}

/* What processors of the family check first: broker, topic, queue, group. false: it has
 * answered. */
static bool check_access(const struct rq_request *request, struct rq_slice topic,
                         struct rq_slice group, int32_t queue_id)
{
    struct rmq_broker *broker = request->broker;
    struct rq_topic_info info;
    if (!(broker->settings.broker.broker_permission & RQ_PERM_READ)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_NO_PERMISSION,
                       "the broker[%s] pop message is forbidden",
                       broker->settings.broker.broker_ip1);
        return false;
    }
    if (!rq_topics_get(&broker->topics, topic, &info)) {
        return refuse_topic(request, topic);
    }
    if (!(info.perm & RQ_PERM_READ)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_NO_PERMISSION,
                       "the topic[%.*s] peeking message is forbidden", RQ_TEXT(topic));
        return false;
    }
    if (queue_id >= info.read_queue_nums) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "queueId[%d] is illegal, topic:[%.*s] topicConfig.readQueueNums:[%d] "
                       "consumer:[%s]",
                       (int)queue_id, RQ_TEXT(topic), (int)info.read_queue_nums,
                       rq_conn_remote(request->conn));
        return false;
    }
    return check_group(request, group);
}

/* ---- 200050 ---- */

/* false: it has answered. Nothing to hold for "*". */
static bool make_filter(const struct rq_request *request, const struct rq_hdr_pop *header,
                        struct rq_shared_subscription **out)
{
    *out = NULL;
    if (header->exp.n == 0 ||
        (rq_filter_is_tag(header->exp_type) && rq_slice_eq_str(header->exp, RQ_SUBSCRIBE_ALL))) {
        return true;
    }
    *out = rq_filter_make(header->topic, header->exp, header->exp_type, 0, NULL);
    if (!*out) {
        rq_request_answer(request, RQ_RESP_SUBSCRIPTION_PARSE_FAILED,
                          "parse the consumer's subscription failed");
        return false;
    }
    return true;
}

static bool check_pop(const struct rq_request *request, const struct rq_hdr_pop *header)
{
    if (header->max_msg_nums > RQ_POP_MAX) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "the broker[%s] pop message's num is greater than 32",
                       request->broker->settings.broker.broker_ip1);
        return false;
    }
    if (header->max_msg_nums < 1 || header->invisible_time < 0 ||
        header->invisible_time > INVISIBLE_MOST_MS) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "maxMsgNums[%d] or invisibleTime[%lld] is illegal",
                       (int)header->max_msg_nums, (long long)header->invisible_time);
        return false;
    }
    return check_access(request, header->topic, header->consumer_group, header->queue_id);
}

/* Answers at once, or waits. */
static void look_or_wait(const struct rq_request *request, const struct rq_pop_ask *ask,
                         int64_t poll_ms)
{
    struct rmq_broker *broker = request->broker;
    struct rq_pop_outcome outcome;
    int64_t wait_ms = poll_ms < POLL_MOST_MS ? poll_ms : POLL_MOST_MS;
    if (!rq_pop_answer(broker, request->conn, &request->to, ask, wait_ms <= 0, &outcome)) {
        rq_pop_hold_wait(&broker->pop_hold, request->session, &request->to, ask, wait_ms);
    } else if (outcome.more) {
        rq_pop_hold_wake(&broker->pop_hold, ask->topic, ask->group, ask->queue_id);
    }
    rq_broker_dispatch_soon(request); /* of the checkpoints */
}

void rq_process_pop(const struct rq_request *request)
{
    struct rq_hdr_pop header;
    struct rq_shared_subscription *sub = NULL;
    if (!rq_request_decode(request, &rq_tab_pop, &header) || !check_pop(request, &header) ||
        !make_filter(request, &header, &sub)) {
        return;
    }
    const struct rq_pop_ask ask = {.topic = header.topic,
                                   .group = header.consumer_group,
                                   .attempt_id = header.attempt_id,
                                   .sub = sub,
                                   .queue_id = header.queue_id < 0 ? -1 : header.queue_id,
                                   .max_msgs = header.max_msg_nums,
                                   .init_mode = header.init_mode,
                                   .invisible_ms = header.invisible_time,
                                   .order = header.order};
    if (!request->to.oneway) {
        look_or_wait(request, &ask, header.poll_time);
    }
    rq_shared_subscription_release(sub);
}

/* ---- 200054, 200055 ---- */

void rq_process_notification(const struct rq_request *request)
{
    struct rq_hdr_notification header;
    if (!rq_request_decode(request, &rq_tab_notification, &header) ||
        !check_access(request, header.topic, header.consumer_group, header.queue_id)) {
        return;
    }
    const struct rq_pop_ask ask = {.topic = header.topic,
                                   .group = header.consumer_group,
                                   .attempt_id = header.attempt_id,
                                   .queue_id = header.queue_id < 0 ? -1 : header.queue_id,
                                   .max_msgs = 1,
                                   .order = header.order,
                                   .is_notice = true};
    if (!request->to.oneway) {
        look_or_wait(request, &ask, header.poll_time);
    }
}

void rq_process_polling_info(const struct rq_request *request)
{
    struct rq_hdr_notification header;
    struct rq_hdr_notification_response fields = {0};
    if (!rq_request_decode(request, &rq_tab_notification, &header) ||
        !check_access(request, header.topic, header.consumer_group, header.queue_id)) {
        return;
    }
    const struct rq_pop_place place = {.topic = header.topic,
                                       .group = header.consumer_group,
                                       .queue_id = header.queue_id < 0 ? -1 : header.queue_id};
    RQ_SET(notification_response, &fields, polling_num,
           rq_pop_hold_count(&request->broker->pop_hold, &place));
    rq_answer_fields(request->conn, &request->to, &rq_tab_notification_response, &fields);
}

/* ---- 200052: reads what a pop would read, and changes nothing ---- */

static void get_to_peek(const struct rq_pop_look *look, const struct rq_pop_place *place,
                        int64_t offset, struct rq_store_result *out)
{
    rq_store_get(look->broker->store, place->topic, place->queue_id, offset,
                 look->ask->max_msgs - (int32_t)look->count, 0, NULL, out);
}

static void peek_queue(struct rq_pop_look *look, const struct rq_pop_place *place)
{
    struct rmq_broker *broker = look->broker;
    struct rq_store_result result;
    int64_t offset =
        rq_offsets_query(&broker->offsets, place->group, place->topic, place->queue_id);
    int64_t most = rq_store_max_offset(broker->store, place->topic, place->queue_id);
    if (offset < 0) {
        offset = rq_pop_initial_offset(broker, place, RQ_POP_FROM_MIN);
    }
    look->rest += most > offset ? most - offset : 0;
    if ((int32_t)look->count >= look->ask->max_msgs || look->piece_count >= RQ_POP_MAX) {
        return;
    }
    get_to_peek(look, place, offset, &result);
    if (result.status == RQ_GET_OFFSET_TOO_SMALL || result.status == RQ_GET_OFFSET_OVERFLOW_BADLY) {
        get_to_peek(look, place, result.next_begin_offset, &result); /* it held no messages */
    }
    if (result.status == RQ_GET_FOUND) {
        look->count += (size_t)result.msg_count;
        for (size_t i = 0; i < result.ref_count && look->piece_count < RQ_POP_MAX; i++) {
            look->pieces[look->piece_count++] = (struct rq_pop_piece){
                .p = result.refs[i].p, .n = result.refs[i].n, .file = result.refs[i].file};
            look->bytes += result.refs[i].n;
            result.refs[i] = (struct rq_store_ref){0};
        }
    }
    rq_store_result_release(&result);
}

void rq_process_peek(const struct rq_request *request)
{
    struct rq_hdr_notification header;
    struct rq_pop_look look;
    if (!rq_request_decode(request, &rq_tab_notification, &header) ||
        !check_access(request, header.topic, header.consumer_group, header.queue_id) ||
        request->to.oneway) {
        return;
    }
    const struct rq_pop_ask ask = {
        .topic = header.topic,
        .group = header.consumer_group,
        .queue_id = header.queue_id < 0 ? -1 : header.queue_id,
        .max_msgs = header.max_msg_nums < RQ_POP_MAX ? header.max_msg_nums : RQ_POP_MAX};
    rq_pop_look_init(&look, request->broker, &ask);
    look.pop_time_ms = rq_wall_ms();
    rq_pop_look_over(&look, peek_queue);
    bool found = look.count > 0;
    rq_pop_send_answer(request->conn, &request->to,
                       found ? RQ_RESP_SUCCESS : RQ_RESP_PULL_NOT_FOUND,
                       found ? "FOUND" : "NO_MESSAGE_IN_QUEUE", &look);
    rq_pop_look_release(&look);
}

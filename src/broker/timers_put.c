/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Messages on their way to the timer topic, and back by their handles (370). Loop thread.
 * Counterparts: HookUtils.transformTimerMessage, RecallMessageProcessor, RecallMessageHandle. */
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/names.h"
#include "wire/properties.h"
#include "wire/recall.h"

/* TIMER_DEQUEUE_MS and TIMER_ROLL_TIMES, which come when it is due, and a CRC of the store. */
#define ROOM_WHEN_DUE 96

/* When the properties ask the message to be delivered; false when they do not. *bad: with something
 * that is no time. */
static bool asked_time(struct rq_slice properties, int64_t now_ms, int64_t *at_ms, bool *bad)
{
    static const struct {
        const char *name;
        int64_t unit_ms;
        bool relative;
    } ways[] = {{RQ_PROP_TIMER_DELAY_SEC, 1000, true},
                {RQ_PROP_TIMER_DELAY_MS, 1, true},
                {RQ_PROP_TIMER_DELIVER_MS, 1, false}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct rq_slice text = rq_props_get(properties, ways[i].name);
        int64_t number = 0;
        if (!text.p) {
            continue;
        }
        *bad = !rq_slice_to_i64(text, &number) || number > INT64_MAX / 2000 ||
               number < INT64_MIN / 2000;
        *at_ms = *bad ? 0 : number * ways[i].unit_ms + (ways[i].relative ? now_ms : 0);
        return true;
    }
    return false;
}

enum rq_timers_kind rq_timers_divert(struct rmq_broker *broker, struct rq_msg *msg,
                                     struct rq_buf *props)
{
    static const char *const replaced[] = {RQ_PROP_REAL_TOPIC, RQ_PROP_REAL_QID};
    const struct rq_broker_options *options = &broker->settings.broker;
    int64_t now_ms = rq_wall_ms();
    int64_t at_ms = 0;
    bool bad = false;
    if (rq_props_get(msg->properties, RQ_PROP_TIMER_OUT_MS).p ||
        !asked_time(msg->properties, now_ms, &at_ms, &bad)) {
        return RQ_TIMED_NOT;
    }
    if (!options->timer_wheel_enable) {
        return RQ_TIMED_OFF;
    }
    if (bad || at_ms - now_ms > (int64_t)options->timer_max_delay_sec * 1000) {
        return RQ_TIMED_ILLEGAL;
    }
    if (at_ms <= now_ms) {
        return RQ_TIMED_NOT;
    }
    rq_props_copy_without(props, 0, msg->properties, replaced, 2);
    rq_buf_add_slice(props, msg->more_properties);
    rq_props_add_i64(props, 0, RQ_PROP_TIMER_OUT_MS, at_ms);
    rq_props_add_str(props, 0, RQ_PROP_REAL_TOPIC, msg->topic);
    rq_props_add_i64(props, 0, RQ_PROP_REAL_QID, msg->queue_id);
    msg->properties = rq_slice(props->data, props->len);
    msg->more_properties = rq_slice(NULL, 0);
    msg->topic = rq_slice_str(RQ_TOPIC_TIMER);
    msg->queue_id = 0;
    return props->len + ROOM_WHEN_DUE > RQ_MSG_PROPERTIES_MAX ? RQ_TIMED_LARGE : RQ_TIMED_YES;
}

void rq_timers_write_handle(const struct rmq_broker *broker, const struct rq_msg *msg,
                            struct rq_buf *out)
{
    struct rq_recall_handle handle = {
        .topic = rq_props_get(msg->properties, RQ_PROP_REAL_TOPIC),
        .broker_name = rq_slice_str(broker->settings.broker.broker_name),
        .time_ms = rq_props_get_i64(msg->properties, RQ_PROP_TIMER_OUT_MS, 0) + 1,
        .message_id = rq_props_get(msg->properties, RQ_PROP_UNIQ_KEY)};
    if (!rq_topic_is_retry(handle.topic)) {
        rq_recall_handle_write(&handle, out);
    }
}

/* ---- recall ---- */

static bool refuse(const struct rq_request *request, int32_t code, const char *remark)
{
    rq_request_answer(request, code, remark);
    return false;
}

static bool check_recall(const struct rq_request *request, const struct rq_hdr_recall *header)
{
    struct rmq_broker *broker = request->broker;
    struct rq_topic_info info;
    if (!broker->settings.broker.recall_message_enable) {
        return refuse(request, RQ_RESP_NO_PERMISSION, "recall failed, operation is forbidden");
    }
    if (broker->settings.broker.start_accept_send_request_time_stamp > rq_wall_ms()) {
        return refuse(request, RQ_RESP_SERVICE_NOT_AVAILABLE,
                      "recall failed, broker service not available");
    }
    if (!rq_topics_get(&broker->topics, header->topic, &info)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "recall failed, the topic[%.*s] not exist", RQ_TEXT(header->topic));
        return false;
    }
    return true;
}

static bool check_handle(const struct rq_request *request, const struct rq_hdr_recall *header,
                         const struct rq_recall_handle *handle)
{
    const struct rq_broker_options *options = &request->broker->settings.broker;
    int64_t left_ms = rq_ms_between(rq_wall_ms(), handle->time_ms);
    if (!rq_slice_eq(header->topic, handle->topic)) {
        return refuse(request, RQ_RESP_ILLEGAL_OPERATION, "recall failed, topic not match");
    }
    if (!rq_slice_eq_str(handle->broker_name, options->broker_name)) {
        return refuse(request, RQ_RESP_ILLEGAL_OPERATION,
                      "recall failed, broker service not available");
    }
    if (left_ms <= 0 || left_ms >= (int64_t)options->timer_max_delay_sec * 1000) {
        return refuse(request, RQ_RESP_ILLEGAL_OPERATION, "recall failed, timestamp invalid");
    }
    return true;
}

/* A send may be answered before its message has a queue entry, by which it is found here: another
 * thread is just making entries, it is in a write buffer, or (synchronous flush) those entries are
 * made behind the answer. */
static void take_back(const struct rq_request *request, const struct rq_recall_handle *handle)
{
    struct rmq_broker *broker = request->broker;
    bool all = true;
    bool found = rq_timers_recall(&broker->timers, handle->topic, handle->message_id);
    if (!found) {
        all = rq_store_dispatch_all(broker->store);
        found = rq_timers_recall(&broker->timers, handle->topic, handle->message_id);
    }
    if (found) {
        struct rq_hdr_msg_id fields = {.msg_id = handle->message_id};
        rq_answer_fields(request->conn, &request->to, &rq_tab_msg_id, &fields);
    } else if (all) {
        refuse(request, RQ_RESP_ILLEGAL_OPERATION,
               "recall failed, the message does not wait any more");
    } else {
        refuse(request, RQ_RESP_SYSTEM_BUSY,
               "recall failed, not all that was stored has its queue entry yet, ask again");
    }
}

void rq_process_recall(const struct rq_request *request)
{
    struct rq_hdr_recall header;
    struct rq_recall_handle handle;
    struct rq_buf text;
    if (!rq_request_decode(request, &rq_tab_recall, &header) || !check_recall(request, &header)) {
        return;
    }
    rq_buf_init(&text, 0);
    if (!rq_recall_handle_read(header.recall_handle, &text, &handle)) {
        refuse(request, RQ_RESP_ILLEGAL_OPERATION, "recall handle is invalid");
    } else if (check_handle(request, &header, &handle)) {
        take_back(request, &handle);
    }
    rq_buf_free(&text);
}

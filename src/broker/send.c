/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends (10, 310, 320, and the replies 324, 325): checks, automatic topics, retry and dead-letter
 * rules, one append, one answer. Batches go on in send_batch.c. Loop thread of the connection.
 * Counterparts: SendMessageProcessor, AbstractSendMessageProcessor.
 */
#include <string.h>

#include "base/time.h"
#include "broker/auto_topic.h"
#include "broker/broker.h"
#include "broker/put.h"
#include "broker/reply.h"
#include "broker/send_answer.h"
#include "broker/send_priv.h"
#include "broker/unique_id.h"
#include "wire/names.h"
#include "wire/properties.h"

#define VERSION_V3_4_9 121 /* from here on maxReconsumeTimes is the sender's own */

static bool is_name(const struct rq_prop *prop, const char *name)
{
    return rq_slice_eq_str(prop->name, name);
}

static void look_at(const struct rq_prop *prop, struct rq_found *found)
{
    switch (prop->name.n ? prop->name.p[0] : '\0') {
    case 'U':
        if (is_name(prop, RQ_PROP_UNIQ_KEY)) {
            found->unique_key = prop->value;
        }
        break;
    case 'D':
        if (is_name(prop, RQ_PROP_DELAY)) {
            found->delay = prop->value;
        }
        break;
    case 'T':
        found->transaction = found->transaction || (is_name(prop, RQ_PROP_TRAN_MSG) &&
                                                    rq_slice_eq_str(prop->value, "true"));
        found->timer = found->timer || is_name(prop, RQ_PROP_TIMER_DELAY_SEC) ||
                       is_name(prop, RQ_PROP_TIMER_DELAY_MS) ||
                       is_name(prop, RQ_PROP_TIMER_DELIVER_MS);
        found->rewrite = found->rewrite || is_name(prop, RQ_PROP_TRACE_ON);
        break;
    case 'M':
        found->rewrite = found->rewrite || is_name(prop, RQ_PROP_MSG_REGION);
        break;
    case 'C':
        found->rewrite = found->rewrite || is_name(prop, RQ_PROP_CLUSTER);
        break;
    case 'P':
        found->rewrite = found->rewrite || is_name(prop, RQ_PROP_POP_CK);
        break;
    default:
        break;
    }
}

void rq_sending_look_through(struct rq_sending *sending)
{
    struct rq_slice properties = sending->header.properties;
    struct rq_prop prop;
    memset(&sending->found, 0, sizeof sending->found);
    while (rq_props_next(&properties, &prop)) {
        look_at(&prop, &sending->found);
    }
}

int rq_found_delay_level(const struct rq_found *found)
{
    int32_t level = 0;
    return found->delay.n && rq_slice_to_i32(found->delay, &level) && level > 0 ? level : 0;
}

bool rq_sending_refuse(const struct rq_sending *sending, int32_t code, const char *remark)
{
    rq_request_answer(sending->request, code, remark);
    return false;
}

/* The broker takes sends now, and this topic from clients. */
static bool check_topic(struct rq_sending *sending)
{
    const struct rq_broker_options *options = &sending->broker->settings.broker;
    rmq_error *err = NULL;
    int64_t opens_ms = options->start_accept_send_request_time_stamp;
    if (opens_ms > 0 && opens_ms > rq_broker_now_ms(sending->broker)) {
        return rq_sending_refuse(sending, RQ_RESP_SYSTEM_ERROR,
                                 "broker unable to service until a later time");
    }
    if (rq_topic_check(sending->header.topic, &err)) {
        rq_sending_refuse(sending, RQ_RESP_INVALID_PARAMETER, rmq_error_message(err));
        rmq_error_destroy(err);
        return false;
    }
    if (rq_topic_is_forbidden(sending->header.topic)) {
        rq_answer_text(sending->request->conn, &sending->request->to, RQ_RESP_NO_PERMISSION,
                       "Sending message to topic[%.*s] is forbidden.",
                       RQ_TEXT(sending->header.topic));
        return false;
    }
    if (!rq_topics_get(&sending->broker->topics, sending->header.topic, &sending->topic) &&
        !rq_auto_topic(sending->broker, &sending->header, &sending->topic)) {
        rq_answer_text(sending->request->conn, &sending->request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "topic[%.*s] not exist, apply first please!",
                       RQ_TEXT(sending->header.topic));
        return false;
    }
    if (!(options->broker_permission & RQ_PERM_WRITE) && sending->topic.order) {
        return rq_sending_refuse(sending, RQ_RESP_NO_PERMISSION,
                                 "the broker does not permit sending");
    }
    return true;
}

/* A queue id of the client's choice, or any. */
bool rq_sending_choose_queue(struct rq_sending *sending)
{
    int32_t read = sending->topic.read_queue_nums;
    int32_t write = sending->topic.write_queue_nums;
    int32_t asked = sending->header.queue_id;
    if (asked >= (read > write ? read : write)) {
        rq_answer_text(sending->request->conn, &sending->request->to, RQ_RESP_INVALID_PARAMETER,
                       "request queueId[%d] is illegal, topic:[%.*s] readQueueNums:[%d] "
                       "writeQueueNums:[%d] producer: %s",
                       asked, RQ_TEXT(sending->header.topic), read, write,
                       rq_conn_remote(sending->request->conn));
        return false;
    }
    if (asked < 0) {
        uint32_t next =
            atomic_fetch_add_explicit(&sending->broker->unique_counter, 1, memory_order_relaxed);
        asked = write > 0 ? (int32_t)(next % (uint32_t)write) : 0;
    }
    sending->msg.queue_id = asked;
    return true;
}

void rq_sending_fill(struct rq_sending *sending)
{
    const struct rq_hdr_send *header = &sending->header;
    struct rq_msg *msg = &sending->msg;
    msg->topic = header->topic;
    msg->flag = header->flag;
    msg->sys_flag = header->sys_flag;
    if (sending->topic.multi_tag) {
        msg->sys_flag |= RQ_SYS_MULTI_TAGS;
    }
    msg->reconsume_times = header->reconsume_times;
    msg->born_timestamp_ms = header->born_timestamp;
    msg->born_host = sending->request->session->born_host;
    msg->store_host = sending->broker->store_host;
    msg->body = sending->request->in->body;
    msg->properties = header->properties;
    msg->more_properties = sending->broker->more;
}

/* A message to a retry topic that has been tried too often goes to the dead letters, at once. */
static bool apply_retry_rule(struct rq_sending *sending)
{
    struct rq_group_info group;
    struct rq_topic_info info;
    bool created = false;
    struct rq_slice name = rq_topic_without_prefix(sending->header.topic);
    if (!rq_topic_is_retry(sending->header.topic)) {
        return true;
    }
    if (!rq_groups_get(&sending->broker->groups, name, &group)) {
        rq_answer_text(sending->request->conn, &sending->request->to,
                       RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group not exist, %.*s",
                       RQ_TEXT(name));
        return false;
    }
    int32_t most = group.retry_max_times;
    if (RQ_HAS(send, &sending->header, max_reconsume_times) &&
        sending->request->in->header->version >= VERSION_V3_4_9) {
        most = sending->header.max_reconsume_times;
    }
    bool ordered = rq_queue_locks_group_holds(&sending->broker->locks, name, rq_mono_ms());
    if (sending->msg.reconsume_times <= most && !ordered) {
        return true;
    }
    size_t n = rq_topic_of_dlq(name, sending->topic_text);
    rq_dlq_topic_info(&info);
    if (n == 0 || rq_topics_add(&sending->broker->topics, rq_slice(sending->topic_text, n), &info,
                                &created)) {
        return rq_sending_refuse(sending, RQ_RESP_SYSTEM_ERROR,
                                 "the dead-letter topic cannot be made");
    }
    if (created) {
        rq_broker_topics_changed(sending->broker);
    }
    sending->msg.topic = rq_slice(sending->topic_text, n);
    sending->msg.queue_id = 0;
    sending->found.delay = rq_slice("-1", 2);
    sending->found.rewrite = true;
    return true;
}

/* Properties anew: without what the broker sets itself, and with the delay that it decided. */
static void rewrite_properties(struct rq_sending *sending)
{
    static const char *const names[] = {RQ_PROP_POP_CK, RQ_PROP_MSG_REGION, RQ_PROP_TRACE_ON,
                                        RQ_PROP_CLUSTER, RQ_PROP_DELAY};
    rq_props_copy_without(&sending->props, 0, sending->header.properties, names,
                          sizeof names / sizeof names[0]);
    if (sending->found.delay.p) {
        rq_props_add_str(&sending->props, 0, RQ_PROP_DELAY, sending->found.delay);
    }
}

static bool complete_properties(struct rq_sending *sending)
{
    struct rq_found *found = &sending->found;
    bool add_key = found->unique_key.n == 0;
    if (!found->rewrite && !add_key) {
        return true;
    }
    if (found->rewrite) {
        rewrite_properties(sending);
    } else {
        rq_buf_add_slice(&sending->props, sending->header.properties);
    }
    if (add_key) {
        found->unique_key =
            rq_slice(sending->id_text, rq_broker_unique_id(sending->broker, sending->id_text));
        rq_props_add_str(&sending->props, 0, RQ_PROP_UNIQ_KEY, found->unique_key);
    }
    sending->msg.properties = rq_slice(sending->props.data, sending->props.len);
    return rq_buf_status(&sending->props) == RMQ_OK ||
           rq_sending_refuse(sending, RQ_RESP_SYSTEM_ERROR, "out of memory");
}

/* To be held back until its producer ends the transaction. */
static bool is_half(const struct rq_sending *sending)
{
    return sending->found.transaction &&
           !(sending->header.reconsume_times > 0 && rq_found_delay_level(&sending->found) > 0);
}

static void put_half(struct rq_sending *sending, struct rq_store_put *put)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_transaction_prepare(&sending->msg, sending->found.unique_key, &props);
    if (rq_buf_status(&props)) {
        *put = (struct rq_store_put){.status = RQ_PUT_UNKNOWN_ERROR, .reason = "out of memory"};
    } else {
        (void)rq_store_append(sending->broker->store, &sending->msg, put);
    }
    rq_buf_free(&props);
}

static bool check_kind(const struct rq_sending *sending)
{
    if (is_half(sending) && sending->broker->settings.broker.reject_transaction_message) {
        rq_answer_text(sending->request->conn, &sending->request->to, RQ_RESP_NO_PERMISSION,
                       "the broker[%s] sending transaction message is forbidden",
                       sending->broker->settings.broker.broker_ip1);
        return false;
    }
    if (!sending->msg.body.p) {
        return rq_sending_refuse(sending, RQ_RESP_MESSAGE_ILLEGAL,
                                 "the message is illegal: it has no body");
    }
    return true;
}

void rq_sending_count(const struct rq_sending *sending, const struct rq_store_put *put,
                      uint64_t nums, int64_t begin_us)
{
    struct rq_stats *stats = &sending->broker->stats;
    rq_stats_put_took(stats, rq_mono_us() - begin_us);
    if (put->status == RQ_PUT_OK) {
        rq_broker_count_put(sending->request, sending->msg.topic, sending->msg.queue_id, put, nums);
    } else {
        atomic_fetch_add_explicit(&stats->totals.put_failed, 1, memory_order_relaxed);
    }
}

/* At the time that its properties ask for. handle is what takes it back. false: it was refused. */
static bool put_timed(struct rq_sending *sending, struct rq_store_put *put, struct rq_buf *handle)
{
    struct rq_buf props;
    rq_buf_init(&props, 0);
    enum rq_timers_kind kind = rq_timers_divert(sending->broker, &sending->msg, &props);
    if (kind == RQ_TIMED_OFF) {
        rq_sending_refuse(sending, RQ_RESP_SYSTEM_ERROR,
                          "accurate timer message is not enabled, timerWheelEnable is false");
    } else if (kind == RQ_TIMED_ILLEGAL) {
        rq_answer_text(
            sending->request->conn, &sending->request->to, RQ_RESP_MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay %lldms",
            (long long)sending->broker->settings.broker.timer_max_delay_sec * 1000);
    } else if (rq_buf_status(&props)) {
        *put = (struct rq_store_put){.status = RQ_PUT_UNKNOWN_ERROR, .reason = "out of memory"};
    } else if (kind == RQ_TIMED_LARGE) {
        *put = (struct rq_store_put){.status = RQ_PUT_PROPERTIES_SIZE_EXCEEDED,
                                     .reason = "properties too large for a later time"};
    } else if (rq_store_append(sending->broker->store, &sending->msg, put) == RQ_PUT_OK &&
               kind == RQ_TIMED_YES) {
        rq_timers_write_handle(sending->broker, &sending->msg, handle);
    }
    rq_buf_free(&props);
    return kind != RQ_TIMED_OFF && kind != RQ_TIMED_ILLEGAL;
}

static void put_and_answer(struct rq_sending *sending, int32_t asked_queue)
{
    struct rq_store_put put;
    struct rq_buf handle;
    bool refused = false;
    int64_t begin_us = rq_mono_us();
    rq_buf_init(&handle, 0);
    if (is_half(sending)) {
        put_half(sending, &put);
    } else if (sending->found.timer && rq_found_delay_level(&sending->found) == 0) {
        refused = !put_timed(sending, &put, &handle);
    } else {
        (void)rq_broker_put(sending->broker, &sending->msg, rq_found_delay_level(&sending->found),
                            &put);
    }
    if (!refused) {
        if (put.status == RQ_PUT_OK) {
            rq_broker_dispatch_soon(sending->request);
        }
        rq_sending_count(sending, &put, 1, begin_us);
        if (sending->logical.mapping) {
            rq_sending_tell_logical(sending, &put, &asked_queue);
        }
        rq_send_answer_one(sending->request, &put, asked_queue, sending->found.unique_key,
                           rq_slice(handle.data, handle.len));
    }
    rq_buf_free(&handle);
}

static void send_one(struct rq_sending *sending)
{
    rq_sending_look_through(sending);
    if (!rq_sending_choose_queue(sending)) {
        return;
    }
    rq_sending_fill(sending);
    int32_t asked_queue = sending->msg.queue_id;
    if (!check_kind(sending) || !apply_retry_rule(sending) || !complete_properties(sending)) {
        return;
    }
    if (sending->msg.topic.p == sending->topic_text) {
        asked_queue = 0;
    }
    put_and_answer(sending, asked_queue);
}

/* There is no queue but what a loop has read in one turn: the later ones wait for the earlier.
 * Counterpart: BrokerFastFailure. */
static bool waited_too_long(const struct rq_request *request)
{
    int64_t limit_ms = request->broker->settings.broker.wait_time_mills_in_send_queue;
    if (limit_ms == 0) {
        return false;
    }
    int64_t waited_ms = rq_mono_ms() - rq_loop_now(rq_conn_loop(request->conn));
    if (waited_ms <= limit_ms) {
        return false;
    }
    rq_answer_text(
        request->conn, &request->to, RQ_RESP_SYSTEM_BUSY,
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %lldms",
        (long long)waited_ms);
    return true;
}

static bool store_is_busy(const struct rq_request *request)
{
    if (!rq_store_is_busy(request->broker->store)) {
        return false;
    }
    rq_request_answer(request, RQ_RESP_SYSTEM_BUSY,
                      "[REJECTREQUEST]system busy, start flow control for a while");
    return true;
}

void rq_process_send(const struct rq_request *request)
{
    struct rq_sending sending;
    sending.request = request;
    sending.broker = request->broker;
    memset(&sending.msg, 0, sizeof sending.msg);
    int32_t code = request->in->header->code;
    const struct rq_fields *table = code == RQ_REQ_SEND_MESSAGE || code == RQ_REQ_SEND_REPLY_MESSAGE
                                        ? &rq_tab_send
                                        : &rq_tab_send_v2;
    if (waited_too_long(request) || store_is_busy(request) ||
        !rq_request_decode(request, table, &sending.header) || !check_topic(&sending)) {
        return;
    }
    if (code == RQ_REQ_SEND_REPLY_MESSAGE || code == RQ_REQ_SEND_REPLY_MESSAGE_V2) {
        if (rq_sending_choose_queue(&sending)) {
            rq_reply_pass_on(request, sending.msg.queue_id);
        }
        return;
    }
    rq_buf_init(&sending.props, 0);
    sending.logical.mapping = NULL;
    if (sending.topic.is_static && !rq_sending_map(&sending)) {
        return;
    }
    if (sending.header.batch) {
        rq_sending_put_batch(&sending);
    } else {
        send_one(&sending);
    }
    rq_buf_free(&sending.props);
    rq_queue_mapping_release(sending.logical.mapping);
}

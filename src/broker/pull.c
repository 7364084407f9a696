/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Pulls (11, 361): checks, subscription, reading, parking. Answers refer to the store's mapped
 * files; nothing is copied. Loop thread of the connection, or whoever wakes a parked pull.
 * Counterparts: PullMessageProcessor, DefaultPullMessageResultHandler.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "broker/broker.h"
#include "broker/filter.h"
#include "broker/pull_static.h"
#include "wire/names.h"

enum {
    FORBIDDEN_BROKER = 1,
    FORBIDDEN_GROUP = 2,
    FORBIDDEN_TOPIC = 3,
    FORBIDDEN_BROADCAST = 4,
    FORBIDDEN_SUBSCRIPTION = 5
};

#define PULL_HEAD_SIZE 384

static void release_file(void *file)
{
    rq_mapped_file_release(file);
}

static int32_t code_of(enum rq_get_status status, int64_t asked)
{
    switch (status) {
    case RQ_GET_FOUND:
        return RQ_RESP_SUCCESS;
    case RQ_GET_NO_MATCHED_MESSAGE:
    case RQ_GET_MESSAGE_WAS_REMOVING:
        return RQ_RESP_PULL_RETRY_IMMEDIATELY;
    case RQ_GET_NO_MATCHED_LOGIC_QUEUE:
    case RQ_GET_NO_MESSAGE_IN_QUEUE:
        return asked != 0 ? RQ_RESP_PULL_OFFSET_MOVED : RQ_RESP_PULL_NOT_FOUND;
    case RQ_GET_OFFSET_OVERFLOW_BADLY:
    case RQ_GET_OFFSET_TOO_SMALL:
        return RQ_RESP_PULL_OFFSET_MOVED;
    default:
        return RQ_RESP_PULL_NOT_FOUND;
    }
}

/* Moves the references of a result into the frame. */
static rmq_status add_refs(struct rq_out *out, struct rq_store_result *result)
{
    for (size_t i = 0; i < result->ref_count; i++) {
        struct rq_store_ref *ref = &result->refs[i];
        rmq_status st = rq_out_add(out, ref->p, ref->n, release_file, ref->file);
        if (st) {
            return st;
        }
        *ref = (struct rq_store_ref){0}; /* the frame's from here on */
    }
    return RMQ_OK;
}

static void send_answer(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                        const struct rq_pull *pull, const char *remark,
                        struct rq_store_result *result)
{
    struct rq_hdr_pull_response fields = {.next_begin_offset = result->next_begin_offset,
                                          .min_offset = result->min_offset,
                                          .max_offset = result->max_offset};
    fields.suggest_which_broker_id =
        result->suggest_pulling_from_slave ? pull->slow_broker_id : pull->broker_id;
    RQ_SET(pull_response, &fields, topic_sys_flag, pull->topic_sys_flag);
    RQ_SET(pull_response, &fields, group_sys_flag, pull->group_sys_flag);
    if (pull->mapped) {
        RQ_SET(pull_response, &fields, offset_delta, rq_pull_static_delta(pull->mapped));
    }
    struct rq_frame_spec spec = rq_answer_spec(to, code, &rq_tab_pull_response, &fields);
    spec.remark = rq_slice_str(remark);
    size_t bytes = code == RQ_RESP_SUCCESS ? result->bytes : 0;
    struct rq_out *out = rq_out_create(PULL_HEAD_SIZE);
    rmq_status st = out ? rq_frame_encode(&out->head, &spec, bytes, NULL) : RMQ_ERR_NOMEM;
    if (!st && bytes) {
        st = add_refs(out, result);
    }
    if (st) {
        RQ_LOG(WARN, "a pull could not be answered, the connection is closed",
               "remote=%s status=%s", rq_conn_remote(conn), rmq_status_name(st));
        rq_out_destroy(out);
        rq_conn_close(conn, st);
        return;
    }
    (void)rq_conn_send(conn, out);
}

/* Tells of a static topic's logical queue what the physical one has given; the code for it. */
static int32_t tell_logical(const struct rq_pull *pull, int32_t code,
                            struct rq_store_result *result)
{
    struct rq_pull_offsets offsets = {.next_begin = result->next_begin_offset,
                                      .min = result->min_offset,
                                      .max = result->max_offset};
    code = rq_pull_static_tell(pull->mapped, pull->offset, code, &offsets);
    result->next_begin_offset = offsets.next_begin;
    result->min_offset = offsets.min;
    result->max_offset = offsets.max;
    return code;
}

/* A reset by an administrator is answered before anything else, once. */
static bool answer_reset(struct rmq_broker *broker, struct rq_conn *conn,
                         const struct rq_reply_to *to, const struct rq_pull *pull)
{
    int64_t reset =
        rq_offsets_take_reset(&broker->offsets, pull->group, pull->topic, pull->queue_id);
    if (reset == RQ_OFFSET_NONE) {
        return false;
    }
    struct rq_store_result result;
    memset(&result, 0, offsetof(struct rq_store_result, refs));
    result.next_begin_offset = reset;
    result.min_offset = rq_store_min_offset(broker->store, pull->topic, pull->queue_id);
    result.max_offset = rq_store_max_offset(broker->store, pull->topic, pull->queue_id);
    if (pull->mapped) {
        (void)tell_logical(pull, RQ_RESP_SUCCESS, &result);
    }
    send_answer(conn, to, RQ_RESP_PULL_OFFSET_MOVED, pull, "OFFSET_RESET", &result);
    return true;
}

/* The topic's queues have been mapped anew: the consumer asks again and is told by the new
 * mapping. */
static bool answer_outdated(struct rmq_broker *broker, struct rq_conn *conn,
                            const struct rq_reply_to *to, const struct rq_pull *pull)
{
    if (!pull->mapped || !rq_pull_static_is_outdated(broker, pull->mapped)) {
        return false;
    }
    struct rq_store_result result;
    memset(&result, 0, offsetof(struct rq_store_result, refs));
    result.next_begin_offset = rq_item_logical(pull->mapped->item, pull->offset);
    result.max_offset = result.next_begin_offset;
    send_answer(conn, to, RQ_RESP_PULL_RETRY_IMMEDIATELY, pull, "MAPPING_CHANGED", &result);
    return true;
}

/* One whose place in the queue is gone is told where the next is: messages are there, and nobody
 * would wake it but they. */
static bool is_to_wait(const struct rq_store_result *result, int32_t code, enum rq_pull_wait wait)
{
    if (code == RQ_RESP_PULL_NOT_FOUND) {
        return wait == RQ_PULL_MAY_PARK ||
               (wait == RQ_PULL_MAY_STAY && result->status != RQ_GET_OFFSET_FOUND_NULL);
    }
    return wait == RQ_PULL_MAY_STAY && result->status == RQ_GET_NO_MATCHED_MESSAGE;
}

bool rq_pull_answer(struct rmq_broker *broker, struct rq_conn *conn, const struct rq_reply_to *to,
                    struct rq_pull *pull, enum rq_pull_wait wait)
{
    struct rq_store_filter filter;
    struct rq_store_result result;
    if (to->oneway || answer_outdated(broker, conn, to, pull) ||
        answer_reset(broker, conn, to, pull)) {
        return true;
    }
    rq_filter_of(pull->sub, &filter);
    rq_store_get(broker->store, pull->topic, pull->queue_id, pull->offset, pull->max_msgs, 0,
                 &filter, &result);
    rq_stats_got(&broker->stats, rq_slice_str(broker->settings.broker.broker_cluster_name),
                 pull->topic, pull->group, (uint64_t)result.msg_count, result.bytes);
    int32_t code = code_of(result.status, pull->offset);
    int64_t next_offset = result.next_begin_offset; /* of the physical queue */
    if (pull->mapped) {
        code = tell_logical(pull, code, &result);
    }
    bool waits = is_to_wait(&result, code, wait);
    if (!waits) {
        send_answer(conn, to, code, pull, rq_get_status_name(result.status), &result);
    } else if (result.status == RQ_GET_NO_MATCHED_MESSAGE) {
        pull->offset = next_offset;
    }
    rq_store_result_release(&result);
    return !waits;
}

static void RMQ_PRINTF(3, 4)
    forbid(const struct rq_request *request, int32_t type, const char *fmt, ...)
{
    char remark[512];
    struct rq_hdr_pull_response fields = {0};
    va_list args;
    RQ_SET(pull_response, &fields, forbidden_type, type);
    va_start(args, fmt);
    (void)vsnprintf(remark, sizeof remark, fmt, args);
    va_end(args);
    rq_answer_failed(request->conn, &request->to, RQ_RESP_NO_PERMISSION, remark,
                     &rq_tab_pull_response, &fields);
}

static bool check_queue(const struct rq_request *request, const struct rq_hdr_pull *header,
                        int32_t read_queue_nums)
{
    bool ok = header->queue_id >= 0 && header->queue_id < read_queue_nums;
    if (!ok) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "queueId[%d] is illegal, topic:[%.*s] readQueueNums:[%d] consumer:[%s]",
                       header->queue_id, RQ_TEXT(header->topic), read_queue_nums,
                       rq_conn_remote(request->conn));
    }
    return ok;
}

/* Broker, group, topic and queue are there and may be read; a logical queue is a physical one from
 * here on. */
static bool check_access(const struct rq_request *request, struct rq_hdr_pull *header,
                         struct rq_pull *pull, struct rq_group_info *group)
{
    struct rmq_broker *broker = request->broker;
    struct rq_topic_info topic;
    if (!(broker->settings.broker.broker_permission & RQ_PERM_READ)) {
        forbid(request, FORBIDDEN_BROKER, "the broker does not permit pulling");
        return false;
    }
    if (request->in->header->code == RQ_REQ_LITE_PULL_MESSAGE &&
        !broker->settings.broker.lite_pull_message_enable) {
        rq_request_answer(request, RQ_RESP_NO_PERMISSION,
                          "the broker does not permit lite pulling");
        return false;
    }
    if (!rq_groups_get(&broker->groups, header->consumer_group, group)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST,
                       "subscription group [%.*s] does not exist", RQ_TEXT(header->consumer_group));
        return false;
    }
    if (!group->consume_enable) {
        forbid(request, FORBIDDEN_GROUP, "subscription group [%.*s] is not permitted to consume",
               RQ_TEXT(header->consumer_group));
        return false;
    }
    if (!rq_topics_get(&broker->topics, header->topic, &topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                       "topic[%.*s] not exist, apply first please!", RQ_TEXT(header->topic));
        return false;
    }
    if (!(topic.perm & RQ_PERM_READ)) {
        forbid(request, FORBIDDEN_TOPIC, "the topic [%.*s] does not permit pulling",
               RQ_TEXT(header->topic));
        return false;
    }
    if (topic.is_static && !rq_pull_map(request, header, &pull->mapped)) {
        return false;
    }
    pull->topic_sys_flag = topic.sys_flag;
    pull->group_sys_flag = group->group_sys_flag;
    if (broker->settings.broker.slave_read_enable) {
        pull->broker_id = group->broker_id;
        pull->slow_broker_id = group->which_broker_when_consume_slowly;
    }
    return check_queue(request, header, topic.read_queue_nums);
}

/* The expression that came with the request. Nothing to hold for "*". */
static bool sub_of_request(const struct rq_request *request, const struct rq_hdr_pull *header,
                           struct rq_shared_subscription **out)
{
    struct rq_slice text = header->subscription;
    *out = NULL;
    if (rq_filter_is_tag(header->expression_type) &&
        (text.n == 0 || rq_slice_eq_str(text, RQ_SUBSCRIBE_ALL))) {
        return true;
    }
    rmq_error *err = NULL;
    *out = rq_filter_make(header->topic, text, header->expression_type, header->sub_version, &err);
    if (!*out) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_PARSE_FAILED,
                       "parse the consumer's subscription failed: %s",
                       err ? rmq_error_message(err) : "out of memory, or no such type");
        rmq_error_destroy(err);
        return false;
    }
    return true;
}

/* The subscription that the group's heartbeats told. */
static bool sub_of_group(const struct rq_request *request, const struct rq_hdr_pull *header,
                         const struct rq_group_info *group, struct rq_shared_subscription **out)
{
    bool known = false;
    enum rq_message_model model = RQ_MODEL_CLUSTERING;
    struct rq_clients *clients = &request->broker->clients;
    *out = rq_clients_subscription(clients, header->consumer_group, header->topic, &known);
    if (!*out) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SUBSCRIPTION_NOT_EXIST,
                       "the consumer's %s not exist, group %.*s",
                       known ? "subscription" : "group info", RQ_TEXT(header->consumer_group));
        return false;
    }
    if (!group->consume_broadcast_enable &&
        rq_clients_model(clients, header->consumer_group, &model) &&
        model == RQ_MODEL_BROADCASTING) {
        forbid(request, FORBIDDEN_BROADCAST, "the consumer group [%.*s] may not broadcast",
               RQ_TEXT(header->consumer_group));
        return false;
    }
    if (group->any_forbidden &&
        rq_groups_is_forbidden(&request->broker->groups, header->consumer_group, header->topic)) {
        forbid(request, FORBIDDEN_SUBSCRIPTION,
               "the consumer group[%.*s] is forbidden for topic[%.*s]",
               RQ_TEXT(header->consumer_group), RQ_TEXT(header->topic));
        return false;
    }
    if ((*out)->sub->version < header->sub_version) {
        rq_request_answer(request, RQ_RESP_SUBSCRIPTION_NOT_LATEST,
                          "the consumer's subscription not latest");
        return false;
    }
    if (rq_filter_reads_messages(*out) && !(*out)->sql) {
        rq_request_answer(
            request, RQ_RESP_FILTER_DATA_NOT_EXIST,
            "The broker's consumer filter data is not exist!Your expression may be wrong!");
        return false;
    }
    return true;
}

static bool find_sub(const struct rq_request *request, const struct rq_hdr_pull *header,
                     const struct rq_group_info *group, struct rq_shared_subscription **out)
{
    bool in_request = (header->sys_flag & RQ_PULL_SUBSCRIPTION) != 0;
    *out = NULL;
    if (in_request ? !sub_of_request(request, header, out)
                   : !sub_of_group(request, header, group, out)) {
        return false;
    }
    if (rq_filter_reads_messages(*out) &&
        !request->broker->settings.broker.enable_property_filter) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "The broker does not support consumer to filter message by %s",
                       (*out)->sub->expression_type);
        return false;
    }
    return true;
}

static void park(const struct rq_request *request, const struct rq_hdr_pull *header,
                 struct rq_pull *pull)
{
    struct rmq_broker *broker = request->broker;
    int64_t timeout_ms = broker->settings.broker.long_polling_enable
                             ? header->suspend_timeout_ms
                             : broker->settings.broker.short_polling_time_mills;
    if (rq_hold_park(&broker->hold, request->session, &request->to, pull, timeout_ms)) {
        (void)rq_pull_answer(broker, request->conn, &request->to, pull, RQ_PULL_ANSWERS);
    }
}

static void pull_or_park(const struct rq_request *request, const struct rq_hdr_pull *header,
                         struct rq_pull *pull)
{
    struct rmq_broker *broker = request->broker;
    pull->topic = header->topic;
    pull->group = header->consumer_group;
    pull->queue_id = header->queue_id;
    pull->offset = header->queue_offset;
    pull->max_msgs = header->max_msg_nums;
    if (header->sys_flag & RQ_PULL_COMMIT_OFFSET) {
        (void)rq_offsets_commit(&broker->offsets, pull->group, pull->topic, pull->queue_id,
                                header->commit_offset, NULL);
    }
    bool may_park = (header->sys_flag & RQ_PULL_SUSPEND) != 0;
    if (!rq_pull_answer(broker, request->conn, &request->to, pull,
                        may_park ? RQ_PULL_MAY_PARK : RQ_PULL_ANSWERS)) {
        park(request, header, pull);
    }
}

void rq_process_pull(const struct rq_request *request)
{
    struct rq_hdr_pull header;
    struct rq_group_info group;
    struct rq_pull pull = {0};
    if (!rq_request_decode(request, &rq_tab_pull, &header)) {
        return;
    }
    if (check_access(request, &header, &pull, &group) &&
        find_sub(request, &header, &group, &pull.sub)) {
        pull_or_park(request, &header, &pull);
    }
    rq_shared_subscription_release(pull.sub);
    rq_pull_static_release(pull.mapped);
}

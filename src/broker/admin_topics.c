/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Topics by request (17, 18, 21, 202, 215, 305, 351). Loop thread. Counterparts:
 * AdminBrokerProcessor, TopicConfigManager. */
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "broker/admin_topics.h"
#include "broker/auto_topic.h"
#include "broker/broker.h"
#include "wire/names.h"

/* An answer that waits until the name servers know. */
struct pending {
    struct rq_registration_waiter waiter;
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
};

static void registered(struct rq_registration_waiter *waiter)
{
    struct pending *pending = RQ_CONTAINER_OF(waiter, struct pending, waiter);
    rq_answer_code(pending->conn, &pending->to, RQ_RESP_SUCCESS, NULL);
    rq_conn_release(pending->conn);
    rq_free(pending);
}

/* Answers success after the next round of registration, so that whoever asks for the route then
 * gets it. */
static void answer_when_registered(const struct rq_request *request)
{
    struct pending *pending = rq_calloc(1, sizeof *pending);
    rq_broker_persist_soon(request->broker);
    if (!pending) {
        rq_registration_ask(&request->broker->registration, NULL);
        rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
        return;
    }
    pending->waiter.done = registered;
    pending->conn = rq_conn_retain(request->conn);
    pending->to = request->to;
    rq_registration_ask(&request->broker->registration, &pending->waiter);
}

static rmq_status check_name(const struct rmq_broker *broker, struct rq_slice name, rmq_error **err)
{
    rmq_status st = rq_topic_check(name, err);
    if (!st && rq_is_system_topic(broker, name)) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "The topic[%.*s] is conflict with system topic.",
                          RQ_TEXT(name));
    }
    return st;
}

static bool queues_ok(int32_t queues)
{
    return queues >= 0 && queues <= RQ_TOPIC_QUEUES_MAX;
}

rmq_status rq_admin_put_topic(struct rmq_broker *broker, struct rq_slice name,
                              const struct rq_topic_info *info, struct rq_slice attributes,
                              bool *changed, rmq_error **err)
{
    rmq_status st = check_name(broker, name, err);
    if (!st && (!queues_ok(info->read_queue_nums) || !queues_ok(info->write_queue_nums))) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "%d read and %d write queues are not in 0 … %d",
                          info->read_queue_nums, info->write_queue_nums, RQ_TOPIC_QUEUES_MAX);
    }
    if (st) {
        return st;
    }
    st = rq_topics_put(&broker->topics, name, info, attributes, changed);
    return st ? rq_error_set(err, st, "out of memory") : RMQ_OK;
}

/* "+key=value,-key" on top of what the topic has: JSON text of the attributes. The caller frees the
 * buffer; empty: no change. */
static void attributes_json(struct rq_slice changes, struct rq_buf *out)
{
    bool first = true;
    rq_buf_init(out, 0);
    if (changes.n == 0) {
        return;
    }
    rq_buf_add_char(out, '{');
    while (changes.n) {
        const char *comma = memchr(changes.p, ',', changes.n);
        struct rq_slice one = rq_slice(changes.p, comma ? (size_t)(comma - changes.p) : changes.n);
        size_t used = one.n + (comma ? 1 : 0);
        changes = rq_slice(changes.p + used, changes.n - used);
        const char *equals = one.n ? memchr(one.p, '=', one.n) : NULL;
        if (one.n > 1 && one.p[0] == '+' && equals) {
            size_t n = (size_t)(equals - one.p) - 1;
            rq_buf_add_str(out, first ? "" : ",");
            rq_json_add_string(out, rq_slice(one.p + 1, n));
            rq_buf_add_char(out, ':');
            rq_json_add_string(out, rq_slice(equals + 1, one.n - n - 2));
            first = false;
        }
    }
    rq_buf_add_char(out, '}');
}

static void answer_put(const struct rq_request *request, rmq_status st, rmq_error *err)
{
    if (st) {
        rq_request_answer(request,
                          st == RMQ_ERR_INVALID ? RQ_RESP_INVALID_PARAMETER : RQ_RESP_SYSTEM_ERROR,
                          err ? rmq_error_message(err) : rmq_status_text(st));
    } else {
        answer_when_registered(request);
    }
    rmq_error_destroy(err);
}

void rq_process_create_topic(const struct rq_request *request)
{
    struct rq_hdr_create_topic header;
    struct rq_buf attributes;
    rmq_error *err = NULL;
    if (!rq_request_decode(request, &rq_tab_create_topic, &header)) {
        return;
    }
    const struct rq_topic_info info = {
        .read_queue_nums = header.read_queue_nums,
        .write_queue_nums = header.write_queue_nums,
        .perm = header.perm,
        .sys_flag = header.topic_sys_flag,
        .order = header.order,
        .multi_tag = rq_slice_eq_str(header.topic_filter_type, "MULTI_TAG"),
    };
    attributes_json(header.attributes, &attributes);
    struct rq_slice text = rq_slice(attributes.len ? attributes.data : NULL, attributes.len);
    rmq_status st = rq_admin_put_topic(request->broker, header.topic, &info, text, NULL, &err);
    RQ_LOG(INFO, "topic created or changed by request", "topic=%.*s queues=%d perm=%d status=%s",
           RQ_TEXT(header.topic), info.write_queue_nums, info.perm, rmq_status_name(st));
    rq_buf_free(&attributes);
    answer_put(request, st, err);
}

void rq_process_create_topics(const struct rq_request *request)
{
    cJSON *json = NULL;
    const cJSON *item;
    rmq_error *err = NULL;
    rmq_status st = rq_json_parse(request->in->body, &json, &err);
    cJSON_ArrayForEach(item, rq_json_get(json, "topicConfigList"))
    {
        struct rq_topic_info info;
        rq_topic_info_read(item, &info);
        if (!st) {
            st = rq_admin_put_topic(request->broker,
                                    rq_slice_str(rq_json_str(item, "topicName", "")), &info,
                                    rq_slice(NULL, 0), NULL, &err);
        }
    }
    rq_json_free(json);
    answer_put(request, st, err);
}

void rq_process_delete_topic(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_topic header;
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    if (rq_is_system_topic(broker, header.topic)) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_INVALID_PARAMETER,
                       "The topic[%.*s] is conflict with system topic.", RQ_TEXT(header.topic));
        return;
    }
    (void)rq_topics_remove(&broker->topics, header.topic);
    rq_offsets_remove_topic(&broker->offsets, header.topic);
    rq_stats_forget(&broker->stats, header.topic, rq_slice(NULL, 0));
    rq_store_delete_topic(broker->store, header.topic);
    rq_broker_persist_soon(broker);
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
}

void rq_process_all_topics(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_char(&body, '{');
    rq_topics_write(&request->broker->topics, &body, rq_slice(NULL, 0), ~0);
    rq_buf_add_char(&body, '}');
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

void rq_process_get_topic(const struct rq_request *request)
{
    struct rq_hdr_topic header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_topic, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_topics_write_one(&request->broker->topics, header.topic, &body)) {
        rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_TOPIC_NOT_EXIST,
                   "No topic in this broker. topic: %.*s", RQ_TEXT(header.topic));
}

void rq_process_system_topics(const struct rq_request *request)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_buf_add_str(&body, "{\"topicList\":");
    rq_system_topics_write(request->broker, &body);
    rq_buf_add_char(&body, '}');
    rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Heartbeats, leaving, the members of a group (34, 35, 38, 46), and the notice of change (40). Loop
 * thread. Counterparts: ClientManageProcessor, ConsumerManageProcessor,
 * DefaultConsumerIdsChangeListener. */
#include "broker/client_manage.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/auto_topic.h"
#include "broker/broker.h"
#include "broker/sql.h"
#include "wire/names.h"

/* One-way 40 to one member. */
static void notify_one(struct rq_conn *conn, struct rq_slice group)
{
    struct rq_hdr_consumer_group fields = {.consumer_group = group};
    struct rq_frame_spec spec = rq_frame_request(
        RQ_SERIALIZE_JSON, RQ_REQ_NOTIFY_CONSUMER_IDS_CHANGED, &rq_tab_consumer_group, &fields);
    spec.flag = RQ_FLAG_ONEWAY;
    struct rq_out *out = rq_out_make(&spec, rq_slice(NULL, 0));
    if (out) {
        (void)rq_conn_send(conn, out);
    }
}

/* Tells all members of a group that it has changed, where that is wanted. */
static void notify_members(struct rmq_broker *broker, struct rq_slice group)
{
    struct rq_group_info info;
    enum rq_message_model model;
    size_t count = 0;
    if (!broker->settings.broker.notify_consumer_ids_changed_enable ||
        !rq_groups_exists(&broker->groups, group) ||
        !rq_groups_get(&broker->groups, group, &info) || !info.notify_consumer_ids_changed_enable ||
        !rq_clients_model(&broker->clients, group, &model) || model == RQ_MODEL_BROADCASTING) {
        return;
    }
    struct rq_conn **conns = rq_clients_conns(&broker->clients, group, &count);
    for (size_t i = 0; i < count; i++) {
        notify_one(conns[i], group);
        rq_conn_release(conns[i]);
    }
    rq_free(conns);
}

/* Whether the members' subscriptions had to change, for the second version of heartbeats. */
static bool put_consumer(const struct rq_request *request, const struct rq_client_info *client,
                         struct rq_consumer_data *data, bool without_sub)
{
    struct rmq_broker *broker = request->broker;
    struct rq_slice group = rq_slice_str(data->group);
    struct rq_group_info info;
    struct rq_topic_info topic;
    bool changed = false;
    if (!rq_groups_get(&broker->groups, group, &info)) {
        return false;
    }
    if (rq_retry_topic(broker, group, info.retry_queue_nums, &topic)) {
        RQ_LOG(WARN, "the retry topic could not be made", "group=%s", data->group);
    }
    if (rq_clients_put_consumer(&broker->clients, client, data, without_sub, &changed)) {
        RQ_LOG(WARN, "a consumer could not be registered: out of memory", "group=%s", data->group);
    }
    if (changed) {
        RQ_LOG(INFO, "consumer group has changed", "group=%s client=%s remote=%s", data->group,
               client->client_id, rq_conn_remote(client->conn));
        notify_members(broker, group);
    }
    return changed;
}

void rq_process_heartbeat(const struct rq_request *request)
{
    struct rq_heartbeat heartbeat;
    rmq_error *err = NULL;
    if (rq_heartbeat_parse(request->in->body, &heartbeat, &err)) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, rmq_error_message(err));
        rmq_error_destroy(err);
        return;
    }
    const struct rq_client_info client = {.conn = request->conn,
                                          .client_id = heartbeat.client_id,
                                          .language = request->in->header->language,
                                          .version = request->in->header->version,
                                          .now_ms = rq_mono_ms()};
    struct rq_hdr_heartbeat_response fields = {0};
    bool sub_change = heartbeat.fingerprint == 0; /* the first version always says so */
    request->session->is_client = true;
    for (size_t i = 0; i < heartbeat.consumer_count; i++) {
        sub_change |=
            put_consumer(request, &client, &heartbeat.consumers[i], heartbeat.without_sub);
        sub_change |= rq_clients_other_fingerprint(&request->broker->clients,
                                                   rq_slice_str(heartbeat.consumers[i].group),
                                                   heartbeat.fingerprint);
    }
    for (size_t i = 0; i < heartbeat.producer_count; i++) {
        if (rq_clients_put_producer(&request->broker->clients, &client, heartbeat.producers[i])) {
            RQ_LOG(WARN, "a producer could not be registered: out of memory", "group=%s",
                   heartbeat.producers[i]);
        }
    }
    RQ_SET(heartbeat_response, &fields, support_heart_beat_v2, true);
    RQ_SET(heartbeat_response, &fields, sub_change, sub_change);
    rq_answer_fields(request->conn, &request->to, &rq_tab_heartbeat_response, &fields);
    rq_heartbeat_clear(&heartbeat);
}

void rq_process_unregister_client(const struct rq_request *request)
{
    struct rmq_broker *broker = request->broker;
    struct rq_hdr_unregister_client header;
    bool changed = false;
    if (!rq_request_decode(request, &rq_tab_unregister_client, &header)) {
        return;
    }
    if (header.producer_group.n) {
        rq_clients_remove_producer(&broker->clients, header.producer_group, request->conn);
    }
    if (header.consumer_group.n) {
        rq_clients_remove_consumer(&broker->clients, header.consumer_group, request->conn,
                                   &changed);
    }
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
    if (changed) {
        notify_members(broker, header.consumer_group);
    }
}

static void member_left(void *user, struct rq_slice group)
{
    notify_members(user, group);
}

void rq_client_closed(struct rmq_broker *broker, const struct rq_conn *conn)
{
    rq_clients_conn_closed(&broker->clients, conn, member_left, broker);
}

void rq_process_consumer_list(const struct rq_request *request)
{
    struct rq_hdr_consumer_group header;
    struct rq_buf body;
    if (!rq_request_decode(request, &rq_tab_consumer_group, &header)) {
        return;
    }
    rq_buf_init(&body, 0);
    if (rq_clients_write_ids(&request->broker->clients, header.consumer_group, &body)) {
        rq_answer_body(request->conn, &request->to, NULL, NULL, &body);
        return;
    }
    rq_buf_free(&body);
    rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                   "no consumer for this group, %.*s", RQ_TEXT(header.consumer_group));
}

static void check_expression(const struct rq_request *request, const char *type, const char *text)
{
    struct rq_sql *sql = NULL;
    rmq_error *err = NULL;
    rmq_status st = RMQ_OK;
    if (strcmp(type, RQ_EXPRESSION_SQL92) != 0) {
        st = rq_error_set(&err, RMQ_ERR_INVALID, "there is no filter of type %s", type);
    } else {
        st = rq_sql_compile(rq_slice_str(text), &sql, &err);
    }
    rq_sql_destroy(sql);
    rq_request_answer(request, st ? RQ_RESP_SUBSCRIPTION_PARSE_FAILED : RQ_RESP_SUCCESS,
                      st ? rmq_error_message(err) : NULL);
    rmq_error_destroy(err);
}

void rq_process_check_client(const struct rq_request *request)
{
    cJSON *json = NULL;
    rmq_error *err = NULL;
    if (rq_json_parse(request->in->body, &json, &err)) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR, rmq_error_message(err));
        rmq_error_destroy(err);
        return;
    }
    const cJSON *sub = rq_json_get(json, "subscriptionData");
    const char *type = rq_json_str(sub, "expressionType", RQ_EXPRESSION_TAG);
    if (rq_slice_eq_str(rq_slice_str(type), RQ_EXPRESSION_TAG)) {
        rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
    } else if (!request->broker->settings.broker.enable_property_filter) {
        rq_answer_text(request->conn, &request->to, RQ_RESP_SYSTEM_ERROR,
                       "The broker does not support consumer to filter message by %s", type);
    } else {
        check_expression(request, type, rq_json_str(sub, "subString", ""));
    }
    rq_json_free(json);
}

/* ---- queue locks: 41, 42 ---- */

static bool parse_locks(const struct rq_request *request, struct rq_lock_body *body)
{
    rmq_error *err = NULL;
    rmq_status st = rq_lock_body_parse(request->in->body, body, &err);
    if (!st && (!body->consumer_group || !body->client_id)) {
        rq_lock_body_clear(body);
        st = RMQ_ERR_PROTOCOL;
    }
    if (st) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR,
                          err ? rmq_error_message(err) : "consumerGroup and clientId are needed");
        rmq_error_destroy(err);
    }
    return !st;
}

void rq_process_lock(const struct rq_request *request)
{
    struct rq_lock_body body;
    struct rq_buf out;
    size_t held = 0;
    int64_t now_ms = rq_mono_ms();
    if (!parse_locks(request, &body)) {
        return;
    }
    for (size_t i = 0; i < body.queue_count; i++) {
        if (rq_queue_locks_take(&request->broker->locks, body.consumer_group, &body.queues[i],
                                body.client_id, now_ms)) {
            body.queues[held++] = body.queues[i];
        }
    }
    rq_buf_init(&out, 0);
    rq_lock_answer_write(body.queues, held, &out);
    rq_answer_body(request->conn, &request->to, NULL, NULL, &out);
    rq_lock_body_clear(&body);
}

void rq_process_unlock(const struct rq_request *request)
{
    struct rq_lock_body body;
    if (!parse_locks(request, &body)) {
        return;
    }
    for (size_t i = 0; i < body.queue_count; i++) {
        rq_queue_locks_release(&request->broker->locks, body.consumer_group, &body.queues[i],
                               body.client_id);
    }
    rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
    rq_lock_body_clear(&body);
}

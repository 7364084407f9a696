/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Bodies: lists of names, locks, tables of texts, connections, the answer of a direct consume. Pure functions, any thread. */
#include "wire/bodies.h"

#include <string.h>

#include "wire/body_json.h"
#include "wire/header.h"

rmq_status rq_names_parse(struct rq_slice json, const char *member, struct rq_names *out, rmq_error **err)
{
    *out = (struct rq_names){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (st) {
        return st;
    }
    const cJSON *list = rq_json_get(out->json, member);
    out->items = rq_body_array(rq_body_size(list), sizeof *out->items);
    if (!out->items) {
        rq_names_clear(out);
        return rq_body_nomem(member, err);
    }
    for (const cJSON *item = rq_body_first(list); item; item = item->next) {
        if (cJSON_IsString(item)) {
            out->items[out->count++] = item->valuestring;
        }
    }
    return RMQ_OK;
}

void rq_names_clear(struct rq_names *names)
{
    rq_free(names->items);
    rq_json_free(names->json);
    *names = (struct rq_names){0};
}

void rq_names_write(const char *const *items, size_t count, const char *member, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, member);
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_json_add_string(out, rq_slice_str(items[i]));
    }
    rq_buf_add_str(out, "]}");
}

void rq_mq_write(const struct rq_mq *mq, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_text(out, &first, "brokerName", mq->broker_name);
    rq_body_i64(out, &first, "queueId", mq->queue_id);
    rq_body_text(out, &first, "topic", mq->topic);
    rq_buf_add_char(out, '}');
}

rmq_status rq_mq_parse(const cJSON *json, struct rq_mq *out, rmq_error **err)
{
    *out = (struct rq_mq){.topic = rq_json_str(json, "topic", NULL),
                          .broker_name = rq_json_str(json, "brokerName", NULL),
                          .queue_id = rq_json_i32(json, "queueId", -1)};
    if (!out->topic || !out->broker_name || out->queue_id < 0) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "message queue without topic, brokerName or queueId");
    }
    return RMQ_OK;
}

static rmq_status parse_queues(const cJSON *list, struct rq_lock_body *out, rmq_error **err)
{
    out->queues = rq_body_array(rq_body_size(list), sizeof *out->queues);
    if (!out->queues) {
        return rq_body_nomem("lock", err);
    }
    for (const cJSON *item = rq_body_first(list); item; item = item->next) {
        rmq_status st = rq_mq_parse(item, &out->queues[out->queue_count], err);
        if (st) {
            return st;
        }
        out->queue_count++;
    }
    return RMQ_OK;
}

static rmq_status parse_lock(struct rq_slice json, const char *member, struct rq_lock_body *out,
                             rmq_error **err)
{
    *out = (struct rq_lock_body){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        out->consumer_group = rq_json_str(out->json, "consumerGroup", NULL);
        out->client_id = rq_json_str(out->json, "clientId", NULL);
        out->only_this_broker = rq_json_bool(out->json, "onlyThisBroker", false);
        st = parse_queues(rq_json_get(out->json, member), out, err);
    }
    if (st) {
        rq_lock_body_clear(out);
    }
    return st;
}

rmq_status rq_lock_body_parse(struct rq_slice json, struct rq_lock_body *out, rmq_error **err)
{
    rmq_status st = parse_lock(json, "mqSet", out, err);
    if (!st && (!out->consumer_group || !out->client_id)) {
        rq_lock_body_clear(out);
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "lock without consumerGroup or clientId");
    }
    return st;
}

rmq_status rq_lock_answer_parse(struct rq_slice json, struct rq_lock_body *out, rmq_error **err)
{
    return parse_lock(json, "lockOKMQSet", out, err);
}

static void write_queues(const struct rq_mq *queues, size_t count, struct rq_buf *out)
{
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_mq_write(&queues[i], out);
    }
    rq_buf_add_char(out, ']');
}

void rq_lock_body_write(const struct rq_lock_body *body, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_text(out, &first, "clientId", body->client_id);
    rq_body_text(out, &first, "consumerGroup", body->consumer_group);
    rq_json_add_member(out, &first, "mqSet");
    write_queues(body->queues, body->queue_count, out);
    rq_body_bool(out, &first, "onlyThisBroker", body->only_this_broker);
    rq_buf_add_char(out, '}');
}

void rq_lock_answer_write(const struct rq_mq *queues, size_t count, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "lockOKMQSet");
    write_queues(queues, count, out);
    rq_buf_add_char(out, '}');
}

void rq_lock_body_clear(struct rq_lock_body *body)
{
    rq_free(body->queues);
    rq_json_free(body->json);
    *body = (struct rq_lock_body){0};
}

rmq_status rq_kv_table_parse(struct rq_slice json, struct rq_kv_table *out, rmq_error **err)
{
    *out = (struct rq_kv_table){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (st) {
        return st;
    }
    const cJSON *table = rq_json_get(out->json, "table");
    out->items = rq_body_array(rq_body_size(table), sizeof *out->items);
    if (!out->items) {
        rq_kv_table_clear(out);
        return rq_body_nomem("table", err);
    }
    for (const cJSON *item = rq_body_first(table); item; item = item->next) {
        if (cJSON_IsString(item) && item->string) {
            out->items[out->count++] = (struct rq_attribute){item->string, item->valuestring};
        }
    }
    return RMQ_OK;
}

void rq_kv_table_write(const struct rq_attribute *items, size_t count, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_str(out, "{\"table\":{");
    for (size_t i = 0; i < count; i++) {
        rq_body_text(out, &first, items[i].key, items[i].value);
    }
    rq_buf_add_str(out, "}}");
}

void rq_kv_table_clear(struct rq_kv_table *table)
{
    rq_free(table->items);
    rq_json_free(table->json);
    *table = (struct rq_kv_table){0};
}

static rmq_status parse_connection_list(struct rq_connections *out, rmq_error **err)
{
    const cJSON *list = rq_json_get(out->json, "connectionSet");
    out->items = rq_body_array(rq_body_size(list), sizeof *out->items);
    if (!out->items) {
        return rq_body_nomem("connections", err);
    }
    for (const cJSON *item = rq_body_first(list); item; item = item->next) {
        out->items[out->count++] = (struct rq_connection){
            .client_id = rq_json_str(item, "clientId", ""),
            .client_addr = rq_json_str(item, "clientAddr", ""),
            .language = rq_language_of(rq_slice_str(rq_json_str(item, "language", ""))),
            .version = rq_json_i32(item, "version", 0)};
    }
    return RMQ_OK;
}

static rmq_status parse_subscription_table(struct rq_connections *out, rmq_error **err)
{
    const cJSON *table = rq_json_get(out->json, "subscriptionTable");
    out->subscriptions = rq_body_array(rq_body_size(table), sizeof *out->subscriptions);
    if (!out->subscriptions) {
        return rq_body_nomem("subscriptions", err);
    }
    for (const cJSON *item = rq_body_first(table); item; item = item->next) {
        rmq_status st = rq_subscription_parse(item, &out->subscriptions[out->subscription_count], err);
        if (st) {
            return st;
        }
        out->subscription_count++;
    }
    return RMQ_OK;
}

rmq_status rq_connections_parse(struct rq_slice json, struct rq_connections *out, rmq_error **err)
{
    *out = (struct rq_connections){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        out->consume_type = rq_json_str(out->json, "consumeType", NULL);
        out->message_model = rq_json_str(out->json, "messageModel", NULL);
        out->consume_from_where = rq_json_str(out->json, "consumeFromWhere", NULL);
        st = parse_connection_list(out, err);
    }
    if (!st) {
        st = parse_subscription_table(out, err);
    }
    if (st) {
        rq_connections_clear(out);
    }
    return st;
}

static void write_connection(const struct rq_connection *connection, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_text(out, &first, "clientAddr", connection->client_addr);
    rq_body_text(out, &first, "clientId", connection->client_id);
    rq_body_text(out, &first, "language", rq_language_name(connection->language));
    rq_body_i64(out, &first, "version", connection->version);
    rq_buf_add_char(out, '}');
}

void rq_connections_write(const struct rq_connections *connections, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "connectionSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < connections->count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        write_connection(&connections->items[i], out);
    }
    rq_buf_add_char(out, ']');
    if (connections->consume_type) {
        rq_body_text(out, &first, "consumeFromWhere", connections->consume_from_where);
        rq_body_text(out, &first, "consumeType", connections->consume_type);
        rq_body_text(out, &first, "messageModel", connections->message_model);
        rq_json_add_member(out, &first, "subscriptionTable");
        rq_buf_add_char(out, '{');
        bool first_sub = true;
        for (size_t i = 0; i < connections->subscription_count; i++) {
            rq_json_add_member(out, &first_sub, connections->subscriptions[i]->topic);
            rq_subscription_write(connections->subscriptions[i], out);
        }
        rq_buf_add_char(out, '}');
    }
    rq_buf_add_char(out, '}');
}

void rq_connections_clear(struct rq_connections *connections)
{
    for (size_t i = 0; i < connections->subscription_count; i++) {
        rq_subscription_destroy(connections->subscriptions[i]);
    }
    rq_free(connections->subscriptions);
    rq_free(connections->items);
    rq_json_free(connections->json);
    *connections = (struct rq_connections){0};
}

rmq_status rq_consume_directly_parse(struct rq_slice json, struct rq_consume_directly *out, rmq_error **err)
{
    *out = (struct rq_consume_directly){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        out->order = rq_json_bool(out->json, "order", false);
        out->auto_commit = rq_json_bool(out->json, "autoCommit", true);
        out->result = rq_json_str(out->json, "consumeResult", "");
        out->remark = rq_json_str(out->json, "remark", NULL);
        out->spent_ms = rq_json_i64(out->json, "spentTimeMills", 0);
    }
    return st;
}

void rq_consume_directly_write(const struct rq_consume_directly *result, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_bool(out, &first, "autoCommit", result->auto_commit);
    rq_body_text(out, &first, "consumeResult", result->result);
    rq_body_bool(out, &first, "order", result->order);
    if (result->remark) {
        rq_body_text(out, &first, "remark", result->remark);
    }
    rq_body_i64(out, &first, "spentTimeMills", result->spent_ms);
    rq_buf_add_char(out, '}');
}

void rq_consume_directly_clear(struct rq_consume_directly *result)
{
    rq_json_free(result->json);
    *result = (struct rq_consume_directly){0};
}

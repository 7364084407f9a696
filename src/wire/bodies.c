/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies about clients and clusters: name lists, cluster info, connections, key-value tables, the
 * result of consuming directly. Called by client, broker and name server. Counterparts:
 * GetConsumerListByGroupResponseBody, ClusterInfo, ConsumerConnection, KVTable.
 */
#include "wire/bodies.h"

#include <string.h>

#include "base/mem.h"
#include "wire/body_priv.h"
#include "wire/header.h"

/* ---- lists of names ---- */

rmq_status rq_names_parse(struct rq_slice json, const char *member, struct rq_names *out,
                          rmq_error **err)
{
    *out = (struct rq_names){0};
    rmq_status st = rq_body_open(json, member, &out->json, err);
    if (st == RMQ_OK) {
        st = rq_body_strings(rq_json_get(out->json, member), &out->items, &out->count, err);
    }
    if (st) {
        rq_names_clear(out);
    }
    return st;
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
    rq_body_add_strings(out, &first, member, items, count);
    rq_buf_add_char(out, '}');
}

/* ---- cluster info ---- */

static rmq_status parse_brokers(const cJSON *json, struct rq_cluster_info *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->brokers, &out->brokers, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        struct rq_route_broker_data *broker = &out->brokers[out->broker_count++];
        st = rq_route_broker_parse(item, broker, err);
        if (st) {
            return st;
        }
        if (!*broker->broker_name && item->string) {
            broker->broker_name = item->string;
        }
    }
    return st;
}

static rmq_status parse_clusters(const cJSON *json, struct rq_cluster_info *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->clusters, &out->clusters, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        struct rq_cluster *cluster = &out->clusters[out->cluster_count++];
        cluster->name = item->string ? item->string : "";
        st = rq_body_strings(item, &cluster->broker_names, &cluster->broker_count, err);
        if (st) {
            return st;
        }
    }
    return st;
}

rmq_status rq_cluster_info_parse(struct rq_slice json, struct rq_cluster_info *out, rmq_error **err)
{
    *out = (struct rq_cluster_info){0};
    rmq_status st = rq_body_open(json, "cluster info", &out->json, err);
    if (st == RMQ_OK) {
        st = parse_brokers(rq_json_get(out->json, "brokerAddrTable"), out, err);
    }
    if (st == RMQ_OK) {
        st = parse_clusters(rq_json_get(out->json, "clusterAddrTable"), out, err);
    }
    if (st) {
        rq_cluster_info_clear(out);
    }
    return st;
}

void rq_cluster_info_write(const struct rq_cluster_info *info, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_str(out, "{\"brokerAddrTable\":{");
    for (size_t i = 0; i < info->broker_count; i++) {
        rq_json_add_member(out, &first, info->brokers[i].broker_name);
        rq_route_broker_write(&info->brokers[i], out);
    }
    rq_buf_add_str(out, "},\"clusterAddrTable\":{");
    first = true;
    for (size_t i = 0; i < info->cluster_count; i++) {
        const struct rq_cluster *cluster = &info->clusters[i];
        rq_body_add_strings(out, &first, cluster->name, cluster->broker_names,
                            cluster->broker_count);
    }
    rq_buf_add_str(out, "}}");
}

void rq_cluster_info_clear(struct rq_cluster_info *info)
{
    for (size_t i = 0; i < info->broker_count; i++) {
        rq_free(info->brokers[i].addrs);
    }
    for (size_t i = 0; i < info->cluster_count; i++) {
        rq_free(info->clusters[i].broker_names);
    }
    rq_free(info->brokers);
    rq_free(info->clusters);
    rq_json_free(info->json);
    *info = (struct rq_cluster_info){0};
}

/* ---- connections ---- */

static rmq_status parse_connections(const cJSON *json, struct rq_connections *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->items, &out->items, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        out->items[out->count++] = (struct rq_connection){
            .client_id = rq_json_str(item, "clientId", ""),
            .client_addr = rq_json_str(item, "clientAddr", ""),
            .language = rq_language_of(rq_slice_str(rq_json_str(item, "language", ""))),
            .version = rq_json_i32(item, "version", 0)};
    }
    return st;
}

static rmq_status parse_subscriptions(const cJSON *json, struct rq_connections *out,
                                      rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof(struct rq_subscription *),
                                  &out->subscriptions, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        st = rq_subscription_parse(item, &out->subscriptions[out->subscription_count], err);
        if (st) {
            return st;
        }
        out->subscription_count++;
    }
    return st;
}

rmq_status rq_connections_parse(struct rq_slice json, struct rq_connections *out, rmq_error **err)
{
    *out = (struct rq_connections){0};
    rmq_status st = rq_body_open(json, "connections", &out->json, err);
    if (st) {
        return st;
    }
    out->consume_type = rq_json_str(out->json, "consumeType", NULL);
    out->message_model = rq_json_str(out->json, "messageModel", NULL);
    out->consume_from_where = rq_json_str(out->json, "consumeFromWhere", NULL);
    st = parse_connections(rq_json_get(out->json, "connectionSet"), out, err);
    if (st == RMQ_OK) {
        st = parse_subscriptions(rq_json_get(out->json, "subscriptionTable"), out, err);
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
    rq_body_add_text(out, &first, "clientAddr", connection->client_addr);
    rq_body_add_text(out, &first, "clientId", connection->client_id);
    rq_body_add_text(out, &first, "language", rq_language_name(connection->language));
    rq_body_add_i64(out, &first, "version", connection->version);
    rq_buf_add_char(out, '}');
}

void rq_connections_write(const struct rq_connections *connections, struct rq_buf *out)
{
    bool first = true;
    bool first_sub = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "connectionSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < connections->count; i++) {
        rq_body_next(out, i);
        write_connection(&connections->items[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_body_add_text(out, &first, "consumeFromWhere", connections->consume_from_where);
    rq_body_add_text(out, &first, "consumeType", connections->consume_type);
    rq_body_add_text(out, &first, "messageModel", connections->message_model);
    if (connections->consume_type) {
        rq_json_add_member(out, &first, "subscriptionTable");
        rq_buf_add_char(out, '{');
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

/* ---- key-value tables ---- */

rmq_status rq_kv_table_parse(struct rq_slice json, struct rq_kv_table *out, rmq_error **err)
{
    *out = (struct rq_kv_table){0};
    rmq_status st = rq_body_open(json, "table", &out->json, err);
    const cJSON *table = rq_json_get(out->json, "table");
    if (st == RMQ_OK) {
        st = rq_body_array(rq_body_count(table), sizeof *out->items, &out->items, err);
    }
    for (const cJSON *item = rq_body_first(st ? NULL : table); item; item = item->next) {
        if (item->string && cJSON_IsString(item)) {
            out->items[out->count++] =
                (struct rq_attribute){.key = item->string, .value = item->valuestring};
        }
    }
    if (st) {
        rq_kv_table_clear(out);
    }
    return st;
}

void rq_kv_table_clear(struct rq_kv_table *table)
{
    rq_free(table->items);
    rq_json_free(table->json);
    *table = (struct rq_kv_table){0};
}

/* ---- result of CONSUME_MESSAGE_DIRECTLY ---- */

rmq_status rq_consume_directly_parse(struct rq_slice json, struct rq_consume_directly *out,
                                     rmq_error **err)
{
    *out = (struct rq_consume_directly){0};
    rmq_status st = rq_body_open(json, "consume result", &out->json, err);
    if (st == RMQ_OK) {
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
    rq_body_add_bool(out, &first, "autoCommit", result->auto_commit);
    rq_body_add_text(out, &first, "consumeResult", result->result);
    rq_body_add_bool(out, &first, "order", result->order);
    rq_body_add_text(out, &first, "remark", result->remark);
    rq_body_add_i64(out, &first, "spentTimeMills", result->spent_ms);
    rq_buf_add_char(out, '}');
}

void rq_consume_directly_clear(struct rq_consume_directly *result)
{
    rq_json_free(result->json);
    *result = (struct rq_consume_directly){0};
}

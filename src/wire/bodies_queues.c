/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies: numbers per message queue, and the cluster. A map with a queue as its key comes out of base/json with the key's text, which is parsed
 * a second time here. Pure functions, any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/bodies.h"
#include "wire/body_json.h"

static const char *member_of(enum rq_queue_table_kind kind)
{
    return kind == RQ_QUEUE_TABLE_STATUS ? "messageQueueTable" : "offsetTable";
}

static void read_numbers(const cJSON *item, enum rq_queue_table_kind kind, struct rq_queue_stat *row)
{
    if (kind == RQ_QUEUE_TABLE_TOPIC_STATS) {
        row->min_offset = rq_json_i64(item, "minOffset", 0);
        row->max_offset = rq_json_i64(item, "maxOffset", 0);
        row->timestamp_ms = rq_json_i64(item, "lastUpdateTimestamp", 0);
    } else if (kind == RQ_QUEUE_TABLE_CONSUME_STATS) {
        row->broker_offset = rq_json_i64(item, "brokerOffset", 0);
        row->consumer_offset = rq_json_i64(item, "consumerOffset", 0);
        row->pull_offset = rq_json_i64(item, "pullOffset", 0);
        row->timestamp_ms = rq_json_i64(item, "lastTimestamp", 0);
    } else if (!rq_json_value_i64(item, &row->offset)) {
        row->offset = -1;
    }
}

/* {MQ:…}: the key is the text of an object. */
static rmq_status read_map_row(const cJSON *item, enum rq_queue_table_kind kind, struct rq_queue_table *out,
                               rmq_error **err)
{
    cJSON *key = NULL;
    rmq_status st = rq_json_parse(rq_slice_str(item->string), &key, err);
    if (st) {
        return st;
    }
    struct rq_queue_stat *row = &out->rows[out->count];
    st = rq_mq_parse(key, &row->mq, err);
    if (st) {
        rq_json_free(key);
        return st;
    }
    out->keys[out->count++] = key;
    read_numbers(item, kind, row);
    return RMQ_OK;
}

/* [{"topic","brokerName","queueId","offset"}]: the form for the C++ client. */
static rmq_status read_list_row(const cJSON *item, struct rq_queue_table *out, rmq_error **err)
{
    struct rq_queue_stat *row = &out->rows[out->count];
    rmq_status st = rq_mq_parse(item, &row->mq, err);
    if (!st) {
        row->offset = rq_json_i64(item, "offset", -1);
        out->count++;
    }
    return st;
}

rmq_status rq_queue_table_parse(struct rq_slice json, enum rq_queue_table_kind kind,
                                struct rq_queue_table *out, rmq_error **err)
{
    *out = (struct rq_queue_table){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (st) {
        return st;
    }
    const cJSON *table = rq_json_get(out->json, member_of(kind));
    const cJSON *tps = rq_json_get(out->json, kind == RQ_QUEUE_TABLE_TOPIC_STATS ? "topicPutTps" : "consumeTps");
    out->tps = cJSON_IsNumber(tps) ? tps->valuedouble : 0;
    size_t n = rq_body_size(table);
    out->rows = rq_body_array(n, sizeof *out->rows);
    out->keys = rq_body_array(n, sizeof *out->keys);
    st = out->rows && out->keys ? RMQ_OK : rq_body_nomem(member_of(kind), err);
    for (const cJSON *item = rq_body_first(table); item && !st; item = item->next) {
        st = cJSON_IsArray(table) ? read_list_row(item, out, err) : read_map_row(item, kind, out, err);
    }
    if (st) {
        rq_queue_table_clear(out);
    }
    return st;
}

static void write_numbers(const struct rq_queue_stat *row, enum rq_queue_table_kind kind, struct rq_buf *out)
{
    bool first = true;
    if (kind == RQ_QUEUE_TABLE_TOPIC_STATS) {
        rq_buf_add_char(out, '{');
        rq_body_i64(out, &first, "lastUpdateTimestamp", row->timestamp_ms);
        rq_body_i64(out, &first, "maxOffset", row->max_offset);
        rq_body_i64(out, &first, "minOffset", row->min_offset);
        rq_buf_add_char(out, '}');
    } else if (kind == RQ_QUEUE_TABLE_CONSUME_STATS) {
        rq_buf_add_char(out, '{');
        rq_body_i64(out, &first, "brokerOffset", row->broker_offset);
        rq_body_i64(out, &first, "consumerOffset", row->consumer_offset);
        rq_body_i64(out, &first, "lastTimestamp", row->timestamp_ms);
        rq_body_i64(out, &first, "pullOffset", row->pull_offset);
        rq_buf_add_char(out, '}');
    } else {
        rq_buf_add_i64(out, row->offset);
    }
}

void rq_queue_table_write(const struct rq_queue_table *table, enum rq_queue_table_kind kind,
                          struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    if (kind == RQ_QUEUE_TABLE_CONSUME_STATS) {
        rq_json_add_member(out, &first, "consumeTps");
        rq_buf_addf(out, "%.4f", table->tps);
    }
    rq_json_add_member(out, &first, member_of(kind));
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < table->count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_mq_write(&table->rows[i].mq, out);
        rq_buf_add_char(out, ':');
        write_numbers(&table->rows[i], kind, out);
    }
    rq_buf_add_char(out, '}');
    if (kind == RQ_QUEUE_TABLE_TOPIC_STATS) {
        rq_json_add_member(out, &first, "topicPutTps");
        rq_buf_addf(out, "%.4f", table->tps);
    }
    rq_buf_add_char(out, '}');
}

void rq_queue_table_clear(struct rq_queue_table *table)
{
    for (size_t i = 0; table->keys && i < table->count; i++) {
        rq_json_free(table->keys[i]);
    }
    rq_free(table->keys);
    rq_free(table->rows);
    rq_json_free(table->json);
    *table = (struct rq_queue_table){0};
}

static rmq_status parse_brokers(const cJSON *map, struct rq_cluster_info *out, rmq_error **err)
{
    out->brokers = rq_body_array(rq_body_size(map), sizeof *out->brokers);
    rmq_status st = out->brokers ? RMQ_OK : rq_body_nomem("cluster info", err);
    for (const cJSON *item = rq_body_first(map); item && !st; item = item->next) {
        st = rq_route_broker_parse(item, &out->brokers[out->broker_count], err);
        out->broker_count += st ? 0 : 1;
    }
    return st;
}

static rmq_status parse_clusters(const cJSON *map, struct rq_cluster_info *out, rmq_error **err)
{
    out->clusters = rq_body_array(rq_body_size(map), sizeof *out->clusters);
    if (!out->clusters) {
        return rq_body_nomem("cluster info", err);
    }
    for (const cJSON *item = rq_body_first(map); item; item = item->next) {
        struct rq_cluster *cluster = &out->clusters[out->cluster_count];
        cluster->name = item->string;
        cluster->broker_names = rq_body_array(rq_body_size(item), sizeof *cluster->broker_names);
        if (!cluster->broker_names) {
            return rq_body_nomem("cluster info", err);
        }
        out->cluster_count++;
        for (const cJSON *name = rq_body_first(item); name; name = name->next) {
            if (cJSON_IsString(name)) {
                cluster->broker_names[cluster->broker_count++] = name->valuestring;
            }
        }
    }
    return RMQ_OK;
}

rmq_status rq_cluster_info_parse(struct rq_slice json, struct rq_cluster_info *out, rmq_error **err)
{
    *out = (struct rq_cluster_info){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        st = parse_brokers(rq_json_get(out->json, "brokerAddrTable"), out, err);
    }
    if (!st) {
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
        rq_json_add_member(out, &first, cluster->name);
        rq_buf_add_char(out, '[');
        for (size_t k = 0; k < cluster->broker_count; k++) {
            rq_buf_add_str(out, k ? "," : "");
            rq_json_add_string(out, rq_slice_str(cluster->broker_names[k]));
        }
        rq_buf_add_char(out, ']');
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

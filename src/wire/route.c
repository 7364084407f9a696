/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The route body. Both key forms are read by base/json; here the tree becomes arrays. Pure functions, any thread. */
#include "wire/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct rq_route_broker_addr *)a)->id;
    int64_t y = ((const struct rq_route_broker_addr *)b)->id;
    return x < y ? -1 : x > y;
}

static rmq_status parse_addrs(const cJSON *addrs, struct rq_route_broker_data *out, rmq_error **err)
{
    size_t n = cJSON_IsObject(addrs) ? (size_t)cJSON_GetArraySize(addrs) : 0;
    out->addrs = rq_calloc(n ? n : 1, sizeof *out->addrs);
    if (!out->addrs) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "route: out of memory");
    }
    const cJSON *item = NULL;
    if (n == 0) {
        return RMQ_OK;
    }
    cJSON_ArrayForEach(item, addrs)
    {
        int64_t id = 0;
        if (!cJSON_IsString(item) || !rq_slice_to_i64(rq_slice_str(item->string), &id)) {
            rq_free(out->addrs);
            out->addrs = NULL;
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "route: broker %s has an address with id \"%s\"",
                                out->broker_name, item->string ? item->string : "");
        }
        out->addrs[out->addr_count++] =
            (struct rq_route_broker_addr){.id = id, .addr = item->valuestring};
    }
    qsort(out->addrs, out->addr_count, sizeof *out->addrs, by_id);
    return RMQ_OK;
}

rmq_status rq_route_broker_parse(const cJSON *json, struct rq_route_broker_data *out, rmq_error **err)
{
    *out = (struct rq_route_broker_data){.cluster = rq_json_str(json, "cluster", ""),
                                         .broker_name = rq_json_str(json, "brokerName", NULL),
                                         .zone_name = rq_json_str(json, "zoneName", NULL),
                                         .enable_acting_master =
                                             rq_json_bool(json, "enableActingMaster", false)};
    if (!out->broker_name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "route: a broker without brokerName");
    }
    return parse_addrs(rq_json_get(json, "brokerAddrs"), out, err);
}

static rmq_status parse_brokers(struct rq_route_data *out, rmq_error **err)
{
    const cJSON *list = rq_json_get(out->json, "brokerDatas");
    size_t n = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
    out->brokers = rq_calloc(n ? n : 1, sizeof *out->brokers);
    if (!out->brokers) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "route: out of memory");
    }
    const cJSON *item = NULL;
    if (n == 0) {
        return RMQ_OK;
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!rq_json_str(item, "brokerName", NULL)) {
            continue;
        }
        rmq_status st = rq_route_broker_parse(item, &out->brokers[out->broker_count], err);
        if (st) {
            return st;
        }
        out->broker_count++;
    }
    return RMQ_OK;
}

static rmq_status parse_queues(struct rq_route_data *out, rmq_error **err)
{
    const cJSON *list = rq_json_get(out->json, "queueDatas");
    size_t n = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
    out->queues = rq_calloc(n ? n : 1, sizeof *out->queues);
    if (!out->queues) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "route: out of memory");
    }
    const cJSON *item = NULL;
    if (n == 0) {
        return RMQ_OK;
    }
    cJSON_ArrayForEach(item, list)
    {
        const char *name = rq_json_str(item, "brokerName", NULL);
        if (name) {
            int32_t old_flag = rq_json_i32(item, "topicSynFlag", 0);
            out->queues[out->queue_count++] = (struct rq_route_queue_data){
                .broker_name = name,
                .read_queue_nums = rq_json_i32(item, "readQueueNums", 0),
                .write_queue_nums = rq_json_i32(item, "writeQueueNums", 0),
                .perm = rq_json_i32(item, "perm", 0),
                .topic_sys_flag = rq_json_i32(item, "topicSysFlag", old_flag)};
        }
    }
    return RMQ_OK;
}

rmq_status rq_route_data_parse(struct rq_slice json, struct rq_route_data *out, rmq_error **err)
{
    *out = (struct rq_route_data){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (st) {
        return st;
    }
    if (!cJSON_IsObject(out->json)) {
        st = rq_error_set(err, RMQ_ERR_PROTOCOL, "route: the body is no object");
    }
    if (!st) {
        out->order_topic_conf = rq_json_str(out->json, "orderTopicConf", NULL);
        st = parse_brokers(out, err);
    }
    if (!st) {
        st = parse_queues(out, err);
    }
    if (st) {
        rq_route_data_clear(out);
    }
    return st;
}

void rq_route_data_clear(struct rq_route_data *route)
{
    for (size_t i = 0; i < route->broker_count; i++) {
        rq_free(route->brokers[i].addrs);
    }
    rq_free(route->brokers);
    rq_free(route->queues);
    rq_json_free(route->json);
    *route = (struct rq_route_data){0};
}

static void add_text(struct rq_buf *out, bool *first, const char *name, const char *value)
{
    rq_json_add_member(out, first, name);
    rq_json_add_string(out, rq_slice_str(value));
}

static void add_number(struct rq_buf *out, bool *first, const char *name, int64_t value)
{
    rq_json_add_member(out, first, name);
    rq_buf_add_i64(out, value);
}

void rq_route_broker_write(const struct rq_route_broker_data *broker, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "brokerAddrs");
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < broker->addr_count; i++) {
        rq_buf_addf(out, "%s\"%lld\":", i ? "," : "", (long long)broker->addrs[i].id);
        rq_json_add_string(out, rq_slice_str(broker->addrs[i].addr));
    }
    rq_buf_add_char(out, '}');
    add_text(out, &first, "brokerName", broker->broker_name);
    add_text(out, &first, "cluster", broker->cluster);
    rq_json_add_member(out, &first, "enableActingMaster");
    rq_buf_add_str(out, broker->enable_acting_master ? "true" : "false");
    if (broker->zone_name) {
        add_text(out, &first, "zoneName", broker->zone_name);
    }
    rq_buf_add_char(out, '}');
}

static void write_queue(const struct rq_route_queue_data *queue, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    add_text(out, &first, "brokerName", queue->broker_name);
    add_number(out, &first, "perm", queue->perm);
    add_number(out, &first, "readQueueNums", queue->read_queue_nums);
    add_number(out, &first, "topicSysFlag", queue->topic_sys_flag);
    add_number(out, &first, "writeQueueNums", queue->write_queue_nums);
    rq_buf_add_char(out, '}');
}

void rq_route_data_write(const struct rq_route_data *route, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "brokerDatas");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < route->broker_count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        rq_route_broker_write(&route->brokers[i], out);
    }
    rq_buf_add_str(out, "]");
    rq_json_add_member(out, &first, "filterServerTable");
    rq_buf_add_str(out, "{}");
    if (route->order_topic_conf) {
        add_text(out, &first, "orderTopicConf", route->order_topic_conf);
    }
    rq_json_add_member(out, &first, "queueDatas");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < route->queue_count; i++) {
        rq_buf_add_str(out, i ? "," : "");
        write_queue(&route->queues[i], out);
    }
    rq_buf_add_str(out, "]}");
}

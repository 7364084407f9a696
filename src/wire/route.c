/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Routes, parsed from what name servers of any version write, and written so that clients of any
 * version read it. Called by the client's route refresh and by our name server. Counterparts:
 * TopicRouteData, QueueData, BrokerData.
 */
#include "wire/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/body_priv.h"

static int compare_addrs(const void *a, const void *b)
{
    const struct rq_route_broker_addr *x = a;
    const struct rq_route_broker_addr *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

rmq_status rq_route_broker_parse(const cJSON *json, struct rq_route_broker_data *out,
                                 rmq_error **err)
{
    const cJSON *addrs = rq_json_get(json, "brokerAddrs");
    *out = (struct rq_route_broker_data){.cluster = rq_json_str(json, "cluster", ""),
                                         .broker_name = rq_json_str(json, "brokerName", ""),
                                         .zone_name = rq_json_str(json, "zoneName", NULL),
                                         .enable_acting_master =
                                             rq_json_bool(json, "enableActingMaster", false)};
    rmq_status st = rq_body_array(rq_body_count(addrs), sizeof *out->addrs, &out->addrs, err);
    for (const cJSON *item = rq_body_first(st ? NULL : addrs); item; item = item->next) {
        int64_t id;
        if (item->string && cJSON_IsString(item) &&
            rq_slice_to_i64(rq_slice_str(item->string), &id)) {
            out->addrs[out->addr_count++] =
                (struct rq_route_broker_addr){.id = id, .addr = item->valuestring};
        }
    }
    if (out->addr_count > 1) {
        qsort(out->addrs, out->addr_count, sizeof *out->addrs, compare_addrs);
    }
    return st;
}

static rmq_status parse_queues(const cJSON *json, struct rq_route_data *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->queues, &out->queues, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        const char *name = rq_json_str(item, "brokerName", "");
        if (!*name) {
            continue;
        }
        /* The misspelt name is that of name servers up to 4.8. */
        int32_t old_flag = rq_json_i32(item, "topicSynFlag", 0);
        out->queues[out->queue_count++] = (struct rq_route_queue_data){
            .broker_name = name,
            .read_queue_nums = rq_json_i32(item, "readQueueNums", 0),
            .write_queue_nums = rq_json_i32(item, "writeQueueNums", 0),
            .perm = rq_json_i32(item, "perm", 0),
            .topic_sys_flag = rq_json_i32(item, "topicSysFlag", old_flag)};
    }
    return st;
}

static rmq_status parse_brokers(const cJSON *json, struct rq_route_data *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->brokers, &out->brokers, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        struct rq_route_broker_data *broker = &out->brokers[out->broker_count];
        st = rq_route_broker_parse(item, broker, err);
        if (st) {
            return st;
        }
        if (*broker->broker_name) {
            out->broker_count++;
        } else {
            rq_free(broker->addrs);
        }
    }
    return st;
}

/* One that names no broker is dropped. */
static rmq_status parse_mappings(const cJSON *json, struct rq_route_data *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->mappings, &out->mappings, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        st = rq_queue_mapping_info_parse(item, &out->mappings[out->mapping_count], NULL);
        if (st == RMQ_ERR_NOMEM) {
            return rq_error_set(err, st, "route: mapping of a static topic");
        }
        out->mapping_count += st == RMQ_OK;
    }
    return RMQ_OK;
}

rmq_status rq_route_data_parse(struct rq_slice json, struct rq_route_data *out, rmq_error **err)
{
    *out = (struct rq_route_data){0};
    rmq_status st = rq_body_open(json, "route", &out->json, err);
    if (st) {
        return st;
    }
    out->order_topic_conf = rq_json_str(out->json, "orderTopicConf", NULL);
    st = parse_queues(rq_json_get(out->json, "queueDatas"), out, err);
    if (st == RMQ_OK) {
        st = parse_brokers(rq_json_get(out->json, "brokerDatas"), out, err);
    }
    if (st == RMQ_OK) {
        st = parse_mappings(rq_json_get(out->json, "topicQueueMappingByBroker"), out, err);
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
    for (size_t i = 0; i < route->mapping_count; i++) {
        rq_queue_mapping_info_clear(&route->mappings[i]);
    }
    rq_free(route->mappings);
    rq_json_free(route->json);
    *route = (struct rq_route_data){0};
}

void rq_route_broker_write(const struct rq_route_broker_data *broker, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "brokerAddrs");
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < broker->addr_count; i++) {
        rq_body_next(out, i);
        rq_buf_addf(out, "\"%lld\":", (long long)broker->addrs[i].id);
        rq_json_add_string(out, rq_slice_str(broker->addrs[i].addr));
    }
    rq_buf_add_char(out, '}');
    rq_body_add_text(out, &first, "brokerName", broker->broker_name);
    rq_body_add_text(out, &first, "cluster", broker->cluster);
    rq_body_add_bool(out, &first, "enableActingMaster", broker->enable_acting_master);
    rq_body_add_text(out, &first, "zoneName", broker->zone_name);
    rq_buf_add_char(out, '}');
}

static void write_queue(const struct rq_route_queue_data *queue, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "brokerName", queue->broker_name);
    rq_body_add_i64(out, &first, "perm", queue->perm);
    rq_body_add_i64(out, &first, "readQueueNums", queue->read_queue_nums);
    rq_body_add_i64(out, &first, "topicSysFlag", queue->topic_sys_flag);
    rq_body_add_i64(out, &first, "writeQueueNums", queue->write_queue_nums);
    rq_buf_add_char(out, '}');
}

static void write_mappings(const struct rq_route_data *route, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < route->mapping_count; i++) {
        rq_json_add_member(out, &first, route->mappings[i].broker_name);
        rq_queue_mapping_info_write(&route->mappings[i], false, out);
    }
    rq_buf_add_char(out, '}');
}

void rq_route_data_write(const struct rq_route_data *route, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "brokerDatas");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < route->broker_count; i++) {
        rq_body_next(out, i);
        rq_route_broker_write(&route->brokers[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_json_add_member(out, &first, "filterServerTable");
    rq_buf_add_str(out, "{}");
    rq_body_add_text(out, &first, "orderTopicConf", route->order_topic_conf);
    rq_json_add_member(out, &first, "queueDatas");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < route->queue_count; i++) {
        rq_body_next(out, i);
        write_queue(&route->queues[i], out);
    }
    rq_buf_add_char(out, ']');
    if (route->mapping_count > 0) {
        rq_json_add_member(out, &first, "topicQueueMappingByBroker");
        write_mappings(route, out);
    }
    rq_buf_add_char(out, '}');
}

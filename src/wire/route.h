/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The route of a topic as name servers send it: which brokers have how many queues of it, and the
 * brokers' addresses. Parsed texts are borrowed from the parsed JSON, which the struct owns; a
 * route that is to be written may borrow from anywhere. Counterpart: TopicRouteData.
 */
#ifndef RQ_WIRE_ROUTE_H
#define RQ_WIRE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "wire/static_topic.h"

struct rq_route_queue_data {
    const char *broker_name;
    int32_t read_queue_nums;
    int32_t write_queue_nums;
    int32_t perm;
    int32_t topic_sys_flag;
};

struct rq_route_broker_addr {
    int64_t id; /* 0 = master */
    const char *addr;
};

struct rq_route_broker_data {
    const char *cluster;
    const char *broker_name;
    struct rq_route_broker_addr *addrs; /* sorted by id after parsing */
    size_t addr_count;
    const char *zone_name; /* NULL = none */
    bool enable_acting_master;
};

struct rq_route_data {
    const char *order_topic_conf; /* NULL = none */
    struct rq_route_queue_data *queues;
    size_t queue_count;
    struct rq_route_broker_data *brokers;
    size_t broker_count;
    struct rq_queue_mapping_info *mappings; /* of a static topic, else none */
    size_t mapping_count;
    cJSON *json; /* owner of parsed texts, else NULL */
};

/* Parses the body of a GET_ROUTEINFO_BY_TOPIC answer, in the strict or in the bare-key form.
 * Entries without a broker name are dropped. *out is set on RMQ_OK; the caller clears it. Errors:
 * RMQ_ERR_PROTOCOL, RMQ_ERR_NOMEM. */
rmq_status rq_route_data_parse(struct rq_slice json, struct rq_route_data *out, rmq_error **err);
/* Of a parsed one; a zeroed one is accepted. */
void rq_route_data_clear(struct rq_route_data *route);

/* Writes valid JSON (map keys quoted), which Java readers of any version take. */
void rq_route_data_write(const struct rq_route_data *route, struct rq_buf *out);

/* One "brokerAddrs" object and one broker, as they occur in the cluster info, too. */
rmq_status rq_route_broker_parse(const cJSON *json, struct rq_route_broker_data *out,
                                 rmq_error **err);
void rq_route_broker_write(const struct rq_route_broker_data *broker, struct rq_buf *out);

#endif

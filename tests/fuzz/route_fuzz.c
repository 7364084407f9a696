/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* JSON bodies: any text, given to every parser; what is parsed is written, and that is read
 * again. */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/bodies.h"
#include "wire/heartbeat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(rmq_status st)
{
    if (st != RMQ_OK) {
        abort();
    }
}

/* Parse, write, parse what was written. */
#define ROUND(type, parse, write, clear)                                                           \
    do {                                                                                           \
        struct type one;                                                                           \
        if (parse(text, &one) == RMQ_OK) {                                                         \
            struct rq_buf out;                                                                     \
            struct type two;                                                                       \
            rq_buf_init(&out, 0);                                                                  \
            write(&one, &out);                                                                     \
            require(parse(rq_slice(out.data, out.len), &two));                                     \
            clear(&two);                                                                           \
            clear(&one);                                                                           \
            rq_buf_free(&out);                                                                     \
        }                                                                                          \
    } while (0)

static rmq_status parse_route(struct rq_slice text, struct rq_route_data *out)
{
    return rq_route_data_parse(text, out, NULL);
}

/* Every queue of a static topic has a scope, and a place among the others. */
static void list_static(struct rq_slice text)
{
    struct rq_route_data route;
    struct rq_static_queue *queues = NULL;
    size_t count = 0;
    if (rq_route_data_parse(text, &route, NULL) != RMQ_OK) {
        return;
    }
    if (rq_static_queues(route.mappings, route.mapping_count, &queues, &count, NULL) == RMQ_OK) {
        for (size_t i = 0; i < count; i++) {
            require(queues[i].scope && queues[i].id >= 0 ? RMQ_OK : RMQ_ERR_PROTOCOL);
        }
    }
    rq_free(queues);
    rq_route_data_clear(&route);
}

static rmq_status parse_heartbeat(struct rq_slice text, struct rq_heartbeat *out)
{
    return rq_heartbeat_parse(text, out, NULL);
}

static rmq_status parse_lock(struct rq_slice text, struct rq_lock_body *out)
{
    return rq_lock_body_parse(text, out, NULL);
}

static rmq_status parse_topics(struct rq_slice text, struct rq_topic_table *out)
{
    return rq_topic_table_parse(text, out, NULL);
}

static rmq_status parse_groups(struct rq_slice text, struct rq_group_table *out)
{
    return rq_group_table_parse(text, out, NULL);
}

static rmq_status parse_cluster(struct rq_slice text, struct rq_cluster_info *out)
{
    return rq_cluster_info_parse(text, out, NULL);
}

static rmq_status parse_connections(struct rq_slice text, struct rq_connections *out)
{
    return rq_connections_parse(text, out, NULL);
}

static rmq_status parse_offsets(struct rq_slice text, struct rq_queue_table *out)
{
    return rq_queue_table_parse(text, RQ_QUEUE_TABLE_OFFSETS, out, NULL);
}

static void write_offsets(const struct rq_queue_table *table, struct rq_buf *out)
{
    rq_queue_table_write(table, RQ_QUEUE_TABLE_OFFSETS, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_slice text = rq_slice(data, size);
    ROUND(rq_route_data, parse_route, rq_route_data_write, rq_route_data_clear);
    list_static(text);
    ROUND(rq_heartbeat, parse_heartbeat, rq_heartbeat_write, rq_heartbeat_clear);
    ROUND(rq_lock_body, parse_lock, rq_lock_body_write, rq_lock_body_clear);
    ROUND(rq_topic_table, parse_topics, rq_topic_table_write, rq_topic_table_clear);
    ROUND(rq_group_table, parse_groups, rq_group_table_write, rq_group_table_clear);
    ROUND(rq_cluster_info, parse_cluster, rq_cluster_info_write, rq_cluster_info_clear);
    ROUND(rq_connections, parse_connections, rq_connections_write, rq_connections_clear);
    ROUND(rq_queue_table, parse_offsets, write_offsets, rq_queue_table_clear);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What rmq_admin tells of static topics: rows of logical queues, as their leaders count them.
 * Counterpart: MQAdminUtils.convertPhysicalTopicStats.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/admin_priv.h"

/* The last message of a logical queue is that of the leader's own queue. */
static int64_t last_update_of(const struct rq_static_queue *queue, const rmq_queue_status *own,
                              size_t own_count)
{
    for (size_t i = 0; i < own_count; i++) {
        if (own[i].queue_id == queue->own_id && strcmp(own[i].broker_name, queue->host) == 0) {
            return own[i].last_update_ms;
        }
    }
    return 0;
}

static rmq_status ask_ends(rmq_admin *admin, const char *topic, int64_t deadline_ms,
                           rmq_queue_status *row, rmq_error **err)
{
    rmq_status st = rmq_admin_min_offset(admin, topic, row->broker_name, row->queue_id,
                                         rq_left_ms(deadline_ms), &row->min_offset, err);
    return st == RMQ_OK ? rmq_admin_max_offset(admin, topic, row->broker_name, row->queue_id,
                                               rq_left_ms(deadline_ms), &row->max_offset, err)
                        : st;
}

static rmq_status add_row(rmq_admin *admin, const char *topic, const struct rq_static_queue *queue,
                          int64_t deadline_ms, rmq_queue_status *list, size_t *count,
                          rmq_error **err)
{
    rmq_queue_status *row = &list[*count];
    row->broker_name = rq_logical_name_of(queue->scope);
    row->queue_id = queue->id;
    if (!row->broker_name) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "topic status");
    }
    ++*count;
    return ask_ends(admin, topic, deadline_ms, row, err);
}

rmq_status rq_admin_logical_status(rmq_admin *admin, const char *topic,
                                   const struct rq_route_data *route, const rmq_queue_status *own,
                                   size_t own_count, int64_t deadline_ms, rmq_queue_status **out,
                                   size_t *count, rmq_error **err)
{
    struct rq_static_queue *queues = NULL;
    size_t n = 0;
    rmq_status st = rq_static_queues(route->mappings, route->mapping_count, &queues, &n, err);
    rmq_queue_status *list = st == RMQ_OK ? rq_calloc(n + 1, sizeof *list) : NULL;
    if (st == RMQ_OK && !list) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "topic status");
    }
    size_t filled = 0;
    for (size_t i = 0; i < n && st == RMQ_OK; i++) {
        if (queues[i].host) {
            list[filled].last_update_ms = last_update_of(&queues[i], own, own_count);
            st = add_row(admin, topic, &queues[i], deadline_ms, list, &filled, err);
        }
    }
    rq_free(queues);
    if (st != RMQ_OK) {
        rmq_admin_queue_status_free(list, filled);
        return st;
    }
    *out = list;
    *count = filled;
    return RMQ_OK;
}

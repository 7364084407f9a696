/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A group goes on from another place in a topic. Brokers of 5.x set the offsets and tell whoever
 * pulls; older ones tell the members, and know no way when there is none: then the offsets are
 * stored queue by queue. Counterparts: DefaultMQAdminExtImpl.resetOffsetNew,
 * resetOffsetByTimestampOld.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/admin_priv.h"

struct reset {
    rmq_admin *admin;
    const char *group, *topic;
    int64_t timestamp_ms;
    int64_t deadline_ms;
    const char *what;
    rmq_queue_offset *list;
    size_t count;
};

void rmq_admin_queue_offsets_free(rmq_queue_offset *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        union {
            const char *in;
            char *out;
        } cast = {.in = list[i].broker_name};
        rq_free(cast.out);
    }
    rq_free(list);
}

static rmq_status add_offset(struct reset *reset, const char *broker_name, int32_t queue_id,
                             int64_t offset, rmq_error **err)
{
    rmq_queue_offset *grown = rq_realloc(reset->list, (reset->count + 1) * sizeof *grown);
    if (!grown) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", reset->what);
    }
    reset->list = grown;
    char *name = rq_strdup(broker_name);
    if (!name) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", reset->what);
    }
    grown[reset->count++] =
        (rmq_queue_offset){.broker_name = name, .queue_id = queue_id, .offset = offset};
    return RMQ_OK;
}

static rmq_status add_answer(struct reset *reset, const struct rq_reply *reply, rmq_error **err)
{
    struct rq_queue_table table = {0};
    rmq_status st = rq_queue_table_parse(reply->body, RQ_QUEUE_TABLE_OFFSETS, &table, err);
    if (st != RMQ_OK) {
        return st;
    }
    for (size_t i = 0; i < table.count && st == RMQ_OK; i++) {
        const struct rq_queue_stat *row = &table.rows[i];
        st = add_offset(reset, row->mq.broker_name, row->mq.queue_id, row->offset, err);
    }
    rq_queue_table_clear(&table);
    return st;
}

/* RMQ_ERR_NOT_FOUND: an old broker without a member that it could tell. */
static rmq_status ask_broker(struct reset *reset, const char *addr, rmq_error **err)
{
    struct rq_hdr_reset_offset fields = {.topic = rq_slice_str(reset->topic),
                                         .group = rq_slice_str(reset->group),
                                         .timestamp = reset->timestamp_ms};
    RQ_SET(reset_offset, &fields, is_force, true);
    RQ_SET(reset_offset, &fields, queue_id, -1);
    const struct rq_admin_question ask = {.code = RQ_REQ_INVOKE_BROKER_TO_RESET_OFFSET,
                                          .table = &rq_tab_reset_offset,
                                          .fields = &fields,
                                          .what = reset->what,
                                          .not_found = RQ_RESP_CONSUMER_NOT_ONLINE};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(reset->admin, addr, &ask, reset->deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        st = add_answer(reset, &reply, err);
        rq_reply_free(&reply);
    }
    return st;
}

/* ---- queue by queue ---- */

static rmq_status find_offset(const struct reset *reset, const char *addr, int32_t queue_id,
                              int64_t *offset, rmq_error **err)
{
    struct rq_hdr_queue end = {.topic = rq_slice_str(reset->topic), .queue_id = queue_id};
    struct rq_hdr_search_offset at = {.topic = rq_slice_str(reset->topic),
                                      .queue_id = queue_id,
                                      .timestamp = reset->timestamp_ms};
    const struct rq_admin_question last = {
        .code = RQ_REQ_GET_MAX_OFFSET, .table = &rq_tab_queue, .fields = &end, .what = reset->what};
    const struct rq_admin_question search = {.code = RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP,
                                             .table = &rq_tab_search_offset,
                                             .fields = &at,
                                             .what = reset->what};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(reset->admin, addr, reset->timestamp_ms < 0 ? &last : &search,
                                 reset->deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        struct rq_hdr_offset_response answer;
        st = rq_fields_decode(&rq_tab_offset_response, &reply.header, &answer, err);
        *offset = st == RMQ_OK ? answer.offset : *offset;
        rq_reply_free(&reply);
    }
    return st;
}

static rmq_status store_offset(const struct reset *reset, const char *addr, int32_t queue_id,
                               int64_t offset, rmq_error **err)
{
    struct rq_hdr_update_consumer_offset fields = {.consumer_group = rq_slice_str(reset->group),
                                                   .topic = rq_slice_str(reset->topic),
                                                   .queue_id = queue_id,
                                                   .commit_offset = offset};
    const struct rq_admin_question ask = {.code = RQ_REQ_UPDATE_CONSUMER_OFFSET,
                                          .table = &rq_tab_update_consumer_offset,
                                          .fields = &fields,
                                          .what = reset->what};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(reset->admin, addr, &ask, reset->deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        rq_reply_free(&reply);
    }
    return st;
}

static rmq_status store_each(struct reset *reset, const struct rq_route_data *route,
                             const char *broker_name, const char *addr, rmq_error **err)
{
    int32_t queues = 0;
    for (size_t i = 0; i < route->queue_count; i++) {
        if (strcmp(route->queues[i].broker_name, broker_name) == 0) {
            queues = route->queues[i].read_queue_nums;
        }
    }
    rmq_status st = RMQ_OK;
    for (int32_t i = 0; i < queues && st == RMQ_OK; i++) {
        int64_t offset = 0;
        st = find_offset(reset, addr, i, &offset, err);
        if (st == RMQ_OK) {
            st = store_offset(reset, addr, i, offset, err);
        }
        if (st == RMQ_OK) {
            st = add_offset(reset, broker_name, i, offset, err);
        }
    }
    return st;
}

/* ---- all brokers of the topic ---- */

static int by_broker_and_queue(const void *a, const void *b)
{
    const rmq_queue_offset *x = a;
    const rmq_queue_offset *y = b;
    int order = strcmp(x->broker_name, y->broker_name);
    return order ? order : (x->queue_id > y->queue_id) - (x->queue_id < y->queue_id);
}

static rmq_status reset_all(struct reset *reset, rmq_error **err)
{
    struct rq_route_data route = {0};
    rmq_status st = rq_admin_route(reset->admin, reset->topic, reset->deadline_ms, &route, err);
    for (size_t i = 0; i < route.broker_count && st == RMQ_OK; i++) {
        const char *addr = rq_admin_master_of(&route.brokers[i]);
        if (!addr) {
            continue;
        }
        rmq_error *why = NULL;
        st = ask_broker(reset, addr, &why);
        if (st == RMQ_ERR_NOT_FOUND) {
            st = store_each(reset, &route, route.brokers[i].broker_name, addr, err);
        } else if (st != RMQ_OK && err) {
            rmq_error_destroy(*err);
            *err = why;
            why = NULL;
        }
        rmq_error_destroy(why);
    }
    rq_route_data_clear(&route);
    return st;
}

rmq_status rmq_admin_reset_offset(rmq_admin *admin, const char *group, const char *topic,
                                  int64_t timestamp_ms, int64_t timeout_ms, rmq_queue_offset **out,
                                  size_t *count, rmq_error **err)
{
    char what[2 * RQ_NAME_MAX];
    struct reset reset = {.admin = admin,
                          .group = group,
                          .topic = topic,
                          .timestamp_ms = timestamp_ms < 0 ? -1 : timestamp_ms,
                          .what = what};
    rmq_status st = rq_admin_begin(admin, group && topic && out && count,
                                   "group, topic, out, count", timeout_ms, &reset.deadline_ms, err);
    if (st != RMQ_OK) {
        return st;
    }
    (void)snprintf(what, sizeof what, "reset of group %s in topic %s", group, topic);
    st = reset_all(&reset, err);
    if (st != RMQ_OK) {
        rmq_admin_queue_offsets_free(reset.list, reset.count);
        return st;
    }
    if (reset.count > 0) {
        qsort(reset.list, reset.count, sizeof *reset.list, by_broker_and_queue);
    }
    *out = reset.list;
    *count = reset.count;
    return RMQ_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Questions of rmq_admin about offsets and groups. Counterparts: MQAdminImpl,
 * DefaultMQAdminExtImpl.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/admin_priv.h"

static int by_broker_and_id(const void *a, const void *b)
{
    const rmq_queue_status *x = a;
    const rmq_queue_status *y = b;
    int order = strcmp(x->broker_name, y->broker_name);
    return order ? order : (x->queue_id > y->queue_id) - (x->queue_id < y->queue_id);
}

void rmq_admin_queue_status_free(rmq_queue_status *list, size_t count)
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

static rmq_status add_stats(const struct rq_queue_table *table, rmq_queue_status **list,
                            size_t *count, rmq_error **err)
{
    if (table->count == 0) {
        return RMQ_OK;
    }
    rmq_queue_status *grown = rq_realloc(*list, (*count + table->count) * sizeof *grown);
    if (!grown) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "topic status");
    }
    *list = grown;
    for (size_t i = 0; i < table->count; i++) {
        const struct rq_queue_stat *row = &table->rows[i];
        char *name = rq_strdup(row->mq.broker_name);
        if (!name) {
            return rq_error_set(err, RMQ_ERR_NOMEM, "topic status");
        }
        grown[(*count)++] = (rmq_queue_status){.broker_name = name,
                                               .queue_id = row->mq.queue_id,
                                               .min_offset = row->min_offset,
                                               .max_offset = row->max_offset,
                                               .last_update_ms = row->timestamp_ms};
    }
    return RMQ_OK;
}

static rmq_status stats_of(rmq_admin *admin, const char *addr, const char *topic,
                           int64_t deadline_ms, rmq_queue_status **list, size_t *count,
                           rmq_error **err)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(topic)};
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "status of topic %s", topic);
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_TOPIC_STATS_INFO,
                                          .table = &rq_tab_topic,
                                          .fields = &fields,
                                          .what = what};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(admin, addr, &ask, deadline_ms, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_queue_table table = {0};
    st = rq_queue_table_parse(reply.body, RQ_QUEUE_TABLE_TOPIC_STATS, &table, err);
    if (st == RMQ_OK) {
        st = add_stats(&table, list, count, err);
        rq_queue_table_clear(&table);
    }
    rq_reply_free(&reply);
    return st;
}

/* What each broker tells of its own queues. */
static rmq_status own_rows(rmq_admin *admin, const char *topic, const struct rq_route_data *route,
                           int64_t deadline_ms, rmq_queue_status **list, size_t *count,
                           rmq_error **err)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; i < route->broker_count && st == RMQ_OK; i++) {
        const char *addr = rq_admin_master_of(&route->brokers[i]);
        if (addr) {
            st = stats_of(admin, addr, topic, deadline_ms, list, count, err);
        }
    }
    return st;
}

static rmq_status all_rows(rmq_admin *admin, const char *topic, const struct rq_route_data *route,
                           int64_t deadline_ms, rmq_queue_status **out, size_t *count,
                           rmq_error **err)
{
    rmq_queue_status *list = NULL;
    size_t n = 0;
    *count = 0;
    rmq_status st = own_rows(admin, topic, route, deadline_ms, &list, &n, err);
    if (st == RMQ_OK && route->mapping_count == 0) {
        *out = list;
        *count = n;
        return RMQ_OK;
    }
    if (st == RMQ_OK) {
        st = rq_admin_logical_status(admin, topic, route, list, n, deadline_ms, out, count, err);
    }
    rmq_admin_queue_status_free(list, n);
    return st;
}

rmq_status rmq_admin_topic_status(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                  rmq_queue_status **out, size_t *count, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, topic && out && count, "topic, out, count", timeout_ms,
                                   &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_route_data route = {0};
    st = rq_admin_route(admin, topic, deadline, &route, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = all_rows(admin, topic, &route, deadline, out, count, err);
    rq_route_data_clear(&route);
    if (st == RMQ_OK && *count > 0) {
        qsort(*out, *count, sizeof **out, by_broker_and_id);
    }
    return st;
}

rmq_status rmq_admin_consumer_offset(rmq_admin *admin, const char *group, const char *topic,
                                     const char *broker_name, int32_t queue_id, int64_t timeout_ms,
                                     int64_t *offset, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, group && topic && broker_name && offset,
                                   "group, topic, broker name, offset", timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    char *addr = NULL;
    const struct rq_mq queue = {topic, broker_name, queue_id};
    st = rq_admin_queue_addr(admin, &queue, deadline, &addr, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_query_consumer_offset fields = {
        .consumer_group = rq_slice_str(group), .topic = rq_slice_str(topic), .queue_id = queue_id};
    RQ_SET(query_consumer_offset, &fields, set_zero_if_not_found, false);
    char what[2 * RQ_NAME_MAX];
    (void)snprintf(what, sizeof what, "offset of group %s in %s of %s, queue %d", group, topic,
                   broker_name, (int)queue_id);
    const struct rq_admin_question ask = {.code = RQ_REQ_QUERY_CONSUMER_OFFSET,
                                          .table = &rq_tab_query_consumer_offset,
                                          .fields = &fields,
                                          .what = what,
                                          .not_found = RQ_RESP_QUERY_NOT_FOUND};
    struct rq_reply reply;
    st = rq_admin_ask(admin, addr, &ask, deadline, &reply, err);
    rq_free(addr);
    if (st == RMQ_OK) {
        struct rq_hdr_offset_response answer;
        st = rq_fields_decode(&rq_tab_offset_response, &reply.header, &answer, err);
        *offset = st == RMQ_OK ? answer.offset : *offset;
        rq_reply_free(&reply);
    }
    return st;
}

/* ---- offsets of queues ---- */

/* One question about a queue to its broker; answer is decoded by its table. */
static rmq_status ask_queue(rmq_admin *admin, const struct rq_mq *place,
                            const struct rq_admin_question *about,
                            const struct rq_fields *answer_table, void *answer, int64_t timeout_ms,
                            rmq_error **err)
{
    int64_t deadline;
    bool complete = place->topic && place->broker_name && answer;
    rmq_status st =
        rq_admin_begin(admin, complete, "topic, broker name, out", timeout_ms, &deadline, err);
    char *addr = NULL;
    if (st == RMQ_OK) {
        st = rq_admin_queue_addr(admin, place, deadline, &addr, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    char what[2 * RQ_NAME_MAX];
    (void)snprintf(what, sizeof what, "%s of queue %d of topic %s at %s", about->what,
                   (int)place->queue_id, place->topic, place->broker_name);
    struct rq_admin_question ask = *about;
    ask.what = what;
    struct rq_reply reply;
    st = rq_admin_ask(admin, addr, &ask, deadline, &reply, err);
    rq_free(addr);
    if (st == RMQ_OK) {
        st = rq_fields_decode(answer_table, &reply.header, answer, err);
        rq_reply_free(&reply);
    }
    return st;
}

static rmq_status ask_end(rmq_admin *admin, int code, const char *what, const struct rq_mq *place,
                          int64_t timeout_ms, int64_t *offset, rmq_error **err)
{
    struct rq_hdr_queue fields = {.topic = rq_slice_str(place->topic ? place->topic : ""),
                                  .queue_id = place->queue_id};
    struct rq_admin_question ask = {
        .code = code, .table = &rq_tab_queue, .fields = &fields, .what = what};
    struct rq_hdr_offset_response answer;
    rmq_status st = ask_queue(admin, place, &ask, &rq_tab_offset_response, offset ? &answer : NULL,
                              timeout_ms, err);
    if (st == RMQ_OK) {
        *offset = answer.offset;
    }
    return st;
}

rmq_status rmq_admin_max_offset(rmq_admin *admin, const char *topic, const char *broker_name,
                                int32_t queue_id, int64_t timeout_ms, int64_t *offset,
                                rmq_error **err)
{
    const struct rq_mq place = {topic, broker_name, queue_id};
    return ask_end(admin, RQ_REQ_GET_MAX_OFFSET, "end", &place, timeout_ms, offset, err);
}

rmq_status rmq_admin_min_offset(rmq_admin *admin, const char *topic, const char *broker_name,
                                int32_t queue_id, int64_t timeout_ms, int64_t *offset,
                                rmq_error **err)
{
    const struct rq_mq place = {topic, broker_name, queue_id};
    return ask_end(admin, RQ_REQ_GET_MIN_OFFSET, "begin", &place, timeout_ms, offset, err);
}

rmq_status rmq_admin_search_offset(rmq_admin *admin, const char *topic, const char *broker_name,
                                   int32_t queue_id, int64_t timestamp_ms, int64_t timeout_ms,
                                   int64_t *offset, rmq_error **err)
{
    const struct rq_mq place = {topic, broker_name, queue_id};
    struct rq_hdr_search_offset fields = {
        .topic = rq_slice_str(topic ? topic : ""), .queue_id = queue_id, .timestamp = timestamp_ms};
    struct rq_admin_question ask = {.code = RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP,
                                    .table = &rq_tab_search_offset,
                                    .fields = &fields,
                                    .what = "offset by time"};
    struct rq_hdr_offset_response answer;
    rmq_status st = ask_queue(admin, &place, &ask, &rq_tab_offset_response, offset ? &answer : NULL,
                              timeout_ms, err);
    if (st == RMQ_OK) {
        *offset = answer.offset;
    }
    return st;
}

rmq_status rmq_admin_earliest_store_time(rmq_admin *admin, const char *topic,
                                         const char *broker_name, int32_t queue_id,
                                         int64_t timeout_ms, int64_t *time_ms, rmq_error **err)
{
    const struct rq_mq place = {topic, broker_name, queue_id};
    struct rq_hdr_queue fields = {.topic = rq_slice_str(topic ? topic : ""), .queue_id = queue_id};
    struct rq_admin_question ask = {.code = RQ_REQ_GET_EARLIEST_MSG_STORETIME,
                                    .table = &rq_tab_queue,
                                    .fields = &fields,
                                    .what = "first store time"};
    struct rq_hdr_timestamp_response answer;
    rmq_status st = ask_queue(admin, &place, &ask, &rq_tab_timestamp_response,
                              time_ms ? &answer : NULL, timeout_ms, err);
    if (st == RMQ_OK) {
        *time_ms = answer.timestamp;
    }
    return st;
}

/* ---- groups ---- */

static rmq_status ask_members(rmq_admin *admin, const char *addr, const char *group,
                              int64_t deadline_ms, char **out, rmq_error **err)
{
    struct rq_hdr_consumer_group fields = {.consumer_group = rq_slice_str(group)};
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "members of group %s", group);
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_CONSUMER_LIST_BY_GROUP,
                                          .table = &rq_tab_consumer_group,
                                          .fields = &fields,
                                          .what = what};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(admin, addr, &ask, deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        st = rq_admin_hand_out_names(reply.body, RQ_LIST_CONSUMER_IDS, out, what, err);
        rq_reply_free(&reply);
    }
    return st;
}

rmq_status rmq_admin_group_members(rmq_admin *admin, const char *group, const char *topic,
                                   int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, group && out, "group, out", timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    char retry[RQ_NAME_MAX];
    if (!topic && rq_topic_of_retry(rq_slice_str(group), retry) == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "group name of %zu characters", strlen(group));
    }
    char *addr = NULL;
    const struct rq_mq any = {.topic = topic ? topic : retry};
    st = rq_admin_queue_addr(admin, &any, deadline, &addr, err);
    if (st == RMQ_OK) {
        st = ask_members(admin, addr, group, deadline, out, err);
        rq_free(addr);
    }
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_admin: blocking questions about topics, routes, offsets and groups, over a client instance of its own. Any thread but the I/O
 * thread. Counterparts: MQAdminImpl, DefaultMQAdminExtImpl.
 */
#include <rmq/admin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/ask.h"
#include "client/fork_mark.h"
#include "client/instance.h"
#include "client/message.h"
#include "client/route_wait.h"
#include "wire/bodies.h"
#include "wire/msgid.h"
#include "wire/names.h"

#define DEFAULT_TIMEOUT_MS 6000
#define INTERVAL_MS        30000
#define VIEW_BODY_MAX      ((size_t)64 << 20)
#define ROUTE_RETRY_MS     50 /* between two looks whether the name server knows a new topic */

struct rmq_admin {
    uint64_t mark;
    struct rq_instance *instance;
};

rmq_status rmq_admin_create(const char *namesrv_addr, rmq_admin **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "admin: out is NULL");
    }
    struct rmq_admin *admin = rq_calloc(1, sizeof *admin);
    if (!admin) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "admin");
    }
    admin->mark = rq_fork_mark();
    const struct rq_instance_options options = {.namesrv_addr = namesrv_addr,
                                                .poll_name_server_interval_ms = INTERVAL_MS,
                                                .heartbeat_broker_interval_ms = INTERVAL_MS,
                                                .serialize_type = "JSON"};
    rmq_status st = rq_instance_get(&options, &admin->instance, err);
    if (st != RMQ_OK) {
        rq_free(admin);
        return st;
    }
    *out = admin;
    return RMQ_OK;
}

void rmq_admin_destroy(rmq_admin *admin)
{
    if (admin && !rq_forked_since(admin->mark)) {
        rq_instance_put(admin->instance);
        rq_free(admin);
    }
}

static rmq_status begin(const rmq_admin *admin, int64_t timeout_ms, int64_t *deadline_ms,
                        rmq_error **err)
{
    if (!admin) {
        return rq_error_set(err, RMQ_ERR_INVALID, "admin is NULL");
    }
    if (rq_forked_since(admin->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the admin client was made by the parent process");
    }
    *deadline_ms = rq_mono_ms() + (timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS);
    return RMQ_OK;
}

/* Text that a caller gets: detached from the buffer. */
static rmq_status hand_out(struct rq_buf *buf, char **out, const char *what, rmq_error **err)
{
    char *text = rq_buf_status(buf) == RMQ_OK ? rq_buf_detach(buf) : NULL;
    rq_buf_free(buf);
    if (!text) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", what);
    }
    *out = text;
    return RMQ_OK;
}

/* ---- name server ---- */

static rmq_status get_cluster_info(rmq_admin *admin, int64_t deadline_ms,
                                   struct rq_cluster_info *info, rmq_error **err)
{
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_GET_BROKER_CLUSTER_INFO, NULL, NULL);
    struct rq_reply reply;
    rmq_status st =
        rq_ask_namesrv(admin->instance, &spec, "cluster info", deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        st = rq_cluster_info_parse(reply.body, info, err);
        rq_reply_free(&reply);
    }
    return st;
}

static rmq_status get_route(rmq_admin *admin, const char *topic, int64_t deadline_ms,
                            struct rq_route_data *route, rmq_error **err)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(topic)};
    RQ_SET(topic, &fields, accept_standard_json_only, true);
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &fields);
    struct rq_reply reply;
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "route of topic %s", topic);
    rmq_status st = rq_ask_namesrv(admin->instance, &spec, what, deadline_ms, &reply, err);
    if (st == RMQ_ERR_NOT_FOUND) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "no route for topic %s", topic);
    }
    if (st == RMQ_OK) {
        st = rq_route_data_parse(reply.body, route, err);
        rq_reply_free(&reply);
    }
    return st;
}

rmq_status rmq_admin_topic_list(rmq_admin *admin, int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !out) {
        return st != RMQ_OK ? st : rq_error_set(err, RMQ_ERR_INVALID, "topic list: out is NULL");
    }
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NULL, NULL);
    struct rq_reply reply;
    st = rq_ask_namesrv(admin->instance, &spec, "topic list", deadline, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_names names = {0};
    st = rq_names_parse(reply.body, RQ_LIST_TOPICS, &names, err);
    if (st == RMQ_OK) {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        for (size_t i = 0; i < names.count; i++) {
            rq_buf_add_str(&text, names.items[i]);
            rq_buf_add_char(&text, '\n');
        }
        rq_names_clear(&names);
        st = hand_out(&text, out, "topic list", err);
    }
    rq_reply_free(&reply);
    return st;
}

rmq_status rmq_admin_topic_route(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                 char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !topic || !out) {
        return st != RMQ_OK
                   ? st
                   : rq_error_set(err, RMQ_ERR_INVALID, "topic route: topic and out are required");
    }
    struct rq_route_data route = {0};
    st = get_route(admin, topic, deadline, &route, err);
    if (st == RMQ_OK) {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        rq_route_data_write(&route, &text);
        rq_route_data_clear(&route);
        st = hand_out(&text, out, "topic route", err);
    }
    return st;
}

rmq_status rmq_admin_cluster_info(rmq_admin *admin, int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !out) {
        return st != RMQ_OK ? st : rq_error_set(err, RMQ_ERR_INVALID, "cluster info: out is NULL");
    }
    struct rq_cluster_info info = {0};
    st = get_cluster_info(admin, deadline, &info, err);
    if (st == RMQ_OK) {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        rq_cluster_info_write(&info, &text);
        rq_cluster_info_clear(&info);
        st = hand_out(&text, out, "cluster info", err);
    }
    return st;
}

/* ---- creating topics ---- */

static const char *master_of(const struct rq_route_broker_data *broker)
{
    for (size_t i = 0; i < broker->addr_count; i++) {
        if (broker->addrs[i].id == RQ_MASTER_ID) {
            return broker->addrs[i].addr;
        }
    }
    return NULL;
}

static bool in_cluster(const struct rq_route_broker_data *broker, const char *cluster)
{
    return !cluster || (broker->cluster && strcmp(broker->cluster, cluster) == 0);
}

static rmq_status create_on(rmq_admin *admin, const char *addr,
                            const struct rq_hdr_create_topic *fields, int64_t deadline_ms,
                            rmq_error **err)
{
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_UPDATE_AND_CREATE_TOPIC,
                                                 &rq_tab_create_topic, fields);
    struct rq_reply reply;
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "creation of topic %.*s", (int)fields->topic.n,
                   fields->topic.p);
    rmq_status st = rq_ask_broker(admin->instance, addr, &spec, rq_slice(NULL, 0), what, 0,
                                  deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        rq_reply_free(&reply);
    }
    return st;
}

static bool route_has(const struct rq_route_data *route, const char *broker_name, int32_t reads,
                      int32_t writes)
{
    for (size_t i = 0; i < route->queue_count; i++) {
        const struct rq_route_queue_data *queue = &route->queues[i];
        if (strcmp(queue->broker_name, broker_name) == 0) {
            return queue->read_queue_nums == reads && queue->write_queue_nums == writes;
        }
    }
    return false;
}

static bool route_is_complete(rmq_admin *admin, const struct rq_cluster_info *info,
                              const char *cluster, const struct rq_hdr_create_topic *fields,
                              const char *topic, int64_t deadline_ms)
{
    struct rq_route_data route = {0};
    if (get_route(admin, topic, deadline_ms, &route, NULL) != RMQ_OK) {
        return false;
    }
    bool complete = true;
    for (size_t i = 0; i < info->broker_count && complete; i++) {
        const struct rq_route_broker_data *broker = &info->brokers[i];
        if (in_cluster(broker, cluster) && master_of(broker)) {
            complete = route_has(&route, broker->broker_name, fields->read_queue_nums,
                                 fields->write_queue_nums);
        }
    }
    rq_route_data_clear(&route);
    return complete;
}

/* Sleeps on a condition that nobody signals. */
static void pause_ms(int64_t ms)
{
    struct rq_mutex lock;
    struct rq_cond never;
    rq_mutex_init(&lock);
    rq_cond_init(&never);
    rq_mutex_lock(&lock);
    (void)rq_cond_wait_until(&never, &lock, rq_mono_ms() + ms);
    rq_mutex_unlock(&lock);
    rq_cond_destroy(&never);
    rq_mutex_destroy(&lock);
}

static rmq_status create_on_all(rmq_admin *admin, const struct rq_cluster_info *info,
                                const char *cluster, const struct rq_hdr_create_topic *fields,
                                int64_t deadline_ms, rmq_error **err)
{
    size_t masters = 0;
    for (size_t i = 0; i < info->broker_count; i++) {
        const char *addr = master_of(&info->brokers[i]);
        if (!addr || !in_cluster(&info->brokers[i], cluster)) {
            continue;
        }
        masters++;
        rmq_status st = create_on(admin, addr, fields, deadline_ms, err);
        if (st != RMQ_OK) {
            return st;
        }
    }
    if (masters == 0) {
        return rq_error_set(err, RMQ_ERR_NO_BROKER, "no master is registered%s%s",
                            cluster ? " in cluster " : "", cluster ? cluster : "");
    }
    return RMQ_OK;
}

rmq_status rmq_admin_create_topic(rmq_admin *admin, const char *cluster, const char *topic,
                                  int32_t read_queues, int32_t write_queues, int32_t perm,
                                  int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st == RMQ_OK) {
        st = rq_topic_check(rq_slice_str(topic), err);
    }
    if (st == RMQ_OK && (read_queues < 0 || write_queues < 0 || perm < 0 || perm > 7)) {
        st = rq_error_set(err, RMQ_ERR_INVALID,
                          "topic %s: %d read queues, %d write queues, permission %d", topic,
                          (int)read_queues, (int)write_queues, (int)perm);
    }
    struct rq_cluster_info info = {0};
    if (st == RMQ_OK) {
        st = get_cluster_info(admin, deadline, &info, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_create_topic fields = {.topic = rq_slice_str(topic),
                                         .default_topic = rq_slice_str(RQ_TOPIC_DEFAULT),
                                         .read_queue_nums = read_queues,
                                         .write_queue_nums = write_queues,
                                         .perm = perm,
                                         .topic_filter_type = rq_slice_str("SINGLE_TAG")};
    RQ_SET(create_topic, &fields, topic_sys_flag, 0);
    RQ_SET(create_topic, &fields, order, false);
    st = create_on_all(admin, &info, cluster, &fields, deadline, err);
    while (st == RMQ_OK && !route_is_complete(admin, &info, cluster, &fields, topic, deadline)) {
        if (rq_mono_ms() + ROUTE_RETRY_MS >= deadline) {
            st = rq_error_set(err, RMQ_ERR_TIMEOUT,
                              "topic %s was created, but no name server shows it yet", topic);
            break;
        }
        pause_ms(ROUTE_RETRY_MS);
    }
    rq_cluster_info_clear(&info);
    return st;
}

/* ---- offsets ---- */

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
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_GET_TOPIC_STATS_INFO, &rq_tab_topic, &fields);
    struct rq_reply reply;
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "status of topic %s", topic);
    rmq_status st = rq_ask_broker(admin->instance, addr, &spec, rq_slice(NULL, 0), what, 0,
                                  deadline_ms, &reply, err);
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

rmq_status rmq_admin_topic_status(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                  rmq_queue_status **out, size_t *count, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !topic || !out || !count) {
        return st != RMQ_OK ? st
                            : rq_error_set(err, RMQ_ERR_INVALID,
                                           "topic status: topic, out, count are required");
    }
    struct rq_route_data route = {0};
    st = get_route(admin, topic, deadline, &route, err);
    if (st != RMQ_OK) {
        return st;
    }
    rmq_queue_status *list = NULL;
    size_t n = 0;
    for (size_t i = 0; i < route.broker_count && st == RMQ_OK; i++) {
        const char *addr = master_of(&route.brokers[i]);
        if (addr) {
            st = stats_of(admin, addr, topic, deadline, &list, &n, err);
        }
    }
    rq_route_data_clear(&route);
    if (st != RMQ_OK) {
        rmq_admin_queue_status_free(list, n);
        return st;
    }
    if (n > 0) {
        qsort(list, n, sizeof *list, by_broker_and_id);
    }
    *out = list;
    *count = n;
    return RMQ_OK;
}

/* Address of a broker in the topic's route: its master, else any; broker_name NULL: the first broker. Copied to out. */
static rmq_status broker_addr(rmq_admin *admin, const char *topic, const char *broker_name,
                              int64_t deadline_ms, char **out, rmq_error **err)
{
    struct rq_route_data route = {0};
    rmq_status st = get_route(admin, topic, deadline_ms, &route, err);
    if (st != RMQ_OK) {
        return st;
    }
    *out = NULL;
    const char *found = NULL;
    for (size_t i = 0; i < route.broker_count && !found; i++) {
        const struct rq_route_broker_data *broker = &route.brokers[i];
        if ((!broker_name || strcmp(broker->broker_name, broker_name) == 0) &&
            broker->addr_count > 0) {
            found = master_of(broker) ? master_of(broker) : broker->addrs[0].addr;
        }
    }
    if (!found) {
        st = rq_error_set(err, RMQ_ERR_NO_BROKER, "broker %s is not in the route of topic %s",
                          broker_name ? broker_name : "(any)", topic);
    } else {
        *out = rq_strdup(found);
        st = *out ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "broker address");
    }
    rq_route_data_clear(&route);
    return st;
}

rmq_status rmq_admin_consumer_offset(rmq_admin *admin, const char *group, const char *topic,
                                     const char *broker_name, int32_t queue_id, int64_t timeout_ms,
                                     int64_t *offset, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !group || !topic || !broker_name || !offset) {
        return st != RMQ_OK
                   ? st
                   : rq_error_set(
                         err, RMQ_ERR_INVALID,
                         "consumer offset: group, topic, broker name and offset are required");
    }
    char *addr = NULL;
    st = broker_addr(admin, topic, broker_name, deadline, &addr, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_query_consumer_offset fields = {
        .consumer_group = rq_slice_str(group), .topic = rq_slice_str(topic), .queue_id = queue_id};
    RQ_SET(query_consumer_offset, &fields, set_zero_if_not_found, false);
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_QUERY_CONSUMER_OFFSET,
                                                 &rq_tab_query_consumer_offset, &fields);
    struct rq_reply reply;
    char what[2 * RQ_NAME_MAX];
    (void)snprintf(what, sizeof what, "offset of group %s in %s of %s, queue %d", group, topic,
                   broker_name, (int)queue_id);
    st = rq_ask_broker(admin->instance, addr, &spec, rq_slice(NULL, 0), what,
                       RQ_RESP_QUERY_NOT_FOUND, deadline, &reply, err);
    rq_free(addr);
    if (st == RMQ_OK) {
        struct rq_hdr_offset_response answer;
        st = rq_fields_decode(&rq_tab_offset_response, &reply.header, &answer, err);
        *offset = st == RMQ_OK ? answer.offset : *offset;
        rq_reply_free(&reply);
    }
    return st;
}

/* ---- groups ---- */

static rmq_status ask_members(rmq_admin *admin, const char *addr, const char *group,
                              int64_t deadline_ms, char **out, rmq_error **err)
{
    struct rq_hdr_consumer_group fields = {.consumer_group = rq_slice_str(group)};
    struct rq_frame_spec spec = rq_frame_request(
        RQ_SERIALIZE_JSON, RQ_REQ_GET_CONSUMER_LIST_BY_GROUP, &rq_tab_consumer_group, &fields);
    struct rq_reply reply;
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "members of group %s", group);
    rmq_status st = rq_ask_broker(admin->instance, addr, &spec, rq_slice(NULL, 0), what, 0,
                                  deadline_ms, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_names names = {0};
    st = rq_names_parse(reply.body, RQ_LIST_CONSUMER_IDS, &names, err);
    if (st == RMQ_OK) {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        for (size_t i = 0; i < names.count; i++) {
            rq_buf_add_str(&text, names.items[i]);
            rq_buf_add_char(&text, '\n');
        }
        rq_names_clear(&names);
        st = hand_out(&text, out, what, err);
    }
    rq_reply_free(&reply);
    return st;
}

rmq_status rmq_admin_group_members(rmq_admin *admin, const char *group, const char *topic,
                                   int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !group || !out) {
        return st != RMQ_OK ? st
                            : rq_error_set(err, RMQ_ERR_INVALID,
                                           "group members: group and out are required");
    }
    char retry[RQ_NAME_MAX];
    if (!topic && rq_topic_of_retry(rq_slice_str(group), retry) == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "group name of %zu characters", strlen(group));
    }
    char *addr = NULL;
    st = broker_addr(admin, topic ? topic : retry, NULL, deadline, &addr, err);
    if (st == RMQ_OK) {
        st = ask_members(admin, addr, group, deadline, out, err);
        rq_free(addr);
    }
    return st;
}

/* ---- messages ---- */

rmq_status rmq_admin_view_message(rmq_admin *admin, const char *offset_msg_id, int64_t timeout_ms,
                                  const rmq_message_view **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = begin(admin, timeout_ms, &deadline, err);
    if (st != RMQ_OK || !offset_msg_id || !out) {
        return st != RMQ_OK
                   ? st
                   : rq_error_set(err, RMQ_ERR_INVALID, "view message: id and out are required");
    }
    struct rq_host host;
    int64_t offset = 0;
    st = rq_msgid_parse_offset(rq_slice_str(offset_msg_id), &host, &offset, err);
    if (st != RMQ_OK) {
        return st;
    }
    char addr[RQ_HOST_TEXT];
    (void)rq_host_text(&host, addr);
    struct rq_hdr_view_message fields = {.offset = offset};
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_VIEW_MESSAGE_BY_ID,
                                                 &rq_tab_view_message, &fields);
    char what[RQ_MSGID_MAX + 32];
    (void)snprintf(what, sizeof what, "message %.56s", offset_msg_id);
    struct rq_reply reply;
    st = rq_ask_broker(admin->instance, addr, &spec, rq_slice(NULL, 0), what, RQ_RESP_SYSTEM_ERROR,
                       deadline, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_views *views = NULL;
    st = rq_views_create(reply.ref, reply.body, "", &views, err);
    if (st != RMQ_OK) {
        rq_reply_free(&reply);
        return st;
    }
    if (views->count == 0) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: the broker's answer is empty", what);
    } else {
        st = rq_view_expand(&views->items[0], VIEW_BODY_MAX, err);
    }
    if (st != RMQ_OK) {
        rq_views_release(views);
        return st;
    }
    *out = &views->items[0];
    return RMQ_OK;
}

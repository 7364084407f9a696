/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Questions of rmq_admin about topics and clusters, the creation of topics, and how groups get
 * them. Counterparts: MQAdminImpl.createTopic, DefaultMQAdminExt.setMessageRequestMode.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/admin_priv.h"

#define ROUTE_RETRY_MS 50 /* between two looks whether the name server knows a new topic */

static rmq_status fetch_cluster_info(rmq_admin *admin, int64_t deadline_ms,
                                     struct rq_cluster_info *info, rmq_error **err)
{
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_BROKER_CLUSTER_INFO,
                                          .what = "cluster info"};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(admin, NULL, &ask, deadline_ms, &reply, err);
    if (st == RMQ_OK) {
        st = rq_cluster_info_parse(reply.body, info, err);
        rq_reply_free(&reply);
    }
    return st;
}

rmq_status rmq_admin_topic_list(rmq_admin *admin, int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, out, "out", timeout_ms, &deadline, err);
    if (st != RMQ_OK) {
        return st;
    }
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
                                          .what = "topic list"};
    struct rq_reply reply;
    st = rq_admin_ask(admin, NULL, &ask, deadline, &reply, err);
    if (st == RMQ_OK) {
        st = rq_admin_hand_out_names(reply.body, RQ_LIST_TOPICS, out, ask.what, err);
        rq_reply_free(&reply);
    }
    return st;
}

rmq_status rmq_admin_topic_route(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                 char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, topic && out, "topic, out", timeout_ms, &deadline, err);
    struct rq_route_data route = {0};
    if (st == RMQ_OK) {
        st = rq_admin_route(admin, topic, deadline, &route, err);
    }
    if (st == RMQ_OK) {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        rq_route_data_write(&route, &text);
        rq_route_data_clear(&route);
        st = rq_admin_hand_out(&text, out, "topic route", err);
    }
    return st;
}

rmq_status rmq_admin_cluster_info(rmq_admin *admin, int64_t timeout_ms, char **out, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, out, "out", timeout_ms, &deadline, err);
    struct rq_cluster_info info = {0};
    if (st == RMQ_OK) {
        st = fetch_cluster_info(admin, deadline, &info, err);
    }
    if (st == RMQ_OK) {
        struct rq_buf text;
        rq_buf_init(&text, 0);
        rq_cluster_info_write(&info, &text);
        rq_cluster_info_clear(&info);
        st = rq_admin_hand_out(&text, out, "cluster info", err);
    }
    return st;
}

/* ---- creating topics ---- */

static bool in_cluster(const struct rq_route_broker_data *broker, const char *cluster)
{
    return !cluster || (broker->cluster && strcmp(broker->cluster, cluster) == 0);
}

/* Asks one master and hands its answer on; RMQ_ERR_NOT_FOUND is told without words. */
static rmq_status ask_master(rmq_admin *admin, const struct rq_route_broker_data *broker,
                             const struct rq_admin_question *ask, int64_t deadline_ms,
                             rmq_error **err)
{
    struct rq_reply reply;
    rmq_error *why = NULL;
    rmq_status st = rq_admin_ask(admin, rq_admin_master_of(broker), ask, deadline_ms, &reply, &why);
    if (st == RMQ_OK) {
        st = ask->take ? ask->take(ask->user, broker->broker_name, &reply, err) : RMQ_OK;
        rq_reply_free(&reply);
    } else if (st != RMQ_ERR_NOT_FOUND && err) {
        rmq_error_destroy(*err);
        *err = why;
        return st;
    }
    rmq_error_destroy(why);
    return st;
}

/* rq_admin_ask_cluster, with the masters looked up. */
static rmq_status ask_masters(rmq_admin *admin, const struct rq_cluster_info *info,
                              const char *cluster, const struct rq_admin_question *ask,
                              int64_t deadline_ms, rmq_error **err)
{
    size_t masters = 0;
    size_t found = 0;
    for (size_t i = 0; i < info->broker_count; i++) {
        const struct rq_route_broker_data *broker = &info->brokers[i];
        if (!rq_admin_master_of(broker) || !in_cluster(broker, cluster)) {
            continue;
        }
        masters++;
        rmq_status st = ask_master(admin, broker, ask, deadline_ms, err);
        if (st != RMQ_OK && st != RMQ_ERR_NOT_FOUND) {
            return st;
        }
        found += st == RMQ_OK;
    }
    if (masters == 0) {
        return rq_error_set(err, RMQ_ERR_NO_BROKER, "no master is registered%s%s",
                            cluster ? " in cluster " : "", cluster ? cluster : "");
    }
    return found > 0
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: not known to any broker%s%s", ask->what,
                              cluster ? " of cluster " : "", cluster ? cluster : "");
}

rmq_status rq_admin_ask_cluster(rmq_admin *admin, const char *cluster,
                                const struct rq_admin_question *ask, int64_t deadline_ms,
                                rmq_error **err)
{
    struct rq_cluster_info info = {0};
    rmq_status st = fetch_cluster_info(admin, deadline_ms, &info, err);
    if (st == RMQ_OK) {
        st = ask_masters(admin, &info, cluster, ask, deadline_ms, err);
        rq_cluster_info_clear(&info);
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
    if (rq_admin_route(admin, topic, deadline_ms, &route, NULL) != RMQ_OK) {
        return false;
    }
    bool complete = true;
    for (size_t i = 0; i < info->broker_count && complete; i++) {
        const struct rq_route_broker_data *broker = &info->brokers[i];
        if (in_cluster(broker, cluster) && rq_admin_master_of(broker)) {
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

rmq_status rmq_admin_create_topic(rmq_admin *admin, const char *cluster, const char *topic,
                                  int32_t read_queues, int32_t write_queues, int32_t perm,
                                  int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline;
    rmq_status st = rq_admin_begin(admin, topic, "topic", timeout_ms, &deadline, err);
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
        st = fetch_cluster_info(admin, deadline, &info, err);
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
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "creation of topic %s", topic);
    const struct rq_admin_question ask = {.code = RQ_REQ_UPDATE_AND_CREATE_TOPIC,
                                          .table = &rq_tab_create_topic,
                                          .fields = &fields,
                                          .what = what};
    st = ask_masters(admin, &info, cluster, &ask, deadline, err);
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

/* ---- how a group gets a topic ---- */

rmq_status rmq_admin_set_message_request_mode(rmq_admin *admin, const char *cluster,
                                              const char *topic, const char *group,
                                              rmq_message_request_mode mode,
                                              int32_t pop_share_queue_num, int64_t timeout_ms,
                                              rmq_error **err)
{
    int64_t deadline;
    rmq_status st =
        rq_admin_begin(admin, topic && group, "topic, group", timeout_ms, &deadline, err);
    if (st == RMQ_OK && mode != RMQ_REQUEST_PULL && mode != RMQ_REQUEST_POP) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "there is no request mode %d", (int)mode);
    }
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_request_mode_write(&(struct rq_request_mode_body){.topic = topic,
                                                         .consumer_group = group,
                                                         .pops = mode == RMQ_REQUEST_POP,
                                                         .share_queues = pop_share_queue_num},
                          &body);
    const struct rq_admin_question ask = {.code = RQ_REQ_SET_MESSAGE_REQUEST_MODE,
                                          .body = rq_slice(body.data, body.len),
                                          .what = "request mode of a group"};
    st = rq_admin_ask_cluster(admin, cluster, &ask, deadline, err);
    rq_buf_free(&body);
    return st;
}

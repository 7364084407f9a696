/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_admin: life, and what all its questions are made of. Blocking; over a client instance of its
 * own. Any thread but the I/O thread. The questions are in admin_topic.c, admin_offset.c and
 * admin_message.c. Counterparts: MQAdminImpl, DefaultMQAdminExtImpl.
 */
#include "client/admin_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/fork_mark.h"

#define DEFAULT_TIMEOUT_MS 6000
#define INTERVAL_MS        30000

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

rmq_status rq_admin_begin_complete(const rmq_admin *admin, int64_t timeout_ms, int64_t *deadline_ms,
                                   rmq_error **err)
{
    if (!admin) {
        return rq_error_set(err, RMQ_ERR_INVALID, "admin is NULL");
    }
    if (rq_forked_since(admin->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the admin client was made by the parent process");
    }
    *deadline_ms = rq_mono_ms() + rq_timeout_ms(timeout_ms, DEFAULT_TIMEOUT_MS);
    return RMQ_OK;
}

rmq_status rq_admin_ask(rmq_admin *admin, const char *addr, const struct rq_admin_question *ask,
                        int64_t deadline_ms, struct rq_reply *reply, rmq_error **err)
{
    struct rq_frame_spec spec =
        rq_instance_frame(admin->instance, ask->code, ask->table, ask->fields);
    return addr ? rq_ask_broker(admin->instance, addr, &spec, ask->body, ask->what, ask->not_found,
                                deadline_ms, reply, err)
                : rq_ask_namesrv(admin->instance, &spec, ask->what, deadline_ms, reply, err);
}

rmq_status rq_admin_hand_out(struct rq_buf *buf, char **out, const char *what, rmq_error **err)
{
    char *text = rq_buf_status(buf) == RMQ_OK ? rq_buf_detach(buf) : NULL;
    rq_buf_free(buf);
    if (!text) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%s", what);
    }
    *out = text;
    return RMQ_OK;
}

rmq_status rq_admin_hand_out_names(struct rq_slice json, const char *list, char **out,
                                   const char *what, rmq_error **err)
{
    struct rq_names names = {0};
    rmq_status st = rq_names_parse(json, list, &names, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_buf text;
    rq_buf_init(&text, 0);
    for (size_t i = 0; i < names.count; i++) {
        rq_buf_add_str(&text, names.items[i]);
        rq_buf_add_char(&text, '\n');
    }
    rq_names_clear(&names);
    return rq_admin_hand_out(&text, out, what, err);
}

rmq_status rq_admin_route(rmq_admin *admin, const char *topic, int64_t deadline_ms,
                          struct rq_route_data *route, rmq_error **err)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(topic)};
    RQ_SET(topic, &fields, accept_standard_json_only, true);
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "route of topic %s", topic);
    const struct rq_admin_question ask = {.code = RQ_REQ_GET_ROUTEINFO_BY_TOPIC,
                                          .table = &rq_tab_topic,
                                          .fields = &fields,
                                          .what = what};
    struct rq_reply reply;
    rmq_status st = rq_admin_ask(admin, NULL, &ask, deadline_ms, &reply, err);
    if (st == RMQ_ERR_NOT_FOUND) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "no route for topic %s", topic);
    }
    if (st == RMQ_OK) {
        st = rq_route_data_parse(reply.body, route, err);
        rq_reply_free(&reply);
    }
    return st;
}

const char *rq_admin_master_of(const struct rq_route_broker_data *broker)
{
    for (size_t i = 0; i < broker->addr_count; i++) {
        if (broker->addrs[i].id == RQ_MASTER_ID) {
            return broker->addrs[i].addr;
        }
    }
    return NULL;
}

/* Borrowed from the route; NULL when no broker leads the logical queue. */
static rmq_status find_leader(const struct rq_route_data *route, const struct rq_mq *queue,
                              const char **out, rmq_error **err)
{
    struct rq_static_queue *list = NULL;
    size_t count = 0;
    rmq_status st = rq_static_queues(route->mappings, route->mapping_count, &list, &count, err);
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        if (list[i].id == queue->queue_id &&
            rq_logical_name_is_of(queue->broker_name, list[i].scope)) {
            *out = list[i].host;
        }
    }
    rq_free(list);
    return st;
}

/* broker_name NULL: the first that has an address. */
static const char *addr_in_route(const struct rq_route_data *route, const char *broker_name)
{
    for (size_t i = 0; i < route->broker_count; i++) {
        const struct rq_route_broker_data *broker = &route->brokers[i];
        if ((!broker_name || strcmp(broker->broker_name, broker_name) == 0) &&
            broker->addr_count > 0) {
            return rq_admin_master_of(broker) ? rq_admin_master_of(broker) : broker->addrs[0].addr;
        }
    }
    return NULL;
}

static rmq_status find_addr(const struct rq_route_data *route, const struct rq_mq *queue,
                            char **out, rmq_error **err)
{
    const char *name = queue->broker_name;
    bool logical = name && rq_broker_name_is_logical(name);
    rmq_status st = logical ? find_leader(route, queue, &name, err) : RMQ_OK;
    if (st != RMQ_OK) {
        return st;
    }
    const char *addr = logical && !name ? NULL : addr_in_route(route, name);
    if (!addr) {
        return logical ? rq_error_set(err, RMQ_ERR_NO_BROKER,
                                      "no broker of the route leads queue %d of %s of topic %s",
                                      (int)queue->queue_id, queue->broker_name, queue->topic)
                       : rq_error_set(err, RMQ_ERR_NO_BROKER,
                                      "broker %s is not in the route of topic %s",
                                      name ? name : "(any)", queue->topic);
    }
    *out = rq_strdup(addr);
    return *out ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "broker address");
}

rmq_status rq_admin_queue_addr(rmq_admin *admin, const struct rq_mq *queue, int64_t deadline_ms,
                               char **out, rmq_error **err)
{
    struct rq_route_data route = {0};
    *out = NULL;
    rmq_status st = rq_admin_route(admin, queue->topic, deadline_ms, &route, err);
    if (st == RMQ_OK) {
        st = find_addr(&route, queue, out, err);
        rq_route_data_clear(&route);
    }
    return st;
}

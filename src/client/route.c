/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Route snapshots: made on the I/O thread from a name server's answer, read by any thread, freed by
 * the last holder. Counterparts: MQClientInstance.topicRouteData2TopicPublishInfo,
 * topicRouteData2TopicSubscribeInfo and topicRouteData2EndpointsForStaticTopic.
 */
#include "client/route.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/mem.h"
#include "net/client.h"
#include "wire/command.h"
#include "wire/route.h"
#include "wire/static_topic.h"

/* More is a damaged answer, or one that is to cost memory: a queue is a few bytes there and 16 here,
 * and each broker gets a connection. */
#define QUEUES_MAX     65536  /* of one broker in one topic */
#define QUEUES_ALL_MAX 262144 /* of one topic */
#define BROKERS_MAX    4096   /* of one topic */

void rq_route_retain(struct rq_route *route)
{
    atomic_fetch_add_explicit(&route->refs, 1, memory_order_relaxed);
}

static void free_broker(struct rq_route_broker *broker)
{
    for (size_t i = 0; i < broker->addr_count; i++) {
        rq_free(broker->addrs[i].addr);
    }
    rq_free(broker->addrs);
    rq_free(broker->name);
    rq_free(broker->cluster);
    rq_peer_put(broker->sends);
    rq_peer_put(broker->master);
}

void rq_route_release(struct rq_route *route)
{
    if (!route || atomic_fetch_sub_explicit(&route->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < route->broker_count; i++) {
        free_broker(&route->brokers[i]);
    }
    free_broker(&route->no_host);
    for (size_t i = 0; i < route->logical_name_count; i++) {
        rq_free(route->logical_names[i]);
    }
    rq_free(route->logical_names);
    rq_free(route->brokers);
    rq_free(route->publish);
    rq_free(route->subscribe);
    rq_free(route->topic);
    rq_free(route);
}

/* One for whose connection there was no memory is another. */
static bool brokers_equal(const struct rq_route_broker *a, const struct rq_route_broker *b)
{
    if (strcmp(a->name, b->name) != 0 || a->addr_count != b->addr_count ||
        !a->master != !b->master) {
        return false;
    }
    for (size_t i = 0; i < a->addr_count; i++) {
        if (a->addrs[i].id != b->addrs[i].id || strcmp(a->addrs[i].addr, b->addrs[i].addr) != 0) {
            return false;
        }
    }
    return true;
}

static bool queues_equal(const struct rq_route_queue *a, const struct rq_route_queue *b,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i].id != b[i].id || strcmp(a[i].broker->name, b[i].broker->name) != 0 ||
            strcmp(a[i].broker_name, b[i].broker_name) != 0) {
            return false;
        }
    }
    return true;
}

bool rq_route_equal(const struct rq_route *a, const struct rq_route *b)
{
    if (!a || !b || a->from_default != b->from_default || a->broker_count != b->broker_count ||
        a->publish_count != b->publish_count || a->subscribe_count != b->subscribe_count) {
        return false;
    }
    for (size_t i = 0; i < a->broker_count; i++) {
        if (!brokers_equal(&a->brokers[i], &b->brokers[i])) {
            return false;
        }
    }
    return queues_equal(a->publish, b->publish, a->publish_count) &&
           queues_equal(a->subscribe, b->subscribe, a->subscribe_count);
}

const struct rq_route_broker *rq_route_find_broker(const struct rq_route *route,
                                                   struct rq_slice name)
{
    size_t low = 0;
    size_t high = route->broker_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct rq_route_broker *broker = &route->brokers[middle];
        int order = rq_java_compare(name, rq_slice_str(broker->name));
        if (order == 0) {
            return rq_slice_eq_str(name, broker->name) ? broker : NULL;
        }
        low = order > 0 ? middle + 1 : low;
        high = order < 0 ? middle : high;
    }
    return NULL;
}

const char *rq_route_addr_of(const struct rq_route_broker *broker, int64_t id)
{
    for (size_t i = 0; i < broker->addr_count; i++) {
        if (broker->addrs[i].id == id) {
            return broker->addrs[i].addr;
        }
    }
    return NULL;
}

static int by_broker_name(const void *a, const void *b)
{
    const struct rq_route_broker *x = a;
    const struct rq_route_broker *y = b;
    return rq_java_compare(rq_slice_str(x->name), rq_slice_str(y->name));
}

static int by_queue_broker_name(const void *a, const void *b)
{
    const struct rq_route_queue_data *x = a;
    const struct rq_route_queue_data *y = b;
    return rq_java_compare(rq_slice_str(x->broker_name), rq_slice_str(y->broker_name));
}

#define VIP_PORT_BELOW 2

/* The master's own peer, or that of its VIP port, retained. */
static struct rq_peer *peer_for_sends(const struct rq_route_env *env, struct rq_peer *master,
                                      const char *addr)
{
    char vip[300];
    const char *colon = env->vip ? strrchr(addr, ':') : NULL;
    int port = colon ? atoi(colon + 1) : 0;
    if (port <= VIP_PORT_BELOW || (size_t)(colon - addr) > sizeof vip - 8) {
        return rq_peer_retain(master);
    }
    (void)snprintf(vip, sizeof vip, "%.*s:%d", (int)(colon - addr), addr, port - VIP_PORT_BELOW);
    struct rq_peer *peer = env->peer(env->user, vip);
    return peer ? peer : rq_peer_retain(master);
}

static rmq_status copy_broker(const struct rq_route_broker_data *data,
                              const struct rq_route_env *env, struct rq_route_broker *out)
{
    out->name = rq_strdup(data->broker_name);
    out->cluster = rq_strdup(data->cluster ? data->cluster : "");
    out->addrs = rq_calloc(data->addr_count ? data->addr_count : 1, sizeof *out->addrs);
    if (!out->name || !out->cluster || !out->addrs) {
        return RMQ_ERR_NOMEM;
    }
    for (size_t i = 0; i < data->addr_count; i++) {
        out->addrs[i].id = data->addrs[i].id;
        out->addrs[i].addr = rq_strdup(data->addrs[i].addr);
        if (!out->addrs[i].addr) {
            return RMQ_ERR_NOMEM;
        }
        out->addr_count++;
    }
    const char *master = rq_route_addr_of(out, RQ_MASTER_ID);
    out->health = env->health(env->user, rq_slice_str(out->name));
    out->master = master && env->peer ? env->peer(env->user, master) : NULL;
    out->sends = out->master ? peer_for_sends(env, out->master, master) : NULL;
    return out->health ? RMQ_OK : RMQ_ERR_NOMEM;
}

static rmq_status copy_brokers(const struct rq_route_data *data, const struct rq_route_env *env,
                               struct rq_route *route)
{
    if (data->broker_count > BROKERS_MAX) {
        return RMQ_ERR_PROTOCOL;
    }
    route->brokers = rq_calloc(data->broker_count ? data->broker_count : 1, sizeof *route->brokers);
    if (!route->brokers) {
        return RMQ_ERR_NOMEM;
    }
    for (size_t i = 0; i < data->broker_count; i++) {
        if (!data->brokers[i].broker_name) {
            continue;
        }
        rmq_status st = copy_broker(&data->brokers[i], env, &route->brokers[route->broker_count++]);
        if (st != RMQ_OK) {
            return st;
        }
    }
    qsort(route->brokers, route->broker_count, sizeof *route->brokers, by_broker_name);
    return RMQ_OK;
}

/* Appends queues 0 … n-1 of a broker. */
static rmq_status add_queues(struct rq_route_queue **queues, size_t *count,
                             const struct rq_route_broker *broker, int32_t n)
{
    if (!broker || n <= 0) {
        return RMQ_OK;
    }
    if (n > QUEUES_MAX || *count + (size_t)n > QUEUES_ALL_MAX) {
        return RMQ_ERR_PROTOCOL;
    }
    struct rq_route_queue *grown = rq_realloc(*queues, (*count + (size_t)n) * sizeof *grown);
    if (!grown) {
        return RMQ_ERR_NOMEM;
    }
    for (int32_t i = 0; i < n; i++) {
        grown[(*count)++] =
            (struct rq_route_queue){.broker = broker, .broker_name = broker->name, .id = i};
    }
    *queues = grown;
    return RMQ_OK;
}

static bool has_master(const struct rq_route_broker *broker)
{
    return broker && rq_route_addr_of(broker, RQ_MASTER_ID);
}

/* "broker:n;broker:n": the order of an ordered topic. */
static rmq_status add_ordered(struct rq_route *route, const char *conf)
{
    rmq_status st = RMQ_OK;
    while (*conf && st == RMQ_OK) {
        size_t n = strcspn(conf, ";");
        const char *colon = memchr(conf, ':', n);
        int32_t queues = 0;
        if (colon &&
            rq_slice_to_i32(rq_slice(colon + 1, n - (size_t)(colon + 1 - conf)), &queues)) {
            const struct rq_route_broker *broker =
                rq_route_find_broker(route, rq_slice(conf, (size_t)(colon - conf)));
            st = add_queues(&route->publish, &route->publish_count, broker, queues);
        }
        conf += n + (conf[n] == ';');
    }
    return st;
}

/* ---- logical queues ---- */

static const char *keep_logical_name(struct rq_route *route, const char *scope)
{
    size_t count = route->logical_name_count;
    if (count > 0 && rq_logical_name_is_of(route->logical_names[count - 1], scope)) {
        return route->logical_names[count - 1];
    }
    char **grown = rq_realloc(route->logical_names, (count + 1) * sizeof *grown);
    if (!grown) {
        return NULL;
    }
    route->logical_names = grown;
    grown[count] = rq_logical_name_of(scope);
    route->logical_name_count += grown[count] ? 1 : 0;
    return grown[count];
}

/* Suspect from the start, so that a send prefers every queue that is led. */
static rmq_status make_no_host(struct rq_route *route, const struct rq_route_env *env)
{
    struct rq_route_broker *broker = &route->no_host;
    if (broker->health) {
        return RMQ_OK;
    }
    broker->name = rq_strdup(RQ_LOGICAL_NO_HOST);
    broker->cluster = rq_strdup("");
    broker->health = env->health(env->user, rq_slice_str(RQ_LOGICAL_NO_HOST));
    if (!broker->name || !broker->cluster || !broker->health) {
        return RMQ_ERR_NOMEM;
    }
    atomic_store_explicit(&broker->health->suspect, true, memory_order_relaxed);
    return RMQ_OK;
}

static rmq_status set_logical(struct rq_route *route, const struct rq_static_queue *from,
                              const struct rq_route_env *env, struct rq_route_queue *out)
{
    const struct rq_route_broker *host =
        from->host ? rq_route_find_broker(route, rq_slice_str(from->host)) : NULL;
    if (!host && make_no_host(route, env) != RMQ_OK) {
        return RMQ_ERR_NOMEM;
    }
    *out = (struct rq_route_queue){.broker = host ? host : &route->no_host,
                                   .broker_name = keep_logical_name(route, from->scope),
                                   .id = from->id};
    return out->broker_name ? RMQ_OK : RMQ_ERR_NOMEM;
}

/* All logical queues can be read and, unless an ordered topic's configuration names others, sent
 * to. A queue without a leader keeps its place, or keys would choose others while it has none. */
static rmq_status add_logical(struct rq_route *route, const struct rq_route_data *data,
                              const struct rq_route_env *env)
{
    struct rq_static_queue *queues = NULL;
    size_t count = 0;
    rmq_status st = rq_static_queues(data->mappings, data->mapping_count, &queues, &count, NULL);
    bool publishes = !data->order_topic_conf;
    route->subscribe = rq_calloc(count + 1, sizeof *route->subscribe);
    route->publish = publishes ? rq_calloc(count + 1, sizeof *route->publish) : NULL;
    if (st == RMQ_OK && (!route->subscribe || (publishes && !route->publish))) {
        st = RMQ_ERR_NOMEM;
    }
    for (size_t i = 0; i < count && st == RMQ_OK; i++) {
        st = set_logical(route, &queues[i], env, &route->subscribe[i]);
    }
    if (st == RMQ_OK) {
        route->subscribe_count = count;
        route->publish_count = publishes ? count : 0;
    }
    if (st == RMQ_OK && publishes && count > 0) {
        memcpy(route->publish, route->subscribe, count * sizeof *route->publish);
    }
    rq_free(queues);
    return st;
}

const struct rq_route_queue *rq_route_find_logical(const struct rq_route *route, const char *name,
                                                   int32_t id)
{
    size_t count = route->subscribe_count;
    size_t guess = id > 0 ? (size_t)id : 0; /* where it is among those of one scope */
    for (size_t i = 0; i < count; i++) {
        const struct rq_route_queue *queue = &route->subscribe[(guess + i) % count];
        if (queue->id == id && strcmp(queue->broker_name, name) == 0) {
            return queue;
        }
    }
    return NULL;
}

bool rq_route_find_queue(const struct rq_route *route, const char *broker_name, int32_t id,
                         struct rq_route_queue *out)
{
    if (rq_broker_name_is_logical(broker_name)) {
        const struct rq_route_queue *queue = rq_route_find_logical(route, broker_name, id);
        *out = queue ? *queue : (struct rq_route_queue){0};
    } else {
        const struct rq_route_broker *broker =
            rq_route_find_broker(route, rq_slice_str(broker_name));
        *out = (struct rq_route_queue){
            .broker = broker, .broker_name = broker ? broker->name : NULL, .id = id};
    }
    return out->broker != NULL;
}

/* ---- all queues ---- */

static rmq_status add_all_queues(struct rq_route *route, const struct rq_route_data *data,
                                 int32_t default_queues, const struct rq_route_env *env)
{
    bool is_static = data->mapping_count > 0 && default_queues <= 0;
    bool ordered = data->order_topic_conf && *data->order_topic_conf && default_queues <= 0;
    bool publishes = !ordered && !(is_static && !data->order_topic_conf);
    rmq_status st = is_static ? add_logical(route, data, env) : RMQ_OK;
    if (st == RMQ_OK && ordered) {
        st = add_ordered(route, data->order_topic_conf);
    }
    for (size_t i = 0; i < data->queue_count && st == RMQ_OK; i++) {
        const struct rq_route_queue_data *queue = &data->queues[i];
        const struct rq_route_broker *broker =
            rq_route_find_broker(route, rq_slice_str(queue->broker_name));
        int32_t writes = queue->write_queue_nums;
        if (default_queues > 0) {
            writes =
                queue->read_queue_nums < default_queues ? queue->read_queue_nums : default_queues;
        }
        if (publishes && (queue->perm & RQ_PERM_WRITE) && has_master(broker)) {
            st = add_queues(&route->publish, &route->publish_count, broker, writes);
        }
        if (st == RMQ_OK && !is_static && (queue->perm & RQ_PERM_READ) && default_queues <= 0) {
            st = add_queues(&route->subscribe, &route->subscribe_count, broker,
                            queue->read_queue_nums);
        }
    }
    return st;
}

static rmq_status fill_route(struct rq_route *route, const char *topic, struct rq_route_data *data,
                             int32_t default_queues, const struct rq_route_env *env)
{
    route->topic = rq_strdup(topic);
    route->from_default = default_queues > 0;
    if (!route->topic) {
        return RMQ_ERR_NOMEM;
    }
    if (data->queue_count > 0) {
        qsort(data->queues, data->queue_count, sizeof *data->queues, by_queue_broker_name);
    }
    rmq_status st = copy_brokers(data, env, route);
    return st == RMQ_OK ? add_all_queues(route, data, default_queues, env) : st;
}

rmq_status rq_route_create(const char *topic, struct rq_slice json, int32_t default_queues,
                           const struct rq_route_env *env, struct rq_route **out, rmq_error **err)
{
    struct rq_route_data data = {0};
    rmq_error *why = NULL;
    rmq_status st = rq_route_data_parse(json, &data, &why);
    if (st != RMQ_OK) {
        rq_error_set(err, st, "route of topic %s: %s", topic, rmq_error_message(why));
        rmq_error_destroy(why);
        return st;
    }
    struct rq_route *route = rq_calloc(1, sizeof *route);
    if (!route) {
        rq_route_data_clear(&data);
        return rq_error_set(err, RMQ_ERR_NOMEM, "route of topic %s", topic);
    }
    atomic_init(&route->refs, 1);
    st = fill_route(route, topic, &data, default_queues, env);
    rq_route_data_clear(&data);
    if (st != RMQ_OK) {
        rq_route_release(route);
        return rq_error_set(err, st, "route of topic %s: %s", topic, rmq_status_text(st));
    }
    *out = route;
    return RMQ_OK;
}

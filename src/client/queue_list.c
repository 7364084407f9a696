/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Lists of message queues (see the headers). One thread at a time. */
#include "client/queue_list.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/route_wait.h"
#include "wire/namespace.h"

#define FIRST_CAP        8
#define FETCH_TIMEOUT_MS 5000

rmq_status rq_mq_copy(struct rq_mq *to, const struct rq_mq *from)
{
    size_t topic_size = strlen(from->topic) + 1;
    size_t broker_size = strlen(from->broker_name) + 1;
    char *text = rq_alloc(topic_size + broker_size);
    if (!text) {
        return RMQ_ERR_NOMEM;
    }
    memcpy(text, from->topic, topic_size);
    memcpy(text + topic_size, from->broker_name, broker_size);
    *to =
        (struct rq_mq){.topic = text, .broker_name = text + topic_size, .queue_id = from->queue_id};
    return RMQ_OK;
}

void rq_mq_clear(struct rq_mq *name)
{
    union {
        const char *text;
        char *memory;
    } own = {.text = name->topic};
    rq_free(own.memory);
    *name = (struct rq_mq){0};
}

rmq_status rmq_queue_list_create(rmq_queue_list **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "queue list: out is NULL");
    }
    *out = rq_calloc(1, sizeof **out);
    return *out ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "queue list");
}

rmq_status rq_queue_list_add(struct rmq_queue_list *list, const struct rq_mq *name)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : FIRST_CAP;
        struct rq_mq *items = rq_realloc(list->items, cap * sizeof *items);
        if (!items) {
            return RMQ_ERR_NOMEM;
        }
        list->items = items;
        list->cap = cap;
    }
    rmq_status st = rq_mq_copy(&list->items[list->count], name);
    list->count += st == RMQ_OK;
    return st;
}

rmq_status rmq_queue_list_add(rmq_queue_list *list, const char *topic, const char *broker_name,
                              int32_t queue_id, rmq_error **err)
{
    if (!list || !topic || !broker_name || queue_id < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "queue list: topic, broker name and a queue id are required");
    }
    const struct rq_mq name = {.topic = topic, .broker_name = broker_name, .queue_id = queue_id};
    rmq_status st = rq_queue_list_add(list, &name);
    return st == RMQ_OK ? st : rq_error_set(err, st, "queue list of %zu", list->count);
}

rmq_status rq_queue_list_wrap(const struct rmq_queue_list *list, const char *name_space,
                              struct rmq_queue_list **out, rmq_error **err)
{
    struct rmq_queue_list *full = NULL;
    char room[RQ_NAMESPACED_MAX];
    rmq_status st = rmq_queue_list_create(&full, err);
    for (size_t i = 0; st == RMQ_OK && i < list->count; i++) {
        struct rq_mq name = list->items[i];
        name.topic = rq_namespace_wrap(name_space, name.topic, room);
        st = rq_queue_list_add(full, &name);
    }
    if (st != RMQ_OK) {
        rmq_queue_list_destroy(full);
        return rq_error_set(err, st, "list of %zu queues", list->count);
    }
    *out = full;
    return RMQ_OK;
}

bool rq_queue_list_has(const struct rmq_queue_list *list, const struct rq_mq *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (rq_mq_equal(&list->items[i], name)) {
            return true;
        }
    }
    return false;
}

rmq_status rq_queue_list_of_route(const struct rq_route *route, const char *topic,
                                  struct rmq_queue_list **out)
{
    struct rmq_queue_list *list = NULL;
    rmq_status st = rmq_queue_list_create(&list, NULL);
    for (size_t i = 0; st == RMQ_OK && i < route->subscribe_count; i++) {
        const struct rq_mq name = {.topic = topic,
                                   .broker_name = route->subscribe[i].broker_name,
                                   .queue_id = route->subscribe[i].id};
        st = rq_queue_list_add(list, &name);
    }
    if (st != RMQ_OK) {
        rmq_queue_list_destroy(list);
        return st;
    }
    *out = list;
    return RMQ_OK;
}

/* Of a static topic one queue of each broker. */
static rmq_status list_brokers(const struct rq_route *route, const char *topic,
                               struct rmq_queue_list **out)
{
    struct rmq_queue_list *list = NULL;
    if (route->logical_name_count == 0) {
        return rq_queue_list_of_route(route, topic, out);
    }
    rmq_status st = rmq_queue_list_create(&list, NULL);
    for (size_t i = 0; st == RMQ_OK && i < route->broker_count; i++) {
        const struct rq_mq name = {.topic = topic, .broker_name = route->brokers[i].name};
        st = rq_queue_list_add(list, &name);
    }
    if (st != RMQ_OK) {
        rmq_queue_list_destroy(list);
        return st;
    }
    *out = list;
    return RMQ_OK;
}

/* A route from which a send is to make the topic is none. */
static rmq_status find_route(struct rq_instance *instance, const char *topic, int64_t timeout_ms,
                             bool refresh, struct rq_route **out, rmq_error **err)
{
    int64_t deadline = rq_mono_ms() + rq_timeout_ms(timeout_ms, FETCH_TIMEOUT_MS);
    rmq_status st = rq_topic_check(rq_slice_str(topic), err);
    st = st == RMQ_OK ? rq_route_wait(instance, topic, 0, refresh, deadline, out, err) : st;
    if (st == RMQ_OK && (*out)->from_default) {
        rq_route_release(*out);
        *out = NULL;
        st = rq_error_set(err, RMQ_ERR_NO_ROUTE, "no route for topic %s", topic);
    }
    return st;
}

static rmq_status told(rmq_status st, const char *topic, rmq_error **err)
{
    return st == RMQ_OK ? st : rq_error_set(err, st, "queues of topic %s", topic);
}

rmq_status rq_queue_list_fetch_brokers(struct rq_instance *instance, const char *topic,
                                       int64_t timeout_ms, struct rmq_queue_list **out,
                                       rmq_error **err)
{
    struct rq_route *route = NULL;
    rmq_status st = find_route(instance, topic, timeout_ms, false, &route, err);
    if (st == RMQ_OK) {
        st = told(list_brokers(route, route->topic, out), topic, err);
        rq_route_release(route);
    }
    return st;
}

rmq_status rq_queue_list_fetch_named(struct rq_instance *instance, const char *name_space,
                                     const char *topic, int64_t timeout_ms,
                                     struct rmq_queue_list **out, rmq_error **err)
{
    struct rq_route *route = NULL;
    char room[RQ_NAMESPACED_MAX];
    const char *full = rq_namespace_wrap(name_space, topic, room);
    rmq_status st = find_route(instance, full, timeout_ms, true, &route, err);
    if (st == RMQ_OK) {
        const char *plain = rq_namespace_plain(name_space, topic);
        st = told(rq_queue_list_of_route(route, plain, out), topic, err);
        rq_route_release(route);
    }
    return st;
}

size_t rmq_queue_list_count(const rmq_queue_list *list)
{
    return list ? list->count : 0;
}

const char *rmq_queue_list_topic(const rmq_queue_list *list, size_t index)
{
    return list && index < list->count ? list->items[index].topic : NULL;
}

const char *rmq_queue_list_broker_name(const rmq_queue_list *list, size_t index)
{
    return list && index < list->count ? list->items[index].broker_name : NULL;
}

int32_t rmq_queue_list_queue_id(const rmq_queue_list *list, size_t index)
{
    return list && index < list->count ? list->items[index].queue_id : -1;
}

void rmq_queue_list_destroy(rmq_queue_list *list)
{
    if (list) {
        for (size_t i = 0; i < list->count; i++) {
            rq_mq_clear(&list->items[i]);
        }
        rq_free(list->items);
        rq_free(list);
    }
}

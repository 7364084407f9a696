/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Topics of an instance: asks the name servers for routes, at once for who waits and every poll
 * interval for all, and swaps snapshots. I/O thread, but for rq_instance_route and the start of a
 * look-up. Counterpart: MQClientInstance.updateTopicRouteInfoFromNameServer.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/instance_priv.h"
#include "wire/names.h"

/* a topic that nobody has watched or used for so long is no longer refreshed */
#define FORGET_AFTER_MS 600000
#define SOON_MS         1000 /* least time between two refreshes on demand */

static struct rq_topic *find_topic(struct rq_instance *instance, const char *name)
{
    return rq_map_get(&instance->topics, rq_slice_str(name));
}

static void free_topic(struct rq_topic *topic)
{
    rq_route_release(topic->route);
    rq_free(topic->name);
    rq_free(topic);
}

static struct rq_topic *make_topic(struct rq_instance *instance, const char *name)
{
    struct rq_topic *topic = rq_calloc(1, sizeof *topic);
    if (!topic) {
        return NULL;
    }
    topic->instance = instance;
    topic->name = rq_strdup(name);
    topic->asked_ms = -SOON_MS;
    rq_list_init(&topic->watches);
    rq_list_init(&topic->lookups);
    topic->used_ms = rq_mono_ms();
    rmq_status st = RMQ_ERR_NOMEM;
    if (topic->name) {
        rq_mutex_lock(&instance->route_lock);
        st = rq_map_put(&instance->topics, rq_slice_str(name), topic);
        rq_mutex_unlock(&instance->route_lock);
    }
    if (st != RMQ_OK) {
        free_topic(topic);
        return NULL;
    }
    return topic;
}

static struct rq_topic *get_topic(struct rq_instance *instance, const char *name)
{
    struct rq_topic *topic = find_topic(instance, name);
    return topic ? topic : make_topic(instance, name);
}

struct rq_route *rq_instance_route(struct rq_instance *instance, struct rq_slice name)
{
    struct rq_route *route = NULL;
    rq_mutex_lock(&instance->route_lock);
    struct rq_topic *topic = rq_map_get(&instance->topics, name);
    if (topic && topic->route) {
        route = topic->route;
        rq_route_retain(route);
        topic->used = true;
    }
    rq_mutex_unlock(&instance->route_lock);
    return route;
}

struct rq_route *rq_instance_publish_route(struct rq_instance *instance, struct rq_slice name)
{
    struct rq_route *route = rq_instance_route(instance, name);
    if (route && route->publish_count == 0) {
        rq_route_release(route);
        route = NULL;
    }
    return route;
}

/* ---- waiting for a route ---- */

static void end_lookup(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err)
{
    rq_list_remove(&lookup->node);
    rq_timer_stop(&lookup->timer);
    rq_free(lookup->topic);
    lookup->topic = NULL;
    lookup->done(lookup, route, err);
}

static void fail_lookup(struct rq_lookup *lookup, rmq_status status, const char *words)
{
    rmq_error *err = NULL;
    rq_error_set(&err, status, "route of topic %s: %s", lookup->topic ? lookup->topic : "", words);
    end_lookup(lookup, NULL, err);
    rmq_error_destroy(err);
}

static void lookup_expired(struct rq_timer *timer)
{
    struct rq_lookup *lookup = RQ_CONTAINER_OF(timer, struct rq_lookup, timer);
    rmq_error *err = NULL;
    const char *servers = rq_namesrv_list(lookup->instance->namesrv);
    rq_error_set(&err, RMQ_ERR_NO_NAMESRV,
                 "route of topic %s: no name server answered in time (%s)", lookup->topic, servers);
    rq_error_set_broker(err, servers);
    end_lookup(lookup, NULL, err);
    rmq_error_destroy(err);
}

/* All that wait, served or failed. Callbacks may start new look-ups of the same topic: those wait
 * for the next answer. */
static void end_lookups(struct rq_topic *topic, const rmq_error *err)
{
    struct rq_list waiting;
    rq_list_init(&waiting);
    struct rq_list *node;
    while ((node = rq_list_pop(&topic->lookups))) {
        rq_list_add_tail(&waiting, node);
    }
    struct rq_route *route = topic->route;
    if (route) {
        rq_route_retain(route);
    }
    while ((node = rq_list_pop(&waiting))) {
        end_lookup(RQ_CONTAINER_OF(node, struct rq_lookup, node), err ? NULL : route, err);
    }
    rq_route_release(route);
}

/* ---- asking ---- */

static void tell_watches(struct rq_topic *topic)
{
    RQ_LIST_FOREACH_SAFE(node, next, &topic->watches)
    {
        struct rq_watch *watch = RQ_CONTAINER_OF(node, struct rq_watch, topic_node);
        watch->changed(watch, topic->route);
    }
}

void rq_instance_enter_line(struct rq_instance *instance)
{
    rq_mutex_lock(&instance->line_lock);
}

void rq_instance_leave_line(struct rq_instance *instance)
{
    rq_mutex_unlock(&instance->line_lock);
}

static void tell_producers(struct rq_instance *instance, struct rq_route *route)
{
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        if (member->ops->route_comes) {
            member->ops->route_comes(member, route);
        }
    }
}

static void apply_route(struct rq_topic *topic, struct rq_route *route)
{
    struct rq_instance *instance = topic->instance;
    struct rq_route *old = topic->route;
    if (rq_route_equal(old, route)) {
        rq_route_release(route);
        rq_brokers_apply(instance, old, true);
        return;
    }
    rq_instance_enter_line(instance);
    if (old) {
        tell_producers(instance, route);
    }
    rq_mutex_lock(&instance->route_lock);
    topic->route = route;
    rq_mutex_unlock(&instance->route_lock);
    rq_instance_leave_line(instance);
    rq_route_release(old);
    if (topic->missed) {
        RQ_LOG(WARN, "the topic is there now", "topic=%s", topic->name);
    }
    topic->missed = false;
    topic->told_unknown = false;
    rq_brokers_apply(instance, route, false);
    tell_watches(topic);
}

static struct rq_peer *env_peer(void *user, const char *addr)
{
    struct rq_instance *instance = user;
    struct rq_peer *peer = NULL;
    return rq_peer_get(instance->peers, addr, &peer, NULL) == RMQ_OK ? peer : NULL;
}

static struct rq_broker_health *env_health(void *user, struct rq_slice name)
{
    return rq_brokers_health(user, name);
}

static bool is_quiet_topic(const char *name)
{
    return rq_topic_is_retry(rq_slice_str(name)) || strcmp(name, RQ_TOPIC_DEFAULT) == 0;
}

/* The topic is not known to the name server: an old route stays; who waits fails. */
static void topic_is_unknown(struct rq_topic *topic, const rmq_error *err)
{
    if (!topic->route && !topic->told_unknown) {
        topic->told_unknown = true;
        topic->missed = !rq_list_empty(&topic->watches) && !is_quiet_topic(topic->name);
        if (topic->missed) {
            RQ_LOG(WARN, "no such topic yet, it is waited for", "topic=%s", topic->name);
        }
        tell_watches(topic);
    }
    end_lookups(topic, topic->route ? NULL : err);
}

static void refresh_failed(struct rq_topic *topic, const rmq_error *err)
{
    /* Without a name server each topic fails: that is told once for all, in namesrv.c. */
    if (!topic->failing && rmq_error_status(err) != RMQ_ERR_NO_NAMESRV) {
        topic->failing = true;
        RQ_LOG(WARN, "route refresh failed", "topic=%s reason=%s", topic->name,
               rmq_error_message(err));
    }
    end_lookups(topic, topic->route ? NULL : err);
}

static void route_came(struct rq_topic *topic, struct rq_in *answer, int32_t default_queues)
{
    struct rq_instance *instance = topic->instance;
    const struct rq_route_env env = {
        .health = env_health, .peer = env_peer, .vip = instance->vip, .user = instance};
    struct rq_route *route = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_route_create(topic->name, answer->body, default_queues, &env, &route, &err);
    if (st != RMQ_OK) {
        refresh_failed(topic, err);
        rmq_error_destroy(err);
        return;
    }
    if (topic->failing) {
        topic->failing = false;
        RQ_LOG(WARN, "route refresh works again", "topic=%s", topic->name);
    }
    apply_route(topic, route);
    end_lookups(topic, NULL);
}

static void answer_error(struct rq_topic *topic, const struct rq_header *header, rmq_error **err)
{
    if (header->code == RQ_RESP_TOPIC_NOT_EXIST) {
        rq_error_set(err, RMQ_ERR_NO_ROUTE, "no route for topic %s", topic->name);
        return;
    }
    rq_error_set_remote(err, header->code, rq_namesrv_list(topic->instance->namesrv),
                        "route of topic %s: name server answered %d %.*s", topic->name,
                        header->code, (int)header->remark.n,
                        header->remark.p ? header->remark.p : "");
}

static void ask(struct rq_topic *topic, const char *name, rq_namesrv_done *done);

/* While a topic's query is under way the topic is not forgotten. */
static struct rq_topic *query_ended(void *user)
{
    struct rq_topic *topic = user;
    topic->asking = false;
    return topic->instance->closing ? NULL : topic;
}

static void default_answered(void *user, struct rq_in *answer, const rmq_error *err)
{
    struct rq_topic *topic = query_ended(user);
    if (!topic) {
        return;
    }
    if (err) {
        refresh_failed(topic, err);
    } else if (answer->header->code == RQ_RESP_SUCCESS) {
        route_came(topic, answer, topic->default_queues);
    } else {
        rmq_error *why = NULL;
        rq_error_set(&why, RMQ_ERR_NO_ROUTE,
                     "no route for topic %s, and no %s from which a broker could make it",
                     topic->name, RQ_TOPIC_DEFAULT);
        topic_is_unknown(topic, why);
        rmq_error_destroy(why);
    }
}

/* Of what waits now, which may have come while the query was under way. */
static void note_default_queues(struct rq_topic *topic)
{
    topic->default_queues = 0;
    RQ_LIST_FOREACH_SAFE(node, next, &topic->lookups)
    {
        struct rq_lookup *lookup = RQ_CONTAINER_OF(node, struct rq_lookup, node);
        if (lookup->default_queues > topic->default_queues) {
            topic->default_queues = lookup->default_queues;
        }
    }
}

static void route_answered(void *user, struct rq_in *answer, const rmq_error *err)
{
    struct rq_topic *topic = query_ended(user);
    if (!topic) {
        return;
    }
    if (err) {
        refresh_failed(topic, err);
        return;
    }
    if (answer->header->code == RQ_RESP_SUCCESS) {
        route_came(topic, answer, 0);
        return;
    }
    note_default_queues(topic);
    if (answer->header->code == RQ_RESP_TOPIC_NOT_EXIST && topic->default_queues > 0 &&
        !topic->route) {
        ask(topic, RQ_TOPIC_DEFAULT, default_answered);
        return;
    }
    rmq_error *why = NULL;
    answer_error(topic, answer->header, &why);
    if (answer->header->code == RQ_RESP_TOPIC_NOT_EXIST) {
        topic_is_unknown(topic, why);
    } else {
        refresh_failed(topic, why);
    }
    rmq_error_destroy(why);
}

static void ask(struct rq_topic *topic, const char *name, rq_namesrv_done *done)
{
    struct rq_hdr_topic fields = {.topic = rq_slice_str(name)};
    RQ_SET(topic, &fields, accept_standard_json_only, true);
    struct rq_frame_spec spec =
        rq_instance_frame(topic->instance, RQ_REQ_GET_ROUTEINFO_BY_TOPIC, &rq_tab_topic, &fields);
    topic->asking = true;
    topic->asked_ms = rq_mono_ms();
    rmq_status st = rq_namesrv_ask(topic->instance->namesrv, &spec, RQ_API_TIMEOUT_MS, done, topic);
    if (st != RMQ_OK) {
        topic->asking = false;
        rmq_error *err = NULL;
        rq_error_set(&err, st, "route of topic %s: %s", topic->name, rmq_status_text(st));
        refresh_failed(topic, err);
        rmq_error_destroy(err);
    }
}

static void refresh(struct rq_topic *topic)
{
    if (topic->asking) {
        return;
    }
    ask(topic, topic->name, route_answered);
}

void rq_topics_refresh_soon(struct rq_instance *instance, const char *name)
{
    struct rq_topic *topic = instance->closing ? NULL : find_topic(instance, name);
    if (topic && rq_mono_ms() - topic->asked_ms >= SOON_MS) {
        refresh(topic);
    }
}

void rq_topics_refresh_of(struct rq_instance *instance, const char *broker_name)
{
    size_t i = 0;
    struct rq_map_entry *entry;
    while ((entry = rq_map_next(&instance->topics, &i))) {
        const struct rq_topic *topic = entry->value;
        if (topic->route && rq_route_find_broker(topic->route, rq_slice_str(broker_name))) {
            rq_topics_refresh_soon(instance, topic->name);
        }
    }
}

/* ---- look-ups ---- */

/* Without any it may be out of date: the topic is made just now, or a broker was away. */
static bool has_queues_for(const struct rq_route *route, const struct rq_lookup *lookup)
{
    return lookup->default_queues > 0 ? route->publish_count > 0 : route->subscribe_count > 0;
}

static void begin_lookup(struct rq_task *task)
{
    struct rq_lookup *lookup = RQ_CONTAINER_OF(task, struct rq_lookup, task);
    struct rq_instance *instance = lookup->instance;
    rq_list_init(&lookup->node);
    rq_timer_init(&lookup->timer, lookup_expired);
    if (instance->closing) {
        fail_lookup(lookup, RMQ_ERR_CLOSED, "the client is shut down");
        return;
    }
    struct rq_topic *topic = lookup->topic ? get_topic(instance, lookup->topic) : NULL;
    if (!topic) {
        fail_lookup(lookup, RMQ_ERR_NOMEM, "out of memory");
        return;
    }
    if (topic->route && !lookup->refresh && has_queues_for(topic->route, lookup)) {
        end_lookup(lookup, topic->route, NULL);
        return;
    }
    rq_list_add_tail(&topic->lookups, &lookup->node);
    rq_timer_start_at(instance->loop, &lookup->timer, lookup->deadline_ms);
    refresh(topic);
}

void rq_instance_lookup(struct rq_instance *instance, struct rq_lookup *lookup, const char *topic,
                        int64_t deadline_ms)
{
    lookup->instance = instance;
    lookup->topic = rq_strdup(topic);
    lookup->deadline_ms = deadline_ms;
    lookup->task.run = begin_lookup;
    (void)rq_loop_post(instance->loop, &lookup->task);
}

/* ---- watches ---- */

rmq_status rq_instance_watch(struct rq_instance *instance, struct rq_watch *watch, const char *name)
{
    struct rq_topic *topic = get_topic(instance, name);
    if (!topic) {
        return RMQ_ERR_NOMEM;
    }
    watch->topic = topic;
    rq_list_add_tail(&topic->watches, &watch->topic_node);
    if (topic->route) {
        watch->changed(watch, topic->route);
    } else if (topic->told_unknown) {
        watch->changed(watch, NULL);
    }
    refresh(topic);
    return RMQ_OK;
}

void rq_instance_unwatch(struct rq_instance *instance, struct rq_watch *watch)
{
    (void)instance;
    if (watch->topic) {
        rq_list_remove(&watch->topic_node);
        watch->topic = NULL;
    }
}

/* ---- timer ---- */

static bool is_forgotten(struct rq_instance *instance, struct rq_topic *topic, int64_t now_ms)
{
    rq_mutex_lock(&instance->route_lock);
    topic->used_ms = topic->used ? now_ms : topic->used_ms;
    topic->used = false;
    rq_mutex_unlock(&instance->route_lock);
    return !topic->asking && rq_list_empty(&topic->watches) && rq_list_empty(&topic->lookups) &&
           now_ms - topic->used_ms > FORGET_AFTER_MS;
}

static void forget_topic(struct rq_instance *instance, struct rq_topic *topic)
{
    rq_mutex_lock(&instance->route_lock);
    (void)rq_map_remove(&instance->topics, rq_slice_str(topic->name));
    rq_mutex_unlock(&instance->route_lock);
    free_topic(topic);
}

static void poll(struct rq_timer *timer)
{
    struct rq_instance *instance = RQ_CONTAINER_OF(timer, struct rq_instance, poll_timer);
    int64_t now = rq_mono_ms();
    size_t i = 0;
    struct rq_map_entry *entry;
    while ((entry = rq_map_next(&instance->topics, &i))) {
        struct rq_topic *topic = entry->value;
        if (is_forgotten(instance, topic, now)) {
            forget_topic(instance, topic);
        } else {
            refresh(topic);
        }
    }
    rq_timer_start(instance->loop, &instance->poll_timer, instance->poll_interval_ms);
}

void rq_topics_start(struct rq_instance *instance)
{
    rq_timer_init(&instance->poll_timer, poll);
    rq_timer_start(instance->loop, &instance->poll_timer, instance->poll_interval_ms);
}

void rq_topics_stop(struct rq_instance *instance)
{
    rq_timer_stop(&instance->poll_timer);
    rmq_error *err = NULL;
    rq_error_set(&err, RMQ_ERR_CLOSED, "the client is shut down");
    size_t i = 0;
    struct rq_map_entry *entry;
    while ((entry = rq_map_next(&instance->topics, &i))) {
        end_lookups(entry->value, err);
    }
    rmq_error_destroy(err);
}

void rq_instance_topics_free(struct rq_instance *instance)
{
    size_t i = 0;
    struct rq_map_entry *entry;
    while ((entry = rq_map_next(&instance->topics, &i))) {
        free_topic(entry->value);
    }
    rq_map_free(&instance->topics, NULL);
}

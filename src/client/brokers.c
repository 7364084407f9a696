/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Brokers of an instance: names and addresses as the routes tell them, and the health of each name.
 * I/O thread only. Counterpart: MQClientInstance.brokerAddrTable.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/fault.h"
#include "client/instance_priv.h"
#include "wire/static_topic.h"

struct rq_broker_health *rq_brokers_health(struct rq_instance *instance, struct rq_slice name)
{
    struct rq_broker_health *health = rq_map_get(&instance->healths, name);
    if (health) {
        return health;
    }
    health = rq_calloc(1, sizeof *health);
    if (!health) {
        return NULL;
    }
    health->name = rq_slice_dup(name);
    atomic_init(&health->available_at_ms, 0);
    atomic_init(&health->suspect, false);
    if (!health->name || rq_map_put(&instance->healths, name, health) != RMQ_OK) {
        rq_free(health->name);
        rq_free(health);
        return NULL;
    }
    return health;
}

const struct rq_broker_health *rq_instance_next_health(struct rq_instance *instance, size_t *at)
{
    struct rq_map_entry *entry = rq_map_next(&instance->healths, at);
    return entry ? entry->value : NULL;
}

/* ---- the address table ---- */

static void clear_addrs(struct rq_broker_entry *entry)
{
    for (size_t i = 0; i < entry->addr_count; i++) {
        rq_peer_put(entry->addrs[i].peer);
        rq_free(entry->addrs[i].addr);
    }
    rq_free(entry->addrs);
    entry->addrs = NULL;
    entry->addr_count = 0;
}

static bool same_addrs(const struct rq_broker_entry *entry, const struct rq_route_broker *broker)
{
    if (entry->addr_count != broker->addr_count) {
        return false;
    }
    for (size_t i = 0; i < entry->addr_count; i++) {
        if (entry->addrs[i].id != broker->addrs[i].id ||
            strcmp(entry->addrs[i].addr, broker->addrs[i].addr) != 0) {
            return false;
        }
    }
    return true;
}

static bool copy_addrs(struct rq_broker_entry *entry, const struct rq_route_broker *broker)
{
    entry->addrs = rq_calloc(broker->addr_count ? broker->addr_count : 1, sizeof *entry->addrs);
    if (!entry->addrs) {
        return false;
    }
    for (size_t i = 0; i < broker->addr_count; i++) {
        struct rq_broker_addr *addr = &entry->addrs[i];
        addr->id = broker->addrs[i].id;
        addr->addr = rq_strdup(broker->addrs[i].addr);
        if (!addr->addr) {
            return false;
        }
        entry->addr_count++;
        if (addr->id == RQ_MASTER_ID && broker->master) {
            addr->peer = rq_peer_retain(broker->master);
        }
    }
    return true;
}

static struct rq_broker_entry *get_entry(struct rq_instance *instance,
                                         const struct rq_route_broker *broker)
{
    struct rq_broker_entry *entry = rq_map_get(&instance->brokers, rq_slice_str(broker->name));
    if (entry) {
        return entry;
    }
    entry = rq_calloc(1, sizeof *entry);
    if (entry && rq_map_put(&instance->brokers, rq_slice_str(broker->name), entry) != RMQ_OK) {
        rq_free(entry);
        entry = NULL;
    }
    return entry;
}

/* Whether something changed. */
static bool apply_broker(struct rq_instance *instance, const struct rq_route_broker *broker,
                         bool missing_only)
{
    struct rq_broker_entry *entry = get_entry(instance, broker);
    if (!entry || (missing_only && entry->addr_count > 0) || same_addrs(entry, broker)) {
        return false;
    }
    clear_addrs(entry);
    entry->health = broker->health;
    if (!copy_addrs(entry, broker)) {
        clear_addrs(entry);
    }
    return true;
}

void rq_brokers_apply(struct rq_instance *instance, const struct rq_route *route, bool missing_only)
{
    bool changed = false;
    for (size_t i = 0; i < route->broker_count; i++) {
        changed |= apply_broker(instance, &route->brokers[i], missing_only);
    }
    if (changed) {
        rq_instance_heartbeat(instance);
    }
}

static bool in_route(const struct rq_route *route, const char *addr)
{
    for (size_t i = 0; route && i < route->broker_count; i++) {
        for (size_t k = 0; k < route->brokers[i].addr_count; k++) {
            if (strcmp(route->brokers[i].addrs[k].addr, addr) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool in_any_route(struct rq_instance *instance, const char *addr)
{
    size_t i = 0;
    struct rq_map_entry *entry;
    while ((entry = rq_map_next(&instance->topics, &i))) {
        if (in_route(((struct rq_topic *)entry->value)->route, addr)) {
            return true;
        }
    }
    return false;
}

void rq_brokers_clean(struct rq_instance *instance)
{
    size_t i = 0;
    struct rq_map_entry *item;
    while ((item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        size_t kept = 0;
        for (size_t k = 0; k < entry->addr_count; k++) {
            if (in_any_route(instance, entry->addrs[k].addr)) {
                entry->addrs[kept++] = entry->addrs[k];
            } else {
                RQ_LOG(INFO, "broker address is in no route any more", "broker=%s address=%s",
                       item->key, entry->addrs[k].addr);
                rq_peer_put(entry->addrs[k].peer);
                rq_free(entry->addrs[k].addr);
            }
        }
        entry->addr_count = kept;
        if (kept == 0) {
            (void)rq_map_remove(&instance->brokers, rq_slice(item->key, item->key_len));
            rq_free(entry->addrs);
            rq_free(entry);
        }
    }
}

struct rq_peer *rq_brokers_peer(struct rq_instance *instance, struct rq_broker_addr *addr)
{
    if (!addr->peer && rq_peer_get(instance->peers, addr->addr, &addr->peer, NULL) != RMQ_OK) {
        addr->peer = NULL;
    }
    return addr->peer;
}

struct rq_broker_addr *rq_brokers_addr(struct rq_broker_entry *entry, int64_t id)
{
    for (size_t i = 0; i < entry->addr_count; i++) {
        if (entry->addrs[i].id == id) {
            return &entry->addrs[i];
        }
    }
    return NULL;
}

static struct rq_broker_addr *pick_addr(struct rq_broker_entry *entry, enum rq_pick pick,
                                        int64_t id)
{
    struct rq_broker_addr *addr = rq_brokers_addr(entry, pick == RQ_PICK_ID ? id : RQ_MASTER_ID);
    if (!addr && pick == RQ_PICK_ID && id != RQ_MASTER_ID) {
        addr = rq_brokers_addr(entry, id + 1);
    }
    if (!addr && pick != RQ_PICK_MASTER && entry->addr_count > 0) {
        addr = &entry->addrs[entry->turn++ % entry->addr_count];
    }
    return addr;
}

struct rq_broker_entry *rq_brokers_of_peer(struct rq_instance *instance, const struct rq_peer *peer,
                                           bool *master)
{
    size_t i = 0;
    struct rq_map_entry *item;
    while ((item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        for (size_t k = 0; k < entry->addr_count; k++) {
            if (entry->addrs[k].peer == peer) {
                *master = entry->addrs[k].id == RQ_MASTER_ID;
                return entry;
            }
        }
    }
    return NULL;
}

struct rq_peer *rq_instance_broker(struct rq_instance *instance, struct rq_slice broker_name,
                                   enum rq_pick pick, int64_t id, bool *is_slave)
{
    struct rq_broker_entry *entry = rq_map_get(&instance->brokers, broker_name);
    struct rq_broker_addr *addr = entry ? pick_addr(entry, pick, id) : NULL;
    if (is_slave) {
        *is_slave = addr && addr->id != RQ_MASTER_ID;
    }
    return addr ? rq_brokers_peer(instance, addr) : NULL;
}

/* p NULL: nobody leads it. */
static struct rq_slice leader_of(struct rq_instance *instance, const struct rq_mq *queue)
{
    struct rq_topic *topic = rq_map_get(&instance->topics, rq_slice_str(queue->topic));
    const struct rq_route_queue *found =
        topic && topic->route
            ? rq_route_find_logical(topic->route, queue->broker_name, queue->queue_id)
            : NULL;
    return rq_slice_str(found ? found->broker->name : NULL);
}

struct rq_peer *rq_instance_queue_broker(struct rq_instance *instance, const struct rq_mq *queue,
                                         enum rq_pick pick, int64_t id)
{
    struct rq_slice name = rq_broker_name_is_logical(queue->broker_name)
                               ? leader_of(instance, queue)
                               : rq_slice_str(queue->broker_name);
    return rq_instance_broker(instance, name, pick, id, NULL);
}

void rq_instance_queue_moved(struct rq_instance *instance, const char *topic)
{
    rq_topics_refresh_soon(instance, topic);
}

struct rq_peer *rq_instance_topic_broker(struct rq_instance *instance, const char *name)
{
    struct rq_topic *topic = rq_map_get(&instance->topics, rq_slice_str(name));
    const struct rq_route *route = topic ? topic->route : NULL;
    if (!route || route->broker_count == 0) {
        return NULL;
    }
    size_t start = (size_t)rq_mono_us() % route->broker_count;
    const struct rq_route_broker *chosen = &route->brokers[start];
    for (size_t i = 1; i < route->broker_count; i++) {
        const struct rq_route_broker *broker = &route->brokers[(start + i) % route->broker_count];
        if (rq_fault_usable(broker->health, rq_mono_ms()) &&
            !rq_fault_usable(chosen->health, rq_mono_ms())) {
            chosen = broker;
        }
    }
    return rq_instance_broker(instance, rq_slice_str(chosen->name), RQ_PICK_ANY, 0, NULL);
}

struct rq_peer *rq_instance_peer(struct rq_instance *instance, const char *addr)
{
    size_t i = 0;
    struct rq_map_entry *item;
    while ((item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        for (size_t k = 0; k < entry->addr_count; k++) {
            if (strcmp(entry->addrs[k].addr, addr) == 0) {
                return rq_brokers_peer(instance, &entry->addrs[k]);
            }
        }
    }
    /* Not of a known broker: the connection lives as long as its calls. */
    struct rq_peer *peer = NULL;
    if (rq_peer_get(instance->peers, addr, &peer, NULL) != RMQ_OK) {
        return NULL;
    }
    rq_peer_put(peer);
    return peer;
}

/* ---- life ---- */

void rq_brokers_free(struct rq_instance *instance)
{
    size_t i = 0;
    struct rq_map_entry *item;
    while ((item = rq_map_next(&instance->brokers, &i))) {
        clear_addrs(item->value);
        rq_free(item->value);
    }
    rq_map_free(&instance->brokers, NULL);
    i = 0;
    while ((item = rq_map_next(&instance->healths, &i))) {
        struct rq_broker_health *health = item->value;
        rq_free(health->name);
        rq_free(health);
    }
    rq_map_free(&instance->healths, NULL);
}

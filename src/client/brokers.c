/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Brokers of an instance: names and addresses as the routes tell them, heartbeats to them, and
 * probes of those that failed. I/O thread only. Counterparts: MQClientInstance.brokerAddrTable and
 * sendHeartbeatToAllBroker, LatencyFaultToleranceImpl's detector.
 */
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/fault.h"
#include "client/instance_priv.h"
#include "wire/heartbeat.h"

#define PROBE_FIRST_MS   1000
#define PROBE_LAST_MS    10000 /* probes become rarer, up to this interval */
#define PROBE_TIMEOUT_MS 1000

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

void rq_brokers_apply(struct rq_instance *instance, const struct rq_route *route)
{
    bool changed = false;
    for (size_t i = 0; i < route->broker_count; i++) {
        const struct rq_route_broker *broker = &route->brokers[i];
        struct rq_broker_entry *entry = get_entry(instance, broker);
        if (!entry || same_addrs(entry, broker)) {
            continue;
        }
        clear_addrs(entry);
        entry->health = broker->health;
        changed = true;
        if (!copy_addrs(entry, broker)) {
            clear_addrs(entry);
        }
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

/* Addresses that no current route names are let go, and names without addresses. */
static void clean_offline(struct rq_instance *instance)
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

static struct rq_peer *peer_of(struct rq_instance *instance, struct rq_broker_addr *addr)
{
    if (!addr->peer && rq_peer_get(instance->peers, addr->addr, &addr->peer, NULL) != RMQ_OK) {
        addr->peer = NULL;
    }
    return addr->peer;
}

static struct rq_broker_addr *addr_by_id(struct rq_broker_entry *entry, int64_t id)
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
    struct rq_broker_addr *addr = addr_by_id(entry, pick == RQ_PICK_ID ? id : RQ_MASTER_ID);
    if (!addr && pick == RQ_PICK_ID && id != RQ_MASTER_ID) {
        addr = addr_by_id(entry, id + 1);
    }
    if (!addr && pick != RQ_PICK_MASTER && entry->addr_count > 0) {
        addr = &entry->addrs[entry->turn++ % entry->addr_count];
    }
    return addr;
}

struct rq_peer *rq_instance_broker(struct rq_instance *instance, struct rq_slice broker_name,
                                   enum rq_pick pick, int64_t id, bool *is_slave)
{
    struct rq_broker_entry *entry = rq_map_get(&instance->brokers, broker_name);
    struct rq_broker_addr *addr = entry ? pick_addr(entry, pick, id) : NULL;
    if (is_slave) {
        *is_slave = addr && addr->id != RQ_MASTER_ID;
    }
    return addr ? peer_of(instance, addr) : NULL;
}

struct rq_peer *rq_instance_topic_broker(struct rq_instance *instance, const char *name)
{
    struct rq_topic *topic = rq_map_get(&instance->topics, rq_slice_str(name));
    const struct rq_route *route = topic ? topic->route : NULL;
    if (!route || route->broker_count == 0) {
        return NULL;
    }
    size_t start = (size_t)rq_mono_us() % route->broker_count;
    const struct rq_route_broker *chosen = NULL;
    for (size_t i = 0; i < route->broker_count; i++) {
        const struct rq_route_broker *broker = &route->brokers[(start + i) % route->broker_count];
        if (!chosen || (rq_fault_usable(broker->health, rq_mono_ms()) &&
                        !rq_fault_usable(chosen->health, rq_mono_ms()))) {
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
                return peer_of(instance, &entry->addrs[k]);
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

/* ---- heartbeats ---- */

static bool has_consumers(struct rq_instance *instance)
{
    for (struct rq_list *node = instance->members.next; node != &instance->members;
         node = node->next) {
        if (RQ_CONTAINER_OF(node, struct rq_member, node)->is_consumer) {
            return true;
        }
    }
    return false;
}

static void add_members(struct rq_instance *instance, bool consumers, struct rq_buf *out)
{
    bool first = true;
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        if (member->is_consumer != consumers) {
            continue;
        }
        if (!first) {
            rq_buf_add_char(out, ',');
        }
        first = false;
        if (consumers) {
            member->ops->heartbeat(member, out);
        } else {
            rq_producer_data_write(member->group, out);
        }
    }
}

void rq_brokers_heartbeat_body(struct rq_instance *instance, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"clientID\":");
    rq_json_add_string(out, rq_slice_str(instance->client_id));
    rq_buf_add_str(out, ",\"consumerDataSet\":[");
    add_members(instance, true, out);
    rq_buf_add_str(out, "],\"heartbeatFingerprint\":0,\"producerDataSet\":[");
    add_members(instance, false, out);
    rq_buf_add_str(out, "],\"withoutSub\":false}");
}

struct beat {
    struct rq_request request;
    struct rq_instance *instance;
    struct rq_broker_health *health; /* of a master, else NULL */
    /* First on its connection: the broker knows the groups again once it has answered. */
    bool is_new;
};

static void tell_consumers(struct rq_instance *instance)
{
    RQ_LIST_FOREACH_SAFE(node, next, &instance->members)
    {
        struct rq_member *member = RQ_CONTAINER_OF(node, struct rq_member, node);
        if (member->is_consumer && member->ops->ids_changed) {
            member->ops->ids_changed(member);
        }
    }
}

static void beat_answered(struct rq_request *request, rmq_status status, struct rq_in *answer)
{
    struct beat *beat = RQ_CONTAINER_OF(request, struct beat, request);
    struct rq_instance *instance = beat->instance;
    if (status == RMQ_OK && beat->health) {
        if (rq_fault_alive(beat->health)) {
            RQ_LOG(WARN, "broker answers again", "broker=%s", beat->health->name);
        }
        if (answer->header->code != RQ_RESP_SUCCESS) {
            RQ_LOG(WARN, "heartbeat was refused", "broker=%s code=%d remark=%.*s",
                   beat->health->name, answer->header->code, (int)answer->header->remark.n,
                   answer->header->remark.p ? answer->header->remark.p : "");
        }
    } else if (beat->health && status != RMQ_ERR_CLOSED && !instance->closing) {
        rq_fault_failed(beat->health, rq_mono_ms());
        rq_brokers_probe(instance);
    }
    if (status == RMQ_OK && beat->is_new && !instance->closing) {
        tell_consumers(instance);
    }
    rq_free(beat);
    instance->beats--;
}

bool rq_instance_is_beating(const struct rq_instance *instance)
{
    return instance->beats > 0;
}

bool rq_instance_has_greeted(const struct rq_instance *instance)
{
    return instance->beats == 0 && !rq_timer_running(&instance->soon_timer);
}

static void send_beat(struct rq_instance *instance, struct rq_peer *peer,
                      struct rq_broker_health *health, struct rq_slice body, int64_t timeout_ms,
                      bool is_new)
{
    struct beat *beat = peer ? rq_calloc(1, sizeof *beat) : NULL;
    if (!beat) {
        return;
    }
    beat->instance = instance;
    beat->health = health;
    beat->is_new = is_new;
    beat->request.done = beat_answered;
    instance->beats++;
    rq_instance_request(instance, peer, &beat->request, RQ_REQ_HEART_BEAT, NULL, NULL, body,
                        timeout_ms);
}

/* To all masters, and to slaves when there are consumers. */
static void beat_all(struct rq_instance *instance)
{
    if (rq_list_empty(&instance->members)) {
        return;
    }
    bool slaves = has_consumers(instance);
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_brokers_heartbeat_body(instance, &body);
    struct rq_slice text = rq_slice(body.data, rq_buf_status(&body) == RMQ_OK ? body.len : 0);
    size_t i = 0;
    struct rq_map_entry *item;
    while (text.n > 0 && (item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        for (size_t k = 0; k < entry->addr_count; k++) {
            bool master = entry->addrs[k].id == RQ_MASTER_ID;
            if (master || slaves) {
                send_beat(instance, peer_of(instance, &entry->addrs[k]),
                          master ? entry->health : NULL, text, RQ_API_TIMEOUT_MS, false);
            }
        }
    }
    rq_buf_free(&body);
}

static void beat_soon(struct rq_timer *timer)
{
    beat_all(RQ_CONTAINER_OF(timer, struct rq_instance, soon_timer));
}

void rq_instance_heartbeat(struct rq_instance *instance)
{
    if (!instance->closing && !rq_timer_running(&instance->soon_timer)) {
        rq_timer_start(instance->loop, &instance->soon_timer, 0);
    }
}

static void beat_periodic(struct rq_timer *timer)
{
    struct rq_instance *instance = RQ_CONTAINER_OF(timer, struct rq_instance, heartbeat_timer);
    clean_offline(instance);
    beat_all(instance);
    rq_timer_start(instance->loop, timer, instance->heartbeat_interval_ms);
}

/* ---- connections come back ---- */

static struct rq_broker_entry *entry_of_peer(struct rq_instance *instance,
                                             const struct rq_peer *peer, bool *master)
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

void rq_brokers_connected(struct rq_instance *instance, struct rq_peer *peer)
{
    bool master = false;
    struct rq_broker_entry *entry =
        instance->closing ? NULL : entry_of_peer(instance, peer, &master);
    if (!entry || rq_list_empty(&instance->members) || (!master && !has_consumers(instance))) {
        return;
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_brokers_heartbeat_body(instance, &body);
    if (rq_buf_status(&body) == RMQ_OK) {
        send_beat(instance, peer, master ? entry->health : NULL, rq_slice(body.data, body.len),
                  RQ_API_TIMEOUT_MS, true);
    }
    rq_buf_free(&body);
}

/* ---- probes ---- */

/* Sends a heartbeat to each suspect broker; returns whether there is one. */
static bool probe_suspects(struct rq_instance *instance)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_brokers_heartbeat_body(instance, &body);
    bool any = false;
    size_t i = 0;
    struct rq_map_entry *item;
    while (rq_buf_status(&body) == RMQ_OK && (item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        struct rq_broker_addr *master = addr_by_id(entry, RQ_MASTER_ID);
        if (master && entry->health &&
            atomic_load_explicit(&entry->health->suspect, memory_order_relaxed)) {
            any = true;
            send_beat(instance, peer_of(instance, master), entry->health,
                      rq_slice(body.data, body.len), PROBE_TIMEOUT_MS, false);
        }
    }
    rq_buf_free(&body);
    return any;
}

static void probe(struct rq_timer *timer)
{
    struct rq_instance *instance = RQ_CONTAINER_OF(timer, struct rq_instance, probe_timer);
    if (!probe_suspects(instance)) {
        instance->probe_interval_ms = PROBE_FIRST_MS;
        return;
    }
    int64_t next = instance->probe_interval_ms * 2;
    instance->probe_interval_ms = next < PROBE_LAST_MS ? next : PROBE_LAST_MS;
    rq_timer_start(instance->loop, timer, instance->probe_interval_ms);
}

void rq_brokers_probe(struct rq_instance *instance)
{
    if (!instance->closing && !rq_timer_running(&instance->probe_timer)) {
        rq_timer_start(instance->loop, &instance->probe_timer, instance->probe_interval_ms);
    }
}

/* ---- life ---- */

void rq_brokers_start(struct rq_instance *instance)
{
    instance->probe_interval_ms = PROBE_FIRST_MS;
    rq_timer_init(&instance->heartbeat_timer, beat_periodic);
    rq_timer_init(&instance->soon_timer, beat_soon);
    rq_timer_init(&instance->probe_timer, probe);
    rq_timer_start(instance->loop, &instance->heartbeat_timer, instance->heartbeat_interval_ms);
}

void rq_brokers_stop(struct rq_instance *instance)
{
    rq_timer_stop(&instance->heartbeat_timer);
    rq_timer_stop(&instance->soon_timer);
    rq_timer_stop(&instance->probe_timer);
}

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

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Heartbeats of an instance to its brokers: in turn, when members change, on a new connection, and
 * as probes of brokers that failed or whose connection ended. I/O thread only. Counterparts:
 * MQClientInstance.sendHeartbeatToAllBroker, LatencyFaultToleranceImpl's detector.
 */
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
#define FORGOTTEN_MS     120000 /* a broker forgets a silent client, unless it is told otherwise */

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

static void write_body(struct rq_instance *instance, struct rq_buf *out)
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
            RQ_LOG(INFO, "broker answers again", "broker=%s", beat->health->name);
        }
        if (answer->header->code != RQ_RESP_SUCCESS) {
            RQ_LOG(WARN, "heartbeat was refused", "broker=%s code=%d remark=%.*s",
                   beat->health->name, answer->header->code, (int)answer->header->remark.n,
                   answer->header->remark.p ? answer->header->remark.p : "");
        }
    } else if (beat->health && status != RMQ_ERR_CLOSED && !instance->closing) {
        rq_fault_failed(beat->health, rq_mono_ms());
        rq_topics_refresh_of(instance, beat->health->name);
        rq_beats_probe(instance);
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
    write_body(instance, &body);
    struct rq_slice text = rq_slice(body.data, rq_buf_status(&body) == RMQ_OK ? body.len : 0);
    size_t i = 0;
    struct rq_map_entry *item;
    while (text.n > 0 && (item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        for (size_t k = 0; k < entry->addr_count; k++) {
            bool master = entry->addrs[k].id == RQ_MASTER_ID;
            if (master || slaves) {
                send_beat(instance, rq_brokers_peer(instance, &entry->addrs[k]),
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
    rq_brokers_clean(instance);
    beat_all(instance);
    rq_timer_start(instance->loop, timer, instance->heartbeat_interval_ms);
}

/* ---- connections come back ---- */

void rq_beats_connected(struct rq_instance *instance, struct rq_peer *peer)
{
    bool master = false;
    struct rq_broker_entry *entry =
        instance->closing ? NULL : rq_brokers_of_peer(instance, peer, &master);
    if (!entry || rq_list_empty(&instance->members) || (!master && !has_consumers(instance))) {
        return;
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    write_body(instance, &body);
    if (rq_buf_status(&body) == RMQ_OK) {
        send_beat(instance, peer, master ? entry->health : NULL, rq_slice(body.data, body.len),
                  RQ_API_TIMEOUT_MS, true);
    }
    rq_buf_free(&body);
}

/* ---- probes ---- */

/* Suspect, or without the connection that it had. */
static bool is_away(const struct rq_broker_entry *entry, const struct rq_broker_addr *master)
{
    return atomic_load_explicit(&entry->health->suspect, memory_order_relaxed) ||
           (master->peer && !rq_peer_connected(master->peer));
}

/* Sends a heartbeat to each broker that may be away; returns whether there is one. */
static bool probe_away(struct rq_instance *instance)
{
    struct rq_buf body;
    rq_buf_init(&body, 0);
    write_body(instance, &body);
    bool any = false;
    size_t i = 0;
    struct rq_map_entry *item;
    while (rq_buf_status(&body) == RMQ_OK && (item = rq_map_next(&instance->brokers, &i))) {
        struct rq_broker_entry *entry = item->value;
        struct rq_broker_addr *master = rq_brokers_addr(entry, RQ_MASTER_ID);
        if (master && entry->health && is_away(entry, master)) {
            any = true;
            send_beat(instance, rq_brokers_peer(instance, master), entry->health,
                      rq_slice(body.data, body.len), PROBE_TIMEOUT_MS, false);
        }
    }
    rq_buf_free(&body);
    return any;
}

static void probe(struct rq_timer *timer)
{
    struct rq_instance *instance = RQ_CONTAINER_OF(timer, struct rq_instance, probe_timer);
    if (!probe_away(instance)) {
        instance->probe_interval_ms = PROBE_FIRST_MS;
        return;
    }
    int64_t next = instance->probe_interval_ms * 2;
    instance->probe_interval_ms = next < PROBE_LAST_MS ? next : PROBE_LAST_MS;
    rq_timer_start(instance->loop, timer, instance->probe_interval_ms);
}

void rq_beats_probe(struct rq_instance *instance)
{
    if (!instance->closing && !rq_timer_running(&instance->probe_timer)) {
        rq_timer_start(instance->loop, &instance->probe_timer, instance->probe_interval_ms);
    }
}

void rq_beats_disconnected(struct rq_instance *instance, const struct rq_peer *peer)
{
    bool master = false;
    if (!instance->closing && !rq_list_empty(&instance->members) &&
        rq_brokers_of_peer(instance, peer, &master) && master) {
        rq_beats_probe(instance);
    }
}

/* ---- life ---- */

void rq_beats_start(struct rq_instance *instance)
{
    if (instance->heartbeat_interval_ms >= FORGOTTEN_MS) {
        RQ_LOG(WARN, "brokers forget the client before its next heartbeat, unless theirs is longer",
               "heartbeatBrokerInterval=%lld channelExpiredTimeout=%d",
               (long long)instance->heartbeat_interval_ms, FORGOTTEN_MS);
    }
    instance->probe_interval_ms = PROBE_FIRST_MS;
    rq_timer_init(&instance->heartbeat_timer, beat_periodic);
    rq_timer_init(&instance->soon_timer, beat_soon);
    rq_timer_init(&instance->probe_timer, probe);
    rq_timer_start(instance->loop, &instance->heartbeat_timer, instance->heartbeat_interval_ms);
}

void rq_beats_stop(struct rq_instance *instance)
{
    rq_timer_stop(&instance->heartbeat_timer);
    rq_timer_stop(&instance->soon_timer);
    rq_timer_stop(&instance->probe_timer);
}

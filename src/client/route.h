/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Routes: an immutable, counted snapshot per topic, made from the name server's answer. Whoever
 * works with a route holds a reference; a refresh replaces the snapshot and never changes one.
 * Health of brokers is apart, one record per broker name, living as long as the instance.
 * Counterparts: TopicRouteData, TopicPublishInfo, MQFaultStrategy.
 */
#ifndef RQ_CLIENT_ROUTE_H
#define RQ_CLIENT_ROUTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/slice.h"
#include "client/latency.h"

struct rq_peer; /* net/client.h */

#define RQ_MASTER_ID 0

/* Health of a broker name, shared by all routes of an instance. */
struct rq_broker_health {
    char *name;
    /* atomic: relaxed: a hint; monotonic ms before which other brokers are preferred. */
    _Atomic int64_t available_at_ms;
    /* atomic: relaxed: did not answer; used only when nothing else is left, until a probe
     * succeeds. */
    atomic_bool suspect;
    struct rq_latency latency; /* of sends that were answered */
};

/* One broker name with its addresses, sorted by broker id. Immutable. */
struct rq_route_addr {
    int64_t id; /* 0 = master */
    char *addr;
};

struct rq_route_broker {
    char *name;
    char *cluster;
    struct rq_broker_health *health;
    struct rq_peer *master; /* held; NULL when it has none */
    struct rq_peer
        *sends; /* held: where sends go, the master or its VIP port; NULL with the master */
    size_t addr_count;
    struct rq_route_addr *addrs;
};

/* A queue of the topic. Both lists are sorted by broker name, then id. A logical queue of a static
 * topic is named after no broker and may be at another one in the next route. */
struct rq_route_queue {
    const struct rq_route_broker *broker; /* where its requests go */
    const char *broker_name;              /* of the message queue: the broker's, or a logical one */
    int32_t id;
};

struct rq_route {
    atomic_int refs; /* atomic: relaxed up, acq_rel down */
    char *topic;
    bool from_default; /* made from TBW102 for a topic that does not exist yet */
    size_t broker_count;
    struct rq_route_broker *brokers; /* sorted by name */
    /* stands for who should lead a logical queue and does not; without a queue of that kind empty */
    struct rq_route_broker no_host;
    size_t logical_name_count;
    char **logical_names; /* what logical queues are named */
    size_t publish_count; /* writable queues of brokers that have a master */
    struct rq_route_queue *publish;
    size_t subscribe_count; /* readable queues */
    struct rq_route_queue *subscribe;
};

void rq_route_retain(struct rq_route *route);
void rq_route_release(struct rq_route *route); /* NULL is accepted */
bool rq_route_equal(const struct rq_route *a, const struct rq_route *b);
const struct rq_route_broker *rq_route_find_broker(const struct rq_route *route,
                                                   struct rq_slice name);

/* A logical queue among those of a route, NULL when it is not there. */
const struct rq_route_queue *rq_route_find_logical(const struct rq_route *route, const char *name,
                                                   int32_t id);

/* Where a message queue is, be it a logical one or one of the broker that it is named after, whose
 * ids are not looked at. false: not in this route. */
bool rq_route_find_queue(const struct rq_route *route, const char *broker_name, int32_t id,
                         struct rq_route_queue *out);

/* Address of a broker id; NULL when there is none. */
const char *rq_route_addr_of(const struct rq_route_broker *broker, int64_t id);

/* What a route is tied to: the health record of a broker name (NULL when out of memory), and a
 * retained peer for an address (NULL when it has no such form). */
struct rq_route_env {
    struct rq_broker_health *(*health)(void *user, struct rq_slice name);
    struct rq_peer *(*peer)(void *user, const char *addr); /* may be NULL */
    bool vip; /* sends go to the port two below: MixAll.brokerVIPChannel */
    void *user;
};

/* From the JSON of a GET_ROUTEINFO_BY_TOPIC answer. default_queues > 0: the answer is TBW102's, and
 * the topic gets min(default_queues, read queues) queues of each broker to send to. Errors:
 * RMQ_ERR_PROTOCOL, RMQ_ERR_NOMEM. */
rmq_status rq_route_create(const char *topic, struct rq_slice json, int32_t default_queues,
                           const struct rq_route_env *env, struct rq_route **out, rmq_error **err);

#endif

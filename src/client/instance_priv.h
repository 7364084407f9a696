/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The inside of a client instance, shared by the files that make it up: instance.c (life),
 * instance_members.c, instance_requests.c (of brokers), instance_call.c (to brokers), topics.c
 * (routes), brokers.c (names and addresses), beats.c (heartbeats, probes). Everything but the
 * route snapshots is owned by the I/O thread.
 */
#ifndef RQ_CLIENT_INSTANCE_PRIV_H
#define RQ_CLIENT_INSTANCE_PRIV_H

#include "base/map.h"
#include "base/thread.h"
#include "client/instance.h"
#include "client/namesrv.h"

#define RQ_API_TIMEOUT_MS 3000 /* mqClientApiTimeout: heartbeat, unregister, route */

/* A topic that somebody uses. */
struct rq_topic {
    struct rq_instance *instance;
    char *name;
    struct rq_route *route; /* guarded by route_lock for who is not the I/O thread */
    bool used;       /* guarded by route_lock: rq_instance_route asked for it since the last poll */
    int64_t used_ms; /* the last poll that found it used */
    struct rq_list watches; /* rq_watch.topic_node */
    struct rq_list lookups; /* rq_lookup.node */
    bool asking;            /* a query is under way */
    bool told_unknown;      /* the watches know that there is no route */
    bool missed;            /* a consumer waits for it; logged */
    bool failing;           /* the last refresh failed; logged */
    /* Of the query under way: > 0 when an unknown topic may be made by a send. */
    int32_t default_queues;
    int64_t asked_ms;
};

/* What is known of a broker name. */
struct rq_broker_entry {
    struct rq_broker_health *health;
    size_t addr_count;
    struct rq_broker_addr {
        int64_t id;
        char *addr;
        struct rq_peer *peer; /* NULL until first used */
    } * addrs;
    size_t turn; /* for the choice among slaves */
};

struct rq_instance {
    /* immutable after create */
    char *client_id;
    struct rq_loop *loop;
    struct rq_peers *peers;
    struct rq_namesrv *namesrv;
    enum rq_serialize serialize;
    const struct rq_signer *signer;
    char *namespace_v2;
    struct rq_ext marks[2]; /* fields of every request: the namespace */
    size_t mark_count;
    bool vip; /* sends go to the brokers' VIP ports */
    int64_t poll_interval_ms;
    int64_t heartbeat_interval_ms;

    unsigned users; /* guarded by the registry's lock */

    struct rq_mutex line_lock;  /* rank 9: guards no field, see rq_instance_enter_line */
    struct rq_mutex route_lock; /* rank 40 */
    struct rq_map topics;       /* guarded by route_lock; changed by the I/O thread only */

    /* owned by the I/O thread */
    struct rq_list members;
    struct rq_map brokers; /* name → rq_broker_entry */
    /* Name → rq_broker_health; kept until the end: snapshots point to them. */
    struct rq_map healths;
    struct rq_timer poll_timer;
    struct rq_timer heartbeat_timer;
    struct rq_timer probe_timer;
    struct rq_timer soon_timer; /* heartbeat at the end of this turn */
    int64_t probe_interval_ms;
    bool heartbeat_failing; /* logged */
    int beats;              /* heartbeats without an answer yet */
    bool closing;
};

/* topics.c */
void rq_topics_start(struct rq_instance *instance);
/* Completes look-ups with RMQ_ERR_CLOSED. Loop, or no thread left. */
void rq_topics_stop(struct rq_instance *instance);
void rq_instance_topics_free(struct rq_instance *instance);
/* A send to the topic failed: refreshed soon, at most once a second. Loop. */
void rq_topics_refresh_soon(struct rq_instance *instance, const char *topic);
/* The same for all topics of a broker that does not answer: it may have another address by now. */
void rq_topics_refresh_of(struct rq_instance *instance, const char *broker_name);

/* brokers.c: loop */
void rq_brokers_free(struct rq_instance *instance);
struct rq_broker_health *rq_brokers_health(struct rq_instance *instance, struct rq_slice name);
/* A route came. missing_only: it is as before, and brokers for which there was no memory then are
 * taken up. */
void rq_brokers_apply(struct rq_instance *instance, const struct rq_route *route,
                      bool missing_only);
/* Addresses that no current route names are let go, and names without addresses. */
void rq_brokers_clean(struct rq_instance *instance);
/* The address with this broker id, NULL for none; the connection of an address, made when it is
 * first asked for (NULL: no memory); the entry that a connection belongs to. */
struct rq_broker_addr *rq_brokers_addr(struct rq_broker_entry *entry, int64_t id);
struct rq_peer *rq_brokers_peer(struct rq_instance *instance, struct rq_broker_addr *addr);
struct rq_broker_entry *rq_brokers_of_peer(struct rq_instance *instance, const struct rq_peer *peer,
                                           bool *master);

/* beats.c: loop */
void rq_beats_start(struct rq_instance *instance);
void rq_beats_stop(struct rq_instance *instance);
/* A connection was made: tells its broker who is here. */
void rq_beats_connected(struct rq_instance *instance, struct rq_peer *peer);
/* A connection ended: probes its broker unless another one is there soon. */
void rq_beats_disconnected(struct rq_instance *instance, const struct rq_peer *peer);
/* A broker was marked suspect: probes it in the background until it answers. */
void rq_beats_probe(struct rq_instance *instance);

/* instance_members.c: NULL when there is none. Loop. */
struct rq_member *rq_instance_member(struct rq_instance *instance, struct rq_slice group,
                                     bool consumer);

/* instance_requests.c: rq_peers_options.on_request. */
void rq_instance_on_request(void *user, struct rq_peer *peer, struct rq_in *in);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a name server knows: brokers with their addresses and when each was last heard, and the
 * queues of each topic. Owned by the name server's loop thread; time is given by the caller.
 * Counterpart: RouteInfoManager.
 */
#ifndef RQ_NAMESRV_ROUTE_INFO_H
#define RQ_NAMESRV_ROUTE_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "wire/bodies.h"
#include "wire/command.h"

#define RQ_BROKER_EXPIRES_MS 120000 /* unless the registration says otherwise */

struct rq_route_info {
    bool drop_missing;     /* a topic that a registration does not name any more is gone */
    int64_t scan_ms;       /* between two calls of rq_route_info_expire; 0 = not known */
    struct rq_map brokers; /* broker name -> struct rq_live_broker */
    struct rq_map topics;  /* topic -> struct rq_live_topic */
};

/* One address of a broker. */
struct rq_live_addr {
    int64_t id;
    char *addr;
    char *ha_addr;
    int64_t last_ms;    /* monotonic */
    int64_t expires_ms; /* after last_ms */
    struct rq_data_version version;
    const void *conn; /* the connection that it registered by; an identity only */
};

struct rq_live_broker {
    char *name;
    char *cluster;
    char *zone; /* NULL = none */
    bool acting_master;
    bool contested; /* two that live have the same id, which was logged */
    struct rq_live_addr *addrs;
    size_t addr_count;
};

void rq_route_info_init(struct rq_route_info *info);
void rq_route_info_free(struct rq_route_info *info);

enum rq_register_result { RQ_REGISTERED, RQ_REGISTER_REFUSED, RQ_REGISTER_NOMEM };

/* Registers a broker with its topics. For a slave *master is the master's entry, else NULL. */
enum rq_register_result rq_route_info_register(struct rq_route_info *info,
                                               const struct rq_hdr_register_broker *header,
                                               const struct rq_topic_table *topics,
                                               const void *conn, int64_t now_ms,
                                               const struct rq_live_addr **master);

void rq_route_info_unregister(struct rq_route_info *info, struct rq_slice broker_name,
                              struct rq_slice addr);
void rq_route_info_conn_closed(struct rq_route_info *info, const void *conn);

/* Removes the brokers not heard for too long; returns how many. */
int rq_route_info_expire(struct rq_route_info *info, int64_t now_ms);

/* A sign of life. NULL when the address is unknown, else its version. */
const struct rq_data_version *rq_route_info_touch(struct rq_route_info *info,
                                                  struct rq_slice broker_name, struct rq_slice addr,
                                                  int64_t now_ms);

/* How a route is to be told. */
struct rq_route_form {
    bool bare_keys;         /* integer keys without quotes, for old readers */
    bool acting_master;     /* the lowest slave stands for a master that is not there */
    const char *order_conf; /* may be NULL */
    struct rq_slice zone;   /* n 0: brokers of every zone */
};

/* Writes the route of a topic. false: there is none. */
bool rq_route_info_write_route(const struct rq_route_info *info, struct rq_slice topic,
                               const struct rq_route_form *form, struct rq_buf *out);

/* Queues of one topic on brokers that are known already (217). */
rmq_status rq_route_info_put_queues(struct rq_route_info *info, const char *broker,
                                    const struct rq_topic_config *topic);

/* Bodies of 106, 901, 206, 224, 304, 311…313. */
void rq_route_info_write_clusters(const struct rq_route_info *info, struct rq_buf *out);
bool rq_route_info_write_member_group(const struct rq_route_info *info, struct rq_slice broker_name,
                                      struct rq_buf *out);

enum rq_topic_list {
    RQ_LIST_ALL,
    RQ_LIST_CLUSTER,
    RQ_LIST_SYSTEM,
    RQ_LIST_UNIT,
    RQ_LIST_UNIT_SUB,
    RQ_LIST_UNIT_SUB_UNUNIT
};
void rq_route_info_write_topics(const struct rq_route_info *info, enum rq_topic_list which,
                                struct rq_slice cluster, struct rq_buf *out);

/* cluster.n 0 removes the topic from all. */
void rq_route_info_remove_topic(struct rq_route_info *info, struct rq_slice topic,
                                struct rq_slice cluster);

/* Sets or clears the write bit of all queues of a broker; returns how many topics. */
int rq_route_info_set_write(struct rq_route_info *info, struct rq_slice broker_name, bool write);

#endif

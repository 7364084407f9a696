/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Who is connected: members of consumer groups with the groups' subscriptions, and members of
 * producer groups, by connection. Any thread, one lock. Connections are held here until they are
 * closed or their heartbeat is too old. Counterparts: ConsumerManager, ProducerManager.
 */
#ifndef RQ_BROKER_CLIENTS_H
#define RQ_BROKER_CLIENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/thread.h"
#include "net/conn.h"
#include "wire/bodies.h"
#include "wire/heartbeat.h"

struct rq_sql;

/* A subscription that readers may hold while the group replaces it; made by filter.h. */
struct rq_shared_subscription {
    _Atomic uint32_t refs; /* atomic: as any count */
    struct rq_subscription *sub;
    struct rq_sql *sql; /* of an SQL92 subscription; NULL when its expression is wrong */
};

void rq_shared_subscription_release(struct rq_shared_subscription *shared); /* NULL is accepted */

struct rq_clients {
    struct rq_mutex lock;    /* rank: broker tables; guards both maps and all below */
    struct rq_map consumers; /* group -> struct consumer_group */
    struct rq_map producers; /* group -> struct members */
};

/* A client as its heartbeat describes it. */
struct rq_client_info {
    struct rq_conn *conn;
    const char *client_id;
    int32_t language;
    int32_t version;
    int64_t now_ms;
};

void rq_clients_init(struct rq_clients *clients);
void rq_clients_free(struct rq_clients *clients);

/* One consumer of a heartbeat. Takes the subscriptions out of data. *changed: the members or the
 * set of topics have changed. */
rmq_status rq_clients_put_consumer(struct rq_clients *clients, const struct rq_client_info *client,
                                   struct rq_consumer_data *data, bool without_sub, bool *changed);
rmq_status rq_clients_put_producer(struct rq_clients *clients, const struct rq_client_info *client,
                                   const char *group);

/* Notes the fingerprint of a heartbeat: whether the group's last one had another. */
bool rq_clients_other_fingerprint(struct rq_clients *clients, struct rq_slice group,
                                  int32_t fingerprint);

/* *changed (may be NULL): the connection was a member. */
void rq_clients_remove_consumer(struct rq_clients *clients, struct rq_slice group,
                                const struct rq_conn *conn, bool *changed);
void rq_clients_remove_producer(struct rq_clients *clients, struct rq_slice group,
                                const struct rq_conn *conn);

/* A connection has closed: left is called for each consumer group that it was in, without a
 * lock. */
void rq_clients_conn_closed(struct rq_clients *clients, const struct rq_conn *conn,
                            void (*left)(void *user, struct rq_slice group), void *user);

/* Closes connections whose last heartbeat is older than expires_ms. */
void rq_clients_expire(struct rq_clients *clients, int64_t now_ms, int64_t expires_ms);

/* A subscription of a group, retained, or NULL. *known: the group has members. */
struct rq_shared_subscription *rq_clients_subscription(struct rq_clients *clients,
                                                       struct rq_slice group, struct rq_slice topic,
                                                       bool *known);

/* Model of a group; false when it has no members. */
bool rq_clients_model(struct rq_clients *clients, struct rq_slice group,
                      enum rq_message_model *out);

/* The connections of a group's members, each retained; an rq_free'd array. count 0 and NULL when
 * there are none (or no memory). */
struct rq_conn **rq_clients_conns(struct rq_clients *clients, struct rq_slice group, size_t *count);

/* As above, with the members' client ids in the same order, each followed by a NUL. */
struct rq_conn **rq_clients_conns_and_ids(struct rq_clients *clients, struct rq_slice group,
                                          size_t *count, struct rq_buf *ids);

/* The connection of one member by client id, retained, or NULL. */
struct rq_conn *rq_clients_find(struct rq_clients *clients, struct rq_slice group,
                                struct rq_slice client_id);

/* One of a producer group's connections that is open, by turns, retained, or NULL. */
struct rq_conn *rq_clients_producer(struct rq_clients *clients, struct rq_slice group,
                                    uint32_t turn);

/* The connection of a client that is a producer, by client id, retained, or NULL. */
struct rq_conn *rq_clients_producer_by_id(struct rq_clients *clients, struct rq_slice client_id);

/* Bodies; false when the group has no members. */
/* 38 */
bool rq_clients_write_ids(struct rq_clients *clients, struct rq_slice group, struct rq_buf *out);
bool rq_clients_write_consumers(struct rq_clients *clients, struct rq_slice group,
                                struct rq_buf *out); /* 203 */
bool rq_clients_write_producers(struct rq_clients *clients, struct rq_slice group,
                                struct rq_buf *out);                                 /* 204 */
void rq_clients_write_all_producers(struct rq_clients *clients, struct rq_buf *out); /* 328 */

/* Calls each for each online group that subscribes the topic, with the lock held. */
void rq_clients_each_group_of(struct rq_clients *clients, struct rq_slice topic,
                              void (*each)(void *user, struct rq_slice name), void *user);

#endif

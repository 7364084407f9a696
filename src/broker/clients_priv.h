/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The registry's tables, for the file that changes them and the one that writes them out. All
 * guarded by the clients' lock. */
#ifndef RQ_BROKER_CLIENTS_PRIV_H
#define RQ_BROKER_CLIENTS_PRIV_H

#include "base/time.h"
#include "broker/clients.h"

struct rq_member {
    struct rq_conn *conn; /* a reference */
    char *client_id;
    int32_t language;
    int32_t version;
    int64_t last_ms; /* of the last heartbeat, monotonic */
    int64_t last_wall_ms;
};

struct rq_members {
    struct rq_member *items;
    size_t count;
};

struct rq_consumer_group {
    struct rq_members members;
    struct rq_shared_subscription **subs;
    size_t sub_count;
    enum rq_consume_type type;
    enum rq_message_model model;
    enum rq_consume_from from;
    bool has_fingerprint;
    int32_t fingerprint; /* of the last heartbeat that named the group; 0 = of the first version */
    bool told_of_difference; /* its members do not agree, and the log has it */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Rows of the option tables, and help texts that several tables share. Only for the files with the
 * tables. */
#ifndef RQ_CLIENT_OPTIONS_ROWS_H
#define RQ_CLIENT_OPTIONS_ROWS_H

#include "base/table.h"
#include "wire/namespace.h"

/* Numbers are written out, since the range is shown as text, too. */
#define NUMBER32(name, offset, def, least, most, help)                                             \
    {                                                                                              \
        name, RQ_OPT_I32, offset, def, least, most, #least " … " #most, help                       \
    }
#define NUMBER64(name, offset, def, least, most, help)                                             \
    {                                                                                              \
        name, RQ_OPT_I64, offset, def, least, most, #least " … " #most, help                       \
    }
#define BOOLEAN(name, offset, def, help)                                                           \
    {                                                                                              \
        name, RQ_OPT_BOOL, offset, def, 0, 1, "true|false", help                                   \
    }

#define NAMESRV_HELP                                                                               \
    "Name servers as \"host:port;host:port\"; IPv6 as \"[::1]:9876\". Without it $NAMESRV_ADDR. "  \
    "http://host:port/path is an address server: its first line is the list, "                     \
    "asked for at the start and every fourth pollNameServerInterval."
#define INSTANCE_HELP                                                                              \
    "Name of the client instance. DEFAULT becomes <pid>#<nanoseconds>, so that every handle has "  \
    "an "                                                                                          \
    "instance of its own."
#define CLIENT_IP_HELP                                                                             \
    "Address in the client id; without it the local address from which the name server is "        \
    "reached."
#define POLL_HELP "Interval in ms of route refreshes."
#define HEARTBEAT_HELP                                                                             \
    "Interval in ms of heartbeats to brokers; they also go out at once on every change."
#define SERIALIZE_HELP "Form of request headers: JSON, or ROCKETMQ (compact binary)."

#define NAMESPACE_ROWS(at)                                                                         \
    {"namespace",                                                                                  \
     RQ_OPT_STRING,                                                                                \
     at(namespace_name),                                                                           \
     NULL,                                                                                         \
     0,                                                                                            \
     0,                                                                                            \
     "1 to 64 of A-Z a-z 0-9 | _ -",                                                               \
     "Part of the names of topics and groups, which brokers know as <namespace>%<name>; programs " \
     "see them without. An endpoint MQ_INST_a_b.host:port in namesrvAddr is one, too."},           \
    {                                                                                              \
        "namespaceV2", RQ_OPT_STRING, at(namespace_v2), NULL, 0, 0, NULL,                          \
            "Namespace that goes with each request in fields of its own (5.x); one for an "        \
            "instance name."                                                                       \
    }

/* Room for what a namespace makes of an object's options. */
struct rq_named_room {
    char name_space[RQ_NAMESPACE_MAX + 1];
    char group[RQ_NAMESPACED_MAX];
};

/* Finds the namespace, the given one or that of the endpoint, and the group's full name; both may
 * point into room then. namesrv NULL: $NAMESRV_ADDR. Errors: RMQ_ERR_INVALID. */
rmq_status rq_option_namespace(const char **name_space, const char **group, const char *namesrv,
                               struct rq_named_room *room, rmq_error **err);

/* The init function of every options struct: defaults in as many bytes as the program knows. */
void rq_option_init(const struct rq_table *table, void *options, size_t size);
/* Defaults into all (table->struct_size bytes), over them what the program passed. false: it was
 * not made by its init function. */
bool rq_option_take(const struct rq_table *table, const void *from, void *all);
/* A copy with texts of its own. */
rmq_status rq_option_keep(const struct rq_table *table, void *to, const void *all, rmq_error **err);
rmq_status rq_option_check_serialize(const char *object, const char *text, rmq_error **err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Rows of the option tables, and help texts that several tables share. Only for the files with the tables. */
#ifndef RQ_CLIENT_OPTIONS_ROWS_H
#define RQ_CLIENT_OPTIONS_ROWS_H

#include "base/table.h"

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

/* The init function of every options struct: defaults in as many bytes as the program knows. */
void rq_option_init(const struct rq_table *table, void *options, size_t size);
/* Defaults into all (table->struct_size bytes), over them what the program passed. false: it was not made by its init function. */
bool rq_option_take(const struct rq_table *table, const void *from, void *all);
/* A copy with texts of its own. */
rmq_status rq_option_keep(const struct rq_table *table, void *to, const void *all, rmq_error **err);
rmq_status rq_option_check_serialize(const char *object, const char *text, rmq_error **err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the questions of rmq_admin share (admin.c). Any thread but the I/O thread; all calls block
 * up to their deadline.
 */
#ifndef RQ_CLIENT_ADMIN_PRIV_H
#define RQ_CLIENT_ADMIN_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include <rmq/admin.h>

#include "base/buf.h"
#include "client/ask.h"
#include "base/err.h"
#include "client/instance.h"
#include "wire/bodies.h"
#include "wire/mq.h"
#include "wire/names.h"
#include "wire/route.h"

struct rmq_admin {
    uint64_t mark;
    struct rq_instance *instance;
};

/* The beginning of every call: checks the handle and that the arguments are complete (needs names
 * them), and gives the deadline; timeout_ms 0 = 6 s. Errors: RMQ_ERR_INVALID, RMQ_ERR_FORKED. */
rmq_status rq_admin_begin_complete(const rmq_admin *admin, int64_t timeout_ms, int64_t *deadline_ms,
                                   rmq_error **err);
static inline rmq_status rq_admin_begin(const rmq_admin *admin, bool complete, const char *needs,
                                        int64_t timeout_ms, int64_t *deadline_ms, rmq_error **err)
{
    return complete ? rq_admin_begin_complete(admin, timeout_ms, deadline_ms, err)
                    : rq_error_set(err, RMQ_ERR_INVALID, "required: %s", needs);
}

/* One question; fields by their table, NULL for none. */
struct rq_admin_question {
    int code;
    const struct rq_fields *table;
    const void *fields;
    struct rq_slice body; /* to a broker only */
    const char *what;     /* "offset of group g", for messages */
    int32_t not_found;    /* a broker's code that means RMQ_ERR_NOT_FOUND, 0 = none */
    /* what rq_admin_ask_cluster does with each answer, NULL = nothing; reply is borrowed */
    rmq_status (*take)(void *user, const char *broker_name, const struct rq_reply *reply,
                       rmq_error **err);
    void *user;
};

/* Asks a broker, or with addr NULL the name servers. On RMQ_OK the answer is SUCCESS and the
 * caller's to free with rq_reply_free. */
rmq_status rq_admin_ask(rmq_admin *admin, const char *addr, const struct rq_admin_question *ask,
                        int64_t deadline_ms, struct rq_reply *reply, rmq_error **err);

/* Text that a caller gets: detached from the buffer, which is freed. */
rmq_status rq_admin_hand_out(struct rq_buf *buf, char **out, const char *what, rmq_error **err);

/* The names of a list in an answer, one a line. */
rmq_status rq_admin_hand_out_names(struct rq_slice json, const char *list, char **out,
                                   const char *what, rmq_error **err);

/* RMQ_ERR_NO_ROUTE for a topic that the name servers do not know. Freed with
 * rq_route_data_clear. */
rmq_status rq_admin_route(rmq_admin *admin, const char *topic, int64_t deadline_ms,
                          struct rq_route_data *route, rmq_error **err);

/* Borrowed; NULL when it has none. */
const char *rq_admin_master_of(const struct rq_route_broker_data *broker);

/* Asks every master of a cluster (NULL = of all), which all must answer SUCCESS or, where not_found
 * is given, that; RMQ_ERR_NOT_FOUND when all said that. RMQ_ERR_NO_BROKER: there is none. */
rmq_status rq_admin_ask_cluster(rmq_admin *admin, const char *cluster,
                                const struct rq_admin_question *ask, int64_t deadline_ms,
                                rmq_error **err);

/* Rows of a static topic's logical queues, those that some broker leads; own are the rows that the
 * brokers tell of their queues. Freed with rmq_admin_queue_status_free. admin_static.c */
rmq_status rq_admin_logical_status(rmq_admin *admin, const char *topic,
                                   const struct rq_route_data *route, const rmq_queue_status *own,
                                   size_t own_count, int64_t deadline_ms, rmq_queue_status **out,
                                   size_t *count, rmq_error **err);

/* Address of the broker in the topic's route that has the queue, a logical one's leader: its master,
 * else any; broker_name NULL: the first broker. A copy, freed with rq_free. */
rmq_status rq_admin_queue_addr(rmq_admin *admin, const struct rq_mq *queue, int64_t deadline_ms,
                               char **out, rmq_error **err);

#endif

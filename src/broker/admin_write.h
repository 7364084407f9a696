/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Pieces that answers to administrators have in common. Any thread. */
#ifndef RQ_BROKER_ADMIN_WRITE_H
#define RQ_BROKER_ADMIN_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct rmq_broker;

/* A MessageQueue of this broker as JSON. */
void rq_admin_add_queue(const struct rmq_broker *broker, struct rq_slice topic, int32_t queue_id,
                        struct rq_buf *out);

/* Whether a group reads a topic: it subscribes to it, or nobody of the group is online to say
 * otherwise. */
bool rq_admin_is_subscribed(struct rmq_broker *broker, struct rq_slice group,
                            struct rq_slice topic);

/* Messages per second that a group has got of a topic in the last minute. */
double rq_admin_consume_tps(struct rmq_broker *broker, struct rq_slice group,
                            struct rq_slice topic);

#endif

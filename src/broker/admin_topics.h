/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Creating a topic as an administrator does; any thread. */
#ifndef RQ_BROKER_ADMIN_TOPICS_H
#define RQ_BROKER_ADMIN_TOPICS_H

#include <stdbool.h>

#include <rmq/error.h>

#include "base/err.h"
#include "broker/topics.h"

struct rmq_broker;

/* Checks and stores; the caller persists and registers. RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_admin_put_topic(struct rmq_broker *broker, struct rq_slice name,
                              const struct rq_topic_info *info, struct rq_slice attributes,
                              bool *changed, rmq_error **err);

#endif

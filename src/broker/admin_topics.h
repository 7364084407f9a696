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
struct rq_hdr_create_topic;
struct rq_request;

/* Checks and stores; the caller persists and registers. RMQ_ERR_INVALID, RMQ_ERR_NOMEM. */
rmq_status rq_admin_put_topic(struct rmq_broker *broker, struct rq_slice name,
                              const struct rq_topic_info *info, struct rq_slice attributes,
                              bool *changed, rmq_error **err);

/* Whether there may be such a topic: RMQ_ERR_INVALID otherwise. */
rmq_status rq_admin_check_topic(struct rmq_broker *broker, struct rq_slice name,
                                const struct rq_topic_info *info, rmq_error **err);

struct rq_topic_info rq_admin_topic_info(const struct rq_hdr_create_topic *header);

/* Answers a change of a topic: its failure, or success when the name servers know. Frees err. */
void rq_admin_answer_put(const struct rq_request *request, rmq_status st, rmq_error *err);

#endif

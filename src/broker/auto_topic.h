/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Topics that the broker makes by itself: from a template at the first send, of groups, and at
 * start. Counterpart: TopicConfigManager. */
#ifndef RQ_BROKER_AUTO_TOPIC_H
#define RQ_BROKER_AUTO_TOPIC_H

#include <stdbool.h>

#include <rmq/error.h>

#include "broker/topics.h"

struct rmq_broker;
struct rq_hdr_send;

/* Makes the topic of a send from its default topic, or a retry topic; false when neither may be.
 * Any thread. */
bool rq_auto_topic(struct rmq_broker *broker, const struct rq_hdr_send *header,
                   struct rq_topic_info *out);

/* One queue, read and write. */
void rq_dlq_topic_info(struct rq_topic_info *out);

/* The retry topic of a group with its number of queues, made when it is missing. */
rmq_status rq_retry_topic(struct rmq_broker *broker, struct rq_slice group, int32_t queues,
                          struct rq_topic_info *out);

/* Topics and groups that every broker has. */
rmq_status rq_system_topics(struct rmq_broker *broker, rmq_error **err);
rmq_status rq_system_groups(struct rmq_broker *broker, rmq_error **err);

/* JSON list of the system topics' names. */
void rq_system_topics_write(struct rmq_broker *broker, struct rq_buf *out);

/* System topics of this broker, which nobody may change. */
bool rq_is_system_topic(const struct rmq_broker *broker, struct rq_slice topic);

#endif

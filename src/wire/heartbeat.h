/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The body of HEART_BEAT: a client's producer groups and consumer groups with their subscriptions.
 * A client writes it piece by piece; a broker parses it whole. Counterparts: HeartbeatData,
 * ConsumerData, ProducerData.
 */
#ifndef RQ_WIRE_HEARTBEAT_H
#define RQ_WIRE_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "wire/subscription.h"

#define RQ_HEARTBEAT_INTERVAL_MS 30000 /* heartbeatBrokerInterval of a client unless it is set */

enum rq_consume_type { RQ_CONSUME_ACTIVELY, RQ_CONSUME_PASSIVELY, RQ_CONSUME_POP };

enum rq_message_model { RQ_MODEL_CLUSTERING, RQ_MODEL_BROADCASTING };

enum rq_consume_from { RQ_FROM_LAST_OFFSET, RQ_FROM_FIRST_OFFSET, RQ_FROM_TIMESTAMP };

/* "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET" …; readers fall back to the first
 * value and map the deprecated names of consumeFromWhere to their successors. */
const char *rq_consume_type_name(enum rq_consume_type type);
const char *rq_message_model_name(enum rq_message_model model);
const char *rq_consume_from_name(enum rq_consume_from from);

struct rq_consumer_data {
    const char *group;
    enum rq_consume_type type;
    enum rq_message_model model;
    enum rq_consume_from from;
    bool unit_mode;
    struct rq_subscription **subscriptions;
    size_t subscription_count;
};

/* Topics that one member of a group may subscribe: each is compared with the group's others. */
#define RQ_HEARTBEAT_TOPICS_MAX 4096

struct rq_heartbeat {
    const char *client_id;
    int32_t fingerprint;
    bool without_sub;
    const char **producers; /* group names */
    size_t producer_count;
    struct rq_consumer_data *consumers;
    size_t consumer_count;
    cJSON *json; /* owner of parsed texts, else NULL */
};

/* Broker side. Errors: RMQ_ERR_PROTOCOL (also: no client id), RMQ_ERR_NOMEM. Subscriptions belong
 * to the heartbeat; rq_heartbeat_take_subscription moves one out. */
rmq_status rq_heartbeat_parse(struct rq_slice json, struct rq_heartbeat *out, rmq_error **err);
void rq_heartbeat_clear(struct rq_heartbeat *heartbeat);
struct rq_subscription *rq_heartbeat_take_subscription(struct rq_consumer_data *consumer,
                                                       size_t index);

/* Client side: the whole body, */
void rq_heartbeat_write(const struct rq_heartbeat *heartbeat, struct rq_buf *out);

/* or one object of "consumerDataSet" or "producerDataSet". */
void rq_consumer_data_write(const struct rq_consumer_data *consumer, struct rq_buf *out);
void rq_producer_data_write(const char *group, struct rq_buf *out);

#endif

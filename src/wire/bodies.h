/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * JSON bodies of requests and answers, each with writer and parser. A parsed struct owns its arrays
 * and the JSON tree that its texts are borrowed from, until it is cleared; a struct that is to be
 * written may borrow from anywhere. Parsers return RMQ_ERR_PROTOCOL or RMQ_ERR_NOMEM, and leave
 * nothing to clear then; writers leave failures in the buffer. Maps with a message queue as key are
 * written as Java writes them, with a bare object as key, because Java peers read nothing else
 * there; all other output is valid JSON. Counterparts: remoting.protocol.body.*.
 */
#ifndef RQ_WIRE_BODIES_H
#define RQ_WIRE_BODIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "wire/mq.h"
#include "wire/queue_mapping.h"
#include "wire/route.h"
#include "wire/subscription.h"

/* ---- lists of names: {"consumerIdList":[…]}, {"topicList":[…]}, {"groupList":[…]} ---- */

#define RQ_LIST_CONSUMER_IDS "consumerIdList"
#define RQ_LIST_TOPICS       "topicList"
#define RQ_LIST_GROUPS       "groupList"

struct rq_names {
    const char **items;
    size_t count;
    cJSON *json;
};

rmq_status rq_names_parse(struct rq_slice json, const char *member, struct rq_names *out,
                          rmq_error **err);
void rq_names_clear(struct rq_names *names);
void rq_names_write(const char *const *items, size_t count, const char *member, struct rq_buf *out);

/* ---- message queues, locks: 41, 42 ---- */

void rq_mq_write(const struct rq_mq *mq, struct rq_buf *out); /* {"brokerName":…} */

struct rq_lock_body {
    const char *consumer_group;
    const char *client_id;
    bool only_this_broker;
    struct rq_mq *queues;
    size_t queue_count;
    cJSON *json;
};

rmq_status rq_lock_body_parse(struct rq_slice json, struct rq_lock_body *out, rmq_error **err);
/* Queues only. */
rmq_status rq_lock_answer_parse(struct rq_slice json, struct rq_lock_body *out, rmq_error **err);
void rq_lock_body_write(const struct rq_lock_body *body, struct rq_buf *out);
void rq_lock_answer_write(const struct rq_mq *queues, size_t count, struct rq_buf *out);
void rq_lock_body_clear(struct rq_lock_body *body);

/* ---- assignments: 400, 401 ---- */

struct rq_assignments {
    struct rq_mq *queues; /* queue id -1: all of the broker's, by popping */
    bool *pops;           /* by queue: popped, else pulled */
    size_t count;
    cJSON *json;
};

/* RMQ_ERR_NOT_FOUND: the broker had nothing to go by. */
rmq_status rq_assignments_parse(struct rq_slice json, struct rq_assignments *out, rmq_error **err);
void rq_assignments_clear(struct rq_assignments *assignments);

struct rq_assignment_query {
    const char *topic;
    const char *consumer_group;
    const char *client_id;
    const char *strategy_name;
    const char *message_model;
};

/* 401 */
struct rq_request_mode_body {
    const char *topic;
    const char *consumer_group;
    bool pops;
    int32_t share_queues;
};

void rq_request_mode_write(const struct rq_request_mode_body *mode, struct rq_buf *out);
void rq_assignment_query_write(const struct rq_assignment_query *query, struct rq_buf *out);

/* ---- topics and their registration: 21, 103, 351 ---- */

struct rq_data_version {
    int64_t state_version;
    int64_t timestamp_ms;
    int64_t counter;
};

void rq_data_version_write(const struct rq_data_version *version, struct rq_buf *out);
void rq_data_version_parse(const cJSON *json, struct rq_data_version *out); /* zero where absent */
bool rq_data_version_equal(const struct rq_data_version *a, const struct rq_data_version *b);

struct rq_attribute {
    const char *key;
    const char *value;
};

struct rq_topic_config {
    const char *name;
    int32_t read_queue_nums;
    int32_t write_queue_nums;
    int32_t perm;
    bool multi_tag; /* topicFilterType MULTI_TAG */
    int32_t topic_sys_flag;
    bool order;
    struct rq_attribute *attributes;
    size_t attribute_count;
};

/* "name 4 4 6 SINGLE_TAG {}" */
void rq_topic_config_write_text(const struct rq_topic_config *topic, struct rq_buf *out);

struct rq_topic_table {
    struct rq_topic_config *topics;
    size_t count;
    struct rq_queue_mapping_info *mappings; /* of static topics */
    size_t mapping_count;
    struct rq_data_version version;
    void *texts; /* owner of texts that are in no JSON, or NULL */
    cJSON *json;
};

/* 21, topics.json. */
rmq_status rq_topic_table_parse(struct rq_slice json, struct rq_topic_table *out, rmq_error **err);
void rq_topic_table_write(const struct rq_topic_table *table, struct rq_buf *out);
void rq_topic_table_clear(struct rq_topic_table *table);

/* Body of REGISTER_BROKER: JSON, or compressed (zlib over text forms). version is the sender's:
 * below V5_0_0 there is no mapping section. The parser refuses to inflate beyond max_out. */
rmq_status rq_register_body_parse(struct rq_slice body, bool compressed, int32_t version,
                                  size_t max_out, struct rq_topic_table *out, rmq_error **err);
void rq_register_body_write(const struct rq_topic_table *table, struct rq_buf *out); /* JSON form */
rmq_status rq_register_body_write_compressed(const struct rq_topic_table *table, struct rq_buf *out,
                                             rmq_error **err);

/* ---- subscription groups: 200, 201, 352 ---- */

struct rq_group_config {
    const char *name;
    bool consume_enable;
    bool consume_from_min_enable;
    bool consume_broadcast_enable;
    bool consume_message_orderly;
    int32_t retry_queue_nums;
    int32_t retry_max_times;
    int64_t broker_id;
    int64_t which_broker_when_consume_slowly;
    bool notify_consumer_ids_changed_enable;
    int32_t group_sys_flag;
    int32_t consume_timeout_minute;
};

struct rq_group_table {
    struct rq_group_config *groups;
    size_t count;
    struct rq_data_version version;
    cJSON *json;
};

struct rq_group_config rq_group_config_default(const char *name);
void rq_group_config_write(const struct rq_group_config *group, struct rq_buf *out);
rmq_status rq_group_table_parse(struct rq_slice json, struct rq_group_table *out, rmq_error **err);
/* One group. */
rmq_status rq_group_config_parse(struct rq_slice json, struct rq_group_table *out, rmq_error **err);
void rq_group_table_write(const struct rq_group_table *table, struct rq_buf *out);
void rq_group_table_clear(struct rq_group_table *table);

/* ---- cluster info: 106 ---- */

struct rq_cluster {
    const char *name;
    const char **broker_names;
    size_t broker_count;
};

struct rq_cluster_info {
    struct rq_route_broker_data *brokers;
    size_t broker_count;
    struct rq_cluster *clusters;
    size_t cluster_count;
    cJSON *json;
};

rmq_status rq_cluster_info_parse(struct rq_slice json, struct rq_cluster_info *out,
                                 rmq_error **err);
void rq_cluster_info_write(const struct rq_cluster_info *info, struct rq_buf *out);
void rq_cluster_info_clear(struct rq_cluster_info *info);

/* ---- numbers per queue: 202, 208, 220, 221, 222 ---- */

struct rq_queue_stat {
    struct rq_mq mq;
    int64_t min_offset;      /* 202 */
    int64_t max_offset;      /* 202 */
    int64_t broker_offset;   /* 208 */
    int64_t consumer_offset; /* 208 */
    int64_t pull_offset;     /* 208 */
    int64_t offset;          /* 220, 221, 222: the map's plain number */
    int64_t timestamp_ms;    /* 202 lastUpdateTimestamp, 208 lastTimestamp */
};

enum rq_queue_table_kind {
    /* {"offsetTable":{MQ:{minOffset,maxOffset,lastUpdateTimestamp}},"topicPutTps":} */
    RQ_QUEUE_TABLE_TOPIC_STATS,
    RQ_QUEUE_TABLE_CONSUME_STATS, /* {"consumeTps":,"offsetTable":{MQ:{brokerOffset,…}}} */
    /* {"offsetTable":{MQ:n}}; also the list form for the C++ client, when parsing */
    RQ_QUEUE_TABLE_OFFSETS,
    RQ_QUEUE_TABLE_STATUS /* {"messageQueueTable":{MQ:n}} */
};

struct rq_queue_table {
    struct rq_queue_stat *rows;
    size_t count;
    cJSON **keys; /* parsed object keys, owners of the queue names; count of them */
    cJSON *json;
};

rmq_status rq_queue_table_parse(struct rq_slice json, enum rq_queue_table_kind kind,
                                struct rq_queue_table *out, rmq_error **err);
/* OFFSETS and STATUS only: the others are read. */
void rq_queue_table_write(const struct rq_queue_table *table, enum rq_queue_table_kind kind,
                          struct rq_buf *out);
void rq_queue_table_clear(struct rq_queue_table *table);

/* ---- connections: 203, 204 ---- */

struct rq_connection {
    const char *client_id;
    const char *client_addr;
    int32_t language;
    int32_t version;
};

struct rq_connections {
    struct rq_connection *items;
    size_t count;
    /* 203 only: */
    const char *consume_type;
    const char *message_model;
    const char *consume_from_where; /* all three NULL for 204 */
    struct rq_subscription **subscriptions;
    size_t subscription_count;
    cJSON *json;
};

rmq_status rq_connections_parse(struct rq_slice json, struct rq_connections *out, rmq_error **err);
void rq_connections_write(const struct rq_connections *connections, struct rq_buf *out);
void rq_connections_clear(struct rq_connections *connections);

/* ---- {"table":{name:value}}: 28, 219, answer of 103 ---- */

struct rq_kv_table {
    struct rq_attribute *items;
    size_t count;
    cJSON *json;
};

rmq_status rq_kv_table_parse(struct rq_slice json, struct rq_kv_table *out, rmq_error **err);
void rq_kv_table_clear(struct rq_kv_table *table);

/* ---- CONSUME_MESSAGE_DIRECTLY's answer ---- */

struct rq_consume_directly {
    bool order;
    bool auto_commit;
    const char *result; /* "CR_SUCCESS", "CR_LATER", … */
    const char *remark; /* NULL = none */
    int64_t spent_ms;
    cJSON *json;
};

rmq_status rq_consume_directly_parse(struct rq_slice json, struct rq_consume_directly *out,
                                     rmq_error **err);
void rq_consume_directly_write(const struct rq_consume_directly *result, struct rq_buf *out);
void rq_consume_directly_clear(struct rq_consume_directly *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Administration that producers and tools need: topics, routes, offsets. Calls block up to their
 * timeout (0 = 6000 ms), so not from a callback. Unless a call says otherwise it fails with
 * RMQ_ERR_INVALID, RMQ_ERR_NO_NAMESRV, RMQ_ERR_NO_ROUTE (no such topic), RMQ_ERR_NO_BROKER,
 * RMQ_ERR_CONNECT, RMQ_ERR_DISCONNECTED, RMQ_ERR_TIMEOUT, RMQ_ERR_BROKER (code and words of the
 * server in err) or RMQ_ERR_NOMEM. Counterpart: MQAdminImpl, DefaultMQAdminExt.
 */
#ifndef RMQ_ADMIN_H
#define RMQ_ADMIN_H

#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>
#include <rmq/export.h>
#include <rmq/message.h>

typedef struct rmq_admin rmq_admin;

/* One queue of a topic with its offsets. broker_name is borrowed until the list is freed. */
typedef struct rmq_queue_status {
    const char *broker_name;
    int32_t queue_id;
    int64_t min_offset;
    int64_t max_offset;
    int64_t last_update_ms; /* store time of the last message, 0 when unknown or empty */
} rmq_queue_status;

/* How the broker lets a group of consumers with clientRebalance=false get a topic. */
typedef enum rmq_message_request_mode {
    RMQ_REQUEST_PULL = 0,
    RMQ_REQUEST_POP = 1
} rmq_message_request_mode;

RMQ_BEGIN_DECLS

/* Creates an admin client for name servers "host:port;host:port" (NULL = $NAMESRV_ADDR). The caller
 * destroys it. Any thread may use it. Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_NAMESRV, RMQ_ERR_NOMEM,
 * RMQ_ERR_IO. Since 0.1.0. */
RMQ_API rmq_status rmq_admin_create(const char *namesrv_addr, rmq_admin **out, rmq_error **err);
RMQ_API void rmq_admin_destroy(rmq_admin *admin);

/* Creates or updates a topic on every master of a cluster (NULL = of all clusters) and waits until
 * the name server gives its route. perm: 2 write, 4 read, 6 both. Protocol: UPDATE_AND_CREATE_TOPIC
 * (17). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_create_topic(rmq_admin *admin, const char *cluster, const char *topic,
                                          int32_t read_queues, int32_t write_queues, int32_t perm,
                                          int64_t timeout_ms, rmq_error **err);

/* Tells every master of a cluster (NULL = of all clusters) whether a group pulls or pops a topic.
 * pop_share_queue_num: of how many other members a popping one gets the queues, too; 0 = of all.
 * Members follow at their next rebalance, without loss; messages in hands then may come twice. The
 * topic and the group must be known to the brokers (a group is from its first member on). Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_BROKER (of brokers before 5.0, too), RMQ_ERR_TIMEOUT,
 * RMQ_ERR_NO_NAMESRV, RMQ_ERR_NO_BROKER. Protocol: SET_MESSAGE_REQUEST_MODE (401). Counterpart:
 * mqadmin setConsumeMode. Since 0.1.0. */
RMQ_API rmq_status rmq_admin_set_message_request_mode(rmq_admin *admin, const char *cluster,
                                                      const char *topic, const char *group,
                                                      rmq_message_request_mode mode,
                                                      int32_t pop_share_queue_num,
                                                      int64_t timeout_ms, rmq_error **err);

/* Names of all topics, one a line. Freed with rmq_string_free. Protocol:
 * GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_topic_list(rmq_admin *admin, int64_t timeout_ms, char **out,
                                        rmq_error **err);

/* Route of a topic as standard JSON (TopicRouteData). Freed with rmq_string_free. RMQ_ERR_NO_ROUTE
 * when unknown. Protocol: GET_ROUTEINFO_BY_TOPIC (105). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_topic_route(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                         char **out, rmq_error **err);

/* Clusters and brokers as standard JSON (ClusterInfo). Freed with rmq_string_free. Protocol:
 * GET_BROKER_CLUSTER_INFO (106). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_cluster_info(rmq_admin *admin, int64_t timeout_ms, char **out,
                                          rmq_error **err);

/* Queues of a topic with their offsets, sorted by broker name and id; freed with
 * rmq_admin_queue_status_free. Protocol: GET_TOPIC_STATS_INFO (202). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_topic_status(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                          rmq_queue_status **out, size_t *count, rmq_error **err);
RMQ_API void rmq_admin_queue_status_free(rmq_queue_status *list, size_t count);

/* Committed offset of a group for a queue. RMQ_ERR_NOT_FOUND when the group has none: not knowing
 * is not zero. Protocol: QUERY_CONSUMER_OFFSET (14). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_consumer_offset(rmq_admin *admin, const char *group, const char *topic,
                                             const char *broker_name, int32_t queue_id,
                                             int64_t timeout_ms, int64_t *offset, rmq_error **err);

/* Offset behind the last message of a queue, that of its first message, and the first offset whose
 * message was stored at timestamp_ms or later. earliest_store_time: of the queue's first message,
 * ms since 1970, -1 when it is empty. Counterparts: maxOffset, minOffset, searchOffset,
 * earliestMsgStoreTime. Protocol: GET_MAX_OFFSET (30), GET_MIN_OFFSET (31),
 * SEARCH_OFFSET_BY_TIMESTAMP (29), GET_EARLIEST_MSG_STORETIME (32). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_max_offset(rmq_admin *admin, const char *topic,
                                        const char *broker_name, int32_t queue_id,
                                        int64_t timeout_ms, int64_t *offset, rmq_error **err);
RMQ_API rmq_status rmq_admin_min_offset(rmq_admin *admin, const char *topic,
                                        const char *broker_name, int32_t queue_id,
                                        int64_t timeout_ms, int64_t *offset, rmq_error **err);
RMQ_API rmq_status rmq_admin_search_offset(rmq_admin *admin, const char *topic,
                                           const char *broker_name, int32_t queue_id,
                                           int64_t timestamp_ms, int64_t timeout_ms,
                                           int64_t *offset, rmq_error **err);
RMQ_API rmq_status rmq_admin_earliest_store_time(rmq_admin *admin, const char *topic,
                                                 const char *broker_name, int32_t queue_id,
                                                 int64_t timeout_ms, int64_t *time_ms,
                                                 rmq_error **err);

/* Client ids of a group's members, one a line. Freed with rmq_string_free. Protocol:
 * GET_CONSUMER_LIST_BY_GROUP (38). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_group_members(rmq_admin *admin, const char *group, const char *topic,
                                           int64_t timeout_ms, char **out, rmq_error **err);

/* The message behind an offset message id. Released by rmq_message_view_release. RMQ_ERR_NOT_FOUND
 * when there is none. Protocol: VIEW_MESSAGE_BY_ID (33). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_view_message(rmq_admin *admin, const char *offset_msg_id,
                                          int64_t timeout_ms, const rmq_message_view **out,
                                          rmq_error **err);

/* Messages of a topic that carry a key, stored between begin_ms and end_ms (ms since 1970; end_ms 0
 * = no end), at most max of each broker that has the topic; sorted by broker as the route has them.
 * *out holds *count views and is freed, views and all, by rmq_admin_messages_free. A broker that
 * fails does not hide what the others found; RMQ_ERR_NOT_FOUND means that all answered and none had
 * one. Counterpart: queryMessage. Protocol: QUERY_MESSAGE (12). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_query_message(rmq_admin *admin, const char *topic, const char *key,
                                           int32_t max, int64_t begin_ms, int64_t end_ms,
                                           int64_t timeout_ms, const rmq_message_view ***out,
                                           size_t *count, rmq_error **err);

/* The same for the unique id that a send returned (rmq_send_result_msg_id). More than one when the
 * message was stored more than once. Counterpart: queryMessageByUniqKey. Since 0.1.0. */
RMQ_API rmq_status rmq_admin_query_unique_id(rmq_admin *admin, const char *topic,
                                             const char *unique_id, int64_t timeout_ms,
                                             const rmq_message_view ***out, size_t *count,
                                             rmq_error **err);
RMQ_API void rmq_admin_messages_free(const rmq_message_view **list, size_t count);

RMQ_END_DECLS

#endif

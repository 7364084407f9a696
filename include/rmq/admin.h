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

#include <stdbool.h>
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

/* One queue of a topic with one offset. broker_name is borrowed until the list is freed. */
typedef struct rmq_queue_offset {
    const char *broker_name;
    int32_t queue_id;
    int64_t offset;
} rmq_queue_offset;

/* Settings of a consumer group at its brokers, by Java's names. rmq_group_options_init fills its
 * defaults and records the size. */
typedef struct rmq_group_options {
    size_t struct_size;
    bool consume_enable;           /* "consumeEnable", true: members get messages */
    bool consume_from_min_enable;  /* "consumeFromMinEnable", true */
    bool consume_broadcast_enable; /* "consumeBroadcastEnable", true: broadcasting members, too */
    bool consume_message_orderly;  /* "consumeMessageOrderly", false: what is popped is in order */
    int32_t retry_queue_nums;      /* "retryQueueNums", 1: queues of its retry topic */
    /* "retryMaxTimes", 16: then a message is a dead letter. For clients that send no number: push
     * consumers, also Java's, always send maxReconsumeTimes, which is 16 when it is not set. */
    int32_t retry_max_times;
    /* "notifyConsumerIdsChangedEnable", true: members are told of members that come and go */
    bool notify_consumer_ids_changed_enable;
} rmq_group_options;

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

/* Removes a topic, with its messages and the groups' offsets in it, from every master of a cluster
 * (NULL = of all clusters), and its route from every name server. A broker that is away keeps it,
 * and tells it to the name servers again when it is back. Whoever sends to the topic may create it
 * anew where brokers do that (autoCreateTopicEnable). RMQ_ERR_NO_ROUTE: no name server knew it;
 * what brokers had of it is gone. Counterpart: mqadmin deleteTopic. Protocol:
 * DELETE_TOPIC_IN_BROKER (215), DELETE_TOPIC_IN_NAMESRV (216). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_delete_topic(rmq_admin *admin, const char *cluster, const char *topic,
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

/* Settings of a broker ("host:port") as lines key=value. Freed with rmq_string_free. Counterpart:
 * mqadmin getBrokerConfig. Protocol: GET_BROKER_CONFIG (26). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_broker_config(rmq_admin *admin, const char *broker_addr,
                                           int64_t timeout_ms, char **out, rmq_error **err);

/* Changes settings of a running broker; properties has lines key=value. Which it takes is the
 * broker's affair: one that it refuses is RMQ_ERR_BROKER with its words, and a Java broker passes
 * over what it does not know. Counterpart: mqadmin updateBrokerConfig. Protocol:
 * UPDATE_BROKER_CONFIG (25). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_update_broker_config(rmq_admin *admin, const char *broker_addr,
                                                  const char *properties, int64_t timeout_ms,
                                                  rmq_error **err);

/* Figures of a running broker as standard JSON {"table": {name: text, …}}. Freed with
 * rmq_string_free. Counterpart: mqadmin brokerStatus. Protocol: GET_BROKER_RUNTIME_INFO (28).
 * Since 0.1.0. */
RMQ_API rmq_status rmq_admin_broker_runtime_info(rmq_admin *admin, const char *broker_addr,
                                                 int64_t timeout_ms, char **out, rmq_error **err);

/* Queues of a topic with their offsets, sorted by broker name and id; of a static topic the logical
 * queues that some broker leads. Freed with rmq_admin_queue_status_free. Protocol:
 * GET_TOPIC_STATS_INFO (202), for logical queues GET_MIN_OFFSET and GET_MAX_OFFSET, too. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_admin_topic_status(rmq_admin *admin, const char *topic, int64_t timeout_ms,
                                          rmq_queue_status **out, size_t *count, rmq_error **err);
RMQ_API void rmq_admin_queue_status_free(rmq_queue_status *list, size_t count);

/* Committed offset of a group for a queue. RMQ_ERR_NOT_FOUND when the group has none: not knowing
 * is not zero. But a broker before 5.0 says 0 for "none" of a queue that begins there, to every
 * client. Protocol: QUERY_CONSUMER_OFFSET (14). Since 0.1.0. */
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

/* Fills defaults; size is sizeof(rmq_group_options) as the program knows it. Any thread. Since
 * 0.1.0. */
RMQ_API void rmq_group_options_init(rmq_group_options *options, size_t size);

/* Creates a consumer group on every master of a cluster (NULL = of all clusters), or replaces its
 * settings. options NULL: the defaults. Needed where brokers do not create groups by themselves
 * (autoCreateSubscriptionGroup=false), and for settings of its own. Counterpart: mqadmin
 * updateSubGroup. Protocol: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_create_group(rmq_admin *admin, const char *cluster, const char *group,
                                          const rmq_group_options *options, int64_t timeout_ms,
                                          rmq_error **err);

/* Removes the settings of a group from every master of a cluster (NULL = of all clusters), and with
 * remove_offsets how far it has come, so that a group of that name begins anew. Its retry and dead
 * letter topics stay: rmq_admin_delete_topic. RMQ_ERR_NOT_FOUND: no broker had settings of it.
 * Counterpart: mqadmin deleteSubGroup. Protocol: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201),
 * DELETE_SUBSCRIPTIONGROUP (207). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_delete_group(rmq_admin *admin, const char *cluster, const char *group,
                                          bool remove_offsets, int64_t timeout_ms, rmq_error **err);

/* Names of all consumer groups that the masters know, one a line, each once. Freed with
 * rmq_string_free. Protocol: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_group_list(rmq_admin *admin, int64_t timeout_ms, char **out,
                                        rmq_error **err);

/* Settings of a group at each broker that knows it, as standard JSON {"broker name":
 * SubscriptionGroupConfig, …}. Freed with rmq_string_free. RMQ_ERR_NOT_FOUND when none does.
 * Counterpart: mqadmin getConsumerConfig. Protocol: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).
 * Since 0.1.0. */
RMQ_API rmq_status rmq_admin_group_config(rmq_admin *admin, const char *group, int64_t timeout_ms,
                                          char **out, rmq_error **err);

/* Topics in which a group has offsets, one a line, each once; its retry topic, too. While it has
 * members, only what they have subscribed to. Freed with rmq_string_free. Protocol:
 * GET_CONSUME_STATS (208). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_group_topics(rmq_admin *admin, const char *group, int64_t timeout_ms,
                                          char **out, rmq_error **err);

/* Members of a group with their addresses and subscriptions as each broker has them, as standard
 * JSON {"broker name": ConsumerConnection, …}; a member may be connected to several. Freed with
 * rmq_string_free. RMQ_ERR_NOT_FOUND: nobody is connected. Counterpart: mqadmin
 * consumerConnection. Protocol: GET_CONSUMER_CONNECTION_LIST (203). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_group_connections(rmq_admin *admin, const char *group,
                                               int64_t timeout_ms, char **out, rmq_error **err);

/* Lets a group go on in a topic from the first messages that were stored at timestamp_ms or later
 * (ms since 1970; 0 = from the first of all, -1 = behind the last of all). Members that run follow
 * by themselves. *out: the new offsets by queue, freed with rmq_admin_queue_offsets_free. The group
 * must be known to the brokers. A broker before 5.0 to which no member is connected is told the
 * offsets of its queues one by one. Counterpart: mqadmin resetOffsetByTime. Protocol:
 * INVOKE_BROKER_TO_RESET_OFFSET (222), UPDATE_CONSUMER_OFFSET (15). Since 0.1.0. */
RMQ_API rmq_status rmq_admin_reset_offset(rmq_admin *admin, const char *group, const char *topic,
                                          int64_t timestamp_ms, int64_t timeout_ms,
                                          rmq_queue_offset **out, size_t *count, rmq_error **err);
RMQ_API void rmq_admin_queue_offsets_free(rmq_queue_offset *list, size_t count);

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

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The header fields of each command, one list per header: the C struct, the presence bits and the
 * table that client and broker both encode and decode with are made from it, in one place. A row is
 * X(H, member, wire name, type, required). wire/command.h explains their use. Counterparts: the
 * CommandCustomHeader classes.
 */
#ifndef RQ_WIRE_HEADERS_H
#define RQ_WIRE_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* 10, 324 with the long names; 310, 320, 325 with the letters: one struct, two tables. X(H, member,
 * long name, letter, type, required) */
#define RQ_ROWS_SEND(X, H)                                                                         \
    X(H, producer_group, "producerGroup", "a", STR, 1)                                             \
    X(H, topic, "topic", "b", STR, 1)                                                              \
    X(H, default_topic, "defaultTopic", "c", STR, 1)                                               \
    X(H, default_topic_queue_nums, "defaultTopicQueueNums", "d", I32, 1)                           \
    X(H, queue_id, "queueId", "e", I32, 1)                                                         \
    X(H, sys_flag, "sysFlag", "f", I32, 1)                                                         \
    X(H, born_timestamp, "bornTimestamp", "g", I64, 1)                                             \
    X(H, flag, "flag", "h", I32, 1)                                                                \
    X(H, properties, "properties", "i", STR, 0)                                                    \
    X(H, reconsume_times, "reconsumeTimes", "j", I32, 0)                                           \
    X(H, unit_mode, "unitMode", "k", BOOL, 0)                                                      \
    X(H, max_reconsume_times, "maxReconsumeTimes", "l", I32, 0)                                    \
    X(H, batch, "batch", "m", BOOL, 0)                                                             \
    X(H, bname, "bname", "n", STR, 0)

/* 10, 310, 320, 324, 325: answer */
#define RQ_ROWS_SEND_RESPONSE(X, H)                                                                \
    X(H, msg_id, "msgId", STR, 1)                                                                  \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, queue_offset, "queueOffset", I64, 1)                                                      \
    X(H, transaction_id, "transactionId", STR, 0)                                                  \
    X(H, batch_uniq_id, "batchUniqId", STR, 0)                                                     \
    X(H, recall_handle, "recallHandle", STR, 0)                                                    \
    X(H, msg_region, "MSG_REGION", STR, 0)                                                         \
    X(H, trace_on, "TRACE_ON", STR, 0)

/* 11, 361 */
#define RQ_ROWS_PULL(X, H)                                                                         \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, queue_offset, "queueOffset", I64, 1)                                                      \
    X(H, max_msg_nums, "maxMsgNums", I32, 1)                                                       \
    X(H, sys_flag, "sysFlag", I32, 1)                                                              \
    X(H, commit_offset, "commitOffset", I64, 1)                                                    \
    X(H, suspend_timeout_ms, "suspendTimeoutMillis", I64, 1)                                       \
    X(H, subscription, "subscription", STR, 0)                                                     \
    X(H, sub_version, "subVersion", I64, 1)                                                        \
    X(H, expression_type, "expressionType", STR, 0)                                                \
    X(H, max_msg_bytes, "maxMsgBytes", I32, 0)                                                     \
    X(H, request_source, "requestSource", I32, 0)                                                  \
    X(H, bname, "bname", STR, 0)

/* 11, 361: answer */
#define RQ_ROWS_PULL_RESPONSE(X, H)                                                                \
    X(H, suggest_which_broker_id, "suggestWhichBrokerId", I64, 1)                                  \
    X(H, next_begin_offset, "nextBeginOffset", I64, 1)                                             \
    X(H, min_offset, "minOffset", I64, 1)                                                          \
    X(H, max_offset, "maxOffset", I64, 1)                                                          \
    X(H, offset_delta, "offsetDelta", I64, 0)                                                      \
    X(H, topic_sys_flag, "topicSysFlag", I32, 0)                                                   \
    X(H, group_sys_flag, "groupSysFlag", I32, 0)                                                   \
    X(H, forbidden_type, "forbiddenType", I32, 0)

/* 36 */
#define RQ_ROWS_SEND_BACK(X, H)                                                                    \
    X(H, offset, "offset", I64, 1)                                                                 \
    X(H, group, "group", STR, 1)                                                                   \
    X(H, delay_level, "delayLevel", I32, 1)                                                        \
    X(H, origin_msg_id, "originMsgId", STR, 0)                                                     \
    X(H, origin_topic, "originTopic", STR, 0)                                                      \
    X(H, unit_mode, "unitMode", BOOL, 0)                                                           \
    X(H, max_reconsume_times, "maxReconsumeTimes", I32, 0)                                         \
    X(H, bname, "bname", STR, 0)

/* 37 */
#define RQ_ROWS_END_TRANSACTION(X, H)                                                              \
    X(H, producer_group, "producerGroup", STR, 1)                                                  \
    X(H, tran_state_table_offset, "tranStateTableOffset", I64, 1)                                  \
    X(H, commit_log_offset, "commitLogOffset", I64, 1)                                             \
    X(H, commit_or_rollback, "commitOrRollback", I32, 1)                                           \
    X(H, from_transaction_check, "fromTransactionCheck", BOOL, 0)                                  \
    X(H, msg_id, "msgId", STR, 1)                                                                  \
    X(H, transaction_id, "transactionId", STR, 0)                                                  \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, bname, "bname", STR, 0)

/* 39 */
#define RQ_ROWS_CHECK_TRANSACTION(X, H)                                                            \
    X(H, tran_state_table_offset, "tranStateTableOffset", I64, 1)                                  \
    X(H, commit_log_offset, "commitLogOffset", I64, 1)                                             \
    X(H, msg_id, "msgId", STR, 0)                                                                  \
    X(H, transaction_id, "transactionId", STR, 0)                                                  \
    X(H, offset_msg_id, "offsetMsgId", STR, 0)                                                     \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, bname, "bname", STR, 0)

/* 326 */
#define RQ_ROWS_REPLY(X, H)                                                                        \
    X(H, producer_group, "producerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, default_topic, "defaultTopic", STR, 1)                                                    \
    X(H, default_topic_queue_nums, "defaultTopicQueueNums", I32, 1)                                \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, sys_flag, "sysFlag", I32, 1)                                                              \
    X(H, born_timestamp, "bornTimestamp", I64, 1)                                                  \
    X(H, flag, "flag", I32, 1)                                                                     \
    X(H, properties, "properties", STR, 0)                                                         \
    X(H, reconsume_times, "reconsumeTimes", I32, 0)                                                \
    X(H, unit_mode, "unitMode", BOOL, 0)                                                           \
    X(H, born_host, "bornHost", STR, 1)                                                            \
    X(H, store_host, "storeHost", STR, 1)                                                          \
    X(H, store_timestamp, "storeTimestamp", I64, 1)

/* 370 */
#define RQ_ROWS_RECALL(X, H)                                                                       \
    X(H, producer_group, "producerGroup", STR, 0)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, recall_handle, "recallHandle", STR, 1)                                                    \
    X(H, bname, "bname", STR, 0)

/* 323, and the answer of 370 */
#define RQ_ROWS_MSG_ID(X, H)                                                                       \
    X(H, msg_id, "msgId", STR, 1)                                                                  \
    X(H, topic, "topic", STR, 0)

/* 14 */
#define RQ_ROWS_QUERY_CONSUMER_OFFSET(X, H)                                                        \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, set_zero_if_not_found, "setZeroIfNotFound", BOOL, 0)                                      \
    X(H, bname, "bname", STR, 0)

/* 15 */
#define RQ_ROWS_UPDATE_CONSUMER_OFFSET(X, H)                                                       \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, commit_offset, "commitOffset", I64, 1)                                                    \
    X(H, bname, "bname", STR, 0)

/* 29 */
#define RQ_ROWS_SEARCH_OFFSET(X, H)                                                                \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, timestamp, "timestamp", I64, 1)                                                           \
    X(H, boundary_type, "boundaryType", STR, 0)                                                    \
    X(H, bname, "bname", STR, 0)

/* 30, 31, 32 */
#define RQ_ROWS_QUEUE(X, H)                                                                        \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, committed, "committed", BOOL, 0)                                                          \
    X(H, bname, "bname", STR, 0)

/* 14, 29, 30, 31: answer */
#define RQ_ROWS_OFFSET_RESPONSE(X, H) X(H, offset, "offset", I64, 1)

/* 32: answer */
#define RQ_ROWS_TIMESTAMP_RESPONSE(X, H) X(H, timestamp, "timestamp", I64, 1)

/* 34: answer */
#define RQ_ROWS_HEARTBEAT_RESPONSE(X, H)                                                           \
    X(H, support_heart_beat_v2, "IS_SUPPORT_HEART_BEAT_V2", BOOL, 0)                               \
    X(H, sub_change, "IS_SUB_CHANGE", BOOL, 0)

/* 35 */
#define RQ_ROWS_UNREGISTER_CLIENT(X, H)                                                            \
    X(H, client_id, "clientID", STR, 1)                                                            \
    X(H, producer_group, "producerGroup", STR, 0)                                                  \
    X(H, consumer_group, "consumerGroup", STR, 0)

/* 38, 40, 203 */
#define RQ_ROWS_CONSUMER_GROUP(X, H)                                                               \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, bname, "bname", STR, 0)

/* 204 */
#define RQ_ROWS_PRODUCER_GROUP(X, H) X(H, producer_group, "producerGroup", STR, 1)

/* 12 */
#define RQ_ROWS_QUERY_MESSAGE(X, H)                                                                \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, key, "key", STR, 1)                                                                       \
    X(H, max_num, "maxNum", I32, 1)                                                                \
    X(H, begin_timestamp, "beginTimestamp", I64, 1)                                                \
    X(H, end_timestamp, "endTimestamp", I64, 1)                                                    \
    X(H, unique_key_query, "_UNIQUE_KEY_QUERY", BOOL, 0)                                           \
    X(H, bname, "bname", STR, 0)

/* 12: answer */
#define RQ_ROWS_QUERY_MESSAGE_RESPONSE(X, H)                                                       \
    X(H, index_last_update_timestamp, "indexLastUpdateTimestamp", I64, 1)                          \
    X(H, index_last_update_phyoffset, "indexLastUpdatePhyoffset", I64, 1)

/* 33 */
#define RQ_ROWS_VIEW_MESSAGE(X, H)                                                                 \
    X(H, offset, "offset", I64, 1)                                                                 \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, bname, "bname", STR, 0)

/* 105, 202, 215, 216, 217, 300, 351 */
#define RQ_ROWS_TOPIC(X, H)                                                                        \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, lo, "lo", BOOL, 0)                                                                        \
    X(H, cluster_name, "clusterName", STR, 0)                                                      \
    X(H, accept_standard_json_only, "acceptStandardJsonOnly", BOOL, 0)                             \
    X(H, zone_mode, "__ZONE_MODE", STR, 0)                                                         \
    X(H, zone_name, "__ZONE_NAME", STR, 0)                                                         \
    X(H, bname, "bname", STR, 0)

/* 17, 513 */
#define RQ_ROWS_CREATE_TOPIC(X, H)                                                                 \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, default_topic, "defaultTopic", STR, 1)                                                    \
    X(H, read_queue_nums, "readQueueNums", I32, 1)                                                 \
    X(H, write_queue_nums, "writeQueueNums", I32, 1)                                               \
    X(H, perm, "perm", I32, 1)                                                                     \
    X(H, topic_filter_type, "topicFilterType", STR, 1)                                             \
    X(H, topic_sys_flag, "topicSysFlag", I32, 0)                                                   \
    X(H, order, "order", BOOL, 0)                                                                  \
    X(H, attributes, "attributes", STR, 0)                                                         \
    X(H, force, "force", BOOL, 0)

/* 103 */
#define RQ_ROWS_REGISTER_BROKER(X, H)                                                              \
    X(H, broker_name, "brokerName", STR, 1)                                                        \
    X(H, broker_addr, "brokerAddr", STR, 1)                                                        \
    X(H, cluster_name, "clusterName", STR, 1)                                                      \
    X(H, ha_server_addr, "haServerAddr", STR, 1)                                                   \
    X(H, broker_id, "brokerId", I64, 1)                                                            \
    X(H, heartbeat_timeout_ms, "heartbeatTimeoutMillis", I64, 0)                                   \
    X(H, enable_acting_master, "enableActingMaster", BOOL, 0)                                      \
    X(H, compressed, "compressed", BOOL, 0)                                                        \
    X(H, body_crc32, "bodyCrc32", I32, 0)                                                          \
    X(H, zone_name, "__ZONE_NAME", STR, 0)

/* 103: answer */
#define RQ_ROWS_REGISTER_BROKER_RESPONSE(X, H)                                                     \
    X(H, ha_server_addr, "haServerAddr", STR, 0)                                                   \
    X(H, master_addr, "masterAddr", STR, 0)

/* 104, 322 */
#define RQ_ROWS_BROKER(X, H)                                                                       \
    X(H, broker_name, "brokerName", STR, 1)                                                        \
    X(H, broker_addr, "brokerAddr", STR, 1)                                                        \
    X(H, cluster_name, "clusterName", STR, 1)                                                      \
    X(H, broker_id, "brokerId", I64, 1)

/* 904 */
#define RQ_ROWS_BROKER_HEARTBEAT(X, H)                                                             \
    X(H, cluster_name, "clusterName", STR, 1)                                                      \
    X(H, broker_addr, "brokerAddr", STR, 1)                                                        \
    X(H, broker_name, "brokerName", STR, 1)                                                        \
    X(H, broker_id, "brokerId", I64, 0)                                                            \
    X(H, epoch, "epoch", I32, 0)                                                                   \
    X(H, max_offset, "maxOffset", I64, 0)                                                          \
    X(H, confirm_offset, "confirmOffset", I64, 0)                                                  \
    X(H, heartbeat_timeout_ms, "heartbeatTimeoutMills", I64, 0)                                    \
    X(H, election_priority, "electionPriority", I32, 0)

/* 322: answer */
#define RQ_ROWS_QUERY_DATA_VERSION_RESPONSE(X, H) X(H, changed, "changed", BOOL, 1)

/* 205, 327, 901 */
#define RQ_ROWS_BROKER_NAME(X, H)                                                                  \
    X(H, broker_name, "brokerName", STR, 1)                                                        \
    X(H, cluster_name, "clusterName", STR, 0)

/* 205, 327: answer */
#define RQ_ROWS_TOPIC_COUNT_RESPONSE(X, H)                                                         \
    X(H, wipe_topic_count, "wipeTopicCount", I32, 0)                                               \
    X(H, add_topic_count, "addTopicCount", I32, 0)

/* 100, 101, 102, 219 */
#define RQ_ROWS_KV(X, H)                                                                           \
    X(H, namespace, "namespace", STR, 1)                                                           \
    X(H, key, "key", STR, 0)                                                                       \
    X(H, value, "value", STR, 0)

/* 101: answer */
#define RQ_ROWS_KV_RESPONSE(X, H) X(H, value, "value", STR, 0)

/* 224 */
#define RQ_ROWS_CLUSTER(X, H) X(H, cluster, "cluster", STR, 1)

/* 303, 343, 345, 352, 353 */
#define RQ_ROWS_GROUP(X, H)                                                                        \
    X(H, group, "group", STR, 1)                                                                   \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, readable, "readable", BOOL, 0)

/* 207 */
#define RQ_ROWS_DELETE_GROUP(X, H)                                                                 \
    X(H, group_name, "groupName", STR, 1)                                                          \
    X(H, clean_offset, "cleanOffset", BOOL, 0)

/* 208 */
#define RQ_ROWS_CONSUME_STATS(X, H)                                                                \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, topic_list, "topicList", STR, 0)

/* 317 */
#define RQ_ROWS_BROKER_CONSUME_STATS(X, H) X(H, is_order, "isOrder", BOOL, 0)

/* 26: answer */
#define RQ_ROWS_BROKER_CONFIG_RESPONSE(X, H) X(H, version, "version", STR, 1)

/* 315 */
#define RQ_ROWS_STATS(X, H)                                                                        \
    X(H, stats_name, "statsName", STR, 1)                                                          \
    X(H, stats_key, "statsKey", STR, 1)

/* 321 */
#define RQ_ROWS_QUERY_CONSUME_QUEUE(X, H)                                                          \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, index, "index", I64, 1)                                                                   \
    X(H, count, "count", I32, 1)                                                                   \
    X(H, consumer_group, "consumerGroup", STR, 0)

/* 220, 222 */
#define RQ_ROWS_RESET_OFFSET(X, H)                                                                 \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, group, "group", STR, 1)                                                                   \
    X(H, timestamp, "timestamp", I64, 1)                                                           \
    X(H, is_force, "isForce", BOOL, 0)                                                             \
    X(H, queue_id, "queueId", I32, 0)                                                              \
    X(H, offset, "offset", I64, 0)

/* 221, 223 */
#define RQ_ROWS_CONSUMER_STATUS(X, H)                                                              \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, group, "group", STR, 1)                                                                   \
    X(H, client_addr, "clientAddr", STR, 0)

/* 307 */
#define RQ_ROWS_RUNNING_INFO(X, H)                                                                 \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, client_id, "clientId", STR, 1)                                                            \
    X(H, jstack_enable, "jstackEnable", BOOL, 0)

/* 309 */
#define RQ_ROWS_CONSUME_DIRECTLY(X, H)                                                             \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, client_id, "clientId", STR, 0)                                                            \
    X(H, msg_id, "msgId", STR, 0)                                                                  \
    X(H, broker_name, "brokerName", STR, 0)                                                        \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, topic_sys_flag, "topicSysFlag", I32, 0)                                                   \
    X(H, group_sys_flag, "groupSysFlag", I32, 0)

/* 308 */
#define RQ_ROWS_CORRECTION_OFFSET(X, H)                                                            \
    X(H, filter_groups, "filterGroups", STR, 0)                                                    \
    X(H, compare_group, "compareGroup", STR, 1)                                                    \
    X(H, topic, "topic", STR, 1)

/* 314 */
#define RQ_ROWS_CLONE_GROUP_OFFSET(X, H)                                                           \
    X(H, src_group, "srcGroup", STR, 1)                                                            \
    X(H, dest_group, "destGroup", STR, 1)                                                          \
    X(H, topic, "topic", STR, 0)                                                                   \
    X(H, offline, "offline", BOOL, 0)

/* 905 */
#define RQ_ROWS_MIN_BROKER_ID_CHANGE(X, H)                                                         \
    X(H, min_broker_id, "minBrokerId", I64, 0)                                                     \
    X(H, broker_name, "brokerName", STR, 0)                                                        \
    X(H, min_broker_addr, "minBrokerAddr", STR, 0)                                                 \
    X(H, offline_broker_addr, "offlineBrokerAddr", STR, 0)                                         \
    X(H, ha_broker_addr, "haBrokerAddr", STR, 0)

/* 906 */
#define RQ_ROWS_HA_INFO(X, H)                                                                      \
    X(H, master_ha_address, "masterHaAddress", STR, 0)                                             \
    X(H, master_flush_offset, "masterFlushOffset", I64, 0)                                         \
    X(H, master_address, "masterAddress", STR, 0)

/* 323 */
#define RQ_ROWS_RESUME_CHECK(X, H)                                                                 \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, msg_id, "msgId", STR, 0)

/* 2004; the fields are named in the program, not in a class */
#define RQ_ROWS_READ_AHEAD(X, H) X(H, mode, "READ_AHEAD_MODE", STR, 0)

/* 3001 … 3005 */
#define RQ_ROWS_USER(X, H) X(H, username, "username", STR, 0)

/* 200050 */
#define RQ_ROWS_POP(X, H)                                                                          \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, max_msg_nums, "maxMsgNums", I32, 1)                                                       \
    X(H, invisible_time, "invisibleTime", I64, 1)                                                  \
    X(H, poll_time, "pollTime", I64, 1)                                                            \
    X(H, born_time, "bornTime", I64, 0)                                                            \
    X(H, init_mode, "initMode", I32, 1)                                                            \
    X(H, exp_type, "expType", STR, 0)                                                              \
    X(H, exp, "exp", STR, 0)                                                                       \
    X(H, order, "order", BOOL, 0)                                                                  \
    X(H, attempt_id, "attemptId", STR, 0)                                                          \
    X(H, bname, "bname", STR, 0)

/* 200050: answer */
#define RQ_ROWS_POP_RESPONSE(X, H)                                                                 \
    X(H, pop_time, "popTime", I64, 1)                                                              \
    X(H, invisible_time, "invisibleTime", I64, 1)                                                  \
    X(H, revive_qid, "reviveQid", I32, 1)                                                          \
    X(H, rest_num, "restNum", I64, 1)                                                              \
    X(H, start_offset_info, "startOffsetInfo", STR, 0)                                             \
    X(H, msg_offset_info, "msgOffsetInfo", STR, 0)                                                 \
    X(H, order_count_info, "orderCountInfo", STR, 0)

/* 200051, 200053 */
#define RQ_ROWS_ACK(X, H)                                                                          \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, extra_info, "extraInfo", STR, 1)                                                          \
    X(H, offset, "offset", I64, 1)                                                                 \
    X(H, invisible_time, "invisibleTime", I64, 0)                                                  \
    X(H, bname, "bname", STR, 0)

/* 200053: answer */
#define RQ_ROWS_CHANGE_INVISIBLE_RESPONSE(X, H)                                                    \
    X(H, pop_time, "popTime", I64, 1)                                                              \
    X(H, invisible_time, "invisibleTime", I64, 1)                                                  \
    X(H, revive_qid, "reviveQid", I32, 1)

/* 200052, 200054, 200055 */
#define RQ_ROWS_NOTIFICATION(X, H)                                                                 \
    X(H, consumer_group, "consumerGroup", STR, 1)                                                  \
    X(H, topic, "topic", STR, 1)                                                                   \
    X(H, queue_id, "queueId", I32, 1)                                                              \
    X(H, max_msg_nums, "maxMsgNums", I32, 0)                                                       \
    X(H, poll_time, "pollTime", I64, 0)                                                            \
    X(H, born_time, "bornTime", I64, 0)                                                            \
    X(H, order, "order", BOOL, 0)                                                                  \
    X(H, attempt_id, "attemptId", STR, 0)

/* 200054, 200055: answer */
#define RQ_ROWS_NOTIFICATION_RESPONSE(X, H)                                                        \
    X(H, has_msg, "hasMsg", BOOL, 0)                                                               \
    X(H, polling_full, "pollingFull", BOOL, 0)                                                     \
    X(H, polling_num, "pollingNum", I32, 0)

/* Every header with rows of its own. Y(name, rows) */
#define RQ_HEADERS(Y)                                                                              \
    Y(send_response, RQ_ROWS_SEND_RESPONSE)                                                        \
    Y(pull, RQ_ROWS_PULL)                                                                          \
    Y(pull_response, RQ_ROWS_PULL_RESPONSE)                                                        \
    Y(send_back, RQ_ROWS_SEND_BACK)                                                                \
    Y(end_transaction, RQ_ROWS_END_TRANSACTION)                                                    \
    Y(check_transaction, RQ_ROWS_CHECK_TRANSACTION)                                                \
    Y(reply, RQ_ROWS_REPLY)                                                                        \
    Y(recall, RQ_ROWS_RECALL)                                                                      \
    Y(msg_id, RQ_ROWS_MSG_ID)                                                                      \
    Y(query_consumer_offset, RQ_ROWS_QUERY_CONSUMER_OFFSET)                                        \
    Y(update_consumer_offset, RQ_ROWS_UPDATE_CONSUMER_OFFSET)                                      \
    Y(search_offset, RQ_ROWS_SEARCH_OFFSET)                                                        \
    Y(queue, RQ_ROWS_QUEUE)                                                                        \
    Y(offset_response, RQ_ROWS_OFFSET_RESPONSE)                                                    \
    Y(timestamp_response, RQ_ROWS_TIMESTAMP_RESPONSE)                                              \
    Y(heartbeat_response, RQ_ROWS_HEARTBEAT_RESPONSE)                                              \
    Y(unregister_client, RQ_ROWS_UNREGISTER_CLIENT)                                                \
    Y(consumer_group, RQ_ROWS_CONSUMER_GROUP)                                                      \
    Y(producer_group, RQ_ROWS_PRODUCER_GROUP)                                                      \
    Y(query_message, RQ_ROWS_QUERY_MESSAGE)                                                        \
    Y(query_message_response, RQ_ROWS_QUERY_MESSAGE_RESPONSE)                                      \
    Y(view_message, RQ_ROWS_VIEW_MESSAGE)                                                          \
    Y(topic, RQ_ROWS_TOPIC)                                                                        \
    Y(create_topic, RQ_ROWS_CREATE_TOPIC)                                                          \
    Y(register_broker, RQ_ROWS_REGISTER_BROKER)                                                    \
    Y(register_broker_response, RQ_ROWS_REGISTER_BROKER_RESPONSE)                                  \
    Y(broker, RQ_ROWS_BROKER)                                                                      \
    Y(broker_heartbeat, RQ_ROWS_BROKER_HEARTBEAT)                                                  \
    Y(query_data_version_response, RQ_ROWS_QUERY_DATA_VERSION_RESPONSE)                            \
    Y(broker_name, RQ_ROWS_BROKER_NAME)                                                            \
    Y(topic_count_response, RQ_ROWS_TOPIC_COUNT_RESPONSE)                                          \
    Y(kv, RQ_ROWS_KV)                                                                              \
    Y(kv_response, RQ_ROWS_KV_RESPONSE)                                                            \
    Y(cluster, RQ_ROWS_CLUSTER)                                                                    \
    Y(group, RQ_ROWS_GROUP)                                                                        \
    Y(delete_group, RQ_ROWS_DELETE_GROUP)                                                          \
    Y(consume_stats, RQ_ROWS_CONSUME_STATS)                                                        \
    Y(broker_consume_stats, RQ_ROWS_BROKER_CONSUME_STATS)                                          \
    Y(broker_config_response, RQ_ROWS_BROKER_CONFIG_RESPONSE)                                      \
    Y(stats, RQ_ROWS_STATS)                                                                        \
    Y(query_consume_queue, RQ_ROWS_QUERY_CONSUME_QUEUE)                                            \
    Y(reset_offset, RQ_ROWS_RESET_OFFSET)                                                          \
    Y(consumer_status, RQ_ROWS_CONSUMER_STATUS)                                                    \
    Y(running_info, RQ_ROWS_RUNNING_INFO)                                                          \
    Y(consume_directly, RQ_ROWS_CONSUME_DIRECTLY)                                                  \
    Y(correction_offset, RQ_ROWS_CORRECTION_OFFSET)                                                \
    Y(clone_group_offset, RQ_ROWS_CLONE_GROUP_OFFSET)                                              \
    Y(min_broker_id_change, RQ_ROWS_MIN_BROKER_ID_CHANGE)                                          \
    Y(ha_info, RQ_ROWS_HA_INFO)                                                                    \
    Y(resume_check, RQ_ROWS_RESUME_CHECK)                                                          \
    Y(read_ahead, RQ_ROWS_READ_AHEAD)                                                              \
    Y(user, RQ_ROWS_USER)                                                                          \
    Y(pop, RQ_ROWS_POP)                                                                            \
    Y(pop_response, RQ_ROWS_POP_RESPONSE)                                                          \
    Y(ack, RQ_ROWS_ACK)                                                                            \
    Y(change_invisible_response, RQ_ROWS_CHANGE_INVISIBLE_RESPONSE)                                \
    Y(notification, RQ_ROWS_NOTIFICATION)                                                          \
    Y(notification_response, RQ_ROWS_NOTIFICATION_RESPONSE)

typedef struct rq_slice rq_type_STR;
typedef int32_t rq_type_I32;
typedef int64_t rq_type_I64;
typedef bool rq_type_BOOL;

/* struct rq_hdr_<name> and the numbers of its presence bits, RQ_BIT_<name>_<member>. */
#define RQ_MEMBER_(H, member, name, type, required)              rq_type_##type member;
#define RQ_BIT_(H, member, name, type, required)                 RQ_BIT_##H##_##member,
#define RQ_SEND_MEMBER_(H, member, name, letter, type, required) rq_type_##type member;
#define RQ_SEND_BIT_(H, member, name, letter, type, required)    RQ_BIT_##H##_##member,
#define RQ_STRUCT_(name, ROWS)                                                                     \
    struct rq_hdr_##name {                                                                         \
        uint32_t has;                                                                              \
        ROWS(RQ_MEMBER_, name)                                                                     \
    };                                                                                             \
    enum { ROWS(RQ_BIT_, name) RQ_ROW_COUNT_##name };                                              \
    _Static_assert(RQ_ROW_COUNT_##name <= 32, "presence bits");                                    \
    extern const struct rq_fields rq_tab_##name;

struct rq_fields;

struct rq_hdr_send {
    uint32_t has;
    RQ_ROWS_SEND(RQ_SEND_MEMBER_, send)
};
enum { RQ_ROWS_SEND(RQ_SEND_BIT_, send) RQ_ROW_COUNT_send };
extern const struct rq_fields rq_tab_send;    /* long names */
extern const struct rq_fields rq_tab_send_v2; /* letters */

RQ_HEADERS(RQ_STRUCT_)

#endif

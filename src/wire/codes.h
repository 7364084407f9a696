/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Request and response codes: one list each, from which the constants and their names are made.
 * Counterparts: RequestCode, ResponseCode. */
#ifndef RQ_WIRE_CODES_H
#define RQ_WIRE_CODES_H

#include <stdint.h>

/* X(name, number) */
#define RQ_REQUEST_CODES(X)                                                                        \
    X(SEND_MESSAGE, 10)                                                                            \
    X(PULL_MESSAGE, 11)                                                                            \
    X(QUERY_MESSAGE, 12)                                                                           \
    X(QUERY_CONSUMER_OFFSET, 14)                                                                   \
    X(UPDATE_CONSUMER_OFFSET, 15)                                                                  \
    X(UPDATE_AND_CREATE_TOPIC, 17)                                                                 \
    X(UPDATE_AND_CREATE_TOPIC_LIST, 18)                                                            \
    X(GET_ALL_TOPIC_CONFIG, 21)                                                                    \
    X(UPDATE_BROKER_CONFIG, 25)                                                                    \
    X(GET_BROKER_CONFIG, 26)                                                                       \
    X(GET_BROKER_RUNTIME_INFO, 28)                                                                 \
    X(SEARCH_OFFSET_BY_TIMESTAMP, 29)                                                              \
    X(GET_MAX_OFFSET, 30)                                                                          \
    X(GET_MIN_OFFSET, 31)                                                                          \
    X(GET_EARLIEST_MSG_STORETIME, 32)                                                              \
    X(VIEW_MESSAGE_BY_ID, 33)                                                                      \
    X(HEART_BEAT, 34)                                                                              \
    X(UNREGISTER_CLIENT, 35)                                                                       \
    X(CONSUMER_SEND_MSG_BACK, 36)                                                                  \
    X(END_TRANSACTION, 37)                                                                         \
    X(GET_CONSUMER_LIST_BY_GROUP, 38)                                                              \
    X(CHECK_TRANSACTION_STATE, 39)                                                                 \
    X(NOTIFY_CONSUMER_IDS_CHANGED, 40)                                                             \
    X(LOCK_BATCH_MQ, 41)                                                                           \
    X(UNLOCK_BATCH_MQ, 42)                                                                         \
    X(GET_ALL_CONSUMER_OFFSET, 43)                                                                 \
    X(GET_ALL_DELAY_OFFSET, 45)                                                                    \
    X(CHECK_CLIENT_CONFIG, 46)                                                                     \
    X(GET_TIMER_CHECK_POINT, 60)                                                                   \
    X(GET_TIMER_METRICS, 61)                                                                       \
    X(PUT_KV_CONFIG, 100)                                                                          \
    X(GET_KV_CONFIG, 101)                                                                          \
    X(DELETE_KV_CONFIG, 102)                                                                       \
    X(REGISTER_BROKER, 103)                                                                        \
    X(UNREGISTER_BROKER, 104)                                                                      \
    X(GET_ROUTEINFO_BY_TOPIC, 105)                                                                 \
    X(GET_BROKER_CLUSTER_INFO, 106)                                                                \
    X(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 200)                                                    \
    X(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201)                                                       \
    X(GET_TOPIC_STATS_INFO, 202)                                                                   \
    X(GET_CONSUMER_CONNECTION_LIST, 203)                                                           \
    X(GET_PRODUCER_CONNECTION_LIST, 204)                                                           \
    X(WIPE_WRITE_PERM_OF_BROKER, 205)                                                              \
    X(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 206)                                                     \
    X(DELETE_SUBSCRIPTIONGROUP, 207)                                                               \
    X(GET_CONSUME_STATS, 208)                                                                      \
    X(DELETE_TOPIC_IN_BROKER, 215)                                                                 \
    X(DELETE_TOPIC_IN_NAMESRV, 216)                                                                \
    X(REGISTER_TOPIC_IN_NAMESRV, 217)                                                              \
    X(GET_KVLIST_BY_NAMESPACE, 219)                                                                \
    X(RESET_CONSUMER_CLIENT_OFFSET, 220)                                                           \
    X(GET_CONSUMER_STATUS_FROM_CLIENT, 221)                                                        \
    X(INVOKE_BROKER_TO_RESET_OFFSET, 222)                                                          \
    X(INVOKE_BROKER_TO_GET_CONSUMER_STATUS, 223)                                                   \
    X(GET_TOPICS_BY_CLUSTER, 224)                                                                  \
    X(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, 225)                                               \
    X(QUERY_TOPIC_CONSUME_BY_WHO, 300)                                                             \
    X(QUERY_CONSUME_TIME_SPAN, 303)                                                                \
    X(GET_SYSTEM_TOPIC_LIST_FROM_NS, 304)                                                          \
    X(GET_SYSTEM_TOPIC_LIST_FROM_BROKER, 305)                                                      \
    X(CLEAN_EXPIRED_CONSUMEQUEUE, 306)                                                             \
    X(GET_CONSUMER_RUNNING_INFO, 307)                                                              \
    X(QUERY_CORRECTION_OFFSET, 308)                                                                \
    X(CONSUME_MESSAGE_DIRECTLY, 309)                                                               \
    X(SEND_MESSAGE_V2, 310)                                                                        \
    X(GET_UNIT_TOPIC_LIST, 311)                                                                    \
    X(GET_HAS_UNIT_SUB_TOPIC_LIST, 312)                                                            \
    X(GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, 313)                                                     \
    X(CLONE_GROUP_OFFSET, 314)                                                                     \
    X(VIEW_BROKER_STATS_DATA, 315)                                                                 \
    X(CLEAN_UNUSED_TOPIC, 316)                                                                     \
    X(GET_BROKER_CONSUME_STATS, 317)                                                               \
    X(UPDATE_NAMESRV_CONFIG, 318)                                                                  \
    X(GET_NAMESRV_CONFIG, 319)                                                                     \
    X(SEND_BATCH_MESSAGE, 320)                                                                     \
    X(QUERY_CONSUME_QUEUE, 321)                                                                    \
    X(QUERY_DATA_VERSION, 322)                                                                     \
    X(RESUME_CHECK_HALF_MESSAGE, 323)                                                              \
    X(SEND_REPLY_MESSAGE, 324)                                                                     \
    X(SEND_REPLY_MESSAGE_V2, 325)                                                                  \
    X(PUSH_REPLY_MESSAGE_TO_CLIENT, 326)                                                           \
    X(ADD_WRITE_PERM_OF_BROKER, 327)                                                               \
    X(GET_ALL_PRODUCER_INFO, 328)                                                                  \
    X(DELETE_EXPIRED_COMMITLOG, 329)                                                               \
    X(QUERY_TOPICS_BY_CONSUMER, 343)                                                               \
    X(QUERY_SUBSCRIPTION_BY_CONSUMER, 345)                                                         \
    X(GET_TOPIC_CONFIG, 351)                                                                       \
    X(GET_SUBSCRIPTIONGROUP_CONFIG, 352)                                                           \
    X(UPDATE_AND_GET_GROUP_FORBIDDEN, 353)                                                         \
    X(CHECK_ROCKSDB_CQ_WRITE_PROGRESS, 354)                                                        \
    X(EXPORT_ROCKSDB_CONFIG_TO_JSON, 355)                                                          \
    X(LITE_PULL_MESSAGE, 361)                                                                      \
    X(RECALL_MESSAGE, 370)                                                                         \
    X(QUERY_ASSIGNMENT, 400)                                                                       \
    X(SET_MESSAGE_REQUEST_MODE, 401)                                                               \
    X(GET_ALL_MESSAGE_REQUEST_MODE, 402)                                                           \
    X(UPDATE_AND_CREATE_STATIC_TOPIC, 513)                                                         \
    X(GET_BROKER_MEMBER_GROUP, 901)                                                                \
    X(BROKER_HEARTBEAT, 904)                                                                       \
    X(NOTIFY_MIN_BROKER_ID_CHANGE, 905)                                                            \
    X(EXCHANGE_BROKER_HA_INFO, 906)                                                                \
    X(GET_BROKER_HA_STATUS, 907)                                                                   \
    X(UPDATE_COLD_DATA_FLOW_CTR_CONFIG, 2001)                                                      \
    X(REMOVE_COLD_DATA_FLOW_CTR_CONFIG, 2002)                                                      \
    X(GET_COLD_DATA_FLOW_CTR_INFO, 2003)                                                           \
    X(SET_COMMITLOG_READ_MODE, 2004)                                                               \
    X(RESET_MASTER_FLUSH_OFFSET, 908)                                                              \
    X(GET_BROKER_EPOCH_CACHE, 1007)                                                                \
    X(NOTIFY_BROKER_ROLE_CHANGED, 1008)                                                            \
    X(AUTH_CREATE_USER, 3001)                                                                      \
    X(AUTH_UPDATE_USER, 3002)                                                                      \
    X(AUTH_DELETE_USER, 3003)                                                                      \
    X(AUTH_GET_USER, 3004)                                                                         \
    X(AUTH_LIST_USER, 3005)                                                                        \
    X(AUTH_CREATE_ACL, 3006)                                                                       \
    X(AUTH_UPDATE_ACL, 3007)                                                                       \
    X(AUTH_DELETE_ACL, 3008)                                                                       \
    X(AUTH_GET_ACL, 3009)                                                                          \
    X(AUTH_LIST_ACL, 3010)                                                                         \
    X(POP_MESSAGE, 200050)                                                                         \
    X(ACK_MESSAGE, 200051)                                                                         \
    X(PEEK_MESSAGE, 200052)                                                                        \
    X(CHANGE_MESSAGE_INVISIBLETIME, 200053)                                                        \
    X(NOTIFICATION, 200054)                                                                        \
    X(POLLING_INFO, 200055)                                                                        \
    X(POP_ROLLBACK, 200056)                                                                        \
    X(BATCH_ACK_MESSAGE, 200151)

#define RQ_RESPONSE_CODES(X)                                                                       \
    X(SUCCESS, 0)                                                                                  \
    X(SYSTEM_ERROR, 1)                                                                             \
    X(SYSTEM_BUSY, 2)                                                                              \
    X(REQUEST_CODE_NOT_SUPPORTED, 3)                                                               \
    X(TRANSACTION_FAILED, 4)                                                                       \
    X(FLUSH_DISK_TIMEOUT, 10)                                                                      \
    X(SLAVE_NOT_AVAILABLE, 11)                                                                     \
    X(FLUSH_SLAVE_TIMEOUT, 12)                                                                     \
    X(MESSAGE_ILLEGAL, 13)                                                                         \
    X(SERVICE_NOT_AVAILABLE, 14)                                                                   \
    X(VERSION_NOT_SUPPORTED, 15)                                                                   \
    X(NO_PERMISSION, 16)                                                                           \
    X(TOPIC_NOT_EXIST, 17)                                                                         \
    X(TOPIC_EXIST_ALREADY, 18)                                                                     \
    X(PULL_NOT_FOUND, 19)                                                                          \
    X(PULL_RETRY_IMMEDIATELY, 20)                                                                  \
    X(PULL_OFFSET_MOVED, 21)                                                                       \
    X(QUERY_NOT_FOUND, 22)                                                                         \
    X(SUBSCRIPTION_PARSE_FAILED, 23)                                                               \
    X(SUBSCRIPTION_NOT_EXIST, 24)                                                                  \
    X(SUBSCRIPTION_NOT_LATEST, 25)                                                                 \
    X(SUBSCRIPTION_GROUP_NOT_EXIST, 26)                                                            \
    X(FILTER_DATA_NOT_EXIST, 27)                                                                   \
    X(FILTER_DATA_NOT_LATEST, 28)                                                                  \
    X(INVALID_PARAMETER, 29)                                                                       \
    X(TRANSACTION_SHOULD_COMMIT, 200)                                                              \
    X(TRANSACTION_SHOULD_ROLLBACK, 201)                                                            \
    X(TRANSACTION_STATE_UNKNOW, 202)                                                               \
    X(TRANSACTION_STATE_GROUP_WRONG, 203)                                                          \
    X(NO_BUYER_ID, 204)                                                                            \
    X(NOT_IN_CURRENT_UNIT, 205)                                                                    \
    X(CONSUMER_NOT_ONLINE, 206)                                                                    \
    X(CONSUME_MSG_TIMEOUT, 207)                                                                    \
    X(NO_MESSAGE, 208)                                                                             \
    X(POLLING_FULL, 209)                                                                           \
    X(POLLING_TIMEOUT, 210)                                                                        \
    X(BROKER_NOT_EXIST, 211)                                                                       \
    X(FLOW_CONTROL, 215)                                                                           \
    X(NOT_LEADER_FOR_QUEUE, 501)                                                                   \
    X(ILLEGAL_OPERATION, 604)                                                                      \
    X(GO_AWAY, 1500)                                                                               \
    X(USER_NOT_EXIST, 3001)                                                                        \
    X(POLICY_NOT_EXIST, 3002)

#define RQ_REQUEST_CODE_(name, number)  RQ_REQ_##name = (number),
#define RQ_RESPONSE_CODE_(name, number) RQ_RESP_##name = (number),
enum rq_request_code { RQ_REQUEST_CODES(RQ_REQUEST_CODE_) };
enum rq_response_code { RQ_RESPONSE_CODES(RQ_RESPONSE_CODE_) };
#undef RQ_REQUEST_CODE_
#undef RQ_RESPONSE_CODE_

/* "SEND_MESSAGE_V2", "TOPIC_NOT_EXIST"; "UNKNOWN" for a number that is none. Static. */
const char *rq_request_name(int32_t code);
const char *rq_response_name(int32_t code);

#endif

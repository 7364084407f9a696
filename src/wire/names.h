/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Names of topics and groups: which are allowed, which belong to the system, and names made from
 * others. Pure functions, any thread. Counterparts: TopicValidator, Validators, MixAll, KeyBuilder.
 */
#ifndef RQ_WIRE_NAMES_H
#define RQ_WIRE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include <rmq/error.h>

#include "base/slice.h"

#define RQ_TOPIC_MAX 127
#define RQ_GROUP_MAX 255

#define RQ_RETRY_PREFIX     "%RETRY%"
#define RQ_DLQ_PREFIX       "%DLQ%"
#define RQ_LMQ_PREFIX       "%LMQ%"
#define RQ_SYS_TOPIC_PREFIX "rmq_sys_"
#define RQ_SYS_GROUP_PREFIX "CID_RMQ_SYS_"
#define RQ_REPLY_TOPIC_END  "_REPLY_TOPIC"

#define RQ_TOPIC_DEFAULT      "TBW102" /* template for automatic creation */
#define RQ_TOPIC_SCHEDULE     "SCHEDULE_TOPIC_XXXX"
#define RQ_TOPIC_BENCHMARK    "BenchmarkTest"
#define RQ_TOPIC_HALF         "RMQ_SYS_TRANS_HALF_TOPIC"
#define RQ_TOPIC_OP_HALF      "RMQ_SYS_TRANS_OP_HALF_TOPIC"
#define RQ_TOPIC_CHECK_MAX    "TRANS_CHECK_MAX_TIME_TOPIC"
#define RQ_TOPIC_TRACE        "RMQ_SYS_TRACE_TOPIC"
#define RQ_TOPIC_SELF_TEST    "SELF_TEST_TOPIC"
#define RQ_TOPIC_OFFSET_MOVED "OFFSET_MOVED_EVENT"
#define RQ_TOPIC_CHECKPOINT   "CHECKPOINT_TOPIC"
#define RQ_TOPIC_TIMER        "rmq_sys_wheel_timer"

/* whose offsets tell how far half and op topic are done */
#define RQ_GROUP_TRANSACTION "CID_RMQ_SYS_TRANS"

#define RQ_NAME_MAX 320 /* room for a made name: longest prefix, longest group, NUL */

/* 1 to 127 characters of A-Z a-z 0-9 % | _ -. Errors: RMQ_ERR_INVALID, naming the character or the
 * length. */
rmq_status rq_topic_check(struct rq_slice topic, rmq_error **err);

/* Names of brokers and clusters, which topics are named after: as topics, and with dots between
 * parts. what: for the message. */
#define RQ_SERVER_NAME_MAX 96
rmq_status rq_server_name_check(const char *what, struct rq_slice name, rmq_error **err);

/* 1 to 255 of the same characters, and not DEFAULT_PRODUCER or DEFAULT_CONSUMER. */
rmq_status rq_group_check(struct rq_slice group, rmq_error **err);

bool rq_topic_is_system(struct rq_slice topic); /* may not be created by users, never namespaced */
bool rq_topic_is_forbidden(struct rq_slice topic); /* clients may not send to it */
bool rq_topic_is_retry(struct rq_slice topic);     /* %RETRY%… */
bool rq_group_is_system(struct rq_slice group);

/* Writes %RETRY% or %DLQ% and the group, with a NUL; returns the length, 0 when it does not fit. */
size_t rq_topic_of_retry(struct rq_slice group, char out[RQ_NAME_MAX]);
size_t rq_topic_of_dlq(struct rq_slice group, char out[RQ_NAME_MAX]);

/* Part behind the prefix; the name itself when it has none. */
struct rq_slice rq_topic_without_prefix(struct rq_slice topic);

#endif

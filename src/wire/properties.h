/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The property string of a message: name 0x01 value 0x02, repeated, UTF-8, no escaping. Reader,
 * finder, writer, and the names that RocketMQ reserves. Pure functions, any thread. Counterparts:
 * MessageDecoder.string2messageProperties, MessageConst.
 */
#ifndef RQ_WIRE_PROPERTIES_H
#define RQ_WIRE_PROPERTIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/slice.h"

#define RQ_PROP_NAME_END  '\x01'
#define RQ_PROP_VALUE_END '\x02'

/* The names as literals. */
#define RQ_PROP_KEYS                       "KEYS"
#define RQ_PROP_TAGS                       "TAGS"
#define RQ_PROP_WAIT                       "WAIT"
#define RQ_PROP_DELAY                      "DELAY"
#define RQ_PROP_RETRY_TOPIC                "RETRY_TOPIC"
#define RQ_PROP_REAL_TOPIC                 "REAL_TOPIC"
#define RQ_PROP_REAL_QID                   "REAL_QID"
#define RQ_PROP_UNIQ_KEY                   "UNIQ_KEY"
#define RQ_PROP_TRAN_MSG                   "TRAN_MSG"
#define RQ_PROP_PGROUP                     "PGROUP"
#define RQ_PROP_TRAN_PREPARED_QUEUE_OFFSET "TRAN_PREPARED_QUEUE_OFFSET"
#define RQ_PROP_TRANSACTION_CHECK_TIMES    "TRANSACTION_CHECK_TIMES"
#define RQ_PROP_CHECK_IMMUNITY_TIME        "CHECK_IMMUNITY_TIME_IN_SECONDS"
#define RQ_PROP_TRANSACTION_ID             "__transactionId__"
#define RQ_PROP_MIN_OFFSET                 "MIN_OFFSET"
#define RQ_PROP_MAX_OFFSET                 "MAX_OFFSET"
#define RQ_PROP_RECONSUME_TIME             "RECONSUME_TIME"
#define RQ_PROP_MAX_RECONSUME_TIMES        "MAX_RECONSUME_TIMES"
#define RQ_PROP_ORIGIN_MESSAGE_ID          "ORIGIN_MESSAGE_ID"
#define RQ_PROP_CONSUME_START_TIME         "CONSUME_START_TIME"
#define RQ_PROP_MSG_REGION                 "MSG_REGION"
#define RQ_PROP_TRACE_ON                   "TRACE_ON"
#define RQ_PROP_CLUSTER                    "CLUSTER"
#define RQ_PROP_MSG_TYPE                   "MSG_TYPE"
#define RQ_PROP_CORRELATION_ID             "CORRELATION_ID"
#define RQ_PROP_REPLY_TO_CLIENT            "REPLY_TO_CLIENT"
#define RQ_PROP_TTL                        "TTL"
#define RQ_PROP_PUSH_REPLY_TIME            "PUSH_REPLY_TIME"
#define RQ_PROP_ARRIVE_TIME                "ARRIVE_TIME"
#define RQ_PROP_INSTANCE_ID                "INSTANCE_ID"
#define RQ_PROP_BUYER_ID                   "BUYER_ID"
#define RQ_PROP_TRANSFER_FLAG              "TRANSFER_FLAG"
#define RQ_PROP_CORRECTION_FLAG            "CORRECTION_FLAG"
#define RQ_PROP_MQ2_FLAG                   "MQ2_FLAG"
#define RQ_PROP_EXTEND_UNIQ_INFO           "EXTEND_UNIQ_INFO"
#define RQ_PROP_DUP_INFO                   "DUP_INFO"
#define RQ_PROP_INNER_NUM                  "INNER_NUM"
#define RQ_PROP_INNER_BASE                 "INNER_BASE"
#define RQ_PROP_INNER_MULTI_DISPATCH       "INNER_MULTI_DISPATCH"
#define RQ_PROP_INNER_MULTI_QUEUE_OFFSET   "INNER_MULTI_QUEUE_OFFSET"
#define RQ_PROP_POP_CK                     "POP_CK"
#define RQ_PROP_POP_CK_OFFSET              "POP_CK_OFFSET"
#define RQ_PROP_FIRST_POP_TIME             "1ST_POP_TIME"
#define RQ_PROP_SHARDING_KEY               "__SHARDINGKEY"
#define RQ_PROP_TIMER_DELAY_SEC            "TIMER_DELAY_SEC"
#define RQ_PROP_TIMER_DELAY_MS             "TIMER_DELAY_MS"
#define RQ_PROP_TIMER_DELIVER_MS           "TIMER_DELIVER_MS"
#define RQ_PROP_TIMER_OUT_MS               "TIMER_OUT_MS"
#define RQ_PROP_TIMER_ENQUEUE_MS           "TIMER_ENQUEUE_MS"
#define RQ_PROP_TIMER_DEQUEUE_MS           "TIMER_DEQUEUE_MS"
#define RQ_PROP_TIMER_ROLL_TIMES           "TIMER_ROLL_TIMES"
#define RQ_PROP_TIMER_DEL_UNIQKEY          "TIMER_DEL_UNIQKEY"
#define RQ_PROP_TIMER_DELAY_LEVEL          "TIMER_DELAY_LEVEL"
#define RQ_PROP_BORN_HOST                  "__BORNHOST"
#define RQ_PROP_BORN_TIMESTAMP             "BORN_TIMESTAMP"
#define RQ_PROP_DLQ_ORIGIN_TOPIC           "DLQ_ORIGIN_TOPIC"
#define RQ_PROP_DLQ_ORIGIN_MESSAGE_ID      "DLQ_ORIGIN_MESSAGE_ID"
#define RQ_PROP_CRC32                      "__CRC32#"

/* X(literal, reserved: a user may not set it) */
#define RQ_PROP_NAMES(X)                                                                           \
    X(RQ_PROP_KEYS, 1)                                                                             \
    X(RQ_PROP_TAGS, 1)                                                                             \
    X(RQ_PROP_WAIT, 1)                                                                             \
    X(RQ_PROP_DELAY, 1)                                                                            \
    X(RQ_PROP_RETRY_TOPIC, 1)                                                                      \
    X(RQ_PROP_REAL_TOPIC, 1)                                                                       \
    X(RQ_PROP_REAL_QID, 1)                                                                         \
    X(RQ_PROP_UNIQ_KEY, 1)                                                                         \
    X(RQ_PROP_TRAN_MSG, 1)                                                                         \
    X(RQ_PROP_PGROUP, 1)                                                                           \
    X(RQ_PROP_TRAN_PREPARED_QUEUE_OFFSET, 1)                                                       \
    X(RQ_PROP_TRANSACTION_CHECK_TIMES, 0)                                                          \
    X(RQ_PROP_CHECK_IMMUNITY_TIME, 0)                                                              \
    X(RQ_PROP_TRANSACTION_ID, 0)                                                                   \
    X(RQ_PROP_MIN_OFFSET, 1)                                                                       \
    X(RQ_PROP_MAX_OFFSET, 1)                                                                       \
    X(RQ_PROP_RECONSUME_TIME, 1)                                                                   \
    X(RQ_PROP_MAX_RECONSUME_TIMES, 1)                                                              \
    X(RQ_PROP_ORIGIN_MESSAGE_ID, 1)                                                                \
    X(RQ_PROP_CONSUME_START_TIME, 1)                                                               \
    X(RQ_PROP_MSG_REGION, 1)                                                                       \
    X(RQ_PROP_TRACE_ON, 1)                                                                         \
    X(RQ_PROP_CLUSTER, 1)                                                                          \
    X(RQ_PROP_MSG_TYPE, 1)                                                                         \
    X(RQ_PROP_CORRELATION_ID, 1)                                                                   \
    X(RQ_PROP_REPLY_TO_CLIENT, 1)                                                                  \
    X(RQ_PROP_TTL, 1)                                                                              \
    X(RQ_PROP_PUSH_REPLY_TIME, 1)                                                                  \
    X(RQ_PROP_ARRIVE_TIME, 1)                                                                      \
    X(RQ_PROP_INSTANCE_ID, 1)                                                                      \
    X(RQ_PROP_BUYER_ID, 1)                                                                         \
    X(RQ_PROP_TRANSFER_FLAG, 1)                                                                    \
    X(RQ_PROP_CORRECTION_FLAG, 1)                                                                  \
    X(RQ_PROP_MQ2_FLAG, 1)                                                                         \
    X(RQ_PROP_EXTEND_UNIQ_INFO, 1)                                                                 \
    X(RQ_PROP_DUP_INFO, 1)                                                                         \
    X(RQ_PROP_INNER_NUM, 0)                                                                        \
    X(RQ_PROP_INNER_BASE, 0)                                                                       \
    X(RQ_PROP_INNER_MULTI_DISPATCH, 1)                                                             \
    X(RQ_PROP_INNER_MULTI_QUEUE_OFFSET, 1)                                                         \
    X(RQ_PROP_POP_CK, 1)                                                                           \
    X(RQ_PROP_POP_CK_OFFSET, 1)                                                                    \
    X(RQ_PROP_FIRST_POP_TIME, 1)                                                                   \
    X(RQ_PROP_SHARDING_KEY, 0)                                                                     \
    X(RQ_PROP_TIMER_DELAY_SEC, 1)                                                                  \
    X(RQ_PROP_TIMER_DELAY_MS, 1)                                                                   \
    X(RQ_PROP_TIMER_DELIVER_MS, 1)                                                                 \
    X(RQ_PROP_TIMER_OUT_MS, 1)                                                                     \
    X(RQ_PROP_TIMER_ENQUEUE_MS, 1)                                                                 \
    X(RQ_PROP_TIMER_DEQUEUE_MS, 1)                                                                 \
    X(RQ_PROP_TIMER_ROLL_TIMES, 1)                                                                 \
    X(RQ_PROP_TIMER_DEL_UNIQKEY, 1)                                                                \
    X(RQ_PROP_TIMER_DELAY_LEVEL, 1)                                                                \
    X(RQ_PROP_BORN_HOST, 1)                                                                        \
    X(RQ_PROP_BORN_TIMESTAMP, 1)                                                                   \
    X(RQ_PROP_DLQ_ORIGIN_TOPIC, 1)                                                                 \
    X(RQ_PROP_DLQ_ORIGIN_MESSAGE_ID, 1)                                                            \
    X(RQ_PROP_CRC32, 1)

struct rq_prop {
    struct rq_slice name;
    struct rq_slice value;
};

/* Next pair of a property string, whose rest is moved along; false at the end. Pieces without a
 * name, without a value or without 0x01 are skipped, as Java does. A value may hold 0x01. */
bool rq_props_next(struct rq_slice *rest, struct rq_prop *out);

/* Value of a property; p == NULL when absent. The last duplicate wins, as in Java. */
struct rq_slice rq_props_get(struct rq_slice props, const char *name);

/* Decimal value of a property, def when absent or no number. */
int64_t rq_props_get_i64(struct rq_slice props, const char *name, int64_t def);

/* Appends name 0x01 value 0x02; when the buffer part from start on is not empty and lacks the last
 * 0x02, that is put in first. */
void rq_props_add(struct rq_buf *out, size_t start, struct rq_slice name, struct rq_slice value);
void rq_props_add_str(struct rq_buf *out, size_t start, const char *name, struct rq_slice value);
void rq_props_add_i64(struct rq_buf *out, size_t start, const char *name, int64_t value);

/* Bytes that one pair takes. */
static inline size_t rq_props_pair_size(struct rq_slice name, struct rq_slice value)
{
    return name.n + value.n + 2;
}

/* Appends every pair of props but those with one of the names. */
void rq_props_copy_without(struct rq_buf *out, size_t start, struct rq_slice props,
                           const char *const *names, size_t count);

/* Whether RocketMQ keeps a name for itself. */
bool rq_props_reserved(struct rq_slice name);

/* Whether a user may set the pair: name and value not blank, name not reserved, no 0x01 or 0x02.
 * Errors: RMQ_ERR_INVALID. */
rmq_status rq_props_check(struct rq_slice name, struct rq_slice value, rmq_error **err);

#endif

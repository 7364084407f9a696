/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Texts of POP consumption: the handle by which a message is acknowledged (the "extra info"), the
 * lists of offsets in the headers of an answer, names of retry topics, and the records of the
 * revive topic. Pure functions, any thread. Counterparts: ExtraInfoUtil, KeyBuilder, PopCheckPoint,
 * AckMsg, BatchAckMsg, BatchAck.
 */
#ifndef RQ_WIRE_POP_H
#define RQ_WIRE_POP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "wire/names.h"

#define RQ_POP_MAX           32  /* most messages of one pop */
#define RQ_POP_ORDER_QUEUE   999 /* revive queue id of an ordered pop: there is no checkpoint */
#define RQ_POP_REVIVE_TOPIC  "rmq_sys_REVIVE_LOG_" /* and the cluster's name */
#define RQ_POP_REVIVE_GROUP  "CID_RMQ_SYS_REVIVE_GROUP"
#define RQ_POP_TAG_CK        "ck"
#define RQ_POP_TAG_ACK       "ack"
#define RQ_POP_TAG_BATCH_ACK "bAck"
#define RQ_POP_TOPIC_ROOM    1024 /* of a retry topic's name: prefix, group, topic, NUL */

/* Where messages are looked for when a group has no offset yet. */
enum rq_pop_init { RQ_POP_FROM_MIN = 0, RQ_POP_FROM_MAX = 1 };

/* ---- retry topics ---- */

/* "%RETRY%group_topic"; the length, 0 when it does not fit. */
size_t rq_pop_retry_topic(struct rq_slice topic, struct rq_slice group,
                          char out[RQ_POP_TOPIC_ROOM]);

/* The topic of which this is the group's retry topic, of either version; false: it is none. */
bool rq_pop_normal_topic(struct rq_slice retry, struct rq_slice group, struct rq_slice *out);

/* '0' a normal topic, '1' a retry topic, '2' one of version 2 ("%RETRY%group+topic"). */
char rq_pop_retry_mark(struct rq_slice topic);

/* The topic that a mark makes of a normal one; false: no such mark, or no room. */
bool rq_pop_marked_topic(struct rq_slice topic, struct rq_slice group, char mark,
                         char room[RQ_POP_TOPIC_ROOM], struct rq_slice *out);

/* ---- handles ---- */

/* Whether a peer's time or offset is one: not negative, and small enough for sums of two. */
static inline bool rq_pop_number_ok(int64_t value)
{
    return value >= 0 && value <= INT64_MAX / 4;
}

struct rq_pop_handle {
    int64_t start_offset; /* of the checkpoint */
    int64_t pop_time_ms;
    int64_t invisible_ms;
    int32_t revive_qid;
    char retry; /* rq_pop_retry_mark */
    struct rq_slice broker_name;
    int32_t queue_id; /* -1 = the handle does not say */
    int64_t offset;   /* of the message; -1 = the handle does not say */
};

bool rq_pop_handle_parse(struct rq_slice text, struct rq_pop_handle *out);
void rq_pop_handle_write(const struct rq_pop_handle *handle, struct rq_buf *out);

/* ---- headers of an answer ---- */

/* Appends "mark queueId startOffset" and "mark queueId o1,o2", pieces separated by ';'. */
void rq_pop_add_start(struct rq_buf *out, char mark, int32_t queue_id, int64_t start_offset);
void rq_pop_add_offsets(struct rq_buf *out, char mark, int32_t queue_id, const int64_t *offsets,
                        size_t count);
/* Appends "mark qo<queueId>%<offset> times", and "mark queueId times". */
void rq_pop_add_order_count(struct rq_buf *out, char mark, int32_t queue_id, int64_t offset,
                            int32_t times);
void rq_pop_add_order_least(struct rq_buf *out, char mark, int32_t queue_id, int32_t times);

/* Start offset of a queue; false when the text does not have it. */
bool rq_pop_find_start(struct rq_slice text, char mark, int32_t queue_id, int64_t *out);

/* Consumed times of one message of an ordered pop; 0 when the text does not tell. */
int32_t rq_pop_find_order_count(struct rq_slice text, char mark, int32_t queue_id, int64_t offset);

/* ---- records of the revive topic ---- */

struct rq_pop_checkpoint {
    struct rq_slice topic;
    struct rq_slice group;
    struct rq_slice broker_name;
    int32_t queue_id;
    int64_t start_offset;
    int64_t pop_time_ms;
    int64_t invisible_ms;
    uint32_t acked; /* a bit per message */
    uint8_t count;
    int32_t diffs[RQ_POP_MAX]; /* offset of each message - start_offset */
};

void rq_pop_checkpoint_write(const struct rq_pop_checkpoint *checkpoint, struct rq_buf *out);

/* Texts point into json. RMQ_ERR_PROTOCOL: a member is missing or out of range. */
rmq_status rq_pop_checkpoint_read(const cJSON *json, struct rq_pop_checkpoint *out);

/* An acknowledgement of one message, or (count > 0) of several. */
struct rq_pop_ack {
    struct rq_slice topic;
    struct rq_slice group;
    struct rq_slice broker_name;
    int32_t queue_id;
    int64_t start_offset;
    int64_t pop_time_ms;
    int64_t offset; /* count 0 */
    size_t count;
    const int64_t *offsets;
};

void rq_pop_ack_write(const struct rq_pop_ack *ack, struct rq_buf *out);

/* offsets and count stay empty: those of a batch are the children of rq_pop_ack_offsets, numbers if
 * all is well. NULL: it acknowledges a single message. */
rmq_status rq_pop_ack_read(const cJSON *json, struct rq_pop_ack *out);
const cJSON *rq_pop_ack_offsets(const cJSON *json);

/* ---- body of BATCH_ACK_MESSAGE ---- */

/* One of "acks": messages of one pop from one queue. */
struct rq_pop_batch_ack {
    struct rq_slice group;
    struct rq_slice topic; /* the normal one */
    char retry;
    int64_t start_offset;
    int32_t queue_id;
    int32_t revive_qid;
    int64_t pop_time_ms;
    int64_t invisible_ms;
    struct rq_slice bits; /* bit i: the message at start_offset + i, low bit first */
};

void rq_pop_batch_ack_write(const struct rq_pop_batch_ack *ack, struct rq_buf *out);

/* Texts point into json, out->bits into bits, which the caller has made and frees. */
rmq_status rq_pop_batch_ack_read(const cJSON *json, struct rq_buf *bits,
                                 struct rq_pop_batch_ack *out);

#endif

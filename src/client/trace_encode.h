/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Records of the message trace as text: fields end with 0x01, records with 0x02. Pure functions,
 * any thread. Counterpart: TraceDataEncoder.
 */
#ifndef RQ_CLIENT_TRACE_ENCODE_H
#define RQ_CLIENT_TRACE_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* What kind a message is: ordinals of MessageType. */
enum rq_trace_kind {
    RQ_TRACE_NORMAL = 0,
    RQ_TRACE_HALF = 1,
    RQ_TRACE_COMMIT = 2,
    RQ_TRACE_DELAY = 3,
    RQ_TRACE_ORDER = 4
};

/* What a consumed message came to: ordinals of ConsumeReturnType. */
enum rq_trace_return {
    RQ_TRACE_RETURN_SUCCESS = 0,
    RQ_TRACE_RETURN_TIME_OUT = 1,
    RQ_TRACE_RETURN_EXCEPTION = 2,
    RQ_TRACE_RETURN_NULL = 3,
    RQ_TRACE_RETURN_FAILED = 4
};

/* "Pub": a send that was answered. Times are ms, the first since 1970. */
struct rq_trace_pub {
    int64_t time_ms;
    struct rq_slice region;
    struct rq_slice group;
    struct rq_slice topic;
    struct rq_slice msg_id;
    struct rq_slice tags;
    struct rq_slice keys;
    struct rq_slice store_host;
    size_t body_size;
    int64_t cost_ms;
    enum rq_trace_kind kind;
    struct rq_slice offset_msg_id;
    bool success;
};
void rq_trace_write_pub(struct rq_buf *out, const struct rq_trace_pub *record);

/* "SubBefore" and "SubAfter": one message of a listener call. */
struct rq_trace_sub {
    int64_t time_ms;
    struct rq_slice region;
    struct rq_slice group;
    struct rq_slice request_id; /* the same in both records */
    struct rq_slice msg_id;
    struct rq_slice keys;
    int32_t retries;              /* before */
    int64_t cost_ms;              /* after */
    bool success;                 /* after */
    enum rq_trace_return outcome; /* after */
};
void rq_trace_write_before(struct rq_buf *out, const struct rq_trace_sub *record);
void rq_trace_write_after(struct rq_buf *out, const struct rq_trace_sub *record);

/* "EndTransaction": commit or roll-back of a prepared message. */
struct rq_trace_end {
    int64_t time_ms;
    struct rq_slice region;
    struct rq_slice group;
    struct rq_slice topic;
    struct rq_slice msg_id;
    struct rq_slice tags;
    struct rq_slice keys;
    struct rq_slice store_host;
    enum rq_trace_kind kind;
    struct rq_slice transaction_id;
    struct rq_slice state; /* "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW" */
    bool from_check;
};
void rq_trace_write_end(struct rq_buf *out, const struct rq_trace_end *record);

/* Appends each word of words (blanks between) that keys does not hold yet; keys are separated by
 * blanks, too. */
void rq_trace_add_keys(struct rq_buf *keys, struct rq_slice words);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Inner side of rmq_send_result. Immutable once made. Counterpart: SendResult. */
#ifndef RQ_CLIENT_SEND_RESULT_H
#define RQ_CLIENT_SEND_RESULT_H

#include <rmq/producer.h>

#include "base/slice.h"

struct rmq_send_result {
    rmq_send_status status;
    int32_t queue_id;
    int64_t queue_offset;
    const char *msg_id; /* texts: behind the struct for one of its own, else the send's */
    const char *offset_msg_id;
    const char *topic;
    const char *broker_name;
    const char *recall_handle; /* "" = none */
};

/* A copy in one piece; NULL when out of memory. */
rmq_send_result *rq_send_result_copy(const rmq_send_result *from);

/* Status of an answer's code; false when it is an error code. */
bool rq_send_status_of(int32_t code, rmq_send_status *out);

#endif

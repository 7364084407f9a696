/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Handles by which a message for a later time is taken back: base64 (URL alphabet) of "v1 topic
 * broker time id". Pure functions, any thread. Counterpart: RecallMessageHandle. */
#ifndef RQ_WIRE_RECALL_H
#define RQ_WIRE_RECALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct rq_recall_handle {
    struct rq_slice topic;
    struct rq_slice broker_name;
    int64_t time_ms; /* of delivery */
    struct rq_slice message_id;
};

void rq_recall_handle_write(const struct rq_recall_handle *handle, struct rq_buf *out);

/* The parts lie in text, which is the caller's. false: no such handle. */
bool rq_recall_handle_read(struct rq_slice handle, struct rq_buf *text,
                           struct rq_recall_handle *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Answers to sends: at once, or by the flush thread when the message must be on disk first.
 * Counterpart: SendMessageProcessor.handlePutMessageResult.
 */
#ifndef RQ_BROKER_SEND_ANSWER_H
#define RQ_BROKER_SEND_ANSWER_H

#include <stdint.h>

#include "broker/broker.h"

void rq_send_answer_one(const struct rq_request *request, const struct rq_store_put *put,
                        int32_t queue_id, struct rq_slice unique_key,
                        struct rq_slice recall_handle);
void rq_send_answer_batch(const struct rq_request *request, const struct rq_store_put *put,
                          int32_t queue_id, struct rq_slice unique_key, const int64_t *offsets,
                          size_t count);

/* For requests whose answer is a code only (send back). */
void rq_put_answer_code(const struct rq_request *request, const struct rq_store_put *put);

#endif

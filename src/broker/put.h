/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Storing a message with what the broker does to it first: delay levels. Any thread. Counterparts:
 * HookUtils, PutMessageHook. */
#ifndef RQ_BROKER_PUT_H
#define RQ_BROKER_PUT_H

#include <stdint.h>

#include "store/store.h"
#include "wire/message.h"

struct rmq_broker;

/* Appends; a message with a delay level goes to the schedule topic. msg's topic, queue and
 * properties may be changed. The caller dispatches. */
enum rq_put_status rq_broker_put(struct rmq_broker *broker, struct rq_msg *msg, int delay_level,
                                 struct rq_store_put *out);

/* Response code of a put status, and a remark (NULL = none). */
int32_t rq_put_response_code(const struct rq_store_put *put, const char **remark);

#endif

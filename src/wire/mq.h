/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A message queue as a name: topic, broker and queue id. The strings are borrowed; who keeps one longer copies it. Counterpart: MessageQueue. */
#ifndef RQ_WIRE_MQ_H
#define RQ_WIRE_MQ_H

#include <stdint.h>

struct rq_mq {
    const char *topic;
    const char *broker_name;
    int32_t queue_id;
};

#endif

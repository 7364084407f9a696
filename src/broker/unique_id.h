/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Unique ids for messages whose producer gave none. Any thread. Counterpart:
 * MessageClientIDSetter. */
#ifndef RQ_BROKER_UNIQUE_ID_H
#define RQ_BROKER_UNIQUE_ID_H

#include "wire/msgid.h"

struct rmq_broker;

/* Writes the id and a NUL, returns its length. */
size_t rq_broker_unique_id(struct rmq_broker *broker, char out[RQ_MSGID_MAX + 1]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Attributes of a topic and changes of them, "+key=value,-key". Pure functions, any thread.
 * Counterparts: AttributeParser, AttributeUtil, TopicAttributes.
 */
#ifndef RQ_BROKER_ATTRIBUTES_H
#define RQ_BROKER_ATTRIBUTES_H

#include <rmq/error.h>

#include "base/buf.h"
#include "base/slice.h"

/* Appends to out, as JSON text of an object, what the changes make of the current attributes (such
 * text, too; NULL: of a topic that is to be created). RMQ_ERR_INVALID: a change that is none, of an
 * attribute that nobody knows or that stays as it is, or to a value that it cannot have. */
rmq_status rq_attributes_alter(const char *current, struct rq_slice changes, struct rq_buf *out,
                               rmq_error **err);

#endif

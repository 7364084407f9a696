/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* JSON strings for headers, where speed counts: the property string of every send has control
 * characters that must be escaped. */
#ifndef RQ_WIRE_JSON_TEXT_H
#define RQ_WIRE_JSON_TEXT_H

#include "base/buf.h"
#include "base/slice.h"

/* Appends text quoted and escaped; invalid UTF-8 becomes U+FFFD. */
void rq_json_text_add(struct rq_buf *out, struct rq_slice text);

#endif

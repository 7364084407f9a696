/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Base64 of RFC 4648 with padding, in its two alphabets. Pure functions. */
#ifndef RQ_BASE_BASE64_H
#define RQ_BASE_BASE64_H

#include <stdbool.h>

#include "base/buf.h"

enum rq_base64 {
    RQ_BASE64,    /* with '+' and '/' */
    RQ_BASE64_URL /* with '-' and '_' */
};

void rq_base64_add(struct rq_buf *out, struct rq_slice bytes, enum rq_base64 alphabet);

/* Appends the bytes of text, whose padding may be missing. false: it is no base64, or out could not
 * take it. */
bool rq_base64_read(struct rq_slice text, enum rq_base64 alphabet, struct rq_buf *out);

#endif

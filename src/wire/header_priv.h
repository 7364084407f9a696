/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The two header scanners, behind rq_header_decode. Each fills a header that is zero but for
 * serialize. */
#ifndef RQ_WIRE_HEADER_PRIV_H
#define RQ_WIRE_HEADER_PRIV_H

#include "wire/header.h"

rmq_status rq_header_decode_json(char *p, size_t n, struct rq_header *out, rmq_error **err);
rmq_status rq_header_decode_binary(char *p, size_t n, struct rq_header *out, rmq_error **err);

#endif

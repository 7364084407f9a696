/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Java's String.hashCode over UTF-16 code units of a UTF-8 text, with 32-bit wrap-around; invalid
 * bytes count as U+FFFD. */
#ifndef RQ_BASE_JHASH_H
#define RQ_BASE_JHASH_H

#include <stdint.h>

#include "base/slice.h"

int32_t rq_java_hash(struct rq_slice utf8);

/* Order of Java strings: UTF-16 code units, which differs from byte order for characters above
 * U+FFFF. */
int rq_java_compare(struct rq_slice a, struct rq_slice b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* MD5 (RFC 1321), for the hash ring that all members of a group must compute alike. Not for
 * secrets. Any thread. */
#ifndef RQ_BASE_MD5_H
#define RQ_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

#define RQ_MD5_SIZE 16

void rq_md5(const void *p, size_t n, uint8_t out[RQ_MD5_SIZE]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* CRC-32 (zlib polynomial) over bytes: libdeflate where built with it, else zlib. */
#ifndef RQ_BASE_CRC_H
#define RQ_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t rq_crc32(uint32_t crc, const void *p, size_t n); /* start with 0 */

#endif

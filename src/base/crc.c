/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* CRC-32 by libdeflate, which uses the processor's carry-less multiplication. */
#include "base/crc.h"

#include <libdeflate.h>

uint32_t rq_crc32(uint32_t crc, const void *p, size_t n)
{
    return libdeflate_crc32(crc, p, n);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* CRC-32 by libdeflate, which uses the processor's carry-less multiplication, or by zlib where it
 * is not there. */
#include "base/crc.h"

#ifdef RQ_HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

uint32_t rq_crc32(uint32_t crc, const void *p, size_t n)
{
#ifdef RQ_HAVE_LIBDEFLATE
    return libdeflate_crc32(crc, p, n);
#else
    return (uint32_t)crc32_z(crc, p, n);
#endif
}

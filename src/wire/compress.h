/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The three compressions of message bodies: zlib stream, LZ4 frame, zstd frame. What comes out is
 * bounded before it is made, because sizes named inside a peer's bytes are not to be trusted. Any
 * thread. Counterparts: CompressorFactory, CompressionType.
 */
#ifndef RQ_WIRE_COMPRESS_H
#define RQ_WIRE_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/slice.h"

enum rq_compression {
    RQ_COMPRESSION_LZ4 = 1,
    RQ_COMPRESSION_ZSTD = 2,
    RQ_COMPRESSION_ZLIB = 3 /* also 0 in the sysFlag of older senders */
};

#define RQ_COMPRESS_LEVEL_DEFAULT 5

/* Type named by a sysFlag; RMQ_ERR_UNSUPPORTED above 3. */
rmq_status rq_compression_of_sys_flag(int32_t sys_flag, enum rq_compression *out, rmq_error **err);

/* Bits to set in a sysFlag: compressed, and the type. */
int32_t rq_compression_sys_flag(enum rq_compression type);

/* Appends the compressed bytes of in. level: zlib 0 … 9, zstd 1 … 22, ignored by LZ4. Errors:
 * RMQ_ERR_NOMEM, RMQ_ERR_TOO_LARGE. */
rmq_status rq_compress(enum rq_compression type, int level, struct rq_slice in, struct rq_buf *out,
                       rmq_error **err);

/* Decompresses n bytes into new memory, which the caller frees with rq_free; one byte of value 0
 * stands behind it. Errors: RMQ_ERR_PROTOCOL for damaged or truncated bytes, RMQ_ERR_TOO_LARGE
 * beyond max_out, RMQ_ERR_NOMEM. */
rmq_status rq_decompress(enum rq_compression type, const void *in, size_t n, size_t max_out,
                         char **out, size_t *out_len, rmq_error **err);

#endif

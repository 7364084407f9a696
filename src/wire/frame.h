/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Frames: 4 bytes length, 1 byte serialization, 3 bytes header length, header, body. Cutting,
 * decoding and writing. The writer puts header and fields straight into a buffer, opaque first and
 * of fixed width, so that it can be assigned later at a fixed place. Pure functions, any thread.
 * Counterparts: RemotingCommand.encode and decode, NettyDecoder.
 */
#ifndef RQ_WIRE_FRAME_H
#define RQ_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "base/slice.h"
#include "wire/command.h"
#include "wire/header.h"
#include "wire/sign.h"

#define RQ_FRAME_PREFIX 8
/* with its first 4 bytes: the most that a Java peer accepts by default */
#define RQ_FRAME_MAX 16777216

/* MQVersion ordinal that we send: V5_3_3. */
#define RQ_VERSION_V4_9_3 399
#define RQ_VERSION_V4_9_4 401
#define RQ_VERSION_V4_9_7 407
#define RQ_VERSION_V5_0_0 413
#define RQ_VERSION_V5_3_1 475
#define RQ_VERSION_V5_3_3 479
#define RQ_VERSION_OURS   RQ_VERSION_V5_3_3
#define RQ_LANGUAGE_OURS  RQ_LANGUAGE_OTHER

/* A decoded frame: everything borrowed from the frame's bytes. */
struct rq_frame {
    struct rq_header header;
    struct rq_slice body;
};

/* Size of the frame that starts at p, all included, from its first bytes; *total is 0 when fewer
 * than RQ_FRAME_PREFIX bytes are there yet and what is there is not wrong. Checks the length (at
 * least 4, at most max), the serialization byte, and that the header fits into the frame, so that a
 * hopeless stream is refused before it is read. Errors: RMQ_ERR_PROTOCOL, RMQ_ERR_TOO_LARGE. */
rmq_status rq_frame_size(const void *p, size_t n, size_t max, size_t *total, rmq_error **err);

/* Decodes one whole frame of exactly n bytes. The header part of the frame is written to (see
 * header.h). Errors: RMQ_ERR_PROTOCOL. */
rmq_status rq_frame_decode(char *frame, size_t n, struct rq_frame *out, rmq_error **err);

/* What is written into a frame. */
struct rq_frame_spec {
    enum rq_serialize serialize;
    int32_t code;
    int32_t flag;
    int32_t opaque; /* may be patched later */
    int32_t version;
    int32_t language;
    struct rq_slice remark;        /* p == NULL: none */
    const struct rq_fields *table; /* NULL: no header fields */
    const void *fields;            /* the struct of the table */
    const struct rq_ext
        *extra; /* further extFields; names and values are any UTF-8; a null value is left out */
    size_t extra_count;
    const struct rq_signer *signer; /* wire/sign.h; NULL: none */
    struct rq_slice signed_body;    /* what it signs beside the fields; rq_out_encode sets it */
};

/* A request with our language and version; the caller may change members. */
static inline struct rq_frame_spec rq_frame_request(enum rq_serialize serialize, int32_t code,
                                                    const struct rq_fields *table,
                                                    const void *fields)
{
    return (struct rq_frame_spec){.serialize = serialize,
                                  .code = code,
                                  .version = RQ_VERSION_OURS,
                                  .language = RQ_LANGUAGE_OURS,
                                  .table = table,
                                  .fields = fields};
}

/* An answer to a request, in its serialization and with its opaque. */
static inline struct rq_frame_spec rq_frame_response(const struct rq_header *request, int32_t code,
                                                     const struct rq_fields *table,
                                                     const void *fields)
{
    return (struct rq_frame_spec){.serialize = request->serialize,
                                  .code = code,
                                  .flag = RQ_FLAG_RESPONSE,
                                  .opaque = request->opaque,
                                  .version = RQ_VERSION_OURS,
                                  .language = RQ_LANGUAGE_OURS,
                                  .table = table,
                                  .fields = fields};
}

/* Appends prefix and header of a frame whose body of body_len bytes follows: the caller appends it,
 * or sends it from elsewhere. extFields is written even when it is empty. Errors: RMQ_ERR_TOO_LARGE
 * (frame above RQ_FRAME_MAX, buffer limit), RMQ_ERR_NOMEM; the buffer is then as before, but for
 * its sticky status. RMQ_ERR_INVALID: a code or version that the binary form cannot carry, or a
 * text too long for it. */
rmq_status rq_frame_encode(struct rq_buf *out, const struct rq_frame_spec *spec, size_t body_len,
                           rmq_error **err);

/* Assigns the opaque of a frame written by rq_frame_encode; frame is its first byte. */
void rq_frame_patch_opaque(char *frame, int32_t opaque);

/* Sets the body length afterwards: for a body written behind the header before its size was known.
 * Errors: RMQ_ERR_TOO_LARGE. */
rmq_status rq_frame_patch_body_len(char *frame, size_t body_len, rmq_error **err);

/* Bytes of prefix and header of a frame written by rq_frame_encode. */
size_t rq_frame_header_size(const char *frame);

#endif

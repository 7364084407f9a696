/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Frames: a stream of bytes is cut, each frame decoded, written again in both forms, and must then
 * mean the same. Input: any bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) {
        abort();
    }
}

static int same_text(struct rq_slice a, struct rq_slice b)
{
    return rq_slice_eq(a, b) || (a.n == 0 && b.n == 0);
}

static void write_again(const struct rq_frame *frame, enum rq_serialize serialize)
{
    const struct rq_header *header = &frame->header;
    struct rq_frame_spec spec = {.serialize = serialize,
                                 .code = header->code,
                                 .flag = header->flag,
                                 .opaque = header->opaque,
                                 .version = header->version,
                                 .language = header->language,
                                 .remark = header->remark,
                                 .extra = header->ext,
                                 .extra_count = header->ext_count};
    struct rq_buf out;
    rq_buf_init(&out, 0);
    if (rq_frame_encode(&out, &spec, frame->body.n, NULL) == RMQ_OK) {
        struct rq_frame again;
        rq_buf_add_slice(&out, frame->body);
        require(rq_frame_decode(out.data, out.len, &again, NULL) == RMQ_OK);
        require(again.header.code == header->code && again.header.opaque == header->opaque);
        require(again.header.flag == header->flag && again.header.version == header->version);
        require(same_text(frame->body, again.body));
    }
    rq_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    size_t at = 0;
    size_t total = 1;
    while (rq_frame_size(bytes + at, size - at, RQ_FRAME_MAX, &total, NULL) == RMQ_OK &&
           total > 0 && total <= size - at) {
        struct rq_frame frame;
        if (rq_frame_decode(bytes + at, total, &frame, NULL) == RMQ_OK) {
            write_again(&frame, RQ_SERIALIZE_JSON);
            write_again(&frame, RQ_SERIALIZE_BINARY);
        }
        at += total;
    }
    free(bytes);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Batch bodies: items that decode are written to the same bytes, but for the magic and CRC that
 * nobody reads. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_cursor c = rq_cursor(data, size);
    struct rq_batch_item item;
    struct rq_buf out;
    rq_buf_init(&out, 0);
    const char *start = c.p;
    while (rq_batch_next(&c, &item, NULL) == RMQ_OK) {
        size_t at = out.len;
        if (rq_batch_add(&out, &item) != RMQ_OK || out.len - at != (size_t)(c.p - start) ||
            memcmp(out.data + at + 12, start + 12, out.len - at - 12) != 0) {
            abort();
        }
        start = c.p;
    }
    rq_buf_free(&out);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Recall handles: what is read and written again is the same handle. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/recall.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rq_recall_handle handle, again;
    struct rq_buf text, written, text_again;
    rq_buf_init(&text, 0);
    rq_buf_init(&written, 0);
    rq_buf_init(&text_again, 0);
    if (rq_recall_handle_read(rq_slice((const char *)data, size), &text, &handle)) {
        rq_recall_handle_write(&handle, &written);
        if (handle.message_id.n && handle.topic.n && handle.broker_name.n &&
            (!rq_recall_handle_read(rq_slice(written.data, written.len), &text_again, &again) ||
             !rq_slice_eq(handle.topic, again.topic) || handle.time_ms != again.time_ms ||
             !rq_slice_eq(handle.broker_name, again.broker_name) ||
             !rq_slice_eq(handle.message_id, again.message_id))) {
            abort();
        }
    }
    rq_buf_free(&text);
    rq_buf_free(&written);
    rq_buf_free(&text_again);
    return 0;
}

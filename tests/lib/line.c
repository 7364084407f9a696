/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
#include "lib/line.h"

#include "lib/cases.h"
#include "lib/usage.h"

static void note_place(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct tl_line_send *send = user;
    send->offset = err ? -1 : rmq_send_result_queue_offset(result);
    atomic_fetch_add(&send->line->ends, 1);
}

void tl_line_send(struct tl_line *line, rmq_producer *producer, const rmq_message *message)
{
    rmq_error *err = NULL;
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.sharding_key = "order-17";
    for (int i = 0; i < TL_LINE; i++) {
        line->sends[i].line = line;
        TL_OK(rmq_producer_send_async_with(producer, message, &how, note_place, &line->sends[i],
                                           &err));
        if (i % 2 == 1) {
            tl_pause(1);
        }
    }
}

static bool has_ended(void *line)
{
    return atomic_load(&((struct tl_line *)line)->ends) == TL_LINE;
}

void tl_line_check(struct tl_line *line, int64_t timeout_ms)
{
    TL_CHECK(tl_wait(has_ended, line, timeout_ms));
    for (int i = 0; i < TL_LINE; i++) {
        TL_EQUAL(line->sends[i].offset, i);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Many asynchronous sends of one thread to one queue, and whether they came there in their order. */
#ifndef RQ_TESTS_LIB_LINE_H
#define RQ_TESTS_LIB_LINE_H

#include <stdatomic.h>
#include <stdint.h>

#include <rmq/rmq.h>

#define TL_LINE 4000

/* Zeroed before use; larger than a thread's stack likes. */
struct tl_line {
    struct tl_line_send {
        struct tl_line *line;
        int64_t offset; /* -1: not stored */
    } sends[TL_LINE];
    atomic_int ends;
};

/* Sends the message so often, by one key, for two seconds or longer: what the case does meanwhile
 * falls among them. */
void tl_line_send(struct tl_line *line, rmq_producer *producer, const rmq_message *message);

/* Until all have ended: each must be where its number says. */
void tl_line_check(struct tl_line *line, int64_t timeout_ms);

#endif

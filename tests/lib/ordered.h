/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What several ordered consumers got, by queue: whether it came in order and never to two at
 * once. */
#ifndef RQ_TESTS_LIB_ORDERED_H
#define RQ_TESTS_LIB_ORDERED_H

#include <stdatomic.h>

#include <rmq/rmq.h>

#define TL_LANES 64

struct tl_order {
    struct tl_lane {
        atomic_int inside;      /* handlers at work on the queue */
        _Atomic long long last; /* largest offset that was seen, plus one */
    } lanes[TL_LANES];
    atomic_int total;     /* deliveries */
    atomic_int different; /* messages */
    atomic_int disorder;  /* a message came before one that is older */
    atomic_int together;  /* a handler began while another had the queue */
};

void tl_order_enter(struct tl_order *order, const rmq_message_view *view);
void tl_order_leave(struct tl_order *order, const rmq_message_view *view);

/* Takes all, with success. user: struct tl_order. */
rmq_consume_result tl_order_listener(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user);

/* Waits for so many different messages; fails when anything was out of order. */
void tl_order_wait(struct tl_order *order, int different, int64_t timeout_ms);

#endif

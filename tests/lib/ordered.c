/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Order of what was received. See ordered.h. */
#include "lib/ordered.h"

#include "lib/cases.h"
#include "lib/usage.h"

static struct tl_lane *lane_of(struct tl_order *order, const rmq_message_view *view)
{
    return &order->lanes[rmq_message_view_queue_id(view) % TL_LANES];
}

/* A queue's offsets have no gaps here, so what comes next is the last one's successor, or something
 * that came before. */
void tl_order_enter(struct tl_order *order, const rmq_message_view *view)
{
    struct tl_lane *lane = lane_of(order, view);
    long long offset = rmq_message_view_queue_offset(view);
    long long last = atomic_load(&lane->last);
    if (atomic_fetch_add(&lane->inside, 1) > 0) {
        atomic_fetch_add(&order->together, 1);
    }
    if (offset > last) {
        atomic_fetch_add(&order->disorder, 1);
    }
    if (offset >= last) {
        atomic_store(&lane->last, offset + 1);
        atomic_fetch_add(&order->different, 1);
    }
    atomic_fetch_add(&order->total, 1);
}

void tl_order_leave(struct tl_order *order, const rmq_message_view *view)
{
    atomic_fetch_sub(&lane_of(order, view)->inside, 1);
}

rmq_consume_result tl_order_listener(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        tl_order_enter(user, messages[i]);
        tl_order_leave(user, messages[i]);
    }
    return RMQ_CONSUME_SUCCESS;
}

struct goal {
    struct tl_order *order;
    int different;
};

static bool is_reached(void *arg)
{
    const struct goal *goal = arg;
    return atomic_load(&goal->order->different) >= goal->different;
}

void tl_order_wait(struct tl_order *order, int different, int64_t timeout_ms)
{
    struct goal goal = {order, different};
    if (!tl_wait(is_reached, &goal, timeout_ms)) {
        tl_fail(__FILE__, __LINE__, "%d of %d messages after %lld ms",
                atomic_load(&order->different), different, (long long)timeout_ms);
    }
    TL_EQUAL(atomic_load(&order->disorder), 0);
    TL_EQUAL(atomic_load(&order->together), 0);
}

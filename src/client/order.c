/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What ordered consumption means for a consumer's queue: which messages may be handed out, what the
 * handler's result does to them, pauses, and giving a queue up only when no hands hold it. The
 * holder of the turn calls the first half, the I/O thread the second. Counterparts:
 * ConsumeMessageOrderlyService.processConsumeResult,
 * RebalancePushImpl.removeUnnecessaryMessageQueue.
 */
#include "base/log.h"
#include "base/time.h"
#include "client/consumer_priv.h"
#include "client/owned.h"

#define SUSPEND_LEAST_MS 10
#define SUSPEND_MOST_MS  30000

static struct rq_owned *of_turn(struct rq_turn *turn)
{
    return RQ_CONTAINER_OF(turn, struct rq_owned, turn);
}

/* ---- the holder of the turn ---- */

bool rq_order_take(struct rq_pool *pool, struct rq_turn *turn, uint32_t most,
                   struct rq_pulled **pulled, uint32_t *from, uint32_t *count)
{
    (void)pool;
    struct rq_owned *owned = of_turn(turn);
    return rq_mono_ms() < atomic_load(&owned->open_until_ms) &&
           rq_process_queue_take(&owned->process, most, pulled, from, count);
}

static int64_t suspend_time(const struct rmq_consumer *consumer,
                            const struct rmq_consume_context *context)
{
    int64_t ms = context->suspend_ms < 0 ? consumer->options.suspend_current_queue_time_ms
                                         : context->suspend_ms;
    ms = ms < SUSPEND_LEAST_MS ? SUSPEND_LEAST_MS : ms;
    return ms < SUSPEND_MOST_MS ? ms : SUSPEND_MOST_MS;
}

/* Everything that was handed out so far is done. */
static void commit_taken(struct rq_owned *owned)
{
    struct rq_pulled *pulled;
    uint32_t from;
    uint32_t to;
    while (rq_process_queue_taken(&owned->process, &pulled, &from, &to)) {
        rq_owned_done(pulled, from, to);
        rq_pulled_release(pulled);
    }
}

/* The batch is put back. Messages that were tried often enough go to the dead letters; the queue
 * goes on when they are there. */
static int64_t refuse(struct rq_owned *owned, struct rq_pulled *pulled, uint32_t from, uint32_t to,
                      const struct rmq_consume_context *context)
{
    int32_t most = owned->consumer->options.max_reconsume_times;
    bool again = false;
    rq_process_queue_put_back(&owned->process, pulled, from);
    atomic_fetch_add_explicit(&owned->failed, (int64_t)to - from, memory_order_relaxed);
    for (uint32_t i = from; i < to; i++) {
        struct rmq_message_view *view = pulled->views[i];
        int32_t times = atomic_load_explicit(&view->reconsume_times, memory_order_relaxed);
        if (most >= 0 && times >= most) {
            rq_send_dead(pulled, i);
        } else {
            atomic_store_explicit(&view->reconsume_times, times + (times < INT32_MAX),
                                  memory_order_relaxed);
            again = true;
        }
    }
    if (again) {
        return suspend_time(owned->consumer, context);
    }
    return rq_consumer_sends_back(owned->consumer) ? RQ_TURN_OVER : 0;
}

static bool is_refusal(rmq_consume_result result)
{
    return result != RMQ_CONSUME_SUCCESS && result != RMQ_CONSUME_COMMIT &&
           result != RMQ_CONSUME_ROLLBACK;
}

int64_t rq_order_result(struct rq_pool *pool, struct rq_turn *turn, struct rq_pulled *pulled,
                        uint32_t from, uint32_t to, rmq_consume_result result,
                        const struct rmq_consume_context *context)
{
    (void)pool;
    struct rq_owned *owned = of_turn(turn);
    if (rq_process_queue_is_dropped(&owned->process)) {
        return RQ_TURN_OVER;
    }
    if (is_refusal(result)) {
        return refuse(owned, pulled, from, to, context);
    }
    if (!context->manual_commit) {
        rq_owned_done(pulled, from, to);
        return 0;
    }
    if (result == RMQ_CONSUME_ROLLBACK) {
        rq_process_queue_put_all_back(&owned->process);
        return suspend_time(owned->consumer, context);
    }
    if (result == RMQ_CONSUME_COMMIT) {
        commit_taken(owned);
    }
    return 0;
}

/* Takes the reference over, for the task. */
static void post_left(struct rq_owned *owned)
{
    if (atomic_exchange(&owned->left_posted, true) ||
        !rq_consumer_post(owned->consumer, &owned->left)) {
        rq_owned_release(owned);
    }
}

void rq_order_left(struct rq_pool *pool, struct rq_turn *turn, int64_t wait_ms)
{
    (void)pool;
    struct rq_owned *owned = of_turn(turn);
    if (wait_ms > 0) {
        atomic_store(&owned->park_ms, wait_ms);
    }
    if (wait_ms > 0 || atomic_load(&owned->wants_hands)) {
        post_left(owned);
    } else {
        rq_owned_release(owned);
    }
}

void rq_order_hands_off(struct rq_owned *owned)
{
    if (atomic_load(&owned->wants_hands)) {
        rq_owned_retain(owned);
        post_left(owned);
    }
}

/* ---- loop ---- */

void rq_order_submit(struct rq_owned *owned)
{
    bool first = false;
    rq_owned_retain(owned);
    if (rq_pool_submit_turn(&owned->consumer->pool, &owned->turn, &first)) {
        rq_consumer_guard(owned->consumer);
    } else {
        rq_owned_release(owned);
    }
    if (first) {
        rq_consumer_tell_taker(owned->consumer);
    }
}

/* Ends a pause, also before its time. The turn's reference was kept for the timer. */
static void unpark(struct rq_owned *owned)
{
    rq_timer_stop(&owned->park_timer);
    if (rq_pool_unpark(&owned->consumer->pool, &owned->turn)) {
        rq_order_submit(owned);
        rq_owned_release(owned);
    }
}

static void on_park_over(struct rq_timer *timer)
{
    unpark(RQ_CONTAINER_OF(timer, struct rq_owned, park_timer));
}

/* The queue may be ours again, or another member's. The caller has a reference. */
static void end_lingering(struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    if (!rq_list_empty(&owned->node) && !rq_pool_turn_is_busy(&consumer->pool, &owned->turn)) {
        rq_list_remove(&owned->node);
        rq_lock_queues(consumer, false);
        struct rq_owned *now = rq_owned_find(consumer, &owned->name);
        if (now) {
            rq_offset_locate(now); /* broadcasting: without a lock */
        }
        owned->unlock = true;
        if (!owned->committing) {
            rq_lock_give_back(owned);
        }
        rq_owned_release(owned);
    }
}

static void on_left(struct rq_task *task)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(task, struct rq_owned, left);
    atomic_store(&owned->left_posted, false);
    int64_t wait_ms = atomic_exchange(&owned->park_ms, 0);
    bool wanted = atomic_load(&owned->wants_hands);
    if (owned->topic && wait_ms > 0) {
        rq_owned_retain(owned); /* the timer's, given up when the pause ends */
        rq_timer_start(owned->consumer->loop, &owned->park_timer, wait_ms);
    } else if (wait_ms > 0) {
        rq_pool_unpark(&owned->consumer->pool, &owned->turn);
    }
    if (owned->topic && wanted) {
        rq_order_hands_empty(owned);
    } else if (!owned->topic) {
        end_lingering(owned);
    }
    rq_owned_release(owned);
}

void rq_order_init(struct rq_owned *owned)
{
    rq_list_init(&owned->turn.node);
    owned->left.run = on_left;
    atomic_init(&owned->left_posted, false);
    atomic_init(&owned->wants_hands, false);
    atomic_init(&owned->park_ms, 0);
    atomic_init(&owned->open_until_ms, rq_consumer_locks(owned->consumer) ? 0 : INT64_MAX);
    rq_timer_init(&owned->park_timer, on_park_over);
}

void rq_order_drop(struct rq_owned *owned)
{
    struct rq_pool *pool = &owned->consumer->pool;
    if (rq_timer_running(&owned->park_timer)) {
        rq_timer_stop(&owned->park_timer);
        if (rq_pool_unpark(pool, &owned->turn)) {
            rq_owned_release(owned);
        }
    }
    if (rq_pool_withdraw_turn(pool, &owned->turn)) {
        rq_owned_release(owned);
    }
}

bool rq_order_hands_are_empty(struct rq_owned *owned)
{
    atomic_store(&owned->wants_hands, true);
    return !rq_pool_turn_is_busy(&owned->consumer->pool, &owned->turn);
}

/* In this order: who has the turn from now on finds the queue shut. */
bool rq_order_shut(struct rq_owned *owned)
{
    atomic_store(&owned->open_until_ms, 0);
    return rq_order_hands_are_empty(owned);
}

/* A handler goes on with what it holds of a queue that was given up in the middle, by an
 * unsubscribe say. The same queue may be ours again at once, under the same lock. */
void rq_order_linger(struct rq_owned *owned)
{
    if (owned->consumer->options.consume_orderly && !rq_order_hands_are_empty(owned)) {
        rq_owned_retain(owned);
        rq_list_add_tail(&owned->consumer->lingering, &owned->node);
    }
}

bool rq_order_lingers(struct rmq_consumer *consumer, const struct rq_mq *name)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->lingering)
    {
        if (rq_mq_equal(&RQ_CONTAINER_OF(node, struct rq_owned, node)->name, name)) {
            return true;
        }
    }
    return false;
}

void rq_order_linger_no_more(struct rmq_consumer *consumer)
{
    for (struct rq_list *node = rq_list_pop(&consumer->lingering); node;
         node = rq_list_pop(&consumer->lingering)) {
        rq_owned_release(RQ_CONTAINER_OF(node, struct rq_owned, node));
    }
}

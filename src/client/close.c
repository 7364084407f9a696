/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Closing a consumer, in stages on the I/O thread: pulls stop and no listener starts; who has
 * messages in hands finishes them, and send-backs are confirmed; offsets are committed; the group
 * is left. Each stage ends by itself or at the deadline. Shutdown only waits; called in a listener
 * it waits for the others and the rest follows when that listener returns. Counterpart:
 * DefaultMQPushConsumerImpl.shutdown.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define DEFAULT_TIMEOUT_MS  10000
#define ANSWER_CHECK_MS     2
#define ANSWER_WAIT_MS      1000
#define LAST_STEPS_MOST_MS  3000 /* committing and leaving, when brokers do not answer */
#define LAST_STEPS_LEAST_MS 500  /* the same when the deadline has passed */

enum { STAGE_OPEN, STAGE_HANDS, STAGE_COMMIT, STAGE_LEAVE, STAGE_CLOSED };

static void on_closed(void *user)
{
    struct rmq_consumer *consumer = user;
    consumer->close_stage = STAGE_CLOSED;
    rq_mutex_lock(&consumer->lock);
    consumer->state = RQ_CONSUMER_CLOSED;
    consumer->timed_out = !consumer->quiet_came;
    rq_cond_broadcast(&consumer->change);
    rq_mutex_unlock(&consumer->lock);
}

/* The consumer may have been destroyed, when its shutdown did not wait for this any longer. */
static void on_left(void *user)
{
    on_closed(user);
    rq_consumer_release(user);
}

static int64_t time_left(const struct rmq_consumer *consumer)
{
    int64_t left = consumer->close_deadline_ms - rq_mono_ms();
    left = left < LAST_STEPS_MOST_MS ? left : LAST_STEPS_MOST_MS;
    return left > LAST_STEPS_LEAST_MS ? left : LAST_STEPS_LEAST_MS;
}

static void drop_topics(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        rq_subscribed_remove(RQ_CONTAINER_OF(node, struct rq_subscribed, node), false);
    }
}

/* Heartbeats on their way are waited for: a broker that worked on one after the unregistering would
 * count us as a member, with a share that nobody reads. So are requests for locks: one that the
 * broker worked on after the unlocking would lock the queue for nobody. */
static bool must_wait_for_answers(struct rmq_consumer *consumer)
{
    int64_t now = rq_mono_ms();
    if (consumer->answers_until_ms == 0) {
        consumer->answers_until_ms = now + ANSWER_WAIT_MS;
    }
    bool beating = consumer->added && rq_instance_is_beating(consumer->instance);
    return now < consumer->answers_until_ms && (beating || consumer->lock_calls > 0);
}

static void leave_group(struct rmq_consumer *consumer)
{
    consumer->added = false;
    atomic_fetch_add_explicit(&consumer->refs, 1, memory_order_relaxed);
    rq_instance_remove(consumer->instance, &consumer->member, time_left(consumer), on_left,
                       consumer);
}

static void leave(struct rmq_consumer *consumer)
{
    rq_lock_stop(consumer);
    if (must_wait_for_answers(consumer)) {
        rq_timer_start(consumer->loop, &consumer->close_timer, ANSWER_CHECK_MS);
        return;
    }
    rq_timer_stop(&consumer->close_timer);
    consumer->close_stage = STAGE_LEAVE;
    consumer->unstored = rq_offset_count_unstored(consumer);
    rq_lock_give_back_all(consumer);
    drop_topics(consumer);
    if (!consumer->added) {
        on_closed(consumer);
        return;
    }
    leave_group(consumer);
}

void rq_close_check(struct rmq_consumer *consumer)
{
    bool hands_empty = consumer->quiet_came && rq_list_empty(&consumer->backs);
    if (consumer->close_stage == STAGE_HANDS && (hands_empty || consumer->overdue)) {
        consumer->close_stage = STAGE_COMMIT;
        rq_offset_persist_all(consumer, true, time_left(consumer));
    }
    if (consumer->close_stage == STAGE_COMMIT && consumer->commits == 0) {
        leave(consumer);
    }
}

static void on_deadline(struct rq_timer *timer)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(timer, struct rmq_consumer, close_timer);
    consumer->overdue = true;
    rq_close_check(consumer);
}

static void on_quiet(struct rq_task *task)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(task, struct rmq_consumer, quiet);
    consumer->quiet_came = true;
    rq_mutex_lock(&consumer->lock);
    consumer->timed_out = false; /* closed before: who asks again has waited for this */
    rq_cond_broadcast(&consumer->change);
    rq_mutex_unlock(&consumer->lock);
    rq_close_check(consumer);
}

void rq_close_init(struct rmq_consumer *consumer)
{
    consumer->quiet.run = on_quiet;
    rq_timer_init(&consumer->close_timer, on_deadline);
}

static void stop_timers(struct rmq_consumer *consumer)
{
    rq_timer_stop(&consumer->rebalance_timer);
    rq_timer_stop(&consumer->persist_timer);
    rq_timer_stop(&consumer->expire_timer);
    rq_timer_stop(&consumer->guard_timer);
}

/* Member lists, start offsets and pulls; commits and send-backs go on. */
static void stop_asking(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        rq_timer_stop(&topic->retry);
        if (topic->asking) {
            rq_consumer_cancel(&topic->members);
        }
        if (topic->checking) {
            rq_consumer_cancel(&topic->check);
        }
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            rq_timer_stop(&owned->timer);
            if (owned->asking) {
                rq_consumer_cancel(&owned->ask);
            }
        }
    }
}

static void begin(struct rmq_consumer *consumer, int64_t deadline_ms)
{
    if (consumer->closing) {
        return;
    }
    consumer->closing = true;
    consumer->running = false;
    consumer->close_deadline_ms = deadline_ms;
    consumer->close_stage = STAGE_HANDS;
    stop_timers(consumer);
    stop_asking(consumer);
    rq_send_back_cancel_waiting(consumer);
    rq_pool_stop(&consumer->pool);
    rq_timer_start_at(consumer->loop, &consumer->close_timer, deadline_ms);
}

void rq_close_finish(struct rmq_consumer *consumer)
{
    consumer->close_stage = STAGE_CLOSED;
    if (consumer->added) {
        leave_group(consumer);
    }
    stop_timers(consumer);
    rq_timer_stop(&consumer->close_timer);
    rq_lock_stop(consumer);
    drop_topics(consumer);
    rq_order_linger_no_more(consumer);
    rq_send_back_cancel_waiting(consumer);
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->asks)
    {
        rq_consumer_cancel(RQ_CONTAINER_OF(node, struct rq_ask, node));
    }
}

/* ---- shutdown: the program's threads ---- */

struct close_call {
    struct rmq_consumer *consumer;
    int64_t deadline_ms;
};

static void close_on_loop(void *arg)
{
    const struct close_call *call = arg;
    begin(call->consumer, call->deadline_ms);
}

/* The last steps come after the deadline when a listener did not end before it. It may run on when
 * all is closed: a later shutdown waits for it, too. */
static bool wait_closed(struct rmq_consumer *consumer, int64_t deadline_ms)
{
    bool in_time = true;
    rq_mutex_lock(&consumer->lock);
    while (in_time && consumer->state != RQ_CONSUMER_CLOSED) {
        in_time = rq_cond_wait_until(&consumer->change, &consumer->lock,
                                     deadline_ms + 2 * LAST_STEPS_MOST_MS);
    }
    while (in_time && consumer->timed_out) {
        in_time = rq_cond_wait_until(&consumer->change, &consumer->lock, deadline_ms);
    }
    bool clean = consumer->state == RQ_CONSUMER_CLOSED && !consumer->timed_out;
    rq_mutex_unlock(&consumer->lock);
    return clean;
}

/* When all is closed. */
static rmq_status tell_unstored(const struct rmq_consumer *consumer, rmq_error **err)
{
    if (consumer->local && !rq_local_offsets_write(consumer->local)) {
        return rq_error_set(err, RMQ_ERR_IO, "the file of offsets could not be written");
    }
    if (consumer->unstored == 0) {
        return RMQ_OK;
    }
    rmq_status st = rmq_error_status(consumer->not_stored);
    return rq_error_set(err, st == RMQ_OK ? RMQ_ERR_TIMEOUT : st,
                        "the offsets of %d queues are not stored, what was consumed since the "
                        "last commit comes again: %s",
                        consumer->unstored, rmq_error_message(consumer->not_stored));
}

rmq_status rmq_consumer_shutdown(rmq_consumer *consumer, int64_t timeout_ms, rmq_error **err)
{
    if (!consumer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer is NULL");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    int64_t timeout = rq_timeout_ms(timeout_ms, DEFAULT_TIMEOUT_MS);
    int64_t deadline = rq_deadline_ms(timeout);
    rq_mutex_lock(&consumer->lock);
    bool closed = consumer->state == RQ_CONSUMER_CLOSED;
    bool ended = closed && !consumer->timed_out;
    consumer->state = closed ? consumer->state : RQ_CONSUMER_CLOSING;
    rq_cond_broadcast(&consumer->change);
    rq_mutex_unlock(&consumer->lock);
    if (ended) {
        return tell_unstored(consumer, err);
    }
    struct close_call call = {.consumer = consumer, .deadline_ms = deadline};
    rq_instance_run(consumer->instance, close_on_loop, &call);
    bool inside = rq_pool_in(&consumer->pool);
    bool clean =
        inside ? rq_pool_wait_others(&consumer->pool, deadline) : wait_closed(consumer, deadline);
    if (clean && !inside) {
        rq_consumer_trace_close(consumer);
        return tell_unstored(consumer, err);
    }
    if (consumer->local) {
        (void)rq_local_offsets_write(consumer->local);
    }
    return clean ? RMQ_OK
                 : rq_error_set(err, RMQ_ERR_TIMEOUT, "a listener or a batch did not end in time");
}

void rq_close_once(struct rmq_consumer *consumer)
{
    rq_mutex_lock(&consumer->lock);
    bool closed = consumer->state == RQ_CONSUMER_CLOSED;
    rq_mutex_unlock(&consumer->lock);
    if (!closed) {
        rmq_consumer_shutdown(consumer, 0, NULL);
    }
}

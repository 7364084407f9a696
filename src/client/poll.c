/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The polling form of a consumer: batches taken by the program from the same list of work that
 * workers would take from. Any thread. A batch keeps its messages readable until it is destroyed,
 * also after the consumer has been. Counterpart: none; the Java push consumer has only listeners.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_priv.h"
#include "client/fork_mark.h"
#include "client/owned.h"
#include "wire/message.h"

struct rmq_batch {
    struct rq_batch_node taken;
    struct rmq_consumer *consumer; /* referenced */
    uint64_t mark; /* of the process that took it: in a forked child it stays the parent's */
    rmq_consume_context context;
    size_t count; /* readable messages */
    uint32_t *at; /* their indexes in the pull */
    const rmq_message_view *views[];
};

static struct rmq_batch *make_batch(struct rmq_consumer *consumer)
{
    size_t most = (size_t)consumer->pool.options.batch_max;
    struct rmq_batch *batch =
        rq_alloc(sizeof *batch + most * (sizeof *batch->views + sizeof *batch->at));
    if (batch) {
        *batch = (struct rmq_batch){.consumer = consumer, .mark = rq_fork_mark()};
        batch->context = RQ_CONTEXT_DEFAULT;
        batch->at = (uint32_t *)(void *)(batch->views + most);
        rq_list_init(&batch->taken.node);
    }
    return batch;
}

/* Bodies that cannot be read have been reported and go back to the broker: they are not in the
 * batch. Of a queue that is gone meanwhile nothing is: who has it now gets the messages. */
static void fill_batch(struct rmq_batch *batch)
{
    struct rq_pool *pool = &batch->consumer->pool;
    struct rq_pulled *pulled = batch->taken.pulled;
    if (rq_process_queue_is_dropped(pulled->queue)) {
        return;
    }
    for (uint32_t i = batch->taken.from; i < batch->taken.from + batch->taken.count; i++) {
        struct rmq_message_view *view = pulled->views[i];
        if ((!(view->sys_flag & RQ_SYS_COMPRESSED) && !pulled->popped) ||
            pool->options.ops->prepare(pool, pulled, i)) {
            batch->at[batch->count] = i;
            batch->views[batch->count++] = view;
        } else if (batch->taken.turn) { /* what is behind it waits until it is gone */
            rq_process_queue_put_back(pulled->queue, pulled, i);
            return;
        }
    }
}

/* While it is in hands still, so that its consumer is there. */
static void end_turn(struct rmq_batch *batch, int64_t wait_ms)
{
    if (rq_pool_end_turn(&batch->consumer->pool, batch->taken.turn, wait_ms)) {
        rq_consumer_tell_taker(batch->consumer);
    }
    rq_order_hands_off(rq_owned_of(batch->taken.pulled->queue));
}

/* None of its messages can be read: of an ordered queue the first one cannot, and if that is done
 * all the same, the queue goes on. */
static void give_back(struct rmq_batch *batch)
{
    struct rq_pool *pool = &batch->consumer->pool;
    struct rq_pulled *pulled = batch->taken.pulled;
    if (rq_pool_give_back(pool, &batch->taken)) {
        if (batch->taken.turn) {
            bool done = rq_process_queue_is_done(pulled->queue, pulled->views[batch->taken.from]);
            end_turn(batch, done ? 0 : RQ_TURN_OVER);
        }
        rq_pool_leave(pool);
    }
}

/* Messages of a queue are taken in their order. */
static void note_given(const struct rq_batch_node *taken)
{
    struct rq_owned *owned = rq_owned_of(taken->pulled->queue);
    int64_t next = taken->pulled->views[taken->from + taken->count - 1]->queue_offset + 1;
    int64_t known = atomic_load_explicit(&owned->given, memory_order_relaxed);
    while (known < next &&
           !atomic_compare_exchange_weak_explicit(&owned->given, &known, next, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

static rmq_status take(struct rmq_consumer *consumer, struct rmq_batch *batch, int64_t deadline_ms,
                       bool *more)
{
    rmq_status st = RMQ_OK;
    while (st == RMQ_OK && batch->count == 0) {
        st = rq_pool_take(&consumer->pool, deadline_ms, &batch->taken, more);
        if (st != RMQ_OK) {
            break;
        }
        note_given(&batch->taken);
        fill_batch(batch);
        if (batch->count == 0) {
            give_back(batch);
            rq_pulled_release(batch->taken.pulled);
        }
    }
    return st;
}

/* *more: whether there is something left; as it was when there is no memory. */
static rmq_status poll_one(struct rmq_consumer *consumer, rmq_batch **out, int64_t deadline_ms,
                           bool *more, rmq_error **err)
{
    struct rmq_batch *batch = make_batch(consumer);
    if (!batch) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "batch");
    }
    rmq_status st = take(consumer, batch, deadline_ms, more);
    if (st != RMQ_OK) {
        rq_free(batch);
        return rq_error_set(err, st, "poll: %s", rmq_status_text(st));
    }
    atomic_fetch_add_explicit(&consumer->refs, 1, memory_order_relaxed);
    *out = batch;
    return RMQ_OK;
}

rmq_status rmq_consumer_poll(rmq_consumer *consumer, rmq_batch **out, int64_t timeout_ms,
                             rmq_error **err)
{
    size_t count = 0;
    return rmq_consumer_poll_batches(consumer, out, 1, timeout_ms, &count, err);
}

rmq_status rmq_consumer_poll_batches(rmq_consumer *consumer, rmq_batch **out, size_t most,
                                     int64_t timeout_ms, size_t *count, rmq_error **err)
{
    if (!consumer || !out || !count || most == 0) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "consumer, out or count is NULL, or there is no room");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    if (consumer->options.listener) {
        return rq_error_set(err, RMQ_ERR_STATE, "a consumer with a listener is not polled");
    }
    bool more = false;
    rmq_status st = poll_one(consumer, out, rq_deadline_ms(timeout_ms), &more, err);
    *count = st == RMQ_OK ? 1 : 0;
    while (*count > 0 && *count < most && more &&
           poll_one(consumer, &out[*count], rq_deadline_ms(0), &more, NULL) == RMQ_OK) {
        (*count)++;
    }
    if (*count > 0 && more) {
        rq_consumer_tell_taker(consumer);
    }
    return st;
}

int rmq_consumer_fd(rmq_consumer *consumer)
{
    return consumer ? consumer->pool.fd : -1;
}

static size_t good_count(const struct rmq_batch *batch, rmq_consume_result result)
{
    int32_t ack_index = batch->context.ack_index;
    if (result != RMQ_CONSUME_SUCCESS || ack_index < 0) {
        return 0;
    }
    return (size_t)ack_index < batch->count ? (size_t)ack_index + 1 : batch->count;
}

/* Messages first … last-1 of the batch, in pieces that lie together in the pull. */
static void report(struct rmq_batch *batch, size_t first, size_t last, bool done)
{
    const struct rq_pool_ops *ops = batch->consumer->pool.options.ops;
    while (first < last) {
        size_t end = first + 1;
        while (end < last && batch->at[end] == batch->at[end - 1] + 1) {
            end++;
        }
        uint32_t from = batch->at[first];
        uint32_t to = batch->at[end - 1] + 1;
        if (done) {
            ops->done(&batch->consumer->pool, batch->taken.pulled, from, to);
        } else {
            ops->later(&batch->consumer->pool, batch->taken.pulled, from, to,
                       batch->context.delay_level);
        }
        first = end;
    }
}

static void finish_turn(struct rmq_batch *batch, rmq_consume_result result)
{
    struct rq_pool *pool = &batch->consumer->pool;
    struct rq_turn *turn = batch->taken.turn;
    uint32_t from = batch->at[0];
    int64_t wait_ms =
        pool->options.ops->turn_result(pool, turn, batch->taken.pulled, from,
                                       from + (uint32_t)batch->count, result, &batch->context);
    end_turn(batch, wait_ms);
}

/* false: was finished before. */
static bool finish(struct rmq_batch *batch, rmq_consume_result result)
{
    struct rq_pool *pool = &batch->consumer->pool;
    if (!rq_pool_give_back(pool, &batch->taken)) {
        return false;
    }
    if (batch->taken.turn) {
        finish_turn(batch, result);
    } else {
        size_t good = good_count(batch, result);
        report(batch, 0, good, true);
        report(batch, good, batch->count, false);
    }
    rq_pool_leave(pool);
    return true;
}

rmq_status rmq_consumer_finish(rmq_consumer *consumer, rmq_batch *batch, rmq_consume_result result,
                               rmq_error **err)
{
    if (!consumer || !batch || batch->consumer != consumer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the batch is not one of this consumer");
    }
    if (rq_forked_since(batch->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the batch belongs to the parent process");
    }
    if ((unsigned)result > RMQ_CONSUME_ROLLBACK) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%d is no result of consuming", (int)result);
    }
    rq_mutex_lock(&consumer->lock);
    bool closed = consumer->state == RQ_CONSUMER_CLOSED;
    rq_mutex_unlock(&consumer->lock);
    if (!finish(batch, result)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the batch is finished already");
    }
    return closed ? rq_error_set(err, RMQ_ERR_CLOSED, "the consumer is shut down") : RMQ_OK;
}

size_t rmq_batch_count(const rmq_batch *batch)
{
    return batch ? batch->count : 0;
}

const rmq_message_view *rmq_batch_at(const rmq_batch *batch, size_t index)
{
    return batch && index < batch->count ? batch->views[index] : NULL;
}

rmq_consume_context *rmq_batch_context(rmq_batch *batch)
{
    return batch ? &batch->context : NULL;
}

void rmq_batch_destroy(rmq_batch *batch)
{
    if (!batch || rq_forked_since(batch->mark)) {
        return;
    }
    finish(batch, RMQ_RECONSUME_LATER);
    struct rq_pulled *pulled = batch->taken.pulled;
    for (size_t i = 0; i < batch->count; i++) {
        struct rmq_message_view *view = pulled->views[batch->at[i]];
        if (view->sys_flag & RQ_SYS_COMPRESSED) {
            rq_process_queue_let_go(pulled->queue, view);
        }
    }
    rq_pulled_release(pulled);
    rq_consumer_release(batch->consumer);
    rq_free(batch);
}

void rmq_consume_context_set_ack_index(rmq_consume_context *context, int32_t ack_index)
{
    if (context) {
        context->ack_index = ack_index;
    }
}

void rmq_consume_context_set_delay_level(rmq_consume_context *context, int delay_level)
{
    if (context) {
        context->delay_level = delay_level;
    }
}

void rmq_consume_context_set_auto_commit(rmq_consume_context *context, bool auto_commit)
{
    if (context) {
        context->manual_commit = !auto_commit;
    }
}

void rmq_consume_context_set_suspend_ms(rmq_consume_context *context, int64_t suspend_ms)
{
    if (context) {
        context->suspend_ms = suspend_ms < 0 ? -1 : suspend_ms;
    }
}

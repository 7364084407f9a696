/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends that nobody waits for: with a callback, with an event, without an answer. Any thread; the
 * work is done by send.c. Counterpart: DefaultMQProducer.
 */
#include "client/producer.h"

#include "base/err.h"
#include "base/time.h"
#include "client/accumulate.h"
#include "client/hooks.h"
#include "client/producer_queue.h"
#include "client/send.h"

/* What is sent, and where to. */
struct cargo {
    const rmq_message *const *messages;
    size_t count;
    bool batch;
    struct rq_send_target target;
    int64_t started_ms;
    struct rq_route *route;
    struct rq_route_queue queue;
    struct rmq_send_context *hooked; /* NULL without hooks */
};

static rmq_status check_cargo(struct rmq_producer *producer, const struct cargo *cargo,
                              size_t *bytes, rmq_error **err)
{
    if (cargo->batch) {
        return rq_send_check_batch(producer, cargo->messages, cargo->count, bytes, err);
    }
    rmq_status st = rq_send_check(producer, cargo->messages[0], err);
    *bytes = st == RMQ_OK ? cargo->messages[0]->body->size : 0;
    return st;
}

static rmq_status prepare(struct rq_send_op *op, const struct cargo *cargo, rmq_error **err)
{
    return cargo->batch ? rq_send_prepare_batch(op, cargo->messages, cargo->count, err)
                        : rq_send_prepare(op, cargo->messages[0], err);
}

static void load(struct rq_send_op *op, struct rmq_producer *producer, const struct cargo *cargo,
                 int retries)
{
    op->producer = producer;
    op->route = cargo->route;
    op->queue = cargo->queue;
    op->more_pairs = rq_hooks_pairs(cargo->hooked);
    op->fixed_queue = cargo->queue.broker != NULL;
    op->attempts_max = op->fixed_queue ? 1 : 1 + retries;
    op->started_ms = op->waited || op->fixed_queue ? rq_mono_ms() : cargo->started_ms;
}

/* A send with a deadline of its own goes at once, too: a batch has one for all. */
static bool waits_for_others(const struct rmq_producer *producer, const struct cargo *cargo,
                             const struct rq_send_order *order)
{
    return producer->accumulator && order->mode != RQ_SEND_INNER && !cargo->batch &&
           cargo->target.timeout_ms == 0 && !cargo->queue.broker &&
           rq_accumulator_takes(producer->accumulator, cargo->messages[0],
                                rq_hooks_pairs(cargo->hooked).n);
}

/* Takes over the cargo's route. */
static rmq_status start_async(struct rmq_producer *producer, const struct cargo *cargo,
                              const struct rq_send_order *order, rmq_error **err)
{
    struct rq_send_op *op = NULL;
    rmq_status st = rq_send_pool_take(producer->pool, order, &op, err);
    if (st != RMQ_OK) {
        rq_route_release(cargo->route);
        return st;
    }
    load(op, producer, cargo, producer->options.retry_times_when_send_async_failed);
    bool waits = waits_for_others(producer, cargo, order);
    st = waits ? rq_accumulator_add(producer->accumulator, op, cargo->messages[0], err)
               : prepare(op, cargo, err);
    if (st != RMQ_OK) {
        rq_send_pool_untake(op);
    } else if (!waits) {
        rq_send_begin(op);
    }
    return st;
}

/* Behind the checks. Hooks of a send that is not accepted end here, the others with its
 * completion. */
static rmq_status start_hooked(struct rmq_producer *producer, struct cargo *cargo,
                               struct rq_send_order *order, rmq_error **err)
{
    rmq_error *why = NULL;
    rmq_status st = RMQ_OK;
    if (order->mode != RQ_SEND_INNER) {
        st = rq_producer_begin_hooks(producer, cargo->messages, cargo->count, RMQ_MODE_ASYNC,
                                     &order->hooked, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    cargo->hooked = rq_hooks_retain(order->hooked); /* a shutdown may end the send meanwhile */
    st = rq_target_find(producer, &cargo->target, cargo->messages, cargo->count, order->deadline_ms,
                        &cargo->route, &cargo->queue, &why);
    if (st == RMQ_OK) {
        st = start_async(producer, cargo, order, &why);
    }
    if (st != RMQ_OK) {
        rq_producer_end_hooks(producer, order->hooked, NULL, why);
    }
    rq_hooks_release(cargo->hooked);
    if (err && st != RMQ_OK) {
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return st;
}

static rmq_status start_named(struct rmq_producer *producer, struct cargo *cargo,
                              struct rq_send_order *order, rmq_error **err)
{
    struct rq_named named;
    rmq_status st = rq_producer_name(producer, cargo->messages, cargo->count, &named, err);
    if (st == RMQ_OK) {
        cargo->messages = named.messages;
        st = start_hooked(producer, cargo, order, err);
    }
    rq_producer_unname(&named);
    return st;
}

static rmq_status send_async(struct rmq_producer *producer, struct cargo *cargo,
                             struct rq_send_order *order, rmq_error **err)
{
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = check_cargo(producer, cargo, &order->size, err);
    if (st == RMQ_OK && order->mode == RQ_SEND_EVENT && !producer->options.events) {
        st = rq_error_set(err, RMQ_ERR_STATE, "the producer has no event queue");
    }
    if (st == RMQ_OK) {
        order->messages = cargo->count;
        order->wait = producer->options.async_wait_when_full;
        cargo->started_ms = rq_mono_ms();
        order->deadline_ms =
            rq_producer_deadline_ms(producer, cargo->started_ms, cargo->target.timeout_ms);
        order->source = producer;
        st = start_named(producer, cargo, order, err);
    }
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_send_async_with(rmq_producer *producer, const rmq_message *message,
                                        const rmq_send_options *options, rmq_send_fn done,
                                        void *user, rmq_error **err)
{
    if (!done) {
        return rq_error_set(err, RMQ_ERR_INVALID, "callback is NULL");
    }
    struct rq_send_order order = {.mode = RQ_SEND_ASYNC, .done = done, .user = user};
    struct cargo cargo = {.messages = &message, .count = 1};
    rmq_status st = rq_target_set(&cargo.target, options, err);
    return st == RMQ_OK ? send_async(producer, &cargo, &order, err) : st;
}

rmq_status rmq_producer_send_async(rmq_producer *producer, const rmq_message *message,
                                   rmq_send_fn done, void *user, rmq_error **err)
{
    return rmq_producer_send_async_with(producer, message, NULL, done, user, err);
}

rmq_status rmq_producer_send_batch_async(rmq_producer *producer, const rmq_message *const *messages,
                                         size_t count, const rmq_send_options *options,
                                         rmq_send_fn done, void *user, rmq_error **err)
{
    if (!done) {
        return rq_error_set(err, RMQ_ERR_INVALID, "callback is NULL");
    }
    struct rq_send_order order = {.mode = RQ_SEND_ASYNC, .done = done, .user = user};
    struct cargo cargo = {.messages = messages, .count = count, .batch = true};
    rmq_status st = rq_target_set(&cargo.target, options, err);
    return st == RMQ_OK ? send_async(producer, &cargo, &order, err) : st;
}

rmq_status rmq_producer_send_batch_event(rmq_producer *producer, const rmq_message *const *messages,
                                         size_t count, const rmq_send_options *options,
                                         uint64_t token, rmq_error **err)
{
    struct rq_send_order order = {.mode = RQ_SEND_EVENT, .token = token};
    struct cargo cargo = {.messages = messages, .count = count, .batch = true};
    rmq_status st = rq_target_set(&cargo.target, options, err);
    return st == RMQ_OK ? send_async(producer, &cargo, &order, err) : st;
}

rmq_status rmq_producer_send_event_with(rmq_producer *producer, const rmq_message *message,
                                        const rmq_send_options *options, uint64_t token,
                                        rmq_error **err)
{
    struct rq_send_order order = {.mode = RQ_SEND_EVENT, .token = token};
    struct cargo cargo = {.messages = &message, .count = 1};
    rmq_status st = rq_target_set(&cargo.target, options, err);
    return st == RMQ_OK ? send_async(producer, &cargo, &order, err) : st;
}

rmq_status rmq_producer_send_event(rmq_producer *producer, const rmq_message *message,
                                   uint64_t token, rmq_error **err)
{
    return rmq_producer_send_event_with(producer, message, NULL, token, err);
}

rmq_status rq_producer_send_inner(struct rmq_producer *producer, const rmq_message *message,
                                  rmq_send_fn done, void *user, rmq_error **err)
{
    struct rq_send_order order = {.mode = RQ_SEND_INNER, .done = done, .user = user};
    struct cargo cargo = {.messages = &message, .count = 1};
    return send_async(producer, &cargo, &order, err);
}

/* ---- without an answer ---- */

static rmq_status run_oneway(struct rmq_producer *producer, const struct cargo *cargo,
                             int64_t deadline_ms, rmq_error **err)
{
    struct rq_send_op *op = NULL;
    const struct rq_send_order order = {.mode = RQ_SEND_ONEWAY,
                                        .size = cargo->messages[0]->body->size,
                                        .deadline_ms = deadline_ms,
                                        .source = producer};
    rmq_status st = rq_send_pool_take(producer->pool, &order, &op, err);
    if (st != RMQ_OK) {
        rq_route_release(cargo->route);
        return st;
    }
    load(op, producer, cargo, 0);
    st = prepare(op, cargo, err);
    op->last_status = st;
    if (st == RMQ_OK) {
        st = rq_send_oneway(op, err);
    }
    rq_send_pool_untake(op);
    return st;
}

static rmq_status oneway_checked(struct rmq_producer *producer, struct cargo *cargo,
                                 int64_t deadline_ms, rmq_error **err)
{
    const rmq_message *message = cargo->messages[0];
    rmq_status st = rq_target_find(producer, &cargo->target, cargo->messages, 1, deadline_ms,
                                   &cargo->route, &cargo->queue, err);
    if (st == RMQ_OK && !cargo->route) {
        st = rq_producer_route(producer, message->text, message->topic_len, deadline_ms,
                               &cargo->route, err);
    }
    return st == RMQ_OK ? run_oneway(producer, cargo, deadline_ms, err) : st;
}

static rmq_status oneway_hooked(struct rmq_producer *producer, struct cargo *cargo,
                                int64_t deadline_ms, rmq_error **err)
{
    rmq_error *why = NULL;
    rmq_status st =
        rq_producer_begin_hooks(producer, cargo->messages, 1, RMQ_MODE_ONEWAY, &cargo->hooked, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = oneway_checked(producer, cargo, deadline_ms, &why);
    rq_producer_end_hooks(producer, cargo->hooked, NULL, why);
    if (err && st != RMQ_OK) {
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return st;
}

rmq_status rmq_producer_send_oneway_with(rmq_producer *producer, const rmq_message *message,
                                         const rmq_send_options *options, rmq_error **err)
{
    struct cargo cargo = {.messages = &message, .count = 1};
    rmq_status st = rq_target_set(&cargo.target, options, err);
    if (st == RMQ_OK) {
        st = rq_producer_enter(producer, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    cargo.started_ms = rq_mono_ms();
    int64_t deadline = rq_producer_deadline_ms(producer, cargo.started_ms, cargo.target.timeout_ms);
    struct rq_named named = {0};
    st = rq_send_check(producer, message, err);
    if (st == RMQ_OK) {
        st = rq_producer_name(producer, &message, 1, &named, err);
    }
    if (st == RMQ_OK) {
        cargo.messages = named.messages;
        st = oneway_hooked(producer, &cargo, deadline, err);
    }
    rq_producer_unname(&named);
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_send_oneway(rmq_producer *producer, const rmq_message *message,
                                    rmq_error **err)
{
    return rmq_producer_send_oneway_with(producer, message, NULL, err);
}

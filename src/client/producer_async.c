/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends that nobody waits for: with a callback, with an event, without an answer. Any thread; the work is done by send.c. Counterpart:
 * DefaultMQProducer.
 */
#include "client/producer.h"

#include "base/err.h"
#include "base/time.h"
#include "client/send.h"

static rmq_status not_accepted(struct rq_send_op *op, rmq_status st, rmq_error **err)
{
    if (rq_send_pool_untake(op)) {
        return st;
    }
    if (err) {
        rmq_error_destroy(*err);
        *err = NULL;
    }
    return RMQ_OK;
}

static rmq_status start_async(struct rmq_producer *producer, const rmq_message *message,
                              const struct rq_send_order *order, int64_t now_ms, rmq_error **err)
{
    struct rq_send_op *op = NULL;
    rmq_status st = rq_send_pool_take(producer->pool, order, &op, err);
    if (st != RMQ_OK) {
        return st;
    }
    op->producer = producer;
    op->attempts_max = 1 + producer->options.retry_times_when_send_async_failed;
    op->started_ms = op->waited ? rq_mono_ms() : now_ms;
    st = rq_send_prepare(op, message, err);
    if (st != RMQ_OK) {
        return not_accepted(op, st, err);
    }
    op->route = rq_instance_route(producer->instance, rq_slice(message->text, message->topic_len));
    rq_send_begin(op);
    return RMQ_OK;
}

static rmq_status send_async(struct rmq_producer *producer, const rmq_message *message,
                             struct rq_send_order *order, rmq_error **err)
{
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_send_check(producer, message, err);
    if (st == RMQ_OK && order->mode == RQ_SEND_EVENT && !producer->options.events) {
        st = rq_error_set(err, RMQ_ERR_STATE, "the producer has no event queue");
    }
    if (st == RMQ_OK) {
        order->size = message->body->size;
        order->wait = producer->options.async_wait_when_full;
        int64_t now = rq_mono_ms();
        order->deadline_ms = rq_producer_deadline_ms(producer, now, 0);
        order->source = producer;
        st = start_async(producer, message, order, now, err);
    }
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_send_async(rmq_producer *producer, const rmq_message *message,
                                   rmq_send_fn done, void *user, rmq_error **err)
{
    if (!done) {
        return rq_error_set(err, RMQ_ERR_INVALID, "callback is NULL");
    }
    struct rq_send_order order = {.mode = RQ_SEND_ASYNC, .done = done, .user = user};
    return send_async(producer, message, &order, err);
}

rmq_status rmq_producer_send_event(rmq_producer *producer, const rmq_message *message,
                                   uint64_t token, rmq_error **err)
{
    struct rq_send_order order = {.mode = RQ_SEND_EVENT, .token = token};
    return send_async(producer, message, &order, err);
}

static rmq_status run_oneway(struct rmq_producer *producer, const rmq_message *message,
                             struct rq_route *route, int64_t now_ms, int64_t deadline_ms,
                             rmq_error **err)
{
    struct rq_send_op *op = NULL;
    const struct rq_send_order order = {.mode = RQ_SEND_ONEWAY,
                                        .size = message->body->size,
                                        .deadline_ms = deadline_ms,
                                        .source = producer};
    rmq_status st = rq_send_pool_take(producer->pool, &order, &op, err);
    if (st != RMQ_OK) {
        rq_route_release(route);
        return st;
    }
    op->producer = producer;
    op->route = route;
    op->started_ms = now_ms;
    st = rq_send_prepare(op, message, err);
    if (st == RMQ_OK) {
        st = rq_send_oneway(op, err);
    }
    (void)rq_send_pool_untake(op);
    return st;
}

rmq_status rmq_producer_send_oneway(rmq_producer *producer, const rmq_message *message,
                                    rmq_error **err)
{
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_route *route = NULL;
    int64_t now = rq_mono_ms();
    int64_t deadline = rq_producer_deadline_ms(producer, now, 0);
    st = rq_send_check(producer, message, err);
    if (st == RMQ_OK) {
        st = rq_producer_route(producer, message, deadline, &route, err);
    }
    if (st == RMQ_OK) {
        st = run_oneway(producer, message, route, now, deadline, err);
    }
    rq_producer_leave(producer);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Blocking sends, to any queue, a given one, one by selector or key, and of batches. Any thread but
 * the loop; the work is done by send.c. Counterpart: DefaultMQProducer.
 */
#include "client/producer.h"

#include "base/err.h"
#include "base/time.h"
#include "client/hooks.h"
#include "client/producer_queue.h"
#include "client/send.h"

int64_t rq_producer_deadline_ms(const struct rmq_producer *producer, int64_t now_ms,
                                int64_t timeout_ms)
{
    return now_ms + rq_timeout_ms(timeout_ms, producer->options.send_msg_timeout_ms);
}

/* What a blocking send is asked for. */
struct request {
    const rmq_message *const *messages;
    size_t count;
    bool batch;
    bool half; /* of a transaction */
    struct rq_send_target target;
    struct rmq_send_context *hooked; /* NULL without hooks */
    int64_t started_ms;
    int64_t deadline_ms;
};

static rmq_status check_request(const struct rmq_producer *producer, const struct request *request,
                                size_t *bytes, rmq_error **err)
{
    if (request->batch) {
        return rq_send_check_batch(producer, request->messages, request->count, bytes, err);
    }
    rmq_status st = rq_send_check(producer, request->messages[0], err);
    *bytes = st == RMQ_OK ? request->messages[0]->body->size : 0;
    return st;
}

static rmq_status take_outcome(struct rq_send_op *op, rmq_send_result **result, rmq_error **err)
{
    bool cut = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
    if (cut) {
        if (err) {
            rmq_error_destroy(*err);
            *err = rq_send_cut_error(op);
        }
        return RMQ_ERR_CLOSED;
    }
    if (op->error) {
        rmq_status st = rmq_error_status(op->error);
        if (err) {
            rmq_error_destroy(*err);
            *err = op->error;
            op->error = NULL;
        }
        return st;
    }
    if (result) {
        *result = rq_send_result_copy(&op->result);
        if (!*result) {
            rq_error_set(err, RMQ_ERR_NOMEM, "result of a send that was stored");
            if (err) {
                rq_error_mark(*err, false, true);
            }
            return RMQ_ERR_NOMEM;
        }
    }
    return RMQ_OK;
}

static rmq_status run_request(struct rmq_producer *producer, const struct request *request,
                              size_t bytes, struct rq_route *route,
                              const struct rq_route_queue *queue, rmq_send_result **result,
                              rmq_error **err)
{
    struct rq_send_op *op = NULL;
    const struct rq_send_order order = {.mode = RQ_SEND_SYNC,
                                        .size = bytes,
                                        .messages = request->count,
                                        .deadline_ms = request->deadline_ms,
                                        .source = producer};
    rmq_status st = rq_send_pool_take(producer->pool, &order, &op, err);
    if (st != RMQ_OK) {
        rq_route_release(route);
        return st;
    }
    op->producer = producer;
    op->route = route;
    op->fixed_queue = queue->broker != NULL;
    op->queue = *queue;
    op->attempts_max = op->fixed_queue ? 1 : 1 + producer->options.retry_times_when_send_failed;
    op->started_ms = request->started_ms;
    op->half = request->half;
    op->more_pairs = rq_hooks_pairs(request->hooked);
    st = request->batch ? rq_send_prepare_batch(op, request->messages, request->count, err)
                        : rq_send_prepare(op, request->messages[0], err);
    if (st != RMQ_OK) {
        rq_send_pool_untake(op);
        return st;
    }
    rq_send_begin(op);
    rq_waiter_wait(&op->waiter);
    st = take_outcome(op, result, err);
    rq_send_consumed(op);
    return st;
}

/* Behind the checks. */
static rmq_status send_checked(struct rmq_producer *producer, struct request *request, size_t bytes,
                               rmq_send_result **result, rmq_error **err)
{
    struct rq_route *route = NULL;
    struct rq_route_queue queue = {0};
    rmq_status st = rq_target_find(producer, &request->target, request->messages, request->count,
                                   request->deadline_ms, &route, &queue, err);
    if (st != RMQ_OK) {
        return st;
    }
    request->started_ms = queue.broker ? rq_mono_ms() : request->started_ms;
    return run_request(producer, request, bytes, route, &queue, result, err);
}

/* The hooks see result and error also when the caller does not care for them. */
static rmq_status send_hooked(struct rmq_producer *producer, struct request *request, size_t bytes,
                              rmq_send_result **result, rmq_error **err)
{
    rmq_send_result *stored = NULL;
    rmq_error *why = NULL;
    rmq_status st = rq_producer_begin_hooks(producer, request->messages, request->count,
                                            RMQ_MODE_SYNC, &request->hooked, err);
    if (st != RMQ_OK || !request->hooked) {
        return st != RMQ_OK ? st : send_checked(producer, request, bytes, result, err);
    }
    st = send_checked(producer, request, bytes, &stored, &why);
    rq_producer_end_hooks(producer, request->hooked, stored, why);
    if (result && st == RMQ_OK) {
        *result = stored;
    } else {
        rmq_send_result_destroy(stored);
    }
    if (err && st != RMQ_OK) {
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return st;
}

static rmq_status send_blocking(struct rmq_producer *producer, struct request *request,
                                rmq_send_result **result, rmq_error **err)
{
    if (result) {
        *result = NULL;
    }
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    request->started_ms = rq_mono_ms();
    request->deadline_ms =
        rq_producer_deadline_ms(producer, request->started_ms, request->target.timeout_ms);
    size_t bytes = 0;
    if (rq_loop_in(rq_instance_loop(producer->instance))) {
        st = rq_error_set(err, RMQ_ERR_STATE, "a blocking send on the I/O thread");
    }
    if (st == RMQ_OK) {
        st = check_request(producer, request, &bytes, err);
    }
    struct rq_named named = {0};
    if (st == RMQ_OK) {
        st = rq_producer_name(producer, request->messages, request->count, &named, err);
    }
    if (st == RMQ_OK) {
        request->messages = named.messages;
        st = send_hooked(producer, request, bytes, result, err);
    }
    rq_producer_unname(&named);
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_send(rmq_producer *producer, const rmq_message *message, int64_t timeout_ms,
                             rmq_send_result **result, rmq_error **err)
{
    struct request request = {
        .messages = &message, .count = 1, .target = {.timeout_ms = timeout_ms}};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_with(rmq_producer *producer, const rmq_message *message,
                                  const rmq_send_options *options, rmq_send_result **result,
                                  rmq_error **err)
{
    struct request request = {.messages = &message, .count = 1};
    rmq_status st = rq_target_set(&request.target, options, err);
    return st == RMQ_OK ? send_blocking(producer, &request, result, err) : st;
}

rmq_status rq_producer_send_half(struct rmq_producer *producer, const rmq_message *message,
                                 int64_t timeout_ms, rmq_send_result **result, rmq_error **err)
{
    struct request request = {
        .messages = &message, .count = 1, .half = true, .target = {.timeout_ms = timeout_ms}};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_to_queue(rmq_producer *producer, const rmq_message *message,
                                      const char *broker_name, int32_t queue_id, int64_t timeout_ms,
                                      rmq_send_result **result, rmq_error **err)
{
    if (!broker_name || queue_id < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "queue %d of broker %s", (int)queue_id,
                            broker_name ? broker_name : "NULL");
    }
    struct request request = {
        .messages = &message,
        .count = 1,
        .target = {.timeout_ms = timeout_ms, .broker_name = broker_name, .queue_id = queue_id}};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_by_selector(rmq_producer *producer, const rmq_message *message,
                                         rmq_queue_selector_fn selector, void *user,
                                         int64_t timeout_ms, rmq_send_result **result,
                                         rmq_error **err)
{
    if (!selector) {
        return rq_error_set(err, RMQ_ERR_INVALID, "selector is NULL");
    }
    struct request request = {
        .messages = &message,
        .count = 1,
        .target = {.timeout_ms = timeout_ms, .selector = selector, .user = user}};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_by_key(rmq_producer *producer, const rmq_message *message,
                                    const char *sharding_key, int64_t timeout_ms,
                                    rmq_send_result **result, rmq_error **err)
{
    if (!sharding_key) {
        return rq_error_set(err, RMQ_ERR_INVALID, "sharding key is NULL");
    }
    struct request request = {.messages = &message,
                              .count = 1,
                              .target = {.timeout_ms = timeout_ms, .key = sharding_key}};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_batch(rmq_producer *producer, const rmq_message *const *messages,
                                   size_t count, int64_t timeout_ms, rmq_send_result **result,
                                   rmq_error **err)
{
    struct request request = {
        .messages = messages, .count = count, .batch = true, .target = {.timeout_ms = timeout_ms}};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_all(rmq_producer *producer, const rmq_message *const *messages,
                                 size_t count, int64_t timeout_ms, size_t *stored, rmq_error **err)
{
    size_t done = 0;
    rmq_status st = producer && messages
                        ? RMQ_OK
                        : rq_error_set(err, RMQ_ERR_INVALID, "producer and messages are required");
    while (st == RMQ_OK && done < count) {
        size_t n = rq_send_batch_fits(producer, messages + done, count - done);
        st = n == 1 ? rmq_producer_send(producer, messages[done], timeout_ms, NULL, err)
                    : rmq_producer_send_batch(producer, messages + done, n, timeout_ms, NULL, err);
        done += st == RMQ_OK ? n : 0;
    }
    if (stored) {
        *stored = done;
    }
    return st;
}

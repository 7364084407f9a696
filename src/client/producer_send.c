/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Blocking sends, to any queue, a given one, one by selector or key, and of batches. Any thread but the loop; the work is done by send.c.
 * Counterpart: DefaultMQProducer.
 */
#include "client/producer.h"

#include <string.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/time.h"
#include "client/route_wait.h"
#include "client/send.h"

#define ROUTE_SLICE_MS                                                                             \
    200 /* a thread that waits for a route looks so often whether the producer is closed */

static bool is_closed(struct rmq_producer *producer)
{
    return atomic_load_explicit(&producer->closed, memory_order_relaxed);
}

rmq_status rq_producer_route(struct rmq_producer *producer, const rmq_message *message,
                             int64_t deadline_ms, struct rq_route **out, rmq_error **err)
{
    *out = rq_instance_route(producer->instance, rq_slice(message->text, message->topic_len));
    rmq_error *why = NULL;
    rmq_status st = RMQ_OK;
    for (int64_t slice = 0; !*out && slice < deadline_ms && !is_closed(producer);) {
        int64_t now = rq_mono_ms();
        slice = now + ROUTE_SLICE_MS < deadline_ms ? now + ROUTE_SLICE_MS : deadline_ms;
        st = rq_route_wait(producer->instance, message->text,
                           producer->options.default_topic_queue_nums, slice, out, &why);
        if (st != RMQ_OK && rq_mono_ms() < slice) {
            break; /* an answer, not the end of the slice */
        }
    }
    if (!*out && is_closed(producer)) {
        st = rq_error_set(&why, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    if (st != RMQ_OK && err) {
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return st;
}

int64_t rq_producer_deadline_ms(const struct rmq_producer *producer, int64_t now_ms,
                                int64_t timeout_ms)
{
    return now_ms + (timeout_ms > 0 ? timeout_ms : producer->options.send_msg_timeout_ms);
}

/* ---- blocking sends ---- */

/* What a blocking send is asked for: messages, and how the queue is found. */
struct request {
    const rmq_message *const *messages;
    size_t count;
    bool batch;
    const char *broker_name; /* a given queue */
    int32_t queue_id;
    rmq_queue_selector_fn selector;
    void *user;
    const char *key;
    int64_t timeout_ms; /* 0 = the option's */
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

static rmq_status set_given_queue(const struct request *request, struct rq_route *route,
                                  struct rq_route_queue *queue, rmq_error **err)
{
    queue->broker = rq_route_find_broker(route, rq_slice_str(request->broker_name));
    queue->id = request->queue_id;
    if (!queue->broker) {
        return rq_error_set(err, RMQ_ERR_NO_BROKER, "broker %s is not in the route of topic %s",
                            request->broker_name, route->topic);
    }
    return RMQ_OK;
}

/* |hash mod n| in 32 bits, as Java has it. */
static size_t index_by_key(const char *key, size_t count)
{
    int32_t n = (int32_t)count;
    int32_t rest = rq_java_hash(rq_slice_str(key)) % n;
    return (size_t)(rest < 0 ? -rest : rest);
}

static rmq_status set_selected_queue(const struct request *request, struct rq_route *route,
                                     struct rq_route_queue *queue, rmq_error **err)
{
    size_t count = route->publish_count;
    if (count == 0) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "topic %s has no queue that takes messages",
                            route->topic);
    }
    size_t index = request->selector ? request->selector(request->messages[0], count, request->user)
                                     : index_by_key(request->key, count);
    if (index >= count) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the selector returned queue %zu of %zu", index,
                            count);
    }
    *queue = route->publish[index];
    return RMQ_OK;
}

/* Before the operation is taken: the selector is the program's code and may do as it likes. */
static rmq_status find_queue(struct rmq_producer *producer, struct request *request,
                             struct rq_route **route, struct rq_route_queue *queue, rmq_error **err)
{
    const rmq_message *message = request->messages[0];
    if (!request->broker_name && !request->selector && !request->key) {
        *route = rq_instance_route(producer->instance, rq_slice(message->text, message->topic_len));
        return RMQ_OK; /* without one, the operation looks it up */
    }
    rmq_status st = rq_producer_route(producer, message, request->deadline_ms, route, err);
    request->started_ms = rq_mono_ms();
    if (st == RMQ_OK && request->broker_name) {
        st = set_given_queue(request, *route, queue, err);
    } else if (st == RMQ_OK) {
        st = set_selected_queue(request, *route, queue, err);
    }
    return st;
}

static rmq_status take_outcome(struct rq_send_op *op, rmq_send_result **result, rmq_error **err)
{
    bool cut = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
    if (cut) {
        rmq_status st = rq_error_set(err, RMQ_ERR_CLOSED,
                                     "the producer was shut down before the send was answered");
        if (err) {
            rq_error_mark(*err, false, true);
        }
        return st;
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
    st = request->batch ? rq_send_prepare_batch(op, request->messages, request->count, err)
                        : rq_send_prepare(op, request->messages[0], err);
    if (st != RMQ_OK) {
        (void)rq_send_pool_untake(op);
        return st;
    }
    rq_send_begin(op);
    rq_waiter_wait(&op->waiter);
    st = take_outcome(op, result, err);
    rq_send_consumed(op);
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
        rq_producer_deadline_ms(producer, request->started_ms, request->timeout_ms);
    size_t bytes = 0;
    struct rq_route *route = NULL;
    struct rq_route_queue queue = {0};
    if (rq_loop_in(rq_instance_loop(producer->instance))) {
        st = rq_error_set(err, RMQ_ERR_STATE, "a blocking send on the I/O thread");
    }
    if (st == RMQ_OK) {
        st = check_request(producer, request, &bytes, err);
    }
    if (st == RMQ_OK) {
        st = find_queue(producer, request, &route, &queue, err);
    }
    if (st == RMQ_OK) {
        st = run_request(producer, request, bytes, route, &queue, result, err);
    } else {
        rq_route_release(route);
    }
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_send(rmq_producer *producer, const rmq_message *message, int64_t timeout_ms,
                             rmq_send_result **result, rmq_error **err)
{
    struct request request = {.messages = &message, .count = 1, .timeout_ms = timeout_ms};
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
    struct request request = {.messages = &message,
                              .count = 1,
                              .broker_name = broker_name,
                              .queue_id = queue_id,
                              .timeout_ms = timeout_ms};
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
    struct request request = {.messages = &message,
                              .count = 1,
                              .selector = selector,
                              .user = user,
                              .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_by_key(rmq_producer *producer, const rmq_message *message,
                                    const char *sharding_key, int64_t timeout_ms,
                                    rmq_send_result **result, rmq_error **err)
{
    if (!sharding_key) {
        return rq_error_set(err, RMQ_ERR_INVALID, "sharding key is NULL");
    }
    struct request request = {
        .messages = &message, .count = 1, .key = sharding_key, .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_batch(rmq_producer *producer, const rmq_message *const *messages,
                                   size_t count, int64_t timeout_ms, rmq_send_result **result,
                                   rmq_error **err)
{
    struct request request = {
        .messages = messages, .count = count, .batch = true, .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

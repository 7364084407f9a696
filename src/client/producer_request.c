/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests of a producer: a message with a correlation id is sent asynchronously, and waits in the
 * table of requests for its reply. Any thread. Counterpart: DefaultMQProducerImpl.request.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/time.h"
#include "client/message.h"
#include "client/producer.h"
#include "client/producer_queue.h"
#include "client/requests.h"
#include "wire/namespace.h"
#include "wire/properties.h"

/* at most so long a first request waits for brokers to know this client */
#define GREET_MS      500
#define GREET_LOOK_MS 1

/* ---- the send ---- */

static void sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct rq_pending *request = user;
    if (result) {
        rq_pending_sent(request);
    } else if (rq_pending_claim(request)) {
        request->err = rq_error_copy(err);
        rq_pending_complete(request);
    }
    rq_pending_drop(request);
}

static rmq_status mark_message(struct rmq_producer *producer, const struct rq_pending *request,
                               rmq_message *message, int64_t timeout_ms)
{
    char ttl[24];
    (void)snprintf(ttl, sizeof ttl, "%lld", (long long)timeout_ms);
    rmq_status st = rq_message_put(message, RQ_PROP_CORRELATION_ID, request->id);
    st = st ? st
            : rq_message_put(message, RQ_PROP_REPLY_TO_CLIENT,
                             rq_instance_client_id(producer->instance));
    return st ? st : rq_message_put(message, RQ_PROP_TTL, ttl);
}

/* Brokers must know the client before they have a reply for it. */
struct greet {
    struct rq_instance *instance;
    bool done;
};

static void look_greeted(void *arg)
{
    struct greet *greet = arg;
    greet->done = rq_instance_has_greeted(greet->instance);
}

static void greet_brokers(struct rmq_producer *producer, const rmq_message *message,
                          int64_t deadline_ms)
{
    struct greet greet = {.instance = producer->instance};
    char room[RQ_NAMESPACED_MAX];
    const char *topic =
        rq_namespace_wrap(producer->options.namespace_name, rmq_message_topic(message), room);
    struct rq_route *route = rq_instance_route(producer->instance, rq_slice_str(topic));
    bool known = route != NULL;
    rq_route_release(route);
    if (known || rq_executor_in() ||
        rq_producer_route(producer, topic, strlen(topic), deadline_ms, &route, NULL) != RMQ_OK) {
        return; /* the send says what is wrong */
    }
    rq_route_release(route);
    int64_t until = rq_mono_ms() + GREET_MS < deadline_ms ? rq_mono_ms() + GREET_MS : deadline_ms;
    do {
        (void)rq_instance_run(producer->instance, look_greeted, &greet);
        if (!greet.done) {
            rq_requests_pause(producer->requests, rq_mono_ms() + GREET_LOOK_MS);
        }
    } while (!greet.done && rq_mono_ms() < until);
}

static rmq_status send_request(struct rmq_producer *producer, struct rq_pending *request,
                               rmq_message *message, int64_t timeout_ms, rmq_error **err)
{
    rmq_send_options options;
    rmq_send_options_init(&options, sizeof options);
    rmq_status st = mark_message(producer, request, message, timeout_ms);
    if (st) {
        return rq_error_set(err, st, "properties of a request to topic %s", message->text);
    }
    st = rq_pending_enlist(producer->requests, request, err);
    if (st) {
        return st;
    }
    rq_pending_retain(request); /* the send's */
    options.timeout_ms = rq_left_ms(request->deadline_ms);
    st = rmq_producer_send_async_with(producer, message, &options, sent, request, err);
    if (st == RMQ_OK) {
        return RMQ_OK;
    }
    rq_pending_drop(request);
    if (rq_pending_claim(request)) {
        rq_pending_completed(request);
        return st;
    }
    /* The deadline or the shutdown was first and tells the outcome: it counts as accepted. */
    if (err) {
        rmq_error_destroy(*err);
        *err = NULL;
    }
    return RMQ_OK;
}

/* out (may be NULL) gets a reference of the request on RMQ_OK. */
static rmq_status start(struct rmq_producer *producer, const rmq_message *message,
                        int64_t timeout_ms, struct rq_request_way way, struct rq_pending **out,
                        rmq_error **err)
{
    struct rq_pending *request = rq_pending_create(producer->requests, timeout_ms);
    /* Its body is the program's again with the reply, which may come while the send still tries. */
    rmq_message *copy = request ? rq_message_copy(message) : NULL;
    rmq_status st;
    if (copy) {
        request->way = way;
        greet_brokers(producer, message, request->deadline_ms);
        st = send_request(producer, request, copy, timeout_ms, err);
    } else {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "request to topic %s", message->text);
    }
    rmq_message_destroy(copy);
    if (out && st == RMQ_OK) {
        *out = request;
    } else {
        rq_pending_drop(request);
    }
    return st;
}

static rmq_status begin(struct rmq_producer *producer, const rmq_message *message,
                        int64_t *timeout_ms, rmq_error **err)
{
    if (!message) {
        return rq_error_set(err, RMQ_ERR_INVALID, "message is NULL");
    }
    rmq_status st = rq_producer_enter(producer, err);
    if (st == RMQ_OK) {
        *timeout_ms = rq_timeout_ms(*timeout_ms, producer->options.send_msg_timeout_ms);
    }
    return st;
}

static rmq_status take_outcome(struct rq_pending *request, const rmq_message_view **reply,
                               rmq_error **err)
{
    rmq_status st = request->err ? rmq_error_status(request->err) : RMQ_OK;
    if (st == RMQ_OK) {
        *reply = rmq_message_view_retain(&request->reply->items[0]);
    } else if (err) {
        rmq_error_destroy(*err);
        *err = request->err;
        request->err = NULL;
    }
    return st;
}

rmq_status rmq_producer_request(rmq_producer *producer, const rmq_message *message,
                                int64_t timeout_ms, const rmq_message_view **reply, rmq_error **err)
{
    struct rq_pending *request = NULL;
    if (!reply) {
        return rq_error_set(err, RMQ_ERR_INVALID, "request: reply is NULL");
    }
    *reply = NULL;
    rmq_status st = begin(producer, message, &timeout_ms, err);
    if (st != RMQ_OK) {
        return st;
    }
    if (rq_loop_in(rq_instance_loop(producer->instance)) || rq_executor_in()) {
        st =
            rq_error_set(err, RMQ_ERR_STATE, "a blocking request on a thread that its reply needs");
    } else {
        st = start(producer, message, timeout_ms, (struct rq_request_way){0}, &request, err);
    }
    if (st == RMQ_OK) {
        rq_waiter_wait(&request->waiter);
        st = take_outcome(request, reply, err);
        rq_pending_completed(request);
        rq_pending_drop(request);
    }
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_request_async(rmq_producer *producer, const rmq_message *message,
                                      int64_t timeout_ms, rmq_request_fn done, void *user,
                                      rmq_error **err)
{
    if (!done) {
        return rq_error_set(err, RMQ_ERR_INVALID, "callback is NULL");
    }
    rmq_status st = begin(producer, message, &timeout_ms, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = start(producer, message, timeout_ms, (struct rq_request_way){.done = done, .user = user},
               NULL, err);
    rq_producer_leave(producer);
    return st;
}

rmq_status rmq_producer_request_event(rmq_producer *producer, const rmq_message *message,
                                      int64_t timeout_ms, uint64_t token, rmq_error **err)
{
    rmq_status st = begin(producer, message, &timeout_ms, err);
    if (st != RMQ_OK) {
        return st;
    }
    if (producer->options.events) {
        const struct rq_request_way way = {.events = producer->options.events, .token = token};
        st = start(producer, message, timeout_ms, way, NULL, err);
    } else {
        st = rq_error_set(err, RMQ_ERR_STATE, "the producer has no event queue");
    }
    rq_producer_leave(producer);
    return st;
}

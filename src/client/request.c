/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests: a message with a correlation id is sent asynchronously, and a record waits under that
 * id for the reply, the failure of the send, the deadline or the shutdown. Who takes the record out
 * of the table completes it, so there is exactly one completion. Callers on any thread, replies and
 * deadlines on the I/O thread, callbacks on the callback thread. Counterparts:
 * DefaultMQProducerImpl.request, RequestFutureHolder.
 */
#include "client/request.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/events.h"
#include "client/executor.h"
#include "client/message.h"
#include "client/producer.h"
#include "client/producer_queue.h"
#include "client/reply.h"
#include "client/unique_id.h"
#include "client/waiter.h"
#include "wire/namespace.h"
#include "wire/properties.h"

/* at most so long a first request waits for brokers to know this client */
#define GREET_MS      500
#define GREET_LOOK_MS 1

struct rq_requests {
    struct rmq_producer *producer;
    struct rq_mutex lock; /* rank 10; guards all below */
    struct rq_cond change;
    unsigned refs;
    struct rq_map pending; /* correlation id -> struct request */
    unsigned calling;      /* taken out, callback not run yet */
    bool closed;
    bool armed_posted;
    struct rq_executor *executor;
    struct rq_task arm_task;
    struct rq_timer timer; /* owned by the I/O thread */
};

/* Where the outcome goes: to a callback, into an event queue, or, with neither, to who waits. */
struct way {
    rmq_request_fn done;
    void *user;
    rmq_events *events;
    uint64_t token;
};

struct request {
    struct rq_requests *requests; /* a reference */
    atomic_int refs;              /* atomic: acq_rel: table or completion, and the send */
    char id[RQ_UNIQUE_ID_MAX + 1];
    int64_t started_ms;
    int64_t deadline_ms; /* monotonic */
    bool stored;         /* guarded by the lock: the request is at a broker */
    struct way way;
    struct rmq_event event; /* the request is freed with it */
    struct rq_waiter waiter;
    struct rq_work work;
    /* outcome: exactly one */
    struct rq_views *reply;
    rmq_error *err;
};

static void arm(struct rq_task *task);
static void time_is_up(struct rq_timer *timer);

struct rq_requests *rq_requests_create(struct rmq_producer *producer)
{
    struct rq_requests *requests = rq_calloc(1, sizeof *requests);
    if (requests) {
        requests->producer = producer;
        requests->refs = 1;
        requests->arm_task.run = arm;
        rq_timer_init(&requests->timer, time_is_up);
        rq_map_init(&requests->pending);
        rq_mutex_init(&requests->lock);
        rq_cond_init(&requests->change);
    }
    return requests;
}

static void unlock_and_drop(struct rq_requests *requests)
{
    bool last = --requests->refs == 0;
    rq_mutex_unlock(&requests->lock);
    if (last) {
        rq_map_free(&requests->pending, NULL);
        rq_cond_destroy(&requests->change);
        rq_mutex_destroy(&requests->lock);
        rq_free(requests);
    }
}

void rq_requests_release(struct rq_requests *requests)
{
    if (requests) {
        rq_mutex_lock(&requests->lock);
        unlock_and_drop(requests);
    }
}

static void drop_request(struct request *request)
{
    if (atomic_fetch_sub_explicit(&request->refs, 1, memory_order_acq_rel) == 1) {
        rq_views_release(request->reply);
        rmq_error_destroy(request->err);
        rq_requests_release(request->requests);
        rq_free(request);
    }
}

/* ---- completion ---- */

/* Takes a request out of the table: the caller completes it. */
static bool claim_locked(struct rq_requests *requests, const struct request *request)
{
    struct rq_slice id = rq_slice_str(request->id);
    if (rq_map_get(&requests->pending, id) != request) {
        return false;
    }
    (void)rq_map_remove(&requests->pending, id);
    requests->calling++;
    rq_cond_broadcast(&requests->change);
    return true;
}

static bool claim(struct request *request)
{
    struct rq_requests *requests = request->requests;
    rq_mutex_lock(&requests->lock);
    bool claimed = claim_locked(requests, request);
    rq_mutex_unlock(&requests->lock);
    return claimed;
}

static void completed(struct request *request)
{
    struct rq_requests *requests = request->requests;
    rq_mutex_lock(&requests->lock);
    requests->calling--;
    rq_cond_broadcast(&requests->change);
    rq_mutex_unlock(&requests->lock);
    drop_request(request);
}

static void call_back(struct rq_work *work)
{
    struct request *request = RQ_CONTAINER_OF(work, struct request, work);
    request->way.done(request->reply ? &request->reply->items[0] : NULL, request->err,
                      request->way.user);
    completed(request);
}

static void destroy_event(struct rmq_event *event)
{
    drop_request(RQ_CONTAINER_OF(event, struct request, event));
}

/* The event takes the completion's reference over, and may be gone as soon as it is posted; a
 * shutdown waits until then, so that the producer can still take its name off the event. */
static void post_event(struct request *request)
{
    struct rq_requests *requests = request->requests;
    request->event =
        (struct rmq_event){.type = RMQ_EVENT_REPLY,
                           .token = request->way.token,
                           .source = requests->producer,
                           .error = request->err,
                           .message = request->reply ? &request->reply->items[0] : NULL,
                           .destroy = destroy_event};
    rq_list_init(&request->event.node);
    rq_mutex_lock(&requests->lock);
    requests->refs++;
    rq_mutex_unlock(&requests->lock);
    rq_events_post(request->way.events, &request->event);
    rq_mutex_lock(&requests->lock);
    requests->calling--;
    rq_cond_broadcast(&requests->change);
    unlock_and_drop(requests);
}

/* Of a claimed request, with its outcome written. */
static void complete(struct request *request)
{
    if (request->way.events) {
        post_event(request);
        return;
    }
    if (!request->way.done) {
        rq_waiter_done(&request->waiter); /* who waits drops it */
        return;
    }
    request->work.run = call_back;
    rq_executor_post(request->requests->executor, &request->work);
}

static void fail_late(struct request *request, bool stored)
{
    long long took = (long long)(rq_mono_ms() - request->started_ms);
    rq_error_set(&request->err, RMQ_ERR_TIMEOUT,
                 "no reply to request %s within %lld ms, which was %s", request->id, took,
                 stored ? "sent" : "not confirmed by a broker");
    rq_error_mark(request->err, false, true);
}

/* ---- the send ---- */

static void sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct request *request = user;
    if (result) {
        rq_mutex_lock(&request->requests->lock);
        request->stored = true;
        rq_mutex_unlock(&request->requests->lock);
    } else if (claim(request)) {
        request->err = rq_error_copy(err);
        complete(request);
    }
    drop_request(request);
}

static rmq_status mark_message(struct rmq_producer *producer, const struct request *request,
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
            rq_mutex_lock(&producer->requests->lock);
            (void)rq_cond_wait_until(&producer->requests->change, &producer->requests->lock,
                                     rq_mono_ms() + GREET_LOOK_MS);
            rq_mutex_unlock(&producer->requests->lock);
        }
    } while (!greet.done && rq_mono_ms() < until);
}

static rmq_status enlist(struct rq_requests *requests, struct request *request, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&requests->lock);
    if (requests->closed) {
        st = rq_error_set(err, RMQ_ERR_CLOSED, "the producer is shut down");
    } else if (request->way.done && !requests->executor) {
        st = rq_executor_get(&requests->executor, err);
    }
    if (!st) {
        st = rq_map_put(&requests->pending, rq_slice_str(request->id), request);
    }
    if (!st && !requests->armed_posted) {
        requests->armed_posted = true;
        (void)rq_loop_post(rq_instance_loop(requests->producer->instance), &requests->arm_task);
    }
    rq_mutex_unlock(&requests->lock);
    return st;
}

/* Takes the request over on failure. */
static rmq_status send_request(struct rmq_producer *producer, struct request *request,
                               rmq_message *message, int64_t timeout_ms, rmq_error **err)
{
    rmq_send_options options;
    rmq_send_options_init(&options, sizeof options);
    options.timeout_ms = timeout_ms;
    rmq_status st = mark_message(producer, request, message, timeout_ms);
    if (st) {
        rq_error_set(err, st, "properties of a request to topic %s", message->text);
    } else {
        st = enlist(producer->requests, request, err);
    }
    if (st) {
        drop_request(request);
        drop_request(request);
        return st;
    }
    st = rmq_producer_send_async_with(producer, message, &options, sent, request, err);
    if (st == RMQ_OK) {
        return RMQ_OK;
    }
    bool ours = claim(request);
    drop_request(request); /* the send's */
    if (!ours) {           /* the deadline or the shutdown was first: it counts as accepted */
        if (err) {
            rmq_error_destroy(*err);
            *err = NULL;
        }
        return RMQ_OK;
    }
    completed(request);
    return st;
}

/* out (may be NULL) gets a reference of the request. */
static rmq_status start(struct rmq_producer *producer, const rmq_message *message,
                        int64_t timeout_ms, struct way way, struct request **out, rmq_error **err)
{
    struct request *request = rq_calloc(1, sizeof *request);
    rmq_message *copy = request ? rq_message_copy(message) : NULL;
    if (!copy) {
        rq_free(request);
        return rq_error_set(err, RMQ_ERR_NOMEM, "request to topic %s", message->text);
    }
    rq_mutex_lock(&producer->requests->lock);
    producer->requests->refs++;
    rq_mutex_unlock(&producer->requests->lock);
    request->requests = producer->requests;
    atomic_init(&request->refs, out ? 3 : 2);
    request->started_ms = rq_mono_ms();
    request->deadline_ms = request->started_ms + timeout_ms;
    request->way = way;
    rq_waiter_init(&request->waiter);
    (void)rq_unique_id(request->started_ms, request->id);
    greet_brokers(producer, message, request->deadline_ms);
    rmq_status st = send_request(producer, request, copy, timeout_ms, err);
    rmq_message_destroy(copy);
    if (out && st) {
        drop_request(request);
    } else if (out) {
        *out = request;
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

static rmq_status take_outcome(struct request *request, const rmq_message_view **reply,
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
    struct request *request = NULL;
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
        st = start(producer, message, timeout_ms, (struct way){0}, &request, err);
    }
    if (st == RMQ_OK) {
        rq_waiter_wait(&request->waiter);
        st = take_outcome(request, reply, err);
        completed(request);
        drop_request(request);
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
    st = start(producer, message, timeout_ms, (struct way){.done = done, .user = user}, NULL, err);
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
        const struct way way = {.events = producer->options.events, .token = token};
        st = start(producer, message, timeout_ms, way, NULL, err);
    } else {
        st = rq_error_set(err, RMQ_ERR_STATE, "the producer has no event queue");
    }
    rq_producer_leave(producer);
    return st;
}

/* ---- replies and deadlines, on the loop ---- */

bool rq_requests_reply(struct rq_requests *requests, struct rq_peer *peer, struct rq_in *in)
{
    struct rq_slice id =
        rq_props_get(rq_header_ext(in->header, "properties"), RQ_PROP_CORRELATION_ID);
    rq_mutex_lock(&requests->lock);
    struct request *request = id.n ? rq_map_get(&requests->pending, id) : NULL;
    if (request) {
        (void)claim_locked(requests, request);
    }
    rq_mutex_unlock(&requests->lock);
    if (!request) {
        return false;
    }
    rmq_status st = rq_reply_view(in, (size_t)requests->producer->options.max_message_size,
                                  &request->reply, &request->err);
    if (st != RMQ_OK) {
        RQ_LOG(WARN, "a reply cannot be read", "broker=%s reason=%s", rq_peer_address(peer),
               rmq_error_message(request->err));
    }
    complete(request);
    return true;
}

/* Takes out one request that is late, or any when all are to go; the deadline of the next in
 * *next_ms. */
static struct request *take_late(struct rq_requests *requests, int64_t now_ms, bool all,
                                 bool *stored, int64_t *next_ms)
{
    struct request *late = NULL;
    const struct rq_map_entry *entry;
    *next_ms = RQ_FOREVER;
    rq_mutex_lock(&requests->lock);
    for (size_t i = 0; !late && (entry = rq_map_next(&requests->pending, &i));) {
        struct request *request = entry->value;
        if (all || request->deadline_ms <= now_ms) {
            late = request;
        } else if (request->deadline_ms < *next_ms) {
            *next_ms = request->deadline_ms;
        }
    }
    if (late) {
        *stored = late->stored;
        (void)claim_locked(requests, late);
    }
    rq_mutex_unlock(&requests->lock);
    return late;
}

static void look_at_time(struct rq_requests *requests)
{
    struct request *late;
    bool stored = false;
    int64_t next_ms = RQ_FOREVER;
    while ((late = take_late(requests, rq_mono_ms(), false, &stored, &next_ms))) {
        fail_late(late, stored);
        complete(late);
    }
    if (next_ms != RQ_FOREVER) {
        rq_timer_start_at(rq_instance_loop(requests->producer->instance), &requests->timer,
                          next_ms);
    }
}

static void time_is_up(struct rq_timer *timer)
{
    look_at_time(RQ_CONTAINER_OF(timer, struct rq_requests, timer));
}

/* There are new requests. */
static void arm(struct rq_task *task)
{
    struct rq_requests *requests = RQ_CONTAINER_OF(task, struct rq_requests, arm_task);
    rq_mutex_lock(&requests->lock);
    requests->armed_posted = false;
    rq_mutex_unlock(&requests->lock);
    look_at_time(requests);
}

/* ---- closing ---- */

static void wait_for_replies(struct rq_requests *requests, int64_t deadline_ms)
{
    bool in_time = true;
    rq_mutex_lock(&requests->lock);
    requests->closed = true;
    while (requests->pending.count && in_time) {
        in_time = rq_cond_wait_until(&requests->change, &requests->lock, deadline_ms);
    }
    rq_mutex_unlock(&requests->lock);
}

bool rq_requests_close(struct rq_requests *requests, int64_t deadline_ms)
{
    struct request *cut;
    bool stored = false;
    bool any = false;
    int64_t next_ms = 0;
    wait_for_replies(requests, deadline_ms);
    while ((cut = take_late(requests, 0, true, &stored, &next_ms))) {
        any = true;
        rq_error_set(&cut->err, RMQ_ERR_CLOSED,
                     "the producer was shut down before a reply to request %s", cut->id);
        rq_error_mark(cut->err, false, true);
        complete(cut);
    }
    rq_mutex_lock(&requests->lock);
    while (requests->calling && !rq_executor_in()) {
        rq_cond_wait(&requests->change, &requests->lock);
    }
    rq_mutex_unlock(&requests->lock);
    return !any;
}

static void stop_timer(void *arg)
{
    struct rq_requests *requests = arg;
    rq_timer_stop(&requests->timer);
}

void rq_requests_end(struct rq_requests *requests)
{
    (void)rq_instance_run(requests->producer->instance, stop_timer, requests);
    rq_mutex_lock(&requests->lock);
    struct rq_executor *executor = requests->executor;
    requests->executor = NULL;
    rq_mutex_unlock(&requests->lock);
    rq_executor_put(executor);
}

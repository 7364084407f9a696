/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Requests that wait for their reply, by correlation id. Who takes one out of the table completes
 * it, be it the reply, the failure of the send, the deadline or the shutdown: so there is exactly
 * one completion. Replies and deadlines on the I/O thread, callbacks on the callback thread.
 * Counterpart: RequestFutureHolder.
 */
#include "client/requests.h"

#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/producer.h"
#include "client/reply.h"
#include "wire/properties.h"

/* A send that ends at the deadline of its request, as the one does that waits for a broker, has so
 * long to tell why: its error says more than that there was no reply. */
#define SEND_ENDS_MS 1000

struct rq_requests {
    struct rmq_producer *producer;
    struct rq_mutex lock; /* rank 10; guards all below */
    struct rq_cond change;
    unsigned refs;
    struct rq_map pending;  /* correlation id -> struct rq_pending */
    struct rq_heap by_time; /* the same by deadline */
    unsigned calling;       /* taken out, callback not run yet */
    bool closed;
    bool armed_posted;
    struct rq_executor *executor;
    struct rq_task arm_task;
    struct rq_timer timer; /* owned by the I/O thread */
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
        rq_heap_init(&requests->by_time);
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

struct rq_pending *rq_pending_create(struct rq_requests *requests, int64_t timeout_ms)
{
    struct rq_pending *request = rq_calloc(1, sizeof *request);
    if (!request) {
        return NULL;
    }
    rq_mutex_lock(&requests->lock);
    requests->refs++;
    rq_mutex_unlock(&requests->lock);
    request->requests = requests;
    atomic_init(&request->refs, 1);
    request->started_ms = rq_mono_ms();
    request->deadline_ms = request->started_ms + timeout_ms;
    rq_waiter_init(&request->waiter);
    (void)rq_unique_id(request->started_ms, request->id);
    return request;
}

void rq_pending_retain(struct rq_pending *request)
{
    atomic_fetch_add_explicit(&request->refs, 1, memory_order_relaxed);
}

void rq_pending_drop(struct rq_pending *request)
{
    if (request && atomic_fetch_sub_explicit(&request->refs, 1, memory_order_acq_rel) == 1) {
        rq_views_release(request->reply);
        rmq_error_destroy(request->err);
        rq_requests_release(request->requests);
        rq_free(request);
    }
}

/* ---- completion ---- */

/* Takes a request out of the table: the caller completes it. */
static bool claim_locked(struct rq_requests *requests, struct rq_pending *request)
{
    struct rq_slice id = rq_slice_str(request->id);
    if (rq_map_get(&requests->pending, id) != request) {
        return false;
    }
    (void)rq_map_remove(&requests->pending, id);
    rq_heap_remove(&request->of_time);
    requests->calling++;
    rq_cond_broadcast(&requests->change);
    return true;
}

bool rq_pending_claim(struct rq_pending *request)
{
    struct rq_requests *requests = request->requests;
    rq_mutex_lock(&requests->lock);
    bool claimed = claim_locked(requests, request);
    rq_mutex_unlock(&requests->lock);
    return claimed;
}

void rq_pending_completed(struct rq_pending *request)
{
    struct rq_requests *requests = request->requests;
    rq_mutex_lock(&requests->lock);
    requests->calling--;
    rq_cond_broadcast(&requests->change);
    rq_mutex_unlock(&requests->lock);
    rq_pending_drop(request);
}

static void call_back(struct rq_work *work)
{
    struct rq_pending *request = RQ_CONTAINER_OF(work, struct rq_pending, work);
    request->way.done(request->reply ? &request->reply->items[0] : NULL, request->err,
                      request->way.user);
    rq_pending_completed(request);
}

static void destroy_event(struct rmq_event *event)
{
    rq_pending_drop(RQ_CONTAINER_OF(event, struct rq_pending, event));
}

/* The event takes the completion's reference over, and may be gone as soon as it is posted; a
 * shutdown waits until then, so that the producer can still take its name off the event. */
static void post_event(struct rq_pending *request)
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
void rq_pending_complete(struct rq_pending *request)
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

static void fail_late(struct rq_pending *request, bool stored)
{
    long long took = (long long)(rq_mono_ms() - request->started_ms);
    rq_error_set(&request->err, RMQ_ERR_TIMEOUT,
                 "no reply to request %s within %lld ms, which was %s", request->id, took,
                 stored ? "sent" : "not confirmed by a broker");
    rq_error_mark(request->err, false, true);
}

/* ---- what its sender does ---- */

static void wait_until_locked(struct rq_requests *requests, struct rq_pending *request,
                              int64_t until_ms)
{
    rq_heap_remove(&request->of_time);
    rq_heap_add(&requests->by_time, &request->of_time, until_ms);
    bool is_next = rq_heap_first(&requests->by_time) == &request->of_time;
    if (is_next && !requests->armed_posted) {
        requests->armed_posted = true;
        (void)rq_loop_post(rq_instance_loop(requests->producer->instance), &requests->arm_task);
    }
}

rmq_status rq_pending_enlist(struct rq_requests *requests, struct rq_pending *request,
                             rmq_error **err)
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
        if (st) {
            rq_error_set(err, st, "request to be waited for");
        } else {
            rq_pending_retain(request);
            wait_until_locked(requests, request, request->deadline_ms);
        }
    }
    rq_mutex_unlock(&requests->lock);
    return st;
}

void rq_pending_sent(struct rq_pending *request)
{
    struct rq_requests *requests = request->requests;
    rq_mutex_lock(&requests->lock);
    request->stored = true;
    if (rq_heap_has(&request->of_time) && request->of_time.key > request->deadline_ms) {
        wait_until_locked(requests, request, request->deadline_ms);
    }
    rq_mutex_unlock(&requests->lock);
}

void rq_requests_pause(struct rq_requests *requests, int64_t until_ms)
{
    rq_mutex_lock(&requests->lock);
    (void)rq_cond_wait_until(&requests->change, &requests->lock, until_ms);
    rq_mutex_unlock(&requests->lock);
}

/* ---- replies and deadlines, on the loop ---- */

bool rq_requests_reply(struct rq_requests *requests, struct rq_peer *peer, struct rq_in *in)
{
    struct rq_slice id =
        rq_props_get(rq_header_ext(in->header, "properties"), RQ_PROP_CORRELATION_ID);
    rq_mutex_lock(&requests->lock);
    struct rq_pending *request = id.n ? rq_map_get(&requests->pending, id) : NULL;
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
    rq_pending_complete(request);
    return true;
}

/* Requests whose send has not ended at their deadline wait for it. */
static void extend_unsent_locked(struct rq_requests *requests, int64_t now_ms)
{
    struct rq_heap_node *first;
    while ((first = rq_heap_first(&requests->by_time)) && first->key <= now_ms) {
        struct rq_pending *request = RQ_CONTAINER_OF(first, struct rq_pending, of_time);
        if (request->stored || first->key > request->deadline_ms) {
            return;
        }
        rq_heap_remove(first);
        rq_heap_add(&requests->by_time, first, now_ms + SEND_ENDS_MS);
    }
}

/* Takes out one request that is late, or any when all are to go; the deadline of the next in
 * *next_ms. */
static struct rq_pending *take_late(struct rq_requests *requests, int64_t now_ms, bool all,
                                    bool *stored, int64_t *next_ms)
{
    struct rq_pending *late = NULL;
    rq_mutex_lock(&requests->lock);
    extend_unsent_locked(requests, now_ms);
    struct rq_heap_node *first = rq_heap_first(&requests->by_time);
    *next_ms = first ? first->key : RQ_FOREVER;
    if (first && (all || first->key <= now_ms)) {
        late = RQ_CONTAINER_OF(first, struct rq_pending, of_time);
        *stored = late->stored;
        (void)claim_locked(requests, late);
    }
    rq_mutex_unlock(&requests->lock);
    return late;
}

static void look_at_time(struct rq_requests *requests)
{
    struct rq_pending *late;
    bool stored = false;
    int64_t next_ms = RQ_FOREVER;
    while ((late = take_late(requests, rq_mono_ms(), false, &stored, &next_ms))) {
        fail_late(late, stored);
        rq_pending_complete(late);
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
    struct rq_pending *cut;
    bool stored = false;
    bool any = false;
    int64_t next_ms = 0;
    wait_for_replies(requests, deadline_ms);
    while ((cut = take_late(requests, 0, true, &stored, &next_ms))) {
        any = true;
        rq_error_set(&cut->err, RMQ_ERR_CLOSED,
                     "the producer was shut down before a reply to request %s", cut->id);
        rq_error_mark(cut->err, false, true);
        rq_pending_complete(cut);
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

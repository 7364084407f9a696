/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the state machines of a consumer share: requests with an end in any case, reports to people,
 * and the look whether a start has settled. Requests on the I/O thread, reports on any.
 */
#include <stdarg.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/events.h"
#include "client/owned.h"
#include "client/subscribed.h"

static void on_answer(struct rq_request *request, rmq_status status, struct rq_in *answer)
{
    struct rq_ask *ask = RQ_CONTAINER_OF(request, struct rq_ask, request);
    rq_list_remove(&ask->node);
    ask->done(ask, status, answer);
}

void rq_consumer_ask(struct rmq_consumer *consumer, struct rq_ask *ask, struct rq_peer *peer,
                     int code, const struct rq_fields *table, const void *fields,
                     int64_t timeout_ms)
{
    rq_consumer_ask_with(consumer, ask, peer, code, table, fields, rq_slice(NULL, 0), timeout_ms);
}

void rq_consumer_ask_with(struct rmq_consumer *consumer, struct rq_ask *ask, struct rq_peer *peer,
                          int code, const struct rq_fields *table, const void *fields,
                          struct rq_slice body, int64_t timeout_ms)
{
    ask->consumer = consumer;
    ask->request.early = RMQ_OK;
    ask->request.done = on_answer;
    rq_list_add_tail(&consumer->asks, &ask->node);
    rq_instance_request(consumer->instance, peer, &ask->request, code, table, fields, body,
                        timeout_ms);
}

void rq_consumer_cancel(struct rq_ask *ask)
{
    /* A request that failed early is on its way through the loop and ends by itself. */
    if (ask->request.early == RMQ_OK && rq_call_cancel(&ask->request.call)) {
        on_answer(&ask->request, RMQ_ERR_CLOSED, NULL);
    }
}

int64_t rq_retry_delay(int64_t *delay_ms)
{
    int64_t delay = *delay_ms;
    *delay_ms = delay * 2 < RQ_RETRY_MOST_MS ? delay * 2 : RQ_RETRY_MOST_MS;
    return delay;
}

void rq_consumer_report(struct rmq_consumer *consumer, const char *what, rmq_error *err)
{
    RQ_LOG(WARN, what, "group=%s why=%s", consumer->options.consumer_group, rmq_error_message(err));
    rmq_events *events = consumer->options.events;
    struct rmq_event *event =
        events ? rq_event_create(RMQ_EVENT_ERROR, consumer->handle, err, NULL) : NULL;
    if (event) {
        rq_events_post(events, event);
    } else {
        rmq_error_destroy(err);
    }
}

static const char *note_name(rmq_event_type type)
{
    switch (type) {
    case RMQ_EVENT_FLOW_CONTROL:
        return "flow control";
    case RMQ_EVENT_OFFSET_ILLEGAL:
        return "the broker does not have the offset, the queue goes on elsewhere";
    case RMQ_EVENT_LOCK_LOST:
        return "the lock of an ordered queue was lost";
    case RMQ_EVENT_DEAD_LETTER:
        return "a message went to the dead letters";
    default:
        return "queues changed";
    }
}

void rq_consumer_note(struct rmq_consumer *consumer, rmq_event_type type, const char *format, ...)
{
    struct rq_buf text;
    va_list args;
    rq_buf_init(&text, 0);
    va_start(args, format);
    rq_buf_addv(&text, format, args);
    va_end(args);
    RQ_LOG(INFO, note_name(type), "group=%s %s", consumer->options.consumer_group,
           rq_buf_cstr(&text));
    rmq_events *events = consumer->options.events;
    char *owned = events ? rq_strdup(rq_buf_cstr(&text)) : NULL;
    struct rmq_event *event = owned ? rq_event_create(type, consumer->handle, NULL, owned) : NULL;
    if (event) {
        rq_events_post(events, event);
    } else {
        rq_free(owned);
    }
    rq_buf_free(&text);
}

void rq_consumer_tell_taker(struct rmq_consumer *consumer)
{
    rmq_events *events = consumer->options.listener ? NULL : consumer->options.events;
    if (!events || atomic_exchange_explicit(&consumer->told, true, memory_order_acq_rel)) {
        return; /* who takes the one that waits finds this, too */
    }
    struct rmq_event *event = rq_event_create(RMQ_EVENT_BATCH, consumer->handle, NULL, NULL);
    if (event) {
        event->waits = &consumer->told;
        rq_events_post(events, event);
    } else {
        atomic_store_explicit(&consumer->told, false, memory_order_release);
        atomic_store_explicit(&consumer->untold, true, memory_order_release);
    }
}

void rq_consumer_tell_again(struct rmq_consumer *consumer)
{
    if (atomic_exchange_explicit(&consumer->untold, false, memory_order_acq_rel)) {
        rq_consumer_tell_taker(consumer);
    }
}

static bool is_settled(const struct rq_subscribed *topic)
{
    if (!topic->settled || !rq_subscribed_may_pull(topic)) {
        return false;
    }
    for (struct rq_list *node = topic->queues.next; node != &topic->queues; node = node->next) {
        if (!RQ_CONTAINER_OF(node, struct rq_owned, node)->located) {
            return false;
        }
    }
    return true;
}

void rq_consumer_settle(struct rmq_consumer *consumer)
{
    for (struct rq_list *node = consumer->topics.next; node != &consumer->topics;
         node = node->next) {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        if (!topic->is_retry && !is_settled(topic)) {
            return;
        }
    }
    rq_mutex_lock(&consumer->lock);
    if (!consumer->settled) {
        consumer->settled = true;
        rq_cond_broadcast(&consumer->change);
    }
    rq_mutex_unlock(&consumer->lock);
}

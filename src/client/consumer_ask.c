/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What the state machines of a consumer share: requests with an end in any case, reports to people,
 * and the look whether a start has settled. Requests on the I/O thread, reports on any.
 */
#include "base/err.h"
#include "base/log.h"
#include "client/consumer_priv.h"
#include "client/events.h"

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
    ask->consumer = consumer;
    ask->request.early = RMQ_OK;
    ask->request.done = on_answer;
    rq_list_add_tail(&consumer->asks, &ask->node);
    rq_instance_request(consumer->instance, peer, &ask->request, code, table, fields,
                        rq_slice(NULL, 0), timeout_ms);
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
    struct rmq_event *event = events ? rq_event_create(RMQ_EVENT_ERROR, consumer->handle, err, NULL) : NULL;
    if (event) {
        rq_events_post(events, event);
    } else {
        rmq_error_destroy(err);
    }
}

void rq_consumer_tell_taker(struct rmq_consumer *consumer)
{
    rmq_events *events = consumer->options.listener ? NULL : consumer->options.events;
    struct rmq_event *event =
        events ? rq_event_create(RMQ_EVENT_BATCH, consumer->handle, NULL, NULL) : NULL;
    if (event) {
        rq_events_post(events, event);
    }
}

static bool is_settled(const struct rq_subscribed *topic)
{
    if (!topic->settled) {
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Event queue: completions, batches and notices collected by the program itself, with one
 * descriptor to wait on and no callback from a foreign thread. Producers and consumers may share
 * one queue (their option "events"). Any thread may call; usually one takes. In a forked child a
 * queue of the parent is inert: it has no descriptor, nothing is taken from it, and events that were
 * taken before may be looked at and destroyed there.
 */
#ifndef RMQ_EVENTS_H
#define RMQ_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>
#include <rmq/export.h>
#include <rmq/message.h>

typedef struct rmq_events rmq_events;
typedef struct rmq_event rmq_event;
typedef struct rmq_batch rmq_batch;
typedef struct rmq_send_result rmq_send_result;

typedef enum rmq_event_type {
    RMQ_EVENT_NONE = 0,
    RMQ_EVENT_SENT = 1, /* an rmq_producer_send_event is complete: token, result or error */
    /* a consumer has messages: take them with rmq_consumer_poll; source is the consumer, of which
     * at most one waits */
    RMQ_EVENT_BATCH = 2,
    /* the queues of a consumer changed: text is "topic +broker:0 -broker:1 …" */
    RMQ_EVENT_REBALANCED = 3,
    RMQ_EVENT_ERROR = 4, /* something a person should know: error */
    /* Notices of a consumer, with text; "queue" is "topic broker:id". Of all that only tell
     * something, REBALANCED and ERROR among them, 1000 wait for a taker, and more are dropped. */
    /* pulling of a queue stopped or goes on: "queue began count|size|span|cache" or "queue
     * ended" */
    RMQ_EVENT_FLOW_CONTROL = 5,
    RMQ_EVENT_OFFSET_ILLEGAL = 6, /* the broker does not have the offset: "queue from -> to" */
    /* an ordered queue is held by another member, or its broker was silent: "queue" */
    RMQ_EVENT_LOCK_LOST = 7,
    /* a message went to the dead letters: "queue offset id reconsumed=n" */
    RMQ_EVENT_DEAD_LETTER = 8,
    /* of a producer, every statisticsInterval: text is what rmq_producer_stats gives */
    RMQ_EVENT_STATISTICS = 10,
    /* an rmq_producer_request_event is complete: token, message or error */
    RMQ_EVENT_REPLY = 11,
    /* a broker asks how a transaction went: message; answer with rmq_producer_answer_check */
    RMQ_EVENT_CHECK_TRANSACTION = 9
} rmq_event_type;

RMQ_BEGIN_DECLS

/* Creates a queue. The caller destroys it after the clients that use it. Errors: RMQ_ERR_NOMEM,
 * RMQ_ERR_IO. Since 0.1.0. */
RMQ_API rmq_status rmq_events_create(rmq_events **out, rmq_error **err);

/* Descriptor that is readable while there is something to take (level triggered). Owned by the
 * queue: wait on it, never read or close it. Since 0.1.0. */
RMQ_API int rmq_events_fd(const rmq_events *events);

/* Takes up to max events, waiting at most timeout_ms (0 = not at all, -1 = for ever) for the first.
 * Returns how many were put into out; each is the caller's and is freed by rmq_event_destroy. Since
 * 0.1.0. */
RMQ_API size_t rmq_events_take(rmq_events *events, rmq_event **out, size_t max, int64_t timeout_ms);

/* Fields of an event, borrowed until it is destroyed. Since 0.1.0. */
RMQ_API rmq_event_type rmq_event_get_type(const rmq_event *event);
RMQ_API uint64_t rmq_event_token(const rmq_event *event);
/* Producer or consumer handle; NULL when it was destroyed before the event was taken. An event that
 * had been taken by then keeps the address, which is good for comparing only. */
RMQ_API void *rmq_event_source(const rmq_event *event);
/* NULL unless SENT and stored */
RMQ_API const rmq_send_result *rmq_event_send_result(const rmq_event *event);
/* NULL when all went well */
RMQ_API const rmq_error *rmq_event_error(const rmq_event *event);
RMQ_API const char *rmq_event_text(const rmq_event *event); /* "" when none */
/* of a CHECK_TRANSACTION or a REPLY, else NULL; retain keeps it */
RMQ_API const rmq_message_view *rmq_event_message(const rmq_event *event);
RMQ_API void rmq_event_destroy(rmq_event *event);

/* Frees the queue and what nobody took. NULL is accepted. Since 0.1.0. */
RMQ_API void rmq_events_destroy(rmq_events *events);

RMQ_END_DECLS

#endif

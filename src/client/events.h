/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Inner side of the event queue (rmq_events): posting. An event is made by its poster, who may
 * embed it in something larger: rmq_event_destroy calls the event's own destroy function. Any
 * thread may post; posting never blocks beyond a short lock and wakes a waiter once per change from
 * empty to not empty.
 */
#ifndef RQ_CLIENT_EVENTS_H
#define RQ_CLIENT_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/events.h>

#include "base/list.h"

#define RQ_EVENTS_NOTICES_MOST 1000

struct rmq_event {
    struct rq_list node;
    /* NULL, or a mark of the source: false when nobody waits for the event any more */
    atomic_bool *waits;
    rmq_event_type type;
    uint64_t token;
    void *source;
    const rmq_send_result *result; /* freed, like error and text, by destroy */
    rmq_error *error;
    char *text;                       /* NULL = "" */
    struct rmq_message_view *message; /* of a check, expanded when it is asked for; or a reply */
    size_t message_max;               /* bytes that it may expand to */
    uint64_t mark;                    /* of the process in which it was posted (fork_mark.h) */
    void (*destroy)(struct rmq_event *event);
};

/* A stand-alone event: allocated, and destroy frees error, text (rq_free) and itself. NULL when out
 * of memory; error and text stay the caller's then. */
struct rmq_event *rq_event_create(rmq_event_type type, void *source, rmq_error *error, char *text);

/* Hands an event over. Any thread. Of notices, which only tell, RQ_EVENTS_NOTICES_MOST wait to be
 * taken; more are destroyed. */
void rq_events_post(rmq_events *events, struct rmq_event *event);

/* Called when the source is destroyed. Completions of sends and requests that nobody has collected
 * stay, without a source: each accepted one has one. All other events of the source are taken
 * back. */
void rq_events_forget(rmq_events *events, const void *source);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Event queue: a list under a lock, an eventfd that is readable while the list is not empty, and a
 * condition for takers that wait. Any thread posts and takes. It has no Java counterpart.
 */
#include "client/events.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/fork_mark.h"
#include "client/message.h"

struct rmq_events {
    int fd;        /* immutable after create */
    uint64_t mark; /* likewise */
    struct rq_mutex lock;
    struct rq_cond arrived;
    struct rq_list list; /* guarded by lock */
    unsigned waiters;    /* guarded by lock */
    unsigned notices;    /* guarded by lock: of the list, those that only tell something */
};

rmq_status rmq_events_create(rmq_events **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "events: out is NULL");
    }
    struct rmq_events *events = rq_calloc(1, sizeof *events);
    if (!events) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "event queue");
    }
    events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (events->fd < 0) {
        rmq_status st = rq_error_set(err, RMQ_ERR_IO, "event queue: eventfd: %s", strerror(errno));
        rq_free(events);
        return st;
    }
    events->mark = rq_fork_mark();
    rq_mutex_init(&events->lock);
    rq_cond_init(&events->arrived);
    rq_list_init(&events->list);
    *out = events;
    return RMQ_OK;
}

int rmq_events_fd(const rmq_events *events)
{
    return events && !rq_forked_since(events->mark) ? events->fd : -1;
}

/* The counter of an eventfd is 1 exactly while the list is not empty. A write or read that fails
 * leaves it as wished already. */
static void set_readable_locked(struct rmq_events *events, bool readable)
{
    uint64_t one = 1;
    ssize_t n = readable ? write(events->fd, &one, sizeof one) : read(events->fd, &one, sizeof one);
    (void)n;
}

/* Nobody waits for these: a program that never takes any must not grow by them. */
static bool is_notice(const struct rmq_event *event)
{
    switch (event->type) {
    case RMQ_EVENT_SENT:
    case RMQ_EVENT_REPLY:
    case RMQ_EVENT_BATCH:
    case RMQ_EVENT_CHECK_TRANSACTION:
        return false;
    default:
        return true;
    }
}

static void leave_list_locked(struct rmq_events *events, struct rmq_event *event)
{
    rq_list_remove(&event->node);
    events->notices -= is_notice(event) ? 1 : 0;
    if (event->waits) {
        atomic_store_explicit(event->waits, false, memory_order_release);
        event->waits = NULL;
    }
}

void rq_events_post(rmq_events *events, struct rmq_event *event)
{
    event->mark = events->mark;
    rq_mutex_lock(&events->lock);
    if (is_notice(event) && events->notices >= RQ_EVENTS_NOTICES_MOST) {
        rq_mutex_unlock(&events->lock);
        rmq_event_destroy(event);
        return;
    }
    events->notices += is_notice(event) ? 1 : 0;
    bool was_empty = rq_list_empty(&events->list);
    rq_list_add_tail(&events->list, &event->node);
    if (was_empty) {
        set_readable_locked(events, true);
    }
    /* Under the lock: once an event is there to be taken, the queue may be destroyed. */
    if (events->waiters > 0) {
        rq_cond_signal(&events->arrived);
    }
    rq_mutex_unlock(&events->lock);
}

static bool wait_for_events_locked(struct rmq_events *events, int64_t timeout_ms)
{
    int64_t deadline = rq_deadline_ms(timeout_ms);
    bool in_time = timeout_ms != 0;
    while (rq_list_empty(&events->list) && in_time) {
        events->waiters++;
        in_time = rq_cond_wait_until(&events->arrived, &events->lock, deadline);
        events->waiters--;
    }
    return !rq_list_empty(&events->list);
}

size_t rmq_events_take(rmq_events *events, rmq_event **out, size_t max, int64_t timeout_ms)
{
    if (!events || !out || max == 0 || rq_forked_since(events->mark)) {
        return 0;
    }
    size_t n = 0;
    rq_mutex_lock(&events->lock);
    if (wait_for_events_locked(events, timeout_ms)) {
        while (n < max && !rq_list_empty(&events->list)) {
            out[n] = RQ_CONTAINER_OF(events->list.next, struct rmq_event, node);
            leave_list_locked(events, out[n++]);
        }
        if (rq_list_empty(&events->list)) {
            set_readable_locked(events, false);
        }
    }
    bool more = events->waiters > 0 && !rq_list_empty(&events->list);
    rq_mutex_unlock(&events->lock);
    if (more) {
        rq_cond_signal(&events->arrived);
    }
    return n;
}

static bool is_completion(const struct rmq_event *event)
{
    return event->type == RMQ_EVENT_SENT || event->type == RMQ_EVENT_REPLY;
}

void rq_events_forget(rmq_events *events, const void *source)
{
    struct rq_list gone;
    rq_list_init(&gone);
    rq_mutex_lock(&events->lock);
    bool had = !rq_list_empty(&events->list);
    RQ_LIST_FOREACH_SAFE(node, next, &events->list)
    {
        struct rmq_event *event = RQ_CONTAINER_OF(node, struct rmq_event, node);
        if (event->source == source && is_completion(event)) {
            event->source = NULL;
        } else if (event->source == source) {
            leave_list_locked(events, event);
            rq_list_add_tail(&gone, node);
        }
    }
    if (had && rq_list_empty(&events->list)) {
        set_readable_locked(events, false);
    }
    rq_mutex_unlock(&events->lock);
    struct rq_list *node;
    while ((node = rq_list_pop(&gone))) {
        rmq_event_destroy(RQ_CONTAINER_OF(node, struct rmq_event, node));
    }
}

static void destroy_plain(struct rmq_event *event)
{
    rmq_error_destroy(event->error);
    rq_free(event->text);
    rq_free(event);
}

struct rmq_event *rq_event_create(rmq_event_type type, void *source, rmq_error *error, char *text)
{
    struct rmq_event *event = rq_calloc(1, sizeof *event);
    if (event) {
        rq_list_init(&event->node);
        event->type = type;
        event->source = source;
        event->error = error;
        event->text = text;
        event->destroy = destroy_plain;
    }
    return event;
}

rmq_event_type rmq_event_get_type(const rmq_event *event)
{
    return event ? event->type : RMQ_EVENT_NONE;
}

uint64_t rmq_event_token(const rmq_event *event)
{
    return event ? event->token : 0;
}

void *rmq_event_source(const rmq_event *event)
{
    return event ? event->source : NULL;
}

const rmq_send_result *rmq_event_send_result(const rmq_event *event)
{
    return event ? event->result : NULL;
}

const rmq_error *rmq_event_error(const rmq_event *event)
{
    return event ? event->error : NULL;
}

const rmq_message_view *rmq_event_message(const rmq_event *event)
{
    if (event && event->message) {
        (void)rq_view_expand(event->message, event->message_max, NULL);
    }
    return event ? event->message : NULL;
}

const char *rmq_event_text(const rmq_event *event)
{
    return event && event->text ? event->text : "";
}

static bool is_of_parent(const struct rmq_event *event)
{
    return event->mark != 0 && rq_forked_since(event->mark);
}

/* What lies behind an event of the parent has locks, which threads that do not exist here may hold.
 */
void rmq_event_destroy(rmq_event *event)
{
    if (event && !is_of_parent(event)) {
        event->destroy(event);
    }
}

void rmq_events_destroy(rmq_events *events)
{
    if (!events) {
        return;
    }
    if (rq_forked_since(events->mark)) {
        (void)close(events->fd); /* the child's copy */
        return;
    }
    struct rq_list *node;
    while ((node = rq_list_pop(&events->list))) {
        rmq_event_destroy(RQ_CONTAINER_OF(node, struct rmq_event, node));
    }
    (void)close(events->fd);
    rq_cond_destroy(&events->arrived);
    rq_mutex_destroy(&events->lock);
    rq_free(events);
}

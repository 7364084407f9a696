/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A broker's questions about transactions that nobody ended (39): they come on the I/O thread, wait
 * in a bounded list, are put to the program on the callback thread or as events, and answered to
 * the broker that asked. Counterpart: DefaultMQProducerImpl.checkTransactionState.
 */
#include <stdatomic.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/events.h"
#include "client/executor.h"
#include "client/message.h"
#include "client/producer.h"
#include "client/trace_encode.h"
#include "client/transaction.h"
#include "wire/properties.h"

#define CHECKS_MAX 2000 /* questions that wait; the broker repeats what is dropped */
#define ANSWER_MS  3000 /* how long an answer waits for its connection */

struct rq_checks {
    struct rmq_producer *producer; /* while it is not closed */
    struct rq_mutex lock;          /* rank 10; guards all below */
    struct rq_cond change;
    unsigned refs;
    unsigned waiting_count; /* in the list, or events of the program */
    struct rq_list waiting;
    bool closed;
    bool posted; /* work is the callback thread's */
    bool told;   /* that nobody here answers; logged once */
    struct rq_executor *executor;
    struct rq_work work;
};

/* One question. */
struct check {
    struct rq_list node;
    struct rq_checks *checks; /* a reference */
    struct rq_peer *peer;     /* who asked; a reference */
    struct rq_views *views;   /* owns the frame, where the header's texts are */
    struct rq_hdr_check_transaction header;
    atomic_bool answered; /* atomic: acq_rel exchange: the first answer goes out */
    struct rmq_event event;
};

static void run_checks(struct rq_work *work);

struct rq_checks *rq_checks_create(struct rmq_producer *producer)
{
    struct rq_checks *checks = rq_calloc(1, sizeof *checks);
    if (checks) {
        checks->producer = producer;
        checks->refs = 1;
        checks->work.run = run_checks;
        rq_list_init(&checks->waiting);
        rq_mutex_init(&checks->lock);
        rq_cond_init(&checks->change);
    }
    return checks;
}

static void unlock_and_drop(struct rq_checks *checks)
{
    bool last = --checks->refs == 0;
    rq_mutex_unlock(&checks->lock);
    if (last) {
        rq_cond_destroy(&checks->change);
        rq_mutex_destroy(&checks->lock);
        rq_free(checks);
    }
}

void rq_checks_release(struct rq_checks *checks)
{
    if (checks) {
        rq_mutex_lock(&checks->lock);
        unlock_and_drop(checks);
    }
}

static void free_check(struct check *check)
{
    struct rq_checks *checks = check->checks;
    rq_views_release(check->views);
    rq_peer_put(check->peer);
    rq_free(check);
    rq_mutex_lock(&checks->lock);
    checks->waiting_count--;
    unlock_and_drop(checks);
}

/* ---- the answer ---- */

static rmq_status send_answer(struct rmq_producer *producer, const struct check *check,
                              rmq_transaction_state state)
{
    struct rq_slice unique_id = rq_slice_str(check->views->items[0].unique_id);
    struct rq_hdr_end_transaction fields = {
        .producer_group = rq_slice_str(producer->options.producer_group),
        .tran_state_table_offset = check->header.tran_state_table_offset,
        .commit_log_offset = check->header.commit_log_offset,
        .commit_or_rollback = rq_transaction_sys_flag(state),
        .msg_id = unique_id.n ? unique_id : check->header.msg_id,
        .transaction_id = check->header.transaction_id,
        .topic = check->header.topic,
        .bname = check->header.bname};
    RQ_SET(end_transaction, &fields, from_transaction_check, true);
    struct rq_frame_spec spec = rq_instance_frame(producer->instance, RQ_REQ_END_TRANSACTION,
                                                  &rq_tab_end_transaction, &fields);
    spec.flag = RQ_FLAG_ONEWAY;
    struct rq_out *out = rq_out_create(0);
    rmq_status st = out ? rq_out_encode(out, &spec, rq_slice(NULL, 0), NULL) : RMQ_ERR_NOMEM;
    if (st != RMQ_OK) {
        rq_out_destroy(out);
        return st;
    }
    return rq_peer_oneway(check->peer, out, rq_deadline_ms(ANSWER_MS), NULL, NULL);
}

static void leave_trace(struct rmq_producer *producer, const struct check *check,
                        rmq_transaction_state state)
{
    const struct rmq_message_view *view = &check->views->items[0];
    const char *region = rq_view_property(view, RQ_PROP_MSG_REGION);
    struct rq_trace_end record = {.region = rq_slice_str(region ? region : ""),
                                  .topic = rq_slice_str(view->topic),
                                  .msg_id = rq_slice_str(rmq_message_view_id(view)),
                                  .tags = rq_slice_str(view->tag),
                                  .keys = rq_slice_str(view->keys),
                                  .store_host = rq_slice_str(rq_peer_address(check->peer)),
                                  .transaction_id = check->header.transaction_id,
                                  .from_check = true};
    rq_producer_trace_ended(producer, &record, state);
}

static rmq_status answer(struct rmq_producer *producer, struct check *check,
                         rmq_transaction_state state)
{
    if (atomic_exchange_explicit(&check->answered, true, memory_order_acq_rel)) {
        return RMQ_ERR_STATE;
    }
    leave_trace(producer, check, state);
    return state == RMQ_TRANSACTION_UNKNOWN ? RMQ_OK : send_answer(producer, check, state);
}

/* ---- on the callback thread ---- */

static void put_to_program(struct rmq_producer *producer, struct check *check)
{
    struct rmq_message_view *view = &check->views->items[0];
    rmq_error *err = NULL;
    if (rq_view_expand(view, (size_t)producer->options.max_message_size, &err) != RMQ_OK) {
        RQ_LOG(WARN, "a half message cannot be read: its transaction is not answered",
               "id=%s reason=%s", view->unique_id, rmq_error_message(err));
        rmq_error_destroy(err);
        return;
    }
    rmq_transaction_state state =
        producer->options.transaction_check(view, producer->options.transaction_check_user);
    rmq_status st = answer(producer, check, state);
    if (st != RMQ_OK) {
        RQ_LOG(WARN, "the answer about a transaction could not be sent: the broker will ask again",
               "id=%s broker=%s reason=%s", view->unique_id, rq_peer_address(check->peer),
               rmq_status_text(st));
    }
}

static struct check *next_check(struct rq_checks *checks)
{
    rq_mutex_lock(&checks->lock);
    struct rq_list *node = checks->closed ? NULL : rq_list_pop(&checks->waiting);
    if (!node) {
        checks->posted = false;
        rq_cond_broadcast(&checks->change);
    }
    rq_mutex_unlock(&checks->lock);
    return node ? RQ_CONTAINER_OF(node, struct check, node) : NULL;
}

static void run_checks(struct rq_work *work)
{
    struct rq_checks *checks = RQ_CONTAINER_OF(work, struct rq_checks, work);
    struct rmq_producer *producer = checks->producer;
    struct check *check;
    while ((check = next_check(checks))) {
        put_to_program(producer, check);
        free_check(check);
    }
}

/* ---- events ---- */

static void destroy_event(struct rmq_event *event)
{
    free_check(RQ_CONTAINER_OF(event, struct check, event));
}

static void post_event(struct rmq_producer *producer, struct check *check)
{
    rq_list_init(&check->event.node);
    check->event.type = RMQ_EVENT_CHECK_TRANSACTION;
    check->event.source = producer;
    check->event.message = &check->views->items[0];
    check->event.message_max = (size_t)producer->options.max_message_size;
    check->event.destroy = destroy_event;
    rq_events_post(producer->options.events, &check->event);
}

rmq_status rmq_producer_answer_check(rmq_producer *producer, rmq_event *event,
                                     rmq_transaction_state state, rmq_error **err)
{
    if (!event || event->type != RMQ_EVENT_CHECK_TRANSACTION || event->source != producer ||
        state < RMQ_TRANSACTION_UNKNOWN || state > RMQ_TRANSACTION_ROLLBACK) {
        return rq_error_set(
            err, RMQ_ERR_INVALID,
            "the event is no transaction check of this producer, or state %d is none", (int)state);
    }
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct check *check = RQ_CONTAINER_OF(event, struct check, event);
    st = answer(producer, check, state);
    if (st != RMQ_OK) {
        rq_error_set(err, st, "answer about transaction %s to broker %s: %s",
                     check->views->items[0].unique_id, rq_peer_address(check->peer),
                     st == RMQ_ERR_STATE ? "it was given before" : rmq_status_text(st));
    }
    rq_producer_leave(producer);
    return st;
}

/* ---- arrival, on the loop ---- */

static struct check *make_check(struct rq_peer *peer, struct rq_in *in, const char *name_space)
{
    struct check *check = rq_calloc(1, sizeof *check);
    struct rq_frame_ref *frame = check ? rq_in_keep(in) : NULL;
    rmq_error *err = NULL;
    bool good =
        frame &&
        rq_fields_decode(&rq_tab_check_transaction, in->header, &check->header, &err) == RMQ_OK &&
        rq_views_create(frame, in->body, "", &check->views, &err) == RMQ_OK;
    if (!good) {
        RQ_LOG(WARN, "a question about a transaction cannot be read", "broker=%s reason=%s",
               rq_peer_address(peer), err ? rmq_error_message(err) : "out of memory");
        rmq_error_destroy(err);
        rq_frame_ref_release(frame);
        rq_free(check);
        return NULL;
    }
    rq_view_strip(&check->views->items[0], name_space);
    rq_list_init(&check->node);
    atomic_init(&check->answered, false);
    check->peer = rq_peer_retain(peer);
    return check;
}

static void drop_unasked(struct check *check)
{
    rq_views_release(check->views);
    rq_peer_put(check->peer);
    rq_free(check);
}

/* Into the list; false: there is no room, or no thread. */
static bool take_in(struct rq_checks *checks, struct check *check, bool callback)
{
    bool post = false;
    rq_mutex_lock(&checks->lock);
    bool taken = !checks->closed && checks->waiting_count < CHECKS_MAX;
    if (taken && callback && !checks->executor) {
        taken = rq_executor_get(&checks->executor, NULL) == RMQ_OK;
    }
    if (taken) {
        check->checks = checks;
        checks->refs++;
        checks->waiting_count++;
    }
    if (taken && callback) {
        rq_list_add_tail(&checks->waiting, &check->node);
        post = !checks->posted;
        checks->posted = true;
    }
    struct rq_executor *executor = checks->executor;
    rq_mutex_unlock(&checks->lock);
    if (post) {
        rq_executor_post(executor, &checks->work);
    }
    return taken;
}

void rq_checks_ask(struct rq_checks *checks, struct rq_peer *peer, struct rq_in *in)
{
    struct rmq_producer *producer = checks->producer;
    bool callback = producer->options.transaction_check != NULL;
    if (!callback && !producer->options.events) {
        if (!checks->told) {
            checks->told = true;
            RQ_LOG(WARN,
                   "a broker asks about a transaction, and this producer has no transaction_check",
                   "group=%s broker=%s", producer->options.producer_group, rq_peer_address(peer));
        }
        return;
    }
    struct check *check = make_check(peer, in, producer->options.namespace_name);
    if (!check) {
        return;
    }
    if (!take_in(checks, check, callback)) {
        RQ_LOG(WARN,
               "too many questions about transactions wait: one is dropped, the broker repeats it",
               "group=%s", producer->options.producer_group);
        drop_unasked(check);
    } else if (!callback) {
        post_event(producer, check);
    }
}

/* ---- closing ---- */

void rq_checks_close(struct rq_checks *checks, int64_t deadline_ms)
{
    struct rq_list dropped;
    struct rq_list *node;
    rq_list_init(&dropped);
    rq_mutex_lock(&checks->lock);
    checks->closed = true;
    while ((node = rq_list_pop(&checks->waiting))) {
        rq_list_add_tail(&dropped, node);
    }
    bool in_time = !rq_executor_in();
    while (checks->posted && in_time) {
        in_time = rq_cond_wait_until(&checks->change, &checks->lock, deadline_ms);
    }
    rq_mutex_unlock(&checks->lock);
    while ((node = rq_list_pop(&dropped))) {
        free_check(RQ_CONTAINER_OF(node, struct check, node));
    }
}

void rq_checks_end(struct rq_checks *checks)
{
    rq_mutex_lock(&checks->lock);
    struct rq_executor *executor = checks->executor;
    checks->executor = NULL;
    rq_mutex_unlock(&checks->lock);
    rq_executor_put(executor);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Questions about single queues (see the header): a look-up, then a request, on the I/O thread. */
#include "client/queue_ask.h"

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/waiter.h"
#include "wire/codes.h"

#define DEFAULT_TIMEOUT_MS 5000
#define GREET_MS           500 /* a heartbeat is waited for so long, at most */
#define GREET_LOOK_MS      2

static void looked_up(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err);

/* The route that was at hand may be older than the broker, or than what it leads. */
static void look_again(struct rq_queue_ask *ask)
{
    ask->looked_again = true;
    ask->lookup = (struct rq_lookup){.done = looked_up, .refresh = true};
    rq_instance_lookup(ask->instance, &ask->lookup, ask->name.topic, ask->deadline_ms);
}

static struct rq_peer *peer_of(struct rq_queue_ask *ask)
{
    return rq_instance_queue_broker(ask->instance, &ask->name, ask->pick, ask->broker_id);
}

static void on_answer(struct rq_request *request, rmq_status status, struct rq_in *answer);

static void send_request(struct rq_queue_ask *ask, struct rq_peer *peer)
{
    ask->sent = true;
    ask->request.done = on_answer;
    ask->request.early = RMQ_OK;
    rq_instance_request(ask->instance, peer, &ask->request, ask->code, ask->table, ask->fields,
                        ask->body, rq_left_ms(ask->deadline_ms));
}

/* A broker makes a group of the first heartbeat that names it. To one that the question itself has
 * made known, that heartbeat goes out just behind the question. */
static void look_greeted(struct rq_timer *greeting)
{
    struct rq_queue_ask *ask = RQ_CONTAINER_OF(greeting, struct rq_queue_ask, greeting);
    struct rq_peer *peer = peer_of(ask);
    if (ask->cancelled) {
        ask->done(ask, RMQ_ERR_CLOSED, NULL, NULL);
    } else if (!rq_instance_has_greeted(ask->instance) && rq_mono_ms() < ask->greet_until_ms) {
        rq_timer_start(rq_instance_loop(ask->instance), greeting, GREET_LOOK_MS);
    } else if (peer) {
        send_request(ask, peer);
    } else {
        ask->done(ask, RMQ_ERR_NO_BROKER, NULL, NULL);
    }
}

static void greet(struct rq_queue_ask *ask)
{
    int64_t until = rq_mono_ms() + GREET_MS;
    ask->greeted = true;
    ask->greet_until_ms = until < ask->deadline_ms ? until : ask->deadline_ms;
    rq_instance_heartbeat(ask->instance);
    rq_timer_init(&ask->greeting, look_greeted);
    rq_timer_start(rq_instance_loop(ask->instance), &ask->greeting, GREET_LOOK_MS);
}

static void on_answer(struct rq_request *request, rmq_status status, struct rq_in *answer)
{
    struct rq_queue_ask *ask = RQ_CONTAINER_OF(request, struct rq_queue_ask, request);
    int32_t code = status == RMQ_OK ? answer->header->code : RQ_RESP_SUCCESS;
    ask->sent = false;
    if (code == RQ_RESP_NOT_LEADER_FOR_QUEUE && !ask->looked_again && !ask->cancelled) {
        look_again(ask);
    } else if (code == RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST && !ask->greeted && !ask->cancelled) {
        greet(ask);
    } else {
        ask->done(ask, status, answer, NULL);
    }
}

static void looked_up(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err)
{
    struct rq_queue_ask *ask = RQ_CONTAINER_OF(lookup, struct rq_queue_ask, lookup);
    struct rq_peer *peer = peer_of(ask);
    if (ask->cancelled) {
        ask->done(ask, RMQ_ERR_CLOSED, NULL, NULL);
    } else if (peer) {
        send_request(ask, peer);
    } else if (!route) {
        ask->done(ask, rmq_error_status(err), NULL, err);
    } else if (!ask->looked_again) {
        look_again(ask);
    } else {
        ask->done(ask, RMQ_ERR_NO_BROKER, NULL, NULL);
    }
}

void rq_queue_ask(struct rq_queue_ask *ask)
{
    ask->sent = ask->cancelled = ask->looked_again = ask->greeted = false;
    ask->lookup = (struct rq_lookup){.done = looked_up};
    rq_instance_lookup(ask->instance, &ask->lookup, ask->name.topic, ask->deadline_ms);
}

void rq_queue_ask_cancel(struct rq_queue_ask *ask)
{
    ask->cancelled = true;
    if (ask->sent && ask->request.early == RMQ_OK && rq_call_cancel(&ask->request.call)) {
        on_answer(&ask->request, RMQ_ERR_CLOSED, NULL);
    }
}

/* ---- waiting ---- */

struct waiting {
    struct rq_queue_ask *ask;
    struct rq_waiter waiter;
    struct rq_reply *reply;
    rmq_error *err;
    rmq_status status;
};

/* The ask lives in its caller, who wrapped it together with what waits. */
struct waiting_ask {
    struct rq_queue_ask ask;
    struct waiting *waiting;
};

static void waited(struct rq_queue_ask *ask, rmq_status status, struct rq_in *answer,
                   const rmq_error *err)
{
    struct waiting *waiting = RQ_CONTAINER_OF(ask, struct waiting_ask, ask)->waiting;
    waiting->status = status;
    if (err) {
        waiting->err = rq_error_copy(err);
    } else if (status == RMQ_OK) {
        waiting->reply->ref = rq_in_keep(answer);
        waiting->reply->body = answer->body;
        waiting->reply->header = *answer->header;
        waiting->status = waiting->reply->ref ? RMQ_OK : RMQ_ERR_NOMEM;
    }
    rq_waiter_done(&waiting->waiter);
}

static rmq_status pass_error(rmq_error *from, rmq_error **err)
{
    rmq_status st = rmq_error_status(from);
    if (err) {
        rmq_error_destroy(*err);
        *err = from;
    } else {
        rmq_error_destroy(from);
    }
    return st;
}

rmq_status rq_queue_ask_wait(struct rq_queue_ask *ask, const char *what, int32_t not_found,
                             struct rq_reply *reply, rmq_error **err)
{
    struct waiting waiting = {.reply = reply};
    struct waiting_ask own = {.ask = *ask, .waiting = &waiting};
    *reply = (struct rq_reply){0};
    own.ask.done = waited;
    rq_waiter_init(&waiting.waiter);
    rq_queue_ask(&own.ask);
    rq_waiter_wait(&waiting.waiter);
    if (waiting.err) {
        return pass_error(waiting.err, err);
    }
    if (waiting.status != RMQ_OK) {
        return rq_answer_error(waiting.status, NULL, ask->name.broker_name, what, err);
    }
    if (reply->header.code == RQ_RESP_SUCCESS) {
        return RMQ_OK;
    }
    rmq_status st = rq_answer_error(RMQ_OK, &reply->header, ask->name.broker_name, what, err);
    if (not_found != 0 && reply->header.code == not_found) {
        st = rq_error_set(err, RMQ_ERR_NOT_FOUND, "%s: broker %s has none", what,
                          ask->name.broker_name);
    }
    rq_reply_free(reply);
    *reply = (struct rq_reply){0};
    return st;
}

/* ---- the common questions ---- */

static struct rq_queue_ask question(struct rq_instance *instance, const struct rq_mq *name,
                                    int code, const struct rq_fields *table, const void *fields,
                                    int64_t timeout_ms)
{
    return (struct rq_queue_ask){.instance = instance,
                                 .name = *name,
                                 .pick = RQ_PICK_MASTER,
                                 .code = code,
                                 .table = table,
                                 .fields = fields,
                                 .deadline_ms =
                                     rq_mono_ms() + rq_timeout_ms(timeout_ms, DEFAULT_TIMEOUT_MS)};
}

static rmq_status ask_offset(struct rq_queue_ask *ask, const char *what, int32_t not_found,
                             int64_t *out, rmq_error **err)
{
    struct rq_reply reply;
    rmq_status st = rq_queue_ask_wait(ask, what, not_found, &reply, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_hdr_offset_response head;
    st = rq_fields_decode(&rq_tab_offset_response, &reply.header, &head, err);
    if (st == RMQ_OK) {
        *out = head.offset;
    }
    rq_reply_free(&reply);
    return st;
}

static rmq_status ask_bound(struct rq_instance *instance, const struct rq_mq *name, int code,
                            const char *what, int64_t timeout_ms, int64_t *out, rmq_error **err)
{
    struct rq_hdr_queue fields = {.topic = rq_slice_str(name->topic), .queue_id = name->queue_id};
    struct rq_queue_ask ask = question(instance, name, code, &rq_tab_queue, &fields, timeout_ms);
    return ask_offset(&ask, what, 0, out, err);
}

rmq_status rq_queue_max_offset(struct rq_instance *instance, const struct rq_mq *name,
                               int64_t timeout_ms, int64_t *out, rmq_error **err)
{
    return ask_bound(instance, name, RQ_REQ_GET_MAX_OFFSET, "largest offset", timeout_ms, out, err);
}

rmq_status rq_queue_min_offset(struct rq_instance *instance, const struct rq_mq *name,
                               int64_t timeout_ms, int64_t *out, rmq_error **err)
{
    return ask_bound(instance, name, RQ_REQ_GET_MIN_OFFSET, "smallest offset", timeout_ms, out,
                     err);
}

rmq_status rq_queue_search_offset(struct rq_instance *instance, const struct rq_mq *name,
                                  int64_t timestamp_ms, int64_t timeout_ms, int64_t *out,
                                  rmq_error **err)
{
    struct rq_hdr_search_offset fields = {
        .topic = rq_slice_str(name->topic), .queue_id = name->queue_id, .timestamp = timestamp_ms};
    struct rq_queue_ask ask = question(instance, name, RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP,
                                       &rq_tab_search_offset, &fields, timeout_ms);
    return ask_offset(&ask, "offset of a time", 0, out, err);
}

rmq_status rq_queue_committed(struct rq_instance *instance, const char *group,
                              const struct rq_mq *name, int64_t timeout_ms, int64_t *out,
                              rmq_error **err)
{
    struct rq_hdr_query_consumer_offset fields = {.consumer_group = rq_slice_str(group),
                                                  .topic = rq_slice_str(name->topic),
                                                  .queue_id = name->queue_id};
    /* A broker without a subscription of the group may answer 0 for "none" unless told not to. */
    RQ_SET(query_consumer_offset, &fields, set_zero_if_not_found, false);
    struct rq_queue_ask ask = question(instance, name, RQ_REQ_QUERY_CONSUMER_OFFSET,
                                       &rq_tab_query_consumer_offset, &fields, timeout_ms);
    ask.pick = RQ_PICK_ANY;
    return ask_offset(&ask, "stored offset", RQ_RESP_QUERY_NOT_FOUND, out, err);
}

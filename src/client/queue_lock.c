/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The brokers' locks of ordered consumption. A queue of the share is locked before its offset is
 * read, and the lock is renewed; it counts for one and a half intervals (30 s), which is less than
 * at the broker (60 s). A queue whose lock was lost or ran out starts anew from the stored offset
 * when it is locked again, since another member may have gone on with it meanwhile; one that is
 * given up keeps its lock until no hands hold its messages and its offset is stored. A lock is given
 * back also when it is not known whether the broker granted it. On the I/O thread. Counterparts:
 * RebalanceImpl.lockAll and unlock, RebalancePushImpl.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/bodies.h"

#define RETRY_MS 500 /* a lock that another member holds is asked for again after this */

struct lock_call {
    struct rq_ask ask;
    int64_t asked_ms;
    size_t count;
    struct rq_owned *queues[]; /* of one broker; referenced */
};

bool rq_consumer_locks(const struct rmq_consumer *consumer)
{
    return consumer->options.consume_orderly && consumer->options.message_model == RMQ_CLUSTERING;
}

static int64_t lock_life(const struct rmq_consumer *consumer)
{
    return consumer->options.lock_interval_ms / 2 * 3;
}

/* ---- what an answer means for a queue ---- */

static void hand_lock_on(const struct rq_owned *owned, struct rq_owned *fresh)
{
    fresh->locked = owned->locked;
    fresh->may_hold = owned->may_hold;
    fresh->had_lock = owned->had_lock;
    fresh->locked_until_ms = owned->locked_until_ms;
    if (owned->locked) {
        atomic_store(&fresh->open_until_ms, fresh->locked_until_ms);
    }
}

/* A commit under way is followed by the new offset; a later one could overtake it. */
static void commit_reset(struct rq_owned *owned, struct rq_owned *fresh, int64_t offset)
{
    if (owned->consumer->manual_commit) {
        return;
    }
    if (owned->committing) {
        owned->last_offset = offset;
    } else {
        rq_offset_commit(fresh, offset, RQ_ASK_TIMEOUT_MS);
    }
}

/* Where it was, or at reset_to. */
static void begin_anew(struct rq_owned *owned)
{
    int64_t reset_to = owned->reset_to;
    struct rq_owned *fresh = rq_owned_create(owned->topic, &owned->name);
    if (!fresh) {
        owned->anew = true;
        owned->locked = false; /* the next round of locks tries again, */
        rq_owned_retry(owned); /* or without locks the timer */
        return;
    }
    hand_lock_on(owned, fresh);
    fresh->paused = owned->paused;
    if (reset_to < 0) {
        fresh->floor = rq_process_queue_commit_offset(&owned->process);
        rq_owned_drop(owned, false);
        rq_offset_locate(fresh);
    } else {
        commit_reset(owned, fresh, reset_to);
        rq_owned_drop(owned, false);
        /* A broker that names one offset after the other is not followed at full speed. */
        rq_pull_after(fresh, RQ_RETRY_FIRST_MS);
        rq_owned_start(fresh, reset_to, false);
    }
}

void rq_owned_restart(struct rq_owned *owned, int64_t offset)
{
    owned->reset_to = offset;
    if (owned->leaving || (owned->consumer->options.consume_orderly && !rq_order_shut(owned))) {
        owned->anew = true; /* what the handler holds is done with first */
    } else {
        begin_anew(owned);
    }
}

/* Also for a lock that is renewed: its time may have been over before this answer came, and who
 * looked then, a worker or a pull, has left the queue. */
static void open(struct rq_owned *owned)
{
    atomic_store(&owned->open_until_ms, owned->locked_until_ms);
    if (owned->located) {
        rq_order_submit(owned);
        rq_pull(owned);
    } else {
        rq_offset_locate(owned);
    }
}

static void lose(struct rq_owned *owned)
{
    atomic_store(&owned->open_until_ms, 0);
    owned->locked = false;
    rq_consumer_note(owned->consumer, RMQ_EVENT_LOCK_LOST, "%s %s:%d",
                     rq_consumer_plain(owned->consumer, owned->name.topic), owned->name.broker_name,
                     (int)owned->name.queue_id);
}

static void grant(struct rq_owned *owned, int64_t asked_ms)
{
    bool again = owned->had_lock && !owned->locked;
    owned->locked = true;
    owned->had_lock = true;
    owned->locked_until_ms = asked_ms + lock_life(owned->consumer);
    if (again) {
        owned->anew = true;
    }
    if (owned->leaving) {
        return;
    }
    if (!owned->anew) {
        open(owned);
    } else if (rq_order_hands_are_empty(owned)) {
        begin_anew(owned);
    }
}

static bool is_granted(const struct rq_lock_body *answer, const struct rq_mq *name)
{
    for (size_t i = 0; i < answer->queue_count; i++) {
        const struct rq_mq *queue = &answer->queues[i];
        if (queue->queue_id == name->queue_id && strcmp(queue->topic, name->topic) == 0 &&
            strcmp(queue->broker_name, name->broker_name) == 0) {
            return true;
        }
    }
    return false;
}

/* The queue was given up before the answer came. While hands hold its messages it keeps the lock. */
static void give_back_late(struct rq_owned *owned)
{
    bool lingers = !rq_list_empty(&owned->node);
    owned->unlock = !lingers;
    if (!lingers && !owned->committing) {
        rq_lock_give_back(owned);
    }
}

/* answer NULL: none came, and what the broker did is not known. */
static void take_answer(struct lock_call *call, const struct rq_lock_body *answer)
{
    for (size_t i = 0; i < call->count; i++) {
        struct rq_owned *owned = call->queues[i];
        owned->may_hold = answer ? is_granted(answer, &owned->name) : owned->may_hold;
        if (!owned->topic) {
            give_back_late(owned);
        } else if (!answer || !owned->consumer->running) {
            continue; /* it is asked for again, or about to be given back */
        } else if (owned->may_hold) {
            grant(owned, call->asked_ms);
        } else if (owned->locked) {
            lose(owned);
        }
    }
}

static void end_call(struct lock_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        call->queues[i]->lock_asking = false;
        rq_owned_release(call->queues[i]);
    }
    rq_free(call);
}

/* ---- asking ---- */

static bool wants_lock(const struct rq_owned *owned, bool renew)
{
    if (owned->lock_asking) {
        return false;
    }
    return owned->locked
               ? renew
               : owned->consumer->running && !rq_order_lingers(owned->consumer, &owned->name);
}

/* Counts the queues that want a lock, and puts them into out where that is given. */
static size_t list_queues(struct rmq_consumer *consumer, bool renew, struct rq_owned **out)
{
    size_t count = 0;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (wants_lock(owned, renew)) {
                if (out) {
                    out[count] = owned;
                }
                count++;
            }
        }
    }
    return count;
}

/* Somebody else holds a lock still, or a broker did not answer. */
static void retry_locks(struct rmq_consumer *consumer)
{
    if (consumer->running && list_queues(consumer, false, NULL) > 0 &&
        !rq_timer_running(&consumer->lock_retry_timer)) {
        rq_timer_start(consumer->loop, &consumer->lock_retry_timer, RETRY_MS);
    }
}

static void on_locked(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct lock_call *call = RQ_CONTAINER_OF(ask, struct lock_call, ask);
    struct rmq_consumer *consumer = ask->consumer;
    struct rq_lock_body body;
    consumer->lock_calls--;
    for (size_t i = 0; i < call->count; i++) {
        call->queues[i]->lock_asking = false;
    }
    if (status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS &&
        rq_lock_answer_parse(answer->body, &body, NULL) == RMQ_OK) {
        take_answer(call, &body);
        rq_lock_body_clear(&body);
    } else if (status != RMQ_ERR_CLOSED) {
        take_answer(call, NULL);
    }
    end_call(call);
    retry_locks(consumer);
}

static struct rq_peer *broker_of(struct rmq_consumer *consumer, const struct rq_mq *name)
{
    return rq_instance_queue_broker(consumer->instance, name, RQ_PICK_MASTER, RQ_MASTER_ID);
}

/* Queues of the same broker as the first, from the list into a call. Logical ones have one name and
 * many brokers. */
static struct lock_call *collect(struct rmq_consumer *consumer, struct rq_owned **list,
                                 size_t count, struct rq_mq *names)
{
    struct lock_call *call = rq_calloc(1, sizeof *call + count * sizeof *call->queues);
    struct rq_peer *broker = broker_of(consumer, &list[0]->name);
    for (size_t i = 0; call && i < count; i++) {
        if (list[i] && broker_of(consumer, &list[i]->name) == broker) {
            names[call->count] = list[i]->name;
            call->queues[call->count++] = list[i];
            list[i] = NULL;
        }
    }
    return call;
}

static void send_call(struct rmq_consumer *consumer, struct lock_call *call, struct rq_mq *names)
{
    struct rq_lock_body body = {.consumer_group = consumer->options.consumer_group,
                                .client_id = consumer->client_id,
                                .queues = names,
                                .queue_count = call->count};
    struct rq_buf json;
    rq_buf_init(&json, 0);
    rq_lock_body_write(&body, &json);
    for (size_t i = 0; i < call->count; i++) {
        rq_owned_retain(call->queues[i]);
        call->queues[i]->lock_asking = true;
        call->queues[i]->may_hold = true; /* whatever becomes of the answer */
    }
    call->ask.done = on_locked;
    call->asked_ms = rq_loop_now(consumer->loop);
    struct rq_peer *peer = broker_of(consumer, &names[0]);
    consumer->lock_calls++;
    rq_consumer_ask_with(consumer, &call->ask, peer, RQ_REQ_LOCK_BATCH_MQ, NULL, NULL,
                         rq_slice(json.data, json.len), RQ_ASK_TIMEOUT_MS);
    rq_buf_free(&json);
}

void rq_lock_queues(struct rmq_consumer *consumer, bool renew)
{
    size_t count = rq_consumer_locks(consumer) ? list_queues(consumer, renew, NULL) : 0;
    struct rq_owned **list = count > 0 ? rq_calloc(count, sizeof(struct rq_owned *)) : NULL;
    struct rq_mq *names = count > 0 ? rq_calloc(count, sizeof *names) : NULL;
    if (list && names) {
        list_queues(consumer, renew, list);
        for (size_t i = 0; i < count; i++) {
            struct lock_call *call = list[i] ? collect(consumer, list + i, count - i, names) : NULL;
            if (call) {
                send_call(consumer, call, names);
            }
        }
    }
    rq_free(list);
    rq_free(names);
}

static void on_retry(struct rq_timer *timer)
{
    rq_lock_queues(RQ_CONTAINER_OF(timer, struct rmq_consumer, lock_retry_timer), false);
}

/* ---- giving up ---- */

/* Ordered queues whose hands hold something are kept until they are empty, or for
 * consumeTimeout. */
void rq_owned_give_up(struct rq_owned *owned)
{
    if (!rq_consumer_locks(owned->consumer) || rq_order_shut(owned)) {
        rq_owned_drop(owned, true);
        return;
    }
    owned->leaving = true;
    owned->leaving_until_ms =
        rq_loop_now(owned->consumer->loop) + owned->consumer->options.consume_timeout_ms;
}

bool rq_owned_keep(struct rq_owned *owned)
{
    bool was = owned->leaving;
    owned->leaving = false;
    if (was && owned->locked && !owned->anew) {
        open(owned);
    } else if (was) {
        owned->locked = false; /* asked for again, and it starts anew */
    }
    return was;
}

void rq_order_hands_empty(struct rq_owned *owned)
{
    if (!owned->consumer->running || rq_pool_turn_is_busy(&owned->consumer->pool, &owned->turn)) {
        return;
    }
    if (owned->leaving) {
        rq_owned_drop(owned, true);
    } else if (owned->anew && (owned->locked || !rq_consumer_locks(owned->consumer))) {
        begin_anew(owned);
    } else {
        atomic_store(&owned->wants_hands, false);
    }
}

static void unlock(struct rmq_consumer *consumer, const struct rq_mq *names, size_t count)
{
    struct rq_lock_body body = {.consumer_group = consumer->options.consumer_group,
                                .client_id = consumer->client_id,
                                .queue_count = count};
    struct rq_mq *copy = rq_alloc(count * sizeof *copy);
    if (!copy) {
        return; /* the lock runs out by itself */
    }
    memcpy(copy, names, count * sizeof *copy);
    body.queues = copy;
    struct rq_buf json;
    rq_buf_init(&json, 0);
    rq_lock_body_write(&body, &json);
    struct rq_peer *peer = broker_of(consumer, &names[0]);
    rq_instance_oneway(consumer->instance, peer, RQ_REQ_UNLOCK_BATCH_MQ, NULL, NULL,
                       rq_slice(json.data, json.len));
    rq_buf_free(&json);
    rq_free(copy);
}

void rq_lock_give_back(struct rq_owned *owned)
{
    struct rq_owned *now = rq_owned_find(owned->consumer, &owned->name);
    /* ours again meanwhile, under the same lock, or about to be */
    bool again = now && now != owned && (now->locked || owned->consumer->running);
    if (owned->may_hold && !again) {
        owned->locked = false;
        owned->may_hold = owned->lock_asking; /* the broker may grant it after this */
        unlock(owned->consumer, &owned->name, 1);
    }
}

void rq_lock_give_back_all(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (!rq_pool_turn_is_busy(&consumer->pool, &owned->turn)) {
                rq_lock_give_back(owned);
            }
        }
    }
}

/* ---- the round ---- */

static void look_at(struct rq_owned *owned, int64_t now_ms)
{
    if (owned->locked && now_ms >= owned->locked_until_ms) {
        lose(owned);
    }
    if (owned->leaving && (now_ms >= owned->leaving_until_ms || !owned->locked)) {
        rq_owned_drop(owned, true);
    }
}

static void on_round(struct rq_timer *timer)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(timer, struct rmq_consumer, lock_timer);
    int64_t now_ms = rq_loop_now(consumer->loop);
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            look_at(RQ_CONTAINER_OF(item, struct rq_owned, node), now_ms);
        }
    }
    rq_lock_queues(consumer, true);
    rq_timer_start(consumer->loop, timer, consumer->options.lock_interval_ms);
}

void rq_lock_init(struct rmq_consumer *consumer)
{
    rq_timer_init(&consumer->lock_timer, on_round);
    rq_timer_init(&consumer->lock_retry_timer, on_retry);
}

void rq_lock_start(struct rmq_consumer *consumer)
{
    if (rq_consumer_locks(consumer)) {
        rq_timer_start(consumer->loop, &consumer->lock_timer, consumer->options.lock_interval_ms);
    }
}

void rq_lock_stop(struct rmq_consumer *consumer)
{
    rq_timer_stop(&consumer->lock_timer);
    rq_timer_stop(&consumer->lock_retry_timer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The pull of an owned queue: one request at a time, parked by the broker until there is something;
 * the answer's frame becomes the owner of its messages, which go into the process queue and to the
 * pool, and the next pull starts when there is room. On the I/O thread. Counterparts:
 * PullMessageService, DefaultMQPushConsumerImpl.pullMessage.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/properties.h"
#include "wire/static_topic.h"

#define PULL_BYTES      262144 /* most bytes of an answer that we ask for */
#define CLIENT_GRACE_MS 15000  /* beyond the time that the broker parks a pull */
#define DAMAGED_TRIES   3

static void on_pulled(struct rq_ask *ask, rmq_status status, struct rq_in *answer);

/* ---- when to pull ---- */

void rq_pull_after(struct rq_owned *owned, int64_t delay_ms)
{
    rq_timer_start(owned->consumer->loop, &owned->timer, delay_ms);
}

void rq_pull_starved(struct rmq_consumer *consumer)
{
    atomic_store(&consumer->starving, false);
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (owned->starved) {
                rq_pull(owned);
            }
        }
    }
}

void rq_pull_all(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            rq_pull(RQ_CONTAINER_OF(item, struct rq_owned, node));
        }
    }
}

void rq_pull_halt(struct rq_owned *owned)
{
    if (owned->asking && owned->located && !owned->pops) {
        rq_consumer_cancel(&owned->ask);
        owned->delay_ms = RQ_RETRY_FIRST_MS; /* it did not fail */
    }
}

static bool has_moved(const struct rq_mq *name, const struct rq_route *old,
                      const struct rq_route *now)
{
    const struct rq_route_queue *before =
        rq_route_find_logical(old, name->broker_name, name->queue_id);
    const struct rq_route_queue *after =
        rq_route_find_logical(now, name->broker_name, name->queue_id);
    return before && after && before->broker->health != after->broker->health;
}

void rq_pull_follow_leaders(struct rq_subscribed *topic, const struct rq_route *old)
{
    bool any = false;
    RQ_LIST_FOREACH_SAFE(node, next, &topic->queues)
    {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        bool moved = old && rq_broker_name_is_logical(owned->name.broker_name) &&
                     has_moved(&owned->name, old, topic->route);
        if (moved && owned->asking) {
            rq_consumer_cancel(&owned->ask);
        }
        any = any || moved;
    }
    if (any) {
        rq_lock_queues(topic->consumer, true); /* the new leader knows of no lock */
    }
}

static void send_pull(struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    const rmq_consumer_options *options = &consumer->options;
    const struct rq_subscription *sub = owned->topic->sub;
    struct rq_peer *peer =
        rq_instance_queue_broker(consumer->instance, &owned->name, RQ_PICK_ID, owned->broker_id);
    struct rq_hdr_pull fields = {.consumer_group = rq_slice_str(options->consumer_group),
                                 .topic = rq_slice_str(owned->name.topic),
                                 .queue_id = owned->name.queue_id,
                                 .queue_offset = owned->next_offset,
                                 .max_msg_nums = options->pull_batch_size,
                                 .sys_flag = RQ_PULL_SUSPEND,
                                 .suspend_timeout_ms = options->broker_suspend_max_time_ms,
                                 .sub_version = sub->version,
                                 .expression_type = rq_slice_str(sub->expression_type)};
    if (consumer->kind->carries_subscription) {
        fields.sys_flag |= RQ_PULL_SUBSCRIPTION;
        RQ_SET(pull, &fields, subscription, rq_slice_str(sub->sub_string));
    }
    RQ_SET(pull, &fields, max_msg_bytes, PULL_BYTES);
    owned->asking = true;
    owned->asked_ms = rq_loop_now(consumer->loop);
    owned->ask.done = on_pulled;
    rq_owned_retain(owned);
    rq_consumer_ask(consumer, &owned->ask, peer, RQ_REQ_PULL_MESSAGE, &rq_tab_pull, &fields,
                    options->broker_suspend_max_time_ms + CLIENT_GRACE_MS);
}

void rq_pull(struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    if (!owned->topic || owned->asking || !owned->located || !consumer->running ||
        consumer->suspended || owned->paused || !consumer->kind->pulls ||
        rq_timer_running(&owned->timer) || !rq_subscribed_may_pull(owned->topic) ||
        rq_loop_now(consumer->loop) >= atomic_load(&owned->open_until_ms)) {
        return;
    }
    if (!rq_flow_allows(owned)) {
        return;
    }
    if (owned->pops) {
        rq_pop(owned);
    } else {
        send_pull(owned);
    }
}

/* ---- answers ---- */

/* Where the next pull starts: where the broker says. What offset a message has counts only when the
 * broker's word leads nowhere or bytes that are no message end the answer, and only within what was
 * asked for. The next pull asks for what should be there once more, and when it cannot be read in
 * several answers, one message is passed over, which is reported. */
static int64_t next_after(struct rq_owned *owned, const struct rq_views *views,
                          const struct rq_hdr_pull_response *head)
{
    bool leads = head->next_begin_offset > owned->next_offset;
    int64_t end = leads ? head->next_begin_offset : head->max_offset;
    int64_t last = views ? rq_views_last(views, owned->next_offset, end) : -1;
    bool whole = views && !views->damaged;
    if (whole || last >= 0) {
        owned->damaged = 0;
        return whole && leads ? end : last >= 0 ? last + 1 : owned->next_offset;
    }
    rmq_error *err = NULL;
    bool pass = ++owned->damaged >= DAMAGED_TRIES && owned->next_offset < RQ_QUEUE_OFFSET_MAX;
    rq_error_set(&err, RMQ_ERR_CORRUPT, "%s %s:%d: the message at offset %lld cannot be read%s",
                 owned->name.topic, owned->name.broker_name, (int)owned->name.queue_id,
                 (long long)owned->next_offset, pass ? " and is passed over" : ", asked for again");
    rq_consumer_report(owned->consumer, "damaged pull answer", err);
    owned->damaged = pass ? 0 : owned->damaged;
    return owned->next_offset + (pass ? 1 : 0);
}

/* The messages of an answer; *views stays NULL when there is none that could be read.
 * RMQ_ERR_NOMEM: ask again. */
static rmq_status read_messages(struct rq_owned *owned, struct rq_in *answer,
                                const struct rq_hdr_pull_response *head, struct rq_views **views)
{
    rmq_error *err = NULL;
    rmq_status st = rq_receive_decode(owned, answer, views, &err);
    if (st == RMQ_ERR_NOMEM) {
        RQ_LOG(WARN, "a pull answer could not be kept", "%s", rmq_error_message(err));
    }
    rmq_error_destroy(err);
    if (*views) {
        rq_views_place(*views, owned->name.queue_id,
                       RQ_HAS(pull_response, head, offset_delta) ? head->offset_delta : 0);
    }
    return st == RMQ_ERR_NOMEM ? st : RMQ_OK;
}

struct wanted {
    struct rq_subscription *sub; /* NULL: whatever tags they have */
    int64_t end;
};

static bool is_wanted(const struct rmq_message_view *view, void *user)
{
    const struct wanted *wanted = user;
    return view->queue_offset < wanted->end &&
           (!wanted->sub || rq_receive_wants(view, wanted->sub));
}

/* Those before end, where the next pull starts: others would come again, or are of another queue.
 * Takes the views over on RMQ_OK only. */
static rmq_status filter_messages(struct rq_owned *owned, struct rq_views *views, int64_t end,
                                  size_t size, struct rq_pulled **out)
{
    struct rq_subscription *sub = owned->topic->sub;
    bool filters = rq_subscription_is_tag(sub) && sub->tag_count > 0;
    struct wanted wanted = {.sub = filters ? sub : NULL, .end = end};
    return rq_pulled_create(views, owned->next_offset, size, is_wanted, &wanted, out);
}

static void advance(struct rq_owned *owned, struct rq_pulled *pulled, int64_t next)
{
    bool stuck = next <= owned->next_offset || next > RQ_QUEUE_OFFSET_MAX;
    owned->pulls++;
    owned->pulled += pulled ? pulled->count : 0;
    owned->pull_ms += rq_loop_now(owned->consumer->loop) - owned->asked_ms;
    owned->next_offset = stuck ? owned->next_offset : next;
    owned->delay_ms = stuck ? owned->delay_ms : RQ_RETRY_FIRST_MS;
    if (pulled) {
        rq_receive_hand_over(owned, pulled, owned->next_offset);
    } else {
        rq_process_queue_put(&owned->process, NULL, owned->next_offset);
    }
    if (stuck) {
        rq_owned_retry(owned); /* an answer that leads nowhere is not asked for at full speed */
    } else if (owned->consumer->options.pull_interval_ms > 0) {
        rq_pull_after(owned, owned->consumer->options.pull_interval_ms);
    }
}

static void take_messages(struct rq_owned *owned, struct rq_in *answer,
                          const struct rq_hdr_pull_response *head)
{
    struct rq_views *views = NULL;
    struct rq_pulled *pulled = NULL;
    if (read_messages(owned, answer, head, &views) != RMQ_OK) {
        rq_owned_retry(owned);
        return;
    }
    int64_t next = next_after(owned, views, head);
    if (views && filter_messages(owned, views, next, answer->size, &pulled) != RMQ_OK) {
        rq_views_release(views);
        rq_owned_retry(owned);
        return;
    }
    advance(owned, pulled, next);
}

static void take_nothing(struct rq_owned *owned, int64_t next)
{
    if (next > owned->next_offset && next <= RQ_QUEUE_OFFSET_MAX) {
        owned->next_offset = next;
        owned->delay_ms = RQ_RETRY_FIRST_MS;
        rq_process_queue_put(&owned->process, NULL, next);
    } else {
        rq_receive_nothing(owned);
    }
}

/* The offset is outside what the broker has, or an administrator wants another: what we hold of the
 * queue counts no more, and it starts anew where the broker says. */
static void move_offset(struct rq_owned *owned, int64_t offset)
{
    rq_consumer_note(owned->consumer, RMQ_EVENT_OFFSET_ILLEGAL, "%s %s:%d %lld -> %lld",
                     rq_consumer_plain(owned->consumer, owned->name.topic), owned->name.broker_name,
                     (int)owned->name.queue_id, (long long)owned->next_offset, (long long)offset);
    rq_owned_restart(owned, offset);
}

static void take_answer(struct rq_owned *owned, struct rq_in *answer)
{
    struct rq_hdr_pull_response head;
    int32_t code = answer->header->code;
    bool known = code == RQ_RESP_SUCCESS || code == RQ_RESP_PULL_NOT_FOUND ||
                 code == RQ_RESP_PULL_RETRY_IMMEDIATELY || code == RQ_RESP_PULL_OFFSET_MOVED;
    if (!known) {
        rq_receive_refusal(owned, RMQ_OK, answer);
        return;
    }
    if (rq_fields_decode(&rq_tab_pull_response, answer->header, &head, NULL) != RMQ_OK) {
        rq_receive_refusal(owned, RMQ_ERR_PROTOCOL, NULL);
        return;
    }
    owned->broker_id = head.suggest_which_broker_id;
    owned->max_offset = head.max_offset;
    if (code == RQ_RESP_PULL_OFFSET_MOVED) {
        move_offset(owned, head.next_begin_offset);
    } else if (code == RQ_RESP_SUCCESS && answer->body.n > 0) {
        take_messages(owned, answer, &head);
    } else {
        take_nothing(owned, head.next_begin_offset);
    }
}

static void on_pulled(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(ask, struct rq_owned, ask);
    rq_receive_ended(owned, status, answer, take_answer);
    if (owned->topic && owned->consumer->running) { /* not given up meanwhile */
        rq_offset_commit_eagerly(owned);
    }
    rq_owned_release(owned);
}

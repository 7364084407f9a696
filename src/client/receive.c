/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What came for an owned queue, whether it was pulled or popped: messages are shown under their
 * topic and go to the process queue and to the pool; an answer without any makes the next request
 * wait. On the I/O thread. Counterpart: the callbacks of DefaultMQPushConsumerImpl.pullMessage and
 * popMessage.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/properties.h"

#define FLOW_CONTROL_MS 20
/* an empty answer so soon was not parked: that broker is asked slowly */
#define QUICK_MS            50
#define TAKING_TURNS_ROUNDS 4 /* of heartbeats, until members are said to differ */

bool rq_receive_wants(const struct rmq_message_view *view, void *user)
{
    const struct rq_subscription *sub = user;
    return rq_subscription_match_tag(sub, rq_slice_str(view->tag));
}

rmq_status rq_receive_decode(struct rq_owned *owned, struct rq_in *answer, struct rq_views **views,
                             rmq_error **err)
{
    struct rq_frame_ref *frame = rq_in_keep(answer);
    if (!frame) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "answer of %zu bytes", answer->size);
    }
    rmq_status st =
        owned->pops
            ? rq_views_create(frame, answer->body, owned->name.broker_name, views, err)
            : rq_views_create_pulled(frame, answer->body, owned->name.broker_name, views, err);
    if (st != RMQ_OK) {
        rq_frame_ref_release(frame);
    }
    return st;
}

const char *rq_receive_origin(const struct rmq_consumer *consumer,
                              const struct rmq_message_view *view)
{
    const char *topic = strcmp(view->topic, consumer->retry_topic) == 0
                            ? rq_view_property(view, RQ_PROP_RETRY_TOPIC)
                            : NULL;
    struct rq_slice group = rq_slice_str(consumer->options.consumer_group);
    struct rq_slice normal;
    topic = topic && *topic ? topic : view->topic;
    return rq_pop_normal_topic(rq_slice_str(topic), group, &normal) ? normal.p : topic;
}

/* Messages of a retry topic are shown under the topic that they came from, and all without their
 * namespace. */
static void restore_topics(const struct rq_owned *owned, struct rq_pulled *pulled)
{
    const char *name_space = owned->consumer->options.namespace_name;
    bool may_be_retry = owned->is_retry || owned->pops;
    for (uint32_t i = 0; (may_be_retry || name_space) && i < pulled->count; i++) {
        if (may_be_retry) {
            pulled->views[i]->topic = rq_receive_origin(owned->consumer, pulled->views[i]);
        }
        rq_view_strip(pulled->views[i], name_space);
    }
}

void rq_receive_hand_over(struct rq_owned *owned, struct rq_pulled *pulled, int64_t next)
{
    struct rmq_consumer *consumer = owned->consumer;
    restore_topics(owned, pulled);
    pulled->queue = &owned->process;
    rq_owned_retain(owned);
    atomic_fetch_add(&consumer->cached, (int64_t)pulled->memory);
    if (consumer->options.consume_orderly) {
        rq_process_queue_put(&owned->process, pulled, next);
        rq_order_submit(owned);
    } else {
        rq_pulled_retain(pulled); /* the pool's */
        rq_process_queue_put(&owned->process, pulled, next);
        if (rq_pool_submit(&consumer->pool, pulled)) {
            rq_consumer_tell_taker(consumer);
        }
        rq_consumer_guard(consumer);
    }
}

void rq_receive_nothing(struct rq_owned *owned)
{
    if (rq_loop_now(owned->consumer->loop) - owned->asked_ms >= QUICK_MS) {
        owned->delay_ms = RQ_RETRY_FIRST_MS;
    } else {
        rq_owned_retry(owned);
    }
}

/* Said once in a while for a topic, however many of its queues are refused. A broker that is
 * away is net's to tell. */
static void note_failure(struct rq_owned *owned, rmq_status status, const struct rq_in *answer)
{
    int64_t now = rq_loop_now(owned->consumer->loop);
    if ((status != RMQ_OK && status != RMQ_ERR_PROTOCOL) || now < owned->topic->quiet_until_ms) {
        return;
    }
    owned->topic->quiet_until_ms = now + RQ_WARN_EVERY_MS;
    rmq_error *err = NULL;
    rq_answer_error(status, answer ? answer->header : NULL, owned->name.broker_name,
                    owned->pops ? "pop" : "pull", &err);
    RQ_LOG(WARN, "a pull or pop was refused, tried again until it works",
           "topic=%s queue=%d why=%s", owned->name.topic, (int)owned->name.queue_id,
           rmq_error_message(err));
    rmq_error_destroy(err);
}

/* A broker keeps one set of subscriptions of a group, that of the last heartbeat: members that
 * differ take turns, and each sees its own forgotten again and again. A broker that is started,
 * even a few times, does not go on so for several rounds of heartbeats. */
static void note_forgotten(struct rq_owned *owned)
{
    struct rq_subscribed *topic = owned->topic;
    int64_t now = rq_loop_now(owned->consumer->loop);
    int64_t round_ms = owned->consumer->options.heartbeat_broker_interval_ms;
    if (now - topic->forgotten_ms > 2 * round_ms) {
        topic->forgotten_since_ms = now;
    }
    topic->forgotten_ms = now;
    if (now - topic->forgotten_since_ms < TAKING_TURNS_ROUNDS * round_ms ||
        now < topic->quiet_until_ms) {
        return;
    }
    topic->quiet_until_ms = now + RQ_WARN_EVERY_MS;
    RQ_LOG(WARN, "the members of a group do not subscribe the same, messages are late or missed",
           "group=%s topic=%s broker=%s", owned->consumer->options.consumer_group, topic->topic,
           owned->name.broker_name);
}

void rq_receive_refusal(struct rq_owned *owned, rmq_status status, const struct rq_in *answer)
{
    int32_t code = status == RMQ_OK ? answer->header->code : -1;
    switch (code) {
    case RQ_RESP_FLOW_CONTROL:
        rq_pull_after(owned, FLOW_CONTROL_MS);
        return;
    case RQ_RESP_SUBSCRIPTION_NOT_EXIST:
    case RQ_RESP_SUBSCRIPTION_NOT_LATEST:
    case RQ_RESP_FILTER_DATA_NOT_EXIST:
    case RQ_RESP_FILTER_DATA_NOT_LATEST:
    case RQ_RESP_SUBSCRIPTION_GROUP_NOT_EXIST:
        rq_instance_heartbeat(owned->consumer->instance);
        break;
    case RQ_RESP_NOT_LEADER_FOR_QUEUE:
        rq_instance_queue_moved(owned->consumer->instance, owned->name.topic);
        break;
    default:
        break;
    }
    if (code == RQ_RESP_SUBSCRIPTION_NOT_EXIST) {
        note_forgotten(owned);
    } else if (code != RQ_RESP_SUBSCRIPTION_NOT_LATEST) {
        note_failure(owned, status, answer);
    }
    owned->broker_id = RQ_MASTER_ID;
    rq_owned_retry(owned);
}

void rq_receive_ended(struct rq_owned *owned, rmq_status status, struct rq_in *answer,
                      rq_receive_take *take)
{
    owned->asking = false;
    if (!owned->topic || !owned->consumer->running) {
        return; /* given up meanwhile */
    }
    if (status == RMQ_OK) {
        take(owned, answer);
    } else {
        rq_receive_refusal(owned, status, NULL);
    }
    rq_pull(owned);
}

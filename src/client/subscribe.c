/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Subscriptions of a consumer, before its start and while it runs: a topic that is new is watched
 * and shared, a new expression is used from the next pull on. The program's threads ask, the I/O
 * thread does it. Counterparts: subscribe and unsubscribe of DefaultMQPushConsumerImpl.
 */
#include <string.h>

#include "base/err.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

struct subscribe_call {
    struct rmq_consumer *consumer;
    const char *topic;
    const char *expression;
    const char *type;
    bool remove;
    rmq_status st;
    rmq_error **err;
};

int64_t rq_consumer_next_version(struct rmq_consumer *consumer)
{
    int64_t now = rq_wall_ms();
    consumer->last_version = now > consumer->last_version ? now : consumer->last_version + 1;
    return consumer->last_version;
}

/* Pulls under way carry the old expression: they are asked again with the new one. Where the old
 * one kept them from being asked, that ends here, unless a broker is to judge the new one first. */
static void replace_expression(struct rq_subscribed *topic, struct rq_subscription *sub)
{
    rq_subscription_destroy(topic->sub);
    topic->sub = sub;
    topic->accepted = false;
    topic->refused = false;
    rq_subscribed_check(topic);
    RQ_LIST_FOREACH_SAFE(node, next, &topic->queues)
    {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        if (owned->asking && owned->located) {
            rq_consumer_cancel(&owned->ask);
        }
        rq_pull(owned);
    }
    rq_consumer_settle(topic->consumer);
}

static void subscribe_on_loop(void *arg)
{
    struct subscribe_call *call = arg;
    struct rmq_consumer *consumer = call->consumer;
    struct rq_subscription *sub = NULL;
    if (consumer->closing) {
        call->st = rq_error_set(call->err, RMQ_ERR_CLOSED, "the consumer is shut down");
        return;
    }
    call->st = rq_subscription_create(call->topic, call->expression, call->type,
                                      rq_consumer_next_version(consumer), &sub, call->err);
    if (call->st != RMQ_OK) {
        return;
    }
    struct rq_subscribed *topic = rq_subscribed_find(consumer, call->topic);
    if (topic) {
        replace_expression(topic, sub);
    } else {
        call->st = rq_subscribed_create(consumer, sub, false, &topic);
        if (call->st != RMQ_OK) {
            rq_subscription_destroy(sub);
            rq_error_set(call->err, call->st, "subscription of %s", call->topic);
            return;
        }
        if (consumer->running) {
            rq_subscribed_watch(topic);
        }
    }
    if (consumer->running) {
        rq_instance_heartbeat(consumer->instance);
    }
}

static void unsubscribe_on_loop(void *arg)
{
    struct subscribe_call *call = arg;
    struct rmq_consumer *consumer = call->consumer;
    struct rq_subscribed *topic = rq_subscribed_find(consumer, call->topic);
    if (consumer->closing) {
        call->st = rq_error_set(call->err, RMQ_ERR_CLOSED, "the consumer is shut down");
    } else if (!topic || topic->is_retry) {
        call->st =
            rq_error_set(call->err, RMQ_ERR_NOT_FOUND, "topic %s is not subscribed", call->topic);
    } else {
        rq_assignment_forget(topic);
        rq_subscribed_remove(topic, consumer->running);
        rq_instance_heartbeat(consumer->instance);
    }
}

static rmq_status change_subscription(struct subscribe_call *call)
{
    if (!call->consumer || !call->topic) {
        return rq_error_set(call->err, RMQ_ERR_INVALID, "consumer or topic is NULL");
    }
    char room[RQ_NAMESPACED_MAX];
    call->topic = rq_namespace_wrap(call->consumer->options.namespace_name, call->topic, room);
    rmq_status st = rq_topic_check(rq_slice_str(call->topic), call->err);
    if (st != RMQ_OK) {
        return st;
    }
    if (rq_consumer_sends_back(call->consumer) &&
        strcmp(call->topic, call->consumer->retry_topic) == 0) {
        return rq_error_set(call->err, RMQ_ERR_INVALID,
                            "%s is the group's own: it is subscribed by itself", call->topic);
    }
    if (rq_instance_run(call->consumer->instance,
                        call->remove ? unsubscribe_on_loop : subscribe_on_loop, call) != RMQ_OK) {
        return rq_error_set(call->err, RMQ_ERR_FORKED,
                            "the consumer belongs to the parent process");
    }
    return call->st;
}

rmq_status rmq_consumer_subscribe(rmq_consumer *consumer, const char *topic, const char *expression,
                                  rmq_error **err)
{
    struct subscribe_call call = {.consumer = consumer,
                                  .topic = topic,
                                  .expression = expression,
                                  .type = RQ_EXPRESSION_TAG,
                                  .err = err};
    return change_subscription(&call);
}

rmq_status rq_selector_make(rmq_expression_type type, const char *expression,
                            struct rq_selector *out, rmq_error **err)
{
    *out = (struct rq_selector){.type = RQ_EXPRESSION_TAG, .expression = expression};
    if (type == RMQ_EXPRESSION_TAG) {
        return RMQ_OK;
    }
    if (type != RMQ_EXPRESSION_SQL92) {
        return rq_error_set(err, RMQ_ERR_INVALID, "there is no expression type %d", (int)type);
    }
    out->type = RQ_EXPRESSION_SQL92;
    return expression && *expression
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_INVALID, "an SQL92 expression is needed");
}

rmq_status rmq_consumer_subscribe_selector(rmq_consumer *consumer, const char *topic,
                                           rmq_expression_type type, const char *expression,
                                           rmq_error **err)
{
    struct rq_selector selector;
    rmq_status st = rq_selector_make(type, expression, &selector, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct subscribe_call call = {.consumer = consumer,
                                  .topic = topic,
                                  .expression = selector.expression,
                                  .type = selector.type,
                                  .err = err};
    return change_subscription(&call);
}

rmq_status rmq_consumer_unsubscribe(rmq_consumer *consumer, const char *topic, rmq_error **err)
{
    struct subscribe_call call = {.consumer = consumer, .topic = topic, .remove = true, .err = err};
    return change_subscription(&call);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Queues of a lite pull consumer: those that the program assigns, where they stand, and which rest.
 * The program's threads ask, the I/O thread does it. Counterparts: AssignedMessageQueue, and
 * assign, seek, pause of DefaultLitePullConsumerImpl.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/lite_pull_priv.h"
#include "client/owned.h"
#include "client/queue_ask.h"
#include "client/queue_list.h"
#include "client/subscribed.h"
#include "wire/names.h"

/* ---- expressions of assigned topics ---- */

static struct rq_lite_expression *find_expression(struct rmq_lite_pull_consumer *consumer,
                                                  const char *topic)
{
    for (struct rq_list *node = consumer->expressions.next; node != &consumer->expressions;
         node = node->next) {
        struct rq_lite_expression *item = RQ_CONTAINER_OF(node, struct rq_lite_expression, node);
        if (strcmp(item->topic, topic) == 0) {
            return item;
        }
    }
    return NULL;
}

static void free_expression(struct rq_lite_expression *item)
{
    rq_free(item->topic);
    rq_free(item->expression);
    rq_free(item);
}

void rq_lite_free_expressions(struct rmq_lite_pull_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->expressions)
    {
        rq_list_remove(node);
        free_expression(RQ_CONTAINER_OF(node, struct rq_lite_expression, node));
    }
}

struct expression_call {
    struct rmq_lite_pull_consumer *consumer;
    struct rq_lite_expression *item;
};

static void set_expression(void *arg)
{
    struct expression_call *call = arg;
    struct rq_lite_expression *old = find_expression(call->consumer, call->item->topic);
    if (old) {
        rq_list_remove(&old->node);
        free_expression(old);
    }
    rq_list_add_tail(&call->consumer->expressions, &call->item->node);
}

rmq_status rmq_lite_pull_consumer_set_assign_expression(rmq_lite_pull_consumer *consumer,
                                                        const char *topic, const char *expression,
                                                        rmq_error **err)
{
    struct rq_subscription *checked = NULL;
    char room[RQ_NAMESPACED_MAX];
    rmq_status st = rq_lite_check(consumer, NULL, topic, "topic", err);
    topic = rq_lite_full(consumer, topic, room);
    if (st == RMQ_OK) {
        st = rq_subscription_create(topic, expression, RQ_EXPRESSION_TAG, 0, &checked, err);
        rq_subscription_destroy(checked);
    }
    if (st != RMQ_OK) {
        return st;
    }
    struct expression_call call = {.consumer = consumer, .item = rq_calloc(1, sizeof *call.item)};
    if (!call.item) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "expression of topic %s", topic);
    }
    call.item->topic = rq_strdup(topic);
    call.item->expression = rq_strdup(expression ? expression : RQ_SUBSCRIBE_ALL);
    if (!call.item->topic || !call.item->expression) {
        free_expression(call.item);
        return rq_error_set(err, RMQ_ERR_NOMEM, "expression of topic %s", topic);
    }
    rq_instance_run(consumer->instance, set_expression, &call);
    return RMQ_OK;
}

/* ---- assign: loop ---- */

struct assign_call {
    struct rmq_lite_pull_consumer *consumer;
    const rmq_queue_list *queues;
    rmq_status st;
    rmq_error **err;
};

/* A topic of the list, watched and with its expression; its queues come next. */
static rmq_status need_topic(struct rmq_lite_pull_consumer *consumer, const char *name,
                             struct rq_subscribed **out)
{
    struct rmq_consumer *inner = consumer->inner;
    const struct rq_lite_expression *item = find_expression(consumer, name);
    struct rq_subscription *sub = NULL;
    *out = rq_subscribed_find(inner, name);
    if (*out) {
        return RMQ_OK;
    }
    rmq_status st =
        rq_subscription_create(name, item ? item->expression : RQ_SUBSCRIBE_ALL, RQ_EXPRESSION_TAG,
                               rq_consumer_next_version(inner), &sub, NULL);
    if (st == RMQ_OK) {
        st = rq_subscribed_create(inner, sub, false, out);
        if (st != RMQ_OK) {
            rq_subscription_destroy(sub);
        }
    }
    if (st == RMQ_OK) {
        (*out)->assigned = true;
        (*out)->settled = true;
        if (inner->running) {
            rq_subscribed_watch(*out);
        }
    }
    return st;
}

static bool lists_topic(const rmq_queue_list *queues, const char *topic)
{
    for (size_t i = 0; i < queues->count; i++) {
        if (strcmp(queues->items[i].topic, topic) == 0) {
            return true;
        }
    }
    return false;
}

static void give_up_others(const struct assign_call *call)
{
    struct rmq_consumer *inner = call->consumer->inner;
    RQ_LIST_FOREACH_SAFE(node, next, &inner->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (!rq_queue_list_has(call->queues, &owned->name)) {
                rq_owned_drop(owned, inner->running);
            }
        }
        if (!lists_topic(call->queues, topic->topic)) {
            rq_subscribed_remove(topic, inner->running);
        }
    }
}

static rmq_status take_up(struct rmq_lite_pull_consumer *consumer, const struct rq_mq *name)
{
    struct rq_subscribed *topic = NULL;
    rmq_status st = need_topic(consumer, name->topic, &topic);
    if (st != RMQ_OK || rq_owned_find(consumer->inner, name)) {
        return st;
    }
    struct rq_owned *owned = rq_owned_create(topic, name);
    if (!owned) {
        return RMQ_ERR_NOMEM;
    }
    rq_offset_locate(owned);
    return RMQ_OK;
}

static void assign_on_loop(void *arg)
{
    struct assign_call *call = arg;
    struct rmq_lite_pull_consumer *consumer = call->consumer;
    if (consumer->inner->closing) {
        call->st = rq_error_set(call->err, RMQ_ERR_CLOSED, "the consumer is shut down");
        return;
    }
    if (consumer->mode == RQ_LITE_SUBSCRIBE) {
        call->st = rq_error_set(call->err, RMQ_ERR_STATE, "the consumer has subscribed topics");
        return;
    }
    consumer->mode = RQ_LITE_ASSIGN;
    give_up_others(call);
    for (size_t i = 0; call->st == RMQ_OK && i < call->queues->count; i++) {
        call->st = take_up(consumer, &call->queues->items[i]);
    }
    if (call->st != RMQ_OK) {
        rq_error_set(call->err, call->st, "assignment of %zu queues", call->queues->count);
    }
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->inner->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            rq_owned_set_limits(RQ_CONTAINER_OF(item, struct rq_owned, node));
        }
    }
}

rmq_status rmq_lite_pull_consumer_assign(rmq_lite_pull_consumer *consumer,
                                         const rmq_queue_list *queues, rmq_error **err)
{
    rmq_queue_list *full = NULL;
    rmq_status st = rq_lite_check(consumer, NULL, queues, "queues", err);
    st = st == RMQ_OK ? rq_queue_list_wrap(queues, consumer->options.namespace_name, &full, err)
                      : st;
    for (size_t i = 0; st == RMQ_OK && i < full->count; i++) {
        st = rq_topic_check(rq_slice_str(full->items[i].topic), err);
    }
    if (st == RMQ_OK) {
        struct assign_call call = {.consumer = consumer, .queues = full, .err = err};
        rq_instance_run(consumer->instance, assign_on_loop, &call);
        st = call.st;
    }
    rmq_queue_list_destroy(full);
    return st;
}

/* ---- lists ---- */

struct list_call {
    struct rmq_lite_pull_consumer *consumer;
    rmq_queue_list *list;
    rmq_status st;
};

static void list_on_loop(void *arg)
{
    struct list_call *call = arg;
    struct rmq_consumer *inner = call->consumer->inner;
    RQ_LIST_FOREACH_SAFE(node, next, &inner->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        for (struct rq_list *item = topic->queues.next;
             call->st == RMQ_OK && item != &topic->queues; item = item->next) {
            struct rq_mq name = RQ_CONTAINER_OF(item, struct rq_owned, node)->name;
            name.topic = rq_consumer_plain(inner, name.topic);
            call->st = rq_queue_list_add(call->list, &name);
        }
    }
}

rmq_status rmq_lite_pull_consumer_assignment(rmq_lite_pull_consumer *consumer, rmq_queue_list **out,
                                             rmq_error **err)
{
    struct list_call call = {.consumer = consumer};
    rmq_status st = rq_lite_check(consumer, NULL, out, "out", err);
    if (st == RMQ_OK) {
        st = rmq_queue_list_create(&call.list, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    rq_instance_run(consumer->instance, list_on_loop, &call);
    if (call.st != RMQ_OK) {
        rmq_queue_list_destroy(call.list);
        return rq_error_set(err, call.st, "assignment");
    }
    *out = call.list;
    return RMQ_OK;
}

rmq_status rmq_lite_pull_consumer_fetch_queues(rmq_lite_pull_consumer *consumer, const char *topic,
                                               int64_t timeout_ms, rmq_queue_list **out,
                                               rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, topic ? out : NULL, topic ? "out" : "topic", err);
    return st == RMQ_OK
               ? rq_queue_list_fetch_named(consumer->instance, consumer->options.namespace_name,
                                           topic, timeout_ms, out, err)
               : st;
}

/* ---- pause ---- */

struct pause_call {
    struct rmq_lite_pull_consumer *consumer;
    const rmq_queue_list *queues; /* NULL = all */
    bool pause;
};

static void pause_on_loop(void *arg)
{
    const struct pause_call *call = arg;
    RQ_LIST_FOREACH_SAFE(node, next, &call->consumer->inner->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (!call->queues || rq_queue_list_has(call->queues, &owned->name)) {
                rq_owned_pause(owned, call->pause);
            }
        }
    }
}

static rmq_status set_paused(struct rmq_lite_pull_consumer *consumer, const rmq_queue_list *queues,
                             bool pause, rmq_error **err)
{
    rmq_queue_list *full = NULL;
    rmq_status st = rq_lite_check(consumer, NULL, consumer, "consumer", err);
    if (st == RMQ_OK && queues) {
        st = rq_queue_list_wrap(queues, consumer->options.namespace_name, &full, err);
    }
    if (st == RMQ_OK) {
        struct pause_call call = {.consumer = consumer, .queues = full, .pause = pause};
        rq_instance_run(consumer->instance, pause_on_loop, &call);
    }
    rmq_queue_list_destroy(full);
    return st;
}

rmq_status rmq_lite_pull_consumer_pause(rmq_lite_pull_consumer *consumer,
                                        const rmq_queue_list *queues, rmq_error **err)
{
    return set_paused(consumer, queues, true, err);
}

rmq_status rmq_lite_pull_consumer_resume(rmq_lite_pull_consumer *consumer,
                                         const rmq_queue_list *queues, rmq_error **err)
{
    return set_paused(consumer, queues, false, err);
}

/* ---- seek ---- */

struct seek_call {
    struct rmq_lite_pull_consumer *consumer;
    const struct rq_mq *name;
    int64_t offset; /* -1: only look whether the queue is ours */
    rmq_status st;
};

/* A fresh queue takes the place of the old one, so that nothing of before can reach the program or
 * move the offset. */
static void seek_on_loop(void *arg)
{
    struct seek_call *call = arg;
    struct rq_owned *owned = rq_owned_find(call->consumer->inner, call->name);
    if (!owned || call->offset < 0) {
        call->st = owned ? RMQ_OK : RMQ_ERR_NOT_FOUND;
        return;
    }
    struct rq_owned *fresh = rq_owned_create(owned->topic, &owned->name);
    if (!fresh) {
        call->st = RMQ_ERR_NOMEM;
        return;
    }
    fresh->paused = owned->paused;
    rq_owned_drop(owned, false);
    rq_owned_set_limits(fresh);
    rq_owned_start(fresh, call->offset, false);
}

static rmq_status seek(struct rmq_lite_pull_consumer *consumer, const struct rq_mq *name,
                       int64_t offset, rmq_error **err)
{
    struct seek_call call = {.consumer = consumer, .name = name, .offset = offset};
    rq_instance_run(consumer->instance, seek_on_loop, &call);
    return call.st == RMQ_OK
               ? RMQ_OK
               : rq_error_set(err, call.st, "seek of %s %s:%d: %s", name->topic, name->broker_name,
                              (int)name->queue_id,
                              call.st == RMQ_ERR_NOT_FOUND ? "the queue is not this consumer's"
                                                           : rmq_status_text(call.st));
}

/* Before a broker is asked. */
static rmq_status check_seek(struct rmq_lite_pull_consumer *consumer, const struct rq_mq *name,
                             rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, name, consumer, "consumer", err);
    return st == RMQ_OK ? seek(consumer, name, -1, err) : st;
}

rmq_status rmq_lite_pull_consumer_seek(rmq_lite_pull_consumer *consumer, const char *topic,
                                       const char *broker_name, int32_t queue_id, int64_t offset,
                                       int64_t timeout_ms, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_lite_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    int64_t least = 0;
    int64_t most = 0;
    rmq_status st = check_seek(consumer, &name, err);
    if (st == RMQ_OK) {
        st = rq_queue_min_offset(consumer->instance, &name, timeout_ms, &least, err);
    }
    if (st == RMQ_OK) {
        st = rq_queue_max_offset(consumer->instance, &name, timeout_ms, &most, err);
    }
    if (st == RMQ_OK && (offset < least || offset > most)) {
        st = rq_error_set(err, RMQ_ERR_INVALID, "seek to %lld: %s %s:%d has %lld to %lld",
                          (long long)offset, topic, broker_name, (int)queue_id, (long long)least,
                          (long long)most);
    }
    return st == RMQ_OK ? seek(consumer, &name, offset, err) : st;
}

/* One end of a queue, as its broker tells it. */
typedef rmq_status find_end(struct rq_instance *instance, const struct rq_mq *queue,
                            int64_t timeout_ms, int64_t *out, rmq_error **err);

static rmq_status seek_to_end(rmq_lite_pull_consumer *consumer, const char *topic,
                              const char *broker_name, int32_t queue_id, find_end *find,
                              int64_t timeout_ms, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_lite_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    int64_t offset = 0;
    rmq_status st = check_seek(consumer, &name, err);
    if (st == RMQ_OK) {
        st = find(consumer->instance, &name, timeout_ms, &offset, err);
    }
    return st == RMQ_OK ? seek(consumer, &name, offset, err) : st;
}

rmq_status rmq_lite_pull_consumer_seek_to_begin(rmq_lite_pull_consumer *consumer, const char *topic,
                                                const char *broker_name, int32_t queue_id,
                                                int64_t timeout_ms, rmq_error **err)
{
    return seek_to_end(consumer, topic, broker_name, queue_id, rq_queue_min_offset, timeout_ms,
                       err);
}

rmq_status rmq_lite_pull_consumer_seek_to_end(rmq_lite_pull_consumer *consumer, const char *topic,
                                              const char *broker_name, int32_t queue_id,
                                              int64_t timeout_ms, rmq_error **err)
{
    return seek_to_end(consumer, topic, broker_name, queue_id, rq_queue_max_offset, timeout_ms,
                       err);
}

rmq_status rmq_lite_pull_consumer_seek_to_timestamp(rmq_lite_pull_consumer *consumer,
                                                    const char *topic, const char *broker_name,
                                                    int32_t queue_id, int64_t timestamp_ms,
                                                    int64_t timeout_ms, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_lite_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    int64_t offset = 0;
    rmq_status st = check_seek(consumer, &name, err);
    if (st == RMQ_OK) {
        st = rq_queue_search_offset(consumer->instance, &name, timestamp_ms, timeout_ms, &offset,
                                    err);
    }
    return st == RMQ_OK ? seek(consumer, &name, offset, err) : st;
}

rmq_status rmq_lite_pull_consumer_offset_for_timestamp(rmq_lite_pull_consumer *consumer,
                                                       const char *topic, const char *broker_name,
                                                       int32_t queue_id, int64_t timestamp_ms,
                                                       int64_t timeout_ms, int64_t *out,
                                                       rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_lite_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_lite_check(consumer, &name, out, "out", err);
    return st == RMQ_OK ? rq_queue_search_offset(consumer->instance, &name, timestamp_ms,
                                                 timeout_ms, out, err)
                        : st;
}

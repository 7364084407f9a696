/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a program may do to a consumer that runs, and ask of it: pause, resume, assignment. The
 * program's threads ask, the I/O thread does it. Counterpart: DefaultMQPushConsumerImpl.
 */
#include "base/err.h"
#include "base/mem.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

static void suspend_on_loop(void *arg)
{
    struct rmq_consumer *consumer = arg;
    consumer->suspended = true;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            rq_pull_halt(RQ_CONTAINER_OF(item, struct rq_owned, node));
        }
    }
}

static void resume_on_loop(void *arg)
{
    struct rmq_consumer *consumer = arg;
    consumer->suspended = false;
    rq_pull_all(consumer);
}

rmq_status rmq_consumer_suspend(rmq_consumer *consumer)
{
    return consumer ? rq_instance_run(consumer->instance, suspend_on_loop, consumer)
                    : RMQ_ERR_INVALID;
}

rmq_status rmq_consumer_resume(rmq_consumer *consumer)
{
    return consumer ? rq_instance_run(consumer->instance, resume_on_loop, consumer)
                    : RMQ_ERR_INVALID;
}

/* A call about one queue of ours. */
struct queue_call {
    struct rmq_consumer *consumer;
    struct rq_mq name;
    bool pause;
    bool found;
    int64_t lag;
};

static void pause_on_loop(void *arg)
{
    struct queue_call *call = arg;
    struct rq_owned *owned = rq_owned_find(call->consumer, &call->name);
    call->found = owned != NULL;
    if (owned) {
        rq_owned_pause(owned, call->pause);
    }
}

static void lag_on_loop(void *arg)
{
    struct queue_call *call = arg;
    struct rq_owned *owned = rq_owned_find(call->consumer, &call->name);
    call->found = owned != NULL;
    int64_t offset = owned ? rq_process_queue_commit_offset(&owned->process) : -1;
    if (owned && offset >= 0 && owned->max_offset >= 0) {
        call->lag = owned->max_offset > offset ? owned->max_offset - offset : 0;
    }
}

static rmq_status about_queue(struct queue_call *call, const char *topic, const char *broker_name,
                              int32_t queue_id, void (*fn)(void *arg), rmq_error **err)
{
    if (!call->consumer || !topic || !broker_name) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer, topic or broker name is NULL");
    }
    char room[RQ_NAMESPACED_MAX];
    call->name = (struct rq_mq){
        .topic = rq_namespace_wrap(call->consumer->options.namespace_name, topic, room),
        .broker_name = broker_name,
        .queue_id = queue_id};
    if (rq_instance_run(call->consumer->instance, fn, call) != RMQ_OK) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    return call->found ? RMQ_OK
                       : rq_error_set(err, RMQ_ERR_NOT_FOUND, "queue %s %s:%d is not ours", topic,
                                      broker_name, (int)queue_id);
}

rmq_status rmq_consumer_suspend_queue(rmq_consumer *consumer, const char *topic,
                                      const char *broker_name, int32_t queue_id, rmq_error **err)
{
    struct queue_call call = {.consumer = consumer, .pause = true};
    return about_queue(&call, topic, broker_name, queue_id, pause_on_loop, err);
}

rmq_status rmq_consumer_resume_queue(rmq_consumer *consumer, const char *topic,
                                     const char *broker_name, int32_t queue_id, rmq_error **err)
{
    struct queue_call call = {.consumer = consumer, .pause = false};
    return about_queue(&call, topic, broker_name, queue_id, pause_on_loop, err);
}

rmq_status rmq_consumer_lag(rmq_consumer *consumer, const char *topic, const char *broker_name,
                            int32_t queue_id, int64_t *lag, rmq_error **err)
{
    struct queue_call call = {.consumer = consumer, .lag = -1};
    if (!lag) {
        return rq_error_set(err, RMQ_ERR_INVALID, "lag is NULL");
    }
    rmq_status st = about_queue(&call, topic, broker_name, queue_id, lag_on_loop, err);
    *lag = call.lag;
    return st;
}

static void guard_on_loop(void *arg)
{
    rq_consumer_guard(arg);
}

rmq_status rmq_consumer_set_consume_thread_nums(rmq_consumer *consumer, int32_t threads,
                                                rmq_error **err)
{
    if (!consumer || threads < 1 || threads > RQ_POOL_THREADS_MOST) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumeThreadNums %d: not 1 … %d", (int)threads,
                            RQ_POOL_THREADS_MOST);
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    if (!consumer->options.listener) {
        return rq_error_set(err, RMQ_ERR_STATE, "a consumer without listener has no workers");
    }
    rq_pool_set_threads(&consumer->pool, threads);
    (void)rq_instance_run(consumer->instance, guard_on_loop, consumer);
    return RMQ_OK;
}

struct assignment_call {
    struct rmq_consumer *consumer;
    struct rq_buf text;
};

static void assignment_on_loop(void *arg)
{
    struct assignment_call *call = arg;
    RQ_LIST_FOREACH_SAFE(node, next, &call->consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            const struct rq_mq *name = &RQ_CONTAINER_OF(item, struct rq_owned, node)->name;
            rq_buf_addf(&call->text, "%s %s %d\n", rq_consumer_plain(call->consumer, name->topic),
                        name->broker_name, (int)name->queue_id);
        }
    }
}

rmq_status rmq_consumer_assignment(rmq_consumer *consumer, char **out, rmq_error **err)
{
    if (!consumer || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer or out is NULL");
    }
    struct assignment_call call = {.consumer = consumer};
    rq_buf_init(&call.text, 0);
    if (rq_instance_run(consumer->instance, assignment_on_loop, &call) != RMQ_OK) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    char *text = rq_buf_status(&call.text) == RMQ_OK ? rq_buf_detach(&call.text) : NULL;
    rq_buf_free(&call.text);
    if (!text) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "assignment");
    }
    *out = text;
    return RMQ_OK;
}

void rmq_string_free(char *text)
{
    rq_free(text);
}

const char *rmq_consumer_client_id(const rmq_consumer *consumer)
{
    return consumer ? consumer->client_id : "";
}

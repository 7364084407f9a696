/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What a program may do to a consumer that runs, and ask of it: pause, resume, assignment. The
 * program's threads ask, the I/O thread does it. Counterpart: DefaultMQPushConsumerImpl.
 */
#include "base/err.h"
#include "base/mem.h"
#include "client/consumer_priv.h"

static void suspend_on_loop(void *arg)
{
    struct rmq_consumer *consumer = arg;
    consumer->suspended = true;
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
            rq_buf_addf(&call->text, "%s %s %d\n", name->topic, name->broker_name,
                        (int)name->queue_id);
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
    char *text = rq_buf_detach(&call.text);
    if (!text) {
        text = rq_strdup("");
    }
    *out = text;
    return text ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "assignment");
}

void rmq_string_free(char *text)
{
    rq_free(text);
}

const char *rmq_consumer_client_id(const rmq_consumer *consumer)
{
    return consumer ? consumer->client_id : "";
}

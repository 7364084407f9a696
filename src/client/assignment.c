/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Shares that the broker makes (clientRebalance=false): for each topic it tells our queues, and
 * whether they are pulled or popped. A group may be switched at any time; what was popped and not
 * acknowledged before comes by the topic's pop retry topic, which is subscribed as long as the
 * topic is pulled. On the I/O thread. Counterparts: RebalanceImpl.getRebalanceResultFromBroker,
 * updateMessageQueueAssignment.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/subscribed.h"
#include "wire/pop.h"

bool rq_assignment_is_the_brokers(const struct rq_subscribed *topic)
{
    const struct rmq_consumer *consumer = topic->consumer;
    return consumer->kind->may_pop && !consumer->options.client_rebalance &&
           !consumer->options.consume_orderly && !topic->shares_itself &&
           consumer->options.message_model == RMQ_CLUSTERING;
}

void rq_assignment_ask(struct rq_subscribed *topic)
{
    struct rmq_consumer *consumer = topic->consumer;
    const struct rq_assignment_query query = {.topic = topic->topic,
                                              .consumer_group = consumer->options.consumer_group,
                                              .client_id = consumer->client_id,
                                              .strategy_name = consumer->options.allocate_strategy,
                                              .message_model = "CLUSTERING"};
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_assignment_query_write(&query, &body);
    rq_consumer_ask_with(
        consumer, &topic->members, rq_instance_topic_broker(consumer->instance, topic->topic),
        RQ_REQ_QUERY_ASSIGNMENT, NULL, NULL, rq_slice(body.data, body.len), RQ_ASK_TIMEOUT_MS);
    rq_buf_free(&body);
}

/* ---- the pop retry topic ---- */

static void subscribe_retry(struct rmq_consumer *consumer, const char *name)
{
    struct rq_subscription *sub = NULL;
    struct rq_subscribed *retry = NULL;
    rmq_status st = rq_subscription_create(name, RQ_SUBSCRIBE_ALL, RQ_EXPRESSION_TAG,
                                           rq_consumer_next_version(consumer), &sub, NULL);
    if (st == RMQ_OK) {
        st = rq_subscribed_create(consumer, sub, true, &retry);
    }
    if (st != RMQ_OK) { /* no memory now; the next rebalance comes here again */
        rq_subscription_destroy(sub);
        return;
    }
    rq_subscribed_watch(retry);
    rq_instance_heartbeat(consumer->instance);
}

static void keep_retry(struct rq_subscribed *topic, bool wanted)
{
    struct rmq_consumer *consumer = topic->consumer;
    char name[RQ_POP_TOPIC_ROOM];
    if (topic->is_retry ||
        rq_pop_retry_topic(rq_slice_str(topic->topic),
                           rq_slice_str(consumer->options.consumer_group), name) == 0) {
        return;
    }
    struct rq_subscribed *retry = rq_subscribed_find(consumer, name);
    if (wanted && !retry) {
        subscribe_retry(consumer, name);
    } else if (!wanted && retry) {
        rq_subscribed_remove(retry, true);
        rq_instance_heartbeat(consumer->instance);
    }
}

void rq_assignment_forget(struct rq_subscribed *topic)
{
    if (rq_assignment_is_the_brokers(topic)) {
        keep_retry(topic, false);
    }
}

/* ---- the answer ---- */

static size_t popped_count(const struct rq_assignments *assignments)
{
    size_t count = 0;
    for (size_t i = 0; i < assignments->count; i++) {
        count += assignments->pops[i] ? 1 : 0;
    }
    return count;
}

rmq_status rq_assignment_take(struct rq_subscribed *topic, struct rq_in *answer)
{
    if (answer->header->code == RQ_RESP_REQUEST_CODE_NOT_SUPPORTED) {
        RQ_LOG(INFO, "the broker makes no assignments, the members share the queues themselves",
               "group=%s topic=%s", topic->consumer->options.consumer_group, topic->topic);
        topic->shares_itself = true;
        return RMQ_ERR_UNSUPPORTED;
    }
    if (answer->header->code != RQ_RESP_SUCCESS) {
        return RMQ_ERR_BROKER;
    }
    struct rq_assignments assignments;
    rmq_status st = rq_assignments_parse(answer->body, &assignments, NULL);
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_rebalance_apply_assignments(topic, &assignments);
    size_t popped = popped_count(&assignments);
    if (st == RMQ_OK && popped == 0 && assignments.count > 0) {
        keep_retry(topic, true);
    } else if (st == RMQ_OK && popped == assignments.count && popped > 0) {
        keep_retry(topic, false);
    }
    rq_assignments_clear(&assignments);
    return st;
}

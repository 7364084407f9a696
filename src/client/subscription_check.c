/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Expressions that not every broker knows (SQL92): a broker of the topic is asked whether it takes
 * this one, before anything is pulled. A refusal ends a start, and is an error event later. I/O
 * thread. Counterpart: MQClientInstance.checkClientInBroker.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

static void keep_refusal(struct rmq_consumer *consumer, rmq_error *err)
{
    rq_mutex_lock(&consumer->lock);
    bool starting = !consumer->settled && !consumer->refusal;
    if (starting) {
        consumer->refusal = err;
        consumer->settled = true; /* there is nothing more to wait for */
        rq_cond_broadcast(&consumer->change);
    }
    rq_mutex_unlock(&consumer->lock);
    if (!starting) {
        rq_consumer_report(consumer, "a broker refuses a subscription", err);
    }
}

static void refuse(struct rq_subscribed *topic, const struct rq_in *answer)
{
    rmq_error *err = NULL;
    char what[RQ_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "subscription of topic %s", topic->topic);
    rq_answer_error(RMQ_OK, answer->header, rq_conn_remote(answer->conn), what, &err);
    topic->refused = true;
    keep_refusal(topic->consumer, err);
}

static bool is_for_now(int32_t code)
{
    return code == RQ_RESP_SYSTEM_BUSY || code == RQ_RESP_FLOW_CONTROL || code == RQ_RESP_GO_AWAY;
}

static void take_answer(struct rq_subscribed *topic, rmq_status status, const struct rq_in *answer)
{
    int32_t code = status == RMQ_OK ? answer->header->code : -1;
    if (topic->checked_version != topic->sub->version) {
        rq_subscribed_check(topic); /* the answer is about an expression that was replaced */
    } else if (code == RQ_RESP_SUCCESS || code == RQ_RESP_REQUEST_CODE_NOT_SUPPORTED) {
        topic->accepted = true;
        rq_consumer_settle(topic->consumer);
        rq_pull_all(topic->consumer);
    } else if (status == RMQ_OK && !is_for_now(code)) {
        refuse(topic, answer);
    } /* else: the next rebalance asks again */
}

static void on_checked(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_subscribed *topic = RQ_CONTAINER_OF(ask, struct rq_subscribed, check);
    topic->checking = false;
    if (!topic->gone && topic->consumer->running) {
        take_answer(topic, status, answer);
    }
    rq_subscribed_release(topic);
}

static void write_body(const struct rq_subscribed *topic, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "clientId");
    rq_json_add_string(out, rq_slice_str(topic->consumer->client_id));
    rq_json_add_member(out, &first, "group");
    rq_json_add_string(out, rq_slice_str(topic->consumer->options.consumer_group));
    rq_json_add_member(out, &first, "subscriptionData");
    rq_subscription_write(topic->sub, out);
    rq_buf_add_char(out, '}');
}

bool rq_subscribed_may_pull(const struct rq_subscribed *topic)
{
    return topic->accepted || rq_subscription_is_tag(topic->sub);
}

void rq_subscribed_check(struct rq_subscribed *topic)
{
    struct rmq_consumer *consumer = topic->consumer;
    if (!consumer->running || topic->gone || !topic->route || topic->checking || topic->refused ||
        rq_subscribed_may_pull(topic)) {
        return;
    }
    struct rq_buf body;
    rq_buf_init(&body, 0);
    write_body(topic, &body);
    if (rq_buf_status(&body) != RMQ_OK) { /* the next rebalance asks */
        rq_buf_free(&body);
        return;
    }
    topic->checking = true;
    topic->checked_version = topic->sub->version;
    topic->refs++;
    topic->check.done = on_checked;
    rq_consumer_ask_with(
        consumer, &topic->check, rq_instance_topic_broker(consumer->instance, topic->topic),
        RQ_REQ_CHECK_CLIENT_CONFIG, NULL, NULL, rq_slice(body.data, body.len), RQ_ASK_TIMEOUT_MS);
    rq_buf_free(&body);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A consumer as a member of its client instance: what heartbeats say of it, and what brokers ask of
 * its group. I/O thread. Counterparts: ConsumerData, ClientRemotingProcessor.
 */
#include "base/mem.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/heartbeat.h"

static void write_heartbeat(struct rq_member *member, struct rq_buf *json)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(member, struct rmq_consumer, member);
    size_t count = 0;
    for (struct rq_list *node = consumer->topics.next; node != &consumer->topics;
         node = node->next) {
        count++;
    }
    struct rq_subscription **subs = rq_calloc(count + 1, sizeof(struct rq_subscription *));
    if (!subs) {
        json->status = RMQ_ERR_NOMEM; /* no heartbeat is better than one that takes them back */
        return;
    }
    struct rq_consumer_data data = {.group = consumer->options.consumer_group,
                                    .type = consumer->kind->type,
                                    .model = (enum rq_message_model)consumer->options.message_model,
                                    .from =
                                        (enum rq_consume_from)consumer->options.consume_from_where,
                                    .subscriptions = subs};
    for (struct rq_list *node = consumer->topics.next; node != &consumer->topics;
         node = node->next) {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        if (!topic->assigned) {
            subs[data.subscription_count++] = topic->sub;
        }
    }
    rq_consumer_data_write(&data, json);
    rq_free(subs);
}

/* Queues may be about to move: who gets them reads the offsets while we still ask for the
 * members. */
static void members_changed(struct rq_member *member)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(member, struct rmq_consumer, member);
    rq_offset_persist_all(consumer, false, RQ_ASK_TIMEOUT_MS);
    rq_rebalance_all(consumer);
}

static const struct rq_member_ops member_ops = {
    .heartbeat = write_heartbeat, .ids_changed = members_changed, .request = rq_consumer_request};

void rq_consumer_init_member(struct rmq_consumer *consumer)
{
    consumer->member = (struct rq_member){
        .group = consumer->options.consumer_group, .ops = &member_ops, .is_consumer = true};
}

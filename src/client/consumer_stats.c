/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Rates of a topic's consumption: counters that are looked at every ten seconds, and the difference
 * between now and a minute ago. Counters are those of the owned queues, kept when a queue goes.
 * Workers count, the I/O thread looks. Counterpart: ConsumerStatsManager.
 */
#include "base/time.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define SAMPLE_MS 10000

static void add_queue(struct rq_counts *counts, struct rq_owned *owned)
{
    counts->ok += atomic_load_explicit(&owned->ok, memory_order_relaxed);
    counts->failed += atomic_load_explicit(&owned->failed, memory_order_relaxed);
    counts->pulled += owned->pulled;
    counts->pulls += owned->pulls;
    counts->pull_ms += owned->pull_ms;
}

void rq_consumer_stats_keep(struct rq_owned *owned)
{
    add_queue(&owned->topic->counts, owned);
}

static struct rq_counts sum(struct rq_subscribed *topic)
{
    struct rq_counts counts = topic->counts;
    counts.at_ms = rq_loop_now(topic->consumer->loop);
    for (struct rq_list *node = topic->queues.next; node != &topic->queues; node = node->next) {
        add_queue(&counts, RQ_CONTAINER_OF(node, struct rq_owned, node));
    }
    return counts;
}

void rq_consumer_stats_rates(struct rq_subscribed *topic, struct rq_rates *out)
{
    struct rq_counts now = sum(topic);
    const struct rq_counts *old = &topic->samples[topic->sample_next % RQ_SAMPLES];
    if (topic->sample_next < RQ_SAMPLES) {
        old = &topic->samples[0];
    }
    double seconds = (double)(now.at_ms - old->at_ms) / 1000;
    seconds = seconds > 0.001 ? seconds : 0.001;
    int64_t pulls = now.pulls - old->pulls;
    int64_t listener_ns =
        atomic_load_explicit(&topic->consumer->pool.listener_ns, memory_order_relaxed);
    *out = (struct rq_rates){
        .ok_tps = (double)(now.ok - old->ok) / seconds,
        .failed_tps = (double)(now.failed - old->failed) / seconds,
        .pull_tps = (double)(now.pulled - old->pulled) / seconds,
        .pull_ms = pulls > 0 ? (double)(now.pull_ms - old->pull_ms) / (double)pulls : 0,
        .consume_ms = listener_ns > 0 ? (double)listener_ns / 1e6 : 0,
        .failed = now.failed};
}

void rq_consumer_stats_sample(struct rmq_consumer *consumer)
{
    int64_t now_ms = rq_loop_now(consumer->loop);
    if (now_ms < consumer->sampled_ms + SAMPLE_MS) {
        return;
    }
    consumer->sampled_ms = now_ms;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        topic->samples[topic->sample_next++ % RQ_SAMPLES] = sum(topic);
    }
}

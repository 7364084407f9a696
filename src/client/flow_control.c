/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Flow control: a queue whose cache is full, or whose consumer's is, pulls no more until there is
 * room. People are told when that begins, and when the queue has not been held for a while. I/O
 * thread. Counterpart: the checks of DefaultMQPushConsumerImpl.pullMessage.
 */
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define QUIET_MS 1000 /* not held for so long: it has ended */

/* The bytes of all queues together; each answer under way may go beyond them. */
static bool is_starved(struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    int64_t most = consumer->options.max_cache_bytes;
    owned->starved = false;
    if (atomic_load(&consumer->cached) < most) {
        return false;
    }
    atomic_store(&consumer->starving, true);
    /* Whoever frees bytes after this sees the mark; what was freed before it is seen here. */
    if (atomic_load(&consumer->cached) <= most / 4 * 3) {
        return false;
    }
    owned->starved = true;
    return true;
}

static void note_begin(struct rq_owned *owned, const char *why)
{
    owned->held_ms = rq_loop_now(owned->consumer->loop);
    if (!owned->held) {
        owned->held = true;
        rq_consumer_note(owned->consumer, RMQ_EVENT_FLOW_CONTROL, "%s %s:%d began %s",
                         rq_consumer_plain(owned->consumer, owned->name.topic),
                         owned->name.broker_name, (int)owned->name.queue_id, why);
    }
}

static void note_end(struct rq_owned *owned)
{
    int64_t now_ms = rq_loop_now(owned->consumer->loop);
    if (owned->held && !owned->starved && now_ms - owned->held_ms >= QUIET_MS) {
        owned->held = false;
        rq_consumer_note(owned->consumer, RMQ_EVENT_FLOW_CONTROL, "%s %s:%d ended",
                         rq_consumer_plain(owned->consumer, owned->name.topic),
                         owned->name.broker_name, (int)owned->name.queue_id);
    }
}

bool rq_flow_allows(struct rq_owned *owned)
{
    if (is_starved(owned)) {
        note_begin(owned, "cache");
        return false;
    }
    const char *full = rq_process_queue_full(&owned->process);
    if (full) {
        note_begin(owned, full);
        return false;
    }
    note_end(owned);
    return true;
}

void rq_flow_look(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (owned->asking) { /* it pulls, so nothing holds it */
                note_end(owned);
            }
        }
    }
}

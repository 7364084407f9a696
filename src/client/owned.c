/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The life of an owned queue: taken up, started where its offset is known, paused after failures,
 * given up; and what follows when its messages are done. On the I/O thread; only rq_owned_done and
 * rq_owned_leave run on workers, and they start a waiting pull by a task. Counterparts:
 * ProcessQueue, PullRequest.
 */
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

static void on_timer(struct rq_timer *timer);
static void on_resume(struct rq_task *task);

static void release_process(struct rq_process_queue *process)
{
    rq_owned_release(rq_owned_of(process));
}

struct rq_owned *rq_owned_create(struct rq_subscribed *topic, const struct rq_mq *name)
{
    size_t topic_size = strlen(name->topic) + 1;
    size_t broker_size = strlen(name->broker_name) + 1;
    struct rq_owned *owned = rq_calloc(1, sizeof *owned + topic_size + broker_size);
    if (!owned) {
        return NULL;
    }
    memcpy(owned->text, name->topic, topic_size);
    memcpy(owned->text + topic_size, name->broker_name, broker_size);
    owned->name = (struct rq_mq){
        .topic = owned->text, .broker_name = owned->text + topic_size, .queue_id = name->queue_id};
    atomic_init(&owned->refs, 1);
    atomic_init(&owned->resume_posted, false);
    owned->resume.run = on_resume;
    owned->consumer = topic->consumer;
    owned->topic = topic;
    owned->is_retry = topic->is_retry;
    owned->delay_ms = RQ_RETRY_FIRST_MS;
    owned->committed = -1;
    owned->last_offset = -1;
    owned->promised = -1;
    atomic_init(&owned->given, -1);
    rq_timer_init(&owned->timer, on_timer);
    struct rq_process_limits limits = {0};
    rq_process_queue_init(&owned->process, &limits);
    owned->process.release = release_process;
    owned->floor = -1;
    owned->max_offset = -1;
    owned->reset_to = -1;
    rq_list_init(&owned->acks);
    rq_list_init(&owned->acks_sent);
    rq_order_init(owned);
    rq_list_add_tail(&topic->queues, &owned->node);
    topic->queue_count++;
    rq_owned_set_limits(owned);
    return owned;
}

void rq_owned_retain(struct rq_owned *owned)
{
    atomic_fetch_add_explicit(&owned->refs, 1, memory_order_relaxed);
}

void rq_owned_release(struct rq_owned *owned)
{
    if (atomic_fetch_sub_explicit(&owned->refs, 1, memory_order_acq_rel) == 1) {
        rq_process_queue_destroy(&owned->process);
        rq_free(owned);
    }
}

static int64_t share_of(int32_t total, size_t queues)
{
    int64_t part = total / (queues > 0 ? (int64_t)queues : 1);
    return part > 0 ? part : 1;
}

void rq_owned_set_limits(struct rq_owned *owned)
{
    const rmq_consumer_options *options = &owned->consumer->options;
    size_t queues = owned->topic->queue_count;
    bool any_order = owned->pops || options->consume_orderly;
    int64_t count =
        owned->pops ? options->pop_threshold_for_queue : options->pull_threshold_for_queue;
    int64_t mib = options->pull_threshold_size_for_queue;
    if (options->pull_threshold_for_topic > 0 && !owned->pops) {
        count = share_of(options->pull_threshold_for_topic, queues);
    }
    if (options->pull_threshold_size_for_topic > 0) {
        mib = share_of(options->pull_threshold_size_for_topic, queues);
    }
    struct rq_process_limits limits = {.count = count,
                                       .bytes = mib << 20,
                                       .span = any_order ? INT64_MAX / 16
                                                         : options->consume_concurrently_max_span};
    rq_process_queue_set_limits(&owned->process, &limits);
}

static void uncharge(struct rmq_consumer *consumer, int64_t bytes)
{
    int64_t left = atomic_fetch_sub(&consumer->cached, bytes) - bytes;
    if (left <= consumer->options.max_cache_bytes / 4 * 3 && atomic_load(&consumer->starving) &&
        !atomic_exchange_explicit(&consumer->feed_posted, true, memory_order_acq_rel)) {
        (void)rq_consumer_post(consumer, &consumer->feed);
    }
}

/* Listeners that have messages in hands go on; what they say later is ignored. */
void rq_owned_drop(struct rq_owned *owned, bool commit)
{
    struct rmq_consumer *consumer = owned->consumer;
    bool empty = rq_order_shut(owned);
    if (commit) {
        owned->unlock = owned->may_hold && empty;
        rq_offset_commit_last(owned, RQ_ASK_TIMEOUT_MS);
    }
    rq_order_drop(owned);
    rq_consumer_stats_keep(owned);
    struct rq_list dropped;
    rq_list_init(&dropped);
    int64_t bytes = rq_process_queue_drop(&owned->process, &dropped);
    for (struct rq_list *node = rq_list_pop(&dropped); node; node = rq_list_pop(&dropped)) {
        struct rq_pulled *pulled = RQ_CONTAINER_OF(node, struct rq_pulled, node);
        rq_pool_withdraw(&consumer->pool, pulled);
        bytes += (int64_t)pulled->memory;
        rq_pulled_release(pulled);
    }
    if (bytes != 0) {
        uncharge(consumer, bytes);
    }
    rq_timer_stop(&owned->timer);
    rq_list_remove(&owned->node);
    owned->topic->queue_count--;
    owned->topic = NULL;
    rq_order_linger(owned);
    if (owned->asking) {
        rq_consumer_cancel(&owned->ask);
    }
    if (owned->unlock && !owned->committing) {
        rq_lock_give_back(owned);
    }
    rq_owned_release(owned);
}

struct rq_owned *rq_owned_find(struct rmq_consumer *consumer, const struct rq_mq *name)
{
    struct rq_subscribed *topic = rq_subscribed_find(consumer, name->topic);
    for (struct rq_list *node = topic ? topic->queues.next : NULL; node && node != &topic->queues;
         node = node->next) {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        if (rq_mq_equal(&owned->name, name)) {
            return owned;
        }
    }
    return NULL;
}

/* ---- when to go on ---- */

void rq_owned_start(struct rq_owned *owned, int64_t offset, bool stored)
{
    stored = stored && offset >= owned->floor;
    offset = offset > owned->floor ? offset : owned->floor;
    owned->located = true;
    owned->started_at = offset;
    owned->next_offset = offset;
    owned->delay_ms = RQ_RETRY_FIRST_MS;
    owned->committed = stored ? offset : -1;
    owned->committed_ms = rq_loop_now(owned->consumer->loop);
    rq_process_queue_start(&owned->process, offset);
    rq_consumer_settle(owned->consumer);
    rq_pull(owned);
}

void rq_owned_pause(struct rq_owned *owned, bool pause)
{
    owned->paused = pause;
    if (pause) {
        rq_pull_halt(owned);
    }
    rq_pull(owned);
}

void rq_owned_retry(struct rq_owned *owned)
{
    rq_pull_after(owned, rq_retry_delay(&owned->delay_ms));
}

static void on_timer(struct rq_timer *timer)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(timer, struct rq_owned, timer);
    if (owned->anew) {
        rq_order_hands_empty(owned); /* there was no memory to begin with */
    } else if (owned->located) {
        rq_pull(owned);
    } else {
        rq_offset_locate(owned);
    }
}

static void on_resume(struct rq_task *task)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(task, struct rq_owned, resume);
    atomic_exchange_explicit(&owned->resume_posted, false, memory_order_acq_rel);
    rq_pull(owned);
    rq_owned_release(owned);
}

/* ---- what is done: workers ---- */

void rq_owned_done(struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    struct rq_owned *owned = rq_owned_of(pulled->queue);
    atomic_fetch_add_explicit(&owned->ok, (int64_t)to - from, memory_order_relaxed);
    if (pulled->popped) {
        rq_pop_ack(pulled, from, to);
    }
    rq_owned_leave(pulled, from, to);
}

void rq_owned_leave(struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    struct rq_owned *owned = rq_owned_of(pulled->queue);
    struct rq_process_done done;
    atomic_store_explicit(&owned->consumed_ms, rq_mono_ms(), memory_order_relaxed);
    rq_process_queue_done(&owned->process, pulled, from, to, &done);
    if (done.has_room &&
        !atomic_exchange_explicit(&owned->resume_posted, true, memory_order_acq_rel)) {
        rq_owned_retain(owned);
        if (!rq_consumer_post(owned->consumer, &owned->resume)) {
            rq_owned_release(owned);
        }
    }
    int64_t bytes = done.grown + (done.emptied ? (int64_t)pulled->memory : 0);
    if (bytes != 0) {
        uncharge(owned->consumer, bytes);
    }
    if (done.emptied) {
        rq_pulled_release(pulled);
    }
}

rmq_status rq_owned_expand(struct rq_pulled *pulled, struct rmq_message_view *view, rmq_error **err)
{
    struct rmq_consumer *consumer = rq_owned_of(pulled->queue)->consumer;
    rq_process_queue_hold(pulled->queue, view);
    rmq_status st = rq_view_expand(view, (size_t)consumer->options.max_message_size, err);
    if (st == RMQ_OK) {
        atomic_fetch_add(&consumer->cached, rq_process_queue_grew(pulled->queue, view));
    } else {
        rq_process_queue_let_go(pulled->queue, view);
    }
    return st;
}

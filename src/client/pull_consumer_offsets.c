/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Offsets that a pull consumer remembers, and their way to the brokers: on the I/O thread, one
 * request of a queue at a time, so that no older offset can win over a newer one. Counterpart:
 * RemoteBrokerOffsetStore.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/pull_consumer_priv.h"
#include "client/queue_list.h"

#define STORE_TIMEOUT_MS 3000

struct rq_pull_queue *rq_pull_queue_get_locked(struct rmq_pull_consumer *consumer,
                                               const struct rq_mq *name)
{
    for (struct rq_list *node = consumer->queues.next; node != &consumer->queues;
         node = node->next) {
        struct rq_pull_queue *queue = RQ_CONTAINER_OF(node, struct rq_pull_queue, node);
        if (rq_mq_equal(&queue->name, name)) {
            return queue;
        }
    }
    struct rq_pull_queue *queue = rq_calloc(1, sizeof *queue);
    if (!queue || rq_mq_copy(&queue->name, name) != RMQ_OK) {
        rq_free(queue);
        return NULL;
    }
    queue->consumer = consumer;
    queue->offset = queue->stored = -1;
    rq_list_add_tail(&consumer->queues, &queue->node);
    return queue;
}

void rq_pull_consumer_free_queues(struct rmq_pull_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->queues)
    {
        struct rq_pull_queue *queue = RQ_CONTAINER_OF(node, struct rq_pull_queue, node);
        rq_list_remove(&queue->node);
        rq_mq_clear(&queue->name);
        rq_free(queue);
    }
    rmq_error_destroy(consumer->refused);
}

/* ---- to the brokers: loop ---- */

static void on_stored(struct rq_queue_ask *ask, rmq_status status, struct rq_in *answer,
                      const rmq_error *why)
{
    struct rq_pull_queue *queue = RQ_CONTAINER_OF(ask, struct rq_pull_queue, ask);
    struct rmq_pull_consumer *consumer = queue->consumer;
    bool good = status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS;
    rmq_error *err = NULL;
    if (why) {
        err = rq_error_copy(why);
    } else if (!good) {
        rq_answer_error(status, answer ? answer->header : NULL, queue->name.broker_name,
                        "store of an offset", &err);
    }
    rq_mutex_lock(&consumer->lock);
    queue->storing = false;
    queue->stored = good ? queue->fields.commit_offset : queue->stored;
    consumer->storing--;
    if (err) {
        rmq_error_destroy(consumer->refused);
        consumer->refused = err;
    }
    rq_cond_broadcast(&consumer->change);
    rq_mutex_unlock(&consumer->lock);
}

static bool needs_store(const struct rq_pull_queue *queue)
{
    return queue->offset >= 0 && queue->offset != queue->stored;
}

static void store(struct rq_pull_queue *queue, int64_t offset)
{
    struct rmq_pull_consumer *consumer = queue->consumer;
    queue->fields = (struct rq_hdr_update_consumer_offset){
        .consumer_group = rq_slice_str(consumer->options.consumer_group),
        .topic = rq_slice_str(queue->name.topic),
        .queue_id = queue->name.queue_id,
        .commit_offset = offset};
    queue->ask = (struct rq_queue_ask){.instance = consumer->instance,
                                       .name = queue->name,
                                       .pick = RQ_PICK_ANY,
                                       .code = RQ_REQ_UPDATE_CONSUMER_OFFSET,
                                       .table = &rq_tab_update_consumer_offset,
                                       .fields = &queue->fields,
                                       .deadline_ms = rq_mono_ms() + STORE_TIMEOUT_MS,
                                       .done = on_stored};
    rq_queue_ask(&queue->ask);
}

static void store_all(void *arg)
{
    struct rmq_pull_consumer *consumer = arg;
    rq_mutex_lock(&consumer->lock);
    for (struct rq_list *node = consumer->queues.next; node != &consumer->queues;
         node = node->next) {
        struct rq_pull_queue *queue = RQ_CONTAINER_OF(node, struct rq_pull_queue, node);
        if (!queue->storing && needs_store(queue)) {
            queue->storing = true;
            consumer->storing++;
            store(queue, queue->offset);
        }
    }
    rq_mutex_unlock(&consumer->lock);
}

void rq_pull_consumer_on_persist(struct rq_timer *timer)
{
    struct rmq_pull_consumer *consumer =
        RQ_CONTAINER_OF(timer, struct rmq_pull_consumer, persist_timer);
    store_all(consumer);
    rq_timer_start(consumer->inner->loop, timer,
                   consumer->options.persist_consumer_offset_interval_ms);
}

/* ---- the program's threads ---- */

static bool all_stored(struct rmq_pull_consumer *consumer)
{
    for (struct rq_list *node = consumer->queues.next; node != &consumer->queues;
         node = node->next) {
        if (needs_store(RQ_CONTAINER_OF(node, struct rq_pull_queue, node))) {
            return false;
        }
    }
    return true;
}

/* Waits for what is under way. Returns whether the deadline has not passed. */
static bool wait_stores(struct rmq_pull_consumer *consumer, int64_t deadline_ms)
{
    bool in_time = true;
    while (in_time && consumer->storing > 0) {
        in_time = rq_cond_wait_until(&consumer->change, &consumer->lock, deadline_ms);
    }
    return in_time;
}

/* One round ends what was under way, another stores what was remembered at the call: offsets that
 * come meanwhile are not waited for. */
rmq_status rq_pull_consumer_persist(struct rmq_pull_consumer *consumer, int64_t deadline_ms,
                                    rmq_error **err)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&consumer->lock);
    rmq_error_destroy(consumer->refused);
    consumer->refused = NULL;
    for (int round = 0; st == RMQ_OK && round < 2 && !all_stored(consumer); round++) {
        rq_mutex_unlock(&consumer->lock);
        rq_instance_run(consumer->instance, store_all, consumer);
        rq_mutex_lock(&consumer->lock);
        if (!wait_stores(consumer, deadline_ms)) {
            st = rq_error_set(err, RMQ_ERR_TIMEOUT, "offsets: a broker did not answer in time");
        } else if (consumer->refused && !all_stored(consumer)) {
            st = rq_error_set(err, rmq_error_status(consumer->refused), "%s",
                              rmq_error_message(consumer->refused));
        }
    }
    rq_mutex_unlock(&consumer->lock);
    return st;
}

rmq_status rmq_pull_consumer_persist_offsets(rmq_pull_consumer *consumer, int64_t timeout_ms,
                                             rmq_error **err)
{
    rmq_status st = rq_pull_consumer_check(consumer, NULL, consumer, "consumer", err);
    return st == RMQ_OK ? rq_pull_consumer_persist(
                              consumer, rq_mono_ms() + rq_timeout_ms(timeout_ms, 5000), err)
                        : st;
}

rmq_status rmq_pull_consumer_update_offset(rmq_pull_consumer *consumer, const char *topic,
                                           const char *broker_name, int32_t queue_id,
                                           int64_t offset, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_pull_consumer_check(consumer, &name, consumer, "consumer", err);
    if (st != RMQ_OK || offset < 0) {
        return st != RMQ_OK ? st
                            : rq_error_set(err, RMQ_ERR_INVALID, "offset %lld", (long long)offset);
    }
    rq_mutex_lock(&consumer->lock);
    struct rq_pull_queue *queue =
        consumer->closing ? NULL : rq_pull_queue_get_locked(consumer, &name);
    bool closed = consumer->closing;
    if (queue) {
        queue->offset = offset;
    }
    rq_mutex_unlock(&consumer->lock);
    if (closed) {
        return rq_error_set(err, RMQ_ERR_CLOSED, "the consumer is shut down");
    }
    return queue ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "offset of a queue");
}

rmq_status rmq_pull_consumer_fetch_offset(rmq_pull_consumer *consumer, const char *topic,
                                          const char *broker_name, int32_t queue_id,
                                          bool from_store, int64_t timeout_ms, int64_t *out,
                                          rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_pull_consumer_check(consumer, &name, out, "out", err);
    if (st != RMQ_OK) {
        return st;
    }
    if (!from_store) {
        rq_mutex_lock(&consumer->lock);
        const struct rq_pull_queue *queue = rq_pull_queue_get_locked(consumer, &name);
        int64_t offset = queue ? queue->offset : -1;
        rq_mutex_unlock(&consumer->lock);
        if (offset >= 0) {
            *out = offset;
            return RMQ_OK;
        }
    }
    return rq_queue_committed(consumer->instance, consumer->options.consumer_group, &name,
                              timeout_ms, out, err);
}

rmq_status rmq_pull_consumer_min_offset(rmq_pull_consumer *consumer, const char *topic,
                                        const char *broker_name, int32_t queue_id,
                                        int64_t timeout_ms, int64_t *out, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_pull_consumer_check(consumer, &name, out, "out", err);
    return st == RMQ_OK ? rq_queue_min_offset(consumer->instance, &name, timeout_ms, out, err) : st;
}

rmq_status rmq_pull_consumer_max_offset(rmq_pull_consumer *consumer, const char *topic,
                                        const char *broker_name, int32_t queue_id,
                                        int64_t timeout_ms, int64_t *out, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_pull_consumer_check(consumer, &name, out, "out", err);
    return st == RMQ_OK ? rq_queue_max_offset(consumer->instance, &name, timeout_ms, out, err) : st;
}

rmq_status rmq_pull_consumer_search_offset(rmq_pull_consumer *consumer, const char *topic,
                                           const char *broker_name, int32_t queue_id,
                                           int64_t timestamp_ms, int64_t timeout_ms, int64_t *out,
                                           rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_pull_consumer_check(consumer, &name, out, "out", err);
    return st == RMQ_OK ? rq_queue_search_offset(consumer->instance, &name, timestamp_ms,
                                                 timeout_ms, out, err)
                        : st;
}

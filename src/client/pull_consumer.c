/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The life of a pull consumer, its registered topics and their shares. Public functions run on the
 * program's threads. Counterparts: DefaultMQPullConsumer, RebalancePullImpl.
 */
#include <rmq/pull_consumer.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/handle.h"
#include "client/options.h"
#include "client/owned.h"
#include "client/pull_consumer_priv.h"
#include "client/queue_list.h"
#include "client/queue_notices.h"
#include "client/subscribed.h"
#include "wire/names.h"

#define CLOSE_TIMEOUT_MS 10000
#define CLOSE_LEAST_MS   500

rmq_status rq_pull_consumer_check(struct rmq_pull_consumer *consumer, const struct rq_mq *name,
                                  const void *needed, const char *what, rmq_error **err)
{
    if (!consumer || !needed) {
        return rq_error_set(err, RMQ_ERR_INVALID, "%s is NULL", consumer ? what : "consumer");
    }
    if (name && (!name->topic || !name->broker_name || name->queue_id < 0)) {
        return rq_error_set(err, RMQ_ERR_INVALID, "topic, broker name and queue id are required");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    return RMQ_OK;
}

/* ---- the kind: loop ---- */

static void on_changed(struct rmq_consumer *inner, struct rq_subscribed *topic)
{
    struct rmq_pull_consumer *consumer = inner->handle;
    if (consumer->options.queues_changed) {
        rq_queue_notices_post(&consumer->callbacks, topic, consumer->options.queues_changed,
                              consumer->options.queues_changed_user);
    }
}

/* Nothing is ever in this pool. */
static void pool_done(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    (void)pool;
    rq_owned_done(pulled, from, to);
}

static void pool_later(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t from, uint32_t to,
                       int delay_level)
{
    (void)delay_level;
    pool_done(pool, pulled, from, to);
}

static bool pool_prepare(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t index)
{
    (void)pool, (void)pulled, (void)index;
    return true;
}

static const struct rq_pool_ops pool_ops = {.done = pool_done,
                                            .later = pool_later,
                                            .prepare = pool_prepare,
                                            .quiet = rq_consumer_pool_quiet};

static const struct rq_consumer_kind pull_kind = {.type = RQ_CONSUME_ACTIVELY,
                                                  .pool_ops = &pool_ops,
                                                  .may_start_empty = true,
                                                  .changed = on_changed};

/* ---- create ---- */

static rmq_status create_inner(struct rmq_pull_consumer *consumer, rmq_error **err)
{
    const rmq_pull_consumer_options *from = &consumer->options;
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = from->consumer_group;
    options.namesrv_addr = from->namesrv_addr;
    options.instance_name = from->instance_name;
    options.client_ip = from->client_ip;
    options.unit_name = from->unit_name;
    options.namespace_name = from->namespace_name;
    options.namespace_v2 = from->namespace_v2;
    options.allocate_strategy = from->allocate_strategy;
    options.poll_name_server_interval_ms = from->poll_name_server_interval_ms;
    options.heartbeat_broker_interval_ms = from->heartbeat_broker_interval_ms;
    options.rebalance_interval_ms = from->rebalance_interval_ms;
    options.serialize_type = from->serialize_type;
    options.consume_from_where = RMQ_CONSUME_FROM_LAST_OFFSET;
    return rq_consumer_create(&options, &pull_kind, consumer, &consumer->inner, err);
}

static rmq_status load(const void *options, void *handle, rmq_error **err)
{
    struct rmq_pull_consumer *consumer = handle;
    return rq_pull_consumer_options_load(options, &consumer->options, err);
}

static rmq_status open_inside(void *handle, rmq_error **err)
{
    struct rmq_pull_consumer *consumer = handle;
    rq_callbacks_init(&consumer->callbacks);
    rq_mutex_init(&consumer->lock);
    rq_cond_init(&consumer->change);
    rq_list_init(&consumer->queues);
    rq_list_init(&consumer->pulls);
    rq_timer_init(&consumer->persist_timer, rq_pull_consumer_on_persist);
    rmq_status st = create_inner(consumer, err);
    consumer->instance = st == RMQ_OK ? consumer->inner->instance : NULL;
    return st;
}

static void destroy(void *handle)
{
    rmq_pull_consumer_destroy(handle);
}

static const struct rq_handle_kind handle_kind = {.name = "pull consumer",
                                                  .size = sizeof(struct rmq_pull_consumer),
                                                  .load = load,
                                                  .open = open_inside,
                                                  .destroy = destroy};

rmq_status rmq_pull_consumer_create(const rmq_pull_consumer_options *options,
                                    rmq_pull_consumer **out, rmq_error **err)
{
    void *handle = NULL;
    rmq_status st = rq_handle_create(&handle_kind, options, out != NULL, &handle, err);
    if (out && st == RMQ_OK) {
        *out = handle;
    }
    return st;
}

rmq_status rmq_pull_consumer_create_from_config(const rmq_config *config, rmq_pull_consumer **out,
                                                rmq_error **err)
{
    const rmq_pull_consumer_options *from = config ? rq_config_pull_consumer(config) : NULL;
    if (!from) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "the configuration is not one of a pull consumer");
    }
    rmq_pull_consumer_options options = *from;
    options.struct_size = sizeof options;
    return rmq_pull_consumer_create(&options, out, err);
}

rmq_status rmq_pull_consumer_register_topic(rmq_pull_consumer *consumer, const char *topic,
                                            rmq_error **err)
{
    rmq_status st = rq_pull_consumer_check(consumer, NULL, topic, "topic", err);
    return st == RMQ_OK ? rmq_consumer_subscribe(consumer->inner, topic, "*", err) : st;
}

static void start_persisting(void *arg)
{
    struct rmq_pull_consumer *consumer = arg;
    if (!rq_timer_running(&consumer->persist_timer)) {
        rq_timer_start(consumer->inner->loop, &consumer->persist_timer,
                       consumer->options.persist_consumer_offset_interval_ms);
    }
}

rmq_status rmq_pull_consumer_start(rmq_pull_consumer *consumer, rmq_error **err)
{
    rmq_status st = rq_pull_consumer_check(consumer, NULL, consumer, "consumer", err);
    if (st == RMQ_OK) {
        st = rmq_consumer_start(consumer->inner, err);
    }
    if (st == RMQ_OK) {
        rq_instance_run(consumer->instance, start_persisting, consumer);
    }
    return st;
}

/* ---- queues ---- */

rmq_status rmq_pull_consumer_fetch_queues(rmq_pull_consumer *consumer, const char *topic,
                                          int64_t timeout_ms, rmq_queue_list **out, rmq_error **err)
{
    rmq_status st =
        rq_pull_consumer_check(consumer, NULL, topic ? out : NULL, topic ? "out" : "topic", err);
    return st == RMQ_OK
               ? rq_queue_list_fetch_named(consumer->instance, consumer->options.namespace_name,
                                           topic, timeout_ms, out, err)
               : st;
}

struct share_call {
    struct rmq_pull_consumer *consumer;
    const char *topic;
    rmq_queue_list *list;
    rmq_status st;
};

static void share_on_loop(void *arg)
{
    struct share_call *call = arg;
    struct rq_subscribed *topic = rq_subscribed_find(call->consumer->inner, call->topic);
    call->st = topic ? rq_queue_list_of_share(topic, &call->list) : RMQ_ERR_NOT_FOUND;
}

rmq_status rmq_pull_consumer_queues_in_balance(rmq_pull_consumer *consumer, const char *topic,
                                               rmq_queue_list **out, rmq_error **err)
{
    rmq_status st =
        rq_pull_consumer_check(consumer, NULL, topic ? out : NULL, topic ? "out" : "topic", err);
    if (st != RMQ_OK) {
        return st;
    }
    char room[RQ_NAMESPACED_MAX];
    struct share_call call = {.consumer = consumer,
                              .topic = rq_pull_consumer_full(consumer, topic, room)};
    rq_instance_run(consumer->instance, share_on_loop, &call);
    if (call.st != RMQ_OK) {
        return rq_error_set(err, call.st, "topic %s: %s", topic, rmq_status_text(call.st));
    }
    *out = call.list;
    return RMQ_OK;
}

/* ---- end ---- */

static void close_on_loop(void *arg)
{
    struct rmq_pull_consumer *consumer = arg;
    rq_timer_stop(&consumer->persist_timer);
    rq_pull_consumer_cancel_pulls(consumer);
}

static int64_t left_of(int64_t deadline_ms)
{
    int64_t left = deadline_ms - rq_mono_ms();
    return left > CLOSE_LEAST_MS ? left : CLOSE_LEAST_MS;
}

rmq_status rmq_pull_consumer_shutdown(rmq_pull_consumer *consumer, int64_t timeout_ms,
                                      rmq_error **err)
{
    rmq_status st = rq_pull_consumer_check(consumer, NULL, consumer, "consumer", err);
    if (st != RMQ_OK) {
        return st;
    }
    int64_t deadline = rq_mono_ms() + rq_timeout_ms(timeout_ms, CLOSE_TIMEOUT_MS);
    rq_mutex_lock(&consumer->lock);
    consumer->closing = true;
    rq_mutex_unlock(&consumer->lock);
    rq_callbacks_close(&consumer->callbacks);
    rq_instance_run(consumer->instance, close_on_loop, consumer);
    rq_callbacks_wait(&consumer->callbacks);
    st = rq_pull_consumer_persist(consumer, deadline, err);
    rmq_status closed =
        rmq_consumer_shutdown(consumer->inner, left_of(deadline), st == RMQ_OK ? err : NULL);
    return st != RMQ_OK ? st : closed;
}

/* Requests of offsets end by themselves, at the latest at their deadline. */
static void wait_quiet(struct rmq_pull_consumer *consumer)
{
    rq_mutex_lock(&consumer->lock);
    while (consumer->storing > 0) {
        rq_cond_wait(&consumer->change, &consumer->lock);
    }
    rq_mutex_unlock(&consumer->lock);
}

void rmq_pull_consumer_destroy(rmq_pull_consumer *consumer)
{
    if (!consumer || (consumer->instance && rq_instance_forked(consumer->instance))) {
        return; /* in a forked child the handle stays the parent's */
    }
    if (consumer->instance) {
        rmq_pull_consumer_shutdown(consumer, 0, NULL);
        wait_quiet(consumer);
        rmq_consumer_destroy(consumer->inner);
    }
    rq_callbacks_destroy(&consumer->callbacks);
    rq_pull_consumer_free_queues(consumer);
    rq_cond_destroy(&consumer->change);
    rq_mutex_destroy(&consumer->lock);
    rq_table_free(&rq_pull_consumer_table, &consumer->options);
    rq_free(consumer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The life of a lite pull consumer, its subscriptions and its poll. Public functions run on the
 * program's threads. Counterparts: DefaultLitePullConsumer, RebalanceLitePullImpl.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/handle.h"
#include "client/lite_pull_priv.h"
#include "client/message.h"
#include "client/options.h"
#include "client/owned.h"
#include "client/queue_list.h"
#include "client/queue_notices.h"
#include "client/subscribed.h"

#define CLOSE_TIMEOUT_MS 10000

rmq_status rq_lite_check(struct rmq_lite_pull_consumer *consumer, const struct rq_mq *name,
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

/* ---- the kind ---- */

/* A batch was destroyed: its messages are done, whatever the program thinks of them. */
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
    struct rmq_consumer *inner = RQ_CONTAINER_OF(pool, struct rmq_consumer, pool);
    struct rmq_message_view *view = pulled->views[index];
    rmq_error *err = NULL;
    if (rq_owned_expand(pulled, view, &err) == RMQ_OK) {
        return true;
    }
    char what[160];
    snprintf(what, sizeof what,
             "a body could not be expanded, the message is passed over: queue %d offset %lld",
             (int)view->queue_id, (long long)view->queue_offset);
    rq_consumer_report(inner, what, err);
    rq_owned_done(pulled, index, index + 1);
    return false;
}

static const struct rq_pool_ops pool_ops = {.done = pool_done,
                                            .later = pool_later,
                                            .prepare = pool_prepare,
                                            .quiet = rq_consumer_pool_quiet};

static void on_changed(struct rmq_consumer *inner, struct rq_subscribed *topic)
{
    struct rmq_lite_pull_consumer *consumer = inner->handle;
    if (consumer->options.queues_changed) {
        rq_queue_notices_post(&consumer->callbacks, topic, consumer->options.queues_changed,
                              consumer->options.queues_changed_user);
    }
}

static const struct rq_consumer_kind lite_kind = {.type = RQ_CONSUME_ACTIVELY,
                                                  .pool_ops = &pool_ops,
                                                  .pulls = true,
                                                  .may_start_empty = true,
                                                  .carries_subscription = true,
                                                  .changed = on_changed,
                                                  .committed = rq_lite_committed};

/* ---- create ---- */

static void fill_inner(const rmq_lite_pull_consumer_options *from, rmq_consumer_options *options)
{
    rmq_consumer_options_init(options, sizeof *options);
    options->consumer_group = from->consumer_group;
    options->namesrv_addr = from->namesrv_addr;
    options->instance_name = from->instance_name;
    options->client_ip = from->client_ip;
    options->unit_name = from->unit_name;
    options->namespace_name = from->namespace_name;
    options->namespace_v2 = from->namespace_v2;
    options->allocate_strategy = from->allocate_strategy;
    options->consume_from_where = from->consume_from_where;
    options->consume_timestamp_ms = from->consume_timestamp_ms;
    options->consume_message_batch_max_size = from->pull_batch_size;
    options->pull_batch_size = from->fetch_batch_size;
    options->pull_threshold_for_queue = from->pull_threshold_for_queue;
    options->pull_threshold_size_for_queue = from->pull_threshold_size_for_queue;
    options->max_cache_bytes = from->max_cache_bytes;
    options->consume_concurrently_max_span = from->consume_max_span;
    options->persist_consumer_offset_interval_ms = from->auto_commit_interval_ms;
    options->poll_name_server_interval_ms = from->poll_name_server_interval_ms;
    options->heartbeat_broker_interval_ms = from->heartbeat_broker_interval_ms;
    options->rebalance_interval_ms = from->rebalance_interval_ms;
    options->broker_suspend_max_time_ms = from->broker_suspend_max_time_ms;
    options->max_message_size = from->max_message_size;
    options->serialize_type = from->serialize_type;
    options->events = from->events;
}

static rmq_status load(const void *options, void *handle, rmq_error **err)
{
    struct rmq_lite_pull_consumer *consumer = handle;
    return rq_lite_pull_consumer_options_load(options, &consumer->options, err);
}

static rmq_status open_inside(void *handle, rmq_error **err)
{
    struct rmq_lite_pull_consumer *consumer = handle;
    rmq_consumer_options inner;
    rq_callbacks_init(&consumer->callbacks);
    rq_list_init(&consumer->expressions);
    rq_list_init(&consumer->commits);
    fill_inner(&consumer->options, &inner);
    rmq_status st = rq_consumer_create(&inner, &lite_kind, consumer, &consumer->inner, err);
    if (st == RMQ_OK) {
        consumer->inner->manual_commit = !consumer->options.auto_commit;
        consumer->instance = consumer->inner->instance;
    }
    return st;
}

static void destroy(void *handle)
{
    rmq_lite_pull_consumer_destroy(handle);
}

static const struct rq_handle_kind handle_kind = {.name = "lite pull consumer",
                                                  .size = sizeof(struct rmq_lite_pull_consumer),
                                                  .load = load,
                                                  .open = open_inside,
                                                  .destroy = destroy};

rmq_status rmq_lite_pull_consumer_create(const rmq_lite_pull_consumer_options *options,
                                         rmq_lite_pull_consumer **out, rmq_error **err)
{
    void *handle = NULL;
    rmq_status st = rq_handle_create(&handle_kind, options, out != NULL, &handle, err);
    if (out && st == RMQ_OK) {
        *out = handle;
    }
    return st;
}

rmq_status rmq_lite_pull_consumer_create_from_config(const rmq_config *config,
                                                     rmq_lite_pull_consumer **out, rmq_error **err)
{
    const rmq_lite_pull_consumer_options *from =
        config ? rq_config_lite_pull_consumer(config) : NULL;
    if (!from) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "the configuration is not one of a lite pull consumer");
    }
    rmq_lite_pull_consumer_options options = *from;
    options.struct_size = sizeof options;
    return rmq_lite_pull_consumer_create(&options, out, err);
}

/* ---- subscriptions ---- */

struct mode_call {
    struct rmq_lite_pull_consumer *consumer;
    bool refused;
};

static void begin_subscribing(void *arg)
{
    struct mode_call *call = arg;
    call->refused = call->consumer->mode == RQ_LITE_ASSIGN;
    if (!call->refused) {
        call->consumer->mode = RQ_LITE_SUBSCRIBE;
    }
}

rmq_status rmq_lite_pull_consumer_subscribe(rmq_lite_pull_consumer *consumer, const char *topic,
                                            const char *expression, rmq_error **err)
{
    return rmq_lite_pull_consumer_subscribe_selector(consumer, topic, RMQ_EXPRESSION_TAG,
                                                     expression, err);
}

rmq_status rmq_lite_pull_consumer_subscribe_selector(rmq_lite_pull_consumer *consumer,
                                                     const char *topic, rmq_expression_type type,
                                                     const char *expression, rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, topic, "topic", err);
    if (st != RMQ_OK) {
        return st;
    }
    struct mode_call call = {.consumer = consumer};
    rq_instance_run(consumer->instance, begin_subscribing, &call);
    if (call.refused) {
        return rq_error_set(err, RMQ_ERR_STATE, "topic %s: the consumer has assigned queues",
                            topic);
    }
    return rmq_consumer_subscribe_selector(consumer->inner, topic, type, expression, err);
}

rmq_status rmq_lite_pull_consumer_unsubscribe(rmq_lite_pull_consumer *consumer, const char *topic,
                                              rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, topic, "topic", err);
    return st == RMQ_OK ? rmq_consumer_unsubscribe(consumer->inner, topic, err) : st;
}

/* ---- start, poll ---- */

rmq_status rmq_lite_pull_consumer_start(rmq_lite_pull_consumer *consumer, rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, consumer, "consumer", err);
    return st == RMQ_OK ? rmq_consumer_start(consumer->inner, err) : st;
}

rmq_status rmq_lite_pull_consumer_poll(rmq_lite_pull_consumer *consumer, rmq_batch **out,
                                       int64_t timeout_ms, rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, out, "out", err);
    return st == RMQ_OK ? rmq_consumer_poll(consumer->inner, out, timeout_ms, err) : st;
}

rmq_status rmq_lite_pull_consumer_poll_batches(rmq_lite_pull_consumer *consumer, rmq_batch **out,
                                               size_t most, int64_t timeout_ms, size_t *count,
                                               rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, out, "out", err);
    return st == RMQ_OK
               ? rmq_consumer_poll_batches(consumer->inner, out, most, timeout_ms, count, err)
               : st;
}

int rmq_lite_pull_consumer_fd(rmq_lite_pull_consumer *consumer)
{
    return consumer ? rmq_consumer_fd(consumer->inner) : -1;
}

const char *rmq_lite_pull_consumer_client_id(const rmq_lite_pull_consumer *consumer)
{
    return consumer ? rmq_consumer_client_id(consumer->inner) : "";
}

/* ---- end ---- */

rmq_status rmq_lite_pull_consumer_shutdown(rmq_lite_pull_consumer *consumer, int64_t timeout_ms,
                                           rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, consumer, "consumer", err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_callbacks_close(&consumer->callbacks);
    st =
        rmq_consumer_shutdown(consumer->inner, timeout_ms > 0 ? timeout_ms : CLOSE_TIMEOUT_MS, err);
    rq_callbacks_wait(&consumer->callbacks);
    return st;
}

void rmq_lite_pull_consumer_destroy(rmq_lite_pull_consumer *consumer)
{
    if (!consumer || (consumer->instance && rq_instance_forked(consumer->instance))) {
        return; /* in a forked child the handle stays the parent's */
    }
    if (consumer->instance) {
        rq_callbacks_close(&consumer->callbacks);
        rq_close_once(consumer->inner);
        rq_callbacks_wait(&consumer->callbacks);
        rmq_consumer_destroy(consumer->inner);
    }
    rq_callbacks_destroy(&consumer->callbacks);
    rq_lite_free_expressions(consumer);
    rq_table_free(&rq_lite_pull_consumer_table, &consumer->options);
    rq_free(consumer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The life of a push consumer: create, start, its timers and its pool, destroy. Public functions
 * run on the program's threads and hand what they want to the I/O thread. Counterparts:
 * DefaultMQPushConsumer, DefaultMQPushConsumerImpl.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/events.h"
#include "client/options.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define EXPIRE_MOST_MS 30000

/* ---- the pool's questions: workers ---- */

static struct rmq_consumer *of_pool(struct rq_pool *pool)
{
    return RQ_CONTAINER_OF(pool, struct rmq_consumer, pool);
}

static void pool_done(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    (void)pool;
    rq_owned_done(pulled, from, to);
}

static void pool_later(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t from, uint32_t to,
                       int delay_level)
{
    (void)pool;
    rq_send_back(pulled, from, to, delay_level);
}

static bool pool_prepare(struct rq_pool *pool, struct rq_pulled *pulled, uint32_t index)
{
    struct rmq_consumer *consumer = of_pool(pool);
    struct rmq_message_view *view = pulled->views[index];
    rmq_error *err = NULL;
    if (pulled->popped && rq_pop_is_over(pulled)) {
        rq_owned_leave(pulled, index, index + 1); /* somebody has it by now */
        return false;
    }
    if (!(view->sys_flag & RQ_SYS_COMPRESSED)) {
        return true;
    }
    if (rq_owned_expand(pulled, view, &err) == RMQ_OK) {
        return true;
    }
    char what[160];
    snprintf(what, sizeof what,
             "a body could not be expanded, the message goes back: queue %d offset %lld",
             (int)view->queue_id, (long long)view->queue_offset);
    rq_consumer_report(consumer, what, err);
    rq_send_back(pulled, index, index + 1, consumer->options.consume_orderly ? -1 : 0);
    return false;
}

bool rq_consumer_post(struct rmq_consumer *consumer, struct rq_task *task)
{
    rq_mutex_lock(&consumer->post_lock);
    bool posted = !consumer->destroyed && rq_loop_post(consumer->loop, task);
    rq_mutex_unlock(&consumer->post_lock);
    return posted;
}

void rq_consumer_pool_quiet(struct rq_pool *pool)
{
    struct rmq_consumer *consumer = of_pool(pool);
    (void)rq_consumer_post(consumer, &consumer->quiet);
}

/* Answers that came with one read wake a worker once. Loop. */
static void pool_wake_soon(struct rq_pool *pool)
{
    struct rmq_consumer *consumer = of_pool(pool);
    if (!consumer->wake_posted) {
        consumer->wake_posted = true;
        (void)rq_loop_post(consumer->loop, &consumer->wake);
    }
}

static const struct rq_pool_ops pool_ops = {.done = pool_done,
                                            .later = pool_later,
                                            .prepare = pool_prepare,
                                            .quiet = rq_consumer_pool_quiet,
                                            .wake_soon = pool_wake_soon,
                                            .turn_take = rq_order_take,
                                            .turn_result = rq_order_result,
                                            .turn_left = rq_order_left};

static const struct rq_consumer_kind push_kind = {.type = RQ_CONSUME_PASSIVELY,
                                                  .pool_ops = &pool_ops,
                                                  .has_retry_topic = true,
                                                  .pulls = true,
                                                  .may_pop = true};

/* ---- timers and tasks: loop ---- */

static void on_rebalance(struct rq_timer *timer)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(timer, struct rmq_consumer, rebalance_timer);
    rq_rebalance_all(consumer);
    rq_pull_all(
        consumer); /* a queue that rests without a reason: Java gives it up and takes it anew */
    rq_timer_start(consumer->loop, timer, consumer->options.rebalance_interval_ms);
}

static void on_persist(struct rq_timer *timer)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(timer, struct rmq_consumer, persist_timer);
    rq_offset_persist_all(consumer, false, RQ_ASK_TIMEOUT_MS);
    rq_consumer_stats_sample(consumer);
    rq_flow_look(consumer);
    rq_consumer_tell_again(consumer);
    rq_timer_start(consumer->loop, timer, consumer->options.persist_consumer_offset_interval_ms);
}

static int64_t expire_interval(const struct rmq_consumer *consumer)
{
    int64_t quarter = consumer->options.consume_timeout_ms / 4 + 1;
    return quarter < EXPIRE_MOST_MS ? quarter : EXPIRE_MOST_MS;
}

static void on_expire(struct rq_timer *timer)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(timer, struct rmq_consumer, expire_timer);
    rq_send_back_expired(consumer);
    rq_timer_start(consumer->loop, timer, expire_interval(consumer));
}

static void on_guard(struct rq_timer *timer)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(timer, struct rmq_consumer, guard_timer);
    if (rq_pool_guard(&consumer->pool)) {
        rq_timer_start(consumer->loop, timer, RQ_GUARD_MS);
    }
}

void rq_consumer_guard(struct rmq_consumer *consumer)
{
    if (consumer->options.listener && !rq_timer_running(&consumer->guard_timer)) {
        rq_timer_start(consumer->loop, &consumer->guard_timer, RQ_GUARD_MS);
    }
}

static void on_feed(struct rq_task *task)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(task, struct rmq_consumer, feed);
    atomic_exchange_explicit(&consumer->feed_posted, false, memory_order_acq_rel);
    rq_pull_starved(consumer);
}

static void on_wake(struct rq_task *task)
{
    struct rmq_consumer *consumer = RQ_CONTAINER_OF(task, struct rmq_consumer, wake);
    consumer->wake_posted = false;
    rq_pool_wake(&consumer->pool);
}

/* ---- create ---- */

static rmq_status open_instance(struct rmq_consumer *consumer, rmq_error **err)
{
    const rmq_consumer_options *options = &consumer->options;
    struct rq_instance_options wanted = {
        .namesrv_addr = options->namesrv_addr,
        .client_ip = options->client_ip,
        .instance_name = options->instance_name,
        .unit_name = options->unit_name,
        .namespace_v2 = options->namespace_v2,
        .poll_name_server_interval_ms = options->poll_name_server_interval_ms,
        .keep_default_name = options->message_model == RMQ_BROADCASTING,
        .heartbeat_broker_interval_ms = options->heartbeat_broker_interval_ms,
        .serialize_type = options->serialize_type};
    rmq_status st = rq_instance_get(&wanted, &consumer->instance, err);
    if (st != RMQ_OK) {
        return st;
    }
    consumer->loop = rq_instance_loop(consumer->instance);
    consumer->client_id = rq_strdup(rq_instance_client_id(consumer->instance));
    return consumer->client_id ? RMQ_OK : rq_error_set(err, RMQ_ERR_NOMEM, "consumer");
}

static rmq_status check_options(struct rmq_consumer *consumer, rmq_error **err)
{
    rmq_status st = rq_sharing_init(consumer, err);
    if (st != RMQ_OK) {
        return st;
    }
    if (rq_topic_of_retry(rq_slice_str(consumer->options.consumer_group), consumer->retry_topic) ==
        0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumerGroup is too long");
    }
    return RMQ_OK;
}

static void init_parts(struct rmq_consumer *consumer)
{
    atomic_init(&consumer->refs, 1);
    atomic_init(&consumer->trace, NULL);
    atomic_init(&consumer->cached, 0);
    atomic_init(&consumer->starving, false);
    atomic_init(&consumer->feed_posted, false);
    atomic_init(&consumer->told, false);
    atomic_init(&consumer->untold, false);
    consumer->feed.run = on_feed;
    consumer->wake.run = on_wake;
    rq_mutex_init(&consumer->lock);
    rq_mutex_init(&consumer->post_lock);
    rq_cond_init(&consumer->change);
    rq_list_init(&consumer->topics);
    rq_list_init(&consumer->asks);
    rq_list_init(&consumer->backs);
    rq_list_init(&consumer->firsts);
    rq_list_init(&consumer->lingering);
    rq_timer_init(&consumer->rebalance_timer, on_rebalance);
    rq_timer_init(&consumer->persist_timer, on_persist);
    rq_timer_init(&consumer->expire_timer, on_expire);
    rq_timer_init(&consumer->guard_timer, on_guard);
    rq_lock_init(consumer);
    rq_close_init(consumer);
    rq_consumer_init_member(consumer);
}

static void free_consumer(struct rmq_consumer *consumer)
{
    rq_local_offsets_close(consumer->local);
    rq_sharing_clear(&consumer->sharing);
    rmq_error_destroy(consumer->refusal);
    rmq_error_destroy(consumer->not_stored);
    rq_cond_destroy(&consumer->change);
    rq_mutex_destroy(&consumer->lock);
    rq_mutex_destroy(&consumer->post_lock);
    rq_table_free(&rq_consumer_table, &consumer->options);
    rq_free(consumer->client_id);
    rq_free(consumer);
}

rmq_status rmq_consumer_create(const rmq_consumer_options *options, rmq_consumer **out,
                               rmq_error **err)
{
    return rq_consumer_create(options, &push_kind, NULL, out, err);
}

rmq_status rq_consumer_create(const rmq_consumer_options *options,
                              const struct rq_consumer_kind *kind, void *handle,
                              struct rmq_consumer **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer: out is NULL");
    }
    struct rmq_consumer *consumer = rq_calloc(1, sizeof *consumer);
    if (!consumer) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "consumer");
    }
    rmq_status st = rq_consumer_options_load(options, &consumer->options, err);
    if (st != RMQ_OK) {
        rq_free(consumer);
        return st;
    }
    consumer->kind = kind;
    consumer->handle = handle ? handle : consumer;
    init_parts(consumer);
    st = check_options(consumer, err);
    if (st == RMQ_OK) {
        st = open_instance(consumer, err);
    }
    if (st == RMQ_OK) {
        struct rq_pool_options pool = {
            .ops = kind->pool_ops,
            .listener = consumer->options.listener,
            .listener_user = consumer->options.listener_user,
            .trace = &consumer->trace,
            .threads = consumer->options.consume_thread_nums,
            .batch_max = consumer->options.consume_message_batch_max_size,
            .turn_most_ms = consumer->options.max_time_consume_continuously_ms};
        st = rq_pool_init(&consumer->pool, &pool, err);
        if (st != RMQ_OK) {
            rq_pool_destroy(&consumer->pool);
        }
    }
    if (st != RMQ_OK) {
        rq_instance_put(consumer->instance);
        free_consumer(consumer);
        return st;
    }
    *out = consumer;
    return RMQ_OK;
}

rmq_status rmq_consumer_create_from_config(const rmq_config *config, rmq_listener_fn listener,
                                           void *user, rmq_consumer **out, rmq_error **err)
{
    const rmq_consumer_options *from = config ? rq_config_consumer(config) : NULL;
    if (!from) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the configuration is not one of a consumer");
    }
    rmq_consumer_options options = *from;
    options.struct_size = sizeof options;
    options.listener = listener;
    options.listener_user = user;
    return rmq_consumer_create(&options, out, err);
}

/* ---- start ---- */

struct start_call {
    struct rmq_consumer *consumer;
    struct rq_local_offsets *local; /* broadcasting: the consumer's from the start on */
    rmq_status st;
    rmq_error **err;
};

static rmq_status subscribe_retry_topic(struct rmq_consumer *consumer, struct rq_subscribed **out)
{
    struct rq_subscription *sub = NULL;
    rmq_status st =
        rq_subscription_create(consumer->retry_topic, RQ_SUBSCRIBE_ALL, RQ_EXPRESSION_TAG,
                               rq_consumer_next_version(consumer), &sub, NULL);
    if (st == RMQ_OK) {
        st = rq_subscribed_create(consumer, sub, true, out);
        if (st != RMQ_OK) {
            rq_subscription_destroy(sub);
        }
    }
    return st;
}

static void start_on_loop(void *arg)
{
    struct start_call *call = arg;
    struct rmq_consumer *consumer = call->consumer;
    struct rq_subscribed *retry = NULL;
    if (consumer->closing) { /* another thread's shutdown came in between */
        call->st = rq_error_set(call->err, RMQ_ERR_CLOSED, "the consumer is shut down");
        return;
    }
    if (rq_list_empty(&consumer->topics) && !consumer->kind->may_start_empty) {
        call->st = rq_error_set(call->err, RMQ_ERR_STATE, "no topic is subscribed");
        return;
    }
    call->st = rq_consumer_sends_back(consumer) ? subscribe_retry_topic(consumer, &retry) : RMQ_OK;
    if (call->st != RMQ_OK) {
        rq_error_set(call->err, call->st, "subscription of the retry topic");
        return;
    }
    call->st = rq_instance_add(consumer->instance, &consumer->member, call->err);
    if (call->st != RMQ_OK) {
        if (retry) {
            rq_subscribed_remove(retry, false);
        }
        return;
    }
    consumer->local = call->local;
    call->local = NULL;
    consumer->added = true;
    consumer->started_wall_ms = rq_wall_ms();
    consumer->sampled_ms = rq_loop_now(consumer->loop);
    consumer->running = true;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        rq_subscribed_watch(RQ_CONTAINER_OF(node, struct rq_subscribed, node));
    }
    rq_timer_start(consumer->loop, &consumer->rebalance_timer,
                   consumer->options.rebalance_interval_ms);
    rq_timer_start(consumer->loop, &consumer->persist_timer,
                   consumer->options.persist_consumer_offset_interval_ms);
    rq_consumer_settle(consumer); /* there may be nothing to wait for */
    if (rq_consumer_sends_back(consumer)) {
        rq_timer_start(consumer->loop, &consumer->expire_timer, expire_interval(consumer));
    }
    rq_lock_start(consumer);
}

/* After this a message that is sent reaches the listener, also in a group that is new: its start
 * offsets are known. */
static void wait_settled(struct rmq_consumer *consumer)
{
    int64_t deadline = rq_deadline_ms(RQ_START_WAIT_MS);
    bool in_time = true;
    rq_mutex_lock(&consumer->lock);
    while (in_time && !consumer->settled && consumer->state == RQ_CONSUMER_STARTED) {
        in_time = rq_cond_wait_until(&consumer->change, &consumer->lock, deadline);
    }
    rq_mutex_unlock(&consumer->lock);
}

/* A broker that does not take the subscription: who asked for it must know. */
static rmq_status end_refused(struct rmq_consumer *consumer, rmq_error **err)
{
    rq_mutex_lock(&consumer->lock);
    rmq_error *refusal = consumer->refusal;
    consumer->refusal = NULL;
    rq_mutex_unlock(&consumer->lock);
    if (!refusal) {
        return RMQ_OK;
    }
    rmq_status st = rmq_error_status(refusal);
    rmq_consumer_shutdown(consumer, 0, NULL);
    if (err) {
        *err = refusal;
    } else {
        rmq_error_destroy(refusal);
    }
    return st;
}

static rmq_status open_local_offsets(const struct rmq_consumer *consumer,
                                     struct rq_local_offsets **out, rmq_error **err)
{
    if (consumer->options.message_model != RMQ_BROADCASTING) {
        return RMQ_OK;
    }
    return rq_local_offsets_open(consumer->options.local_offset_store_dir, consumer->client_id,
                                 consumer->options.consumer_group, out, err);
}

rmq_status rmq_consumer_start(rmq_consumer *consumer, rmq_error **err)
{
    if (!consumer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer is NULL");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    if (consumer->options.enable_msg_trace && consumer->options.listener) {
        rmq_status st = rmq_consumer_set_trace(consumer, true, err);
        if (st != RMQ_OK) {
            return st;
        }
    }
    rq_mutex_lock(&consumer->lock);
    bool first = consumer->state == RQ_CONSUMER_CREATED;
    bool closed = consumer->state >= RQ_CONSUMER_CLOSING;
    consumer->state = first ? RQ_CONSUMER_STARTED : consumer->state;
    rq_mutex_unlock(&consumer->lock);
    if (!first) {
        return closed ? rq_error_set(err, RMQ_ERR_CLOSED, "the consumer is shut down")
                      : rq_error_set(err, RMQ_ERR_STATE, "the consumer is started already");
    }
    struct start_call call = {.consumer = consumer, .err = err};
    call.st = open_local_offsets(consumer, &call.local, err);
    if (call.st == RMQ_OK) {
        rq_instance_run(consumer->instance, start_on_loop, &call);
    }
    rq_local_offsets_close(call.local);
    if (call.st == RMQ_OK) {
        wait_settled(consumer);
        return end_refused(consumer, err);
    }
    rq_mutex_lock(&consumer->lock);
    if (consumer->state == RQ_CONSUMER_STARTED) {
        consumer->state = RQ_CONSUMER_CREATED;
    }
    rq_mutex_unlock(&consumer->lock);
    return call.st;
}

/* ---- end ---- */

void rq_consumer_release(struct rmq_consumer *consumer)
{
    if (atomic_fetch_sub_explicit(&consumer->refs, 1, memory_order_acq_rel) == 1) {
        rq_pool_destroy(&consumer->pool);
        free_consumer(consumer);
    }
}

static void finish_on_loop(void *arg)
{
    rq_close_finish(arg);
}

static void nothing(void *arg)
{
    (void)arg;
}

void rmq_consumer_destroy(rmq_consumer *consumer)
{
    if (!consumer || rq_instance_forked(consumer->instance)) {
        return; /* in a forked child the handle stays the parent's: nothing of it may be touched */
    }
    rq_close_once(consumer);
    rq_pool_join(&consumer->pool);
    rq_mutex_lock(&consumer->post_lock);
    consumer->destroyed = true;
    rq_mutex_unlock(&consumer->post_lock);
    rq_instance_run(consumer->instance, finish_on_loop, consumer);
    rq_instance_run(consumer->instance, nothing, NULL); /* what was posted before has run now */
    if (consumer->options.events) {
        rq_events_forget(consumer->options.events, consumer->handle);
    }
    rq_consumer_trace_free(consumer);
    rq_instance_put(consumer->instance);
    rq_consumer_release(consumer);
}

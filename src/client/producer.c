/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_producer: creation, entering and leaving, destruction. Any thread. The ways to send are in
 * producer_send.c, shutdown in producer_close.c, the work of a send in send.c. Counterparts:
 * DefaultMQProducer, DefaultMQProducerImpl.
 */
#include "client/producer.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/accumulate.h"
#include "client/fork_mark.h"
#include "client/hooks.h"
#include "client/options.h"
#include "client/requests.h"
#include "client/send.h"
#include "client/trace.h"
#include "client/transaction.h"
#include "wire/compress.h"
#include "wire/names.h"

/* least room for frames of a connection that are not written yet */
#define QUEUED_BYTES_MIN ((size_t)256 << 20)

/* ---- creation ---- */

static void free_producer(struct rmq_producer *producer)
{
    rq_checks_release(producer->checks);
    rq_requests_release(producer->requests);
    rq_table_free(&rq_producer_table, &producer->options);
    rq_accumulator_free(producer->accumulator);
    rq_hooks_free(atomic_load_explicit(&producer->hooks, memory_order_acquire));
    rq_cond_destroy(&producer->ended);
    rq_mutex_destroy(&producer->lock);
    rq_free(producer);
}

static int compression_of(const rmq_producer_options *options)
{
    enum rq_compress_choice choice = RQ_COMPRESS_CHOICE_ZLIB;
    (void)rq_option_compress(options->compress_type, &choice);
    static const int types[] = {[RQ_COMPRESS_CHOICE_NONE] = 0,
                                [RQ_COMPRESS_CHOICE_ZLIB] = RQ_COMPRESSION_ZLIB,
                                [RQ_COMPRESS_CHOICE_LZ4] = RQ_COMPRESSION_LZ4,
                                [RQ_COMPRESS_CHOICE_ZSTD] = RQ_COMPRESSION_ZSTD};
    return types[choice];
}

static rmq_status make_producer(const rmq_producer_options *options, struct rmq_producer **out,
                                rmq_error **err)
{
    struct rmq_producer *producer = rq_calloc(1, sizeof *producer);
    if (!producer) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "producer");
    }
    rmq_status st = rq_producer_options_load(options, &producer->options, err);
    if (st != RMQ_OK) {
        rq_free(producer);
        return st;
    }
    rq_mutex_init(&producer->lock);
    rq_cond_init(&producer->ended);
    rq_list_init(&producer->member.node);
    producer->compression = compression_of(&producer->options);
    (void)rq_option_codes(producer->options.retry_response_codes, producer->retry_codes,
                          &producer->retry_code_count);
    /* Producers start at different queues. */
    atomic_init(&producer->next_queue, (unsigned)rq_mono_us());
    atomic_init(&producer->entered, 0);
    atomic_init(&producer->closed, false);
    atomic_init(&producer->trace, NULL);
    atomic_init(&producer->hooks, NULL);
    producer->mark = rq_fork_mark();
    producer->pool = rq_send_pool_create(&producer->options);
    producer->checks = rq_checks_create(producer);
    producer->requests = rq_requests_create(producer);
    producer->accumulator = producer->options.auto_batch ? rq_accumulator_create(producer) : NULL;
    bool complete = producer->pool && producer->checks && producer->requests &&
                    (producer->accumulator || !producer->options.auto_batch);
    if (!complete) {
        if (producer->pool) {
            rq_send_pool_release(producer->pool);
        }
        free_producer(producer);
        return rq_error_set(err, RMQ_ERR_NOMEM, "producer");
    }
    *out = producer;
    return RMQ_OK;
}

struct add_member {
    struct rmq_producer *producer;
    rmq_status status;
    rmq_error *err;
};

static void route_changed(struct rq_watch *watch, struct rq_route *route)
{
    (void)watch; /* the instance greets the brokers of a route itself */
    (void)route;
}

/* One that answers questions about transactions may be there for those of others only and never
 * send: it greets the brokers that make topics, which are all in most clusters. */
static rmq_status watch_brokers(struct rmq_producer *producer)
{
    if (!producer->options.transaction_check && !producer->options.events) {
        return RMQ_OK;
    }
    producer->brokers.changed = route_changed;
    return rq_instance_watch(producer->instance, &producer->brokers, RQ_TOPIC_DEFAULT);
}

static void add_on_loop(void *arg)
{
    struct add_member *add = arg;
    struct rmq_producer *producer = add->producer;
    add->status = rq_instance_add(producer->instance, &producer->member, &add->err);
    if (add->status != RMQ_OK) {
        return;
    }
    add->status = watch_brokers(producer);
    if (add->status != RMQ_OK) {
        rq_error_set(&add->err, add->status, "producer: %s", rmq_status_text(add->status));
        rq_instance_remove(producer->instance, &producer->member, 0, NULL, NULL);
        return;
    }
    rq_producer_stats_start(producer);
}

/* A broker asks the group about a transaction, or has a reply to a request of some producer. */
static bool answer_request(struct rq_member *member, struct rq_peer *peer,
                           const struct rq_header *header, struct rq_in *in)
{
    struct rmq_producer *producer = RQ_CONTAINER_OF(member, struct rmq_producer, member);
    if (header->code == RQ_REQ_PUSH_REPLY_MESSAGE_TO_CLIENT) {
        return rq_requests_reply(producer->requests, peer, in);
    }
    rq_checks_ask(producer->checks, peer, in);
    return true;
}

static void route_comes(struct rq_member *member, struct rq_route *route)
{
    struct rmq_producer *producer = RQ_CONTAINER_OF(member, struct rmq_producer, member);
    rq_send_move_line(producer->pool, route);
}

static rmq_status join_instance(struct rmq_producer *producer, rmq_error **err)
{
    static const struct rq_member_ops ops = {.request = answer_request, .route_comes = route_comes};
    producer->member.group = producer->options.producer_group;
    producer->member.ops = &ops;
    struct add_member add = {.producer = producer};
    rmq_status st = rq_instance_run(producer->instance, add_on_loop, &add);
    if (st != RMQ_OK) {
        return rq_error_set(err, st, "producer: %s", rmq_status_text(st));
    }
    if (add.status != RMQ_OK && err) {
        *err = add.err;
        return add.status;
    }
    rmq_error_destroy(add.err);
    producer->is_member = add.status == RMQ_OK;
    return add.status;
}

static size_t queued_bytes(const rmq_producer_options *options)
{
    size_t wanted = (size_t)options->max_async_in_flight_bytes * 2 + ((size_t)64 << 20);
    return wanted > QUEUED_BYTES_MIN ? wanted : QUEUED_BYTES_MIN;
}

rmq_status rmq_producer_create(const rmq_producer_options *options, rmq_producer **out,
                               rmq_error **err)
{
    if (!options || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "producer: options and out are required");
    }
    struct rmq_producer *producer = NULL;
    rmq_status st = make_producer(options, &producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    const rmq_producer_options *own = &producer->options;
    const struct rq_instance_options wanted = {
        .namesrv_addr = own->namesrv_addr,
        .client_ip = own->client_ip,
        .instance_name = own->instance_name,
        .unit_name = own->unit_name,
        .namespace_v2 = own->namespace_v2,
        .sends = true,
        .vip_channel = own->vip_channel_enabled,
        .poll_name_server_interval_ms = own->poll_name_server_interval_ms,
        .heartbeat_broker_interval_ms = own->heartbeat_broker_interval_ms,
        .serialize_type = own->serialize_type,
        .max_queued_bytes = queued_bytes(own),
    };
    st = rq_instance_get(&wanted, &producer->instance, err);
    if (st == RMQ_OK) {
        producer->has_instance = true;
        producer->pool->loop = rq_instance_loop(producer->instance);
        st = join_instance(producer, err);
        if (st != RMQ_OK) {
            rq_instance_put(producer->instance);
        }
    }
    if (st != RMQ_OK) {
        rq_send_pool_release(producer->pool);
        free_producer(producer);
        return st;
    }
    if (own->enable_msg_trace) {
        st = rmq_producer_set_trace(producer, true, err);
    }
    if (st != RMQ_OK) {
        rmq_producer_destroy(producer);
        return st;
    }
    *out = producer;
    return RMQ_OK;
}

rmq_status rmq_producer_create_from_config(const rmq_config *config, rmq_producer **out,
                                           rmq_error **err)
{
    const rmq_producer_options *options = rq_config_producer(config);
    if (!options) {
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "producer: the configuration is not one of a producer");
    }
    return rmq_producer_create(options, out, err);
}

rmq_status rq_producer_create_inner(struct rq_instance *instance,
                                    const rmq_producer_options *options, rmq_producer **out,
                                    rmq_error **err)
{
    rmq_status st = make_producer(options, out, err);
    if (st == RMQ_OK) {
        rq_instance_retain(instance);
        (*out)->instance = instance;
        (*out)->has_instance = true;
    }
    return st;
}

/* ---- entering and leaving ---- */

void rq_producer_leave(struct rmq_producer *producer)
{
    atomic_fetch_sub_explicit(&producer->entered, 1, memory_order_release);
}

rmq_status rq_producer_enter(struct rmq_producer *producer, rmq_error **err)
{
    if (!producer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "producer is NULL");
    }
    if (rq_forked_since(producer->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the producer was made by the parent process");
    }
    atomic_fetch_add_explicit(&producer->entered, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&producer->closed, memory_order_seq_cst)) {
        rq_producer_leave(producer);
        return rq_error_set(err, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    return RMQ_OK;
}

static _Thread_local const struct rmq_producer *asking;

const struct rmq_producer *rq_producer_set_asking(const struct rmq_producer *producer)
{
    const struct rmq_producer *before = asking;
    asking = producer;
    return before;
}

bool rq_producer_asks(const struct rmq_producer *producer)
{
    return asking == producer;
}

/* ---- hooks ---- */

rmq_status rmq_producer_add_send_hook(rmq_producer *producer, const rmq_send_hook *hook,
                                      rmq_error **err)
{
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_mutex_lock(&producer->lock);
    st = rq_hooks_add(&producer->hooks, hook, err);
    rq_mutex_unlock(&producer->lock);
    rq_producer_leave(producer);
    return st;
}

rmq_status rq_producer_begin_hooks(struct rmq_producer *producer,
                                   const rmq_message *const *messages, size_t count,
                                   rmq_send_mode mode, struct rmq_send_context **out,
                                   rmq_error **err)
{
    const struct rq_hooks *hooks = atomic_load_explicit(&producer->hooks, memory_order_acquire);
    if (!hooks) {
        return RMQ_OK;
    }
    const struct rmq_producer *before = rq_producer_set_asking(producer);
    rmq_status st =
        rq_hooks_begin(hooks, producer->options.producer_group, messages, count, mode, out, err);
    (void)rq_producer_set_asking(before);
    return st;
}

void rq_producer_end_hooks(const struct rmq_producer *producer, struct rmq_send_context *context,
                           const rmq_send_result *result, const rmq_error *err)
{
    const struct rmq_producer *before = rq_producer_set_asking(producer);
    rq_hooks_end(context, result, err);
    (void)rq_producer_set_asking(before);
}

/* ---- destruction ---- */

void rmq_producer_destroy(rmq_producer *producer)
{
    if (!producer) {
        return;
    }
    if (rq_forked_since(producer->mark)) {
        return; /* its locks may be held by threads that do not exist here */
    }
    if (producer->has_instance) {
        (void)rmq_producer_shutdown(producer, 0, NULL);
        rq_producer_give_up(producer);
    }
    rq_trace_destroy(atomic_load_explicit(&producer->trace, memory_order_acquire));
    if (producer->options.events) {
        rq_events_forget(producer->options.events, producer);
    }
    rq_send_pool_release(producer->pool);
    free_producer(producer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_producer: creation, the ways to send, shutdown. Any thread. The work of a send is in send.c. Counterparts: DefaultMQProducer,
 * DefaultMQProducerImpl.
 */
#include <rmq/producer.h>

#include <string.h>

#include "base/err.h"
#include "base/jhash.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/fork_mark.h"
#include "client/options.h"
#include "client/route_wait.h"
#include "client/send.h"
#include "wire/compress.h"

#define SHUTDOWN_MS 3000
#define ROUTE_SLICE_MS                                                                             \
    200 /* a thread that waits for a route looks so often whether the producer is closed */
#define QUEUED_BYTES_MIN                                                                           \
    ((size_t)256 << 20) /* least room for frames of a connection that are not written yet */

enum life { LIFE_OPEN, LIFE_CLOSING, LIFE_CLOSED };

/* ---- creation ---- */

static void free_producer(struct rmq_producer *producer)
{
    rq_table_free(&rq_producer_table, &producer->options);
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
    /* Producers start at different queues. */
    atomic_init(&producer->next_queue, (unsigned)rq_mono_us());
    atomic_init(&producer->entered, 0);
    atomic_init(&producer->closed, false);
    producer->mark = rq_fork_mark();
    producer->pool = rq_send_pool_create(&producer->options);
    if (!producer->pool) {
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

static void add_on_loop(void *arg)
{
    struct add_member *add = arg;
    add->status = rq_instance_add(add->producer->instance, &add->producer->member, &add->err);
}

static rmq_status join_instance(struct rmq_producer *producer, rmq_error **err)
{
    static const struct rq_member_ops ops = {0};
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
        .poll_name_server_interval_ms = own->poll_name_server_interval_ms,
        .heartbeat_broker_interval_ms = own->heartbeat_broker_interval_ms,
        .serialize_type = own->serialize_type,
        .max_queued_bytes = queued_bytes(own),
    };
    st = rq_instance_get(&wanted, &producer->instance, err);
    if (st == RMQ_OK) {
        producer->has_instance = true;
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

static void leave(struct rmq_producer *producer)
{
    atomic_fetch_sub_explicit(&producer->entered, 1, memory_order_release);
}

static rmq_status enter(struct rmq_producer *producer, rmq_error **err)
{
    if (!producer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "producer is NULL");
    }
    if (rq_forked_since(producer->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the producer was made by the parent process");
    }
    atomic_fetch_add_explicit(&producer->entered, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&producer->closed, memory_order_seq_cst)) {
        leave(producer);
        return rq_error_set(err, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    return RMQ_OK;
}

static rmq_status not_accepted(struct rq_send_op *op, rmq_status st, rmq_error **err)
{
    if (rq_send_pool_untake(op)) {
        return st;
    }
    if (err) {
        rmq_error_destroy(*err);
        *err = NULL;
    }
    return RMQ_OK;
}

static bool is_closed(struct rmq_producer *producer)
{
    return atomic_load_explicit(&producer->closed, memory_order_relaxed);
}

/* The snapshot of a topic, waiting for a first one until the deadline; a shutdown is noticed in between. */
static rmq_status wait_for_route(struct rmq_producer *producer, const rmq_message *message,
                                 int64_t deadline_ms, struct rq_route **out, rmq_error **err)
{
    *out = rq_instance_route(producer->instance, rq_slice(message->text, message->topic_len));
    rmq_error *why = NULL;
    rmq_status st = RMQ_OK;
    for (int64_t slice = 0; !*out && slice < deadline_ms && !is_closed(producer);) {
        int64_t now = rq_mono_ms();
        slice = now + ROUTE_SLICE_MS < deadline_ms ? now + ROUTE_SLICE_MS : deadline_ms;
        st = rq_route_wait(producer->instance, message->text,
                           producer->options.default_topic_queue_nums, slice, out, &why);
        if (st != RMQ_OK && rq_mono_ms() < slice) {
            break; /* an answer, not the end of the slice */
        }
    }
    if (!*out && is_closed(producer)) {
        st = rq_error_set(&why, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    if (st != RMQ_OK && err) {
        *err = why;
    } else {
        rmq_error_destroy(why);
    }
    return st;
}

static int64_t deadline_of(const struct rmq_producer *producer, int64_t now_ms, int64_t timeout_ms)
{
    return now_ms + (timeout_ms > 0 ? timeout_ms : producer->options.send_msg_timeout_ms);
}

/* ---- blocking sends ---- */

/* What a blocking send is asked for: messages, and how the queue is found. */
struct request {
    const rmq_message *const *messages;
    size_t count;
    bool batch;
    const char *broker_name; /* a given queue */
    int32_t queue_id;
    rmq_queue_selector_fn selector;
    void *user;
    const char *key;
    int64_t timeout_ms; /* 0 = the option's */
    int64_t started_ms;
    int64_t deadline_ms;
};

static rmq_status check_request(const struct rmq_producer *producer, const struct request *request,
                                size_t *bytes, rmq_error **err)
{
    if (request->batch) {
        return rq_send_check_batch(producer, request->messages, request->count, bytes, err);
    }
    rmq_status st = rq_send_check(producer, request->messages[0], err);
    *bytes = st == RMQ_OK ? request->messages[0]->body->size : 0;
    return st;
}

static rmq_status set_given_queue(const struct request *request, struct rq_route *route,
                                  struct rq_route_queue *queue, rmq_error **err)
{
    queue->broker = rq_route_find_broker(route, rq_slice_str(request->broker_name));
    queue->id = request->queue_id;
    if (!queue->broker) {
        return rq_error_set(err, RMQ_ERR_NO_BROKER, "broker %s is not in the route of topic %s",
                            request->broker_name, route->topic);
    }
    return RMQ_OK;
}

/* |hash mod n| in 32 bits, as Java has it. */
static size_t index_by_key(const char *key, size_t count)
{
    int32_t n = (int32_t)count;
    int32_t rest = rq_java_hash(rq_slice_str(key)) % n;
    return (size_t)(rest < 0 ? -rest : rest);
}

static rmq_status set_selected_queue(const struct request *request, struct rq_route *route,
                                     struct rq_route_queue *queue, rmq_error **err)
{
    size_t count = route->publish_count;
    if (count == 0) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "topic %s has no queue that takes messages",
                            route->topic);
    }
    size_t index = request->selector ? request->selector(request->messages[0], count, request->user)
                                     : index_by_key(request->key, count);
    if (index >= count) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the selector returned queue %zu of %zu", index,
                            count);
    }
    *queue = route->publish[index];
    return RMQ_OK;
}

/* Before the operation is taken: the selector is the program's code and may do as it likes. */
static rmq_status find_queue(struct rmq_producer *producer, struct request *request,
                             struct rq_route **route, struct rq_route_queue *queue, rmq_error **err)
{
    const rmq_message *message = request->messages[0];
    if (!request->broker_name && !request->selector && !request->key) {
        *route = rq_instance_route(producer->instance, rq_slice(message->text, message->topic_len));
        return RMQ_OK; /* without one, the operation looks it up */
    }
    rmq_status st = wait_for_route(producer, message, request->deadline_ms, route, err);
    request->started_ms = rq_mono_ms();
    if (st == RMQ_OK && request->broker_name) {
        st = set_given_queue(request, *route, queue, err);
    } else if (st == RMQ_OK) {
        st = set_selected_queue(request, *route, queue, err);
    }
    return st;
}

static rmq_status take_outcome(struct rq_send_op *op, rmq_send_result **result, rmq_error **err)
{
    bool cut = (atomic_load_explicit(&op->state, memory_order_acquire) & RQ_SEND_CUT) != 0;
    if (cut) {
        rmq_status st = rq_error_set(err, RMQ_ERR_CLOSED,
                                     "the producer was shut down before the send was answered");
        if (err) {
            rq_error_mark(*err, false, true);
        }
        return st;
    }
    if (op->error) {
        rmq_status st = rmq_error_status(op->error);
        if (err) {
            rmq_error_destroy(*err);
            *err = op->error;
            op->error = NULL;
        }
        return st;
    }
    if (result) {
        *result = rq_send_result_copy(&op->result);
        if (!*result) {
            rq_error_set(err, RMQ_ERR_NOMEM, "result of a send that was stored");
            if (err) {
                rq_error_mark(*err, false, true);
            }
            return RMQ_ERR_NOMEM;
        }
    }
    return RMQ_OK;
}

static rmq_status run_request(struct rmq_producer *producer, const struct request *request,
                              size_t bytes, struct rq_route *route,
                              const struct rq_route_queue *queue, rmq_send_result **result,
                              rmq_error **err)
{
    struct rq_send_op *op = NULL;
    const struct rq_send_order order = {.mode = RQ_SEND_SYNC,
                                        .size = bytes,
                                        .deadline_ms = request->deadline_ms,
                                        .source = producer};
    rmq_status st = rq_send_pool_take(producer->pool, &order, &op, err);
    if (st != RMQ_OK) {
        rq_route_release(route);
        return st;
    }
    op->producer = producer;
    op->route = route;
    op->fixed_queue = queue->broker != NULL;
    op->queue = *queue;
    op->attempts_max = op->fixed_queue ? 1 : 1 + producer->options.retry_times_when_send_failed;
    op->started_ms = request->started_ms;
    st = request->batch ? rq_send_prepare_batch(op, request->messages, request->count, err)
                        : rq_send_prepare(op, request->messages[0], err);
    if (st != RMQ_OK) {
        (void)rq_send_pool_untake(op);
        return st;
    }
    rq_send_begin(op);
    rq_waiter_wait(&op->waiter);
    st = take_outcome(op, result, err);
    rq_send_consumed(op);
    return st;
}

static rmq_status send_blocking(struct rmq_producer *producer, struct request *request,
                                rmq_send_result **result, rmq_error **err)
{
    if (result) {
        *result = NULL;
    }
    rmq_status st = enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    request->started_ms = rq_mono_ms();
    request->deadline_ms = deadline_of(producer, request->started_ms, request->timeout_ms);
    size_t bytes = 0;
    struct rq_route *route = NULL;
    struct rq_route_queue queue = {0};
    if (rq_loop_in(rq_instance_loop(producer->instance))) {
        st = rq_error_set(err, RMQ_ERR_STATE, "a blocking send on the I/O thread");
    }
    if (st == RMQ_OK) {
        st = check_request(producer, request, &bytes, err);
    }
    if (st == RMQ_OK) {
        st = find_queue(producer, request, &route, &queue, err);
    }
    if (st == RMQ_OK) {
        st = run_request(producer, request, bytes, route, &queue, result, err);
    } else {
        rq_route_release(route);
    }
    leave(producer);
    return st;
}

rmq_status rmq_producer_send(rmq_producer *producer, const rmq_message *message, int64_t timeout_ms,
                             rmq_send_result **result, rmq_error **err)
{
    struct request request = {.messages = &message, .count = 1, .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_to_queue(rmq_producer *producer, const rmq_message *message,
                                      const char *broker_name, int32_t queue_id, int64_t timeout_ms,
                                      rmq_send_result **result, rmq_error **err)
{
    if (!broker_name || queue_id < 0) {
        return rq_error_set(err, RMQ_ERR_INVALID, "queue %d of broker %s", (int)queue_id,
                            broker_name ? broker_name : "NULL");
    }
    struct request request = {.messages = &message,
                              .count = 1,
                              .broker_name = broker_name,
                              .queue_id = queue_id,
                              .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_by_selector(rmq_producer *producer, const rmq_message *message,
                                         rmq_queue_selector_fn selector, void *user,
                                         int64_t timeout_ms, rmq_send_result **result,
                                         rmq_error **err)
{
    if (!selector) {
        return rq_error_set(err, RMQ_ERR_INVALID, "selector is NULL");
    }
    struct request request = {.messages = &message,
                              .count = 1,
                              .selector = selector,
                              .user = user,
                              .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_by_key(rmq_producer *producer, const rmq_message *message,
                                    const char *sharding_key, int64_t timeout_ms,
                                    rmq_send_result **result, rmq_error **err)
{
    if (!sharding_key) {
        return rq_error_set(err, RMQ_ERR_INVALID, "sharding key is NULL");
    }
    struct request request = {
        .messages = &message, .count = 1, .key = sharding_key, .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

rmq_status rmq_producer_send_batch(rmq_producer *producer, const rmq_message *const *messages,
                                   size_t count, int64_t timeout_ms, rmq_send_result **result,
                                   rmq_error **err)
{
    struct request request = {
        .messages = messages, .count = count, .batch = true, .timeout_ms = timeout_ms};
    return send_blocking(producer, &request, result, err);
}

/* ---- asynchronous and one-way sends ---- */

static rmq_status start_async(struct rmq_producer *producer, const rmq_message *message,
                              const struct rq_send_order *order, int64_t now_ms, rmq_error **err)
{
    struct rq_send_op *op = NULL;
    rmq_status st = rq_send_pool_take(producer->pool, order, &op, err);
    if (st != RMQ_OK) {
        return st;
    }
    op->producer = producer;
    op->attempts_max = 1 + producer->options.retry_times_when_send_async_failed;
    op->started_ms = op->waited ? rq_mono_ms() : now_ms;
    st = rq_send_prepare(op, message, err);
    if (st != RMQ_OK) {
        return not_accepted(op, st, err);
    }
    op->route = rq_instance_route(producer->instance, rq_slice(message->text, message->topic_len));
    rq_send_begin(op);
    return RMQ_OK;
}

static rmq_status send_async(struct rmq_producer *producer, const rmq_message *message,
                             struct rq_send_order *order, rmq_error **err)
{
    rmq_status st = enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_send_check(producer, message, err);
    if (st == RMQ_OK && order->mode == RQ_SEND_EVENT && !producer->options.events) {
        st = rq_error_set(err, RMQ_ERR_STATE, "the producer has no event queue");
    }
    if (st == RMQ_OK) {
        order->size = message->body->size;
        order->wait = producer->options.async_wait_when_full;
        int64_t now = rq_mono_ms();
        order->deadline_ms = deadline_of(producer, now, 0);
        order->source = producer;
        st = start_async(producer, message, order, now, err);
    }
    leave(producer);
    return st;
}

rmq_status rmq_producer_send_async(rmq_producer *producer, const rmq_message *message,
                                   rmq_send_fn done, void *user, rmq_error **err)
{
    if (!done) {
        return rq_error_set(err, RMQ_ERR_INVALID, "callback is NULL");
    }
    struct rq_send_order order = {.mode = RQ_SEND_ASYNC, .done = done, .user = user};
    return send_async(producer, message, &order, err);
}

rmq_status rmq_producer_send_event(rmq_producer *producer, const rmq_message *message,
                                   uint64_t token, rmq_error **err)
{
    struct rq_send_order order = {.mode = RQ_SEND_EVENT, .token = token};
    return send_async(producer, message, &order, err);
}

static rmq_status run_oneway(struct rmq_producer *producer, const rmq_message *message,
                             struct rq_route *route, int64_t now_ms, int64_t deadline_ms,
                             rmq_error **err)
{
    struct rq_send_op *op = NULL;
    const struct rq_send_order order = {.mode = RQ_SEND_ONEWAY,
                                        .size = message->body->size,
                                        .deadline_ms = deadline_ms,
                                        .source = producer};
    rmq_status st = rq_send_pool_take(producer->pool, &order, &op, err);
    if (st != RMQ_OK) {
        rq_route_release(route);
        return st;
    }
    op->producer = producer;
    op->route = route;
    op->started_ms = now_ms;
    st = rq_send_prepare(op, message, err);
    if (st == RMQ_OK) {
        st = rq_send_oneway(op, err);
    }
    (void)rq_send_pool_untake(op);
    return st;
}

rmq_status rmq_producer_send_oneway(rmq_producer *producer, const rmq_message *message,
                                    rmq_error **err)
{
    rmq_status st = enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_route *route = NULL;
    int64_t now = rq_mono_ms();
    int64_t deadline = deadline_of(producer, now, 0);
    st = rq_send_check(producer, message, err);
    if (st == RMQ_OK) {
        st = wait_for_route(producer, message, deadline, &route, err);
    }
    if (st == RMQ_OK) {
        st = run_oneway(producer, message, route, now, deadline, err);
    }
    leave(producer);
    return st;
}

/* ---- shutdown ---- */

struct removal {
    struct rmq_producer *producer;
    struct rq_waiter waiter;
    int64_t timeout_ms;
};

static void removed(void *user)
{
    struct removal *removal = user;
    rq_waiter_done(&removal->waiter);
}

static void remove_on_loop(void *arg)
{
    struct removal *removal = arg;
    struct rmq_producer *producer = removal->producer;
    rq_instance_remove(producer->instance, &producer->member, removal->timeout_ms, removed,
                       removal);
}

static void leave_group(struct rmq_producer *producer, int64_t timeout_ms)
{
    if (!producer->is_member) {
        return;
    }
    struct removal removal = {.producer = producer, .timeout_ms = timeout_ms};
    rq_waiter_init(&removal.waiter);
    if (rq_instance_run(producer->instance, remove_on_loop, &removal) == RMQ_OK) {
        rq_waiter_wait(&removal.waiter);
    }
    producer->is_member = false;
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Threads inside a send function are on their way out: the pool is closed and all is completed. */
static void wait_for_threads(struct rmq_producer *producer)
{
    rq_mutex_lock(&producer->lock);
    while (atomic_load_explicit(&producer->entered, memory_order_seq_cst) > 0) {
        (void)rq_cond_wait_until(&producer->ended, &producer->lock, rq_mono_ms() + 1);
    }
    rq_mutex_unlock(&producer->lock);
}

/* Everything has been completed: gives up what is shared. Not on the callback thread. */
static void give_up_instance(struct rmq_producer *producer)
{
    rq_mutex_lock(&producer->lock);
    bool has = producer->has_instance;
    producer->has_instance = false;
    rq_mutex_unlock(&producer->lock);
    if (!has) {
        return;
    }
    (void)rq_send_pool_drain(producer->pool, RQ_FOREVER);
    wait_for_threads(producer);
    /* The loop may still be at the end of the last completion. */
    (void)rq_instance_run(producer->instance, nothing, NULL);
    rq_instance_put(producer->instance);
    rq_send_pool_end(producer->pool);
}

static rmq_status stop(struct rmq_producer *producer, int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline = rq_mono_ms() + timeout_ms;
    atomic_store_explicit(&producer->closed, true, memory_order_seq_cst);
    rq_send_pool_close(producer->pool);
    size_t cut = 0;
    if (!rq_send_pool_drain(producer->pool, deadline)) {
        cut = rq_send_pool_cut(producer->pool);
        /* A step of a machine that had begun before ends on the loop before this returns; a later one sees the cut. */
        (void)rq_instance_run(producer->instance, nothing, NULL);
    }
    int64_t left = deadline - rq_mono_ms();
    leave_group(producer, left > 200 ? left : 200);
    if (!rq_executor_in()) {
        give_up_instance(producer);
    }
    if (cut > 0) {
        return rq_error_set(err, RMQ_ERR_TIMEOUT,
                            "%zu sends were not answered within %lld ms of the shutdown", cut,
                            (long long)timeout_ms);
    }
    return RMQ_OK;
}

/* A second shutdown waits for the first, unless it is called from a callback for which the first may be waiting. */
static rmq_status wait_for_other(struct rmq_producer *producer, int64_t timeout_ms, rmq_error **err)
{
    int64_t deadline = rq_mono_ms() + timeout_ms;
    bool in_time = !rq_executor_in();
    rq_mutex_lock(&producer->lock);
    while (producer->life == LIFE_CLOSING && in_time) {
        in_time = rq_cond_wait_until(&producer->ended, &producer->lock, deadline);
    }
    bool closed = producer->life == LIFE_CLOSED;
    rq_mutex_unlock(&producer->lock);
    if (closed || rq_executor_in()) {
        return RMQ_OK;
    }
    return rq_error_set(err, RMQ_ERR_TIMEOUT, "another thread is still shutting the producer down");
}

rmq_status rmq_producer_shutdown(rmq_producer *producer, int64_t timeout_ms, rmq_error **err)
{
    if (!producer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "producer is NULL");
    }
    if (rq_forked_since(producer->mark)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the producer was made by the parent process");
    }
    int64_t timeout = timeout_ms > 0 ? timeout_ms : SHUTDOWN_MS;
    rq_mutex_lock(&producer->lock);
    bool first = producer->life == LIFE_OPEN;
    if (first) {
        producer->life = LIFE_CLOSING;
    }
    rq_mutex_unlock(&producer->lock);
    if (!first) {
        return wait_for_other(producer, timeout, err);
    }
    rmq_status st = stop(producer, timeout, err);
    rq_mutex_lock(&producer->lock);
    producer->life = LIFE_CLOSED;
    rq_cond_broadcast(&producer->ended);
    rq_mutex_unlock(&producer->lock);
    return st;
}

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
        give_up_instance(producer);
    }
    if (producer->options.events) {
        rq_events_forget(producer->options.events, producer);
    }
    rq_send_pool_release(producer->pool);
    free_producer(producer);
}

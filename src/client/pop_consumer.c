/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The pop consumer: its life and its pops. A pop is asked on the program's thread, sent and
 * answered on the I/O thread; the answer's frame owns the messages. Counterpart:
 * MQClientAPIImpl.popMessageAsync.
 */
#include "client/pop_consumer_priv.h"

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/handle.h"
#include "client/message.h"
#include "client/options.h"
#include "client/popped.h"
#include "client/queue_ask.h"
#include "client/queue_list.h"
#include "client/waiter.h"
#include "wire/heartbeat.h"
#include "wire/names.h"
#include "wire/pop.h"
#include "wire/subscription.h"

#define GRACE_MS         10000 /* beyond the time that the broker holds a pop back */
#define ROUTE_TIMEOUT_MS 5000
#define POLL_MOST_MS     86400000

struct pop_op {
    struct rq_queue_ask ask;
    struct rq_hdr_pop fields;
    struct rq_task task;
    struct rq_list node; /* loop: in consumer->pops */
    struct rmq_pop_consumer *consumer;
    struct rq_reply reply;
    rmq_error *err;
    rmq_status status;
    struct rq_waiter waiter;
};

struct rmq_pop_result {
    struct rq_views *views;
    struct rq_popped *popped;
    size_t count;
    struct rmq_message_view *items[];
};

rmq_status rq_pop_consumer_enter(struct rmq_pop_consumer *consumer, const char *topic,
                                 const void *needed, const char *what, rmq_error **err)
{
    if (!consumer || !topic || !needed) {
        const char *missing = topic ? what : "topic";
        return rq_error_set(err, RMQ_ERR_INVALID, "%s is NULL", consumer ? missing : "consumer");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    rmq_status st = rq_topic_check(rq_slice_str(topic), err);
    return st == RMQ_OK ? rq_callbacks_enter(&consumer->callbacks, false, err) : st;
}

/* ---- one request ---- */

static void on_popped(struct rq_queue_ask *ask, rmq_status status, struct rq_in *answer,
                      const rmq_error *err)
{
    struct pop_op *op = RQ_CONTAINER_OF(ask, struct pop_op, ask);
    rq_list_remove(&op->node);
    op->status = status;
    if (err) {
        op->err = rq_error_copy(err);
    } else if (status == RMQ_OK) {
        op->reply.ref = rq_in_keep(answer);
        op->reply.body = answer->body;
        op->reply.header = *answer->header;
        op->status = op->reply.ref ? RMQ_OK : RMQ_ERR_NOMEM;
    }
    rq_waiter_done(&op->waiter);
}

static void begin(struct rq_task *task)
{
    struct pop_op *op = RQ_CONTAINER_OF(task, struct pop_op, task);
    rq_list_add_tail(&op->consumer->pops, &op->node);
    rq_queue_ask(&op->ask);
    if (rq_callbacks_is_closed(&op->consumer->callbacks)) {
        rq_queue_ask_cancel(&op->ask);
    }
}

static rmq_status error_of(struct pop_op *op, rmq_error **err)
{
    const char *broker = op->ask.name.broker_name;
    rmq_status st = op->status;
    int32_t code = st == RMQ_OK ? op->reply.header.code : -1;
    if (op->err) {
        st = rq_error_set(err, rmq_error_status(op->err), "%s", rmq_error_message(op->err));
    } else if (code == RQ_RESP_POLLING_TIMEOUT || code == RQ_RESP_PULL_NOT_FOUND) {
        st = rq_error_set(err, RMQ_ERR_TIMEOUT, "nothing to pop from topic %s", op->ask.name.topic);
    } else {
        st = rq_answer_error(st, st == RMQ_OK ? &op->reply.header : NULL, broker, "pop", err);
    }
    rmq_error_destroy(op->err);
    rq_reply_free(&op->reply);
    return st;
}

/* ---- results ---- */

/* A body that cannot be expanded stays as it was stored. */
static void expand(const struct rmq_pop_consumer *consumer, struct rmq_message_view *view)
{
    rmq_error *err = NULL;
    if (rq_view_expand(view, (size_t)consumer->options.max_message_size, &err) != RMQ_OK) {
        RQ_LOG(WARN, "a body could not be expanded", "topic=%s queue=%d offset=%lld why=%s",
               view->topic, (int)view->queue_id, (long long)view->queue_offset,
               rmq_error_message(err));
        rmq_error_destroy(err);
    }
}

/* One that has come again may bear the name of the group's retry topic. */
static void restore_topic(const struct rmq_pop_consumer *consumer, struct rmq_message_view *view)
{
    struct rq_slice group = rq_slice_str(consumer->options.consumer_group);
    struct rq_slice normal;
    if (rq_pop_normal_topic(rq_slice_str(view->topic), group, &normal)) {
        view->topic = normal.p; /* the end of the text */
    }
}

/* The broker compares hashes of tags; a message that only looks wanted is acknowledged here. */
static void keep_wanted(struct rmq_pop_consumer *consumer, const struct rq_subscription *sub,
                        rmq_pop_result *result)
{
    for (size_t i = 0; i < result->views->count; i++) {
        struct rmq_message_view *view = &result->views->items[i];
        if (rq_subscription_match_tag(sub, rq_slice_str(view->tag))) {
            expand(consumer, view);
            restore_topic(consumer, view);
            rq_view_strip(view, consumer->options.namespace_name);
            result->items[result->count++] = view;
        } else {
            (void)rq_pop_consumer_ack_one(consumer, sub->topic,
                                          rq_popped_handle(result->popped, view), 0, NULL);
        }
    }
}

static rmq_status make_result(struct rmq_pop_consumer *consumer, struct rq_reply *reply,
                              const char *broker_name, const struct rq_subscription *sub,
                              rmq_pop_result **out, rmq_error **err)
{
    struct rq_views *views = NULL;
    rmq_status st = rq_views_create(reply->ref, reply->body, broker_name, &views, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_frame_ref_retain(reply->ref); /* one is the views', one the reply's */
    rmq_pop_result *result =
        rq_calloc(1, sizeof *result + views->count * sizeof(struct rmq_message_view *));
    if (!result) {
        rq_views_release(views);
        return rq_error_set(err, RMQ_ERR_NOMEM, "%zu popped messages", views->count);
    }
    result->views = views;
    st = rq_popped_create(views, &reply->header, broker_name, rq_mono_ms(), &result->popped, err);
    if (st != RMQ_OK) {
        rmq_pop_result_destroy(result);
        return st;
    }
    keep_wanted(consumer, sub, result);
    *out = result;
    return RMQ_OK;
}

size_t rmq_pop_result_count(const rmq_pop_result *result)
{
    return result ? result->count : 0;
}

const rmq_message_view *rmq_pop_result_at(const rmq_pop_result *result, size_t index)
{
    return result && index < result->count ? result->items[index] : NULL;
}

const char *rmq_pop_result_handle(const rmq_pop_result *result, size_t index)
{
    return result && index < result->count ? rq_popped_handle(result->popped, result->items[index])
                                           : NULL;
}

void rmq_pop_result_destroy(rmq_pop_result *result)
{
    if (result) {
        rq_views_release(result->views);
        rq_popped_release(result->popped);
        rq_free(result);
    }
}

/* ---- pop ---- */

static void fill(struct pop_op *op, struct rmq_pop_consumer *consumer, const struct rq_mq *name,
                 const struct rq_subscription *sub, int32_t max_nums, int64_t poll_ms)
{
    const rmq_pop_consumer_options *options = &consumer->options;
    bool from_first = options->consume_from_where == RMQ_CONSUME_FROM_FIRST_OFFSET;
    *op = (struct pop_op){.consumer = consumer, .task = {.run = begin}};
    op->fields = (struct rq_hdr_pop){.consumer_group = rq_slice_str(options->consumer_group),
                                     .topic = rq_slice_str(name->topic),
                                     .queue_id = -1,
                                     .max_msg_nums = max_nums,
                                     .invisible_time = options->pop_invisible_time_ms,
                                     .poll_time = poll_ms,
                                     .init_mode = from_first ? RQ_POP_FROM_MIN : RQ_POP_FROM_MAX};
    RQ_SET(pop, &op->fields, born_time, rq_wall_ms());
    RQ_SET(pop, &op->fields, exp, rq_slice_str(sub->sub_string));
    RQ_SET(pop, &op->fields, exp_type, rq_slice_str(sub->expression_type));
    RQ_SET(pop, &op->fields, order, options->consume_orderly);
    op->ask = (struct rq_queue_ask){.instance = consumer->instance,
                                    .name = *name,
                                    .pick = RQ_PICK_MASTER,
                                    .code = RQ_REQ_POP_MESSAGE,
                                    .table = &rq_tab_pop,
                                    .fields = &op->fields,
                                    .deadline_ms = rq_mono_ms() + poll_ms + GRACE_MS,
                                    .done = on_popped};
    rq_waiter_init(&op->waiter);
}

static rmq_status pop_once(struct rmq_pop_consumer *consumer, const struct rq_mq *name,
                           const struct rq_subscription *sub, int32_t max_nums, int64_t poll_ms,
                           rmq_pop_result **out, rmq_error **err)
{
    struct pop_op op;
    fill(&op, consumer, name, sub, max_nums, poll_ms);
    (void)rq_loop_post(rq_instance_loop(consumer->instance), &op.task);
    rq_waiter_wait(&op.waiter);
    if (op.err || op.status != RMQ_OK || op.reply.header.code != RQ_RESP_SUCCESS) {
        return error_of(&op, err);
    }
    rmq_status st = make_result(consumer, &op.reply, name->broker_name, sub, out, err);
    rq_reply_free(&op.reply);
    return st;
}

/* Asks again, with what is left of the time, while nothing of what came was wanted. */
static rmq_status pop_from(struct rmq_pop_consumer *consumer, const struct rq_mq *name,
                           const struct rq_subscription *sub, int32_t max_nums, int64_t poll_ms,
                           rmq_pop_result **out, rmq_error **err)
{
    int64_t deadline = rq_mono_ms() + poll_ms;
    for (;;) {
        int64_t left = deadline - rq_mono_ms();
        rmq_pop_result *result = NULL;
        rmq_status st = pop_once(consumer, name, sub, max_nums, left > 0 ? left : 0, &result, err);
        if (st != RMQ_OK || rmq_pop_result_count(result) > 0) {
            *out = result;
            return st;
        }
        rmq_pop_result_destroy(result);
    }
}

/* First queue of each broker, so that each broker is in it once. */
static size_t keep_brokers(rmq_queue_list *queues)
{
    size_t count = 0;
    for (size_t i = 0; i < queues->count; i++) {
        bool seen = false;
        for (size_t k = 0; k < count; k++) {
            seen = seen || strcmp(queues->items[k].broker_name, queues->items[i].broker_name) == 0;
        }
        if (!seen) {
            struct rq_mq other = queues->items[count];
            queues->items[count++] = queues->items[i];
            queues->items[i] = other;
        }
    }
    return count;
}

/* All brokers at once without waiting, then one of them with; a broker that fails is no reason not
 * to ask the others. */
static rmq_status pop_from_all(struct rmq_pop_consumer *consumer, rmq_queue_list *queues,
                               const struct rq_subscription *sub, int32_t max_nums, int64_t poll_ms,
                               rmq_pop_result **out, rmq_error **err)
{
    size_t count = keep_brokers(queues);
    size_t turn = atomic_fetch_add_explicit(&consumer->turn, 1, memory_order_relaxed);
    rmq_status st = RMQ_ERR_TIMEOUT;
    if (count == 0) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "the topic has no readable queues");
    }
    for (size_t i = 0; count > 1 && i < count; i++) {
        st = pop_from(consumer, &queues->items[(turn + i) % count], sub, max_nums, 0, out, NULL);
        if (st == RMQ_OK || st == RMQ_ERR_CLOSED) {
            return st == RMQ_OK ? st : rq_error_set(err, st, "the consumer is shut down");
        }
    }
    return pop_from(consumer, &queues->items[turn % count], sub, max_nums, poll_ms, out, err);
}

rmq_status rmq_pop_consumer_pop(rmq_pop_consumer *consumer, const char *topic,
                                const char *expression, int32_t max_nums, int64_t poll_ms,
                                rmq_pop_result **out, rmq_error **err)
{
    struct rq_subscription *sub = NULL;
    rmq_queue_list *queues = NULL;
    if (max_nums < 1 || max_nums > RQ_POP_MAX || poll_ms < 0 || poll_ms > POLL_MOST_MS) {
        return rq_error_set(err, RMQ_ERR_INVALID, "pop of %d messages (1 … 32), waiting %lld ms",
                            (int)max_nums, (long long)poll_ms);
    }
    char room[RQ_NAMESPACED_MAX];
    topic = rq_pop_consumer_full(consumer, topic, room);
    rmq_status st = rq_pop_consumer_enter(consumer, topic, out, "out", err);
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_subscription_create(topic, expression, RQ_EXPRESSION_TAG, 0, &sub, err);
    if (st == RMQ_OK) {
        st = rq_queue_list_fetch_brokers(consumer->instance, topic, ROUTE_TIMEOUT_MS, &queues, err);
    }
    if (st == RMQ_OK) {
        st = pop_from_all(consumer, queues, sub, max_nums, poll_ms, out, err);
    }
    rmq_queue_list_destroy(queues);
    rq_subscription_destroy(sub);
    rq_callbacks_leave(&consumer->callbacks);
    return st;
}

/* ---- life ---- */

static rmq_status load(const void *options, void *handle, rmq_error **err)
{
    struct rmq_pop_consumer *consumer = handle;
    return rq_pop_consumer_options_load(options, &consumer->options, err);
}

static rmq_status open_inside(void *handle, rmq_error **err)
{
    struct rmq_pop_consumer *consumer = handle;
    const rmq_pop_consumer_options *own = &consumer->options;
    const struct rq_instance_options wanted = {
        .namesrv_addr = own->namesrv_addr,
        .client_ip = own->client_ip,
        .instance_name = own->instance_name,
        .unit_name = own->unit_name,
        .namespace_v2 = own->namespace_v2,
        .poll_name_server_interval_ms = own->poll_name_server_interval_ms,
        .heartbeat_broker_interval_ms = RQ_HEARTBEAT_INTERVAL_MS,
        .serialize_type = own->serialize_type};
    rq_callbacks_init(&consumer->callbacks);
    rq_list_init(&consumer->pops);
    atomic_init(&consumer->turn, 0);
    return rq_instance_get(&wanted, &consumer->instance, err);
}

static void destroy(void *handle)
{
    rmq_pop_consumer_destroy(handle);
}

static const struct rq_handle_kind handle_kind = {.name = "pop consumer",
                                                  .size = sizeof(struct rmq_pop_consumer),
                                                  .load = load,
                                                  .open = open_inside,
                                                  .destroy = destroy};

rmq_status rmq_pop_consumer_create(const rmq_pop_consumer_options *options, rmq_pop_consumer **out,
                                   rmq_error **err)
{
    void *handle = NULL;
    rmq_status st = rq_handle_create(&handle_kind, options, out != NULL, &handle, err);
    if (out && st == RMQ_OK) {
        *out = handle;
    }
    return st;
}

rmq_status rmq_pop_consumer_create_from_config(const rmq_config *config, rmq_pop_consumer **out,
                                               rmq_error **err)
{
    const rmq_pop_consumer_options *from = config ? rq_config_pop_consumer(config) : NULL;
    if (!from) {
        return rq_error_set(err, RMQ_ERR_INVALID, "the configuration is not one of a pop consumer");
    }
    rmq_pop_consumer_options options = *from;
    options.struct_size = sizeof options;
    return rmq_pop_consumer_create(&options, out, err);
}

static void cancel_pops(void *arg)
{
    struct rmq_pop_consumer *consumer = arg;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->pops)
    {
        rq_queue_ask_cancel(&RQ_CONTAINER_OF(node, struct pop_op, node)->ask);
    }
}

rmq_status rmq_pop_consumer_shutdown(rmq_pop_consumer *consumer, rmq_error **err)
{
    if (!consumer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer is NULL");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    rq_callbacks_close(&consumer->callbacks);
    rq_instance_run(consumer->instance, cancel_pops, consumer);
    rq_callbacks_wait(&consumer->callbacks);
    return RMQ_OK;
}

void rmq_pop_consumer_destroy(rmq_pop_consumer *consumer)
{
    if (!consumer || (consumer->instance && rq_instance_forked(consumer->instance))) {
        return; /* in a forked child the handle stays the parent's */
    }
    if (consumer->instance) {
        rmq_pop_consumer_shutdown(consumer, NULL);
        rq_instance_put(consumer->instance);
    }
    rq_callbacks_destroy(&consumer->callbacks);
    rq_table_free(&rq_pop_consumer_table, &consumer->options);
    rq_free(consumer);
}

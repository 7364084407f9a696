/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * An administrator has one message consumed by this member, now: it comes in the request, a worker
 * gives it to the listener, and the answer says what the listener said. Offsets and queues are not
 * touched. The I/O thread begins it. Counterpart: consumeMessageDirectly of the consume services.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "wire/bodies.h"

struct direct {
    struct rq_pool_job job;
    struct rmq_consumer *consumer; /* referenced */
    struct rq_peer *peer;          /* held: its broker may leave all routes meanwhile */
    int32_t opaque;
    int32_t flag;
    struct rq_views *views;
};

static void answer(const struct direct *direct, int code, const char *remark, struct rq_slice body)
{
    rq_instance_answer(direct->consumer->instance, direct->peer, direct->opaque, direct->flag, code,
                       remark, body);
}

static void free_direct(struct direct *direct)
{
    rq_views_release(direct->views);
    rq_peer_put(direct->peer);
    rq_consumer_release(direct->consumer);
    rq_free(direct);
}

static const char *result_name(bool orderly, rmq_consume_result result)
{
    switch (result) {
    case RMQ_CONSUME_SUCCESS:
        return "CR_SUCCESS";
    case RMQ_CONSUME_COMMIT:
        return orderly ? "CR_COMMIT" : "CR_SUCCESS";
    case RMQ_CONSUME_ROLLBACK:
        return orderly ? "CR_ROLLBACK" : "CR_LATER";
    case RMQ_RECONSUME_LATER:
    case RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT:
    default:
        return "CR_LATER";
    }
}

static void consume(struct direct *direct)
{
    struct rmq_consumer *consumer = direct->consumer;
    bool orderly = consumer->options.consume_orderly;
    struct rmq_message_view *view = &direct->views->items[0];
    const rmq_message_view *list[] = {view};
    struct rmq_consume_context context = RQ_CONTEXT_DEFAULT;
    struct rq_consume_directly result = {.order = orderly, .auto_commit = true};
    int64_t start_ms = rq_mono_ms();
    rmq_error *err = NULL;
    if (rq_view_expand(view, (size_t)consumer->options.max_message_size, &err) != RMQ_OK) {
        result.result = "CR_THROW_EXCEPTION";
        result.remark = rmq_error_message(err);
    } else {
        result.result =
            result_name(orderly, consumer->options.listener(list, 1, &context,
                                                            consumer->options.listener_user));
        result.auto_commit = !context.manual_commit;
    }
    result.spent_ms = rq_mono_ms() - start_ms;
    struct rq_buf json;
    rq_buf_init(&json, 0);
    rq_consume_directly_write(&result, &json);
    answer(direct, RQ_RESP_SUCCESS, NULL, rq_slice(json.data, json.len));
    rq_buf_free(&json);
    rmq_error_destroy(err);
}

static void on_turn(struct rq_pool_job *job, bool run)
{
    struct direct *direct = RQ_CONTAINER_OF(job, struct direct, job);
    if (run) {
        consume(direct);
    } else {
        answer(direct, RQ_RESP_SYSTEM_ERROR, "the consumer is shutting down", rq_slice(NULL, 0));
    }
    free_direct(direct);
}

static rmq_status decode(struct direct *direct, const struct rq_header *header, struct rq_in *frame)
{
    char broker[RQ_NAME_MAX] = "";
    struct rq_slice name = rq_header_ext(header, "brokerName");
    if (name.n < sizeof broker && name.p) {
        memcpy(broker, name.p, name.n);
        broker[name.n] = '\0';
    }
    struct rq_frame_ref *ref = rq_in_keep(frame);
    if (!ref) {
        return RMQ_ERR_NOMEM;
    }
    rmq_status st = rq_views_create(ref, frame->body, broker, &direct->views, NULL);
    if (st != RMQ_OK) {
        rq_frame_ref_release(ref);
    } else if (direct->views->count == 0) {
        st = RMQ_ERR_PROTOCOL;
    } else {
        struct rmq_message_view *view = &direct->views->items[0];
        view->topic = rq_receive_origin(direct->consumer, view);
        rq_view_strip(view, direct->consumer->options.namespace_name);
    }
    return st;
}

void rq_consume_directly(struct rmq_consumer *consumer, struct rq_peer *peer,
                         const struct rq_header *header, struct rq_in *frame)
{
    struct direct *direct = rq_calloc(1, sizeof *direct);
    if (!direct) {
        rq_instance_answer(consumer->instance, peer, header->opaque, header->flag,
                           RQ_RESP_SYSTEM_ERROR, "out of memory", rq_slice(NULL, 0));
        return;
    }
    atomic_fetch_add_explicit(&consumer->refs, 1, memory_order_relaxed);
    *direct = (struct direct){.job = {.turn = on_turn},
                              .consumer = consumer,
                              .peer = rq_peer_retain(peer),
                              .opaque = header->opaque,
                              .flag = header->flag};
    if (!consumer->options.listener) {
        answer(direct, RQ_RESP_SYSTEM_ERROR, "the consumer polls, it has no listener",
               rq_slice(NULL, 0));
    } else if (decode(direct, header, frame) != RMQ_OK) {
        answer(direct, RQ_RESP_SYSTEM_ERROR, "the message cannot be read", rq_slice(NULL, 0));
    } else if (!rq_pool_submit_job(&consumer->pool, &direct->job)) {
        answer(direct, RQ_RESP_SYSTEM_ERROR, "the consumer is shutting down", rq_slice(NULL, 0));
    } else {
        return;
    }
    free_direct(direct);
}

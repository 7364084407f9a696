/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Trace records of a consumer's listener calls, and the switch of its trace. Counterpart:
 * ConsumeMessageTraceHookImpl.
 */
#include "base/err.h"
#include "base/time.h"
#include "client/consumer_priv.h"
#include "client/pool_priv.h"
#include "client/trace.h"

#define CLOSE_MS 1000 /* for the last records to be sent */

rmq_consume_result rq_worker_listen(struct rq_worker *worker, uint32_t count,
                                    struct rmq_consume_context *context)
{
    const struct rq_pool_options *options = &worker->pool->options;
    struct rq_trace *trace =
        options->trace ? atomic_load_explicit(options->trace, memory_order_acquire) : NULL;
    if (!rq_trace_on(trace)) {
        return options->listener(worker->views, count, context, options->listener_user);
    }
    char id[RQ_TRACE_ID_SIZE];
    rq_trace_before(trace, worker->views, count, id);
    int64_t start = rq_mono_ms();
    rmq_consume_result result =
        options->listener(worker->views, count, context, options->listener_user);
    rq_trace_after(trace, worker->views, count, id, rq_mono_ms() - start,
                   result == RMQ_CONSUME_SUCCESS ? RQ_TRACE_RETURN_SUCCESS
                                                 : RQ_TRACE_RETURN_FAILED);
    return result;
}

static struct rq_trace *trace_of(const struct rmq_consumer *consumer)
{
    return atomic_load_explicit(&consumer->trace, memory_order_acquire);
}

static rmq_status make_trace(struct rmq_consumer *consumer, rmq_error **err)
{
    const struct rq_trace_options options = {
        .group = rq_consumer_plain(consumer, consumer->options.consumer_group),
        .topic = consumer->options.customized_trace_topic,
        .consumer = true,
        .batch_num = consumer->options.trace_msg_batch_num};
    struct rq_trace *trace = NULL;
    rmq_status st = rq_trace_create(consumer->instance, &options, &trace, err);
    struct rq_trace *seen = NULL;
    if (st == RMQ_OK &&
        !atomic_compare_exchange_strong_explicit(&consumer->trace, &seen, trace,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        rq_trace_destroy(trace); /* another thread was first */
    }
    return st;
}

rmq_status rmq_consumer_set_trace(rmq_consumer *consumer, bool on, rmq_error **err)
{
    if (!consumer) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer is NULL");
    }
    if (rq_instance_forked(consumer->instance)) {
        return rq_error_set(err, RMQ_ERR_FORKED, "the consumer belongs to the parent process");
    }
    if (!consumer->options.listener) {
        return rq_error_set(err, RMQ_ERR_STATE, "a consumer without listener leaves no trace");
    }
    rq_mutex_lock(&consumer->lock);
    bool open = consumer->state == RQ_CONSUMER_CREATED || consumer->state == RQ_CONSUMER_STARTED;
    rq_mutex_unlock(&consumer->lock);
    if (!open) {
        return rq_error_set(err, RMQ_ERR_CLOSED, "the consumer is shut down");
    }
    rmq_status st = on && !trace_of(consumer) ? make_trace(consumer, err) : RMQ_OK;
    if (st == RMQ_OK && trace_of(consumer)) {
        rq_trace_switch(trace_of(consumer), on);
    }
    return st;
}

void rmq_consumer_trace_counts(const rmq_consumer *consumer, uint64_t *sent, uint64_t *dropped)
{
    uint64_t counts[2] = {0, 0};
    if (consumer) {
        rq_trace_counts(trace_of(consumer), &counts[0], &counts[1]);
    }
    if (sent) {
        *sent = counts[0];
    }
    if (dropped) {
        *dropped = counts[1];
    }
}

void rq_consumer_trace_close(struct rmq_consumer *consumer)
{
    rq_trace_close(trace_of(consumer), CLOSE_MS);
}

void rq_consumer_trace_free(struct rmq_consumer *consumer)
{
    rq_trace_destroy(trace_of(consumer));
    atomic_store_explicit(&consumer->trace, NULL, memory_order_release);
}

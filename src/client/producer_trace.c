/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Trace records of a producer's sends and transactions, and the switch of its trace. Counterparts:
 * SendMessageTraceHookImpl, EndTransactionTraceHookImpl.
 */
#include "client/producer.h"

#include <string.h>

#include "base/err.h"
#include "base/time.h"
#include "client/send.h"
#include "client/trace.h"
#include "wire/namespace.h"
#include "wire/properties.h"

static const char *plain(const struct rmq_producer *producer, const char *name)
{
    return rq_namespace_plain(producer->options.namespace_name, name);
}

static enum rq_trace_kind kind_of(struct rq_slice properties)
{
    if (rq_slice_eq_str(rq_props_get(properties, RQ_PROP_TRAN_MSG), "true")) {
        return RQ_TRACE_HALF;
    }
    bool delayed = rq_props_get(properties, RQ_PROP_DELAY).p ||
                   rq_props_get(properties, RQ_PROP_TIMER_DELIVER_MS).p ||
                   rq_props_get(properties, RQ_PROP_TIMER_DELAY_SEC).p ||
                   rq_props_get(properties, RQ_PROP_TIMER_DELAY_MS).p;
    return delayed ? RQ_TRACE_DELAY : RQ_TRACE_NORMAL;
}

/* Takes what stands before the next comma off. */
static struct rq_slice next_of(struct rq_slice *list)
{
    const char *comma = list->n > 0 ? memchr(list->p, ',', list->n) : NULL;
    struct rq_slice first = rq_slice(list->p, comma ? (size_t)(comma - list->p) : list->n);
    *list = comma ? rq_slice(comma + 1, list->n - first.n - 1) : rq_slice(NULL, 0);
    return first;
}

/* One record for each id: those of a batch, too, are found one by one. */
static void write_each(struct rq_trace *trace, struct rq_trace_pub *record, struct rq_slice ids,
                       struct rq_slice offset_ids)
{
    while (ids.n > 0) {
        record->msg_id = next_of(&ids);
        record->offset_msg_id = next_of(&offset_ids);
        rq_trace_pub(trace, record);
    }
}

void rq_producer_trace_sent(struct rmq_producer *producer, const struct rq_send_op *op,
                            const struct rq_hdr_send_response *fields)
{
    struct rq_trace *trace = atomic_load_explicit(&producer->trace, memory_order_acquire);
    if (!rq_trace_on(trace) || rq_slice_eq_str(fields->trace_on, "false")) {
        return;
    }
    struct rq_slice properties = rq_slice(op->text.data + op->topic_len + 1, op->properties_len);
    const char *addr = rq_route_addr_of(op->queue.broker, RQ_MASTER_ID);
    struct rq_trace_pub record = {.time_ms = op->born_ms,
                                  .region = fields->msg_region,
                                  .topic = rq_slice_str(plain(producer, op->text.data)),
                                  .tags = rq_props_get(properties, RQ_PROP_TAGS),
                                  .keys = rq_props_get(properties, RQ_PROP_KEYS),
                                  .store_host = rq_slice_str(addr ? addr : ""),
                                  .body_size = op->body->size,
                                  .cost_ms = rq_mono_ms() - op->started_ms,
                                  .kind = kind_of(properties),
                                  .success = op->result.status == RMQ_SEND_OK};
    write_each(trace, &record, rq_slice_str(op->result.msg_id), fields->msg_id);
}

void rq_producer_trace_ended(struct rmq_producer *producer, struct rq_trace_end *record,
                             rmq_transaction_state state)
{
    struct rq_trace *trace = atomic_load_explicit(&producer->trace, memory_order_acquire);
    if (rq_trace_on(trace)) {
        record->time_ms = rq_wall_ms();
        record->topic = rq_slice_str(plain(producer, record->topic.p));
        record->kind = RQ_TRACE_COMMIT;
        record->state = rq_slice_str(state == RMQ_TRANSACTION_COMMIT     ? "COMMIT_MESSAGE"
                                     : state == RMQ_TRANSACTION_ROLLBACK ? "ROLLBACK_MESSAGE"
                                                                         : "UNKNOW");
        rq_trace_end(trace, record);
    }
}

static rmq_status make_trace(struct rmq_producer *producer, rmq_error **err)
{
    const struct rq_trace_options options = {.group =
                                                 plain(producer, producer->options.producer_group),
                                             .topic = producer->options.customized_trace_topic,
                                             .batch_num = producer->options.trace_msg_batch_num};
    struct rq_trace *trace = NULL;
    rmq_status st = rq_trace_create(producer->instance, &options, &trace, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_trace *seen = NULL;
    if (!atomic_compare_exchange_strong_explicit(&producer->trace, &seen, trace,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        rq_trace_destroy(trace); /* another thread was first */
    }
    return RMQ_OK;
}

rmq_status rmq_producer_set_trace(rmq_producer *producer, bool on, rmq_error **err)
{
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    if (on && !atomic_load_explicit(&producer->trace, memory_order_acquire)) {
        st = make_trace(producer, err);
    }
    struct rq_trace *trace = atomic_load_explicit(&producer->trace, memory_order_acquire);
    if (st == RMQ_OK && trace) {
        rq_trace_switch(trace, on);
    }
    rq_producer_leave(producer);
    return st;
}

void rmq_producer_trace_counts(const rmq_producer *producer, uint64_t *sent, uint64_t *dropped)
{
    uint64_t counts[2] = {0, 0};
    if (producer) {
        rq_trace_counts(atomic_load_explicit(&producer->trace, memory_order_acquire), &counts[0],
                        &counts[1]);
    }
    if (sent) {
        *sent = counts[0];
    }
    if (dropped) {
        *dropped = counts[1];
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Statistics of a producer, as a call and as an event. Written on the I/O thread, which owns the
 * records of brokers.
 */
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/events.h"
#include "client/fault.h"
#include "client/producer.h"
#include "client/send.h"
#include "client/trace.h"

static void add_number(struct rq_buf *out, const char *name, uint64_t value)
{
    rq_buf_addf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void add_text(struct rq_buf *out, const char *name, const char *value)
{
    rq_buf_addf(out, "\"%s\":", name);
    rq_json_add_string(out, rq_slice_str(value));
}

static void add_counts(struct rmq_producer *producer, struct rq_buf *out)
{
    struct rq_send_counts counts;
    int32_t window;
    int64_t window_bytes;
    rq_send_pool_counts(producer->pool, &counts, &window, &window_bytes);
    uint64_t over = counts.stored + counts.failed + counts.cut_off + counts.oneway;
    add_number(out, "sends", counts.sends);
    add_number(out, "messages", counts.messages);
    add_number(out, "bytes", counts.bytes);
    add_number(out, "stored", counts.stored);
    add_number(out, "failed", counts.failed);
    add_number(out, "maybeStored", counts.maybe_stored);
    add_number(out, "cutOff", counts.cut_off);
    add_number(out, "oneway", counts.oneway);
    add_number(out, "inFlight", counts.sends - over);
    add_number(out, "retries", counts.retries);
    add_number(out, "busy", counts.busy);
    add_number(out, "window", (uint64_t)window);
    add_number(out, "windowBytes", (uint64_t)window_bytes);
}

static void add_brokers(struct rmq_producer *producer, struct rq_buf *out)
{
    int64_t now = rq_mono_ms();
    size_t at = 0;
    const struct rq_broker_health *health;
    const char *comma = "";
    rq_buf_add_str(out, ",\"brokers\":[");
    while ((health = rq_instance_next_health(producer->instance, &at))) {
        rq_buf_addf(out, "%s{", comma);
        add_text(out, "name", health->name);
        rq_buf_addf(out,
                    ",\"usable\":%s,\"answers\":", rq_fault_usable(health, now) ? "true" : "false");
        rq_latency_write(&health->latency, out);
        rq_buf_add_char(out, '}');
        comma = ",";
    }
    rq_buf_add_str(out, "]}");
}

/* Loop. */
static void write_stats(struct rmq_producer *producer, struct rq_buf *out)
{
    uint64_t sent = 0;
    uint64_t dropped = 0;
    rq_trace_counts(atomic_load_explicit(&producer->trace, memory_order_acquire), &sent, &dropped);
    rq_buf_add_char(out, '{');
    add_text(out, "group", producer->options.producer_group);
    rq_buf_add_char(out, ',');
    add_text(out, "clientId", rq_instance_client_id(producer->instance));
    add_counts(producer, out);
    add_number(out, "traceSent", sent);
    add_number(out, "traceDropped", dropped);
    add_brokers(producer, out);
}

struct stats_call {
    struct rmq_producer *producer;
    struct rq_buf out;
};

static void write_on_loop(void *arg)
{
    struct stats_call *call = arg;
    write_stats(call->producer, &call->out);
}

rmq_status rmq_producer_stats(rmq_producer *producer, char **out, rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "statistics: out is NULL");
    }
    rmq_status st = rq_producer_enter(producer, err);
    if (st != RMQ_OK) {
        return st;
    }
    struct stats_call call = {.producer = producer};
    rq_buf_init(&call.out, 0);
    st = rq_instance_run(producer->instance, write_on_loop, &call);
    rq_producer_leave(producer);
    char *text =
        st == RMQ_OK && rq_buf_status(&call.out) == RMQ_OK ? rq_buf_detach(&call.out) : NULL;
    rq_buf_free(&call.out);
    if (!text) {
        return rq_error_set(err, st != RMQ_OK ? st : RMQ_ERR_NOMEM, "statistics");
    }
    *out = text;
    return RMQ_OK;
}

/* ---- the event: loop ---- */

static void post_stats(struct rmq_producer *producer)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    write_stats(producer, &text);
    char *owned = rq_buf_status(&text) == RMQ_OK ? rq_buf_detach(&text) : NULL;
    rq_buf_free(&text);
    struct rmq_event *event =
        owned ? rq_event_create(RMQ_EVENT_STATISTICS, producer, NULL, owned) : NULL;
    if (event) {
        rq_events_post(producer->options.events, event);
    } else {
        rq_free(owned);
    }
}

static void on_stats(struct rq_timer *timer)
{
    struct rmq_producer *producer = RQ_CONTAINER_OF(timer, struct rmq_producer, stats_timer);
    post_stats(producer);
    rq_timer_start(rq_instance_loop(producer->instance), timer,
                   producer->options.statistics_interval_ms);
}

void rq_producer_stats_start(struct rmq_producer *producer)
{
    rq_timer_init(&producer->stats_timer, on_stats);
    if (producer->options.statistics_interval_ms > 0 && producer->options.events) {
        rq_timer_start(rq_instance_loop(producer->instance), &producer->stats_timer,
                       producer->options.statistics_interval_ms);
    }
}

void rq_producer_stats_stop(struct rmq_producer *producer)
{
    rq_timer_stop(&producer->stats_timer);
}

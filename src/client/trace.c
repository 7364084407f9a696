/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Message trace (see the header). The messages go through a producer of their own on the traced
 * client's instance, which has no group at the brokers. */
#include "client/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "client/message.h"
#include "client/producer.h"
#include "client/unique_id.h"
#include "wire/names.h"
#include "wire/properties.h"

#define RECORDS_MAX    2048   /* that wait for their message's answer, the open batch included */
#define MESSAGE_MAX    128000 /* bytes of a trace message */
#define KEYS_MAX       16384  /* a message's properties have 32 KiB in all */
#define FLUSH_MS       5000   /* an open batch is sent after this time */
#define TIMEOUT_MS     5000
#define DEFAULT_REGION "DefaultRegion"

struct rq_trace {
    /* immutable after create */
    struct rq_instance *instance; /* held */
    rmq_producer *producer;
    char *topic;
    char *group;
    int32_t batch_num;

    atomic_bool on;               /* atomic: relaxed */
    atomic_uint_fast64_t sent;    /* atomic: relaxed */
    atomic_uint_fast64_t dropped; /* atomic: relaxed */
    atomic_int waiting;           /* atomic: relaxed: records whose message is under way */
    atomic_bool failing;          /* atomic: relaxed: the last message failed; logged */

    struct rq_mutex lock; /* rank 45: the open batch; only the loop is posted to with it */
    struct rq_buf data;   /* guarded by lock */
    struct rq_buf keys;   /* guarded by lock */
    int32_t count;        /* guarded by lock: records in data */
    bool armed;           /* guarded by lock: arm was posted or the timer runs */
    bool closed;          /* guarded by lock */

    struct rq_task arm;    /* owned by the loop once posted */
    struct rq_timer timer; /* owned by the loop */
};

/* A batch that is on its way. */
struct shipment {
    struct rq_trace *trace;
    int32_t count;
};

static void note_failure(struct rq_trace *trace, const char *words)
{
    if (!atomic_exchange_explicit(&trace->failing, true, memory_order_relaxed)) {
        RQ_LOG(WARN, "trace records are lost", "topic=%s group=%s: %s", trace->topic, trace->group,
               words);
    }
}

static void shipped(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct shipment *shipment = user;
    struct rq_trace *trace = shipment->trace;
    uint_fast64_t n = (uint_fast64_t)shipment->count;
    if (result) {
        atomic_fetch_add_explicit(&trace->sent, n, memory_order_relaxed);
        atomic_store_explicit(&trace->failing, false, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&trace->dropped, n, memory_order_relaxed);
        note_failure(trace, rmq_error_message(err));
    }
    atomic_fetch_sub_explicit(&trace->waiting, shipment->count, memory_order_relaxed);
    rq_free(shipment);
}

static void free_text(void *data, void *user)
{
    (void)user;
    rq_free(data);
}

static rmq_status send_batch(struct rq_trace *trace, struct rq_buf *data, struct rq_buf *keys,
                             struct shipment *shipment, rmq_error **err)
{
    rmq_message *message = NULL;
    rmq_status st = rmq_message_create(trace->topic, &message, err);
    if (st != RMQ_OK) {
        return st;
    }
    size_t size = data->len;
    char *text = rq_buf_status(keys) == RMQ_OK ? rq_buf_detach(data) : NULL;
    st = text ? rmq_message_take_body(message, text, size, free_text, NULL) : RMQ_ERR_NOMEM;
    if (st != RMQ_OK) {
        rq_free(text);
    } else {
        st = rq_message_put(message, RQ_PROP_KEYS, rq_buf_cstr(keys));
    }
    if (st == RMQ_OK) {
        st = rq_producer_send_inner(trace->producer, message, shipped, shipment, err);
    } else {
        rq_error_set(err, st, "trace message: %s", rmq_status_text(st));
    }
    rmq_message_destroy(message);
    return st;
}

/* Sends a batch that was taken off. Its buffers are freed. */
static void ship(struct rq_trace *trace, struct rq_buf *data, struct rq_buf *keys, int32_t count)
{
    rmq_error *err = NULL;
    struct shipment *shipment = count > 0 ? rq_alloc(sizeof *shipment) : NULL;
    if (shipment) {
        *shipment = (struct shipment){.trace = trace, .count = count};
        atomic_fetch_add_explicit(&trace->waiting, count, memory_order_relaxed);
        if (send_batch(trace, data, keys, shipment, &err) != RMQ_OK) {
            shipped(NULL, err, shipment);
        }
    } else {
        atomic_fetch_add_explicit(&trace->dropped, (uint_fast64_t)count, memory_order_relaxed);
    }
    rmq_error_destroy(err);
    rq_buf_free(data);
    rq_buf_free(keys);
}

static int32_t take_locked(struct rq_trace *trace, struct rq_buf *data, struct rq_buf *keys)
{
    int32_t count = trace->count;
    *data = trace->data;
    *keys = trace->keys;
    rq_buf_init(&trace->data, 0);
    rq_buf_init(&trace->keys, 0);
    trace->count = 0;
    return count;
}

static void flush(struct rq_trace *trace)
{
    struct rq_buf data, keys;
    rq_mutex_lock(&trace->lock);
    int32_t count = take_locked(trace, &data, &keys);
    rq_mutex_unlock(&trace->lock);
    ship(trace, &data, &keys, count);
}

/* ---- the timer ---- */

static void fire(struct rq_timer *timer)
{
    struct rq_trace *trace = RQ_CONTAINER_OF(timer, struct rq_trace, timer);
    rq_mutex_lock(&trace->lock);
    trace->armed = false;
    rq_mutex_unlock(&trace->lock);
    flush(trace);
}

static void arm(struct rq_task *task)
{
    struct rq_trace *trace = RQ_CONTAINER_OF(task, struct rq_trace, arm);
    rq_timer_start(rq_instance_loop(trace->instance), &trace->timer, FLUSH_MS);
}

static void disarm(void *arg)
{
    struct rq_trace *trace = arg;
    rq_timer_stop(&trace->timer);
}

/* ---- records ---- */

static bool is_full(struct rq_trace *trace)
{
    return trace->count + atomic_load_explicit(&trace->waiting, memory_order_relaxed) >=
           RECORDS_MAX;
}

/* Begins a record: true with the lock held, or it is dropped. */
static bool begin_locked(struct rq_trace *trace)
{
    rq_mutex_lock(&trace->lock);
    if (!trace->closed && !is_full(trace)) {
        return true;
    }
    rq_mutex_unlock(&trace->lock);
    atomic_fetch_add_explicit(&trace->dropped, 1, memory_order_relaxed);
    return false;
}

/* Ends it and gives the lock back. */
static void end_locked(struct rq_trace *trace, struct rq_slice msg_id, struct rq_slice words)
{
    struct rq_buf data, keys;
    int32_t taken = 0;
    rq_trace_add_keys(&trace->keys, msg_id);
    rq_trace_add_keys(&trace->keys, words);
    trace->count++;
    bool due = trace->count >= trace->batch_num || trace->data.len >= MESSAGE_MAX ||
               trace->keys.len >= KEYS_MAX;
    bool wake = !due && !trace->armed;
    if (due) {
        taken = take_locked(trace, &data, &keys);
    }
    if (wake) { /* with the lock: who closes the trace stops the timer behind this */
        trace->armed = rq_loop_post(rq_instance_loop(trace->instance), &trace->arm);
    }
    rq_mutex_unlock(&trace->lock);
    if (due) {
        ship(trace, &data, &keys, taken);
    }
}

static struct rq_slice region_or_default(struct rq_slice region)
{
    return region.n > 0 ? region : rq_slice_str(DEFAULT_REGION);
}

void rq_trace_pub(struct rq_trace *trace, struct rq_trace_pub *record)
{
    record->group = rq_slice_str(trace->group);
    record->region = region_or_default(record->region);
    if (begin_locked(trace)) {
        rq_trace_write_pub(&trace->data, record);
        end_locked(trace, record->msg_id, record->keys);
    }
}

void rq_trace_end(struct rq_trace *trace, struct rq_trace_end *record)
{
    record->group = rq_slice_str(trace->group);
    record->region = region_or_default(record->region);
    if (begin_locked(trace)) {
        rq_trace_write_end(&trace->data, record);
        end_locked(trace, record->msg_id, record->keys);
    }
}

/* false: the broker says that this message leaves no trace. */
static bool fill_sub(const struct rq_trace *trace, const rmq_message_view *view,
                     struct rq_trace_sub *record)
{
    if (strcmp(rmq_message_view_property(view, RQ_PROP_TRACE_ON), "false") == 0) {
        return false;
    }
    record->region =
        region_or_default(rq_slice_str(rmq_message_view_property(view, RQ_PROP_MSG_REGION)));
    record->group = rq_slice_str(trace->group);
    record->msg_id = rq_slice_str(rmq_message_view_id(view));
    record->keys = rq_slice_str(rmq_message_view_keys(view));
    record->retries = rmq_message_view_reconsume_times(view);
    return true;
}

void rq_trace_before(struct rq_trace *trace, const rmq_message_view *const *views, size_t count,
                     char *request_id)
{
    size_t n = rq_unique_id(rq_mono_ms(), request_id);
    struct rq_trace_sub record = {.time_ms = rq_wall_ms(), .request_id = rq_slice(request_id, n)};
    for (size_t i = 0; i < count; i++) {
        if (fill_sub(trace, views[i], &record) && begin_locked(trace)) {
            rq_trace_write_before(&trace->data, &record);
            end_locked(trace, record.msg_id, record.keys);
        }
    }
}

void rq_trace_after(struct rq_trace *trace, const rmq_message_view *const *views, size_t count,
                    const char *request_id, int64_t took_ms, enum rq_trace_return outcome)
{
    struct rq_trace_sub record = {.time_ms = rq_wall_ms(),
                                  .request_id = rq_slice_str(request_id),
                                  .cost_ms = count > 0 ? took_ms / (int64_t)count : 0,
                                  .success = outcome == RQ_TRACE_RETURN_SUCCESS,
                                  .outcome = outcome};
    for (size_t i = 0; i < count; i++) {
        if (fill_sub(trace, views[i], &record) && begin_locked(trace)) {
            rq_trace_write_after(&trace->data, &record);
            end_locked(trace, record.msg_id, record.keys);
        }
    }
}

/* ---- life ---- */

static rmq_status make_producer(struct rq_trace *trace, const struct rq_trace_options *options,
                                rmq_error **err)
{
    rmq_producer_options inner;
    char group[RQ_GROUP_MAX + 1];
    rmq_producer_options_init(&inner, sizeof inner);
    (void)snprintf(group, sizeof group, "_INNER_TRACE_PRODUCER-%.200s-%s", options->group,
                   options->consumer ? "CONSUME" : "PRODUCE");
    inner.producer_group = group;
    inner.send_msg_timeout_ms = TIMEOUT_MS;
    return rq_producer_create_inner(trace->instance, &inner, &trace->producer, err);
}

static void free_trace(struct rq_trace *trace)
{
    rmq_producer_destroy(trace->producer);
    rq_instance_put(trace->instance);
    rq_buf_free(&trace->data);
    rq_buf_free(&trace->keys);
    rq_mutex_destroy(&trace->lock);
    rq_free(trace->topic);
    rq_free(trace->group);
    rq_free(trace);
}

rmq_status rq_trace_create(struct rq_instance *instance, const struct rq_trace_options *options,
                           struct rq_trace **out, rmq_error **err)
{
    const char *topic = options->topic && *options->topic ? options->topic : RQ_TOPIC_TRACE;
    rmq_status st = rq_topic_check(rq_slice_str(topic), err);
    if (st != RMQ_OK) {
        return st;
    }
    struct rq_trace *trace = rq_calloc(1, sizeof *trace);
    if (!trace) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "message trace");
    }
    rq_instance_retain(instance);
    trace->instance = instance;
    trace->batch_num = options->batch_num;
    atomic_init(&trace->on, true);
    rq_mutex_init(&trace->lock);
    rq_buf_init(&trace->data, 0);
    rq_buf_init(&trace->keys, 0);
    trace->arm.run = arm;
    rq_timer_init(&trace->timer, fire);
    trace->topic = rq_strdup(topic);
    trace->group = rq_strdup(options->group);
    st = trace->topic && trace->group ? make_producer(trace, options, err)
                                      : rq_error_set(err, RMQ_ERR_NOMEM, "message trace");
    if (st != RMQ_OK) {
        free_trace(trace);
        return st;
    }
    *out = trace;
    return RMQ_OK;
}

void rq_trace_close(struct rq_trace *trace, int64_t timeout_ms)
{
    if (!trace) {
        return;
    }
    rq_mutex_lock(&trace->lock);
    bool first = !trace->closed;
    trace->closed = true;
    rq_mutex_unlock(&trace->lock);
    if (first) {
        atomic_store_explicit(&trace->on, false, memory_order_relaxed);
        /* What was posted before runs before this. */
        (void)rq_instance_run(trace->instance, disarm, trace);
        flush(trace);
        (void)rmq_producer_shutdown(trace->producer, timeout_ms, NULL);
    }
}

void rq_trace_destroy(struct rq_trace *trace)
{
    if (trace) {
        rq_trace_close(trace, 0);
        free_trace(trace);
    }
}

void rq_trace_switch(struct rq_trace *trace, bool on)
{
    atomic_store_explicit(&trace->on, on, memory_order_relaxed);
}

bool rq_trace_on(const struct rq_trace *trace)
{
    return trace && atomic_load_explicit(&trace->on, memory_order_relaxed);
}

void rq_trace_counts(const struct rq_trace *trace, uint64_t *sent, uint64_t *dropped)
{
    *sent = trace ? atomic_load_explicit(&trace->sent, memory_order_relaxed) : 0;
    *dropped = trace ? atomic_load_explicit(&trace->dropped, memory_order_relaxed) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Appending messages: whether the store takes any now, the plan of each record, and the turn at the
 * commit log. Any thread. Counterpart: DefaultMessageStore.asyncPutMessage.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "store/store_priv.h"
#include "wire/properties.h"

#define HELD_MAX_MS 10000000 /* a longer time is a wall clock that was set */

static const char *const put_names[] = {
    [RQ_PUT_OK] = "PUT_OK",
    [RQ_PUT_FLUSH_DISK_TIMEOUT] = "FLUSH_DISK_TIMEOUT",
    [RQ_PUT_SERVICE_NOT_AVAILABLE] = "SERVICE_NOT_AVAILABLE",
    [RQ_PUT_CREATE_MAPPED_FILE_FAILED] = "CREATE_MAPPED_FILE_FAILED",
    [RQ_PUT_MESSAGE_ILLEGAL] = "MESSAGE_ILLEGAL",
    [RQ_PUT_PROPERTIES_SIZE_EXCEEDED] = "PROPERTIES_SIZE_EXCEEDED",
    [RQ_PUT_OS_PAGE_CACHE_BUSY] = "OS_PAGE_CACHE_BUSY",
    [RQ_PUT_UNKNOWN_ERROR] = "UNKNOWN_ERROR",
};

const char *rq_put_status_name(enum rq_put_status status)
{
    size_t i = (size_t)status;
    return i < sizeof put_names / sizeof put_names[0] ? put_names[i] : "UNKNOWN_ERROR";
}

bool rq_store_refuses(struct rq_store *store, char reason[RQ_PUT_REASON_MAX])
{
    unsigned health = atomic_load_explicit(&store->health, memory_order_relaxed);
    reason[0] = '\0';
    if (health == 0) {
        return false;
    }
    if (health & RQ_HEALTH_CLOSING) {
        snprintf(reason, RQ_PUT_REASON_MAX, "the store is closing");
    } else if (health & RQ_HEALTH_FLUSH) {
        rq_mutex_lock(&store->flusher.lock);
        snprintf(reason, RQ_PUT_REASON_MAX, "the commit log cannot be written to disk: %.110s",
                 store->flusher.failure);
        rq_mutex_unlock(&store->flusher.lock);
    } else if (health & RQ_HEALTH_DISPATCH) {
        rq_mutex_lock(&store->flusher.lock);
        snprintf(reason, RQ_PUT_REASON_MAX, "queue entries cannot be written: %.110s",
                 store->flusher.dispatch_failure);
        rq_mutex_unlock(&store->flusher.lock);
    } else {
        snprintf(reason, RQ_PUT_REASON_MAX, "disk full");
    }
    return true;
}

bool rq_store_is_busy(struct rq_store *store)
{
    int64_t held_ms = rq_commit_log_held_ms(&store->log);
    return held_ms > store->options.os_page_cache_busy_time_out_mills && held_ms < HELD_MAX_MS;
}

/* Under the append lock. The queue may have been deleted since it was found. */
static enum rq_put_status append_locked(struct rq_store *store, struct rq_append *append,
                                        struct rq_store_put *out)
{
    if (atomic_load_explicit(&append->queue->removed, memory_order_relaxed)) {
        rq_consume_queue_release(append->queue);
        append->queue = NULL;
        rmq_status st = rq_queue_table_get(&store->queues, append->msgs[0].topic,
                                           append->msgs[0].queue_id, &append->queue);
        if (st != RMQ_OK) {
            snprintf(out->reason, sizeof out->reason, "queue: %s", rmq_status_text(st));
            return RQ_PUT_UNKNOWN_ERROR;
        }
    }
    return rq_commit_log_append_locked(&store->log, append, out);
}

static enum rq_put_status append(struct rq_store *store, struct rq_append *append,
                                 struct rq_store_put *out)
{
    const struct rq_msg *first = &append->msgs[0];
    if (rq_store_refuses(store, out->reason)) {
        return out->status = RQ_PUT_SERVICE_NOT_AVAILABLE;
    }
    if (rq_store_is_busy(store)) {
        snprintf(out->reason, sizeof out->reason, "an append waits for the system's memory");
        return out->status = RQ_PUT_OS_PAGE_CACHE_BUSY;
    }
    if (store->log.buffers.on && store->options.fast_fail_if_no_buffer_in_store_pool &&
        !rq_write_buffers_any(&store->log.buffers)) {
        snprintf(out->reason, sizeof out->reason, "no write buffer is free");
        return out->status = RQ_PUT_OS_PAGE_CACHE_BUSY;
    }
    rmq_status st =
        rq_queue_table_get(&store->queues, first->topic, first->queue_id, &append->queue);
    if (st != RMQ_OK) {
        snprintf(out->reason, sizeof out->reason, "queue: %s", rmq_status_text(st));
        out->status = st == RMQ_ERR_INVALID ? RQ_PUT_MESSAGE_ILLEGAL : RQ_PUT_UNKNOWN_ERROR;
        return out->status;
    }
    unsigned long long turn = atomic_load_explicit(&store->log.put_messages, memory_order_relaxed);
    bool measured = turn % RQ_METRICS_APPEND_STEP == 0;
    int64_t began_us = measured ? rq_mono_us() : 0;
    rq_commit_log_enter(&store->log);
    out->status = append_locked(store, append, out);
    rq_commit_log_leave(&store->log);
    rq_consume_queue_release(append->queue);
    if (measured) {
        rq_histogram_add(&store->metrics.append_us, rq_mono_us() - began_us);
    }
    return out->status;
}

static enum rq_put_status append_one(struct rq_store *store, const struct rq_msg *msg,
                                     size_t body_max, struct rq_store_put *out)
{
    struct rq_record_plan plan;
    out->reason[0] = '\0';
    out->status = rq_record_plan(&store->options, msg, body_max, &plan, out->reason);
    if (out->status != RQ_PUT_OK) {
        return out->status;
    }
    struct rq_append one = {.msgs = msg, .plans = &plan, .count = 1, .total = plan.size};
    return append(store, &one, out);
}

/* A record that is stored again brings the CRC of its old place along, which goes. */
static enum rq_put_status append_without_crc(struct rq_store *store, const struct rq_msg *msg,
                                             size_t body_max, struct rq_store_put *out)
{
    static const char *const names[] = {RQ_RECORD_CRC_NAME};
    struct rq_msg clean = *msg;
    struct rq_buf properties;
    rq_buf_init(&properties, 0);
    rq_props_copy_without(&properties, 0, msg->properties, names, 1);
    clean.properties = rq_slice(properties.data, properties.len);
    if (rq_buf_status(&properties)) {
        snprintf(out->reason, sizeof out->reason, "out of memory");
        out->status = RQ_PUT_UNKNOWN_ERROR;
    } else {
        append_one(store, &clean, body_max, out);
    }
    rq_buf_free(&properties);
    return out->status;
}

static enum rq_put_status append_up_to(struct rq_store *store, const struct rq_msg *msg,
                                       size_t body_max, struct rq_store_put *out)
{
    return store->options.enabled_append_prop_crc &&
                   rq_props_get(msg->properties, RQ_RECORD_CRC_NAME).p
               ? append_without_crc(store, msg, body_max, out)
               : append_one(store, msg, body_max, out);
}

enum rq_put_status rq_store_append(struct rq_store *store, const struct rq_msg *msg,
                                   struct rq_store_put *out)
{
    return append_up_to(store, msg, (size_t)store->options.max_message_size, out);
}

enum rq_put_status rq_store_append_own(struct rq_store *store, const struct rq_msg *msg,
                                       struct rq_store_put *out)
{
    return append_up_to(store, msg, RQ_RECORD_BODY_MAX, out);
}

static enum rq_put_status plan_batch(struct rq_store *store, const struct rq_msg *msgs,
                                     size_t count, struct rq_record_plan *plans, size_t *total,
                                     char *reason)
{
    size_t body_max = (size_t)store->options.max_message_size;
    *total = 0;
    for (size_t i = 0; i < count; i++) {
        if (!rq_slice_eq(msgs[i].topic, msgs[0].topic) || msgs[i].queue_id != msgs[0].queue_id) {
            snprintf(reason, RQ_PUT_REASON_MAX, "a batch has one topic and queue");
            return RQ_PUT_MESSAGE_ILLEGAL;
        }
        enum rq_put_status st =
            rq_record_plan(&store->options, &msgs[i], body_max, &plans[i], reason);
        if (st != RQ_PUT_OK) {
            return st;
        }
        *total += plans[i].size;
    }
    return RQ_PUT_OK;
}

enum rq_put_status rq_store_append_batch(struct rq_store *store, const struct rq_msg *msgs,
                                         size_t count, int64_t *offsets, struct rq_store_put *out)
{
    out->reason[0] = '\0';
    if (count == 0) {
        snprintf(out->reason, sizeof out->reason, "empty batch");
        return out->status = RQ_PUT_MESSAGE_ILLEGAL;
    }
    struct rq_record_plan *plans = rq_calloc(count, sizeof *plans);
    if (!plans) {
        snprintf(out->reason, sizeof out->reason, "out of memory");
        return out->status = RQ_PUT_UNKNOWN_ERROR;
    }
    size_t total;
    out->status = plan_batch(store, msgs, count, plans, &total, out->reason);
    if (out->status == RQ_PUT_OK) {
        struct rq_append all = {
            .msgs = msgs, .plans = plans, .count = count, .total = total, .offsets = offsets};
        append(store, &all, out);
    }
    rq_free(plans);
    return out->status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Handles of popped messages and the requests made of them (see the header). */
#include "client/popped.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "wire/properties.h"

#define BITS_MAX 128 /* of one piece; what is further from its start is acknowledged by itself */

/* ---- handles ---- */

static void add_handle(struct rq_popped *popped, size_t i, const struct rq_pop_handle *common,
                       const struct rq_hdr_pop_response *head, struct rmq_message_view *view)
{
    const char *own = rq_view_property(view, RQ_PROP_POP_CK);
    popped->at[i] = popped->handles.len;
    if (own && *own) {
        rq_buf_add_str(&popped->handles, own);
    } else {
        struct rq_pop_handle handle = *common;
        handle.retry = rq_pop_retry_mark(rq_slice_str(view->topic));
        handle.queue_id = view->queue_id;
        handle.offset = view->queue_offset;
        if (!rq_pop_find_start(head->start_offset_info, handle.retry, view->queue_id,
                               &handle.start_offset)) {
            handle.start_offset = view->queue_offset;
        }
        rq_pop_handle_write(&handle, &popped->handles);
        int32_t times = rq_pop_find_order_count(head->order_count_info, handle.retry,
                                                view->queue_id, view->queue_offset);
        view->reconsume_times = times > view->reconsume_times ? times : view->reconsume_times;
    }
    rq_buf_add_char(&popped->handles, '\0');
}

rmq_status rq_popped_create(struct rq_views *views, const struct rq_header *header,
                            const char *broker_name, int64_t now_ms, struct rq_popped **out,
                            rmq_error **err)
{
    struct rq_hdr_pop_response head;
    rmq_status st = rq_fields_decode(&rq_tab_pop_response, header, &head, err);
    if (st != RMQ_OK) {
        return st;
    }
    if (!rq_pop_number_ok(head.pop_time) || !rq_pop_number_ok(head.invisible_time)) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL,
                            "answer to a pop: popTime %lld, invisibleTime %lld",
                            (long long)head.pop_time, (long long)head.invisible_time);
    }
    struct rq_popped *popped = rq_alloc(sizeof *popped + views->count * sizeof popped->at[0]);
    if (!popped) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%zu popped messages", views->count);
    }
    const struct rq_pop_handle common = {.pop_time_ms = head.pop_time,
                                         .invisible_ms = head.invisible_time,
                                         .revive_qid = head.revive_qid,
                                         .broker_name = rq_slice_str(broker_name)};
    atomic_init(&popped->refs, 1);
    popped->expires_ms = now_ms + head.invisible_time;
    rq_buf_init(&popped->handles, 0);
    for (size_t i = 0; i < views->count; i++) {
        add_handle(popped, i, &common, &head, &views->items[i]);
    }
    if (rq_buf_status(&popped->handles) != RMQ_OK) {
        rq_popped_release(popped);
        return rq_error_set(err, RMQ_ERR_NOMEM, "handles of %zu popped messages", views->count);
    }
    *out = popped;
    return RMQ_OK;
}

void rq_popped_retain(struct rq_popped *popped)
{
    atomic_fetch_add_explicit(&popped->refs, 1, memory_order_relaxed);
}

void rq_popped_release(struct rq_popped *popped)
{
    if (popped && atomic_fetch_sub_explicit(&popped->refs, 1, memory_order_acq_rel) == 1) {
        rq_buf_free(&popped->handles);
        rq_free(popped);
    }
}

/* ---- one message ---- */

bool rq_pop_place_read(const char *group, const char *topic, const char *handle,
                       struct rq_pop_place *out)
{
    struct rq_pop_handle *pieces = &out->handle;
    if (!rq_pop_handle_parse(rq_slice_str(handle), pieces) || pieces->queue_id < 0 ||
        pieces->offset < 0 || pieces->broker_name.n >= sizeof out->broker_name ||
        !rq_pop_marked_topic(rq_slice_str(topic), rq_slice_str(group), pieces->retry, out->room,
                             &out->topic)) {
        return false;
    }
    memcpy(out->broker_name, pieces->broker_name.p, pieces->broker_name.n);
    out->broker_name[pieces->broker_name.n] = '\0';
    return true;
}

struct rq_hdr_ack rq_pop_place_header(const struct rq_pop_place *place, const char *group,
                                      const char *handle)
{
    return (struct rq_hdr_ack){.consumer_group = rq_slice_str(group),
                               .topic = place->topic,
                               .queue_id = place->handle.queue_id,
                               .extra_info = rq_slice_str(handle),
                               .offset = place->handle.offset};
}

/* ---- many ---- */

static bool same_pop(const struct rq_pop_handle *a, const struct rq_pop_handle *b)
{
    return a->start_offset == b->start_offset && a->pop_time_ms == b->pop_time_ms &&
           a->revive_qid == b->revive_qid && a->retry == b->retry && a->queue_id == b->queue_id &&
           rq_slice_eq(a->broker_name, b->broker_name);
}

/* The piece that begins with a handle: all of the same pop and queue. */
static void add_piece(struct rq_pop_acks *acks, size_t first, struct rq_buf *out)
{
    struct rq_pop_handle head;
    uint8_t bits[BITS_MAX / 8] = {0};
    size_t bytes = 0;
    (void)rq_pop_handle_parse(rq_slice_str(acks->handles[first]), &head);
    struct rq_pop_batch_ack piece = {.group = rq_slice_str(acks->group),
                                     .topic = rq_slice_str(acks->topic),
                                     .retry = head.retry,
                                     .start_offset = head.start_offset,
                                     .queue_id = head.queue_id,
                                     .revive_qid = head.revive_qid,
                                     .pop_time_ms = head.pop_time_ms,
                                     .invisible_ms = head.invisible_ms};
    for (size_t i = first; i < acks->count; i++) {
        struct rq_pop_handle handle;
        if (acks->done[i] || !rq_pop_handle_parse(rq_slice_str(acks->handles[i]), &handle) ||
            !same_pop(&head, &handle)) {
            continue;
        }
        int64_t bit = handle.offset - head.start_offset;
        if (bit >= 0 && bit < BITS_MAX) {
            size_t at = (size_t)bit / 8;
            bits[at] |= (uint8_t)(1u << bit % 8);
            bytes = at + 1 > bytes ? at + 1 : bytes;
            acks->done[i] = true;
        }
    }
    piece.bits = rq_slice(bits, bytes);
    rq_pop_batch_ack_write(&piece, out);
}

bool rq_pop_acks_fits(const struct rq_pop_acks *acks, size_t i, struct rq_slice broker_name)
{
    struct rq_pop_handle handle;
    return !acks->done[i] && rq_pop_handle_parse(rq_slice_str(acks->handles[i]), &handle) &&
           rq_slice_eq(handle.broker_name, broker_name) && handle.offset >= handle.start_offset &&
           handle.offset - handle.start_offset < BITS_MAX;
}

void rq_pop_acks_write(struct rq_pop_acks *acks, struct rq_slice broker_name, struct rq_buf *out)
{
    bool any = false;
    rq_buf_add_str(out, "{\"acks\":[");
    for (size_t i = 0; i < acks->count; i++) {
        if (rq_pop_acks_fits(acks, i, broker_name)) {
            rq_buf_add_str(out, any ? "," : "");
            add_piece(acks, i, out);
            any = true;
        }
    }
    rq_buf_add_str(out, "],\"brokerName\":");
    rq_json_add_string(out, broker_name);
    rq_buf_add_char(out, '}');
}

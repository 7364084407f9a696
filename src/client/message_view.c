/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_message_view: what a program asks of a received message (views.c makes it). Any thread. What
 * needs a format of its own (hosts, the offset id) is made on demand and published by one atomic
 * pointer. Counterpart: MessageExt.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/message.h"
#include "wire/compress.h"
#include "wire/message.h"
#include "wire/msgid.h"
#include "wire/properties.h"

struct rq_view_text {
    char born_host[RQ_HOST_TEXT];
    char store_host[RQ_HOST_TEXT];
    char offset_id[RQ_MSGID_MAX + 1];
};

const rmq_message_view *rmq_message_view_retain(const rmq_message_view *view)
{
    if (view) {
        rq_views_retain(view->views);
    }
    return view;
}

void rmq_message_view_release(const rmq_message_view *view)
{
    if (view) {
        rq_views_release(view->views);
    }
}

rmq_status rq_view_expand(struct rmq_message_view *view, size_t max, rmq_error **err)
{
    if (!(view->sys_flag & RQ_SYS_COMPRESSED) ||
        atomic_load_explicit(&view->expanded, memory_order_acquire)) {
        return RMQ_OK;
    }
    enum rq_compression type;
    char *data = NULL;
    size_t size = 0;
    rmq_status st = rq_compression_of_sys_flag(view->sys_flag, &type, err);
    if (st == RMQ_OK) {
        st = rq_decompress(type, view->body, view->body_size, max, &data, &size, err);
    }
    if (st != RMQ_OK) {
        return st == RMQ_ERR_PROTOCOL ? RMQ_ERR_CORRUPT : st;
    }
    view->expanded_size = size;
    atomic_store_explicit(&view->expanded, data, memory_order_release);
    return RMQ_OK;
}

const void *rmq_message_view_body(const rmq_message_view *view, size_t *size)
{
    const char *data = view ? atomic_load_explicit(&view->expanded, memory_order_acquire) : NULL;
    if (size) {
        *size = !view ? 0 : data ? view->expanded_size : view->body_size;
    }
    return !view ? NULL : data ? data : view->body;
}

/* Start of pair number index; NULL beyond. */
static const char *pair_at(const rmq_message_view *view, size_t index)
{
    const char *p = view ? view->properties : NULL;
    const char *end = view ? p + view->properties_len : NULL;
    for (; p < end; index--) {
        if (index == 0) {
            return p;
        }
        p += strlen(p) + 1;
        p += strlen(p) + 1;
    }
    return NULL;
}

/* The last of several wins, as in Java. */
const char *rq_view_property(const struct rmq_message_view *view, const char *name)
{
    const char *found = NULL;
    const char *p = view->properties;
    const char *end = p + view->properties_len;
    while (p < end) {
        const char *value = p + strlen(p) + 1;
        if (strcmp(p, name) == 0) {
            found = value;
        }
        p = value + strlen(value) + 1;
    }
    return found;
}

const char *rmq_message_view_property(const rmq_message_view *view, const char *name)
{
    const char *value = view && name ? rq_view_property(view, name) : NULL;
    return value ? value : "";
}

size_t rmq_message_view_property_count(const rmq_message_view *view)
{
    size_t n = 0;
    while (pair_at(view, n)) {
        n++;
    }
    return n;
}

const char *rmq_message_view_property_name(const rmq_message_view *view, size_t index)
{
    return pair_at(view, index);
}

const char *rmq_message_view_property_value(const rmq_message_view *view, size_t index)
{
    const char *name = pair_at(view, index);
    return name ? name + strlen(name) + 1 : NULL;
}

const char *rmq_message_view_topic(const rmq_message_view *view)
{
    return view ? view->topic : "";
}

const char *rmq_message_view_tag(const rmq_message_view *view)
{
    return view ? view->tag : "";
}

const char *rmq_message_view_keys(const rmq_message_view *view)
{
    return view ? view->keys : "";
}

/* Made by the first thread that asks; another that was as fast throws its own away. */
static const struct rq_view_text *lazy_text(const rmq_message_view *view)
{
    static const struct rq_view_text empty;
    union {
        const rmq_message_view *in;
        rmq_message_view *out;
    } cast = {.in = view};
    struct rq_view_text *text = atomic_load_explicit(&cast.out->lazy, memory_order_acquire);
    if (text) {
        return text;
    }
    struct rq_view_text *made = rq_calloc(1, sizeof *made);
    if (!made) {
        return &empty;
    }
    (void)rq_host_text(&view->born_host, made->born_host);
    (void)rq_host_text(&view->store_host, made->store_host);
    (void)rq_msgid_of_offset(&view->store_host, view->commit_log_offset, made->offset_id);
    if (!atomic_compare_exchange_strong_explicit(&cast.out->lazy, &text, made, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        rq_free(made);
        return text;
    }
    return made;
}

const char *rmq_message_view_offset_id(const rmq_message_view *view)
{
    return view ? lazy_text(view)->offset_id : "";
}

const char *rmq_message_view_id(const rmq_message_view *view)
{
    return view && *view->unique_id ? view->unique_id : rmq_message_view_offset_id(view);
}

const char *rmq_message_view_broker_name(const rmq_message_view *view)
{
    return view ? view->broker_name : "";
}

const char *rmq_message_view_born_host(const rmq_message_view *view)
{
    return view ? lazy_text(view)->born_host : "";
}

const char *rmq_message_view_store_host(const rmq_message_view *view)
{
    return view ? lazy_text(view)->store_host : "";
}

int32_t rmq_message_view_queue_id(const rmq_message_view *view)
{
    return view ? view->queue_id : 0;
}

int64_t rmq_message_view_queue_offset(const rmq_message_view *view)
{
    return view ? view->queue_offset : 0;
}

int64_t rmq_message_view_commit_log_offset(const rmq_message_view *view)
{
    return view ? view->commit_log_offset : 0;
}

int64_t rmq_message_view_born_timestamp_ms(const rmq_message_view *view)
{
    return view ? view->born_timestamp_ms : 0;
}

int64_t rmq_message_view_store_timestamp_ms(const rmq_message_view *view)
{
    return view ? view->store_timestamp_ms : 0;
}

int32_t rmq_message_view_reconsume_times(const rmq_message_view *view)
{
    return view ? atomic_load_explicit(&view->reconsume_times, memory_order_relaxed) : 0;
}

int32_t rmq_message_view_flag(const rmq_message_view *view)
{
    return view ? view->flag : 0;
}

/* As in Java, a body that was expanded is no longer called compressed. */
int32_t rmq_message_view_sys_flag(const rmq_message_view *view)
{
    if (!view) {
        return 0;
    }
    bool expanded = atomic_load_explicit(&view->expanded, memory_order_acquire) != NULL;
    return expanded ? view->sys_flag & ~RQ_SYS_COMPRESSED : view->sys_flag;
}

int rmq_message_view_delay_level(const rmq_message_view *view)
{
    const char *value = view ? rq_view_property(view, RQ_PROP_DELAY) : NULL;
    int32_t level = 0;
    return value && rq_slice_to_i32(rq_slice_str(value), &level) ? level : 0;
}

/* The one reference is that of the pull itself: who reads a view holds another one. */
void rq_view_shrink(struct rmq_message_view *view)
{
    if (atomic_load_explicit(&view->views->refs, memory_order_acquire) == 1) {
        rq_free(atomic_exchange_explicit(&view->expanded, NULL, memory_order_acq_rel));
    }
}

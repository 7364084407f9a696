/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_message_view: received messages. All views of an answer are made at once, on the thread that
 * has the frame (the I/O loop), and read by any thread afterwards. Texts lie in the frame: the
 * separators behind them, all decoded by then, are overwritten with NUL. What needs a format of its
 * own (hosts, the offset id) is made on demand and published by one atomic pointer. Counterparts:
 * MessageDecoder, MessageExt.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/message.h"
#include "net/conn.h"
#include "wire/namespace.h"
#include "wire/compress.h"
#include "wire/message.h"
#include "wire/msgid.h"
#include "wire/properties.h"

struct rq_view_text {
    char born_host[RQ_HOST_TEXT];
    char store_host[RQ_HOST_TEXT];
    char offset_id[RQ_MSGID_MAX + 1];
};

/* What a first walk over the answer finds out: how much memory the views need. */
struct measure {
    size_t count;
    size_t text; /* bytes of texts that cannot be terminated in place */
    size_t body_bytes;
    bool damaged;
};

/* In place works when the last value's separator is there: its byte becomes the NUL. */
static bool ends_with_separator(struct rq_slice properties)
{
    return properties.n == 0 || properties.p[properties.n - 1] == RQ_PROP_VALUE_END;
}

/* The messages of an answer one after the other. */
struct walk {
    struct rq_cursor records;
    bool unwraps;           /* inner batches are taken apart */
    struct rq_cursor items; /* what is left of such a batch, */
    struct rq_msg batch;    /* its record, */
    int64_t item;           /* and how many of it have come */
};

static struct walk walk_of(struct rq_slice body, bool unwraps)
{
    return (struct walk){
        .records = rq_cursor(body.p, body.n), .unwraps = unwraps, .items = rq_cursor(NULL, 0)};
}

/* A batch that topics of queue.type BatchCQ keep as one record, with an offset for each item. */
static bool is_inner_batch(const struct rq_msg *msg)
{
    const int32_t batch = RQ_SYS_UNWRAP | RQ_SYS_INNER_BATCH;
    return (msg->sys_flag & (batch | RQ_SYS_COMPRESSED)) == batch;
}

static rmq_status next_item(struct walk *walk, struct rq_msg *out)
{
    struct rq_batch_item item;
    rmq_status st = rq_batch_next(&walk->items, &item, NULL);
    if (st == RMQ_OK) {
        *out = walk->batch;
        out->flag = item.flag;
        out->body = item.body;
        out->properties = item.properties;
        out->queue_offset += walk->item++;
    }
    return st;
}

/* RMQ_ERR_NOT_FOUND at the end, RMQ_ERR_PROTOCOL for what is no message. */
static rmq_status next_message(struct walk *walk, struct rq_msg *out)
{
    while (rq_cursor_left(&walk->items) == 0) {
        if (rq_cursor_left(&walk->records) == 0) {
            return RMQ_ERR_NOT_FOUND;
        }
        rmq_status st = rq_msg_decode(&walk->records, out, NULL);
        if (st != RMQ_OK || !walk->unwraps || !is_inner_batch(out)) {
            return st;
        }
        walk->batch = *out;
        walk->items = rq_cursor(out->body.p, out->body.n);
        walk->item = 0;
    }
    return next_item(walk, out);
}

static struct measure measure(struct rq_slice body, bool unwraps)
{
    struct measure m = {0};
    struct walk walk = walk_of(body, unwraps);
    struct rq_msg msg;
    rmq_status st;
    while ((st = next_message(&walk, &msg)) == RMQ_OK) {
        m.count++;
        m.body_bytes += msg.body.n;
        m.text += ends_with_separator(msg.properties) ? 0 : msg.properties.n + 1;
    }
    m.damaged = st != RMQ_ERR_NOT_FOUND;
    return m;
}

/* The frame is ours and writable; slices are const only because decoders do not write. */
static char *writable(const char *p)
{
    union {
        const char *in;
        char *out;
    } cast = {.in = p};
    return cast.out;
}

/* Notes the properties that every consumer asks for. value is NUL-terminated. */
static void note_property(struct rmq_message_view *view, const char *name, size_t n,
                          const char *value)
{
    if (n != 4 && n != 8) {
        return;
    }
    if (n == 4 && memcmp(name, RQ_PROP_TAGS, 4) == 0) {
        view->tag = value;
    } else if (n == 4 && memcmp(name, RQ_PROP_KEYS, 4) == 0) {
        view->keys = value;
    } else if (n == 8 && memcmp(name, RQ_PROP_UNIQ_KEY, 8) == 0) {
        view->unique_id = value;
    }
}

/* Makes "name NUL value NUL …" of the property string in place, leaving out what is no pair; a NUL
 * inside a value ends it. p has room for n + 1 bytes when the last separator is missing. */
static size_t split_properties(struct rmq_message_view *view, char *p, size_t n)
{
    char *to = p;
    char *end = p + n;
    bool has_nul = memchr(p, '\0', n) != NULL; /* hardly ever: then each part is looked at */
    while (p < end) {
        char *stop = memchr(p, RQ_PROP_VALUE_END, (size_t)(end - p));
        char *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        char *middle = memchr(p, RQ_PROP_NAME_END, (size_t)(stop - p));
        size_t name_n = middle ? (size_t)(middle - p) : 0;
        size_t value_n = middle ? (size_t)(stop - middle - 1) : 0;
        if (has_nul) {
            name_n = memchr(p, '\0', name_n) ? 0 : name_n;
            value_n = middle ? strnlen(middle + 1, value_n) : 0;
        }
        if (name_n > 0 && value_n > 0) {
            if (to != p) {
                memmove(to, p, name_n + 1 + value_n);
            }
            to[name_n] = '\0';
            to[name_n + 1 + value_n] = '\0';
            note_property(view, to, name_n, to + name_n + 1);
            to += name_n + value_n + 2;
        }
        p = next;
    }
    return (size_t)(to - view->properties);
}

static void fill_view(struct rmq_message_view *view, struct rq_views *views,
                      const struct rq_msg *msg, const char *broker_name, char **text)
{
    *view = (struct rmq_message_view){.views = views,
                                      .broker_name = broker_name,
                                      .tag = "",
                                      .keys = "",
                                      .unique_id = "",
                                      .body = msg->body.p,
                                      .body_size = msg->body.n,
                                      .queue_id = msg->queue_id,
                                      .flag = msg->flag,
                                      .sys_flag = msg->sys_flag,
                                      .reconsume_times = msg->reconsume_times,
                                      .queue_offset = msg->queue_offset,
                                      .commit_log_offset = msg->commit_log_offset,
                                      .born_timestamp_ms = msg->born_timestamp_ms,
                                      .store_timestamp_ms = msg->store_timestamp_ms,
                                      .prepared_offset = msg->prepared_transaction_offset,
                                      .born_host = msg->born_host,
                                      .store_host = msg->store_host};
    rq_list_init(&view->node);

    char *properties = writable(msg->properties.p);
    if (!ends_with_separator(msg->properties)) {
        properties = *text;
        memcpy(properties, msg->properties.p, msg->properties.n);
        *text += msg->properties.n + 1;
    }
    view->properties = properties ? properties : "";
    view->properties_len =
        properties && msg->properties.n ? split_properties(view, properties, msg->properties.n) : 0;

    /* The byte behind the topic is the first of the properties' length, which has been read. */
    writable(msg->topic.p)[msg->topic.n] = '\0';
    view->topic = msg->topic.p;
}

void rq_view_strip(struct rmq_message_view *view, const char *name_space)
{
    if (name_space) {
        view->topic = rq_namespace_strip(name_space, writable(view->topic));
    }
}

static void fill_views(struct rq_views *views, struct rq_slice body, bool unwraps,
                       const char *broker_name)
{
    char *text = (char *)(views->items + views->count);
    size_t name_size = strlen(broker_name) + 1;
    memcpy(text, broker_name, name_size);
    const char *name = text;
    text += name_size;
    struct walk walk = walk_of(body, unwraps);
    struct rq_msg msg;
    for (size_t i = 0; i < views->count && next_message(&walk, &msg) == RMQ_OK; i++) {
        fill_view(&views->items[i], views, &msg, name, &text);
    }
}

static rmq_status create(struct rq_frame_ref *frame, struct rq_slice body, bool unwraps,
                         const char *broker_name, struct rq_views **out, rmq_error **err)
{
    struct measure m = measure(body, unwraps);
    if (m.count == 0 && m.damaged) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL,
                            "answer of broker %s: %zu bytes that are no message", broker_name,
                            body.n);
    }
    struct rq_views *views = rq_alloc(sizeof *views + m.count * sizeof views->items[0] +
                                      strlen(broker_name) + 1 + m.text);
    if (!views) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "%zu messages of broker %s", m.count, broker_name);
    }
    atomic_init(&views->refs, 1);
    views->frame = frame;
    views->count = m.count;
    views->body_bytes = m.body_bytes;
    views->damaged = m.damaged;
    fill_views(views, body, unwraps, broker_name);
    *out = views;
    return RMQ_OK;
}

rmq_status rq_views_create(struct rq_frame_ref *frame, struct rq_slice body,
                           const char *broker_name, struct rq_views **out, rmq_error **err)
{
    return create(frame, body, false, broker_name, out, err);
}

rmq_status rq_views_create_pulled(struct rq_frame_ref *frame, struct rq_slice body,
                                  const char *broker_name, struct rq_views **out, rmq_error **err)
{
    return create(frame, body, true, broker_name, out, err);
}

void rq_views_retain(struct rq_views *views)
{
    atomic_fetch_add_explicit(&views->refs, 1, memory_order_relaxed);
}

void rq_views_release(struct rq_views *views)
{
    if (!views || atomic_fetch_sub_explicit(&views->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < views->count; i++) {
        rq_free(atomic_load_explicit(&views->items[i].expanded, memory_order_relaxed));
        rq_free(atomic_load_explicit(&views->items[i].lazy, memory_order_relaxed));
    }
    rq_frame_ref_release(views->frame);
    rq_free(views);
}

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

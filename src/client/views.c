/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The messages of an answer as views: all are made at once, on the thread that has the frame (the
 * I/O loop), and read by any thread afterwards. Texts lie in the frame: the separators behind them,
 * all decoded by then, are overwritten with NUL. Counterpart: MessageDecoder.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/message.h"
#include "net/conn.h"
#include "wire/message.h"
#include "wire/namespace.h"
#include "wire/properties.h"

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

static bool is_offset(int64_t offset)
{
    return offset >= -RQ_QUEUE_OFFSET_MAX && offset <= RQ_QUEUE_OFFSET_MAX;
}

static rmq_status next_record(struct walk *walk, struct rq_msg *out)
{
    rmq_status st = rq_msg_decode(&walk->records, out, NULL);
    return st == RMQ_OK && !is_offset(out->queue_offset) ? RMQ_ERR_PROTOCOL : st;
}

/* RMQ_ERR_NOT_FOUND at the end, RMQ_ERR_PROTOCOL for what is no message. */
static rmq_status next_message(struct walk *walk, struct rq_msg *out)
{
    while (rq_cursor_left(&walk->items) == 0) {
        if (rq_cursor_left(&walk->records) == 0) {
            return RMQ_ERR_NOT_FOUND;
        }
        rmq_status st = next_record(walk, out);
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
    /* Likewise behind the body: the topic's length, or that of an inner message's properties. */
    writable(msg->body.p)[msg->body.n] = '\0';
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

void rq_views_place(struct rq_views *views, int32_t queue_id, int64_t delta)
{
    int64_t shift = is_offset(delta) ? delta : 0;
    for (size_t i = 0; i < views->count; i++) {
        views->items[i].queue_id = queue_id;
        views->items[i].queue_offset += shift;
    }
}

int64_t rq_views_last(const struct rq_views *views, int64_t from, int64_t end)
{
    int64_t last = -1;
    for (size_t i = 0; i < views->count; i++) {
        int64_t offset = views->items[i].queue_offset;
        last = offset >= from && offset < end && offset > last ? offset : last;
    }
    return last;
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

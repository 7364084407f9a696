/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Inner side of messages. rmq_message (producer): topic and properties in one piece of memory, the
 * body counted so that a send in flight shares it. rmq_message_view (consumer): all views of one
 * pull answer live in one allocation, struct rq_views, which owns the answer's frame; text is made
 * NUL-terminated in the frame itself when the views are made, so that any thread may read them
 * afterwards. Counterparts: Message, MessageExt, MessageDecoder.
 */
#ifndef RQ_CLIENT_MESSAGE_H
#define RQ_CLIENT_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmq/message.h>

#include "base/list.h"
#include "base/slice.h"
#include "wire/message.h"

/* ---- messages to send ---- */

/* A body with an owner count. Any thread retains and releases. */
struct rq_body {
    atomic_int refs; /* atomic: relaxed up, acq_rel down: the last one frees */
    const void *data;
    size_t size;
    void (*free_fn)(void *data, void *user); /* NULL: borrowed, or inline behind the struct */
    void *user;
};

struct rq_body *rq_body_retain(struct rq_body *body);
void rq_body_release(struct rq_body *body); /* NULL is accepted */

static inline bool rq_body_is_borrowed(const struct rq_body *body)
{
    return !body->free_fn && body->data != (const void *)(body + 1);
}

#define RQ_MESSAGE_INLINE 192 /* bytes of text that need no second allocation */

struct rmq_message {
    char *text; /* topic NUL, then name NUL value NUL pairs */
    size_t text_len;
    size_t text_cap;
    size_t topic_len;
    struct rq_body *body; /* NULL = none yet */
    int32_t flag;
    int32_t delay_level;
    bool wait_store_ok;
    bool timed;   /* asks for a time of delivery */
    bool reply;   /* answers a request: goes through the broker to who asked */
    bool grouped; /* has a message group: the key of its queue */
    char inline_text[RQ_MESSAGE_INLINE];
};

/* The pairs "name NUL value NUL …" of a message: user's properties, TAGS, KEYS; not WAIT, DELAY,
 * UNIQ_KEY. */
static inline struct rq_slice rq_message_pairs(const struct rmq_message *message)
{
    size_t at = message->topic_len + 1;
    return rq_slice(message->text + at, message->text_len - at);
}

/* The same message to another topic. Errors: RMQ_ERR_INVALID (topic), RMQ_ERR_NOMEM,
 * RMQ_ERR_TOO_LARGE. */
rmq_status rq_message_copy_to(const struct rmq_message *message, const char *topic,
                              struct rmq_message **out, rmq_error **err);

/* A message of its own with the same body, copied when it is borrowed; NULL when out of memory. */
struct rmq_message *rq_message_copy(const struct rmq_message *message);

/* Whether one queue is right for both: of one message group, or both of none. */
bool rq_message_same_group(const struct rmq_message *a, const struct rmq_message *b);

/* Sets any property, also a reserved one: for the library's own use. */
rmq_status rq_message_put(struct rmq_message *message, const char *name, const char *value);

/* ---- received messages ---- */

struct rq_frame_ref; /* net/conn.h: a counted frame */
struct rq_views;
struct rq_view_text;

struct rmq_message_view {
    struct rq_views *views; /* owner */

    /* written while the views are made and by the consumer before it hands them out; read by any
     * thread after that */
    const char *topic;      /* a consumer points it to RETRY_TOPIC's value */
    const char *properties; /* "name NUL value NUL …" */
    size_t properties_len;
    const char *tag;
    const char *keys;
    const char *unique_id; /* "" when there is none */
    const char *body;      /* as stored */
    size_t body_size;
    const char *broker_name;
    int32_t queue_id;
    int32_t flag;
    int32_t sys_flag;
    _Atomic int32_t reconsume_times; /* atomic: relaxed: an ordered consumer counts on */
    int64_t queue_offset;
    int64_t commit_log_offset;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    int64_t prepared_offset;
    struct rq_host born_host;
    struct rq_host store_host;

    /* atomic: released once when made, acquired by readers */
    _Atomic(char *) expanded;            /* decompressed body, allocated; NULL = not expanded */
    size_t expanded_size;                /* written before expanded */
    _Atomic(struct rq_view_text *) lazy; /* host and id texts, made on demand */

    /* owned by the consumer: its process queue keeps its state of the message here */
    struct rq_list node;
    void *owner;
    int64_t consume_start_ms; /* monotonic; 0 = not handed out */
    uint32_t state;
    uint32_t hands; /* that hold it to read its expanded body */
};

struct rq_views {
    atomic_int refs; /* atomic: relaxed up, acq_rel down: the last one frees the frame */
    struct rq_frame_ref *frame;
    size_t count;
    size_t body_bytes; /* sum of stored body sizes */
    bool damaged; /* the answer held bytes that are no message: what came before them is here */
    struct rmq_message_view items[];
};

/* Offsets that a peer tells are within +- this, so that what is added to them never overflows: a
 * message with another one is damage. */
#define RQ_QUEUE_OFFSET_MAX (INT64_MAX / 4)

/* Decodes the messages in body, which lies in frame and is writable. Takes over one reference of
 * the frame on RMQ_OK. Property values and topics are NUL-terminated in place. An undecodable
 * message ends the list: views->damaged. No body is expanded yet. Errors: RMQ_ERR_NOMEM,
 * RMQ_ERR_PROTOCOL (nothing at all could be decoded). Any thread that owns the frame. */
rmq_status rq_views_create(struct rq_frame_ref *frame, struct rq_slice body,
                           const char *broker_name, struct rq_views **out, rmq_error **err);
/* The same of a pull's answer: a batch that a broker of 5.x stores as one record (topics of
 * queue.type BatchCQ) becomes its messages. A pop's is acknowledged as one, and stays so. */
rmq_status rq_views_create_pulled(struct rq_frame_ref *frame, struct rq_slice body,
                                  const char *broker_name, struct rq_views **out, rmq_error **err);
/* Shows the messages of a pull's answer as those of the queue that was asked for. A broker stores
 * them with the id and offsets of its own queue, from which those of a logical one differ by its
 * offsetDelta; a delta that no queue has changes no offset. */
void rq_views_place(struct rq_views *views, int32_t queue_id, int64_t delta);

/* The largest offset among the messages that is at least from and below end; -1 for none. */
int64_t rq_views_last(const struct rq_views *views, int64_t from, int64_t end);

/* Whole batch, or one view of it: the same count. */
void rq_views_retain(struct rq_views *views);
void rq_views_release(struct rq_views *views); /* NULL is accepted */

/* Expands a compressed body, once; harmless for others. max: most bytes that it may become. Errors:
 * RMQ_ERR_CORRUPT, RMQ_ERR_TOO_LARGE, RMQ_ERR_UNSUPPORTED, RMQ_ERR_NOMEM: this message has no body
 * then (rmq_message_view_body gives the stored bytes). */
rmq_status rq_view_expand(struct rmq_message_view *view, size_t max, rmq_error **err);

/* Takes the namespace off the topic, in the frame itself; before the view is handed out. */
void rq_view_strip(struct rmq_message_view *view, const char *name_space);

/* Frees an expanded body that nobody reads any more, unless the program holds a view of the batch.
 * It may be expanded again. */
void rq_view_shrink(struct rmq_message_view *view);

/* Value of a property, NULL when absent (rmq_message_view_property gives ""). */
const char *rq_view_property(const struct rmq_message_view *view, const char *name);

#endif

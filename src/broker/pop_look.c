/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One look for messages to pop or peek: the queues that it goes through, the messages that it
 * collects, and the answer that they become. On one thread's stack. Counterpart:
 * PopMessageProcessor.
 */
#include "broker/pop_look.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/filter.h"
#include "wire/properties.h"

#define HEAD_SIZE 512

/* ---- what was found ---- */

static void release_file(void *file)
{
    rq_mapped_file_release(file);
}

static void release_memory(void *memory)
{
    rq_free(memory);
}

void rq_pop_look_release(struct rq_pop_look *look)
{
    for (size_t i = 0; i < look->piece_count; i++) {
        struct rq_pop_piece *piece = &look->pieces[i];
        if (piece->memory) {
            rq_free(piece->memory);
        } else {
            rq_mapped_file_release(piece->file);
        }
    }
    look->piece_count = 0;
    rq_buf_free(&look->starts);
    rq_buf_free(&look->offsets);
    rq_buf_free(&look->counts);
}

void rq_pop_look_init(struct rq_pop_look *look, struct rmq_broker *broker,
                      const struct rq_pop_ask *ask)
{
    memset(look, 0, sizeof *look);
    look->broker = broker;
    look->ask = ask;
    rq_buf_init(&look->starts, 0);
    rq_buf_init(&look->offsets, 0);
    rq_buf_init(&look->counts, 0);
    rq_filter_of(ask->sub, &look->filter);
}

static void add_piece(struct rq_pop_look *look, const struct rq_pop_piece *piece)
{
    look->pieces[look->piece_count++] = *piece;
    look->bytes += piece->n;
}

/* Neighbours in the log are one piece. */
static void move_refs(struct rq_pop_look *look, struct rq_store_result *result)
{
    for (size_t i = 0; i < result->ref_count && look->piece_count < RQ_POP_MAX; i++) {
        struct rq_store_ref *ref = &result->refs[i];
        const struct rq_pop_piece piece = {.p = ref->p, .n = ref->n, .file = ref->file};
        add_piece(look, &piece);
        *ref = (struct rq_store_ref){0};
    }
}

/* A message of the retry topic is shown under the topic that it came from, and carries its handle
 * itself. One without room for that goes out as it lies in the log: from the retry topic's name a
 * client makes the handle. */
static bool recode(struct rq_pop_look *look, const struct rq_msg *msg,
                   const struct rq_pop_handle *handle)
{
    struct rq_msg shown = *msg;
    struct rq_buf props;
    struct rq_buf text;
    rq_buf_init(&props, 0);
    rq_buf_init(&text, 0);
    rq_buf_add_slice(&props, msg->properties);
    rq_pop_handle_write(handle, &text);
    if (!rq_props_get(msg->properties, RQ_PROP_POP_CK).p) {
        rq_props_add_str(&props, 0, RQ_PROP_POP_CK, rq_slice(text.data, text.len));
    }
    shown.topic = look->ask->topic;
    shown.properties = rq_slice(props.data, props.len);
    if (props.len > RQ_MSG_PROPERTIES_MAX) {
        shown = *msg;
    }
    size_t size = rq_buf_status(&props) == RMQ_OK && rq_buf_status(&text) == RMQ_OK
                      ? rq_msg_encoded_size(&shown)
                      : 0;
    char *memory = size ? rq_alloc(size) : NULL;
    if (memory) {
        rq_msg_encode(&shown, size, memory);
        const struct rq_pop_piece piece = {.p = memory, .n = size, .memory = memory};
        add_piece(look, &piece);
    }
    rq_buf_free(&props);
    rq_buf_free(&text);
    return memory != NULL;
}

static void recode_all(struct rq_pop_look *look, const struct rq_pop_place *place,
                       const struct rq_store_result *result, int64_t start_offset)
{
    for (size_t i = 0; i < result->ref_count; i++) {
        struct rq_cursor cursor = rq_cursor(result->refs[i].p, result->refs[i].n);
        struct rq_msg msg;
        while (rq_cursor_left(&cursor) > 0 && look->piece_count < RQ_POP_MAX &&
               rq_msg_decode(&cursor, &msg, NULL) == RMQ_OK) {
            const struct rq_pop_handle handle = {
                .start_offset = start_offset,
                .pop_time_ms = look->pop_time_ms,
                .invisible_ms = look->ask->invisible_ms,
                .revive_qid = look->revive_qid,
                .retry = rq_pop_retry_mark(place->topic),
                .broker_name = rq_slice_str(look->broker->settings.broker.broker_name),
                .queue_id = msg.queue_id,
                .offset = msg.queue_offset};
            /* without memory it is not given out, and comes again when its time is up */
            (void)recode(look, &msg, &handle);
        }
    }
}

/* Under its own topic a message goes out as it lies in the log. */
void rq_pop_look_take(struct rq_pop_look *look, const struct rq_pop_place *place,
                      struct rq_store_result *result, int64_t start_offset)
{
    if (rq_pop_retry_mark(place->topic) == '0') {
        move_refs(look, result);
    } else {
        recode_all(look, place, result, start_offset);
    }
}

/* ---- the queues ---- */

static void each_queue(struct rq_pop_look *look, struct rq_slice topic, int32_t queue_id,
                       void (*each)(struct rq_pop_look *look, const struct rq_pop_place *place))
{
    struct rq_topic_info info;
    struct rq_pop_place place = {.topic = topic, .group = look->ask->group, .queue_id = queue_id};
    if (queue_id >= 0) {
        each(look, &place);
        return;
    }
    if (!rq_topics_get(&look->broker->topics, topic, &info) || info.read_queue_nums <= 0) {
        return;
    }
    for (int32_t i = 0; i < info.read_queue_nums; i++) {
        place.queue_id = (int32_t)((look->turn + (uint32_t)i) % (uint32_t)info.read_queue_nums);
        each(look, &place);
    }
}

static void each_retry(struct rq_pop_look *look,
                       void (*each)(struct rq_pop_look *look, const struct rq_pop_place *place))
{
    char room[RQ_POP_TOPIC_ROOM];
    size_t n = rq_pop_retry_topic(look->ask->topic, look->ask->group, room);
    if (n > 0) {
        each_queue(look, rq_slice(room, n), -1, each);
    }
}

/* One in five begins with the retry topic, the others end with it. */
void rq_pop_look_over(struct rq_pop_look *look,
                      void (*each)(struct rq_pop_look *look, const struct rq_pop_place *place))
{
    const struct rq_pop_ask *ask = look->ask;
    look->turn = atomic_fetch_add_explicit(&look->broker->unique_counter, 1, memory_order_relaxed);
    bool retry_first = look->turn % 5 == 0;
    if (retry_first && !ask->order) {
        each_retry(look, each);
    }
    each_queue(look, ask->topic, ask->queue_id, each);
    if (!retry_first && !ask->order && (int32_t)look->count < ask->max_msgs) {
        each_retry(look, each);
    }
}

/* ---- the answer ---- */

static rmq_status add_pieces(struct rq_out *out, struct rq_pop_look *look)
{
    while (look->piece_count > 0) {
        struct rq_pop_piece *piece = &look->pieces[look->next_piece];
        rmq_status st =
            rq_out_add(out, piece->p, piece->n, piece->memory ? release_memory : release_file,
                       piece->memory ? piece->memory : (void *)piece->file);
        if (st) {
            return st;
        }
        *piece = (struct rq_pop_piece){0}; /* the frame's from here on */
        look->next_piece++;
        if (look->next_piece == look->piece_count) {
            look->piece_count = look->next_piece = 0;
        }
    }
    return RMQ_OK;
}

void rq_pop_send_answer(struct rq_conn *conn, const struct rq_reply_to *to, int32_t code,
                        const char *remark, struct rq_pop_look *look)
{
    struct rq_hdr_pop_response fields = {.pop_time = look->pop_time_ms,
                                         .invisible_time = look->ask->invisible_ms,
                                         .revive_qid = look->revive_qid,
                                         .rest_num = look->rest};
    RQ_SET(pop_response, &fields, start_offset_info, rq_slice(look->starts.data, look->starts.len));
    RQ_SET(pop_response, &fields, msg_offset_info, rq_slice(look->offsets.data, look->offsets.len));
    if (look->ask->order) {
        RQ_SET(pop_response, &fields, order_count_info,
               rq_slice(look->counts.data, look->counts.len));
    }
    struct rq_frame_spec spec = rq_answer_spec(to, code, &rq_tab_pop_response, &fields);
    spec.remark = rq_slice_str(remark);
    struct rq_out *out = rq_out_create(HEAD_SIZE);
    rmq_status st = out ? rq_buf_status(&look->starts) : RMQ_ERR_NOMEM;
    st = st ? st : rq_buf_status(&look->offsets);
    st = st ? st : rq_frame_encode(&out->head, &spec, look->bytes, NULL);
    st = st ? st : add_pieces(out, look);
    if (st) {
        RQ_LOG(WARN, "a pop could not be answered, the connection is closed", "remote=%s status=%s",
               rq_conn_remote(conn), rmq_status_name(st));
        rq_out_destroy(out);
        rq_conn_close(conn, st);
        return;
    }
    (void)rq_conn_send(conn, out);
}

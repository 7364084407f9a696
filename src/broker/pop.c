/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * POP_MESSAGE, and the looking that PEEK and NOTIFICATION share with it: queue after queue, under
 * the lock of each, messages are read from where the group is, a checkpoint (or, in order, a block)
 * is made, and the group's offset moves on. Loop thread of the connection, or whoever wakes a pop
 * that waits. Counterpart: PopMessageProcessor.
 */
#include "broker/pop.h"

#include "base/log.h"
#include "base/map.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/pop_checkpoint.h"
#include "broker/pop_look.h"

/* Reads of one look that find nothing wanted: more go on in another turn of the loop. */
#define PASSES_MAX 16

struct rq_mutex *rq_pop_lock(struct rmq_broker *broker, const struct rq_pop_place *place)
{
    uint64_t hash = rq_hash_bytes(place->topic.p, place->topic.n) * 31 +
                    rq_hash_bytes(place->group.p, place->group.n) + (uint32_t)place->queue_id;
    return &broker->pop_locks[hash % RQ_POP_LOCKS];
}

/* ---- where the group is ---- */

int64_t rq_pop_initial_offset(struct rmq_broker *broker, const struct rq_pop_place *place,
                              int32_t init_mode)
{
    struct rq_store *store = broker->store;
    int64_t least = rq_store_min_offset(store, place->topic, place->queue_id);
    if (init_mode == RQ_POP_FROM_MIN || rq_pop_retry_mark(place->topic) != '0') {
        return least;
    }
    if (least <= 0 && rq_store_in_memory(store, place->topic, place->queue_id, 0)) {
        return 0;
    }
    int64_t most = rq_store_max_offset(store, place->topic, place->queue_id);
    return most > 0 ? most - 1 : 0;
}

static void commit(struct rmq_broker *broker, const struct rq_pop_place *place, int64_t offset)
{
    (void)rq_offsets_commit(&broker->offsets, place->group, place->topic, place->queue_id, offset,
                            NULL);
}

static int64_t current_offset(struct rq_pop_look *look, const struct rq_pop_place *place)
{
    struct rmq_broker *broker = look->broker;
    int64_t reset =
        rq_offsets_take_reset(&broker->offsets, place->group, place->topic, place->queue_id);
    if (reset != RQ_OFFSET_NONE) {
        rq_pop_order_clear(&broker->pop_orders, place);
        commit(broker, place, reset);
        return reset;
    }
    int64_t offset =
        rq_offsets_query(&broker->offsets, place->group, place->topic, place->queue_id);
    if (offset < 0) {
        offset = rq_pop_initial_offset(broker, place, look->ask->init_mode);
        commit(broker, place, offset);
    }
    return offset;
}

/* ---- one queue ---- */

/* Queue offsets of what was found, in order; 0 when they cannot be told. */
static size_t offsets_of(const struct rq_store_result *result, int64_t out[RQ_POP_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < result->ref_count; i++) {
        struct rq_cursor cursor = rq_cursor(result->refs[i].p, result->refs[i].n);
        struct rq_msg msg;
        while (rq_cursor_left(&cursor) > 0) {
            if (count == RQ_POP_MAX || rq_msg_decode(&cursor, &msg, NULL) != RMQ_OK) {
                return 0;
            }
            out[count++] = msg.queue_offset;
        }
    }
    return count;
}

static bool add_checkpoint(struct rq_pop_look *look, const struct rq_pop_place *place,
                           int64_t start_offset, const int64_t *offsets, size_t count)
{
    struct rmq_broker *broker = look->broker;
    struct rq_pop_checkpoint checkpoint = {.topic = place->topic,
                                           .group = place->group,
                                           .broker_name =
                                               rq_slice_str(broker->settings.broker.broker_name),
                                           .queue_id = place->queue_id,
                                           .start_offset = start_offset,
                                           .pop_time_ms = look->pop_time_ms,
                                           .invisible_ms = look->ask->invisible_ms,
                                           .count = (uint8_t)count};
    for (size_t i = 0; i < count; i++) {
        checkpoint.diffs[i] = (int32_t)(offsets[i] - start_offset);
    }
    rmq_status st = rq_pops_add(&broker->pops, look->revive_qid, &checkpoint);
    if (st != RMQ_OK && st != RMQ_ERR_EXISTS) {
        RQ_LOG(WARN, "a pop could not be noted, nothing is given out",
               "topic=%.*s group=%.*s why=%s", RQ_TEXT(place->topic), RQ_TEXT(place->group),
               rmq_status_name(st));
    }
    if (st == RMQ_OK) {
        rq_broker_count_checkpoint(broker, place->topic, place->group);
    }
    return st == RMQ_OK;
}

/* Messages were found: notes them, and takes them into the answer. */
static void take_found(struct rq_pop_look *look, const struct rq_pop_place *place,
                       int64_t start_offset, struct rq_store_result *result)
{
    struct rmq_broker *broker = look->broker;
    const struct rq_pop_ask *ask = look->ask;
    int64_t offsets[RQ_POP_MAX];
    char mark = rq_pop_retry_mark(place->topic);
    size_t count = offsets_of(result, offsets);
    bool noted = count > 0;
    if (noted && ask->order) {
        noted = rq_pop_order_update(&broker->pop_orders, place, ask->attempt_id, look->pop_time_ms,
                                    ask->invisible_ms, offsets, count, &look->counts) == RMQ_OK;
    } else if (noted) {
        noted = add_checkpoint(look, place, start_offset, offsets, count);
        if (noted) {
            commit(broker, place, result->next_begin_offset);
        }
    }
    if (!noted) {
        return;
    }
    rq_stats_got(&broker->stats, rq_slice_str(broker->settings.broker.broker_cluster_name),
                 place->topic, place->group, count, result->bytes);
    rq_pop_add_start(&look->starts, mark, place->queue_id, start_offset);
    rq_pop_add_offsets(&look->offsets, mark, place->queue_id, offsets, count);
    look->count += count;
    rq_pop_look_take(look, place, result, start_offset);
}

static bool is_bad_offset(enum rq_get_status status)
{
    return status == RQ_GET_OFFSET_TOO_SMALL || status == RQ_GET_OFFSET_OVERFLOW_BADLY ||
           status == RQ_GET_OFFSET_FOUND_NULL;
}

static bool passes_over(const struct rq_store_result *result, int64_t offset)
{
    return result->next_begin_offset > offset && (result->status == RQ_GET_NO_MATCHED_MESSAGE ||
                                                  result->status == RQ_GET_MESSAGE_WAS_REMOVING);
}

static void read_queue(struct rq_pop_look *look, const struct rq_pop_place *place, int64_t offset)
{
    struct rmq_broker *broker = look->broker;
    bool is_retry = rq_pop_retry_mark(place->topic) != '0';
    struct rq_store_result result;
    bool again = true;
    for (int corrections = 0; again;) {
        rq_store_get(broker->store, place->topic, place->queue_id, offset,
                     look->ask->max_msgs - (int32_t)look->count, 0, is_retry ? NULL : &look->filter,
                     &result);
        again = false;
        if (result.status == RQ_GET_FOUND) {
            take_found(look, place, offset, &result);
        } else if (is_bad_offset(result.status) || passes_over(&result, offset)) {
            /* The group goes on behind what it does not want, and behind what is not there. */
            bool bad = is_bad_offset(result.status);
            again = result.next_begin_offset != offset && !(bad && corrections++ > 0);
            offset = result.next_begin_offset;
            commit(broker, place, offset);
            if (again && !bad && ++look->passes >= PASSES_MAX) {
                again = false;
                look->blocked_ms = rq_wall_ms();
            }
        }
        if (!again && result.max_offset > result.next_begin_offset) {
            look->rest += result.max_offset - result.next_begin_offset;
        }
        rq_store_result_release(&result);
    }
}

static void pop_queue(struct rq_pop_look *look, const struct rq_pop_place *place)
{
    struct rmq_broker *broker = look->broker;
    const struct rq_pop_ask *ask = look->ask;
    struct rq_mutex *lock = rq_pop_lock(broker, place);
    rq_mutex_lock(lock);
    int64_t offset = current_offset(look, place);
    int64_t blocked = ask->order
                          ? rq_pop_order_blocked_until(&broker->pop_orders, place, ask->attempt_id,
                                                       ask->invisible_ms, rq_wall_ms())
                          : 0;
    if (blocked) {
        look->blocked_ms =
            look->blocked_ms && look->blocked_ms < blocked ? look->blocked_ms : blocked;
    } else if ((int32_t)look->count >= ask->max_msgs) {
        int64_t most = rq_store_max_offset(broker->store, place->topic, place->queue_id);
        look->rest += most > offset ? most - offset : 0;
    } else {
        read_queue(look, place, offset);
    }
    rq_mutex_unlock(lock);
}

/* ---- answers ---- */

static void answer_notice(struct rq_conn *conn, const struct rq_reply_to *to, bool has, bool full)
{
    struct rq_hdr_notification_response fields = {0};
    RQ_SET(notification_response, &fields, has_msg, has);
    RQ_SET(notification_response, &fields, polling_full, full);
    rq_answer_fields(conn, to, &rq_tab_notification_response, &fields);
}

void rq_pop_answer_full(struct rq_conn *conn, const struct rq_reply_to *to,
                        const struct rq_pop_ask *ask)
{
    if (ask->is_notice) {
        answer_notice(conn, to, false, true);
    } else {
        rq_answer_code(conn, to, RQ_RESP_POLLING_FULL, "NO_MESSAGE_IN_QUEUE");
    }
}

static void count_queue(struct rq_pop_look *look, const struct rq_pop_place *place)
{
    struct rmq_broker *broker = look->broker;
    int64_t blocked = look->ask->order
                          ? rq_pop_order_blocked_until(&broker->pop_orders, place,
                                                       look->ask->attempt_id, 0, rq_wall_ms())
                          : 0;
    int64_t offset =
        rq_offsets_query(&broker->offsets, place->group, place->topic, place->queue_id);
    int64_t most = rq_store_max_offset(broker->store, place->topic, place->queue_id);
    if (offset < 0) {
        offset = rq_pop_initial_offset(broker, place, RQ_POP_FROM_MAX);
    }
    if (blocked) {
        look->blocked_ms =
            look->blocked_ms && look->blocked_ms < blocked ? look->blocked_ms : blocked;
    } else if (most > offset) {
        look->rest += most - offset;
    }
}

static bool answer_if_any(struct rq_conn *conn, const struct rq_reply_to *to,
                          struct rq_pop_look *look, bool last, struct rq_pop_outcome *out)
{
    rq_pop_look_over(look, count_queue);
    out->look_ms = look->blocked_ms;
    if (look->rest == 0 && !last) {
        return false;
    }
    answer_notice(conn, to, look->rest > 0, false);
    return true;
}

static bool answer_pop(struct rq_conn *conn, const struct rq_reply_to *to, struct rq_pop_look *look,
                       bool last, struct rq_pop_outcome *out)
{
    look->pop_time_ms = rq_wall_ms();
    look->revive_qid =
        look->ask->order ? RQ_POP_ORDER_QUEUE : rq_pops_next_queue(&look->broker->pops);
    rq_pop_look_over(look, pop_queue);
    out->look_ms = look->blocked_ms;
    out->more = look->count > 0 && look->rest > 0;
    if (look->count > 0) {
        rq_pop_send_answer(conn, to, RQ_RESP_SUCCESS, "FOUND", look);
    } else if (last) {
        rq_pop_send_answer(conn, to, RQ_RESP_POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", look);
    }
    return look->count > 0 || last;
}

bool rq_pop_answer(struct rmq_broker *broker, struct rq_conn *conn, const struct rq_reply_to *to,
                   const struct rq_pop_ask *ask, bool last, struct rq_pop_outcome *out)
{
    struct rq_pop_look look;
    *out = (struct rq_pop_outcome){0};
    rq_pop_look_init(&look, broker, ask);
    bool answered = ask->is_notice ? answer_if_any(conn, to, &look, last, out)
                                   : answer_pop(conn, to, &look, last, out);
    rq_pop_look_release(&look);
    return answered;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The table of checkpoints and its records (see the header). Any thread; loading at start. */
#include "broker/pop_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "wire/properties.h"

#define KEY_ROOM 1600

/* ---- the heap ---- */

static void heap_set(struct rq_pops *pops, size_t at, struct rq_pop_pending *pending)
{
    pops->heap[at] = pending;
    pending->heap_at = at;
}

static void heap_up(struct rq_pops *pops, size_t at)
{
    struct rq_pop_pending *pending = pops->heap[at];
    while (at > 0 && pops->heap[(at - 1) / 2]->deadline_ms > pending->deadline_ms) {
        heap_set(pops, at, pops->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(pops, at, pending);
}

static void heap_down(struct rq_pops *pops, size_t at)
{
    struct rq_pop_pending *pending = pops->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= pops->heap_count) {
            break;
        }
        if (child + 1 < pops->heap_count &&
            pops->heap[child + 1]->deadline_ms < pops->heap[child]->deadline_ms) {
            child++;
        }
        if (pops->heap[child]->deadline_ms >= pending->deadline_ms) {
            break;
        }
        heap_set(pops, at, pops->heap[child]);
        at = child;
    }
    heap_set(pops, at, pending);
}

static bool heap_has_room(struct rq_pops *pops)
{
    if (pops->heap_count < pops->heap_cap) {
        return true;
    }
    size_t cap = pops->heap_cap ? pops->heap_cap * 2 : 64;
    struct rq_pop_pending **heap = rq_realloc(pops->heap, cap * sizeof(struct rq_pop_pending *));
    if (!heap) {
        return false;
    }
    pops->heap = heap;
    pops->heap_cap = cap;
    return true;
}

static void heap_remove(struct rq_pops *pops, struct rq_pop_pending *pending)
{
    size_t at = pending->heap_at;
    struct rq_pop_pending *last = pops->heap[--pops->heap_count];
    if (last == pending) {
        return;
    }
    heap_set(pops, at, last);
    heap_up(pops, at);
    heap_down(pops, last->heap_at);
}

/* ---- the table, locked ---- */

/* false: the names are too long for any that the broker could have popped. */
static bool key_of(struct rq_slice topic, struct rq_slice group, int32_t queue_id,
                   int64_t start_offset, int64_t pop_time_ms, char out[KEY_ROOM],
                   struct rq_slice *key)
{
    int n = snprintf(out, KEY_ROOM, "%.*s@%.*s@%d@%lld@%lld", RQ_TEXT(topic), RQ_TEXT(group),
                     (int)queue_id, (long long)start_offset, (long long)pop_time_ms);
    *key = rq_slice(out, n > 0 ? (size_t)n : 0);
    return n > 0 && n < KEY_ROOM;
}

static struct rq_pop_pending *make_pending(const struct rq_pop_checkpoint *checkpoint)
{
    size_t topic_n = checkpoint->topic.n;
    size_t group_n = checkpoint->group.n;
    struct rq_pop_pending *pending = rq_calloc(1, sizeof *pending + topic_n + group_n);
    if (!pending) {
        return NULL;
    }
    memcpy(pending->text, checkpoint->topic.p, topic_n);
    memcpy(pending->text + topic_n, checkpoint->group.p, group_n);
    pending->checkpoint = *checkpoint;
    pending->checkpoint.topic = rq_slice(pending->text, topic_n);
    pending->checkpoint.group = rq_slice(pending->text + topic_n, group_n);
    pending->checkpoint.broker_name = rq_slice(NULL, 0);
    pending->deadline_ms = checkpoint->pop_time_ms + checkpoint->invisible_ms;
    return pending;
}

/* Into the map and the heap. */
static rmq_status enter(struct rq_pops *pops, struct rq_pop_pending *pending)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    const struct rq_pop_checkpoint *checkpoint = &pending->checkpoint;
    if (!key_of(checkpoint->topic, checkpoint->group, checkpoint->queue_id,
                checkpoint->start_offset, checkpoint->pop_time_ms, text, &key)) {
        return RMQ_ERR_TOO_LARGE;
    }
    if (rq_map_get(&pops->pending, key)) {
        return RMQ_ERR_EXISTS;
    }
    if (!heap_has_room(pops) || rq_map_put(&pops->pending, key, pending) != RMQ_OK) {
        return RMQ_ERR_NOMEM;
    }
    heap_set(pops, pops->heap_count++, pending);
    heap_up(pops, pending->heap_at);
    return RMQ_OK;
}

static rmq_status insert(struct rq_pops *pops, struct rq_pop_pending *pending)
{
    rmq_status st = enter(pops, pending);
    if (st == RMQ_OK) {
        rq_list_add_tail(&pops->by_record[pending->revive_qid], &pending->by_record);
    }
    return st;
}

void rq_pop_pending_leave_locked(struct rq_pops *pops, struct rq_pop_pending *pending)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    const struct rq_pop_checkpoint *checkpoint = &pending->checkpoint;
    if (key_of(checkpoint->topic, checkpoint->group, checkpoint->queue_id, checkpoint->start_offset,
               checkpoint->pop_time_ms, text, &key)) {
        (void)rq_map_remove(&pops->pending, key);
    }
    heap_remove(pops, pending);
}

void rq_pop_pending_end_locked(struct rq_pop_pending *pending)
{
    rq_list_remove(&pending->by_record);
    rq_free(pending);
}

void rq_pop_pending_come_back_locked(struct rq_pops *pops, struct rq_pop_pending *pending,
                                     int64_t deadline_ms)
{
    pending->deadline_ms = deadline_ms;
    if (enter(pops, pending) != RMQ_OK) {
        RQ_LOG(WARN, "messages that were popped are not delivered again before a restart",
               "topic=%.*s group=%.*s", RQ_TEXT(pending->checkpoint.topic),
               RQ_TEXT(pending->checkpoint.group));
    }
}

/* Marks one message; true when the checkpoint has none left. */
static bool mark(struct rq_pop_pending *pending, int64_t offset)
{
    struct rq_pop_checkpoint *checkpoint = &pending->checkpoint;
    for (size_t i = 0; i < checkpoint->count; i++) {
        if (checkpoint->start_offset + checkpoint->diffs[i] == offset) {
            checkpoint->acked |= 1u << i;
        }
    }
    uint64_t all = (UINT64_C(1) << checkpoint->count) - 1;
    return (checkpoint->acked & all) == all;
}

/* ---- records ---- */

static rmq_status append(struct rq_pops *pops, int32_t revive_qid, const char *tag,
                         const struct rq_buf *body, struct rq_slice unique_key, int64_t deliver_ms,
                         int64_t *record)
{
    struct rmq_broker *broker = pops->broker;
    struct rq_store_put put;
    struct rq_buf props;
    rq_buf_init(&props, RQ_MSG_PROPERTIES_MAX);
    rq_props_add_str(&props, 0, RQ_PROP_TAGS, rq_slice_str(tag));
    rq_props_add_str(&props, 0, RQ_PROP_UNIQ_KEY, unique_key);
    rq_props_add_i64(&props, 0, RQ_PROP_TIMER_DELIVER_MS, deliver_ms);
    rmq_status st = rq_buf_status(body) ? rq_buf_status(body) : rq_buf_status(&props);
    if (st == RMQ_OK) {
        const struct rq_msg msg = {.topic = rq_slice_str(pops->revive_topic),
                                   .queue_id = revive_qid,
                                   .body = rq_slice(body->data, body->len),
                                   .properties = rq_slice(props.data, props.len),
                                   .born_timestamp_ms = rq_wall_ms(),
                                   .born_host = broker->store_host,
                                   .store_host = broker->store_host};
        (void)rq_store_append_own(broker->store, &msg, &put);
        bool stored = put.status == RQ_PUT_OK || put.status == RQ_PUT_FLUSH_DISK_TIMEOUT;
        st = stored ? RMQ_OK : RMQ_ERR_IO;
        *record = put.queue_offset;
    }
    rq_buf_free(&props);
    return st;
}

static rmq_status append_checkpoint(struct rq_pops *pops, struct rq_pop_pending *pending,
                                    const struct rq_pop_checkpoint *checkpoint)
{
    char id[KEY_ROOM];
    struct rq_buf body;
    rq_buf_init(&body, 0);
    rq_pop_checkpoint_write(checkpoint, &body);
    int n = snprintf(id, sizeof id, "%.*s@%d@%lld@%.*s@%lld@%.*s@" RQ_POP_TAG_CK,
                     RQ_TEXT(checkpoint->topic), (int)checkpoint->queue_id,
                     (long long)checkpoint->start_offset, RQ_TEXT(checkpoint->group),
                     (long long)checkpoint->pop_time_ms, RQ_TEXT(checkpoint->broker_name));
    rmq_status st = n > 0 && n < (int)sizeof id ? RMQ_OK : RMQ_ERR_TOO_LARGE;
    if (st == RMQ_OK) {
        st = append(pops, pending->revive_qid, RQ_POP_TAG_CK, &body, rq_slice(id, (size_t)n),
                    pending->deadline_ms - 1000, &pending->record);
    }
    rq_buf_free(&body);
    return st;
}

rmq_status rq_pops_append_ack_locked(struct rq_pops *pops, int32_t revive_qid,
                                     const struct rq_pop_ack *ack, int64_t deliver_ms)
{
    char id[KEY_ROOM];
    struct rq_buf body;
    int64_t record = -1;
    const char *tag = ack->count ? RQ_POP_TAG_BATCH_ACK : RQ_POP_TAG_ACK;
    rq_buf_init(&body, 0);
    rq_pop_ack_write(ack, &body);
    int n =
        snprintf(id, sizeof id, "%.*s@%d@%lld@%.*s@%lld@%.*s@%s", RQ_TEXT(ack->topic),
                 (int)ack->queue_id, (long long)(ack->count ? ack->offsets[0] : ack->offset),
                 RQ_TEXT(ack->group), (long long)ack->pop_time_ms, RQ_TEXT(ack->broker_name), tag);
    rmq_status st = n > 0 && n < (int)sizeof id ? RMQ_OK : RMQ_ERR_TOO_LARGE;
    if (st == RMQ_OK) {
        st = append(pops, revive_qid, tag, &body, rq_slice(id, (size_t)n), deliver_ms, &record);
    }
    if (st == RMQ_OK) {
        pops->last_record[revive_qid] = record;
    }
    rq_buf_free(&body);
    return st;
}

/* ---- what processors call ---- */

int32_t rq_pops_next_queue(struct rq_pops *pops)
{
    rq_mutex_lock(&pops->lock);
    int32_t queue = (int32_t)(pops->turn++ % RQ_POP_REVIVE_QUEUES);
    rq_mutex_unlock(&pops->lock);
    return queue;
}

rmq_status rq_pops_add(struct rq_pops *pops, int32_t revive_qid,
                       const struct rq_pop_checkpoint *checkpoint)
{
    struct rq_pop_pending *pending = make_pending(checkpoint);
    if (!pending) {
        return RMQ_ERR_NOMEM;
    }
    if (revive_qid < 0 || revive_qid >= RQ_POP_REVIVE_QUEUES) {
        rq_free(pending);
        return RMQ_ERR_INVALID;
    }
    pending->revive_qid = revive_qid;
    rq_mutex_lock(&pops->lock);
    rmq_status st = insert(pops, pending);
    if (st == RMQ_OK) {
        st = append_checkpoint(pops, pending, checkpoint);
        if (st != RMQ_OK) {
            rq_pop_pending_leave_locked(pops, pending);
            rq_list_remove(&pending->by_record);
        } else {
            pops->last_record[revive_qid] = pending->record;
            rq_pops_arm_locked(pops);
        }
    }
    rq_mutex_unlock(&pops->lock);
    if (st != RMQ_OK) {
        rq_free(pending);
    }
    return st;
}

static struct rq_pop_pending *find(struct rq_pops *pops, const struct rq_pop_ack *ack)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    return key_of(ack->topic, ack->group, ack->queue_id, ack->start_offset, ack->pop_time_ms, text,
                  &key)
               ? rq_map_get(&pops->pending, key)
               : NULL;
}

/* Whether nothing is left. */
static bool mark_all(struct rq_pop_pending *pending, const struct rq_pop_ack *ack)
{
    bool done = ack->count == 0 && mark(pending, ack->offset);
    for (size_t i = 0; i < ack->count; i++) {
        done = mark(pending, ack->offsets[i]);
    }
    return done;
}

rmq_status rq_pops_ack(struct rq_pops *pops, int32_t revive_qid, const struct rq_pop_ack *ack)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&pops->lock);
    struct rq_pop_pending *pending = find(pops, ack);
    if (pending && pending->revive_qid == revive_qid) {
        st = rq_pops_append_ack_locked(pops, revive_qid, ack, pending->deadline_ms);
        if (st == RMQ_OK && mark_all(pending, ack)) {
            rq_pop_pending_leave_locked(pops, pending);
            rq_pop_pending_end_locked(pending);
        }
    }
    rq_mutex_unlock(&pops->lock);
    return st;
}

/* ---- after a start ---- */

static void load_checkpoint(struct rq_pops *pops, const cJSON *json, int32_t revive_qid,
                            int64_t record)
{
    struct rq_pop_checkpoint checkpoint;
    if (rq_pop_checkpoint_read(json, &checkpoint) != RMQ_OK || checkpoint.count == 0) {
        return;
    }
    struct rq_pop_pending *pending = make_pending(&checkpoint);
    if (!pending) {
        return;
    }
    pending->revive_qid = revive_qid;
    pending->record = record;
    if (insert(pops, pending) != RMQ_OK) {
        rq_free(pending);
    }
}

static void load_ack(struct rq_pops *pops, const cJSON *json)
{
    struct rq_pop_ack ack;
    struct rq_pop_pending *pending =
        rq_pop_ack_read(json, &ack) == RMQ_OK ? find(pops, &ack) : NULL;
    if (!pending) {
        return;
    }
    const cJSON *list = rq_pop_ack_offsets(json);
    bool done = !list && mark(pending, ack.offset);
    for (const cJSON *item = list ? list->child : NULL; item && !done; item = item->next) {
        int64_t offset;
        done = rq_json_value_i64(item, &offset) && mark(pending, offset);
    }
    if (done) {
        rq_pop_pending_leave_locked(pops, pending);
        rq_pop_pending_end_locked(pending);
    }
}

static void load_record(struct rq_pops *pops, const struct rq_msg *msg)
{
    cJSON *json = NULL;
    struct rq_slice tag = rq_props_get(msg->properties, RQ_PROP_TAGS);
    if (rq_json_parse(msg->body, &json, NULL) != RMQ_OK) {
        return;
    }
    if (rq_slice_eq_str(tag, RQ_POP_TAG_CK)) {
        load_checkpoint(pops, json, msg->queue_id, msg->queue_offset);
    } else {
        load_ack(pops, json);
    }
    rq_json_free(json);
}

static void load_result(struct rq_pops *pops, const struct rq_store_result *result)
{
    for (size_t i = 0; i < result->ref_count; i++) {
        struct rq_cursor cursor = rq_cursor(result->refs[i].p, result->refs[i].n);
        struct rq_msg msg;
        while (rq_cursor_left(&cursor) > 0 && rq_msg_decode(&cursor, &msg, NULL) == RMQ_OK) {
            load_record(pops, &msg);
        }
    }
}

static void load_queue(struct rq_pops *pops, int32_t queue_id)
{
    struct rmq_broker *broker = pops->broker;
    struct rq_slice topic = rq_slice_str(pops->revive_topic);
    int64_t done =
        rq_offsets_query(&broker->offsets, rq_slice_str(RQ_POP_REVIVE_GROUP), topic, queue_id);
    int64_t offset = done >= 0 ? done + 1 : 0;
    bool more = true;
    while (more) {
        struct rq_store_result result;
        rq_store_get(broker->store, topic, queue_id, offset, RQ_POP_MAX, 0, NULL, &result);
        more = result.next_begin_offset > offset;
        load_result(pops, &result);
        offset = result.next_begin_offset;
        rq_store_result_release(&result);
    }
    pops->last_record[queue_id] = rq_store_max_offset(broker->store, topic, queue_id) - 1;
}

rmq_status rq_pops_init(struct rq_pops *pops, struct rmq_broker *broker, struct rq_loop *background,
                        rmq_error **err)
{
    const char *cluster = broker->settings.broker.broker_cluster_name;
    pops->broker = broker;
    pops->loop = background;
    rq_loop_retain(background);
    rq_mutex_init(&pops->lock);
    rq_map_init(&pops->pending);
    for (size_t i = 0; i < RQ_POP_REVIVE_QUEUES; i++) {
        rq_list_init(&pops->by_record[i]);
        pops->last_record[i] = -1;
    }
    pops->armed_ms = INT64_MAX;
    rq_pops_init_timer(pops);
    int n = snprintf(pops->revive_topic, sizeof pops->revive_topic, RQ_POP_REVIVE_TOPIC "%s",
                     cluster ? cluster : "");
    return n > 0 && n < (int)sizeof pops->revive_topic
               ? RMQ_OK
               : rq_error_set(err, RMQ_ERR_INVALID, "brokerClusterName is too long");
}

void rq_pops_load(struct rq_pops *pops)
{
    rq_mutex_lock(&pops->lock);
    for (int32_t i = 0; i < RQ_POP_REVIVE_QUEUES; i++) {
        load_queue(pops, i);
    }
    rq_mutex_unlock(&pops->lock);
}

void rq_pops_commit(struct rq_pops *pops)
{
    struct rq_slice group = rq_slice_str(RQ_POP_REVIVE_GROUP);
    struct rq_slice topic = rq_slice_str(pops->revive_topic);
    for (int32_t i = 0; i < RQ_POP_REVIVE_QUEUES; i++) {
        rq_mutex_lock(&pops->lock);
        struct rq_list *first = pops->by_record[i].next;
        int64_t done = first == &pops->by_record[i]
                           ? pops->last_record[i]
                           : RQ_CONTAINER_OF(first, struct rq_pop_pending, by_record)->record - 1;
        rq_mutex_unlock(&pops->lock);
        /* -1, none is done, only takes the place of what a lost log has left behind */
        if (done >= 0 || rq_offsets_query(&pops->broker->offsets, group, topic, i) >= 0) {
            (void)rq_offsets_commit(&pops->broker->offsets, group, topic, i, done, NULL);
        }
    }
}

void rq_pops_free(struct rq_pops *pops)
{
    if (!pops->loop) {
        return;
    }
    rq_loop_put(pops->loop);
    rq_map_free(&pops->pending, NULL);
    for (size_t i = 0; i < RQ_POP_REVIVE_QUEUES; i++) {
        struct rq_list *node;
        while ((node = rq_list_pop(&pops->by_record[i]))) {
            rq_free(RQ_CONTAINER_OF(node, struct rq_pop_pending, by_record));
        }
    }
    rq_free(pops->heap);
    rq_mutex_destroy(&pops->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Checkpoints whose time is up: each message without an acknowledgement is stored again in the
 * group's retry topic, with one delivery more. On the background loop, by one timer. Counterpart:
 * PopReviveService.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/pop_priv.h"
#include "wire/properties.h"

#define AGAIN_MS 10000 /* after a message that could not be stored */
#define TURN_MAX 256   /* checkpoints of one turn of the loop */

/* ---- the timer ---- */

void rq_pops_arm_locked(struct rq_pops *pops)
{
    if (pops->heap_count > 0 && pops->heap[0]->deadline_ms < pops->armed_ms) {
        (void)rq_loop_post(pops->loop, &pops->arm_task);
    }
}

/* On the loop. */
static void arm(struct rq_pops *pops)
{
    rq_mutex_lock(&pops->lock);
    int64_t at = pops->heap_count > 0 ? pops->heap[0]->deadline_ms : INT64_MAX;
    pops->armed_ms = at;
    rq_mutex_unlock(&pops->lock);
    rq_timer_stop(&pops->timer);
    if (at != INT64_MAX && !pops->stopped) {
        int64_t left = at - rq_wall_ms();
        rq_timer_start(pops->loop, &pops->timer, left > 0 ? left : 0);
    }
}

static void on_arm(struct rq_task *task)
{
    arm(RQ_CONTAINER_OF(task, struct rq_pops, arm_task));
}

/* ---- one message ---- */

static bool need_topic(struct rmq_broker *broker, struct rq_slice topic, struct rq_slice group)
{
    bool created = false;
    const struct rq_topic_info info = {
        .read_queue_nums = 1, .write_queue_nums = 1, .perm = RQ_PERM_READ | RQ_PERM_WRITE};
    if (rq_topics_add(&broker->topics, topic, &info, &created) != RMQ_OK) {
        return false;
    }
    if (created) {
        rq_broker_topics_changed(broker);
        if (rq_offsets_query(&broker->offsets, group, topic, 0) == RQ_OFFSET_NONE) {
            (void)rq_offsets_commit(&broker->offsets, group, topic, 0, 0, NULL);
        }
    }
    return true;
}

static bool is_stored(const struct rq_store_put *put)
{
    return put->status == RQ_PUT_OK || put->status == RQ_PUT_FLUSH_DISK_TIMEOUT;
}

static bool store_again(struct rmq_broker *broker, struct rq_slice topic, struct rq_msg *msg,
                        int64_t pop_time_ms)
{
    struct rq_store_put put = {.status = RQ_PUT_UNKNOWN_ERROR};
    struct rq_buf props;
    struct rq_slice old = msg->properties;
    rq_buf_init(&props, 0);
    rq_buf_add_slice(&props, msg->properties);
    if (msg->reconsume_times == 0 || !rq_props_get(msg->properties, RQ_PROP_FIRST_POP_TIME).p) {
        rq_props_add_i64(&props, 0, RQ_PROP_FIRST_POP_TIME, pop_time_ms);
    }
    msg->topic = topic;
    msg->queue_id = 0;
    msg->properties = rq_slice(props.data, props.len);
    msg->born_host = broker->store_host;
    msg->store_host = broker->store_host;
    msg->reconsume_times += msg->reconsume_times < INT32_MAX;
    msg->prepared_transaction_offset = 0;
    msg->body.p = msg->body.p ? msg->body.p : "";
    if (rq_buf_status(&props) == RMQ_OK) {
        (void)rq_store_append_own(broker->store, msg, &put);
    }
    if (put.status == RQ_PUT_PROPERTIES_SIZE_EXCEEDED) { /* rather without the time */
        msg->properties = old;
        (void)rq_store_append_own(broker->store, msg, &put);
    }
    rq_buf_free(&props);
    if (is_stored(&put)) {
        rq_broker_count_own_put(broker, msg->topic, msg->queue_id, &put);
    }
    return is_stored(&put);
}

/* false: it has to be tried again. A message that retention took is given up. */
static bool revive_message(struct rmq_broker *broker, const struct rq_pop_checkpoint *checkpoint,
                           struct rq_slice retry_topic, int64_t offset)
{
    struct rq_store_entry entry;
    struct rq_store_ref ref;
    struct rq_msg msg;
    bool good = true;
    if (!rq_store_entry(broker->store, checkpoint->topic, checkpoint->queue_id, offset, &entry) ||
        !rq_store_view(broker->store, entry.commit_log_offset, &ref)) {
        return true;
    }
    struct rq_cursor cursor = rq_cursor(ref.p, ref.n);
    if (rq_msg_decode(&cursor, &msg, NULL) == RMQ_OK) {
        good = store_again(broker, retry_topic, &msg, checkpoint->pop_time_ms);
    }
    rq_store_ref_release(&ref);
    return good;
}

/* ---- one checkpoint ---- */

/* Of a topic or group that was deleted nothing is delivered again. */
static bool is_wanted(struct rmq_broker *broker, const struct rq_pop_checkpoint *checkpoint)
{
    struct rq_topic_info info;
    struct rq_slice normal = checkpoint->topic;
    (void)rq_pop_normal_topic(checkpoint->topic, checkpoint->group, &normal);
    return rq_topics_get(&broker->topics, normal, &info) &&
           rq_groups_exists(&broker->groups, checkpoint->group);
}

/* The messages that are left unmarked could not be stored. */
static bool revive(struct rmq_broker *broker, struct rq_pop_checkpoint *checkpoint)
{
    char room[RQ_POP_TOPIC_ROOM];
    struct rq_slice retry = checkpoint->topic;
    bool whole = true;
    if (!is_wanted(broker, checkpoint)) {
        return true;
    }
    if (rq_pop_retry_mark(checkpoint->topic) == '0') {
        retry = rq_slice(room, rq_pop_retry_topic(checkpoint->topic, checkpoint->group, room));
    }
    if (retry.n == 0 || !need_topic(broker, retry, checkpoint->group)) {
        return false;
    }
    for (size_t i = 0; i < checkpoint->count; i++) {
        if (checkpoint->acked & 1u << i) {
            continue;
        }
        if (revive_message(broker, checkpoint, retry,
                           checkpoint->start_offset + checkpoint->diffs[i])) {
            checkpoint->acked |= 1u << i;
        } else {
            whole = false;
        }
    }
    return whole;
}

static struct rq_pop_pending *take_due(struct rq_pops *pops)
{
    rq_mutex_lock(&pops->lock);
    struct rq_pop_pending *pending = pops->heap_count > 0 ? pops->heap[0] : NULL;
    if (pending && pending->deadline_ms <= rq_wall_ms()) {
        rq_pop_pending_leave_locked(pops, pending);
    } else {
        pending = NULL;
    }
    rq_mutex_unlock(&pops->lock);
    return pending;
}

/* What a restart, which reads from the oldest open checkpoint of the revive queue on, has to know:
 * these of its messages came back. */
static void note_locked(struct rq_pops *pops, const struct rq_pop_pending *pending, uint32_t which)
{
    const struct rq_pop_checkpoint *checkpoint = &pending->checkpoint;
    int64_t offsets[RQ_POP_MAX];
    size_t count = 0;
    for (size_t i = 0; i < checkpoint->count; i++) {
        if (which & 1u << i) {
            offsets[count++] = checkpoint->start_offset + checkpoint->diffs[i];
        }
    }
    if (count == 0) {
        return;
    }
    const struct rq_pop_ack ack = {.topic = checkpoint->topic,
                                   .group = checkpoint->group,
                                   .broker_name =
                                       rq_slice_str(pops->broker->settings.broker.broker_name),
                                   .queue_id = checkpoint->queue_id,
                                   .start_offset = checkpoint->start_offset,
                                   .pop_time_ms = checkpoint->pop_time_ms,
                                   .count = count,
                                   .offsets = offsets};
    if (rq_pops_append_ack_locked(pops, pending->revive_qid, &ack, pending->deadline_ms)) {
        RQ_LOG(WARN, "messages that came back may come once more after a restart",
               "topic=%.*s group=%.*s", RQ_TEXT(checkpoint->topic), RQ_TEXT(checkpoint->group));
    }
}

/* When it is the oldest one itself, no restart will find it. */
static void end(struct rq_pops *pops, struct rq_pop_pending *pending)
{
    rq_mutex_lock(&pops->lock);
    if (pending->by_record.prev != &pops->by_record[pending->revive_qid]) {
        note_locked(pops, pending, UINT32_MAX);
    }
    rq_pop_pending_end_locked(pending);
    rq_mutex_unlock(&pops->lock);
}

/* before: what was acknowledged when its time was up. */
static void come_back(struct rq_pops *pops, struct rq_pop_pending *pending, uint32_t before)
{
    RQ_LOG(WARN, "messages that were popped could not be stored again, tried later",
           "topic=%.*s group=%.*s", RQ_TEXT(pending->checkpoint.topic),
           RQ_TEXT(pending->checkpoint.group));
    rq_mutex_lock(&pops->lock);
    note_locked(pops, pending, pending->checkpoint.acked & ~before);
    rq_pop_pending_come_back_locked(pops, pending, rq_wall_ms() + AGAIN_MS);
    rq_mutex_unlock(&pops->lock);
}

static void on_timer(struct rq_timer *timer)
{
    struct rq_pops *pops = RQ_CONTAINER_OF(timer, struct rq_pops, timer);
    struct rq_pop_pending *pending = NULL;
    int turns = 0;
    while (turns++ < TURN_MAX && (pending = take_due(pops))) {
        uint32_t before = pending->checkpoint.acked;
        if (revive(pops->broker, &pending->checkpoint)) {
            end(pops, pending);
        } else {
            come_back(pops, pending, before);
        }
    }
    if (turns > 1) {
        rq_store_dispatch(pops->broker->store);
        rq_pops_commit(pops);
    }
    arm(pops);
}

/* ---- life ---- */

void rq_pops_init_timer(struct rq_pops *pops)
{
    rq_timer_init(&pops->timer, on_timer);
    pops->arm_task.run = on_arm;
}

void rq_pops_start(struct rq_pops *pops)
{
    (void)rq_loop_post(pops->loop, &pops->arm_task);
}

static void stop_on_loop(void *arg)
{
    struct rq_pops *pops = arg;
    pops->stopped = true;
    rq_timer_stop(&pops->timer);
}

void rq_pops_stop(struct rq_pops *pops)
{
    if (pops->loop) {
        rq_loop_run(pops->loop, stop_on_loop, pops);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Parked pulls. Parking and arrival race: the arrival may be dispatched after the pull has looked
 * and before it is parked; so the parking thread looks at the queue's end once more afterwards. The
 * same goes for a change of a static topic's mapping.
 * Counterpart: PullRequestHoldService.
 */
#include "broker/hold.h"

#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/filter.h"
#include "broker/pull_static.h"

#define KEY_MAX 512
/* more are answered at once: a bound on memory, far beyond what consumers need */
#define PARKED_MAX 200000

struct hold_queue {
    struct rq_list parked; /* struct rq_parked.of_queue */
};

struct parked {
    struct rq_list of_queue; /* or of a list of woken ones */
    struct rq_list of_session;
    struct rq_heap_node of_time;
    struct rq_session *session; /* until dropped */
    /* somebody looks whether it can be answered: only in the session's list; guarded by the lock */
    bool busy;
    bool dropped;         /* meanwhile the connection has closed; guarded by the lock */
    struct rq_conn *conn; /* a reference */
    struct rq_reply_to to;
    struct rq_pull pull; /* texts behind the struct; sub is a reference */
    int64_t deadline_ms;
    char text[];
};

static void arm(struct rq_task *task);
static void time_is_up(struct rq_timer *timer);

void rq_hold_init(struct rq_hold *hold, struct rmq_broker *broker, struct rq_loop *background)
{
    memset(hold, 0, sizeof *hold);
    hold->broker = broker;
    hold->loop = background;
    rq_loop_retain(background);
    atomic_init(&hold->count, 0);
    rq_mutex_init(&hold->lock);
    rq_map_init(&hold->queues);
    rq_heap_init(&hold->by_time);
    hold->armed_ms = RQ_FOREVER;
    hold->arm_task.run = arm;
    rq_timer_init(&hold->timer, time_is_up);
}

static struct rq_slice key_of(struct rq_slice topic, int32_t queue_id, char out[KEY_MAX])
{
    size_t n = topic.n < KEY_MAX - 4 ? topic.n : KEY_MAX - 4;
    rq_store_be32(out, (uint32_t)queue_id);
    memcpy(out + 4, topic.p, n);
    return rq_slice(out, n + 4);
}

static void free_parked(struct parked *parked)
{
    rq_conn_release(parked->conn);
    rq_shared_subscription_release(parked->pull.sub);
    rq_pull_static_release(parked->pull.mapped);
    rq_free(parked);
}

/* Out of all lists but that of woken ones. */
static void detach_locked(struct rq_hold *hold, struct parked *parked)
{
    rq_list_remove(&parked->of_queue);
    rq_list_remove(&parked->of_session);
    rq_heap_remove(&parked->of_time);
    atomic_fetch_sub_explicit(&hold->count, 1, memory_order_relaxed);
}

/* Out of the lists by which it is found, but not the session's, whose end it has to learn. */
static void detach_busy_locked(struct rq_hold *hold, struct parked *parked)
{
    rq_list_remove(&parked->of_queue);
    rq_heap_remove(&parked->of_time);
    parked->busy = true;
    atomic_fetch_sub_explicit(&hold->count, 1, memory_order_relaxed);
}

static struct parked *make_parked(struct rq_session *session, const struct rq_reply_to *to,
                                  const struct rq_pull *pull, int64_t timeout_ms)
{
    struct parked *parked = rq_alloc(sizeof *parked + pull->topic.n + pull->group.n);
    if (!parked) {
        return NULL;
    }
    memcpy(parked->text, pull->topic.p, pull->topic.n);
    memcpy(parked->text + pull->topic.n, pull->group.p, pull->group.n);
    parked->session = session;
    parked->busy = false;
    parked->dropped = false;
    parked->conn = rq_conn_retain(session->conn);
    parked->to = *to;
    parked->pull = *pull;
    parked->pull.topic = rq_slice(parked->text, pull->topic.n);
    parked->pull.group = rq_slice(parked->text + pull->topic.n, pull->group.n);
    if (pull->sub) {
        atomic_fetch_add_explicit(&pull->sub->refs, 1, memory_order_relaxed);
    }
    (void)rq_pull_static_retain(pull->mapped);
    parked->deadline_ms = rq_deadline_ms(timeout_ms < 0 ? 0 : timeout_ms);
    return parked;
}

static struct hold_queue *queue_locked(struct rq_hold *hold, const struct rq_pull *pull)
{
    char text[KEY_MAX];
    struct rq_slice key = key_of(pull->topic, pull->queue_id, text);
    struct hold_queue *queue = rq_map_get(&hold->queues, key);
    if (!queue) {
        queue = rq_alloc(sizeof *queue);
        if (!queue || rq_map_put(&hold->queues, key, queue)) {
            rq_free(queue);
            return NULL;
        }
        rq_list_init(&queue->parked);
    }
    return queue;
}

static bool put_locked(struct rq_hold *hold, struct parked *parked)
{
    bool full = atomic_load_explicit(&hold->count, memory_order_relaxed) >= PARKED_MAX;
    struct hold_queue *queue = hold->closed || full ? NULL : queue_locked(hold, &parked->pull);
    if (!queue) {
        return false;
    }
    rq_list_add_tail(&queue->parked, &parked->of_queue);
    if (!parked->busy) {
        rq_list_add_tail(&parked->session->parked, &parked->of_session);
    }
    parked->busy = false;
    rq_heap_add(&hold->by_time, &parked->of_time, parked->deadline_ms);
    atomic_fetch_add_explicit(&hold->count, 1, memory_order_acq_rel);
    if (parked->deadline_ms < hold->armed_ms) {
        (void)rq_loop_post(hold->loop, &hold->arm_task);
    }
    return true;
}

/* Answers a list of detached ones. */
static void answer_all(struct rq_hold *hold, struct rq_list *woken)
{
    struct rq_list *node;
    while ((node = rq_list_pop(woken))) {
        struct parked *parked = RQ_CONTAINER_OF(node, struct parked, of_queue);
        (void)rq_pull_answer(hold->broker, parked->conn, &parked->to, &parked->pull,
                             RQ_PULL_ANSWERS);
        free_parked(parked);
    }
}

/* ---- those whose messages must be looked at: they are answered only when one matches ---- */

/* A busy one is done with. */
static void finish(struct rq_hold *hold, struct parked *parked)
{
    rq_mutex_lock(&hold->lock);
    if (!parked->dropped) {
        rq_list_remove(&parked->of_session);
    }
    rq_mutex_unlock(&hold->lock);
    free_parked(parked);
}

/* Back to where it waited. False: it is still busy. */
static bool put_back(struct rq_hold *hold, struct parked *parked)
{
    rq_mutex_lock(&hold->lock);
    bool put = !parked->dropped && put_locked(hold, parked);
    rq_mutex_unlock(&hold->lock);
    return put;
}

/* Takes one that was put back, if it is there: it may be gone, so only its address is looked at. */
static bool take_again(struct rq_hold *hold, struct rq_slice key, struct parked *wanted)
{
    bool found = false;
    rq_mutex_lock(&hold->lock);
    struct hold_queue *queue = rq_map_get(&hold->queues, key);
    if (queue) {
        RQ_LIST_FOREACH_SAFE(node, next, &queue->parked)
        {
            found = found || RQ_CONTAINER_OF(node, struct parked, of_queue) == wanted;
        }
    }
    if (found) {
        detach_busy_locked(hold, wanted);
    }
    rq_mutex_unlock(&hold->lock);
    return found;
}

/* false: it is answered, and gone. true: it waits again, at *offset. */
static bool answer_or_put_back(struct rq_hold *hold, struct parked *parked, int64_t *offset)
{
    bool answered =
        rq_pull_answer(hold->broker, parked->conn, &parked->to, &parked->pull, RQ_PULL_MAY_STAY);
    *offset = parked->pull.offset;
    if (!answered && put_back(hold, parked)) {
        return true;
    }
    if (!answered) {
        (void)rq_pull_answer(hold->broker, parked->conn, &parked->to, &parked->pull,
                             RQ_PULL_ANSWERS);
    }
    finish(hold, parked);
    return false;
}

/* Answers, or puts it back; as when parking, an arrival and a change of the mapping in between are
 * looked for afterwards. */
static void look_at(struct rq_hold *hold, struct parked *parked)
{
    char text[KEY_MAX];
    struct rq_slice key = key_of(parked->pull.topic, parked->pull.queue_id, text);
    struct rq_slice topic = rq_slice(key.p + 4, key.n - 4);
    int32_t queue_id = parked->pull.queue_id;
    struct rq_pull_static *mapped = rq_pull_static_retain(parked->pull.mapped);
    int64_t offset;
    while (answer_or_put_back(hold, parked, &offset)) {
        if (mapped && rq_pull_static_is_outdated(hold->broker, mapped)) {
            rq_hold_wake_topic(hold, topic);
            break;
        }
        if (rq_store_max_offset(hold->broker->store, topic, queue_id) <= offset ||
            !take_again(hold, key, parked)) {
            break;
        }
    }
    rq_pull_static_release(mapped);
}

static void look_at_all(struct rq_hold *hold, struct rq_list *busy)
{
    struct rq_list *node;
    while ((node = rq_list_pop(busy))) {
        look_at(hold, RQ_CONTAINER_OF(node, struct parked, of_queue));
    }
}

static bool may_match(const struct parked *parked, const struct rq_store_arrival *arrival)
{
    if (parked->pull.offset >= arrival->max_offset) {
        return false;
    }
    if (!parked->pull.sub || arrival->tags_all) {
        return true;
    }
    for (size_t i = 0; i < arrival->tags_count; i++) {
        if (rq_subscription_match_code(parked->pull.sub->sub, arrival->tags_codes[i])) {
            return true;
        }
    }
    return false;
}

static void wake(struct rq_hold *hold, const struct rq_store_arrival *arrival)
{
    char text[KEY_MAX];
    struct rq_list woken;
    struct rq_list busy;
    rq_list_init(&woken);
    rq_list_init(&busy);
    struct rq_slice key = key_of(arrival->topic, arrival->queue_id, text);
    rq_mutex_lock(&hold->lock);
    struct hold_queue *queue = rq_map_get(&hold->queues, key);
    if (queue) {
        RQ_LIST_FOREACH_SAFE(node, next, &queue->parked)
        {
            struct parked *parked = RQ_CONTAINER_OF(node, struct parked, of_queue);
            if (!may_match(parked, arrival)) {
                continue;
            }
            if (rq_filter_reads_messages(parked->pull.sub)) {
                detach_busy_locked(hold, parked);
                rq_list_add_tail(&busy, &parked->of_queue);
            } else {
                detach_locked(hold, parked);
                rq_list_add_tail(&woken, &parked->of_queue);
            }
        }
    }
    rq_mutex_unlock(&hold->lock);
    answer_all(hold, &woken);
    look_at_all(hold, &busy);
}

void rq_hold_arrived(struct rq_hold *hold, const struct rq_store_arrival *arrival)
{
    /* Either this comes after the count of the parked pull, or its addition comes after this and
     * the parking thread sees the queue's new end. */
    if (atomic_fetch_add_explicit(&hold->count, 0, memory_order_acq_rel) > 0) {
        wake(hold, arrival);
    }
}

/* Detaches what a group, or anybody (NULL), has parked at a queue. */
static void take_locked(struct rq_hold *hold, struct hold_queue *queue,
                        const struct rq_slice *group, struct rq_list *woken)
{
    RQ_LIST_FOREACH_SAFE(node, next, &queue->parked)
    {
        struct parked *parked = RQ_CONTAINER_OF(node, struct parked, of_queue);
        if (!group || rq_slice_eq(parked->pull.group, *group)) {
            detach_locked(hold, parked);
            rq_list_add_tail(woken, &parked->of_queue);
        }
    }
}

void rq_hold_reset(struct rq_hold *hold, struct rq_slice topic, int32_t queue_id,
                   struct rq_slice group)
{
    char text[KEY_MAX];
    struct rq_list woken;
    rq_list_init(&woken);
    rq_mutex_lock(&hold->lock);
    struct hold_queue *queue = rq_map_get(&hold->queues, key_of(topic, queue_id, text));
    if (queue) {
        take_locked(hold, queue, &group, &woken);
    }
    rq_mutex_unlock(&hold->lock);
    answer_all(hold, &woken);
}

void rq_hold_wake_topic(struct rq_hold *hold, struct rq_slice topic)
{
    char text[KEY_MAX];
    struct rq_list woken;
    rq_list_init(&woken);
    struct rq_slice any = key_of(topic, 0, text);
    rq_mutex_lock(&hold->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&hold->queues, &i));) {
        if (entry->key_len == any.n && memcmp(entry->key + 4, any.p + 4, any.n - 4) == 0) {
            take_locked(hold, entry->value, NULL, &woken);
        }
    }
    rq_mutex_unlock(&hold->lock);
    answer_all(hold, &woken);
}

rmq_status rq_hold_park(struct rq_hold *hold, struct rq_session *session,
                        const struct rq_reply_to *to, const struct rq_pull *pull,
                        int64_t timeout_ms)
{
    struct parked *parked = make_parked(session, to, pull, timeout_ms);
    if (!parked) {
        return RMQ_ERR_NOMEM;
    }
    rq_mutex_lock(&hold->lock);
    bool put = put_locked(hold, parked);
    bool closed = hold->closed;
    rq_mutex_unlock(&hold->lock);
    if (!put) {
        free_parked(parked);
        return closed ? RMQ_ERR_CLOSED : RMQ_ERR_NOMEM;
    }
    if (pull->mapped && rq_pull_static_is_outdated(hold->broker, pull->mapped)) {
        rq_hold_wake_topic(hold, pull->topic);
        return RMQ_OK;
    }
    int64_t end = rq_store_max_offset(hold->broker->store, pull->topic, pull->queue_id);
    if (end > pull->offset) {
        const struct rq_store_arrival arrival = {
            .topic = pull->topic, .queue_id = pull->queue_id, .max_offset = end, .tags_all = true};
        wake(hold, &arrival);
    }
    return RMQ_OK;
}

void rq_hold_drop(struct rq_hold *hold, struct rq_session *session)
{
    struct rq_list dropped;
    rq_list_init(&dropped);
    rq_mutex_lock(&hold->lock);
    RQ_LIST_FOREACH_SAFE(node, next, &session->parked)
    {
        struct parked *parked = RQ_CONTAINER_OF(node, struct parked, of_session);
        if (parked->busy) {
            rq_list_remove(&parked->of_session);
            parked->dropped = true;
        } else {
            detach_locked(hold, parked);
            rq_list_add_tail(&dropped, &parked->of_queue);
        }
    }
    rq_mutex_unlock(&hold->lock);
    struct rq_list *node;
    while ((node = rq_list_pop(&dropped))) {
        free_parked(RQ_CONTAINER_OF(node, struct parked, of_queue));
    }
}

/* Sets the timer to the earliest deadline. Background loop. */
static void arm(struct rq_task *task)
{
    struct rq_hold *hold = RQ_CONTAINER_OF(task, struct rq_hold, arm_task);
    rq_mutex_lock(&hold->lock);
    const struct rq_heap_node *first = hold->closed ? NULL : rq_heap_first(&hold->by_time);
    hold->armed_ms = first ? first->key : RQ_FOREVER;
    int64_t due_ms = hold->armed_ms;
    rq_mutex_unlock(&hold->lock);
    if (due_ms != RQ_FOREVER) {
        rq_timer_start_at(hold->loop, &hold->timer, due_ms);
    }
}

/* Detaches those whose time is up, or all. */
static void take_due(struct rq_hold *hold, int64_t now_ms, struct rq_list *due)
{
    rq_list_init(due);
    rq_mutex_lock(&hold->lock);
    struct rq_heap_node *first;
    while ((first = rq_heap_first(&hold->by_time)) && first->key <= now_ms) {
        struct parked *parked = RQ_CONTAINER_OF(first, struct parked, of_time);
        detach_locked(hold, parked);
        rq_list_add_tail(due, &parked->of_queue);
    }
    rq_mutex_unlock(&hold->lock);
}

static void time_is_up(struct rq_timer *timer)
{
    struct rq_hold *hold = RQ_CONTAINER_OF(timer, struct rq_hold, timer);
    struct rq_list due;
    take_due(hold, rq_mono_ms(), &due);
    answer_all(hold, &due);
    arm(&hold->arm_task);
}

void rq_hold_close(struct rq_hold *hold)
{
    struct rq_list due;
    rq_mutex_lock(&hold->lock);
    hold->closed = true;
    rq_mutex_unlock(&hold->lock);
    take_due(hold, RQ_FOREVER, &due);
    answer_all(hold, &due);
}

static void stop_timer(void *arg)
{
    struct rq_hold *hold = arg;
    rq_timer_stop(&hold->timer);
}

void rq_hold_free(struct rq_hold *hold)
{
    if (!hold->loop) {
        return;
    }
    (void)rq_loop_run(hold->loop, stop_timer, hold);
    rq_loop_put(hold->loop);
    rq_map_free(&hold->queues, rq_free);
    rq_mutex_destroy(&hold->lock);
}

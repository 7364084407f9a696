/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Waiting pops. Who looks for one of them has marked it as busy; it stays in the lists meanwhile,
 * so that an arrival is noted with it and it is looked at once more. Counterpart:
 * PopLongPollingService.
 */
#include "broker/pop_hold.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"

#define PARKED_MAX 100000 /* more are refused as POLLING_FULL */

struct parked;

struct hold_topic {
    struct rq_map groups;   /* group -> struct hold_group */
    struct rq_list notices; /* struct link of those that take nothing away, of all groups */
};

struct hold_group {
    struct rq_list links;
};

struct link {
    struct rq_list node; /* in a hold_group, or among the notices of a hold_topic */
    struct parked *parked;
};

struct parked {
    struct link by_topic;
    struct link by_retry; /* alone for a pop in order: it has no retry topic */
    struct rq_list of_session;
    struct rq_heap_node of_time; /* in no heap while busy */
    struct rq_list of_woken;     /* private to who took it */
    bool busy;                   /* somebody looks for it; guarded by the lock, as all of these */
    bool woken;                  /* something came while it was busy */
    bool dropped;                /* the connection has closed */
    struct rq_conn *conn;        /* a reference */
    struct rq_reply_to to;
    struct rq_pop_ask ask; /* texts behind the struct; sub is a reference */
    int64_t deadline_ms;   /* monotonic */
    char text[];
};

static void on_arm(struct rq_task *task);
static void on_time(struct rq_timer *timer);

void rq_pop_hold_init(struct rq_pop_hold *hold, struct rmq_broker *broker,
                      struct rq_loop *background)
{
    memset(hold, 0, sizeof *hold);
    hold->broker = broker;
    hold->loop = background;
    rq_loop_retain(background);
    atomic_init(&hold->count, 0);
    rq_mutex_init(&hold->lock);
    rq_map_init(&hold->topics);
    rq_heap_init(&hold->by_time);
    hold->armed_ms = RQ_FOREVER;
    hold->arm_task.run = on_arm;
    rq_timer_init(&hold->timer, on_time);
}

/* ---- one that waits ---- */

static struct rq_slice copy_text(char **to, struct rq_slice from)
{
    struct rq_slice copy = rq_slice(*to, from.n);
    if (from.n) {
        memcpy(*to, from.p, from.n);
        *to += from.n;
    }
    return copy;
}

static struct parked *make_parked(struct rq_session *session, const struct rq_reply_to *to,
                                  const struct rq_pop_ask *ask, int64_t timeout_ms)
{
    struct parked *parked =
        rq_calloc(1, sizeof *parked + ask->topic.n + ask->group.n + ask->attempt_id.n);
    if (!parked) {
        return NULL;
    }
    char *at = parked->text;
    parked->ask = *ask;
    parked->ask.topic = copy_text(&at, ask->topic);
    parked->ask.group = copy_text(&at, ask->group);
    parked->ask.attempt_id = copy_text(&at, ask->attempt_id);
    if (ask->sub) {
        atomic_fetch_add_explicit(&ask->sub->refs, 1, memory_order_relaxed);
    }
    parked->conn = rq_conn_retain(session->conn);
    parked->to = *to;
    parked->busy = true;
    parked->deadline_ms = rq_deadline_ms(timeout_ms);
    parked->by_topic.parked = parked->by_retry.parked = parked;
    rq_list_init(&parked->by_topic.node);
    rq_list_init(&parked->by_retry.node);
    rq_list_init(&parked->of_session);
    rq_list_init(&parked->of_woken);
    return parked;
}

static void free_parked(struct parked *parked)
{
    rq_conn_release(parked->conn);
    rq_shared_subscription_release(parked->ask.sub);
    rq_free(parked);
}

static struct hold_topic *need_topic_locked(struct rq_pop_hold *hold, struct rq_slice name)
{
    struct hold_topic *topic = rq_map_get(&hold->topics, name);
    if (!topic) {
        topic = rq_alloc(sizeof *topic);
        if (!topic || rq_map_put(&hold->topics, name, topic) != RMQ_OK) {
            rq_free(topic);
            return NULL;
        }
        rq_map_init(&topic->groups);
        rq_list_init(&topic->notices);
    }
    return topic;
}

static struct hold_group *need_group_locked(struct hold_topic *topic, struct rq_slice name)
{
    struct hold_group *group = rq_map_get(&topic->groups, name);
    if (!group) {
        group = rq_alloc(sizeof *group);
        if (!group || rq_map_put(&topic->groups, name, group) != RMQ_OK) {
            rq_free(group);
            return NULL;
        }
        rq_list_init(&group->links);
    }
    return group;
}

static struct rq_list *links_locked(struct rq_pop_hold *hold, struct rq_slice topic_name,
                                    struct rq_slice group_name)
{
    struct hold_topic *topic = rq_map_get(&hold->topics, topic_name);
    struct hold_group *group = topic ? rq_map_get(&topic->groups, group_name) : NULL;
    return group ? &group->links : NULL;
}

static bool enter_topic(struct rq_pop_hold *hold, struct rq_slice name, struct link *link)
{
    const struct rq_pop_ask *ask = &link->parked->ask;
    struct hold_topic *topic = need_topic_locked(hold, name);
    if (topic && ask->is_notice) {
        rq_list_add_tail(&topic->notices, &link->node);
        return true;
    }
    struct hold_group *group = topic ? need_group_locked(topic, ask->group) : NULL;
    if (!group) {
        return false;
    }
    rq_list_add_tail(&group->links, &link->node);
    return true;
}

static void leave_locked(struct rq_pop_hold *hold, struct parked *parked)
{
    rq_list_remove(&parked->by_topic.node);
    rq_list_remove(&parked->by_retry.node);
    rq_list_remove(&parked->of_session);
    rq_heap_remove(&parked->of_time);
    atomic_fetch_sub(&hold->count, 1);
}

static bool enter(struct rq_pop_hold *hold, struct rq_session *session, struct parked *parked)
{
    char room[RQ_POP_TOPIC_ROOM];
    size_t n = rq_pop_retry_topic(parked->ask.topic, parked->ask.group, room);
    rq_mutex_lock(&hold->lock);
    bool entered = !hold->closed && atomic_load(&hold->count) < PARKED_MAX &&
                   enter_topic(hold, parked->ask.topic, &parked->by_topic);
    if (entered) {
        atomic_fetch_add(&hold->count, 1);
        rq_list_add_tail(&session->popped, &parked->of_session);
        if (n > 0 && !parked->ask.order &&
            !enter_topic(hold, rq_slice(room, n), &parked->by_retry)) {
            leave_locked(hold, parked);
            entered = false;
        }
    }
    rq_mutex_unlock(&hold->lock);
    return entered;
}

/* ---- time ---- */

static void wait_until_locked(struct rq_pop_hold *hold, struct parked *parked, int64_t look_ms)
{
    rq_heap_add(&hold->by_time, &parked->of_time, look_ms);
    if (look_ms < hold->armed_ms) {
        (void)rq_loop_post(hold->loop, &hold->arm_task);
    }
}

static void arm(struct rq_pop_hold *hold)
{
    rq_mutex_lock(&hold->lock);
    const struct rq_heap_node *first = hold->closed ? NULL : rq_heap_first(&hold->by_time);
    hold->armed_ms = first ? first->key : RQ_FOREVER;
    int64_t at = hold->armed_ms;
    rq_mutex_unlock(&hold->lock);
    rq_timer_stop(&hold->timer);
    if (at != RQ_FOREVER) {
        rq_timer_start_at(hold->loop, &hold->timer, at);
    }
}

static void on_arm(struct rq_task *task)
{
    arm(RQ_CONTAINER_OF(task, struct rq_pop_hold, arm_task));
}

/* ---- looking ---- */

static int64_t to_mono(int64_t wall_ms)
{
    return rq_mono_ms() + wall_ms - rq_wall_ms();
}

/* Back to waiting. false: it is to be looked at once more. */
static bool settle(struct rq_pop_hold *hold, struct parked *parked, int64_t look_wall_ms)
{
    rq_mutex_lock(&hold->lock);
    bool again = parked->woken || parked->dropped || hold->closed;
    parked->woken = false;
    if (!again) {
        int64_t look = look_wall_ms ? to_mono(look_wall_ms) + 1 : parked->deadline_ms;
        parked->busy = false;
        wait_until_locked(hold, parked, look < parked->deadline_ms ? look : parked->deadline_ms);
    }
    rq_mutex_unlock(&hold->lock);
    return !again;
}

/* Whether something came for it that it may not have looked for. */
static bool leave(struct rq_pop_hold *hold, struct parked *parked)
{
    rq_mutex_lock(&hold->lock);
    leave_locked(hold, parked);
    bool missed = parked->woken || parked->dropped;
    rq_mutex_unlock(&hold->lock);
    return missed;
}

static bool must_end(struct rq_pop_hold *hold, struct parked *parked, bool *dropped)
{
    rq_mutex_lock(&hold->lock);
    bool closed = hold->closed;
    *dropped = parked->dropped;
    rq_mutex_unlock(&hold->lock);
    return closed || rq_mono_ms() >= parked->deadline_ms;
}

/* Makes it busy and adds it to those to look at, or notes that it has to look again. */
static void take_locked(struct parked *parked, struct rq_list *woken)
{
    if (parked->busy) {
        parked->woken = true;
        return;
    }
    parked->busy = true;
    rq_heap_remove(&parked->of_time);
    rq_list_add_tail(woken, &parked->of_woken);
}

static bool is_for(const struct parked *parked, int32_t queue_id, bool is_retry)
{
    return is_retry || parked->ask.queue_id < 0 || queue_id < 0 || parked->ask.queue_id == queue_id;
}

/* The first of a group; one that is busy may have looked too early, and passes it on when it ends.
 * For any queue (-1) also those before it that want one queue, which need not be that one. */
static void take_next(struct rq_pop_hold *hold, struct rq_slice name, struct rq_slice group,
                      int32_t queue_id, struct rq_list *woken)
{
    rq_mutex_lock(&hold->lock);
    struct rq_list *links = links_locked(hold, name, group);
    for (struct rq_list *node = links ? links->next : NULL; node != links; node = node->next) {
        struct parked *parked = RQ_CONTAINER_OF(node, struct link, node)->parked;
        if (is_for(parked, queue_id, false)) {
            take_locked(parked, woken);
            if (queue_id >= 0 || parked->ask.queue_id < 0) {
                break;
            }
        }
    }
    rq_mutex_unlock(&hold->lock);
}

/* Ends one that is answered, or has nobody to answer. When something is left, or it was woken in
 * vain, the next one is added to woken. */
static void end(struct rq_pop_hold *hold, struct parked *parked, bool more, struct rq_list *woken)
{
    const struct rq_pop_ask *ask = &parked->ask;
    bool missed = leave(hold, parked) && !ask->is_notice;
    if (more || missed) {
        take_next(hold, ask->topic, ask->group, missed ? -1 : ask->queue_id, woken);
    }
    free_parked(parked);
}

/* Of one that the caller has made busy. What is popped for a connection that has closed would be
 * invisible for a while: it is not popped. */
static void look_at(struct rq_pop_hold *hold, struct parked *parked, struct rq_list *woken)
{
    for (;;) {
        struct rq_pop_outcome outcome = {0};
        bool dropped = false;
        bool last = must_end(hold, parked, &dropped);
        if (dropped ||
            rq_pop_answer(hold->broker, parked->conn, &parked->to, &parked->ask, last, &outcome)) {
            end(hold, parked, outcome.more, woken);
            return;
        }
        if (settle(hold, parked, outcome.look_ms)) {
            return;
        }
    }
}

static void look_at_all(struct rq_pop_hold *hold, struct rq_list *woken)
{
    struct rq_list *node;
    while ((node = rq_list_pop(woken))) {
        look_at(hold, RQ_CONTAINER_OF(node, struct parked, of_woken), woken);
    }
}

static void on_time(struct rq_timer *timer)
{
    struct rq_pop_hold *hold = RQ_CONTAINER_OF(timer, struct rq_pop_hold, timer);
    struct rq_list woken;
    int64_t now = rq_mono_ms();
    rq_list_init(&woken);
    rq_mutex_lock(&hold->lock);
    struct rq_heap_node *first;
    while ((first = rq_heap_first(&hold->by_time)) && first->key <= now) {
        take_locked(RQ_CONTAINER_OF(first, struct parked, of_time), &woken);
    }
    rq_mutex_unlock(&hold->lock);
    look_at_all(hold, &woken);
    rq_store_dispatch(hold->broker->store); /* the checkpoints of what was popped */
    arm(hold);
}

void rq_pop_hold_wait(struct rq_pop_hold *hold, struct rq_session *session,
                      const struct rq_reply_to *to, const struct rq_pop_ask *ask,
                      int64_t timeout_ms)
{
    struct parked *parked = make_parked(session, to, ask, timeout_ms);
    if (!parked || !enter(hold, session, parked)) {
        if (parked) {
            free_parked(parked);
        }
        rq_pop_answer_full(session->conn, to, ask);
        return;
    }
    struct rq_list woken;
    rq_list_init(&woken);
    look_at(hold, parked, &woken);
    look_at_all(hold, &woken);
}

/* ---- waking ---- */

/* The first of a list, or all, that a message in the queue is for. */
static void take_from(struct rq_list *links, bool all, int32_t queue_id, struct rq_list *woken)
{
    RQ_LIST_FOREACH_SAFE(node, next, links)
    {
        struct link *link = RQ_CONTAINER_OF(node, struct link, node);
        if (is_for(link->parked, queue_id, link == &link->parked->by_retry)) {
            take_locked(link->parked, woken);
            if (!all) {
                return;
            }
        }
    }
}

/* One of each group, and all notices. */
static void take_each_group(struct hold_topic *topic, int32_t queue_id, struct rq_list *woken)
{
    const struct rq_map_entry *entry;
    take_from(&topic->notices, true, queue_id, woken);
    for (size_t i = 0; (entry = rq_map_next(&topic->groups, &i));) {
        take_from(&((struct hold_group *)entry->value)->links, false, queue_id, woken);
    }
}

void rq_pop_hold_arrived(struct rq_pop_hold *hold, const struct rq_store_arrival *arrival)
{
    struct rq_list woken;
    /* Either this comes after the count of the one that waits, or its second look comes after the
     * arrival. */
    if (atomic_load(&hold->count) == 0) {
        return;
    }
    rq_list_init(&woken);
    rq_mutex_lock(&hold->lock);
    struct hold_topic *topic = rq_map_get(&hold->topics, arrival->topic);
    if (topic) {
        take_each_group(topic, arrival->queue_id, &woken);
    }
    rq_mutex_unlock(&hold->lock);
    look_at_all(hold, &woken);
}

void rq_pop_hold_wake(struct rq_pop_hold *hold, struct rq_slice name, struct rq_slice group,
                      int32_t queue_id)
{
    struct rq_list woken;
    rq_list_init(&woken);
    take_next(hold, name, group, queue_id, &woken);
    look_at_all(hold, &woken);
}

int32_t rq_pop_hold_count(struct rq_pop_hold *hold, const struct rq_pop_place *place)
{
    int32_t count = 0;
    rq_mutex_lock(&hold->lock);
    struct rq_list *links = links_locked(hold, place->topic, place->group);
    for (struct rq_list *node = links ? links->next : NULL; node != links; node = node->next) {
        count += RQ_CONTAINER_OF(node, struct link, node)->parked->ask.queue_id == place->queue_id;
    }
    rq_mutex_unlock(&hold->lock);
    return count;
}

/* ---- ends ---- */

void rq_pop_hold_drop(struct rq_pop_hold *hold, struct rq_session *session)
{
    struct rq_list gone;
    struct rq_list *node;
    rq_list_init(&gone);
    rq_mutex_lock(&hold->lock);
    while ((node = rq_list_pop(&session->popped))) {
        struct parked *parked = RQ_CONTAINER_OF(node, struct parked, of_session);
        rq_list_init(node);
        parked->dropped = true;
        if (!parked->busy) {
            leave_locked(hold, parked);
            rq_list_add_tail(&gone, &parked->of_woken);
        }
    }
    rq_mutex_unlock(&hold->lock);
    while ((node = rq_list_pop(&gone))) {
        free_parked(RQ_CONTAINER_OF(node, struct parked, of_woken));
    }
}

static void stop_timer(void *arg)
{
    rq_timer_stop(&((struct rq_pop_hold *)arg)->timer);
}

void rq_pop_hold_close(struct rq_pop_hold *hold)
{
    struct rq_list woken;
    rq_list_init(&woken);
    rq_mutex_lock(&hold->lock);
    hold->closed = true;
    struct rq_heap_node *first;
    while ((first = rq_heap_first(&hold->by_time))) {
        take_locked(RQ_CONTAINER_OF(first, struct parked, of_time), &woken);
    }
    rq_mutex_unlock(&hold->lock);
    look_at_all(hold, &woken);
    (void)rq_loop_run(hold->loop, stop_timer, hold);
}

static void free_topic(void *value)
{
    struct hold_topic *topic = value;
    rq_map_free(&topic->groups, rq_free);
    rq_free(topic);
}

void rq_pop_hold_free(struct rq_pop_hold *hold)
{
    if (hold->broker) {
        rq_map_free(&hold->topics, free_topic);
        rq_mutex_destroy(&hold->lock);
        rq_loop_put(hold->loop);
    }
}

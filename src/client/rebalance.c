/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The share of each subscribed topic: asks a broker who is in the group and computes the share, or
 * asks for the share itself (assignment.c), and takes up or gives up queues. One request per topic
 * at a time, on the I/O thread; at start, when the group or the route changes, and every
 * rebalanceInterval. A failure leaves everything as it is and is tried again soon. Counterparts:
 * RebalanceService, RebalanceImpl, RebalancePushImpl.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"
#include "wire/bodies.h"

/* a topic without a route is asked for at growing intervals up to this */
#define UNKNOWN_ROUTE_MOST_MS 10000

/* members that are not known for longer are no longer those of a heartbeat that is on its way */
#define MEMBERS_WARN_MS 3000

static void on_route(struct rq_watch *watch, struct rq_route *route);
static void on_retry(struct rq_timer *timer);
static void rebalance(struct rq_subscribed *topic);

void rq_subscribed_release(struct rq_subscribed *topic)
{
    if (--topic->refs > 0) {
        return;
    }
    rq_route_release(topic->route);
    rq_subscription_destroy(topic->sub);
    rq_free(topic);
}

rmq_status rq_subscribed_create(struct rmq_consumer *consumer, struct rq_subscription *sub,
                                bool is_retry, struct rq_subscribed **out)
{
    size_t size = strlen(sub->topic) + 1;
    struct rq_subscribed *topic = rq_calloc(1, sizeof *topic + size);
    if (!topic) {
        return RMQ_ERR_NOMEM;
    }
    memcpy(topic->topic, sub->topic, size);
    topic->consumer = consumer;
    topic->sub = sub;
    topic->refs = 1;
    topic->is_retry = is_retry;
    topic->watch.changed = on_route;
    topic->delay_ms = RQ_RETRY_FIRST_MS;
    topic->samples[0].at_ms = rq_loop_now(consumer->loop);
    topic->sample_next = 1;
    rq_timer_init(&topic->retry, on_retry);
    rq_list_init(&topic->queues);
    rq_list_add_tail(&consumer->topics, &topic->node);
    *out = topic;
    return RMQ_OK;
}

struct rq_subscribed *rq_subscribed_find(struct rmq_consumer *consumer, const char *topic)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *subscribed = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        if (strcmp(subscribed->topic, topic) == 0) {
            return subscribed;
        }
    }
    return NULL;
}

/* An unknown topic may be created any moment, and the retry topic is made by the group's first
 * heartbeat: routes that are missing are asked for at growing intervals. */
static void ask_route_later(struct rq_subscribed *topic)
{
    int64_t delay = topic->delay_ms;
    topic->delay_ms = delay * 2 < UNKNOWN_ROUTE_MOST_MS ? delay * 2 : UNKNOWN_ROUTE_MOST_MS;
    rq_timer_start(topic->consumer->loop, &topic->retry, delay);
}

rmq_status rq_subscribed_watch(struct rq_subscribed *topic)
{
    rmq_status st = rq_instance_watch(topic->consumer->instance, &topic->watch, topic->topic);
    topic->watched = st == RMQ_OK;
    if (!topic->route) {
        ask_route_later(topic);
    }
    return st;
}

/* A new watch asks at once. */
void rq_subscribed_refresh(struct rq_subscribed *topic)
{
    if (topic->watched) {
        rq_instance_unwatch(topic->consumer->instance, &topic->watch);
    }
    rq_subscribed_watch(topic);
}

void rq_subscribed_remove(struct rq_subscribed *topic, bool commit)
{
    topic->gone = true;
    rq_timer_stop(&topic->retry);
    if (topic->watched) {
        rq_instance_unwatch(topic->consumer->instance, &topic->watch);
        topic->watched = false;
    }
    RQ_LIST_FOREACH_SAFE(node, next, &topic->queues)
    {
        rq_owned_drop(RQ_CONTAINER_OF(node, struct rq_owned, node), commit);
    }
    rq_list_remove(&topic->node);
    if (topic->asking) {
        rq_consumer_cancel(&topic->members);
    }
    if (topic->checking) {
        rq_consumer_cancel(&topic->check);
    }
    rq_subscribed_release(topic);
}

static void retry_later(struct rq_subscribed *topic)
{
    rq_timer_start(topic->consumer->loop, &topic->retry, rq_retry_delay(&topic->delay_ms));
}

static void on_retry(struct rq_timer *timer)
{
    struct rq_subscribed *topic = RQ_CONTAINER_OF(timer, struct rq_subscribed, retry);
    if (topic->route) {
        rebalance(topic);
    } else {
        rq_subscribed_refresh(topic);
    }
}

static void on_route(struct rq_watch *watch, struct rq_route *route)
{
    struct rq_subscribed *topic = RQ_CONTAINER_OF(watch, struct rq_subscribed, watch);
    if (!route || route->from_default) { /* a send may be about to make the topic */
        topic->settled = true; /* the name server has answered: there is nothing to wait for */
        rq_consumer_settle(topic->consumer);
        return;
    }
    bool first = !topic->route;
    struct rq_route *old = topic->route;
    rq_route_retain(route);
    topic->route = route;
    rq_pull_follow_leaders(topic, old);
    rq_route_release(old);
    if (first) {
        topic->settled = topic->assigned;
        topic->delay_ms = RQ_RETRY_FIRST_MS;
        rq_timer_stop(&topic->retry);
        /* Its brokers may be new to us, and we to them. */
        rq_instance_heartbeat(topic->consumer->instance);
    }
    rebalance(topic);
}

/* ---- taking up and giving up ---- */

struct share {
    struct rq_mq *queues; /* all of the topic, sorted */
    size_t queue_count;
    const char **clients;
    size_t client_count;
    size_t *picked;
    struct rq_mq *mine;
    size_t mine_count;
    const bool *pops; /* by mine; NULL: nothing is popped */
    struct rq_mq *owned;
    bool *gone;
    bool *added;
};

static void share_free(struct share *share)
{
    rq_free(share->queues);
    rq_free(share->clients);
    rq_free(share->picked);
    rq_free(share->mine);
    rq_free(share->owned);
    rq_free(share->gone);
    rq_free(share->added);
}

/* For n queues of so many members. */
static rmq_status share_init(struct share *share, const struct rq_subscribed *topic, size_t n,
                             size_t clients)
{
    *share = (struct share){.queues = rq_calloc(n + 1, sizeof *share->queues),
                            .clients = rq_calloc(clients + 1, sizeof *share->clients),
                            .picked = rq_calloc(n + 1, sizeof *share->picked),
                            .mine = rq_calloc(n + 1, sizeof *share->mine),
                            .owned = rq_calloc(topic->queue_count + 1, sizeof *share->owned),
                            .gone = rq_calloc(topic->queue_count + 1, sizeof *share->gone),
                            .added = rq_calloc(n + 1, sizeof *share->added)};
    bool whole = share->queues && share->clients && share->picked && share->mine && share->owned &&
                 share->gone && share->added;
    return whole ? RMQ_OK : RMQ_ERR_NOMEM;
}

static void share_fill(struct share *share, const struct rq_subscribed *topic,
                       const struct rq_names *ids)
{
    const struct rq_route *route = topic->route;
    share->queue_count = route->subscribe_count;
    for (size_t i = 0; i < share->queue_count; i++) {
        share->queues[i] = (struct rq_mq){.topic = topic->topic,
                                          .broker_name = route->subscribe[i].broker_name,
                                          .queue_id = route->subscribe[i].id};
    }
    share->client_count = ids->count;
    for (size_t i = 0; i < ids->count; i++) {
        share->clients[i] = ids->items[i];
    }
    rq_mq_sort(share->queues, share->queue_count);
    rq_mq_sort_clients(share->clients, share->client_count);
}

static void share_compare(struct share *share, const struct rq_subscribed *topic)
{
    size_t n = 0;
    for (struct rq_list *node = topic->queues.next; node != &topic->queues; node = node->next) {
        share->owned[n++] = RQ_CONTAINER_OF(node, struct rq_owned, node)->name;
    }
    rq_mq_diff(share->owned, n, share->mine, share->mine_count, share->gone, share->added);
    n = 0;
    /* One that was pulled and is popped now, or the other way about, is another queue. */
    for (struct rq_list *node = topic->queues.next; node != &topic->queues;
         node = node->next, n++) {
        const struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        for (size_t i = 0; !share->gone[n] && i < share->mine_count; i++) {
            bool pops = share->pops && share->pops[i];
            if (owned->pops != pops && rq_mq_equal(&owned->name, &share->mine[i])) {
                share->gone[n] = true;
                share->added[i] = true;
            }
        }
    }
}

static rmq_status share_compute(struct share *share, const struct rq_subscribed *topic)
{
    struct rq_allocate in = {.client_id = topic->consumer->client_id,
                             .queues = share->queues,
                             .queue_count = share->queue_count,
                             .clients = share->clients,
                             .client_count = share->client_count};
    rmq_status st = rq_sharing_compute(topic->consumer, &in, share->picked, &share->mine_count);
    for (size_t i = 0; st == RMQ_OK && i < share->mine_count; i++) {
        share->mine[i] = share->queues[share->picked[i]];
    }
    return st;
}

static void note_change(struct rq_buf *text, char sign, const struct rq_mq *queue)
{
    rq_buf_addf(text, " %c%s:%d", sign, queue->broker_name, (int)queue->queue_id);
}

static struct rq_owned *take_up(const struct share *share, struct rq_subscribed *topic, size_t i)
{
    return share->pops && share->pops[i] ? rq_owned_create_popped(topic, &share->mine[i])
                                         : rq_owned_create(topic, &share->mine[i]);
}

/* Queues given up first: another member waits for their offsets. */
static bool share_apply(const struct share *share, struct rq_subscribed *topic, struct rq_buf *text)
{
    size_t i = 0;
    bool changed = false;
    RQ_LIST_FOREACH_SAFE(node, next, &topic->queues)
    {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        if (!share->gone[i++]) {
            if (rq_owned_keep(owned)) {
                note_change(text, '+', &owned->name);
                changed = true;
            }
        } else if (!owned->leaving) {
            note_change(text, '-', &owned->name);
            rq_owned_give_up(owned);
            changed = true;
        }
    }
    for (i = 0; i < share->mine_count; i++) {
        struct rq_owned *owned = share->added[i] ? take_up(share, topic, i) : NULL;
        if (owned) {
            note_change(text, '+', &owned->name);
            rq_offset_locate(owned);
            changed = true;
        } else if (share->added[i]) {
            retry_later(topic); /* no memory now */
        }
    }
    return changed;
}

static void tell_change(struct rq_subscribed *topic, struct rq_buf *text)
{
    struct rmq_consumer *consumer = topic->consumer;
    RQ_LIST_FOREACH_SAFE(node, next, &topic->queues)
    {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        rq_owned_set_limits(owned);
        rq_pull(owned); /* there may be room now */
    }
    rq_instance_heartbeat(consumer->instance);
    if (consumer->kind->changed) {
        consumer->kind->changed(consumer, topic);
    }
    rq_consumer_note(consumer, RMQ_EVENT_REBALANCED, "%s", rq_buf_cstr(text));
}

static void share_take(struct share *share, struct rq_subscribed *topic)
{
    struct rq_buf text;
    rq_buf_init(&text, 0);
    rq_buf_add_str(&text, rq_consumer_plain(topic->consumer, topic->topic));
    share_compare(share, topic);
    if (share_apply(share, topic, &text)) {
        tell_change(topic, &text);
    }
    rq_buf_free(&text);
}

rmq_status rq_rebalance_apply_assignments(struct rq_subscribed *topic,
                                          const struct rq_assignments *assignments)
{
    struct share share;
    rmq_status st = share_init(&share, topic, assignments->count, 0);
    if (st == RMQ_OK) {
        share.mine_count = assignments->count;
        share.pops = assignments->pops;
        for (size_t i = 0; i < assignments->count; i++) {
            share.mine[i] = assignments->queues[i];
        }
        share_take(&share, topic);
    }
    share_free(&share);
    return st;
}

/* A topic or a broker that is only written to. The retry topic is the broker's own. */
static void note_unreadable(struct rq_subscribed *topic)
{
    int64_t now = rq_loop_now(topic->consumer->loop);
    if (!topic->is_retry && now >= topic->quiet_until_ms) {
        topic->quiet_until_ms = now + RQ_WARN_EVERY_MS;
        RQ_LOG(WARN, "nothing is consumed: the topic has no queue that may be read",
               "group=%s topic=%s", topic->consumer->options.consumer_group, topic->topic);
    }
}

static rmq_status apply_members(struct rq_subscribed *topic, const struct rq_names *ids)
{
    struct share share;
    rmq_status st = share_init(&share, topic, topic->route->subscribe_count, ids->count);
    if (st == RMQ_OK) {
        share_fill(&share, topic, ids);
        /* A topic without readable queues has nothing to share: what we have is given up. */
        if (share.queue_count > 0) {
            st = share_compute(&share, topic);
        } else {
            note_unreadable(topic);
        }
    }
    if (st == RMQ_OK) {
        share_take(&share, topic);
    }
    rq_lock_queues(topic->consumer, false);
    share_free(&share);
    return st;
}

/* ---- asking for the members ---- */

static bool names_us(const struct rq_subscribed *topic, const struct rq_names *ids)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (strcmp(ids->items[i], topic->consumer->client_id) == 0) {
            return true;
        }
    }
    return false;
}

/* status: of the answer; st: what came of it, which an answer of success need not be. */
static void tell_failure(const struct rq_subscribed *topic, rmq_status status, rmq_status st,
                         const struct rq_in *answer, bool warn)
{
    rmq_error *err = NULL;
    const char *broker = answer ? rq_conn_remote(answer->conn) : "of the topic";
    if (status == RMQ_OK && answer && answer->header->code == RQ_RESP_SUCCESS) {
        rq_error_set(&err, st, "member list: broker %s does not name this member: %s", broker,
                     rmq_status_text(st));
    } else {
        rq_answer_error(status, answer ? answer->header : NULL, broker, "member list", &err);
    }
    const char *group = topic->consumer->options.consumer_group;
    if (warn) {
        RQ_LOG(WARN, "members of the group are still not known: does the broker have the group?",
               "group=%s topic=%s why=%s", group, topic->topic, rmq_error_message(err));
    } else {
        RQ_LOG(INFO, "members of the group are not known, the share stays",
               "group=%s topic=%s why=%s", group, topic->topic, rmq_error_message(err));
    }
    rmq_error_destroy(err);
}

/* A broker does not know a group before its first heartbeat, and never one that it may not create.
 * A broker that is away is net's to tell. */
static void note_failure(struct rq_subscribed *topic, rmq_status status, rmq_status st,
                         const struct rq_in *answer)
{
    int64_t now = rq_loop_now(topic->consumer->loop);
    if (!topic->failing) {
        topic->failing = true;
        topic->failing_ms = now;
        tell_failure(topic, status, st, answer, false);
    } else if (status == RMQ_OK && now - topic->failing_ms >= MEMBERS_WARN_MS &&
               now >= topic->quiet_until_ms) {
        topic->quiet_until_ms = now + RQ_WARN_EVERY_MS;
        tell_failure(topic, status, st, answer, true);
    }
    /* "No consumer for this group": the broker has not had our heartbeat, or has forgotten it. */
    rq_instance_heartbeat(topic->consumer->instance);
    retry_later(topic);
}

static rmq_status take_answer(struct rq_subscribed *topic, struct rq_in *answer)
{
    if (rq_assignment_is_the_brokers(topic)) {
        return rq_assignment_take(topic, answer);
    }
    if (answer->header->code != RQ_RESP_SUCCESS) {
        return RMQ_ERR_BROKER;
    }
    struct rq_names ids;
    rmq_status st = rq_names_parse(answer->body, RQ_LIST_CONSUMER_IDS, &ids, NULL);
    if (st != RMQ_OK) {
        return st;
    }
    bool known = names_us(topic, &ids);
    if (ids.count > 0) {
        st = apply_members(topic, &ids);
    }
    rq_names_clear(&ids);
    /* The group does not have us (yet): nothing is ours, until our heartbeat has come. */
    return st == RMQ_OK && !known ? RMQ_ERR_NOT_FOUND : st;
}

static void on_members(struct rq_ask *ask, rmq_status status, struct rq_in *answer)
{
    struct rq_subscribed *topic = RQ_CONTAINER_OF(ask, struct rq_subscribed, members);
    struct rmq_consumer *consumer = topic->consumer;
    topic->asking = false;
    if (topic->gone || !consumer->running) {
        rq_subscribed_release(topic);
        return;
    }
    rmq_status st = status == RMQ_OK ? take_answer(topic, answer) : status;
    if (st == RMQ_ERR_UNSUPPORTED) {
        topic->again = true; /* asked for the members instead */
    } else if (st != RMQ_OK) {
        note_failure(topic, status, st, answer);
    } else {
        topic->failing = false;
        topic->settled = true;
        topic->delay_ms = RQ_RETRY_FIRST_MS;
        rq_consumer_settle(consumer);
    }
    bool again = topic->again;
    topic->again = false;
    if (again) {
        rebalance(topic);
    }
    rq_subscribed_release(topic);
}

/* Queues that the program chose: those that have not begun yet do. One that it also set to an
 * offset before the start knows its place already. */
static void begin_all(struct rq_subscribed *topic)
{
    RQ_LIST_FOREACH_SAFE(node, next, &topic->queues)
    {
        struct rq_owned *owned = RQ_CONTAINER_OF(node, struct rq_owned, node);
        rq_offset_locate(owned);
        rq_pull(owned);
    }
}

/* Broadcasting: every member has all queues. */
static void take_all(struct rq_subscribed *topic)
{
    const char *self = topic->consumer->client_id;
    struct rq_names ids = {.items = &self, .count = 1};
    if (apply_members(topic, &ids) == RMQ_OK) {
        topic->settled = true;
        rq_consumer_settle(topic->consumer);
    } else {
        retry_later(topic);
    }
}

static void rebalance(struct rq_subscribed *topic)
{
    struct rmq_consumer *consumer = topic->consumer;
    if (topic->assigned) {
        begin_all(topic);
        return;
    }
    if (!consumer->running || topic->gone || !topic->route) {
        return;
    }
    rq_subscribed_check(topic);
    if (consumer->options.message_model == RMQ_BROADCASTING) {
        take_all(topic);
        return;
    }
    if (topic->asking) {
        topic->again = true;
        return;
    }
    topic->asking = true;
    topic->refs++;
    topic->members.done = on_members;
    if (rq_assignment_is_the_brokers(topic)) {
        rq_assignment_ask(topic);
        return;
    }
    struct rq_hdr_consumer_group fields = {.consumer_group =
                                               rq_slice_str(consumer->options.consumer_group)};
    rq_consumer_ask(
        consumer, &topic->members, rq_instance_topic_broker(consumer->instance, topic->topic),
        RQ_REQ_GET_CONSUMER_LIST_BY_GROUP, &rq_tab_consumer_group, &fields, RQ_ASK_TIMEOUT_MS);
}

void rq_rebalance_all(struct rmq_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        rebalance(RQ_CONTAINER_OF(node, struct rq_subscribed, node));
    }
}

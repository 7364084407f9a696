/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Offsets of the group at the broker (of a broadcasting consumer: in a local file): where a queue
 * starts, and how far it has come. A question has three answers: a value, none, or not known; the
 * last one is asked again and never taken for 0, and an offset that was never known is never
 * committed. On the I/O thread. Counterparts: RemoteBrokerOffsetStore,
 * RebalancePushImpl.computePullFromWhere.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/consumer_ask.h"
#include "client/consumer_priv.h"
#include "client/owned.h"
#include "client/subscribed.h"

#define EAGER_MS                 500
#define DEFAULT_TIMESTAMP_AGE_MS 1800000 /* consumeTimestamp 0: half an hour before now */

static void on_stored(struct rq_ask *ask, rmq_status status, struct rq_in *answer);
static void on_computed(struct rq_ask *ask, rmq_status status, struct rq_in *answer);
static void start_without_offset(struct rq_owned *owned);

static void ask(struct rq_owned *owned, enum rq_pick pick, int code, const struct rq_fields *table,
                const void *fields, void (*done)(struct rq_ask *, rmq_status, struct rq_in *))
{
    struct rmq_consumer *consumer = owned->consumer;
    struct rq_peer *peer =
        rq_instance_queue_broker(consumer->instance, &owned->name, pick, RQ_MASTER_ID);
    owned->asking = true;
    owned->ask.done = done;
    rq_owned_retain(owned);
    rq_consumer_ask(consumer, &owned->ask, peer, code, table, fields, RQ_ASK_TIMEOUT_MS);
}

/* Broadcasting: the offset is in a local file. */
static void locate_here(struct rq_owned *owned)
{
    int64_t offset = -1;
    if (rq_local_offsets_get(owned->consumer->local, &owned->name, &offset)) {
        rq_owned_start(owned, offset, true);
    } else {
        start_without_offset(owned);
    }
}

void rq_offset_locate(struct rq_owned *owned)
{
    if (!owned->topic || owned->asking || owned->located || !owned->consumer->running ||
        atomic_load(&owned->open_until_ms) == 0 || /* ordered: not locked yet */
        rq_order_lingers(owned->consumer, &owned->name)) {
        return;
    }
    if (!owned->consumer->kind->pulls) {
        owned->located = true;
        return;
    }
    if (owned->pops) { /* there are no offsets */
        owned->located = true;
        rq_consumer_settle(owned->consumer);
        rq_pull(owned);
        return;
    }
    if (owned->consumer->local) {
        locate_here(owned);
        return;
    }
    struct rq_hdr_query_consumer_offset fields = {
        .consumer_group = rq_slice_str(owned->consumer->options.consumer_group),
        .topic = rq_slice_str(owned->name.topic),
        .queue_id = owned->name.queue_id};
    ask(owned, RQ_PICK_ANY, RQ_REQ_QUERY_CONSUMER_OFFSET, &rq_tab_query_consumer_offset, &fields,
        on_stored);
}

static void ask_max(struct rq_owned *owned)
{
    struct rq_hdr_queue fields = {.topic = rq_slice_str(owned->name.topic),
                                  .queue_id = owned->name.queue_id};
    ask(owned, RQ_PICK_MASTER, RQ_REQ_GET_MAX_OFFSET, &rq_tab_queue, &fields, on_computed);
}

static void ask_by_time(struct rq_owned *owned)
{
    int64_t timestamp = owned->consumer->options.consume_timestamp_ms;
    struct rq_hdr_search_offset fields = {
        .topic = rq_slice_str(owned->name.topic),
        .queue_id = owned->name.queue_id,
        .timestamp = timestamp > 0 ? timestamp : rq_wall_ms() - DEFAULT_TIMESTAMP_AGE_MS};
    ask(owned, RQ_PICK_MASTER, RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP, &rq_tab_search_offset, &fields,
        on_computed);
}

/* The group has no offset for the queue: the table of consumeFromWhere. A retry topic is read
 * from its beginning. */
static void start_without_offset(struct rq_owned *owned)
{
    switch (owned->consumer->options.consume_from_where) {
    case RMQ_CONSUME_FROM_FIRST_OFFSET:
        rq_owned_start(owned, 0, false);
        return;
    case RMQ_CONSUME_FROM_TIMESTAMP:
        if (owned->is_retry) {
            ask_max(owned);
        } else {
            ask_by_time(owned);
        }
        return;
    case RMQ_CONSUME_FROM_LAST_OFFSET:
    default:
        if (owned->is_retry) {
            rq_owned_start(owned, 0, false);
        } else {
            ask_max(owned);
        }
    }
}

/* Which answer of a broker tells that a logical queue is led by another one by now. */
static void note_moved(struct rq_owned *owned, const struct rq_in *answer)
{
    if (answer && answer->header->code == RQ_RESP_NOT_LEADER_FOR_QUEUE) {
        rq_instance_queue_moved(owned->consumer->instance, owned->name.topic);
    }
}

static void not_known(struct rq_owned *owned, rmq_status status, const struct rq_in *answer)
{
    note_moved(owned, answer);
    int64_t now = rq_loop_now(owned->consumer->loop);
    if (now >= owned->topic->quiet_until_ms) {
        owned->topic->quiet_until_ms = now + RQ_WARN_EVERY_MS;
        rmq_error *err = NULL;
        rq_answer_error(status, answer ? answer->header : NULL, owned->name.broker_name,
                        "start offset", &err);
        RQ_LOG(INFO, "start offset is not known, asked again", "topic=%s queue=%d why=%s",
               owned->name.topic, (int)owned->name.queue_id, rmq_error_message(err));
        rmq_error_destroy(err);
    }
    rq_owned_retry(owned);
}

static bool read_offset(const struct rq_in *answer, int64_t *offset)
{
    struct rq_hdr_offset_response head;
    if (answer->header->code != RQ_RESP_SUCCESS ||
        rq_fields_decode(&rq_tab_offset_response, answer->header, &head, NULL) != RMQ_OK) {
        return false;
    }
    *offset = head.offset;
    return true;
}

static void on_stored(struct rq_ask *request, rmq_status status, struct rq_in *answer)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(request, struct rq_owned, ask);
    int64_t offset = -1;
    owned->asking = false;
    if (owned->topic && owned->consumer->running) {
        bool answered = status == RMQ_OK && read_offset(answer, &offset);
        if (answered && offset >= 0) {
            rq_owned_start(owned, offset, true);
        } else if (answered ||
                   (status == RMQ_OK && answer->header->code == RQ_RESP_QUERY_NOT_FOUND)) {
            start_without_offset(owned);
        } else {
            not_known(owned, status, answer);
        }
    }
    rq_owned_release(owned);
}

static void on_computed(struct rq_ask *request, rmq_status status, struct rq_in *answer)
{
    struct rq_owned *owned = RQ_CONTAINER_OF(request, struct rq_owned, ask);
    int64_t offset = -1;
    owned->asking = false;
    if (owned->topic && owned->consumer->running) {
        if (status == RMQ_OK && read_offset(answer, &offset) && offset >= 0) {
            rq_owned_start(owned, offset, false);
        } else {
            not_known(owned, status, answer);
        }
    }
    rq_owned_release(owned);
}

/* ---- committing ---- */

/*
 * One commit of a queue at a time: brokers may work on two requests in any order, and an older
 * offset that wins over a newer one means messages again. For the same reason pulls carry no offset
 * (sysFlag 1), as Java's do; offsets that move are committed at the next pull answer instead, at
 * most every EAGER_MS, so that a process that dies repeats little.
 */
enum place { ORDINARY, FIRST, BEHIND_FIRST };

struct commit {
    struct rq_ask ask;
    struct rq_owned *owned; /* referenced */
    int64_t offset;
    int64_t timeout_ms;
    enum place place;
    struct rq_list node; /* in consumer->firsts, unless it is an ordinary one */
};

static void note_answer(struct commit *commit, rmq_status status, struct rq_in *answer)
{
    struct rq_owned *owned = commit->owned;
    struct rmq_consumer *consumer = owned->consumer;
    int64_t now = rq_loop_now(consumer->loop);
    note_moved(owned, answer);
    if (status == RMQ_OK && answer->header->code == RQ_RESP_SUCCESS) {
        owned->committed = commit->offset;
        return;
    }
    if (consumer->closing) {
        rmq_error_destroy(consumer->not_stored);
        consumer->not_stored = NULL;
        rq_answer_error(status, answer ? answer->header : NULL, owned->name.broker_name, "commit",
                        &consumer->not_stored);
    }
    if (status == RMQ_OK && now >= consumer->quiet_until_ms) {
        consumer->quiet_until_ms = now + RQ_WARN_EVERY_MS;
        RQ_LOG(WARN, "the broker refused an offset", "topic=%s queue=%d offset=%lld code=%d",
               owned->name.topic, (int)owned->name.queue_id, (long long)commit->offset,
               (int)answer->header->code);
    }
}

/*
 * A Java broker makes the table of a group's offsets of a topic when the first of them comes,
 * without a lock: of two that come at the same time one may be lost although it was confirmed. So
 * the first goes alone, and the others when it has been answered.
 */
static bool is_same_table(const struct rq_owned *a, const struct rq_owned *b)
{
    return strcmp(a->name.topic, b->name.topic) == 0 &&
           strcmp(a->name.broker_name, b->name.broker_name) == 0;
}

/* An offset of 0 may be none: brokers say so of a queue that begins there. */
static bool has_table(const struct rq_owned *owned)
{
    if (owned->committed > 0 || !owned->topic) {
        return owned->committed > 0;
    }
    for (struct rq_list *node = owned->topic->queues.next; node != &owned->topic->queues;
         node = node->next) {
        const struct rq_owned *other = RQ_CONTAINER_OF(node, struct rq_owned, node);
        if (other->committed > 0 && is_same_table(owned, other)) {
            return true;
        }
    }
    return false;
}

static void classify(struct commit *commit)
{
    struct rmq_consumer *consumer = commit->owned->consumer;
    if (has_table(commit->owned)) {
        return;
    }
    commit->place = FIRST;
    for (struct rq_list *node = consumer->firsts.next; node != &consumer->firsts;
         node = node->next) {
        const struct commit *other = RQ_CONTAINER_OF(node, struct commit, node);
        if (is_same_table(other->owned, commit->owned)) {
            commit->place = BEHIND_FIRST;
        }
    }
    rq_list_add_tail(&consumer->firsts, &commit->node);
}

static void send_commit(struct commit *commit)
{
    struct rq_owned *owned = commit->owned;
    struct rmq_consumer *consumer = owned->consumer;
    struct rq_hdr_update_consumer_offset fields = {
        .consumer_group = rq_slice_str(consumer->options.consumer_group),
        .topic = rq_slice_str(owned->name.topic),
        .queue_id = owned->name.queue_id,
        .commit_offset = commit->offset};
    struct rq_peer *peer =
        rq_instance_queue_broker(consumer->instance, &owned->name, RQ_PICK_ANY, RQ_MASTER_ID);
    rq_consumer_ask(consumer, &commit->ask, peer, RQ_REQ_UPDATE_CONSUMER_OFFSET,
                    &rq_tab_update_consumer_offset, &fields, commit->timeout_ms);
}

static struct commit *find_behind(const struct rq_owned *owned)
{
    struct rmq_consumer *consumer = owned->consumer;
    for (struct rq_list *node = consumer->firsts.next; node != &consumer->firsts;
         node = node->next) {
        struct commit *commit = RQ_CONTAINER_OF(node, struct commit, node);
        if (commit->place == BEHIND_FIRST && is_same_table(commit->owned, owned)) {
            return commit;
        }
    }
    return NULL;
}

/* Those behind a first that was not answered end as it did, so that a silent broker costs one
 * deadline. Each end may change the list. */
static void end_first(struct commit *first, rmq_status status)
{
    struct commit *commit = NULL;
    rq_list_remove(&first->node);
    while ((commit = find_behind(first->owned)) != NULL) {
        commit->place = ORDINARY;
        rq_list_remove(&commit->node);
        if (status == RMQ_OK) {
            send_commit(commit);
        } else {
            commit->ask.done(&commit->ask, status, NULL);
        }
    }
}

static void on_committed(struct rq_ask *request, rmq_status status, struct rq_in *answer)
{
    struct commit *commit = RQ_CONTAINER_OF(request, struct commit, ask);
    struct rq_owned *owned = commit->owned;
    struct rmq_consumer *consumer = owned->consumer;
    int64_t last = owned->last_offset;
    owned->committing = false;
    owned->last_offset = -1;
    note_answer(commit, status, answer);
    if (commit->place == FIRST) {
        end_first(commit, status);
    }
    if (last >= 0 && last != owned->committed && status != RMQ_ERR_CLOSED) {
        rq_offset_commit(owned, last, RQ_ASK_TIMEOUT_MS / 3);
    }
    if (owned->unlock && !owned->committing) {
        rq_lock_give_back(owned); /* who locks it next reads this offset */
    }
    if (consumer->kind->committed) {
        consumer->kind->committed(owned, status, answer);
    }
    rq_owned_release(owned);
    rq_free(commit);
    consumer->commits--;
    rq_close_check(consumer);
}

static void commit_here(struct rq_owned *owned, int64_t offset)
{
    struct rmq_consumer *consumer = owned->consumer;
    rq_local_offsets_set(consumer->local, &owned->name, offset);
    owned->committed = offset;
    owned->committed_ms = rq_loop_now(consumer->loop);
}

void rq_offset_commit(struct rq_owned *owned, int64_t offset, int64_t timeout_ms)
{
    struct rmq_consumer *consumer = owned->consumer;
    if (consumer->local && offset >= 0) {
        commit_here(owned, offset);
        return;
    }
    struct commit *commit = offset < 0 ? NULL : rq_alloc(sizeof *commit);
    if (!commit) {
        return; /* nothing is known, or no memory: the next round sends it */
    }
    *commit = (struct commit){.owned = owned, .offset = offset, .timeout_ms = timeout_ms};
    commit->ask.done = on_committed;
    owned->committing = true;
    owned->committed_ms = rq_loop_now(consumer->loop);
    consumer->commits++;
    rq_owned_retain(owned);
    classify(commit);
    if (commit->place != BEHIND_FIRST) {
        send_commit(commit);
    }
}

/* -1: nothing is known, or the program decides. */
static int64_t committable(struct rq_owned *owned)
{
    if (!owned->consumer->manual_commit && owned->reset_to >= 0) {
        return owned->reset_to; /* hands hold what was before it still */
    }
    int64_t offset =
        owned->consumer->manual_commit ? -1 : rq_process_queue_commit_offset(&owned->process);
    return offset >= 0 && owned->promised > offset ? owned->promised : offset;
}

static void commit_if_due(struct rq_owned *owned, int64_t changed_ms, int64_t unchanged_ms)
{
    int64_t offset = committable(owned);
    int64_t age = rq_loop_now(owned->consumer->loop) - owned->committed_ms;
    int64_t due = offset != owned->committed ? changed_ms : unchanged_ms;
    if (!owned->committing && age >= due) {
        rq_offset_commit(owned, offset, RQ_ASK_TIMEOUT_MS);
    }
}

void rq_offset_commit_eagerly(struct rq_owned *owned)
{
    commit_if_due(owned, EAGER_MS, RQ_COMMIT_REPEAT_MS);
}

void rq_offset_commit_last(struct rq_owned *owned, int64_t timeout_ms)
{
    int64_t offset = committable(owned);
    if (offset < 0) {
        return; /* what the program asked for may wait in last_offset */
    }
    if (owned->committing) {
        owned->last_offset = offset;
    } else if (offset != owned->committed) {
        rq_offset_commit(owned, offset, timeout_ms);
    }
}

int rq_offset_count_unstored(struct rmq_consumer *consumer)
{
    int count = 0;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            int64_t offset = committable(owned);
            bool moved = owned->committed >= 0 || offset > owned->started_at;
            count += offset >= 0 && offset != owned->committed && moved;
        }
    }
    return count;
}

static void persist(struct rq_owned *owned, bool last, int64_t timeout_ms)
{
    if (last) {
        rq_offset_commit_last(owned, timeout_ms);
    } else {
        commit_if_due(owned, 0, RQ_COMMIT_REPEAT_MS);
    }
}

void rq_offset_persist_all(struct rmq_consumer *consumer, bool last, int64_t timeout_ms)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            persist(RQ_CONTAINER_OF(item, struct rq_owned, node), last, timeout_ms);
        }
    }
    if (consumer->local) {
        rq_local_offsets_write_soon(consumer->local);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Commits that the program of a lite pull consumer asks for: of each queue that is still ours what
 * poll has given out. The requests are those of the offset store, one of a queue at a time; a call
 * ends when each of its queues has. I/O thread but for the public functions. Counterparts:
 * commitSync, commit and committed of DefaultLitePullConsumerImpl.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/lite_pull_priv.h"
#include "client/owned.h"
#include "client/queue_ask.h"
#include "client/queue_list.h"
#include "client/subscribed.h"
#include "client/waiter.h"

#define COMMIT_TIMEOUT_MS 5000

struct commit_item {
    struct rq_owned *owned; /* referenced; NULL when it has ended */
    int64_t target;
};

struct commit_call {
    struct rq_list node; /* loop: in consumer->commits */
    struct rq_work work;
    struct rmq_lite_pull_consumer *consumer;
    rmq_queue_list *queues; /* with full names, until begun; NULL = all */
    int64_t timeout_ms;
    struct commit_item *items;
    size_t count;
    size_t left;
    rmq_error *err; /* the first failure */
    rmq_commit_fn fn;
    void *user;
    bool waits; /* somebody sleeps for it: the call is his */
    struct rq_waiter waiter;
};

static void free_call(struct commit_call *call)
{
    rmq_error_destroy(call->err);
    rmq_queue_list_destroy(call->queues);
    rq_free(call->items);
    rq_free(call);
}

static void call_back(struct rq_work *work)
{
    struct commit_call *call = RQ_CONTAINER_OF(work, struct commit_call, work);
    struct rq_callbacks *callbacks = &call->consumer->callbacks;
    if (call->fn) {
        call->fn(call->err, call->user);
    }
    free_call(call);
    rq_callbacks_leave(callbacks);
}

static void end_call(struct commit_call *call)
{
    rq_list_remove(&call->node);
    if (call->waits) {
        rq_waiter_done(&call->waiter);
    } else {
        rq_callbacks_post(&call->consumer->callbacks, &call->work);
    }
}

/* ---- answers: loop ---- */

static void end_item(struct commit_call *call, struct commit_item *item)
{
    rq_owned_release(item->owned);
    item->owned = NULL;
    call->left--;
}

static void look_at(struct commit_call *call, struct commit_item *item, rmq_status status,
                    struct rq_in *answer)
{
    struct rq_owned *owned = item->owned;
    if (owned->committed == item->target) {
        end_item(call, item);
    } else if (!owned->committing) {
        /* A later call may have sent an offset beyond ours. */
        bool refused = status != RMQ_OK || answer->header->code != RQ_RESP_SUCCESS;
        if (owned->committed < item->target && !call->err && refused) {
            rq_answer_error(status, answer ? answer->header : NULL, owned->name.broker_name,
                            "commit", &call->err);
        } else if (owned->committed < item->target && !call->err) {
            rq_error_set(&call->err, RMQ_ERR_NOMEM, "commit");
        }
        end_item(call, item);
    }
}

void rq_lite_committed(struct rq_owned *owned, rmq_status status, struct rq_in *answer)
{
    struct rmq_lite_pull_consumer *consumer = owned->consumer->handle;
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->commits)
    {
        struct commit_call *call = RQ_CONTAINER_OF(node, struct commit_call, node);
        for (size_t i = 0; i < call->count; i++) {
            if (call->items[i].owned == owned) {
                look_at(call, &call->items[i], status, answer);
            }
        }
        if (call->left == 0) {
            end_call(call);
        }
    }
}

/* ---- asking: loop ---- */

static void commit_queue(struct commit_call *call, struct rq_owned *owned)
{
    int64_t target = atomic_load_explicit(&owned->given, memory_order_relaxed);
    if (target < 0 || (target == owned->committed && !owned->committing)) {
        return;
    }
    owned->promised = target;
    rq_owned_retain(owned);
    call->items[call->count++] = (struct commit_item){.owned = owned, .target = target};
    call->left++;
    if (owned->committing) {
        owned->last_offset = target;
        return;
    }
    rq_offset_commit(owned, target, call->timeout_ms);
    if (!owned->committing) { /* no memory */
        rq_error_set(&call->err, RMQ_ERR_NOMEM, "commit");
        end_item(call, &call->items[call->count - 1]);
    }
}

static size_t count_queues(const struct rmq_consumer *inner)
{
    size_t count = 0;
    for (struct rq_list *node = inner->topics.next; node != &inner->topics; node = node->next) {
        count += RQ_CONTAINER_OF(node, struct rq_subscribed, node)->queue_count;
    }
    return count;
}

static void begin_on_loop(void *arg)
{
    struct commit_call *call = arg;
    struct rmq_consumer *inner = call->consumer->inner;
    rq_list_add_tail(&call->consumer->commits, &call->node);
    call->items = rq_calloc(count_queues(inner) + 1, sizeof *call->items);
    if (!call->items) {
        rq_error_set(&call->err, RMQ_ERR_NOMEM, "commit");
        end_call(call);
        return;
    }
    call->left = 1; /* ours, until all are asked for */
    RQ_LIST_FOREACH_SAFE(node, next, &inner->topics)
    {
        struct rq_subscribed *topic = RQ_CONTAINER_OF(node, struct rq_subscribed, node);
        RQ_LIST_FOREACH_SAFE(item, after, &topic->queues)
        {
            struct rq_owned *owned = RQ_CONTAINER_OF(item, struct rq_owned, node);
            if (!call->queues || rq_queue_list_has(call->queues, &owned->name)) {
                commit_queue(call, owned);
            }
        }
    }
    rmq_queue_list_destroy(call->queues);
    call->queues = NULL;
    if (--call->left == 0) {
        end_call(call);
    }
}

/* ---- the program's threads ---- */

static rmq_status make_call(struct rmq_lite_pull_consumer *consumer, const rmq_queue_list *queues,
                            int64_t timeout_ms, bool waits, struct commit_call **out,
                            rmq_error **err)
{
    rmq_status st = rq_lite_check(consumer, NULL, consumer, "consumer", err);
    struct commit_call *call = st == RMQ_OK ? rq_calloc(1, sizeof *call) : NULL;
    if (st == RMQ_OK && !call) {
        st = rq_error_set(err, RMQ_ERR_NOMEM, "commit");
    }
    if (st == RMQ_OK && queues) {
        st = rq_queue_list_wrap(queues, consumer->options.namespace_name, &call->queues, err);
    }
    if (st == RMQ_OK) {
        st = rq_callbacks_enter(&consumer->callbacks, !waits, err);
    }
    if (st != RMQ_OK) {
        if (call) {
            free_call(call);
        }
        return st;
    }
    call->consumer = consumer;
    call->timeout_ms = rq_timeout_ms(timeout_ms, COMMIT_TIMEOUT_MS);
    call->waits = waits;
    call->work.run = call_back;
    rq_waiter_init(&call->waiter);
    *out = call;
    return RMQ_OK;
}

rmq_status rmq_lite_pull_consumer_commit_sync(rmq_lite_pull_consumer *consumer,
                                              const rmq_queue_list *queues, int64_t timeout_ms,
                                              rmq_error **err)
{
    struct commit_call *call = NULL;
    rmq_status st = make_call(consumer, queues, timeout_ms, true, &call, err);
    if (st != RMQ_OK) {
        return st;
    }
    rq_instance_run(consumer->instance, begin_on_loop, call);
    rq_waiter_wait(&call->waiter);
    st = call->err ? rmq_error_status(call->err) : RMQ_OK;
    if (call->err && err) {
        rmq_error_destroy(*err);
        *err = call->err;
        call->err = NULL;
    }
    free_call(call);
    rq_callbacks_leave(&consumer->callbacks);
    return st;
}

rmq_status rmq_lite_pull_consumer_commit_async(rmq_lite_pull_consumer *consumer,
                                               const rmq_queue_list *queues, rmq_commit_fn fn,
                                               void *user, rmq_error **err)
{
    struct commit_call *call = NULL;
    rmq_status st = make_call(consumer, queues, 0, false, &call, err);
    if (st == RMQ_OK) {
        call->fn = fn;
        call->user = user;
        rq_instance_run(consumer->instance, begin_on_loop, call);
    }
    return st;
}

rmq_status rmq_lite_pull_consumer_committed(rmq_lite_pull_consumer *consumer, const char *topic,
                                            const char *broker_name, int32_t queue_id,
                                            int64_t timeout_ms, int64_t *out, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_lite_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    rmq_status st = rq_lite_check(consumer, &name, out, "out", err);
    return st == RMQ_OK ? rq_queue_committed(consumer->instance, consumer->options.consumer_group,
                                             &name, timeout_ms, out, err)
                        : st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A single pull: asked from the program's thread, sent and answered on the I/O thread, ended on the
 * thread that waits or on the callback thread. The answer's frame owns the messages of the result.
 * Counterparts: DefaultMQPullConsumerImpl.pullSyncImpl and pullAsyncImpl, PullAPIWrapper.
 */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/message.h"
#include "client/pull_consumer_priv.h"
#include "client/queue_list.h"
#include "client/waiter.h"
#include "wire/names.h"

struct rmq_pull_result {
    rmq_pull_status status;
    int64_t next_begin_offset;
    int64_t min_offset;
    int64_t max_offset;
    struct rq_views *views; /* NULL without messages */
    size_t count;
    const struct rmq_message_view *items[];
};

struct pull_op {
    struct rq_queue_ask ask;
    struct rq_hdr_pull fields;
    struct rq_list node; /* loop: in consumer->pulls */
    struct rq_task task;
    struct rq_work work;
    struct rmq_pull_consumer *consumer;
    struct rq_mq name; /* own texts */
    struct rq_subscription *sub;
    rmq_pull_result *result;
    rmq_error *err;
    rmq_pull_fn fn; /* NULL: somebody waits */
    void *user;
    struct rq_waiter waiter;
};

/* ---- the answer: loop ---- */

static bool status_of(int32_t code, rmq_pull_status *out)
{
    switch (code) {
    case RQ_RESP_SUCCESS:
        *out = RMQ_PULL_FOUND;
        return true;
    case RQ_RESP_PULL_NOT_FOUND:
        *out = RMQ_PULL_NO_NEW_MSG;
        return true;
    case RQ_RESP_PULL_RETRY_IMMEDIATELY:
        *out = RMQ_PULL_NO_MATCHED_MSG;
        return true;
    case RQ_RESP_PULL_OFFSET_MOVED:
        *out = RMQ_PULL_OFFSET_ILLEGAL;
        return true;
    default:
        return false;
    }
}

static rmq_status decode(struct pull_op *op, struct rq_in *answer,
                         const struct rq_hdr_pull_response *head, struct rq_views **views)
{
    struct rq_frame_ref *frame = rq_in_keep(answer);
    if (!frame) {
        return rq_error_set(&op->err, RMQ_ERR_NOMEM, "pull answer of %zu bytes", answer->size);
    }
    rmq_status st =
        rq_views_create_pulled(frame, answer->body, op->name.broker_name, views, &op->err);
    if (st == RMQ_OK) {
        rq_views_place(*views, op->name.queue_id,
                       RQ_HAS(pull_response, head, offset_delta) ? head->offset_delta : 0);
    } else {
        rq_frame_ref_release(frame);
    }
    return st;
}

/* Of an answer that ends in bytes that are no message counts what could be read, within what was
 * asked for; the next pull starts behind it. false: nothing. */
static bool bound_answer(struct pull_op *op, const struct rq_views *views,
                         struct rq_hdr_pull_response *head)
{
    int64_t last = rq_views_last(views, op->fields.queue_offset, head->next_begin_offset);
    if (last < 0) {
        rq_error_set(&op->err, RMQ_ERR_PROTOCOL,
                     "pull: broker %s answered with no message between the offsets %lld and %lld",
                     op->name.broker_name, (long long)op->fields.queue_offset,
                     (long long)head->next_begin_offset);
        return false;
    }
    head->next_begin_offset = last + 1;
    return true;
}

/* Of messages with the same hash as a wanted tag the broker knows no better, and an inner batch
 * comes as a whole. */
static void pick_wanted(const struct pull_op *op, rmq_pull_result *result)
{
    for (size_t i = 0; result->views && i < result->views->count; i++) {
        struct rmq_message_view *view = &result->views->items[i];
        if (view->queue_offset >= op->fields.queue_offset &&
            (!result->views->damaged || view->queue_offset < result->next_begin_offset) &&
            rq_subscription_match_tag(op->sub, rq_slice_str(view->tag))) {
            rq_view_strip(view, op->consumer->options.namespace_name);
            result->items[result->count++] = view;
        }
    }
    if (result->status == RMQ_PULL_FOUND && result->count == 0) {
        result->status = RMQ_PULL_NO_MATCHED_MSG;
    }
}

static void note_suggestion(struct pull_op *op, int64_t broker_id)
{
    struct rmq_pull_consumer *consumer = op->consumer;
    rq_mutex_lock(&consumer->lock);
    struct rq_pull_queue *queue = rq_pull_queue_get_locked(consumer, &op->name);
    if (queue) {
        queue->broker_id = broker_id;
    }
    rq_mutex_unlock(&consumer->lock);
}

static void take_answer(struct pull_op *op, struct rq_in *answer)
{
    struct rq_hdr_pull_response head;
    struct rq_views *views = NULL;
    rmq_pull_status status;
    if (!status_of(answer->header->code, &status)) {
        rq_answer_error(RMQ_OK, answer->header, op->name.broker_name, "pull", &op->err);
        return;
    }
    rmq_status st = rq_fields_decode(&rq_tab_pull_response, answer->header, &head, &op->err);
    if (st == RMQ_OK && status == RMQ_PULL_FOUND && answer->body.n > 0) {
        st = decode(op, answer, &head, &views);
    }
    if (st != RMQ_OK) {
        return;
    }
    if (views && views->damaged && !bound_answer(op, views, &head)) {
        rq_views_release(views);
        return;
    }
    size_t count = views ? views->count : 0;
    rmq_pull_result *result = rq_calloc(1, sizeof *result + count * sizeof result->items[0]);
    if (!result) {
        rq_views_release(views);
        rq_error_set(&op->err, RMQ_ERR_NOMEM, "pull result of %zu messages", count);
        return;
    }
    *result = (rmq_pull_result){.status = status,
                                .next_begin_offset = head.next_begin_offset,
                                .min_offset = head.min_offset,
                                .max_offset = head.max_offset,
                                .views = views};
    pick_wanted(op, result);
    note_suggestion(op, head.suggest_which_broker_id);
    op->result = result;
}

/* ---- the op's life ---- */

static void free_op(struct pull_op *op)
{
    rq_subscription_destroy(op->sub);
    rq_mq_clear(&op->name);
    rmq_error_destroy(op->err);
    rq_free(op);
}

/* Bodies are expanded on the thread that gets them. One that cannot be stays as it was stored. */
static void expand(struct pull_op *op)
{
    for (size_t i = 0; op->result && i < op->result->count; i++) {
        rmq_error *err = NULL;
        struct rmq_message_view *view = NULL;
        memcpy(&view, &op->result->items[i], sizeof view);
        if (rq_view_expand(view, (size_t)op->consumer->options.max_message_size, &err) != RMQ_OK) {
            RQ_LOG(WARN, "a body could not be expanded", "topic=%s queue=%d offset=%lld why=%s",
                   view->topic, (int)view->queue_id, (long long)view->queue_offset,
                   rmq_error_message(err));
            rmq_error_destroy(err);
        }
    }
}

static void call_back(struct rq_work *work)
{
    struct pull_op *op = RQ_CONTAINER_OF(work, struct pull_op, work);
    struct rq_callbacks *callbacks = &op->consumer->callbacks;
    expand(op);
    op->fn(op->result, op->err, op->user);
    free_op(op);
    rq_callbacks_leave(callbacks);
}

static void on_pulled(struct rq_queue_ask *ask, rmq_status status, struct rq_in *answer,
                      const rmq_error *err)
{
    struct pull_op *op = RQ_CONTAINER_OF(ask, struct pull_op, ask);
    rq_list_remove(&op->node);
    if (err) {
        op->err = rq_error_copy(err);
    } else if (status != RMQ_OK) {
        rq_answer_error(status, NULL, op->name.broker_name, "pull", &op->err);
    } else {
        take_answer(op, answer);
    }
    if (op->fn) {
        rq_callbacks_post(&op->consumer->callbacks, &op->work);
    } else {
        rq_waiter_done(&op->waiter);
    }
}

static void begin(struct rq_task *task)
{
    struct pull_op *op = RQ_CONTAINER_OF(task, struct pull_op, task);
    rq_list_add_tail(&op->consumer->pulls, &op->node);
    rq_queue_ask(&op->ask);
    if (rq_callbacks_is_closed(&op->consumer->callbacks)) {
        rq_queue_ask_cancel(&op->ask);
    }
}

void rq_pull_consumer_cancel_pulls(struct rmq_pull_consumer *consumer)
{
    RQ_LIST_FOREACH_SAFE(node, next, &consumer->pulls)
    {
        rq_queue_ask_cancel(&RQ_CONTAINER_OF(node, struct pull_op, node)->ask);
    }
}

/* ---- asking: the program's threads ---- */

static rmq_status make_op(struct rmq_pull_consumer *consumer, const struct rq_mq *name,
                          const struct rq_selector *selector, struct pull_op **out, rmq_error **err)
{
    struct pull_op *op = rq_calloc(1, sizeof *op);
    if (!op || rq_mq_copy(&op->name, name) != RMQ_OK) {
        rq_free(op);
        return rq_error_set(err, RMQ_ERR_NOMEM, "pull");
    }
    op->consumer = consumer;
    op->task.run = begin;
    op->work.run = call_back;
    rq_waiter_init(&op->waiter);
    rmq_status st =
        rq_subscription_create(name->topic, selector->expression, selector->type, 0, &op->sub, err);
    if (st != RMQ_OK) {
        free_op(op);
        return st;
    }
    *out = op;
    return RMQ_OK;
}

static void fill_request(struct pull_op *op, int64_t offset, int32_t max_nums, bool block,
                         int64_t timeout_ms)
{
    struct rmq_pull_consumer *consumer = op->consumer;
    const rmq_pull_consumer_options *options = &consumer->options;
    int64_t timeout = rq_timeout_ms(timeout_ms, block ? options->consumer_timeout_when_suspend_ms
                                                      : options->consumer_pull_timeout_ms);
    int64_t suspend = block ? options->broker_suspend_max_time_ms : 0;
    op->fields =
        (struct rq_hdr_pull){.consumer_group = rq_slice_str(options->consumer_group),
                             .topic = rq_slice_str(op->name.topic),
                             .queue_id = op->name.queue_id,
                             .queue_offset = offset,
                             .max_msg_nums = max_nums,
                             .sys_flag = RQ_PULL_SUBSCRIPTION | (block ? RQ_PULL_SUSPEND : 0),
                             .suspend_timeout_ms = suspend < timeout ? suspend : timeout,
                             .expression_type = rq_slice_str(op->sub->expression_type)};
    RQ_SET(pull, &op->fields, subscription, rq_slice_str(op->sub->sub_string));
    rq_mutex_lock(&consumer->lock);
    const struct rq_pull_queue *queue = rq_pull_queue_get_locked(consumer, &op->name);
    int64_t broker_id = queue ? queue->broker_id : RQ_MASTER_ID;
    rq_mutex_unlock(&consumer->lock);
    op->ask = (struct rq_queue_ask){.instance = consumer->instance,
                                    .name = op->name,
                                    .pick = RQ_PICK_ID,
                                    .broker_id = broker_id,
                                    .code = RQ_REQ_PULL_MESSAGE,
                                    .table = &rq_tab_pull,
                                    .fields = &op->fields,
                                    .deadline_ms = rq_mono_ms() + timeout,
                                    .done = on_pulled};
}

static rmq_status prepare(struct rmq_pull_consumer *consumer, const struct rq_mq *name,
                          const struct rq_selector *selector, int64_t offset, int32_t max_nums,
                          bool posts, struct pull_op **op, rmq_error **err)
{
    if (offset < 0 || max_nums < 1) {
        return rq_error_set(err, RMQ_ERR_INVALID, "pull of %d messages from offset %lld",
                            (int)max_nums, (long long)offset);
    }
    rmq_status st = make_op(consumer, name, selector, op, err);
    if (st == RMQ_OK) {
        st = rq_callbacks_enter(&consumer->callbacks, posts, err);
        if (st != RMQ_OK) {
            free_op(*op);
        }
    }
    return st;
}

static rmq_status pull(struct rmq_pull_consumer *consumer, const struct rq_mq *name,
                       const struct rq_selector *selector, int64_t offset, int32_t max_nums,
                       bool block, int64_t timeout_ms, rmq_pull_result **out, rmq_error **err)
{
    struct pull_op *op = NULL;
    rmq_status st = rq_pull_consumer_check(consumer, name, out, "out", err);
    if (st == RMQ_OK) {
        st = prepare(consumer, name, selector, offset, max_nums, false, &op, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    fill_request(op, offset, max_nums, block, timeout_ms);
    (void)rq_loop_post(consumer->inner->loop, &op->task);
    rq_waiter_wait(&op->waiter);
    expand(op);
    *out = op->result;
    st = op->err ? rmq_error_status(op->err) : RMQ_OK;
    if (op->err && err) {
        rmq_error_destroy(*err);
        *err = op->err;
        op->err = NULL;
    }
    free_op(op);
    rq_callbacks_leave(&consumer->callbacks);
    return st;
}

rmq_status rmq_pull_consumer_pull_selector(rmq_pull_consumer *consumer, const char *topic,
                                           const char *broker_name, int32_t queue_id,
                                           rmq_expression_type type, const char *expression,
                                           int64_t offset, int32_t max_nums,
                                           bool block_if_not_found, int64_t timeout_ms,
                                           rmq_pull_result **out, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    struct rq_selector selector;
    rmq_status st = rq_selector_make(type, expression, &selector, err);
    return st == RMQ_OK ? pull(consumer, &name, &selector, offset, max_nums, block_if_not_found,
                               timeout_ms, out, err)
                        : st;
}

rmq_status rmq_pull_consumer_pull(rmq_pull_consumer *consumer, const char *topic,
                                  const char *broker_name, int32_t queue_id, const char *expression,
                                  int64_t offset, int32_t max_nums, int64_t timeout_ms,
                                  rmq_pull_result **out, rmq_error **err)
{
    return rmq_pull_consumer_pull_selector(consumer, topic, broker_name, queue_id,
                                           RMQ_EXPRESSION_TAG, expression, offset, max_nums, false,
                                           timeout_ms, out, err);
}

rmq_status rmq_pull_consumer_pull_block_if_not_found(rmq_pull_consumer *consumer, const char *topic,
                                                     const char *broker_name, int32_t queue_id,
                                                     const char *expression, int64_t offset,
                                                     int32_t max_nums, rmq_pull_result **out,
                                                     rmq_error **err)
{
    return rmq_pull_consumer_pull_selector(consumer, topic, broker_name, queue_id,
                                           RMQ_EXPRESSION_TAG, expression, offset, max_nums, true,
                                           0, out, err);
}

rmq_status rmq_pull_consumer_pull_selector_async(rmq_pull_consumer *consumer, const char *topic,
                                                 const char *broker_name, int32_t queue_id,
                                                 rmq_expression_type type, const char *expression,
                                                 int64_t offset, int32_t max_nums,
                                                 bool block_if_not_found, int64_t timeout_ms,
                                                 rmq_pull_fn fn, void *user, rmq_error **err)
{
    char room[RQ_NAMESPACED_MAX];
    const struct rq_mq name = {.topic = rq_pull_consumer_full(consumer, topic, room),
                               .broker_name = broker_name,
                               .queue_id = queue_id};
    struct pull_op *op = NULL;
    struct rq_selector selector;
    rmq_status st = rq_pull_consumer_check(consumer, &name, fn ? &name : NULL, "fn", err);
    if (st == RMQ_OK) {
        st = rq_selector_make(type, expression, &selector, err);
    }
    if (st == RMQ_OK) {
        st = prepare(consumer, &name, &selector, offset, max_nums, true, &op, err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    op->fn = fn;
    op->user = user;
    fill_request(op, offset, max_nums, block_if_not_found, timeout_ms);
    (void)rq_loop_post(consumer->inner->loop, &op->task);
    return RMQ_OK;
}

rmq_status rmq_pull_consumer_pull_async(rmq_pull_consumer *consumer, const char *topic,
                                        const char *broker_name, int32_t queue_id,
                                        const char *expression, int64_t offset, int32_t max_nums,
                                        bool block_if_not_found, int64_t timeout_ms, rmq_pull_fn fn,
                                        void *user, rmq_error **err)
{
    return rmq_pull_consumer_pull_selector_async(consumer, topic, broker_name, queue_id,
                                                 RMQ_EXPRESSION_TAG, expression, offset, max_nums,
                                                 block_if_not_found, timeout_ms, fn, user, err);
}

/* ---- results ---- */

rmq_pull_status rmq_pull_result_status(const rmq_pull_result *result)
{
    return result ? result->status : RMQ_PULL_NO_NEW_MSG;
}

int64_t rmq_pull_result_next_begin_offset(const rmq_pull_result *result)
{
    return result ? result->next_begin_offset : -1;
}

int64_t rmq_pull_result_min_offset(const rmq_pull_result *result)
{
    return result ? result->min_offset : -1;
}

int64_t rmq_pull_result_max_offset(const rmq_pull_result *result)
{
    return result ? result->max_offset : -1;
}

size_t rmq_pull_result_count(const rmq_pull_result *result)
{
    return result ? result->count : 0;
}

const rmq_message_view *rmq_pull_result_at(const rmq_pull_result *result, size_t index)
{
    return result && index < result->count ? result->items[index] : NULL;
}

void rmq_pull_result_destroy(rmq_pull_result *result)
{
    if (result) {
        rq_views_release(result->views);
        rq_free(result);
    }
}

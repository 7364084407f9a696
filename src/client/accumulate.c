/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Automatic batches (see the header). An open batch is encoded as it grows; the operations in it
 * are its passengers, and one more carries them. */
#include "client/accumulate.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/producer.h"
#include "client/unique_id.h"
#include "wire/names.h"

struct batch {
    struct rq_list node; /* in the accumulator's list of open ones */
    struct rmq_producer *producer;
    rmq_message *envelope; /* topic and wait flag */
    struct rq_buf body;
    struct rq_buf ids;
    struct rq_list passengers; /* rq_send_op.mate, in the order of the records */
    size_t bytes;              /* of bodies */
    size_t stored;             /* at the broker, at most */
    int64_t due_ms;            /* monotonic */
    int64_t deadline_ms; /* of the first passenger, which is the earliest but for per-send ones */
};

struct rq_accumulator {
    /* immutable after create */
    struct rmq_producer *producer;
    int64_t linger_ms;
    size_t most_bytes;
    size_t most_stored;

    struct rq_mutex lock; /* rank 8: the open batches; only the loop is posted to with it */
    struct rq_list open;  /* guarded by lock: oldest first */
    bool armed;           /* guarded by lock: arm was posted or the timer runs */
    bool closed;          /* guarded by lock */

    struct rq_task arm;    /* owned by the loop once posted */
    struct rq_timer timer; /* owned by the loop */
};

/* ---- a batch on its way ---- */

static void free_batch(struct batch *batch)
{
    rmq_message_destroy(batch->envelope);
    rq_buf_free(&batch->body);
    rq_buf_free(&batch->ids);
    rq_free(batch);
}

/* Takes what stands before the next comma off. */
static struct rq_slice next_id(struct rq_slice *ids)
{
    const char *comma = ids->n > 0 ? memchr(ids->p, ',', ids->n) : NULL;
    struct rq_slice first = rq_slice(ids->p, comma ? (size_t)(comma - ids->p) : ids->n);
    *ids = comma ? rq_slice(comma + 1, ids->n - first.n - 1) : rq_slice(NULL, 0);
    return first;
}

static void fill_result(struct rq_send_op *op, const rmq_send_result *from, struct rq_slice id,
                        int64_t index)
{
    rq_buf_clear(&op->text);
    rq_buf_add(&op->text, from->topic, strlen(from->topic) + 1);
    size_t id_at = op->text.len;
    rq_buf_add_slice(&op->text, id);
    rq_buf_add_char(&op->text, '\0');
    size_t broker_at = op->text.len;
    rq_buf_add(&op->text, from->broker_name, strlen(from->broker_name) + 1);
    bool ok = rq_buf_status(&op->text) == RMQ_OK;
    op->result = *from;
    if (op->result.queue_offset <= RQ_QUEUE_OFFSET_MAX) { /* brokers may answer anything */
        op->result.queue_offset += index;
    }
    op->result.msg_id = op->unique_id;
    op->result.topic = ok ? op->text.data : "";
    op->result.offset_msg_id = ok ? op->text.data + id_at : "";
    op->result.broker_name = ok ? op->text.data + broker_at : "";
    op->result.recall_handle = "";
    op->has_result = true;
}

static void fill_error(struct rq_send_op *op, const rmq_error *err)
{
    op->error = rq_error_copy(err);
    op->maybe_stored = rmq_error_maybe_stored(err);
    if (!op->maybe_stored) {
        rq_send_not_stored(op);
    }
    if (!op->error) {
        rq_error_set(&op->error, rmq_error_status(err), "%s",
                     rmq_status_text(rmq_error_status(err)));
    }
}

/* The carrier was answered, or failed: so were its passengers. */
static void carried(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct batch *batch = user;
    struct rq_slice ids = rq_slice_str(result ? result->offset_msg_id : "");
    int64_t index = 0;
    RQ_LIST_FOREACH_SAFE(node, next, &batch->passengers)
    {
        struct rq_send_op *op = RQ_CONTAINER_OF(node, struct rq_send_op, mate);
        rq_list_remove(node);
        if (result) {
            fill_result(op, result, next_id(&ids), index++);
        } else {
            fill_error(op, err);
        }
        rq_send_deliver(op);
    }
    free_batch(batch);
}

static rmq_status begin_carrier(struct batch *batch, rmq_error **err)
{
    struct rmq_producer *producer = batch->producer;
    struct rq_send_op *op = NULL;
    const struct rq_send_order order = {.mode = RQ_SEND_INNER,
                                        .size = batch->bytes,
                                        .carrier = true,
                                        .deadline_ms = batch->deadline_ms,
                                        .done = carried,
                                        .user = batch,
                                        .source = producer};
    rmq_status st = rq_send_pool_take(producer->pool, &order, &op, err);
    if (st != RMQ_OK) {
        return st;
    }
    op->producer = producer;
    op->attempts_max = 1 + producer->options.retry_times_when_send_async_failed;
    op->started_ms = rq_mono_ms();
    st = rq_send_prepare_carrier(op, batch->envelope, &batch->body, &batch->ids, err);
    if (st != RMQ_OK) {
        rq_send_pool_untake(op);
        return st;
    }
    op->route = rq_instance_publish_route(
        producer->instance, rq_slice(batch->envelope->text, batch->envelope->topic_len));
    rq_send_begin(op);
    return RMQ_OK;
}

static void ship(struct batch *batch)
{
    rmq_error *err = NULL;
    if (begin_carrier(batch, &err) != RMQ_OK) {
        carried(NULL, err, batch);
    }
    rmq_error_destroy(err);
}

static void ship_all(struct rq_list *batches)
{
    struct rq_list *node;
    while ((node = rq_list_pop(batches))) {
        ship(RQ_CONTAINER_OF(node, struct batch, node));
    }
}

/* ---- the timer ---- */

/* Moves those that are due by now_ms to due. Returns when the next one is, 0 when none is left. */
static int64_t take_due_locked(struct rq_accumulator *accumulator, int64_t now_ms,
                               struct rq_list *due)
{
    RQ_LIST_FOREACH_SAFE(node, next, &accumulator->open)
    {
        struct batch *batch = RQ_CONTAINER_OF(node, struct batch, node);
        if (batch->due_ms > now_ms) {
            return batch->due_ms;
        }
        rq_list_remove(node);
        rq_list_add_tail(due, node);
    }
    return 0;
}

static void fire(struct rq_timer *timer)
{
    struct rq_accumulator *accumulator = RQ_CONTAINER_OF(timer, struct rq_accumulator, timer);
    struct rq_list due;
    rq_list_init(&due);
    rq_mutex_lock(&accumulator->lock);
    int64_t next_ms = take_due_locked(accumulator, rq_mono_ms(), &due);
    accumulator->armed = next_ms > 0;
    rq_mutex_unlock(&accumulator->lock);
    if (next_ms > 0) {
        rq_timer_start_at(rq_instance_loop(accumulator->producer->instance), timer, next_ms);
    }
    ship_all(&due);
}

static void arm(struct rq_task *task)
{
    struct rq_accumulator *accumulator = RQ_CONTAINER_OF(task, struct rq_accumulator, arm);
    rq_timer_start(rq_instance_loop(accumulator->producer->instance), &accumulator->timer,
                   accumulator->linger_ms);
}

/* ---- filling ---- */

bool rq_accumulator_takes(const struct rq_accumulator *accumulator, const rmq_message *message,
                          size_t more)
{
    size_t size = message->body->size + message->text_len + more + RQ_SEND_ITEM_OWN;
    return message->delay_level == 0 && !message->timed && !message->reply && !message->grouped &&
           size < accumulator->most_bytes &&
           rq_send_item_stored(message) + more < accumulator->most_stored &&
           !rq_topic_is_retry(rq_slice(message->text, message->topic_len));
}

static bool fits(const struct batch *batch, const rmq_message *message)
{
    return batch->envelope->topic_len == message->topic_len &&
           batch->envelope->wait_store_ok == message->wait_store_ok &&
           memcmp(batch->envelope->text, message->text, message->topic_len) == 0;
}

static struct batch *make_batch(struct rq_accumulator *accumulator, const struct rq_send_op *op,
                                const rmq_message *message)
{
    struct batch *batch = rq_calloc(1, sizeof *batch);
    if (!batch || rmq_message_create(message->text, &batch->envelope, NULL) != RMQ_OK) {
        rq_free(batch);
        return NULL;
    }
    batch->producer = accumulator->producer;
    batch->envelope->wait_store_ok = message->wait_store_ok;
    rq_buf_init(&batch->body, RQ_SEND_BATCH_MAX);
    rq_buf_init(&batch->ids, RQ_SEND_BATCH_MAX);
    rq_list_init(&batch->passengers);
    batch->due_ms = rq_mono_ms() + accumulator->linger_ms;
    batch->deadline_ms = op->deadline_ms;
    return batch;
}

static struct batch *find_locked(struct rq_accumulator *accumulator, const struct rq_send_op *op,
                                 const rmq_message *message)
{
    RQ_LIST_FOREACH_SAFE(node, next, &accumulator->open)
    {
        struct batch *batch = RQ_CONTAINER_OF(node, struct batch, node);
        if (fits(batch, message)) {
            return batch;
        }
    }
    struct batch *batch = make_batch(accumulator, op, message);
    if (batch) {
        rq_list_add_tail(&accumulator->open, &batch->node);
    }
    return batch;
}

static rmq_status add_locked(struct batch *batch, struct rq_send_op *op, const rmq_message *message,
                             rmq_error **err)
{
    size_t body_at = batch->body.len;
    size_t ids_at = batch->ids.len;
    size_t n = rq_unique_id(op->started_ms, op->unique_id);
    rq_buf_clear(&op->text); /* for the error of a shutdown */
    rq_buf_add(&op->text, message->text, message->topic_len + 1);
    rmq_status st = rq_send_add_item(message, op->more_pairs, rq_slice(op->unique_id, n),
                                     &batch->body, &batch->ids, err);
    if (st == RMQ_OK && !rq_send_try(op)) {
        batch->body.len = body_at;
        batch->ids.len = ids_at;
        st = rq_error_set(err, RMQ_ERR_CLOSED, "the producer is shut down");
    }
    if (st == RMQ_OK) {
        rq_list_add_tail(&batch->passengers, &op->mate);
        batch->bytes += message->body->size;
        batch->stored += rq_send_item_stored(message) + op->more_pairs.n;
    }
    return st;
}

/* true: the batch is off the list, to be shipped by the caller. */
static bool leave_or_wait_locked(struct rq_accumulator *accumulator, struct batch *batch)
{
    bool empty = rq_list_empty(&batch->passengers);
    bool full =
        batch->body.len >= accumulator->most_bytes || batch->stored >= accumulator->most_stored;
    if (!empty && (full || accumulator->closed)) {
        rq_list_remove(&batch->node);
        return true;
    }
    if (empty) { /* made for a message that could not be encoded */
        rq_list_remove(&batch->node);
        free_batch(batch);
    } else if (!accumulator->armed) { /* with the lock: who closes stops the timer behind this */
        accumulator->armed =
            rq_loop_post(rq_instance_loop(accumulator->producer->instance), &accumulator->arm);
    }
    return false;
}

rmq_status rq_accumulator_add(struct rq_accumulator *accumulator, struct rq_send_op *op,
                              const rmq_message *message, rmq_error **err)
{
    rq_mutex_lock(&accumulator->lock);
    struct batch *batch = find_locked(accumulator, op, message);
    rmq_status st =
        batch ? add_locked(batch, op, message, err) : rq_error_set(err, RMQ_ERR_NOMEM, "batch");
    bool leaves = batch && leave_or_wait_locked(accumulator, batch);
    rq_mutex_unlock(&accumulator->lock);
    if (leaves) {
        ship(batch);
    }
    return st;
}

/* ---- life ---- */

struct rq_accumulator *rq_accumulator_create(struct rmq_producer *producer)
{
    struct rq_accumulator *accumulator = rq_calloc(1, sizeof *accumulator);
    if (accumulator) {
        accumulator->producer = producer;
        accumulator->linger_ms = producer->options.batch_max_delay_ms;
        accumulator->most_bytes = (size_t)producer->options.batch_max_bytes;
        /* A batch below it takes one more message, which is below it, too. */
        accumulator->most_stored = (size_t)producer->options.max_message_size / 2;
        rq_mutex_init(&accumulator->lock);
        rq_list_init(&accumulator->open);
        accumulator->arm.run = arm;
        rq_timer_init(&accumulator->timer, fire);
    }
    return accumulator;
}

void rq_accumulator_free(struct rq_accumulator *accumulator)
{
    if (accumulator) {
        rq_mutex_destroy(&accumulator->lock);
        rq_free(accumulator);
    }
}

void rq_accumulator_flush(struct rq_accumulator *accumulator)
{
    struct rq_list all;
    rq_list_init(&all);
    if (accumulator) {
        rq_mutex_lock(&accumulator->lock);
        (void)take_due_locked(accumulator, INT64_MAX, &all);
        rq_mutex_unlock(&accumulator->lock);
        ship_all(&all);
    }
}

static void disarm(void *arg)
{
    struct rq_accumulator *accumulator = arg;
    rq_timer_stop(&accumulator->timer);
}

void rq_accumulator_close(struct rq_accumulator *accumulator)
{
    if (accumulator) {
        rq_mutex_lock(&accumulator->lock);
        accumulator->closed = true;
        accumulator->armed = true; /* nobody posts any more */
        rq_mutex_unlock(&accumulator->lock);
        (void)rq_instance_run(accumulator->producer->instance, disarm, accumulator);
        rq_accumulator_flush(accumulator);
    }
}

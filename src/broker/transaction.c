/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * State of transactional messages: the window of half messages that have not all ended, claims on
 * them, and the op topic. Ended is what is committed, rolled back, given up, or written anew by a
 * check; each of them gets its op record, so that neither this broker after a crash nor a Java
 * broker on the same store asks twice. Counterparts: TransactionalMessageBridge,
 * TransactionalOpBatchService.
 */
#include "broker/transaction.h"

#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/unique_id.h"
#include "wire/names.h"
#include "wire/properties.h"

#define OP_TAG "d"

struct moved {
    int64_t offset;
};

static void op_due(struct rq_timer *timer);
static void op_posted(struct rq_task *task);

/* How far the group is in a topic. A log that has lost its end has less than that: what comes in
 * its place is not done. */
static int64_t progress(struct rmq_broker *broker, const char *name)
{
    struct rq_slice topic = rq_slice_str(name);
    int64_t offset =
        rq_offsets_query(&broker->offsets, rq_slice_str(RQ_GROUP_TRANSACTION), topic, 0);
    int64_t min = rq_store_min_offset(broker->store, topic, 0);
    int64_t max = rq_store_max_offset(broker->store, topic, 0);
    return offset < min ? min : offset > max ? max : offset;
}

rmq_status rq_transactions_init(struct rq_transactions *transactions, struct rmq_broker *broker,
                                struct rq_loop *background, rmq_error **err)
{
    memset(transactions, 0, sizeof *transactions);
    transactions->broker = broker;
    transactions->loop = background;
    rq_loop_retain(background);
    rq_mutex_init(&transactions->lock);
    rq_cond_init(&transactions->looked);
    transactions->looked_at = RQ_ENDED;
    rq_map_init(&transactions->moved);
    rq_buf_init(&transactions->op_text, 0);
    rq_timer_init(&transactions->check_timer, rq_transaction_check);
    rq_timer_init(&transactions->op_timer, op_due);
    transactions->op_task.run = op_posted;
    transactions->op_next = progress(broker, RQ_TOPIC_OP_HALF);
    bool made = rq_window_init(&transactions->window, progress(broker, RQ_TOPIC_HALF));
    rmq_status st = made ? RMQ_ERR_BUSY : RMQ_ERR_NOMEM;
    while (st == RMQ_ERR_BUSY) { /* now, so that no transaction can be ended twice */
        st = rq_transaction_read_ops(transactions);
    }
    return st ? rq_error_set(err, st, "out of memory") : RMQ_OK;
}

static void start_timer(void *arg)
{
    struct rq_transactions *transactions = arg;
    rq_timer_start(transactions->loop, &transactions->check_timer,
                   transactions->broker->settings.broker.transaction_check_interval);
}

void rq_transactions_start(struct rq_transactions *transactions)
{
    (void)rq_loop_run(transactions->loop, start_timer, transactions);
}

static void stop_timers(void *arg)
{
    struct rq_transactions *transactions = arg;
    transactions->stopped = true;
    rq_timer_stop(&transactions->check_timer);
    rq_timer_stop(&transactions->op_timer);
}

void rq_transactions_stop(struct rq_transactions *transactions)
{
    if (transactions->loop) {
        (void)rq_loop_run(transactions->loop, stop_timers, transactions);
    }
}

void rq_transactions_finish(struct rq_transactions *transactions)
{
    if (transactions->loop) {
        (void)rq_loop_run(transactions->loop, stop_timers, transactions); /* behind a posted task */
        rq_transaction_write_ops(transactions);
    }
}

void rq_transactions_free(struct rq_transactions *transactions)
{
    if (!transactions->loop) {
        return;
    }
    rq_loop_put(transactions->loop);
    rq_window_free(&transactions->window);
    rq_free(transactions->ops);
    rq_map_free(&transactions->moved, rq_free);
    rq_buf_free(&transactions->op_text);
    rq_cond_destroy(&transactions->looked);
    rq_mutex_destroy(&transactions->lock);
}

/* ---- half messages ---- */

void rq_transaction_prepare(struct rq_msg *msg, struct rq_slice unique_key, struct rq_buf *props)
{
    /* The delay is left out as clients do: it would take the half message itself away. */
    static const char *const dropped[] = {RQ_PROP_DELAY,          RQ_PROP_TIMER_DELAY_SEC,
                                          RQ_PROP_TIMER_DELAY_MS, RQ_PROP_TIMER_DELIVER_MS,
                                          RQ_PROP_REAL_TOPIC,     RQ_PROP_REAL_QID,
                                          RQ_PROP_TRANSACTION_ID};
    size_t count = sizeof dropped / sizeof dropped[0];
    rq_props_copy_without(props, 0, msg->properties, dropped, count);
    rq_buf_add_slice(props, msg->more_properties);
    if (unique_key.n) {
        rq_props_add_str(props, 0, RQ_PROP_TRANSACTION_ID, unique_key);
    }
    rq_props_add_str(props, 0, RQ_PROP_REAL_TOPIC, msg->topic);
    rq_props_add_i64(props, 0, RQ_PROP_REAL_QID, msg->queue_id);
    msg->properties = rq_slice(props->data, props->len);
    msg->more_properties = rq_slice(NULL, 0);
    msg->topic = rq_slice_str(RQ_TOPIC_HALF);
    msg->queue_id = 0;
    msg->sys_flag &= ~RQ_SYS_TRANSACTION_MASK;
}

bool rq_transaction_record(struct rmq_broker *broker, const char *topic, int64_t offset,
                           struct rq_store_ref *ref, struct rq_msg *msg)
{
    struct rq_store_entry entry;
    if (!rq_store_entry(broker->store, rq_slice_str(topic), 0, offset, &entry) ||
        !rq_store_view(broker->store, entry.commit_log_offset, ref)) {
        return false;
    }
    struct rq_cursor cursor = rq_cursor(ref->p, ref->n);
    if (rq_msg_decode(&cursor, msg, NULL)) {
        rq_store_ref_release(ref);
        return false;
    }
    return true;
}

/* ---- the window ---- */

static void mark_locked(struct rq_transactions *transactions, int64_t offset)
{
    if (!rq_window_mark(&transactions->window, offset)) {
        RQ_LOG(ERROR, "an ended transaction will be asked about again",
               "half_offset=%lld base=%lld", (long long)offset,
               (long long)transactions->window.base);
    }
}

static bool is_claimed_locked(const struct rq_transactions *transactions, int64_t offset)
{
    for (size_t i = 0; i < transactions->claim_count; i++) {
        if (transactions->claims[i] == offset) {
            return true;
        }
    }
    return false;
}

/* The newest copy. */
static int64_t find_locked(const struct rq_transactions *transactions, int64_t half_offset,
                           struct rq_slice unique_key)
{
    const struct moved *moved = unique_key.n ? rq_map_get(&transactions->moved, unique_key) : NULL;
    return moved ? moved->offset : half_offset;
}

int64_t rq_transaction_claim(struct rq_transactions *transactions, int64_t half_offset,
                             struct rq_slice unique_key)
{
    rq_mutex_lock(&transactions->lock);
    int64_t offset = find_locked(transactions, half_offset, unique_key);
    while (offset == transactions->looked_at) {
        rq_cond_wait(&transactions->looked, &transactions->lock);
        offset = find_locked(transactions, half_offset, unique_key);
    }
    if (rq_window_has(&transactions->window, offset) || is_claimed_locked(transactions, offset) ||
        transactions->claim_count == RQ_TRANSACTION_CLAIMS_MAX) {
        offset = RQ_ENDED;
    } else {
        transactions->claims[transactions->claim_count++] = offset;
    }
    rq_mutex_unlock(&transactions->lock);
    return offset;
}

static void drop_claim_locked(struct rq_transactions *transactions, int64_t offset)
{
    for (size_t i = 0; i < transactions->claim_count; i++) {
        if (transactions->claims[i] == offset) {
            transactions->claims[i] = transactions->claims[--transactions->claim_count];
            return;
        }
    }
}

void rq_transaction_let_go(struct rq_transactions *transactions, int64_t claimed)
{
    rq_mutex_lock(&transactions->lock);
    drop_claim_locked(transactions, claimed);
    rq_mutex_unlock(&transactions->lock);
}

static void settle_locked(struct rq_transactions *transactions, int64_t offset)
{
    mark_locked(transactions, offset);
    rq_buf_add_i64(&transactions->op_text, offset);
    rq_buf_add_char(&transactions->op_text, ',');
    (void)rq_loop_post(transactions->loop, &transactions->op_task);
}

void rq_transaction_settle(struct rq_transactions *transactions, int64_t claimed)
{
    rq_mutex_lock(&transactions->lock);
    drop_claim_locked(transactions, claimed);
    settle_locked(transactions, claimed);
    rq_mutex_unlock(&transactions->lock);
}

bool rq_transaction_look(struct rq_transactions *transactions, int64_t half_offset)
{
    rq_mutex_lock(&transactions->lock);
    bool is_free = !rq_window_has(&transactions->window, half_offset) &&
                   !is_claimed_locked(transactions, half_offset);
    if (is_free) {
        transactions->looked_at = half_offset;
    }
    rq_mutex_unlock(&transactions->lock);
    return is_free;
}

void rq_transaction_looked(struct rq_transactions *transactions, bool ended)
{
    rq_mutex_lock(&transactions->lock);
    if (ended) {
        settle_locked(transactions, transactions->looked_at);
    }
    transactions->looked_at = RQ_ENDED;
    rq_cond_broadcast(&transactions->looked);
    rq_mutex_unlock(&transactions->lock);
}

void rq_transaction_moved(struct rq_transactions *transactions, struct rq_slice unique_key,
                          int64_t offset)
{
    if (unique_key.n == 0) {
        return;
    }
    rq_mutex_lock(&transactions->lock);
    struct moved *moved = rq_map_get(&transactions->moved, unique_key);
    if (moved) {
        moved->offset = offset;
    } else if ((moved = rq_alloc(sizeof *moved))) {
        moved->offset = offset;
        if (rq_map_put(&transactions->moved, unique_key, moved)) {
            rq_free(moved);
        }
    }
    rq_mutex_unlock(&transactions->lock);
}

void rq_transaction_forget(struct rq_transactions *transactions, struct rq_slice unique_key)
{
    rq_mutex_lock(&transactions->lock);
    rq_free(unique_key.n ? rq_map_remove(&transactions->moved, unique_key) : NULL);
    rq_mutex_unlock(&transactions->lock);
}

bool rq_transaction_has_ended(struct rq_transactions *transactions, int64_t half_offset)
{
    rq_mutex_lock(&transactions->lock);
    bool ended = rq_window_has(&transactions->window, half_offset);
    rq_mutex_unlock(&transactions->lock);
    return ended;
}

void rq_transaction_mark(struct rq_transactions *transactions, int64_t half_offset)
{
    rq_mutex_lock(&transactions->lock);
    mark_locked(transactions, half_offset);
    rq_mutex_unlock(&transactions->lock);
}

int64_t rq_transaction_advance(struct rq_transactions *transactions, int64_t min, int64_t end)
{
    rq_mutex_lock(&transactions->lock);
    rq_window_advance(&transactions->window, min, end);
    int64_t base = transactions->window.base;
    rq_mutex_unlock(&transactions->lock);
    return base;
}

/* ---- the op topic ---- */

static enum rq_put_status append_op(struct rmq_broker *broker, struct rq_slice text)
{
    struct rq_buf props;
    struct rq_store_put put;
    char id[RQ_MSGID_MAX + 1];
    rq_buf_init(&props, 0);
    rq_props_add_str(&props, 0, RQ_PROP_TAGS, rq_slice_str(OP_TAG));
    rq_props_add_str(&props, 0, RQ_PROP_UNIQ_KEY, rq_slice(id, rq_broker_unique_id(broker, id)));
    struct rq_msg msg = {.topic = rq_slice_str(RQ_TOPIC_OP_HALF),
                         .body = text,
                         .properties = rq_slice(props.data, props.len),
                         .born_timestamp_ms = rq_wall_ms(),
                         .born_host = broker->store_host,
                         .store_host = broker->store_host};
    enum rq_put_status st = rq_buf_status(&props) ? RQ_PUT_UNKNOWN_ERROR
                                                  : rq_store_append_own(broker->store, &msg, &put);
    rq_buf_free(&props);
    return st;
}

/* The part of a text that one record may have: up to the comma at or before most bytes. */
static size_t cut(struct rq_slice text, size_t most)
{
    size_t n = text.n < most ? text.n : most;
    while (n > 0 && n < text.n && text.p[n - 1] != ',') {
        n--;
    }
    return n > 0 ? n : text.n;
}

static void take_text(struct rq_transactions *transactions, struct rq_buf *text)
{
    rq_mutex_lock(&transactions->lock);
    *text = transactions->op_text;
    rq_buf_init(&transactions->op_text, 0);
    rq_mutex_unlock(&transactions->lock);
}

static void put_back(struct rq_transactions *transactions, struct rq_slice rest)
{
    rq_mutex_lock(&transactions->lock);
    rq_buf_add_slice(&transactions->op_text, rest);
    rq_mutex_unlock(&transactions->lock);
}

/* What cannot be written is kept for the next time. */
void rq_transaction_write_ops(struct rq_transactions *transactions)
{
    struct rq_buf text;
    size_t done = 0;
    take_text(transactions, &text);
    while (!rq_buf_status(&text) && done < text.len) {
        struct rq_slice rest = rq_slice(text.data + done, text.len - done);
        size_t n =
            cut(rest, (size_t)transactions->broker->settings.broker.transaction_op_msg_max_size);
        if (append_op(transactions->broker, rq_slice(rest.p, n)) != RQ_PUT_OK) {
            RQ_LOG(WARN, "ended transactions cannot be noted yet", "bytes=%zu", rest.n);
            put_back(transactions, rest);
            break;
        }
        done += n;
    }
    rq_buf_free(&text);
    if (done) {
        rq_store_dispatch(transactions->broker->store);
    }
}

static void op_due(struct rq_timer *timer)
{
    rq_transaction_write_ops(RQ_CONTAINER_OF(timer, struct rq_transactions, op_timer));
}

/* There is something to write: at once, or together with what comes within the interval. */
static void op_posted(struct rq_task *task)
{
    struct rq_transactions *transactions = RQ_CONTAINER_OF(task, struct rq_transactions, op_task);
    const struct rq_broker_options *options = &transactions->broker->settings.broker;
    rq_mutex_lock(&transactions->lock);
    size_t waiting = transactions->op_text.len;
    bool wait = options->transaction_op_batch_interval > 0 &&
                waiting < (size_t)options->transaction_op_msg_max_size && !transactions->stopped;
    rq_mutex_unlock(&transactions->lock);
    if (!wait) {
        rq_timer_stop(&transactions->op_timer);
        rq_transaction_write_ops(transactions);
    } else if (!rq_timer_running(&transactions->op_timer)) {
        rq_timer_start(transactions->loop, &transactions->op_timer,
                       options->transaction_op_batch_interval);
    }
}

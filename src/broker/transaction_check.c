/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The rounds of questions about half messages, on the background loop: read what the op topic says,
 * look at each message of the window that has not ended, write those that are due anew (with one
 * question more) and ask a producer of their group, give up those asked too often. A round goes on
 * over several turns of the loop. Counterparts: TransactionalMessageServiceImpl.check,
 * AbstractTransactionalMessageCheckListener.
 */
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/auto_topic.h"
#include "broker/broker.h"
#include "wire/msgid.h"
#include "wire/names.h"
#include "wire/properties.h"

#define OPS_A_TURN   512
#define HALFS_A_TURN 256
#define HOUR_MS      INT64_C(3600000)

/* ---- the op topic ---- */

static bool push_op(struct rq_transactions *transactions, struct rq_op_mark mark)
{
    if (transactions->op_first + transactions->op_count == transactions->op_cap) {
        size_t cap = transactions->op_cap;
        if (transactions->op_first) {
            memmove(transactions->ops, transactions->ops + transactions->op_first,
                    transactions->op_count * sizeof mark);
            transactions->op_first = 0;
        }
        if (transactions->op_count * 2 >= cap) {
            cap = cap ? cap * 2 : 64;
        }
        struct rq_op_mark *ops = rq_realloc(transactions->ops, cap * sizeof mark);
        if (!ops) {
            return false;
        }
        transactions->ops = ops;
        transactions->op_cap = cap;
    }
    transactions->ops[transactions->op_first + transactions->op_count++] = mark;
    return true;
}

/* "12,13," of 5.x and "12" of 4.9. */
static void take_op(struct rq_transactions *transactions, struct rq_slice text,
                    struct rq_op_mark *mark)
{
    int64_t half_max =
        rq_store_max_offset(transactions->broker->store, rq_slice_str(RQ_TOPIC_HALF), 0);
    while (text.n) {
        const char *comma = memchr(text.p, ',', text.n);
        size_t n = comma ? (size_t)(comma - text.p) : text.n;
        int64_t half = 0;
        if (rq_slice_to_i64(rq_slice(text.p, n), &half) && half >= 0 && half < half_max) {
            rq_transaction_mark(transactions, half);
            mark->highest = half > mark->highest ? half : mark->highest;
        }
        n += comma != NULL;
        text = rq_slice(text.p + n, text.n - n);
    }
}

rmq_status rq_transaction_read_ops(struct rq_transactions *transactions)
{
    struct rmq_broker *broker = transactions->broker;
    struct rq_slice topic = rq_slice_str(RQ_TOPIC_OP_HALF);
    int64_t max = rq_store_max_offset(broker->store, topic, 0);
    int64_t min = rq_store_min_offset(broker->store, topic, 0);
    transactions->op_next = transactions->op_next < min ? min : transactions->op_next;
    for (int i = 0; transactions->op_next < max; i++) {
        struct rq_op_mark mark = {.op_offset = transactions->op_next, .highest = -1};
        struct rq_store_ref ref;
        struct rq_msg msg;
        if (i == OPS_A_TURN) {
            return RMQ_ERR_BUSY;
        }
        if (rq_transaction_record(broker, RQ_TOPIC_OP_HALF, mark.op_offset, &ref, &msg)) {
            take_op(transactions, msg.body, &mark);
            rq_store_ref_release(&ref);
        }
        if (!push_op(transactions, mark)) {
            return RMQ_ERR_NOMEM;
        }
        transactions->op_next++;
    }
    return RMQ_OK;
}

/* How far the op topic is not needed any more. */
static int64_t op_progress(struct rq_transactions *transactions, int64_t base)
{
    while (transactions->op_count && transactions->ops[transactions->op_first].highest < base) {
        transactions->op_first++;
        transactions->op_count--;
    }
    return transactions->op_count ? transactions->ops[transactions->op_first].op_offset
                                  : transactions->op_next;
}

/* ---- a half message ---- */

/* Into another topic or its own once more. false: it could not be stored. */
static bool store_copy(struct rmq_broker *broker, const struct rq_msg *half, const char *topic,
                       struct rq_slice properties, struct rq_store_put *put)
{
    struct rq_msg msg = *half;
    msg.topic = rq_slice_str(topic);
    msg.queue_id = 0;
    msg.properties = properties;
    if (!msg.body.p) {
        msg.body.p = "";
    }
    return rq_store_append_own(broker->store, &msg, put) == RQ_PUT_OK;
}

static bool give_up(struct rq_transactions *transactions, const struct rq_msg *half)
{
    struct rmq_broker *broker = transactions->broker;
    struct rq_topic_info info;
    struct rq_store_put put;
    bool created = false;
    rq_dlq_topic_info(&info); /* one queue to read and to write, as well */
    if (rq_topics_add(&broker->topics, rq_slice_str(RQ_TOPIC_CHECK_MAX), &info, &created)) {
        return false;
    }
    if (created) {
        rq_broker_topics_changed(broker);
    }
    RQ_LOG(WARN, "a transaction was never ended and is given up", "id=%.*s topic=%.*s",
           RQ_TEXT(rq_props_get(half->properties, RQ_PROP_UNIQ_KEY)),
           RQ_TEXT(rq_props_get(half->properties, RQ_PROP_REAL_TOPIC)));
    if (!store_copy(broker, half, RQ_TOPIC_CHECK_MAX, half->properties, &put)) {
        return false;
    }
    rq_transaction_forget(transactions, rq_props_get(half->properties, RQ_PROP_UNIQ_KEY));
    return true;
}

/* The half message as its producer sees it: with its real topic, and where its newest copy is. */
static struct rq_out *make_question(struct rmq_broker *broker, const struct rq_msg *half,
                                    struct rq_slice properties, const struct rq_store_put *put)
{
    char id[RQ_MSGID_MAX + 1];
    struct rq_slice unique_key = rq_props_get(properties, RQ_PROP_UNIQ_KEY);
    struct rq_msg msg = *half;
    msg.topic = rq_props_get(properties, RQ_PROP_REAL_TOPIC);
    msg.queue_id = (int32_t)rq_props_get_i64(properties, RQ_PROP_REAL_QID, 0);
    msg.properties = properties;
    msg.queue_offset = put->queue_offset;
    msg.commit_log_offset = put->commit_log_offset;
    struct rq_hdr_check_transaction fields = {
        .tran_state_table_offset = put->queue_offset,
        .commit_log_offset = put->commit_log_offset,
        .msg_id = unique_key,
        .transaction_id = unique_key,
        .offset_msg_id =
            rq_slice(id, rq_msgid_of_offset(&msg.store_host, put->commit_log_offset, id)),
        .topic = rq_slice_str(RQ_TOPIC_HALF),
        .bname = rq_slice_str(broker->settings.broker.broker_name)};
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_CHECK_TRANSACTION_STATE,
                                                 &rq_tab_check_transaction, &fields);
    spec.flag = RQ_FLAG_ONEWAY;
    size_t size = rq_msg_encoded_size(&msg);
    struct rq_out *out = size ? rq_out_create(size + 1024) : NULL;
    if (!out || rq_frame_encode(&out->head, &spec, size, NULL) ||
        !rq_buf_reserve(&out->head, size)) {
        rq_out_destroy(out);
        return NULL;
    }
    rq_msg_encode(&msg, size, out->head.data + out->head.len);
    out->head.len += size;
    return out;
}

static void ask_producer(struct rq_transactions *transactions, const struct rq_msg *half,
                         struct rq_slice properties, const struct rq_store_put *put)
{
    struct rmq_broker *broker = transactions->broker;
    struct rq_slice group = rq_props_get(properties, RQ_PROP_PGROUP);
    struct rq_conn *conn = rq_clients_producer(&broker->clients, group, transactions->turn++);
    if (!conn) {
        RQ_LOG(INFO, "no producer of the group to ask about a transaction", "group=%.*s",
               RQ_TEXT(group));
        return;
    }
    struct rq_out *out = make_question(broker, half, properties, put);
    if (out) {
        (void)rq_conn_send(conn, out);
    }
    rq_conn_release(conn);
}

/* One question more: a new copy with its number, which is what the question is about. When that does
 * not fit, about the message that is there: then only its age ends the questions. */
static bool ask_again(struct rq_transactions *transactions, const struct rq_msg *half,
                      int64_t times)
{
    static const char *const replaced[] = {RQ_PROP_TRANSACTION_CHECK_TIMES};
    struct rq_store_put put = {.status = RQ_PUT_UNKNOWN_ERROR};
    struct rq_buf props;
    rq_buf_init(&props, 0);
    rq_props_copy_without(&props, 0, half->properties, replaced, 1);
    rq_props_add_i64(&props, 0, RQ_PROP_TRANSACTION_CHECK_TIMES, times + 1);
    struct rq_slice properties = rq_slice(props.data, props.len);
    bool stored = !rq_buf_status(&props) &&
                  store_copy(transactions->broker, half, RQ_TOPIC_HALF, properties, &put);
    if (put.status == RQ_PUT_PROPERTIES_SIZE_EXCEEDED) {
        put.queue_offset = half->queue_offset;
        put.commit_log_offset = half->commit_log_offset;
        ask_producer(transactions, half, half->properties, &put);
    }
    if (stored) {
        rq_transaction_moved(transactions, rq_props_get(properties, RQ_PROP_UNIQ_KEY),
                             put.queue_offset);
        ask_producer(transactions, half, properties, &put);
    }
    rq_buf_free(&props);
    return stored;
}

/* Time before which nothing is asked; a negative age is one of a clock that was set back, and is
 * asked about at once. */
static bool is_immune(const struct rq_transactions *transactions, const struct rq_msg *half,
                      int64_t age_ms)
{
    int64_t immune_ms = transactions->broker->settings.broker.transaction_time_out;
    int64_t seconds = rq_props_get_i64(half->properties, RQ_PROP_CHECK_IMMUNITY_TIME, -1);
    if (seconds >= 0 && seconds < INT64_MAX / 1000) {
        immune_ms = seconds * 1000;
    }
    return age_ms >= 0 && age_ms <= immune_ms;
}

/* A copy that a Java broker made of a message in its time of immunity ends with the original. */
static bool original_has_ended(struct rq_transactions *transactions, const struct rq_msg *half)
{
    int64_t original = rq_props_get_i64(half->properties, RQ_PROP_TRAN_PREPARED_QUEUE_OFFSET, -1);
    return original >= transactions->window.base &&
           rq_transaction_has_ended(transactions, original);
}

/* true: this copy has ended. */
static bool look_at(struct rq_transactions *transactions, const struct rq_msg *half)
{
    const struct rmq_broker *broker = transactions->broker;
    int64_t age_ms = rq_ms_between(half->born_timestamp_ms, rq_broker_now_ms(broker));
    int64_t times = rq_props_get_i64(half->properties, RQ_PROP_TRANSACTION_CHECK_TIMES, 0);
    if (original_has_ended(transactions, half)) {
        return true;
    }
    if (times >= broker->settings.broker.transaction_check_max ||
        age_ms > broker->settings.store.file_reserved_time_h * HOUR_MS) {
        return give_up(transactions, half);
    }
    return !is_immune(transactions, half, age_ms) && ask_again(transactions, half, times);
}

static void look_at_offset(struct rq_transactions *transactions, int64_t offset)
{
    struct rq_store_ref ref;
    struct rq_msg half;
    if (!rq_transaction_look(transactions, offset)) {
        return;
    }
    bool ended = true;
    if (rq_transaction_record(transactions->broker, RQ_TOPIC_HALF, offset, &ref, &half)) {
        ended = look_at(transactions, &half);
        rq_store_ref_release(&ref);
    } else {
        RQ_LOG(ERROR, "a half message is not readable and is passed over", "half_offset=%lld",
               (long long)offset);
    }
    rq_transaction_looked(transactions, ended);
}

/* ---- rounds ---- */

/* Copies that the round itself writes lie behind its end. */
static void begin_round(struct rq_transactions *transactions)
{
    struct rq_slice topic = rq_slice_str(RQ_TOPIC_HALF);
    int64_t min = rq_store_min_offset(transactions->broker->store, topic, 0);
    transactions->in_round = true;
    transactions->scan_end = rq_store_max_offset(transactions->broker->store, topic, 0);
    transactions->scan_at = rq_transaction_advance(transactions, min, transactions->scan_end);
}

static void end_round(struct rq_transactions *transactions)
{
    struct rq_offsets *offsets = &transactions->broker->offsets;
    struct rq_slice group = rq_slice_str(RQ_GROUP_TRANSACTION);
    struct rq_slice half = rq_slice_str(RQ_TOPIC_HALF);
    struct rq_slice op = rq_slice_str(RQ_TOPIC_OP_HALF);
    int64_t old = rq_offsets_query(offsets, group, half, 0);
    int64_t op_old = rq_offsets_query(offsets, group, op, 0);
    int64_t base = rq_transaction_advance(transactions, 0, transactions->scan_end);
    int64_t op_base = op_progress(transactions, base);
    /* this order: never ops gone whose half messages are not */
    if (base != old || op_base != op_old) {
        (void)rq_offsets_commit(offsets, group, half, 0, base, NULL);
        (void)rq_offsets_commit(offsets, group, op, 0, op_base, NULL);
    }
    transactions->in_round = false;
}

/* One turn of a round. true: the round goes on. */
static bool turn(struct rq_transactions *transactions)
{
    if (rq_transaction_read_ops(transactions)) {
        return true;
    }
    if (!transactions->in_round) {
        begin_round(transactions);
    }
    for (int i = 0; i < HALFS_A_TURN && transactions->scan_at < transactions->scan_end; i++) {
        look_at_offset(transactions, transactions->scan_at++);
    }
    return transactions->scan_at < transactions->scan_end;
}

void rq_transaction_check(struct rq_timer *timer)
{
    struct rq_transactions *transactions =
        RQ_CONTAINER_OF(timer, struct rq_transactions, check_timer);
    int64_t again_ms = 1;
    if (!turn(transactions)) {
        end_round(transactions);
        again_ms = transactions->broker->settings.broker.transaction_check_interval;
    }
    rq_transaction_write_ops(transactions);
    rq_store_dispatch(transactions->broker->store);
    rq_timer_start(transactions->loop, timer, again_ms);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * End of a transaction (37): a committed half message is stored in its real queue, and either way
 * the half message has ended. A second end of the same transaction is refused, so that a producer
 * that is asked while it commits does not make two messages of one. Loop thread. Counterpart:
 * EndTransactionProcessor.
 */
#include "base/log.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/put.h"
#include "broker/send_answer.h"
#include "wire/names.h"
#include "wire/properties.h"

static bool refuse(const struct rq_request *request, int32_t code, const char *remark)
{
    rq_request_answer(request, code, remark);
    return false;
}

/* A producer that asked for a later first question may not come later than that by itself. */
static bool is_too_late(const struct rq_request *request,
                        const struct rq_hdr_end_transaction *header, const struct rq_msg *half)
{
    int64_t timeout_ms = request->broker->settings.broker.transaction_time_out;
    struct rq_slice text = rq_props_get(half->properties, RQ_PROP_CHECK_IMMUNITY_TIME);
    int64_t seconds = 0;
    if (header->from_transaction_check || text.n == 0) {
        return false;
    }
    bool good = rq_slice_to_i64(text, &seconds) && seconds > 0 && seconds < INT64_MAX / 1000;
    int64_t immune_ms = good ? seconds * 1000 : 0;
    immune_ms = immune_ms < timeout_ms ? timeout_ms : immune_ms;
    return rq_ms_between(half->born_timestamp_ms, rq_broker_now_ms(request->broker)) > immune_ms;
}

static bool check(const struct rq_request *request, const struct rq_hdr_end_transaction *header,
                  const struct rq_msg *half)
{
    struct rq_slice group = rq_props_get(half->properties, RQ_PROP_PGROUP);
    if (!rq_slice_eq_str(half->topic, RQ_TOPIC_HALF)) {
        return refuse(request, RQ_RESP_SYSTEM_ERROR, "Find prepared transaction message failed");
    }
    if (is_too_late(request, header, half)) {
        return refuse(request, RQ_RESP_ILLEGAL_OPERATION,
                      "older than its time of immunity: the broker will ask");
    }
    if (!group.n || !rq_slice_eq(group, header->producer_group)) {
        return refuse(request, RQ_RESP_SYSTEM_ERROR, "The producer group wrong");
    }
    if (half->queue_offset != header->tran_state_table_offset) {
        return refuse(request, RQ_RESP_SYSTEM_ERROR, "The transaction state table offset wrong");
    }
    if (half->commit_log_offset != header->commit_log_offset) {
        return refuse(request, RQ_RESP_SYSTEM_ERROR, "The commit log offset wrong");
    }
    return true;
}

/* The message as its real topic gets it: properties and body are those of the half message. */
static bool make_real(struct rq_msg *msg)
{
    int32_t queue_id = 0;
    struct rq_slice topic = rq_props_get(msg->properties, RQ_PROP_REAL_TOPIC);
    if (topic.n == 0 || rq_topic_is_forbidden(topic) ||
        !rq_slice_to_i32(rq_props_get(msg->properties, RQ_PROP_REAL_QID), &queue_id) ||
        queue_id < 0) {
        return false;
    }
    msg->prepared_transaction_offset = msg->commit_log_offset;
    msg->topic = topic;
    msg->queue_id = queue_id;
    msg->sys_flag = (msg->sys_flag & ~RQ_SYS_TRANSACTION_MASK) | RQ_SYS_TRANSACTION_COMMIT;
    if (!msg->body.p) {
        msg->body.p = "";
    }
    return true;
}

static bool commit(const struct rq_request *request, struct rq_msg *msg)
{
    struct rq_store_put put;
    if (!make_real(msg)) {
        return refuse(request, RQ_RESP_SYSTEM_ERROR, "the half message has no real topic");
    }
    enum rq_put_status st = rq_store_append_own(request->broker->store, msg, &put);
    if (st == RQ_PUT_OK) {
        rq_broker_dispatch_soon(request);
        rq_broker_count_put(request, msg->topic, msg->queue_id, &put, 1);
    }
    rq_put_answer_code(request, &put);
    return st == RQ_PUT_OK;
}

static void end(const struct rq_request *request, const struct rq_hdr_end_transaction *header,
                struct rq_msg *half)
{
    struct rq_transactions *transactions = &request->broker->transactions;
    struct rq_slice unique_key = rq_props_get(half->properties, RQ_PROP_UNIQ_KEY);
    int64_t claimed = rq_transaction_claim(transactions, half->queue_offset, unique_key);
    if (claimed == RQ_ENDED) {
        RQ_LOG(INFO, "a transaction that has ended was ended again", "id=%.*s remote=%s",
               RQ_TEXT(unique_key), rq_conn_remote(request->conn));
        refuse(request, RQ_RESP_SYSTEM_ERROR, "the transaction has ended already");
        return;
    }
    bool ended = true;
    if (header->commit_or_rollback == RQ_SYS_TRANSACTION_COMMIT) {
        ended = commit(request, half);
    } else {
        rq_request_answer(request, RQ_RESP_SUCCESS, NULL);
    }
    if (!ended) {
        rq_transaction_let_go(transactions, claimed);
        return;
    }
    rq_transaction_forget(transactions, unique_key);
    rq_transaction_settle(transactions, claimed);
}

void rq_process_end_transaction(const struct rq_request *request)
{
    struct rq_hdr_end_transaction header;
    struct rq_store_ref ref;
    struct rq_msg half;
    if (!rq_request_decode(request, &rq_tab_end_transaction, &header)) {
        return;
    }
    if (header.commit_or_rollback != RQ_SYS_TRANSACTION_COMMIT &&
        header.commit_or_rollback != RQ_SYS_TRANSACTION_ROLLBACK) {
        return; /* the producer does not know: it will be asked. No answer, as there. */
    }
    /* It may be a copy on its way to disk, whose question was answered at once. What is committed
     * lies behind it in the log, and the answer waits for that. */
    bool found = rq_store_view_stored(request->broker->store, header.commit_log_offset, &ref);
    struct rq_cursor cursor = rq_cursor(found ? ref.p : NULL, found ? ref.n : 0);
    if (!found || rq_msg_decode(&cursor, &half, NULL)) {
        rq_request_answer(request, RQ_RESP_SYSTEM_ERROR,
                          "Find prepared transaction message failed");
    } else if (check(request, &header, &half)) {
        end(request, &header, &half);
    }
    if (found) {
        rq_store_ref_release(&ref);
    }
}

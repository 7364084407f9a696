/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Transactions from the producer's side: a half message is sent as any other, the program does its
 * own part, and the broker is told how that went. Any thread that may block. Counterpart:
 * DefaultMQProducerImpl.sendMessageInTransaction.
 */
#include "client/transaction.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/ask.h"
#include "client/producer.h"
#include "client/producer_queue.h"
#include "client/send_result.h"
#include "client/trace_encode.h"
#include "wire/message.h"
#include "wire/msgid.h"
#include "wire/namespace.h"
#include "wire/properties.h"

struct rmq_transaction {
    struct rmq_producer *producer;
    rmq_send_result *result;
    char *topic;
    char *tags; /* like keys, for the trace */
    char *keys;
    int64_t commit_log_offset; /* of the half message */
    bool ended;
};

int32_t rq_transaction_sys_flag(rmq_transaction_state state)
{
    return state == RMQ_TRANSACTION_COMMIT     ? RQ_SYS_TRANSACTION_COMMIT
           : state == RMQ_TRANSACTION_ROLLBACK ? RQ_SYS_TRANSACTION_ROLLBACK
                                               : 0;
}

/* ---- preparing ---- */

static void free_transaction(struct rmq_transaction *transaction)
{
    rq_free(transaction->topic);
    rq_free(transaction->tags);
    rq_free(transaction->keys);
    rq_free(transaction);
}

static bool copy_texts(struct rmq_transaction *transaction, const rmq_message *message)
{
    char room[RQ_NAMESPACED_MAX];
    transaction->topic = rq_strdup(rq_namespace_wrap(transaction->producer->options.namespace_name,
                                                     rmq_message_topic(message), room));
    transaction->tags = rq_strdup(rmq_message_property(message, RQ_PROP_TAGS));
    transaction->keys = rq_strdup(rmq_message_property(message, RQ_PROP_KEYS));
    return transaction->topic && transaction->tags && transaction->keys;
}

static rmq_status make_transaction(struct rmq_producer *producer, const rmq_message *message,
                                   rmq_send_result *result, rmq_transaction **out, rmq_error **err)
{
    struct rq_host host;
    struct rmq_transaction *transaction = rq_calloc(1, sizeof *transaction);
    rmq_status st = RMQ_ERR_NOMEM;
    if (transaction) {
        transaction->producer = producer;
        st = copy_texts(transaction, message) ? RMQ_OK : RMQ_ERR_NOMEM;
    }
    if (st == RMQ_OK) {
        st = rq_msgid_parse_offset(rq_slice_str(result->offset_msg_id), &host,
                                   &transaction->commit_log_offset, NULL);
    }
    if (st != RMQ_OK) {
        rq_error_set(err, st, "half message %s for topic %s was stored, but cannot be ended: %s",
                     result->msg_id, rmq_message_topic(message), rmq_status_text(st));
        if (err) {
            rq_error_mark(*err, false, true);
        }
        if (transaction) {
            free_transaction(transaction);
        }
        return st;
    }
    transaction->result = result;
    *out = transaction;
    return RMQ_OK;
}

rmq_status rmq_producer_prepare_transaction(rmq_producer *producer, const rmq_message *message,
                                            int64_t timeout_ms, rmq_transaction **out,
                                            rmq_error **err)
{
    rmq_send_result *result = NULL;
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "transaction: out is NULL");
    }
    *out = NULL;
    rmq_status st = rq_producer_send_half(producer, message, timeout_ms, &result, err);
    st = st == RMQ_OK ? make_transaction(producer, message, result, out, err) : st;
    if (st != RMQ_OK) {
        rmq_send_result_destroy(result);
    }
    return st;
}

/* ---- ending ---- */

/* The address of the broker that has the half message. The route is looked up when it was forgotten
 * since. */
static rmq_status find_broker(const struct rmq_transaction *transaction, struct rq_buf *addr,
                              rmq_error **err)
{
    struct rmq_producer *producer = transaction->producer;
    const char *name = transaction->result->broker_name;
    struct rq_route *route = NULL;
    rmq_status st =
        rq_producer_route(producer, transaction->topic, strlen(transaction->topic),
                          rq_producer_deadline_ms(producer, rq_mono_ms(), 0), &route, err);
    if (st != RMQ_OK) {
        return st;
    }
    const struct rq_route_broker *broker = rq_route_find_broker(route, rq_slice_str(name));
    const char *found = broker ? rq_route_addr_of(broker, RQ_MASTER_ID) : NULL;
    if (found) {
        rq_buf_add_str(addr, found);
    }
    rq_route_release(route);
    return found
               ? rq_buf_status(addr)
               : rq_error_set(
                     err, RMQ_ERR_NO_BROKER,
                     "broker %s, which has half message %s, has no master in the route of topic %s",
                     name, transaction->result->msg_id, transaction->topic);
}

static rmq_status send_end(const struct rmq_transaction *transaction, rmq_transaction_state state,
                           const char *addr, rmq_error **err)
{
    const struct rmq_send_result *result = transaction->result;
    struct rmq_producer *producer = transaction->producer;
    struct rq_hdr_end_transaction fields = {.producer_group =
                                                rq_slice_str(producer->options.producer_group),
                                            .tran_state_table_offset = result->queue_offset,
                                            .commit_log_offset = transaction->commit_log_offset,
                                            .commit_or_rollback = rq_transaction_sys_flag(state),
                                            .msg_id = rq_slice_str(result->msg_id),
                                            .transaction_id = rq_slice_str(result->msg_id),
                                            .topic = rq_slice_str(transaction->topic),
                                            .bname = rq_slice_str(result->broker_name)};
    RQ_SET(end_transaction, &fields, from_transaction_check, false);
    struct rq_frame_spec spec = rq_instance_frame(producer->instance, RQ_REQ_END_TRANSACTION,
                                                  &rq_tab_end_transaction, &fields);
    struct rq_reply reply;
    char what[128];
    (void)snprintf(what, sizeof what, "%s of transaction %.60s",
                   state == RMQ_TRANSACTION_COMMIT ? "commit" : "roll-back", result->msg_id);
    rmq_status st = rq_ask_broker(producer->instance, addr, &spec, rq_slice(NULL, 0), what, 0,
                                  rq_producer_deadline_ms(producer, rq_mono_ms(), 0), &reply, err);
    if (st == RMQ_OK) {
        rq_reply_free(&reply);
    }
    return st;
}

static void leave_trace(const struct rmq_transaction *transaction, rmq_transaction_state state,
                        const char *addr)
{
    const struct rmq_send_result *result = transaction->result;
    struct rq_trace_end record = {.topic = rq_slice_str(transaction->topic),
                                  .msg_id = rq_slice_str(result->msg_id),
                                  .tags = rq_slice_str(transaction->tags),
                                  .keys = rq_slice_str(transaction->keys),
                                  .store_host = rq_slice_str(addr),
                                  .transaction_id = rq_slice_str(result->msg_id)};
    rq_producer_trace_ended(transaction->producer, &record, state);
}

static rmq_status end_entered(struct rmq_transaction *transaction, rmq_transaction_state state,
                              rmq_error **err)
{
    struct rq_buf addr;
    if (rq_loop_in(rq_instance_loop(transaction->producer->instance))) {
        return rq_error_set(err, RMQ_ERR_STATE, "a transaction ended on the I/O thread");
    }
    rq_buf_init(&addr, 0);
    rmq_status st = find_broker(transaction, &addr, err);
    if (st == RMQ_OK) {
        leave_trace(transaction, state, rq_buf_cstr(&addr));
    }
    /* A broker does nothing with UNKNOWN: it asks, as it does without being told. */
    if (st == RMQ_OK && state != RMQ_TRANSACTION_UNKNOWN) {
        st = send_end(transaction, state, rq_buf_cstr(&addr), err);
    }
    rq_buf_free(&addr);
    return st;
}

rmq_status rmq_transaction_end(rmq_transaction *transaction, rmq_transaction_state state,
                               rmq_error **err)
{
    if (!transaction || state < RMQ_TRANSACTION_UNKNOWN || state > RMQ_TRANSACTION_ROLLBACK) {
        return rq_error_set(err, RMQ_ERR_INVALID, "transaction NULL, or state %d", (int)state);
    }
    if (transaction->ended) {
        return rq_error_set(err, RMQ_ERR_STATE, "transaction %s has ended already",
                            transaction->result->msg_id);
    }
    bool unknown = state == RMQ_TRANSACTION_UNKNOWN; /* tells nothing, so nothing of it can fail */
    rmq_status st = rq_producer_enter(transaction->producer, unknown ? NULL : err);
    if (st == RMQ_OK) {
        st = end_entered(transaction, state, unknown ? NULL : err);
        rq_producer_leave(transaction->producer);
    }
    transaction->ended = st == RMQ_OK && !unknown;
    return unknown ? RMQ_OK : st;
}

const char *rmq_transaction_id(const rmq_transaction *transaction)
{
    return transaction ? transaction->result->msg_id : "";
}

const rmq_send_result *rmq_transaction_result(const rmq_transaction *transaction)
{
    return transaction ? transaction->result : NULL;
}

void rmq_transaction_destroy(rmq_transaction *transaction)
{
    if (transaction) {
        rmq_send_result_destroy(transaction->result);
        free_transaction(transaction);
    }
}

/* ---- both in one ---- */

rmq_status rmq_producer_send_in_transaction(rmq_producer *producer, const rmq_message *message,
                                            rmq_transaction_execute_fn execute, void *user,
                                            int64_t timeout_ms, rmq_transaction_state *state,
                                            rmq_send_result **result, rmq_error **err)
{
    rmq_transaction *transaction = NULL;
    rmq_transaction_state local = RMQ_TRANSACTION_UNKNOWN;
    if (result) {
        *result = NULL;
    }
    if (state) {
        *state = local;
    }
    if (!execute) {
        return rq_error_set(err, RMQ_ERR_INVALID, "transaction: execute is NULL");
    }
    rmq_status st =
        rmq_producer_prepare_transaction(producer, message, timeout_ms, &transaction, err);
    if (st != RMQ_OK) {
        return st;
    }
    /* Not safely on disk or on the slave: the local part is not even tried. */
    local = transaction->result->status == RMQ_SEND_OK
                ? execute(message, transaction->result->msg_id, user)
                : RMQ_TRANSACTION_ROLLBACK;
    if (local != RMQ_TRANSACTION_COMMIT && local != RMQ_TRANSACTION_ROLLBACK) {
        local = RMQ_TRANSACTION_UNKNOWN;
    }
    if (state) {
        *state = local;
    }
    st = rmq_transaction_end(transaction, local, err);
    if (result) {
        *result = transaction->result;
        transaction->result = NULL;
    }
    rmq_transaction_destroy(transaction);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The machine of a send (see send.h): choose a queue, write the frame, wait for the answer, try
 * again. One deadline for all attempts; while another broker could take the message, an attempt
 * gets only its share. Counterparts: DefaultMQProducerImpl.sendKernelImpl,
 * MQClientAPIImpl.sendMessage.
 */
#include "client/send.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "client/fault.h"
#include "client/producer.h"
#include "client/send_priv.h"
#include "wire/frame.h"
#include "wire/namespace.h"

#define BODY_COPY_MAX 8192 /* larger bodies with an owner count are referenced by the frame */
#define HEADER_ROOM   768  /* what a header takes beside topic and properties */
#define HISTORY_MAX   2048 /* bytes of what attempts met with; an error is read by a person */

static const char *topic_of(const struct rq_send_op *op)
{
    return op->text.data;
}

/* ---- the frame ---- */

static void release_body(void *user)
{
    rq_body_release(user);
}

static rmq_status add_body(struct rq_out *out, struct rq_body *body, bool copy)
{
    if (copy) {
        rq_buf_add(&out->head, body->data, body->size);
        return rq_buf_status(&out->head);
    }
    rmq_status st = rq_out_add(out, body->data, body->size, release_body, rq_body_retain(body));
    if (st != RMQ_OK) {
        rq_body_release(body);
    }
    return st;
}

static void fill_header(const struct rq_send_op *op, struct rq_hdr_send *fields)
{
    const struct rmq_producer *producer = op->producer;
    *fields = (struct rq_hdr_send){
        .producer_group = rq_slice_str(producer->options.producer_group),
        .topic = rq_slice(op->text.data, op->topic_len),
        .default_topic = rq_slice_str(producer->options.create_topic_key),
        .default_topic_queue_nums = producer->options.default_topic_queue_nums,
        .queue_id = op->queue.id,
        .sys_flag = op->sys_flag,
        .born_timestamp = op->born_ms,
        .flag = op->flag,
        .properties = rq_slice(op->text.data + op->topic_len + 1, op->properties_len),
        .bname = rq_slice_str(op->queue.broker->name),
    };
    RQ_SET(send, fields, reconsume_times, op->reconsume_times);
    RQ_SET(send, fields, unit_mode, false);
    RQ_SET(send, fields, batch, op->batch);
    if (op->max_reconsume_times >= 0) {
        RQ_SET(send, fields, max_reconsume_times, op->max_reconsume_times);
    }
}

static rmq_status make_frame(const struct rq_send_op *op, int32_t flag, struct rq_out **result)
{
    struct rq_body *body = op->body;
    /* A borrowed body is the program's again when the send completes, which may be before a late
     * frame is written. */
    bool copy = body->size <= BODY_COPY_MAX || rq_body_is_borrowed(body);
    struct rq_out *out = rq_out_create(HEADER_ROOM + op->topic_len + 2 * op->properties_len +
                                       (copy ? body->size : 0));
    if (!out) {
        return RMQ_ERR_NOMEM;
    }
    struct rq_hdr_send fields;
    fill_header(op, &fields);
    struct rq_frame_spec spec = rq_instance_frame(op->producer->instance,
                                                  op->batch   ? RQ_REQ_SEND_BATCH_MESSAGE
                                                  : op->reply ? RQ_REQ_SEND_REPLY_MESSAGE_V2
                                                              : RQ_REQ_SEND_MESSAGE_V2,
                                                  &rq_tab_send_v2, &fields);
    spec.flag = flag;
    spec.signed_body = rq_slice(body->data, body->size);
    rmq_status st = rq_frame_encode(&out->head, &spec, body->size, NULL);
    if (st == RMQ_OK) {
        st = add_body(out, body, copy);
    }
    if (st != RMQ_OK) {
        rq_out_destroy(out);
        return st;
    }
    *result = out;
    return RMQ_OK;
}

/* ---- outcome ---- */

static void cut_text(struct rq_send_op *op)
{
    op->text.len = op->topic_len + 1 + op->properties_len;
}

/* Behind what was sent, the buffer takes the texts of the result. */
static rmq_status take_result(struct rq_send_op *op, const struct rq_header *header,
                              rmq_send_status status)
{
    struct rq_hdr_send_response fields;
    if (rq_fields_decode(&rq_tab_send_response, header, &fields, NULL) != RMQ_OK) {
        return RMQ_ERR_PROTOCOL;
    }
    cut_text(op);
    size_t id_at = op->text.len;
    rq_buf_add_slice(&op->text, fields.msg_id);
    rq_buf_add_char(&op->text, '\0');
    size_t broker_at = op->text.len;
    rq_buf_add(&op->text, op->queue.broker->name, strlen(op->queue.broker->name) + 1);
    size_t handle_at = op->text.len;
    rq_buf_add_slice(&op->text, fields.recall_handle);
    rq_buf_add_char(&op->text, '\0');
    bool ok = rq_buf_status(&op->text) == RMQ_OK;
    op->result = (struct rmq_send_result){
        .status = status,
        .queue_id = fields.queue_id,
        .queue_offset = fields.queue_offset,
        .msg_id = op->batch ? op->ids : op->unique_id,
        .offset_msg_id = ok ? op->text.data + id_at : "",
        .topic = rq_namespace_plain(op->producer->options.namespace_name, op->text.data),
        .broker_name = ok ? op->text.data + broker_at : "",
        .recall_handle = ok ? op->text.data + handle_at : ""};
    op->has_result = true;
    rq_producer_trace_sent(op->producer, op, &fields);
    return RMQ_OK;
}

/* Of an attempt that has ended. */
static void note_maybe_stored(struct rq_send_op *op, bool maybe)
{
    op->maybe_stored = op->maybe_stored || maybe;
    if (!rq_send_may_be_stored(op)) {
        rq_send_not_stored(op);
    }
}

static bool is_retried(const struct rmq_producer *producer, int32_t code)
{
    for (size_t i = 0; i < producer->retry_code_count; i++) {
        if (producer->retry_codes[i] == code) {
            return true;
        }
    }
    return false;
}

static void make_error(struct rq_send_op *op)
{
    long long took = (long long)(rq_mono_ms() - op->started_ms);
    const char *broker = op->queue.broker ? op->queue.broker->name : "";
    rmq_status st = op->last_status == RMQ_OK ? RMQ_ERR_TIMEOUT : op->last_status;
    if (op->last_code != 0) {
        rq_error_set_remote(&op->error, op->last_code, broker,
                            "send to topic %s failed after %d attempts in %lld ms: %s",
                            topic_of(op), op->attempt, took, rq_buf_cstr(&op->history));
    } else {
        rq_error_set(&op->error, st, "send to topic %s failed after %d attempts in %lld ms: %s",
                     topic_of(op), op->attempt, took,
                     op->history.len ? rq_buf_cstr(&op->history) : rmq_status_text(st));
        rq_error_set_broker(op->error, broker);
    }
    bool retriable = op->last_code == RQ_RESP_NOT_LEADER_FOR_QUEUE ||
                     (op->last_code != 0 ? is_retried(op->producer, op->last_code)
                                         : rmq_error_retriable(op->error));
    rq_error_mark(op->error, retriable, op->maybe_stored);
}

static void finish(struct rq_send_op *op)
{
    if (op->has_result) {
        rmq_error_destroy(op->error);
        op->error = NULL;
    } else if (!op->error) {
        make_error(op);
    } else { /* found between attempts, of which one may have stored it */
        rq_error_mark(op->error, rmq_error_retriable(op->error), op->maybe_stored);
    }
    rq_send_deliver(op);
}

static void note_failure(struct rq_send_op *op, const char *words, int32_t code, rmq_status status)
{
    op->last_status = status;
    op->last_code = code;
    const struct rq_route_broker *broker = op->queue.broker;
    const char *addr = broker ? rq_route_addr_of(broker, RQ_MASTER_ID) : NULL;
    if (op->history.len > HISTORY_MAX) { /* the newest are what helps */
        rq_buf_clear(&op->history);
        rq_buf_add_str(&op->history, "...");
    }
    rq_buf_addf(&op->history, "%sbroker %s (%s): %s", op->history.len ? "; " : "",
                broker ? broker->name : "", addr ? addr : "no master", words);
}

void rq_send_note_status(struct rq_send_op *op, rmq_status status)
{
    rmq_error *why = NULL;
    struct rq_peer *master = op->queue.broker ? op->queue.broker->sends : NULL;
    if (master && (status == RMQ_ERR_CONNECT || status == RMQ_ERR_RESOLVE)) {
        (void)rq_peer_error(master, status, &why);
    }
    note_failure(op, why ? rmq_error_message(why) : rmq_status_text(status), 0, status);
    rmq_error_destroy(why);
}

/* ---- attempts ---- */

static void answered(struct rq_call *call, rmq_status status, struct rq_in *answer);

static bool choose_queue(struct rq_send_op *op, int64_t now_ms)
{
    if (op->fixed_queue) {
        return true;
    }
    struct rmq_producer *producer = op->producer;
    uint32_t index = atomic_fetch_add_explicit(&producer->next_queue, 1, memory_order_relaxed);
    const struct rq_route_queue *queue = rq_fault_pick(
        op->route, index, op->last, producer->options.send_latency_fault_enable, now_ms);
    if (queue) {
        op->queue = *queue;
    }
    return queue != NULL;
}

rmq_status rq_send_call(struct rq_send_op *op, int64_t deadline_ms, enum rq_call_mode mode)
{
    struct rq_out *out = NULL;
    rmq_status st = make_frame(op, 0, &out);
    if (st != RMQ_OK) {
        return st;
    }
    op->attempt_us = rq_mono_us();
    out->lazy = op->mode != RQ_SEND_SYNC;
    op->call = (struct rq_call){.done = answered, .bulk = op->mode != RQ_SEND_SYNC};
    if (!rq_send_try(op)) {
        rq_out_destroy(out);
        return RMQ_ERR_CLOSED;
    }
    return rq_peer_call(op->queue.broker->sends, &op->call, out, deadline_ms, mode);
}

static rmq_status start_call(struct rq_send_op *op, int64_t now_ms)
{
    if (!op->queue.broker->sends) {
        return RMQ_ERR_NO_BROKER;
    }
    bool spare =
        !op->fixed_queue && rq_fault_has_spare(op->route, op->queue.broker->health, now_ms);
    int64_t share =
        rq_fault_share_ms(op->deadline_ms - now_ms, op->attempts_max - op->attempt,
                          op->producer->options.send_msg_max_timeout_per_request_ms, spare);
    return op->fixed_queue ? rq_send_in_line(op, now_ms + share)
                           : rq_send_call(op, now_ms + share, spare ? RQ_FAIL_FAST : RQ_WAIT);
}

static void blame_broker(struct rq_send_op *op, int64_t now_ms)
{
    struct rq_broker_health *health = op->queue.broker->health;
    op->last = health;
    rq_fault_failed(health, now_ms);
    if (rq_loop_in(rq_instance_loop(op->producer->instance))) {
        rq_instance_suspect(op->producer->instance, topic_of(op));
    }
}

static bool is_own_fault(rmq_status status)
{
    return status == RMQ_ERR_NOMEM || status == RMQ_ERR_CLOSED || status == RMQ_ERR_FORKED ||
           status == RMQ_ERR_TOO_LARGE || status == RMQ_ERR_INVALID;
}

/* A route that came meanwhile is used: a broker may have got another address. Not one without a
 * queue that takes messages: the brokers of the old one say more. */
static void renew_route(struct rq_send_op *op)
{
    struct rq_route *newest =
        op->fixed_queue ? NULL
                        : rq_instance_publish_route(op->producer->instance,
                                                    rq_slice(topic_of(op), op->topic_len));
    if (newest) {
        struct rq_route *old = op->route;
        op->queue = (struct rq_route_queue){0};
        op->route = newest;
        newest = old;
    }
    rq_route_release(newest);
}

/* A message that may be there twice leaves a line. */
static void note_again(const struct rq_send_op *op)
{
    if (op->maybe_stored) {
        RQ_LOG(INFO, "send is tried again though it may be stored", "topic=%s id=%s attempts=%d",
               topic_of(op), op->unique_id, op->attempt);
    }
}

void rq_send_make_attempts(struct rq_send_op *op)
{
    int64_t now = op->attempt == 0 && op->route_ready ? op->started_ms : rq_mono_ms();
    for (; !rq_send_is_cut(op); now = rq_mono_ms()) {
        if (op->attempt >= op->attempts_max || (op->attempt > 0 && op->deadline_ms <= now)) {
            finish(op);
            return;
        }
        if (op->attempt > 0) {
            note_again(op);
            renew_route(op);
        }
        if (!choose_queue(op, now)) {
            rq_error_set(&op->error, RMQ_ERR_NO_ROUTE, "topic %s has no queue that takes messages",
                         topic_of(op));
            finish(op);
            return;
        }
        op->attempt++;
        rmq_status st = start_call(op, now);
        if (st == RMQ_OK) {
            return;
        }
        if (!rq_send_untry(op)) {
            continue;
        }
        rq_send_note_status(op, st);
        if (is_own_fault(st)) {
            finish(op);
            return;
        }
        if (st != RMQ_ERR_BUSY) {
            blame_broker(op, now);
        }
        op->last = op->queue.broker->health;
    }
}

static void stored(struct rq_send_op *op, const struct rq_header *header, rmq_send_status status)
{
    if (take_result(op, header, status) != RMQ_OK) {
        op->maybe_stored = true;
        note_failure(op, "answer without the fields of a send", 0, RMQ_ERR_PROTOCOL);
        finish(op);
        return;
    }
    bool again = status != RMQ_SEND_OK && op->mode == RQ_SEND_SYNC &&
                 op->producer->options.retry_another_broker_when_not_store_ok;
    if (!again) {
        finish(op);
        return;
    }
    op->last = op->queue.broker->health;
    rq_send_make_attempts(op);
}

/* Another broker may permit what this one does not; the same one will not, however often it is
 * asked. */
static bool is_final(const struct rq_send_op *op, int32_t code, int64_t now_ms)
{
    return code == RQ_RESP_NO_PERMISSION &&
           !rq_fault_has_spare(op->route, op->queue.broker->health, now_ms);
}

static void refused(struct rq_send_op *op, const struct rq_header *header, int64_t now_ms)
{
    bool again = op->last_code == header->code;
    char words[512];
    /* It has a place in the log: what failed is the disk behind it. */
    note_maybe_stored(op, rq_header_ext(header, "msgId").n > 0);
    (void)snprintf(words, sizeof words, "answered %d %s %.*s", header->code,
                   rq_response_name(header->code),
                   (int)(header->remark.n < 400 ? header->remark.n : 400),
                   header->remark.p ? header->remark.p : "");
    note_failure(op, words, header->code, RMQ_ERR_BROKER);
    if (header->code == RQ_RESP_NOT_LEADER_FOR_QUEUE) {
        if (!rq_send_follow_queue(op, again, now_ms)) {
            finish(op);
        }
        return;
    }
    if (!is_retried(op->producer, header->code) || is_final(op, header->code, now_ms)) {
        finish(op);
        return;
    }
    op->last = op->queue.broker->health;
    rq_fault_refused(op->queue.broker->health, now_ms);
    if (header->code == RQ_RESP_GO_AWAY) {
        rq_peer_reset(op->queue.broker->sends);
    }
    if (!rq_send_pause_first(op, header->code, now_ms)) {
        rq_send_make_attempts(op);
    }
}

static void answered(struct rq_call *call, rmq_status status, struct rq_in *answer)
{
    struct rq_send_op *op = RQ_CONTAINER_OF(call, struct rq_send_op, call);
    if (status != RMQ_OK) {
        note_maybe_stored(op, call->maybe_sent); /* also of one that was cut off meanwhile */
    }
    if (rq_send_is_cut(op)) {
        return;
    }
    int64_t now_us = rq_mono_us();
    int64_t now = now_us / 1000;
    if (status != RMQ_OK) {
        rq_send_note_status(op, status);
        if (status == RMQ_ERR_CLOSED) {
            finish(op);
            return;
        }
        rq_send_uncount_wait(op, status, now);
        blame_broker(op, now);
        rq_send_make_attempts(op);
        return;
    }
    struct rq_broker_health *health = op->queue.broker->health;
    rq_latency_add(&health->latency, now_us - op->attempt_us);
    rq_fault_answered(health, now, (now_us - op->attempt_us) / 1000);
    rmq_send_status stored_as;
    if (rq_send_status_of(answer->header->code, &stored_as)) {
        stored(op, answer->header, stored_as);
    } else {
        refused(op, answer->header, now);
    }
}

static void route_found(struct rq_lookup *lookup, struct rq_route *route, const rmq_error *err)
{
    struct rq_send_op *op = RQ_CONTAINER_OF(lookup, struct rq_send_op, lookup);
    if (rq_send_is_cut(op)) {
        return;
    }
    if (err) {
        op->error = rq_error_copy(err);
        finish(op);
        return;
    }
    rq_route_retain(route);
    op->route = route;
    rq_send_make_attempts(op);
}

void rq_send_begin(struct rq_send_op *op)
{
    op->route_ready = op->route != NULL;
    if (op->route_ready) {
        rq_send_make_attempts(op);
        return;
    }
    if (!rq_send_started(op)) {
        rq_send_deliver(op);
        return;
    }
    op->lookup.default_queues = op->producer->options.default_topic_queue_nums;
    op->lookup.refresh = false;
    op->lookup.done = route_found;
    rq_instance_lookup(op->producer->instance, &op->lookup, topic_of(op), op->deadline_ms);
}

rmq_status rq_send_oneway(struct rq_send_op *op, rmq_error **err)
{
    int64_t now = rq_mono_ms();
    op->last_status = RMQ_ERR_NO_ROUTE;
    if (!choose_queue(op, now)) {
        return rq_error_set(err, RMQ_ERR_NO_ROUTE, "topic %s has no queue that takes messages",
                            topic_of(op));
    }
    struct rq_peer *master = op->queue.broker->sends;
    if (!master) {
        return rq_error_set(err, RMQ_ERR_NO_BROKER, "broker %s has no master",
                            op->queue.broker->name);
    }
    struct rq_out *out = NULL;
    rmq_status st = make_frame(op, RQ_FLAG_ONEWAY, &out);
    if (st == RMQ_OK) {
        st = rq_peer_connected(master) ? rq_peer_send(master, out)
                                       : rq_send_keep_oneway(op, master, out);
    }
    op->last_status = st;
    return st == RMQ_OK ? st
                        : rq_error_set(err, st, "one-way send to topic %s: broker %s: %s",
                                       topic_of(op), op->queue.broker->name, rmq_status_text(st));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Message trace: what happened to messages, as messages to the trace topic. Whoever has something
 * to tell writes it into the open batch; the batch is sent when it is full or old, by that thread
 * or by the I/O thread. There is no thread of its own. What is bounded is the number of records
 * that wait for the broker; beyond it they are dropped and counted. Any thread. Counterpart:
 * AsyncTraceDispatcher.
 */
#ifndef RQ_CLIENT_TRACE_H
#define RQ_CLIENT_TRACE_H

#include <stdatomic.h>

#include <rmq/message.h>

#include "client/instance.h"
#include "client/trace_encode.h"

struct rq_trace;

struct rq_trace_options {
    const char *group; /* of the client that is traced */
    const char *topic; /* NULL = RMQ_SYS_TRACE_TOPIC */
    bool consumer;
    int32_t batch_num; /* records of one message */
};

/* Errors: RMQ_ERR_INVALID (topic), RMQ_ERR_NOMEM. */
rmq_status rq_trace_create(struct rq_instance *instance, const struct rq_trace_options *options,
                           struct rq_trace **out, rmq_error **err);

/* Sends what is there and waits for its answers. Nothing is recorded afterwards. May be on the
 * callback thread. NULL is accepted. */
void rq_trace_close(struct rq_trace *trace, int64_t timeout_ms);
void rq_trace_destroy(struct rq_trace *trace); /* not on the callback thread; NULL is accepted */

void rq_trace_switch(struct rq_trace *trace, bool on);
bool rq_trace_on(const struct rq_trace *trace); /* NULL is accepted: off */

/* Records of which the broker has confirmed the message, and those that were dropped or whose
 * message failed. */
void rq_trace_counts(const struct rq_trace *trace, uint64_t *sent, uint64_t *dropped);

/* Each puts one record into the open batch; the group is filled in. */
void rq_trace_pub(struct rq_trace *trace, struct rq_trace_pub *record);
void rq_trace_end(struct rq_trace *trace, struct rq_trace_end *record);

/* A listener call: before it and after it, with the id that joins both. request_id has
 * RQ_TRACE_ID_SIZE bytes. */
#define RQ_TRACE_ID_SIZE 57
void rq_trace_before(struct rq_trace *trace, const rmq_message_view *const *views, size_t count,
                     char *request_id);
void rq_trace_after(struct rq_trace *trace, const rmq_message_view *const *views, size_t count,
                    const char *request_id, int64_t took_ms, enum rq_trace_return outcome);

#endif

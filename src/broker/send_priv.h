/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The inside of a send, shared by send.c (checks, single messages) and send_batch.c. */
#ifndef RQ_BROKER_SEND_PRIV_H
#define RQ_BROKER_SEND_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "broker/broker.h"
#include "broker/logical_queue.h"
#include "wire/headers.h"
#include "wire/message.h"
#include "wire/msgid.h"
#include "wire/names.h"

/* What the broker looks for among a message's properties, in one pass. */
struct rq_found {
    struct rq_slice unique_key;
    struct rq_slice delay;
    bool transaction;
    bool timer;
    bool rewrite; /* has properties that the broker sets or removes */
};

/* A send on its way through the checks, on the stack of the connection's loop. Header fields stay
 * where the frame has them. */
struct rq_sending {
    const struct rq_request *request;
    struct rmq_broker *broker;
    struct rq_hdr_send header;
    struct rq_topic_info topic;
    struct rq_logical_queue logical; /* mapping NULL: the topic is an ordinary one */
    struct rq_msg msg;
    struct rq_found found;
    struct rq_buf props; /* when they had to be made anew */
    char topic_text[RQ_NAME_MAX];
    char id_text[RQ_MSGID_MAX + 1];
};

/* ---- send.c ---- */

void rq_sending_look_through(struct rq_sending *sending); /* fills found */
int rq_found_delay_level(const struct rq_found *found);   /* 0 = at once */

/* Answers with a refusal; false, for the checks to return. */
bool rq_sending_refuse(const struct rq_sending *sending, int32_t code, const char *remark);

/* The message's queue: the one that was asked for, or any. false: it was refused. */
bool rq_sending_choose_queue(struct rq_sending *sending);

/* The message of the header, the request's body and the connection; its queue is chosen. */
void rq_sending_fill(struct rq_sending *sending);

/* Statistics of a put of so many messages that began at begin_us. */
void rq_sending_count(const struct rq_sending *sending, const struct rq_store_put *put,
                      uint64_t nums, int64_t begin_us);

/* ---- send_static.c: for static topics only ---- */

/* The physical queue in the place of the logical one. false: it was refused. */
bool rq_sending_map(struct rq_sending *sending);

/* What was stored as the sender is to see it: queue and offset of the logical queue. The offset is
 * -1 while nobody knows it. */
void rq_sending_tell_logical(const struct rq_sending *sending, struct rq_store_put *put,
                             int32_t *queue_id);

/* ---- send_batch.c ---- */

/* Checks, stores and answers the batch in the request's body. Its topic has been checked. */
void rq_sending_put_batch(struct rq_sending *sending);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Replies to requests of producers. Counterpart: ReplyMessageProcessor. */
#ifndef RQ_BROKER_REPLY_H
#define RQ_BROKER_REPLY_H

#include <stdint.h>

struct rq_request;

/* Passes a reply on to the client that its properties name, stores it if so configured, and answers
 * who sent it, in this order. The send has been checked; queue_id is the queue that it goes to.
 * Loop thread. */
void rq_reply_pass_on(const struct rq_request *request, int32_t queue_id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Replies as messages: one that was pushed (326), and one to send. Counterparts:
 * ClientRemotingProcessor.receiveReplyMessage, MessageUtil. */
#ifndef RQ_CLIENT_REPLY_H
#define RQ_CLIENT_REPLY_H

#include "client/message.h"
#include "net/conn.h"

/* The message of a pushed reply, with its body expanded to at most max bytes. Errors:
 * RMQ_ERR_PROTOCOL, RMQ_ERR_NOMEM, and those of rq_view_expand. */
rmq_status rq_reply_view(struct rq_in *in, size_t max, struct rq_views **out, rmq_error **err);

#endif

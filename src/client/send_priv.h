/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What send_prepare.c (single messages) and send_batch.c share. On the sender's thread.
 */
#ifndef RQ_CLIENT_SEND_PRIV_H
#define RQ_CLIENT_SEND_PRIV_H

#include "client/send.h"

/* Whether clients may send to it at all. Errors: RMQ_ERR_INVALID. */
rmq_status rq_send_check_topic(const rmq_message *message, rmq_error **err);

/* Appends "name 0x01 value 0x02" for each pair of the message; the counts of a retry only when they do not travel in the header. */
void rq_send_add_pairs(struct rq_buf *out, struct rq_slice pairs, bool counts_too);

/* WAIT, UNIQ_KEY, and with a level above 0 DELAY. */
void rq_send_add_own(struct rq_buf *out, const char *unique_id, size_t unique_n, bool wait,
                     int32_t delay_level);
rmq_status rq_send_check_properties(size_t size, const char *topic, rmq_error **err);

/* The operation's text: topic, then properties, which the caller appends in between. */
void rq_send_begin_text(struct rq_send_op *op, const rmq_message *message);
rmq_status rq_send_end_text(struct rq_send_op *op, rmq_error **err);

/* A body of what the buffer holds, which is detached; NULL when out of memory. */
struct rq_body *rq_send_wrap_buf(struct rq_buf *buf);

#endif

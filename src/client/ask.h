/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Blocking questions to name servers and brokers, for calls that may wait. Not on the I/O
 * thread. */
#ifndef RQ_CLIENT_ASK_H
#define RQ_CLIENT_ASK_H

#include "client/instance.h"

/* An answer with code SUCCESS, the caller's to free with rq_reply_free. Any other code is an error
 * with code and remark (RMQ_ERR_BROKER; not_found: this code gives RMQ_ERR_NOT_FOUND instead, 0 =
 * none). what: "offset of group g", for messages. */
rmq_status rq_ask_namesrv(struct rq_instance *instance, const struct rq_frame_spec *spec,
                          const char *what, int64_t deadline_ms, struct rq_reply *reply,
                          rmq_error **err);
rmq_status rq_ask_broker(struct rq_instance *instance, const char *addr,
                         const struct rq_frame_spec *spec, struct rq_slice body, const char *what,
                         int32_t not_found, int64_t deadline_ms, struct rq_reply *reply,
                         rmq_error **err);

#endif

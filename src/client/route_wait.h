/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Waiting for a route on a thread that may block: a look-up with a futex. Not on the I/O thread. */
#ifndef RQ_CLIENT_ROUTE_WAIT_H
#define RQ_CLIENT_ROUTE_WAIT_H

#include "client/instance.h"

/* Looks a topic up; *out is retained for the caller. default_queues and refresh as in struct
 * rq_lookup. Errors: RMQ_ERR_NO_ROUTE, RMQ_ERR_NO_NAMESRV, RMQ_ERR_CLOSED, RMQ_ERR_BROKER,
 * RMQ_ERR_NOMEM. */
rmq_status rq_route_wait(struct rq_instance *instance, const char *topic, int32_t default_queues,
                         bool refresh, int64_t deadline_ms, struct rq_route **out, rmq_error **err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One small text by HTTP/1.0 GET: what an address server says. Plain http, no redirects.
 * Counterpart: HttpTinyClient.
 */
#ifndef RQ_NET_HTTP_GET_H
#define RQ_NET_HTTP_GET_H

#include <rmq/error.h>

#include "base/buf.h"
#include "net/loop.h"

/* Blocking, up to timeout_ms (looking the name up may take longer); not on a loop. Errors:
 * RMQ_ERR_INVALID (url), RMQ_ERR_RESOLVE, RMQ_ERR_CONNECT, RMQ_ERR_TIMEOUT, RMQ_ERR_PROTOCOL (no
 * 200, or no HTTP), RMQ_ERR_TOO_LARGE, RMQ_ERR_NOMEM, RMQ_ERR_IO. */
rmq_status rq_http_get(const char *url, int64_t timeout_ms, struct rq_buf *body, rmq_error **err);

/* The same on a short-lived thread of its own. done is called once, on the loop, never within this
 * call: body "" and an error, or the text and NULL. Cancelling ends it without done and never
 * waits: the thread is left alone with what it has. Loop. NULL: no memory or no thread. */
struct rq_http_fetch;
typedef void rq_http_done(void *user, const char *body, const rmq_error *err);
struct rq_http_fetch *rq_http_fetch_start(struct rq_loop *loop, const char *url, int64_t timeout_ms,
                                          rq_http_done *done, void *user);
void rq_http_fetch_cancel(struct rq_http_fetch *fetch);

#endif

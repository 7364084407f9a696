/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A small HTTP server for pages that programs and people look at: GET only, a handler that writes
 * the page, everything on one loop. For metrics and health; it is no part of the protocol.
 */
#ifndef RQ_NET_HTTP_H
#define RQ_NET_HTTP_H

#include <stdint.h>

#include <rmq/error.h>

#include "base/buf.h"
#include "net/loop.h"

struct rq_http;

struct rq_http_page {
    int status;               /* 200 unless changed */
    const char *content_type; /* static; text/plain unless changed */
    struct rq_buf body;       /* empty at first */
};

/* Writes the page of a path ("/metrics"). Loop thread. */
typedef void (*rq_http_fn)(void *user, const char *path, struct rq_http_page *page);

/* address: numeric, or a name of this machine; port 0 = any free one. The loop is referenced.
 * Errors: RMQ_ERR_RESOLVE, RMQ_ERR_IO, RMQ_ERR_NOMEM. Not on the loop thread. */
rmq_status rq_http_create(struct rq_loop *loop, const char *address, int port, rq_http_fn handler,
                          void *user, struct rq_http **out, rmq_error **err) RMQ_MUST_USE;
int rq_http_port(const struct rq_http *http); /* the real one */

/* When it returns the handler does not run and will not. Not on the loop thread. NULL is
 * accepted. */
void rq_http_destroy(struct rq_http *http);

#endif

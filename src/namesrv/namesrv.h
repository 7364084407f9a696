/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A name server: a listener and its tables on one loop, which a broker in the same process shares.
 * <rmq/broker.h> has the public half. Counterpart: NamesrvController.
 */
#ifndef RQ_NAMESRV_NAMESRV_H
#define RQ_NAMESRV_NAMESRV_H

#include <stdint.h>

#include <rmq/broker.h>

#include "net/listener.h"
#include "net/loop.h"
#include "namesrv/kv.h"
#include "namesrv/options.h"
#include "namesrv/route_info.h"

struct rmq_namesrv {
    struct rq_loop *loop; /* a reference */
    struct rq_server *server;
    char *addr; /* immutable after start */
    /* owned by the loop thread */
    struct rq_route_info info;
    struct rq_kv kv;
    struct rq_namesrv_options options;
    struct rq_timer scan;
    int64_t ready_ms; /* monotonic; before that no routes are told */
};

/* Starts on a loop of the caller's, to which it keeps a reference. address NULL = every address;
 * host is what clients are told, or NULL: both are bindAddress, else 127.0.0.1. port -1, with
 * options only = listenPort. given: copied; NULL = the defaults. */
rmq_status rq_namesrv_start_on(struct rq_loop *loop, const char *address, const char *host,
                               int port, const struct rq_namesrv_options *given, rmq_namesrv **out,
                               rmq_error **err);

/* One request, answered. Loop thread. */
void rq_namesrv_process(struct rmq_namesrv *namesrv, struct rq_conn *conn, struct rq_in *in);

#endif

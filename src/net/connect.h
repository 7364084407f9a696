/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * One attempt to connect: the name is resolved, its addresses are tried in turn, each with its own
 * time limit. Loop thread only. Used by client.c.
 */
#ifndef RQ_NET_CONNECT_H
#define RQ_NET_CONNECT_H

#include <event2/event.h>

#include "net/conn.h"
#include "net/resolve.h"

/* On RMQ_OK fd is a connected, non-blocking socket and the receiver's; else RMQ_ERR_RESOLVE or
 * RMQ_ERR_CONNECT with a reason. */
typedef void rq_connect_done(void *user, rmq_status status, int fd, const char *reason);

struct rq_connect {
    struct rq_loop *loop;
    struct rq_resolve *resolve; /* NULL when not resolving */
    struct event *event;
    struct rq_timer timer;
    int fd; /* -1 when none */
    int count;
    int next;
    int64_t timeout_ms;
    rq_connect_done *done;
    void *user;
    union rq_sockaddr addrs[RQ_RESOLVE_MAX];
    char reason[512];
};

/* done is called once, never within this call. false: out of memory. Zeroed before the first
 * use. */
bool rq_connect_start(struct rq_connect *attempt, struct rq_loop *loop, const char *host,
                      uint16_t port, int64_t timeout_ms, rq_connect_done *done, void *user);
/* done is not called; harmless when not running. */
void rq_connect_cancel(struct rq_connect *attempt);

#endif

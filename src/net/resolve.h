/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * From "host:port" to socket addresses without blocking the loop. Numeric addresses need no
 * look-up. Names go to the system's getaddrinfo on a short-lived thread of their own, a few at a
 * time. Measured against libevent's evdns, which would need no thread: with a first name server
 * that refuses, evdns fails names that the system resolves in 9 ms; it ignores nsswitch.conf; and
 * it writes to stderr unless a process-wide hook is set. A look-up that is given up is left to its
 * thread, which touches nothing of ours but its own job: stopping never waits for a name server.
 * Loop thread. Counterpart: InetSocketAddress.
 */
#ifndef RQ_NET_RESOLVE_H
#define RQ_NET_RESOLVE_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rmq/error.h>

#include "net/loop.h"

#define RQ_RESOLVE_MAX 16 /* addresses of a name that are looked at */
#define RQ_HOST_MAX    256

union rq_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Splits "host:port" and "[v6]:port"; host has RQ_HOST_MAX bytes. RMQ_ERR_INVALID with the text
 * in err. */
rmq_status rq_address_split(const char *address, char *host, uint16_t *port, rmq_error **err);

/* True when host is an IPv4 or IPv6 literal (with %scope). */
bool rq_address_literal(const char *host, uint16_t port, union rq_sockaddr *out);

struct rq_resolve; /* a look-up in flight */

/* Starts a look-up; done is called once, on the loop, never within this call, with count > 0
 * addresses, in the system's order, on RMQ_OK, else RMQ_ERR_RESOLVE and a reason. NULL when out
 * of memory. rq_resolve_cancel ends it without done. */
typedef void rq_resolve_done(void *user, rmq_status status, const union rq_sockaddr *addrs,
                             int count, const char *reason);
struct rq_resolve *rq_resolve_start(struct rq_loop *loop, const char *host, uint16_t port,
                                    int64_t timeout_ms, rq_resolve_done *done, void *user);
void rq_resolve_cancel(struct rq_resolve *resolve);

#endif

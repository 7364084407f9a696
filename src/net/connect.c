/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * An attempt to connect: resolve, then one address after the other. Loop thread. Counterpart:
 * Netty's Bootstrap.connect.
 */
#include "net/connect.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "net/loop_priv.h"

#define RESOLVE_TIMEOUT_MS 30000 /* the system asks several times, 5 s each */
#define UNACKED_MS         20000 /* unacknowledged for so long: the peer vanished */

static void try_next(struct rq_connect *attempt);

static void drop_socket(struct rq_connect *attempt)
{
    rq_timer_stop(&attempt->timer);
    if (attempt->event) {
        event_free(attempt->event);
        attempt->event = NULL;
    }
    if (attempt->fd >= 0) {
        close(attempt->fd);
        attempt->fd = -1;
    }
}

static void note_failure(struct rq_connect *attempt, const char *why)
{
    char address[RQ_NET_ADDRESS_MAX];
    rq_sockaddr_text(&attempt->addrs[attempt->next - 1].any, address);
    snprintf(attempt->reason, sizeof attempt->reason, "%s: %s", address, why);
}

static void fail_address(struct rq_connect *attempt, const char *why)
{
    note_failure(attempt, why);
    drop_socket(attempt);
    try_next(attempt);
}

static void on_timeout(struct rq_timer *timer)
{
    struct rq_connect *attempt = RQ_CONTAINER_OF(timer, struct rq_connect, timer);
    fail_address(attempt, "no answer in time");
}

/* TCP lets a socket connect to itself when the target is a free local port that the kernel picks
 * as the source, too. */
static bool is_self(int fd)
{
    union rq_sockaddr a;
    union rq_sockaddr b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    socklen_t n = sizeof a;
    socklen_t m = sizeof b;
    return getsockname(fd, &a.any, &n) == 0 && getpeername(fd, &b.any, &m) == 0 && n == m &&
           memcmp(&a, &b, n) == 0;
}

static void connected(struct rq_connect *attempt)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0) {
        error = errno;
    }
    if (error == 0 && is_self(attempt->fd)) {
        error = ECONNREFUSED;
    }
    if (error != 0) {
        fail_address(attempt, strerror(error));
        return;
    }
    int fd = attempt->fd;
    attempt->fd = -1;
    drop_socket(attempt);
    attempt->done(attempt->user, RMQ_OK, fd, "");
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct rq_connect *attempt = arg;
    rq_loop_awake(attempt->loop);
    connected(attempt);
}

static int open_socket(const union rq_sockaddr *addr)
{
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        const unsigned unacked = UNACKED_MS;
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof unacked);
    }
    return fd;
}

static int begin_connect(struct rq_connect *attempt, const union rq_sockaddr *addr)
{
    attempt->fd = open_socket(addr);
    if (attempt->fd < 0) {
        return errno;
    }
    socklen_t n = addr->any.sa_family == AF_INET6 ? sizeof addr->v6 : sizeof addr->v4;
    if (connect(attempt->fd, &addr->any, n) != 0 && errno != EINPROGRESS && errno != EINTR) {
        return errno;
    }
    attempt->event = event_new(attempt->loop->base, attempt->fd, EV_WRITE, on_writable, attempt);
    if (!attempt->event || event_add(attempt->event, NULL) != 0) {
        return ENOMEM;
    }
    rq_timer_start(attempt->loop, &attempt->timer, attempt->timeout_ms);
    return 0;
}

static void try_next(struct rq_connect *attempt)
{
    while (attempt->next < attempt->count) {
        int error = begin_connect(attempt, &attempt->addrs[attempt->next++]);
        if (error == 0) {
            return;
        }
        note_failure(attempt, strerror(error));
        drop_socket(attempt);
    }
    attempt->done(attempt->user, RMQ_ERR_CONNECT, -1, attempt->reason);
}

static void resolved(void *user, rmq_status st, const union rq_sockaddr *addrs, int count,
                     const char *reason)
{
    struct rq_connect *attempt = user;
    attempt->resolve = NULL;
    if (st != RMQ_OK) {
        attempt->done(attempt->user, st, -1, reason);
        return;
    }
    memcpy(attempt->addrs, addrs, (size_t)count * sizeof *addrs);
    attempt->count = count;
    attempt->next = 0;
    try_next(attempt);
}

bool rq_connect_start(struct rq_connect *attempt, struct rq_loop *loop, const char *host,
                      uint16_t port, int64_t timeout_ms, rq_connect_done *done, void *user)
{
    attempt->loop = loop;
    attempt->fd = -1;
    attempt->event = NULL;
    attempt->timeout_ms = timeout_ms;
    attempt->done = done;
    attempt->user = user;
    attempt->reason[0] = '\0';
    rq_timer_init(&attempt->timer, on_timeout);
    attempt->resolve = rq_resolve_start(loop, host, port, RESOLVE_TIMEOUT_MS, resolved, attempt);
    return attempt->resolve != NULL;
}

void rq_connect_cancel(struct rq_connect *attempt)
{
    if (!attempt->loop) {
        return;
    }
    if (attempt->resolve) {
        rq_resolve_cancel(attempt->resolve);
        attempt->resolve = NULL;
    }
    drop_socket(attempt);
}

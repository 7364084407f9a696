/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The server side: a listening socket whose connections are shared out over loops in turn. Requests
 * come to on_request on the loop of their connection; they are answered with rq_conn_send from any
 * thread, and what on_request itself sends leaves at the end of the loop's turn. A connection that
 * sends bad bytes is closed with one log line. Counterpart: NettyRemotingServer.
 */
#ifndef RQ_NET_LISTENER_H
#define RQ_NET_LISTENER_H

#include <stdint.h>

#include <rmq/error.h>

#include "net/conn.h"
#include "net/loop.h"

struct rq_server;

struct rq_server_options {
    struct rq_loop *const *loops; /* at least one; the first accepts. Referenced until destroy */
    int loop_count;
    /* NULL = all of IPv4 and IPv6; else a numeric address or a name of this machine. */
    const char *address;
    uint16_t port; /* 0 = any free one */

    /* All on the connection's loop thread. user is the server's; the connection's own is
     * rq_conn_user, NULL at first. */
    void (*on_request)(void *user, struct rq_conn *conn, struct rq_in *in);
    void (*on_open)(void *user, struct rq_conn *conn); /* may be NULL */
    /* May be NULL; exactly once per on_open. */
    void (*on_close)(void *user, struct rq_conn *conn, rmq_status why);
    void *user;
    /* Seams; may be NULL. on_first_bytes as in rq_conn_ops; transport gives *self for a new
     * connection, NULL when out of memory. */
    rmq_status (*on_first_bytes)(struct rq_conn *conn, struct rq_slice bytes, size_t *used);
    const struct rq_transport *(*transport)(void *user, void **self);

    size_t max_frame;  /* 0 = RQ_NET_MAX_FRAME */
    size_t high_water; /* 0 = 8 MiB: stop reading from a client that does not take its answers */
    size_t max_queued; /* 0 = 256 MiB: answers above it are dropped with the connection */
    int64_t idle_ms;   /* 0 = 120000, negative = never */
    int32_t max_connections; /* 0 = 65535; more are closed at once */
};

/* Binds and listens; accepts when this returns. RMQ_ERR_IO names address, port and cause. Any
 * thread but the loops'. */
rmq_status rq_server_create(const struct rq_server_options *options, struct rq_server **out,
                            rmq_error **err) RMQ_MUST_USE;
uint16_t rq_server_port(const struct rq_server *server); /* the real one */
int rq_server_connections(struct rq_server *server);     /* any thread; a hint */

/* Stops accepting and closes the port; connections stay. Waits for the loop. */
void rq_server_stop_accepting(struct rq_server *server);

/* Calls fn for each connection, on its loop, and waits. Not on a loop thread. */
void rq_server_each(struct rq_server *server, void (*fn)(struct rq_conn *conn, void *arg),
                    void *arg);

/* Closes everything; when it returns no callback runs or will run. Not on a loop thread. NULL is
 * accepted. */
void rq_server_destroy(struct rq_server *server);

#endif

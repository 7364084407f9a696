/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A connection: a socket on a loop that cuts frames out of what it reads and writes frames that any
 * thread queues. Frames are handled in place, in the order of arrival, on the loop thread. Answers
 * go to the waiting call (call.h), requests to on_request. Queued frames of many threads leave with
 * one system call; a thread that finds the connection idle writes itself, and what is queued on the
 * loop thread is written at the end of its turn. Counted: retain/release on any thread.
 * Counterparts: NettyDecoder, NettyEncoder, Channel.
 */
#ifndef RQ_NET_CONN_H
#define RQ_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rmq/error.h>

#include "base/slice.h"
#include "net/loop.h"
#include "net/out_frame.h"
#include "wire/frame.h"
#include "wire/header.h"

#define RQ_NET_MAX_FRAME   ((size_t)RQ_FRAME_MAX)
#define RQ_NET_ADDRESS_MAX 64 /* "[v6%scope]:port" and NUL */

struct rq_conn;
struct rq_frame_ref; /* counted owner of a received frame's bytes */

/* A received frame, valid during the callback. header's slices and body lie in the frame's
 * bytes, which are ours and writable. rq_in_keep lets them live on: the struct itself must then
 * be copied by who needs it. */
struct rq_in {
    struct rq_conn *conn;
    struct rq_header *header; /* valid during the callback; rq_in_keep moves its slices along */
    struct rq_slice body;     /* p NULL when empty */
    char *frame;              /* from the length field on */
    size_t size;
    struct rq_frame_ref *ref; /* NULL until kept */
};

/* Makes the bytes outlive the callback: a counted copy, or the connection's own buffer when the
 * frame lives there. body and header slices are moved along. Each call adds one reference for
 * the caller. NULL when out of memory: nothing changed. */
struct rq_frame_ref *rq_in_keep(struct rq_in *in);
/* An owner of n bytes that come from elsewhere: written by the caller to *bytes. NULL when out of
 * memory. */
struct rq_frame_ref *rq_frame_ref_create(size_t n, char **bytes);
struct rq_frame_ref *rq_frame_ref_retain(struct rq_frame_ref *ref); /* returns ref; any thread */
void rq_frame_ref_release(struct rq_frame_ref *ref); /* any thread; NULL is accepted */

/* How bytes move: plain sockets, or a filter such as TLS. All on the thread that holds the
 * connection's reader (loop) or writer side. As recvmsg and sendmsg: bytes, 0 at the end of the
 * stream, -1 with errno (EAGAIN: wait for the socket). */
struct rq_transport {
    ssize_t (*read)(void *self, int fd, const struct iovec *iov, int n);
    ssize_t (*writev)(void *self, int fd, const struct iovec *iov, int n);
    /* Before the first frame; RMQ_ERR_BUSY = call again when the socket is ready (*want_write
     * tells which way). NULL = none. */
    rmq_status (*handshake)(void *self, int fd, bool *want_write);
    /* Decrypted bytes wait although the socket is not readable; NULL = never. */
    bool (*pending)(void *self);
    void (*destroy)(void *self); /* NULL = nothing */
    bool loop_only;              /* only the loop thread may write; needed with handshake */
};

/* What a connection calls, all on its loop thread. Shared by many connections, immutable. */
struct rq_conn_ops {
    /* A frame that is no answer. May send, close, keep. */
    void (*on_request)(struct rq_conn *conn, struct rq_in *in);
    /* Once, when the connection has ended; calls have been completed already. */
    void (*on_close)(struct rq_conn *conn, rmq_status why);
    /* May be NULL. First bytes of an accepted connection, before any frame (PROXY protocol):
     * *used bytes are taken off. RMQ_OK: frames from here on; RMQ_ERR_BUSY: call again with more
     * bytes; any other: close. */
    rmq_status (*on_first_bytes)(struct rq_conn *conn, struct rq_slice bytes, size_t *used);
};

struct rq_conn_options {
    const struct rq_conn_ops *ops;
    void *user;
    void *owner; /* of whoever made the connection (listener.c, client.c); rq_conn_owner */
    const struct rq_transport *transport; /* NULL = plain socket */
    void *transport_self;
    size_t max_frame; /* 0 = RQ_NET_MAX_FRAME */
    /* Queued output above which nothing more is read from the peer; 0 = no limit. */
    size_t high_water;
    /* Queued output above which rq_conn_send fails with RMQ_ERR_BUSY; 0 = no limit. */
    size_t max_queued;
    bool overflow_closes; /* above max_queued the connection is closed, too */
    int64_t idle_ms;      /* no byte in or out for this long closes; 0 = never */
    int max_timeouts;     /* so many in a row, and no byte, closes; 0 = never */
    bool hidden;          /* from children of fork: they do not keep it open for the peer */
};

/* Takes over a connected, non-blocking socket. On failure the socket stays the caller's. Loop
 * thread. The connection lives until it is closed and the last reference is released; the caller
 * owns one. */
rmq_status rq_conn_create(struct rq_loop *loop, int fd, const struct rq_conn_options *options,
                          struct rq_conn **out, rmq_error **err) RMQ_MUST_USE;

struct rq_conn *rq_conn_retain(struct rq_conn *conn); /* returns conn; any thread */
void rq_conn_release(struct rq_conn *conn); /* any thread; NULL is accepted; closes nothing */

/* Queues a frame, or writes it at once. Takes the frame in any case, also on failure (then its
 * done and releases are called). RMQ_ERR_DISCONNECTED after the end, RMQ_ERR_BUSY above
 * max_queued, RMQ_ERR_FORKED. Any thread that holds a reference. */
rmq_status rq_conn_send(struct rq_conn *conn, struct rq_out *out);

/* Ends the connection, soon (why RMQ_OK counts as RMQ_ERR_CLOSED): on_close comes on the loop
 * thread, never within this call. What was queued before is written as far as the socket takes
 * it at once. Any thread; harmless twice. */
void rq_conn_close(struct rq_conn *conn, rmq_status why);

bool rq_conn_is_open(struct rq_conn *conn); /* any thread; a hint */
struct rq_loop *rq_conn_loop(struct rq_conn *conn);
void *rq_conn_user(struct rq_conn *conn); /* loop thread, or before the connection is shared */
void rq_conn_set_user(struct rq_conn *conn, void *user); /* the same */
void *rq_conn_owner(struct rq_conn *conn);               /* immutable */
/* "10.0.0.1:4711", "[::1]:4711"; immutable, any thread. */
const char *rq_conn_remote(const struct rq_conn *conn);
/* For born hosts; immutable. */
const struct sockaddr *rq_conn_remote_addr(const struct rq_conn *conn);
/* on_first_bytes only. */
void rq_conn_set_remote_addr(struct rq_conn *conn, const struct sockaddr *addr, socklen_t n);
size_t rq_conn_queued(struct rq_conn *conn); /* bytes of output not yet written; any thread */

/* "1.2.3.4:5" or "[::1]:5" of an address; out has RQ_NET_ADDRESS_MAX bytes. */
void rq_sockaddr_text(const struct sockaddr *addr, char *out);

/* shutdown as well as close: a forked child may hold a copy of the descriptor, and the peer must
 * hear of the end, or nobody be let in, all the same. *fd becomes -1. */
void rq_close_socket(int *fd);

#endif

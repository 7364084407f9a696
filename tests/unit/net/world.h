/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A server and a client in one process for the tests of net, over loopback. The server answers by
 * request code (below); the client is one peer of it. Waiting is on conditions with a deadline.
 */
#ifndef TESTS_UNIT_NET_WORLD_H
#define TESTS_UNIT_NET_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/client.h"
#include "net/listener.h"

enum {
    CODE_ECHO = 1,     /* answer with the same body */
    CODE_SILENCE = 2,  /* no answer */
    CODE_CUT = 3,      /* the connection is closed */
    CODE_COUNT = 4,    /* counted in oneways, not answered */
    CODE_CALLBACK = 5, /* the server calls the client (CODE_ECHO) and answers when it has */
    CODE_BIG = 6       /* answer with as many bytes as the body says (decimal), by reference */
};

struct world {
    struct rq_loop *server_loops[2];
    struct rq_server *server;
    struct rq_loop *loop; /* the client's */
    struct rq_peers *peers;
    struct rq_peer *peer;
    char address[64];
    _Atomic int opened;
    _Atomic int closed;
    _Atomic int requests;
    _Atomic int oneways;
    _Atomic int connected;
    _Atomic int disconnected;
    _Atomic int released;
    _Atomic int log_lines; /* warnings and errors */
};

struct world_options {
    const char *address; /* NULL = 127.0.0.1 */
    int loops;           /* 0 = 1 */
    struct rq_server_options server;
    struct rq_peers_options peers;
};

void world_start(struct world *world,
                 const struct world_options *options); /* options may be NULL */
void world_stop(struct world *world);
void world_start_server(struct world *world, const struct world_options *options, uint16_t port);
void world_stop_server(struct world *world);

/* A request frame; the body is copied. */
struct rq_out *world_request(int code, const void *body, size_t n);
/* The bytes of a request frame; n_out its length; free with rq_free. */
char *world_request_bytes(int code, int32_t opaque, const void *body, size_t n, size_t *n_out);

/* A blocking call that must give this body back; returns its status. */
rmq_status world_echo(struct world *world, const void *body, size_t n, int64_t timeout_ms);

/* Waits until *counter >= value, at most 10 s; fails the test otherwise. */
void wait_for(_Atomic int *counter, int value);

int world_dial(const struct world *world); /* a plain blocking socket to the server */
void write_all(int fd, const void *p, size_t n);
bool read_all(int fd, void *p, size_t n);
bool reads_end(int fd); /* the peer closes within 10 s; what it sends before is skipped */

int count_threads(void);
void await_look_ups(void); /* until those that nobody waits for any more have ended, too */
int count_fds(void);

#endif

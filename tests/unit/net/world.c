/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The server and the client that the tests of net share. */
#include "unit/net/world.h"

#include <check.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rmq/log.h>

#include "base/mem.h"
#include "base/time.h"
#include "lib/port.h"
#include "lib/usage.h"
#include "net/gate.h"
#include "net/resolve.h"

#define LONG_MS 10000

static char big_bytes[8 << 20];

static void answer(struct rq_conn *conn, const struct rq_header *header, struct rq_slice body)
{
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_spec spec = rq_frame_response(header, 0, NULL, NULL);
    if (!out || rq_out_encode(out, &spec, body, NULL) != RMQ_OK) {
        rq_out_destroy(out); /* tests make allocations fail */
        rq_conn_close(conn, RMQ_ERR_NOMEM);
        return;
    }
    rq_conn_send(conn, out);
}

static void count_release(void *user)
{
    struct world *world = user;
    atomic_fetch_add(&world->released, 1);
}

static void answer_big(struct world *world, struct rq_conn *conn, struct rq_in *in)
{
    int64_t n = 0;
    ck_assert(rq_slice_to_i64(in->body, &n));
    ck_assert_int_le(n, (int64_t)sizeof big_bytes);
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_spec spec = rq_frame_response(in->header, 0, NULL, NULL);
    ck_assert_int_eq(rq_frame_encode(&out->head, &spec, (size_t)n, NULL), RMQ_OK);
    ck_assert_int_eq(rq_out_add(out, big_bytes, (size_t)n, count_release, world), RMQ_OK);
    rq_conn_send(conn, out);
}

struct callback {
    struct rq_call call;
    struct rq_conn *conn;
    struct rq_header header;
};

static void called_back(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    struct callback *callback = call->user;
    if (st == RMQ_OK) {
        answer(callback->conn, &callback->header, in->body);
    }
    rq_conn_release(callback->conn);
    free(callback);
}

static void call_back(struct rq_conn *conn, struct rq_in *in)
{
    struct callback *callback = calloc(1, sizeof *callback);
    callback->conn = rq_conn_retain(conn);
    callback->header = *in->header;
    callback->call.done = called_back;
    callback->call.user = callback;
    rmq_status st = rq_call_start(conn, &callback->call, world_request(CODE_ECHO, "back", 4),
                                  rq_deadline_ms(LONG_MS));
    ck_assert_int_eq(st, RMQ_OK);
}

static void on_request(void *user, struct rq_conn *conn, struct rq_in *in)
{
    struct world *world = user;
    atomic_fetch_add(&world->requests, 1);
    switch (in->header->code) {
    case CODE_ECHO:
        answer(conn, in->header, in->body);
        break;
    case CODE_CUT:
        rq_conn_close(conn, RMQ_OK);
        break;
    case CODE_COUNT:
        atomic_fetch_add(&world->oneways, 1);
        break;
    case CODE_CALLBACK:
        call_back(conn, in);
        break;
    case CODE_BIG:
        answer_big(world, conn, in);
        break;
    default:
        break;
    }
}

static void on_open(void *user, struct rq_conn *conn)
{
    (void)conn;
    struct world *world = user;
    atomic_fetch_add(&world->opened, 1);
}

static void on_close(void *user, struct rq_conn *conn, rmq_status why)
{
    (void)conn;
    (void)why;
    struct world *world = user;
    atomic_fetch_add(&world->closed, 1);
}

static void client_request(void *user, struct rq_peer *peer, struct rq_in *in)
{
    (void)user;
    (void)peer;
    answer(in->conn, in->header, in->body);
}

static void on_connected(void *user, struct rq_peer *peer)
{
    (void)peer;
    struct world *world = user;
    atomic_fetch_add(&world->connected, 1);
}

static void on_disconnected(void *user, struct rq_peer *peer, rmq_status why)
{
    (void)peer;
    (void)why;
    struct world *world = user;
    atomic_fetch_add(&world->disconnected, 1);
}

void world_start_server(struct world *world, const struct world_options *options, uint16_t port)
{
    struct rq_server_options server = {0};
    if (options) {
        server = options->server;
    }
    server.loops = world->server_loops;
    server.loop_count = options && options->loops ? options->loops : 1;
    server.address = options && options->address ? options->address : "127.0.0.1";
    server.port = port;
    server.on_request = server.on_request ? server.on_request : on_request;
    server.on_open = on_open;
    server.on_close = on_close;
    server.user = world;
    for (int i = 0; i < server.loop_count; i++) {
        ck_assert_int_eq(rq_loop_create("test-server", &world->server_loops[i], NULL), RMQ_OK);
    }
    ck_assert_int_eq(rq_server_create(&server, &world->server, NULL), RMQ_OK);
    bool v6 = strchr(server.address, ':') != NULL;
    snprintf(world->address, sizeof world->address, v6 ? "[%s]:%u" : "%s:%u", server.address,
             (unsigned)rq_server_port(world->server));
}

void world_stop_server(struct world *world)
{
    rq_server_destroy(world->server);
    world->server = NULL;
    for (int i = 0; i < 2; i++) {
        rq_loop_put(world->server_loops[i]);
        world->server_loops[i] = NULL;
    }
}

static void count_line(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    struct world *world = user;
    atomic_fetch_add(&world->log_lines, 1);
}

void world_start(struct world *world, const struct world_options *options)
{
    static uint16_t port;
    memset(world, 0, sizeof *world);
    rmq_log_set(RMQ_LOG_WARN, count_line, world);
    if (port == 0) {
        port = (uint16_t)tl_port_kept(NULL, 0);
    }
    world_start_server(world, options, options && options->address ? 0 : port);
    ck_assert_int_eq(rq_loop_create("test-client", &world->loop, NULL), RMQ_OK);
    struct rq_peers_options peers = {0};
    if (options) {
        peers = options->peers;
    }
    peers.on_request = client_request;
    peers.on_connected = on_connected;
    peers.on_disconnected = on_disconnected;
    peers.user = world;
    ck_assert_int_eq(rq_peers_create(world->loop, &peers, &world->peers, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_get(world->peers, world->address, &world->peer, NULL), RMQ_OK);
}

void world_stop(struct world *world)
{
    rq_peer_put(world->peer);
    rq_peers_destroy(world->peers);
    rq_loop_put(world->loop);
    world_stop_server(world);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
}

struct rq_out *world_request(int code, const void *body, size_t n)
{
    struct rq_out *out = rq_out_create(0);
    ck_assert_ptr_nonnull(out);
    struct rq_frame_spec spec = rq_frame_request(RQ_SERIALIZE_JSON, code, NULL, NULL);
    ck_assert_int_eq(rq_out_encode(out, &spec, rq_slice(body, n), NULL), RMQ_OK);
    return out;
}

char *world_request_bytes(int code, int32_t opaque, const void *body, size_t n, size_t *n_out)
{
    struct rq_out *out = world_request(code, body, n);
    rq_frame_patch_opaque(out->head.data, opaque);
    *n_out = out->head.len;
    char *bytes = rq_alloc(out->head.len);
    memcpy(bytes, out->head.data, out->head.len);
    rq_out_destroy(out);
    return bytes;
}

rmq_status world_echo(struct world *world, const void *body, size_t n, int64_t timeout_ms)
{
    struct rq_reply reply = {0};
    rmq_status st = rq_peer_call_reply(world->peer, world_request(CODE_ECHO, body, n),
                                       rq_deadline_ms(timeout_ms), RQ_PATIENT, &reply);
    if (st == RMQ_OK) {
        ck_assert_int_eq(reply.header.code, 0);
        ck_assert(rq_slice_eq(reply.body, rq_slice(body, n)));
    }
    rq_reply_free(&reply);
    return st;
}

void wait_for(_Atomic int *counter, int value)
{
    int64_t deadline = rq_deadline_ms(LONG_MS);
    while (atomic_load(counter) < value) {
        ck_assert_msg(rq_mono_ms() < deadline, "counter stays at %d, below %d",
                      atomic_load(counter), value);
        usleep(500);
    }
}

int world_dial(const struct world *world)
{
    union rq_sockaddr addr;
    char host[RQ_HOST_MAX];
    uint16_t port;
    ck_assert_int_eq(rq_address_split(world->address, host, &port, NULL), RMQ_OK);
    ck_assert(rq_address_literal(host, port, &addr));
    int fd = socket(addr.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, &addr.any, sizeof addr), 0);
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

void write_all(int fd, const void *p, size_t n)
{
    const char *from = p;
    while (n > 0) {
        ssize_t put = send(fd, from, n, MSG_NOSIGNAL);
        ck_assert_int_gt(put, 0);
        from += put;
        n -= (size_t)put;
    }
}

bool read_all(int fd, void *p, size_t n)
{
    char *to = p;
    while (n > 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, LONG_MS) != 1) {
            return false;
        }
        ssize_t got = read(fd, to, n);
        if (got <= 0) {
            return false;
        }
        to += got;
        n -= (size_t)got;
    }
    return true;
}

bool reads_end(int fd)
{
    char some[4096];
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, LONG_MS) != 1) {
            return false;
        }
        ssize_t got = read(fd, some, sizeof some);
        if (got == 0 || (got < 0 && errno == ECONNRESET)) {
            return true;
        }
        if (got < 0) {
            return false;
        }
    }
}

int count_threads(void)
{
    return tl_usage_of(0).threads;
}

static bool looks_up(void)
{
    char names[4096];
    tl_thread_names(0, names, sizeof names);
    return strstr(names, "rmq-resolve") != NULL;
}

void await_look_ups(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    int64_t end = rq_deadline_ms(30000);
    while (looks_up()) {
        ck_assert_int_lt(rq_mono_ms(), end);
        nanosleep(&pause, NULL);
    }
}

int count_fds(void)
{
    return tl_usage_of(0).descriptors;
}

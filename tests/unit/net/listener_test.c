/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/listener, of the limits of both sides, and of the seam for TLS. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "unit/net/world.h"

static struct world world;

static void echo_to(const char *address)
{
    struct rq_peer *peer = NULL;
    struct rq_reply reply = {0};
    ck_assert_int_eq(rq_peer_get(world.peers, address, &peer, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1),
                                        rq_deadline_ms(5000), RQ_WAIT, &reply),
                     RMQ_OK);
    rq_reply_free(&reply);
    rq_peer_put(peer);
}

/* The world's own server stands for the handlers only. */
static void on_request(void *user, struct rq_conn *conn, struct rq_in *in)
{
    (void)user;
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_spec spec = rq_frame_response(in->header, 0, NULL, NULL);
    rq_out_encode(out, &spec, in->body, NULL);
    rq_conn_send(conn, out);
}

START_TEST(without_an_address_both_families_are_served)
{
    world_start(&world, NULL);
    struct rq_server *server = NULL;
    struct rq_server_options options = {
        .loops = world.server_loops, .loop_count = 1, .on_request = on_request};
    ck_assert_int_eq(rq_server_create(&options, &server, NULL), RMQ_OK);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)rq_server_port(server));
    echo_to(address);
    snprintf(address, sizeof address, "[::1]:%u", (unsigned)rq_server_port(server));
    echo_to(address);
    ck_assert_int_eq(rq_server_connections(server), 2);
    rq_server_destroy(server);
    world_stop(&world);
}
END_TEST

START_TEST(a_taken_port_is_named_in_the_error)
{
    world_start(&world, NULL);
    struct rq_server *server = NULL;
    rmq_error *err = NULL;
    struct rq_server_options options = {.loops = world.server_loops,
                                        .loop_count = 1,
                                        .address = "127.0.0.1",
                                        .port = rq_server_port(world.server),
                                        .on_request = on_request};
    ck_assert_int_eq(rq_server_create(&options, &server, &err), RMQ_ERR_IO);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), world.address));
    rmq_error_destroy(err);
    options.address = "no-such-host.invalid";
    err = NULL;
    ck_assert_int_eq(rq_server_create(&options, &server, &err), RMQ_ERR_RESOLVE);
    rmq_error_destroy(err);
    world_stop(&world);
}
END_TEST

static void close_it(struct rq_conn *conn, void *arg)
{
    _Atomic int *count = arg;
    atomic_fetch_add(count, 1);
    rq_conn_close(conn, RMQ_OK);
}

START_TEST(connections_are_dealt_out_and_visited)
{
    struct world_options options = {.loops = 2};
    world_start(&world, &options);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int fds[5];
    for (int i = 0; i < 5; i++) {
        fds[i] = world_dial(&world);
    }
    wait_for(&world.opened, 6);
    _Atomic int count;
    atomic_init(&count, 0);
    rq_server_each(world.server, close_it, &count);
    ck_assert_int_eq(atomic_load(&count), 6);
    wait_for(&world.closed, 6);
    for (int i = 0; i < 5; i++) {
        ck_assert(reads_end(fds[i]));
        close(fds[i]);
    }
    world_stop(&world);
}
END_TEST

START_TEST(a_server_that_stops_accepting_keeps_its_connections)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    rq_server_stop_accepting(world.server);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(rq_server_port(world.server))};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ne(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    world_stop(&world);
}
END_TEST

START_TEST(a_server_out_of_descriptors_recovers)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    struct rlimit tight = {.rlim_cur = (rlim_t)fd + 1, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(rq_server_port(world.server))};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    wait_for(&world.log_lines, 1); /* cannot accept, trying on */
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    wait_for(&world.opened, 2);
    ck_assert_int_eq(atomic_load(&world.log_lines), 1);
    close(fd);
    world_stop(&world);
}
END_TEST

/* ---- limits of queued output ---- */

START_TEST(a_client_does_not_queue_without_end)
{
    struct world_options options = {.peers.max_queued = 8 << 20};
    world_start(&world, &options);
    struct sockaddr_in addr = {.sin_family = AF_INET};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof addr;
    int mute = socket(AF_INET, SOCK_STREAM, 0); /* accepts, never reads */
    ck_assert_int_eq(bind(mute, (struct sockaddr *)&addr, n), 0);
    ck_assert_int_eq(listen(mute, 1), 0);
    getsockname(mute, (struct sockaddr *)&addr, &n);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ntohs(addr.sin_port));
    struct rq_peer *peer = NULL;
    static char body[1 << 20];
    ck_assert_int_eq(rq_peer_get(world.peers, address, &peer, NULL), RMQ_OK);
    wait_for(&world.connected, 2);
    rmq_status st = RMQ_OK;
    int sent = 0;
    while (st == RMQ_OK && sent < 100) {
        st = rq_peer_send(peer, world_request(CODE_COUNT, body, sizeof body / 2));
        sent += st == RMQ_OK;
    }
    ck_assert_int_eq(st, RMQ_ERR_BUSY);
    ck_assert_int_ge(sent, 8);
    rq_peer_put(peer);
    world_stop(&world);
    close(mute);
}
END_TEST

START_TEST(a_client_that_asks_too_much_and_reads_nothing_is_cut_off)
{
    struct world_options options = {.server.max_queued = 4 << 20, .server.high_water = 64 << 20};
    world_start(&world, &options);
    size_t n;
    char *frame = world_request_bytes(CODE_BIG, 1, "1000000", 7, &n);
    int fd = world_dial(&world);
    for (int i = 0; i < 50; i++) {
        if (send(fd, frame, n, MSG_NOSIGNAL) < 0) {
            break;
        }
    }
    wait_for(&world.closed, 1);
    ck_assert(reads_end(fd));
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    rq_free(frame);
    close(fd);
    world_stop(&world);
}
END_TEST

/* ---- the seam for TLS: a transport that says hello, scrambles, and holds bytes back ---- */

struct scrambler {
    bool said;
    int heard;
    size_t have;
    size_t given;
    char bytes[3000];
};

static rmq_status scramble_handshake(void *self, int fd, bool *want_write)
{
    struct scrambler *scrambler = self;
    *want_write = false;
    if (!scrambler->said) {
        scrambler->said = send(fd, "hello", 5, MSG_NOSIGNAL) == 5;
        *want_write = !scrambler->said;
    }
    while (scrambler->heard < 5) {
        char c;
        ssize_t got = recv(fd, &c, 1, 0);
        if (got < 0 && errno == EAGAIN) {
            return RMQ_ERR_BUSY;
        }
        if (got <= 0 || c != "hello"[scrambler->heard]) {
            return RMQ_ERR_PROTOCOL;
        }
        scrambler->heard++;
    }
    return scrambler->said ? RMQ_OK : RMQ_ERR_BUSY;
}

static ssize_t scramble_read(void *self, int fd, const struct iovec *iov, int n)
{
    (void)n;
    struct scrambler *scrambler = self;
    if (scrambler->given == scrambler->have) {
        ssize_t got = recv(fd, scrambler->bytes, sizeof scrambler->bytes, 0);
        if (got <= 0) {
            return got;
        }
        scrambler->have = (size_t)got;
        scrambler->given = 0;
    }
    size_t left = scrambler->have - scrambler->given;
    size_t give = left < 700 ? left : 700; /* records smaller than what was read */
    give = give < iov[0].iov_len ? give : iov[0].iov_len;
    for (size_t i = 0; i < give; i++) {
        ((char *)iov[0].iov_base)[i] = (char)(scrambler->bytes[scrambler->given + i] ^ 0x5a);
    }
    scrambler->given += give;
    return (ssize_t)give;
}

static ssize_t scramble_writev(void *self, int fd, const struct iovec *iov, int n)
{
    (void)self;
    char bytes[1500];
    size_t have = 0;
    for (int i = 0; i < n; i++) {
        for (size_t j = 0; j < iov[i].iov_len && have < sizeof bytes; j++) {
            bytes[have++] = (char)(((const char *)iov[i].iov_base)[j] ^ 0x5a);
        }
    }
    return send(fd, bytes, have, MSG_NOSIGNAL);
}

static bool scramble_pending(void *self)
{
    struct scrambler *scrambler = self;
    return scrambler->given < scrambler->have;
}

static const struct rq_transport scrambling = {.read = scramble_read,
                                               .writev = scramble_writev,
                                               .handshake = scramble_handshake,
                                               .pending = scramble_pending,
                                               .destroy = free,
                                               .loop_only = true};

static const struct rq_transport *server_transport(void *user, void **self)
{
    (void)user;
    *self = calloc(1, sizeof(struct scrambler));
    return &scrambling;
}

static const struct rq_transport *client_transport(void *user, struct rq_peer *peer, void **self)
{
    (void)peer;
    return server_transport(user, self);
}

START_TEST(a_filter_between_frames_and_socket_is_only_that)
{
    struct world_options options = {.server.transport = server_transport,
                                    .peers.transport = client_transport};
    world_start(&world, &options);
    static char body[200000];
    memset(body, 'q', sizeof body);
    size_t sizes[] = {0, 1, 699, 700, 701, 2999, 3000, 65536, sizeof body};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_int_eq(world_echo(&world, body, sizes[i], 10000), RMQ_OK);
    }
    rq_peer_reset(world.peer);
    ck_assert_int_eq(world_echo(&world, body, sizeof body, 10000), RMQ_OK);
    int fd = world_dial(&world); /* no hello */
    write_all(fd, "hullo", 5);
    ck_assert(reads_end(fd));
    close(fd);
    world_stop(&world);
}
END_TEST

/* ---- out of memory ---- */

START_TEST(an_allocation_that_fails_costs_a_call_or_a_connection)
{
    static char body[100000];
    rq_mem_count(1);
    struct world_options options = {.peers.backoff_first_ms = 1, .peers.backoff_most_ms = 2};
    world_start(&world, &options);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int failed = 0;
    for (size_t i = 1; i <= 60; i++) {
        /* Ours may be taken by the request that the test itself makes: made before. */
        struct rq_out *out = world_request(CODE_ECHO, body, i % 2 ? sizeof body : 10);
        struct rq_reply reply = {0};
        rq_mem_fail_at(1 + i % 12);
        rmq_status st = rq_peer_call_reply(world.peer, out, rq_deadline_ms(5000), RQ_WAIT, &reply);
        rq_mem_fail_at(0);
        rq_reply_free(&reply);
        failed += st != RMQ_OK;
        ck_assert_msg(st == RMQ_OK || st == RMQ_ERR_NOMEM || st == RMQ_ERR_DISCONNECTED ||
                          st == RMQ_ERR_CONNECT,
                      "%s", rmq_status_name(st));
        ck_assert_int_eq(world_echo(&world, "well", 4, 10000), RMQ_OK);
    }
    ck_assert_int_gt(failed, 5);
    world_stop(&world);
    rq_mem_count(0);
}
END_TEST

START_TEST(making_things_without_memory_fails_cleanly)
{
    rq_mem_count(1);
    size_t live = rq_mem_live();
    int made = 0;
    for (size_t i = 1; i < 40 && made < 3; i++) {
        struct rq_loop *loop = NULL;
        struct rq_server *server = NULL;
        struct rq_peers *peers = NULL;
        struct rq_peer *peer = NULL;
        rmq_error *err = NULL;
        struct rq_peers_options peers_options = {0};
        rq_mem_fail_at(i);
        rmq_status st = rq_loop_create("test", &loop, &err);
        struct rq_server_options options = {
            .loops = &loop, .loop_count = 1, .address = "127.0.0.1", .on_request = on_request};
        st = st ? st : rq_server_create(&options, &server, &err);
        st = st ? st : rq_peers_create(loop, &peers_options, &peers, &err);
        st = st ? st : rq_peer_get(peers, "127.0.0.1:1", &peer, &err);
        rq_mem_fail_at(0);
        ck_assert(st == RMQ_OK || st == RMQ_ERR_NOMEM);
        ck_assert_int_eq(rmq_error_status(err), st);
        made += st == RMQ_OK;
        rmq_error_destroy(err);
        rq_peer_put(peer);
        rq_peers_destroy(peers);
        rq_server_destroy(server);
        rq_loop_put(loop);
        ck_assert_uint_eq(rq_mem_live(), live);
    }
    ck_assert_int_eq(made, 3);
    rq_mem_count(0);
}
END_TEST

Suite *listener_suite(void)
{
    Suite *suite = suite_create("net/listener");
    TCase *tc = tcase_create("listener");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, without_an_address_both_families_are_served);
    tcase_add_test(tc, a_taken_port_is_named_in_the_error);
    tcase_add_test(tc, connections_are_dealt_out_and_visited);
    tcase_add_test(tc, a_server_that_stops_accepting_keeps_its_connections);
    tcase_add_test(tc, a_server_out_of_descriptors_recovers);
    tcase_add_test(tc, a_client_does_not_queue_without_end);
    tcase_add_test(tc, a_client_that_asks_too_much_and_reads_nothing_is_cut_off);
    tcase_add_test(tc, a_filter_between_frames_and_socket_is_only_that);
    tcase_add_test(tc, an_allocation_that_fails_costs_a_call_or_a_connection);
    tcase_add_test(tc, making_things_without_memory_fails_cleanly);
    suite_add_tcase(suite, tc);
    return suite;
}

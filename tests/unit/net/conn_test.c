/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/conn: cutting, keeping, writing, hostile bytes, limits. */
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rmq/alloc.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/gate.h"
#include "net/loop_priv.h"
#include "net/resolve.h"
#include "unit/net/world.h"

static void read_answer(int fd, int32_t opaque, const char *body, size_t n)
{
    char prefix[4];
    ck_assert(read_all(fd, prefix, sizeof prefix));
    size_t length = rq_load_be32(prefix);
    char *frame = rq_alloc(4 + length);
    memcpy(frame, prefix, 4);
    ck_assert(read_all(fd, frame + 4, length));
    static struct rq_frame decoded;
    ck_assert_int_eq(rq_frame_decode(frame, 4 + length, &decoded, NULL), RMQ_OK);
    ck_assert_int_eq(decoded.header.opaque, opaque);
    ck_assert(rq_slice_eq(decoded.body, rq_slice(body, n)));
    rq_free(frame);
}

START_TEST(a_frame_may_be_split_at_every_byte)
{
    struct world world;
    world_start(&world, NULL);
    size_t n;
    char *frame = world_request_bytes(CODE_ECHO, 77, "hello", 5, &n);
    int fd = world_dial(&world);
    for (size_t cut = 1; cut < n; cut++) {
        int before = atomic_load(&world.requests);
        write_all(fd, frame, cut);
        /* The first part must be read alone: nothing may come of it. */
        ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
        ck_assert_int_eq(atomic_load(&world.requests), before + 1);
        write_all(fd, frame + cut, n - cut);
        read_answer(fd, 77, "hello", 5);
    }
    for (size_t i = 0; i < n; i++) {
        write_all(fd, frame + i, 1);
    }
    read_answer(fd, 77, "hello", 5);
    close(fd);
    rq_free(frame);
    world_stop(&world);
}
END_TEST

/* The server's descriptor of a connection to it. */
static int other_end(int fd)
{
    struct sockaddr_in here;
    socklen_t n = sizeof here;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&here, &n), 0);
    for (int i = 0; i < 1024; i++) {
        union rq_sockaddr peer;
        n = sizeof peer;
        if (getpeername(i, &peer.any, &n) == 0 && peer.v4.sin_port == here.sin_port) {
            return i;
        }
    }
    ck_abort_msg("nobody is connected to port %d", ntohs(here.sin_port));
    return -1;
}

/* As a Go client writes: both lengths by themselves. Once it did, they are not read alone, while a
 * frame that ends soon after is, however few bytes it lacks. */
START_TEST(lengths_that_come_alone_are_left_lying_until_a_header_begins)
{
    struct world world;
    world_start(&world, NULL);
    size_t n;
    char *frame = world_request_bytes(CODE_ECHO, 78, "hello", 5, &n);
    int fd = world_dial(&world);
    for (int round = 0; round < 20; round++) {
        write_all(fd, frame, 4);
        ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
        write_all(fd, frame + 4, 4);
        ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
        int unread = 0;
        ck_assert_int_eq(ioctl(other_end(fd), FIONREAD, &unread), 0);
        ck_assert_int_eq(unread, round == 0 ? 4 : 8);
        size_t cut = n - (size_t)round % 12 - 1;
        write_all(fd, frame + 8, cut - 8);
        ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
        write_all(fd, frame + cut, n - cut);
        read_answer(fd, 78, "hello", 5);
    }
    close(fd);
    rq_free(frame);
    world_stop(&world);
}
END_TEST

START_TEST(many_frames_in_one_write_and_a_cut_last_one)
{
    enum { COUNT = 3000 };
    struct world world;
    world_start(&world, NULL);
    struct rq_buf all;
    rq_buf_init(&all, 0);
    for (int i = 0; i < COUNT; i++) {
        size_t n;
        char *frame = world_request_bytes(CODE_ECHO, i, &i, sizeof i, &n);
        rq_buf_add(&all, frame, n);
        rq_free(frame);
    }
    int fd = world_dial(&world);
    write_all(fd, all.data, all.len - 3);
    for (int i = 0; i < COUNT - 1; i++) {
        read_answer(fd, i, (const char *)&i, sizeof i);
    }
    write_all(fd, all.data + all.len - 3, 3);
    int last = COUNT - 1;
    read_answer(fd, last, (const char *)&last, sizeof last);
    rq_buf_free(&all);
    close(fd);
    world_stop(&world);
}
END_TEST

/* Small ones share memory, large ones and those with referenced bodies go alone. */
START_TEST(answers_of_all_kinds_in_one_turn_keep_their_order)
{
    enum { COUNT = 400 };
    static const size_t sizes[] = {4, 2000, 5, 900, 30, 1, 5000, 700};
    static const char body[5000];
    struct world world;
    world_start(&world, NULL);
    struct rq_buf all;
    rq_buf_init(&all, 0);
    for (int i = 0; i < COUNT; i++) {
        size_t n;
        char *frame = i % 7 == 3 ? world_request_bytes(CODE_BIG, i, "3000", 4, &n)
                                 : world_request_bytes(CODE_ECHO, i, body, sizes[i % 8], &n);
        rq_buf_add(&all, frame, n);
        rq_free(frame);
    }
    int fd = world_dial(&world);
    write_all(fd, all.data, all.len);
    for (int i = 0; i < COUNT; i++) {
        read_answer(fd, i, body, i % 7 == 3 ? 3000 : sizes[i % 8]);
    }
    rq_buf_free(&all);
    close(fd);
    world_stop(&world);
}
END_TEST

START_TEST(frames_of_all_sizes_come_back_whole)
{
    struct world world;
    world_start(&world, NULL);
    size_t most = 4 << 20;
    char *body = malloc(most);
    for (size_t i = 0; i < most; i++) {
        body[i] = (char)(i * 31 + (i >> 8));
    }
    size_t sizes[] = {0, 1, 255, 4096, 65400, 65536, 65537, 262144, 262145, 1000000, most};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_int_eq(world_echo(&world, body, sizes[i], 10000), RMQ_OK);
    }
    free(body);
    world_stop(&world);
}
END_TEST

/* Frames kept from the scratch buffer and from the connection's own. */
struct keeper {
    struct rq_sync_call sync;
    struct rq_frame_ref *ref[2];
    struct rq_slice body;
};

static void keep_twice(struct rq_sync_call *sync, struct rq_in *in)
{
    struct keeper *keeper = RQ_CONTAINER_OF(sync, struct keeper, sync);
    keeper->ref[0] = rq_in_keep(in);
    keeper->ref[1] = rq_in_keep(in);
    keeper->body = in->body;
    ck_assert_ptr_eq(keeper->ref[0], keeper->ref[1]);
}

START_TEST(a_kept_frame_outlives_its_callback_and_connection)
{
    struct world world;
    world_start(&world, NULL);
    size_t sizes[] = {100, 700000};
    struct keeper keepers[2];
    char *body = calloc(1, 700000);
    for (int i = 0; i < 2; i++) {
        memset(body, 'a' + i, sizes[i]);
        keepers[i] = (struct keeper){.sync.on_answer = keep_twice};
        ck_assert_int_eq(rq_peer_call_sync(world.peer, &keepers[i].sync,
                                           world_request(CODE_ECHO, body, sizes[i]),
                                           rq_deadline_ms(5000), RQ_WAIT),
                         RMQ_OK);
    }
    world_stop(&world);
    for (int i = 0; i < 2; i++) {
        memset(body, 'a' + i, sizes[i]);
        ck_assert(rq_slice_eq(keepers[i].body, rq_slice(body, sizes[i])));
        rq_frame_ref_release(keepers[i].ref[0]);
        ck_assert(rq_slice_eq(keepers[i].body, rq_slice(body, sizes[i])));
        rq_frame_ref_release(keepers[i].ref[1]);
    }
    free(body);
}
END_TEST

START_TEST(a_body_by_reference_is_released_when_written)
{
    struct world world;
    world_start(&world, NULL);
    for (int i = 0; i < 3; i++) {
        struct rq_reply reply = {0};
        ck_assert_int_eq(rq_peer_call_reply(world.peer, world_request(CODE_BIG, "5000000", 7),
                                            rq_deadline_ms(10000), RQ_WAIT, &reply),
                         RMQ_OK);
        ck_assert_uint_eq(reply.body.n, 5000000);
        rq_reply_free(&reply);
        wait_for(&world.released, i + 1);
    }
    world_stop(&world);
}
END_TEST

START_TEST(a_client_that_takes_no_answers_is_not_listened_to)
{
    enum { ASKED = 200 };
    struct world_options options = {.server.high_water = 1 << 20};
    struct world world;
    world_start(&world, &options);
    int fd = world_dial(&world);
    size_t n;
    char *frame = world_request_bytes(CODE_BIG, 1, "1000000", 7, &n);
    write_all(fd, frame, n);
    wait_for(&world.requests, 1);
    char prefix[4];
    ck_assert(read_all(fd, prefix,
                       4)); /* the first answer has begun to come, and no more of it is read now */
    for (int i = 1; i < ASKED; i++) {
        write_all(fd, frame, n);
        /* A round trip of the other client makes the server look at all its sockets once. */
        ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    }
    int handled = atomic_load(&world.requests) - (ASKED - 1);
    ck_assert_int_lt(handled, 30); /* 1 MB each: the mark, and what the sockets hold */
    /* Taking them brings it back. */
    char *answer = malloc(rq_load_be32(prefix));
    ck_assert(read_all(fd, answer, rq_load_be32(prefix)));
    for (int i = 1; i < ASKED; i++) {
        ck_assert(read_all(fd, prefix, 4));
        ck_assert(read_all(fd, answer, rq_load_be32(prefix)));
    }
    wait_for(&world.released, ASKED);
    free(answer);
    rq_free(frame);
    close(fd);
    world_stop(&world);
}
END_TEST

/* How a connection of the server moves its bytes: what is written goes nowhere, and the first
 * thread beside the loop that writes is held up. */
struct held_writer {
    struct rq_conn *conn; /* the raw client's */
    struct rq_gate begun;
    struct rq_gate go;
    atomic_bool is_held;
};

static struct held_writer held;

static ssize_t read_plainly(void *self, int fd, const struct iovec *iov, int n)
{
    (void)self;
    return readv(fd, iov, n);
}

static ssize_t write_nowhere(void *self, int fd, const struct iovec *iov, int n)
{
    struct world *world = self;
    (void)fd;
    if (!rq_loop_in(world->server_loops[0]) && !atomic_exchange(&held.is_held, true)) {
        rq_gate_open(&held.begun);
        (void)rq_gate_wait(&held.go, RQ_FOREVER);
    }
    ssize_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += (ssize_t)iov[i].iov_len;
    }
    return bytes;
}

static const struct rq_transport *nowhere(void *user, void **self)
{
    static const struct rq_transport transport = {.read = read_plainly, .writev = write_nowhere};
    *self = user;
    return &transport;
}

static void keep_conn(void *user, struct rq_conn *conn, struct rq_in *in)
{
    struct world *world = user;
    (void)in;
    held.conn = held.conn ? held.conn : rq_conn_retain(conn);
    atomic_fetch_add(&world->requests, 1);
}

/* A thread writes by itself only what it finds a sleeping loop for. */
static void *send_until_held(void *arg)
{
    struct world *world = arg;
    while (!atomic_load(&held.is_held)) {
        if (rq_loop_sleeps(world->server_loops[0])) {
            rq_conn_send(held.conn, world_request(CODE_COUNT, "x", 1));
        }
        usleep(500);
    }
    return NULL;
}

static void nothing(void *arg)
{
    (void)arg;
}

START_TEST(reading_goes_on_when_a_foreign_thread_has_written_all)
{
    struct world_options options = {
        .server.high_water = 1 << 20, .server.transport = nowhere, .server.on_request = keep_conn};
    struct world world;
    static char body[2 << 20];
    pthread_t writer;
    size_t n;
    char *frame = world_request_bytes(CODE_COUNT, 1, "x", 1, &n);
    rq_gate_init(&held.begun);
    rq_gate_init(&held.go);
    world_start(&world, &options);
    int fd = world_dial(&world);
    write_all(fd, frame, n);
    wait_for(&world.requests, 1);
    pthread_create(&writer, NULL, send_until_held, &world);
    ck_assert(rq_gate_wait(&held.begun, rq_deadline_ms(20000)));
    ck_assert_int_eq(rq_conn_send(held.conn, world_request(CODE_COUNT, body, sizeof body)), RMQ_OK);
    write_all(fd, frame, n);
    wait_for(&world.requests, 2);
    ck_assert(rq_loop_run(world.server_loops[0], nothing, NULL)); /* it has stopped reading */
    rq_gate_open(&held.go);
    pthread_join(writer, NULL);
    ck_assert_uint_eq(rq_conn_queued(held.conn), 0);
    write_all(fd, frame, n);
    wait_for(&world.requests, 3);
    rq_conn_release(held.conn);
    close(fd);
    rq_free(frame);
    world_stop(&world);
}
END_TEST

static void attack(const struct world *world, const void *bytes, size_t n)
{
    int fd = world_dial(world);
    write_all(fd, bytes, n);
    ck_assert_msg(reads_end(fd), "the server keeps a connection with bad bytes");
    close(fd);
}

START_TEST(bad_bytes_cost_one_connection)
{
    struct world world;
    world_start(&world, NULL);
    const uint32_t lengths[] = {0, 1, 3, 0x7fffffff, 0x80000000, 0xffffffff, 16777217, 0x47455420};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char bytes[64] = {0};
        rq_store_be32(bytes, lengths[i]);
        attack(&world, bytes, sizeof bytes);
    }
    for (int kind = 2; kind < 256; kind++) {
        char bytes[16] = {0};
        rq_store_be32(bytes, 12);
        bytes[4] = (char)kind;
        attack(&world, bytes, sizeof bytes);
    }
    char header_longer[12] = {0, 0, 0, 8, 0, 0, 0, 5, '{', '}', 0, 0};
    attack(&world, header_longer, sizeof header_longer);
    attack(&world, "\0\0\0\6\0\0\0\2{]", 10);
    attack(&world, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    ck_assert_int_eq(world_echo(&world, "still well", 10, 5000), RMQ_OK);
    wait_for(&world.closed, 8 + 254 + 3);
    ck_assert_int_eq(atomic_load(&world.log_lines), 8 + 254 + 3);
    world_stop(&world);
}
END_TEST

static _Atomic size_t largest;

static void note_size(size_t size)
{
    size_t before = atomic_load(&largest);
    while (size > before && !atomic_compare_exchange_weak(&largest, &before, size)) {
    }
}

static void *noting_malloc(size_t size)
{
    note_size(size);
    return malloc(size);
}

static void *noting_realloc(void *p, size_t size)
{
    note_size(size);
    return realloc(p, size);
}

/* Runs in a process of its own (Check forks), so that the allocator can still be chosen. */
START_TEST(a_promised_frame_takes_no_memory_before_its_bytes_come)
{
    enum { ATTACKERS = 200 };
    struct world world;
    ck_assert_int_eq(rmq_set_allocator(noting_malloc, noting_realloc, free), RMQ_OK);
    world_start(&world, NULL);
    int fds[ATTACKERS];
    char bytes[100] = {0};
    rq_store_be32(bytes, 16000000);
    rq_store_be32(bytes + 4, 15999000); /* a JSON header */
    atomic_store(&largest, 0);
    for (int i = 0; i < ATTACKERS; i++) {
        fds[i] = world_dial(&world);
        write_all(fds[i], bytes, sizeof bytes);
    }
    wait_for(&world.opened, ATTACKERS);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    ck_assert_uint_lt(atomic_load(&largest), 4096);
    for (int i = 0; i < ATTACKERS; i++) {
        close(fds[i]);
    }
    world_stop(&world);
}
END_TEST

START_TEST(an_idle_connection_is_closed)
{
    struct world_options options = {.server.idle_ms = 100};
    struct world world;
    world_start(&world, &options);
    int fd = world_dial(&world);
    ck_assert(reads_end(fd));
    close(fd);
    world_stop(&world);
}
END_TEST

START_TEST(more_connections_than_allowed_are_closed)
{
    struct world_options options = {.server.max_connections = 3};
    struct world world;
    world_start(&world, &options); /* one */
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int fds[5];
    for (int i = 0; i < 5; i++) {
        fds[i] = world_dial(&world);
    }
    for (int i = 2; i < 5; i++) {
        ck_assert(reads_end(fds[i]));
    }
    /* The socket ends a moment before its connection is counted off. */
    int64_t deadline = rq_deadline_ms(10000);
    while (rq_server_connections(world.server) != 3 && rq_mono_ms() < deadline) {
        usleep(500);
    }
    ck_assert_int_eq(rq_server_connections(world.server), 3);
    for (int i = 0; i < 5; i++) {
        close(fds[i]);
    }
    world_stop(&world);
}
END_TEST

/* A greeting line before the first frame, as a PROXY header is one. */
static rmq_status take_greeting(struct rq_conn *conn, struct rq_slice bytes, size_t *used)
{
    const char *end = memchr(bytes.p, '\n', bytes.n);
    if (!end) {
        return RMQ_ERR_BUSY;
    }
    if (memcmp(bytes.p, "HELLO", 5) != 0) {
        return RMQ_ERR_PROTOCOL;
    }
    struct sockaddr_in seen = {.sin_family = AF_INET, .sin_port = htons(99)};
    seen.sin_addr.s_addr = htonl(0x0a000001);
    rq_conn_set_remote_addr(conn, (const struct sockaddr *)&seen, sizeof seen);
    *used = (size_t)(end + 1 - bytes.p);
    return RMQ_OK;
}

static void answer_remote(void *user, struct rq_conn *conn, struct rq_in *in)
{
    (void)user;
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_spec spec = rq_frame_response(in->header, 0, NULL, NULL);
    rq_out_encode(out, &spec, rq_slice_str(rq_conn_remote(conn)), NULL);
    rq_conn_send(conn, out);
}

START_TEST(a_filter_takes_the_first_bytes)
{
    struct world_options options = {.server.on_first_bytes = take_greeting,
                                    .server.on_request = answer_remote};
    struct world world;
    world_start(&world, &options);
    size_t n;
    char *frame = world_request_bytes(CODE_ECHO, 5, "abc", 3, &n);
    struct rq_buf bytes;
    rq_buf_init(&bytes, 0);
    rq_buf_add_str(&bytes, "HELLO you\n");
    rq_buf_add(&bytes, frame, n);
    for (size_t cut = 0; cut < bytes.len; cut += 5) {
        int fd = world_dial(&world);
        write_all(fd, bytes.data, cut);
        write_all(fd, bytes.data + cut, bytes.len - cut);
        read_answer(fd, 5, "10.0.0.1:99", 11);
        close(fd);
    }
    attack(&world, "BYE\n", 4);
    rq_buf_free(&bytes);
    rq_free(frame);
    world_stop(&world);
}
END_TEST

START_TEST(addresses_are_split_and_printed)
{
    char host[RQ_HOST_MAX];
    uint16_t port;
    ck_assert_int_eq(rq_address_split("broker-a:10911", host, &port, NULL), RMQ_OK);
    ck_assert_str_eq(host, "broker-a");
    ck_assert_int_eq(port, 10911);
    ck_assert_int_eq(rq_address_split("[fe80::1%lo]:9876", host, &port, NULL), RMQ_OK);
    ck_assert_str_eq(host, "fe80::1%lo");
    const char *bad[] = {"",    ":1",    "a",      "a:",   "a:0",   "a:65536",
                         "a:b", "::1:5", "[::1]5", "[::1", "[]:12", "a:1 "};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rmq_error *err = NULL;
        ck_assert_int_eq(rq_address_split(bad[i], host, &port, &err), RMQ_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(rmq_error_message(err), bad[i]));
        rmq_error_destroy(err);
    }
    union rq_sockaddr addr;
    char text[RQ_NET_ADDRESS_MAX];
    ck_assert(rq_address_literal("::1", 5, &addr));
    rq_sockaddr_text(&addr.any, text);
    ck_assert_str_eq(text, "[::1]:5");
    ck_assert(rq_address_literal("::ffff:1.2.3.4", 5, &addr));
    rq_sockaddr_text(&addr.any, text);
    ck_assert_str_eq(text, "1.2.3.4:5");
    ck_assert(!rq_address_literal("localhost", 5, &addr));
}
END_TEST

Suite *conn_suite(void)
{
    Suite *suite = suite_create("net/conn");
    TCase *tc = tcase_create("conn");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_frame_may_be_split_at_every_byte);
    tcase_add_test(tc, lengths_that_come_alone_are_left_lying_until_a_header_begins);
    tcase_add_test(tc, many_frames_in_one_write_and_a_cut_last_one);
    tcase_add_test(tc, answers_of_all_kinds_in_one_turn_keep_their_order);
    tcase_add_test(tc, frames_of_all_sizes_come_back_whole);
    tcase_add_test(tc, a_kept_frame_outlives_its_callback_and_connection);
    tcase_add_test(tc, a_body_by_reference_is_released_when_written);
    tcase_add_test(tc, a_client_that_takes_no_answers_is_not_listened_to);
    tcase_add_test(tc, reading_goes_on_when_a_foreign_thread_has_written_all);
    tcase_add_test(tc, bad_bytes_cost_one_connection);
    tcase_add_test(tc, a_promised_frame_takes_no_memory_before_its_bytes_come);
    tcase_add_test(tc, an_idle_connection_is_closed);
    tcase_add_test(tc, more_connections_than_allowed_are_closed);
    tcase_add_test(tc, a_filter_takes_the_first_bytes);
    tcase_add_test(tc, addresses_are_split_and_printed);
    suite_add_tcase(suite, tc);
    return suite;
}

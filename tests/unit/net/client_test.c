/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/client and net/resolve: addresses, outages, forks, and what is left behind. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rmq/alloc.h>

#include "base/mem.h"
#include "base/time.h"
#include "lib/port.h"
#include "net/conn_priv.h"
#include "unit/net/world.h"

static struct world world;

START_TEST(a_client_reaches_an_ipv6_server)
{
    struct world_options options = {.address = "::1"};
    world_start(&world, &options);
    ck_assert_ptr_nonnull(strstr(world.address, "[::1]:"));
    ck_assert_int_eq(world_echo(&world, "six", 3, 5000), RMQ_OK);
    world_stop(&world);
}
END_TEST

START_TEST(a_name_with_two_addresses_is_tried_through)
{
    struct world_options options = {.address = "::1"}; /* nothing listens on 127.0.0.1 */
    world_start(&world, &options);
    char address[64];
    snprintf(address, sizeof address, "localhost:%u", (unsigned)rq_server_port(world.server));
    struct rq_peer *peer = NULL;
    struct rq_reply reply = {0};
    ck_assert_int_eq(rq_peer_get(world.peers, address, &peer, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1),
                                        rq_deadline_ms(5000), RQ_WAIT, &reply),
                     RMQ_OK);
    rq_reply_free(&reply);
    rq_peer_put(peer);
    world_stop(&world);
}
END_TEST

START_TEST(a_name_that_does_not_exist_is_an_ordinary_error)
{
    world_start(&world, NULL);
    struct rq_peer *peer = NULL;
    struct rq_reply reply = {0};
    ck_assert_int_eq(rq_peer_get(world.peers, "no-such-host.invalid:9876", &peer, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1),
                                        rq_deadline_ms(20000), RQ_WAIT, &reply),
                     RMQ_ERR_RESOLVE);
    rmq_error *err = NULL;
    ck_assert_int_eq(rq_peer_error(peer, RMQ_ERR_RESOLVE, &err), RMQ_ERR_RESOLVE);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "no-such-host.invalid"));
    rmq_error_destroy(err);
    ck_assert_int_eq(world_echo(&world, "others go on", 12, 5000), RMQ_OK);
    rq_peer_put(peer);
    world_stop(&world);
}
END_TEST

START_TEST(a_look_up_in_flight_does_not_hold_up_the_end)
{
    for (int i = 0; i < 20; i++) {
        world_start(&world, NULL);
        struct rq_peer *peer = NULL;
        ck_assert_int_eq(rq_peer_get(world.peers, "slow-host.invalid:9876", &peer, NULL), RMQ_OK);
        if (i % 2) {
            ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK); /* the look-up has begun */
        }
        rq_peer_put(peer);
        int64_t begin = rq_mono_ms();
        world_stop(&world);
        ck_assert_int_lt(rq_mono_ms() - begin, 2000);
    }
    await_look_ups(); /* the leak sanitizer cannot see what the system's resolver holds */
}
END_TEST

START_TEST(bad_addresses_are_refused)
{
    world_start(&world, NULL);
    struct rq_peer *peer = NULL;
    rmq_error *err = NULL;
    ck_assert_int_eq(rq_peer_get(world.peers, "nowhere", &peer, &err), RMQ_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "nowhere"));
    rmq_error_destroy(err);
    world_stop(&world);
}
END_TEST

START_TEST(a_refused_connection_fails_calls_by_their_mode)
{
    world_start(&world, NULL);
    char address[64];
    tl_port_kept(address, sizeof address);
    struct rq_peer *peer = NULL;
    struct rq_reply reply = {0};
    ck_assert_int_eq(rq_peer_get(world.peers, address, &peer, NULL), RMQ_OK);
    int64_t begin = rq_mono_ms();
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1),
                                        rq_deadline_ms(10000), RQ_WAIT, &reply),
                     RMQ_ERR_CONNECT);
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1),
                                        rq_deadline_ms(10000), RQ_FAIL_FAST, &reply),
                     RMQ_ERR_CONNECT);
    ck_assert_int_lt(rq_mono_ms() - begin, 9000);
    begin = rq_mono_ms();
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1), rq_deadline_ms(300),
                                        RQ_PATIENT, &reply),
                     RMQ_ERR_CONNECT);
    ck_assert_int_ge(rq_mono_ms() - begin, 299);
    ck_assert_int_eq(rq_peer_send(peer, world_request(CODE_COUNT, "x", 1)), RMQ_ERR_DISCONNECTED);
    rmq_error *err = NULL;
    rq_peer_error(peer, RMQ_ERR_CONNECT, &err);
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), address));
    ck_assert_ptr_nonnull(strstr(rmq_error_message(err), "refused"));
    rmq_error_destroy(err);
    rq_peer_put(peer);
    world_stop(&world);
}
END_TEST

struct hold {
    struct rq_gate entered;
    struct rq_gate leave;
};

static void stand_still(void *arg)
{
    struct hold *hold = arg;
    rq_gate_open(&hold->entered);
    rq_gate_wait(&hold->leave, RQ_FOREVER);
}

static void *hold_loop(void *arg)
{
    ck_assert(rq_loop_run(world.loop, stand_still, arg));
    return NULL;
}

/* The loop stands still, so that nothing has failed yet when the time is up. */
START_TEST(a_call_without_a_connection_in_time_could_not_connect)
{
    struct hold hold;
    pthread_t thread;
    struct rq_peer *peer = NULL;
    struct rq_reply reply = {0};
    rmq_error *err = NULL;
    world_start(&world, NULL);
    rq_gate_init(&hold.entered);
    rq_gate_init(&hold.leave);
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_loop, &hold), 0);
    rq_gate_wait(&hold.entered, RQ_FOREVER);
    ck_assert_int_eq(rq_peer_get(world.peers, "127.0.0.1:1", &peer, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_call_reply(peer, world_request(CODE_ECHO, "x", 1), rq_deadline_ms(50),
                                        RQ_WAIT, &reply),
                     RMQ_ERR_CONNECT);
    rq_peer_error(peer, RMQ_ERR_CONNECT, &err);
    ck_assert_str_eq(rmq_error_message(err),
                     "connect to 127.0.0.1:1: there was no connection in time");
    rmq_error_destroy(err);
    rq_gate_open(&hold.leave);
    pthread_join(thread, NULL);
    rq_peer_put(peer);
    world_stop(&world);
}
END_TEST

START_TEST(an_outage_is_survived_and_calls_that_wait_go_through)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "before", 6, 5000), RMQ_OK);
    for (int i = 1; i <= 3; i++) {
        uint16_t port = rq_server_port(world.server);
        world_stop_server(&world);
        wait_for(&world.disconnected, i);
        ck_assert_int_ne(world_echo(&world, "during", 6, 30), RMQ_OK);
        world_start_server(&world, NULL, port);
        ck_assert_int_eq(world_echo(&world, "after", 5, 10000), RMQ_OK);
        ck_assert_int_eq(atomic_load(&world.connected), i + 1);
    }
    world_stop(&world);
}
END_TEST

/* The wait after a failure, at least 30 s here, is for a peer that nobody asks for. */
START_TEST(a_call_does_not_wait_for_the_back_off)
{
    struct world_options options = {.peers.backoff_first_ms = 60000,
                                    .peers.backoff_most_ms = 60000};
    world_start(&world, &options);
    wait_for(&world.connected, 1);
    uint16_t port = rq_server_port(world.server);
    world_stop_server(&world);
    wait_for(&world.disconnected, 1);
    int64_t deadline = rq_deadline_ms(20000);
    while (atomic_load(&world.log_lines) == 0 && rq_mono_ms() < deadline) {
        ck_assert_int_ne(world_echo(&world, "x", 1, 100), RMQ_OK);
    }
    world_start_server(&world, NULL, port);
    ck_assert_int_eq(world_echo(&world, "x", 1, 15000), RMQ_OK);
    ck_assert_int_eq(atomic_load(&world.log_lines), 2); /* when it went, and when it was back */
    world_stop(&world);
}
END_TEST

START_TEST(a_connection_is_made_again_without_a_call)
{
    world_start(&world, NULL);
    wait_for(&world.connected, 1);
    struct rq_reply reply = {0};
    rq_peer_call_reply(world.peer, world_request(CODE_CUT, NULL, 0), rq_deadline_ms(5000), RQ_WAIT,
                       &reply);
    wait_for(&world.connected, 2);
    rq_peer_reset(world.peer);
    wait_for(&world.connected, 3);
    world_stop(&world);
}
END_TEST

/* In a long outage: connection attempts are rare. The server accepts and closes at once. */
START_TEST(a_server_that_closes_at_once_is_not_stormed)
{
    struct world_options options = {.server.max_connections = 1};
    world_start(&world, &options);
    wait_for(&world.connected, 1);
    struct rq_peer *second = NULL;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)rq_server_port(world.server));
    struct rq_peers *peers = NULL;
    struct rq_peers_options peers_options = {0};
    ck_assert_int_eq(rq_peers_create(world.loop, &peers_options, &peers, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_get(peers, address, &second, NULL), RMQ_OK);
    struct rq_reply reply = {0};
    int tries = 0;
    int64_t deadline = rq_deadline_ms(1500);
    while (rq_mono_ms() < deadline) {
        rmq_status st = rq_peer_call_reply(second, world_request(CODE_ECHO, "x", 1), deadline,
                                           RQ_PATIENT, &reply);
        ck_assert(st == RMQ_ERR_DISCONNECTED || st == RMQ_ERR_CONNECT || st == RMQ_ERR_TIMEOUT);
        tries++;
    }
    ck_assert_int_le(tries, 8); /* 100, 200, 400 … ms */
    rq_peer_put(second);
    rq_peers_destroy(peers);
    world_stop(&world);
}
END_TEST

START_TEST(an_idle_connection_closes_and_comes_back_when_used)
{
    struct world_options options = {.peers.idle_ms = 80};
    world_start(&world, &options);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    wait_for(&world.disconnected, 1);
    /* Not by itself: the longest first back-off passes and nothing happens. */
    int64_t until = rq_deadline_ms(300);
    while (rq_mono_ms() < until) {
        ck_assert_int_eq(atomic_load(&world.connected), 1);
        usleep(1000);
    }
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    ck_assert_int_eq(atomic_load(&world.connected), 2);
    world_stop(&world);
}
END_TEST

START_TEST(one_way_frames_arrive_and_are_bounded)
{
    struct world_options options = {.peers.max_oneway = 100};
    world_start(&world, &options);
    int sent = 0;
    while (sent < 1000) {
        rmq_status st = rq_peer_oneway(world.peer, world_request(CODE_COUNT, "x", 1),
                                       rq_deadline_ms(5000), NULL, NULL);
        ck_assert(st == RMQ_OK || st == RMQ_ERR_BUSY);
        sent += st == RMQ_OK;
    }
    wait_for(&world.oneways, 1000);
    world_stop(&world);
}
END_TEST

static void count_lost(void *lost, struct rq_peer *peer, rmq_status status)
{
    (void)peer;
    atomic_fetch_add((_Atomic int *)lost, status != RMQ_OK);
}

/* Without a connection by their bytes, too, until they are given up. */
START_TEST(one_way_frames_that_wait_are_bounded_by_bytes)
{
    static char body[1000];
    static _Atomic int lost;
    struct world_options options = {.peers.max_queued = 10000};
    world_start(&world, &options);
    wait_for(&world.connected, 1);
    world_stop_server(&world);
    wait_for(&world.disconnected, 1);
    int kept = 0;
    rmq_status st = RMQ_OK;
    while (kept < 100 && st == RMQ_OK) {
        st = rq_peer_oneway(world.peer, world_request(CODE_COUNT, body, sizeof body),
                            rq_deadline_ms(2000), count_lost, &lost);
        kept += st == RMQ_OK;
    }
    ck_assert_int_eq(st, RMQ_ERR_BUSY);
    wait_for(&lost, kept);
    ck_assert_int_eq(rq_peer_oneway(world.peer, world_request(CODE_COUNT, body, sizeof body),
                                    rq_deadline_ms(100), NULL, NULL),
                     RMQ_OK);
    world_stop(&world);
}
END_TEST

/* The memory that a frame needs to wait in is what the server comes back for. */
static _Atomic(const pthread_t *) waiter;
static uint16_t server_port;

static void *bring_server_back(size_t size)
{
    const pthread_t *self = atomic_load(&waiter);
    if (self && pthread_equal(*self, pthread_self())) {
        atomic_store(&waiter, NULL);
        world_start_server(&world, NULL, server_port);
        wait_for(&world.connected, 2);
    }
    return malloc(size);
}

static uint32_t calls_of(struct rq_peer *peer)
{
    struct rq_conn *conn = rq_peer_conn(peer);
    ck_assert_ptr_nonnull(conn);
    rq_mutex_lock(&conn->calls.lock);
    uint32_t count = conn->calls.count;
    rq_mutex_unlock(&conn->calls.lock);
    rq_conn_release(conn);
    return count;
}

/* Runs in a process of its own (Check forks), so that the allocator can still be chosen. */
START_TEST(a_one_way_frame_awaits_no_answer_when_the_connection_comes_just_then)
{
    struct world_options options = {.peers.backoff_first_ms = 20, .peers.backoff_most_ms = 20};
    const pthread_t self = pthread_self();
    ck_assert_int_eq(rmq_set_allocator(bring_server_back, realloc, free), RMQ_OK);
    world_start(&world, &options);
    wait_for(&world.connected, 1);
    server_port = rq_server_port(world.server);
    world_stop_server(&world);
    wait_for(&world.disconnected, 1);
    struct rq_out *out = world_request(CODE_COUNT, "x", 1);
    atomic_store(&waiter, &self);
    ck_assert_int_eq(rq_peer_oneway(world.peer, out, rq_deadline_ms(20000), NULL, NULL), RMQ_OK);
    ck_assert_ptr_null(atomic_load(&waiter));
    wait_for(&world.oneways, 1);
    ck_assert_uint_eq(calls_of(world.peer), 0);
    world_stop(&world);
}
END_TEST

START_TEST(a_peer_nobody_holds_is_forgotten_when_its_connection_ends)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    rq_peer_put(world.peer);
    world_stop_server(&world);
    wait_for(&world.disconnected, 1);
    rq_peers_destroy(world.peers);
    rq_loop_put(world.loop);
    ck_assert_int_eq(atomic_load(&world.connected), 1);
}
END_TEST

/* The thread sanitizer ends a forked child that starts a thread. */
#if defined(__SANITIZE_THREAD__)
#define NO_THREADS_AFTER_FORK
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_THREADS_AFTER_FORK
#endif
#endif

static int in_child(void)
{
    struct rq_reply reply = {0};
    if (rq_peer_call_reply(world.peer, world_request(CODE_ECHO, "x", 1), rq_deadline_ms(5000),
                           RQ_WAIT, &reply) != RMQ_ERR_FORKED) {
        return 1;
    }
    if (rq_peer_send(world.peer, world_request(CODE_ECHO, "x", 1)) != RMQ_ERR_FORKED) {
        return 2;
    }
    struct rq_peer *peer = NULL;
    if (rq_peer_get(world.peers, "127.0.0.1:1", &peer, NULL) != RMQ_ERR_FORKED) {
        return 3;
    }
#ifndef NO_THREADS_AFTER_FORK
    struct rq_loop *shared = NULL;
    if (rq_loop_shared_get(&shared, NULL) != RMQ_OK || rq_loop_forked(shared)) {
        return 4;
    }
    rq_loop_put(shared);
#endif
    rq_peer_put(world.peer);
    rq_peers_destroy(world.peers);
    rq_loop_put(world.loop);
    rq_server_destroy(world.server);
    rq_loop_put(world.server_loops[0]);
    return 0;
}

START_TEST(a_forked_child_has_inert_handles_and_the_parent_goes_on)
{
    struct rq_loop *shared = NULL;
    ck_assert_int_eq(rq_loop_shared_get(&shared, NULL), RMQ_OK);
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(in_child());
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_eq(world_echo(&world, "parent", 6, 5000), RMQ_OK);
    ck_assert_int_eq(atomic_load(&world.connected), 1);
    rq_loop_put(shared);
    world_stop(&world);
}
END_TEST

START_TEST(the_end_is_heard_although_a_child_holds_the_socket)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int hold[2];
    ck_assert_int_eq(pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        alarm(20);
        close(hold[1]);
        _exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    rq_peer_put(world.peer);
    rq_peers_destroy(world.peers);
    wait_for(&world.closed, 1);
    close(hold[0]);
    close(hold[1]);
    int status = 0;
    waitpid(child, &status, 0);
    rq_loop_put(world.loop);
    world_stop_server(&world);
}
END_TEST

START_TEST(fifty_cycles_leave_no_thread_descriptor_or_memory)
{
    struct world_options options = {.loops = 2};
    int threads = 0;
    int fds = 0;
    size_t live = 0;
    rq_mem_count(1);
    for (int i = 0; i < 50; i++) {
        world_start(&world, &options);
        if (i % 3 == 0) {
            ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
        } else if (i % 3 == 1) {
            struct rq_reply reply = {0};
            rq_peer_call_reply(world.peer, world_request(CODE_CUT, NULL, 0), rq_deadline_ms(5000),
                               RQ_WAIT, &reply);
        }
        world_stop(&world);
        if (i == 2) {
            threads = count_threads();
            fds = count_fds();
            live = rq_mem_live();
        }
    }
    ck_assert_int_eq(count_threads(), threads);
    ck_assert_int_eq(count_fds(), fds);
    ck_assert_uint_eq(rq_mem_live(), live);
    rq_mem_count(0);
}
END_TEST

Suite *client_suite(void)
{
    Suite *suite = suite_create("net/client");
    TCase *tc = tcase_create("client");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_client_reaches_an_ipv6_server);
    tcase_add_test(tc, a_name_with_two_addresses_is_tried_through);
    tcase_add_test(tc, a_name_that_does_not_exist_is_an_ordinary_error);
    tcase_add_test(tc, a_look_up_in_flight_does_not_hold_up_the_end);
    tcase_add_test(tc, bad_addresses_are_refused);
    tcase_add_test(tc, a_refused_connection_fails_calls_by_their_mode);
    tcase_add_test(tc, a_call_without_a_connection_in_time_could_not_connect);
    tcase_add_test(tc, an_outage_is_survived_and_calls_that_wait_go_through);
    tcase_add_test(tc, a_call_does_not_wait_for_the_back_off);
    tcase_add_test(tc, a_connection_is_made_again_without_a_call);
    tcase_add_test(tc, a_server_that_closes_at_once_is_not_stormed);
    tcase_add_test(tc, an_idle_connection_closes_and_comes_back_when_used);
    tcase_add_test(tc, one_way_frames_arrive_and_are_bounded);
    tcase_add_test(tc, one_way_frames_that_wait_are_bounded_by_bytes);
    tcase_add_test(tc, a_one_way_frame_awaits_no_answer_when_the_connection_comes_just_then);
    tcase_add_test(tc, a_peer_nobody_holds_is_forgotten_when_its_connection_ends);
    tcase_add_test(tc, a_forked_child_has_inert_handles_and_the_parent_goes_on);
    tcase_add_test(tc, the_end_is_heard_although_a_child_holds_the_socket);
    tcase_add_test(tc, fifty_cycles_leave_no_thread_descriptor_or_memory);
    suite_add_tcase(suite, tc);
    return suite;
}

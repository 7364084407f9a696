/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/call: exactly one end of each call, whatever happens. */
#include <check.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "net/client_priv.h"
#include "net/conn_priv.h"
#include "net/gate.h"
#include "unit/net/world.h"

static struct world world;

static void *echo_thread(void *arg)
{
    char body[64];
    int n = snprintf(body, sizeof body, "thread %p", arg);
    for (int i = 0; i < 2000; i++) {
        ck_assert_int_eq(world_echo(&world, body, (size_t)n, 10000), RMQ_OK);
    }
    return NULL;
}

START_TEST(sixteen_threads_share_one_connection)
{
    pthread_t threads[16];
    char names[16];
    world_start(&world, NULL);
    for (int i = 0; i < 16; i++) {
        pthread_create(&threads[i], NULL, echo_thread, &names[i]);
    }
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(atomic_load(&world.opened), 1);
    ck_assert_int_eq(atomic_load(&world.requests), 32000);
    world_stop(&world);
}
END_TEST

/* ---- asynchronous calls ---- */

struct async_call {
    struct rq_call call;
    int ends;
    rmq_status status;
    bool maybe_sent;
};

static _Atomic int ended;
static _Atomic int in_flight;
static bool bulk; /* of the calls that start_calls makes */

static void async_done(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    struct async_call *async = RQ_CONTAINER_OF(call, struct async_call, call);
    async->ends++;
    async->status = st;
    async->maybe_sent = call->maybe_sent;
    if (st == RMQ_OK) {
        int index = 0;
        ck_assert_uint_eq(in->body.n, sizeof index);
        memcpy(&index, in->body.p, sizeof index);
        ck_assert_int_eq(index, *(int *)call->user);
    }
    atomic_fetch_sub(&in_flight, 1);
    atomic_fetch_add(&ended, 1);
}

static struct async_call *start_calls(int count, int code, int64_t timeout_ms, int *index,
                                      int window)
{
    struct async_call *calls = calloc((size_t)count, sizeof *calls);
    atomic_store(&ended, 0);
    atomic_store(&in_flight, 0);
    for (int i = 0; i < count; i++) {
        wait_for(&ended, i - window);
        index[i] = i;
        calls[i].call.done = async_done;
        calls[i].call.user = &index[i];
        calls[i].call.bulk = bulk;
        atomic_fetch_add(&in_flight, 1);
        ck_assert_int_eq(rq_peer_call(world.peer, &calls[i].call,
                                      world_request(code, &index[i], sizeof index[i]),
                                      rq_deadline_ms(timeout_ms), RQ_WAIT),
                         RMQ_OK);
    }
    return calls;
}

static void check_all(const struct async_call *calls, int count, rmq_status st)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(calls[i].ends, 1);
        ck_assert_int_eq(calls[i].status, st);
    }
}

START_TEST(a_hundred_thousand_asynchronous_calls_end_once_each)
{
    enum { COUNT = 100000 };
    int *index = calloc(COUNT, sizeof *index);
    world_start(&world, NULL);
    struct async_call *calls = start_calls(COUNT, CODE_ECHO, 10000, index, 1000);
    wait_for(&ended, COUNT);
    check_all(calls, COUNT, RMQ_OK);
    free(calls);
    free(index);
    world_stop(&world);
}
END_TEST

START_TEST(more_calls_than_any_table_size_wait_at_once)
{
    enum { COUNT = 20000 };
    int *index = calloc(COUNT, sizeof *index);
    world_start(&world, NULL);
    struct async_call *calls = start_calls(COUNT, CODE_SILENCE, 60000, index, COUNT);
    wait_for(&world.requests, COUNT);
    struct async_call *echoes = calls; /* stays; these end with the world */
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    world_stop(&world);
    check_all(echoes, COUNT, RMQ_ERR_CLOSED);
    free(calls);
    free(index);
}
END_TEST

/* What the socket waits for: 1 = any byte. */
static int read_mark(void)
{
    struct rq_conn *conn = rq_peer_conn(world.peer);
    ck_assert_ptr_nonnull(conn);
    rq_mutex_lock(&conn->calls.lock);
    int mark = conn->calls.mark;
    rq_mutex_unlock(&conn->calls.lock);
    rq_conn_release(conn);
    return mark;
}

/* Many bulk calls without an answer, after some whose answers showed their size. */
static struct async_call *gather(int count, int *index)
{
    bulk = true;
    struct async_call *first = start_calls(1, CODE_ECHO, 10000, index, 1);
    wait_for(&ended, 1);
    free(first);
    struct async_call *calls = start_calls(count, CODE_SILENCE, 60000, index, count);
    wait_for(&world.requests, count + 1);
    int64_t deadline = rq_mono_ms() + 10000;
    while (read_mark() <= 1) {
        ck_assert(rq_mono_ms() < deadline);
        struct async_call *echo = start_calls(1, CODE_ECHO, 10000, index, 1);
        wait_for(&ended, 1);
        free(echo);
    }
    return calls;
}

START_TEST(a_single_answer_among_many_bulk_calls_is_not_left_lying)
{
    enum { COUNT = 2000 };
    int *index = calloc(COUNT, sizeof *index);
    world_start(&world, NULL);
    struct async_call *calls = gather(COUNT, index);
    ck_assert_int_gt(read_mark(), COUNT / 16); /* one answer is far below the mark */
    struct async_call *echo = start_calls(1, CODE_ECHO, 60000, index, 1);
    wait_for(&ended, 1);
    world_stop(&world);
    free(echo);
    free(calls);
    free(index);
    bulk = false;
}
END_TEST

START_TEST(a_call_that_somebody_sleeps_for_ends_the_gathering_of_answers)
{
    enum { COUNT = 2000 };
    int *index = calloc(COUNT, sizeof *index);
    world_start(&world, NULL);
    struct async_call *calls = gather(COUNT, index);
    bulk = false;
    struct async_call *silent = start_calls(1, CODE_SILENCE, 60000, index, 1);
    ck_assert_int_eq(read_mark(), 1);
    ck_assert_int_eq(world_echo(&world, "x", 1, 10000), RMQ_OK);
    ck_assert_int_eq(read_mark(), 1); /* as long as it waits */
    world_stop(&world);
    free(silent);
    free(calls);
    free(index);
}
END_TEST

START_TEST(deadlines_are_kept_to_some_milliseconds)
{
    enum { COUNT = 50 };
    int index[COUNT];
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int64_t begin = rq_mono_ms();
    struct async_call *calls = start_calls(COUNT, CODE_SILENCE, 100, index, COUNT);
    wait_for(&ended, COUNT);
    int64_t took = rq_mono_ms() - begin;
    check_all(calls, COUNT, RMQ_ERR_TIMEOUT);
    ck_assert_int_ge(took, 100);
    ck_assert_int_lt(took, 5000);
    free(calls);
    world_stop(&world);
}
END_TEST

START_TEST(a_short_deadline_after_a_long_one_comes_first)
{
    int index[2];
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    struct async_call *slow = start_calls(1, CODE_SILENCE, 60000, index, 1);
    wait_for(&world.requests, 2);
    struct async_call *quick = start_calls(1, CODE_SILENCE, 50, index + 1, 1);
    wait_for(&ended, 1);
    check_all(quick, 1, RMQ_ERR_TIMEOUT);
    ck_assert_int_eq(slow[0].ends, 0);
    world_stop(&world);
    check_all(slow, 1, RMQ_ERR_CLOSED);
    free(slow);
    free(quick);
}
END_TEST

START_TEST(a_blocking_call_times_out_and_its_late_answer_is_dropped)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    for (int i = 0; i < 50; i++) {
        rmq_status st = world_echo(&world, "quick", 5, 0);
        ck_assert(st == RMQ_OK || st == RMQ_ERR_TIMEOUT);
    }
    struct rq_reply reply = {0};
    int64_t begin = rq_mono_ms();
    ck_assert_int_eq(rq_peer_call_reply(world.peer, world_request(CODE_SILENCE, NULL, 0),
                                        rq_deadline_ms(80), RQ_WAIT, &reply),
                     RMQ_ERR_TIMEOUT);
    ck_assert_int_ge(rq_mono_ms() - begin, 79);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    world_stop(&world);
}
END_TEST

START_TEST(a_lost_connection_ends_all_its_calls_at_once)
{
    enum { COUNT = 500 };
    int index[COUNT];
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    struct async_call *calls = start_calls(COUNT, CODE_SILENCE, 60000, index, COUNT);
    wait_for(&world.requests, COUNT + 1);
    int64_t begin = rq_mono_ms();
    struct rq_reply reply = {0};
    ck_assert_int_eq(rq_peer_call_reply(world.peer, world_request(CODE_CUT, NULL, 0),
                                        rq_deadline_ms(10000), RQ_WAIT, &reply),
                     RMQ_ERR_DISCONNECTED);
    wait_for(&ended, COUNT);
    ck_assert_int_lt(rq_mono_ms() - begin, 9000);
    check_all(calls, COUNT, RMQ_ERR_DISCONNECTED);
    for (int i = 0; i < COUNT; i++) {
        ck_assert(calls[i].maybe_sent);
    }
    free(calls);
    ck_assert_int_eq(world_echo(&world, "again", 5, 5000), RMQ_OK);
    world_stop(&world);
}
END_TEST

/* Queued behind a socket that takes nothing more. */
START_TEST(a_call_that_was_never_written_says_so)
{
    enum { COUNT = 64 };
    static char body[1 << 20];
    struct async_call calls[COUNT];
    memset(calls, 0, sizeof calls);
    int listener = -1;
    {
        struct sockaddr_in addr = {.sin_family = AF_INET};
        addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
        ck_assert_int_eq(listen(listener, 1), 0);
    }
    struct sockaddr_in bound;
    socklen_t n = sizeof bound;
    getsockname(listener, (struct sockaddr *)&bound, &n);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ntohs(bound.sin_port));
    world_start(&world, NULL);
    struct rq_peer *mute = NULL;
    ck_assert_int_eq(rq_peer_get(world.peers, address, &mute, NULL), RMQ_OK);
    atomic_store(&ended, 0);
    for (int i = 0; i < COUNT; i++) {
        calls[i].call.done = async_done;
        struct rq_out *out = world_request(CODE_ECHO, body, sizeof body - 4096);
        rmq_status st = rq_peer_call(mute, &calls[i].call, out, rq_deadline_ms(60000), RQ_WAIT);
        ck_assert_int_eq(st, RMQ_OK);
    }
    int fd = accept(listener, NULL, NULL);
    char first;
    ck_assert(read_all(fd, &first, 1));
    close(fd);
    close(listener);
    wait_for(&ended, COUNT);
    ck_assert(calls[0].maybe_sent);
    ck_assert(!calls[COUNT - 1].maybe_sent);
    rq_peer_put(mute);
    world_stop(&world);
}
END_TEST

struct cancel {
    struct rq_call call;
    bool taken;
};

static void never(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    (void)call;
    (void)in;
    ck_abort_msg("a cancelled call ended with %s", rmq_status_name(st));
}

static void cancel_in_loop(void *arg)
{
    struct cancel *cancel = arg;
    cancel->call.done = never;
    ck_assert_int_eq(rq_peer_call(world.peer, &cancel->call, world_request(CODE_ECHO, "x", 1),
                                  rq_deadline_ms(5000), RQ_WAIT),
                     RMQ_OK);
    cancel->taken = rq_call_cancel(&cancel->call);
}

START_TEST(a_cancelled_call_never_ends)
{
    struct world_options options = {.peers.max_async = 1};
    world_start(&world, &options);
    for (int i = 0; i < 10; i++) {
        struct cancel cancel = {0}; /* the permit comes back each time */
        ck_assert(rq_loop_run(world.loop, cancel_in_loop, &cancel));
        ck_assert(cancel.taken);
        ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    }
    world_stop(&world);
}
END_TEST

/* The loop's two steps when a connection cannot be made, with a caller between them whose time is
 * up. */
static void fail_around_a_caller(void *arg)
{
    struct async_call *async = arg;
    struct rq_list list;
    rq_list_init(&list);
    rq_mutex_lock(&async->call.peer->lock);
    rq_peer_take_waiting_locked(async->call.peer, true, &list);
    rq_mutex_unlock(&async->call.peer->lock);
    ck_assert(!rq_call_cancel(&async->call));
    rq_peer_fail_list(&list, RMQ_ERR_CONNECT);
}

static void wait_and_fail(void *arg)
{
    struct async_call *async = arg;
    struct rq_peer *peer = NULL;
    ck_assert_int_eq(rq_peer_get(world.peers, "127.0.0.1:1", &peer, NULL), RMQ_OK);
    ck_assert_int_eq(rq_peer_call(peer, &async->call, world_request(CODE_ECHO, "x", 1),
                                  rq_deadline_ms(60000), RQ_PATIENT),
                     RMQ_OK);
    fail_around_a_caller(async);
    rq_peer_put(peer);
}

START_TEST(a_call_that_the_loop_is_about_to_fail_cannot_be_taken_back)
{
    struct async_call async = {.call.done = async_done};
    atomic_store(&ended, 0);
    world_start(&world, NULL);
    ck_assert(rq_loop_run(world.loop, wait_and_fail, &async));
    ck_assert_int_eq(async.ends, 1);
    ck_assert_int_eq(async.status, RMQ_ERR_CONNECT);
    world_stop(&world);
}
END_TEST

START_TEST(asynchronous_calls_are_bounded)
{
    int index[11];
    struct world_options options = {.peers.max_async = 10};
    world_start(&world, &options);
    struct async_call *calls = start_calls(10, CODE_SILENCE, 60000, index, 10);
    struct async_call extra = {.call.done = async_done};
    ck_assert_int_eq(rq_peer_call(world.peer, &extra.call, world_request(CODE_SILENCE, "", 0),
                                  rq_deadline_ms(100), RQ_WAIT),
                     RMQ_ERR_BUSY);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK); /* blocking ones are not counted */
    world_stop(&world);
    check_all(calls, 10, RMQ_ERR_CLOSED);
    free(calls);
}
END_TEST

START_TEST(the_server_calls_the_client)
{
    world_start(&world, NULL);
    struct rq_reply reply = {0};
    ck_assert_int_eq(rq_peer_call_reply(world.peer, world_request(CODE_CALLBACK, NULL, 0),
                                        rq_deadline_ms(5000), RQ_WAIT, &reply),
                     RMQ_OK);
    ck_assert(rq_slice_eq_str(reply.body, "back"));
    rq_reply_free(&reply);
    world_stop(&world);
}
END_TEST

/* A server that accepts and then is silent, as one behind a cut cable. */
START_TEST(a_silent_connection_is_replaced)
{
    world_start(&world, NULL);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    int64_t deadline = rq_deadline_ms(20000);
    while (atomic_load(&world.disconnected) == 0 && rq_mono_ms() < deadline) {
        struct rq_reply reply = {0};
        rmq_status st = rq_peer_call_reply(world.peer, world_request(CODE_SILENCE, NULL, 0),
                                           rq_deadline_ms(400), RQ_WAIT, &reply);
        ck_assert(st == RMQ_ERR_TIMEOUT || st == RMQ_ERR_DISCONNECTED);
    }
    ck_assert_int_eq(atomic_load(&world.disconnected), 1);
    ck_assert_int_eq(world_echo(&world, "x", 1, 5000), RMQ_OK);
    ck_assert_int_eq(atomic_load(&world.connected), 2);
    world_stop(&world);
}
END_TEST

/* Callers write, the server cuts, connections come and go: each call ends once, with an answer
 * or a reason. */
static void *stormy_thread(void *arg)
{
    int *mine = arg;
    for (int i = 0; i < 500; i++) {
        struct rq_reply reply = {0};
        int code = (i + *mine) % 97 == 0 ? CODE_CUT : CODE_ECHO;
        rmq_status st = rq_peer_call_reply(world.peer, world_request(code, &i, sizeof i),
                                           rq_deadline_ms(10000), RQ_PATIENT, &reply);
        if (st == RMQ_OK) {
            ck_assert(rq_slice_eq(reply.body, rq_slice(&i, sizeof i)));
        } else {
            ck_assert_int_eq(st, RMQ_ERR_DISCONNECTED);
            rq_peer_reset(world.peer);
        }
        rq_reply_free(&reply);
    }
    return NULL;
}

static void *resetting_thread(void *arg)
{
    _Atomic bool *stop = arg;
    while (!atomic_load(stop)) {
        rq_peer_reset(world.peer);
        world_echo(&world, "x", 1, 5);
    }
    return NULL;
}

START_TEST(calls_end_once_while_connections_come_and_go)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    int index[THREADS];
    int asyncs[400];
    _Atomic bool stop;
    pthread_t resetter;
    atomic_init(&stop, false);
    struct world_options options = {.peers.backoff_first_ms = 1, .peers.backoff_most_ms = 2};
    world_start(&world, &options);
    for (int i = 0; i < THREADS; i++) {
        index[i] = i * 13;
        pthread_create(&threads[i], NULL, stormy_thread, &index[i]);
    }
    pthread_create(&resetter, NULL, resetting_thread, &stop);
    atomic_store(&ended, 0);
    struct async_call *calls = calloc(400, sizeof *calls);
    int started = 0;
    for (int i = 0; i < 400; i++) {
        asyncs[i] = i;
        calls[i].call.done = async_done;
        calls[i].call.user = &asyncs[i];
        rmq_status st = rq_peer_call(world.peer, &calls[i].call,
                                     world_request(CODE_ECHO, &asyncs[i], sizeof asyncs[i]),
                                     rq_deadline_ms(10000), RQ_PATIENT);
        ck_assert(st == RMQ_OK || st == RMQ_ERR_DISCONNECTED);
        started += st == RMQ_OK;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&stop, true);
    pthread_join(resetter, NULL);
    wait_for(&ended, started);
    ck_assert_int_eq(world_echo(&world, "calm", 4, 10000), RMQ_OK);
    world_stop(&world);
    ck_assert_int_eq(atomic_load(&ended), started);
    for (int i = 0; i < 400; i++) {
        ck_assert_int_le(calls[i].ends, 1);
    }
    free(calls);
}
END_TEST

Suite *call_suite(void)
{
    Suite *suite = suite_create("net/call");
    TCase *tc = tcase_create("call");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, sixteen_threads_share_one_connection);
    tcase_add_test(tc, a_hundred_thousand_asynchronous_calls_end_once_each);
    tcase_add_test(tc, more_calls_than_any_table_size_wait_at_once);
    tcase_add_test(tc, a_single_answer_among_many_bulk_calls_is_not_left_lying);
    tcase_add_test(tc, a_call_that_somebody_sleeps_for_ends_the_gathering_of_answers);
    tcase_add_test(tc, deadlines_are_kept_to_some_milliseconds);
    tcase_add_test(tc, a_short_deadline_after_a_long_one_comes_first);
    tcase_add_test(tc, a_blocking_call_times_out_and_its_late_answer_is_dropped);
    tcase_add_test(tc, a_lost_connection_ends_all_its_calls_at_once);
    tcase_add_test(tc, a_call_that_was_never_written_says_so);
    tcase_add_test(tc, a_cancelled_call_never_ends);
    tcase_add_test(tc, a_call_that_the_loop_is_about_to_fail_cannot_be_taken_back);
    tcase_add_test(tc, asynchronous_calls_are_bounded);
    tcase_add_test(tc, the_server_calls_the_client);
    tcase_add_test(tc, a_silent_connection_is_replaced);
    tcase_add_test(tc, calls_end_once_while_connections_come_and_go);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The failure matrix: what a bad way to the broker does, for each kind of send, half messages of
 * transactions among them. Every accepted send has one outcome, the documented one, by its
 * deadline. How late a thread may be on this machine is measured beside it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS    20000
#define TIMEOUT_MS 120
#define BREAK_MS   400 /* enough for attempts, if not for all of them with their pauses */
#define UNSEEN_MS  25
#define SEND_V2    310
#define SEND_BATCH 320

/* ---- how late this machine wakes a thread ---- */

struct lateness {
    pthread_t thread;
    atomic_bool stop;
    _Atomic int64_t worst_ms;
};

static void *measure(void *arg)
{
    struct lateness *lateness = arg;
    while (!atomic_load(&lateness->stop)) {
        int64_t start = tl_now_ms();
        const struct timespec pause = {.tv_nsec = 5000000};
        nanosleep(&pause, NULL);
        int64_t late = tl_now_ms() - start - 5;
        if (late > atomic_load(&lateness->worst_ms)) {
            atomic_store(&lateness->worst_ms, late);
        }
    }
    return NULL;
}

static void begin_measuring(struct lateness *lateness)
{
    atomic_init(&lateness->stop, false);
    atomic_init(&lateness->worst_ms, 0);
    TL_EQUAL(pthread_create(&lateness->thread, NULL, measure, lateness), 0);
}

static void end_measuring(struct lateness *lateness)
{
    atomic_store(&lateness->stop, true);
    pthread_join(lateness->thread, NULL);
}

/* 50 ms and 5 %, and for each thread on the way what this machine takes to wake one. Of a machine
 * that is busy the measuring thread does not see all. */
static int64_t latest_ms(const struct lateness *lateness, int64_t timeout_ms)
{
    int64_t worst = atomic_load(&lateness->worst_ms);
    return timeout_ms + timeout_ms / 20 + 50 + 6 * (worst < UNSEEN_MS ? UNSEEN_MS : worst);
}

/* ---- the way to the broker ---- */

struct way {
    struct tl_detour detour;
    rmq_producer *producer;
    rmq_message *message;
};

static void open_producer(struct way *way)
{
    rmq_error *err = NULL;
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = way->detour.cluster.group;
    options.namesrv_addr = tl_namesrv_addr(way->detour.namesrv);
    TL_OK(rmq_producer_create(&options, &way->producer, &err));
}

static void open_way(struct way *way)
{
    rmq_error *err = NULL;
    tl_detour_start(&way->detour, 4, NULL);
    open_producer(way);
    TL_OK(rmq_message_create(way->detour.cluster.topic, &way->message, &err));
    TL_EQUAL(rmq_message_copy_body(way->message, "failure", 7), RMQ_OK);
}

static void close_way(struct way *way)
{
    rmq_producer_destroy(way->producer);
    rmq_message_destroy(way->message);
    tl_detour_stop(&way->detour);
}

/* Messages in the topic, asked of the broker itself. */
static int64_t stored(const struct way *way)
{
    return tl_stored(way->detour.cluster.namesrv, way->detour.cluster.topic);
}

/* ---- one send of each kind ---- */

enum kind { KIND_SYNC, KIND_BATCH, KIND_ASYNC, KIND_ASYNC_BATCH, KIND_TRANSACTION, KINDS };

struct outcome {
    atomic_int calls;
    rmq_status status;
    int32_t code;
    bool maybe_stored;
    int64_t began_ms;
    int64_t ended_ms;
    atomic_int executed; /* a transaction's own part */
};

static void take(struct outcome *outcome, const rmq_error *err)
{
    outcome->ended_ms = tl_now_ms();
    outcome->status = err ? rmq_error_status(err) : RMQ_OK;
    outcome->code = rmq_error_remote_code(err);
    outcome->maybe_stored = rmq_error_maybe_stored(err);
    atomic_fetch_add(&outcome->calls, 1);
}

static void note(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)result;
    take(user, err);
}

static bool is_over(void *arg)
{
    return atomic_load(&((struct outcome *)arg)->calls) > 0;
}

static rmq_transaction_state execute(const rmq_message *message, const char *id, void *user)
{
    (void)message;
    (void)id;
    atomic_fetch_add(&((struct outcome *)user)->executed, 1);
    return RMQ_TRANSACTION_COMMIT;
}

static void begin_send(struct way *way, enum kind kind, int64_t timeout_ms, struct outcome *outcome)
{
    const rmq_message *batch[] = {way->message, way->message};
    rmq_error *err = NULL;
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = timeout_ms;
    outcome->began_ms = tl_now_ms();
    switch (kind) {
    case KIND_SYNC:
        (void)rmq_producer_send(way->producer, way->message, timeout_ms, NULL, &err);
        take(outcome, err);
        break;
    case KIND_BATCH:
        (void)rmq_producer_send_batch(way->producer, batch, 2, timeout_ms, NULL, &err);
        take(outcome, err);
        break;
    case KIND_TRANSACTION:
        (void)rmq_producer_send_in_transaction(way->producer, way->message, execute, outcome,
                                               timeout_ms, NULL, NULL, &err);
        take(outcome, err);
        break;
    case KIND_ASYNC:
        TL_OK(rmq_producer_send_async_with(way->producer, way->message, &how, note, outcome, &err));
        break;
    default:
        TL_OK(rmq_producer_send_batch_async(way->producer, batch, 2, &how, note, outcome, &err));
        break;
    }
    rmq_error_destroy(err);
}

/* ---- the matrix ---- */

struct row {
    const char *name;
    const char *script; /* CODE is replaced by the request's */
    rmq_status status;
    bool maybe_stored;
    int stored_least, stored_most; /* sends that the broker stored, of one */
    int64_t timeout_ms;
};

static const struct row rows[] = {
    {"nothing", "", RMQ_OK, false, 1, 1, WAIT_MS},
    {"requests are lost", "drop request CODE times -1", RMQ_ERR_TIMEOUT, true, 0, 0, TIMEOUT_MS},
    {"answers are lost", "drop response CODE times -1", RMQ_ERR_TIMEOUT, true, 1, 1, TIMEOUT_MS},
    {"the answer is late, in time", "delay response CODE times 1 ms 50", RMQ_OK, false, 1, 1,
     WAIT_MS},
    {"the answer is too late", "delay response CODE times 1 ms 300", RMQ_ERR_TIMEOUT, true, 1, 1,
     TIMEOUT_MS},
    /* It comes all the same, and must have come before the next row counts. */
    {"the request is too late", "delay request CODE times 1 ms 300", RMQ_ERR_TIMEOUT, true, 1, 1,
     TIMEOUT_MS},
    {"the connection breaks once", "cut request CODE times 1", RMQ_OK, false, 1, 1, WAIT_MS},
    {"it breaks inside the request", "cutmid request CODE times 1", RMQ_OK, false, 1, 1, WAIT_MS},
    {"it breaks inside the answer", "cutmid response CODE times 1", RMQ_OK, false, 2, 2, WAIT_MS},
    {"it always breaks", "cut request CODE times -1", RMQ_ERR_DISCONNECTED, true, 0, 0, BREAK_MS},
    {"it always breaks inside the answer", "cutmid response CODE times -1", RMQ_ERR_DISCONNECTED,
     true, 1, 3, BREAK_MS},
    {"busy twice", "answer request CODE times 2 code 2 remark busy", RMQ_OK, false, 1, 1, WAIT_MS},
    {"always busy", "answer request CODE times -1 code 2 remark busy", RMQ_ERR_BROKER, false, 0, 0,
     WAIT_MS},
    {"refused", "answer request CODE times -1 code 13 remark illegal", RMQ_ERR_BROKER, false, 0, 0,
     WAIT_MS},
};

static void set_rules(struct way *way, const char *script, enum kind kind)
{
    char text[256] = "";
    const char *code = strstr(script, "CODE");
    bool batch = kind == KIND_BATCH || kind == KIND_ASYNC_BATCH;
    tl_proxy_clear(way->detour.proxy);
    if (code) {
        snprintf(text, sizeof text, "%.*s%d%s", (int)(code - script), script,
                 batch ? SEND_BATCH : SEND_V2, code + 4);
        TL_CHECK(tl_proxy_script(way->detour.proxy, text));
    }
}

static void check(const struct row *row, enum kind kind, const struct outcome *outcome,
                  const struct lateness *lateness)
{
    bool breaks = row->status == RMQ_ERR_DISCONNECTED;
    /* The deadline may come first, with or without a connection. */
    bool timed =
        outcome->status == RMQ_ERR_TIMEOUT || (breaks && outcome->status == RMQ_ERR_CONNECT);
    int64_t took = outcome->ended_ms - outcome->began_ms;
    if ((outcome->status != row->status && !(breaks && timed)) ||
        outcome->maybe_stored != row->maybe_stored) {
        tl_fail(__FILE__, __LINE__, "%s, kind %d: %s, maybe stored %d", row->name, (int)kind,
                rmq_status_name(outcome->status), outcome->maybe_stored);
    }
    if (timed && (took < row->timeout_ms - 2 || took > latest_ms(lateness, row->timeout_ms))) {
        tl_fail(__FILE__, __LINE__, "%s, kind %d: %lld ms, asked for %lld, machine late by %lld",
                row->name, (int)kind, (long long)took, (long long)row->timeout_ms,
                (long long)atomic_load(&lateness->worst_ms));
    }
}

struct stored_wait {
    const struct way *way;
    int64_t least;
};

static bool has_stored(void *arg)
{
    const struct stored_wait *wait = arg;
    return stored(wait->way) >= wait->least;
}

static void run_row(struct way *way, const struct row *row, enum kind kind,
                    const struct lateness *lateness)
{
    struct outcome outcome = {0};
    struct outcome after = {0};
    int64_t before = stored(way);
    int messages = kind == KIND_BATCH || kind == KIND_ASYNC_BATCH ? 2 : 1;
    set_rules(way, row->script, kind);
    begin_send(way, kind, row->timeout_ms, &outcome);
    TL_CHECK(tl_wait(is_over, &outcome, WAIT_MS));
    check(row, kind, &outcome, lateness);
    tl_proxy_clear(way->detour.proxy);
    int least = row->stored_least;
    int most = row->stored_most;
    /* only a commit makes a message, and there is one for a half that was answered */
    if (kind == KIND_TRANSACTION) {
        least = most = outcome.status == RMQ_OK;
        TL_EQUAL(atomic_load(&outcome.executed), least);
    }
    struct stored_wait wait = {way, before + (int64_t)least * messages};
    TL_CHECK(tl_wait(has_stored, &wait, WAIT_MS));
    /* The way is good again: so is the next send, whatever comes late. */
    int64_t now = stored(way);
    begin_send(way, kind, WAIT_MS, &after);
    TL_CHECK(tl_wait(is_over, &after, WAIT_MS));
    if (after.status != RMQ_OK) {
        tl_fail(__FILE__, __LINE__, "after %s, kind %d: %s", row->name, (int)kind,
                rmq_status_name(after.status));
    }
    struct stored_wait last = {way, now + messages}; /* before the next row counts */
    TL_CHECK(tl_wait(has_stored, &last, WAIT_MS));
    if (now - before > (int64_t)most * messages) {
        tl_fail(__FILE__, __LINE__, "%s, kind %d: %lld stored, not %d at most", row->name,
                (int)kind, (long long)(now - before), most * messages);
    }
    TL_EQUAL(atomic_load(&outcome.calls), 1);
    TL_EQUAL(atomic_load(&after.calls), 1);
}

static void run_kind(enum kind kind)
{
    struct way way;
    struct lateness lateness;
    open_way(&way);
    begin_measuring(&lateness);
    bool batch = kind == KIND_BATCH || kind == KIND_ASYNC_BATCH;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((batch || kind == KIND_TRANSACTION) && rows[i].timeout_ms == BREAK_MS) {
            continue; /* takes long, and is the same for all */
        }
        run_row(&way, &rows[i], kind, &lateness);
    }
    end_measuring(&lateness);
    close_way(&way);
}

static void blocking_sends_meet_every_fault_with_the_documented_outcome(void)
{
    run_kind(KIND_SYNC);
}

static void blocking_batches_meet_every_fault_with_the_documented_outcome(void)
{
    run_kind(KIND_BATCH);
}

static void half_messages_meet_every_fault_and_only_stored_ones_are_executed(void)
{
    run_kind(KIND_TRANSACTION);
}

static void asynchronous_sends_meet_every_fault_with_the_documented_outcome(void)
{
    run_kind(KIND_ASYNC);
}

static void asynchronous_batches_meet_every_fault_with_the_documented_outcome(void)
{
    run_kind(KIND_ASYNC_BATCH);
}

/* ---- a broker that is not there ---- */

static void run_absent(struct way *way, enum kind kind, bool maybe_stored)
{
    struct lateness lateness;
    struct outcome outcome = {0};
    begin_measuring(&lateness);
    begin_send(way, kind, TIMEOUT_MS, &outcome);
    TL_CHECK(tl_wait(is_over, &outcome, WAIT_MS));
    end_measuring(&lateness);
    TL_CHECK(outcome.status == RMQ_ERR_TIMEOUT || outcome.status == RMQ_ERR_DISCONNECTED ||
             outcome.status == RMQ_ERR_CONNECT);
    TL_CHECK(maybe_stored || !outcome.maybe_stored);
    TL_CHECK(outcome.ended_ms - outcome.began_ms <= latest_ms(&lateness, TIMEOUT_MS));
    TL_EQUAL(atomic_load(&outcome.calls), 1);
}

static void check_oneway(struct way *way)
{
    struct lateness lateness;
    rmq_send_options how;
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = TIMEOUT_MS;
    begin_measuring(&lateness);
    int64_t start = tl_now_ms();
    (void)rmq_producer_send_oneway_with(way->producer, way->message, &how, NULL);
    int64_t took = tl_now_ms() - start;
    end_measuring(&lateness);
    TL_CHECK(took <= latest_ms(&lateness, TIMEOUT_MS));
}

static void a_broker_that_refuses_or_swallows_everything_costs_the_deadline_at_most(void)
{
    struct way way;
    open_way(&way);
    struct outcome first = {0};
    begin_send(&way, KIND_SYNC, WAIT_MS, &first);
    TL_EQUAL(first.status, RMQ_OK);
    tl_proxy_blackhole(way.detour.proxy, true);
    for (int kind = 0; kind < KINDS; kind++) {
        run_absent(&way, (enum kind)kind, true);
    }
    check_oneway(&way);
    tl_proxy_blackhole(way.detour.proxy, false);
    tl_proxy_refuse(way.detour.proxy, true);
    for (int kind = 0; kind < KINDS; kind++) {
        run_absent(&way, (enum kind)kind, true);
    }
    check_oneway(&way);
    tl_proxy_refuse(way.detour.proxy, false);
    struct outcome last = {0};
    begin_send(&way, KIND_SYNC, WAIT_MS, &last);
    TL_EQUAL(last.status, RMQ_OK);
    close_way(&way);
}

/* Accepts, ends its own direction at once, and reads on without a word. */
struct half {
    pthread_t thread;
    int listener;
    char addr[32];
    atomic_int accepted;
};

static void *serve_half(void *arg)
{
    struct half *half = arg;
    int fd;
    while ((fd = accept(half->listener, NULL, NULL)) >= 0) {
        (void)shutdown(fd, SHUT_WR);
        atomic_fetch_add(&half->accepted, 1); /* left open: the case's process ends soon */
    }
    return NULL;
}

static void start_half(struct half *half)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    half->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TL_EQUAL(bind(half->listener, (struct sockaddr *)&in, size), 0);
    TL_EQUAL(listen(half->listener, 16), 0);
    TL_EQUAL(getsockname(half->listener, (struct sockaddr *)&in, &size), 0);
    snprintf(half->addr, sizeof half->addr, "127.0.0.1:%d", ntohs(in.sin_port));
    atomic_init(&half->accepted, 0);
    TL_EQUAL(pthread_create(&half->thread, NULL, serve_half, half), 0);
}

static void a_half_open_connection_is_no_connection(void)
{
    struct way way;
    struct half half;
    char brokers[256];
    open_way(&way);
    start_half(&half);
    snprintf(brokers, sizeof brokers, "a@%s", half.addr);
    rmq_producer_destroy(way.producer);
    tl_namesrv_brokers(way.detour.namesrv, way.detour.cluster.topic, brokers, 4);
    open_producer(&way);
    for (int kind = 0; kind < KINDS; kind++) {
        run_absent(&way, (enum kind)kind, true);
    }
    check_oneway(&way);
    TL_CHECK(atomic_load(&half.accepted) > 0);
    TL_CHECK(atomic_load(&half.accepted) < 1000); /* reconnecting has its pauses */
    (void)shutdown(half.listener, SHUT_RDWR);
    pthread_join(half.thread, NULL);
    close(half.listener);
    close_way(&way);
}

/* ---- answers ---- */

/* Not 16, no permission, which another broker might give; there is none. */
static bool is_tried_again(int code)
{
    static const int codes[] = {1, 2, 14, 17, 204, 205, 1500};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i] == code) {
            return true;
        }
    }
    return false;
}

static void every_error_code_of_a_broker_is_told_as_it_is(void)
{
    static const int codes[] = {1,   2,   3,   4,   13,  14,  15,  16,  17,  18,  21,   22,   23,
                                24,  25,  26,  27,  28,  100, 200, 201, 202, 203, 204,  205,  206,
                                207, 208, 209, 210, 211, 212, 213, 214, 215, 604, 1500, 2000, 2012};
    struct way way;
    open_way(&way);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        for (int kind = KIND_SYNC; kind <= KIND_ASYNC; kind += KIND_ASYNC) {
            char script[128];
            struct outcome outcome = {0};
            uint64_t before = tl_proxy_seen(way.detour.proxy, SEND_V2);
            snprintf(script, sizeof script, "answer request 310 times -1 code %d remark word",
                     codes[i]);
            tl_proxy_clear(way.detour.proxy);
            TL_CHECK(tl_proxy_script(way.detour.proxy, script));
            begin_send(&way, (enum kind)kind, WAIT_MS, &outcome);
            TL_CHECK(tl_wait(is_over, &outcome, WAIT_MS));
            TL_EQUAL(outcome.status, RMQ_ERR_BROKER);
            TL_EQUAL(outcome.code, codes[i]);
            TL_CHECK(!outcome.maybe_stored);
            TL_EQUAL(tl_proxy_seen(way.detour.proxy, SEND_V2) - before,
                     is_tried_again(codes[i]) ? 3 : 1);
        }
    }
    close_way(&way);
}

static void one_way_sends_survive_every_fault(void)
{
    static const char *const scripts[] = {"drop request 310 times -1", "cut request 310 times 1",
                                          "cutmid request 310 times 1",
                                          "delay request 310 times 1 ms 100"};
    struct way way;
    rmq_error *err = NULL;
    open_way(&way);
    struct outcome first = {0};
    begin_send(&way, KIND_SYNC, WAIT_MS, &first); /* the route is known, the connection stands */
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        tl_proxy_clear(way.detour.proxy);
        TL_CHECK(tl_proxy_script(way.detour.proxy, scripts[i]));
        for (int k = 0; k < 5; k++) {
            /* Handed over, or told at once that the connection is gone. */
            rmq_status st = rmq_producer_send_oneway(way.producer, way.message, &err);
            TL_CHECK(st == RMQ_OK || st == RMQ_ERR_DISCONNECTED || st == RMQ_ERR_CONNECT);
            rmq_error_destroy(err);
            err = NULL;
        }
    }
    tl_proxy_clear(way.detour.proxy);
    struct outcome last = {0};
    begin_send(&way, KIND_SYNC, WAIT_MS, &last);
    TL_EQUAL(last.status, RMQ_OK);
    close_way(&way);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(blocking_sends_meet_every_fault_with_the_documented_outcome),
        TL_CASE(blocking_batches_meet_every_fault_with_the_documented_outcome),
        TL_CASE(half_messages_meet_every_fault_and_only_stored_ones_are_executed),
        TL_CASE(asynchronous_sends_meet_every_fault_with_the_documented_outcome),
        TL_CASE(asynchronous_batches_meet_every_fault_with_the_documented_outcome),
        TL_CASE(one_way_sends_survive_every_fault),
        TL_CASE(a_broker_that_refuses_or_swallows_everything_costs_the_deadline_at_most),
        TL_CASE(a_half_open_connection_is_no_connection),
        TL_CASE(every_error_code_of_a_broker_is_told_as_it_is),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

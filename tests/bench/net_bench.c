/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What net costs by itself: a forked server answers sends and pulls without storing anything, this
 * process calls it over loopback. Prints CPU per message of each side. Usage: net_bench
 * ping|sync|async|consume [count [threads|window [body]]].
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "net/client.h"
#include "net/gate.h"
#include "net/listener.h"
#include "wire/command.h"

enum { PULL_MESSAGES = 32 };

static size_t body_bytes = 1024;
static char body[1 << 20];
static struct rq_peer *peer;

static void die(const char *what, rmq_status st)
{
    fprintf(stderr, "%s: %s\n", what, rmq_status_name(st));
    exit(1);
}

static int64_t cpu_us(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (int64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec +
           use.ru_stime.tv_usec;
}

/* ---- server, in the child ---- */

static void answer_send(struct rq_conn *conn, struct rq_in *in)
{
    struct rq_hdr_send_response fields = {.msg_id =
                                              rq_slice_str("7F00000100002A9F00000000000003E8"),
                                          .queue_id = 1,
                                          .queue_offset = 42};
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_spec spec = rq_frame_response(in->header, 0, &rq_tab_send_response, &fields);
    rq_out_encode(out, &spec, rq_slice(NULL, 0), NULL);
    rq_conn_send(conn, out);
}

static void answer_pull(struct rq_conn *conn, struct rq_in *in)
{
    struct rq_hdr_pull_response fields = {.next_begin_offset = 32, .max_offset = 1000};
    struct rq_out *out = rq_out_create(0);
    size_t n = PULL_MESSAGES * (body_bytes + 250);
    struct rq_frame_spec spec = rq_frame_response(in->header, 0, &rq_tab_pull_response, &fields);
    rq_frame_encode(&out->head, &spec, n, NULL);
    rq_out_add(out, body, n, NULL, NULL);
    rq_conn_send(conn, out);
}

static void on_request(void *user, struct rq_conn *conn, struct rq_in *in)
{
    if (in->header->code == RQ_REQ_SEND_MESSAGE_V2) {
        struct rq_hdr_send fields;
        if (rq_fields_decode(&rq_tab_send_v2, in->header, &fields, NULL) == RMQ_OK) {
            answer_send(conn, in);
        }
    } else {
        answer_pull(conn, in);
    }
}

static void serve(int port_pipe, int end_pipe, int cpu_pipe)
{
    struct rq_loop *loop = NULL;
    struct rq_server *server = NULL;
    rmq_status st = rq_loop_create("server", &loop, NULL);
    struct rq_server_options options = {
        .loops = &loop, .loop_count = 1, .address = "127.0.0.1", .on_request = on_request};
    if (st == RMQ_OK) {
        st = rq_server_create(&options, &server, NULL);
    }
    if (st != RMQ_OK) {
        die("server", st);
    }
    uint16_t port = rq_server_port(server);
    if (write(port_pipe, &port, sizeof port) != sizeof port) {
        die("pipe", RMQ_ERR_IO);
    }
    char c;
    int64_t cpu = 0;
    while (read(end_pipe, &c, 1) == 1) {
        cpu = cpu_us() - cpu; /* since the call before */
        if (write(cpu_pipe, &cpu, sizeof cpu) != sizeof cpu) {
            break;
        }
        cpu = cpu_us();
    }
    rq_server_destroy(server);
    rq_loop_put(loop);
    exit(0);
}

/* ---- client ---- */

static struct rq_out *make_send(void)
{
    struct rq_hdr_send fields = {
        .producer_group = rq_slice_str("bench_producer"),
        .topic = rq_slice_str("BenchTopic"),
        .default_topic = rq_slice_str("TBW102"),
        .default_topic_queue_nums = 4,
        .queue_id = 1,
        .born_timestamp = 1700000000000,
        .properties =
            rq_slice_str("UNIQ_KEY\0017F0000010000123456780000000003E8\002WAIT\001true\002")};
    struct rq_out *out = rq_out_create(1024 + body_bytes);
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_SEND_MESSAGE_V2, &rq_tab_send_v2, &fields);
    rq_out_encode(out, &spec, rq_slice(body, body_bytes), NULL);
    return out;
}

static struct rq_out *make_pull(void)
{
    struct rq_hdr_pull fields = {.consumer_group = rq_slice_str("bench_consumer"),
                                 .topic = rq_slice_str("BenchTopic"),
                                 .queue_id = 1,
                                 .queue_offset = 1000,
                                 .max_msg_nums = 32};
    struct rq_out *out = rq_out_create(0);
    struct rq_frame_spec spec =
        rq_frame_request(RQ_SERIALIZE_JSON, RQ_REQ_PULL_MESSAGE, &rq_tab_pull, &fields);
    rq_out_encode(out, &spec, rq_slice(NULL, 0), NULL);
    return out;
}

static void decode_answer(struct rq_sync_call *sync, struct rq_in *in)
{
    struct rq_hdr_send_response fields;
    if (rq_fields_decode(&rq_tab_send_response, in->header, &fields, NULL) != RMQ_OK) {
        sync->status = RMQ_ERR_PROTOCOL;
    }
}

static int64_t per_thread;

static void *sync_thread(void *arg)
{
    for (int64_t i = 0; i < per_thread; i++) {
        struct rq_sync_call sync = {.on_answer = decode_answer};
        rmq_status st = rq_peer_call_sync(peer, &sync, make_send(), rq_deadline_ms(5000), RQ_WAIT);
        if (st != RMQ_OK) {
            die("sync", st);
        }
    }
    return arg;
}

static void run_sync(int64_t count, int threads)
{
    pthread_t ids[64];
    per_thread = count / threads;
    for (int i = 0; i < threads; i++) {
        pthread_create(&ids[i], NULL, sync_thread, NULL);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
}

/* An asynchronous sender on a thread of its own: blocks when the window is full. */
static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t window_cond = PTHREAD_COND_INITIALIZER;
static _Atomic int64_t in_flight;
static _Atomic bool sleeping;
static int64_t low_water;

static void async_done(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    struct rq_hdr_send_response fields;
    if (st != RMQ_OK ||
        rq_fields_decode(&rq_tab_send_response, in->header, &fields, NULL) != RMQ_OK) {
        die("async", st);
    }
    free(call);
    if (atomic_fetch_sub(&in_flight, 1) - 1 == low_water && atomic_load(&sleeping)) {
        pthread_mutex_lock(&window_lock);
        pthread_cond_signal(&window_cond);
        pthread_mutex_unlock(&window_lock);
    }
}

static void wait_below(int64_t limit)
{
    if (atomic_load(&in_flight) < limit) {
        return;
    }
    pthread_mutex_lock(&window_lock);
    atomic_store(&sleeping, true);
    while (atomic_load(&in_flight) > low_water) {
        pthread_cond_wait(&window_cond, &window_lock);
    }
    atomic_store(&sleeping, false);
    pthread_mutex_unlock(&window_lock);
}

static void run_async(int64_t count, int64_t window)
{
    low_water = window / 2;
    for (int64_t i = 0; i < count; i++) {
        wait_below(window);
        struct rq_call *call = calloc(1, sizeof *call);
        call->done = async_done;
        atomic_fetch_add(&in_flight, 1);
        rmq_status st = rq_peer_call(peer, call, make_send(), rq_deadline_ms(5000), RQ_WAIT);
        if (st != RMQ_OK) {
            die("async", st);
        }
    }
    low_water = 0;
    wait_below(1);
}

/* Pulls, each started by the answer of the one before. */
static _Atomic int64_t pulls_left;
static struct rq_gate pulls_done;
static _Atomic int pulling;

static void pull_done(struct rq_call *call, rmq_status st, struct rq_in *in)
{
    if (st != RMQ_OK) {
        die("pull", st);
    }
    struct rq_frame_ref *ref = rq_in_keep(in);
    volatile char sum = 0;
    for (size_t i = 0; i < in->body.n; i += 64) {
        sum = (char)(sum + in->body.p[i]);
    }
    rq_frame_ref_release(ref);
    if (atomic_fetch_sub(&pulls_left, 1) > 0) {
        rq_peer_call(peer, call, make_pull(), rq_deadline_ms(5000), RQ_WAIT);
    } else if (atomic_fetch_sub(&pulling, 1) == 1) {
        rq_gate_open(&pulls_done);
    }
}

static void run_consume(int64_t count, int queues)
{
    static struct rq_call calls[64];
    rq_gate_init(&pulls_done);
    atomic_store(&pulls_left, count / PULL_MESSAGES - queues);
    atomic_store(&pulling, queues);
    for (int i = 0; i < queues; i++) {
        calls[i].done = pull_done;
        rq_peer_call(peer, &calls[i], make_pull(), rq_deadline_ms(5000), RQ_WAIT);
    }
    rq_gate_wait(&pulls_done, RQ_FOREVER);
}

static void run(const char *mode, int64_t count, int width)
{
    if (strcmp(mode, "async") == 0) {
        run_async(count, width);
    } else if (strcmp(mode, "consume") == 0) {
        run_consume(count, width);
    } else {
        run_sync(count, width);
    }
}

static int64_t server_cpu(int end_pipe, int cpu_pipe)
{
    int64_t cpu = 0;
    if (write(end_pipe, "x", 1) != 1 || read(cpu_pipe, &cpu, sizeof cpu) != sizeof cpu) {
        die("pipe", RMQ_ERR_IO);
    }
    return cpu;
}

static int default_width(const char *mode)
{
    return strcmp(mode, "async") == 0     ? 1000
           : strcmp(mode, "sync") == 0    ? 16
           : strcmp(mode, "consume") == 0 ? 8
                                          : 1;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "sync";
    int64_t count = argc > 2 ? strtoll(argv[2], NULL, 10) : 200000;
    int width = argc > 3 ? atoi(argv[3]) : default_width(mode);
    body_bytes = argc > 4 ? (size_t)atoi(argv[4]) : body_bytes;
    memset(body, 'x', sizeof body);
    int port_pipe[2], end_pipe[2], cpu_pipe[2];
    if (pipe(port_pipe) || pipe(end_pipe) || pipe(cpu_pipe)) {
        die("pipe", RMQ_ERR_IO);
    }
    pid_t child = fork();
    if (child == 0) {
        close(end_pipe[1]);
        serve(port_pipe[1], end_pipe[0], cpu_pipe[1]);
    }
    uint16_t port = 0;
    if (read(port_pipe[0], &port, sizeof port) != sizeof port) {
        die("pipe", RMQ_ERR_IO);
    }
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    struct rq_loop *loop = NULL;
    struct rq_peers *peers = NULL;
    struct rq_peers_options options = {0};
    if (rq_loop_shared_get(&loop, NULL) || rq_peers_create(loop, &options, &peers, NULL) ||
        rq_peer_get(peers, address, &peer, NULL)) {
        die("client", RMQ_ERR_INTERNAL);
    }
    run(mode, count / 10, width);
    server_cpu(end_pipe[1], cpu_pipe[0]);
    int64_t wall = rq_mono_us();
    int64_t cpu = cpu_us();
    run(mode, count, width);
    cpu = cpu_us() - cpu;
    wall = rq_mono_us() - wall;
    int64_t theirs = server_cpu(end_pipe[1], cpu_pipe[0]);
    printf("{\"what\":\"net-%s\",\"count\":%lld,\"width\":%d,\"size\":%zu,\"wall_s\":%.3f,"
           "\"msgs_per_s\":%.0f,\"cpu_us_per_msg\":%.2f,\"server_cpu_us_per_msg\":%.2f}\n",
           mode, (long long)count, width, body_bytes, (double)wall / 1e6,
           (double)count * 1e6 / (double)wall, (double)cpu / (double)count,
           (double)theirs / (double)count);
    rq_peer_put(peer);
    rq_peers_destroy(peers);
    rq_loop_put(loop);
    close(end_pipe[1]);
    waitpid(child, NULL, 0);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The producer over ways of sending, body sizes and threads: for each cell CPU time a message of
 * this process, messages a second, time until the answer (of a batch: of its request; one-way: of
 * the call), and allocations of the library a message. producer_bench NAMESRV [SCALE [MODE]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <rmq/rmq.h>

#define BATCH        32
#define WINDOW       1000
#define BYTES_FLYING ((int64_t)64 << 20)
#define MOST_SAMPLES 200000
#define MOST_THREADS 64

enum mode { MODE_SYNC, MODE_ASYNC, MODE_ONEWAY, MODE_BATCH, MODE_BATCH_ASYNC, MODES };
static const char *const mode_names[MODES] = {"sync", "async", "oneway", "batch of 32",
                                              "async by 32"};
static const size_t sizes[] = {128, 1024, 16384, 262144};

#define SIZES (sizeof sizes / sizeof sizes[0])

/* ---- allocations of the library ---- */

static atomic_ullong allocations; /* atomic: relaxed */

static void *count_malloc(size_t n)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return malloc(n);
}

static void *count_realloc(void *p, size_t n)
{
    atomic_fetch_add_explicit(&allocations, p == NULL, memory_order_relaxed);
    return realloc(p, n);
}

/* ---- a run ---- */

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

struct run {
    rmq_producer *producer;
    const char *topic;
    enum mode mode;
    size_t size;
    int64_t count;
    int threads;
    void *body;
    atomic_llong claimed; /* atomic: relaxed: messages that are somebody's */
    atomic_llong errors;  /* atomic: relaxed */
    atomic_llong flying;  /* atomic: acq_rel: asynchronous sends without an answer */
    atomic_uint sampled;  /* atomic: relaxed */
    uint32_t *samples_us; /* MOST_SAMPLES, each written once */
};

static void sample(struct run *run, int64_t begin_ns)
{
    unsigned i = atomic_fetch_add_explicit(&run->sampled, 1, memory_order_relaxed);
    if (i < MOST_SAMPLES) {
        run->samples_us[i] = (uint32_t)((now_ns() - begin_ns) / 1000);
    }
}

static void keep(void *data, void *user)
{
    (void)data;
    (void)user;
}

/* A message whose body is taken: no bytes are copied before the frame. */
static rmq_message *make_message(const struct run *run)
{
    rmq_message *message = NULL;
    if (rmq_message_create(run->topic, &message, NULL) != RMQ_OK ||
        rmq_message_take_body(message, run->body, run->size, keep, NULL) != RMQ_OK) {
        abort();
    }
    return message;
}

struct flight {
    struct run *run;
    int64_t begin_ns;
};

static void answered(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct flight *flight = user;
    (void)result;
    atomic_fetch_add_explicit(&flight->run->errors, err != NULL, memory_order_relaxed);
    sample(flight->run, flight->begin_ns);
    flight->begin_ns = 0;
    atomic_fetch_sub_explicit(&flight->run->flying, 1, memory_order_acq_rel);
}

static int64_t claim(struct run *run, int64_t most)
{
    int64_t at = atomic_fetch_add_explicit(&run->claimed, most, memory_order_relaxed);
    return at >= run->count ? 0 : most < run->count - at ? most : run->count - at;
}

static void note(struct run *run, rmq_status st, int64_t begin_ns)
{
    atomic_fetch_add_explicit(&run->errors, st != RMQ_OK, memory_order_relaxed);
    sample(run, begin_ns);
}

static void run_waiting(struct run *run, rmq_message *message)
{
    while (claim(run, 1) > 0) {
        int64_t begin = now_ns();
        note(run,
             run->mode == MODE_SYNC ? rmq_producer_send(run->producer, message, 0, NULL, NULL)
                                    : rmq_producer_send_oneway(run->producer, message, NULL),
             begin);
    }
}

static void fill_list(const rmq_message *list[BATCH], const rmq_message *message)
{
    for (size_t i = 0; i < BATCH; i++) {
        list[i] = message;
    }
}

static void run_batches(struct run *run, const rmq_message *message)
{
    const rmq_message *list[BATCH];
    fill_list(list, message);
    for (int64_t n; (n = claim(run, BATCH)) > 0;) {
        int64_t begin = now_ns();
        note(run, rmq_producer_send_batch(run->producer, list, (size_t)n, 0, NULL, NULL), begin);
    }
}

/* One message, or a batch of so many. */
static rmq_status start_async(const struct run *run, const rmq_message *const *list, size_t n,
                              struct flight *flight)
{
    return run->mode == MODE_ASYNC
               ? rmq_producer_send_async(run->producer, list[0], answered, flight, NULL)
               : rmq_producer_send_batch_async(run->producer, list, n, NULL, answered, flight,
                                               NULL);
}

/* The producer's window is what holds the sender back. */
static void run_async(struct run *run, const rmq_message *message)
{
    const rmq_message *list[BATCH];
    int64_t step = run->mode == MODE_ASYNC ? 1 : BATCH;
    struct flight *flights = calloc((size_t)(run->count / step + 1), sizeof *flights);
    if (!flights) {
        abort();
    }
    fill_list(list, message);
    struct flight *flight = flights;
    for (int64_t n; (n = claim(run, step)) > 0; flight++) {
        *flight = (struct flight){.run = run, .begin_ns = now_ns()};
        atomic_fetch_add_explicit(&run->flying, 1, memory_order_relaxed);
        if (start_async(run, list, (size_t)n, flight) != RMQ_OK) {
            atomic_fetch_add_explicit(&run->errors, 1, memory_order_relaxed);
            atomic_fetch_sub_explicit(&run->flying, 1, memory_order_relaxed);
        }
    }
    while (atomic_load_explicit(&run->flying, memory_order_acquire) > 0) {
        const struct timespec pause = {.tv_nsec = 2000000}; /* many threads may wait here */
        nanosleep(&pause, NULL);
    }
    free(flights);
}

static void *work(void *arg)
{
    struct run *run = arg;
    rmq_message *message = make_message(run);
    if (run->mode == MODE_ASYNC || run->mode == MODE_BATCH_ASYNC) {
        run_async(run, message);
    } else if (run->mode == MODE_BATCH) {
        run_batches(run, message);
    } else {
        run_waiting(run, message);
    }
    rmq_message_destroy(message);
    return NULL;
}

static void run_all(struct run *run, int64_t count)
{
    pthread_t threads[MOST_THREADS];
    run->count = count;
    atomic_store(&run->claimed, 0);
    atomic_store(&run->errors, 0);
    atomic_store(&run->sampled, 0);
    for (int i = 0; i < run->threads; i++) {
        if (pthread_create(&threads[i], NULL, work, run) != 0) {
            abort();
        }
    }
    for (int i = 0; i < run->threads; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static unsigned part(const struct run *run, size_t n, unsigned thousandth)
{
    return n > 0 ? run->samples_us[(n - 1) * thousandth / 1000] : 0;
}

static void print_row(struct run *run, int64_t wall_ns, int64_t cpu, unsigned long long allocated)
{
    size_t n = atomic_load(&run->sampled);
    n = n < MOST_SAMPLES ? n : MOST_SAMPLES;
    qsort(run->samples_us, n, sizeof run->samples_us[0], by_value);
    double messages = (double)run->count;
    printf("%-12s %7zu %7d | %8.2f %10.0f %8u %8u %8u %8.2f%s\n", mode_names[run->mode], run->size,
           run->threads, (double)cpu / 1000 / messages, messages * 1e9 / (double)wall_ns,
           part(run, n, 500), part(run, n, 990), part(run, n, 999), (double)allocated / messages,
           atomic_load(&run->errors) ? "  ERRORS" : "");
    fflush(stdout);
}

static rmq_producer *start_producer(const char *namesrv)
{
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "producer-bench";
    options.namesrv_addr = namesrv;
    options.compress_type = "NONE";
    options.max_async_in_flight = WINDOW;
    options.max_async_in_flight_bytes = BYTES_FLYING;
    options.send_msg_timeout_ms = 60000; /* a slow machine makes no errors */
    if (rmq_producer_create(&options, &producer, &err) != RMQ_OK) {
        fprintf(stderr, "producer: %s\n", rmq_error_message(err));
        exit(1);
    }
    return producer;
}

static void measure(struct run *run, int64_t count)
{
    run_all(run, count / 10 + BATCH * run->threads); /* warm */
    unsigned long long before = atomic_load(&allocations);
    int64_t wall = now_ns();
    int64_t cpu = cpu_ns();
    run_all(run, count);
    cpu = cpu_ns() - cpu;
    wall = now_ns() - wall;
    print_row(run, wall, cpu, atomic_load(&allocations) - before);
}

/* All sizes and thread counts of one way of sending. */
static void measure_mode(struct run *run, enum mode mode, int64_t scale)
{
    static const int threads[] = {1, 16, 64};
    run->mode = mode;
    for (size_t s = 0; s < SIZES; s++) {
        if (mode >= MODE_BATCH && sizes[s] * BATCH > 4194304) {
            continue; /* beyond maxMessageSize */
        }
        /* At most 512 MiB a cell. */
        int64_t most = ((int64_t)512 << 20) / (int64_t)sizes[s];
        int64_t count = (mode == MODE_SYNC ? 60000 : 200000) / scale;
        run->size = sizes[s];
        for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
            run->threads = threads[t];
            measure(run, count < most / scale ? count : most / scale);
        }
    }
}

int main(int argc, char **argv)
{
    int64_t scale = argc > 2 ? atoll(argv[2]) : 1;
    const char *only = argc > 3 ? argv[3] : NULL;
    if (argc < 2 || scale < 1 || rmq_set_allocator(count_malloc, count_realloc, free) != RMQ_OK) {
        fprintf(stderr, "producer_bench NAMESRV [SCALE [MODE]]\n");
        return 2;
    }
    struct run run = {.producer = start_producer(argv[1]), .topic = "Bench"};
    run.samples_us = calloc(MOST_SAMPLES, sizeof *run.samples_us);
    run.body = calloc(1, sizes[SIZES - 1]);
    if (!run.samples_us || !run.body) {
        return 1;
    }
    printf("%-12s %7s %7s | %8s %10s %8s %8s %8s %8s\n", "producer", "bytes", "threads", "CPU µs",
           "messages/s", "p50 µs", "p99", "p99.9", "allocs");
    for (int mode = 0; mode < MODES; mode++) {
        if (!only || strcmp(only, mode_names[mode]) == 0) {
            measure_mode(&run, (enum mode)mode, scale);
        }
    }
    rmq_producer_destroy(run.producer);
    free(run.samples_us);
    free(run.body);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq bench produce`: sends as fast as it can, with callers that wait (sync), a window of sends on
 * their way (async), or no answers (oneway). Counterpart: the Java benchmark Producer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/producer.h>

#include "tools/bench.h"

#define MOST_THREADS 1024
#define MOST_BATCH   1024

struct bench_produce {
    const char *namesrv, *topic, *group, *mode, *output, *serialize;
    int64_t count, size, batch, threads, window, warmup;
    bool json;
    rmq_producer *producer;
    void *body;
    int64_t goal;         /* messages of the phase that runs */
    atomic_llong claimed; /* atomic: relaxed, shares the goal out among threads */
    atomic_llong done;    /* atomic: relaxed, for the progress line */
    atomic_llong errors;  /* atomic: relaxed, read after the threads are joined */
    pthread_mutex_t lock;
    pthread_cond_t room;
    _Atomic int64_t flying;   /* sends without an answer yet; acq_rel */
    struct bench_times times; /* guarded by lock, or one thread's */
    bool complained;          /* guarded by lock */
};

struct bench_worker {
    struct bench_produce *bench;
    pthread_t thread;
    struct bench_times times;
};

/* The callback gets the time of its send as its user pointer, so the run itself is here. */
static struct bench_produce *current;

static void note_error(struct bench_produce *b, rmq_status st, const rmq_error *err)
{
    atomic_fetch_add_explicit(&b->errors, 1, memory_order_relaxed);
    pthread_mutex_lock(&b->lock);
    bool first = !b->complained;
    b->complained = true;
    pthread_mutex_unlock(&b->lock);
    if (first) {
        fprintf(stderr, "rmq: first error: %s\n",
                err != NULL ? rmq_error_message(err) : rmq_status_text(st));
    }
}

static rmq_message *make_message(struct bench_produce *b)
{
    rmq_message *message = NULL;
    if (rmq_message_create(b->topic, &message, NULL) == RMQ_OK) {
        rmq_message_borrow_body(message, b->body, (size_t)b->size);
    }
    return message;
}

/* One message, or a batch of n. */
static void send_sync(struct bench_produce *b, int64_t n, struct bench_times *times)
{
    rmq_message *list[MOST_BATCH];
    rmq_send_result *result = NULL;
    rmq_error *err = NULL;
    int64_t begin = tool_now_us();
    for (int64_t i = 0; i < n; i++) {
        list[i] = make_message(b);
    }
    rmq_status st = n == 1 ? rmq_producer_send(b->producer, list[0], 0, &result, &err)
                           : rmq_producer_send_batch(b->producer, (const rmq_message *const *)list,
                                                     (size_t)n, 0, &result, &err);
    if (st != RMQ_OK) {
        note_error(b, st, err);
    }
    for (int64_t i = 0; i < n; i++) {
        rmq_message_destroy(list[i]);
    }
    rmq_send_result_destroy(result);
    rmq_error_destroy(err);
    bench_add(times, tool_now_us() - begin);
}

static void *work_sync(void *user)
{
    struct bench_worker *worker = user;
    struct bench_produce *b = worker->bench;
    int64_t at;
    while ((at = atomic_fetch_add_explicit(&b->claimed, b->batch, memory_order_relaxed)) <
           b->goal) {
        int64_t n = b->batch < b->goal - at ? b->batch : b->goal - at;
        send_sync(b, n, &worker->times);
        atomic_fetch_add_explicit(&b->done, n, memory_order_relaxed);
    }
    return NULL;
}

static void run_sync(struct bench_produce *b)
{
    struct bench_worker *workers = calloc((size_t)b->threads, sizeof *workers);
    int64_t started = 0;
    while (workers != NULL && started < b->threads) {
        workers[started].bench = b;
        if (pthread_create(&workers[started].thread, NULL, work_sync, &workers[started]) != 0) {
            break;
        }
        started++;
    }
    for (int64_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        bench_merge(&b->times, &workers[i].times);
    }
    if (started < b->threads) {
        note_error(b, RMQ_ERR_NOMEM, NULL);
    }
    free(workers);
}

/* One callback thread runs this: times needs no lock. A full window opens again when half of it is
 * answered, so that the sender is not woken for each answer. */
static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct bench_produce *b = current;
    int64_t us = tool_now_us() - (int64_t)(intptr_t)user;
    (void)result;
    if (err != NULL) {
        note_error(b, rmq_error_status(err), err);
    }
    bench_add(&b->times, us);
    atomic_fetch_add_explicit(&b->done, 1, memory_order_relaxed);
    int64_t left = atomic_fetch_sub_explicit(&b->flying, 1, memory_order_acq_rel) - 1;
    if (left == b->window / 2 || left == 0) {
        pthread_mutex_lock(&b->lock);
        pthread_cond_signal(&b->room);
        pthread_mutex_unlock(&b->lock);
    }
}

static void wait_flying(struct bench_produce *b, int64_t limit, int64_t until)
{
    if (atomic_load_explicit(&b->flying, memory_order_acquire) < limit) {
        return;
    }
    pthread_mutex_lock(&b->lock);
    while (atomic_load_explicit(&b->flying, memory_order_acquire) > until) {
        pthread_cond_wait(&b->room, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
}

static void run_async(struct bench_produce *b)
{
    for (int64_t i = 0; i < b->goal; i++) {
        rmq_error *err = NULL;
        wait_flying(b, b->window, b->window / 2);
        atomic_fetch_add_explicit(&b->flying, 1, memory_order_relaxed);
        rmq_message *message = make_message(b);
        void *begin = (void *)(intptr_t)tool_now_us();
        rmq_status st = rmq_producer_send_async(b->producer, message, on_sent, begin, &err);
        if (st != RMQ_OK) {
            note_error(b, st, err);
            rmq_error_destroy(err);
            atomic_fetch_sub_explicit(&b->flying, 1, memory_order_relaxed);
        }
        rmq_message_destroy(message);
    }
    wait_flying(b, 1, 0);
}

static void run_oneway(struct bench_produce *b)
{
    for (int64_t i = 0; i < b->goal; i++) {
        rmq_error *err = NULL;
        int64_t begin = tool_now_us();
        rmq_message *message = make_message(b);
        rmq_status st = rmq_producer_send_oneway(b->producer, message, &err);
        if (st != RMQ_OK) {
            note_error(b, st, err);
            rmq_error_destroy(err);
        }
        rmq_message_destroy(message);
        bench_add(&b->times, tool_now_us() - begin);
        atomic_fetch_add_explicit(&b->done, 1, memory_order_relaxed);
    }
}

static void run_phase(struct bench_produce *b, int64_t goal)
{
    b->goal = goal;
    atomic_store_explicit(&b->claimed, 0, memory_order_relaxed);
    atomic_store_explicit(&b->errors, 0, memory_order_relaxed);
    atomic_store_explicit(&b->done, 0, memory_order_relaxed);
    memset(&b->times, 0, sizeof b->times);
    if (strcmp(b->mode, "async") == 0) {
        run_async(b);
    } else if (strcmp(b->mode, "oneway") == 0) {
        run_oneway(b);
    } else {
        run_sync(b);
    }
}

static int start_producer(struct bench_produce *b)
{
    rmq_producer_options options;
    rmq_error *err = NULL;
    rmq_producer_options_init(&options, sizeof options);
    options.namesrv_addr = tool_namesrv_addr(b->namesrv);
    options.producer_group = b->group;
    options.compress_type = "NONE";
    if (b->serialize != NULL) {
        options.serialize_type = b->serialize;
    }
    if (options.max_async_in_flight < b->window) {
        options.max_async_in_flight = (int32_t)b->window;
    }
    rmq_status st = rmq_producer_create(&options, &b->producer, &err);
    return st == RMQ_OK ? TOOL_GO : tool_refuse("producer", st, err);
}

static int measure(struct bench_produce *b)
{
    struct bench_progress progress = {0};
    char what[32];
    snprintf(what, sizeof what, "produce-%s", b->mode);
    struct bench_report report = {
        .what = what, .count = b->count, .size = b->size, .times = &b->times};
    if (b->warmup > 0) {
        run_phase(b, b->warmup);
    }
    report.begin = bench_now();
    bench_progress_start(&progress, &b->done, b->count);
    run_phase(b, b->count);
    if (strcmp(b->mode, "oneway") == 0) {
        rmq_producer_shutdown(b->producer, 0, NULL); /* until what was handed over is written */
    }
    bench_progress_stop(&progress);
    report.end = bench_now();
    report.errors = atomic_load_explicit(&b->errors, memory_order_relaxed);
    bench_print(&report, b->json);
    return report.errors == 0 ? TOOL_DONE : TOOL_FAILED;
}

static int check_options(struct bench_produce *b)
{
    if (b->topic == NULL) {
        return tool_wrong("a topic is needed: -t TOPIC");
    }
    if (strcmp(b->mode, "sync") != 0 && strcmp(b->mode, "async") != 0 &&
        strcmp(b->mode, "oneway") != 0) {
        return tool_wrong("--mode is sync, async or oneway, not '%s'", b->mode);
    }
    if (b->batch > 1 && strcmp(b->mode, "sync") != 0) {
        return tool_wrong("--batch is for --mode sync");
    }
    if (b->warmup < 0) {
        b->warmup = b->count / 5 < 20000 ? b->count / 5 : 20000;
    }
    b->body = malloc((size_t)b->size + 1);
    if (b->body == NULL) {
        return tool_wrong("no memory for a body of %lld bytes", (long long)b->size);
    }
    memset(b->body, 'b', (size_t)b->size);
    return tool_output(b->output, &b->json) ? TOOL_GO : TOOL_USAGE;
}

static const char text[] =
    "Sends messages as fast as it can and prints messages a second, CPU time a message of this "
    "process, and how long a send\n"
    "takes. Bodies are not compressed. Before the measurement come messages that are not counted.";
static const char examples[] =
    "    rmq bench produce -t Bench --mode sync --threads 16 --count 200000 --size 1024\n"
    "    rmq bench produce -t Bench --mode async --window 1000 --count 1000000 -o json\n";

int tool_bench_produce(int argc, char **argv)
{
    struct bench_produce b = {.group = "rmq-bench",
                              .mode = "sync",
                              .count = 100000,
                              .size = 1024,
                              .batch = 1,
                              .threads = 16,
                              .window = 1000,
                              .warmup = -1,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .room = PTHREAD_COND_INITIALIZER};
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&b.namesrv),
        TOOL_OPTION_TOPIC(&b.topic),
        {'g', "group", TOOL_TEXT, &b.group, "GROUP", "producer group; default rmq-bench", 0, 0},
        {0, "mode", TOOL_TEXT, &b.mode, "MODE", "sync (default), async or oneway", 0, 0},
        {'c', "count", TOOL_NUMBER, &b.count, "N", "messages that are measured; default 100000", 1,
         INT64_MAX / 2},
        {'s', "size", TOOL_NUMBER, &b.size, "BYTES", "bytes of a body; default 1024", 0, 1 << 27},
        {0, "batch", TOOL_NUMBER, &b.batch, "N", "sync: messages of one send; default 1", 1,
         MOST_BATCH},
        {0, "threads", TOOL_NUMBER, &b.threads, "N",
         "sync: callers of the one producer; default 16", 1, MOST_THREADS},
        {0, "window", TOOL_NUMBER, &b.window, "N", "async: sends on their way; default 1000", 1,
         1000000},
        {0, "warmup", TOOL_NUMBER, &b.warmup, "N",
         "messages before; default a fifth of count, at most 20000", 0, INT64_MAX / 2},
        {0, "serialize", TOOL_TEXT, &b.serialize, "WAY", "headers as JSON (default) or ROCKETMQ", 0,
         0},
        TOOL_OPTION_OUTPUT(&b.output),
    };
    const struct tool_usage usage = {
        .synopsis = "bench produce -t TOPIC [options]",
        .text = text,
        .examples = examples,
        .exits = "0 all acknowledged, 1 some not, 2 wrong command line.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_parse(&usage, argc, argv);
    rc = rc == TOOL_GO ? check_options(&b) : rc;
    rc = rc == TOOL_GO ? start_producer(&b) : rc;
    if (rc == TOOL_GO) {
        current = &b;
        rc = measure(&b);
    }
    rmq_producer_destroy(b.producer);
    current = NULL;
    free(b.body);
    return rc;
}

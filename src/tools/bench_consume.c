/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq bench consume`: a push consumer that takes what a topic holds from its first message on. The
 * listener only counts. Counterpart: the Java benchmark Consumer.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rmq/consumer.h>

#include "tools/bench.h"

struct bench_consume {
    const char *namesrv, *topic, *group, *output, *serialize;
    int64_t count, threads, warmup, batch, timeout_s, pause_ms, cache_mib;
    bool json, orderly;
    rmq_consumer *consumer;
    atomic_llong got;   /* atomic: relaxed, messages since start */
    atomic_llong bytes; /* atomic: relaxed, of their bodies */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct bench_moment begin, end; /* guarded by lock */
    bool begun, over;               /* guarded by lock */
};

static void mark(struct bench_consume *b, bool *flag, struct bench_moment *moment)
{
    pthread_mutex_lock(&b->lock);
    *moment = bench_now();
    *flag = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

static rmq_consume_result take(const rmq_message_view *const *messages, size_t count,
                               rmq_consume_context *context, void *user)
{
    struct bench_consume *b = user;
    size_t bytes = 0;
    struct timespec pause = {.tv_sec = b->pause_ms / 1000, .tv_nsec = b->pause_ms % 1000 * 1000000};
    (void)context;
    if (b->pause_ms > 0) {
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        rmq_message_view_body(messages[i], &size);
        bytes += size;
    }
    atomic_fetch_add_explicit(&b->bytes, (long long)bytes, memory_order_relaxed);
    long long before = atomic_fetch_add_explicit(&b->got, (long long)count, memory_order_relaxed);
    long long after = before + (long long)count;
    if (before <= b->warmup && b->warmup < after) {
        mark(b, &b->begun, &b->begin);
    }
    if (before < b->warmup + b->count && b->warmup + b->count <= after) {
        mark(b, &b->over, &b->end);
    }
    return RMQ_CONSUME_SUCCESS;
}

static int start(struct bench_consume *b)
{
    rmq_consumer_options options;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.namesrv_addr = tool_namesrv_addr(b->namesrv);
    options.consumer_group = b->group;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = (int32_t)b->threads;
    options.consume_message_batch_max_size = (int32_t)b->batch;
    options.consume_orderly = b->orderly;
    if (b->cache_mib > 0) {
        options.max_cache_bytes = b->cache_mib << 20;
    }
    options.listener = take;
    options.listener_user = b;
    if (b->serialize != NULL) {
        options.serialize_type = b->serialize;
    }
    rmq_status st = rmq_consumer_create(&options, &b->consumer, &err);
    if (st == RMQ_OK) {
        st = rmq_consumer_subscribe(b->consumer, b->topic, "*", &err);
    }
    if (st == RMQ_OK) {
        st = rmq_consumer_start(b->consumer, &err);
    }
    return st == RMQ_OK ? TOOL_GO : tool_refuse("consumer", st, err);
}

static bool wait_over(struct bench_consume *b)
{
    struct timespec end;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += b->timeout_s;
    pthread_mutex_lock(&b->lock);
    while (!b->over && rc == 0) {
        rc = pthread_cond_timedwait(&b->wake, &b->lock, &end);
    }
    bool over = b->over && b->begun;
    pthread_mutex_unlock(&b->lock);
    return over;
}

static int measure(struct bench_consume *b)
{
    static const struct bench_times no_times;
    struct bench_progress progress = {0};
    bench_progress_start(&progress, &b->got, b->warmup + b->count);
    bool over = wait_over(b);
    bench_progress_stop(&progress);
    rmq_consumer_shutdown(b->consumer, 0, NULL);
    long long got = atomic_load_explicit(&b->got, memory_order_relaxed);
    if (!over) {
        fprintf(stderr,
                "rmq: %lld of %lld messages in %lld s; the topic must hold --warmup and --count\n",
                got, (long long)(b->warmup + b->count), (long long)b->timeout_s);
        return TOOL_FAILED;
    }
    struct bench_report report = {
        .what = "consume", .count = b->count, .begin = b->begin, .end = b->end, .times = &no_times};
    report.size = atomic_load_explicit(&b->bytes, memory_order_relaxed) / (got > 0 ? got : 1);
    bench_print(&report, b->json);
    return TOOL_DONE;
}

static const char text[] =
    "Receives what a topic holds, from its first message on, and prints messages a second and CPU "
    "time a message of this\n"
    "process. The topic must hold --warmup and --count messages; `rmq bench produce` makes them.";
static const char examples[] = "    rmq bench consume -t Bench --count 200000 --threads 16\n";

static int parse(struct bench_consume *b, int argc, char **argv)
{
    const struct tool_option options[] = {
        TOOL_OPTION_NAMESRV(&b->namesrv),
        TOOL_OPTION_TOPIC(&b->topic),
        {'g', "group", TOOL_TEXT, &b->group, "GROUP", "consumer group; default a new one", 0, 0},
        {'c', "count", TOOL_NUMBER, &b->count, "N", "messages that are measured; default 100000", 1,
         INT64_MAX / 2},
        {0, "threads", TOOL_NUMBER, &b->threads, "N", "workers that run the listener; default 16",
         1, 1000},
        {0, "batch", TOOL_NUMBER, &b->batch, "N",
         "most messages of one call of the listener; default 1", 1, 1024},
        {0, "pause", TOOL_NUMBER, &b->pause_ms, "MS",
         "what the listener takes for each call; default 0", 0, 60000},
        {0, "cache", TOOL_NUMBER, &b->cache_mib, "MIB", "most that is cached; default 256", 1,
         65536},
        {0, "orderly", TOOL_FLAG, &b->orderly, NULL, "one message of a queue after the other", 0,
         0},
        {0, "warmup", TOOL_NUMBER, &b->warmup, "N",
         "messages before; default a fifth of count, at most 20000", 0, INT64_MAX / 2},
        {0, "timeout", TOOL_NUMBER, &b->timeout_s, "SECONDS", "most time to wait; default 120", 1,
         1000000},
        {0, "serialize", TOOL_TEXT, &b->serialize, "WAY", "headers as JSON (default) or ROCKETMQ",
         0, 0},
        TOOL_OPTION_OUTPUT(&b->output),
    };
    const struct tool_usage usage = {
        .synopsis = "bench consume -t TOPIC [options]",
        .text = text,
        .examples = examples,
        .exits = "0 all came, 1 not in time, 2 wrong command line.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = tool_parse(&usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    if (b->topic == NULL) {
        return tool_wrong("a topic is needed: -t TOPIC");
    }
    if (b->warmup < 0) {
        b->warmup = b->count / 5 < 20000 ? b->count / 5 : 20000;
    }
    return tool_output(b->output, &b->json) ? TOOL_GO : TOOL_USAGE;
}

int tool_bench_consume(int argc, char **argv)
{
    char group[64];
    snprintf(group, sizeof group, "rmq-bench-%lld-%d", (long long)time(NULL), (int)getpid());
    struct bench_consume b = {.group = group,
                              .count = 100000,
                              .threads = 16,
                              .warmup = -1,
                              .batch = 1,
                              .timeout_s = 120,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .wake = PTHREAD_COND_INITIALIZER};
    int rc = parse(&b, argc, argv);
    rc = rc == TOOL_GO ? start(&b) : rc;
    rc = rc == TOOL_GO ? measure(&b) : rc;
    rmq_consumer_destroy(b.consumer);
    return rc;
}

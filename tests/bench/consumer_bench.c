/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Consumers that `rmq bench consume` does not know, and how long a message is on its way. A line of
 * JSON with the keys of `rmq bench`, for consumer.sh:
 *     consumer_bench lite|pop NAMESRV TOPIC COUNT WARMUP
 *         takes what the topic holds; CPU time is that of this process
 *     consumer_bench latency NAMESRV TOPIC COUNT WARMUP [RATE]
 *         sends so many a second (1000) and times each from send to push listener
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rmq/rmq.h>

#define MOST_POPPED 32
#define WAIT_MS     10000

struct bench {
    const char *namesrv, *topic;
    int64_t count, warmup;
    char group[64];
};

static void die(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    exit(1);
}

static void check(const char *what, rmq_status st, rmq_error *err)
{
    if (st != RMQ_OK) {
        die(what, err);
    }
}

static int64_t now_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- taking what is there ---- */

static rmq_lite_pull_consumer *lite;
static rmq_pop_consumer *popper;

static void start_lite(const struct bench *bench)
{
    rmq_lite_pull_consumer_options options;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = bench->group;
    options.namesrv_addr = bench->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.pull_batch_size = 32;
    check("consumer", rmq_lite_pull_consumer_create(&options, &lite, &err), err);
    check("subscribe", rmq_lite_pull_consumer_subscribe(lite, bench->topic, "*", &err), err);
    check("start", rmq_lite_pull_consumer_start(lite, &err), err);
}

static size_t take_lite(const struct bench *bench)
{
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    (void)bench;
    check("poll", rmq_lite_pull_consumer_poll(lite, &batch, WAIT_MS, &err), err);
    size_t n = rmq_batch_count(batch);
    rmq_batch_destroy(batch);
    return n;
}

static void start_pop(const struct bench *bench)
{
    rmq_pop_consumer_options options;
    rmq_error *err = NULL;
    rmq_pop_consumer_options_init(&options, sizeof options);
    options.consumer_group = bench->group;
    options.namesrv_addr = bench->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    check("consumer", rmq_pop_consumer_create(&options, &popper, &err), err);
}

static size_t take_popped(const struct bench *bench)
{
    const char *handles[MOST_POPPED];
    rmq_pop_result *result = NULL;
    rmq_error *err = NULL;
    check("pop",
          rmq_pop_consumer_pop(popper, bench->topic, "*", MOST_POPPED, WAIT_MS, &result, &err),
          err);
    size_t n = rmq_pop_result_count(result);
    for (size_t i = 0; i < n; i++) {
        handles[i] = rmq_pop_result_handle(result, i);
    }
    check("ack", rmq_pop_consumer_ack_batch(popper, bench->topic, handles, n, 0, &err), err);
    rmq_pop_result_destroy(result);
    return n;
}

static void take_all(const struct bench *bench, const char *what,
                     size_t (*take)(const struct bench *))
{
    int64_t got = 0;
    while (got < bench->warmup) {
        got += (int64_t)take(bench);
    }
    int64_t first = got;
    int64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    int64_t wall = now_ns(CLOCK_MONOTONIC);
    while (got < bench->warmup + bench->count) {
        got += (int64_t)take(bench);
    }
    double n = (double)(got - first);
    printf("{\"what\":\"%s\",\"count\":%.0f,\"msgs_per_s\":%.0f,\"cpu_us_per_msg\":%.3f,\"errors\":"
           "0}\n",
           what, n, n * 1e9 / (double)(now_ns(CLOCK_MONOTONIC) - wall),
           (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1000 / n);
}

/* ---- on the way ---- */

static int64_t *times;    /* ns; a message's own place, which its listener writes */
static atomic_llong came; /* listeners that are done; release: their times are written */

/* The body is the number of the message and when its send began. */
struct stamp {
    int64_t number, begin_ns;
};

static rmq_consume_result note_time(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    int64_t now = now_ns(CLOCK_MONOTONIC);
    (void)context;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        struct stamp stamp;
        size_t size = 0;
        memcpy(&stamp, rmq_message_view_body(messages[i], &size), sizeof stamp);
        times[stamp.number] = now - stamp.begin_ns;
    }
    atomic_fetch_add_explicit(&came, (long long)count, memory_order_release);
    return RMQ_CONSUME_SUCCESS;
}

static rmq_consumer *start_push(const struct bench *bench)
{
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = bench->group;
    options.namesrv_addr = bench->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.listener = note_time;
    check("consumer", rmq_consumer_create(&options, &consumer, &err), err);
    check("subscribe", rmq_consumer_subscribe(consumer, bench->topic, "*", &err), err);
    check("start", rmq_consumer_start(consumer, &err), err);
    return consumer;
}

static void send_paced(const struct bench *bench, int64_t rate)
{
    rmq_producer_options options;
    rmq_producer *producer = NULL;
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "latency";
    options.namesrv_addr = bench->namesrv;
    check("producer", rmq_producer_create(&options, &producer, &err), err);
    check("message", rmq_message_create(bench->topic, &message, &err), err);
    int64_t due = now_ns(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < bench->warmup + bench->count; i++) {
        struct timespec until = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        struct stamp stamp = {i, now_ns(CLOCK_MONOTONIC)};
        check("body", rmq_message_copy_body(message, &stamp, sizeof stamp), NULL);
        check("send", rmq_producer_send(producer, message, 0, NULL, &err), err);
        due += 1000000000 / rate;
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at(const int64_t *sorted, int64_t count, double part)
{
    return (double)sorted[(int64_t)(part * (double)(count - 1))] / 1000;
}

static void run_latency(const struct bench *bench, int64_t rate)
{
    int64_t all = bench->warmup + bench->count;
    times = calloc((size_t)all, sizeof *times);
    rmq_consumer *consumer = start_push(bench);
    send_paced(bench, rate);
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < WAIT_MS && atomic_load_explicit(&came, memory_order_acquire) < all; i++) {
        nanosleep(&pause, NULL);
    }
    rmq_consumer_destroy(consumer);
    if (atomic_load_explicit(&came, memory_order_acquire) < all) {
        fprintf(stderr, "%lld of %lld messages came\n", (long long)atomic_load(&came),
                (long long)all);
        exit(1);
    }
    int64_t *measured = times + bench->warmup;
    qsort(measured, (size_t)bench->count, sizeof *measured, by_size);
    printf("{\"what\":\"latency\",\"count\":%" PRId64 ",\"rate\":%" PRId64
           ",\"p50_us\":%.0f,\"p99_us\":%.0f,\"p999_us\":%.0f,\"errors\":0}\n",
           bench->count, rate, at(measured, bench->count, 0.5), at(measured, bench->count, 0.99),
           at(measured, bench->count, 0.999));
    free(times);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "consumer_bench lite|pop|latency NAMESRV TOPIC COUNT WARMUP [RATE]\n");
        return 2;
    }
    struct bench bench = {argv[2], argv[3], atoll(argv[4]), atoll(argv[5]), ""};
    int64_t rate = argc > 6 ? atoll(argv[6]) : 1000;
    snprintf(bench.group, sizeof bench.group, "bench-%s-%d", argv[1], (int)getpid());
    if (strcmp(argv[1], "lite") == 0) {
        start_lite(&bench);
        take_all(&bench, "lite pull", take_lite);
        rmq_lite_pull_consumer_destroy(lite);
    } else if (strcmp(argv[1], "pop") == 0) {
        start_pop(&bench);
        take_all(&bench, "pop", take_popped);
        rmq_pop_consumer_destroy(popper);
    } else {
        run_latency(&bench, rate > 0 ? rate : 1000);
    }
    return 0;
}

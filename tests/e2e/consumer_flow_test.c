/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Slow consumers: what is cached stays within its limits, waiting costs no CPU, and full speed
 * comes back by itself.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define BODY 65536

static atomic_int consumed;
static atomic_bool slow = true;
static atomic_bool stop_blocking;

static bool unblocked(void *arg)
{
    return atomic_load(&stop_blocking);
}

static rmq_consume_result sleepy(const rmq_message_view *const *messages, size_t count,
                                 rmq_consume_context *context, void *user)
{
    if (atomic_load(&slow)) {
        tl_pause(20);
    }
    atomic_fetch_add(&consumed, 1);
    return RMQ_CONSUME_SUCCESS;
}

static void fill(const struct tl_cluster *cluster, int messages, size_t size, bool random)
{
    rmq_producer *producer = tl_producer(cluster);
    char *body = malloc(size);
    unsigned state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245u + 12345u;
        body[i] = random ? (char)(state >> 16) : 'x';
    }
    for (int i = 0; i < messages; i++) {
        rmq_message *message = NULL;
        rmq_error *err = NULL;
        TL_OK(rmq_message_create(cluster->topic, &message, &err));
        TL_OK(rmq_message_borrow_body(message, body, size));
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        rmq_message_destroy(message);
    }
    rmq_producer_destroy(producer);
    free(body);
}

static rmq_consumer *open_limited(const struct tl_cluster *cluster, rmq_consumer_options *options)
{
    options->consumer_group = cluster->group;
    options->namesrv_addr = cluster->namesrv;
    options->consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options->consume_thread_nums = 4;
    return tl_consumer_start(cluster, options);
}

static bool all_consumed(void *arg)
{
    return atomic_load(&consumed) >= *(int *)arg;
}

static void a_backlog_on_many_queues_does_not_grow_the_cache_beyond_its_limit(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    int wanted = 1600;
    tl_cluster_start(&cluster, 16);
    fill(&cluster, 1600, BODY, true); /* 100 MiB */
    rmq_consumer_options_init(&options, sizeof options);
    options.max_cache_bytes = 4 << 20;
    options.listener = sleepy;
    rmq_consumer *consumer = open_limited(&cluster, &options);
    struct tl_usage begin = tl_usage_of(0);
    long most = begin.rss_kb;
    for (int i = 0; i < 20; i++) {
        tl_pause(100);
        long now = tl_usage_of(0).rss_kb;
        most = now > most ? now : most;
    }
    struct tl_usage end = tl_usage_of(0);
    int slowly = atomic_load(&consumed);
    printf("slow: %d messages in 2 s, %ld KB more, %lld us CPU\n", slowly, most - begin.rss_kb,
           (long long)(end.cpu_us - begin.cpu_us));
    TL_CHECK(slowly > 50);
    /* The limit, one answer for each queue that was on its way, and the read buffers. The
     * store's pages, which are mapped in this process too, are not counted: they were touched
     * while filling. */
    TL_CHECK(!TL_MEMORY_COUNTS || most - begin.rss_kb < 24 * 1024);
    TL_CHECK(!TL_MEMORY_COUNTS || end.cpu_us - begin.cpu_us < 600000);
    atomic_store(&slow, false);
    int64_t start = tl_now_ms();
    TL_CHECK(tl_wait(all_consumed, &wanted, 10000));
    printf("fast: %d messages in %lld ms\n", wanted - slowly, (long long)(tl_now_ms() - start));
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static atomic_int started;

static rmq_consume_result block_first(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    atomic_fetch_add(&started, 1);
    if (rmq_message_view_queue_offset(messages[0]) == 0) {
        tl_wait(unblocked, NULL, 30000);
    }
    atomic_fetch_add(&consumed, 1);
    return RMQ_CONSUME_SUCCESS;
}

static void one_blocked_message_stops_its_queue_at_the_span(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    int wanted = 2000;
    tl_cluster_start(&cluster, 1);
    fill(&cluster, 2000, 100, false);
    rmq_consumer_options_init(&options, sizeof options);
    options.consume_concurrently_max_span = 200;
    options.listener = block_first;
    rmq_consumer *consumer = open_limited(&cluster, &options);
    tl_pause(1000);
    int before = atomic_load(&started);
    printf("%d messages begun while the first blocks\n", before);
    TL_CHECK(before > 100 && before <= 200 + 33);
    atomic_store(&stop_blocking, true);
    TL_CHECK(tl_wait(all_consumed, &wanted, 20000));
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static void a_threshold_of_one_message_still_gets_through(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    int wanted = 500;
    atomic_store(&slow, false);
    tl_cluster_start(&cluster, 2);
    fill(&cluster, 500, 5000, true);
    rmq_consumer_options_init(&options, sizeof options);
    options.pull_threshold_for_queue = 1;
    options.pull_threshold_size_for_queue = 1;
    options.consume_concurrently_max_span = 1;
    options.max_cache_bytes = 1 << 20;
    options.listener = sleepy;
    rmq_consumer *consumer = open_limited(&cluster, &options);
    TL_CHECK(tl_wait(all_consumed, &wanted, 10000));
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static atomic_int wrong_size;

static rmq_consume_result check_size(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    size_t size;
    const char *body = rmq_message_view_body(messages[0], &size);
    if (size != 1 << 20 || body[0] != 'x' || body[size - 1] != 'x') {
        atomic_fetch_add(&wrong_size, 1);
    }
    return sleepy(messages, count, context, user);
}

/* 200 bodies of 1 MiB that travel as about 1 KiB each: they are expanded only while somebody
 * reads them. */
static void compressed_bodies_do_not_fill_the_memory_when_expanded(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    int wanted = 200;
    tl_cluster_start(&cluster, 4);
    fill(&cluster, 200, 1 << 20, false);
    rmq_consumer_options_init(&options, sizeof options);
    options.max_cache_bytes = 16 << 20;
    options.listener = check_size;
    rmq_consumer *consumer = open_limited(&cluster, &options);
    struct tl_usage begin = tl_usage_of(0);
    TL_CHECK(tl_wait(all_consumed, &wanted, 20000));
    struct tl_usage end = tl_usage_of(0);
    printf("peak %ld KB over %ld KB\n", end.peak_rss_kb, begin.rss_kb);
    TL_EQUAL(atomic_load(&wrong_size), 0);
    TL_CHECK(!TL_MEMORY_COUNTS || end.peak_rss_kb - begin.rss_kb < 48 * 1024);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static rmq_consume_result count_only(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    atomic_fetch_add(&consumed, (int)count);
    return RMQ_CONSUME_SUCCESS;
}

static void a_body_beyond_the_limit_costs_that_message_only(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_error *err = NULL;
    int wanted = 20;
    tl_cluster_start(&cluster, 1);
    fill(&cluster, 10, 100, false);
    fill(&cluster, 1, 1 << 20, false);
    fill(&cluster, 10, 100, false);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options_init(&options, sizeof options);
    options.max_message_size = 100000;
    options.consume_message_batch_max_size = 32;
    options.events = events;
    options.listener = count_only;
    rmq_consumer *consumer = open_limited(&cluster, &options);
    TL_CHECK(tl_wait(all_consumed, &wanted, 20000));
    bool told = false;
    while (!told && rmq_events_take(events, &event, 1, 20000) == 1) {
        told = rmq_event_get_type(event) == RMQ_EVENT_ERROR &&
               rmq_error_status(rmq_event_error(event)) == RMQ_ERR_TOO_LARGE;
        rmq_event_destroy(event);
    }
    TL_CHECK(told);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    TL_EQUAL(atomic_load(&consumed), 20);
    tl_cluster_stop(&cluster);
}

static void an_idle_consumer_costs_no_cpu(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    atomic_store(&slow, false);
    tl_cluster_start(&cluster, 16);
    rmq_consumer_options_init(&options, sizeof options);
    options.listener = sleepy;
    rmq_consumer *consumer = open_limited(&cluster, &options);
    tl_pause(500);
    struct tl_usage begin = tl_usage_of(0);
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_events_create(&events, &err));
    TL_EQUAL(rmq_events_take(events, &event, 1, 3000), 0); /* sleeps three seconds */
    rmq_events_destroy(events);
    struct tl_usage end = tl_usage_of(0);
    printf("%lld us CPU in 3 s\n", (long long)(end.cpu_us - begin.cpu_us));
    TL_CHECK(end.cpu_us - begin.cpu_us < 60000);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_backlog_on_many_queues_does_not_grow_the_cache_beyond_its_limit",
         a_backlog_on_many_queues_does_not_grow_the_cache_beyond_its_limit, 60},
        TL_CASE(one_blocked_message_stops_its_queue_at_the_span),
        TL_CASE(a_threshold_of_one_message_still_gets_through),
        {"compressed_bodies_do_not_fill_the_memory_when_expanded",
         compressed_bodies_do_not_fill_the_memory_when_expanded, 60},
        TL_CASE(a_body_beyond_the_limit_costs_that_message_only),
        TL_CASE(an_idle_consumer_costs_no_cpu),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

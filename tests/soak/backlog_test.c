/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A backlog of 1 GB on 16 queues, a cache of 16 MiB and a handler of 10 ms on 4 threads: memory
 * stays under 64 MB, waiting costs no CPU, and without the sleep the consumer is fast again. And a
 * handler that holds one message for a minute: what comes again after a restart is within the span.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define QUEUES   16
#define BODY     (32 << 10)
#define MESSAGES 32768 /* 1 GiB; 24,000 are consumed while it is slow */
#define SLOW_S   60

static atomic_bool slow = true;
static _Atomic int received;

static rmq_consume_result handle(const rmq_message_view *const *messages, size_t n,
                                 rmq_consume_context *context, void *user)
{
    (void)messages;
    (void)context;
    (void)user;
    if (atomic_load(&slow)) {
        usleep(10000); /* the handler of the case */
    }
    atomic_fetch_add(&received, (int)n);
    return RMQ_CONSUME_SUCCESS;
}

static void fill(const struct tl_cluster *cluster)
{
    rmq_producer *producer = tl_producer(cluster);
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    static char body[BODY];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (char)(seed = seed * 1103515245 + 12345); /* does not compress */
    }
    TL_OK(rmq_message_create(cluster->topic, &message, &err));
    TL_OK(rmq_message_copy_body(message, body, sizeof body));
    for (int i = 0; i < MESSAGES; i++) {
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

static bool all_received(void *arg)
{
    (void)arg;
    return atomic_load(&received) >= MESSAGES;
}

static void a_slow_consumer_of_a_large_backlog_stays_small(void)
{
    struct tl_cluster cluster;
    tl_cluster_start_apart(&cluster, QUEUES);
    pid_t child = fork(); /* a producer's memory is not the consumer's */
    if (child == 0) {
        fill(&cluster);
        _exit(0);
    }
    int status = 1;
    TL_EQUAL(waitpid(child, &status, 0), child);
    TL_EQUAL(status, 0);
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 4;
    options.max_cache_bytes = 16 << 20;
    options.listener = handle;
    struct tl_usage begin = tl_usage_of(0);
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    tl_pause(SLOW_S * 1000);
    struct tl_usage slow_end = tl_usage_of(0);
    int slow_count = atomic_load(&received);
    atomic_store(&slow, false);
    int64_t fast = tl_now_ms();
    TL_CHECK(tl_wait(all_received, NULL, 60000));
    int64_t cpu_percent = (slow_end.cpu_us - begin.cpu_us) / (SLOW_S * 10000);
    printf(
        "slow: %d messages in %d s, %lld %% CPU, peak %ld KiB; then %d in %lld ms, peak %ld KiB\n",
        slow_count, SLOW_S, (long long)cpu_percent, slow_end.peak_rss_kb, MESSAGES - slow_count,
        (long long)(tl_now_ms() - fast), tl_usage_of(0).peak_rss_kb);
    TL_CHECK(tl_usage_of(0).peak_rss_kb < 64 << 10);
    TL_CHECK(cpu_percent < 10);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

/* ---- one handler that blocks ---- */

#define SPAN  2000 /* consumeConcurrentlyMaxSpan; a pull of 32 may go beyond it */
#define SMALL 16000
#define LANES 2

static struct tl_seen seen;
static atomic_bool released;

static bool is_released(void *arg)
{
    (void)arg;
    return atomic_load(&released);
}

static rmq_consume_result block_at_first(const rmq_message_view *const *messages, size_t n,
                                         rmq_consume_context *context, void *user)
{
    if (strcmp(rmq_message_view_property(messages[0], "n"), "0") == 0) {
        (void)tl_wait(is_released, NULL, 200000);
    }
    return tl_seen_listener(messages, n, context, user);
}

static void a_handler_that_blocked_for_a_minute_repeats_at_most_the_span(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, LANES);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, SMALL);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", block_at_first, &seen);
    tl_seen_wait(&seen, SMALL / LANES, 30000); /* the queue that nobody holds */
    tl_pause(60000);
    int before = atomic_load(&seen.different);
    TL_CHECK(before <= SMALL / LANES + SPAN + 32);
    TL_EQUAL(rmq_consumer_shutdown(consumer, 1000, NULL), RMQ_ERR_TIMEOUT);
    atomic_store(&released, true);
    rmq_consumer_destroy(consumer);
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, SMALL, 30000);
    rmq_consumer_destroy(consumer);
    int again = atomic_load(&seen.total) - SMALL;
    printf("%d of %d while the first is held; %d again after the restart\n", before, SMALL, again);
    TL_CHECK(again <= SPAN + 33);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"a_slow_consumer_of_a_large_backlog_stays_small",
         a_slow_consumer_of_a_large_backlog_stays_small, 300},
        {"a_handler_that_blocked_for_a_minute_repeats_at_most_the_span",
         a_handler_that_blocked_for_a_minute_repeats_at_most_the_span, 300},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

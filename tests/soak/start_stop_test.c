/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Starting and stopping consumers for hours, in short: rounds under flowing messages leave no
 * thread, descriptor or memory behind, and thirty members that come at once all get their share
 * without a request that times out. */
#include <stdatomic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define ROUNDS  300
#define MEMBERS 30
#define QUEUES  60

static struct tl_cluster cluster;
static atomic_bool stop;
static _Atomic int received;

static rmq_consume_result count(const rmq_message_view *const *messages, size_t n,
                                rmq_consume_context *context, void *user)
{
    (void)messages;
    (void)context;
    (void)user;
    atomic_fetch_add(&received, (int)n);
    return RMQ_CONSUME_SUCCESS;
}

static bool stopped(void *arg)
{
    (void)arg;
    return atomic_load(&stop);
}

/* About 5,000 a second. */
static void *produce(void *arg)
{
    rmq_producer *producer = arg;
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_message_create(cluster.topic, &message, &err));
    TL_OK(rmq_message_copy_body(message, "flow", 4));
    while (!tl_wait(stopped, NULL, 1)) {
        for (int i = 0; i < 5; i++) {
            TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
        }
    }
    rmq_message_destroy(message);
    return NULL;
}

static void one_round(int run_ms)
{
    rmq_error *err = NULL;
    rmq_consumer *consumer = tl_consumer(&cluster, "*", count, NULL);
    tl_pause(run_ms);
    int64_t begin = tl_now_ms();
    TL_OK(rmq_consumer_shutdown(consumer, 3000, &err));
    TL_CHECK(tl_now_ms() - begin < 3000);
    int after = atomic_load(&received);
    TL_OK(rmq_consumer_shutdown(consumer, 3000, &err));
    TL_EQUAL(atomic_load(&received), after);
    rmq_consumer_destroy(consumer);
}

static bool is_as_small(void *arg)
{
    const struct tl_usage *before = arg;
    struct tl_usage now = tl_usage_of(0);
    return now.threads <= before->threads && now.descriptors <= before->descriptors;
}

static void three_hundred_starts_and_stops_leave_nothing_behind(void)
{
    pthread_t thread;
    struct tl_usage third = {0};
    tl_cluster_start_apart(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    TL_EQUAL(pthread_create(&thread, NULL, produce, producer), 0);
    srand(1);
    for (int round = 1; round <= ROUNDS; round++) {
        one_round(50 + rand() % 450);
        if (round == 3) {
            third = tl_usage_of(0);
        }
    }
    TL_CHECK(tl_wait(is_as_small, &third, 5000));
    struct tl_usage last = tl_usage_of(0);
    printf("%d rounds, %d messages; threads %d, descriptors %d, KiB of its own %ld and %ld after "
           "round 3 and the last\n",
           ROUNDS, atomic_load(&received), last.threads, last.descriptors, third.anon_kb,
           last.anon_kb);
    TL_CHECK(atomic_load(&received) > 0);
    TL_CHECK(!TL_MEMORY_COUNTS || last.anon_kb - third.anon_kb < 4096);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static bool all_owned(void *arg)
{
    rmq_consumer **members = arg;
    int owned = 0;
    for (int i = 0; i < MEMBERS; i++) {
        rmq_error *err = NULL;
        char *text = NULL;
        int mine = 0;
        TL_OK(rmq_consumer_assignment(members[i], &text, &err));
        for (const char *p = text; (p = strstr(p, cluster.topic)) != NULL; p++) {
            mine += p == text || p[-1] == '\n';
        }
        rmq_string_free(text);
        if (mine != QUEUES / MEMBERS) {
            return false;
        }
        owned += mine;
    }
    return owned == QUEUES;
}

static void *start_member(void *arg)
{
    *(rmq_consumer **)arg = tl_consumer(&cluster, "*", count, NULL);
    return NULL;
}

static void thirty_members_that_start_together_share_the_queues_at_once(void)
{
    static rmq_consumer *members[MEMBERS];
    pthread_t threads[MEMBERS];
    tl_cluster_start(&cluster, QUEUES);
    int64_t begin = tl_now_ms();
    for (int i = 0; i < MEMBERS; i++) {
        TL_EQUAL(pthread_create(&threads[i], NULL, start_member, &members[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++) {
        pthread_join(threads[i], NULL);
    }
    TL_CHECK(tl_wait(all_owned, members, 30000));
    printf("%d members share %d queues after %lld ms\n", MEMBERS, QUEUES,
           (long long)(tl_now_ms() - begin));
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 600);
    int64_t deadline = tl_now_ms() + 10000;
    while (atomic_load(&received) < 600 && tl_now_ms() < deadline) {
        tl_pause(10);
    }
    TL_CHECK(atomic_load(&received) >= 600);
    for (int i = 0; i < MEMBERS; i++) {
        rmq_consumer_destroy(members[i]);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"thirty_members_that_start_together_share_the_queues_at_once",
         thirty_members_that_start_together_share_the_queues_at_once, 120},
        {"three_hundred_starts_and_stops_leave_nothing_behind",
         three_hundred_starts_and_stops_leave_nothing_behind, 900},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

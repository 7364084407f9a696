/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Members of a group share the queues: each queue has one owner, and moves when members come and
 * go. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

static struct tl_seen seen;

static int owned_queues(rmq_consumer *consumer, const char *topic)
{
    char *text = NULL;
    rmq_error *err = NULL;
    int count = 0;
    TL_OK(rmq_consumer_assignment(consumer, &text, &err));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        count += strncmp(line, topic, strlen(topic)) == 0 ? 1 : 0;
    }
    rmq_string_free(text);
    return count;
}

struct shares {
    const char *topic;
    rmq_consumer *members[8];
    int count;
    int least, most, sum;
};

static bool are_shared(void *arg)
{
    const struct shares *shares = arg;
    int sum = 0;
    for (int i = 0; i < shares->count; i++) {
        int owned = owned_queues(shares->members[i], shares->topic);
        if (owned < shares->least || owned > shares->most) {
            return false;
        }
        sum += owned;
    }
    return sum == shares->sum;
}

static void queues_are_shared_and_move_when_members_come_and_go(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 8);
    rmq_producer *producer = tl_producer(&cluster);
    struct shares shares = {.topic = cluster.topic, .count = 1, .least = 8, .most = 8, .sum = 8};
    shares.members[0] = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_CHECK(tl_wait(are_shared, &shares, 20000));
    tl_send(&cluster, producer, "m", 0, 500);

    shares.members[1] = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    shares.members[2] = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    shares.count = 3;
    shares.least = 2;
    shares.most = 3;
    TL_CHECK(tl_wait(are_shared, &shares, 20000));
    tl_send(&cluster, producer, "m", 500, 500);

    rmq_consumer_destroy(shares.members[0]);
    shares.members[0] = shares.members[2];
    shares.count = 2;
    shares.least = shares.most = 4;
    TL_CHECK(tl_wait(are_shared, &shares, 20000));
    tl_send(&cluster, producer, "m", 1000, 500);
    tl_seen_wait(&seen, 1500, 10000);
    printf("%d deliveries of 1500 messages\n", atomic_load(&seen.total));
    rmq_consumer_destroy(shares.members[0]);
    rmq_consumer_destroy(shares.members[1]);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void more_members_than_queues_leave_some_without(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 3);
    struct shares shares = {.topic = cluster.topic, .count = 6, .least = 0, .most = 1, .sum = 3};
    for (int i = 0; i < 6; i++) {
        shares.members[i] = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    }
    TL_CHECK(tl_wait(are_shared, &shares, 20000));
    for (int i = 0; i < 6; i++) {
        rmq_consumer_destroy(shares.members[i]);
    }
    tl_cluster_stop(&cluster);
}

static void every_strategy_gives_each_queue_one_owner(void)
{
    static const char *const strategies[] = {"AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 8);
    for (int s = 0; s < 3; s++) {
        struct shares shares = {
            .topic = cluster.topic, .count = 3, .least = 0, .most = 8, .sum = 8};
        for (int i = 0; i < 3; i++) {
            rmq_consumer_options options;
            rmq_consumer_options_init(&options, sizeof options);
            options.consumer_group = cluster.group;
            options.namesrv_addr = cluster.namesrv;
            options.allocate_strategy = strategies[s];
            options.listener = tl_seen_listener;
            options.listener_user = &seen;
            TL_OK(rmq_consumer_create(&options, &shares.members[i], &err));
            TL_OK(rmq_consumer_subscribe(shares.members[i], cluster.topic, "*", &err));
            TL_OK(rmq_consumer_start(shares.members[i], &err));
        }
        TL_CHECK(tl_wait(are_shared, &shares, 20000));
        for (int i = 0; i < 3; i++) {
            rmq_consumer_destroy(shares.members[i]);
        }
    }
    tl_cluster_stop(&cluster);
}

/* The broker sees the connection end and tells the others at once. */
static void the_queues_of_a_killed_member_move_at_once(void)
{
    struct tl_cluster cluster;
    int status = 0;
#if defined(__SANITIZE_THREAD__)
    tl_skip("the thread sanitizer allows no new threads in a child of a process that had some");
#endif
    tl_cluster_start(&cluster, 8);
    pid_t child = fork();
    if (child == 0) {
        tl_consumer(&cluster, "*", tl_seen_listener, &seen);
        pause();
        _exit(0);
    }
    struct shares shares = {.topic = cluster.topic, .count = 1, .least = 4, .most = 4, .sum = 4};
    shares.members[0] = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_CHECK(tl_wait(are_shared, &shares, 10000));
    int64_t start = tl_now_ms();
    TL_EQUAL(kill(child, SIGKILL), 0);
    TL_EQUAL(waitpid(child, &status, 0), child);
    shares.least = shares.most = shares.sum = 8;
    TL_CHECK(tl_wait(are_shared, &shares, 10000));
    printf("moved after %lld ms\n", (long long)(tl_now_ms() - start));
    rmq_consumer_destroy(shares.members[0]);
    tl_cluster_stop(&cluster);
}

static void thirty_members_start_together(void)
{
    struct tl_cluster cluster;
    rmq_consumer *members[30];
    tl_cluster_start(&cluster, 8);
    int64_t start = tl_now_ms();
    for (int i = 0; i < 30; i++) {
        members[i] = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    }
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 200);
    tl_seen_wait(&seen, 200, 30000);
    printf("%lld ms\n", (long long)(tl_now_ms() - start));
    for (int i = 0; i < 30; i++) {
        rmq_consumer_destroy(members[i]);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void changes_are_told_as_events(void)
{
    struct tl_cluster cluster;
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_error *err = NULL;
    char expected[128];
    tl_cluster_start(&cluster, 2);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.events = events;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    TL_EQUAL(rmq_events_take(events, &event, 1, 20000), 1);
    TL_EQUAL(rmq_event_get_type(event), RMQ_EVENT_REBALANCED);
    TL_CHECK(rmq_event_source(event) == consumer);
    snprintf(expected, sizeof expected, "%s +", cluster.topic);
    TL_CHECK(strncmp(rmq_event_text(event), expected, strlen(expected)) == 0);
    TL_CHECK(strstr(rmq_event_text(event), ":0 ") && strstr(rmq_event_text(event), ":1"));
    rmq_event_destroy(event);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

/* Twenty consumers with one worker each add twenty threads at most, and those only for work. */
static void consumers_share_their_threads(void)
{
    struct tl_cluster cluster;
    rmq_consumer *consumers[20];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    int before = tl_usage_of(0).threads;
    for (int i = 0; i < 20; i++) {
        rmq_consumer_options options;
        char group[80];
        snprintf(group, sizeof group, "%s-%d", cluster.group, i);
        rmq_consumer_options_init(&options, sizeof options);
        options.consumer_group = group;
        options.namesrv_addr = cluster.namesrv;
        options.consume_thread_nums = 1;
        options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
        options.listener = tl_seen_listener;
        options.listener_user = &seen;
        TL_OK(rmq_consumer_create(&options, &consumers[i], &err));
        TL_OK(rmq_consumer_subscribe(consumers[i], cluster.topic, "*", &err));
        TL_OK(rmq_consumer_start(consumers[i], &err));
    }
    TL_CHECK(tl_usage_of(0).threads - before <= 2);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 100);
    tl_seen_wait(&seen, 100, 20000);
    char names[4096];
    tl_thread_names(0, names, sizeof names);
    printf("threads: %s\n", names);
    TL_CHECK(tl_usage_of(0).threads - before <= 22);
    for (int i = 0; i < 20; i++) {
        rmq_consumer_destroy(consumers[i]);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(queues_are_shared_and_move_when_members_come_and_go),
        TL_CASE(more_members_than_queues_leave_some_without),
        TL_CASE(every_strategy_gives_each_queue_one_owner),
        TL_CASE(the_queues_of_a_killed_member_move_at_once),
        {"thirty_members_start_together", thirty_members_start_together, 90},
        TL_CASE(changes_are_told_as_events),
        TL_CASE(consumers_share_their_threads),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

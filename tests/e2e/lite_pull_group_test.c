/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Members of a lite pull group come, go and die, brokers and connections fail: what one of them
 * polled counts, all else comes to another. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/fake_namesrv.h"
#include "lib/port.h"
#include "lib/proxy.h"
#include "lib/usage.h"

static struct tl_seen seen;

static rmq_lite_pull_consumer *join(const struct tl_cluster *cluster, const char *namesrv)
{
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.auto_commit_interval_ms = 200;
    options.rebalance_interval_ms = 1000;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_lite_pull_consumer_subscribe(consumer, cluster->topic, "*", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    return consumer;
}

/* A second member joins and leaves all the time, slow enough to have fetched more than it
 * polled. */
static void join_and_leave(int queues)
{
    struct tl_cluster cluster;
    rmq_lite_pull_consumer *second = NULL;
    int sent = 0;
    tl_cluster_start(&cluster, queues);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_lite_pull_consumer *first = join(&cluster, cluster.namesrv);
    for (int round = 0; round < 10; round++) {
        if (second) {
            rmq_lite_pull_consumer_destroy(second);
            second = NULL;
        } else {
            second = join(&cluster, cluster.namesrv);
        }
        for (int i = 0; i < 4; i++) {
            tl_send(&cluster, producer, "m", sent, 50);
            sent += 50;
            tl_lite_pull_take(first, &seen, 10);
            if (second) {
                tl_lite_pull_take(second, &seen, 10);
            }
        }
    }
    if (second) {
        rmq_lite_pull_consumer_destroy(second);
    }
    tl_lite_pull_take_until(first, &seen, sent);
    printf("%d queues: %d deliveries of %d\n", queues, atomic_load(&seen.total), sent);
    rmq_lite_pull_consumer_destroy(first);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void nothing_is_lost_while_members_come_and_go_with_one_queue(void)
{
    join_and_leave(1);
}

static void nothing_is_lost_while_members_come_and_go_with_eight_queues(void)
{
    join_and_leave(8);
}

static void run_child(const struct tl_cluster *cluster, struct tl_seen *to)
{
    rmq_lite_pull_consumer *consumer = join(cluster, cluster->namesrv);
    for (;;) {
        tl_lite_pull_take(consumer, to, 100);
    }
}

static bool child_has_some(void *arg)
{
    return atomic_load(&((struct tl_seen *)arg)->different) >= 200;
}

static void what_a_killed_member_had_not_destroyed_comes_to_another(void)
{
    struct tl_cluster cluster;
    int status = 0;
    int missing = 0;
#if defined(__SANITIZE_THREAD__)
    tl_skip("the thread sanitizer allows no new threads in a child of a process that had some");
#endif
    struct tl_seen *child_seen =
        mmap(NULL, sizeof *child_seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TL_CHECK(child_seen != MAP_FAILED);
    tl_cluster_start(&cluster, 4);
    pid_t child = fork();
    if (child == 0) {
        run_child(&cluster, child_seen);
        _exit(0);
    }
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 1000);
    TL_CHECK(tl_wait(child_has_some, child_seen, 10000));
    rmq_lite_pull_consumer *other = join(&cluster, cluster.namesrv);
    tl_lite_pull_take(other, &seen, 50);
    TL_EQUAL(kill(child, SIGKILL), 0);
    TL_EQUAL(waitpid(child, &status, 0), child);
    tl_send(&cluster, producer, "m", 1000, 500);
    int64_t deadline = tl_now_ms() + 20000;
    do {
        TL_CHECK(tl_now_ms() < deadline);
        tl_lite_pull_take(other, &seen, 200);
        missing = 0;
        for (int i = 0; i < 1500; i++) {
            missing += atomic_load(&seen.times[i]) + atomic_load(&child_seen->times[i]) == 0;
        }
    } while (missing > 0);
    rmq_lite_pull_consumer_destroy(other);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
    munmap(child_seen, sizeof *child_seen);
}

/* Dropped, slow, cut and refused pulls, offsets and member lists. */
static void nothing_is_lost_behind_a_bad_network(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 4, NULL);
    TL_CHECK(tl_proxy_script(
        detour.proxy,
        "cutmid response 11 skip 3 times 2; answer request 11 skip 8 times 4 code 2 remark busy; "
        "drop request 15 times 2; delay response 14 ms 300 times 2; cut request 38 skip 1 times 1; "
        "answer request 14 times 2 code 1 remark later"));
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, 300);
    rmq_lite_pull_consumer *consumer = join(&detour.cluster, tl_namesrv_addr(detour.namesrv));
    tl_lite_pull_take_until(consumer, &seen, 300);
    for (int round = 1; round <= 3; round++) {
        tl_proxy_refuse(detour.proxy, true);
        tl_send(&detour.cluster, producer, "m", round * 300, 300);
        tl_lite_pull_take(consumer, &seen, 50);
        tl_proxy_refuse(detour.proxy, false);
        tl_lite_pull_take_until(consumer, &seen, (round + 1) * 300);
    }
    printf("%d deliveries of 1200\n", atomic_load(&seen.total));
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

struct restart {
    rmq_namesrv *namesrv;
    rmq_broker *broker;
    char port[16];
    char store[64];
};

static void start_broker(struct restart *servers)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "namesrvAddr", rmq_namesrv_addr(servers->namesrv), &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", servers->store, &err));
    TL_OK(rmq_broker_config_set(config, "listenPort", servers->port, &err));
    TL_OK(rmq_broker_start(config, &servers->broker, &err));
    rmq_broker_config_destroy(config);
}

static void a_restarted_broker_is_read_on_from_the_stored_offsets(void)
{
    struct restart servers = {.store = "/tmp/rmq-lite-XXXXXX"};
    struct tl_cluster cluster = {.topic = "Restart", .group = "restart-group"};
    char command[128];
    rmq_error *err = NULL;
    if (getenv("RMQ_NAMESRV")) {
        tl_skip("the broker is not in this process");
    }
    TL_CHECK(mkdtemp(servers.store) != NULL);
    snprintf(servers.port, sizeof servers.port, "%d", tl_port_kept(NULL, 0));
    TL_OK(rmq_namesrv_start(NULL, 0, &servers.namesrv, &err));
    start_broker(&servers);
    snprintf(cluster.namesrv, sizeof cluster.namesrv, "%s", rmq_namesrv_addr(servers.namesrv));
    TL_OK(rmq_broker_create_topic(servers.broker, cluster.topic, 4, &err));
    rmq_lite_pull_consumer *consumer = join(&cluster, cluster.namesrv);
    for (int round = 0; round < 2; round++) {
        rmq_producer *producer = tl_producer(&cluster);
        tl_send(&cluster, producer, "m", round * 200, 200);
        tl_lite_pull_take_until(consumer, &seen, round * 200 + 100);
        rmq_producer_destroy(producer);
        rmq_broker_stop(servers.broker);
        tl_lite_pull_take(consumer, &seen, 50);
        start_broker(&servers);
        tl_lite_pull_take_until(consumer, &seen, (round + 1) * 200);
    }
    printf("%d deliveries of 400\n", atomic_load(&seen.total));
    rmq_lite_pull_consumer_destroy(consumer);
    rmq_broker_stop(servers.broker);
    rmq_namesrv_stop(servers.namesrv);
    snprintf(command, sizeof command, "rm -rf %s", servers.store);
    TL_EQUAL(system(command), 0);
}

struct share {
    atomic_int mine;
    atomic_int calls;
};

static void on_queues(const char *topic, const rmq_queue_list *all, const rmq_queue_list *mine,
                      void *user)
{
    struct share *share = user;
    (void)topic;
    (void)all;
    atomic_store(&share->mine, (int)rmq_queue_list_count(mine));
    atomic_fetch_add(&share->calls, 1);
}

static bool has_four(void *arg)
{
    return atomic_load(&((struct share *)arg)->mine) == 4;
}

static bool has_two(void *arg)
{
    return atomic_load(&((struct share *)arg)->mine) == 2;
}

static void each_new_share_is_told(void)
{
    struct tl_cluster cluster;
    struct share share = {0};
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster.group;
    options.namesrv_addr = cluster.namesrv;
    options.queues_changed = on_queues;
    options.queues_changed_user = &share;
    TL_OK(rmq_lite_pull_consumer_create(&options, &consumer, &err));
    TL_OK(rmq_lite_pull_consumer_subscribe(consumer, cluster.topic, "*", &err));
    TL_OK(rmq_lite_pull_consumer_start(consumer, &err));
    TL_CHECK(tl_wait(has_four, &share, 10000));
    rmq_lite_pull_consumer *other = join(&cluster, cluster.namesrv);
    TL_CHECK(tl_wait(has_two, &share, 10000));
    rmq_lite_pull_consumer_destroy(other);
    TL_CHECK(tl_wait(has_four, &share, 10000));
    rmq_lite_pull_consumer_destroy(consumer);
    int calls = atomic_load(&share.calls);
    tl_cluster_stop(&cluster);
    TL_EQUAL(atomic_load(&share.calls), calls);
}

int main(int argc, char **argv)
{
    const struct tl_case cases[] = {
        TL_CASE(nothing_is_lost_while_members_come_and_go_with_one_queue),
        TL_CASE(nothing_is_lost_while_members_come_and_go_with_eight_queues),
        TL_CASE(what_a_killed_member_had_not_destroyed_comes_to_another),
        TL_CASE(nothing_is_lost_behind_a_bad_network),
        TL_CASE(a_restarted_broker_is_read_on_from_the_stored_offsets),
        TL_CASE(each_new_share_is_told),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

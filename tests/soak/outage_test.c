/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Long outages of name server and broker: 20 s, 90 s and 10 min, with connections refused and with
 * packets that vanish (no end of the stream is ever heard). Both sides go on within 30 s, nothing
 * acknowledged is lost, and there is at most one connect attempt a second and address of a client
 * meanwhile. Producer and consumer are one client, by their instance name.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/proxy.h"
#include "lib/usage.h"

static struct tl_seen seen;

struct world {
    struct tl_cluster cluster; /* namesrv: the proxy's */
    struct tl_proxy *broker;
    struct tl_proxy *namesrv;
    struct tl_namesrv *routes;
};

static void start(struct world *world)
{
    char brokers[128];
    memset(world, 0, sizeof *world);
    tl_cluster_start(&world->cluster, 4);
    tl_cluster_needs_own(&world->cluster);
    world->broker = tl_proxy_start(rmq_broker_addr(world->cluster.broker));
    world->routes = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "broker-a@%s", tl_proxy_addr(world->broker));
    tl_namesrv_brokers(world->routes, NULL, brokers, 4);
    world->namesrv = tl_proxy_start(tl_namesrv_addr(world->routes));
    snprintf(world->cluster.namesrv, sizeof world->cluster.namesrv, "%s",
             tl_proxy_addr(world->namesrv));
}

static void finish(struct world *world)
{
    tl_proxy_stop(world->namesrv);
    tl_namesrv_stop(world->routes);
    tl_proxy_stop(world->broker);
    tl_cluster_stop(&world->cluster);
}

static void take_away(struct world *world, bool refuse, bool on)
{
    if (refuse) {
        tl_proxy_refuse(world->broker, on);
        tl_proxy_refuse(world->namesrv, on);
    } else {
        tl_proxy_blackhole(world->broker, on);
        tl_proxy_blackhole(world->namesrv, on);
    }
}

/* A send every half second, as a program would that goes on by itself; numbers acknowledged sends
 * from *next on. */
static void try_send(struct world *world, rmq_producer *producer, int *next)
{
    rmq_message *message = NULL;
    rmq_error *err = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", *next);
    TL_OK(rmq_message_create(world->cluster.topic, &message, &err));
    TL_OK(rmq_message_set_property(message, "n", number));
    TL_OK(rmq_message_copy_body(message, number, strlen(number)));
    if (rmq_producer_send(producer, message, 500, NULL, NULL) == RMQ_OK) {
        ++*next;
    }
    rmq_message_destroy(message);
}

static rmq_producer *start_producer(const struct tl_cluster *cluster)
{
    rmq_producer *producer = NULL;
    rmq_error *err = NULL;
    rmq_producer_options options = tl_producer_options(cluster);
    options.instance_name = "one";
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static rmq_consumer *start_consumer(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.instance_name = "one";
    options.consume_thread_nums = 4;
    options.listener = tl_seen_listener;
    options.listener_user = &seen;
    return tl_consumer_start(cluster, &options);
}

static void survive(int seconds, bool refuse)
{
    struct world world;
    start(&world);
    rmq_producer *producer = start_producer(&world.cluster);
    rmq_consumer *consumer = start_consumer(&world.cluster);
    tl_send(&world.cluster, producer, "m", 0, 100);
    tl_seen_wait(&seen, 100, 10000);
    int next = 100;
    take_away(&world, refuse, true);
    uint64_t broker = tl_proxy_connections(world.broker);
    uint64_t namesrv = tl_proxy_connections(world.namesrv);
    struct tl_usage begin = tl_usage_of(0);
    for (int64_t end = tl_now_ms() + seconds * 1000; tl_now_ms() < end;) {
        try_send(&world, producer, &next);
        tl_pause(500);
    }
    uint64_t tries = tl_proxy_connections(world.broker) - broker;
    uint64_t asked = tl_proxy_connections(world.namesrv) - namesrv;
    int64_t cpu_ms = (tl_usage_of(0).cpu_us - begin.cpu_us) / 1000;
    take_away(&world, refuse, false);
    int64_t back = tl_now_ms();
    int known = next;
    while (next < known + 20) {
        TL_CHECK(tl_now_ms() - back < 30000);
        try_send(&world, producer, &next);
    }
    tl_seen_wait(&seen, next, 30000);
    printf("%d s %s: %llu connects to the broker, %llu to the name server, %lld ms of CPU; on "
           "again after %lld ms, %d sent, %d deliveries\n",
           seconds, refuse ? "refused" : "silent", (unsigned long long)tries,
           (unsigned long long)asked, (long long)cpu_ms, (long long)(tl_now_ms() - back), next,
           atomic_load(&seen.total));
    TL_CHECK(tries <= (uint64_t)seconds + 2);
    TL_CHECK(asked <= (uint64_t)seconds + 2);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    finish(&world);
}

static void twenty_seconds_refused(void)
{
    survive(20, true);
}

static void twenty_seconds_of_lost_packets(void)
{
    survive(20, false);
}

static void ninety_seconds_refused(void)
{
    survive(90, true);
}

static void ninety_seconds_of_lost_packets(void)
{
    survive(90, false);
}

static void ten_minutes_refused(void)
{
    survive(600, true);
}

static void ten_minutes_of_lost_packets(void)
{
    survive(600, false);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"twenty_seconds_refused", twenty_seconds_refused, 120},
        {"twenty_seconds_of_lost_packets", twenty_seconds_of_lost_packets, 120},
        {"ninety_seconds_refused", ninety_seconds_refused, 200},
        {"ninety_seconds_of_lost_packets", ninety_seconds_of_lost_packets, 200},
        {"ten_minutes_refused", ten_minutes_refused, 720},
        {"ten_minutes_of_lost_packets", ten_minutes_of_lost_packets, 720},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Servers that are away, come back, forget, or answer with errors: consumption resumes by itself
 * and nothing is lost. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/port.h"
#include "lib/usage.h"

static struct tl_seen seen;

struct servers {
    rmq_namesrv *namesrv;
    rmq_broker *broker;
    char store[64];
    char port[16];
    int namesrv_port;
    char namesrv_addr[64];
};

static void start_broker(struct servers *servers)
{
    rmq_broker_config *config = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "namesrvAddr", servers->namesrv_addr, &err));
    TL_OK(rmq_broker_config_set(config, "storePathRootDir", servers->store, &err));
    TL_OK(rmq_broker_config_set(config, "listenPort", servers->port, &err));
    TL_OK(rmq_broker_start(config, &servers->broker, &err));
    rmq_broker_config_destroy(config);
}

static void start_namesrv(struct servers *servers)
{
    rmq_error *err = NULL;
    TL_OK(rmq_namesrv_start(NULL, servers->namesrv_port, &servers->namesrv, &err));
    snprintf(servers->namesrv_addr, sizeof servers->namesrv_addr, "%s",
             rmq_namesrv_addr(servers->namesrv));
}

static void start_servers(struct servers *servers, struct tl_cluster *cluster, int queues)
{
    rmq_error *err = NULL;
    memset(servers, 0, sizeof *servers);
    memset(cluster, 0, sizeof *cluster);
    if (getenv("RMQ_NAMESRV")) {
        tl_skip("the broker is not in this process");
    }
    snprintf(servers->store, sizeof servers->store, "/tmp/rmq-outage-XXXXXX");
    TL_CHECK(mkdtemp(servers->store) != NULL);
    snprintf(servers->port, sizeof servers->port, "%d", tl_port_kept(NULL, 0));
    servers->namesrv_port = tl_port_kept(NULL, 0);
    start_namesrv(servers);
    start_broker(servers);
    snprintf(cluster->namesrv, sizeof cluster->namesrv, "%s", servers->namesrv_addr);
    snprintf(cluster->topic, sizeof cluster->topic, "Outage");
    snprintf(cluster->group, sizeof cluster->group, "outage-group");
    TL_OK(rmq_broker_create_topic(servers->broker, cluster->topic, queues, &err));
}

static void stop_servers(struct servers *servers)
{
    char command[128];
    rmq_broker_stop(servers->broker);
    rmq_namesrv_stop(servers->namesrv);
    snprintf(command, sizeof command, "rm -rf %s", servers->store);
    TL_EQUAL(system(command), 0);
}

static void consumption_resumes_when_the_broker_is_back(void)
{
    struct servers servers;
    struct tl_cluster cluster;
    start_servers(&servers, &cluster, 4);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    for (int round = 0; round < 3; round++) {
        rmq_producer *producer = tl_producer(&cluster);
        tl_send(&cluster, producer, "m", round * 100, 100);
        tl_seen_wait(&seen, (round + 1) * 100, 10000);
        rmq_producer_destroy(producer);
        rmq_broker_stop(servers.broker);
        tl_pause(1500);
        struct tl_usage begin = tl_usage_of(0);
        tl_pause(1000);
        TL_CHECK(tl_usage_of(0).cpu_us - begin.cpu_us < 100000); /* waiting costs little */
        start_broker(&servers);
    }
    rmq_producer *producer = tl_producer(&cluster);
    int64_t start = tl_now_ms();
    tl_send(&cluster, producer, "m", 300, 100);
    tl_seen_wait(&seen, 400, 10000);
    printf("%lld ms from the first send, %d deliveries of 400\n", (long long)(tl_now_ms() - start),
           atomic_load(&seen.total));
    rmq_producer_destroy(producer);
    rmq_consumer_destroy(consumer);
    stop_servers(&servers);
}

static void a_consumer_starts_while_all_servers_are_away_and_consumes_when_they_come(void)
{
    struct servers servers;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_servers(&servers, &cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 100);
    rmq_producer_destroy(producer);
    rmq_broker_stop(servers.broker);
    rmq_namesrv_stop(servers.namesrv);
    int64_t start = tl_now_ms();
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_CHECK(tl_now_ms() - start < 9000);
    tl_pause(500);
    start_namesrv(&servers);
    start_broker(&servers);
    tl_seen_wait(&seen, 100, 15000);
    TL_OK(rmq_consumer_shutdown(consumer, 3000, &err));
    rmq_consumer_destroy(consumer);
    stop_servers(&servers);
}

static void shutdown_is_quick_while_the_servers_are_away(void)
{
    struct servers servers;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_servers(&servers, &cluster, 4);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(
        rmq_broker_fault_answer(servers.broker, 15, -1, 1, "not now", &err)); /* no commit before */
    tl_send(&cluster, producer, "m", 0, 100);
    tl_seen_wait(&seen, 100, 20000);
    rmq_producer_destroy(producer);
    rmq_broker_stop(servers.broker);
    servers.broker = NULL;
    int64_t start = tl_now_ms();
    TL_CHECK(rmq_consumer_shutdown(consumer, 10000, NULL) != RMQ_OK);
    printf("shutdown took %lld ms\n", (long long)(tl_now_ms() - start));
    TL_CHECK(tl_now_ms() - start < 9000);
    rmq_consumer_destroy(consumer);
    stop_servers(&servers);
}

static bool came_again(void *arg)
{
    (void)arg;
    return atomic_load(&seen.total) == 20;
}

static void a_shutdown_says_that_offsets_are_not_stored(void)
{
    struct servers servers;
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    start_servers(&servers, &cluster, 1);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    rmq_producer *producer = tl_producer(&cluster);
    TL_OK(rmq_broker_fault_answer(servers.broker, 15, -1, 1, "not now", &err));
    tl_send(&cluster, producer, "m", 0, 10);
    tl_seen_wait(&seen, 10, 20000);
    for (int i = 0; i < 2; i++) {
        TL_EQUAL(rmq_consumer_shutdown(consumer, 10000, &err), RMQ_ERR_BROKER);
        TL_CHECK(strstr(rmq_error_message(err), "offsets of 1 queues are not stored") != NULL);
        TL_CHECK(strstr(rmq_error_message(err), "not now") != NULL);
        rmq_error_destroy(err);
        err = NULL;
    }
    rmq_consumer_destroy(consumer);
    rmq_broker_fault_clear(servers.broker);
    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_CHECK(tl_wait(came_again, NULL, 20000));
    TL_OK(rmq_consumer_shutdown(consumer, 10000, &err));
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    stop_servers(&servers);
}

/* Every reply code is looked at: none of these may lose a message, stop a queue, or be taken for
 * "none". */
static void errors_of_any_kind_only_delay(void)
{
    static const struct {
        int request;
        int code;
    } faults[] = {{11, 1}, {11, 2}, {11, 16}, {11, 24}, {11, 25}, {11, 215},
                  {14, 1}, {30, 1}, {34, 1},  {38, 1},  {15, 1}};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int count = 0;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        TL_OK(rmq_broker_fault_answer(cluster.broker, faults[i].request, 4, faults[i].code, "fault",
                                      &err));
        rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
        tl_send(&cluster, producer, "m", count, 20);
        count += 20;
        tl_seen_wait(&seen, count, 20000);
        rmq_consumer_destroy(consumer);
        rmq_broker_fault_clear(cluster.broker);
        TL_EQUAL(atomic_load(&seen.different), count);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void lost_answers_and_cut_connections_only_delay(void)
{
    static const int requests[] = {11, 14, 34, 38};
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    int count = 0;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    for (size_t i = 0; i < 4; i++) {
        TL_OK(rmq_broker_fault_cut(cluster.broker, requests[i], 3, &err));
        rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
        tl_send(&cluster, producer, "m", count, 20);
        count += 20;
        tl_seen_wait(&seen, count, 20000);
        rmq_consumer_destroy(consumer);
        rmq_broker_fault_clear(cluster.broker);
    }
    TL_OK(rmq_broker_fault_drop(cluster.broker, 38, 1, &err));
    TL_OK(rmq_broker_fault_drop(cluster.broker, 14, 1, &err));
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_send(&cluster, producer, "m", count, 20);
    tl_seen_wait(&seen, count + 20, 15000);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"consumption_resumes_when_the_broker_is_back", consumption_resumes_when_the_broker_is_back,
         60},
        TL_CASE(a_consumer_starts_while_all_servers_are_away_and_consumes_when_they_come),
        TL_CASE(shutdown_is_quick_while_the_servers_are_away),
        TL_CASE(a_shutdown_says_that_offsets_are_not_stored),
        {"errors_of_any_kind_only_delay", errors_of_any_kind_only_delay, 90},
        {"lost_answers_and_cut_connections_only_delay", lost_answers_and_cut_connections_only_delay,
         90},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

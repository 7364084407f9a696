/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Many brokers and name servers in one process: started and stopped in any order, again and again,
 * behind a list in which one name server is silent and one is dead.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

#include "lib/cases.h"
#include "lib/fake_namesrv.h"
#include "lib/port.h"
#include "lib/proxy.h"
#include "lib/usage.h"

#define WAIT_MS 20000
#define MANY    4

/* A registration that is never answered lasts for ten minutes. */
static rmq_broker *start_broker(const char *name, const char *namesrv)
{
    rmq_error *err = NULL;
    rmq_broker *broker = NULL;
    rmq_broker_config *config = NULL;
    TL_OK(rmq_broker_config_create(&config, &err));
    TL_OK(rmq_broker_config_set(config, "brokerName", name, &err));
    TL_OK(rmq_broker_config_set(config, "registerBrokerTimeoutMills", "90000", &err));
    if (namesrv) {
        TL_OK(rmq_broker_config_set(config, "namesrvAddr", namesrv, &err));
    }
    TL_OK(rmq_broker_start(config, &broker, &err));
    rmq_broker_config_destroy(config);
    return broker;
}

static rmq_namesrv *start_namesrv(void)
{
    rmq_error *err = NULL;
    rmq_namesrv *namesrv = NULL;
    TL_OK(rmq_namesrv_start(NULL, 0, &namesrv, &err));
    return namesrv;
}

/* Sends one message with a client that knows this list of name servers. */
static void send_one(const char *namesrv, const char *topic)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "many";
    options.namesrv_addr = namesrv;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    TL_OK(rmq_message_create(topic, &message, &err));
    TL_EQUAL(rmq_message_copy_body(message, "many", 4), RMQ_OK);
    TL_OK(rmq_producer_send(producer, message, WAIT_MS, &result, &err));
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

/* Whether the name server knows the topic. */
static bool has_topic(void *arg)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    char *route = NULL;
    TL_OK(rmq_admin_create(arg, &admin, &err));
    bool found = rmq_admin_topic_route(admin, "Listed", 0, &route, NULL) == RMQ_OK;
    rmq_string_free(route);
    rmq_admin_destroy(admin);
    return found;
}

static void a_silent_and_a_dead_name_server_in_the_list_are_no_obstacle(void)
{
    rmq_error *err = NULL;
    char list[512];
    rmq_namesrv *living[3] = {start_namesrv(), start_namesrv(), start_namesrv()};
    char dead[64];
    tl_port_kept(dead, sizeof dead);
    struct tl_namesrv *silent = tl_namesrv_start();
    tl_namesrv_silent(silent, true);
    snprintf(list, sizeof list, "%s;%s;%s;%s;%s", rmq_namesrv_addr(living[0]),
             tl_namesrv_addr(silent), dead, rmq_namesrv_addr(living[1]),
             rmq_namesrv_addr(living[2]));
    rmq_broker *broker = start_broker("behind-the-list", list);
    TL_OK(rmq_broker_create_topic(broker, "Listed", 4, &err));
    for (int i = 0; i < 3; i++) {
        const char *addr = rmq_namesrv_addr(living[i]);
        TL_CHECK(tl_wait(has_topic, (void *)(uintptr_t)addr, WAIT_MS));
        send_one(addr, "Listed");
    }
    send_one(list, "Listed");
    rmq_broker_stop(broker);
    for (int i = 0; i < 3; i++) {
        rmq_namesrv_stop(living[i]);
    }
    tl_namesrv_stop(silent);
}

/* Whether the name server knows a broker. */
static bool has_broker(void *arg)
{
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    char *info = NULL;
    TL_OK(rmq_admin_create(arg, &admin, &err));
    rmq_status st = rmq_admin_cluster_info(admin, 0, &info, NULL);
    bool found = st == RMQ_OK && strstr(info, "early") != NULL;
    rmq_string_free(info);
    rmq_admin_destroy(admin);
    return found;
}

/* Long before the 30 s until the next registration that is due. */
static void a_broker_that_is_started_before_its_name_server_is_known_soon(void)
{
    rmq_namesrv *namesrv = start_namesrv();
    const char *addr = rmq_namesrv_addr(namesrv);
    struct tl_proxy *way = tl_proxy_start(addr);
    tl_proxy_refuse(way, true);
    rmq_broker *broker = start_broker("early", tl_proxy_addr(way));
    TL_CHECK(!has_broker((void *)(uintptr_t)addr));
    tl_proxy_refuse(way, false);
    TL_CHECK(tl_wait(has_broker, (void *)(uintptr_t)addr, WAIT_MS));
    rmq_broker_stop(broker);
    tl_proxy_stop(way);
    rmq_namesrv_stop(namesrv);
}

static void brokers_and_name_servers_stop_in_any_order(void)
{
    for (int order = 0; order < MANY; order++) {
        rmq_error *err = NULL;
        rmq_broker *brokers[MANY];
        char name[32];
        char list[256];
        rmq_namesrv *one = start_namesrv();
        rmq_namesrv *two = start_namesrv();
        snprintf(list, sizeof list, "%s;%s", rmq_namesrv_addr(one), rmq_namesrv_addr(two));
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "broker-%d", i);
            brokers[i] = start_broker(name, list);
            TL_OK(rmq_broker_create_topic(brokers[i], "Shared", 2, &err));
        }
        send_one(list, "Shared");
        rmq_broker_stop(brokers[order]);
        rmq_namesrv_stop(order % 2 ? one : two);
        send_one(rmq_namesrv_addr(order % 2 ? two : one), "Shared");
        for (int i = 1; i < MANY - 1; i++) {
            rmq_broker_stop(brokers[(order + i) % MANY]);
        }
        rmq_namesrv_stop(order % 2 ? two : one);
        rmq_broker_stop(brokers[(order + MANY - 1) % MANY]); /* nobody is left to take it off */
    }
}

/* A joined thread is seen in /proc for a moment longer. */
static bool has_no_more(void *arg)
{
    const struct tl_usage *before = arg;
    struct tl_usage now = tl_usage_of(0);
    return now.threads <= before->threads && now.descriptors <= before->descriptors;
}

static void rounds(int count)
{
    for (int i = 0; i < count; i++) {
        rmq_namesrv *namesrv = i % 2 ? start_namesrv() : NULL;
        rmq_broker *broker = start_broker("again", namesrv ? rmq_namesrv_addr(namesrv) : NULL);
        if (i % 3) {
            rmq_broker_stop(broker);
            rmq_namesrv_stop(namesrv);
        } else {
            rmq_namesrv_stop(namesrv);
            rmq_broker_stop(broker);
        }
    }
}

/* Stores in memory where there is such a place: the rounds are about processes, not about disks. */
static void two_hundred_rounds_leave_nothing_behind(void)
{
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1);
    }
    rounds(20); /* what is made once is made */
    struct tl_usage before = tl_usage_of(0);
    rounds(200);
    TL_CHECK(tl_wait(has_no_more, &before, WAIT_MS));
    struct tl_usage after = tl_usage_of(0);
    if (TL_MEMORY_COUNTS && after.rss_kb > before.rss_kb + 8 * 1024) {
        tl_fail(__FILE__, __LINE__, "memory grew from %ld to %ld KiB", before.rss_kb, after.rss_kb);
    }
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_silent_and_a_dead_name_server_in_the_list_are_no_obstacle),
        TL_CASE(a_broker_that_is_started_before_its_name_server_is_known_soon),
        TL_CASE(brokers_and_name_servers_stop_in_any_order),
        {"two_hundred_rounds_leave_nothing_behind", two_hundred_rounds_leave_nothing_behind, 100},
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A producer and its name servers: those that are dead, silent or unknown are skipped, lists that
 * make no sense are refused, and the environment may name them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/port.h"
#include "lib/usage.h"

static void dead_and_silent_name_servers_are_skipped_within_the_call(void)
{
    struct tl_cluster cluster;
    char silent[64];
    char dead[64];
    char list[512];
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    int fd = tl_port_silent(silent, sizeof silent);
    close(tl_port_silent(dead, sizeof dead));
    snprintf(list, sizeof list, "no-such-host.invalid:9876;%s;%s;%s", silent, dead,
             cluster.namesrv);
    rmq_producer *producer = tl_producer_on(list, 3000);
    rmq_message *message = tl_message(cluster.topic, "x", 1);
    int64_t start = tl_now_ms();
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_CHECK(tl_now_ms() - start < 2900);
    rmq_producer_destroy(producer);
    rmq_message_destroy(message);
    close(fd);
    tl_cluster_stop(&cluster);
}

static void an_unknown_host_fails_with_its_name_and_the_process_lives(void)
{
    rmq_error *err = NULL;
    rmq_producer *producer = tl_producer_on("no-such-host.invalid:9876", 3000);
    rmq_message *message = tl_message("Topic", "x", 1);
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_NO_NAMESRV);
    TL_CHECK(tl_now_ms() - start < 5000);
    TL_CHECK(strstr(rmq_error_message(err), "no-such-host.invalid") != NULL);
    TL_CHECK(rmq_error_retriable(err));
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
}

static void bad_name_server_lists_are_refused_at_creation(void)
{
    static const struct {
        const char *list;
        rmq_status status;
    } bad[] = {{"host", RMQ_ERR_INVALID},        {"host:99999", RMQ_ERR_INVALID},
               {"[::1:9876", RMQ_ERR_INVALID},   {";;", RMQ_ERR_NO_NAMESRV},
               {"http://host", RMQ_ERR_INVALID}, {"http://127.0.0.1:1/nsaddr", RMQ_ERR_NO_NAMESRV}};
    unsetenv("NAMESRV_ADDR");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rmq_error *err = NULL;
        rmq_producer *producer = NULL;
        rmq_producer_options options;
        tl_producer_options_init(&options);
        options.producer_group = "g";
        options.namesrv_addr = bad[i].list;
        TL_EQUAL(rmq_producer_create(&options, &producer, &err), bad[i].status);
        TL_CHECK(*rmq_error_message(err));
        rmq_error_destroy(err);
        err = NULL;
        options.namesrv_addr = NULL;
        TL_EQUAL(rmq_producer_create(&options, &producer, &err), RMQ_ERR_NO_NAMESRV);
        TL_CHECK(strstr(rmq_error_message(err), "NAMESRV_ADDR") != NULL);
        rmq_error_destroy(err);
    }
}

static void the_environment_names_the_name_server(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    setenv("NAMESRV_ADDR", cluster.namesrv, 1);
    rmq_producer *producer = tl_producer_on(NULL, 3000);
    rmq_message *message = tl_message(cluster.topic, "x", 1);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_topic_without_route_is_an_error_that_names_it(void)
{
    rmq_error *err = NULL;
    struct tl_namesrv *ns = tl_namesrv_start();
    rmq_producer *producer = tl_producer_on(tl_namesrv_addr(ns), 1000);
    rmq_message *message = tl_message("NoSuchTopic", "x", 1);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_NO_ROUTE);
    TL_CHECK(strstr(rmq_error_message(err), "NoSuchTopic") != NULL);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_namesrv_stop(ns);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(dead_and_silent_name_servers_are_skipped_within_the_call),
        TL_CASE(an_unknown_host_fails_with_its_name_and_the_process_lives),
        TL_CASE(bad_name_server_lists_are_refused_at_creation),
        TL_CASE(the_environment_names_the_name_server),
        TL_CASE(a_topic_without_route_is_an_error_that_names_it),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

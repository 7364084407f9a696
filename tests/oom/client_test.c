/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Each kind of client made with its 1st, 2nd … Nth allocation failing: it is there or refused,
 * nothing is leaked, and the loop that it shares with another one goes on.
 */
#include <check.h>

#include <rmq/log.h>
#include <rmq/rmq.h>

#include "base/mem.h"

Suite *client_suite(void);

#define NAMESRV "127.0.0.1:1" /* never asked: nothing is sent or started */
/* Always one name: the table of clients keeps the name of one that has gone for its next use. */
#define NAME "oom"

static rmq_status make_producer(rmq_error **err)
{
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "g";
    options.namesrv_addr = NAMESRV;
    options.instance_name = NAME;
    rmq_status st = rmq_producer_create(&options, &producer, err);
    ck_assert((st == RMQ_OK) == (producer != NULL));
    rmq_producer_destroy(producer);
    return st;
}

static rmq_status make_consumer(rmq_error **err)
{
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "g";
    options.namesrv_addr = NAMESRV;
    options.instance_name = NAME;
    rmq_status st = rmq_consumer_create(&options, &consumer, err);
    ck_assert((st == RMQ_OK) == (consumer != NULL));
    rmq_consumer_destroy(consumer);
    return st;
}

static rmq_status make_lite_pull_consumer(rmq_error **err)
{
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_lite_pull_consumer_options options;
    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = "g";
    options.namesrv_addr = NAMESRV;
    options.instance_name = NAME;
    rmq_status st = rmq_lite_pull_consumer_create(&options, &consumer, err);
    ck_assert((st == RMQ_OK) == (consumer != NULL));
    rmq_lite_pull_consumer_destroy(consumer);
    return st;
}

static rmq_status make_pull_consumer(rmq_error **err)
{
    rmq_pull_consumer *consumer = NULL;
    rmq_pull_consumer_options options;
    rmq_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = "g";
    options.namesrv_addr = NAMESRV;
    options.instance_name = NAME;
    rmq_status st = rmq_pull_consumer_create(&options, &consumer, err);
    ck_assert((st == RMQ_OK) == (consumer != NULL));
    rmq_pull_consumer_destroy(consumer);
    return st;
}

static rmq_status make_pop_consumer(rmq_error **err)
{
    rmq_pop_consumer *consumer = NULL;
    rmq_pop_consumer_options options;
    rmq_pop_consumer_options_init(&options, sizeof options);
    options.consumer_group = "g";
    options.namesrv_addr = NAMESRV;
    options.instance_name = NAME;
    rmq_status st = rmq_pop_consumer_create(&options, &consumer, err);
    ck_assert((st == RMQ_OK) == (consumer != NULL));
    rmq_pop_consumer_destroy(consumer);
    return st;
}

static const struct {
    const char *name;
    rmq_status (*make)(rmq_error **err);
} kinds[] = {{"producer", make_producer},
             {"consumer", make_consumer},
             {"lite pull", make_lite_pull_consumer},
             {"pull", make_pull_consumer},
             {"pop", make_pop_consumer}};

START_TEST(a_client_is_made_or_refused_whichever_allocation_fails)
{
    rmq_producer *other = NULL;
    rmq_producer_options options;
    int failed = 0;
    rmq_log_set(RMQ_LOG_OFF, NULL, NULL);
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "other";
    options.namesrv_addr = NAMESRV;
    ck_assert_int_eq(rmq_producer_create(&options, &other, NULL), RMQ_OK);
    rq_mem_count(1);
    ck_assert_int_eq(kinds[_i].make(NULL), RMQ_OK);
    size_t before = rq_mem_live();
    for (size_t n = 1;; n++) {
        rmq_error *err = NULL;
        size_t made = rq_mem_fail_at(n);
        rmq_status st = kinds[_i].make(&err);
        bool reached = rq_mem_fail_at(0) - made >= n;
        failed += st != RMQ_OK;
        ck_assert((st == RMQ_OK) == (err == NULL));
        rmq_error_destroy(err);
        ck_assert_msg(rq_mem_live() == before, "%s, allocation %zu: %zu left", kinds[_i].name, n,
                      rq_mem_live() - before);
        if (!reached) {
            break;
        }
    }
    ck_assert_int_gt(failed, 10);
    rq_mem_count(0);
    rmq_producer_destroy(other);
}
END_TEST

Suite *client_suite(void)
{
    Suite *suite = suite_create("oom/client");
    TCase *tc = tcase_create("client");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_client_is_made_or_refused_whichever_allocation_fails, 0,
                        (int)(sizeof kinds / sizeof kinds[0]));
    suite_add_tcase(suite, tc);
    return suite;
}

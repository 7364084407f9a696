/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Histograms of answer times. */
#include <check.h>
#include <string.h>

#include "client/latency.h"

Suite *latency_suite(void);

START_TEST(each_value_is_in_the_bucket_of_its_bound)
{
    struct rq_latency latency = {0};
    struct rq_buf out;
    rq_latency_add(&latency, 0);
    rq_latency_add(&latency, 100);
    rq_latency_add(&latency, 101);
    rq_latency_add(&latency, 5000000);
    rq_latency_add(&latency, 5000001);
    rq_buf_init(&out, 0);
    rq_latency_write(&latency, &out);
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out), "\"count\":5,\"sumUs\":10000202"));
    ck_assert_ptr_nonnull(
        strstr(rq_buf_cstr(&out), "\"counts\":[2,1,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1]"));
    ck_assert_ptr_nonnull(strstr(rq_buf_cstr(&out), "\"p99Us\":null"));
    rq_buf_free(&out);
}
END_TEST

START_TEST(percentiles_are_the_bounds_of_their_buckets)
{
    struct rq_latency latency = {0};
    ck_assert(rq_latency_percentile(&latency, 99) == 0);
    for (int i = 0; i < 98; i++) {
        rq_latency_add(&latency, 150);
    }
    rq_latency_add(&latency, 900);
    rq_latency_add(&latency, 40000);
    ck_assert(rq_latency_percentile(&latency, 50) == 200);
    ck_assert(rq_latency_percentile(&latency, 98) == 200);
    ck_assert(rq_latency_percentile(&latency, 99) == 1000);
    ck_assert(rq_latency_percentile(&latency, 100) == 50000);
}
END_TEST

Suite *latency_suite(void)
{
    Suite *suite = suite_create("latency");
    TCase *cases = tcase_create("latency");
    tcase_add_test(cases, each_value_is_in_the_bucket_of_its_bound);
    tcase_add_test(cases, percentiles_are_the_bounds_of_their_buckets);
    suite_add_tcase(suite, cases);
    return suite;
}

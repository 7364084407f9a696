/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Queue choice and broker health, with injected time. */
#include <check.h>

#include "client/fault.h"

Suite *fault_suite(void);

static struct rq_broker_health health_a, health_b;
static struct rq_route_broker brokers[2];
static struct rq_route_queue queues[4];
static struct rq_route route;

static void two_brokers_with_two_queues_each(void)
{
    struct rq_broker_health *const healths[2] = {&health_a, &health_b};
    for (int i = 0; i < 2; i++) {
        atomic_init(&healths[i]->available_at_ms, 0);
        atomic_init(&healths[i]->suspect, false);
        brokers[i] = (struct rq_route_broker){.health = healths[i]};
    }
    for (int i = 0; i < 4; i++) {
        queues[i] = (struct rq_route_queue){.broker = &brokers[i / 2], .id = i % 2};
    }
    route = (struct rq_route){.publish = queues, .publish_count = 4};
}

static const struct rq_broker_health *pick(uint32_t index, const struct rq_broker_health *avoid,
                                           int64_t now)
{
    const struct rq_route_queue *queue = rq_fault_pick(&route, index, avoid, true, now);
    return queue ? queue->broker->health : NULL;
}

START_TEST(queues_are_taken_in_turn)
{
    for (uint32_t i = 0; i < 9; i++) {
        ck_assert_ptr_eq(rq_fault_pick(&route, i, NULL, true, 1000), &queues[i % 4]);
    }
    ck_assert_ptr_nonnull(rq_fault_pick(&route, UINT32_MAX, NULL, true, 1000));
}
END_TEST

START_TEST(a_retry_goes_to_another_broker_when_there_is_one)
{
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_ptr_eq(pick(i, &health_a, 1000), &health_b);
    }
    route.publish_count = 2;
    ck_assert_ptr_eq(pick(0, &health_a, 1000), &health_a);
}
END_TEST

START_TEST(a_failed_broker_is_passed_over_until_it_answers)
{
    rq_fault_failed(&health_a, 1000);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_ptr_eq(pick(i, NULL, 1001), &health_b);
        ck_assert_ptr_eq(pick(i, NULL, 1000000),
                         &health_b); /* time alone does not make it usable */
    }
    ck_assert(rq_fault_alive(&health_a));
    ck_assert(!rq_fault_alive(&health_a));
    ck_assert_ptr_eq(pick(0, NULL, 1002), &health_a);
}
END_TEST

START_TEST(a_failed_broker_is_used_when_nothing_else_is_left)
{
    rq_fault_failed(&health_a, 1000);
    rq_fault_failed(&health_b, 1000);
    ck_assert_ptr_nonnull(pick(0, NULL, 1001));
    ck_assert_ptr_eq(pick(2, &health_a, 1001), &health_b);
    ck_assert_ptr_eq(pick(0, &health_b, 1001), &health_a);
}
END_TEST

START_TEST(a_slow_broker_is_passed_over_for_the_time_of_the_table)
{
    rq_fault_answered(&health_a, 1000, 600);
    ck_assert_ptr_eq(pick(0, NULL, 2999), &health_b);
    ck_assert_ptr_eq(pick(0, NULL, 3000), &health_a);
    rq_fault_answered(&health_a, 4000, 20);
    ck_assert_ptr_eq(pick(0, NULL, 4000), &health_a);
    ck_assert(rq_fault_pause_ms(549) == 0);
    ck_assert(rq_fault_pause_ms(550) == 2000);
    ck_assert(rq_fault_pause_ms(1800) == 5000);
    ck_assert(rq_fault_pause_ms(3000) == 6000);
    ck_assert(rq_fault_pause_ms(5000) == 10000);
    ck_assert(rq_fault_pause_ms(15000) == 30000);
}
END_TEST

START_TEST(a_busy_broker_pauses_but_is_not_suspect)
{
    rq_fault_refused(&health_a, 1000);
    ck_assert(!rq_fault_usable(&health_a, 1001));
    ck_assert(!atomic_load(&health_a.suspect));
    ck_assert(rq_fault_usable(&health_a, 11000));
}
END_TEST

START_TEST(without_faults_only_the_last_broker_is_avoided)
{
    rq_fault_failed(&health_a, 1000);
    ck_assert_ptr_eq(rq_fault_pick(&route, 0, NULL, false, 1001), &queues[0]);
    ck_assert_ptr_eq(rq_fault_pick(&route, 0, &health_a, false, 1001), &queues[2]);
}
END_TEST

START_TEST(no_queue_gives_no_queue)
{
    route.publish_count = 0;
    ck_assert_ptr_null(rq_fault_pick(&route, 7, NULL, true, 1000));
}
END_TEST

START_TEST(an_attempt_gets_a_share_only_when_another_broker_could_take_over)
{
    ck_assert(rq_fault_has_spare(&route, &health_a, 1000));
    rq_fault_failed(&health_b, 1000);
    ck_assert(!rq_fault_has_spare(&route, &health_a, 1000));
    ck_assert(rq_fault_share_ms(3000, 2, -1, true) == 1000);
    ck_assert(rq_fault_share_ms(2000, 1, -1, true) == 1000);
    ck_assert(rq_fault_share_ms(1000, 0, -1, true) == 1000);
    ck_assert(rq_fault_share_ms(3000, 2, -1, false) == 3000);
    ck_assert(rq_fault_share_ms(3000, 2, 500, false) == 500);
    ck_assert(rq_fault_share_ms(3000, 0, 500, true) == 3000);
    ck_assert(rq_fault_share_ms(300, 2, 500, true) == 300);
}
END_TEST

Suite *fault_suite(void)
{
    Suite *suite = suite_create("fault");
    TCase *cases = tcase_create("fault");
    tcase_add_checked_fixture(cases, two_brokers_with_two_queues_each, NULL);
    tcase_add_test(cases, queues_are_taken_in_turn);
    tcase_add_test(cases, a_retry_goes_to_another_broker_when_there_is_one);
    tcase_add_test(cases, a_failed_broker_is_passed_over_until_it_answers);
    tcase_add_test(cases, a_failed_broker_is_used_when_nothing_else_is_left);
    tcase_add_test(cases, a_slow_broker_is_passed_over_for_the_time_of_the_table);
    tcase_add_test(cases, a_busy_broker_pauses_but_is_not_suspect);
    tcase_add_test(cases, without_faults_only_the_last_broker_is_avoided);
    tcase_add_test(cases, no_queue_gives_no_queue);
    tcase_add_test(cases, an_attempt_gets_a_share_only_when_another_broker_could_take_over);
    suite_add_tcase(suite, cases);
    return suite;
}

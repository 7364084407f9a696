/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The end of a send between its starter and a shutdown that cuts it off: who tells it, and when. As
 * long as the starter reads the program's message, the program must not hear of the end, since it
 * may free a body that it lent.
 */
#include <check.h>
#include <stdatomic.h>

#include "base/time.h"
#include "client/send.h"

#define WAIT_MS 10000

Suite *send_pool_suite(void);

static struct rq_send_pool *pool;
static struct rq_loop *loop;
static atomic_int closed; /* completions with RMQ_ERR_CLOSED */
static atomic_int others;
static atomic_int maybe; /* of those closed, that may be stored */

static void count(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)user;
    bool is_closed = !result && rmq_error_status(err) == RMQ_ERR_CLOSED;
    atomic_fetch_add(&maybe, is_closed && rmq_error_maybe_stored(err));
    atomic_fetch_add(is_closed ? &closed : &others, 1);
}

static void setup(void)
{
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    pool = rq_send_pool_create(&options);
    ck_assert_ptr_nonnull(pool);
    ck_assert_int_eq(rq_loop_shared_get(&loop, NULL), RMQ_OK);
    pool->loop = loop;
    atomic_store(&closed, 0);
    atomic_store(&others, 0);
    atomic_store(&maybe, 0);
}

/* Whatever a test did: nothing is active, and nothing is left for a sanitizer to find. */
static void teardown(void)
{
    ck_assert(rq_send_pool_drain(pool, rq_deadline_ms(WAIT_MS)));
    rq_send_pool_end(pool);
    rq_send_pool_release(pool);
    rq_loop_put(loop);
}

static struct rq_send_op *take(enum rq_send_mode mode)
{
    const struct rq_send_order order = {.mode = mode, .size = 1, .done = count};
    struct rq_send_op *op = NULL;
    ck_assert_int_eq(rq_send_pool_take(pool, &order, &op, NULL), RMQ_OK);
    return op;
}

/* Everything but the program's threads has had its turn. */
static void expect_completions(int expected)
{
    ck_assert(rq_send_pool_drain(pool, rq_deadline_ms(WAIT_MS)));
    ck_assert_int_eq(atomic_load(&closed), expected);
    ck_assert_int_eq(atomic_load(&others), 0);
}

START_TEST(a_send_that_is_being_started_is_told_by_its_starter)
{
    const enum rq_send_mode modes[] = {RQ_SEND_ASYNC, RQ_SEND_INNER};
    struct rq_mpsc_node *claimed = NULL;
    struct rq_send_op *op = take(modes[_i]);
    rq_send_pool_close(pool);
    ck_assert_uint_eq(rq_send_pool_cut(pool, &claimed), 1);
    ck_assert_ptr_null(claimed);
    ck_assert(!rq_send_pool_drain(pool, 0)); /* it is active still */
    ck_assert_int_eq(atomic_load(&closed), 0);
    ck_assert(!rq_send_started(op));
    rq_send_deliver(op);
    expect_completions(1);
}
END_TEST

START_TEST(a_send_that_was_started_is_told_by_the_shutdown)
{
    struct rq_mpsc_node *claimed = NULL;
    struct rq_send_op *op = take(RQ_SEND_ASYNC);
    ck_assert(rq_send_started(op));
    ck_assert(rq_send_started(op));
    rq_send_pool_close(pool);
    ck_assert_uint_eq(rq_send_pool_cut(pool, &claimed), 1);
    ck_assert_ptr_eq(claimed, &op->completed);
    ck_assert_int_eq(atomic_load(&closed), 0);
    rq_send_complete_cut(claimed);
    expect_completions(1);
    ck_assert(rq_send_is_cut(op)); /* the answer comes too late */
    expect_completions(1);
}
END_TEST

/* None: not tried yet. Then one that was tried, one whose attempt stored nothing, and one that may
 * have stored something before. */
START_TEST(a_send_that_is_cut_off_says_whether_it_may_be_stored)
{
    struct rq_mpsc_node *claimed = NULL;
    struct rq_send_op *op = take(RQ_SEND_ASYNC);
    ck_assert(rq_send_started(op));
    if (_i > 0) {
        ck_assert(rq_send_try(op));
    }
    if (_i == 2) {
        rq_send_not_stored(op);
    } else if (_i == 3) {
        op->maybe_stored = true;
        ck_assert(rq_send_untry(op));
        ck_assert(rq_send_try(op));
    }
    rq_send_pool_close(pool);
    ck_assert_uint_eq(rq_send_pool_cut(pool, &claimed), 1);
    ck_assert(!rq_send_try(op));
    rq_send_complete_cut(claimed);
    expect_completions(1);
    ck_assert_int_eq(atomic_load(&maybe), _i % 2);
    ck_assert(rq_send_is_cut(op));
}
END_TEST

/* The next attempt reads the message again. */
START_TEST(a_send_whose_attempt_was_taken_back_is_told_by_its_starter)
{
    struct rq_mpsc_node *claimed = NULL;
    struct rq_send_op *op = take(RQ_SEND_ASYNC);
    ck_assert(rq_send_try(op));
    ck_assert(rq_send_untry(op));
    rq_send_pool_close(pool);
    ck_assert_uint_eq(rq_send_pool_cut(pool, &claimed), 1);
    ck_assert_ptr_null(claimed);
    ck_assert(!rq_send_untry(op));
    ck_assert(rq_send_is_cut(op));
    expect_completions(1);
    ck_assert_int_eq(atomic_load(&maybe), 0);
}
END_TEST

START_TEST(a_send_that_was_not_started_is_given_back_though_it_was_cut_off)
{
    const enum rq_send_mode modes[] = {RQ_SEND_SYNC, RQ_SEND_ASYNC, RQ_SEND_EVENT, RQ_SEND_ONEWAY,
                                       RQ_SEND_INNER};
    struct rq_mpsc_node *claimed = NULL;
    struct rq_send_op *op = take(modes[_i]);
    rq_send_pool_close(pool);
    ck_assert_uint_eq(rq_send_pool_cut(pool, &claimed), 1);
    ck_assert_ptr_null(claimed);
    rq_send_pool_untake(op);
    expect_completions(0);
}
END_TEST

START_TEST(a_send_that_ends_while_it_is_started_is_not_cut_off)
{
    struct rq_mpsc_node *claimed = NULL;
    struct rq_send_op *op = take(RQ_SEND_SYNC);
    rq_send_deliver(op);
    rq_send_pool_close(pool);
    ck_assert_uint_eq(rq_send_pool_cut(pool, &claimed), 0);
    rq_waiter_wait(&op->waiter);
    rq_send_consumed(op);
    expect_completions(0);
}
END_TEST

struct gate_work {
    struct rq_work work;
    struct rq_waiter waiter;
};

static void wait_at_gate(struct rq_work *work)
{
    rq_waiter_wait(&RQ_CONTAINER_OF(work, struct gate_work, work)->waiter);
}

static void tell_end(struct rq_work *work)
{
    rq_waiter_done(&RQ_CONTAINER_OF(work, struct gate_work, work)->waiter);
}

/* The run before takes a completion of which the work is still to be posted: then the producer may
 * go while the callback thread is busy for another one. */
START_TEST(a_pool_stays_until_its_work_on_the_callback_thread_has_run)
{
    struct gate_work gate = {.work.run = wait_at_gate};
    struct gate_work end = {.work.run = tell_end};
    struct rq_executor *executor = NULL;
    rq_waiter_init(&gate.waiter);
    rq_waiter_init(&end.waiter);
    ck_assert_int_eq(rq_executor_get(&executor, NULL), RMQ_OK);
    rq_executor_post(executor, &gate.work);
    struct rq_send_op *op = take(RQ_SEND_ASYNC);
    ck_assert(rq_send_started(op));
    rq_send_deliver(op);
    ck_assert_ptr_eq(rq_mpsc_take_all(&pool->completed), &op->completed);
    rq_send_consumed(op);
    ck_assert(rq_send_pool_drain(pool, rq_deadline_ms(WAIT_MS)));
    ck_assert_uint_eq(pool->refs, 2); /* the producer's and the work's */
    rq_send_pool_end(pool);
    rq_send_pool_release(pool);
    rq_executor_post(executor, &end.work);
    rq_waiter_done(&gate.waiter);
    rq_waiter_wait(&end.waiter);
    rq_executor_put(executor);
    rq_loop_put(loop);
}
END_TEST

Suite *send_pool_suite(void)
{
    Suite *suite = suite_create("send_pool");
    TCase *tc = tcase_create("cut");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_send_that_is_being_started_is_told_by_its_starter, 0, 2);
    tcase_add_test(tc, a_send_that_was_started_is_told_by_the_shutdown);
    tcase_add_loop_test(tc, a_send_that_is_cut_off_says_whether_it_may_be_stored, 0, 4);
    tcase_add_test(tc, a_send_whose_attempt_was_taken_back_is_told_by_its_starter);
    tcase_add_loop_test(tc, a_send_that_was_not_started_is_given_back_though_it_was_cut_off, 0, 5);
    tcase_add_test(tc, a_send_that_ends_while_it_is_started_is_not_cut_off);
    suite_add_tcase(suite, tc);
    tc = tcase_create("end");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_pool_stays_until_its_work_on_the_callback_thread_has_run);
    suite_add_tcase(suite, tc);
    return suite;
}

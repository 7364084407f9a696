/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The callback thread: order, sharing, ending from within. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "client/executor.h"
#include "client/waiter.h"

Suite *executor_suite(void);

struct job {
    struct rq_work work;
    int number;
    int *order;
    int *at;
    struct rq_waiter *last;
};

static void note(struct rq_work *work)
{
    struct job *job = RQ_CONTAINER_OF(work, struct job, work);
    ck_assert(rq_executor_in());
    job->order[(*job->at)++] = job->number;
    if (job->last) {
        rq_waiter_done(job->last);
    }
}

START_TEST(work_runs_in_the_order_of_posting_on_a_thread_of_its_own)
{
    struct rq_executor *executor = NULL;
    struct job jobs[100];
    int order[100];
    int at = 0;
    struct rq_waiter last;
    rq_waiter_init(&last);
    ck_assert_int_eq(rq_executor_get(&executor, NULL), RMQ_OK);
    ck_assert(!rq_executor_in());
    for (int i = 0; i < 100; i++) {
        jobs[i] = (struct job){{.run = note}, i, order, &at, i == 99 ? &last : NULL};
        rq_executor_post(executor, &jobs[i].work);
    }
    rq_waiter_wait(&last);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(order[i], i);
    }
    rq_executor_put(executor);
}
END_TEST

START_TEST(users_share_one_executor_and_the_last_one_ends_it)
{
    struct rq_executor *a = NULL;
    struct rq_executor *b = NULL;
    ck_assert_int_eq(rq_executor_get(&a, NULL), RMQ_OK);
    ck_assert_int_eq(rq_executor_get(&b, NULL), RMQ_OK);
    ck_assert_ptr_eq(a, b);
    rq_executor_put(a);
    struct rq_waiter done;
    int order[1], at = 0;
    rq_waiter_init(&done);
    struct job job = {{.run = note}, 1, order, &at, &done};
    rq_executor_post(b, &job.work);
    rq_waiter_wait(&done);
    rq_executor_put(b);
}
END_TEST

struct last_put {
    struct rq_work work;
    struct rq_executor *executor;
    struct rq_waiter done;
};

static void put_on_itself(struct rq_work *work)
{
    struct last_put *job = RQ_CONTAINER_OF(work, struct last_put, work);
    rq_executor_put(job->executor);
    rq_waiter_done(&job->done);
}

START_TEST(the_last_put_may_come_from_the_callback_thread)
{
    for (int i = 0; i < 50; i++) {
        struct last_put job = {.work.run = put_on_itself};
        rq_waiter_init(&job.done);
        ck_assert_int_eq(rq_executor_get(&job.executor, NULL), RMQ_OK);
        rq_executor_post(job.executor, &job.work);
        rq_waiter_wait(&job.done);
    }
}
END_TEST

struct counted {
    struct rq_work work;
    atomic_int *count;
};

static void add_one(struct rq_work *work)
{
    atomic_fetch_add(RQ_CONTAINER_OF(work, struct counted, work)->count, 1);
}

#define POSTS 5000

struct poster {
    struct rq_executor *executor;
    struct counted works[POSTS];
};

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS; i++) {
        rq_executor_post(poster->executor, &poster->works[i].work);
    }
    return NULL;
}

START_TEST(what_many_threads_posted_has_run_when_the_last_put_returns)
{
    static struct poster posters[3];
    struct rq_executor *executor = NULL;
    atomic_int count = 0;
    pthread_t threads[3];
    ck_assert_int_eq(rq_executor_get(&executor, NULL), RMQ_OK);
    for (int t = 0; t < 3; t++) {
        posters[t].executor = executor;
        for (int i = 0; i < POSTS; i++) {
            posters[t].works[i] = (struct counted){{.run = add_one}, &count};
        }
        ck_assert_int_eq(pthread_create(&threads[t], NULL, post_all, &posters[t]), 0);
    }
    for (int t = 0; t < 3; t++) {
        pthread_join(threads[t], NULL);
    }
    rq_executor_put(executor);
    ck_assert_int_eq(atomic_load(&count), 3 * POSTS);
}
END_TEST

Suite *executor_suite(void)
{
    Suite *suite = suite_create("executor");
    TCase *cases = tcase_create("executor");
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, work_runs_in_the_order_of_posting_on_a_thread_of_its_own);
    tcase_add_test(cases, users_share_one_executor_and_the_last_one_ends_it);
    tcase_add_test(cases, the_last_put_may_come_from_the_callback_thread);
    tcase_add_test(cases, what_many_threads_posted_has_run_when_the_last_put_returns);
    suite_add_tcase(suite, cases);
    return suite;
}

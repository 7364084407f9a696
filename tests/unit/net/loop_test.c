/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/loop and net/timer. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"
#include "net/gate.h"
#include "net/loop.h"
#include "net/loop_priv.h"
#include "unit/net/world.h"

struct counted_task {
    struct rq_task task;
    _Atomic int *count;
};

static void count_and_free(struct rq_task *task)
{
    struct counted_task *counted = RQ_CONTAINER_OF(task, struct counted_task, task);
    atomic_fetch_add(counted->count, 1);
    free(counted);
}

static struct rq_loop *posting_loop;
static _Atomic int posted_count;

static void post_counted(struct rq_loop *loop)
{
    struct counted_task *counted = malloc(sizeof *counted);
    *counted = (struct counted_task){.task.run = count_and_free, .count = &posted_count};
    ck_assert(rq_loop_post(loop, &counted->task));
}

static void *post_many(void *arg)
{
    for (int i = 0; i < 10000; i++) {
        post_counted(posting_loop);
    }
    return arg;
}

START_TEST(every_task_of_many_threads_runs_once)
{
    pthread_t threads[4];
    atomic_store(&posted_count, 0);
    ck_assert_int_eq(rq_loop_create("test", &posting_loop, NULL), RMQ_OK);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, post_many, NULL);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    rq_loop_put(posting_loop); /* runs what was posted before it ends */
    ck_assert_int_eq(atomic_load(&posted_count), 40000);
}
END_TEST

struct blocker {
    struct rq_task task;
    struct rq_gate in;
    struct rq_gate go;
};

static void block(struct rq_task *task)
{
    struct blocker *blocker = RQ_CONTAINER_OF(task, struct blocker, task);
    rq_gate_open(&blocker->in);
    (void)rq_gate_wait(&blocker->go, RQ_FOREVER);
}

static _Atomic int again_count;

static void count_again(struct rq_task *task)
{
    (void)task;
    atomic_fetch_add(&again_count, 1);
}

/* Whether it is still in the list or in what the loop has taken from it. */
START_TEST(a_task_that_waits_may_be_posted_again_and_runs_once)
{
    struct rq_loop *loop = NULL;
    struct blocker blocker = {.task.run = block};
    struct rq_task again = {.run = count_again};
    rq_gate_init(&blocker.in);
    rq_gate_init(&blocker.go);
    atomic_store(&posted_count, 0);
    atomic_store(&again_count, 0);
    ck_assert_int_eq(rq_loop_create("test", &loop, NULL), RMQ_OK);
    ck_assert(rq_loop_post(loop, &blocker.task));
    (void)rq_gate_wait(&blocker.in, RQ_FOREVER);
    for (int i = 0; i < 3; i++) { /* all behind what the loop is at */
        post_counted(loop);
        ck_assert(rq_loop_post(loop, &again));
    }
    struct blocker taken = {.task.run = block};
    rq_gate_init(&taken.in);
    rq_gate_init(&taken.go);
    ck_assert(rq_loop_post(loop, &taken.task));
    struct rq_task behind = {.run = count_again};
    ck_assert(rq_loop_post(loop, &behind)); /* taken together with the second blocker */
    rq_gate_open(&blocker.go);
    (void)rq_gate_wait(&taken.in, RQ_FOREVER);
    ck_assert_int_eq(atomic_load(&posted_count), 3);
    ck_assert_int_eq(atomic_load(&again_count), 1);
    for (int i = 0; i < 3; i++) {
        post_counted(loop);
        ck_assert(rq_loop_post(loop, &behind));
        ck_assert(rq_loop_post(loop, &again));
    }
    rq_gate_open(&taken.go);
    rq_loop_put(loop);
    ck_assert_int_eq(atomic_load(&posted_count), 6);
    ck_assert_int_eq(atomic_load(&again_count), 3);
}
END_TEST

#define TIMERS 500

struct test_timer {
    struct rq_timer timer;
    int64_t due;
};

static struct test_timer timers[TIMERS];
static int64_t last_due;
static _Atomic int fired;
static int out_of_order;

static void on_fire(struct rq_timer *timer)
{
    struct test_timer *test = RQ_CONTAINER_OF(timer, struct test_timer, timer);
    if (test->due < last_due || rq_mono_ms() < test->due) {
        out_of_order++;
    }
    last_due = test->due;
    atomic_fetch_add(&fired, 1);
}

static void start_timers(void *arg)
{
    struct rq_loop *loop = arg;
    int64_t now = rq_loop_now(loop);
    unsigned seed = 7;
    for (int i = 0; i < TIMERS; i++) {
        seed = seed * 1103515245u + 12345u;
        rq_timer_init(&timers[i].timer, on_fire);
        timers[i].due = now + 20 + (int64_t)(seed >> 16) % 100;
        rq_timer_start_at(loop, &timers[i].timer, timers[i].due);
    }
    for (int i = 0; i < TIMERS; i += 5) {
        rq_timer_stop(&timers[i].timer);
        ck_assert(!rq_timer_running(&timers[i].timer));
    }
    for (int i = 1; i < TIMERS; i += 5) {
        timers[i].due += 30;
        rq_timer_start_at(loop, &timers[i].timer, timers[i].due); /* restarted */
    }
}

START_TEST(timers_fire_in_order_and_not_early)
{
    struct rq_loop *loop = NULL;
    last_due = 0;
    out_of_order = 0;
    atomic_store(&fired, 0);
    ck_assert_int_eq(rq_loop_create("test", &loop, NULL), RMQ_OK);
    ck_assert(rq_loop_run(loop, start_timers, loop));
    wait_for(&fired, TIMERS - TIMERS / 5);
    rq_loop_put(loop);
    ck_assert_int_eq(atomic_load(&fired), TIMERS - TIMERS / 5);
    ck_assert_int_eq(out_of_order, 0);
}
END_TEST

#define AGAIN 5

/* A timer that starts itself again for now, and a task that runs once in each turn. */
struct turns {
    struct rq_timer timer;
    struct rq_task task;
    struct rq_loop *loop;
    struct rq_gate done;
    int turn;
    int fires;
    int at[AGAIN]; /* the turn of each fire */
};

static void fire_again(struct rq_timer *timer)
{
    struct turns *turns = RQ_CONTAINER_OF(timer, struct turns, timer);
    turns->at[turns->fires++] = turns->turn;
    if (turns->fires < AGAIN) {
        rq_timer_start(turns->loop, timer, 0);
    }
}

static void count_turn(struct rq_task *task)
{
    struct turns *turns = RQ_CONTAINER_OF(task, struct turns, task);
    turns->turn++;
    if (turns->fires == AGAIN) {
        rq_gate_open(&turns->done);
    } else {
        rq_loop_post(turns->loop, task);
    }
}

static void start_turns(void *arg)
{
    struct turns *turns = arg;
    rq_timer_init(&turns->timer, fire_again);
    rq_timer_start(turns->loop, &turns->timer, 0);
    rq_loop_post(turns->loop, &turns->task);
}

START_TEST(a_timer_that_starts_again_for_now_leaves_the_turn_to_others)
{
    struct turns turns = {.task.run = count_turn};
    rq_gate_init(&turns.done);
    ck_assert_int_eq(rq_loop_create("test", &turns.loop, NULL), RMQ_OK);
    ck_assert(rq_loop_run(turns.loop, start_turns, &turns));
    ck_assert(rq_gate_wait(&turns.done, rq_deadline_ms(20000)));
    rq_loop_put(turns.loop);
    for (int i = 1; i < AGAIN; i++) {
        ck_assert_int_gt(turns.at[i], turns.at[i - 1]);
    }
}
END_TEST

/* Three that are due in one turn. */
struct due {
    struct rq_timer first;
    struct rq_timer stopped;
    struct rq_timer again;
    struct rq_timer last;
    struct rq_loop *loop;
    struct rq_gate done;
    int stopped_fires;
    int again_fires;
};

static void fire_first(struct rq_timer *timer)
{
    struct due *due = RQ_CONTAINER_OF(timer, struct due, first);
    rq_timer_stop(&due->stopped);
    rq_timer_start(due->loop, &due->again, 0);
}

static void fire_stopped(struct rq_timer *timer)
{
    RQ_CONTAINER_OF(timer, struct due, stopped)->stopped_fires++;
}

static void fire_due_again(struct rq_timer *timer)
{
    struct due *due = RQ_CONTAINER_OF(timer, struct due, again);
    due->again_fires++;
    rq_timer_start(due->loop, &due->last, 1);
}

static void fire_last(struct rq_timer *timer)
{
    rq_gate_open(&RQ_CONTAINER_OF(timer, struct due, last)->done);
}

static void start_due(void *arg)
{
    struct due *due = arg;
    int64_t now = rq_loop_now(due->loop);
    rq_timer_init(&due->first, fire_first);
    rq_timer_init(&due->stopped, fire_stopped);
    rq_timer_init(&due->again, fire_due_again);
    rq_timer_init(&due->last, fire_last);
    rq_timer_start_at(due->loop, &due->again, now - 1);
    rq_timer_start_at(due->loop, &due->stopped, now - 2);
    rq_timer_start_at(due->loop, &due->first, now - 3);
}

START_TEST(a_timer_that_is_due_may_be_stopped_or_started_again_by_another)
{
    struct due due = {0};
    rq_gate_init(&due.done);
    ck_assert_int_eq(rq_loop_create("test", &due.loop, NULL), RMQ_OK);
    ck_assert(rq_loop_run(due.loop, start_due, &due));
    ck_assert(rq_gate_wait(&due.done, rq_deadline_ms(20000)));
    rq_loop_put(due.loop);
    ck_assert_int_eq(due.stopped_fires, 0);
    ck_assert_int_eq(due.again_fires, 1);
}
END_TEST

START_TEST(the_shared_loop_is_one_and_is_counted)
{
    struct rq_loop *a = NULL;
    struct rq_loop *b = NULL;
    ck_assert_int_eq(rq_loop_shared_get(&a, NULL), RMQ_OK);
    rq_loop_put(a); /* sanitizers start a thread of their own with the first */
    int threads = count_threads();
    ck_assert_int_eq(rq_loop_shared_get(&a, NULL), RMQ_OK);
    ck_assert_int_eq(rq_loop_shared_get(&b, NULL), RMQ_OK);
    ck_assert_ptr_eq(a, b);
    ck_assert_int_eq(count_threads(), threads + 1);
    rq_loop_put(a);
    ck_assert_int_eq(count_threads(), threads + 1);
    rq_loop_put(b);
    ck_assert_int_eq(count_threads(), threads);
    ck_assert_int_eq(rq_loop_shared_get(&a, NULL), RMQ_OK);
    rq_loop_put(a);
}
END_TEST

static void in_loop(void *arg)
{
    struct rq_loop *loop = arg;
    ck_assert(rq_loop_in(loop));
    ck_assert(rq_loop_run(loop, start_timers, loop)); /* nested: runs directly */
    for (int i = 0; i < TIMERS; i++) {
        rq_timer_stop(&timers[i].timer);
    }
}

START_TEST(run_waits_and_runs_directly_on_the_loop)
{
    struct rq_loop *loop = NULL;
    ck_assert_int_eq(rq_loop_create("test", &loop, NULL), RMQ_OK);
    ck_assert(!rq_loop_in(loop));
    ck_assert(rq_loop_run(loop, in_loop, loop));
    rq_loop_put(loop);
}
END_TEST

static struct rq_gate poster_is_out;

static void put_inside(struct rq_task *task)
{
    struct counted_task *counted = RQ_CONTAINER_OF(task, struct counted_task, task);
    (void)rq_gate_wait(&poster_is_out, rq_deadline_ms(5000));
    rq_loop_put(posting_loop);
    atomic_fetch_add(counted->count, 1);
}

START_TEST(the_last_reference_may_be_dropped_on_the_loop)
{
    int fds = count_fds();
    struct counted_task task = {.task.run = put_inside, .count = &posted_count};
    atomic_store(&posted_count, 0);
    rq_gate_init(&poster_is_out);
    ck_assert_int_eq(rq_loop_create("test", &posting_loop, NULL), RMQ_OK);
    rq_loop_retain(posting_loop); /* the task's */
    ck_assert(rq_loop_post(posting_loop, &task.task));
    rq_loop_put(posting_loop);
    rq_gate_open(&poster_is_out);
    wait_for(&posted_count, 1);
    int64_t deadline = rq_deadline_ms(5000);
    while (count_fds() != fds && rq_mono_ms() < deadline) {
        usleep(500);
    }
    ck_assert_int_eq(count_fds(), fds);
}
END_TEST

START_TEST(a_gate_times_out_and_opens)
{
    struct rq_gate gate;
    rq_gate_init(&gate);
    int64_t begin = rq_mono_ms();
    ck_assert(!rq_gate_wait(&gate, begin + 20));
    ck_assert_int_ge(rq_mono_ms(), begin + 20);
    rq_gate_open(&gate);
    ck_assert(rq_gate_wait(&gate, RQ_FOREVER));
}
END_TEST

Suite *loop_suite(void)
{
    Suite *suite = suite_create("net/loop");
    TCase *tc = tcase_create("loop");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, every_task_of_many_threads_runs_once);
    tcase_add_test(tc, a_task_that_waits_may_be_posted_again_and_runs_once);
    tcase_add_test(tc, timers_fire_in_order_and_not_early);
    tcase_add_test(tc, a_timer_that_starts_again_for_now_leaves_the_turn_to_others);
    tcase_add_test(tc, a_timer_that_is_due_may_be_stopped_or_started_again_by_another);
    tcase_add_test(tc, the_shared_loop_is_one_and_is_counted);
    tcase_add_test(tc, run_waits_and_runs_directly_on_the_loop);
    tcase_add_test(tc, the_last_reference_may_be_dropped_on_the_loop);
    tcase_add_test(tc, a_gate_times_out_and_opens);
    suite_add_tcase(suite, tc);
    return suite;
}

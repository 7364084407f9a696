/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The event queue: order, descriptor, waiting takers, events of a source that goes away. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/events.h"

Suite *events_suite(void);

static rmq_events *make(void)
{
    rmq_events *events = NULL;
    ck_assert_int_eq(rmq_events_create(&events, NULL), RMQ_OK);
    return events;
}

static void post(rmq_events *events, void *source, uint64_t token)
{
    struct rmq_event *event = rq_event_create(RMQ_EVENT_BATCH, source, NULL, NULL);
    ck_assert_ptr_nonnull(event);
    event->token = token;
    rq_events_post(events, event);
}

static bool readable(const rmq_events *events)
{
    struct pollfd fd = {.fd = rmq_events_fd(events), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static atomic_int destroyed;

static void count_and_free(struct rmq_event *event)
{
    atomic_fetch_add(&destroyed, 1);
    rq_free(event);
}

static void post_counted(rmq_events *events, uint64_t token)
{
    struct rmq_event *event = rq_event_create(RMQ_EVENT_SENT, events, NULL, NULL);
    ck_assert_ptr_nonnull(event);
    event->token = token;
    event->destroy = count_and_free;
    rq_events_post(events, event);
}

START_TEST(events_come_in_order_and_the_descriptor_tells_whether_there_are_any)
{
    rmq_events *events = make();
    rmq_event *out[4];
    ck_assert(!readable(events));
    ck_assert_uint_eq(rmq_events_take(events, out, 4, 0), 0);
    for (uint64_t i = 0; i < 6; i++) {
        post(events, events, i);
    }
    ck_assert(readable(events));
    ck_assert_uint_eq(rmq_events_take(events, out, 4, 0), 4);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(rmq_event_token(out[i]), i);
        rmq_event_destroy(out[i]);
    }
    ck_assert(readable(events));
    ck_assert_uint_eq(rmq_events_take(events, out, 4, 0), 2);
    ck_assert(!readable(events));
    rmq_event_destroy(out[0]);
    rmq_event_destroy(out[1]);
    rmq_events_destroy(events);
}
END_TEST

START_TEST(fields_of_an_event_are_borrowed_from_it)
{
    rmq_events *events = make();
    rmq_error *error = NULL;
    rmq_event *event = NULL;
    rq_error_set(&error, RMQ_ERR_IO, "what happened");
    rq_events_post(events, rq_event_create(RMQ_EVENT_ERROR, events, error, rq_strdup("words")));
    ck_assert_uint_eq(rmq_events_take(events, &event, 1, 1000), 1);
    ck_assert_int_eq(rmq_event_get_type(event), RMQ_EVENT_ERROR);
    ck_assert_str_eq(rmq_event_text(event), "words");
    ck_assert_str_eq(rmq_error_message(rmq_event_error(event)), "what happened");
    ck_assert_ptr_eq(rmq_event_source(event), events);
    ck_assert_ptr_null(rmq_event_send_result(event));
    rmq_event_destroy(event);
    ck_assert_str_eq(rmq_event_text(NULL), "");
    ck_assert_int_eq(rmq_event_get_type(NULL), RMQ_EVENT_NONE);
    rmq_event_destroy(NULL);
    rmq_events_destroy(events);
    rmq_events_destroy(NULL);
}
END_TEST

START_TEST(events_of_a_source_can_be_forgotten)
{
    rmq_events *events = make();
    int a, b;
    rmq_event *out[4];
    post(events, &a, 1);
    post(events, &b, 2);
    post(events, &a, 3);
    rq_events_forget(events, &a);
    ck_assert_uint_eq(rmq_events_take(events, out, 4, 0), 1);
    ck_assert_uint_eq(rmq_event_token(out[0]), 2);
    rmq_event_destroy(out[0]);
    post(events, &a, 4);
    rq_events_forget(events, &a);
    ck_assert(!readable(events));
    post(events, &a, 5);
    rmq_events_destroy(events);
}
END_TEST

/* Others are asked for or come for something that the program did: none of them is dropped. */
START_TEST(notices_that_nobody_takes_are_bounded)
{
    rmq_events *events = make();
    rmq_event *out[8];
    size_t count = 0;
    for (int i = 0; i < RQ_EVENTS_NOTICES_MOST + 10; i++) {
        struct rmq_event *event =
            rq_event_create(RMQ_EVENT_REBALANCED, events, NULL, rq_strdup("queues"));
        ck_assert_ptr_nonnull(event);
        rq_events_post(events, event);
    }
    post(events, events, 7);
    for (size_t n; (n = rmq_events_take(events, out, 8, 0)) > 0; count += n) {
        for (size_t i = 0; i < n; i++) {
            ck_assert(rmq_event_get_type(out[i]) == RMQ_EVENT_REBALANCED ||
                      rmq_event_token(out[i]) == 7);
            rmq_event_destroy(out[i]);
        }
    }
    ck_assert_uint_eq(count, RQ_EVENTS_NOTICES_MOST + 1);
    rq_events_post(events, rq_event_create(RMQ_EVENT_ERROR, events, NULL, NULL));
    ck_assert_uint_eq(rmq_events_take(events, out, 8, 0), 1); /* there is room again */
    rmq_event_destroy(out[0]);
    rmq_events_destroy(events);
}
END_TEST

#define POSTS 20000

static void *post_many(void *arg)
{
    for (uint64_t i = 0; i < POSTS; i++) {
        post(arg, arg, i);
    }
    return NULL;
}

struct taker {
    rmq_events *events;
    atomic_int *taken;
};

static void *take_many(void *arg)
{
    struct taker *taker = arg;
    rmq_event *out[16];
    while (atomic_load(taker->taken) < 2 * POSTS) {
        size_t n = rmq_events_take(taker->events, out, 16, 50);
        for (size_t i = 0; i < n; i++) {
            rmq_event_destroy(out[i]);
        }
        atomic_fetch_add(taker->taken, (int)n);
    }
    return NULL;
}

START_TEST(many_posters_and_takers_lose_nothing)
{
    rmq_events *events = make();
    atomic_int taken = 0;
    struct taker taker = {events, &taken};
    pthread_t threads[4];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_many, &taker), 0);
        ck_assert_int_eq(pthread_create(&threads[i + 2], NULL, post_many, events), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(atomic_load(&taken), 2 * POSTS);
    ck_assert(!readable(events));
    rmq_events_destroy(events);
}
END_TEST

/* In the child: no call of Check. The parent's events have locks behind them, which may be held for
 * ever here: nothing of theirs is to run. */
static bool is_inert(rmq_events *events, rmq_event *taken)
{
    rmq_event *event = NULL;
    bool inert = rmq_events_fd(events) == -1 && rmq_events_take(events, &event, 1, -1) == 0 &&
                 rmq_event_token(taken) == 1;
    rmq_event_destroy(taken);
    rmq_events_destroy(events);
    return inert && atomic_load(&destroyed) == 0;
}

START_TEST(a_queue_is_inert_in_a_forked_child_and_the_parent_keeps_its_events)
{
    rmq_events *events = make();
    rmq_event *event = NULL;
    int status = -1;
    for (uint64_t token = 1; token <= 2; token++) {
        post_counted(events, token);
    }
    ck_assert_uint_eq(rmq_events_take(events, &event, 1, 0), 1);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        alarm(20);
        _exit(is_inert(events, event) ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(readable(events));
    rmq_event_destroy(event);
    ck_assert_uint_eq(rmq_events_take(events, &event, 1, 0), 1);
    ck_assert_uint_eq(rmq_event_token(event), 2);
    rmq_event_destroy(event);
    ck_assert_int_eq(atomic_load(&destroyed), 2);
    rmq_events_destroy(events);
}
END_TEST

Suite *events_suite(void)
{
    Suite *suite = suite_create("events");
    TCase *cases = tcase_create("events");
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, events_come_in_order_and_the_descriptor_tells_whether_there_are_any);
    tcase_add_test(cases, fields_of_an_event_are_borrowed_from_it);
    tcase_add_test(cases, events_of_a_source_can_be_forgotten);
    tcase_add_test(cases, notices_that_nobody_takes_are_bounded);
    tcase_add_test(cases, many_posters_and_takers_lose_nothing);
    tcase_add_test(cases, a_queue_is_inert_in_a_forked_child_and_the_parent_keeps_its_events);
    suite_add_tcase(suite, cases);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Ordered consumers: the messages of a queue one after the other, by one member at a time, whatever
 * fails, moves or stops. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/ordered.h"
#include "lib/usage.h"

static struct tl_order order;

static rmq_consumer_options ordered_options(const struct tl_cluster *cluster,
                                            rmq_listener_fn listener)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_thread_nums = 4;
    options.consume_orderly = true;
    options.suspend_current_queue_time_ms = 10;
    options.persist_consumer_offset_interval_ms = 100;
    options.lock_interval_ms = 1000;
    options.listener = listener;
    options.listener_user = &order;
    return options;
}

static rmq_consumer *ordered(const struct tl_cluster *cluster, rmq_listener_fn listener)
{
    rmq_consumer_options options = ordered_options(cluster, listener);
    return tl_consumer_start(cluster, &options);
}

struct commit_goal {
    const struct tl_cluster *cluster;
    int64_t offset;
};

static bool is_committed(void *arg)
{
    const struct commit_goal *goal = arg;
    return tl_committed(goal->cluster, 0) == goal->offset;
}

static void wait_committed(const struct tl_cluster *cluster, int64_t offset)
{
    struct commit_goal goal = {cluster, offset};
    TL_CHECK(tl_wait(is_committed, &goal, 20000));
}

/* ---- order ---- */

static void the_messages_of_a_queue_come_one_after_the_other(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_consumer *consumer = ordered(&cluster, tl_order_listener);
    tl_send_some(&cluster, 0, 2000);
    tl_order_wait(&order, 2000, 15000);
    TL_EQUAL(atomic_load(&order.total), 2000);
    rmq_consumer_destroy(consumer);
    for (int q = 0; q < 4; q++) {
        TL_EQUAL(tl_committed(&cluster, q), atomic_load(&order.lanes[q].last));
    }
    tl_cluster_stop(&cluster);
}

static atomic_int refusals;

/* Every fifth message fails twice. */
static rmq_consume_result fail_sometimes(const rmq_message_view *const *messages, size_t count,
                                         rmq_consume_context *context, void *user)
{
    const rmq_message_view *view = messages[0];
    bool bad = atoi(rmq_message_view_property(view, "n")) % 5 == 0 &&
               rmq_message_view_reconsume_times(view) < 2;
    tl_order_enter(user, view);
    tl_order_leave(user, view);
    atomic_fetch_add(&refusals, bad ? 1 : 0);
    return bad ? RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT : RMQ_CONSUME_SUCCESS;
}

static void a_queue_that_was_suspended_keeps_its_order(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 4);
    rmq_consumer *consumer = ordered(&cluster, fail_sometimes);
    tl_send_some(&cluster, 0, 100);
    tl_order_wait(&order, 100, 15000);
    TL_EQUAL(atomic_load(&refusals), 40);
    TL_EQUAL(atomic_load(&order.total), 140);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

static atomic_int held_calls;
static atomic_int suspended_calls;
static atomic_bool may_return;

static bool is_let_go(void *arg)
{
    (void)arg;
    return atomic_load(&may_return);
}

/* Queue 0 holds its worker; queue 1 is suspended once. */
static rmq_consume_result hold_or_suspend(const rmq_message_view *const *messages, size_t count,
                                          rmq_consume_context *context, void *user)
{
    if (rmq_message_view_queue_id(messages[0]) == 0) {
        atomic_fetch_add(&held_calls, 1);
        TL_CHECK(tl_wait(is_let_go, NULL, 40000));
        return RMQ_CONSUME_SUCCESS;
    }
    bool first = atomic_fetch_add(&suspended_calls, 1) == 0;
    return first ? RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT : RMQ_CONSUME_SUCCESS;
}

static size_t the_queue(const rmq_message *message, size_t queue_count, void *arg)
{
    return *(size_t *)arg;
}

static void send_to(const struct tl_cluster *cluster, rmq_producer *producer, size_t queue)
{
    rmq_error *err = NULL;
    rmq_message *message = tl_message(cluster->topic, "x", 1);
    TL_OK(rmq_producer_send_by_selector(producer, message, the_queue, &queue, 0, NULL, &err));
    rmq_message_destroy(message);
}

struct call_goal {
    atomic_int *calls;
    int wanted;
};

static bool have_come(void *arg)
{
    const struct call_goal *goal = arg;
    return atomic_load(goal->calls) >= goal->wanted;
}

static void wait_calls(atomic_int *calls, int wanted)
{
    struct call_goal goal = {calls, wanted};
    TL_CHECK(tl_wait(have_come, &goal, 20000));
}

static void a_suspended_queue_goes_on_while_another_holds_the_only_worker_awake(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer_options options = ordered_options(&cluster, hold_or_suspend);
    options.suspend_current_queue_time_ms = 1000;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    send_to(&cluster, producer, 1);
    wait_calls(&suspended_calls, 1);
    send_to(&cluster, producer, 0);
    wait_calls(&held_calls, 1);
    wait_calls(&suspended_calls, 2);
    atomic_store(&may_return, true);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* ---- dead letters ---- */

static struct tl_seen dead;
static atomic_int dead_times;

static rmq_consume_result note_dead(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    for (size_t i = 0; i < count; i++) {
        TL_CHECK(strcmp(rmq_message_view_property(messages[i], "RETRY_TOPIC"), user) == 0);
        TL_CHECK(*rmq_message_view_property(messages[i], "ORIGIN_MESSAGE_ID") != '\0');
        atomic_store(&dead_times, rmq_message_view_reconsume_times(messages[i]));
        tl_seen_add(&dead, messages[i]);
    }
    return RMQ_CONSUME_SUCCESS;
}

static rmq_consume_result fail_seventh(const rmq_message_view *const *messages, size_t count,
                                       rmq_consume_context *context, void *user)
{
    tl_order_enter(user, messages[0]);
    tl_order_leave(user, messages[0]);
    bool bad = atoi(rmq_message_view_property(messages[0], "n")) == 7;
    return bad ? RMQ_RECONSUME_LATER : RMQ_CONSUME_SUCCESS;
}

static void a_message_that_fails_too_often_goes_to_the_dead_letters_and_the_queue_goes_on(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options options = ordered_options(&cluster, fail_seventh);
    options.max_reconsume_times = 3;
    options.events = events;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_send_some(&cluster, 0, 20);
    tl_order_wait(&order, 20, 15000);
    TL_EQUAL(atomic_load(&order.total), 23);
    tl_take_notice(events, RMQ_EVENT_DEAD_LETTER, "reconsumed=3");
    wait_committed(&cluster, 20);
    rmq_consumer_destroy(consumer);

    struct tl_cluster letters = cluster;
    snprintf(letters.topic, sizeof letters.topic, "%%DLQ%%%.50s", cluster.group);
    snprintf(letters.group, sizeof letters.group, "letters");
    consumer = tl_consumer(&letters, "*", note_dead, cluster.topic);
    tl_seen_wait(&dead, 1, 10000);
    TL_EQUAL(atomic_load(&dead.times[7]), 1);
    TL_EQUAL(atomic_load(&dead_times), 4);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void a_dead_letter_that_is_refused_keeps_its_message_and_the_queue(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    tl_cluster_needs_own(&cluster);
    tl_send_some(&cluster, 0, 20);
    TL_OK(rmq_broker_fault_answer(cluster.broker, 310, 1, 1, "no room for letters", &err));
    rmq_consumer_options options = ordered_options(&cluster, fail_seventh);
    options.max_reconsume_times = 1;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_order_wait(&order, 8, 10000);
    tl_order_wait(&order, 20, 15000);
    TL_CHECK(atomic_load(&order.total) >= 22);
    wait_committed(&cluster, 20);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

/* ---- commit and roll back ---- */

static atomic_int rolled_back;

/* Commits at every tenth message; rolls back once, at the 15th. */
static rmq_consume_result commit_by_hand(const rmq_message_view *const *messages, size_t count,
                                         rmq_consume_context *context, void *user)
{
    int n = atoi(rmq_message_view_property(messages[0], "n"));
    rmq_consume_context_set_auto_commit(context, false);
    rmq_consume_context_set_suspend_ms(context, 20);
    tl_order_enter(user, messages[0]);
    tl_order_leave(user, messages[0]);
    if (n == 15 && atomic_exchange(&rolled_back, 1) == 0) {
        return RMQ_CONSUME_ROLLBACK;
    }
    return n % 10 == 9 ? RMQ_CONSUME_COMMIT : RMQ_CONSUME_SUCCESS;
}

static void without_auto_commit_only_a_commit_moves_the_offset_and_a_roll_back_gives_again(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 1);
    rmq_consumer *consumer = ordered(&cluster, commit_by_hand);
    tl_send_some(&cluster, 0, 15);
    tl_order_wait(&order, 15, 10000);
    wait_committed(&cluster, 10);
    tl_send_some(&cluster, 15, 12);
    tl_order_wait(&order, 27, 10000);
    TL_EQUAL(atomic_load(&order.total), 27 + 6); /* 10 … 15 twice */
    wait_committed(&cluster, 20);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(tl_committed(&cluster, 0), 20);
    tl_cluster_stop(&cluster);
}

/* ---- polled ---- */

static void a_polled_queue_is_in_one_pair_of_hands(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_batch *first = NULL;
    rmq_batch *second = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_consumer *consumer = ordered(&cluster, NULL);
    tl_send_some(&cluster, 0, 3);
    TL_OK(rmq_consumer_poll(consumer, &first, 20000, &err));
    TL_EQUAL(rmq_message_view_queue_offset(rmq_batch_at(first, 0)), 0);
    TL_EQUAL(rmq_consumer_poll(consumer, &second, 100, NULL), RMQ_ERR_TIMEOUT);
    TL_OK(rmq_consumer_finish(consumer, first, RMQ_RECONSUME_LATER, &err));
    rmq_batch_destroy(first);
    for (int i = 0; i < 3; i++) {
        TL_OK(rmq_consumer_poll(consumer, &first, 20000, &err));
        TL_EQUAL(rmq_message_view_queue_offset(rmq_batch_at(first, 0)), i);
        TL_EQUAL(rmq_message_view_reconsume_times(rmq_batch_at(first, 0)), i == 0 ? 1 : 0);
        TL_OK(rmq_consumer_finish(consumer, first, RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(first);
    }
    wait_committed(&cluster, 3);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

/* ---- moving ---- */

static rmq_consume_result take_slowly(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    tl_order_enter(user, messages[0]);
    usleep(500); /* what a handler does */
    tl_order_leave(user, messages[0]);
    return RMQ_CONSUME_SUCCESS;
}

static void queues_move_between_members_in_order(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 8);
    rmq_consumer *members[3];
    members[0] = ordered(&cluster, take_slowly);
    tl_send_some(&cluster, 0, 1000);
    members[1] = ordered(&cluster, take_slowly);
    tl_send_some(&cluster, 1000, 500);
    members[2] = ordered(&cluster, take_slowly);
    tl_send_some(&cluster, 1500, 500);
    rmq_consumer_destroy(members[0]);
    tl_send_some(&cluster, 2000, 500);
    rmq_consumer_destroy(members[1]);
    tl_send_some(&cluster, 2500, 500);
    tl_order_wait(&order, 3000, 20000);
    printf("%d deliveries of 3000 messages\n", atomic_load(&order.total));
    rmq_consumer_destroy(members[2]);
    tl_cluster_once(&cluster, atomic_load(&order.total), 3000);
    tl_cluster_stop(&cluster);
}

static void a_lock_is_given_back_when_its_consumer_stops(void)
{
    struct tl_cluster cluster;
    tl_cluster_start(&cluster, 2);
    for (int round = 0; round < 4; round++) {
        rmq_consumer *consumer = ordered(&cluster, tl_order_listener);
        tl_send_some(&cluster, round * 20, 20);
        tl_order_wait(&order, (round + 1) * 20, 10000); /* a broker keeps a lock for a minute */
        rmq_consumer_destroy(consumer);
    }
    tl_cluster_once(&cluster, atomic_load(&order.total), 80);
    tl_cluster_stop(&cluster);
}

struct leaving {
    rmq_consumer *consumer;
    rmq_events *events;
    rmq_batch *batch;
    char words[80];
};

/* When the queue is to be given up. */
static void *finish_batch(void *arg)
{
    struct leaving *leaving = arg;
    rmq_error *err = NULL;
    tl_take_notice(leaving->events, RMQ_EVENT_REBALANCED, leaving->words);
    TL_EQUAL(atomic_load(&order.total), 0);
    atomic_store(&order.lanes[0].last, 1);
    TL_OK(rmq_consumer_finish(leaving->consumer, leaving->batch, RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(leaving->batch);
    return NULL;
}

/* The program does not poll again, so nobody takes the queue's turn to find that it is shut. */
static void a_polled_queue_moves_when_its_batch_is_finished(void)
{
    struct tl_cluster cluster;
    struct leaving leaving = {0};
    pthread_t finisher;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    snprintf(leaving.words, sizeof leaving.words, "%s -", cluster.topic);
    TL_OK(rmq_events_create(&leaving.events, &err));
    rmq_consumer_options options = ordered_options(&cluster, NULL);
    options.client_ip = "10.0.0.2";
    options.events = leaving.events;
    leaving.consumer = tl_consumer_start(&cluster, &options);
    tl_send_some(&cluster, 0, 3);
    TL_OK(rmq_consumer_poll(leaving.consumer, &leaving.batch, 20000, &err));
    TL_EQUAL(pthread_create(&finisher, NULL, finish_batch, &leaving), 0);
    options = ordered_options(&cluster, tl_order_listener);
    options.client_ip = "10.0.0.1"; /* the first member has the only queue */
    rmq_consumer *first = tl_consumer_start(&cluster, &options);
    tl_order_wait(&order, 2, 20000);
    TL_EQUAL(atomic_load(&order.total), 2);
    TL_EQUAL(pthread_join(finisher, NULL), 0);
    rmq_consumer_destroy(first);
    rmq_consumer_destroy(leaving.consumer);
    rmq_events_destroy(leaving.events);
    tl_cluster_stop(&cluster);
}

/* A broker keeps a lock for a minute, and the first consumer never learned that it had one. */
static void a_lock_whose_answer_was_lost_is_given_back_when_its_consumer_stops(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_broker_fault_drop(cluster.broker, 41, -1, &err));
    rmq_consumer *consumer = ordered(&cluster, tl_order_listener); /* waits for its start offsets */
    rmq_consumer_destroy(consumer);
    rmq_broker_fault_clear(cluster.broker);
    consumer = ordered(&cluster, tl_order_listener);
    tl_send_some(&cluster, 0, 20);
    tl_order_wait(&order, 20, 30000);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

/* ---- locks that are lost ---- */

static void a_queue_whose_lock_ran_out_stops_says_so_and_goes_on_when_it_is_locked_again(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer_options options = ordered_options(&cluster, tl_order_listener);
    options.lock_interval_ms = 200;
    options.events = events;
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_send_some(&cluster, 0, 100);
    tl_order_wait(&order, 100, 10000);

    TL_OK(rmq_broker_fault_drop(cluster.broker, 41, 1000, &err));
    tl_take_notice(events, RMQ_EVENT_LOCK_LOST, cluster.topic);
    int before = atomic_load(&order.total);
    tl_send_some(&cluster, 100, 100);
    TL_CHECK(tl_committed(&cluster, 0) + tl_committed(&cluster, 1) <= before);
    TL_EQUAL(atomic_load(&order.total), before);
    rmq_broker_fault_clear(cluster.broker);
    tl_order_wait(&order, 200, 15000);
    printf("%d deliveries of 200 messages\n", atomic_load(&order.total));
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

/* Each renewal is answered when the lock has run out and the next round has not looked yet. */
static void a_lock_that_is_renewed_late_leaves_no_queue_behind(void)
{
    struct tl_detour detour;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer_options options = ordered_options(&detour.through, tl_order_listener);
    options.lock_interval_ms = 400;
    options.broker_suspend_max_time_ms = 60000; /* no pull comes to its end meanwhile */
    rmq_consumer *consumer = tl_consumer_start(&detour.through, &options);
    tl_send_some(&detour.cluster, 0, 1);
    tl_order_wait(&order, 1, 15000);
    TL_CHECK(tl_proxy_script(detour.proxy, "delay response 41 ms 300"));
    for (int i = 1; i <= 100; i++) {
        tl_send_some(&detour.cluster, i, 1);
        tl_pause(10);
    }
    tl_order_wait(&order, 101, 20000);
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

/* ---- a handler that holds a message for long ---- */

static int held_pipe[2];

static rmq_consume_result hold_tenth(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context, void *user)
{
    if (rmq_message_view_queue_offset(messages[0]) == 10) {
        if (write(held_pipe[1], "h", 1) == 1) {
            for (;;) {
                pause();
            }
        }
    }
    return RMQ_CONSUME_SUCCESS;
}

static void run_child(const struct tl_cluster *cluster)
{
    rmq_consumer_options options = ordered_options(cluster, hold_tenth);
    rmq_consumer *consumer = NULL;
    options.instance_name = "member"; /* who comes after it is the same client to the broker */
    options.lock_interval_ms = 100;
    if (rmq_consumer_create(&options, &consumer, NULL) == RMQ_OK &&
        rmq_consumer_subscribe(consumer, cluster->topic, "*", NULL) == RMQ_OK &&
        rmq_consumer_start(consumer, NULL) == RMQ_OK) {
        for (;;) {
            pause();
        }
    }
    _exit(1);
}

static void the_offset_never_passes_what_the_handler_holds_and_a_kill_loses_nothing(void)
{
    struct tl_cluster cluster;
    char byte;
#if defined(__SANITIZE_THREAD__)
    tl_skip("the thread sanitizer allows no new threads in a child of a process that had some");
#endif
    tl_cluster_start(&cluster, 1);
    tl_send_some(&cluster, 0, 30);
    TL_EQUAL(pipe(held_pipe), 0);
    pid_t child = fork();
    if (child == 0) {
        run_child(&cluster);
    }
    TL_EQUAL(read(held_pipe[0], &byte, 1), 1);
    wait_committed(&cluster, 10);
    int64_t end = tl_now_ms() + 1000; /* ten renewals of the lock and of the offset */
    while (tl_now_ms() < end) {
        TL_EQUAL(tl_committed(&cluster, 0), 10);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    atomic_store(&order.lanes[0].last, 10);
    rmq_consumer_options options = ordered_options(&cluster, tl_order_listener);
    options.instance_name = "member";
    rmq_consumer *consumer = tl_consumer_start(&cluster, &options);
    tl_order_wait(&order, 20, 10000); /* the tenth first, then those behind it */
    TL_EQUAL(atomic_load(&order.total), 20);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(the_messages_of_a_queue_come_one_after_the_other),
        TL_CASE(a_queue_that_was_suspended_keeps_its_order),
        TL_CASE(a_suspended_queue_goes_on_while_another_holds_the_only_worker_awake),
        TL_CASE(a_message_that_fails_too_often_goes_to_the_dead_letters_and_the_queue_goes_on),
        TL_CASE(a_dead_letter_that_is_refused_keeps_its_message_and_the_queue),
        TL_CASE(without_auto_commit_only_a_commit_moves_the_offset_and_a_roll_back_gives_again),
        TL_CASE(a_polled_queue_is_in_one_pair_of_hands),
        TL_CASE(queues_move_between_members_in_order),
        TL_CASE(a_lock_is_given_back_when_its_consumer_stops),
        TL_CASE(a_polled_queue_moves_when_its_batch_is_finished),
        TL_CASE(a_lock_whose_answer_was_lost_is_given_back_when_its_consumer_stops),
        TL_CASE(a_queue_whose_lock_ran_out_stops_says_so_and_goes_on_when_it_is_locked_again),
        TL_CASE(a_lock_that_is_renewed_late_leaves_no_queue_behind),
        TL_CASE(the_offset_never_passes_what_the_handler_holds_and_a_kill_loses_nothing),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof *cases);
}

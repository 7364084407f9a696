/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Polling: batches, the descriptor, events, and what becomes of a batch that nobody finishes. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

#define ROUNDS 100

static struct tl_seen seen;

static rmq_consumer *open_with(const struct tl_cluster *cluster, int batch_max, rmq_events *events,
                               bool orderly)
{
    rmq_consumer_options options = tl_consumer_options(cluster);
    options.consume_message_batch_max_size = batch_max;
    options.consume_orderly = orderly;
    options.events = events;
    return tl_consumer_start(cluster, &options);
}

static rmq_consumer *open_poller(const struct tl_cluster *cluster, int batch_max,
                                 rmq_events *events)
{
    return open_with(cluster, batch_max, events, false);
}

static size_t note_batch(rmq_batch *batch)
{
    size_t count = rmq_batch_count(batch);
    for (size_t i = 0; i < count; i++) {
        tl_seen_add(&seen, rmq_batch_at(batch, i));
    }
    TL_CHECK(rmq_batch_at(batch, count) == NULL);
    return count;
}

static bool fd_is_readable(rmq_consumer *consumer, int timeout_ms)
{
    struct pollfd wait = {.fd = rmq_consumer_fd(consumer), .events = POLLIN};
    return poll(&wait, 1, timeout_ms) == 1;
}

static void an_event_loop_receives_everything_by_the_descriptor(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = open_poller(&cluster, 16, NULL);
    TL_CHECK(!fd_is_readable(consumer, 0));
    tl_send(&cluster, producer, "m", 0, 2000);
    while (atomic_load(&seen.different) < 2000) {
        rmq_batch *batch = NULL;
        TL_CHECK(fd_is_readable(consumer, 5000));
        while (rmq_consumer_poll(consumer, &batch, 0, NULL) == RMQ_OK) {
            TL_CHECK(note_batch(batch) <= 16);
            TL_EQUAL(rmq_consumer_finish(consumer, batch, (rmq_consume_result)5, NULL),
                     RMQ_ERR_INVALID);
            TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
            TL_EQUAL(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL),
                     RMQ_ERR_INVALID);
            rmq_batch_destroy(batch);
        }
        TL_CHECK(atomic_load(&seen.different) < 2000 || !fd_is_readable(consumer, 0));
    }
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 2000);

    consumer = open_poller(&cluster, 16, NULL);
    rmq_batch *batch = NULL;
    TL_EQUAL(rmq_consumer_poll(consumer, &batch, 300, NULL),
             RMQ_ERR_TIMEOUT); /* all was committed */
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* One batch for each event is enough. */
static void poll_by_events(int queues, bool orderly)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, queues);
    TL_OK(rmq_events_create(&events, &err));
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = open_with(&cluster, 8, events, orderly);
    tl_send(&cluster, producer, "m", 0, 500);
    while (atomic_load(&seen.different) < 500) {
        rmq_event *event = NULL;
        TL_EQUAL(rmq_events_take(events, &event, 1, 10000), 1);
        rmq_batch *batch = NULL;
        if (rmq_event_get_type(event) == RMQ_EVENT_BATCH) {
            TL_CHECK(rmq_event_source(event) == consumer);
            if (rmq_consumer_poll(consumer, &batch, 0, NULL) == RMQ_OK) {
                note_batch(batch);
                TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
                rmq_batch_destroy(batch);
            }
        }
        rmq_event_destroy(event);
    }
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 500);
    rmq_events_destroy(events);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void events_tell_a_program_when_to_poll(void)
{
    poll_by_events(4, false);
}

static void events_tell_a_program_when_to_poll_in_order(void)
{
    poll_by_events(1, true);
}

/* Takes events until one says that there is something to poll. */
static void wait_for_batch(rmq_events *events)
{
    rmq_event_type type = RMQ_EVENT_NONE;
    while (type != RMQ_EVENT_BATCH) {
        rmq_event *event = NULL;
        TL_EQUAL(rmq_events_take(events, &event, 1, 20000), 1);
        type = rmq_event_get_type(event);
        rmq_event_destroy(event);
    }
}

static void events_tell_that_a_message_is_offered_again(void)
{
    struct tl_detour detour;
    rmq_events *events = NULL;
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    tl_detour_start(&detour, 1, NULL);
    TL_CHECK(tl_proxy_script(detour.proxy, "answer request 36 times 1 code 1 remark busy"));
    TL_OK(rmq_events_create(&events, &err));
    rmq_producer *producer = tl_producer(&detour.cluster);
    rmq_consumer *consumer = open_poller(&detour.through, 8, events);
    tl_send(&detour.cluster, producer, "m", 0, 1);
    for (int i = 0; i < 2; i++) {
        wait_for_batch(events);
        TL_OK(rmq_consumer_poll(consumer, &batch, 0, &err));
        TL_EQUAL(note_batch(batch), 1);
        TL_OK(rmq_consumer_finish(consumer, batch,
                                  i == 0 ? RMQ_RECONSUME_LATER : RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(batch);
    }
    TL_EQUAL(atomic_load(&seen.times[0]), 2);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    rmq_producer_destroy(producer);
    tl_detour_stop(&detour);
}

#define LARGE 10000 /* is compressed */

static void check_large(const rmq_batch *batch)
{
    size_t size = 0;
    TL_EQUAL(rmq_batch_count(batch), 1);
    const char *body = rmq_message_view_body(rmq_batch_at(batch, 0), &size);
    TL_EQUAL(size, LARGE);
    TL_EQUAL(body[LARGE - 1], 'b');
}

/* The first batch is finished, and destroyed only when the second one has the message, too. */
static void a_message_in_two_batches_keeps_its_body(void)
{
    static char body[LARGE];
    struct tl_cluster cluster;
    rmq_batch *batches[2] = {NULL};
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = open_with(&cluster, 8, NULL, true);
    memset(body, 'b', sizeof body);
    rmq_message *message = tl_message(cluster.topic, body, sizeof body);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_consumer_poll(consumer, &batches[0], 20000, &err));
    check_large(batches[0]);
    rmq_consume_context_set_suspend_ms(rmq_batch_context(batches[0]), 10);
    TL_OK(rmq_consumer_finish(consumer, batches[0], RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT, &err));
    TL_OK(rmq_consumer_poll(consumer, &batches[1], 20000, &err));
    rmq_batch_destroy(batches[0]);
    check_large(batches[1]);
    TL_OK(rmq_consumer_finish(consumer, batches[1], RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(batches[1]);
    rmq_message_destroy(message);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_program_that_takes_no_events_is_told_once(void)
{
    struct tl_cluster cluster;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_error *err = NULL;
    int told = 0;
    tl_cluster_start(&cluster, 1);
    TL_OK(rmq_events_create(&events, &err));
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = open_poller(&cluster, 8, events);
    for (int i = 0; i < 20; i++) { /* each finds nothing before it */
        rmq_batch *batch = NULL;
        tl_send(&cluster, producer, "m", i, 1);
        TL_OK(rmq_consumer_poll(consumer, &batch, 10000, &err));
        TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(batch);
    }
    while (rmq_events_take(events, &event, 1, 0) == 1) {
        told += rmq_event_get_type(event) == RMQ_EVENT_BATCH;
        rmq_event_destroy(event);
    }
    TL_EQUAL(told, 1);
    tl_send(&cluster, producer, "m", 20, 1);
    do { /* and once more for what comes after that */
        TL_EQUAL(rmq_events_take(events, &event, 1, 10000), 1);
        told += rmq_event_get_type(event) == RMQ_EVENT_BATCH;
        rmq_event_destroy(event);
    } while (told < 2);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

#define ROOM 8

static void one_call_takes_the_batches_of_several_queues(void)
{
    struct tl_cluster cluster;
    rmq_batch *batches[ROOM];
    rmq_error *err = NULL;
    size_t count = 7;
    size_t largest = 0;
    tl_cluster_start(&cluster, 4);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = open_poller(&cluster, 16, NULL);
    TL_EQUAL(rmq_consumer_poll_batches(consumer, batches, ROOM, 0, &count, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(count, 0);
    TL_EQUAL(rmq_consumer_poll_batches(consumer, batches, 0, 0, &count, NULL), RMQ_ERR_INVALID);
    tl_send(&cluster, producer, "m", 0, 300);
    while (atomic_load(&seen.different) < 300) {
        TL_OK(rmq_consumer_poll_batches(consumer, batches, ROOM, 10000, &count, &err));
        TL_CHECK(count >= 1 && count <= ROOM);
        largest = count > largest ? count : largest;
        for (size_t i = 0; i < count; i++) {
            note_batch(batches[i]);
            TL_OK(rmq_consumer_finish(consumer, batches[i], RMQ_CONSUME_SUCCESS, &err));
            rmq_batch_destroy(batches[i]);
        }
    }
    TL_CHECK(largest > 1);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.total), 300);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_batch_that_is_destroyed_unfinished_comes_again(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 3);
    rmq_consumer *consumer = open_poller(&cluster, 8, NULL);
    TL_OK(rmq_consumer_poll(consumer, &batch, 20000, &err));
    size_t first = note_batch(batch);
    rmq_consume_context_set_delay_level(rmq_batch_context(batch), 1);
    rmq_batch_destroy(batch);
    while (atomic_load(&seen.total) < 3 + (int)first) {
        TL_OK(rmq_consumer_poll(consumer, &batch, 10000, &err));
        note_batch(batch);
        TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
        rmq_batch_destroy(batch);
    }
    TL_EQUAL(atomic_load(&seen.times[0]), 2);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_batch_outlives_its_consumer_and_its_messages_come_again(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    tl_send(&cluster, producer, "m", 0, 3);
    rmq_consumer *consumer = open_poller(&cluster, 1, NULL);
    TL_OK(rmq_consumer_poll(consumer, &batch, 20000, &err));
    int64_t start = tl_now_ms();
    TL_EQUAL(rmq_consumer_shutdown(consumer, 300, NULL),
             RMQ_ERR_TIMEOUT); /* the batch is not finished */
    TL_CHECK(tl_now_ms() - start < 15000);
    TL_EQUAL(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL), RMQ_ERR_CLOSED);
    TL_EQUAL(rmq_consumer_poll(consumer, &batch, 0, NULL), RMQ_ERR_CLOSED);
    const rmq_message_view *kept = rmq_message_view_retain(rmq_batch_at(batch, 0));
    rmq_consumer_destroy(consumer);
    TL_CHECK(strcmp(rmq_message_view_topic(rmq_batch_at(batch, 0)), cluster.topic) == 0);
    rmq_batch_destroy(batch);
    TL_CHECK(strcmp(rmq_message_view_property(kept, "n"), "0") == 0);
    rmq_message_view_release(kept);

    consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    tl_seen_wait(&seen, 3, 20000);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct last_batch {
    rmq_batch *batch;
    int spins; /* before it is destroyed */
};

static void *destroy_batch(void *arg)
{
    struct last_batch *last = arg;
    for (volatile int i = 0; i < last->spins; i++) {
    }
    rmq_batch_destroy(last->batch);
    return NULL;
}

/* The loop ends with the last consumer, in whatever moment the batch asks something of it. */
static void a_batch_may_be_destroyed_while_its_consumer_is(void)
{
    struct tl_cluster cluster;
    pthread_t thread;
    rmq_error *err = NULL;
    tl_cluster_start_apart(&cluster, 1);
    tl_send_some(&cluster, 0, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        struct last_batch last = {.spins = i * 2000};
        rmq_consumer *consumer = open_poller(&cluster, 1, NULL);
        TL_OK(rmq_consumer_poll(consumer, &last.batch, 20000, &err));
        TL_EQUAL(pthread_create(&thread, NULL, destroy_batch, &last), 0);
        (void)rmq_consumer_shutdown(consumer, 1, NULL); /* may be too early for the batch */
        rmq_consumer_destroy(consumer);
        pthread_join(thread, NULL);
    }
    tl_cluster_stop(&cluster);
}

/* In the child: no call of Check. */
static void use_in_child(rmq_consumer *consumer, rmq_batch *batch)
{
    alarm(20);
    bool good = rmq_batch_count(batch) == 1 &&
                rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL) == RMQ_ERR_FORKED;
    rmq_batch_destroy(batch);
    rmq_consumer_destroy(consumer);
    _exit(good ? 0 : 1);
}

static void a_batch_stays_the_parents_in_a_forked_child(void)
{
    struct tl_cluster cluster;
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    int status = -1;
    tl_cluster_start(&cluster, 1);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_consumer *consumer = open_poller(&cluster, 1, NULL);
    tl_send(&cluster, producer, "m", 0, 1);
    TL_OK(rmq_consumer_poll(consumer, &batch, 10000, &err));
    pid_t child = fork();
    TL_CHECK(child >= 0);
    if (child == 0) {
        use_in_child(consumer, batch);
    }
    TL_EQUAL(waitpid(child, &status, 0), child);
    TL_EQUAL(status, 0);
    TL_OK(rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(batch);
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_consumer_with_a_listener_is_not_polled(void)
{
    struct tl_cluster cluster;
    rmq_batch *batch = NULL;
    tl_cluster_start(&cluster, 1);
    rmq_consumer *consumer = tl_consumer(&cluster, "*", tl_seen_listener, &seen);
    TL_EQUAL(rmq_consumer_poll(consumer, &batch, 0, NULL), RMQ_ERR_STATE);
    TL_EQUAL(rmq_consumer_fd(consumer), -1);
    rmq_consumer_destroy(consumer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(an_event_loop_receives_everything_by_the_descriptor),
        TL_CASE(events_tell_a_program_when_to_poll),
        TL_CASE(events_tell_a_program_when_to_poll_in_order),
        TL_CASE(events_tell_that_a_message_is_offered_again),
        TL_CASE(a_message_in_two_batches_keeps_its_body),
        TL_CASE(a_program_that_takes_no_events_is_told_once),
        TL_CASE(one_call_takes_the_batches_of_several_queues),
        TL_CASE(a_batch_that_is_destroyed_unfinished_comes_again),
        TL_CASE(a_batch_outlives_its_consumer_and_its_messages_come_again),
        TL_CASE(a_batch_may_be_destroyed_while_its_consumer_is),
        TL_CASE(a_batch_stays_the_parents_in_a_forked_child),
        TL_CASE(a_consumer_with_a_listener_is_not_polled),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

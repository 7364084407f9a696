/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* An ordered queue that begins anew while a handler holds one of its messages: an administrator
 * takes its offset back, or its topic is given up and taken again. What the handler holds is done
 * with first: a queue is never in two pairs of hands. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ask.h"
#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/detour.h"
#include "lib/usage.h"

#define HEARTBEAT    34
#define MEMBER_LIST  38
#define RESET_OFFSET 222
#define HELD_OFFSET  3 /* of the message that the handler holds once */

static struct {
    atomic_int inside;
    atomic_int together; /* calls that began while another was at work */
    atomic_int calls;
    atomic_bool once;
    atomic_bool holds; /* and has done what it does before */
    atomic_bool go_on;
} hands;

static struct tl_seen seen;
static struct tl_detour detour;
static _Atomic(rmq_consumer *) own;
static char folder[] = "/tmp/rmq-again-XXXXXX"; /* of a broadcasting one */

static bool may_go_on(void *arg)
{
    (void)arg;
    return atomic_load(&hands.go_on);
}

static rmq_consume_result hold_once(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context, void *user)
{
    void (*when_held)(void) = *(void (**)(void))user;
    if (atomic_fetch_add(&hands.inside, 1) > 0) {
        atomic_fetch_add(&hands.together, 1);
    }
    atomic_fetch_add(&hands.calls, 1);
    if (rmq_message_view_queue_offset(messages[0]) == HELD_OFFSET &&
        !atomic_exchange(&hands.once, true)) {
        when_held();
        atomic_store(&hands.holds, true);
        TL_CHECK(tl_wait(may_go_on, NULL, 25000));
    }
    (void)tl_seen_listener(messages, count, context, &seen);
    atomic_fetch_sub(&hands.inside, 1);
    return RMQ_CONSUME_SUCCESS;
}

static rmq_consumer *start(const struct tl_cluster *cluster, rmq_events *events,
                           rmq_message_model model, void (**when_held)(void))
{
    rmq_consumer_options options;
    rmq_consumer *consumer = NULL;
    rmq_error *err = NULL;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = cluster->group;
    options.namesrv_addr = cluster->namesrv;
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 4;
    options.consume_orderly = true;
    options.rebalance_interval_ms = 100;
    options.persist_consumer_offset_interval_ms = 100;
    options.broker_suspend_max_time_ms = 100;
    options.heartbeat_broker_interval_ms = 100;
    options.message_model = model;
    options.local_offset_store_dir = folder;
    options.events = events;
    options.listener = hold_once;
    options.listener_user = when_held;
    TL_OK(rmq_consumer_create(&options, &consumer, &err));
    atomic_store(&own, consumer);
    TL_OK(rmq_consumer_subscribe(consumer, cluster->topic, "*", &err));
    TL_OK(rmq_consumer_start(consumer, &err));
    return consumer;
}

static void send(int count)
{
    rmq_producer *producer = tl_producer(&detour.cluster);
    tl_send(&detour.cluster, producer, "m", 0, count);
    rmq_producer_destroy(producer);
}

static bool is_held(void *arg)
{
    (void)arg;
    return atomic_load(&hands.holds);
}

static bool is_seen(void *arg)
{
    return atomic_load(&seen.total) >= *(int *)arg;
}

struct requests {
    int code;
    uint64_t wanted;
};

static bool have_come(void *arg)
{
    const struct requests *requests = arg;
    return tl_proxy_seen(detour.proxy, requests->code) >= requests->wanted;
}

/* Lets a consumer that would not wait come to its second handler: it asks its broker for something
 * so often meanwhile. */
static void let_rounds_pass(int code, int rounds)
{
    struct requests requests = {code, tl_proxy_seen(detour.proxy, code) + (uint64_t)rounds};
    TL_CHECK(tl_wait(have_come, &requests, 20000));
}

static bool is_committed(void *arg)
{
    return tl_committed(&detour.cluster, 0) == *(int64_t *)arg;
}

static void check_one_pair_of_hands(int deliveries)
{
    int64_t end = 10;
    TL_CHECK(tl_wait(is_seen, &deliveries, 20000));
    TL_CHECK(tl_wait(is_committed, &end, 20000));
    TL_EQUAL(atomic_load(&seen.total), deliveries);
    TL_EQUAL(atomic_load(&seen.different), 10);
    TL_EQUAL(atomic_load(&hands.together), 0);
}

static void nothing(void)
{
}

static void an_offset_that_is_taken_back_waits_for_the_handler(void)
{
    void (*when_held)(void) = nothing;
    rmq_events *events = NULL;
    rmq_error *err = NULL;
    char ext[512];
    char answer[4096];
    int64_t begin = 0;
    tl_detour_start(&detour, 1, NULL);
    TL_OK(rmq_events_create(&events, &err));
    rmq_consumer *consumer = start(&detour.through, events, RMQ_CLUSTERING, &when_held);
    send(10);
    TL_CHECK(tl_wait(is_held, NULL, 20000));
    snprintf(ext, sizeof ext,
             "{\"group\":\"%s\",\"topic\":\"%s\",\"timestamp\":\"0\",\"isForce\":\"true\"}",
             detour.cluster.group, detour.cluster.topic);
    TL_EQUAL(
        tl_ask(rmq_broker_addr(detour.cluster.broker), RESET_OFFSET, ext, answer, sizeof answer),
        0);
    tl_take_notice(events, RMQ_EVENT_OFFSET_ILLEGAL, "-> 0");
    let_rounds_pass(MEMBER_LIST, 10);
    TL_EQUAL(atomic_load(&hands.calls), HELD_OFFSET + 1);
    TL_CHECK(tl_wait(is_committed, &begin, 20000)); /* a restart now begins there, too */
    atomic_store(&hands.go_on, true);
    check_one_pair_of_hands(HELD_OFFSET + 1 + 10);
    rmq_consumer_destroy(consumer);
    rmq_events_destroy(events);
    tl_detour_stop(&detour);
}

static void subscribe_anew(void)
{
    rmq_consumer *consumer = atomic_load(&own);
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_unsubscribe(consumer, detour.cluster.topic, &err));
    TL_OK(rmq_consumer_subscribe(consumer, detour.cluster.topic, "*", &err));
}

static void a_topic_that_the_handler_subscribes_anew_waits_for_it(void)
{
    void (*when_held)(void) = subscribe_anew;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer *consumer = start(&detour.through, NULL, RMQ_CLUSTERING, &when_held);
    send(10);
    TL_CHECK(tl_wait(is_held, NULL, 20000));
    let_rounds_pass(MEMBER_LIST, 10);
    TL_EQUAL(atomic_load(&hands.calls), HELD_OFFSET + 1);
    atomic_store(&hands.go_on, true);
    check_one_pair_of_hands(11); /* the one that was held comes again: its offset was given up */
    rmq_consumer_destroy(consumer);
    tl_detour_stop(&detour);
}

static void a_topic_that_the_handler_of_a_broadcasting_consumer_subscribes_anew_waits_for_it(void)
{
    void (*when_held)(void) = subscribe_anew;
    int deliveries = 11;
    char command[64];
    TL_CHECK(mkdtemp(folder) != NULL);
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer *consumer = start(&detour.through, NULL, RMQ_BROADCASTING, &when_held);
    send(10);
    TL_CHECK(tl_wait(is_held, NULL, 20000));
    let_rounds_pass(HEARTBEAT, 10);
    TL_EQUAL(atomic_load(&hands.calls), HELD_OFFSET + 1);
    atomic_store(&hands.go_on, true);
    TL_CHECK(tl_wait(is_seen, &deliveries, 20000));
    rmq_consumer_destroy(consumer);
    TL_EQUAL(atomic_load(&seen.different), 10);
    TL_EQUAL(atomic_load(&hands.together), 0);
    tl_detour_stop(&detour);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    TL_EQUAL(system(command), 0);
}

/* A broker keeps a lock that was not given back for a minute. */
static void take_over(void)
{
    void (*when_held)(void) = nothing;
    rmq_consumer *consumer = start(&detour.cluster, NULL, RMQ_CLUSTERING, &when_held);
    check_one_pair_of_hands(11); /* the one that was held comes again */
    rmq_consumer_destroy(consumer);
}

static void a_consumer_may_end_while_such_a_handler_is_at_work(void)
{
    void (*when_held)(void) = subscribe_anew;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer *consumer = start(&detour.through, NULL, RMQ_CLUSTERING, &when_held);
    send(10);
    TL_CHECK(tl_wait(is_held, NULL, 20000));
    TL_EQUAL(rmq_consumer_shutdown(consumer, 100, NULL), RMQ_ERR_TIMEOUT);
    atomic_store(&hands.go_on, true);
    rmq_consumer_destroy(consumer);
    TL_EQUAL(tl_committed(&detour.cluster, 0), HELD_OFFSET);
    take_over();
    tl_detour_stop(&detour);
}

static void *shut_down(void *consumer)
{
    rmq_error *err = NULL;
    TL_OK(rmq_consumer_shutdown(consumer, 20000, &err));
    return NULL;
}

static bool is_closing(void *consumer)
{
    return rmq_consumer_unsubscribe(consumer, "Another", NULL) == RMQ_ERR_CLOSED;
}

static void a_consumer_that_waits_for_such_a_handler_gives_the_lock_back(void)
{
    void (*when_held)(void) = subscribe_anew;
    pthread_t closer;
    tl_detour_start(&detour, 1, NULL);
    rmq_consumer *consumer = start(&detour.through, NULL, RMQ_CLUSTERING, &when_held);
    send(10);
    TL_CHECK(tl_wait(is_held, NULL, 20000));
    TL_EQUAL(pthread_create(&closer, NULL, shut_down, consumer), 0);
    TL_CHECK(tl_wait(is_closing, consumer, 20000));
    atomic_store(&hands.go_on, true);
    TL_EQUAL(pthread_join(closer, NULL), 0);
    rmq_consumer_destroy(consumer);
    take_over();
    tl_detour_stop(&detour);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(an_offset_that_is_taken_back_waits_for_the_handler),
        TL_CASE(a_topic_that_the_handler_subscribes_anew_waits_for_it),
        TL_CASE(a_topic_that_the_handler_of_a_broadcasting_consumer_subscribes_anew_waits_for_it),
        TL_CASE(a_consumer_may_end_while_such_a_handler_is_at_work),
        TL_CASE(a_consumer_that_waits_for_such_a_handler_gives_the_lock_back),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

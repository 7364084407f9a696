/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Memory is missing once while a client learns of a topic: whichever allocation of its I/O thread
 * fails, what the next poll of the name server brings makes it whole. The route stays the same.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/fake_namesrv.h"
#include "lib/usage.h"

#define WAIT_MS 20000

/* ---- memory that is missing once ---- */

static atomic_int left; /* allocations of the I/O thread until one fails; 0: none will */

static bool is_missing(void)
{
    char name[16] = "";
    if (atomic_load(&left) == 0 || prctl(PR_GET_NAME, name, 0, 0, 0) != 0 ||
        strcmp(name, "rmq-io") != 0) {
        return false;
    }
    return atomic_fetch_sub(&left, 1) == 1;
}

static void *scarce_malloc(size_t n)
{
    return is_missing() ? NULL : malloc(n);
}

static void *scarce_realloc(void *old, size_t n)
{
    return is_missing() ? NULL : realloc(old, n);
}

/* ---- a broker that a name server tells the same of each time ---- */

struct scarce {
    struct tl_cluster cluster;
    struct tl_namesrv *ns;
};

static void open_scarce(struct scarce *scarce)
{
    char brokers[128];
    TL_EQUAL(rmq_set_allocator(scarce_malloc, scarce_realloc, free), RMQ_OK);
    tl_cluster_start(&scarce->cluster, 1);
    tl_cluster_needs_own(&scarce->cluster);
    scarce->ns = tl_namesrv_start();
    snprintf(brokers, sizeof brokers, "a@%s", rmq_broker_addr(scarce->cluster.broker));
    tl_namesrv_brokers(scarce->ns, NULL, brokers, 1);
}

static void close_scarce(struct scarce *scarce)
{
    tl_namesrv_stop(scarce->ns);
    tl_cluster_stop(&scarce->cluster);
}

/* Calls once for each allocation until none is missed: it needs at least so many. */
static void with_each_missing(struct scarce *scarce, void (*call)(struct scarce *scarce, int n),
                              int least)
{
    int n = 0;
    do {
        call(scarce, ++n);
    } while (atomic_exchange(&left, 0) == 0);
    TL_CHECK(n > least); /* the I/O thread was found */
}

/* ---- sends ---- */

struct sender {
    rmq_producer *producer;
    const rmq_message *message;
};

static bool is_sent(void *arg)
{
    const struct sender *sender = arg;
    return rmq_producer_send(sender->producer, sender->message, WAIT_MS, NULL, NULL) == RMQ_OK;
}

static void send_with(struct scarce *scarce, int n)
{
    rmq_error *err = NULL;
    struct sender sender = {0};
    rmq_producer_options options;
    tl_producer_options_init(&options);
    options.producer_group = "g";
    options.namesrv_addr = tl_namesrv_addr(scarce->ns);
    options.poll_name_server_interval_ms = 100;
    TL_OK(rmq_producer_create(&options, &sender.producer, &err));
    rmq_message *message = tl_message(scarce->cluster.topic, "x", 1);
    sender.message = message;
    atomic_store(&left, n);
    (void)rmq_producer_send(sender.producer, message, 1000, NULL, NULL);
    TL_CHECK(tl_wait(is_sent, &sender, WAIT_MS));
    rmq_message_destroy(message);
    rmq_producer_destroy(sender.producer);
}

static void sends_succeed_again_whichever_allocation_of_a_look_up_failed(void)
{
    struct scarce scarce;
    open_scarce(&scarce);
    with_each_missing(&scarce, send_with, 10);
    close_scarce(&scarce);
}

/* ---- questions about a queue ---- */

struct asker {
    rmq_pull_consumer *consumer;
    const char *topic;
};

static bool is_answered(void *arg)
{
    const struct asker *asker = arg;
    int64_t offset = 0;
    return rmq_pull_consumer_max_offset(asker->consumer, asker->topic, "a", 0, WAIT_MS, &offset,
                                        NULL) == RMQ_OK;
}

static void ask_with(struct scarce *scarce, int n)
{
    rmq_error *err = NULL;
    struct asker asker = {.topic = scarce->cluster.topic};
    rmq_pull_consumer_options options;
    int64_t offset = 0;
    rmq_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = "g";
    options.namesrv_addr = tl_namesrv_addr(scarce->ns);
    options.poll_name_server_interval_ms = 100;
    TL_OK(rmq_pull_consumer_create(&options, &asker.consumer, &err));
    atomic_store(&left, n);
    (void)rmq_pull_consumer_max_offset(asker.consumer, asker.topic, "a", 0, 1000, &offset, NULL);
    TL_CHECK(tl_wait(is_answered, &asker, WAIT_MS));
    rmq_pull_consumer_destroy(asker.consumer);
}

static void queues_are_known_again_whichever_allocation_of_a_look_up_failed(void)
{
    struct scarce scarce;
    open_scarce(&scarce);
    with_each_missing(&scarce, ask_with, 10);
    close_scarce(&scarce);
}

/* ---- what a polling consumer is told ---- */

struct taker {
    rmq_consumer *consumer;
    rmq_events *events;
    rmq_producer *producer;
    rmq_message *message;
};

static struct taker taker;

/* Only who is told polls. */
static void take_batch(void)
{
    rmq_batch *batch = NULL;
    rmq_error *err = NULL;
    while (!batch) {
        rmq_event *event = NULL;
        TL_CHECK(rmq_events_take(taker.events, &event, 1, WAIT_MS) == 1);
        if (rmq_event_get_type(event) == RMQ_EVENT_BATCH) {
            (void)rmq_consumer_poll(taker.consumer, &batch, 0, NULL);
        }
        rmq_event_destroy(event);
    }
    TL_OK(rmq_consumer_finish(taker.consumer, batch, RMQ_CONSUME_SUCCESS, &err));
    rmq_batch_destroy(batch);
}

static void take_with(struct scarce *scarce, int n)
{
    struct sender sender = {taker.producer, taker.message};
    (void)scarce;
    atomic_store(&left, n);
    TL_CHECK(is_sent(&sender));
    take_batch();
}

static void a_taker_is_told_whichever_allocation_failed_when_a_message_came(void)
{
    struct scarce scarce;
    rmq_error *err = NULL;
    open_scarce(&scarce);
    TL_OK(rmq_events_create(&taker.events, &err));
    rmq_consumer_options options = tl_consumer_options(&scarce.cluster);
    options.events = taker.events;
    options.persist_consumer_offset_interval_ms = 100;
    taker.consumer = tl_consumer_start(&scarce.cluster, &options);
    taker.producer = tl_producer(&scarce.cluster);
    taker.message = tl_message(scarce.cluster.topic, "x", 1);
    take_with(&scarce, 0);
    with_each_missing(&scarce, take_with, 3);
    rmq_message_destroy(taker.message);
    rmq_producer_destroy(taker.producer);
    rmq_consumer_destroy(taker.consumer);
    rmq_events_destroy(taker.events);
    close_scarce(&scarce);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(sends_succeed_again_whichever_allocation_of_a_look_up_failed),
        TL_CASE(queues_are_known_again_whichever_allocation_of_a_look_up_failed),
        TL_CASE(a_taker_is_told_whichever_allocation_failed_when_a_message_came),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

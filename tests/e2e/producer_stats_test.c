/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Statistics of a producer: each send is counted once, under what became of it. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 20000

/* Number of a member of the first level. */
static long long number(const char *json, const char *name)
{
    char member[64];
    snprintf(member, sizeof member, "\"%s\":", name);
    const char *at = strstr(json, member);
    TL_CHECK(at != NULL);
    return strtoll(at + strlen(member), NULL, 10);
}

static void note(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)result;
    (void)err;
    atomic_fetch_add((atomic_int *)user, 1);
}

static bool are_ten(void *arg)
{
    return atomic_load((atomic_int *)arg) == 10;
}

static void every_send_is_counted_under_its_outcome(void)
{
    struct tl_cluster cluster;
    atomic_int calls = 0;
    rmq_error *err = NULL;
    char *json = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "0123456789", 10);
    for (int i = 0; i < 5; i++) {
        TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    }
    for (int i = 0; i < 10; i++) {
        TL_OK(rmq_producer_send_async(producer, message, note, &calls, &err));
    }
    TL_CHECK(tl_wait(are_ten, &calls, WAIT_MS));
    TL_OK(rmq_producer_send_oneway(producer, message, &err));
    const rmq_message *batch[] = {message, message, message};
    TL_OK(rmq_producer_send_batch(producer, batch, 3, 0, NULL, &err));
    TL_OK(rmq_broker_fault_answer(cluster.broker, 310, 1, 2, "busy", &err));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_broker_fault_answer(cluster.broker, 310, 1, 13, "illegal", &err));
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, NULL), RMQ_ERR_BROKER);
    TL_OK(rmq_broker_fault_drop(cluster.broker, 310, 10, &err));
    TL_EQUAL(rmq_producer_send(producer, message, 100, NULL, NULL), RMQ_ERR_TIMEOUT);
    TL_OK(rmq_producer_stats(producer, &json, &err));
    TL_EQUAL(number(json, "sends"), 20);
    TL_EQUAL(number(json, "messages"), 22);
    TL_EQUAL(number(json, "bytes"), 220);
    TL_EQUAL(number(json, "stored"), 17);
    TL_EQUAL(number(json, "failed"), 2);
    TL_EQUAL(number(json, "maybeStored"), 1);
    TL_EQUAL(number(json, "oneway"), 1);
    TL_EQUAL(number(json, "inFlight"), 0);
    TL_EQUAL(number(json, "retries"), 1);
    TL_EQUAL(number(json, "window"), 0);
    TL_EQUAL(number(json, "count"), 19); /* answers: all but the one-way one and the dropped one */
    TL_CHECK(strstr(json, "\"clientId\":\"") != NULL);
    rmq_string_free(json);
    rmq_message_destroy(message);
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    TL_EQUAL(rmq_producer_stats(producer, &json, NULL), RMQ_ERR_CLOSED);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void sends_under_way_and_refused_ones_are_seen(void)
{
    struct tl_cluster cluster;
    atomic_int calls = 0;
    rmq_error *err = NULL;
    char *json = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    options = tl_producer_options(&cluster);
    options.max_async_in_flight = 10;
    options.async_wait_when_full = false;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "0123456789", 10);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_broker_fault_drop(cluster.broker, 310, 1000, &err));
    for (int i = 0; i < 10; i++) {
        TL_OK(rmq_producer_send_async(producer, message, note, &calls, &err));
    }
    TL_EQUAL(rmq_producer_send_async(producer, message, note, &calls, NULL), RMQ_ERR_BUSY);
    TL_OK(rmq_producer_stats(producer, &json, &err));
    TL_EQUAL(number(json, "sends"), 11);
    TL_EQUAL(number(json, "inFlight"), 10);
    TL_EQUAL(number(json, "window"), 10);
    TL_EQUAL(number(json, "windowBytes"), 100);
    TL_EQUAL(number(json, "busy"), 1);
    rmq_string_free(json);
    rmq_message_destroy(message);
    TL_EQUAL(rmq_producer_shutdown(producer, 10, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(atomic_load(&calls), 10);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void they_come_as_events_when_asked_for(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, 2);
    TL_OK(rmq_events_create(&events, &err));
    options = tl_producer_options(&cluster);
    options.events = events;
    options.statistics_interval_ms = 20;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "0123456789", 10);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    for (bool seen = false; !seen;) {
        TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
        TL_EQUAL(rmq_event_get_type(event), RMQ_EVENT_STATISTICS);
        TL_CHECK(rmq_event_source(event) == producer);
        seen = number(rmq_event_text(event), "stored") == 1;
        rmq_event_destroy(event);
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    TL_EQUAL(rmq_events_take(events, &event, 1, 0), 0);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(every_send_is_counted_under_its_outcome),
        TL_CASE(sends_under_way_and_refused_ones_are_seen),
        TL_CASE(they_come_as_events_when_asked_for),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

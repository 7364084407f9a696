/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Hooks around sends: order, what they see, refusals, properties they add, one end for each
 * beginning. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 20000

/* What a hook saw. */
struct seen {
    atomic_int checks;
    atomic_int befores;
    atomic_int afters;
    atomic_int stored;
    atomic_int failed;
    atomic_int modes[3];
    atomic_int wrong;
    rmq_status refuse;
    const char *topic;
};

static rmq_status check(const rmq_send_context *context, void *user)
{
    struct seen *seen = user;
    atomic_fetch_add(&seen->checks, 1);
    atomic_fetch_add(&seen->wrong, rmq_send_context_message(context, 0) == NULL);
    return seen->refuse;
}

static void before(rmq_send_context *context, void *user)
{
    struct seen *seen = user;
    int number = atomic_fetch_add(&seen->befores, 1);
    atomic_fetch_add(&seen->modes[rmq_send_context_mode(context)], 1);
    atomic_fetch_add(&seen->wrong, strcmp(rmq_send_context_topic(context), seen->topic) != 0);
    atomic_fetch_add(&seen->wrong, rmq_send_context_data(context) != NULL);
    rmq_send_context_set_data(context, seen);
    char text[32];
    snprintf(text, sizeof text, "%d", number);
    atomic_fetch_add(&seen->wrong, rmq_send_context_put_property(context, "span", text) != RMQ_OK);
    atomic_fetch_add(&seen->wrong,
                     rmq_send_context_put_property(context, "UNIQ_KEY", text) != RMQ_ERR_INVALID);
}

static void after(rmq_send_context *context, void *user)
{
    struct seen *seen = user;
    atomic_fetch_add(&seen->afters, 1);
    atomic_fetch_add(&seen->stored, rmq_send_context_result(context) != NULL);
    atomic_fetch_add(&seen->failed, rmq_send_context_error(context) != NULL);
    atomic_fetch_add(&seen->wrong, rmq_send_context_data(context) != seen);
    atomic_fetch_add(&seen->wrong,
                     rmq_send_context_put_property(context, "a", "b") != RMQ_ERR_STATE);
}

static void add_hook(rmq_producer *producer, struct seen *seen)
{
    rmq_error *err = NULL;
    rmq_send_hook hook;
    rmq_send_hook_init(&hook, sizeof hook);
    char name[] = "seer";
    hook.name = name;
    hook.check = check;
    hook.before = before;
    hook.after = after;
    hook.user = seen;
    TL_OK(rmq_producer_add_send_hook(producer, &hook, &err));
    name[0] = 'x'; /* it was copied */
}

static void count_call(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct seen *seen = user;
    (void)result;
    (void)err;
    /* The hook is ahead of the callback. */
    atomic_fetch_add(&seen->wrong, atomic_load(&seen->afters) != 2);
    atomic_fetch_add(&seen->checks, 1000);
}

static bool is_called(void *arg)
{
    return atomic_load(&((struct seen *)arg)->checks) >= 1000;
}

static rmq_producer *producer_with_events(const struct tl_cluster *cluster, rmq_events *events)
{
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options = tl_producer_options(cluster);
    options.events = events;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    return producer;
}

static void every_kind_of_send_runs_them_once(void)
{
    struct tl_cluster cluster;
    static struct seen seen, second;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    tl_cluster_start(&cluster, 2);
    TL_OK(rmq_events_create(&events, &err));
    rmq_producer *producer = producer_with_events(&cluster, events);
    seen.topic = second.topic = cluster.topic;
    add_hook(producer, &seen);
    rmq_message *message = tl_message(cluster.topic, "hooked", 6);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, NULL), RMQ_OK);
    TL_EQUAL(atomic_load(&seen.afters), 1);
    TL_OK(rmq_producer_send_async(producer, message, count_call, &seen, &err));
    TL_CHECK(tl_wait(is_called, &seen, WAIT_MS));
    TL_OK(rmq_producer_send_event(producer, message, 7, &err));
    TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
    TL_EQUAL(rmq_event_token(event), 7);
    TL_EQUAL(atomic_load(&seen.afters), 3);
    rmq_event_destroy(event);
    TL_OK(rmq_producer_send_oneway(producer, message, &err));
    TL_EQUAL(atomic_load(&seen.afters), 4);
    add_hook(producer, &second);
    const rmq_message *batch[] = {message, message};
    TL_OK(rmq_producer_send_batch(producer, batch, 2, 0, NULL, &err));
    TL_EQUAL(atomic_load(&seen.afters), 5);
    TL_EQUAL(atomic_load(&second.afters), 1);
    TL_EQUAL(atomic_load(&seen.befores), 5);
    TL_EQUAL(atomic_load(&seen.stored), 4); /* nobody knows of the one-way one */
    TL_EQUAL(atomic_load(&seen.modes[RMQ_MODE_SYNC]), 2);
    TL_EQUAL(atomic_load(&seen.modes[RMQ_MODE_ASYNC]), 2);
    TL_EQUAL(atomic_load(&seen.modes[RMQ_MODE_ONEWAY]), 1);
    TL_EQUAL(atomic_load(&seen.wrong), 0);
    TL_EQUAL(atomic_load(&second.wrong), 0);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

static void a_check_refuses_with_its_own_status(void)
{
    struct tl_cluster cluster;
    static struct seen seen;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    seen.topic = cluster.topic;
    seen.refuse = RMQ_ERR_UNSUPPORTED;
    add_hook(producer, &seen);
    rmq_message *message = tl_message(cluster.topic, "hooked", 6);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_UNSUPPORTED);
    TL_CHECK(strstr(rmq_error_message(err), "seer") != NULL);
    rmq_error_destroy(err);
    TL_EQUAL(rmq_producer_send_async(producer, message, count_call, &seen, NULL),
             RMQ_ERR_UNSUPPORTED);
    TL_EQUAL(rmq_producer_send_oneway(producer, message, NULL), RMQ_ERR_UNSUPPORTED);
    TL_EQUAL(atomic_load(&seen.checks), 3);
    TL_EQUAL(atomic_load(&seen.befores), 0);
    TL_EQUAL(atomic_load(&seen.afters), 0);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_property_that_a_hook_adds_arrives(void)
{
    struct tl_cluster cluster;
    static struct seen seen;
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    rmq_send_result *result = NULL;
    const rmq_message_view *view = NULL;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    seen.topic = cluster.topic;
    add_hook(producer, &seen);
    rmq_message *message = tl_message(cluster.topic, "hooked", 6);
    TL_EQUAL(rmq_message_set_property(message, "own", "value"), RMQ_OK);
    TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
    TL_OK(rmq_admin_create(cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_view_message(admin, rmq_send_result_offset_msg_id(result), 0, &view, &err));
    TL_CHECK(strcmp(rmq_message_view_property(view, "span"), "0") == 0);
    TL_CHECK(strcmp(rmq_message_view_property(view, "own"), "value") == 0);
    /* The program's message is untouched. */
    TL_CHECK(*rmq_message_property(message, "span") == '\0');
    rmq_message_view_release(view);
    rmq_send_result_destroy(result);
    rmq_admin_destroy(admin);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void ignore(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)result;
    (void)err;
    (void)user;
}

static void a_send_that_fails_or_is_cut_off_has_its_after_too(void)
{
    struct tl_cluster cluster;
    static struct seen seen;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, 2);
    tl_cluster_needs_own(&cluster);
    rmq_producer *producer = tl_producer(&cluster);
    seen.topic = cluster.topic;
    rmq_message *message = tl_message(cluster.topic, "hooked", 6);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    add_hook(producer, &seen);
    TL_OK(rmq_broker_fault_answer(cluster.broker, 310, 13, 1, "illegal", &err));
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, NULL), RMQ_ERR_BROKER);
    TL_EQUAL(atomic_load(&seen.failed), 1);
    TL_EQUAL(rmq_producer_send_to_queue(producer, message, "nobody", 0, 0, NULL, NULL),
             RMQ_ERR_NO_BROKER);
    TL_EQUAL(atomic_load(&seen.failed), 2);
    TL_OK(rmq_broker_fault_drop(cluster.broker, 310, 1000, &err));
    for (int i = 0; i < 100; i++) {
        TL_OK(rmq_producer_send_async(producer, message, ignore, NULL, &err));
    }
    TL_EQUAL(rmq_producer_shutdown(producer, 50, NULL), RMQ_ERR_TIMEOUT);
    TL_EQUAL(atomic_load(&seen.afters), 102);
    TL_EQUAL(atomic_load(&seen.failed), 102);
    TL_EQUAL(atomic_load(&seen.wrong), 0);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static bool has_stored(void *producer)
{
    char *json = NULL;
    rmq_error *err = NULL;
    TL_OK(rmq_producer_stats(producer, &json, &err));
    bool stored = strstr(json, "\"stored\":1,") != NULL;
    rmq_string_free(json);
    return stored;
}

struct closing {
    rmq_producer *producer;
    atomic_bool closed;
};

static void *close_it(void *arg)
{
    struct closing *closing = arg;
    (void)rmq_producer_shutdown(closing->producer, WAIT_MS, NULL);
    atomic_store(&closing->closed, true);
    return NULL;
}

static bool is_closed(void *arg)
{
    return atomic_load(&((struct closing *)arg)->closed);
}

/* With its counter full, the queue's descriptor holds up who posts, between the end of the send and
 * the event. The other producer keeps the callback thread. */
static void an_event_behind_hooks_is_posted_before_a_shutdown_returns(void)
{
    struct tl_cluster cluster;
    static struct seen seen, other_seen;
    static struct closing closing;
    pthread_t thread;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    uint64_t value = UINT64_MAX - 1;
    tl_cluster_start(&cluster, 2);
    TL_OK(rmq_events_create(&events, &err));
    rmq_message *message = tl_message(cluster.topic, "hooked", 6);
    rmq_producer *other = tl_producer(&cluster);
    atomic_store(&other_seen.afters, 2);
    TL_OK(rmq_producer_send_async(other, message, count_call, &other_seen, &err));
    TL_CHECK(tl_wait(is_called, &other_seen, WAIT_MS));
    closing.producer = producer_with_events(&cluster, events);
    seen.topic = cluster.topic;
    add_hook(closing.producer, &seen);
    int fd = rmq_events_fd(events);
    TL_EQUAL(write(fd, &value, sizeof value), sizeof value);
    TL_EQUAL(fcntl(fd, F_SETFL, 0), 0);
    TL_OK(rmq_producer_send_event(closing.producer, message, 7, &err));
    TL_CHECK(tl_wait(has_stored, closing.producer, WAIT_MS));
    TL_EQUAL(pthread_create(&thread, NULL, close_it, &closing), 0);
    TL_CHECK(!tl_wait(is_closed, &closing, 300));
    TL_EQUAL(read(fd, &value, sizeof value), sizeof value);
    pthread_join(thread, NULL);
    TL_EQUAL(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    TL_EQUAL(rmq_events_take(events, &event, 1, 0), 1);
    TL_EQUAL(rmq_event_token(event), 7);
    rmq_event_destroy(event);
    rmq_message_destroy(message);
    rmq_producer_destroy(closing.producer);
    rmq_producer_destroy(other);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

/* More than a message may have. */
static void put_too_much(rmq_send_context *context, void *user)
{
    char value[1000];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    before(context, user);
    for (int i = 0; i < 40; i++) {
        (void)rmq_send_context_put_property(context, "much", value);
    }
}

static void a_hook_that_puts_too_much_fails_the_send_and_has_its_after(void)
{
    struct tl_cluster cluster;
    static struct seen seen;
    rmq_error *err = NULL;
    rmq_send_hook hook;
    tl_cluster_start(&cluster, 2);
    rmq_producer *producer = tl_producer(&cluster);
    seen.topic = cluster.topic;
    rmq_send_hook_init(&hook, sizeof hook);
    hook.before = put_too_much;
    hook.after = after;
    hook.user = &seen;
    TL_OK(rmq_producer_add_send_hook(producer, &hook, &err));
    rmq_message *message = tl_message(cluster.topic, "hooked", 6);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_TOO_LARGE);
    TL_CHECK(strstr(rmq_error_message(err), "hooks put more than 32768 bytes") != NULL);
    rmq_error_destroy(err);
    TL_EQUAL(rmq_producer_send_oneway(producer, message, NULL), RMQ_ERR_TOO_LARGE);
    TL_EQUAL(rmq_producer_send_async(producer, message, ignore, NULL, NULL), RMQ_ERR_TOO_LARGE);
    TL_EQUAL(atomic_load(&seen.befores), 3);
    TL_EQUAL(atomic_load(&seen.failed), 3);
    TL_EQUAL(atomic_load(&seen.wrong), 0);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(every_kind_of_send_runs_them_once),
        TL_CASE(a_check_refuses_with_its_own_status),
        TL_CASE(a_property_that_a_hook_adds_arrives),
        TL_CASE(a_send_that_fails_or_is_cut_off_has_its_after_too),
        TL_CASE(an_event_behind_hooks_is_posted_before_a_shutdown_returns),
        TL_CASE(a_hook_that_puts_too_much_fails_the_send_and_has_its_after),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Every way to send: blocking, callback, event queue, one-way, batch, to a queue, by selector and
 * key; what is refused before it is sent.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cases.h"
#include "lib/cluster.h"
#include "lib/usage.h"

#define WAIT_MS 15000
#define QUEUES  4

static int64_t stored(const struct tl_cluster *cluster)
{
    return tl_stored(cluster->namesrv, cluster->topic);
}

struct stored_wait {
    const struct tl_cluster *cluster;
    int64_t count;
};

static bool has_stored(void *arg)
{
    struct stored_wait *wait = arg;
    return stored(wait->cluster) >= wait->count;
}

static void a_blocking_send_tells_where_the_message_is(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "hello", 5);
    bool used[QUEUES] = {false};
    for (int i = 0; i < 2 * QUEUES; i++) {
        rmq_send_result *result = NULL;
        TL_OK(rmq_producer_send(producer, message, 0, &result, &err));
        TL_EQUAL(rmq_send_result_status(result), RMQ_SEND_OK);
        TL_CHECK(strcmp(rmq_send_result_status_name(result), "SEND_OK") == 0);
        TL_CHECK(strcmp(rmq_send_result_topic(result), cluster.topic) == 0);
        TL_EQUAL(strlen(rmq_send_result_msg_id(result)), 32);
        TL_EQUAL(strlen(rmq_send_result_offset_msg_id(result)), 32);
        TL_CHECK(*rmq_send_result_broker_name(result));
        TL_CHECK(rmq_send_result_queue_offset(result) >= 0);
        used[rmq_send_result_queue_id(result) % QUEUES] = true;
        rmq_send_result_destroy(result);
    }
    for (int i = 0; i < QUEUES; i++) {
        TL_CHECK(used[i]);
    }
    TL_EQUAL(stored(&cluster), 2 * QUEUES);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

struct counter {
    _Atomic int ok;
    _Atomic int failed;
    rmq_producer *producer;
    rmq_message *message;
    _Atomic int more; /* sends that callbacks still make */
};

static void count_send(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct counter *counter = user;
    TL_CHECK((result == NULL) != (err == NULL));
    atomic_fetch_add(result ? &counter->ok : &counter->failed, 1);
}

static bool all_ok(void *arg)
{
    struct counter *counter = arg;
    return atomic_load(&counter->ok) + atomic_load(&counter->failed) >= 3000;
}

static void every_asynchronous_send_is_completed_once(void)
{
    struct tl_cluster cluster;
    struct counter counter = {0};
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    for (int i = 0; i < 3000; i++) {
        char body[32];
        rmq_message *message =
            tl_message(cluster.topic, body, (size_t)snprintf(body, sizeof body, "m-%d", i));
        TL_OK(rmq_producer_send_async(producer, message, count_send, &counter, &err));
        rmq_message_destroy(message);
    }
    TL_CHECK(tl_wait(all_ok, &counter, WAIT_MS));
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    TL_EQUAL(atomic_load(&counter.ok), 3000);
    TL_EQUAL(stored(&cluster), 3000);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void send_again(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct counter *counter = user;
    atomic_fetch_add(err ? &counter->failed : &counter->ok, 1);
    if (result && atomic_fetch_sub(&counter->more, 1) > 0 &&
        rmq_producer_send_async(counter->producer, counter->message, send_again, counter, NULL) !=
            RMQ_OK) {
        atomic_fetch_add(&counter->failed, 1);
    }
}

static void a_callback_may_send_while_the_window_is_one(void)
{
    struct tl_cluster cluster;
    struct counter counter = {.more = 2999};
    rmq_error *err = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, QUEUES);
    options = tl_producer_options(&cluster);
    options.max_async_in_flight = 1;
    TL_OK(rmq_producer_create(&options, &counter.producer, &err));
    counter.message = tl_message(cluster.topic, "again", 5);
    TL_OK(rmq_producer_send_async(counter.producer, counter.message, send_again, &counter, &err));
    TL_CHECK(tl_wait(all_ok, &counter, WAIT_MS));
    rmq_producer_destroy(counter.producer);
    TL_EQUAL(atomic_load(&counter.ok), 3000);
    rmq_message_destroy(counter.message);
    tl_cluster_stop(&cluster);
}

static void a_full_window_is_refused_when_asked_not_to_wait(void)
{
    struct tl_cluster cluster;
    struct counter counter = {0};
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, QUEUES);
    tl_cluster_needs_own(&cluster);
    options = tl_producer_options(&cluster);
    options.max_async_in_flight = 2;
    options.async_wait_when_full = false;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_broker_fault_delay(cluster.broker, 310, 2, 300, &err));
    TL_OK(rmq_producer_send_async(producer, message, count_send, &counter, &err));
    TL_OK(rmq_producer_send_async(producer, message, count_send, &counter, &err));
    TL_EQUAL(rmq_producer_send_async(producer, message, count_send, &counter, &err), RMQ_ERR_BUSY);
    TL_CHECK(rmq_error_retriable(err));
    TL_CHECK(strstr(rmq_error_message(err), "2") != NULL);
    rmq_error_destroy(err);
    rmq_producer_destroy(producer);
    TL_EQUAL(atomic_load(&counter.ok), 2);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

static void events_complete_with_their_tokens(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_events *events = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    tl_cluster_start(&cluster, QUEUES);
    TL_OK(rmq_events_create(&events, &err));
    options = tl_producer_options(&cluster);
    options.events = events;
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, "event", 5);
    bool seen[500] = {false};
    for (uint64_t i = 0; i < 500; i++) {
        TL_OK(rmq_producer_send_event(producer, message, i, &err));
    }
    for (size_t got = 0; got < 500;) {
        struct pollfd fd = {.fd = rmq_events_fd(events), .events = POLLIN};
        TL_EQUAL(poll(&fd, 1, WAIT_MS), 1);
        rmq_event *out[64];
        size_t n = rmq_events_take(events, out, 64, 0);
        TL_CHECK(n > 0);
        for (size_t i = 0; i < n; i++) {
            TL_EQUAL(rmq_event_get_type(out[i]), RMQ_EVENT_SENT);
            TL_CHECK(rmq_event_source(out[i]) == producer);
            TL_CHECK(rmq_event_error(out[i]) == NULL);
            TL_CHECK(rmq_send_result_queue_offset(rmq_event_send_result(out[i])) >= 0);
            TL_CHECK(!seen[rmq_event_token(out[i])]);
            seen[rmq_event_token(out[i])] = true;
            rmq_event_destroy(out[i]);
        }
        got += n;
    }
    rmq_event *kept = NULL;
    const rmq_message *batch[] = {message, message};
    TL_OK(rmq_producer_send_batch_event(producer, batch, 2, NULL, 6, &err));
    TL_EQUAL(rmq_events_take(events, &kept, 1, WAIT_MS), 1);
    TL_EQUAL(rmq_event_token(kept), 6);
    TL_CHECK(strchr(rmq_send_result_msg_id(rmq_event_send_result(kept)), ',') != NULL);
    rmq_event_destroy(kept);
    TL_OK(rmq_producer_send_event(producer, message, 7, &err));
    TL_EQUAL(rmq_events_take(events, &kept, 1, WAIT_MS), 1);
    /* taken when the producer is gone */
    TL_OK(rmq_producer_send_event(producer, message, 8, &err));
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    rmq_producer_destroy(producer);
    TL_EQUAL(rmq_event_token(kept), 7);
    TL_CHECK(*rmq_send_result_broker_name(rmq_event_send_result(kept)));
    rmq_event_destroy(kept);
    TL_EQUAL(rmq_events_take(events, &kept, 1, 0), 1);
    TL_EQUAL(rmq_event_token(kept), 8);
    rmq_event_destroy(kept);
    TL_EQUAL(rmq_events_take(events, &kept, 1, 0), 0);
    rmq_events_destroy(events);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

static void one_way_sends_arrive(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "oneway", 6);
    for (int i = 0; i < 200; i++) {
        TL_OK(rmq_producer_send_oneway(producer, message, &err));
    }
    TL_CHECK(tl_wait(has_stored, &(struct stored_wait){&cluster, 200}, WAIT_MS));
    TL_EQUAL(stored(&cluster), 200);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static size_t last_queue(const rmq_message *message, size_t count, void *user)
{
    *(size_t *)user = count;
    return strcmp(rmq_message_tag(message), "bad") == 0 ? count : count - 1;
}

static void the_queue_can_be_chosen(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "where", 5);
    size_t count = 0;
    TL_OK(rmq_producer_send_by_selector(producer, message, last_queue, &count, 0, &result, &err));
    TL_EQUAL(rmq_send_result_queue_id(result), (int)(count - 1) % QUEUES);
    char broker[128];
    snprintf(broker, sizeof broker, "%s", rmq_send_result_broker_name(result));
    rmq_send_result_destroy(result);

    TL_OK(rmq_producer_send_to_queue(producer, message, broker, 1, 0, &result, &err));
    TL_EQUAL(rmq_send_result_queue_id(result), 1);
    rmq_send_result_destroy(result);
    TL_EQUAL(rmq_producer_send_to_queue(producer, message, "nobody", 1, 0, &result, &err),
             RMQ_ERR_NO_BROKER);
    TL_CHECK(strstr(rmq_error_message(err), "nobody") != NULL);
    rmq_error_destroy(err);
    err = NULL;

    int first = -1;
    for (int i = 0; i < 5; i++) {
        TL_OK(rmq_producer_send_by_key(producer, message, "order-17", 0, &result, &err));
        first = i == 0 ? rmq_send_result_queue_id(result) : first;
        TL_EQUAL(rmq_send_result_queue_id(result), first);
        rmq_send_result_destroy(result);
    }
    rmq_message_set_tag(message, "bad");
    TL_EQUAL(rmq_producer_send_by_selector(producer, message, last_queue, &count, 0, NULL, NULL),
             RMQ_ERR_INVALID);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

#define BATCH 100

static void a_batch_is_one_request_with_an_id_for_each_message(void)
{
    struct tl_cluster cluster;
    static struct tl_seen seen;
    rmq_error *err = NULL;
    rmq_send_result *result = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *messages[BATCH];
    char body[3000];
    memset(body, 'b', sizeof body);
    for (int i = 0; i < BATCH; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        messages[i] = tl_message(cluster.topic, body, sizeof body);
        rmq_message_set_tag(messages[i], "batch");
        rmq_message_add_key(messages[i], number);
        rmq_message_set_property(messages[i], "n", number);
    }
    TL_OK(rmq_producer_send_batch(producer, (const rmq_message *const *)messages, BATCH, 0, &result,
                                  &err));
    TL_EQUAL(strlen(rmq_send_result_msg_id(result)), BATCH * 33 - 1);
    rmq_send_result_destroy(result);
    rmq_consumer *consumer = tl_consumer(&cluster, "batch", tl_seen_listener, &seen);
    tl_seen_wait(&seen, BATCH, WAIT_MS);
    TL_EQUAL(atomic_load(&seen.total), BATCH);
    rmq_consumer_destroy(consumer);
    for (int i = 0; i < BATCH; i++) {
        rmq_message_destroy(messages[i]);
    }
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void expect_batch_error(rmq_producer *producer, const rmq_message *a, const rmq_message *b,
                               rmq_status status)
{
    const rmq_message *messages[] = {a, b};
    rmq_error *err = NULL;
    TL_EQUAL(rmq_producer_send_batch(producer, messages, 2, 0, NULL, &err), status);
    TL_CHECK(*rmq_error_message(err));
    rmq_error_destroy(err);
}

static void a_time_out_may_be_of_any_size(void)
{
    struct tl_cluster cluster;
    struct counter counter = {0};
    rmq_error *err = NULL;
    rmq_admin *admin = NULL;
    char *list = NULL;
    rmq_send_options how;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "body", 4);
    TL_OK(rmq_producer_send(producer, message, INT64_MAX, NULL, &err));
    rmq_send_options_init(&how, sizeof how);
    how.timeout_ms = INT64_MAX;
    TL_OK(rmq_producer_send_async_with(producer, message, &how, count_send, &counter, &err));
    TL_OK(rmq_producer_shutdown(producer, INT64_MAX, &err));
    TL_EQUAL(atomic_load(&counter.ok), 1);
    TL_EQUAL(stored(&cluster), 2);
    TL_OK(rmq_admin_create(cluster.namesrv, &admin, &err));
    TL_OK(rmq_admin_topic_list(admin, INT64_MAX, &list, &err));
    rmq_string_free(list);
    rmq_admin_destroy(admin);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

/* Under memcheck this also shows that the refusal reads nothing of a message that was not
 * stored. */
static void a_body_over_the_broker_s_limit_is_refused_with_its_words(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    size_t size = 4194305;
    char *big = calloc(1, size);
    tl_cluster_start(&cluster, QUEUES);
    tl_producer_options_init(&options);
    options.producer_group = "large";
    options.namesrv_addr = cluster.namesrv;
    options.max_message_size = (int32_t)size;
    options.compress_type = "NONE";
    TL_OK(rmq_producer_create(&options, &producer, &err));
    rmq_message *message = tl_message(cluster.topic, big, size);
    TL_EQUAL(rmq_producer_send(producer, message, WAIT_MS, NULL, &err), RMQ_ERR_BROKER);
    TL_EQUAL(rmq_error_remote_code(err), 13); /* a real broker says its limit in other words */
    TL_CHECK(strstr(rmq_error_message(err), cluster.broker
                                                ? "body too large: 4194305 bytes, limit 4194304"
                                                : "limit 4194304") != NULL);
    rmq_error_destroy(err);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    free(big);
    tl_cluster_stop(&cluster);
}

static void what_cannot_be_sent_is_refused_with_the_numbers(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    rmq_producer *producer = tl_producer(&cluster);
    size_t size = 4194305;
    char *big = calloc(1, size);
    rmq_message *message = tl_message(cluster.topic, big, size);
    TL_EQUAL(rmq_producer_send(producer, message, 0, NULL, &err), RMQ_ERR_TOO_LARGE);
    TL_CHECK(strstr(rmq_error_message(err), "4194305") &&
             strstr(rmq_error_message(err), "4194304"));
    rmq_error_destroy(err);
    err = NULL;
    rmq_message_copy_body(message, "x", 1);
    rmq_message *other = tl_message(cluster.topic, "x", 1);
    for (int i = 0; i < 400; i++) {
        char name[16];
        char value[101];
        snprintf(name, sizeof name, "p%d", i);
        memset(value, 'v', 100);
        value[100] = '\0';
        TL_EQUAL(rmq_message_set_property(other, name, value), RMQ_OK);
    }
    TL_EQUAL(rmq_producer_send(producer, other, 0, NULL, &err), RMQ_ERR_TOO_LARGE);
    TL_CHECK(strstr(rmq_error_message(err), "32767") != NULL);
    rmq_error_destroy(err);
    err = NULL;
    rmq_message_destroy(other);

    rmq_message *empty = NULL;
    TL_OK(rmq_message_create(cluster.topic, &empty, &err));
    TL_EQUAL(rmq_producer_send(producer, empty, 0, NULL, NULL), RMQ_ERR_INVALID);
    TL_OK(rmq_message_create("SCHEDULE_TOPIC_XXXX", &other, &err));
    rmq_message_copy_body(other, "x", 1);
    TL_EQUAL(rmq_producer_send(producer, other, 0, NULL, NULL), RMQ_ERR_INVALID);
    expect_batch_error(producer, message, other, RMQ_ERR_INVALID);
    expect_batch_error(producer, message, empty, RMQ_ERR_INVALID);
    rmq_message_destroy(other);
    other = tl_message(cluster.topic, big, 4194304);
    expect_batch_error(producer, message, other, RMQ_ERR_TOO_LARGE);
    rmq_message_copy_body(other, "x", 1);
    rmq_message_set_delay_level(other, 1);
    expect_batch_error(producer, message, other, RMQ_ERR_INVALID);
    rmq_message_set_delay_level(other, 0);
    rmq_message_set_wait_store_ok(other, false);
    expect_batch_error(producer, message, other, RMQ_ERR_INVALID);
    TL_EQUAL(rmq_producer_send_batch(producer, NULL, 0, 0, NULL, NULL), RMQ_ERR_INVALID);
    TL_EQUAL(stored(&cluster), 0);
    TL_CHECK(rmq_producer_send_event(producer, message, 1, NULL) == RMQ_ERR_STATE);
    free(big);
    rmq_message_destroy(empty);
    rmq_message_destroy(other);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void a_topic_that_does_not_exist_is_made_by_the_first_send(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    tl_cluster_start(&cluster, QUEUES);
    snprintf(cluster.topic + strlen(cluster.topic), 8, "-new");
    rmq_producer *producer = tl_producer(&cluster);
    rmq_message *message = tl_message(cluster.topic, "first", 5);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_CHECK(tl_wait(has_stored, &(struct stored_wait){&cluster, 2}, WAIT_MS));
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    tl_cluster_stop(&cluster);
}

static void binary_headers_work_as_json_does(void)
{
    struct tl_cluster cluster;
    struct counter counter = {0};
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_config *config = NULL;
    tl_cluster_start(&cluster, QUEUES);
    TL_OK(rmq_config_create(RMQ_CONFIG_PRODUCER, &config, &err));
    TL_OK(rmq_config_set(config, "producerGroup", cluster.group, &err));
    TL_OK(rmq_config_set(config, "namesrvAddr", cluster.namesrv, &err));
    TL_OK(rmq_config_set(config, "serializeType", "ROCKETMQ", &err));
    TL_OK(rmq_producer_create_from_config(config, &producer, &err));
    rmq_config_destroy(config);
    rmq_message *message = tl_message(cluster.topic, "binary", 6);
    TL_OK(rmq_producer_send(producer, message, 0, NULL, &err));
    TL_OK(rmq_producer_send_async(producer, message, count_send, &counter, &err));
    TL_OK(rmq_producer_shutdown(producer, 0, &err));
    TL_EQUAL(atomic_load(&counter.ok), 1);
    TL_EQUAL(stored(&cluster), 2);
    rmq_producer_destroy(producer);
    rmq_message_destroy(message);
    tl_cluster_stop(&cluster);
}

static void a_configuration_as_text_takes_an_event_queue_too(void)
{
    struct tl_cluster cluster;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_config *config = NULL;
    rmq_events *events = NULL;
    rmq_event *event = NULL;
    tl_cluster_start(&cluster, QUEUES);
    TL_OK(rmq_events_create(&events, &err));
    TL_OK(rmq_config_create(RMQ_CONFIG_PRODUCER, &config, &err));
    TL_OK(rmq_config_set(config, "producerGroup", cluster.group, &err));
    TL_OK(rmq_config_set(config, "namesrvAddr", cluster.namesrv, &err));
    TL_OK(rmq_config_set_events(config, events, &err));
    TL_OK(rmq_producer_create_from_config(config, &producer, &err));
    rmq_config_destroy(config);
    rmq_message *message = tl_message(cluster.topic, "event", 5);
    TL_OK(rmq_producer_send_event(producer, message, 17, &err));
    TL_EQUAL(rmq_events_take(events, &event, 1, WAIT_MS), 1);
    TL_EQUAL(rmq_event_get_type(event), RMQ_EVENT_SENT);
    TL_EQUAL(rmq_event_token(event), 17);
    TL_CHECK(rmq_event_send_result(event) != NULL);
    rmq_event_destroy(event);
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    rmq_events_destroy(events);
    tl_cluster_stop(&cluster);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        TL_CASE(a_blocking_send_tells_where_the_message_is),
        TL_CASE(every_asynchronous_send_is_completed_once),
        TL_CASE(a_callback_may_send_while_the_window_is_one),
        TL_CASE(a_full_window_is_refused_when_asked_not_to_wait),
        TL_CASE(events_complete_with_their_tokens),
        TL_CASE(one_way_sends_arrive),
        TL_CASE(the_queue_can_be_chosen),
        TL_CASE(a_batch_is_one_request_with_an_id_for_each_message),
        TL_CASE(a_time_out_may_be_of_any_size),
        TL_CASE(a_body_over_the_broker_s_limit_is_refused_with_its_words),
        TL_CASE(what_cannot_be_sent_is_refused_with_the_numbers),
        TL_CASE(a_topic_that_does_not_exist_is_made_by_the_first_send),
        TL_CASE(binary_headers_work_as_json_does),
        TL_CASE(a_configuration_as_text_takes_an_event_queue_too),
    };
    return tl_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}

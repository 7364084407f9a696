/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq demo`: name server, broker, producer and push consumer in this one process, with a story of
 * what happens. It is what `make demo` shows, and fails when a message does not come. The listener
 * runs on the consumer's workers.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

#include "tools/tool.h"

#define MESSAGES 10
#define WAIT_S   10
#define TOPIC    "Greetings"

struct demo {
    rmq_broker *broker;
    rmq_producer *producer;
    rmq_consumer *consumer;
    int64_t begin_us;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int received;            /* guarded by lock: different messages */
    bool seen[MESSAGES + 1]; /* guarded by lock */
};

static double ms_since(int64_t begin_us)
{
    return (double)(tool_now_us() - begin_us) / 1000;
}

static rmq_consume_result greet(const rmq_message_view *const *messages, size_t count,
                                rmq_consume_context *context, void *user)
{
    struct demo *d = user;
    (void)context;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *body = rmq_message_view_body(messages[i], &size);
        int number = 0;
        printf("   consumer got   \"%.*s\"   (queue %d, offset %lld, tag %s)\n", (int)size, body,
               rmq_message_view_queue_id(messages[i]),
               (long long)rmq_message_view_queue_offset(messages[i]),
               rmq_message_view_tag(messages[i]));
        if (sscanf(rmq_message_view_keys(messages[i]), "key-%d", &number) == 1 && number >= 1 &&
            number <= MESSAGES && !d->seen[number]) {
            d->seen[number] = true;
            d->received++;
        }
    }
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
    return RMQ_CONSUME_SUCCESS;
}

static rmq_status start_servers(struct demo *d, rmq_error **err)
{
    int64_t begin = tool_now_us();
    rmq_status st = rmq_broker_start(NULL, &d->broker, err);
    if (st != RMQ_OK) {
        return st;
    }
    printf("1. A name server and a broker were started inside this process in %.0f ms.\n",
           ms_since(begin));
    printf("   name server   %s   knows which broker holds which topic\n",
           rmq_broker_namesrv_addr(d->broker));
    printf("   broker        %s   keeps the messages, in %s\n\n", rmq_broker_addr(d->broker),
           rmq_broker_store_path(d->broker));
    printf("2. The topic \"%s\" gets 4 queues.\n\n", TOPIC);
    return rmq_broker_create_topic(d->broker, TOPIC, 4, err);
}

static rmq_status start_consumer(struct demo *d, rmq_error **err)
{
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "readers";
    options.namesrv_addr = rmq_broker_namesrv_addr(d->broker);
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_thread_nums = 2;
    options.listener = greet;
    options.listener_user = d;
    rmq_status st = rmq_consumer_create(&options, &d->consumer, err);
    if (st == RMQ_OK) {
        st = rmq_consumer_subscribe(d->consumer, TOPIC, "*", err);
    }
    if (st == RMQ_OK) {
        st = rmq_consumer_start(d->consumer, err);
    }
    if (st == RMQ_OK) {
        printf("3. A push consumer of the group \"readers\" listens to it.\n\n");
    }
    return st;
}

/* Keeps the lock while it sends, so that the listener's line comes after the producer's. */
static rmq_status send_greeting(struct demo *d, int number, rmq_error **err)
{
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    char body[64];
    char key[32];
    snprintf(body, sizeof body, "hello number %d", number);
    snprintf(key, sizeof key, "key-%d", number);
    rmq_status st = rmq_message_create(TOPIC, &message, err);
    if (st == RMQ_OK) {
        rmq_message_set_tag(message, number % 2 == 0 ? "even" : "odd");
        rmq_message_add_key(message, key);
        rmq_message_copy_body(message, body, strlen(body));
    }
    pthread_mutex_lock(&d->lock);
    if (st == RMQ_OK) {
        st = rmq_producer_send(d->producer, message, 0, &result, err);
    }
    if (st == RMQ_OK) {
        printf("   producer sent  \"%s\"   (%s, queue %d)\n", body,
               rmq_send_result_status_name(result), rmq_send_result_queue_id(result));
    }
    pthread_mutex_unlock(&d->lock);
    rmq_send_result_destroy(result);
    rmq_message_destroy(message);
    return st;
}

static rmq_status send_all(struct demo *d, rmq_error **err)
{
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "greeters";
    options.namesrv_addr = rmq_broker_namesrv_addr(d->broker);
    rmq_status st = rmq_producer_create(&options, &d->producer, err);
    printf("4. A producer sends %d messages; the consumer gets each as soon as it is stored.\n",
           MESSAGES);
    for (int i = 1; st == RMQ_OK && i <= MESSAGES; i++) {
        st = send_greeting(d, i, err);
    }
    return st;
}

static int wait_for_all(struct demo *d)
{
    struct timespec end;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    pthread_mutex_lock(&d->lock);
    while (d->received < MESSAGES && rc == 0) {
        rc = pthread_cond_timedwait(&d->wake, &d->lock, &end);
    }
    int received = d->received;
    pthread_mutex_unlock(&d->lock);
    return received;
}

static void stop_all(struct demo *d)
{
    rmq_consumer_destroy(d->consumer);
    rmq_producer_destroy(d->producer);
    rmq_broker_stop(d->broker);
}

static int finish(struct demo *d)
{
    int received = wait_for_all(d);
    int64_t begin = tool_now_us();
    stop_all(d);
    if (received < MESSAGES) {
        printf("\nOnly %d of %d messages came within %d s. This should not happen.\n", received,
               MESSAGES, WAIT_S);
        return TOOL_FAILED;
    }
    printf("\n5. All %d messages went through; everything was shut down in %.0f ms. The whole took "
           "%.0f ms.\n",
           MESSAGES, ms_since(begin), ms_since(d->begin_us));
    printf("\nNext, in three terminals:\n"
           "    build/rmq broker                                       a broker that stays\n"
           "    build/rmq consume -t Greetings -g readers --from first   prints what comes\n"
           "    build/rmq produce -t Greetings 'my first message'\n"
           "or read examples/producer.c and examples/push_consumer.c.\n");
    return TOOL_DONE;
}

int tool_demo(int argc, char **argv)
{
    struct demo d = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    const struct tool_usage usage = {
        .synopsis = "demo",
        .text = "Shows messages going through: name server, broker, producer and consumer "
                "inside this one process.",
        .exits = "0 every message came, 1 not.",
    };
    int rc = tool_parse(&usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    d.begin_us = tool_now_us();
    setvbuf(stdout, NULL, _IOLBF, 0);
    rmq_status st = start_servers(&d, &err);
    if (st == RMQ_OK) {
        st = start_consumer(&d, &err);
    }
    if (st == RMQ_OK) {
        st = send_all(&d, &err);
    }
    if (st != RMQ_OK) {
        stop_all(&d);
        return tool_fail("demo", st, err);
    }
    return finish(&d);
}

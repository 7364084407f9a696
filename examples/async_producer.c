/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends a thousand messages without waiting for each: a callback tells how every one of them went.
 *     NAMESRV_ADDR=127.0.0.1:9876 async_producer [TOPIC]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rmq/rmq.h>

#define MESSAGES 1000

struct outcome {
    atomic_int stored;
    atomic_int failed;
};

/* Runs on the library's callback thread, once for every send that was accepted. */
static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    struct outcome *outcome = user;
    if (result != NULL) {
        atomic_fetch_add(&outcome->stored, 1);
    } else {
        /* Without an answer nobody knows: sending again may make a second one. */
        fprintf(stderr, "%s: %s\n", rmq_error_maybe_stored(err) ? "perhaps stored" : "not stored",
                rmq_error_message(err));
        atomic_fetch_add(&outcome->failed, 1);
    }
}

static rmq_status send_one(rmq_producer *producer, const char *topic, int number,
                           struct outcome *outcome, rmq_error **err)
{
    rmq_message *message = NULL;
    char body[64];
    snprintf(body, sizeof body, "measurement %d", number);
    rmq_status st = rmq_message_create(topic, &message, err);
    if (st == RMQ_OK) {
        rmq_message_copy_body(message, body, strlen(body));
        /* Waits only when the window of sends on their way (backPressureForAsyncSendNum) is
         * full. */
        st = rmq_producer_send_async(producer, message, on_sent, outcome, err);
    }
    rmq_message_destroy(message); /* the send keeps what it needs */
    return st;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    struct outcome outcome = {0};
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;

    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "example-producers";
    /* One deadline for all attempts. A broker that has just started may take seconds for its first
     * messages. */
    options.send_msg_timeout_ms = 10000;
    rmq_status st = rmq_producer_create(&options, &producer, &err);
    for (int i = 1; i <= MESSAGES && st == RMQ_OK; i++) {
        st = send_one(producer, topic, i, &outcome, &err);
    }
    if (st == RMQ_OK) {
        st = rmq_producer_shutdown(producer, 10000, &err); /* waits for the sends on their way */
    }
    if (st != RMQ_OK) {
        fprintf(stderr, "%s\n", rmq_error_message(err));
    }
    rmq_error_destroy(err);
    rmq_producer_destroy(producer);
    printf("%d stored, %d failed\n", atomic_load(&outcome.stored), atomic_load(&outcome.failed));
    return st == RMQ_OK && atomic_load(&outcome.stored) == MESSAGES ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Sends a hundred messages without waiting; each completion is a callback on the library's callback thread. */
#include <stdatomic.h>
#include <stdio.h>

#include <rmq/rmq.h>

enum { COUNT = 100 };

static atomic_int stored;
static atomic_int failed;

static void on_sent(const rmq_send_result *result, const rmq_error *err, void *user)
{
    (void)user;
    if (result) {
        atomic_fetch_add(&stored, 1);
    } else {
        fprintf(stderr, "send: %s\n", rmq_error_message(err));
        atomic_fetch_add(&failed, 1);
    }
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "Greetings";
    rmq_error *err = NULL;
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "example-async-producer";

    rmq_producer *producer = NULL;
    if (rmq_producer_create(&options, &producer, &err) != RMQ_OK) {
        fprintf(stderr, "create: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
        return 1;
    }
    rmq_message *message = NULL;
    rmq_status st = rmq_message_create(topic, &message, &err);
    for (int i = 0; st == RMQ_OK && i < COUNT; i++) {
        char body[64];
        int n = snprintf(body, sizeof body, "number %d", i);
        st = rmq_message_copy_body(message, body, (size_t)n);
        if (st == RMQ_OK) {
            /* The message may be changed or destroyed as soon as the call returns. */
            st = rmq_producer_send_async(producer, message, on_sent, NULL, &err);
        }
    }
    if (st != RMQ_OK) {
        fprintf(stderr, "%s: %s\n", rmq_status_name(st), rmq_error_message(err));
        rmq_error_destroy(err);
    }
    rmq_message_destroy(message);

    /* Waits for what is in flight: after it, every accepted send has had its callback. */
    rmq_producer_shutdown(producer, 10000, NULL);
    rmq_producer_destroy(producer);
    printf("stored %d, failed %d\n", atomic_load(&stored), atomic_load(&failed));
    return st == RMQ_OK && atomic_load(&stored) == COUNT ? 0 : 1;
}

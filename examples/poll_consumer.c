/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The same in a program's own event loop: one descriptor to wait on, no callback from another thread. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <rmq/rmq.h>

/* Takes everything that is there; returns the number of messages. */
static int drain(rmq_consumer *consumer)
{
    int seen = 0;
    rmq_batch *batch = NULL;
    while (rmq_consumer_poll(consumer, &batch, 0, NULL) == RMQ_OK) {
        for (size_t i = 0; i < rmq_batch_count(batch); i++) {
            const rmq_message_view *view = rmq_batch_at(batch, i);
            size_t n = 0;
            const char *body = rmq_message_view_body(view, &n);
            printf("%s body=%.*s\n", rmq_message_view_id(view), (int)n, body);
            seen++;
        }
        rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL);
        rmq_batch_destroy(batch);
    }
    return seen;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "Greetings";
    int wanted = argc > 2 ? atoi(argv[2]) : 10;
    rmq_consumer_options options;
    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "example-poll-consumer";
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_message_batch_max_size = 32;

    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    if (rmq_consumer_create(&options, &consumer, &err) != RMQ_OK ||
        rmq_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_consumer_start(consumer, &err) != RMQ_OK) {
        fprintf(stderr, "start: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
        rmq_consumer_destroy(consumer);
        return 1;
    }
    struct pollfd waiting = {.fd = rmq_consumer_fd(consumer), .events = POLLIN};
    for (int seen = 0; seen < wanted;) {
        if (poll(&waiting, 1, -1) > 0) {
            seen += drain(consumer);
        }
    }
    rmq_consumer_shutdown(consumer, 0, NULL);
    rmq_consumer_destroy(consumer);
    return 0;
}

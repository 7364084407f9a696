/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Receives messages in an event loop of your own: the consumer has a descriptor that is readable
 * when there is something to take, and no thread of the library calls you. Here the loop is
 * poll(2); any other (libevent, libuv, epoll) works the same.
 *     NAMESRV_ADDR=127.0.0.1:9876 poll_consumer [TOPIC [COUNT]]
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <rmq/rmq.h>

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

/* Takes what is there now and returns how many messages it was. */
static int take(rmq_consumer *consumer)
{
    rmq_batch *batch = NULL;
    int taken = 0;
    while (rmq_consumer_poll(consumer, &batch, 0, NULL) == RMQ_OK) {
        for (size_t i = 0; i < rmq_batch_count(batch); i++) {
            size_t size = 0;
            const rmq_message_view *message = rmq_batch_at(batch, i);
            const char *body = rmq_message_view_body(message, &size);
            printf("queue %d: %.*s\n", rmq_message_view_queue_id(message), (int)size, body);
            taken++;
        }
        rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL);
        rmq_batch_destroy(batch);
    }
    return taken;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    int wanted = argc > 2 ? atoi(argv[2]) : 10;
    int received = 0;
    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;

    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "example-poll";
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_message_batch_max_size = 32; /* a poll gives up to so many, all of one queue */
    if (rmq_consumer_create(&options, &consumer, &err) != RMQ_OK) {
        return fail("consumer", err);
    }
    if (rmq_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_consumer_start(consumer, &err) != RMQ_OK) {
        rmq_consumer_destroy(consumer);
        return fail("start", err);
    }
    while (received < wanted) {
        struct pollfd ready = {.fd = rmq_consumer_fd(consumer), .events = POLLIN};
        if (poll(&ready, 1, -1) > 0) {
            received += take(consumer);
        }
    }
    rmq_consumer_destroy(consumer); /* shuts down first: commits and leaves the group */
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Receives messages in the order of their queues: the listener gets one message of a queue after
 * the other, while other queues go on beside it on other workers. What belongs together must be
 * sent to one queue (rmq_producer_send_by_key).
 *     NAMESRV_ADDR=127.0.0.1:9876 ordered_consumer [TOPIC [COUNT]]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rmq/rmq.h>

static atomic_int received;

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

/* A message that cannot be consumed now is given again after a pause, and those behind it wait. */
static rmq_consume_result on_messages(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context, void *user)
{
    (void)context;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *body = rmq_message_view_body(messages[i], &size);
        if (size == 0) {
            return RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT;
        }
        printf("queue %d offset %lld: %.*s\n", (int)rmq_message_view_queue_id(messages[i]),
               (long long)rmq_message_view_queue_offset(messages[i]), (int)size, body);
    }
    atomic_fetch_add(&received, (int)count);
    return RMQ_CONSUME_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    int wanted = argc > 2 ? atoi(argv[2]) : 10;
    rmq_error *err = NULL;
    rmq_consumer *consumer = NULL;
    rmq_consumer_options options;

    rmq_consumer_options_init(&options, sizeof options);
    options.consumer_group = "example-ordered";
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.consume_orderly = true;
    options.consume_thread_nums = 4;
    /* then a message goes to the dead letters, and its queue goes on */
    options.max_reconsume_times = 16;
    options.listener = on_messages;
    if (rmq_consumer_create(&options, &consumer, &err) != RMQ_OK) {
        return fail("consumer", err);
    }
    if (rmq_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_consumer_start(consumer, &err) != RMQ_OK) {
        rmq_consumer_destroy(consumer);
        return fail("start", err);
    }
    while (atomic_load(&received) < wanted) {
        usleep(10000);
    }
    rmq_consumer_destroy(consumer); /* waits for the listener, commits, gives the locks back */
    return 0;
}

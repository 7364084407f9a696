/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Takes batches at its own pace: the library fetches ahead, poll hands out, and offsets are
 * committed when the work of several batches is done.
 *     NAMESRV_ADDR=127.0.0.1:9876 lite_pull_consumer [TOPIC [COUNT]]
 */
#include <stdio.h>
#include <stdlib.h>

#include <rmq/rmq.h>

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

/* Works on a batch and returns how many messages it had. */
static int work_on(const rmq_batch *batch)
{
    for (size_t i = 0; i < rmq_batch_count(batch); i++) {
        size_t size = 0;
        const rmq_message_view *message = rmq_batch_at(batch, i);
        const char *body = rmq_message_view_body(message, &size);
        printf("queue %d: %.*s\n", rmq_message_view_queue_id(message), (int)size, body);
    }
    return (int)rmq_batch_count(batch);
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    int wanted = argc > 2 ? atoi(argv[2]) : 10;
    int received = 0;
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    rmq_lite_pull_consumer *consumer = NULL;
    rmq_lite_pull_consumer_options options;

    rmq_lite_pull_consumer_options_init(&options, sizeof options);
    options.consumer_group = "example-lite-pull";
    options.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    options.auto_commit = false; /* commit_sync below says when */
    if (rmq_lite_pull_consumer_create(&options, &consumer, &err) != RMQ_OK) {
        return fail("consumer", err);
    }
    if (rmq_lite_pull_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_lite_pull_consumer_start(consumer, &err) != RMQ_OK) {
        rmq_lite_pull_consumer_destroy(consumer);
        return fail("start", err);
    }
    while (received < wanted &&
           rmq_lite_pull_consumer_poll(consumer, &batch, 10000, &err) == RMQ_OK) {
        received += work_on(batch);
        rmq_batch_destroy(batch);
    }
    /* All that was polled is done: a restart goes on behind it. */
    if (err || rmq_lite_pull_consumer_commit_sync(consumer, NULL, 0, &err) != RMQ_OK) {
        rmq_lite_pull_consumer_destroy(consumer);
        return fail("receive", err);
    }
    rmq_lite_pull_consumer_destroy(consumer);
    return received >= wanted ? 0 : 1;
}

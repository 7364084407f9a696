/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Answers requests: the reply to a message is its body behind "re:". Ends when it has answered
 * COUNT.
 *     NAMESRV_ADDR=127.0.0.1:9876 replier [TOPIC [COUNT]]
 *     NAMESRV_ADDR=127.0.0.1:9876 rmq request -t TOPIC 'a question'
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/rmq.h>

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

/* A message that is no request is only noted. */
static int answer(rmq_producer *producer, const rmq_message_view *request)
{
    rmq_error *err = NULL;
    size_t size = 0;
    const void *body = rmq_message_view_body(request, &size);
    char *reply = malloc(size + 3);
    if (reply == NULL) {
        return 0;
    }
    memcpy(reply, "re:", 3);
    memcpy(reply + 3, body, size);
    rmq_status st = rmq_producer_reply(producer, request, reply, size + 3, 0, &err);
    free(reply);
    if (st != RMQ_OK) {
        (void)fail("reply", err);
    }
    return st == RMQ_OK;
}

static int answer_all(rmq_consumer *consumer, rmq_producer *producer, int count)
{
    for (int answered = 0; answered < count;) {
        rmq_error *err = NULL;
        rmq_batch *batch = NULL;
        if (rmq_consumer_poll(consumer, &batch, -1, &err) != RMQ_OK) {
            return fail("poll", err);
        }
        for (size_t i = 0; i < rmq_batch_count(batch); i++) {
            answered += answer(producer, rmq_batch_at(batch, i));
        }
        (void)rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL);
        rmq_batch_destroy(batch);
    }
    printf("answered %d requests\n", count);
    return 0;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    int count = argc > 2 ? atoi(argv[2]) : 10;
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_consumer *consumer = NULL;
    rmq_producer_options sending;
    rmq_consumer_options receiving;
    int rc = 1;

    rmq_producer_options_init(&sending, sizeof sending);
    sending.producer_group = "example-repliers";
    rmq_consumer_options_init(&receiving, sizeof receiving);
    receiving.consumer_group = "example-repliers";
    receiving.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;
    if (rmq_producer_create(&sending, &producer, &err) != RMQ_OK ||
        rmq_consumer_create(&receiving, &consumer, &err) != RMQ_OK ||
        rmq_consumer_subscribe(consumer, topic, "*", &err) != RMQ_OK ||
        rmq_consumer_start(consumer, &err) != RMQ_OK) {
        (void)fail("replier", err);
    } else {
        rc = answer_all(consumer, producer, count);
    }
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* A test against a broker inside the process: no server to install, nothing left behind. Exit status 0 when the test passes. */
#include <stdio.h>
#include <string.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "FAIL %s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

static int send_one(rmq_producer *producer, const char *body)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    int bad = rmq_message_create("Orders", &message, &err) != RMQ_OK ||
              rmq_message_copy_body(message, body, strlen(body)) != RMQ_OK ||
              rmq_producer_send(producer, message, 0, NULL, &err) != RMQ_OK;
    rmq_message_destroy(message);
    return bad ? fail("send", err) : 0;
}

/* What is tested: the message comes back as it was sent. */
static int expect_one(rmq_consumer *consumer, const char *want)
{
    rmq_error *err = NULL;
    rmq_batch *batch = NULL;
    if (rmq_consumer_poll(consumer, &batch, 10000, &err) != RMQ_OK) {
        return fail("poll", err);
    }
    size_t n = 0;
    const char *body = rmq_message_view_body(rmq_batch_at(batch, 0), &n);
    int same = n == strlen(want) && memcmp(body, want, n) == 0;
    printf("%s: got \"%.*s\"\n", same ? "ok" : "FAIL", (int)n, body);
    rmq_consumer_finish(consumer, batch, RMQ_CONSUME_SUCCESS, NULL);
    rmq_batch_destroy(batch);
    return same ? 0 : 1;
}

int main(void)
{
    rmq_error *err = NULL;
    rmq_broker *broker = NULL;
    if (rmq_broker_start(NULL, &broker, &err) != RMQ_OK) {
        return fail("broker", err);
    }
    rmq_producer_options po;
    rmq_producer_options_init(&po, sizeof po);
    po.producer_group = "test-producer";
    po.namesrv_addr = rmq_broker_namesrv_addr(broker);
    rmq_consumer_options co;
    rmq_consumer_options_init(&co, sizeof co);
    co.consumer_group = "test-consumer";
    co.namesrv_addr = rmq_broker_namesrv_addr(broker);
    co.consume_from_where = RMQ_CONSUME_FROM_FIRST_OFFSET;

    rmq_producer *producer = NULL;
    rmq_consumer *consumer = NULL;
    int bad = rmq_broker_create_topic(broker, "Orders", 1, &err) != RMQ_OK ||
              rmq_producer_create(&po, &producer, &err) != RMQ_OK ||
              rmq_consumer_create(&co, &consumer, &err) != RMQ_OK ||
              rmq_consumer_subscribe(consumer, "Orders", "*", &err) != RMQ_OK ||
              rmq_consumer_start(consumer, &err) != RMQ_OK;
    bad = bad ? fail("set-up", err) : send_one(producer, "order 17") || expect_one(consumer, "order 17");
    rmq_consumer_destroy(consumer);
    rmq_producer_destroy(producer);
    rmq_broker_stop(broker);
    return bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends ten messages, one after the other, each acknowledged by the broker before the next.
 *     NAMESRV_ADDR=127.0.0.1:9876 producer [TOPIC]
 */
#include <stdio.h>
#include <string.h>

#include <rmq/rmq.h>

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

static int send_one(rmq_producer *producer, const char *topic, int number)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_send_result *result = NULL;
    char body[64];
    char key[32];
    snprintf(body, sizeof body, "order number %d", number);
    snprintf(key, sizeof key, "order-%d", number);
    if (rmq_message_create(topic, &message, &err) != RMQ_OK) {
        return fail("message", err);
    }
    rmq_message_set_tag(message, number % 2 == 0 ? "paid" : "open");
    rmq_message_add_key(message, key);
    rmq_message_set_property(message, "region", "EU");
    rmq_message_copy_body(message, body, strlen(body));

    /* 0: the deadline is the producer's option sendMsgTimeout, for all attempts together. */
    rmq_status st = rmq_producer_send(producer, message, 0, &result, &err);
    rmq_message_destroy(message);
    if (st != RMQ_OK) {
        return fail("send", err);
    }
    printf("%s %s queue %d offset %lld\n", rmq_send_result_status_name(result),
           rmq_send_result_msg_id(result), rmq_send_result_queue_id(result),
           (long long)rmq_send_result_queue_offset(result));
    rmq_send_result_destroy(result);
    return 0;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    int rc = 0;

    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "example-producers"; /* the name server comes from NAMESRV_ADDR */
    if (rmq_producer_create(&options, &producer, &err) != RMQ_OK) {
        return fail("producer", err);
    }
    for (int i = 1; i <= 10 && rc == 0; i++) {
        rc = send_one(producer, topic, i);
    }
    rmq_producer_destroy(producer);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Sends ten messages and waits for each. NAMESRV_ADDR names the name servers, e.g. 127.0.0.1:9876. */
#include <stdio.h>
#include <string.h>

#include <rmq/rmq.h>

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "Greetings";
    rmq_error *err = NULL;
    rmq_producer_options options;
    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "example-producer";

    rmq_producer *producer = NULL;
    int failures = 0;
    if (rmq_producer_create(&options, &producer, &err) != RMQ_OK) {
        fprintf(stderr, "create: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
        return 1;
    }
    for (int i = 0; i < 10; i++) {
        char body[64];
        int n = snprintf(body, sizeof body, "Hello RocketMQ %d", i);
        rmq_message *message = NULL;
        rmq_send_result *result = NULL;
        if (rmq_message_create(topic, &message, &err) == RMQ_OK &&
            rmq_message_set_tag(message, "greeting") == RMQ_OK &&
            rmq_message_copy_body(message, body, (size_t)n) == RMQ_OK &&
            rmq_producer_send(producer, message, 0, &result, &err) == RMQ_OK) {
            printf("%s %s queue %d offset %lld\n", rmq_send_result_status_name(result),
                   rmq_send_result_msg_id(result), rmq_send_result_queue_id(result),
                   (long long)rmq_send_result_queue_offset(result));
        } else {
            fprintf(stderr, "send: %s\n", rmq_error_message(err));
            rmq_error_destroy(err);
            err = NULL;
            failures++;
        }
        rmq_send_result_destroy(result);
        rmq_message_destroy(message);
    }
    rmq_producer_shutdown(producer, 0, NULL);
    rmq_producer_destroy(producer);
    return failures ? 1 : 0;
}

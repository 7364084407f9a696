/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A broker inside a test: starts in milliseconds on free ports with a store that is removed
 * afterwards, and misbehaves when told to. The test here is whether a producer gets through when
 * the broker refuses the first attempt.
 */
#include <stdio.h>
#include <string.h>

#include <rmq/broker.h>
#include <rmq/rmq.h>

/* the request code of a send, and below the broker's answer "too busy" */
#define SEND_MESSAGE_V2 310
#define SYSTEM_BUSY     2

static rmq_status send_greeting(const char *namesrv, rmq_error **err)
{
    rmq_producer *producer = NULL;
    rmq_message *message = NULL;
    rmq_producer_options options;

    rmq_producer_options_init(&options, sizeof options);
    options.producer_group = "test";
    options.namesrv_addr = namesrv;
    rmq_status st = rmq_producer_create(&options, &producer, err);
    if (st == RMQ_OK) {
        st = rmq_message_create("Greetings", &message, err);
    }
    if (st == RMQ_OK) {
        rmq_message_copy_body(message, "hello", strlen("hello"));
        st = rmq_producer_send(producer, message, 3000, NULL, err);
    }
    rmq_message_destroy(message);
    rmq_producer_destroy(producer);
    return st;
}

int main(void)
{
    rmq_broker *broker = NULL;
    rmq_error *err = NULL;

    /* NULL: all defaults, a name server of its own included. */
    rmq_status st = rmq_broker_start(NULL, &broker, &err);
    if (st == RMQ_OK) {
        st = rmq_broker_create_topic(broker, "Greetings", 4, &err);
    }
    if (st == RMQ_OK) {
        st = rmq_broker_fault_answer(broker, SEND_MESSAGE_V2, 1, SYSTEM_BUSY, "not now", &err);
    }
    if (st == RMQ_OK) {
        printf("broker on %s, name server on %s\n", rmq_broker_addr(broker),
               rmq_broker_namesrv_addr(broker));
        st = send_greeting(rmq_broker_namesrv_addr(broker), &err);
    }
    if (st == RMQ_OK) {
        printf("the second attempt was stored\n");
    } else {
        fprintf(stderr, "%s\n", rmq_error_message(err));
    }
    rmq_error_destroy(err);
    rmq_broker_stop(broker);
    return st == RMQ_OK ? 0 : 1;
}

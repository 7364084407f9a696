/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Sends messages that consumers see only when a row has been written to the "database" of this
 * program, an array. Had the program been killed in between, the broker would ask the next one that
 * has the same producer group, which looks into the database.
 *     NAMESRV_ADDR=127.0.0.1:9876 transaction_producer [TOPIC]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmq/rmq.h>

#define ORDERS 5

/* the database: filled by the sending thread, read by the callback thread when a broker asks */
static bool paid[ORDERS + 1];

static int fail(const char *what, rmq_error *err)
{
    fprintf(stderr, "%s: %s\n", what, rmq_error_message(err));
    rmq_error_destroy(err);
    return 1;
}

/* The local part: an order with an even number cannot be paid. */
static rmq_transaction_state pay(const rmq_message *message, const char *transaction_id, void *user)
{
    int order = atoi(rmq_message_property(message, "order"));
    (void)user;
    if (order % 2 == 0) {
        printf("order %d rolled back (%s)\n", order, transaction_id);
        return RMQ_TRANSACTION_ROLLBACK;
    }
    paid[order] = true;
    printf("order %d committed (%s)\n", order, transaction_id);
    return RMQ_TRANSACTION_COMMIT;
}

/* Asked about a transaction that nobody ended: what does the database say? */
static rmq_transaction_state look_up(const rmq_message_view *message, void *user)
{
    int order = atoi(rmq_message_view_property(message, "order"));
    (void)user;
    return order > 0 && order <= ORDERS && paid[order] ? RMQ_TRANSACTION_COMMIT
                                                       : RMQ_TRANSACTION_ROLLBACK;
}

static int send_order(rmq_producer *producer, const char *topic, int order)
{
    rmq_error *err = NULL;
    rmq_message *message = NULL;
    rmq_transaction_state state;
    char number[16];
    snprintf(number, sizeof number, "%d", order);
    if (rmq_message_create(topic, &message, &err) != RMQ_OK) {
        return fail("message", err);
    }
    rmq_message_set_property(message, "order", number);
    rmq_message_set_tag(message, "order");
    rmq_message_copy_body(message, number, strlen(number));
    rmq_status st =
        rmq_producer_send_in_transaction(producer, message, pay, NULL, 0, &state, NULL, &err);
    rmq_message_destroy(message);
    if (st != RMQ_OK && state == RMQ_TRANSACTION_COMMIT) {
        fprintf(stderr, "order %d is paid, the broker will ask: %s\n", order,
                rmq_error_message(err));
        rmq_error_destroy(err);
        return 0;
    }
    return st == RMQ_OK ? 0 : fail("send in transaction", err);
}

int main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "ExampleTopic";
    rmq_error *err = NULL;
    rmq_producer *producer = NULL;
    rmq_producer_options options;
    int rc = 0;

    rmq_producer_options_init(&options, sizeof options);
    /* the same in all programs that may be asked */
    options.producer_group = "example-transactions";
    options.transaction_check = look_up;
    if (rmq_producer_create(&options, &producer, &err) != RMQ_OK) {
        return fail("producer", err);
    }
    for (int order = 1; order <= ORDERS && rc == 0; order++) {
        rc = send_order(producer, topic, order);
    }
    rmq_producer_destroy(producer);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * What small programs write again and again, in one call: clients whose options are text, and the
 * send of a body without a message of its own. Made of public functions only. Any thread.
 */
#include <rmq/config.h>
#include <rmq/consumer.h>
#include <rmq/message.h>
#include <rmq/producer.h>

#include "base/err.h"

static rmq_status read_options(rmq_config_kind kind, const char *text, rmq_config **out,
                               rmq_error **err)
{
    rmq_status st = rmq_config_create(kind, out, err);
    return st == RMQ_OK ? rmq_config_parse(*out, text, err) : st;
}

rmq_status rmq_producer_open(const char *options, rmq_producer **out, rmq_error **err)
{
    rmq_config *config = NULL;
    rmq_status st = read_options(RMQ_CONFIG_PRODUCER, options, &config, err);
    if (st == RMQ_OK) {
        st = rmq_producer_create_from_config(config, out, err);
    }
    rmq_config_destroy(config);
    return st;
}

static rmq_status create_consumer(const char *options, rmq_listener_fn listener, void *user,
                                  rmq_consumer **out, rmq_error **err)
{
    rmq_config *config = NULL;
    rmq_status st = read_options(RMQ_CONFIG_CONSUMER, options, &config, err);
    if (st == RMQ_OK) {
        st = rmq_consumer_create_from_config(config, listener, user, out, err);
    }
    rmq_config_destroy(config);
    return st;
}

rmq_status rmq_consumer_open(const char *options, const char *topic, const char *expression,
                             rmq_listener_fn listener, void *user, rmq_consumer **out,
                             rmq_error **err)
{
    if (!out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "consumer: out is NULL");
    }
    rmq_consumer *consumer = NULL;
    rmq_status st = create_consumer(options, listener, user, &consumer, err);
    if (st == RMQ_OK) {
        st = rmq_consumer_subscribe(consumer, topic, expression, err);
    }
    if (st == RMQ_OK) {
        st = rmq_consumer_start(consumer, err);
    }
    if (st != RMQ_OK) {
        rmq_consumer_destroy(consumer);
        return st;
    }
    *out = consumer;
    return RMQ_OK;
}

rmq_status rmq_producer_send_body(rmq_producer *producer, const char *topic, const void *body,
                                  size_t size, int64_t timeout_ms, rmq_send_result **result,
                                  rmq_error **err)
{
    rmq_message *message = NULL;
    rmq_status st = rmq_message_create(topic, &message, err);
    if (st == RMQ_OK && (st = rmq_message_borrow_body(message, body, size)) != RMQ_OK) {
        rq_error_set(err, st, "body of a message to %s: %s", topic, rmq_status_text(st));
    }
    if (st == RMQ_OK) {
        st = rmq_producer_send(producer, message, timeout_ms, result, err);
    }
    rmq_message_destroy(message);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Pop consumer (brokers from 5.0 on): the broker gives messages of any queue out for a time; what
 * is not acknowledged by then it gives out again, to whoever asks. There is nothing to share out
 * and no offset to keep, so that any number of processes may pop for one group. Blocking calls,
 * small enough for any foreign-function interface. Any thread may call. Counterparts: PopResult,
 * and popAsync, ackMessageAsync, changeInvisibleTimeAsync of MQClientAPIImpl.
 */
#ifndef RMQ_POP_CONSUMER_H
#define RMQ_POP_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/config.h>
#include <rmq/consumer.h>
#include <rmq/error.h>
#include <rmq/export.h>
#include <rmq/message.h>

typedef struct rmq_pop_consumer rmq_pop_consumer;
typedef struct rmq_pop_result rmq_pop_result;

typedef struct rmq_pop_consumer_options {
    size_t struct_size;
    const char *consumer_group; /* "consumerGroup"; required */
    const char *namesrv_addr;   /* "namesrvAddr"; else $NAMESRV_ADDR */
    const char *instance_name;  /* "instanceName", default "DEFAULT" = made unique */
    const char *client_ip;      /* "clientIP" */
    const char *unit_name;      /* "unitName" */
    /* "consumeFromWhere", CONSUME_FROM_LAST_OFFSET: where a new group begins; no time stamps */
    rmq_consume_from_where consume_from_where;
    int64_t pop_invisible_time_ms; /* "popInvisibleTime", 60000: 1000 … 300000 */
    /* "consumeOrderly", false: nothing of a queue before all that was popped of it is
     * acknowledged */
    bool consume_orderly;
    int64_t poll_name_server_interval_ms; /* "pollNameServerInterval", 30000 */
    /* "maxMessageSize", 16777216: most bytes that one body may expand to */
    int32_t max_message_size;
    const char *serialize_type; /* "serializeType": JSON or ROCKETMQ; default JSON */
    /* "namespace": part of the names of topics and groups, as "ns%topic" at the brokers */
    const char *namespace_name;
    /* "namespaceV2": goes with each request, names stay as they are */
    const char *namespace_v2;
} rmq_pop_consumer_options;

RMQ_BEGIN_DECLS

/* Fills defaults; size is sizeof(rmq_pop_consumer_options) as the program knows it. Since 0.1.0. */
RMQ_API void rmq_pop_consumer_options_init(rmq_pop_consumer_options *options, size_t size);

/* Creates a pop consumer, ready for use; the caller destroys it. from_config: of kind
 * RMQ_CONFIG_POP_CONSUMER. Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_NAMESRV, RMQ_ERR_EXISTS (an
 * instanceName that is in use for other name servers or another namespaceV2), RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_pop_consumer_create(const rmq_pop_consumer_options *options,
                                           rmq_pop_consumer **out, rmq_error **err);
RMQ_API rmq_status rmq_pop_consumer_create_from_config(const rmq_config *config,
                                                       rmq_pop_consumer **out, rmq_error **err);

/* Pops up to max_nums (1 … 32) messages of a topic, from all of its brokers. expression: "*" or
 * NULL for all, or tags as "a || b". While there is nothing a broker holds the call back for up to
 * poll_ms (0 = not at all); of several brokers one after the other is asked. The caller destroys
 * the result. Errors: RMQ_ERR_TIMEOUT when nothing came, RMQ_ERR_NO_ROUTE, RMQ_ERR_BROKER (code and
 * words of the broker), RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Protocol: POP_MESSAGE (200050). Since
 * 0.1.0. */
RMQ_API rmq_status rmq_pop_consumer_pop(rmq_pop_consumer *consumer, const char *topic,
                                        const char *expression, int32_t max_nums, int64_t poll_ms,
                                        rmq_pop_result **out, rmq_error **err);

/* The messages, borrowed until the result is destroyed (rmq_message_view_retain keeps one longer),
 * and each one's handle, by which it is acknowledged: text without line breaks that may be kept and
 * given to another process. NULL beyond. Since 0.1.0. */
RMQ_API size_t rmq_pop_result_count(const rmq_pop_result *result);
RMQ_API const rmq_message_view *rmq_pop_result_at(const rmq_pop_result *result, size_t index);
RMQ_API const char *rmq_pop_result_handle(const rmq_pop_result *result, size_t index);
RMQ_API void rmq_pop_result_destroy(rmq_pop_result *result);

/* Acknowledges a message: it is not given out again. An acknowledgement that comes too late is
 * RMQ_OK as well: the message has been or will be given out once more. timeout_ms 0 = 5000. Errors:
 * RMQ_ERR_INVALID (no handle), RMQ_ERR_BROKER, RMQ_ERR_TIMEOUT, RMQ_ERR_NO_BROKER, RMQ_ERR_NOMEM.
 * Protocol: ACK_MESSAGE (200051). Since 0.1.0. */
RMQ_API rmq_status rmq_pop_consumer_ack(rmq_pop_consumer *consumer, const char *topic,
                                        const char *handle, int64_t timeout_ms, rmq_error **err);

/* The same for several messages of a topic, in one request to each broker; tells the first failure
 * after all were tried. Errors as rmq_pop_consumer_ack. Protocol: BATCH_ACK_MESSAGE (200151). Since
 * 0.1.0. */
RMQ_API rmq_status rmq_pop_consumer_ack_batch(rmq_pop_consumer *consumer, const char *topic,
                                              const char *const *handles, size_t count,
                                              int64_t timeout_ms, rmq_error **err);

/* Makes a message invisible for another time (in ms, 0 or more), counted from now, and gives it a
 * new handle (freed with rmq_string_free); the old one is void then. Errors as
 * rmq_pop_consumer_ack. Protocol: CHANGE_MESSAGE_INVISIBLETIME (200053). Since 0.1.0. */
RMQ_API rmq_status rmq_pop_consumer_change_invisible_time(rmq_pop_consumer *consumer,
                                                          const char *topic, const char *handle,
                                                          int64_t invisible_ms, int64_t timeout_ms,
                                                          char **new_handle, rmq_error **err);

/* Ends pops under way with RMQ_ERR_CLOSED and waits for all calls. May be called twice, from any
 * thread. Since 0.1.0. */
RMQ_API rmq_status rmq_pop_consumer_shutdown(rmq_pop_consumer *consumer, rmq_error **err);

/* Frees the consumer, shutting it down first if that was not done. NULL is accepted. Since
 * 0.1.0. */
RMQ_API void rmq_pop_consumer_destroy(rmq_pop_consumer *consumer);

RMQ_END_DECLS

#endif

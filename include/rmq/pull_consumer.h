/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Pull consumer: the program asks for messages itself, queue by queue and offset by offset, and
 * keeps its own place. Nothing is fetched ahead and nothing is committed but what it says. For most
 * programs the lite pull consumer is the better tool. One handle may be used by any number of
 * threads. Counterpart: DefaultMQPullConsumer.
 */
#ifndef RMQ_PULL_CONSUMER_H
#define RMQ_PULL_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/config.h>
#include <rmq/consumer.h>
#include <rmq/error.h>
#include <rmq/export.h>
#include <rmq/message.h>
#include <rmq/queue.h>

typedef struct rmq_pull_consumer rmq_pull_consumer;
typedef struct rmq_pull_result rmq_pull_result;

typedef enum rmq_pull_status {
    RMQ_PULL_FOUND = 0,      /* there are messages */
    RMQ_PULL_NO_NEW_MSG = 1, /* the offset is the queue's end */
    /* messages, but none that the expression wants: go on at next_begin_offset */
    RMQ_PULL_NO_MATCHED_MSG = 2,
    RMQ_PULL_OFFSET_ILLEGAL = 3 /* the queue does not have the offset: go on at next_begin_offset */
} rmq_pull_status;

/* End of an asynchronous pull, on the callback thread: result (the callee's, to be destroyed) or
 * err (borrowed for the call). */
typedef void (*rmq_pull_fn)(rmq_pull_result *result, const rmq_error *err, void *user);

typedef struct rmq_pull_consumer_options {
    size_t struct_size;
    const char *consumer_group; /* "consumerGroup"; required */
    const char *namesrv_addr;   /* "namesrvAddr"; else $NAMESRV_ADDR */
    const char *instance_name;  /* "instanceName", default "DEFAULT" = made unique */
    const char *client_ip;      /* "clientIP" */
    const char *unit_name;      /* "unitName" */
    /* "allocateMessageQueueStrategy", AVG: shares of registered topics */
    const char *allocate_strategy;
    /* "brokerSuspendMaxTimeMillis", 20000: how long a broker parks a blocking pull */
    int64_t broker_suspend_max_time_ms;
    /* "consumerTimeoutMillisWhenSuspend", 30000: deadline of a blocking pull */
    int64_t consumer_timeout_when_suspend_ms;
    /* "consumerPullTimeoutMillis", 10000: deadline of any other */
    int64_t consumer_pull_timeout_ms;
    int64_t persist_consumer_offset_interval_ms; /* "persistConsumerOffsetInterval", 5000 */
    int64_t poll_name_server_interval_ms;        /* "pollNameServerInterval", 30000 */
    int64_t heartbeat_broker_interval_ms;        /* "heartbeatBrokerInterval", 30000 */
    int64_t rebalance_interval_ms;               /* "rebalanceInterval", 20000 */
    /* "maxMessageSize", 16777216: most bytes that one body may expand to */
    int32_t max_message_size;
    const char *serialize_type;           /* "serializeType": JSON or ROCKETMQ; default JSON */
    rmq_queues_changed_fn queues_changed; /* told of the shares of registered topics; may be NULL */
    void *queues_changed_user;            /* passed to it; lives until shutdown has returned */
    /* "namespace": part of the names of topics and groups, as "ns%topic" at the brokers */
    const char *namespace_name;
    const char *namespace_v2; /* "namespaceV2": goes with each request, names stay as they are */
} rmq_pull_consumer_options;

RMQ_BEGIN_DECLS

/* Fills defaults; size is sizeof(rmq_pull_consumer_options) as the program knows it. Since
 * 0.1.0. */
RMQ_API void rmq_pull_consumer_options_init(rmq_pull_consumer_options *options, size_t size);

/* Creates a pull consumer that is not started yet; the caller destroys it. from_config: of kind
 * RMQ_CONFIG_PULL_CONSUMER. Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_NAMESRV, RMQ_ERR_EXISTS (an
 * instanceName that is in use for other name servers or another namespaceV2), RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_create(const rmq_pull_consumer_options *options,
                                            rmq_pull_consumer **out, rmq_error **err);
RMQ_API rmq_status rmq_pull_consumer_create_from_config(const rmq_config *config,
                                                        rmq_pull_consumer **out, rmq_error **err);

/* Joins the sharing of a topic's queues within the group: queues_changed is told, and
 * queues_in_balance knows the share. Before start or later. Not needed for pulling. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_register_topic(rmq_pull_consumer *consumer, const char *topic,
                                                    rmq_error **err);

/* Starts: heartbeats and the storing of offsets run from here on. Errors: RMQ_ERR_STATE,
 * RMQ_ERR_CLOSED, RMQ_ERR_EXISTS (an instanceName that is in use with this group), RMQ_ERR_NOMEM.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_start(rmq_pull_consumer *consumer, rmq_error **err);

/* The readable queues of a topic; and of a registered topic this consumer's share (empty while it
 * has none). The caller destroys the list. Blocks up to timeout_ms (0 = 5000). Errors:
 * RMQ_ERR_NO_ROUTE, RMQ_ERR_NO_NAMESRV, RMQ_ERR_NOT_FOUND (not registered), RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_fetch_queues(rmq_pull_consumer *consumer, const char *topic,
                                                  int64_t timeout_ms, rmq_queue_list **out,
                                                  rmq_error **err);
RMQ_API rmq_status rmq_pull_consumer_queues_in_balance(rmq_pull_consumer *consumer,
                                                       const char *topic, rmq_queue_list **out,
                                                       rmq_error **err);

/* Pulls up to max_nums messages of a queue from an offset on. expression: "*" or NULL for all, or
 * tags as "a || b". The answer's status tells what was found; the caller destroys the result.
 * timeout_ms 0: the option consumerPullTimeoutMillis. The second waits at the broker while the
 * queue has nothing new, up to brokerSuspendMaxTimeMillis. Errors: RMQ_ERR_NO_BROKER,
 * RMQ_ERR_NO_ROUTE, RMQ_ERR_TIMEOUT, RMQ_ERR_BROKER (code and words of the broker), RMQ_ERR_CLOSED,
 * RMQ_ERR_NOMEM. Protocol: PULL_MESSAGE (11). Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_pull(rmq_pull_consumer *consumer, const char *topic,
                                          const char *broker_name, int32_t queue_id,
                                          const char *expression, int64_t offset, int32_t max_nums,
                                          int64_t timeout_ms, rmq_pull_result **out,
                                          rmq_error **err);
RMQ_API rmq_status rmq_pull_consumer_pull_block_if_not_found(
    rmq_pull_consumer *consumer, const char *topic, const char *broker_name, int32_t queue_id,
    const char *expression, int64_t offset, int32_t max_nums, rmq_pull_result **out,
    rmq_error **err);

/* The same without waiting: on RMQ_OK fn is called once, also when the consumer is shut down
 * (RMQ_ERR_CLOSED). Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_pull_async(rmq_pull_consumer *consumer, const char *topic,
                                                const char *broker_name, int32_t queue_id,
                                                const char *expression, int64_t offset,
                                                int32_t max_nums, bool block_if_not_found,
                                                int64_t timeout_ms, rmq_pull_fn fn, void *user,
                                                rmq_error **err);

/* Both with an expression of a type, waiting at the broker or not. SQL92 is a condition on
 * properties that the broker evaluates; one that does not know SQL92 (enablePropertyFilter), or not
 * this expression, answers RMQ_ERR_BROKER; one of Apache's 5.3.3 takes an expression that it cannot
 * read for none and gives every message. Counterpart: pull with a MessageSelector. Protocol:
 * PULL_MESSAGE (11). Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_pull_selector(rmq_pull_consumer *consumer, const char *topic,
                                                   const char *broker_name, int32_t queue_id,
                                                   rmq_expression_type type, const char *expression,
                                                   int64_t offset, int32_t max_nums,
                                                   bool block_if_not_found, int64_t timeout_ms,
                                                   rmq_pull_result **out, rmq_error **err);
RMQ_API rmq_status rmq_pull_consumer_pull_selector_async(
    rmq_pull_consumer *consumer, const char *topic, const char *broker_name, int32_t queue_id,
    rmq_expression_type type, const char *expression, int64_t offset, int32_t max_nums,
    bool block_if_not_found, int64_t timeout_ms, rmq_pull_fn fn, void *user, rmq_error **err);

/* What a pull gave. Offsets are the queue's; messages are borrowed until the result is destroyed
 * (rmq_message_view_retain keeps one longer). Since 0.1.0. */
RMQ_API rmq_pull_status rmq_pull_result_status(const rmq_pull_result *result);
RMQ_API int64_t rmq_pull_result_next_begin_offset(const rmq_pull_result *result);
RMQ_API int64_t rmq_pull_result_min_offset(const rmq_pull_result *result);
RMQ_API int64_t rmq_pull_result_max_offset(const rmq_pull_result *result);
RMQ_API size_t rmq_pull_result_count(const rmq_pull_result *result);
RMQ_API const rmq_message_view *rmq_pull_result_at(const rmq_pull_result *result, size_t index);
RMQ_API void rmq_pull_result_destroy(rmq_pull_result *result);

/* Remembers the group's offset of a queue; it is stored at the broker every
 * persistConsumerOffsetInterval, by persist, and at shutdown. Errors: RMQ_ERR_INVALID,
 * RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_update_offset(rmq_pull_consumer *consumer, const char *topic,
                                                   const char *broker_name, int32_t queue_id,
                                                   int64_t offset, rmq_error **err);

/* Stores at the brokers what was remembered and is not stored yet, within timeout_ms (0 = 5000);
 * tells the first failure after all were tried. Errors: RMQ_ERR_TIMEOUT, RMQ_ERR_BROKER,
 * RMQ_ERR_NO_BROKER, RMQ_ERR_FORKED, RMQ_ERR_NOMEM. Protocol: UPDATE_CONSUMER_OFFSET (15). Since
 * 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_persist_offsets(rmq_pull_consumer *consumer,
                                                     int64_t timeout_ms, rmq_error **err);

/* The group's offset: what was remembered here, else (or with from_store at once) what the broker
 * has. RMQ_ERR_NOT_FOUND when there is none: not knowing is not zero; but a broker before 5.0 says 0
 * for "none" of a queue that begins there. Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_fetch_offset(rmq_pull_consumer *consumer, const char *topic,
                                                  const char *broker_name, int32_t queue_id,
                                                  bool from_store, int64_t timeout_ms, int64_t *out,
                                                  rmq_error **err);

/* Asks the master: first offset of a queue, the offset behind its last message, the first offset at
 * or after a time (ms since 1970). timeout_ms 0 = 5000. Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_ROUTE,
 * RMQ_ERR_NO_BROKER, RMQ_ERR_TIMEOUT, RMQ_ERR_BROKER, RMQ_ERR_NOMEM. Protocol: GET_MIN_OFFSET (31),
 * GET_MAX_OFFSET (30), SEARCH_OFFSET_BY_TIMESTAMP (29). Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_min_offset(rmq_pull_consumer *consumer, const char *topic,
                                                const char *broker_name, int32_t queue_id,
                                                int64_t timeout_ms, int64_t *out, rmq_error **err);
RMQ_API rmq_status rmq_pull_consumer_max_offset(rmq_pull_consumer *consumer, const char *topic,
                                                const char *broker_name, int32_t queue_id,
                                                int64_t timeout_ms, int64_t *out, rmq_error **err);
RMQ_API rmq_status rmq_pull_consumer_search_offset(rmq_pull_consumer *consumer, const char *topic,
                                                   const char *broker_name, int32_t queue_id,
                                                   int64_t timestamp_ms, int64_t timeout_ms,
                                                   int64_t *out, rmq_error **err);

/* Ends pulls under way with RMQ_ERR_CLOSED, waits for running callbacks, stores offsets within
 * timeout_ms (0 = 10000) and leaves the group. May be called twice, from any thread, but not from a
 * callback of its own. Since 0.1.0. */
RMQ_API rmq_status rmq_pull_consumer_shutdown(rmq_pull_consumer *consumer, int64_t timeout_ms,
                                              rmq_error **err);

/* Frees the consumer, shutting it down first if that was not done. Not from a callback. NULL is
 * accepted. Since 0.1.0. */
RMQ_API void rmq_pull_consumer_destroy(rmq_pull_consumer *consumer);

RMQ_END_DECLS

#endif

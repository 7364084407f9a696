/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Lite pull consumer: the library fetches ahead within a limit, the program takes batches with poll
 * and decides how far it is. Queues are shared out in the group (subscribe) or chosen by the
 * program (assign). Any thread may call. Counterpart: DefaultLitePullConsumer.
 *
 * Offsets. With autoCommit (the default) an offset moves past a message when its batch has been
 * destroyed, every autoCommitIntervalMillis, when a queue leaves and at shutdown; so a program that
 * dies gets again what it had in hands. commit_sync and commit_async store at once what poll has
 * given out. In both cases only for queues that this consumer still owns: what was fetched and not
 * polled is never skipped.
 */
#ifndef RMQ_LITE_PULL_CONSUMER_H
#define RMQ_LITE_PULL_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/config.h>
#include <rmq/consumer.h>
#include <rmq/error.h>
#include <rmq/events.h>
#include <rmq/export.h>
#include <rmq/message.h>
#include <rmq/queue.h>

typedef struct rmq_lite_pull_consumer rmq_lite_pull_consumer;

/* End of an asynchronous commit, on the callback thread; err (borrowed for the call) is NULL when
 * all went well. */
typedef void (*rmq_commit_fn)(const rmq_error *err, void *user);

typedef struct rmq_lite_pull_consumer_options {
    size_t struct_size;
    const char *consumer_group; /* "consumerGroup"; required */
    const char *namesrv_addr;   /* "namesrvAddr"; else $NAMESRV_ADDR */
    const char *instance_name;  /* "instanceName", default "DEFAULT" = made unique */
    const char *client_ip;      /* "clientIP" */
    const char *unit_name;      /* "unitName" */
    /* "allocateMessageQueueStrategy": AVG, AVG_BY_CIRCLE, CONSISTENT_HASH; default AVG */
    const char *allocate_strategy;
    rmq_consume_from_where consume_from_where; /* "consumeFromWhere", CONSUME_FROM_LAST_OFFSET */
    /* "consumeTimestamp", ms since 1970; 0 = half an hour before start */
    int64_t consume_timestamp_ms;
    bool auto_commit;                /* "autoCommit", true */
    int64_t auto_commit_interval_ms; /* "autoCommitIntervalMillis", 5000 */
    int32_t pull_batch_size;         /* "pullBatchSize", 10: most messages of one poll */
    /* "fetchBatchSize", 32: most messages of one request to a broker */
    int32_t fetch_batch_size;
    /* "pullThresholdForQueue", 1000 messages fetched ahead */
    int32_t pull_threshold_for_queue;
    int32_t pull_threshold_size_for_queue; /* "pullThresholdSizeForQueue", 100 MiB */
    /* "maxCacheBytes", 268435456: all queues of the consumer; counted as for a push consumer */
    int64_t max_cache_bytes;
    int32_t consume_max_span;             /* "consumeMaxSpan", 2000 offsets */
    int64_t poll_name_server_interval_ms; /* "pollNameServerInterval", 30000 */
    int64_t heartbeat_broker_interval_ms; /* "heartbeatBrokerInterval", 30000 */
    int64_t rebalance_interval_ms;        /* "rebalanceInterval", 20000 */
    /* "brokerSuspendMaxTimeMillis", 20000: how long a broker parks a pull */
    int64_t broker_suspend_max_time_ms;
    /* "maxMessageSize", 16777216: most bytes that one body may expand to */
    int32_t max_message_size;
    const char *serialize_type;           /* "serializeType": JSON or ROCKETMQ; default JSON */
    rmq_queues_changed_fn queues_changed; /* told of each new share; may be NULL */
    void *queues_changed_user;            /* passed to it; lives until shutdown has returned */
    /* notices, and RMQ_EVENT_BATCH when poll has something; borrowed until destroy */
    rmq_events *events;
    /* "namespace": part of the names of topics and groups, as "ns%topic" at the brokers */
    const char *namespace_name;
    const char *namespace_v2; /* "namespaceV2": goes with each request, names stay as they are */
} rmq_lite_pull_consumer_options;

RMQ_BEGIN_DECLS

/* Fills defaults; size is sizeof(rmq_lite_pull_consumer_options) as the program knows it. Since
 * 0.1.0. */
RMQ_API void rmq_lite_pull_consumer_options_init(rmq_lite_pull_consumer_options *options,
                                                 size_t size);

/* Creates a consumer that is not started yet; the caller destroys it. from_config: of kind
 * RMQ_CONFIG_LITE_PULL_CONSUMER. Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_NAMESRV, RMQ_ERR_EXISTS (an
 * instanceName that is in use for other name servers or another namespaceV2), RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_create(const rmq_lite_pull_consumer_options *options,
                                                 rmq_lite_pull_consumer **out, rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_create_from_config(const rmq_config *config,
                                                             rmq_lite_pull_consumer **out,
                                                             rmq_error **err);

/* Subscribes a topic ("*" or NULL for all, or tags as "a || b"): its queues are shared out among
 * the group's members. Before start or later. A consumer either subscribes or assigns:
 * RMQ_ERR_STATE for the other. Errors: also RMQ_ERR_INVALID, RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_subscribe(rmq_lite_pull_consumer *consumer,
                                                    const char *topic, const char *expression,
                                                    rmq_error **err);

/* The same with an expression of a type. SQL92 is a condition on properties that the broker
 * evaluates; one that does not know SQL92, or not this expression, refuses: start returns
 * RMQ_ERR_BROKER with its words, and the consumer is shut down then. Counterpart: MessageSelector.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_subscribe_selector(rmq_lite_pull_consumer *consumer,
                                                             const char *topic,
                                                             rmq_expression_type type,
                                                             const char *expression,
                                                             rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_unsubscribe(rmq_lite_pull_consumer *consumer,
                                                      const char *topic, rmq_error **err);

/* Takes exactly these queues, whoever else has them; a later call replaces the list: queues in both
 * go on, those left out are committed and given up. An expression for a topic (set before the
 * assign that brings it) filters it. Errors: RMQ_ERR_STATE (subscribed), RMQ_ERR_INVALID,
 * RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_assign(rmq_lite_pull_consumer *consumer,
                                                 const rmq_queue_list *queues, rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_set_assign_expression(rmq_lite_pull_consumer *consumer,
                                                                const char *topic,
                                                                const char *expression,
                                                                rmq_error **err);

/* Starts: heartbeat, rebalance and pulls run from here on. Returns also when no server answers,
 * after at most 3 s. Errors: RMQ_ERR_STATE (started), RMQ_ERR_CLOSED, RMQ_ERR_EXISTS (an
 * instanceName that is in use with this group), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_start(rmq_lite_pull_consumer *consumer, rmq_error **err);

/* Takes the next messages of one queue (at most pullBatchSize), waiting up to timeout_ms (0 = not
 * at all, -1 = for ever). The batch is the caller's: read it with rmq_batch_at, then
 * rmq_batch_destroy it, which is what lets autoCommit pass it. Errors: RMQ_ERR_TIMEOUT when nothing
 * came, RMQ_ERR_CLOSED after shutdown, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_poll(rmq_lite_pull_consumer *consumer, rmq_batch **out,
                                               int64_t timeout_ms, rmq_error **err);

/* The same for several batches, as rmq_consumer_poll_batches. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_poll_batches(rmq_lite_pull_consumer *consumer,
                                                       rmq_batch **out, size_t most,
                                                       int64_t timeout_ms, size_t *count,
                                                       rmq_error **err);

/* Descriptor that is readable while poll would return at once. Level triggered; never read or close
 * it. Since 0.1.0. */
RMQ_API int rmq_lite_pull_consumer_fd(rmq_lite_pull_consumer *consumer);

/* The queues that are this consumer's now. The caller destroys the list. Errors: RMQ_ERR_INVALID,
 * RMQ_ERR_FORKED, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_assignment(rmq_lite_pull_consumer *consumer,
                                                     rmq_queue_list **out, rmq_error **err);

/* The readable queues of a topic, as for assign. Blocks up to timeout_ms (0 = 5000). Errors:
 * RMQ_ERR_NO_ROUTE, RMQ_ERR_NO_NAMESRV, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_fetch_queues(rmq_lite_pull_consumer *consumer,
                                                       const char *topic, int64_t timeout_ms,
                                                       rmq_queue_list **out, rmq_error **err);

/* Moves a queue to an offset: what was fetched of it is dropped, and the next poll of it starts
 * there. An offset that the queue does not have gives RMQ_ERR_INVALID. begin, end and time ask the
 * broker. Blocks up to timeout_ms (0 = 5000). Errors: RMQ_ERR_NOT_FOUND (the queue is not this
 * consumer's), RMQ_ERR_NO_BROKER, RMQ_ERR_TIMEOUT, RMQ_ERR_BROKER, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_seek(rmq_lite_pull_consumer *consumer, const char *topic,
                                               const char *broker_name, int32_t queue_id,
                                               int64_t offset, int64_t timeout_ms, rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_seek_to_begin(rmq_lite_pull_consumer *consumer,
                                                        const char *topic, const char *broker_name,
                                                        int32_t queue_id, int64_t timeout_ms,
                                                        rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_seek_to_end(rmq_lite_pull_consumer *consumer,
                                                      const char *topic, const char *broker_name,
                                                      int32_t queue_id, int64_t timeout_ms,
                                                      rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_seek_to_timestamp(rmq_lite_pull_consumer *consumer,
                                                            const char *topic,
                                                            const char *broker_name,
                                                            int32_t queue_id, int64_t timestamp_ms,
                                                            int64_t timeout_ms, rmq_error **err);

/* First offset at or after a time (ms since 1970), of any queue. Blocks up to timeout_ms (0 =
 * 5000). Errors: RMQ_ERR_INVALID, RMQ_ERR_NO_ROUTE, RMQ_ERR_NO_BROKER, RMQ_ERR_TIMEOUT,
 * RMQ_ERR_BROKER, RMQ_ERR_NOMEM. Protocol: SEARCH_OFFSET_BY_TIMESTAMP (29). Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_offset_for_timestamp(
    rmq_lite_pull_consumer *consumer, const char *topic, const char *broker_name, int32_t queue_id,
    int64_t timestamp_ms, int64_t timeout_ms, int64_t *out, rmq_error **err);

/* Stops and resumes fetching from queues (NULL: all that are ours now). What is fetched already is
 * still polled. Queues that are not ours are passed over. A queue that leaves and comes back is not
 * paused. Errors: RMQ_ERR_INVALID, RMQ_ERR_FORKED. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_pause(rmq_lite_pull_consumer *consumer,
                                                const rmq_queue_list *queues, rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_resume(rmq_lite_pull_consumer *consumer,
                                                 const rmq_queue_list *queues, rmq_error **err);

/* Stores what poll has given out of these queues (NULL: all), as far as they are still ours. sync
 * waits up to timeout_ms (0 = 5000) for the brokers and tells the first failure; async calls fn
 * (may be NULL) once. Errors: RMQ_ERR_TIMEOUT, RMQ_ERR_BROKER, RMQ_ERR_CLOSED, RMQ_ERR_NOMEM.
 * Protocol: UPDATE_CONSUMER_OFFSET (15). Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_commit_sync(rmq_lite_pull_consumer *consumer,
                                                      const rmq_queue_list *queues,
                                                      int64_t timeout_ms, rmq_error **err);
RMQ_API rmq_status rmq_lite_pull_consumer_commit_async(rmq_lite_pull_consumer *consumer,
                                                       const rmq_queue_list *queues,
                                                       rmq_commit_fn fn, void *user,
                                                       rmq_error **err);

/* The group's offset of a queue at its broker. RMQ_ERR_NOT_FOUND when there is none; a broker before
 * 5.0 says 0 then, of a queue that begins there. timeout_ms 0 = 5000. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_committed(rmq_lite_pull_consumer *consumer,
                                                    const char *topic, const char *broker_name,
                                                    int32_t queue_id, int64_t timeout_ms,
                                                    int64_t *out, rmq_error **err);

/* The client id under which brokers know this consumer. Borrowed until destroy. Since 0.1.0. */
RMQ_API const char *rmq_lite_pull_consumer_client_id(const rmq_lite_pull_consumer *consumer);

/* Stops fetching, waits up to timeout_ms (0 = 10000) for batches that are not destroyed yet,
 * commits (with autoCommit), and leaves the group. May be called twice and from any thread, but not
 * from a callback of its own. RMQ_ERR_TIMEOUT when a batch was still in hands; a later call waits
 * for it. Offsets that could not be stored are told as by rmq_consumer_shutdown. Since 0.1.0. */
RMQ_API rmq_status rmq_lite_pull_consumer_shutdown(rmq_lite_pull_consumer *consumer,
                                                   int64_t timeout_ms, rmq_error **err);

/* Frees the consumer, shutting it down first if that was not done. Batches stay readable until they
 * are destroyed. NULL is accepted. Since 0.1.0. */
RMQ_API void rmq_lite_pull_consumer_destroy(rmq_lite_pull_consumer *consumer);

RMQ_END_DECLS

#endif

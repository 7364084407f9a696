/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Push consumer: the library pulls, the program gets messages by a listener on a pool of workers,
 * or by poll. Counterpart: DefaultMQPushConsumer.
 */
#ifndef RMQ_CONSUMER_H
#define RMQ_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/config.h>
#include <rmq/error.h>
#include <rmq/events.h>
#include <rmq/export.h>
#include <rmq/message.h>
#include <rmq/queue.h>

typedef struct rmq_consumer rmq_consumer;

typedef enum rmq_consume_result {
    RMQ_CONSUME_SUCCESS = 0,
    /* the broker delivers again after a delay; ordered: the queue pauses */
    RMQ_RECONSUME_LATER = 1,
    /* Ordered consumers only: */
    RMQ_SUSPEND_CURRENT_QUEUE_A_MOMENT = 2, /* the same messages again after a pause */
    RMQ_CONSUME_COMMIT = 3, /* without auto-commit: all of the queue so far is done */
    /* without auto-commit: all since the last commit again, after a pause */
    RMQ_CONSUME_ROLLBACK = 4
} rmq_consume_result;

typedef enum rmq_message_model {
    RMQ_CLUSTERING = 0,  /* the members of a group share the messages */
    RMQ_BROADCASTING = 1 /* each member gets all; offsets are kept in a local file */
} rmq_message_model;

typedef enum rmq_expression_type {
    RMQ_EXPRESSION_TAG = 0,  /* "a || b" */
    RMQ_EXPRESSION_SQL92 = 1 /* a condition on properties */
} rmq_expression_type;

/* Where a group begins that has no offset for a queue yet. In a queue whose first message ever is
 * still in memory the broker lets it begin with that one, whatever is said here. */
typedef enum rmq_consume_from_where {
    RMQ_CONSUME_FROM_LAST_OFFSET = 0,
    RMQ_CONSUME_FROM_FIRST_OFFSET = 1,
    RMQ_CONSUME_FROM_TIMESTAMP = 2
} rmq_consume_from_where;

/* Context of one listener call or polled batch, to be changed by the listener before it returns. */
typedef struct rmq_consume_context rmq_consume_context;

/* Gets 1 … consumeMessageBatchMaxSize messages of one queue, on a worker thread, with no lock of
 * the library held; several workers call at once (an ordered consumer: never two for one queue).
 * Messages are borrowed for the call (retain keeps one). It may call anything of the library but
 * destroy on its own consumer. */
typedef rmq_consume_result (*rmq_listener_fn)(const rmq_message_view *const *messages, size_t count,
                                              rmq_consume_context *context, void *user);

/* Room of a broker name or a client id: text of *length bytes that lives as long as the consumer,
 * or within name. On the library's I/O thread: it must not block, nor call the library.
 * Counterpart: MachineRoomResolver. */
typedef const char *(*rmq_machine_room_fn)(const char *name, size_t *length, void *user);

/* Puts the queues that shall be client_id's into mine. queues and clients are sorted and the same
 * for all members, which must all decide alike, so that each queue has one owner. Another status
 * than RMQ_OK leaves the share as it is. On the library's I/O thread: it must not block, and of the
 * library it may call rmq_queue_list_* only. Counterpart: AllocateMessageQueueStrategy. */
typedef rmq_status (*rmq_allocate_fn)(const char *client_id, const rmq_queue_list *queues,
                                      const char *const *clients, size_t client_count,
                                      rmq_queue_list *mine, void *user);

typedef struct rmq_consumer_options {
    size_t struct_size;
    const char *consumer_group; /* "consumerGroup"; required */
    const char *namesrv_addr;   /* "namesrvAddr"; else $NAMESRV_ADDR */
    const char *instance_name;  /* "instanceName", default "DEFAULT" = made unique */
    const char *client_ip;      /* "clientIP" */
    const char *unit_name;      /* "unitName" */
    /* "allocateMessageQueueStrategy": AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, MACHINE_ROOM,
     * MACHINE_ROOM_NEARBY, CONFIG; default AVG */
    const char *allocate_strategy;
    rmq_consume_from_where consume_from_where; /* "consumeFromWhere", CONSUME_FROM_LAST_OFFSET */
    /* "consumeTimestamp", ms since 1970; 0 = half an hour before start */
    int64_t consume_timestamp_ms;
    /* "consumeThreadNums", 20: workers that run the listener, 1 … 1000 */
    int32_t consume_thread_nums;
    /* "consumeMessageBatchMaxSize", 1: messages a listener call or poll gets, 1 … 1024 */
    int32_t consume_message_batch_max_size;
    int32_t pull_batch_size;               /* "pullBatchSize", 32 */
    int64_t pull_interval_ms;              /* "pullInterval", 0 */
    int32_t pull_threshold_for_queue;      /* "pullThresholdForQueue", 1000 messages */
    int32_t pull_threshold_size_for_queue; /* "pullThresholdSizeForQueue", 100 MiB */
    int32_t pull_threshold_for_topic;      /* "pullThresholdForTopic", -1 = off */
    int32_t pull_threshold_size_for_topic; /* "pullThresholdSizeForTopic", -1 = off, MiB */
    /* "maxCacheBytes", 268435456: all queues of the consumer, until no more is pulled. A compressed
     * body counts as it came, and expanded from when it is handed out until it is done: what is
     * cached then is still handed out, so the bodies in hands may be more. */
    int64_t max_cache_bytes;
    int32_t consume_concurrently_max_span; /* "consumeConcurrentlyMaxSpan", 2000 offsets */
    /* "maxReconsumeTimes", -1 = 16, in order without end; in place of the group's retryMaxTimes */
    int32_t max_reconsume_times;
    int64_t consume_timeout_ms;                  /* "consumeTimeout", 900000 */
    int64_t persist_consumer_offset_interval_ms; /* "persistConsumerOffsetInterval", 5000 */
    int64_t poll_name_server_interval_ms;        /* "pollNameServerInterval", 30000 */
    int64_t heartbeat_broker_interval_ms;        /* "heartbeatBrokerInterval", 30000 */
    int64_t rebalance_interval_ms;               /* "rebalanceInterval", 20000 */
    /* "brokerSuspendMaxTimeMillis", 15000: how long a broker parks a pull */
    int64_t broker_suspend_max_time_ms;
    /* "maxMessageSize", 16777216: most bytes that one body may expand to */
    int32_t max_message_size;
    const char *serialize_type; /* "serializeType": JSON or ROCKETMQ; default JSON */
    rmq_listener_fn listener;   /* NULL: the program polls */
    /* passed to the listener; lives until shutdown has returned */
    void *listener_user;
    /* notices, and RMQ_EVENT_BATCH for a polling consumer; borrowed until destroy */
    rmq_events *events;
    rmq_message_model message_model; /* "messageModel", CLUSTERING */
    /* "consumeOrderly", false: one message of a queue after the other */
    bool consume_orderly;
    /* "suspendCurrentQueueTimeMillis", 1000; 10 … 30000 count */
    int64_t suspend_current_queue_time_ms;
    /* "maxTimeConsumeContinuously", 60000: then another queue's turn */
    int64_t max_time_consume_continuously_ms;
    /* "lockInterval", 20000: renewal of ordered queues' locks; one counts for 1.5 times that */
    int64_t lock_interval_ms;
    /* "machineRooms": rooms of MACHINE_ROOM, "room1,room2"; broker names are "room@name" */
    const char *machine_rooms;
    /* "messageQueues": the share of CONFIG, "topic broker queueId;…"; one member names the queues
     * of the topic %RETRY%group, too: what is to come later comes from there */
    const char *message_queues;
    rmq_machine_room_fn machine_room; /* MACHINE_ROOM_NEARBY */
    rmq_allocate_fn allocate;         /* own function instead of allocate_strategy */
    void *allocate_user;              /* passed to both */
    /* "localOffsetStoreDir"; default ~/.rocketmq_offsets; broadcasting only */
    const char *local_offset_store_dir;
    /* "enableMsgTrace", false: each listener call leaves records in the trace topic */
    bool enable_msg_trace;
    const char *customized_trace_topic; /* "customizedTraceTopic", default RMQ_SYS_TRACE_TOPIC */
    int32_t trace_msg_batch_num;        /* "traceMsgBatchNum", 10: records of one trace message */
    /* "namespace": part of the names of topics and groups, as "ns%topic" at the brokers */
    const char *namespace_name;
    /* "namespaceV2": goes with each request, names stay as they are */
    const char *namespace_v2;
    /* "clientRebalance", true; false: the broker shares the queues out, and says for each topic
     * whether it is pulled or popped; of no effect when ordered or broadcasting */
    bool client_rebalance;
    int64_t pop_invisible_time_ms; /* "popInvisibleTime", 60000: 1000 … 300000 */
    int32_t pop_batch_nums;        /* "popBatchNums", 32: most messages of one pop, 1 … 32 */
    /* "popThresholdForQueue", 96 messages that are popped and not consumed */
    int32_t pop_threshold_for_queue;
} rmq_consumer_options;

RMQ_BEGIN_DECLS

/* Fills defaults; size is sizeof(rmq_consumer_options) as the program knows it. Since 0.1.0. */
RMQ_API void rmq_consumer_options_init(rmq_consumer_options *options, size_t size);

/* Creates a consumer that is not started yet. The caller destroys it. Errors: RMQ_ERR_INVALID,
 * RMQ_ERR_NO_NAMESRV, RMQ_ERR_EXISTS (an instanceName that is in use for other name servers or
 * another namespaceV2), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_create(const rmq_consumer_options *options, rmq_consumer **out,
                                       rmq_error **err);
RMQ_API rmq_status rmq_consumer_create_from_config(const rmq_config *config,
                                                   rmq_listener_fn listener, void *user,
                                                   rmq_consumer **out, rmq_error **err);

/* Creates a consumer of one topic with options as text (see rmq_config_parse), subscribes and
 * starts it. listener NULL: the program polls; else it may run before this returns. The caller
 * destroys the consumer. Errors as rmq_consumer_create, rmq_consumer_subscribe and
 * rmq_consumer_start. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_open(const char *options, const char *topic, const char *expression,
                                     rmq_listener_fn listener, void *user, rmq_consumer **out,
                                     rmq_error **err);

/* Subscribes a topic: "*" or NULL for all, or tags as "a || b". Before start or later; a later call
 * replaces the expression at once. All members of a group must subscribe the same. The group's
 * retry topic is subscribed by itself, and refused here. Errors: RMQ_ERR_INVALID, RMQ_ERR_CLOSED,
 * RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_subscribe(rmq_consumer *consumer, const char *topic,
                                          const char *expression, rmq_error **err);

/* The same with an expression of a type. SQL92 is a condition on properties, as "price > 5 AND
 * region = 'north'"; the broker evaluates it. A broker that does not know SQL92
 * (enablePropertyFilter), or not this expression, refuses: rmq_consumer_start returns
 * RMQ_ERR_BROKER with its words, and the consumer is shut down then; after the start it is an
 * RMQ_EVENT_ERROR and the topic is not consumed. Counterpart: MessageSelector. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_subscribe_selector(rmq_consumer *consumer, const char *topic,
                                                   rmq_expression_type type, const char *expression,
                                                   rmq_error **err);

/* Gives the topic's queues up: their offsets are committed. RMQ_ERR_NOT_FOUND when it is not
 * subscribed. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_unsubscribe(rmq_consumer *consumer, const char *topic,
                                            rmq_error **err);

/* Starts: heartbeat, rebalance and pulls run from here on. Returns without waiting for a server
 * beyond a first try of at most 3 s: with all servers away it still starts, and consumes when they
 * are back. Errors: RMQ_ERR_STATE (started, or no subscription), RMQ_ERR_CLOSED, RMQ_ERR_EXISTS
 * (an instanceName that is in use with this group), RMQ_ERR_IO, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_start(rmq_consumer *consumer, rmq_error **err);

/* Takes the next messages of one queue, waiting up to timeout_ms (0 = not at all, -1 = for ever).
 * The batch is the caller's: finish it, then destroy it. Only for a consumer without listener (else
 * RMQ_ERR_STATE). RMQ_ERR_TIMEOUT when nothing came, RMQ_ERR_CLOSED after shutdown. Any thread.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_poll(rmq_consumer *consumer, rmq_batch **out, int64_t timeout_ms,
                                     rmq_error **err);

/* The same for several batches, for callers to whom each call is dear: waits for the first, then
 * takes what else there is without waiting, up to most. out has room for so many; *count, at least 1
 * on RMQ_OK, else 0, says how many it has got. Each is finished and destroyed by itself. Errors as
 * of rmq_consumer_poll. Any thread. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_poll_batches(rmq_consumer *consumer, rmq_batch **out, size_t most,
                                             int64_t timeout_ms, size_t *count, rmq_error **err);

/* Descriptor that is readable while poll would return at once. Level triggered; never read or close
 * it. Since 0.1.0. */
RMQ_API int rmq_consumer_fd(rmq_consumer *consumer);

/* Says how the batch went: SUCCESS moves the offset on, LATER sends the messages back to the
 * broker. A batch that is destroyed unfinished counts as LATER. RMQ_OK also when its queue has
 * moved to another member meanwhile (the messages come there again). Any thread. Errors:
 * RMQ_ERR_INVALID (not of this consumer, finished already, or no such result: it is not finished
 * then), RMQ_ERR_CLOSED. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_finish(rmq_consumer *consumer, rmq_batch *batch,
                                       rmq_consume_result result, rmq_error **err);

/* Messages of a batch, borrowed until it is destroyed; its context, to be changed before finish.
 * destroy accepts NULL. Since 0.1.0. */
RMQ_API size_t rmq_batch_count(const rmq_batch *batch);
/* NULL beyond */
RMQ_API const rmq_message_view *rmq_batch_at(const rmq_batch *batch, size_t index);
RMQ_API rmq_consume_context *rmq_batch_context(rmq_batch *batch);
RMQ_API void rmq_batch_destroy(rmq_batch *batch);

/* Context: index of the last message that is done (the rest of the batch goes back); delay level of
 * the send-back (-1 dead-letter queue at once, 0 the broker decides, 1 … 18). What was popped is
 * seen again after 10 s, 30 s, 1 min, 2 min, 3 … 10 min, 20 min, 30 min, 1 h, 2 h: of these, 0
 * takes the one of the deliveries so far, level 1 the second, 15 and more the last, as in Java.
 * Since 0.1.0. */
RMQ_API void rmq_consume_context_set_ack_index(rmq_consume_context *context, int32_t ack_index);
RMQ_API void rmq_consume_context_set_delay_level(rmq_consume_context *context, int delay_level);

/* Context of an ordered consumer. Without auto-commit SUCCESS moves nothing: COMMIT does, for all
 * since the last one, and ROLLBACK gives them again; to be set in each call. The pause after LATER,
 * SUSPEND or ROLLBACK, in ms: -1 = suspendCurrentQueueTimeMillis. Counterpart:
 * ConsumeOrderlyContext. Since 0.1.0. */
RMQ_API void rmq_consume_context_set_auto_commit(rmq_consume_context *context, bool auto_commit);
RMQ_API void rmq_consume_context_set_suspend_ms(rmq_consume_context *context, int64_t suspend_ms);

/* Pauses and resumes pulling. What is cached is still delivered, and what a broker that shares its
 * queues out for popping gives to the pop that waits there. Any thread, a listener too. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_FORKED. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_suspend(rmq_consumer *consumer);
RMQ_API rmq_status rmq_consumer_resume(rmq_consumer *consumer);

/* The same for one queue of ours, as long as it is ours. RMQ_ERR_NOT_FOUND when it is not. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_consumer_suspend_queue(rmq_consumer *consumer, const char *topic,
                                              const char *broker_name, int32_t queue_id,
                                              rmq_error **err);
RMQ_API rmq_status rmq_consumer_resume_queue(rmq_consumer *consumer, const char *topic,
                                             const char *broker_name, int32_t queue_id,
                                             rmq_error **err);

/* Number of workers from now on, 1 … 1000; those beyond it end when their listener returns. Any
 * thread. Errors: RMQ_ERR_INVALID, RMQ_ERR_STATE (without a listener), RMQ_ERR_FORKED. Counterpart:
 * updateCorePoolSize. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_set_consume_thread_nums(rmq_consumer *consumer, int32_t threads,
                                                        rmq_error **err);

/* Messages of a queue of ours that are not consumed yet: the end of the queue as the last pull told
 * it, less the committable offset. -1 while one of them is not known. RMQ_ERR_NOT_FOUND when the
 * queue is not ours. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_lag(rmq_consumer *consumer, const char *topic,
                                    const char *broker_name, int32_t queue_id, int64_t *lag,
                                    rmq_error **err);

/* Queues that the consumer owns now, as text "topic broker queueId\n…"; the caller frees it with
 * rmq_string_free. Any thread. Errors: RMQ_ERR_INVALID, RMQ_ERR_FORKED, RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_consumer_assignment(rmq_consumer *consumer, char **out, rmq_error **err);
RMQ_API void rmq_string_free(char *text);

/* Switches the message trace on or off, at any time: for each message a record before the listener
 * is called and one after it, bounded as those of a producer (rmq_producer_set_trace). Only for a
 * consumer with a listener (else RMQ_ERR_STATE). Errors: RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_consumer_set_trace(rmq_consumer *consumer, bool on, rmq_error **err);

/* Trace records whose message was stored, and those that were dropped or lost; either may be NULL.
 * Since 0.1.0. */
RMQ_API void rmq_consumer_trace_counts(const rmq_consumer *consumer, uint64_t *sent,
                                       uint64_t *dropped);

/* The client id under which brokers know this consumer. Borrowed until destroy. Since 0.1.0. */
RMQ_API const char *rmq_consumer_client_id(const rmq_consumer *consumer);

/* Stops pulling, waits up to timeout_ms (0 = 10000) for running listeners and unfinished batches,
 * commits, and leaves the group. May be called twice, from any thread, from the listener. When it
 * has returned (outside the listener), no listener starts any more. RMQ_ERR_TIMEOUT when a listener
 * was still running at the deadline, or a batch unfinished: nothing of it is committed any more, and
 * a later call waits for its end. When offsets could not be stored, the reason (RMQ_ERR_CONNECT,
 * RMQ_ERR_BROKER, …; broadcasting: RMQ_ERR_IO): the consumer is shut down all the same, and what was
 * consumed since the last commit comes again. Since 0.1.0. */
RMQ_API rmq_status rmq_consumer_shutdown(rmq_consumer *consumer, int64_t timeout_ms,
                                         rmq_error **err);

/* Frees the consumer, shutting it down first if that was not done. Not from the listener. NULL is
 * accepted. Since 0.1.0. */
RMQ_API void rmq_consumer_destroy(rmq_consumer *consumer);

RMQ_END_DECLS

#endif

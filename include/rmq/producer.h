/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Producer. One producer may be used by any number of threads. It starts no thread of its own: all
 * clients of a process share one I/O thread, and one callback thread once an asynchronous send is
 * made. Counterpart: DefaultMQProducer.
 */
#ifndef RMQ_PRODUCER_H
#define RMQ_PRODUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/config.h>
#include <rmq/error.h>
#include <rmq/events.h>
#include <rmq/export.h>
#include <rmq/message.h>

typedef struct rmq_producer rmq_producer;

typedef enum rmq_send_status {
    RMQ_SEND_OK = 0,
    RMQ_SEND_FLUSH_DISK_TIMEOUT = 1,
    RMQ_SEND_FLUSH_SLAVE_TIMEOUT = 2,
    RMQ_SEND_SLAVE_NOT_AVAILABLE = 3
} rmq_send_status;

typedef enum rmq_transaction_state {
    RMQ_TRANSACTION_UNKNOWN = 0, /* the broker asks later */
    RMQ_TRANSACTION_COMMIT = 1,
    RMQ_TRANSACTION_ROLLBACK = 2
} rmq_transaction_state;

/* Answers a broker's question about a transaction that was not ended: of this producer, or of
 * another of its group, which may be dead. Runs on the callback thread, one question after the
 * other, with no lock of the library held; the message is borrowed for the call (retain keeps it),
 * its id is the transaction's. A question may come more than once. It may send, and may shut the
 * producer down; it must not destroy it. */
typedef rmq_transaction_state (*rmq_transaction_check_fn)(const rmq_message_view *message,
                                                          void *user);

/* Options. rmq_producer_options_init fills every default and records the size, so that an old
 * program meets a new library safely. Strings are copied by create; NULL is the default. The table
 * in docs/options.md is made from the same source. */
typedef struct rmq_producer_options {
    size_t struct_size;
    const char *producer_group; /* "producerGroup"; required */
    /* "namesrvAddr", "host:port;host:port"; else $NAMESRV_ADDR */
    const char *namesrv_addr;
    const char *instance_name; /* "instanceName", default "DEFAULT" = made unique */
    /* "clientIP", default the local address that reaches the name server */
    const char *client_ip;
    const char *unit_name;            /* "unitName" */
    const char *create_topic_key;     /* "createTopicKey", default TBW102 */
    int32_t default_topic_queue_nums; /* "defaultTopicQueueNums", 4 */
    int64_t send_msg_timeout_ms;      /* "sendMsgTimeout", 3000: one deadline for all attempts */
    /* "sendMsgMaxTimeoutPerRequest", -1 = a share chosen by the library */
    int64_t send_msg_max_timeout_per_request_ms;
    /* attempts that reached a broker, or another could have taken: an only broker is waited for */
    int32_t retry_times_when_send_failed;        /* "retryTimesWhenSendFailed", 2 */
    int32_t retry_times_when_send_async_failed;  /* "retryTimesWhenSendAsyncFailed", 2 */
    bool retry_another_broker_when_not_store_ok; /* "retryAnotherBrokerWhenNotStoreOK", false */
    int32_t compress_msg_body_over_howmuch;      /* "compressMsgBodyOverHowmuch", 4096 bytes */
    const char *compress_type;         /* "compressType": ZLIB, LZ4, ZSTD, NONE; default ZLIB */
    int32_t compress_level;            /* "compressLevel", 5 */
    int32_t max_message_size;          /* "maxMessageSize", 4194304 bytes, before compression */
    int32_t max_async_in_flight;       /* "backPressureForAsyncSendNum", 10000 messages */
    int64_t max_async_in_flight_bytes; /* "backPressureForAsyncSendSize", 104857600 bytes */
    /* "backPressureWait", true: a full window waits for the send's deadline; false: RMQ_ERR_BUSY */
    bool async_wait_when_full;
    int64_t poll_name_server_interval_ms; /* "pollNameServerInterval", 30000 */
    int64_t heartbeat_broker_interval_ms; /* "heartbeatBrokerInterval", 30000 */
    /* "sendLatencyFaultEnable", true: brokers known slow or dead are avoided for a while */
    bool send_latency_fault_enable;
    /* "serializeType": JSON or ROCKETMQ headers; default JSON */
    const char *serialize_type;
    /* where rmq_producer_send_event completes; borrowed until destroy */
    rmq_events *events;
    /* "retryResponseCodes", "1,2,14,16,17,204,205,1500": answers after which a send is tried
     * again */
    const char *retry_response_codes;
    /* answers questions about transactions; NULL: RMQ_EVENT_CHECK_TRANSACTION in events, if
     * given */
    rmq_transaction_check_fn transaction_check;
    void *transaction_check_user; /* passed to it; lives until shutdown has returned */
    /* "enableMsgTrace", false: each answered send leaves a record in the trace topic */
    bool enable_msg_trace;
    const char *customized_trace_topic; /* "customizedTraceTopic", default RMQ_SYS_TRACE_TOPIC */
    int32_t trace_msg_batch_num;        /* "traceMsgBatchNum", 10: records of one trace message */
    /* "autoBatch", false: asynchronous sends of small messages travel together */
    bool auto_batch;
    /* "batchMaxDelayMs", 10: how long the first of them waits for others */
    int64_t batch_max_delay_ms;
    /* "batchMaxBytes", 32768: a batch of this size leaves at once */
    int32_t batch_max_bytes;
    /* "vipChannelEnabled", false: sends go to the brokers' VIP port, two below the other */
    bool vip_channel_enabled;
    /* "statisticsInterval", 0 = off: RMQ_EVENT_STATISTICS in events so often */
    int64_t statistics_interval_ms;
    /* "namespace": part of the names of topics and groups, as "ns%topic" at the brokers */
    const char *namespace_name;
    /* "namespaceV2": goes with each request, names stay as they are */
    const char *namespace_v2;
} rmq_producer_options;

/* Called once per accepted asynchronous send, on the callback thread, never with a lock of the
 * library held. Exactly one of result and err is not NULL; both are borrowed for the call. It may
 * send, and may shut the producer down; it must not destroy it. */
typedef void (*rmq_send_fn)(const rmq_send_result *result, const rmq_error *err, void *user);

/* Chooses a queue: returns an index in 0 … count-1; anything else is RMQ_ERR_INVALID. Runs on the
 * sending thread, where rmq_producer_shutdown, which would wait for the send, is RMQ_ERR_STATE. */
typedef size_t (*rmq_queue_selector_fn)(const rmq_message *message, size_t count, void *user);

/* The queues of a topic that take messages, sorted by broker name and queue id. */
typedef struct rmq_queues rmq_queues;

/* The same with the queues to look at; they are borrowed for the call. */
typedef size_t (*rmq_queue_choice_fn)(const rmq_message *message, const rmq_queues *queues,
                                      void *user);

/* What one send has of its own. rmq_send_options_init fills the defaults. At most one of
 * broker_name, choice and sharding_key says where it goes; such a send is one attempt, since
 * another broker would be another order. Everything is borrowed for the call. */
typedef struct rmq_send_options {
    size_t struct_size;
    int64_t timeout_ms;      /* one deadline for all attempts; 0 = sendMsgTimeout */
    const char *broker_name; /* to this broker … */
    int32_t queue_id;        /* … and this queue */
    /* to the queue that it returns: rmq_choose_by_hash, … or the program's own */
    rmq_queue_choice_fn choice;
    void *choice_user;
    /* to the queue of the key, as Java's SelectMessageQueueByHash has it */
    const char *sharding_key;
} rmq_send_options;

/* One send as hooks see it, a batch counts as one. */
typedef struct rmq_send_context rmq_send_context;

typedef enum rmq_send_mode {
    RMQ_MODE_SYNC = 0,
    RMQ_MODE_ASYNC = 1, /* with a callback or an event */
    RMQ_MODE_ONEWAY = 2
} rmq_send_mode;

/* Functions of the program around each send that passed the checks; each may be NULL. check and
 * before run on the sending thread, first all checks, then all befores; check refuses the send by
 * returning anything but RMQ_OK, which the send returns. after runs once for each before: on the
 * sending thread of a blocking or one-way send, on the callback thread, ahead of the callback or
 * event, of an asynchronous one. No lock of the library is held. They may send; a send from a hook
 * runs the hooks, too. check and before must not shut the producer down, which waits for the send,
 * nor after on the sending thread. */
typedef struct rmq_send_hook {
    size_t struct_size;
    const char *name; /* for messages; copied */
    rmq_status (*check)(const rmq_send_context *context, void *user);
    void (*before)(rmq_send_context *context, void *user);
    void (*after)(rmq_send_context *context, void *user);
    void *user; /* borrowed until the producer is destroyed */
} rmq_send_hook;

RMQ_BEGIN_DECLS

/* Fills defaults; size is sizeof(rmq_producer_options) as the program knows it. Since 0.1.0. */
RMQ_API void rmq_producer_options_init(rmq_producer_options *options, size_t size);

/* Creates and starts a producer: connects in the background, does not wait for a server. The caller
 * shuts it down and destroys it. Errors: RMQ_ERR_INVALID (group, address, range),
 * RMQ_ERR_NO_NAMESRV (none given), RMQ_ERR_EXISTS (an instanceName that is in use: with this group,
 * or for other name servers, another namespaceV2 or vipChannelEnabled), RMQ_ERR_NOMEM, RMQ_ERR_IO.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_producer_create(const rmq_producer_options *options, rmq_producer **out,
                                       rmq_error **err);
RMQ_API rmq_status rmq_producer_create_from_config(const rmq_config *config, rmq_producer **out,
                                                   rmq_error **err);

/* The same with options as text, "producerGroup=orders;sendMsgTimeout=5000" (see
 * rmq_config_parse). Errors as rmq_producer_create. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_open(const char *options, rmq_producer **out, rmq_error **err);

/* Sends and waits. timeout_ms is one deadline for all attempts; 0 = the option's, and so is any
 * negative one, here and below. *result (may be NULL) is the caller's on RMQ_OK and freed by
 * rmq_send_result_destroy. Any thread. Errors: RMQ_ERR_TIMEOUT, RMQ_ERR_NO_ROUTE,
 * RMQ_ERR_NO_BROKER (a route without a broker to send to, or without the one that was given),
 * RMQ_ERR_NO_NAMESRV, RMQ_ERR_CONNECT, RMQ_ERR_DISCONNECTED, RMQ_ERR_BROKER (remote code in err),
 * RMQ_ERR_TOO_LARGE, RMQ_ERR_INVALID, RMQ_ERR_CLOSED, RMQ_ERR_NOMEM; rmq_error_maybe_stored tells
 * whether the message may be stored all the same. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send(rmq_producer *producer, const rmq_message *message,
                                     int64_t timeout_ms, rmq_send_result **result, rmq_error **err);

/* The same for a body alone, without tag, keys and properties; it is borrowed for the call. Errors
 * as rmq_producer_send. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_body(rmq_producer *producer, const char *topic,
                                          const void *body, size_t size, int64_t timeout_ms,
                                          rmq_send_result **result, rmq_error **err);

/* rmq_producer_send to one queue of one broker, or to a logical queue of a static topic
 * ("__syslo__global__" and its id), whichever broker leads it; no retry elsewhere. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_to_queue(rmq_producer *producer, const rmq_message *message,
                                              const char *broker_name, int32_t queue_id,
                                              int64_t timeout_ms, rmq_send_result **result,
                                              rmq_error **err);

/* The same with the queue chosen by a selector over the topic's queues, sorted by broker name and
 * queue id; no retry elsewhere. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_by_selector(rmq_producer *producer, const rmq_message *message,
                                                 rmq_queue_selector_fn selector, void *user,
                                                 int64_t timeout_ms, rmq_send_result **result,
                                                 rmq_error **err);

/* The same with the queue chosen by a sharding key, as Java's SelectMessageQueueByHash does. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_producer_send_by_key(rmq_producer *producer, const rmq_message *message,
                                            const char *sharding_key, int64_t timeout_ms,
                                            rmq_send_result **result, rmq_error **err);

/* Fills defaults; size is sizeof(rmq_send_options) as the program knows it. Since 0.1.0. */
RMQ_API void rmq_send_options_init(rmq_send_options *options, size_t size);

/* rmq_producer_send with options of its own (NULL = none). Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_with(rmq_producer *producer, const rmq_message *message,
                                          const rmq_send_options *options, rmq_send_result **result,
                                          rmq_error **err);

/* Choices for rmq_send_options.choice. user of by_hash: the text that is hashed ("const char *");
 * of by_machine_room: names of rooms "a,b": the queues, in turn, of brokers that are named "a@…" or
 * "b@…", and of all when none is. Counterparts: SelectMessageQueueByHash,
 * SelectMessageQueueByRandom, AllocateMessageQueueByMachineRoom (for the names). Since 0.1.0. */
RMQ_API size_t rmq_choose_by_hash(const rmq_message *message, const rmq_queues *queues, void *user);
RMQ_API size_t rmq_choose_by_random(const rmq_message *message, const rmq_queues *queues,
                                    void *user);
RMQ_API size_t rmq_choose_by_machine_room(const rmq_message *message, const rmq_queues *queues,
                                          void *user);

/* The queues to which a topic's messages go, those of a static topic named after no broker but
 * "__syslo__global__"; waits for the route up to timeout_ms (0 = sendMsgTimeout). Freed by
 * rmq_queues_free. Counterpart: fetchPublishMessageQueues. Errors: RMQ_ERR_INVALID (a name that no
 * topic can have), RMQ_ERR_NO_ROUTE, RMQ_ERR_NO_NAMESRV, RMQ_ERR_TIMEOUT, RMQ_ERR_CLOSED,
 * RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_publish_queues(rmq_producer *producer, const char *topic,
                                               int64_t timeout_ms, rmq_queues **out,
                                               rmq_error **err);
RMQ_API size_t rmq_queues_count(const rmq_queues *queues);
/* NULL beyond */
RMQ_API const char *rmq_queues_broker_name(const rmq_queues *queues, size_t index);
RMQ_API int32_t rmq_queues_queue_id(const rmq_queues *queues, size_t index); /* -1 beyond */
RMQ_API void rmq_queues_free(rmq_queues *queues);

/* Sends several messages of one topic as one request. Refused before sending: no messages,
 * different topics, message groups or wait flags, delay levels and times, retry topics, more than
 * maxMessageSize in all. The result has the ids of all, separated by commas, and the offset of the
 * first. Errors as rmq_producer_send. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_batch(rmq_producer *producer,
                                           const rmq_message *const *messages, size_t count,
                                           int64_t timeout_ms, rmq_send_result **result,
                                           rmq_error **err);

/* Sends any number of messages of one topic, in their order, as batches of one message group each,
 * one after the other, none of which has more than maxMessageSize when it is stored; a message that
 * is as large as the limit goes alone, and is refused when it is larger. timeout_ms is the deadline
 * of each batch. Stops at the first that fails; *stored (may be NULL) tells how many messages from
 * the first on were stored. Errors as rmq_producer_send_batch. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_all(rmq_producer *producer, const rmq_message *const *messages,
                                         size_t count, int64_t timeout_ms, size_t *stored,
                                         rmq_error **err);

/* Sends without waiting; done is called exactly once on the callback thread when RMQ_OK was
 * returned, and never otherwise. The message may be destroyed at once (a borrowed body must live
 * until done). Errors: RMQ_ERR_BUSY when the window is full, and the checks of rmq_producer_send.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_async(rmq_producer *producer, const rmq_message *message,
                                           rmq_send_fn done, void *user, rmq_error **err);

/* The same with options of its own (NULL = none). When a queue is to be chosen and no route is
 * known yet, the call waits for it. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_async_with(rmq_producer *producer, const rmq_message *message,
                                                const rmq_send_options *options, rmq_send_fn done,
                                                void *user, rmq_error **err);

/* A batch (see rmq_producer_send_batch) without waiting. It counts as one send with the bytes of
 * all bodies. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_batch_async(rmq_producer *producer,
                                                 const rmq_message *const *messages, size_t count,
                                                 const rmq_send_options *options, rmq_send_fn done,
                                                 void *user, rmq_error **err);

/* The same, completed as an RMQ_EVENT_SENT with token. RMQ_ERR_STATE without an event queue. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_producer_send_batch_event(rmq_producer *producer,
                                                 const rmq_message *const *messages, size_t count,
                                                 const rmq_send_options *options, uint64_t token,
                                                 rmq_error **err);

/* A send without waiting, completed as an RMQ_EVENT_SENT with token in the producer's event queue.
 * RMQ_ERR_STATE without one. Errors otherwise as rmq_producer_send_async. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_event(rmq_producer *producer, const rmq_message *message,
                                           uint64_t token, rmq_error **err);

/* The same with options of its own (NULL = none). Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_event_with(rmq_producer *producer, const rmq_message *message,
                                                const rmq_send_options *options, uint64_t token,
                                                rmq_error **err);

/* Sends without an answer: RMQ_OK says only that the request was handed to a connection, or is kept
 * until there is one or sendMsgTimeout has passed; one that is dropped then, or at the shutdown, is
 * counted as failed in the statistics, and a line of the log says so. The first send to a topic
 * waits for its route up to sendMsgTimeout. Any thread. Errors: RMQ_ERR_BUSY (too much is not
 * written yet), and those of rmq_producer_send but RMQ_ERR_BROKER. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_oneway(rmq_producer *producer, const rmq_message *message,
                                            rmq_error **err);

/* The same with options of its own (NULL = none). Since 0.1.0. */
RMQ_API rmq_status rmq_producer_send_oneway_with(rmq_producer *producer, const rmq_message *message,
                                                 const rmq_send_options *options, rmq_error **err);

/* ---- transactions (TransactionMQProducer) ---- */

/* The program's own part of a transaction, on the sending thread, once the half message is stored:
 * what it did is what it returns. message is the one being sent, transaction_id its unique id, by
 * which a later question will name it. */
typedef rmq_transaction_state (*rmq_transaction_execute_fn)(const rmq_message *message,
                                                            const char *transaction_id, void *user);

/* Sends a message that consumers see only when the program's own part has succeeded: stores a half
 * message (as rmq_producer_send, with its retries; a delay is left out), calls execute, and tells
 * the broker. *state (may be NULL) is what execute returned; ROLLBACK without calling it when the
 * broker stored the half message without the safety asked for (status of the result is not
 * RMQ_SEND_OK). timeout_ms counts for the half message; telling the broker has sendMsgTimeout of
 * its own. Outcomes:
 *   error and *result NULL: no half message, or maybe one (rmq_error_maybe_stored): execute was not
 *   called. The broker asks about one that is there. error and *result set: execute was called, the
 *   broker has not confirmed its result (RMQ_ERR_TIMEOUT, RMQ_ERR_DISCONNECTED, RMQ_ERR_CONNECT,
 *   RMQ_ERR_NO_BROKER, RMQ_ERR_BROKER): it may know it all the same, or asks. Nothing is to be
 *   repeated: the answer to its question decides. RMQ_OK: the broker knows, or execute returned
 *   UNKNOWN, and the broker asks.
 * A send that was tried twice may leave a second half message with the same id; the broker asks
 * about that one, too. Any thread that may block. Errors otherwise as rmq_producer_send. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_producer_send_in_transaction(rmq_producer *producer,
                                                    const rmq_message *message,
                                                    rmq_transaction_execute_fn execute, void *user,
                                                    int64_t timeout_ms,
                                                    rmq_transaction_state *state,
                                                    rmq_send_result **result, rmq_error **err);

/* The same in steps, without a callback: stores the half message; the caller does its own part,
 * ends the transaction, and destroys it before the producer. Look at the status of its result
 * first: anything but RMQ_SEND_OK should be rolled back. Errors as rmq_producer_send. Since
 * 0.1.0. */
typedef struct rmq_transaction rmq_transaction;
RMQ_API rmq_status rmq_producer_prepare_transaction(rmq_producer *producer,
                                                    const rmq_message *message, int64_t timeout_ms,
                                                    rmq_transaction **out, rmq_error **err);
/* borrowed until destroyed */
RMQ_API const char *rmq_transaction_id(const rmq_transaction *transaction);
/* likewise */
RMQ_API const rmq_send_result *rmq_transaction_result(const rmq_transaction *transaction);

/* Tells the broker how it went and waits for its confirmation, at most sendMsgTimeout. UNKNOWN
 * tells nothing: the broker asks. After an error the broker may know or will ask, as above.
 * RMQ_ERR_STATE when it has ended already. One thread at a time. Since 0.1.0. */
RMQ_API rmq_status rmq_transaction_end(rmq_transaction *transaction, rmq_transaction_state state,
                                       rmq_error **err);
/* not ended counts as UNKNOWN; NULL is accepted */
RMQ_API void rmq_transaction_destroy(rmq_transaction *transaction);

/* Answers an RMQ_EVENT_CHECK_TRANSACTION of this producer, before the event is destroyed; without
 * waiting. An event destroyed without answer counts as UNKNOWN. Any thread. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_STATE (answered already), RMQ_ERR_CLOSED, RMQ_ERR_DISCONNECTED,
 * RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_answer_check(rmq_producer *producer, rmq_event *event,
                                             rmq_transaction_state state, rmq_error **err);

/* Switches the message trace on or off, at any time; enableMsgTrace does so at creation. Records
 * wait for up to 5 s to be sent in one message; at most 2048 wait for the broker, more are dropped
 * and counted. Errors: RMQ_ERR_INVALID (a customizedTraceTopic that no topic can be),
 * RMQ_ERR_CLOSED, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_set_trace(rmq_producer *producer, bool on, rmq_error **err);

/* Trace records whose message was stored, and those that were dropped or lost; either may be NULL.
 * Since 0.1.0. */
RMQ_API void rmq_producer_trace_counts(const rmq_producer *producer, uint64_t *sent,
                                       uint64_t *dropped);

/* Fills defaults; size is sizeof(rmq_send_hook) as the program knows it. Since 0.1.0. */
RMQ_API void rmq_send_hook_init(rmq_send_hook *hook, size_t size);

/* Adds a hook behind those that are there; sends that begin from now on run it. It stays until the
 * producer is destroyed. Counterparts: registerSendMessageHook, registerCheckForbiddenHook. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM, RMQ_ERR_CLOSED. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_add_send_hook(rmq_producer *producer, const rmq_send_hook *hook,
                                              rmq_error **err);

/* Inside a hook. Everything is borrowed for the call. message is NULL in after: the program may
 * have destroyed it. result and error are those of the completion, in after only; both are NULL for
 * a one-way send that was handed over. put_property adds a property to the message, or to each of a
 * batch, as it goes out, in before only (else RMQ_ERR_STATE; RMQ_ERR_INVALID as of
 * rmq_message_set_property, RMQ_ERR_NOMEM). data is a pointer of the hook's own, kept from its
 * before to its after. Since 0.1.0. */
RMQ_API const char *rmq_send_context_topic(const rmq_send_context *context);
RMQ_API const char *rmq_send_context_group(const rmq_send_context *context);
RMQ_API rmq_send_mode rmq_send_context_mode(const rmq_send_context *context);
RMQ_API size_t rmq_send_context_count(const rmq_send_context *context);
RMQ_API const rmq_message *rmq_send_context_message(const rmq_send_context *context, size_t index);
RMQ_API const rmq_send_result *rmq_send_context_result(const rmq_send_context *context);
RMQ_API const rmq_error *rmq_send_context_error(const rmq_send_context *context);
RMQ_API rmq_status rmq_send_context_put_property(rmq_send_context *context, const char *name,
                                                 const char *value);
RMQ_API void rmq_send_context_set_data(rmq_send_context *context, void *data);
RMQ_API void *rmq_send_context_data(const rmq_send_context *context);

/* What the producer has done since it was created, as one line of JSON, freed with rmq_string_free:
 * group, clientId, sends, messages, bytes (of bodies), stored, failed, maybeStored (of the failed),
 * cutOff (by shutdown), oneway (handed over), inFlight, retries, busy (refused: the window was
 * full), window and windowBytes (asynchronous sends under way), traceSent, traceDropped, and
 * brokers: for each broker name of which the client knows, its health and the histogram of answer
 * times in µs, shared by all producers of the client id. Errors: RMQ_ERR_CLOSED, RMQ_ERR_NOMEM.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_producer_stats(rmq_producer *producer, char **out, rmq_error **err);

/* Takes back a message that waits for its time, by the handle of its send's result. timeout_ms 0 =
 * sendMsgTimeout. A broker takes it only with recallMessageEnable. RMQ_OK from a Java broker says
 * that the recall was noted, from ours that the message is gone. Any thread that may block. Errors:
 * RMQ_ERR_INVALID (handle), RMQ_ERR_BROKER (code 604: too late, 16: not enabled, 2: not yet, try
 * again), RMQ_ERR_NO_BROKER, RMQ_ERR_NO_ROUTE, RMQ_ERR_TIMEOUT, RMQ_ERR_CONNECT,
 * RMQ_ERR_DISCONNECTED, RMQ_ERR_CLOSED. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_recall(rmq_producer *producer, const char *topic,
                                       const char *recall_handle, int64_t timeout_ms,
                                       rmq_error **err);

/* ---- requests and replies (DefaultMQProducer.request, MessageUtil) ---- */

/* Called once per accepted rmq_producer_request_async, on the callback thread, as rmq_send_fn.
 * Exactly one of reply and err is not NULL; both are borrowed for the call (rmq_message_view_retain
 * keeps the reply). */
typedef void (*rmq_request_fn)(const rmq_message_view *reply, const rmq_error *err, void *user);

/* Sends a message and waits for the reply of a consumer that answers it. timeout_ms is the deadline
 * for both together; 0 = sendMsgTimeout. *reply is the caller's on RMQ_OK and freed by
 * rmq_message_view_release. The message is not changed; a borrowed body must live until the call
 * returns. Any thread but a callback. Errors: RMQ_ERR_TIMEOUT (no reply in time; the consumer may
 * have done its work), RMQ_ERR_CLOSED, RMQ_ERR_STATE (on the callback thread), and those of
 * rmq_producer_send. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_request(rmq_producer *producer, const rmq_message *message,
                                        int64_t timeout_ms, const rmq_message_view **reply,
                                        rmq_error **err);

/* The same without waiting; done is called exactly once when RMQ_OK was returned, and never
 * otherwise. A borrowed body must live until then. The first request to a topic waits for its
 * route. Errors as rmq_producer_send_async. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_request_async(rmq_producer *producer, const rmq_message *message,
                                              int64_t timeout_ms, rmq_request_fn done, void *user,
                                              rmq_error **err);

/* The same, completed as an RMQ_EVENT_REPLY with token in the producer's event queue. RMQ_ERR_STATE
 * without one. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_request_event(rmq_producer *producer, const rmq_message *message,
                                              int64_t timeout_ms, uint64_t token, rmq_error **err);

/* For consumers of requests: sends a reply with this body (1 byte or more, copied) and waits until
 * the requester has it. timeout_ms 0 = sendMsgTimeout; the broker that had the request is given
 * half of it while another one could take the reply. Any thread that may block, a listener too.
 * Errors: RMQ_ERR_INVALID (the message is no request), RMQ_ERR_BROKER with code 1 (the requester is
 * gone), and those of rmq_producer_send. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_reply(rmq_producer *producer, const rmq_message_view *request,
                                      const void *body, size_t size, int64_t timeout_ms,
                                      rmq_error **err);

/* Stops taking sends, waits up to timeout_ms (0 = 3000) for those in flight, completes the rest
 * with RMQ_ERR_CLOSED, and leaves the brokers. Such a send is not stored, and never will be, unless
 * rmq_error_maybe_stored says so of its error: one that still waits for a connection is taken back.
 * May be called twice, from any thread, from a callback. When it has returned (outside a callback),
 * no callback starts any more: it waits for one that runs, of any client, however long that takes.
 * Errors: RMQ_ERR_TIMEOUT when sends had to be cut off, RMQ_ERR_STATE in a selector, a choice, or a
 * hook that runs before a send. Since 0.1.0. */
RMQ_API rmq_status rmq_producer_shutdown(rmq_producer *producer, int64_t timeout_ms,
                                         rmq_error **err);

/* Frees the producer, shutting it down first if that was not done. Not from a callback. NULL is
 * accepted. Since 0.1.0. */
RMQ_API void rmq_producer_destroy(rmq_producer *producer);

/* Result of a send; text is borrowed until it is destroyed. Since 0.1.0. */
RMQ_API rmq_send_status rmq_send_result_status(const rmq_send_result *result);
RMQ_API const char *rmq_send_result_status_name(const rmq_send_result *result); /* "SEND_OK" */
/* unique id, or ids of a batch */
RMQ_API const char *rmq_send_result_msg_id(const rmq_send_result *result);
RMQ_API const char *rmq_send_result_offset_msg_id(const rmq_send_result *result);
RMQ_API const char *rmq_send_result_topic(const rmq_send_result *result);
RMQ_API const char *rmq_send_result_broker_name(const rmq_send_result *result);
/* "" unless it waits for its time at a broker of 5.x */
RMQ_API const char *rmq_send_result_recall_handle(const rmq_send_result *result);
RMQ_API int32_t rmq_send_result_queue_id(const rmq_send_result *result);
RMQ_API int64_t rmq_send_result_queue_offset(const rmq_send_result *result);
RMQ_API void rmq_send_result_destroy(rmq_send_result *result);

RMQ_END_DECLS

#endif

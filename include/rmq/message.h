/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Messages: rmq_message is what a producer builds and sends; rmq_message_view is what a consumer
 * gets, a decoded look into the broker's answer without a copy. A message belongs to one thread at
 * a time; a view may be read by any thread while it is valid.
 */
#ifndef RMQ_MESSAGE_H
#define RMQ_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>
#include <rmq/export.h>

typedef struct rmq_message rmq_message;
typedef struct rmq_message_view rmq_message_view;

RMQ_BEGIN_DECLS

/* Creates a message for a topic (copied; 1 to 127 characters of A-Z a-z 0-9 % | _ -). The caller
 * destroys it. Errors: RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_create(const char *topic, rmq_message **out, rmq_error **err);

/* Sets the one tag of the message (property TAGS). Copied; "" removes it. Errors: RMQ_ERR_INVALID
 * for bytes 1 or 2 in it, RMQ_ERR_TOO_LARGE, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_set_tag(rmq_message *message, const char *tag);

/* Adds a key by which the message can be found (property KEYS; keys are separated by one blank, so
 * a key must not hold one). Copied. Errors: RMQ_ERR_INVALID, RMQ_ERR_TOO_LARGE, RMQ_ERR_NOMEM.
 * Since 0.1.0. */
RMQ_API rmq_status rmq_message_add_key(rmq_message *message, const char *key);

/* Sets a property of the user's. Names that RocketMQ reserves, empty names and values, and bytes 1
 * and 2 are refused. Copied. A message takes 64 KiB of properties; brokers take half of it, which a
 * send checks. Errors: RMQ_ERR_INVALID, RMQ_ERR_TOO_LARGE, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_set_property(rmq_message *message, const char *name,
                                            const char *value);

/* Sets the message group (property __SHARDINGKEY): messages of a group go to one queue, chosen by
 * the hash of the group unless the send says otherwise, and are consumed in order by orderly
 * consumers and by 5.x FIFO consumers. Copied; "" removes it. Errors: RMQ_ERR_INVALID,
 * RMQ_ERR_TOO_LARGE, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_set_message_group(rmq_message *message, const char *group);

/* Delay level 1 … 18 (1s 5s 10s 30s 1m … 2h with the default table of a broker); 0 = none. Errors:
 * RMQ_ERR_INVALID. Since 0.1.0. */
RMQ_API rmq_status rmq_message_set_delay_level(rmq_message *message, int level);

/* To be delivered when so many ms have passed since the broker has it, or at a time in ms since
 * 1970; 0 = at once. For brokers of 5.x, at most 3 days ahead unless configured otherwise; a delay
 * level goes before. The later call counts. Not in batches. Errors: RMQ_ERR_INVALID (negative),
 * RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_set_delay_time_ms(rmq_message *message, int64_t delay_ms);
RMQ_API rmq_status rmq_message_set_deliver_time_ms(rmq_message *message, int64_t time_ms);

/* The user's own flag, carried unchanged. Since 0.1.0. */
RMQ_API void rmq_message_set_flag(rmq_message *message, int32_t flag);

/* Whether the broker's answer waits for its disk and slave as the broker is configured (default
 * true). Since 0.1.0. */
RMQ_API void rmq_message_set_wait_store_ok(rmq_message *message, bool wait);

/* Body, copied. An empty one can be set, and is refused by sends. Errors: RMQ_ERR_INVALID,
 * RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_copy_body(rmq_message *message, const void *data, size_t size);

/* Body, borrowed: data stays valid and unchanged until the message is destroyed or given another
 * body, and until every send of it has completed. Errors: RMQ_ERR_INVALID. Since 0.1.0. */
RMQ_API rmq_status rmq_message_borrow_body(rmq_message *message, const void *data, size_t size);

/* Body, taken: on RMQ_OK the message frees data with free_fn(data, user) when it is done with it,
 * on any thread (free_fn NULL: nobody is told); on an error it is still the caller's. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_take_body(rmq_message *message, void *data, size_t size,
                                         void (*free_fn)(void *data, void *user), void *user);

/* What was set, borrowed until the next change; "" when absent, never NULL. Since 0.1.0. */
RMQ_API const char *rmq_message_topic(const rmq_message *message);
RMQ_API const char *rmq_message_tag(const rmq_message *message);
RMQ_API const char *rmq_message_keys(const rmq_message *message);
RMQ_API const char *rmq_message_property(const rmq_message *message, const char *name);
RMQ_API const void *rmq_message_body(const rmq_message *message, size_t *size);

/* The message that answers a request (rmq_producer_request): its topic, and the properties that
 * lead it back. Give it a body and send it with any producer, or use rmq_producer_reply. The caller
 * destroys it. Errors: RMQ_ERR_INVALID (the message is no request), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_message_create_reply(const rmq_message_view *request, rmq_message **out,
                                            rmq_error **err);

/* Frees the message. An asynchronous send that is still running keeps what it needs. NULL is
 * accepted. Since 0.1.0. */
RMQ_API void rmq_message_destroy(rmq_message *message);

/* Fields of a received message. Text is UTF-8, NUL-terminated, borrowed as long as the view lives;
 * "" when absent, never NULL. Behind the body there is a NUL, too, which *size (may be NULL) does
 * not count: a body that is text is one for C. Times are ms since 1970. Since 0.1.0. */
RMQ_API const char *rmq_message_view_topic(const rmq_message_view *view);
RMQ_API const char *rmq_message_view_tag(const rmq_message_view *view);
RMQ_API const char *rmq_message_view_keys(const rmq_message_view *view);
RMQ_API const char *rmq_message_view_property(const rmq_message_view *view, const char *name);
RMQ_API const void *rmq_message_view_body(const rmq_message_view *view, size_t *size);

/* Number of properties, and the i-th name and value; NULL beyond. Since 0.1.0. */
RMQ_API size_t rmq_message_view_property_count(const rmq_message_view *view);
RMQ_API const char *rmq_message_view_property_name(const rmq_message_view *view, size_t index);
RMQ_API const char *rmq_message_view_property_value(const rmq_message_view *view, size_t index);

/* The id a person sees: the producer's unique id, or the offset id when there is none. Since
 * 0.1.0. */
RMQ_API const char *rmq_message_view_id(const rmq_message_view *view);

/* The broker's offset message id: store host and commit-log offset as upper-case hex. Since
 * 0.1.0. */
RMQ_API const char *rmq_message_view_offset_id(const rmq_message_view *view);
RMQ_API const char *rmq_message_view_broker_name(const rmq_message_view *view);
RMQ_API const char *rmq_message_view_born_host(const rmq_message_view *view);  /* "ip:port" */
RMQ_API const char *rmq_message_view_store_host(const rmq_message_view *view); /* "ip:port" */
RMQ_API int32_t rmq_message_view_queue_id(const rmq_message_view *view);
RMQ_API int64_t rmq_message_view_queue_offset(const rmq_message_view *view);
RMQ_API int64_t rmq_message_view_commit_log_offset(const rmq_message_view *view);
RMQ_API int64_t rmq_message_view_born_timestamp_ms(const rmq_message_view *view);
RMQ_API int64_t rmq_message_view_store_timestamp_ms(const rmq_message_view *view);
RMQ_API int32_t rmq_message_view_reconsume_times(const rmq_message_view *view);
RMQ_API int32_t rmq_message_view_flag(const rmq_message_view *view);
RMQ_API int32_t rmq_message_view_sys_flag(const rmq_message_view *view);
RMQ_API int rmq_message_view_delay_level(const rmq_message_view *view);

/* Keeps one message longer than its batch; each retain needs a release. Any thread. Since 0.1.0. */
RMQ_API const rmq_message_view *rmq_message_view_retain(const rmq_message_view *view);
RMQ_API void rmq_message_view_release(const rmq_message_view *view);

RMQ_END_DECLS

#endif

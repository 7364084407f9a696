/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Lists of message queues, each named by topic, broker and queue id: what pull consumers hand out
 * and take. A list belongs to one thread at a time. Counterpart: MessageQueue.
 */
#ifndef RMQ_QUEUE_H
#define RMQ_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <rmq/error.h>
#include <rmq/export.h>

typedef struct rmq_queue_list rmq_queue_list;

/* Told on the callback thread when the queues of a topic were shared out anew: all its readable
 * queues, and those that are this consumer's. Both are borrowed for the call. It may call the
 * consumer, but neither its shutdown nor its destroy. */
typedef void (*rmq_queues_changed_fn)(const char *topic, const rmq_queue_list *all,
                                      const rmq_queue_list *mine, void *user);

RMQ_BEGIN_DECLS

/* Creates an empty list. The caller destroys it. Errors: RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since
 * 0.1.0. */
RMQ_API rmq_status rmq_queue_list_create(rmq_queue_list **out, rmq_error **err);

/* Adds a queue; texts are copied. Errors: RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_queue_list_add(rmq_queue_list *list, const char *topic,
                                      const char *broker_name, int32_t queue_id, rmq_error **err);

/* The queues, index 0 … count-1; beyond: NULL and -1. Texts are borrowed until the list is
 * destroyed. Since 0.1.0. */
RMQ_API size_t rmq_queue_list_count(const rmq_queue_list *list);
RMQ_API const char *rmq_queue_list_topic(const rmq_queue_list *list, size_t index);
RMQ_API const char *rmq_queue_list_broker_name(const rmq_queue_list *list, size_t index);
RMQ_API int32_t rmq_queue_list_queue_id(const rmq_queue_list *list, size_t index);

/* Frees the list. NULL is accepted. Since 0.1.0. */
RMQ_API void rmq_queue_list_destroy(rmq_queue_list *list);

RMQ_END_DECLS

#endif

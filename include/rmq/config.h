/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Options as strings, for FFI, command line and environment: the same tables, checks and defaults
 * as the options structs. Keys are the Java client's own names ("sendMsgTimeout"). Not thread-safe;
 * one thread at a time.
 */
#ifndef RMQ_CONFIG_H
#define RMQ_CONFIG_H

#include <stddef.h>

#include <rmq/error.h>
#include <rmq/events.h>
#include <rmq/export.h>

typedef enum rmq_config_kind {
    RMQ_CONFIG_PRODUCER = 1,
    RMQ_CONFIG_CONSUMER = 2,
    RMQ_CONFIG_PULL_CONSUMER = 3,
    RMQ_CONFIG_LITE_PULL_CONSUMER = 4,
    RMQ_CONFIG_POP_CONSUMER = 5
} rmq_config_kind;

typedef struct rmq_config rmq_config;
typedef struct rmq_config_field rmq_config_field;

RMQ_BEGIN_DECLS

/* Creates a configuration with all defaults. The caller destroys it; producers and consumers copy
 * what they need. Errors: RMQ_ERR_INVALID (kind), RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_config_create(rmq_config_kind kind, rmq_config **out, rmq_error **err);

/* Sets one option from text. An unknown key is an error that names the nearest known one; a value
 * out of range, or none of the words that it may be, names those. What depends on others, and names
 * of groups and addresses, are checked when a handle is created. key and value are copied. Errors:
 * RMQ_ERR_INVALID, RMQ_ERR_NOMEM. Since 0.1.0. */
RMQ_API rmq_status rmq_config_set(rmq_config *config, const char *key, const char *value,
                                  rmq_error **err);

/* Sets several: "key=value;key=value". A ';' inside a value is written "\\;". Stops at the first
 * error; those before it are set. Errors as rmq_config_set. Since 0.1.0. */
RMQ_API rmq_status rmq_config_parse(rmq_config *config, const char *text, rmq_error **err);

/* The event queue of the producer, push or lite pull consumer that is made of it, which is no text.
 * Borrowed: it must outlive what posts to it; NULL = none. Errors: RMQ_ERR_INVALID (a kind that
 * posts no events). Since 0.1.0. */
RMQ_API rmq_status rmq_config_set_events(rmq_config *config, rmq_events *events, rmq_error **err);

/* Value of an option as text, borrowed until the next call with the same config; NULL for an
 * unknown key. Since 0.1.0. */
RMQ_API const char *rmq_config_get(rmq_config *config, const char *key);

/* Frees the configuration. NULL is accepted. Since 0.1.0. */
RMQ_API void rmq_config_destroy(rmq_config *config);

/* The option table itself, for documentation and wrappers: field index 0 … count-1, NULL beyond.
 * All strings are static. Any thread. Since 0.1.0. */
RMQ_API size_t rmq_config_field_count(rmq_config_kind kind);
RMQ_API const rmq_config_field *rmq_config_field_at(rmq_config_kind kind, size_t index);
RMQ_API const char *rmq_config_field_name(const rmq_config_field *field);
RMQ_API const char *rmq_config_field_type(const rmq_config_field *field);
RMQ_API const char *rmq_config_field_default(const rmq_config_field *field);
RMQ_API const char *rmq_config_field_range(const rmq_config_field *field);
RMQ_API const char *rmq_config_field_help(const rmq_config_field *field);

RMQ_END_DECLS

#endif

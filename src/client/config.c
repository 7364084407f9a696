/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * rmq_config: options as text over the same tables as the options structs. One thread at a time.
 */
#include <rmq/config.h>

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "client/options.h"

#define CONFIG_TEXT_MAX ((size_t)1 << 20)

struct rmq_config {
    rmq_config_kind kind;
    const struct rq_table *table;
    union options {
        rmq_producer_options producer;
        rmq_consumer_options consumer;
        rmq_pull_consumer_options pull;
        rmq_lite_pull_consumer_options lite;
        rmq_pop_consumer_options pop;
    } options;
    struct rq_buf text; /* of the last rmq_config_get */
};

static const struct rq_table *table_of(rmq_config_kind kind)
{
    switch ((int)kind) {
    case RMQ_CONFIG_PRODUCER:
        return &rq_producer_table;
    case RMQ_CONFIG_CONSUMER:
        return &rq_consumer_table;
    case RMQ_CONFIG_PULL_CONSUMER:
        return &rq_pull_consumer_table;
    case RMQ_CONFIG_LITE_PULL_CONSUMER:
        return &rq_lite_pull_consumer_table;
    case RMQ_CONFIG_POP_CONSUMER:
        return &rq_pop_consumer_table;
    default:
        return NULL;
    }
}

/* All option structs begin with their size; the table gives the rest. */
static rmq_status fill_defaults(struct rmq_config *config)
{
    union options defaults = {.producer.struct_size = config->table->struct_size};
    rq_table_defaults(config->table, &defaults);
    return rq_table_copy(config->table, &config->options, &defaults);
}

rmq_status rmq_config_create(rmq_config_kind kind, rmq_config **out, rmq_error **err)
{
    const struct rq_table *table = table_of(kind);
    if (!table || !out) {
        return rq_error_set(err, RMQ_ERR_INVALID, "configuration kind %d is not known", (int)kind);
    }
    struct rmq_config *config = rq_calloc(1, sizeof *config);
    if (!config) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "configuration");
    }
    config->kind = kind;
    config->table = table;
    rq_buf_init(&config->text, CONFIG_TEXT_MAX);
    if (fill_defaults(config) != RMQ_OK) {
        rq_free(config);
        return rq_error_set(err, RMQ_ERR_NOMEM, "configuration");
    }
    *out = config;
    return RMQ_OK;
}

rmq_status rmq_config_set(rmq_config *config, const char *key, const char *value, rmq_error **err)
{
    if (!config || !key || !value) {
        return rq_error_set(err, RMQ_ERR_INVALID, "configuration: key and value are required");
    }
    return rq_table_set(config->table, &config->options, key, value, err);
}

rmq_status rmq_config_set_events(rmq_config *config, rmq_events *events, rmq_error **err)
{
    switch (config ? (int)config->kind : 0) {
    case RMQ_CONFIG_PRODUCER:
        config->options.producer.events = events;
        return RMQ_OK;
    case RMQ_CONFIG_CONSUMER:
        config->options.consumer.events = events;
        return RMQ_OK;
    case RMQ_CONFIG_LITE_PULL_CONSUMER:
        config->options.lite.events = events;
        return RMQ_OK;
    default:
        return rq_error_set(err, RMQ_ERR_INVALID,
                            "events are those of a producer, a push or a lite pull consumer");
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char *trim(char *text)
{
    while (is_space(*text)) {
        text++;
    }
    size_t n = strlen(text);
    while (n > 0 && is_space(text[n - 1])) {
        text[--n] = '\0';
    }
    return text;
}

/* Cuts the next item off, "\;" becoming ";". Returns what follows it, NULL at the end. */
static char *cut_item(char *text)
{
    char *to = text;
    for (char *from = text; *from; from++) {
        if (from[0] == '\\' && from[1] == ';') {
            *to++ = ';';
            from++;
        } else if (*from == ';') {
            *to = '\0';
            return from + 1;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return NULL;
}

rmq_status rmq_config_parse(rmq_config *config, const char *text, rmq_error **err)
{
    if (!config || !text) {
        return rq_error_set(err, RMQ_ERR_INVALID, "configuration: text is required");
    }
    char *copy = rq_strdup(text);
    if (!copy) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "configuration text");
    }
    rmq_status st = RMQ_OK;
    for (char *item = copy, *next; item && st == RMQ_OK; item = next) {
        next = cut_item(item);
        char *key = trim(item);
        if (!*key) {
            continue;
        }
        char *equals = strchr(key, '=');
        if (!equals) {
            st = rq_error_set(err, RMQ_ERR_INVALID,
                              "configuration: \"%s\" is not key=value; a ; within a value is "
                              "written \\;",
                              key);
            break;
        }
        *equals = '\0';
        st = rmq_config_set(config, trim(key), trim(equals + 1), err);
    }
    rq_free(copy);
    return st;
}

const char *rmq_config_get(rmq_config *config, const char *key)
{
    const struct rq_option *option = config && key ? rq_table_find(config->table, key) : NULL;
    if (!option) {
        return NULL;
    }
    rq_buf_clear(&config->text);
    rq_table_value_text(option, &config->options, &config->text);
    return rq_buf_cstr(&config->text);
}

void rmq_config_destroy(rmq_config *config)
{
    if (config) {
        rq_table_free(config->table, &config->options);
        rq_buf_free(&config->text);
        rq_free(config);
    }
}

const rmq_producer_options *rq_config_producer(const rmq_config *config)
{
    return config && config->kind == RMQ_CONFIG_PRODUCER ? &config->options.producer : NULL;
}

const rmq_consumer_options *rq_config_consumer(const rmq_config *config)
{
    return config && config->kind == RMQ_CONFIG_CONSUMER ? &config->options.consumer : NULL;
}

const rmq_pull_consumer_options *rq_config_pull_consumer(const rmq_config *config)
{
    return config && config->kind == RMQ_CONFIG_PULL_CONSUMER ? &config->options.pull : NULL;
}

const rmq_pop_consumer_options *rq_config_pop_consumer(const rmq_config *config)
{
    return config && config->kind == RMQ_CONFIG_POP_CONSUMER ? &config->options.pop : NULL;
}

const rmq_lite_pull_consumer_options *rq_config_lite_pull_consumer(const rmq_config *config)
{
    return config && config->kind == RMQ_CONFIG_LITE_PULL_CONSUMER ? &config->options.lite : NULL;
}

/* ---- the table itself: a public field is a row ---- */

static const struct rq_option *row_of(const rmq_config_field *field)
{
    return (const struct rq_option *)(const void *)field;
}

size_t rmq_config_field_count(rmq_config_kind kind)
{
    const struct rq_table *table = table_of(kind);
    return table ? table->count : 0;
}

const rmq_config_field *rmq_config_field_at(rmq_config_kind kind, size_t index)
{
    const struct rq_table *table = table_of(kind);
    return table && index < table->count
               ? (const rmq_config_field *)(const void *)&table->options[index]
               : NULL;
}

const char *rmq_config_field_name(const rmq_config_field *field)
{
    return field ? row_of(field)->name : "";
}

const char *rmq_config_field_type(const rmq_config_field *field)
{
    return field ? rq_option_type_name(row_of(field)->type) : "";
}

const char *rmq_config_field_default(const rmq_config_field *field)
{
    const char *def = field ? row_of(field)->def : NULL;
    return def ? def : "";
}

const char *rmq_config_field_range(const rmq_config_field *field)
{
    const char *range = field ? row_of(field)->range : NULL;
    return range ? range : "";
}

const char *rmq_config_field_help(const rmq_config_field *field)
{
    return field ? row_of(field)->help : "";
}

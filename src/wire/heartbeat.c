/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The heartbeat body, written by clients and parsed by brokers. Pure functions, any thread. */
#include "wire/heartbeat.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

static const char *const type_names[] = {"CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"};
static const char *const model_names[] = {"CLUSTERING", "BROADCASTING"};
static const char *const from_names[] = {"CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET",
                                         "CONSUME_FROM_TIMESTAMP"};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Index of name, 0 when it is none. */
static size_t index_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(name, list[i]) == 0) {
            return i;
        }
    }
    return 0;
}

const char *rq_consume_type_name(enum rq_consume_type type)
{
    return type_names[type];
}

const char *rq_message_model_name(enum rq_message_model model)
{
    return model_names[model];
}

const char *rq_consume_from_name(enum rq_consume_from from)
{
    return from_names[from];
}

enum rq_consume_type rq_consume_type_of(const char *name)
{
    return (enum rq_consume_type)index_of(name, type_names, COUNT(type_names));
}

enum rq_message_model rq_message_model_of(const char *name)
{
    return (enum rq_message_model)index_of(name, model_names, COUNT(model_names));
}

enum rq_consume_from rq_consume_from_of(const char *name)
{
    return (enum rq_consume_from)index_of(name, from_names, COUNT(from_names));
}

static size_t array_size(const cJSON *array)
{
    return cJSON_IsArray(array) ? (size_t)cJSON_GetArraySize(array) : 0;
}

static rmq_status parse_subscriptions(const cJSON *json, struct rq_consumer_data *consumer, rmq_error **err)
{
    const cJSON *list = rq_json_get(json, "subscriptionDataSet");
    size_t n = array_size(list);
    consumer->subscriptions = rq_calloc(n ? n : 1, sizeof *consumer->subscriptions);
    if (!consumer->subscriptions) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "heartbeat: out of memory");
    }
    const cJSON *item = NULL;
    if (n == 0) {
        return RMQ_OK;
    }
    cJSON_ArrayForEach(item, list)
    {
        rmq_status st =
            rq_subscription_parse(item, &consumer->subscriptions[consumer->subscription_count], err);
        if (st) {
            return st;
        }
        consumer->subscription_count++;
    }
    return RMQ_OK;
}

static rmq_status parse_consumers(struct rq_heartbeat *out, rmq_error **err)
{
    const cJSON *list = rq_json_get(out->json, "consumerDataSet");
    size_t n = array_size(list);
    out->consumers = rq_calloc(n ? n : 1, sizeof *out->consumers);
    if (!out->consumers) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "heartbeat: out of memory");
    }
    const cJSON *item = NULL;
    if (n == 0) {
        return RMQ_OK;
    }
    cJSON_ArrayForEach(item, list)
    {
        struct rq_consumer_data *consumer = &out->consumers[out->consumer_count];
        consumer->group = rq_json_str(item, "groupName", NULL);
        if (!consumer->group) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "heartbeat of %s: a consumer without groupName",
                                out->client_id);
        }
        consumer->type = rq_consume_type_of(rq_json_str(item, "consumeType", NULL));
        consumer->model = rq_message_model_of(rq_json_str(item, "messageModel", NULL));
        consumer->from = rq_consume_from_of(rq_json_str(item, "consumeFromWhere", NULL));
        consumer->unit_mode = rq_json_bool(item, "unitMode", false);
        out->consumer_count++;
        rmq_status st = parse_subscriptions(item, consumer, err);
        if (st) {
            return st;
        }
    }
    return RMQ_OK;
}

static rmq_status parse_producers(struct rq_heartbeat *out, rmq_error **err)
{
    const cJSON *list = rq_json_get(out->json, "producerDataSet");
    size_t n = array_size(list);
    out->producers = rq_calloc(n ? n : 1, sizeof *out->producers);
    if (!out->producers) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "heartbeat: out of memory");
    }
    const cJSON *item = NULL;
    if (n == 0) {
        return RMQ_OK;
    }
    cJSON_ArrayForEach(item, list)
    {
        const char *group = rq_json_str(item, "groupName", NULL);
        if (group) {
            out->producers[out->producer_count++] = group;
        }
    }
    return RMQ_OK;
}

rmq_status rq_heartbeat_parse(struct rq_slice json, struct rq_heartbeat *out, rmq_error **err)
{
    *out = (struct rq_heartbeat){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (st) {
        return st;
    }
    out->client_id = rq_json_str(out->json, "clientID", NULL);
    out->fingerprint = rq_json_i32(out->json, "heartbeatFingerprint", 0);
    out->without_sub = rq_json_bool(out->json, "withoutSub", false);
    if (!out->client_id) {
        st = rq_error_set(err, RMQ_ERR_PROTOCOL, "heartbeat without clientID");
    }
    if (!st) {
        st = parse_producers(out, err);
    }
    if (!st) {
        st = parse_consumers(out, err);
    }
    if (st) {
        rq_heartbeat_clear(out);
    }
    return st;
}

void rq_heartbeat_clear(struct rq_heartbeat *heartbeat)
{
    for (size_t i = 0; i < heartbeat->consumer_count; i++) {
        struct rq_consumer_data *consumer = &heartbeat->consumers[i];
        for (size_t k = 0; k < consumer->subscription_count; k++) {
            rq_subscription_destroy(consumer->subscriptions[k]);
        }
        rq_free(consumer->subscriptions);
    }
    rq_free(heartbeat->consumers);
    rq_free(heartbeat->producers);
    rq_json_free(heartbeat->json);
    *heartbeat = (struct rq_heartbeat){0};
}

struct rq_subscription *rq_heartbeat_take_subscription(struct rq_consumer_data *consumer, size_t index)
{
    struct rq_subscription *sub = consumer->subscriptions[index];
    consumer->subscriptions[index] = NULL;
    return sub;
}

static void add_text(struct rq_buf *out, bool *first, const char *name, const char *value)
{
    rq_json_add_member(out, first, name);
    rq_json_add_string(out, rq_slice_str(value));
}

void rq_producer_data_write(const char *group, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    add_text(out, &first, "groupName", group);
    rq_buf_add_char(out, '}');
}

void rq_consumer_data_write(const struct rq_consumer_data *consumer, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    add_text(out, &first, "consumeFromWhere", rq_consume_from_name(consumer->from));
    add_text(out, &first, "consumeType", rq_consume_type_name(consumer->type));
    add_text(out, &first, "groupName", consumer->group);
    add_text(out, &first, "messageModel", rq_message_model_name(consumer->model));
    rq_json_add_member(out, &first, "subscriptionDataSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < consumer->subscription_count; i++) {
        if (i) {
            rq_buf_add_char(out, ',');
        }
        rq_subscription_write(consumer->subscriptions[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_json_add_member(out, &first, "unitMode");
    rq_buf_add_str(out, consumer->unit_mode ? "true" : "false");
    rq_buf_add_char(out, '}');
}

void rq_heartbeat_write(const struct rq_heartbeat *heartbeat, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    add_text(out, &first, "clientID", heartbeat->client_id);
    rq_json_add_member(out, &first, "consumerDataSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < heartbeat->consumer_count; i++) {
        if (i) {
            rq_buf_add_char(out, ',');
        }
        rq_consumer_data_write(&heartbeat->consumers[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_json_add_member(out, &first, "heartbeatFingerprint");
    rq_buf_add_i64(out, heartbeat->fingerprint);
    rq_json_add_member(out, &first, "producerDataSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < heartbeat->producer_count; i++) {
        if (i) {
            rq_buf_add_char(out, ',');
        }
        rq_producer_data_write(heartbeat->producers[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_json_add_member(out, &first, "withoutSub");
    rq_buf_add_str(out, heartbeat->without_sub ? "true" : "false");
    rq_buf_add_char(out, '}');
}

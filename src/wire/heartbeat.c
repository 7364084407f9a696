/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Heartbeats, written by clients every 30 s and parsed by brokers. Counterparts: HeartbeatData,
 * ConsumerData, ProducerData. */
#include "wire/heartbeat.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/body_priv.h"

static const char *const types[] = {"CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"};
static const char *const models[] = {"CLUSTERING", "BROADCASTING"};

/* The first three are written; the deprecated ones are read as what they mean today. */
static const struct {
    const char *name;
    enum rq_consume_from from;
} froms[] = {{"CONSUME_FROM_LAST_OFFSET", RQ_FROM_LAST_OFFSET},
             {"CONSUME_FROM_FIRST_OFFSET", RQ_FROM_FIRST_OFFSET},
             {"CONSUME_FROM_TIMESTAMP", RQ_FROM_TIMESTAMP},
             {"CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", RQ_FROM_LAST_OFFSET},
             {"CONSUME_FROM_MIN_OFFSET", RQ_FROM_LAST_OFFSET},
             {"CONSUME_FROM_MAX_OFFSET", RQ_FROM_LAST_OFFSET}};

static size_t find(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return 0;
}

const char *rq_consume_type_name(enum rq_consume_type type)
{
    return types[type];
}

const char *rq_message_model_name(enum rq_message_model model)
{
    return models[model];
}

const char *rq_consume_from_name(enum rq_consume_from from)
{
    return froms[from].name;
}

static enum rq_consume_type type_of(const char *name)
{
    return (enum rq_consume_type)find(name, types, sizeof types / sizeof types[0]);
}

static enum rq_message_model model_of(const char *name)
{
    return (enum rq_message_model)find(name, models, sizeof models / sizeof models[0]);
}

static enum rq_consume_from from_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof froms / sizeof froms[0]; i++) {
        if (strcmp(name, froms[i].name) == 0) {
            return froms[i].from;
        }
    }
    return RQ_FROM_LAST_OFFSET;
}

static rmq_status parse_consumer(const cJSON *json, struct rq_consumer_data *out, rmq_error **err)
{
    const cJSON *subs = rq_json_get(json, "subscriptionDataSet");
    *out = (struct rq_consumer_data){.group = rq_json_str(json, "groupName", ""),
                                     .type = type_of(rq_json_str(json, "consumeType", NULL)),
                                     .model = model_of(rq_json_str(json, "messageModel", NULL)),
                                     .from = from_of(rq_json_str(json, "consumeFromWhere", NULL)),
                                     .unit_mode = rq_json_bool(json, "unitMode", false)};
    size_t count = rq_body_count(subs);
    if (count > RQ_HEARTBEAT_TOPICS_MAX) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL,
                            "heartbeat: group %s subscribes %zu topics, the limit is %d",
                            out->group, count, RQ_HEARTBEAT_TOPICS_MAX);
    }
    rmq_status st =
        rq_body_array(count, sizeof(struct rq_subscription *), &out->subscriptions, err);
    for (const cJSON *item = rq_body_first(st ? NULL : subs); item; item = item->next) {
        st = rq_subscription_parse(item, &out->subscriptions[out->subscription_count], err);
        if (st) {
            return st;
        }
        out->subscription_count++;
    }
    return st;
}

static rmq_status parse_consumers(const cJSON *json, struct rq_heartbeat *out, rmq_error **err)
{
    rmq_status st =
        rq_body_array(rq_body_count(json), sizeof *out->consumers, &out->consumers, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        /* Counted before it is whole, so that clear frees what it has. */
        st = parse_consumer(item, &out->consumers[out->consumer_count++], err);
        if (st) {
            return st;
        }
    }
    return st;
}

static rmq_status parse_producers(const cJSON *json, struct rq_heartbeat *out, rmq_error **err)
{
    rmq_status st =
        rq_body_array(rq_body_count(json), sizeof *out->producers, &out->producers, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        const char *group = rq_json_str(item, "groupName", NULL);
        if (group) {
            out->producers[out->producer_count++] = group;
        }
    }
    return st;
}

rmq_status rq_heartbeat_parse(struct rq_slice json, struct rq_heartbeat *out, rmq_error **err)
{
    *out = (struct rq_heartbeat){0};
    rmq_status st = rq_body_open(json, "heartbeat", &out->json, err);
    if (st) {
        return st;
    }
    out->client_id = rq_json_str(out->json, "clientID", NULL);
    out->fingerprint = rq_json_i32(out->json, "heartbeatFingerprint", 0);
    out->without_sub = rq_json_bool(out->json, "withoutSub", false);
    if (!out->client_id) {
        st = rq_error_set(err, RMQ_ERR_PROTOCOL, "heartbeat without a client id");
    }
    if (st == RMQ_OK) {
        st = parse_producers(rq_json_get(out->json, "producerDataSet"), out, err);
    }
    if (st == RMQ_OK) {
        st = parse_consumers(rq_json_get(out->json, "consumerDataSet"), out, err);
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

struct rq_subscription *rq_heartbeat_take_subscription(struct rq_consumer_data *consumer,
                                                       size_t index)
{
    struct rq_subscription *sub = consumer->subscriptions[index];
    consumer->subscriptions[index] = NULL;
    return sub;
}

void rq_consumer_data_write(const struct rq_consumer_data *consumer, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "consumeFromWhere", rq_consume_from_name(consumer->from));
    rq_body_add_text(out, &first, "consumeType", rq_consume_type_name(consumer->type));
    rq_body_add_text(out, &first, "groupName", consumer->group);
    rq_body_add_text(out, &first, "messageModel", rq_message_model_name(consumer->model));
    rq_json_add_member(out, &first, "subscriptionDataSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < consumer->subscription_count; i++) {
        rq_body_next(out, i);
        rq_subscription_write(consumer->subscriptions[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_body_add_bool(out, &first, "unitMode", consumer->unit_mode);
    rq_buf_add_char(out, '}');
}

void rq_producer_data_write(const char *group, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "groupName", group);
    rq_buf_add_char(out, '}');
}

void rq_heartbeat_write(const struct rq_heartbeat *heartbeat, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "clientID", heartbeat->client_id);
    rq_json_add_member(out, &first, "consumerDataSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < heartbeat->consumer_count; i++) {
        rq_body_next(out, i);
        rq_consumer_data_write(&heartbeat->consumers[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_body_add_i64(out, &first, "heartbeatFingerprint", heartbeat->fingerprint);
    rq_json_add_member(out, &first, "producerDataSet");
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < heartbeat->producer_count; i++) {
        rq_body_next(out, i);
        rq_producer_data_write(heartbeat->producers[i], out);
    }
    rq_buf_add_char(out, ']');
    rq_body_add_bool(out, &first, "withoutSub", heartbeat->without_sub);
    rq_buf_add_char(out, '}');
}

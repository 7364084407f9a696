/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies about message queues: locks, and tables with a queue as the key. Java writes such a key as
 * a bare object; base/json.h turns it into text, which is parsed once more here. Counterparts:
 * LockBatchRequestBody, TopicStatsTable, ConsumeStats, ResetOffsetBody.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/bodies.h"
#include "wire/body_priv.h"

void rq_mq_write(const struct rq_mq *mq, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "brokerName", mq->broker_name);
    rq_body_add_i64(out, &first, "queueId", mq->queue_id);
    rq_body_add_text(out, &first, "topic", mq->topic);
    rq_buf_add_char(out, '}');
}

/* Borrows from json. */
static rmq_status parse_mq(const cJSON *json, struct rq_mq *out, rmq_error **err)
{
    *out = (struct rq_mq){.topic = rq_json_str(json, "topic", NULL),
                          .broker_name = rq_json_str(json, "brokerName", NULL),
                          .queue_id = rq_json_i32(json, "queueId", -1)};
    if (!out->topic || !out->broker_name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "message queue without topic or broker name");
    }
    return RMQ_OK;
}

/* ---- locks ---- */

static rmq_status parse_queues(const cJSON *json, struct rq_lock_body *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->queues, &out->queues, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        st = parse_mq(item, &out->queues[out->queue_count], err);
        if (st) {
            return st;
        }
        out->queue_count++;
    }
    return st;
}

static rmq_status parse_lock(struct rq_slice json, const char *set, struct rq_lock_body *out,
                             rmq_error **err)
{
    *out = (struct rq_lock_body){0};
    rmq_status st = rq_body_open(json, "queue lock", &out->json, err);
    if (st == RMQ_OK) {
        out->consumer_group = rq_json_str(out->json, "consumerGroup", "");
        out->client_id = rq_json_str(out->json, "clientId", "");
        out->only_this_broker = rq_json_bool(out->json, "onlyThisBroker", false);
        st = parse_queues(rq_json_get(out->json, set), out, err);
    }
    if (st) {
        rq_lock_body_clear(out);
    }
    return st;
}

rmq_status rq_lock_body_parse(struct rq_slice json, struct rq_lock_body *out, rmq_error **err)
{
    return parse_lock(json, "mqSet", out, err);
}

rmq_status rq_lock_answer_parse(struct rq_slice json, struct rq_lock_body *out, rmq_error **err)
{
    return parse_lock(json, "lockOKMQSet", out, err);
}

static void write_queues(const struct rq_mq *queues, size_t count, struct rq_buf *out)
{
    rq_buf_add_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        rq_body_next(out, i);
        rq_mq_write(&queues[i], out);
    }
    rq_buf_add_char(out, ']');
}

void rq_lock_body_write(const struct rq_lock_body *body, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "clientId", body->client_id);
    rq_body_add_text(out, &first, "consumerGroup", body->consumer_group);
    rq_json_add_member(out, &first, "mqSet");
    write_queues(body->queues, body->queue_count, out);
    rq_body_add_bool(out, &first, "onlyThisBroker", body->only_this_broker);
    rq_buf_add_char(out, '}');
}

void rq_lock_answer_write(const struct rq_mq *queues, size_t count, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"lockOKMQSet\":");
    write_queues(queues, count, out);
    rq_buf_add_char(out, '}');
}

void rq_lock_body_clear(struct rq_lock_body *body)
{
    rq_free(body->queues);
    rq_json_free(body->json);
    *body = (struct rq_lock_body){0};
}

/* ---- assignments ---- */

static rmq_status parse_assignments(const cJSON *json, struct rq_assignments *out, rmq_error **err)
{
    size_t count = rq_body_count(json);
    rmq_status st = rq_body_array(count, sizeof *out->queues, &out->queues, err);
    if (st == RMQ_OK) {
        st = rq_body_array(count, sizeof *out->pops, &out->pops, err);
    }
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        st = parse_mq(rq_json_get(item, "messageQueue"), &out->queues[out->count], err);
        if (st) {
            return st;
        }
        out->pops[out->count++] = strcmp(rq_json_str(item, "mode", "PULL"), "POP") == 0;
    }
    return st;
}

rmq_status rq_assignments_parse(struct rq_slice json, struct rq_assignments *out, rmq_error **err)
{
    *out = (struct rq_assignments){0};
    rmq_status st = rq_body_open(json, "assignments", &out->json, err);
    if (st == RMQ_OK) {
        const cJSON *list = rq_json_get(out->json, "messageQueueAssignments");
        st = cJSON_IsArray(list) ? parse_assignments(list, out, err)
                                 : rq_error_set(err, RMQ_ERR_NOT_FOUND, "no assignments");
    }
    if (st) {
        rq_assignments_clear(out);
    }
    return st;
}

void rq_assignments_clear(struct rq_assignments *assignments)
{
    rq_free(assignments->queues);
    rq_free(assignments->pops);
    rq_json_free(assignments->json);
    *assignments = (struct rq_assignments){0};
}

void rq_assignment_query_write(const struct rq_assignment_query *query, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "clientId", query->client_id);
    rq_body_add_text(out, &first, "consumerGroup", query->consumer_group);
    rq_body_add_text(out, &first, "messageModel", query->message_model);
    rq_body_add_text(out, &first, "strategyName", query->strategy_name);
    rq_body_add_text(out, &first, "topic", query->topic);
    rq_buf_add_char(out, '}');
}

void rq_request_mode_write(const struct rq_request_mode_body *mode, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_text(out, &first, "consumerGroup", mode->consumer_group);
    rq_body_add_text(out, &first, "mode", mode->pops ? "POP" : "PULL");
    rq_body_add_i64(out, &first, "popShareQueueNum", mode->share_queues);
    rq_body_add_text(out, &first, "topic", mode->topic);
    rq_buf_add_char(out, '}');
}

/* ---- tables ---- */

static void parse_values(const cJSON *item, enum rq_queue_table_kind kind,
                         struct rq_queue_stat *row)
{
    switch (kind) {
    case RQ_QUEUE_TABLE_TOPIC_STATS:
        row->min_offset = rq_json_i64(item, "minOffset", 0);
        row->max_offset = rq_json_i64(item, "maxOffset", 0);
        row->timestamp_ms = rq_json_i64(item, "lastUpdateTimestamp", 0);
        break;
    case RQ_QUEUE_TABLE_CONSUME_STATS:
        row->broker_offset = rq_json_i64(item, "brokerOffset", 0);
        row->consumer_offset = rq_json_i64(item, "consumerOffset", 0);
        row->pull_offset = rq_json_i64(item, "pullOffset", 0);
        row->timestamp_ms = rq_json_i64(item, "lastTimestamp", 0);
        break;
    case RQ_QUEUE_TABLE_OFFSETS:
    case RQ_QUEUE_TABLE_STATUS:
        break;
    }
}

static bool is_plain(enum rq_queue_table_kind kind)
{
    return kind == RQ_QUEUE_TABLE_OFFSETS || kind == RQ_QUEUE_TABLE_STATUS;
}

static rmq_status parse_row(const cJSON *item, bool list, enum rq_queue_table_kind kind,
                            struct rq_queue_table *out, rmq_error **err)
{
    struct rq_queue_stat *row = &out->rows[out->count];
    if (list) {
        row->offset = rq_json_i64(item, "offset", -1);
        rmq_status st = parse_mq(item, &row->mq, err);
        out->count += st == RMQ_OK;
        return st;
    }
    if (is_plain(kind) && !rq_json_value_i64(item, &row->offset)) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "offset of a queue is no number");
    }
    rmq_status st = rq_json_parse(rq_slice_str(item->string), &out->keys[out->count], err);
    if (st == RMQ_OK) {
        out->count++; /* the key is to be freed from here on */
        st = parse_mq(out->keys[out->count - 1], &row->mq, err);
        parse_values(item, kind, row);
    }
    return st;
}

static rmq_status parse_rows(enum rq_queue_table_kind kind, struct rq_queue_table *out,
                             rmq_error **err)
{
    bool status = kind == RQ_QUEUE_TABLE_STATUS;
    const cJSON *table = rq_json_get(out->json, status ? "messageQueueTable" : "offsetTable");
    bool list = cJSON_IsArray(table);
    size_t count = rq_body_count(table);
    rmq_status st = rq_body_array(count, sizeof *out->rows, &out->rows, err);
    if (st == RMQ_OK) {
        st = rq_body_array(count, sizeof(cJSON *), &out->keys, err);
    }
    for (const cJSON *item = rq_body_first(st ? NULL : table); item && st == RMQ_OK;
         item = item->next) {
        st = parse_row(item, list, kind, out, err);
    }
    return st;
}

rmq_status rq_queue_table_parse(struct rq_slice json, enum rq_queue_table_kind kind,
                                struct rq_queue_table *out, rmq_error **err)
{
    *out = (struct rq_queue_table){0};
    rmq_status st = rq_body_open(json, "queue table", &out->json, err);
    if (st == RMQ_OK) {
        st = parse_rows(kind, out, err);
    }
    if (st) {
        rq_queue_table_clear(out);
    }
    return st;
}

void rq_queue_table_write(const struct rq_queue_table *table, enum rq_queue_table_kind kind,
                          struct rq_buf *out)
{
    rq_buf_add_str(out, kind == RQ_QUEUE_TABLE_STATUS ? "{\"messageQueueTable\":{"
                                                      : "{\"offsetTable\":{");
    for (size_t i = 0; i < table->count; i++) {
        rq_body_next(out, i);
        rq_mq_write(&table->rows[i].mq, out);
        rq_buf_add_char(out, ':');
        rq_buf_add_i64(out, table->rows[i].offset);
    }
    rq_buf_add_str(out, "}}");
}

void rq_queue_table_clear(struct rq_queue_table *table)
{
    for (size_t i = 0; table->keys && i < table->count; i++) {
        rq_json_free(table->keys[i]);
    }
    rq_free(table->keys);
    rq_free(table->rows);
    rq_json_free(table->json);
    *table = (struct rq_queue_table){0};
}

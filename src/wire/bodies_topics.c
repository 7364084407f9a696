/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies: topic configurations and their registration, subscription groups, data versions. The compressed registration is zlib over length-prefixed
 * texts; topics stand in it as "name read write perm filterType attributes". Pure functions, any thread.
 */
#include <string.h>

#include "base/bytes.h"
#include "wire/bodies.h"
#include "wire/body_json.h"
#include "wire/compress.h"
#include "wire/frame.h"

#define DEFAULT_QUEUES 16
#define DEFAULT_PERM   6
#define REGISTER_LEVEL 9

void rq_data_version_write(const struct rq_data_version *version, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_i64(out, &first, "counter", version->counter);
    rq_body_i64(out, &first, "stateVersion", version->state_version);
    rq_body_i64(out, &first, "timestamp", version->timestamp_ms);
    rq_buf_add_char(out, '}');
}

void rq_data_version_parse(const cJSON *json, struct rq_data_version *out)
{
    *out = (struct rq_data_version){.state_version = rq_json_i64(json, "stateVersion", 0),
                                    .timestamp_ms = rq_json_i64(json, "timestamp", 0),
                                    .counter = rq_json_i64(json, "counter", 0)};
}

bool rq_data_version_equal(const struct rq_data_version *a, const struct rq_data_version *b)
{
    return a->state_version == b->state_version && a->timestamp_ms == b->timestamp_ms &&
           a->counter == b->counter;
}

static void write_attributes(const struct rq_topic_config *topic, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < topic->attribute_count; i++) {
        rq_body_text(out, &first, topic->attributes[i].key, topic->attributes[i].value);
    }
    rq_buf_add_char(out, '}');
}

void rq_topic_config_write(const struct rq_topic_config *topic, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "attributes");
    write_attributes(topic, out);
    rq_body_bool(out, &first, "order", topic->order);
    rq_body_i64(out, &first, "perm", topic->perm);
    rq_body_i64(out, &first, "readQueueNums", topic->read_queue_nums);
    rq_body_text(out, &first, "topicFilterType", topic->multi_tag ? "MULTI_TAG" : "SINGLE_TAG");
    rq_body_text(out, &first, "topicName", topic->name);
    rq_body_i64(out, &first, "topicSysFlag", topic->topic_sys_flag);
    rq_body_i64(out, &first, "writeQueueNums", topic->write_queue_nums);
    rq_buf_add_char(out, '}');
}

void rq_topic_config_write_text(const struct rq_topic_config *topic, struct rq_buf *out)
{
    rq_buf_addf(out, "%s %d %d %d %s ", topic->name, topic->read_queue_nums, topic->write_queue_nums,
                topic->perm, topic->multi_tag ? "MULTI_TAG" : "SINGLE_TAG");
    write_attributes(topic, out);
}

static rmq_status parse_attributes(const cJSON *json, struct rq_topic_config *topic, rmq_error **err)
{
    size_t n = rq_body_size(json);
    if (!n) {
        return RMQ_OK;
    }
    topic->attributes = rq_body_array(n, sizeof *topic->attributes);
    if (!topic->attributes) {
        return rq_body_nomem("topic attributes", err);
    }
    for (const cJSON *item = rq_body_first(json); item; item = item->next) {
        if (cJSON_IsString(item) && item->string) {
            topic->attributes[topic->attribute_count++] =
                (struct rq_attribute){item->string, item->valuestring};
        }
    }
    return RMQ_OK;
}

static rmq_status parse_topic(const cJSON *json, const char *key, struct rq_topic_config *out,
                              rmq_error **err)
{
    *out = (struct rq_topic_config){
        .name = rq_json_str(json, "topicName", key),
        .read_queue_nums = rq_json_i32(json, "readQueueNums", DEFAULT_QUEUES),
        .write_queue_nums = rq_json_i32(json, "writeQueueNums", DEFAULT_QUEUES),
        .perm = rq_json_i32(json, "perm", DEFAULT_PERM),
        .multi_tag = strcmp(rq_json_str(json, "topicFilterType", ""), "MULTI_TAG") == 0,
        .topic_sys_flag = rq_json_i32(json, "topicSysFlag", 0),
        .order = rq_json_bool(json, "order", false)};
    if (!out->name || !*out->name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "topic configuration without topicName");
    }
    return parse_attributes(rq_json_get(json, "attributes"), out, err);
}

static rmq_status parse_topic_map(const cJSON *map, struct rq_topic_table *out, rmq_error **err)
{
    out->topics = rq_body_array(rq_body_size(map), sizeof *out->topics);
    if (!out->topics) {
        return rq_body_nomem("topics", err);
    }
    for (const cJSON *item = rq_body_first(map); item; item = item->next) {
        rmq_status st = parse_topic(item, item->string, &out->topics[out->count], err);
        if (st) {
            return st;
        }
        out->count++;
    }
    return RMQ_OK;
}

static rmq_status parse_wrapper(const cJSON *wrapper, struct rq_topic_table *out, rmq_error **err)
{
    rq_data_version_parse(rq_json_get(wrapper, "dataVersion"), &out->version);
    return parse_topic_map(rq_json_get(wrapper, "topicConfigTable"), out, err);
}

rmq_status rq_topic_table_parse(struct rq_slice json, struct rq_topic_table *out, rmq_error **err)
{
    *out = (struct rq_topic_table){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        st = parse_wrapper(out->json, out, err);
    }
    if (st) {
        rq_topic_table_clear(out);
    }
    return st;
}

rmq_status rq_topic_config_parse(struct rq_slice json, struct rq_topic_table *out, rmq_error **err)
{
    *out = (struct rq_topic_table){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        out->topics = rq_body_array(1, sizeof *out->topics);
        st = out->topics ? parse_topic(out->json, NULL, out->topics, err) : rq_body_nomem("topic", err);
        out->count = st ? 0 : 1;
    }
    if (st) {
        rq_topic_table_clear(out);
    }
    return st;
}

void rq_topic_table_write(const struct rq_topic_table *table, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "dataVersion");
    rq_data_version_write(&table->version, out);
    rq_json_add_member(out, &first, "mappingDataVersion");
    rq_data_version_write(&table->version, out);
    rq_json_add_member(out, &first, "topicConfigTable");
    rq_buf_add_char(out, '{');
    bool first_topic = true;
    for (size_t i = 0; i < table->count; i++) {
        rq_json_add_member(out, &first_topic, table->topics[i].name);
        rq_topic_config_write(&table->topics[i], out);
    }
    rq_buf_add_char(out, '}');
    rq_json_add_member(out, &first, "topicQueueMappingDetailMap");
    rq_buf_add_str(out, "{}");
    rq_json_add_member(out, &first, "topicQueueMappingInfoMap");
    rq_buf_add_str(out, "{}}");
}

void rq_topic_table_clear(struct rq_topic_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        rq_free(table->topics[i].attributes);
    }
    rq_free(table->topics);
    rq_free(table->texts);
    rq_json_free(table->json);
    *table = (struct rq_topic_table){0};
}

void rq_register_body_write(const struct rq_topic_table *table, struct rq_buf *out)
{
    rq_buf_add_str(out, "{\"filterServerList\":[],\"topicConfigSerializeWrapper\":");
    rq_topic_table_write(table, out);
    rq_buf_add_char(out, '}');
}

/* Sets the four length bytes at at to what was written behind them. */
static void patch_length(struct rq_buf *out, size_t at)
{
    if (rq_buf_status(out) == RMQ_OK) {
        rq_store_be32(out->data + at, (uint32_t)(out->len - at - 4));
    }
}

rmq_status rq_register_body_write_compressed(const struct rq_topic_table *table, struct rq_buf *out,
                                             rmq_error **err)
{
    struct rq_buf plain;
    rq_buf_init(&plain, 0);
    rq_buf_add_be32(&plain, 0);
    rq_data_version_write(&table->version, &plain);
    patch_length(&plain, 0);
    rq_buf_add_be32(&plain, (uint32_t)table->count);
    for (size_t i = 0; i < table->count; i++) {
        size_t at = plain.len;
        rq_buf_add_be32(&plain, 0);
        rq_topic_config_write_text(&table->topics[i], &plain);
        patch_length(&plain, at);
    }
    rq_buf_add_be32(&plain, 2);
    rq_buf_add_str(&plain, "[]");
    rq_buf_add_be32(&plain, 0);
    rmq_status st = rq_buf_status(&plain);
    st = st ? rq_body_nomem("registration", err)
            : rq_compress(RQ_COMPRESSION_ZLIB, REGISTER_LEVEL, rq_slice(plain.data, plain.len), out, err);
    rq_buf_free(&plain);
    return st;
}

/* Next field up to a blank, NUL put in its place; NULL at the end. */
static char *next_field(char **at)
{
    char *start = *at;
    if (!start || !*start) {
        return NULL;
    }
    char *blank = strchr(start, ' ');
    if (blank) {
        *blank = '\0';
    }
    *at = blank ? blank + 1 : NULL;
    return start;
}

static bool field_number(char **at, int32_t *out)
{
    char *field = next_field(at);
    return field && rq_slice_to_i32(rq_slice_str(field), out);
}

/* "name 4 4 6 SINGLE_TAG {}": five fields are needed, what follows is attributes that a name server has no use for. */
static rmq_status parse_topic_text(char *text, struct rq_topic_config *out, rmq_error **err)
{
    *out = (struct rq_topic_config){.name = next_field(&text)};
    bool good = out->name && field_number(&text, &out->read_queue_nums) &&
                field_number(&text, &out->write_queue_nums) && field_number(&text, &out->perm);
    char *filter = good ? next_field(&text) : NULL;
    if (!filter) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration: topic %s has fewer than five fields",
                            out->name ? out->name : "?");
    }
    out->multi_tag = strcmp(filter, "MULTI_TAG") == 0;
    return RMQ_OK;
}

/* Moves a text one byte towards the front, over its length field, which makes room for a NUL behind it. */
static char *terminate(const char *text, size_t n, char *base)
{
    char *to = base + (text - base) - 1;
    memmove(to, text, n);
    to[n] = '\0';
    return to;
}

static rmq_status parse_plain(char *plain, size_t n, struct rq_topic_table *out, rmq_error **err)
{
    struct rq_cursor c = rq_cursor(plain, n);
    struct rq_slice version = rq_cursor_slice(&c, rq_cursor_be32(&c));
    uint32_t count = rq_cursor_be32(&c);
    if (!rq_cursor_ok(&c) || count > rq_cursor_left(&c) / 4) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration of %zu bytes names %u topics", n, count);
    }
    rmq_status st = rq_json_parse(version, &out->json, err);
    if (st) {
        return st;
    }
    rq_data_version_parse(out->json, &out->version);
    out->topics = rq_body_array(count, sizeof *out->topics);
    if (!out->topics) {
        return rq_body_nomem("registration", err);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct rq_slice text = rq_cursor_slice(&c, rq_cursor_be32(&c));
        if (!rq_cursor_ok(&c)) {
            return rq_error_set(err, RMQ_ERR_PROTOCOL, "registration ends inside topic %u of %u", i + 1, count);
        }
        st = parse_topic_text(terminate(text.p, text.n, plain), &out->topics[out->count], err);
        if (st) {
            return st;
        }
        out->count++;
    }
    return RMQ_OK;
}

rmq_status rq_register_body_parse(struct rq_slice body, bool compressed, int32_t version, size_t max_out,
                                  struct rq_topic_table *out, rmq_error **err)
{
    (void)version; /* the mapping section that newer ones append is of static topics, which are not kept */
    *out = (struct rq_topic_table){0};
    rmq_status st = RMQ_OK;
    if (compressed) {
        char *plain = NULL;
        size_t n = 0;
        st = rq_decompress(RQ_COMPRESSION_ZLIB, body.p, body.n, max_out, &plain, &n, err);
        out->texts = plain;
        st = st ? st : parse_plain(plain, n, out, err);
    } else {
        st = rq_json_parse(body, &out->json, err);
        if (!st) {
            const cJSON *wrapper = rq_json_get(out->json, "topicConfigSerializeWrapper");
            st = parse_wrapper(wrapper ? wrapper : out->json, out, err);
        }
    }
    if (st) {
        rq_topic_table_clear(out);
    }
    return st;
}

struct rq_group_config rq_group_config_default(const char *name)
{
    return (struct rq_group_config){.name = name,
                                    .consume_enable = true,
                                    .consume_from_min_enable = true,
                                    .consume_broadcast_enable = true,
                                    .retry_queue_nums = 1,
                                    .retry_max_times = 16,
                                    .which_broker_when_consume_slowly = 1,
                                    .notify_consumer_ids_changed_enable = true,
                                    .consume_timeout_minute = 15};
}

void rq_group_config_write(const struct rq_group_config *group, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "attributes");
    rq_buf_add_str(out, "{}");
    rq_body_i64(out, &first, "brokerId", group->broker_id);
    rq_body_bool(out, &first, "consumeBroadcastEnable", group->consume_broadcast_enable);
    rq_body_bool(out, &first, "consumeEnable", group->consume_enable);
    rq_body_bool(out, &first, "consumeFromMinEnable", group->consume_from_min_enable);
    rq_body_bool(out, &first, "consumeMessageOrderly", group->consume_message_orderly);
    rq_body_i64(out, &first, "consumeTimeoutMinute", group->consume_timeout_minute);
    rq_body_text(out, &first, "groupName", group->name);
    rq_json_add_member(out, &first, "groupRetryPolicy");
    rq_buf_add_str(out, "{\"type\":\"CUSTOMIZED\"}");
    rq_body_i64(out, &first, "groupSysFlag", group->group_sys_flag);
    rq_body_bool(out, &first, "notifyConsumerIdsChangedEnable", group->notify_consumer_ids_changed_enable);
    rq_body_i64(out, &first, "retryMaxTimes", group->retry_max_times);
    rq_body_i64(out, &first, "retryQueueNums", group->retry_queue_nums);
    rq_body_i64(out, &first, "whichBrokerWhenConsumeSlowly", group->which_broker_when_consume_slowly);
    rq_buf_add_char(out, '}');
}

static rmq_status parse_group(const cJSON *json, const char *key, struct rq_group_config *out,
                              rmq_error **err)
{
    struct rq_group_config d = rq_group_config_default(rq_json_str(json, "groupName", key));
    if (!d.name || !*d.name) {
        return rq_error_set(err, RMQ_ERR_PROTOCOL, "group configuration without groupName");
    }
    *out = (struct rq_group_config){
        .name = d.name,
        .consume_enable = rq_json_bool(json, "consumeEnable", d.consume_enable),
        .consume_from_min_enable = rq_json_bool(json, "consumeFromMinEnable", d.consume_from_min_enable),
        .consume_broadcast_enable = rq_json_bool(json, "consumeBroadcastEnable", d.consume_broadcast_enable),
        .consume_message_orderly = rq_json_bool(json, "consumeMessageOrderly", false),
        .retry_queue_nums = rq_json_i32(json, "retryQueueNums", d.retry_queue_nums),
        .retry_max_times = rq_json_i32(json, "retryMaxTimes", d.retry_max_times),
        .broker_id = rq_json_i64(json, "brokerId", 0),
        .which_broker_when_consume_slowly = rq_json_i64(json, "whichBrokerWhenConsumeSlowly", 1),
        .notify_consumer_ids_changed_enable = rq_json_bool(json, "notifyConsumerIdsChangedEnable", true),
        .group_sys_flag = rq_json_i32(json, "groupSysFlag", 0),
        .consume_timeout_minute = rq_json_i32(json, "consumeTimeoutMinute", d.consume_timeout_minute)};
    return RMQ_OK;
}

rmq_status rq_group_table_parse(struct rq_slice json, struct rq_group_table *out, rmq_error **err)
{
    *out = (struct rq_group_table){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    const cJSON *map = st ? NULL : rq_json_get(out->json, "subscriptionGroupTable");
    if (!st) {
        rq_data_version_parse(rq_json_get(out->json, "dataVersion"), &out->version);
        out->groups = rq_body_array(rq_body_size(map), sizeof *out->groups);
        st = out->groups ? RMQ_OK : rq_body_nomem("groups", err);
    }
    for (const cJSON *item = st ? NULL : rq_body_first(map); item && !st; item = item->next) {
        st = parse_group(item, item->string, &out->groups[out->count], err);
        out->count += st ? 0 : 1;
    }
    if (st) {
        rq_group_table_clear(out);
    }
    return st;
}

rmq_status rq_group_config_parse(struct rq_slice json, struct rq_group_table *out, rmq_error **err)
{
    *out = (struct rq_group_table){0};
    rmq_status st = rq_json_parse(json, &out->json, err);
    if (!st) {
        out->groups = rq_body_array(1, sizeof *out->groups);
        st = out->groups ? parse_group(out->json, NULL, out->groups, err) : rq_body_nomem("group", err);
        out->count = st ? 0 : 1;
    }
    if (st) {
        rq_group_table_clear(out);
    }
    return st;
}

void rq_group_table_write(const struct rq_group_table *table, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "dataVersion");
    rq_data_version_write(&table->version, out);
    rq_json_add_member(out, &first, "forbiddenTable");
    rq_buf_add_str(out, "{}");
    rq_json_add_member(out, &first, "subscriptionGroupTable");
    rq_buf_add_char(out, '{');
    bool first_group = true;
    for (size_t i = 0; i < table->count; i++) {
        rq_json_add_member(out, &first_group, table->groups[i].name);
        rq_group_config_write(&table->groups[i], out);
    }
    rq_buf_add_str(out, "}}");
}

void rq_group_table_clear(struct rq_group_table *table)
{
    rq_free(table->groups);
    rq_json_free(table->json);
    *table = (struct rq_group_table){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Bodies about topics and subscription groups: their tables as files and answers carry them. Called
 * by broker and name server. Counterparts: TopicConfig, TopicConfigSerializeWrapper,
 * SubscriptionGroupConfig, DataVersion.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/bodies_priv.h"
#include "wire/body_priv.h"

#define MULTI_TAG "MULTI_TAG"

/* ---- data version ---- */

void rq_data_version_write(const struct rq_data_version *version, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_body_add_i64(out, &first, "counter", version->counter);
    rq_body_add_i64(out, &first, "stateVersion", version->state_version);
    rq_body_add_i64(out, &first, "timestamp", version->timestamp_ms);
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

/* ---- topics ---- */

rmq_status rq_topic_attributes_parse(const cJSON *json, struct rq_topic_config *out,
                                     rmq_error **err)
{
    rmq_status st =
        rq_body_array(rq_body_count(json), sizeof *out->attributes, &out->attributes, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item; item = item->next) {
        if (item->string && cJSON_IsString(item)) {
            out->attributes[out->attribute_count++] =
                (struct rq_attribute){.key = item->string, .value = item->valuestring};
        }
    }
    return st;
}

static rmq_status parse_topic(const cJSON *json, struct rq_topic_config *out, rmq_error **err)
{
    *out = (struct rq_topic_config){
        .name = rq_json_str(json, "topicName", json->string ? json->string : ""),
        .read_queue_nums = rq_json_i32(json, "readQueueNums", 16),
        .write_queue_nums = rq_json_i32(json, "writeQueueNums", 16),
        .perm = rq_json_i32(json, "perm", 6),
        .multi_tag = strcmp(rq_json_str(json, "topicFilterType", ""), MULTI_TAG) == 0,
        .topic_sys_flag = rq_json_i32(json, "topicSysFlag", 0),
        .order = rq_json_bool(json, "order", false)};
    return rq_topic_attributes_parse(rq_json_get(json, "attributes"), out, err);
}

rmq_status rq_topic_mapping_read(const cJSON *json, struct rq_topic_table *out, rmq_error **err)
{
    struct rq_queue_mapping_info *mapping = &out->mappings[out->mapping_count];
    rmq_status st = rq_queue_mapping_info_parse(json, mapping, NULL);
    if (st == RMQ_OK) {
        mapping->topic = json->string ? json->string : mapping->topic;
        out->mapping_count++;
    }
    return st == RMQ_ERR_NOMEM ? rq_error_set(err, st, "no memory for a queue mapping") : RMQ_OK;
}

static rmq_status read_mappings(const cJSON *json, struct rq_topic_table *out, rmq_error **err)
{
    rmq_status st = rq_body_array(rq_body_count(json), sizeof *out->mappings, &out->mappings, err);
    for (const cJSON *item = rq_body_first(st ? NULL : json); item && !st; item = item->next) {
        st = rq_topic_mapping_read(item, out, err);
    }
    return st;
}

rmq_status rq_topic_table_read(const cJSON *wrapper, struct rq_topic_table *out, rmq_error **err)
{
    const cJSON *topics = rq_json_get(wrapper, "topicConfigTable");
    rq_data_version_parse(rq_json_get(wrapper, "dataVersion"), &out->version);
    rmq_status st = rq_body_array(rq_body_count(topics), sizeof *out->topics, &out->topics, err);
    for (const cJSON *item = rq_body_first(st ? NULL : topics); item; item = item->next) {
        st = parse_topic(item, &out->topics[out->count++], err);
        if (st) {
            return st;
        }
    }
    return st ? st : read_mappings(rq_json_get(wrapper, "topicQueueMappingInfoMap"), out, err);
}

rmq_status rq_topic_table_parse(struct rq_slice json, struct rq_topic_table *out, rmq_error **err)
{
    *out = (struct rq_topic_table){0};
    rmq_status st = rq_body_open(json, "topic table", &out->json, err);
    if (st == RMQ_OK) {
        st = rq_topic_table_read(out->json, out, err);
    }
    if (st) {
        rq_topic_table_clear(out);
    }
    return st;
}

void rq_topic_table_clear(struct rq_topic_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        rq_free(table->topics[i].attributes);
    }
    for (size_t i = 0; i < table->mapping_count; i++) {
        rq_queue_mapping_info_clear(&table->mappings[i]);
    }
    rq_free(table->mappings);
    rq_free(table->topics);
    rq_free(table->texts);
    rq_json_free(table->json);
    *table = (struct rq_topic_table){0};
}

static void write_attributes(const struct rq_topic_config *topic, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    for (size_t i = 0; i < topic->attribute_count; i++) {
        rq_body_add_text(out, &first, topic->attributes[i].key, topic->attributes[i].value);
    }
    rq_buf_add_char(out, '}');
}

static const char *filter_type(const struct rq_topic_config *topic)
{
    return topic->multi_tag ? MULTI_TAG : "SINGLE_TAG";
}

static void write_topic(const struct rq_topic_config *topic, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "attributes");
    write_attributes(topic, out);
    rq_body_add_bool(out, &first, "order", topic->order);
    rq_body_add_i64(out, &first, "perm", topic->perm);
    rq_body_add_i64(out, &first, "readQueueNums", topic->read_queue_nums);
    rq_body_add_text(out, &first, "topicFilterType", filter_type(topic));
    rq_body_add_text(out, &first, "topicName", topic->name);
    rq_body_add_i64(out, &first, "topicSysFlag", topic->topic_sys_flag);
    rq_body_add_i64(out, &first, "writeQueueNums", topic->write_queue_nums);
    rq_buf_add_char(out, '}');
}

void rq_topic_config_write_text(const struct rq_topic_config *topic, struct rq_buf *out)
{
    rq_buf_addf(out, "%s %d %d %d %s ", topic->name, (int)topic->read_queue_nums,
                (int)topic->write_queue_nums, (int)topic->perm, filter_type(topic));
    write_attributes(topic, out);
}

void rq_topic_table_write(const struct rq_topic_table *table, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_str(out, "{\"dataVersion\":");
    rq_data_version_write(&table->version, out);
    rq_buf_add_str(out, ",\"topicConfigTable\":{");
    for (size_t i = 0; i < table->count; i++) {
        rq_json_add_member(out, &first, table->topics[i].name);
        write_topic(&table->topics[i], out);
    }
    first = true;
    rq_buf_add_str(out, "},\"topicQueueMappingInfoMap\":{");
    for (size_t i = 0; i < table->mapping_count; i++) {
        rq_json_add_member(out, &first, table->mappings[i].topic);
        rq_queue_mapping_info_write(&table->mappings[i], false, out);
    }
    rq_buf_add_str(out, "}}");
}

/* ---- subscription groups ---- */

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

static struct rq_group_config parse_group(const cJSON *json)
{
    struct rq_group_config g =
        rq_group_config_default(rq_json_str(json, "groupName", json->string ? json->string : ""));
    g.consume_enable = rq_json_bool(json, "consumeEnable", g.consume_enable);
    g.consume_from_min_enable =
        rq_json_bool(json, "consumeFromMinEnable", g.consume_from_min_enable);
    g.consume_broadcast_enable =
        rq_json_bool(json, "consumeBroadcastEnable", g.consume_broadcast_enable);
    g.consume_message_orderly = rq_json_bool(json, "consumeMessageOrderly", false);
    g.retry_queue_nums = rq_json_i32(json, "retryQueueNums", g.retry_queue_nums);
    g.retry_max_times = rq_json_i32(json, "retryMaxTimes", g.retry_max_times);
    g.broker_id = rq_json_i64(json, "brokerId", 0);
    g.which_broker_when_consume_slowly = rq_json_i64(json, "whichBrokerWhenConsumeSlowly", 1);
    g.notify_consumer_ids_changed_enable =
        rq_json_bool(json, "notifyConsumerIdsChangedEnable", true);
    g.group_sys_flag = rq_json_i32(json, "groupSysFlag", 0);
    g.consume_timeout_minute = rq_json_i32(json, "consumeTimeoutMinute", 15);
    return g;
}

rmq_status rq_group_table_parse(struct rq_slice json, struct rq_group_table *out, rmq_error **err)
{
    *out = (struct rq_group_table){0};
    rmq_status st = rq_body_open(json, "group table", &out->json, err);
    const cJSON *groups = rq_json_get(out->json, "subscriptionGroupTable");
    rq_data_version_parse(rq_json_get(out->json, "dataVersion"), &out->version);
    if (st == RMQ_OK) {
        st = rq_body_array(rq_body_count(groups), sizeof *out->groups, &out->groups, err);
    }
    for (const cJSON *item = rq_body_first(st ? NULL : groups); item; item = item->next) {
        out->groups[out->count++] = parse_group(item);
    }
    if (st) {
        rq_group_table_clear(out);
    }
    return st;
}

rmq_status rq_group_config_parse(struct rq_slice json, struct rq_group_table *out, rmq_error **err)
{
    *out = (struct rq_group_table){0};
    rmq_status st = rq_body_open(json, "group", &out->json, err);
    if (st == RMQ_OK) {
        st = rq_body_array(1, sizeof *out->groups, &out->groups, err);
    }
    if (st == RMQ_OK) {
        out->groups[out->count++] = parse_group(out->json);
        if (!*out->groups[0].name) {
            st = rq_error_set(err, RMQ_ERR_PROTOCOL, "group configuration without a name");
        }
    }
    if (st) {
        rq_group_table_clear(out);
    }
    return st;
}

void rq_group_config_write(const struct rq_group_config *group, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    rq_json_add_member(out, &first, "attributes");
    rq_buf_add_str(out, "{}");
    rq_body_add_i64(out, &first, "brokerId", group->broker_id);
    rq_body_add_bool(out, &first, "consumeBroadcastEnable", group->consume_broadcast_enable);
    rq_body_add_bool(out, &first, "consumeEnable", group->consume_enable);
    rq_body_add_bool(out, &first, "consumeFromMinEnable", group->consume_from_min_enable);
    rq_body_add_bool(out, &first, "consumeMessageOrderly", group->consume_message_orderly);
    rq_body_add_i64(out, &first, "consumeTimeoutMinute", group->consume_timeout_minute);
    rq_body_add_text(out, &first, "groupName", group->name);
    rq_json_add_member(out, &first, "groupRetryPolicy");
    rq_buf_add_str(out, "{\"type\":\"CUSTOMIZED\"}");
    rq_body_add_i64(out, &first, "groupSysFlag", group->group_sys_flag);
    rq_body_add_bool(out, &first, "notifyConsumerIdsChangedEnable",
                     group->notify_consumer_ids_changed_enable);
    rq_body_add_i64(out, &first, "retryMaxTimes", group->retry_max_times);
    rq_body_add_i64(out, &first, "retryQueueNums", group->retry_queue_nums);
    rq_body_add_i64(out, &first, "whichBrokerWhenConsumeSlowly",
                    group->which_broker_when_consume_slowly);
    rq_buf_add_char(out, '}');
}

void rq_group_table_write(const struct rq_group_table *table, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_str(out, "{\"dataVersion\":");
    rq_data_version_write(&table->version, out);
    rq_buf_add_str(out, ",\"forbiddenTable\":{},\"subscriptionGroupTable\":{");
    for (size_t i = 0; i < table->count; i++) {
        rq_json_add_member(out, &first, table->groups[i].name);
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

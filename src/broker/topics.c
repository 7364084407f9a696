/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Topic table with its file topics.json. Any thread, one lock. Counterparts: TopicConfigManager,
 * TopicConfig. */
#include "broker/topics.h"

#include <string.h>

#include "base/mem.h"

#define DEFAULT_QUEUES 16

struct topic {
    struct rq_topic_info info;
    char *attributes; /* JSON text of an object */
};

static void free_topic(void *p)
{
    struct topic *topic = p;
    rq_free(topic->attributes);
    rq_free(topic);
}

void rq_topics_init(struct rq_topics *topics)
{
    memset(topics, 0, sizeof *topics);
    rq_mutex_init(&topics->lock);
    rq_table_file_init(&topics->file);
    rq_map_init(&topics->table);
}

rmq_status rq_topics_set_path(struct rq_topics *topics, const char *path)
{
    return rq_table_file_set_path(&topics->file, path);
}

void rq_topics_free(struct rq_topics *topics)
{
    rq_map_free(&topics->table, free_topic);
    rq_mutex_destroy(&topics->lock);
    rq_table_file_free(&topics->file);
}

void rq_topic_info_read(const cJSON *json, struct rq_topic_info *out)
{
    out->read_queue_nums = rq_json_i32(json, "readQueueNums", DEFAULT_QUEUES);
    out->write_queue_nums = rq_json_i32(json, "writeQueueNums", DEFAULT_QUEUES);
    out->perm = rq_json_i32(json, "perm", RQ_PERM_READ | RQ_PERM_WRITE);
    out->sys_flag = rq_json_i32(json, "topicSysFlag", 0);
    out->order = rq_json_bool(json, "order", false);
    out->multi_tag = strcmp(rq_json_str(json, "topicFilterType", ""), "MULTI_TAG") == 0;
}

static bool same_info(const struct rq_topic_info *a, const struct rq_topic_info *b)
{
    return a->read_queue_nums == b->read_queue_nums && a->write_queue_nums == b->write_queue_nums &&
           a->perm == b->perm && a->sys_flag == b->sys_flag && a->order == b->order &&
           a->multi_tag == b->multi_tag;
}

static rmq_status put_locked(struct rq_topics *topics, struct rq_slice name,
                             const struct rq_topic_info *info, struct rq_slice attributes,
                             bool *changed)
{
    struct topic *topic = rq_map_get(&topics->table, name);
    bool same_attributes =
        topic && (!attributes.p || rq_slice_eq_str(attributes, topic->attributes));
    *changed = !topic || !same_info(&topic->info, info) || !same_attributes;
    if (!*changed) {
        return RMQ_OK;
    }
    char *copy =
        same_attributes ? NULL : rq_slice_dup(attributes.p ? attributes : rq_slice("{}", 2));
    if (!copy && !same_attributes) {
        return RMQ_ERR_NOMEM;
    }
    if (!topic) {
        topic = rq_calloc(1, sizeof *topic);
        if (!topic || rq_map_put(&topics->table, name, topic)) {
            rq_free(topic);
            rq_free(copy);
            return RMQ_ERR_NOMEM;
        }
    }
    bool is_static = topic->info.is_static;
    topic->info = *info;
    topic->info.is_static = is_static;
    if (copy) {
        rq_free(topic->attributes);
        topic->attributes = copy;
    }
    topics->file.dirty = true;
    return RMQ_OK;
}

rmq_status rq_topics_put(struct rq_topics *topics, struct rq_slice name,
                         const struct rq_topic_info *info, struct rq_slice attributes,
                         bool *changed)
{
    bool is_new = false;
    rq_mutex_lock(&topics->lock);
    rmq_status st = put_locked(topics, name, info, attributes, &is_new);
    if (!st && is_new) {
        rq_data_version_next(&topics->version);
    }
    rq_mutex_unlock(&topics->lock);
    if (changed) {
        *changed = is_new;
    }
    return st;
}

rmq_status rq_topics_add(struct rq_topics *topics, struct rq_slice name,
                         const struct rq_topic_info *info, bool *created)
{
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&topics->lock);
    *created = rq_map_get(&topics->table, name) == NULL;
    if (*created) {
        st = put_locked(topics, name, info, rq_slice(NULL, 0), created);
        if (!st) {
            rq_data_version_next(&topics->version);
        }
    }
    rq_mutex_unlock(&topics->lock);
    return st;
}

bool rq_topics_remove(struct rq_topics *topics, struct rq_slice name)
{
    rq_mutex_lock(&topics->lock);
    struct topic *topic = rq_map_remove(&topics->table, name);
    if (topic) {
        free_topic(topic);
        topics->file.dirty = true;
        rq_data_version_next(&topics->version);
    }
    rq_mutex_unlock(&topics->lock);
    return topic != NULL;
}

void rq_topics_mark_static(struct rq_topics *topics, struct rq_slice name, bool is_static)
{
    rq_mutex_lock(&topics->lock);
    struct topic *topic = rq_map_get(&topics->table, name);
    if (topic) {
        topic->info.is_static = is_static;
    }
    rq_mutex_unlock(&topics->lock);
}

bool rq_topics_get(struct rq_topics *topics, struct rq_slice name, struct rq_topic_info *out)
{
    rq_mutex_lock(&topics->lock);
    const struct topic *topic = rq_map_get(&topics->table, name);
    if (topic) {
        *out = topic->info;
    }
    rq_mutex_unlock(&topics->lock);
    return topic != NULL;
}

bool rq_topics_attributes(struct rq_topics *topics, struct rq_slice name, struct rq_buf *out)
{
    rq_mutex_lock(&topics->lock);
    const struct topic *topic = rq_map_get(&topics->table, name);
    if (topic) {
        rq_buf_add_str(out, topic->attributes);
    }
    rq_mutex_unlock(&topics->lock);
    (void)rq_buf_cstr(out);
    return topic != NULL;
}

size_t rq_topics_count(struct rq_topics *topics)
{
    rq_mutex_lock(&topics->lock);
    size_t count = topics->table.count;
    rq_mutex_unlock(&topics->lock);
    return count;
}

void rq_topics_touch(struct rq_topics *topics)
{
    rq_mutex_lock(&topics->lock);
    rq_data_version_next(&topics->version);
    topics->file.dirty = true;
    rq_mutex_unlock(&topics->lock);
}

struct rq_data_version rq_topics_version(struct rq_topics *topics)
{
    rq_mutex_lock(&topics->lock);
    struct rq_data_version version = topics->version;
    rq_mutex_unlock(&topics->lock);
    return version;
}

static void write_topic(const struct rq_map_entry *entry, struct rq_buf *out, int32_t perm_mask)
{
    const struct topic *topic = entry->value;
    rq_buf_addf(out, "{\"attributes\":%s,\"order\":%s,\"perm\":%d,\"readQueueNums\":%d,",
                topic->attributes, topic->info.order ? "true" : "false",
                topic->info.perm & perm_mask, topic->info.read_queue_nums);
    rq_buf_addf(out, "\"topicFilterType\":\"%s\",\"topicName\":",
                topic->info.multi_tag ? "MULTI_TAG" : "SINGLE_TAG");
    rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
    rq_buf_addf(out, ",\"topicSysFlag\":%d,\"writeQueueNums\":%d}", topic->info.sys_flag,
                topic->info.write_queue_nums);
}

static void write_locked(struct rq_topics *topics, struct rq_buf *out, struct rq_slice only,
                         int32_t perm_mask, const char *line)
{
    bool first = true;
    rq_buf_add_str(out, "\"dataVersion\":");
    rq_data_version_write(&topics->version, out);
    rq_buf_addf(out, ",%s\"topicConfigTable\":{", line);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&topics->table, &i));) {
        struct rq_slice name = rq_slice(entry->key, entry->key_len);
        if (only.p && !rq_slice_eq(only, name)) {
            continue;
        }
        rq_buf_addf(out, "%s%s", first ? "" : ",", line);
        rq_json_add_string(out, name);
        rq_buf_add_char(out, ':');
        write_topic(entry, out, perm_mask);
        first = false;
    }
    rq_buf_addf(out, "%s}", line);
}

void rq_topics_write(struct rq_topics *topics, struct rq_buf *out, struct rq_slice only,
                     int32_t perm_mask)
{
    rq_mutex_lock(&topics->lock);
    write_locked(topics, out, only, perm_mask, "");
    rq_mutex_unlock(&topics->lock);
}

bool rq_topics_write_one(struct rq_topics *topics, struct rq_slice name, struct rq_buf *out)
{
    bool found = false;
    rq_mutex_lock(&topics->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; !found && (entry = rq_map_next(&topics->table, &i));) {
        found = rq_slice_eq(name, rq_slice(entry->key, entry->key_len));
        if (found) {
            write_topic(entry, out, ~0);
        }
    }
    rq_mutex_unlock(&topics->lock);
    return found;
}

static rmq_status read_topics(void *user, const cJSON *root)
{
    struct rq_topics *topics = user;
    const cJSON *json;
    rq_data_version_parse(rq_json_get(root, "dataVersion"), &topics->version);
    cJSON_ArrayForEach(json, rq_json_get(root, "topicConfigTable"))
    {
        struct rq_topic_info info;
        bool changed;
        rq_topic_info_read(json, &info);
        const cJSON *attributes = rq_json_get(json, "attributes");
        char *text = cJSON_IsObject(attributes) ? cJSON_PrintUnformatted(attributes) : NULL;
        rmq_status st =
            put_locked(topics, rq_slice_str(json->string), &info, rq_slice_str(text), &changed);
        cJSON_free(text);
        if (st) {
            return st;
        }
    }
    return RMQ_OK;
}

rmq_status rq_topics_load(struct rq_topics *topics, rmq_error **err)
{
    return rq_table_file_load(&topics->file, read_topics, topics, err);
}

static void write_file(void *table, struct rq_buf *out, const char *line)
{
    write_locked(table, out, rq_slice(NULL, 0), ~0, line);
}

rmq_status rq_topics_persist(struct rq_topics *topics, rmq_error **err)
{
    return rq_table_file_persist(&topics->file, &topics->lock, write_file, topics, err);
}

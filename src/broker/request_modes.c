/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Request modes of groups (see the header). Any thread, one lock. */
#include "broker/request_modes.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define KEY_ROOM 600

void rq_request_modes_init(struct rq_request_modes *modes)
{
    rq_mutex_init(&modes->lock);
    rq_map_init(&modes->table);
    rq_table_file_init(&modes->file);
}

rmq_status rq_request_modes_set_path(struct rq_request_modes *modes, const char *path)
{
    return rq_table_file_set_path(&modes->file, path);
}

void rq_request_modes_free(struct rq_request_modes *modes)
{
    rq_map_free(&modes->table, rq_free);
    rq_table_file_free(&modes->file);
    rq_mutex_destroy(&modes->lock);
}

static bool key_of(struct rq_slice topic, struct rq_slice group, char out[KEY_ROOM],
                   struct rq_slice *key)
{
    if (topic.n + 1 + group.n > KEY_ROOM) {
        return false;
    }
    if (topic.n > 0) {
        memcpy(out, topic.p, topic.n);
    }
    out[topic.n] = '\0';
    if (group.n > 0) {
        memcpy(out + topic.n + 1, group.p, group.n);
    }
    *key = rq_slice(out, topic.n + 1 + group.n);
    return true;
}

bool rq_request_modes_get(struct rq_request_modes *modes, struct rq_slice topic,
                          struct rq_slice group, struct rq_request_mode *out)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    const struct rq_request_mode *mode = NULL;
    if (!topic.p || !group.p || !key_of(topic, group, text, &key)) {
        return false;
    }
    rq_mutex_lock(&modes->lock);
    mode = rq_map_get(&modes->table, key);
    if (mode) {
        *out = *mode;
    }
    rq_mutex_unlock(&modes->lock);
    return mode != NULL;
}

static rmq_status put_locked(struct rq_request_modes *modes, struct rq_slice key,
                             const struct rq_request_mode *mode)
{
    struct rq_request_mode *known = rq_map_get(&modes->table, key);
    if (!known) {
        known = rq_alloc(sizeof *known);
        if (!known || rq_map_put(&modes->table, key, known) != RMQ_OK) {
            rq_free(known);
            return RMQ_ERR_NOMEM;
        }
    }
    *known = *mode;
    modes->file.dirty = true;
    return RMQ_OK;
}

rmq_status rq_request_modes_put(struct rq_request_modes *modes, struct rq_slice topic,
                                struct rq_slice group, const struct rq_request_mode *mode)
{
    char text[KEY_ROOM];
    struct rq_slice key;
    if (!topic.p || !group.p || !key_of(topic, group, text, &key)) {
        return RMQ_ERR_INVALID;
    }
    rq_mutex_lock(&modes->lock);
    rmq_status st = put_locked(modes, key, mode);
    rq_mutex_unlock(&modes->lock);
    return st;
}

/* ---- text: topics with their groups ---- */

static struct rq_slice topic_of(const struct rq_map_entry *entry)
{
    return rq_slice_str(entry->key);
}

static void write_group(const struct rq_map_entry *entry, struct rq_buf *out)
{
    const struct rq_request_mode *mode = entry->value;
    struct rq_slice topic = topic_of(entry);
    struct rq_slice group = rq_slice(entry->key + topic.n + 1, entry->key_len - topic.n - 1);
    rq_json_add_string(out, group);
    rq_buf_add_str(out, ":{\"consumerGroup\":");
    rq_json_add_string(out, group);
    rq_buf_addf(out,
                ",\"mode\":\"%s\",\"popShareQueueNum\":%d,\"topic\":", mode->pop ? "POP" : "PULL",
                (int)mode->share_queues);
    rq_json_add_string(out, topic);
    rq_buf_add_char(out, '}');
}

/* All groups of the topic of the entry at index; nothing when an earlier entry has the topic. */
static bool is_first_of_topic(const struct rq_map *table, const struct rq_map_entry *entry)
{
    const struct rq_map_entry *other;
    size_t i = 0;
    while ((other = rq_map_next(table, &i)) && other != entry) {
        if (rq_slice_eq(topic_of(other), topic_of(entry))) {
            return false;
        }
    }
    return true;
}

static void write_topic(const struct rq_map *table, const struct rq_map_entry *first,
                        struct rq_buf *out)
{
    const struct rq_map_entry *entry;
    size_t i = 0;
    bool any = false;
    rq_json_add_string(out, topic_of(first));
    rq_buf_add_str(out, ":{");
    while ((entry = rq_map_next(table, &i))) {
        if (rq_slice_eq(topic_of(entry), topic_of(first))) {
            rq_buf_add_str(out, any ? "," : "");
            write_group(entry, out);
            any = true;
        }
    }
    rq_buf_add_char(out, '}');
}

static void write_locked(void *table, struct rq_buf *out, const char *line)
{
    struct rq_request_modes *modes = table;
    const struct rq_map_entry *entry;
    size_t i = 0;
    bool any = false;
    rq_buf_addf(out, "%s\"messageRequestModeMap\":{", line);
    while ((entry = rq_map_next(&modes->table, &i))) {
        if (is_first_of_topic(&modes->table, entry)) {
            rq_buf_add_str(out, any ? "," : "");
            write_topic(&modes->table, entry, out);
            any = true;
        }
    }
    rq_buf_add_char(out, '}');
}

void rq_request_modes_write(struct rq_request_modes *modes, struct rq_buf *out)
{
    rq_buf_add_char(out, '{');
    rq_mutex_lock(&modes->lock);
    write_locked(modes, out, "");
    rq_mutex_unlock(&modes->lock);
    rq_buf_add_char(out, '}');
}

rmq_status rq_request_modes_persist(struct rq_request_modes *modes, rmq_error **err)
{
    return rq_table_file_persist(&modes->file, &modes->lock, write_locked, modes, err);
}

static rmq_status read_table(void *table, const cJSON *root)
{
    struct rq_request_modes *modes = table;
    const cJSON *all = rq_json_get(root, "messageRequestModeMap");
    for (const cJSON *topic = all ? all->child : NULL; topic; topic = topic->next) {
        for (const cJSON *group = topic->child; group; group = group->next) {
            char text[KEY_ROOM];
            struct rq_slice key;
            const struct rq_request_mode mode = {
                .pop = strcmp(rq_json_str(group, "mode", "PULL"), "POP") == 0,
                .share_queues = rq_json_i32(group, "popShareQueueNum", 0)};
            if (key_of(rq_slice_str(topic->string), rq_slice_str(group->string), text, &key) &&
                put_locked(modes, key, &mode) != RMQ_OK) {
                return RMQ_ERR_NOMEM;
            }
        }
    }
    return RMQ_OK;
}

rmq_status rq_request_modes_load(struct rq_request_modes *modes, rmq_error **err)
{
    return rq_table_file_load(&modes->file, read_table, modes, err);
}

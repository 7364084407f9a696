/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Offset table with its file consumerOffset.json. Queue ids are small numbers, so each pair has an
 * array indexed by queue id, with RQ_OFFSET_NONE for none. Any thread, one lock. Counterpart:
 * ConsumerOffsetManager.
 */
#include "broker/offsets.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define QUEUES_MAX 65536
#define KEY_MAX    1024

struct queue_offset {
    int64_t committed;
    int64_t reset;
};

struct queue_offsets {
    int32_t count;
    struct queue_offset *queues;
};

static void free_pair(void *p)
{
    struct queue_offsets *pair = p;
    rq_free(pair->queues);
    rq_free(pair);
}

void rq_offsets_init(struct rq_offsets *offsets)
{
    memset(offsets, 0, sizeof *offsets);
    rq_mutex_init(&offsets->lock);
    rq_table_file_init(&offsets->file);
    rq_map_init(&offsets->table);
}

rmq_status rq_offsets_set_path(struct rq_offsets *offsets, const char *path)
{
    return rq_table_file_set_path(&offsets->file, path);
}

void rq_offsets_free(struct rq_offsets *offsets)
{
    rq_map_free(&offsets->table, free_pair);
    rq_mutex_destroy(&offsets->lock);
    rq_table_file_free(&offsets->file);
}

/* "topic@group" in out; p NULL when it is too long to be a name of ours. */
static struct rq_slice key_of(struct rq_slice topic, struct rq_slice group, char out[KEY_MAX])
{
    if (!topic.n || !group.n || topic.n + group.n + 1 > KEY_MAX) {
        return rq_slice(NULL, 0);
    }
    memcpy(out, topic.p, topic.n);
    out[topic.n] = '@';
    memcpy(out + topic.n + 1, group.p, group.n);
    return rq_slice(out, topic.n + 1 + group.n);
}

/* Neither a topic nor a group may hold '@'; a damaged file's key without one has an empty group. */
static void split_key(const struct rq_map_entry *entry, struct rq_slice *topic,
                      struct rq_slice *group)
{
    const char *at = memchr(entry->key, '@', entry->key_len);
    size_t n = at ? (size_t)(at - entry->key) : entry->key_len;
    *topic = rq_slice(entry->key, n);
    *group = at ? rq_slice(at + 1, entry->key_len - n - 1) : rq_slice("", 0);
}

static struct queue_offset *find_locked(struct rq_offsets *offsets, struct rq_slice group,
                                        struct rq_slice topic, int32_t queue_id)
{
    char text[KEY_MAX];
    struct rq_slice key = key_of(topic, group, text);
    const struct queue_offsets *pair = key.p ? rq_map_get(&offsets->table, key) : NULL;
    return pair && queue_id >= 0 && queue_id < pair->count ? &pair->queues[queue_id] : NULL;
}

static rmq_status grow(struct queue_offsets *pair, int32_t count)
{
    int32_t room = pair->count ? pair->count : 4;
    while (room < count) {
        room *= 2;
    }
    struct queue_offset *queues = rq_realloc(pair->queues, (size_t)room * sizeof *queues);
    if (!queues) {
        return RMQ_ERR_NOMEM;
    }
    for (int32_t i = pair->count; i < room; i++) {
        queues[i] = (struct queue_offset){RQ_OFFSET_NONE, RQ_OFFSET_NONE};
    }
    pair->queues = queues;
    pair->count = room;
    return RMQ_OK;
}

static rmq_status make_locked(struct rq_offsets *offsets, struct rq_slice key, int32_t queue_id,
                              struct queue_offset **out)
{
    if (!key.p || queue_id < 0 || queue_id >= QUEUES_MAX) {
        return RMQ_ERR_INVALID;
    }
    struct queue_offsets *pair = rq_map_get(&offsets->table, key);
    if (!pair) {
        pair = rq_calloc(1, sizeof *pair);
        if (!pair || rq_map_put(&offsets->table, key, pair)) {
            rq_free(pair);
            return RMQ_ERR_NOMEM;
        }
    }
    if (queue_id >= pair->count && grow(pair, queue_id + 1)) {
        return RMQ_ERR_NOMEM;
    }
    *out = &pair->queues[queue_id];
    return RMQ_OK;
}

static void changed_locked(struct rq_offsets *offsets)
{
    if (!offsets->file.dirty) {
        offsets->file.dirty = true;
        rq_data_version_next(&offsets->version);
    }
}

bool rq_offsets_commit(struct rq_offsets *offsets, struct rq_slice group, struct rq_slice topic,
                       int32_t queue_id, int64_t offset, rmq_status *st)
{
    char text[KEY_MAX];
    struct queue_offset *queue = NULL;
    struct rq_slice key = key_of(topic, group, text);
    rq_mutex_lock(&offsets->lock);
    rmq_status made = make_locked(offsets, key, queue_id, &queue);
    bool stored = !made && queue->reset == RQ_OFFSET_NONE;
    if (stored && queue->committed != offset) {
        queue->committed = offset;
        changed_locked(offsets);
    }
    rq_mutex_unlock(&offsets->lock);
    if (st) {
        *st = made;
    }
    return stored;
}

int64_t rq_offsets_query(struct rq_offsets *offsets, struct rq_slice group, struct rq_slice topic,
                         int32_t queue_id)
{
    int64_t offset = RQ_OFFSET_NONE;
    rq_mutex_lock(&offsets->lock);
    const struct queue_offset *queue = find_locked(offsets, group, topic, queue_id);
    if (queue) {
        offset = queue->reset != RQ_OFFSET_NONE ? queue->reset : queue->committed;
    }
    rq_mutex_unlock(&offsets->lock);
    return offset;
}

rmq_status rq_offsets_reset(struct rq_offsets *offsets, struct rq_slice group,
                            struct rq_slice topic, int32_t queue_id, int64_t offset)
{
    char text[KEY_MAX];
    struct queue_offset *queue = NULL;
    struct rq_slice key = key_of(topic, group, text);
    rq_mutex_lock(&offsets->lock);
    rmq_status st = make_locked(offsets, key, queue_id, &queue);
    if (!st) {
        queue->committed = offset;
        queue->reset = offset;
        changed_locked(offsets);
    }
    rq_mutex_unlock(&offsets->lock);
    return st;
}

int64_t rq_offsets_take_reset(struct rq_offsets *offsets, struct rq_slice group,
                              struct rq_slice topic, int32_t queue_id)
{
    int64_t offset = RQ_OFFSET_NONE;
    rq_mutex_lock(&offsets->lock);
    struct queue_offset *queue = find_locked(offsets, group, topic, queue_id);
    if (queue) {
        offset = queue->reset;
        queue->reset = RQ_OFFSET_NONE;
    }
    rq_mutex_unlock(&offsets->lock);
    return offset;
}

static void remove_matching(struct rq_offsets *offsets, struct rq_slice topic,
                            struct rq_slice group)
{
    rq_mutex_lock(&offsets->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&offsets->table, &i));) {
        struct rq_slice t, g;
        split_key(entry, &t, &g);
        if ((topic.p && rq_slice_eq(t, topic)) || (group.p && rq_slice_eq(g, group))) {
            struct queue_offsets *pair =
                rq_map_remove(&offsets->table, rq_slice(entry->key, entry->key_len));
            free_pair(pair);
            changed_locked(offsets);
        }
    }
    rq_mutex_unlock(&offsets->lock);
}

void rq_offsets_remove_topic(struct rq_offsets *offsets, struct rq_slice topic)
{
    remove_matching(offsets, topic, rq_slice(NULL, 0));
}

void rq_offsets_remove_group(struct rq_offsets *offsets, struct rq_slice group)
{
    remove_matching(offsets, rq_slice(NULL, 0), group);
}

rmq_status rq_offsets_clone(struct rq_offsets *offsets, struct rq_slice from, struct rq_slice to,
                            struct rq_slice topic)
{
    char from_text[KEY_MAX], to_text[KEY_MAX];
    struct rq_slice from_key = key_of(topic, from, from_text);
    struct rq_slice to_key = key_of(topic, to, to_text);
    rmq_status st = RMQ_OK;
    rq_mutex_lock(&offsets->lock);
    const struct queue_offsets *source = from_key.p ? rq_map_get(&offsets->table, from_key) : NULL;
    for (int32_t i = 0; source && !st && i < source->count; i++) {
        struct queue_offset *queue = NULL;
        if (source->queues[i].committed != RQ_OFFSET_NONE &&
            !(st = make_locked(offsets, to_key, i, &queue))) {
            queue->committed = source->queues[i].committed;
            changed_locked(offsets);
        }
    }
    rq_mutex_unlock(&offsets->lock);
    return st;
}

void rq_offsets_each(struct rq_offsets *offsets, struct rq_slice group, struct rq_slice topic,
                     void (*each)(struct rq_slice topic, struct rq_slice group, void *user),
                     void *user)
{
    rq_mutex_lock(&offsets->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&offsets->table, &i));) {
        struct rq_slice t, g;
        split_key(entry, &t, &g);
        if ((!topic.p || rq_slice_eq(t, topic)) && (!group.p || rq_slice_eq(g, group))) {
            each(t, g, user);
        }
    }
    rq_mutex_unlock(&offsets->lock);
}

static void write_pair(const struct queue_offsets *pair, struct rq_buf *out)
{
    bool first = true;
    rq_buf_add_char(out, '{');
    for (int32_t i = 0; i < pair->count; i++) {
        if (pair->queues[i].committed != RQ_OFFSET_NONE) {
            rq_buf_addf(out, "%s%d:%lld", first ? "" : ",", i,
                        (long long)pair->queues[i].committed);
            first = false;
        }
    }
    rq_buf_add_char(out, '}');
}

static void write_locked(struct rq_offsets *offsets, struct rq_buf *out, const char *line)
{
    bool first = true;
    rq_buf_add_str(out, "\"dataVersion\":");
    rq_data_version_write(&offsets->version, out);
    rq_buf_addf(out, ",%s\"offsetTable\":{", line);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&offsets->table, &i));) {
        rq_buf_addf(out, "%s%s", first ? "" : ",", line);
        rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
        rq_buf_add_char(out, ':');
        write_pair(entry->value, out);
        first = false;
    }
    rq_buf_addf(out, "%s}", line);
}

void rq_offsets_write(struct rq_offsets *offsets, struct rq_buf *out)
{
    rq_mutex_lock(&offsets->lock);
    write_locked(offsets, out, "");
    rq_mutex_unlock(&offsets->lock);
}

static rmq_status read_pair(struct rq_offsets *offsets, const cJSON *json)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        int32_t queue_id = 0;
        int64_t offset = 0;
        struct queue_offset *queue = NULL;
        if (!rq_slice_to_i32(rq_slice_str(item->string), &queue_id) ||
            !rq_json_value_i64(item, &offset)) {
            continue;
        }
        rmq_status st = make_locked(offsets, rq_slice_str(json->string), queue_id, &queue);
        if (st == RMQ_ERR_NOMEM) {
            return st;
        }
        if (!st) {
            queue->committed = offset;
        }
    }
    return RMQ_OK;
}

static rmq_status read_offsets(void *user, const cJSON *root)
{
    struct rq_offsets *offsets = user;
    const cJSON *json;
    rq_data_version_parse(rq_json_get(root, "dataVersion"), &offsets->version);
    cJSON_ArrayForEach(json, rq_json_get(root, "offsetTable"))
    {
        rmq_status st = read_pair(offsets, json);
        if (st) {
            return st;
        }
    }
    return RMQ_OK;
}

rmq_status rq_offsets_load(struct rq_offsets *offsets, rmq_error **err)
{
    return rq_table_file_load(&offsets->file, read_offsets, offsets, err);
}

void rq_offsets_fit(struct rq_offsets *offsets,
                    int64_t (*end)(void *user, struct rq_slice topic, int32_t queue_id), void *user)
{
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&offsets->table, &i));) {
        struct rq_slice topic, group;
        struct queue_offsets *pair = entry->value;
        int queues = 0;
        int64_t messages = 0;
        split_key(entry, &topic, &group);
        for (int32_t queue_id = 0; queue_id < pair->count; queue_id++) {
            struct queue_offset *queue = &pair->queues[queue_id];
            int64_t last = queue->committed > 0 ? end(user, topic, queue_id) : queue->committed;
            if (queue->committed > last) {
                queues++;
                messages += queue->committed - last;
                queue->committed = last;
                changed_locked(offsets);
            }
        }
        if (queues) {
            RQ_LOG(WARN, "consumed messages are lost, the group goes on where the queues end",
                   "topic=%.*s group=%.*s queues=%d messages=%lld", (int)topic.n, topic.p,
                   (int)group.n, group.p, queues, (long long)messages);
        }
    }
}

static void write_file(void *table, struct rq_buf *out, const char *line)
{
    write_locked(table, out, line);
}

rmq_status rq_offsets_persist(struct rq_offsets *offsets, rmq_error **err)
{
    return rq_table_file_persist(&offsets->file, &offsets->lock, write_file, offsets, err);
}

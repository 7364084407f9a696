/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The table of mappings with its file topicQueueMapping.json. Any thread, one lock. */
#include "broker/queue_mappings.h"

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

static void release_mapping(void *p)
{
    rq_queue_mapping_release(p);
}

void rq_queue_mappings_init(struct rq_queue_mappings *mappings)
{
    memset(mappings, 0, sizeof *mappings);
    atomic_init(&mappings->count, 0);
    rq_mutex_init(&mappings->lock);
    rq_table_file_init(&mappings->file);
    rq_map_init(&mappings->table);
}

rmq_status rq_queue_mappings_set_path(struct rq_queue_mappings *mappings, const char *path)
{
    return rq_table_file_set_path(&mappings->file, path);
}

void rq_queue_mappings_free(struct rq_queue_mappings *mappings)
{
    rq_map_free(&mappings->table, release_mapping);
    rq_mutex_destroy(&mappings->lock);
    rq_table_file_free(&mappings->file);
}

/* ---- what is there ---- */

static bool is_empty(const struct rq_queue_mappings *mappings)
{
    return atomic_load_explicit(&mappings->count, memory_order_relaxed) == 0;
}

struct rq_queue_mapping *rq_queue_mappings_get(struct rq_queue_mappings *mappings,
                                               struct rq_slice topic)
{
    if (is_empty(mappings)) {
        return NULL;
    }
    rq_mutex_lock(&mappings->lock);
    struct rq_queue_mapping *mapping = rq_queue_mapping_retain(rq_map_get(&mappings->table, topic));
    rq_mutex_unlock(&mappings->lock);
    return mapping;
}

bool rq_queue_mappings_is_current(struct rq_queue_mappings *mappings,
                                  const struct rq_queue_mapping *mapping)
{
    rq_mutex_lock(&mappings->lock);
    bool same = rq_map_get(&mappings->table, rq_slice_str(mapping->topic)) == mapping;
    rq_mutex_unlock(&mappings->lock);
    return same;
}

struct rq_data_version rq_queue_mappings_version(struct rq_queue_mappings *mappings)
{
    rq_mutex_lock(&mappings->lock);
    struct rq_data_version version = mappings->version;
    rq_mutex_unlock(&mappings->lock);
    return version;
}

/* ---- changes ---- */

/* The table has changed. */
static void note_change_locked(struct rq_queue_mappings *mappings)
{
    atomic_store_explicit(&mappings->count, mappings->table.count, memory_order_relaxed);
    rq_data_version_next(&mappings->version);
    mappings->file.dirty = true;
}

/* The reference goes to the table on RMQ_OK. */
static rmq_status put_locked(struct rq_queue_mappings *mappings, struct rq_queue_mapping *mapping)
{
    struct rq_slice topic = rq_slice_str(mapping->topic);
    struct rq_queue_mapping *old = rq_map_get(&mappings->table, topic);
    if (rq_map_put(&mappings->table, topic, mapping)) {
        return RMQ_ERR_NOMEM;
    }
    rq_queue_mapping_release(old);
    note_change_locked(mappings);
    return RMQ_OK;
}

rmq_status rq_queue_mappings_put(struct rq_queue_mappings *mappings,
                                 struct rq_queue_mapping *mapping, bool force, rmq_error **err)
{
    rmq_status st = rq_queue_mapping_check(mapping, err);
    if (st) {
        return st;
    }
    rq_mutex_lock(&mappings->lock);
    const struct rq_queue_mapping *old = rq_map_get(&mappings->table, rq_slice_str(mapping->topic));
    st = old ? rq_queue_mapping_succeed(mapping, old, force, err) : RMQ_OK;
    if (!st && (st = put_locked(mappings, mapping))) {
        st = rq_error_set(err, st, "out of memory");
    }
    rq_mutex_unlock(&mappings->lock);
    return st;
}

bool rq_queue_mappings_replace(struct rq_queue_mappings *mappings,
                               const struct rq_queue_mapping *old, struct rq_queue_mapping *next)
{
    rq_mutex_lock(&mappings->lock);
    bool done = rq_map_get(&mappings->table, rq_slice_str(old->topic)) == old &&
                put_locked(mappings, next) == RMQ_OK;
    rq_mutex_unlock(&mappings->lock);
    return done;
}

bool rq_queue_mappings_remove(struct rq_queue_mappings *mappings, struct rq_slice topic)
{
    rq_mutex_lock(&mappings->lock);
    struct rq_queue_mapping *mapping = rq_map_remove(&mappings->table, topic);
    if (mapping) {
        note_change_locked(mappings);
    }
    rq_mutex_unlock(&mappings->lock);
    rq_queue_mapping_release(mapping);
    return mapping != NULL;
}

/* ---- writing and reading ---- */

void rq_queue_mappings_names(struct rq_queue_mappings *mappings, struct rq_buf *out)
{
    rq_mutex_lock(&mappings->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&mappings->table, &i));) {
        rq_buf_add(out, entry->key, entry->key_len + 1);
    }
    rq_mutex_unlock(&mappings->lock);
}

static void write_locked(const struct rq_queue_mappings *mappings,
                         void (*write)(const struct rq_queue_mapping *, struct rq_buf *),
                         struct rq_buf *out, const char *line)
{
    bool first = true;
    const struct rq_map_entry *entry;
    rq_buf_add_char(out, '{');
    for (size_t i = 0; (entry = rq_map_next(&mappings->table, &i)); first = false) {
        rq_buf_addf(out, "%s%s", first ? "" : ",", line);
        rq_json_add_string(out, rq_slice(entry->key, entry->key_len));
        rq_buf_add_char(out, ':');
        write(entry->value, out);
    }
    rq_buf_addf(out, "%s}", line);
}

void rq_queue_mappings_write_infos(struct rq_queue_mappings *mappings, struct rq_buf *out)
{
    rq_mutex_lock(&mappings->lock);
    write_locked(mappings, rq_queue_mapping_write_info, out, "");
    rq_mutex_unlock(&mappings->lock);
}

void rq_queue_mappings_write_details(struct rq_queue_mappings *mappings, struct rq_buf *out)
{
    rq_mutex_lock(&mappings->lock);
    write_locked(mappings, rq_queue_mapping_write, out, "");
    rq_mutex_unlock(&mappings->lock);
}

static void write_file(void *table, struct rq_buf *out, const char *line)
{
    const struct rq_queue_mappings *mappings = table;
    rq_buf_add_str(out, "\"dataVersion\":");
    rq_data_version_write(&mappings->version, out);
    rq_buf_addf(out, ",%s\"topicQueueMappingInfoMap\":", line);
    write_locked(mappings, rq_queue_mapping_write, out, line);
}

rmq_status rq_queue_mappings_persist(struct rq_queue_mappings *mappings, rmq_error **err)
{
    return rq_table_file_persist(&mappings->file, &mappings->lock, write_file, mappings, err);
}

/* One mapping that cannot be does not keep the broker from its other topics. */
static rmq_status read_mapping(struct rq_queue_mappings *mappings, const cJSON *json)
{
    struct rq_queue_mapping *mapping = NULL;
    rmq_error *err = NULL;
    rmq_status st = rq_queue_mapping_parse(json, &mapping, &err);
    st = st ? st : rq_queue_mapping_check(mapping, &err);
    st = st ? st : put_locked(mappings, mapping);
    if (st) {
        rq_queue_mapping_release(mapping);
    }
    if (st && st != RMQ_ERR_NOMEM) {
        RQ_LOG(WARN, "the mapping of a static topic is dropped", "topic=%s detail=%s", json->string,
               err ? rmq_error_message(err) : rmq_status_text(st));
    }
    rmq_error_destroy(err);
    return st == RMQ_ERR_NOMEM ? st : RMQ_OK;
}

static rmq_status read_file(void *table, const cJSON *root)
{
    struct rq_queue_mappings *mappings = table;
    rmq_status st = RMQ_OK;
    const cJSON *item;
    cJSON_ArrayForEach(item, rq_json_get(root, "topicQueueMappingInfoMap"))
    {
        st = st ? st : read_mapping(mappings, item);
    }
    rq_data_version_parse(rq_json_get(root, "dataVersion"), &mappings->version);
    return st;
}

rmq_status rq_queue_mappings_load(struct rq_queue_mappings *mappings, rmq_error **err)
{
    return rq_table_file_load(&mappings->file, read_file, mappings, err);
}

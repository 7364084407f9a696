/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Settings of the name server. Loop thread. Counterpart: KVConfigManager. */
#include "namesrv/kv.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define KEY_MAX ((size_t)64 << 10)

void rq_kv_init(struct rq_kv *kv)
{
    rq_map_init(&kv->table);
    rq_mutex_init(&kv->lock);
    rq_table_file_init(&kv->file);
}

void rq_kv_free(struct rq_kv *kv)
{
    rq_map_free(&kv->table, rq_free);
    rq_table_file_free(&kv->file);
    rq_mutex_destroy(&kv->lock);
}

/* The map's key; the buffer is freed by the caller. Empty after an error. */
static struct rq_slice full_key(struct rq_buf *out, struct rq_slice space, struct rq_slice key)
{
    rq_buf_init(out, KEY_MAX);
    rq_buf_add_slice(out, space);
    rq_buf_add_char(out, '\0');
    rq_buf_add_slice(out, key);
    return rq_buf_status(out) ? rq_slice(NULL, 0) : rq_slice(out->data, out->len);
}

/* A namespace that once had a key stays, as in Java: an entry of its bare name says so. */
static rmq_status put_space(struct rq_kv *kv, struct rq_slice space)
{
    if (rq_map_get(&kv->table, space)) {
        return RMQ_OK;
    }
    char *value = rq_strdup("");
    rmq_status st = value ? rq_map_put(&kv->table, space, value) : RMQ_ERR_NOMEM;
    if (st) {
        rq_free(value);
    }
    return st;
}

static rmq_status put(struct rq_kv *kv, struct rq_slice space, struct rq_slice key,
                      struct rq_slice value)
{
    struct rq_buf text;
    struct rq_slice full = full_key(&text, space, key);
    rmq_status st = rq_buf_status(&text);
    st = st ? st : put_space(kv, rq_slice_str(full.p));
    char *copy = st ? NULL : rq_slice_dup(value);
    if (!st && !copy) {
        st = RMQ_ERR_NOMEM;
    }
    if (!st) {
        char *old = rq_map_get(&kv->table, full);
        st = rq_map_put(&kv->table, full, copy);
        rq_free(st ? copy : old);
    }
    rq_buf_free(&text);
    return st;
}

const char *rq_kv_get(const struct rq_kv *kv, struct rq_slice space, struct rq_slice key)
{
    struct rq_buf text;
    struct rq_slice full = full_key(&text, space, key);
    const char *value = full.p ? rq_map_get(&kv->table, full) : NULL;
    rq_buf_free(&text);
    return value;
}

/* ---- file ---- */

static struct rq_slice space_of(const struct rq_map_entry *entry)
{
    return rq_slice(entry->key, strlen(entry->key));
}

static bool is_space(const struct rq_map_entry *entry)
{
    return entry->key_len == space_of(entry).n;
}

/* {"KEY":"VALUE",…} */
static void write_members(const struct rq_kv *kv, struct rq_slice space, struct rq_buf *out)
{
    bool first = true;
    const struct rq_map_entry *entry;
    rq_buf_add_char(out, '{');
    for (size_t i = 0; (entry = rq_map_next(&kv->table, &i));) {
        if (!is_space(entry) && rq_slice_eq(space_of(entry), space)) {
            rq_json_add_member(out, &first, entry->key + space.n + 1);
            rq_json_add_string(out, rq_slice_str(entry->value));
        }
    }
    rq_buf_add_char(out, '}');
}

static void write_all(void *table, struct rq_buf *out, const char *line)
{
    const struct rq_kv *kv = table;
    bool first = true;
    const struct rq_map_entry *entry;
    (void)line;
    rq_buf_add_str(out, "\"configTable\":{");
    for (size_t i = 0; (entry = rq_map_next(&kv->table, &i));) {
        if (is_space(entry)) {
            rq_json_add_member(out, &first, entry->key);
            write_members(kv, space_of(entry), out);
        }
    }
    rq_buf_add_char(out, '}');
}

/* A file that cannot be written is logged: the setting holds all the same. */
static void persist(struct rq_kv *kv)
{
    rmq_error *err = NULL;
    kv->file.dirty = true;
    if (rq_table_file_persist(&kv->file, &kv->lock, write_all, kv, &err)) {
        RQ_LOG(WARN, "key-value settings could not be written", "file=%s detail=%s", kv->file.path,
               rmq_error_message(err));
    }
    rmq_error_destroy(err);
}

static rmq_status read_all(void *table, const cJSON *root)
{
    struct rq_kv *kv = table;
    const cJSON *space;
    const cJSON *item;
    cJSON_ArrayForEach(space, rq_json_get(root, "configTable"))
    {
        if (put_space(kv, rq_slice_str(space->string))) {
            return RMQ_ERR_NOMEM;
        }
        cJSON_ArrayForEach(item, space)
        {
            if (cJSON_IsString(item) &&
                put(kv, rq_slice_str(space->string), rq_slice_str(item->string),
                    rq_slice_str(item->valuestring))) {
                return RMQ_ERR_NOMEM;
            }
        }
    }
    return RMQ_OK;
}

rmq_status rq_kv_open(struct rq_kv *kv, const char *path, rmq_error **err)
{
    if (rq_table_file_set_path(&kv->file, path)) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "key-value settings in %s", path);
    }
    return rq_table_file_load(&kv->file, read_all, kv, err);
}

rmq_status rq_kv_put(struct rq_kv *kv, struct rq_slice space, struct rq_slice key,
                     struct rq_slice value)
{
    rmq_status st = put(kv, space, key, value);
    if (!st) {
        persist(kv);
    }
    return st;
}

void rq_kv_remove(struct rq_kv *kv, struct rq_slice space, struct rq_slice key)
{
    struct rq_buf text;
    struct rq_slice full = full_key(&text, space, key);
    char *value = full.p ? rq_map_remove(&kv->table, full) : NULL;
    rq_buf_free(&text);
    if (value) {
        rq_free(value);
        persist(kv);
    }
}

bool rq_kv_write(const struct rq_kv *kv, struct rq_slice space, struct rq_buf *out)
{
    if (!rq_map_get(&kv->table, space)) {
        return false;
    }
    rq_buf_add_str(out, "{\"table\":");
    write_members(kv, space, out);
    rq_buf_add_char(out, '}');
    return true;
}

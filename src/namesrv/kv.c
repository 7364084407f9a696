/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Settings of the name server. Loop thread. Counterpart: KVConfigManager. */
#include "namesrv/kv.h"

#include "base/json.h"
#include "base/mem.h"

#define KEY_MAX ((size_t)64 << 10)

void rq_kv_init(struct rq_kv *kv)
{
    rq_map_init(&kv->table);
}

void rq_kv_free(struct rq_kv *kv)
{
    rq_map_free(&kv->table, rq_free);
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

rmq_status rq_kv_put(struct rq_kv *kv, struct rq_slice space, struct rq_slice key,
                     struct rq_slice value)
{
    struct rq_buf text;
    struct rq_slice full = full_key(&text, space, key);
    rmq_status st = rq_buf_status(&text);
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

void rq_kv_remove(struct rq_kv *kv, struct rq_slice space, struct rq_slice key)
{
    struct rq_buf text;
    struct rq_slice full = full_key(&text, space, key);
    if (full.p) {
        rq_free(rq_map_remove(&kv->table, full));
    }
    rq_buf_free(&text);
}

bool rq_kv_write(const struct rq_kv *kv, struct rq_slice space, struct rq_buf *out)
{
    bool first = true;
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&kv->table, &i));) {
        if (entry->key_len <= space.n || entry->key[space.n] != '\0' ||
            memcmp(entry->key, space.p, space.n) != 0) {
            continue;
        }
        rq_buf_add_str(out, first ? "{\"table\":{" : ",");
        rq_json_add_string(out, rq_slice(entry->key + space.n + 1, entry->key_len - space.n - 1));
        rq_buf_add_char(out, ':');
        rq_json_add_string(out, rq_slice_str(entry->value));
        first = false;
    }
    if (!first) {
        rq_buf_add_str(out, "}}");
    }
    return !first;
}

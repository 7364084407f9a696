/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The hash map: open addressing with linear probing, FNV-1a with a final mix, grown at three
 * quarters. */
#include "base/map.h"

#include "base/mem.h"

#define FIRST_CAPACITY 16

uint64_t rq_hash_bytes(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    }
    h ^= h >> 32;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

void rq_map_init(struct rq_map *map)
{
    *map = (struct rq_map){0};
}

void rq_map_free(struct rq_map *map, void (*free_value)(void *value))
{
    for (size_t i = 0; i < map->cap; i++) {
        struct rq_map_entry *entry = &map->entries[i];
        if (entry->value && free_value) {
            free_value(entry->value);
        }
        rq_free(entry->key);
    }
    rq_free(map->entries);
    rq_map_init(map);
}

/* The slot of key, or the first free one on its way; removed slots are passed over. */
static struct rq_map_entry *find_slot(const struct rq_map *map, struct rq_slice key, uint64_t hash)
{
    for (size_t i = (size_t)hash & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        struct rq_map_entry *entry = &map->entries[i];
        if (!entry->key ||
            (entry->hash == hash && rq_slice_eq(rq_slice(entry->key, entry->key_len), key))) {
            return entry;
        }
    }
}

void *rq_map_get(const struct rq_map *map, struct rq_slice key)
{
    if (!map->cap) {
        return NULL;
    }
    return find_slot(map, key, rq_hash_bytes(key.p, key.n))->value;
}

/* Doubles the table when live entries fill half of it, else only sweeps removed slots out. */
static rmq_status rehash(struct rq_map *map)
{
    size_t cap = map->cap ? map->cap : FIRST_CAPACITY;
    while (map->count + 1 > cap / 2) {
        cap *= 2;
    }
    struct rq_map next = {.cap = cap};
    next.entries = rq_calloc(cap, sizeof *next.entries);
    if (!next.entries) {
        return RMQ_ERR_NOMEM;
    }
    for (size_t i = 0; i < map->cap; i++) {
        struct rq_map_entry *entry = &map->entries[i];
        if (entry->value) {
            *find_slot(&next, rq_slice(entry->key, entry->key_len), entry->hash) = *entry;
            next.count++;
        } else {
            rq_free(entry->key);
        }
    }
    next.used = next.count;
    rq_free(map->entries);
    *map = next;
    return RMQ_OK;
}

rmq_status rq_map_put(struct rq_map *map, struct rq_slice key, void *value)
{
    if (map->used + 1 > map->cap / 4 * 3) {
        rmq_status st = rehash(map);
        if (st) {
            return st;
        }
    }
    uint64_t hash = rq_hash_bytes(key.p, key.n);
    struct rq_map_entry *entry = find_slot(map, key, hash);
    if (!entry->key) {
        entry->key = rq_slice_dup(key);
        if (!entry->key) {
            return RMQ_ERR_NOMEM;
        }
        entry->key_len = key.n;
        entry->hash = hash;
        map->used++;
    }
    map->count += entry->value == NULL;
    entry->value = value;
    return RMQ_OK;
}

void *rq_map_remove(struct rq_map *map, struct rq_slice key)
{
    if (!map->cap) {
        return NULL;
    }
    struct rq_map_entry *entry = find_slot(map, key, rq_hash_bytes(key.p, key.n));
    void *value = entry->value;
    if (value) {
        entry->value = NULL;
        map->count--;
    }
    return value;
}

struct rq_map_entry *rq_map_next(const struct rq_map *map, size_t *i)
{
    while (*i < map->cap) {
        struct rq_map_entry *entry = &map->entries[(*i)++];
        if (entry->value) {
            return entry;
        }
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The hash map: open addressing with linear probing, SipHash-1-3 under the map's secret, grown at
 * three quarters. */
#include "base/map.h"

#include <sys/random.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/time.h"

#define FIRST_CAPACITY 16

/* ---- SipHash, with one round for each word and three at the end (Aumasson, Bernstein) ---- */

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = turn(v[1], 13) ^ v[0];
    v[0] = turn(v[0], 32);
    v[2] += v[3];
    v[3] = turn(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = turn(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = turn(v[1], 17) ^ v[2];
    v[2] = turn(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-1-3. Who does not know the secret cannot choose texts that meet. */
static uint64_t hash_secret(const uint64_t secret[2], const void *p, size_t n)
{
    uint64_t v[4] = {
        secret[0] ^ UINT64_C(0x736f6d6570736575), secret[1] ^ UINT64_C(0x646f72616e646f6d),
        secret[0] ^ UINT64_C(0x6c7967656e657261), secret[1] ^ UINT64_C(0x7465646279746573)};
    const unsigned char *bytes = p;
    size_t at = 0;
    for (; at + 8 <= n; at += 8) {
        sip_word(v, rq_eight_load(bytes + at));
    }
    uint64_t last = (uint64_t)n << 56;
    for (int shift = 0; at < n; at++, shift += 8) {
        last |= (uint64_t)bytes[at] << shift;
    }
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t rq_hash_bytes(const void *p, size_t n)
{
    static const uint64_t none[2] = {0, 0};
    return hash_secret(none, p, n);
}

/* Where the system has no random bytes yet, the addresses and the clock are what a peer knows
 * least. */
static void make_secret(struct rq_map *map)
{
    if (getrandom(map->secret, sizeof map->secret, GRND_NONBLOCK) != sizeof map->secret) {
        map->secret[0] = (uint64_t)rq_mono_us();
        map->secret[1] = (uint64_t)(uintptr_t)map;
    }
}

/* ---- the map ---- */

static uint64_t hash_of(const struct rq_map *map, struct rq_slice key)
{
    return hash_secret(map->secret, key.p, key.n);
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
    return find_slot(map, key, hash_of(map, key))->value;
}

/* Doubles the table when live entries fill half of it, else only sweeps removed slots out. */
static rmq_status rehash(struct rq_map *map)
{
    size_t cap = map->cap ? map->cap : FIRST_CAPACITY;
    while (map->count + 1 > cap / 2) {
        cap *= 2;
    }
    if (!map->cap) {
        make_secret(map);
    }
    struct rq_map next = {.cap = cap, .secret = {map->secret[0], map->secret[1]}};
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
    uint64_t hash = hash_of(map, key);
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
    struct rq_map_entry *entry = find_slot(map, key, hash_of(map, key));
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

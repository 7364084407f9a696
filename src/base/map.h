/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Hash map from byte strings (copied) to pointers (not owned): open addressing, grows by doubling.
 * Peers choose many of the keys (topics, groups, client ids): each map has a secret of its own, so
 * that nobody can choose keys that meet in one place. The order of a walk is another in each map.
 * Not thread-safe: the owner guards it.
 */
#ifndef RQ_BASE_MAP_H
#define RQ_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmq/status.h>

#include "base/slice.h"

struct rq_map_entry {
    char *key; /* NUL-terminated copy; NULL = never used */
    size_t key_len;
    uint64_t hash;
    void *value; /* NULL = removed */
};

struct rq_map {
    struct rq_map_entry *entries;
    size_t cap;   /* power of two, or 0 */
    size_t used;  /* slots with a key, removed ones too */
    size_t count; /* live */
    uint64_t secret[2];
};

void rq_map_init(struct rq_map *map);
void rq_map_free(struct rq_map *map, void (*free_value)(void *value)); /* free_value may be NULL */
void *rq_map_get(const struct rq_map *map, struct rq_slice key);       /* NULL = absent */
/* value not NULL; replaces silently */
rmq_status rq_map_put(struct rq_map *map, struct rq_slice key, void *value);
void *rq_map_remove(struct rq_map *map, struct rq_slice key); /* the value, or NULL */

/* Walk: i starts at 0; returns the next live entry at or after slot *i and moves *i behind it; NULL
 * at the end. Removing the entry just returned is allowed, putting is not. */
struct rq_map_entry *rq_map_next(const struct rq_map *map, size_t *i);

/* A hash without a secret: for what nobody gains anything by choosing. */
uint64_t rq_hash_bytes(const void *p, size_t n);

#endif

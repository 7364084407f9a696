/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Last routes by topic (see the header). Any thread, one lock. */
#include "broker/route_cache.h"

#include "base/mem.h"

void rq_route_cache_init(struct rq_route_cache *cache)
{
    rq_mutex_init(&cache->lock);
    rq_map_init(&cache->table);
}

void rq_route_cache_free(struct rq_route_cache *cache)
{
    rq_map_free(&cache->table, rq_free);
    rq_mutex_destroy(&cache->lock);
}

void rq_route_cache_put(struct rq_route_cache *cache, struct rq_slice topic, struct rq_slice json)
{
    char *copy = rq_slice_dup(json);
    rq_mutex_lock(&cache->lock);
    rq_free(rq_map_remove(&cache->table, topic));
    if (copy && rq_map_put(&cache->table, topic, copy) != RMQ_OK) {
        rq_free(copy);
    }
    rq_mutex_unlock(&cache->lock);
}

void rq_route_cache_remove(struct rq_route_cache *cache, struct rq_slice topic)
{
    rq_mutex_lock(&cache->lock);
    rq_free(rq_map_remove(&cache->table, topic));
    rq_mutex_unlock(&cache->lock);
}

char *rq_route_cache_get(struct rq_route_cache *cache, struct rq_slice topic)
{
    rq_mutex_lock(&cache->lock);
    const char *json = rq_map_get(&cache->table, topic);
    char *copy = json ? rq_strdup(json) : NULL;
    rq_mutex_unlock(&cache->lock);
    return copy;
}

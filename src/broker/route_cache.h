/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The last route of each topic that a name server told, for the time in which none answers. Any
 * thread. Counterpart: the tables of TopicRouteInfoManager.
 */
#ifndef RQ_BROKER_ROUTE_CACHE_H
#define RQ_BROKER_ROUTE_CACHE_H

#include "base/map.h"
#include "base/slice.h"
#include "base/thread.h"

struct rq_route_cache {
    struct rq_mutex lock; /* rank: broker tables; guards all below */
    struct rq_map table;  /* topic -> the route's JSON */
};

void rq_route_cache_init(struct rq_route_cache *cache);
void rq_route_cache_free(struct rq_route_cache *cache);

/* Without memory nothing is kept. */
void rq_route_cache_put(struct rq_route_cache *cache, struct rq_slice topic, struct rq_slice json);
void rq_route_cache_remove(struct rq_route_cache *cache, struct rq_slice topic);

/* A copy, which the caller frees; NULL: nothing is known. */
char *rq_route_cache_get(struct rq_route_cache *cache, struct rq_slice topic);

#endif

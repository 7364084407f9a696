/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Memory of received frames: see frame_ref.h. Taken on the loop's thread, given back on any. */
#include "net/frame_ref.h"

#include "base/mem.h"
#include "net/conn.h"
#include "net/loop_priv.h"

#define KEPT_LEAST ((size_t)8 << 10) /* smaller ones are the allocator's */
#define KEPT_MOST  ((size_t)64 << 10)
#define ROUND      ((size_t)4 << 10) /* answers of one stream differ a little */
#define IDLE_MS    1000

static struct rq_frame_ref *new_ref(size_t cap, struct rq_loop *home)
{
    struct rq_frame_ref *ref = rq_alloc(sizeof *ref + cap);
    if (ref) {
        atomic_init(&ref->refs, 1);
        ref->cap = (uint32_t)cap;
        ref->home = home;
    }
    return ref;
}

static void free_ref(struct rq_frame_ref *ref)
{
    struct rq_loop *home = ref->home;
    rq_free(ref);
    if (home) {
        rq_loop_unhold(home);
    }
}

/* ---- the cache ---- */

static void look_again(struct rq_timer *timer)
{
    struct rq_frame_cache *cache = RQ_CONTAINER_OF(timer, struct rq_frame_cache, timer);
    struct rq_loop *loop = RQ_CONTAINER_OF(cache, struct rq_loop, frames);
    if (cache->used) {
        cache->used = false;
        rq_timer_start(loop, timer, IDLE_MS);
    } else {
        rq_frame_cache_drain(cache);
    }
}

void rq_frame_cache_init(struct rq_frame_cache *cache)
{
    for (size_t i = 0; i < RQ_FRAME_CACHE_SLOTS; i++) {
        atomic_init(&cache->slots[i], NULL);
    }
    atomic_init(&cache->open, false);
    rq_timer_init(&cache->timer, look_again);
}

void rq_frame_cache_drain(struct rq_frame_cache *cache)
{
    atomic_store(&cache->open, false);
    for (size_t i = 0; i < RQ_FRAME_CACHE_SLOTS; i++) {
        struct rq_frame_ref *ref = atomic_exchange(&cache->slots[i], NULL);
        if (ref) {
            free_ref(ref);
        }
    }
}

static void open_cache(struct rq_loop *loop)
{
    loop->frames.used = true;
    if (!atomic_load_explicit(&loop->frames.open, memory_order_relaxed)) {
        atomic_store(&loop->frames.open, true);
        rq_timer_start(loop, &loop->frames.timer, IDLE_MS);
    }
}

/* One that fits without wasting half of it. A frame in a slot may be taken back by who put it
 * there: only what was taken out is looked at. */
static struct rq_frame_ref *find_kept(struct rq_frame_cache *cache, size_t n)
{
    for (size_t i = 0; i < RQ_FRAME_CACHE_SLOTS; i++) {
        bool any = atomic_load_explicit(&cache->slots[i], memory_order_relaxed) != NULL;
        struct rq_frame_ref *ref = any ? atomic_exchange(&cache->slots[i], NULL) : NULL;
        struct rq_frame_ref *expected = NULL;
        if (ref && ref->cap >= n && ref->cap / 2 <= n) {
            return ref;
        }
        if (ref && !atomic_compare_exchange_strong(&cache->slots[i], &expected, ref)) {
            free_ref(ref);
        }
    }
    return NULL;
}

static bool put(struct rq_frame_cache *cache, struct rq_frame_ref *ref)
{
    for (size_t i = 0; i < RQ_FRAME_CACHE_SLOTS && atomic_load(&cache->open); i++) {
        struct rq_frame_ref *expected = NULL;
        if (!atomic_compare_exchange_strong(&cache->slots[i], &expected, ref)) {
            continue;
        }
        /* A drain that did not see it has closed the cache before: then it is ours again, if nobody
         * else frees it. */
        return atomic_load(&cache->open) ||
               !atomic_compare_exchange_strong(&cache->slots[i], &ref, NULL);
    }
    return false;
}

/* The last reference is gone. false: there is no room, or it has grown: a large message would fill
 * a place for which no frame is looked. */
static bool keep(struct rq_frame_ref *ref)
{
    struct rq_loop *home = ref->home;
    if (!home || ref->cap > KEPT_MOST) {
        return false;
    }
    /* a drain may free the frame, and with it the last hold of a loop that has ended */
    rq_loop_hold(home);
    bool kept = put(&home->frames, ref);
    rq_loop_unhold(home);
    return kept;
}

/* ---- references ---- */

struct rq_frame_ref *rq_frame_ref_take(struct rq_loop *loop, size_t n)
{
    if (n < KEPT_LEAST || n > KEPT_MOST) {
        return new_ref(n, NULL);
    }
    open_cache(loop);
    struct rq_frame_ref *ref = find_kept(&loop->frames, n);
    if (ref) {
        atomic_store_explicit(&ref->refs, 1, memory_order_relaxed);
        return ref;
    }
    ref = new_ref((n + ROUND - 1) / ROUND * ROUND, loop);
    if (ref) {
        rq_loop_hold(loop);
    }
    return ref;
}

struct rq_frame_ref *rq_frame_ref_grow(struct rq_frame_ref *ref, size_t cap)
{
    struct rq_frame_ref *grown = rq_realloc(ref, sizeof *ref + cap);
    if (grown) {
        grown->cap = (uint32_t)cap;
    }
    return grown;
}

struct rq_frame_ref *rq_frame_ref_create(size_t n, char **bytes)
{
    struct rq_frame_ref *ref = new_ref(n, NULL);
    *bytes = ref ? ref->bytes : NULL;
    return ref;
}

struct rq_frame_ref *rq_frame_ref_retain(struct rq_frame_ref *ref)
{
    atomic_fetch_add_explicit(&ref->refs, 1, memory_order_relaxed);
    return ref;
}

void rq_frame_ref_release(struct rq_frame_ref *ref)
{
    bool last = ref && atomic_fetch_sub_explicit(&ref->refs, 1, memory_order_acq_rel) == 1;
    if (last && !keep(ref)) {
        free_ref(ref);
    }
}

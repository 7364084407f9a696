/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Table of queue locks. Any thread, one lock. Counterpart: RebalanceLockManager. */
#include "broker/queue_locks.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define KEY_MAX 2048

struct queue_lock {
    int64_t renewed_ms;
    char client_id[];
};

void rq_queue_locks_init(struct rq_queue_locks *locks)
{
    rq_mutex_init(&locks->lock);
    rq_map_init(&locks->table);
}

void rq_queue_locks_free(struct rq_queue_locks *locks)
{
    rq_map_free(&locks->table, rq_free);
    rq_mutex_destroy(&locks->lock);
}

static void make_key(struct rq_buf *key, const char *group, const struct rq_mq *mq)
{
    rq_buf_init(key, KEY_MAX);
    rq_buf_add(key, group, strlen(group) + 1);
    rq_buf_add(key, mq->topic, strlen(mq->topic) + 1);
    rq_buf_add(key, mq->broker_name, strlen(mq->broker_name) + 1);
    rq_buf_add_i64(key, mq->queue_id);
}

static bool expired(const struct queue_lock *held, int64_t now_ms)
{
    return now_ms - held->renewed_ms > RQ_QUEUE_LOCK_MS;
}

static bool take_locked(struct rq_queue_locks *locks, struct rq_slice key, const char *client_id,
                        int64_t now_ms)
{
    struct queue_lock *held = rq_map_get(&locks->table, key);
    if (held && strcmp(held->client_id, client_id) == 0) {
        held->renewed_ms = now_ms;
        return true;
    }
    if (held && !expired(held, now_ms)) {
        return false;
    }
    size_t n = strlen(client_id) + 1;
    struct queue_lock *mine = rq_alloc(sizeof *mine + n);
    if (!mine) {
        return false;
    }
    mine->renewed_ms = now_ms;
    memcpy(mine->client_id, client_id, n);
    if (rq_map_put(&locks->table, key, mine)) {
        rq_free(mine);
        return false;
    }
    rq_free(held);
    return true;
}

bool rq_queue_locks_take(struct rq_queue_locks *locks, const char *group, const struct rq_mq *mq,
                         const char *client_id, int64_t now_ms)
{
    struct rq_buf key;
    bool mine = false;
    make_key(&key, group, mq);
    if (rq_buf_status(&key) == RMQ_OK) {
        rq_mutex_lock(&locks->lock);
        mine = take_locked(locks, rq_slice(key.data, key.len), client_id, now_ms);
        rq_mutex_unlock(&locks->lock);
    }
    rq_buf_free(&key);
    return mine;
}

void rq_queue_locks_release(struct rq_queue_locks *locks, const char *group, const struct rq_mq *mq,
                            const char *client_id)
{
    struct rq_buf key;
    make_key(&key, group, mq);
    if (rq_buf_status(&key) == RMQ_OK) {
        rq_mutex_lock(&locks->lock);
        const struct queue_lock *held = rq_map_get(&locks->table, rq_slice(key.data, key.len));
        if (held && strcmp(held->client_id, client_id) == 0) {
            rq_free(rq_map_remove(&locks->table, rq_slice(key.data, key.len)));
        }
        rq_mutex_unlock(&locks->lock);
    }
    rq_buf_free(&key);
}

bool rq_queue_locks_group_holds(struct rq_queue_locks *locks, struct rq_slice group, int64_t now_ms)
{
    bool holds = false;
    rq_mutex_lock(&locks->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; !holds && (entry = rq_map_next(&locks->table, &i));) {
        holds = entry->key_len > group.n && memcmp(entry->key, group.p, group.n) == 0 &&
                entry->key[group.n] == '\0' && !expired(entry->value, now_ms);
    }
    rq_mutex_unlock(&locks->lock);
    return holds;
}

void rq_queue_locks_expire(struct rq_queue_locks *locks, int64_t now_ms)
{
    rq_mutex_lock(&locks->lock);
    const struct rq_map_entry *entry;
    for (size_t i = 0; (entry = rq_map_next(&locks->table, &i));) {
        if (expired(entry->value, now_ms)) {
            rq_free(rq_map_remove(&locks->table, rq_slice(entry->key, entry->key_len)));
        }
    }
    rq_mutex_unlock(&locks->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Faults of the disk on request. */
#include "store/disk.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"

void rq_disk_init(struct rq_disk *disk)
{
    atomic_init(&disk->clock_offset_ms, 0);
    memset(disk, 0, sizeof *disk);
    rq_mutex_init(&disk->lock);
    rq_cond_init(&disk->moves);
    rq_mutex_init(&disk->image_lock);
}

void rq_disk_free(struct rq_disk *disk)
{
    if (disk->durable) {
        rq_sys_rmtree(disk->durable);
    }
    rq_free(disk->durable);
    rq_free(disk->root);
    rq_cond_destroy(&disk->moves);
    rq_mutex_destroy(&disk->image_lock);
    rq_mutex_destroy(&disk->lock);
}

/* A record keeps the switch on for good: it is for tests, and comes before the work that it
 * records. */
static void update_active_locked(struct rq_disk *disk)
{
    bool active = atomic_load_explicit(&disk->recording, memory_order_relaxed) || disk->hangs ||
                  disk->tear.times != 0;
    for (int i = 0; i < RQ_DISK_OPS; i++) {
        active = active || disk->rules[i].times != 0;
    }
    atomic_store_explicit(&disk->active, active, memory_order_relaxed);
}

static void set_rule(struct rq_disk *disk, struct rq_disk_rule *rule, uint64_t after, int64_t times,
                     int error)
{
    rq_mutex_lock(&disk->lock);
    *rule = (struct rq_disk_rule){.after = after, .times = times, .error = error};
    update_active_locked(disk);
    rq_mutex_unlock(&disk->lock);
}

void rq_disk_fail(struct rq_disk *disk, enum rq_disk_op op, uint64_t after, int64_t times,
                  int error)
{
    set_rule(disk, &disk->rules[op], after, times, error);
}

void rq_disk_tear(struct rq_disk *disk, uint64_t after, size_t bytes)
{
    rq_mutex_lock(&disk->lock);
    disk->tear_bytes = bytes;
    rq_mutex_unlock(&disk->lock);
    set_rule(disk, &disk->tear, after, 1, EIO);
}

void rq_disk_hang(struct rq_disk *disk, bool hangs)
{
    rq_mutex_lock(&disk->lock);
    disk->hangs = hangs;
    update_active_locked(disk);
    rq_cond_broadcast(&disk->moves);
    rq_mutex_unlock(&disk->lock);
}

void rq_disk_pretend_used(struct rq_disk *disk, int percent)
{
    atomic_store_explicit(&disk->pretended_used, percent + 1, memory_order_relaxed);
}

void rq_disk_set_clock_offset(struct rq_disk *disk, int64_t offset_ms)
{
    atomic_store_explicit(&disk->clock_offset_ms, offset_ms, memory_order_relaxed);
}

void rq_disk_clear(struct rq_disk *disk)
{
    rq_disk_pretend_used(disk, -1);
    rq_mutex_lock(&disk->lock);
    memset(disk->rules, 0, sizeof disk->rules);
    memset(&disk->tear, 0, sizeof disk->tear);
    disk->hangs = false;
    update_active_locked(disk);
    rq_cond_broadcast(&disk->moves);
    rq_mutex_unlock(&disk->lock);
}

/* Counts one call; its errno when it fails. */
static int apply_locked(struct rq_disk *disk, struct rq_disk_rule *rule)
{
    if (rule->times == 0) {
        return 0;
    }
    if (rule->after > 0) {
        rule->after--;
        return 0;
    }
    int error = rule->error;
    if (rule->times > 0 && --rule->times == 0) {
        update_active_locked(disk);
    }
    return error;
}

static _Thread_local bool asking;

void rq_disk_ask(bool asks)
{
    asking = asks;
}

/* What apply_locked would say. */
static int look_locked(const struct rq_disk *disk, enum rq_disk_op op)
{
    const struct rq_disk_rule *rule = &disk->rules[op];
    int error = rule->times != 0 && rule->after == 0 ? rule->error : 0;
    return op == RQ_DISK_WRITE && disk->hangs ? EBUSY : error;
}

int rq_disk_fault_slow(struct rq_disk *disk, enum rq_disk_op op)
{
    rq_mutex_lock(&disk->lock);
    while (op == RQ_DISK_WRITE && disk->hangs && !asking) {
        rq_cond_wait(&disk->moves, &disk->lock);
    }
    int error = asking ? look_locked(disk, op) : apply_locked(disk, &disk->rules[op]);
    rq_mutex_unlock(&disk->lock);
    return error;
}

bool rq_disk_tears(struct rq_disk *disk, size_t *bytes)
{
    if (!disk || !atomic_load_explicit(&disk->active, memory_order_relaxed)) {
        return false;
    }
    rq_mutex_lock(&disk->lock);
    bool torn = apply_locked(disk, &disk->tear) != 0;
    *bytes = disk->tear_bytes;
    rq_mutex_unlock(&disk->lock);
    return torn;
}

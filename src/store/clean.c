/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Retention: old files of the commit log go by age, hour of day and fullness of the disk; queues
 * and index follow. Runs on the flush thread, or where rq_store_clean is called. Counterparts:
 * CleanCommitLogService, CleanConsumeQueueService.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/time.h"
#include "store/store_priv.h"

/* Part of the partition that is in use, -1 when that cannot be known. */
static double used_ratio(struct rq_store *store, const char *path)
{
    struct statvfs info;
    int pretended = atomic_load_explicit(&store->disk.pretended_used, memory_order_relaxed);
    if (pretended > 0) {
        return (pretended - 1) / 100.0;
    }
    if (statvfs(path, &info) < 0 || info.f_blocks == 0) {
        return -1;
    }
    double used = (double)(info.f_blocks - info.f_bfree);
    double total = used + (double)info.f_bavail; /* as df counts */
    return total > 0 ? used / total : 1;
}

static bool is_expired(const struct rq_mapped_file *file, int64_t reserved_ms)
{
    struct stat info;
    if (stat(file->path, &info) < 0) {
        return false;
    }
    int64_t changed = (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
    return rq_wall_ms() - changed > reserved_ms;
}

/* The first file, when it is not the last, retained; NULL = there is none to delete. */
static struct rq_mapped_file *first_of_many(struct rq_store *store)
{
    rq_mutex_lock(&store->log.lock);
    bool many = store->log.files.count > 1;
    struct rq_mapped_file *first = many ? rq_mapped_file_queue_first(&store->log.files) : NULL;
    rq_mutex_unlock(&store->log.lock);
    return first;
}

/* The name goes without the append lock: a file of 1 GiB takes the file system its time. */
static bool delete_first(struct rq_store *store, bool force)
{
    int64_t reserved = atomic_load_explicit(&store->retention.reserved_ms, memory_order_relaxed);
    struct rq_mapped_file *file = first_of_many(store);
    bool gone = file && (force || is_expired(file, reserved)) &&
                rq_mapped_file_unlink(file, NULL) == RMQ_OK;
    if (gone) {
        rq_mutex_lock(&store->log.lock);
        rq_mapped_file_queue_forget_first(&store->log.files, file);
        rq_mutex_unlock(&store->log.lock);
    }
    rq_mapped_file_release(file);
    return gone;
}

static int delete_log_files(struct rq_store *store, bool force, int32_t most)
{
    int deleted = 0;
    while (deleted < most && delete_first(store, force)) {
        deleted++;
    }
    return deleted;
}

/* Queues and index begin where the log begins. */
static void clean_queues(struct rq_store *store)
{
    int64_t min = rq_commit_log_min(&store->log);
    struct rq_consume_queue *queue;
    rq_dispatch_hold(store);
    for (size_t i = 0; (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        rq_consume_queue_clean(queue, min);
    }
    rq_index_clean(&store->index, min);
    rq_dispatch_let_go(store);
}

/* The flag goes up above the warning level and comes down at the forcible one. */
static void watch_disk(struct rq_store *store, double ratio)
{
    bool full = atomic_load_explicit(&store->health, memory_order_relaxed) & RQ_HEALTH_DISK;
    double warning = rq_retention_warning(&store->retention);
    if (!full && ratio > warning) {
        RQ_LOG(ERROR, "disk nearly full, no more messages are taken", "used=%.3f", ratio);
        rq_store_set_health(store, RQ_HEALTH_DISK, true);
    } else if (full && ratio <= rq_retention_forcible(&store->retention) && ratio <= warning) {
        RQ_LOG(WARN, "disk has room again", "used=%.3f", ratio);
        rq_store_set_health(store, RQ_HEALTH_DISK, false);
    }
}

bool rq_store_is_cleaning_hour(const struct rq_store *store, int64_t wall_ms)
{
    return rq_retention_is_hour(&store->retention, wall_ms);
}

int rq_store_clean_some(struct rq_store *store, bool even_if_not_due, int32_t most)
{
    double log_ratio = used_ratio(store, store->log.files.dir);
    double queue_ratio = used_ratio(store, store->queues.dir);
    double ratio = log_ratio > queue_ratio ? log_ratio : queue_ratio;
    watch_disk(store, ratio);
    const struct rq_retention *by = &store->retention;
    bool too_full = ratio > rq_retention_forcible(by) || ratio > rq_retention_warning(by);
    bool force = atomic_load_explicit(&by->forced, memory_order_relaxed) && too_full;
    bool due = even_if_not_due || rq_retention_is_hour(by, rq_wall_ms()) || log_ratio < 0 ||
               queue_ratio < 0 || too_full ||
               ratio * 100 > atomic_load_explicit(&by->max_used, memory_order_relaxed);
    if (due) {
        rq_commit_log_commit(&store->log); /* no file goes with bytes that are not in it */
    }
    int deleted = due ? delete_log_files(store, force, most) : 0;
    if (deleted > 0) {
        clean_queues(store);
    }
    return deleted;
}

int rq_store_clean(struct rq_store *store, bool even_if_not_due)
{
    return rq_store_clean_some(store, even_if_not_due, store->options.delete_file_batch_max);
}

void rq_store_info(struct rq_store *store, struct rq_store_info *out)
{
    out->min_commit_log_offset = rq_commit_log_min(&store->log);
    out->max_commit_log_offset = rq_commit_log_max(&store->log);
    out->flushed_commit_log_offset = rq_commit_log_flushed(&store->log);
    out->dispatched_commit_log_offset =
        atomic_load_explicit(&store->dispatcher.done, memory_order_acquire);
    rq_mutex_lock(&store->log.lock);
    out->put_messages = atomic_load_explicit(&store->log.put_messages, memory_order_relaxed);
    out->put_bytes = store->log.put_bytes;
    rq_mutex_unlock(&store->log.lock);
    out->get_messages = atomic_load_explicit(&store->get_messages, memory_order_relaxed);
    out->get_bytes = atomic_load_explicit(&store->get_bytes, memory_order_relaxed);
    out->writable =
        !rq_store_refuses(store, out->reason) && rq_commit_log_takes(&store->log, out->reason);
    out->disk_used_ratio = used_ratio(store, store->log.files.dir);
}

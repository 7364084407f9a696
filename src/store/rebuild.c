/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Builds queues and index of a store anew: looks at the log first, takes away what is to be made
 * again, and lets recovery make it, as after a crash with nothing but a commit log.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "store/lock.h"
#include "store/mapped_file.h"
#include "store/offline.h"
#include "store/store.h"

#define NO_RETENTION_MS 86400000

static rmq_status remove_path(const char *path, rmq_error **err)
{
    return rq_sys_rmtree(path) < 0 && errno != ENOENT
               ? rq_error_set(err, rq_store_io_status(errno), "remove %s: %s", path,
                              strerror(errno))
               : RMQ_OK;
}

static rmq_status remove_below(const char *root, const char *name, rmq_error **err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return remove_path(path, err);
}

/* Tells the next start that everything is to be looked at; before anything is taken away. */
static rmq_status write_abort(const char *root, rmq_error **err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/abort", root);
    int fd = rq_sys_open(path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0) {
        return rq_error_set(err, RMQ_ERR_IO, "write %s: %s", path, strerror(errno));
    }
    close(fd);
    return RMQ_OK;
}

/* Queues of which the log has no message any more stay: their numbers must go on. */
static rmq_status remove_queues(const struct rmq_store *store, int64_t log_min, rmq_error **err)
{
    rmq_status st = RMQ_OK;
    for (size_t i = 0; i < store->queue_count && st == RMQ_OK; i++) {
        const struct rq_offline_queue *queue = store->queues[i];
        char name[PATH_MAX / 2];
        int n = snprintf(name, sizeof name, "consumequeue/%s/%d", queue->topic, queue->queue_id);
        bool expired = queue->matched == 0 && queue->log_end > 0 && queue->log_end <= log_min;
        if (!queue->virtual && !expired && n < (int)sizeof name) {
            st = remove_below(store->root, name, err);
        }
    }
    return st;
}

static rmq_status remove_derived(const struct rmq_store *store, const rmq_store_check *check,
                                 rmq_error **err)
{
    static const char *const derived[] = {"checkpoint", "index", "contents"};
    rmq_status st = write_abort(store->root, err);
    for (size_t i = 0; i < sizeof derived / sizeof derived[0] && st == RMQ_OK; i++) {
        st = remove_below(store->root, derived[i], err);
    }
    return st == RMQ_OK ? remove_queues(store, check->commit_log_min_offset, err) : st;
}

/* What no store can be opened with, and so nothing may be taken away for. */
static rmq_status check_files(const struct rmq_store *store, size_t file_size, rmq_error **err)
{
    for (size_t i = 0; i < store->log.count; i++) {
        const struct rq_offline_file *file = &store->log.files[i];
        if (file->size > file_size) {
            return rq_error_set(err, RMQ_ERR_CORRUPT,
                                "commit-log file %020" PRId64
                                " has %zu bytes, expected %zu: nothing was changed",
                                file->start, file->size, file_size);
        }
    }
    return RMQ_OK;
}

/* The log alone matters here. */
static rmq_status check_log(struct rmq_store *store, rmq_store_check *check, rmq_error **err)
{
    rmq_status st = rmq_store_verify(store, check, sizeof *check, err);
    if (st == RMQ_OK && !store->options.salvage &&
        (check->damaged_places > 0 || check->missing_files > 0)) {
        return rq_error_set(
            err, RMQ_ERR_CORRUPT,
            "the commit log is damaged in %" PRId64 " places, %" PRId64
            " files are missing: rmq store verify tells which, rmq store rebuild --salvage keeps "
            "what is left",
            check->damaged_places, check->missing_files);
    }
    return st;
}

static void set_size(int64_t *option, int64_t given, int64_t found)
{
    *option = given > 0 ? given : found > 0 ? found : *option;
}

static void take_geometry(struct rq_store_options *options, const rmq_store_info *info,
                          const rmq_store_options *given)
{
    int64_t slots = options->max_hash_slot_num;
    int64_t entries = options->max_index_num;
    set_size(&options->mapped_file_size_commit_log, given->mapped_file_size_commit_log,
             info->commit_log_file_size);
    set_size(&options->mapped_file_size_consume_queue, given->mapped_file_size_consume_queue,
             info->consume_queue_file_size);
    set_size(&slots, given->max_hash_slot_num, info->max_hash_slot_num);
    set_size(&entries, given->max_index_num, info->max_index_num);
    options->max_hash_slot_num = (int32_t)slots;
    options->max_index_num = (int32_t)entries;
}

/* The second half: from the log's begin to its end. */
struct progress {
    const rmq_store_options *given;
    int64_t begin;
    int64_t end;
};

static bool tell(int64_t offset, void *user)
{
    const struct progress *progress = user;
    return progress->given->progress(offset - progress->begin, progress->end - progress->begin,
                                     progress->given->user);
}

static void make_options(const char *dir, const rmq_store_info *info,
                         const rmq_store_options *given, struct rq_store_options *out)
{
    rq_table_defaults(&rq_store_table, out);
    out->store_path_root_dir = dir;
    out->store_path_commit_log = given->commit_log_dir;
    out->clean_resource_interval_ms = NO_RETENTION_MS;
    out->message_delay_level = given->message_delay_level && *given->message_delay_level
                                   ? given->message_delay_level
                                   : out->message_delay_level;
    take_geometry(out, info, given);
}

/* lock: held since before the log was looked at, so that no broker comes in between; taken over. */
static rmq_status recover(const struct rq_store_options *options, const rmq_store_info *info,
                          const rmq_store_options *given, struct rq_store_lock *lock,
                          rmq_error **err)
{
    struct rq_store *store = NULL;
    struct progress progress = {
        .given = given, .begin = info->commit_log_min_offset, .end = info->commit_log_max_offset};
    struct rq_store_watch watch = {.tell = given->progress && progress.end > progress.begin ? tell
                                                                                            : NULL,
                                   .user = &progress,
                                   .told = progress.begin,
                                   .salvage = given->salvage,
                                   .lock = *lock};
    rmq_status st = rq_store_open_watched(options, &watch, &store, err);
    *lock = watch.lock;
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_store_flush(store, err);
    if (st == RMQ_OK && watch.tell) {
        tell(progress.end, &progress);
    }
    rq_store_close(store);
    return st;
}

rmq_status rmq_store_rebuild(const char *dir, const rmq_store_options *options, rmq_error **err)
{
    rmq_store *store = NULL;
    rmq_store_info info;
    rmq_store_check check;
    rmq_store_options given;
    struct rq_store_options own;
    struct rq_store_lock lock = RQ_STORE_UNLOCKED;
    rq_offline_options(&given, options);
    rmq_status st = rq_offline_open(dir, &given, &lock, &store, err);
    if (st == RMQ_OK) {
        rmq_store_get_info(store, &info, sizeof info);
        make_options(dir, &info, &given, &own);
        st = rq_store_check_options(&own, err);
    }
    if (st == RMQ_OK) {
        st = check_files(store, (size_t)own.mapped_file_size_commit_log, err);
    }
    if (st == RMQ_OK) {
        st = check_log(store, &check, err);
    }
    if (st == RMQ_OK) {
        st = remove_derived(store, &check, err);
    }
    rmq_store_close(store);
    if (st == RMQ_OK) {
        st = recover(&own, &info, &given, &lock, err);
    }
    rq_store_unlock(&lock);
    return st;
}

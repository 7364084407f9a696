/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Stores that are only looked at: records, opening. */
#include "store/offline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"
#include "store/lock.h"

#define LOG_DIGITS   20
#define LOG_AHEAD    ((size_t)1 << 20)
#define MAX_FINDINGS 100

/* ---- records ---- */

/* How many bytes are to be read of what begins at an offset; 0 when no record can begin there, so
 * that a damaged size does not make us read a whole file. */
static size_t bytes_of_record(const struct rmq_store *store, int64_t offset)
{
    size_t left = rq_offline_left(&store->log, offset);
    size_t n = left < RQ_RECORD_HEAD_MAX ? left : RQ_RECORD_HEAD_MAX;
    const char *p = n > 0 ? rq_offline_at(&store->log, offset, n) : NULL;
    return p ? rq_record_bytes(p, n, left) : 0;
}

enum rq_record_kind rq_offline_record(const struct rmq_store *store, int64_t offset, bool check_crc,
                                      struct rq_record *out)
{
    size_t n = bytes_of_record(store, offset);
    const char *p = n > 0 ? rq_offline_at(&store->log, offset, n) : NULL;
    if (!p) {
        return RQ_RECORD_BAD;
    }
    size_t left = rq_offline_left(&store->log, offset);
    enum rq_record_kind kind = rq_record_read(p, left, check_crc, out);
    if (kind == RQ_RECORD_GOOD && out->commit_log_offset != offset) {
        return RQ_RECORD_BAD;
    }
    if (kind == RQ_RECORD_BLANK) {
        out->size = (uint32_t)left; /* whatever it says, it goes to the end of its file */
    }
    return kind;
}

/* End of the good records from an offset on; *last_time is raised to the last store time. */
static int64_t walk(const struct rmq_store *store, int64_t offset, int64_t *last_time)
{
    int64_t end = offset;
    struct rq_record record;
    for (;;) {
        enum rq_record_kind kind = rq_offline_record(store, offset, true, &record);
        if (kind == RQ_RECORD_BAD) {
            return end;
        }
        offset += record.size;
        if (kind == RQ_RECORD_GOOD) {
            *last_time = record.store_timestamp;
        }
        /* The end stays before the blank until the next file turns out to begin where this ends. */
        end = kind == RQ_RECORD_GOOD || rq_offline_left(&store->log, offset) > 0 ? offset : end;
    }
}

/* The end, as the last file with a good first record tells; verify looks at all of them. */
static void find_log_end(struct rmq_store *store)
{
    struct rq_record record;
    for (size_t i = store->log.count; i-- > 0;) {
        int64_t start = store->log.files[i].start;
        if (rq_offline_record(store, start, true, &record) == RQ_RECORD_GOOD || i == 0) {
            store->log_end = walk(store, start, &store->last_time);
            return;
        }
    }
}

static void find_first_time(struct rmq_store *store)
{
    struct rq_record first;
    if (store->log.count > 0 &&
        rq_offline_record(store, store->log.files[0].start, false, &first) == RQ_RECORD_GOOD) {
        store->first_time = first.store_timestamp;
    }
}

/* ---- opening ---- */

void rmq_store_options_init(rmq_store_options *options, size_t size)
{
    rmq_store_options all = {.struct_size = size, .max_findings = MAX_FINDINGS};
    if (options && size >= sizeof options->struct_size) {
        memset(options, 0, size);
        memcpy(options, &all, size < sizeof all ? size : sizeof all);
    }
}

void rq_offline_options(rmq_store_options *out, const rmq_store_options *given)
{
    rmq_store_options_init(out, sizeof *out);
    if (given && given->struct_size >= sizeof given->struct_size) {
        size_t n = given->struct_size < sizeof *out ? given->struct_size : sizeof *out;
        memcpy(out, given, n);
        out->struct_size = sizeof *out;
    }
}

/* Files are opened again and again, and the host may change its directory. */
static rmq_status set_root(struct rmq_store *store, const char *dir, rmq_error **err)
{
    bool given = dir && *dir;
    char *root = given ? rq_sys_absolute(dir) : NULL;
    if (given && !root) {
        return rq_error_set(err, rq_store_io_status(errno), "path of %s: %s", dir, strerror(errno));
    }
    bool fits = given && strlen(root) < sizeof store->root;
    if (fits) {
        memcpy(store->root, root, strlen(root) + 1);
    }
    rq_free(root);
    return fits ? RMQ_OK
                : rq_error_set(err, RMQ_ERR_INVALID, "no directory, or its path is too long");
}

static rmq_status set_paths(struct rmq_store *store, const char *dir, rmq_error **err)
{
    char log[PATH_MAX];
    char abort_path[PATH_MAX];
    struct stat info;
    rmq_status st = set_root(store, dir, err);
    if (st != RMQ_OK) {
        return st;
    }
    snprintf(log, sizeof log, "%s/commitlog", store->root);
    snprintf(abort_path, sizeof abort_path, "%s/abort", store->root);
    const char *own = store->options.commit_log_dir;
    store->commit_log_dir = rq_sys_absolute(own && *own ? own : log);
    store->options.commit_log_dir = NULL;
    store->options.message_delay_level = NULL;
    if (!store->commit_log_dir) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    if (stat(store->commit_log_dir, &info) < 0 || !S_ISDIR(info.st_mode)) {
        return rq_error_set(err, RMQ_ERR_NOT_FOUND, "there is no store in %s: no directory %s", dir,
                            store->commit_log_dir);
    }
    store->closed = access(abort_path, F_OK) < 0;
    return RMQ_OK;
}

static rmq_status load(struct rmq_store *store, rmq_error **err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoint", store->root);
    rmq_status st = rq_offline_files_load(&store->log, store->commit_log_dir, LOG_DIGITS, LOG_AHEAD,
                                          &store->trouble, err);
    if (st == RMQ_OK) {
        st = rq_checkpoint_load(&store->checkpoint, path, err);
    }
    if (st == RMQ_OK) {
        st = rq_offline_queues_load(store, err);
    }
    if (st == RMQ_OK) {
        st = rq_offline_index_load(store, err);
    }
    if (st == RMQ_OK) {
        find_log_end(store);
        find_first_time(store);
        st = rq_offline_take_trouble(&store->trouble, err);
    }
    return st;
}

rmq_status rq_offline_open(const char *dir, const rmq_store_options *options,
                           struct rq_store_lock *lock, rmq_store **out, rmq_error **err)
{
    struct rmq_store *store = rq_calloc(1, sizeof *store);
    if (!store) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    rq_offline_options(&store->options, options);
    rq_map_init(&store->by_name);
    rmq_status st = set_paths(store, dir, err);
    if (st == RMQ_OK && lock) {
        st = rq_store_lock(store->root, lock, err);
        st = st == RMQ_OK ? rq_store_lock_log(store->commit_log_dir, lock, err) : st;
    } else if (st == RMQ_OK) {
        store->in_use = rq_store_is_locked(store->root);
    }
    if (st == RMQ_OK) {
        st = load(store, err);
    }
    if (st != RMQ_OK) {
        rmq_store_close(store);
        return st;
    }
    *out = store;
    return RMQ_OK;
}

rmq_status rmq_store_open(const char *dir, const rmq_store_options *options, rmq_store **out,
                          rmq_error **err)
{
    return rq_offline_open(dir, options, NULL, out, err);
}

void rmq_store_close(rmq_store *store)
{
    if (!store) {
        return;
    }
    rq_offline_queues_free(store);
    rq_offline_files_free(&store->index_files);
    rq_offline_files_free(&store->log);
    rq_checkpoint_free(&store->checkpoint);
    rq_offline_take_trouble(&store->trouble, NULL);
    rq_free(store->commit_log_dir);
    rq_free(store);
}

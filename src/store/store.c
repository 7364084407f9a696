/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The store as a whole: opening, closing, upkeep. Counterpart: DefaultMessageStore. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "store/contents.h"
#include "store/lock.h"
#include "store/store_priv.h"

#define FILE_ABORT      "abort"
#define FILE_CHECKPOINT "checkpoint"
#define DIR_COMMIT_LOG  "commitlog"
#define DIR_QUEUES      "consumequeue"
#define DIR_INDEX       "index"

#define CATCH_UP_TRIES 100

void rq_store_path(const struct rq_store *store, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", store->root, name);
}

/* ---- opening ---- */

/* "1s 5s 1m" to milliseconds. */
static rmq_status parse_delays(struct rq_store *store, const char *text, rmq_error **err)
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    struct rq_slice rest = rq_slice_str(text);
    struct rq_slice word;
    while (rq_record_next_key(&rest, &word)) {
        int64_t number = 0;
        int64_t unit_ms = 0;
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            unit_ms = word.p[word.n - 1] == units[i].unit ? units[i].ms : unit_ms;
        }
        if (store->delay_levels == RQ_DELAY_LEVELS_MAX) {
            return rq_error_set(err, RMQ_ERR_INVALID,
                                "messageDelayLevel: \"%.*s\" is one more than %d delays",
                                (int)word.n, word.p, RQ_DELAY_LEVELS_MAX);
        }
        if (unit_ms == 0 || !rq_slice_to_i64(rq_slice(word.p, word.n - 1), &number) || number < 0 ||
            number > INT32_MAX) {
            return rq_error_set(err, RMQ_ERR_INVALID, "messageDelayLevel: \"%.*s\" is no delay",
                                (int)word.n, word.p);
        }
        store->delays_ms[store->delay_levels++] = number * unit_ms;
    }
    if (store->delay_levels == 0) { /* delayed messages would go to their topics at once */
        return rq_error_set(err, RMQ_ERR_INVALID, "messageDelayLevel names no delay");
    }
    return RMQ_OK;
}

static rmq_status set_root(struct rq_store *store, rmq_error **err)
{
    const char *root = store->options.store_path_root_dir;
    if (!root || !*root || strlen(root) >= sizeof store->root) {
        return rq_error_set(err, RMQ_ERR_INVALID, "storePathRootDir is %s",
                            root && *root ? "too long" : "not set");
    }
    memcpy(store->root, root, strlen(root) + 1);
    if (rq_sys_mkdirs(store->root) < 0) {
        return rq_error_set(err, rq_store_io_status(errno), "make %s: %s", store->root,
                            strerror(errno));
    }
    return RMQ_OK;
}

/* Paths that stay what they are, and file sizes as the modules need them: whole entries, and room
 * for one record. */
static rmq_status settle_options(struct rq_store *store, const struct rq_store_options *options,
                                 rmq_error **err)
{
    rmq_status st = rq_table_check(&rq_store_table, options, err);
    if (st == RMQ_OK) {
        st = rq_table_copy(&rq_store_table, &store->options, options);
    }
    if (st != RMQ_OK) {
        return st;
    }
    st = rq_table_make_absolute(&rq_store_table, &store->options, "storePathRootDir", err);
    if (st == RMQ_OK) {
        st = rq_table_make_absolute(&rq_store_table, &store->options, "storePathCommitLog", err);
    }
    if (st != RMQ_OK) {
        return st;
    }
    int64_t size = store->options.mapped_file_size_consume_queue + RQ_CQ_ENTRY_BYTES - 1;
    store->options.mapped_file_size_consume_queue = size - size % RQ_CQ_ENTRY_BYTES;
    struct sysinfo info;
    store->machine_memory = sysinfo(&info) == 0 ? (int64_t)info.totalram * info.mem_unit : 0;
    rq_retention_set(&store->retention, &store->options);
    st = rq_store_check_hours(store->options.delete_when, err);
    return st ? st : parse_delays(store, store->options.message_delay_level, err);
}

rmq_status rq_store_check_options(const struct rq_store_options *options, rmq_error **err)
{
    struct rq_store *store = rq_calloc(1, sizeof *store);
    if (!store) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    rmq_status st = settle_options(store, options, err);
    rq_table_free(&rq_store_table, &store->options);
    rq_free(store);
    return st;
}

static rmq_status init_parts(struct rq_store *store, rmq_error **err)
{
    char log_dir[PATH_MAX];
    char queue_dir[PATH_MAX];
    char index_dir[PATH_MAX];
    const char *own = store->options.store_path_commit_log;
    rq_store_path(store, DIR_COMMIT_LOG, log_dir);
    rq_store_path(store, DIR_QUEUES, queue_dir);
    rq_store_path(store, DIR_INDEX, index_dir);
    const char *log_path = own && *own ? own : log_dir;
    rmq_status st = rq_commit_log_init(&store->log, log_path, &store->options);
    rmq_status st2 = rq_queue_table_init(&store->queues, queue_dir,
                                         (size_t)store->options.mapped_file_size_consume_queue);
    rmq_status st3 = rq_index_init(&store->index, index_dir, &store->options);
    store->has_parts = true;
    store->log.disk = store->log.files.kind.disk = &store->disk;
    store->queues.disk = store->index.disk = store->checkpoint.disk = &store->disk;
    if (st != RMQ_OK || st2 != RMQ_OK || st3 != RMQ_OK) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    if (rq_sys_mkdirs(log_path) < 0 || rq_sys_mkdirs(queue_dir) < 0) {
        return rq_error_set(err, rq_store_io_status(errno), "make directories in %s: %s",
                            store->root, strerror(errno));
    }
    return RMQ_OK;
}

static rmq_status load_parts(struct rq_store *store, bool *lengthened, rmq_error **err)
{
    char path[PATH_MAX];
    rq_store_path(store, FILE_CHECKPOINT, path);
    rmq_status st = rq_commit_log_load(&store->log, lengthened, err);
    if (st == RMQ_OK) {
        st = rq_queue_table_load(&store->queues, err);
    }
    if (st == RMQ_OK) {
        st = rq_checkpoint_load(&store->checkpoint, path, err);
    }
    if (st == RMQ_OK && store->options.message_index_enable) {
        st = rq_index_load(&store->index, err);
    }
    return st;
}

/* On disk before anything else changes: without it the next start would trust all files. */
static rmq_status write_abort(struct rq_store *store, rmq_error **err)
{
    char path[PATH_MAX];
    char text[64];
    rq_store_path(store, FILE_ABORT, path);
    int n = snprintf(text, sizeof text, "%ld %s", (long)getpid(), store->run);
    int fd = rq_sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    bool ok = fd >= 0 && rq_sys_write(fd, text, (size_t)n) == n &&
              rq_disk_sync_file(&store->disk, path, fd) == 0 &&
              rq_disk_sync_name(&store->disk, path) == 0;
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    return ok ? RMQ_OK
              : rq_error_set(err, rq_store_io_status(error), "write %s: %s", path, strerror(error));
}

static void remove_abort(const struct rq_store *store)
{
    char path[PATH_MAX];
    rq_store_path(store, FILE_ABORT, path);
    rq_sys_unlink(path);
}

static bool was_closed(const struct rq_store *store)
{
    char path[PATH_MAX];
    rq_store_path(store, FILE_ABORT, path);
    return access(path, F_OK) < 0;
}

static void free_store(struct rq_store *store)
{
    rq_flusher_free(&store->flusher);
    rq_dispatcher_free(&store->dispatcher);
    rq_checkpoint_free(&store->checkpoint);
    if (store->has_parts) {
        rq_index_free(&store->index);
        rq_queue_table_free(&store->queues);
        rq_commit_log_free(&store->log);
    }
    rq_store_unlock(&store->lock);
    rq_table_free(&rq_store_table, &store->options);
    rq_disk_free(&store->disk);
    rq_free(store);
}

/* Everything up to the threads. abort is written before recovery changes anything, so that a crash
 * in here is one, too. */
static rmq_status open_files(struct rq_store *store, rmq_error **err)
{
    rmq_status st = set_root(store, err);
    if (st == RMQ_OK) {
        st = rq_store_lock(store->root, &store->lock, err);
    }
    if (st == RMQ_OK) {
        st = init_parts(store, err);
    }
    if (st == RMQ_OK) {
        st = rq_store_lock_log(store->log.files.dir, &store->lock, err);
    }
    bool lengthened = false;
    if (st == RMQ_OK) {
        st = load_parts(store, &lengthened, err);
    }
    bool closed = was_closed(store);
    bool normal = closed && !lengthened;
    if (st == RMQ_OK) {
        rq_contents_begin(store, closed);
        /* After a crash of this run it is there: syncing it again would wait for all that the crash
         * left unwritten. */
        st = closed || !store->contents_count ? write_abort(store, err) : RMQ_OK;
        if (st != RMQ_OK && closed) {
            remove_abort(store); /* nothing was changed: it is closed as it was */
        }
    }
    return st == RMQ_OK ? rq_store_recover(store, normal, err) : st;
}

rmq_status rq_store_open(const struct rq_store_options *options, struct rq_store **out,
                         rmq_error **err)
{
    return rq_store_open_watched(options, NULL, out, err);
}

rmq_status rq_store_open_watched(const struct rq_store_options *options,
                                 struct rq_store_watch *watch, struct rq_store **out,
                                 rmq_error **err)
{
    struct rq_store *store = rq_calloc(1, sizeof *store);
    if (!store) {
        return rq_error_set(err, RMQ_ERR_NOMEM, "no memory for a store");
    }
    store->lock = RQ_STORE_UNLOCKED;
    store->watch = watch;
    if (watch) {
        store->lock = watch->lock;
        watch->lock = RQ_STORE_UNLOCKED;
    }
    rq_disk_init(&store->disk);
    rq_dispatcher_init(&store->dispatcher);
    rq_flusher_init(&store->flusher);
    rmq_status st = settle_options(store, options, err);
    if (st == RMQ_OK) {
        st = open_files(store, err);
    }
    if (st == RMQ_OK && !store->options.data_read_ahead_enable) {
        rq_store_set_read_ahead(store, false);
    }
    if (st == RMQ_OK && store->options.transient_store_pool_enable) {
        st = rq_write_buffers_open(&store->log.buffers, store->options.transient_store_pool_size,
                                   (size_t)store->options.mapped_file_size_commit_log, err);
    }
    if (st == RMQ_OK) {
        st = rq_commit_log_start(&store->log, err);
    }
    if (st == RMQ_OK) {
        st = rq_flusher_start(&store->flusher, store, err);
        if (st != RMQ_OK) {
            rq_commit_log_stop(&store->log);
        }
    }
    if (st != RMQ_OK) {
        free_store(store);
        return st;
    }
    store->watch = NULL;
    *out = store;
    return RMQ_OK;
}

void rq_store_set_read_ahead(struct rq_store *store, bool on)
{
    rq_mapped_file_queue_read_ahead(&store->log.files, on);
}

void rq_store_change(struct rq_store *store, const struct rq_store_options *options)
{
    struct rq_store_options *own = &store->options;
    rq_retention_set(&store->retention, options);
    own->max_message_size = options->max_message_size;
    own->max_msgs_num_batch = options->max_msgs_num_batch;
    own->max_transfer_bytes_on_message_in_memory = options->max_transfer_bytes_on_message_in_memory;
    own->max_transfer_count_on_message_in_memory = options->max_transfer_count_on_message_in_memory;
    own->max_transfer_bytes_on_message_in_disk = options->max_transfer_bytes_on_message_in_disk;
    own->max_transfer_count_on_message_in_disk = options->max_transfer_count_on_message_in_disk;
}

void rq_store_set_listener(struct rq_store *store, rq_store_arrival_fn arrived, void *user)
{
    rq_dispatch_hold(store);
    store->dispatcher.arrived = arrived;
    store->dispatcher.user = user;
    rq_dispatch_let_go(store);
}

void rq_store_close(struct rq_store *store)
{
    if (!store) {
        return;
    }
    rq_store_set_health(store, RQ_HEALTH_CLOSING, true);
    atomic_store_explicit(&store->dispatcher.paused, false, memory_order_relaxed);
    rq_flusher_stop(&store->flusher);
    rq_commit_log_stop(&store->log);
    rmq_error *err = NULL;
    rmq_status st = rq_store_flush_all(store, &err);
    rq_commit_log_commit(&store->log);
    rq_store_dispatch(store);
    if (st == RMQ_OK) {
        st = rq_store_flush_all(store, &err);
    }
    rq_flusher_complete(&store->flusher, store, true);
    bool complete = atomic_load_explicit(&store->dispatcher.done, memory_order_acquire) ==
                    rq_commit_log_max(&store->log);
    if (st == RMQ_OK && complete) {
        st = rq_contents_write(store, &err);
    }
    if (st != RMQ_OK || !complete) {
        RQ_LOG(ERROR, "store closed with work left, it will be recovered at the next start",
               "path=%s reason=%s", store->root, err ? rmq_error_message(err) : "dispatch");
    } else {
        remove_abort(store);
    }
    rmq_error_destroy(err);
    free_store(store);
}

struct rq_disk *rq_store_disk(struct rq_store *store)
{
    return &store->disk;
}

void rq_store_retry(struct rq_store *store)
{
    rq_commit_log_retry(&store->log);
}

rmq_status rq_store_record_power(struct rq_store *store, rmq_error **err)
{
    rmq_status st = rq_store_flush(store, err);
    return st == RMQ_OK ? rq_disk_record(&store->disk, store->root, err) : st;
}

/* ---- upkeep ---- */

/* Dispatches everything and takes the append lock: records on their way would bring queues back.
 * The listener must not be told under that lock, so it is taken, and let go as long as something
 * came in between. */
static void catch_up_and_lock(struct rq_store *store)
{
    for (int tries = 0;; tries++) {
        if (store->options.flush_disk_type == RQ_FLUSH_SYNC) {
            rq_store_flush_all(store, NULL); /* only what is on disk is dispatched */
        }
        rq_commit_log_commit(&store->log);
        rq_dispatch_run_locked(store);
        rq_mutex_lock(&store->log.lock);
        if (tries == CATCH_UP_TRIES ||
            atomic_load_explicit(&store->dispatcher.done, memory_order_relaxed) >=
                rq_commit_log_max(&store->log)) {
            return;
        }
        rq_mutex_unlock(&store->log.lock);
    }
}

void rq_store_delete_topic(struct rq_store *store, struct rq_slice topic)
{
    rmq_error *err = NULL;
    rq_dispatch_hold(store);
    catch_up_and_lock(store);
    store->dispatcher.last_queue = NULL;
    struct rq_consume_queue *removed = rq_queue_table_remove(&store->queues, topic);
    rq_mutex_unlock(&store->log.lock);
    rmq_status st = rq_queue_table_delete(&store->queues, topic, removed, &err);
    rq_dispatch_let_go(store);
    if (st == RMQ_OK) { /* or a crash would bring them back */
        rq_mutex_lock(&store->flusher.sync);
        st = rq_contents_write(store, &err);
        rq_mutex_unlock(&store->flusher.sync);
    }
    if (st != RMQ_OK) {
        RQ_LOG(WARN, "queues of a topic not removed", "topic=%.*s reason=%s", (int)topic.n, topic.p,
               err ? rmq_error_message(err) : rmq_status_text(st));
    }
    rmq_error_destroy(err);
}

void rq_store_each_queue(struct rq_store *store,
                         bool (*each)(struct rq_slice topic, int32_t queue_id, void *user),
                         void *user)
{
    struct rq_consume_queue *queue;
    bool more = true;
    for (size_t i = 0; more && (queue = rq_queue_table_next(&store->queues, &i));
         rq_consume_queue_release(queue)) {
        more = each(queue->topic, queue->queue_id, user);
    }
}

int rq_store_delay_level_max(struct rq_store *store)
{
    return store->delay_levels;
}

int64_t rq_store_delay_ms(struct rq_store *store, int level)
{
    return level >= 1 && level <= store->delay_levels ? store->delays_ms[level - 1] : -1;
}

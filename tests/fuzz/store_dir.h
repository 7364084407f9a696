/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * A small store for the fuzz targets of its files: made once, then copied for every input with one
 * file replaced. Opening must end well or with an error; what was opened can be asked, written to,
 * closed, and is then whole.
 */
#ifndef RQ_TESTS_FUZZ_STORE_DIR_H
#define RQ_TESTS_FUZZ_STORE_DIR_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/log.h>
#include <rmq/store.h>

#include "base/sys.h"
#include "store/store.h"

#define FUZZ_LOG_BYTES   4096
#define FUZZ_QUEUE_BYTES 200
#define FUZZ_SLOTS       10
#define FUZZ_ENTRIES     20

static char fuzz_dir[64];

static void fuzz_quiet(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void fuzz_require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static inline void fuzz_remove_dir(void)
{
    rq_sys_rmtree(fuzz_dir);
}

static inline void fuzz_make_dir(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    rmq_log_set(RMQ_LOG_ERROR, fuzz_quiet, NULL);
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/rmq-fuzz-XXXXXX", base);
    fuzz_require(mkdtemp(fuzz_dir) != NULL);
    atexit(fuzz_remove_dir);
}

static inline void fuzz_write(const char *name, const void *data, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

static inline void fuzz_store_options(struct rq_store_options *options, const char *dir)
{
    rq_table_defaults(&rq_store_table, options);
    options->store_path_root_dir = dir;
    options->mapped_file_size_commit_log = FUZZ_LOG_BYTES;
    options->mapped_file_size_consume_queue = FUZZ_QUEUE_BYTES;
    options->max_hash_slot_num = FUZZ_SLOTS;
    options->max_index_num = FUZZ_ENTRIES;
    options->max_message_size = 2000;
    options->clean_resource_interval_ms = 86400000;
}

static inline void fuzz_append(struct rq_store *store, int i)
{
    char properties[64];
    struct rq_store_put put;
    snprintf(properties, sizeof properties, "KEYS\001k%d\002TAGS\001t\002UNIQ_KEY\001u%d\002", i,
             i);
    struct rq_msg msg = {.topic = rq_slice_str("T"),
                         .queue_id = i % 2,
                         .born_host = {.addr = {10, 0, 0, 1}, .len = 4, .port = 1},
                         .store_host = {.addr = {10, 0, 0, 2}, .len = 4, .port = 2},
                         .body = rq_slice("body", 4),
                         .properties = rq_slice_str(properties)};
    rq_store_append(store, &msg, &put);
    rq_store_dispatch(store);
}

/* Everything that can be asked. */
static inline void fuzz_ask(struct rq_store *store)
{
    struct rq_slice topic = rq_slice_str("T");
    for (int id = 0; id < 2; id++) {
        int64_t max = rq_store_max_offset(store, topic, id);
        int64_t offset = rq_store_min_offset(store, topic, id);
        for (int rounds = 0; offset < max && rounds < 1000; rounds++) {
            struct rq_store_result result;
            rq_store_get(store, topic, id, offset, 32, 0, NULL, &result);
            fuzz_require(result.next_begin_offset > offset);
            offset = result.next_begin_offset;
            rq_store_result_release(&result);
        }
        rq_store_offset_by_time(store, topic, id, 1700000000000, false);
        rq_store_offset_by_time(store, topic, id, 1700000000000, true);
        rq_store_earliest_time(store, topic, id);
    }
    struct rq_store_ref refs[8];
    int64_t time;
    int64_t last;
    size_t n =
        rq_store_query(store, topic, rq_slice_str("k3"), 0, INT64_MAX / 2, 8, refs, &time, &last);
    for (size_t i = 0; i < n; i++) {
        rq_store_ref_release(&refs[i]);
    }
    rq_store_earliest_time_of_all(store);
}

/* Looks at it from outside, whatever it is; whole: it must be. */
static inline void fuzz_look(const char *dir, bool whole)
{
    rmq_store *store = NULL;
    rmq_store_check check;
    rmq_store_info info;
    rmq_store_queue queue;
    if (rmq_store_open(dir, NULL, &store, NULL) != RMQ_OK) {
        return;
    }
    rmq_store_get_info(store, &info, sizeof info);
    for (size_t i = 0; rmq_store_queue_at(store, i, &queue, sizeof queue); i++) {
        rmq_store_message msg;
        rmq_store_message_at(store, i, queue.min_offset, &msg, sizeof msg, NULL);
    }
    fuzz_require(rmq_store_verify(store, &check, sizeof check, NULL) == RMQ_OK);
    fuzz_require(!whole || check.damaged_places == 0);
    rmq_store_close(store);
}

/* The directory of a store with 40 messages in two queues; the caller replaces files in it. */
static inline void fuzz_make_store(bool fresh)
{
    struct rq_store_options options;
    struct rq_store *store = NULL;
    rq_sys_rmtree(fuzz_dir);
    fuzz_store_options(&options, fuzz_dir);
    fuzz_require(rq_store_open(&options, &store, NULL) == RMQ_OK);
    for (int i = 0; fresh && i < 40; i++) {
        fuzz_append(store, i);
    }
    rq_store_close(store);
}

/* Opens what is there as a broker would, asks, appends, closes; mended: then its log must be
 * whole. */
static inline void fuzz_run_store(bool mended)
{
    struct rq_store_options options;
    fuzz_store_options(&options, fuzz_dir);
    fuzz_look(fuzz_dir, false);
    for (int round = 0; round < 2; round++) {
        struct rq_store *store = NULL;
        if (rq_store_open(&options, &store, NULL) != RMQ_OK) {
            return;
        }
        fuzz_ask(store);
        fuzz_append(store, round);
        fuzz_ask(store);
        rq_store_close(store);
        fuzz_look(fuzz_dir, mended);
    }
}

#endif

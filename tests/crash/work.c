/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* What is written, and how it is checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "crash/crash.h"
#include "store/record.h"

#define BODY_MIN   50
#define BODY_RANGE 2000
#define BATCH      5
#define BATCH_AT   16 /* every so manieth append is a batch */
#define LOG_BYTES  65536
#define CQ_BYTES   8000 /* 400 entries, two pages */
#define SLOTS      500
#define ENTRIES    3000

uint64_t crash_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

bool crash_with_buffers;

void crash_options(struct rq_store_options *options, const char *dir, bool sync)
{
    rq_table_defaults(&rq_store_table, options);
    options->store_path_root_dir = dir;
    options->mapped_file_size_commit_log = LOG_BYTES;
    options->mapped_file_size_consume_queue = CQ_BYTES;
    options->max_hash_slot_num = SLOTS;
    options->max_index_num = ENTRIES;
    options->max_message_size = 60000;
    options->flush_disk_type = sync ? RQ_FLUSH_SYNC : RQ_FLUSH_ASYNC;
    options->flush_interval_commit_log_ms = 3;
    options->flush_interval_consume_queue_ms = 4;
    options->flush_consume_queue_thorough_interval_ms = 12;
    options->clean_resource_interval_ms = 3600000;
    options->transient_store_pool_enable = crash_with_buffers;
    options->os_page_cache_busy_time_out_mills = 10000000; /* ten seconds: see main.c */
    options->commit_commit_log_least_pages = 0;            /* what is acknowledged is in the file */
}

/* ---- messages ---- */

struct text {
    char body[BODY_MIN + BODY_RANGE];
    char properties[200];
};

static size_t body_of(int queue, int64_t n, char *body)
{
    uint64_t state = (uint64_t)n * 16 + (uint64_t)queue + 1;
    size_t size = BODY_MIN + crash_random(&state) % BODY_RANGE;
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++) {
        word = i % 8 == 0 ? crash_random(&state) : word >> 8;
        body[i] = (char)word;
    }
    return size;
}

static struct rq_msg message_of(int queue, int64_t n, struct text *text)
{
    size_t size = body_of(queue, n, text->body);
    snprintf(text->properties, sizeof text->properties,
             "UNIQ_KEY\1u-%d-%" PRId64 "\2KEYS\1k-%d-%" PRId64 " both\2TAGS\1t%d\2", queue, n,
             queue, n, (int)(n % 3));
    return (struct rq_msg){.topic = rq_slice_str(CRASH_TOPIC),
                           .queue_id = queue,
                           .born_timestamp_ms = 1700000000000,
                           .born_host = {.addr = {10, 0, 0, 1}, .len = 4, .port = 1234},
                           .store_host = {.addr = {10, 0, 0, 2}, .len = 4, .port = 10911},
                           .body = rq_slice(text->body, size),
                           .properties = rq_slice_str(text->properties)};
}

/* ---- writers ---- */

struct writer {
    struct crash_work *work;
    int queue;
    struct rq_thread thread;
    struct rq_store_waiter waiter;
    struct rq_mutex lock;
    struct rq_cond answered;
    bool done;
    enum rq_put_status status;
    struct text texts[BATCH];
};

struct crash_work {
    struct rq_store *store;
    struct crash_shared *shared;
    bool sync;
    atomic_bool stop;
    struct writer writers[CRASH_WRITERS];
};

static void flushed(struct rq_store_waiter *waiter, enum rq_put_status status)
{
    struct writer *writer =
        (struct writer *)(void *)((char *)waiter - offsetof(struct writer, waiter));
    rq_mutex_lock(&writer->lock);
    writer->done = true;
    writer->status = status;
    rq_cond_signal(&writer->answered);
    rq_mutex_unlock(&writer->lock);
}

static enum rq_put_status wait_for_disk(struct writer *writer, int64_t upto)
{
    writer->done = false;
    if (!rq_store_park(writer->work->store, upto, &writer->waiter)) {
        return RQ_PUT_OK;
    }
    rq_mutex_lock(&writer->lock);
    while (!writer->done) {
        rq_cond_wait(&writer->answered, &writer->lock);
    }
    rq_mutex_unlock(&writer->lock);
    return writer->status;
}

/* Appends message n, or a batch from it on; how many, 0 when it failed. */
static int64_t write_next(struct writer *writer, int64_t n)
{
    struct rq_msg msgs[BATCH];
    struct rq_store_put put;
    int64_t count = n % BATCH_AT == 0 ? BATCH : 1;
    for (int64_t i = 0; i < count; i++) {
        msgs[i] = message_of(writer->queue, n + i, &writer->texts[i]);
    }
    if (count == 1) {
        rq_store_append(writer->work->store, msgs, &put);
    } else {
        rq_store_append_batch(writer->work->store, msgs, (size_t)count, NULL, &put);
    }
    rq_store_dispatch(writer->work->store);
    enum rq_put_status status = put.status;
    if (status == RQ_PUT_OK && writer->work->sync) {
        status = wait_for_disk(writer, put.next_commit_log_offset);
    }
    if (status != RQ_PUT_OK || put.queue_offset != n) {
        fprintf(stderr, "queue %d message %" PRId64 ": %s %s, number %" PRId64 "\n", writer->queue,
                n, rq_put_status_name(status), put.reason, put.queue_offset);
        return 0;
    }
    return count;
}

static void write_all(void *arg)
{
    struct writer *writer = arg;
    struct crash_work *work = writer->work;
    int64_t n = rq_store_max_offset(work->store, rq_slice_str(CRASH_TOPIC), writer->queue);
    while (!atomic_load(&work->stop)) {
        int64_t count = write_next(writer, n);
        if (count == 0) {
            atomic_store(&work->shared->failed, true);
            break;
        }
        n += count;
        atomic_store(&work->shared->acknowledged[writer->queue], (long)n);
    }
}

struct crash_work *crash_work_start(struct rq_store *store, struct crash_shared *shared, bool sync)
{
    struct crash_work *work = calloc(1, sizeof *work);
    if (!work) {
        abort();
    }
    work->store = store;
    work->shared = shared;
    work->sync = sync;
    for (int i = 0; i < CRASH_WRITERS; i++) {
        struct writer *writer = &work->writers[i];
        writer->work = work;
        writer->queue = i;
        writer->waiter.done = flushed;
        rq_mutex_init(&writer->lock);
        rq_cond_init(&writer->answered);
        if (rq_thread_start(&writer->thread, "crash-writer", write_all, writer) != RMQ_OK) {
            abort();
        }
    }
    return work;
}

void crash_work_stop(struct crash_work *work)
{
    atomic_store(&work->stop, true);
    for (int i = 0; i < CRASH_WRITERS; i++) {
        rq_thread_join(&work->writers[i].thread);
        rq_cond_destroy(&work->writers[i].answered);
        rq_mutex_destroy(&work->writers[i].lock);
    }
    free(work);
}

/* ---- checking ---- */

static bool wrong(int queue, int64_t n, const char *what)
{
    fprintf(stderr, "queue %d message %" PRId64 ": %s\n", queue, n, what);
    return false;
}

static bool check_body(int queue, int64_t n, struct rq_slice record_bytes, size_t *size)
{
    char body[BODY_MIN + BODY_RANGE];
    struct rq_record record;
    if (rq_record_read(record_bytes.p, record_bytes.n, true, &record) != RQ_RECORD_GOOD) {
        return wrong(queue, n, "no good record");
    }
    *size = record.size;
    size_t expected = body_of(queue, n, body);
    if (record.queue_offset != n || record.queue_id != queue || record.body.n != expected ||
        memcmp(record.body.p, body, expected) != 0) {
        return wrong(queue, n, "another message in its place");
    }
    return true;
}

static bool check_key(struct rq_store *store, int queue, int64_t n, const char *form)
{
    char key[64];
    struct rq_store_ref refs[4];
    struct rq_record record;
    snprintf(key, sizeof key, form, queue, n);
    size_t found = rq_store_query(store, rq_slice_str(CRASH_TOPIC), rq_slice_str(key), 0, INT64_MAX,
                                  4, refs, NULL, NULL);
    bool right = found == 1 &&
                 rq_record_read(refs[0].p, refs[0].n, false, &record) == RQ_RECORD_GOOD &&
                 record.queue_id == queue && record.queue_offset == n;
    for (size_t i = 0; i < found; i++) {
        rq_store_ref_release(&refs[i]);
    }
    return right ||
           wrong(queue, n,
                 found == 0 ? "not found by its key" : "key finds another number of messages");
}

/* The messages of one answer; advances *n. */
static bool check_result(int queue, const struct rq_store_result *result, int64_t *n)
{
    for (size_t i = 0; i < result->ref_count; i++) {
        struct rq_slice rest = rq_slice(result->refs[i].p, result->refs[i].n);
        while (rest.n > 0) {
            size_t size = 0;
            if (!check_body(queue, *n, rest, &size)) {
                return false;
            }
            rest = rq_slice(rest.p + size, rest.n - size);
            ++*n;
        }
    }
    return true;
}

bool crash_check(struct rq_store *store, int queue, int64_t least)
{
    struct rq_slice topic = rq_slice_str(CRASH_TOPIC);
    int64_t max = rq_store_max_offset(store, topic, queue);
    if (max < least) {
        fprintf(stderr, "queue %d ends at %" PRId64 ", acknowledged were %" PRId64 "\n", queue, max,
                least);
        return false;
    }
    bool good = true;
    int64_t n = 0;
    while (good && n < max) {
        struct rq_store_result result;
        int64_t before = n;
        rq_store_get(store, topic, queue, n, 32, 0, NULL, &result);
        good = check_result(queue, &result, &n);
        rq_store_result_release(&result);
        if (good && n == before) {
            good = wrong(queue, n, rq_get_status_name(result.status));
        }
    }
    for (int64_t i = 0; good && i < max; i++) {
        good = check_key(store, queue, i, "u-%d-%" PRId64) &&
               check_key(store, queue, i, "k-%d-%" PRId64);
    }
    return good;
}

bool crash_check_dir(const char *dir, bool sync, const int64_t least[CRASH_WRITERS])
{
    struct rq_store_options options;
    struct rq_store *store = NULL;
    rmq_error *err = NULL;
    crash_options(&options, dir, sync);
    if (rq_store_open(&options, &store, &err) != RMQ_OK) {
        fprintf(stderr, "open: %s\n", rmq_error_message(err));
        rmq_error_destroy(err);
        return false;
    }
    bool good = true;
    for (int i = 0; i < CRASH_WRITERS; i++) {
        good = crash_check(store, i, least[i]) && good;
    }
    rq_store_close(store);
    return good;
}

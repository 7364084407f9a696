/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Each operation of the store with its 1st, 2nd … Nth allocation failing: it says so, nothing is
 * leaked, and the same store opens, is whole and has every message that was acknowledged.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/log.h>
#include <rmq/store.h>

#include "base/mem.h"
#include "base/sys.h"
#include "store/store.h"

Suite *store_suite(void);

#define MESSAGES 30

static char dir[64];
static int acknowledged;

static void quiet(rmq_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static rmq_status open_store(struct rq_store **out, rmq_error **err)
{
    struct rq_store_options options;
    rq_table_defaults(&rq_store_table, &options);
    options.store_path_root_dir = dir;
    options.mapped_file_size_commit_log = 8192;
    options.mapped_file_size_consume_queue = 200;
    options.max_hash_slot_num = 10;
    options.max_index_num = 20;
    options.max_message_size = 4000;
    options.clean_resource_interval_ms = 86400000;
    options.flush_interval_commit_log_ms = 86400000; /* the flusher allocates nothing in between */
    options.flush_interval_consume_queue_ms = 86400000;
    return rq_store_open(&options, out, err);
}

static struct rq_msg message(int i)
{
    static char body[300];
    struct rq_msg msg = {.topic = rq_slice_str("T"),
                         .queue_id = i % 2,
                         .born_host = {.addr = {10, 0, 0, 1}, .len = 4, .port = 1},
                         .store_host = {.addr = {10, 0, 0, 2}, .len = 4, .port = 2},
                         .body = rq_slice(body, sizeof body),
                         .properties = rq_slice_str("KEYS\001k\002TAGS\001t\002")};
    return msg;
}

/* ---- the stores to begin with ---- */

static void prepare_nothing(void)
{
    rq_sys_rmtree(dir);
    acknowledged = 0;
}

static void prepare_closed(void)
{
    struct rq_store *store = NULL;
    struct rq_store_put put;
    prepare_nothing();
    ck_assert_int_eq(open_store(&store, NULL), RMQ_OK);
    for (int i = 0; i < MESSAGES; i++) {
        struct rq_msg msg = message(i);
        ck_assert_int_eq(rq_store_append(store, &msg, &put), RQ_PUT_OK);
    }
    rq_store_dispatch(store);
    rq_store_close(store);
    acknowledged = MESSAGES;
}

static void prepare_crashed(void)
{
    char path[128];
    prepare_closed();
    snprintf(path, sizeof path, "%s/abort", dir);
    close(open(path, O_WRONLY | O_CREAT, 0644));
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/consumequeue/T/1", dir);
    rq_sys_rmtree(path);
}

/* ---- operations ---- */

static rmq_status run_open(rmq_error **err)
{
    struct rq_store *store = NULL;
    rmq_status st = open_store(&store, err);
    if (st == RMQ_OK) {
        rq_store_close(store);
    }
    return st;
}

static rmq_status append_some(struct rq_store *store)
{
    rmq_status st = RMQ_OK;
    for (int i = 0; i < MESSAGES; i++) {
        struct rq_store_put put;
        struct rq_msg msgs[3] = {message(i), message(i), message(i)};
        size_t count = i % 3 == 0 ? 3 : 1;
        enum rq_put_status put_status = count > 1
                                            ? rq_store_append_batch(store, msgs, count, NULL, &put)
                                            : rq_store_append(store, msgs, &put);
        rq_store_dispatch(store);
        acknowledged += put_status == RQ_PUT_OK ? (int)count : 0;
        st = put_status == RQ_PUT_OK ? st : RMQ_ERR_NOMEM;
    }
    return st;
}

static rmq_status run_append(rmq_error **err)
{
    struct rq_store *store = NULL;
    rmq_status st = open_store(&store, err);
    if (st == RMQ_OK) {
        st = append_some(store);
        rq_store_close(store);
    }
    return st;
}

static rmq_status run_read(rmq_error **err)
{
    struct rq_store *store = NULL;
    struct rq_store_result result;
    struct rq_store_ref refs[8];
    rmq_status st = open_store(&store, err);
    if (st == RMQ_OK) {
        struct rq_slice topic = rq_slice_str("T");
        rq_store_get(store, topic, 0, 0, 8, 0, NULL, &result);
        rq_store_result_release(&result);
        size_t n =
            rq_store_query(store, topic, rq_slice_str("k"), 0, INT64_MAX / 2, 8, refs, NULL, NULL);
        for (size_t i = 0; i < n; i++) {
            rq_store_ref_release(&refs[i]);
        }
        rq_store_close(store);
    }
    return st;
}

static rmq_status run_verify(rmq_error **err)
{
    rmq_store *store = NULL;
    rmq_store_check check;
    rmq_status st = rmq_store_open(dir, NULL, &store, err);
    if (st == RMQ_OK) {
        st = rmq_store_verify(store, &check, sizeof check, err);
        rmq_store_close(store);
    }
    return st;
}

static rmq_status run_rebuild(rmq_error **err)
{
    return rmq_store_rebuild(dir, NULL, err);
}

static const struct operation {
    const char *name;
    void (*prepare)(void);
    rmq_status (*run)(rmq_error **err);
} operations[] = {
    {"open a new store", prepare_nothing, run_open},
    {"open a closed store", prepare_closed, run_open},
    {"recover", prepare_crashed, run_open},
    {"append", prepare_nothing, run_append},
    {"append to a closed store", prepare_closed, run_append},
    {"read", prepare_closed, run_read},
    {"verify", prepare_closed, run_verify},
    {"rebuild", prepare_closed, run_rebuild},
};

/* After all, the store opens and is whole, with all that was acknowledged. */
static void check_store(const struct operation *op, size_t n)
{
    rmq_store *store = NULL;
    rmq_store_check check;
    ck_assert_msg(run_open(NULL) == RMQ_OK, "%s, allocation %zu: does not open", op->name, n);
    ck_assert_int_eq(rmq_store_open(dir, NULL, &store, NULL), RMQ_OK);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, NULL), RMQ_OK);
    ck_assert_msg(check.verdict == RMQ_STORE_WHOLE, "%s, allocation %zu: verdict %d", op->name, n,
                  check.verdict);
    ck_assert_msg(check.queue_entries == acknowledged, "%s, allocation %zu: %lld messages of %d",
                  op->name, n, (long long)check.queue_entries, acknowledged);
    rmq_store_close(store);
}

/* false: the operation makes fewer allocations. */
static bool run_failing(const struct operation *op, size_t n)
{
    rmq_error *err = NULL;
    op->prepare();
    size_t live = rq_mem_live();
    size_t before = rq_mem_fail_at(n);
    rmq_status st = op->run(&err);
    bool reached = rq_mem_fail_at(0) - before >= n;
    ck_assert_msg(reached || st == RMQ_OK, "%s without a failure: %s", op->name,
                  rmq_error_message(err));
    ck_assert_msg(st == RMQ_OK || st == RMQ_ERR_NOMEM, "%s, allocation %zu: %s %s", op->name, n,
                  rmq_status_name(st), rmq_error_message(err));
    rmq_error_destroy(err);
    ck_assert_msg(rq_mem_live() == live, "%s, allocation %zu: %zu blocks leaked after %s", op->name,
                  n, rq_mem_live() - live, rmq_status_name(st));
    check_store(op, n);
    return reached;
}

START_TEST(a_store_survives_the_failure_of_any_allocation)
{
    const struct operation *op = &operations[_i];
    snprintf(dir, sizeof dir, "%s/rmq-store-oom-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* thousands of syncs */
    ck_assert_ptr_nonnull(mkdtemp(dir));
    rmq_log_set(RMQ_LOG_ERROR, quiet, NULL);
    rq_mem_count(1);
    size_t n = 1;
    while (run_failing(op, n)) {
        n++;
    }
    ck_assert_msg(n > 5, "%s allocates nothing", op->name);
    rq_mem_count(0);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    rq_sys_rmtree(dir);
}
END_TEST

Suite *store_suite(void)
{
    Suite *suite = suite_create("store");
    TCase *tc = tcase_create("store");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_store_survives_the_failure_of_any_allocation, 0,
                        (int)(sizeof operations / sizeof operations[0]));
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
#include "fixture.h"

#include <check.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "store/record.h"

extern char **environ;

#define BODY_MAX 70000

void fixture_begin(struct fixture *fix)
{
    memset(fix, 0, sizeof *fix);
    const char *tmp = getenv("TMPDIR");
    snprintf(fix->dir, sizeof fix->dir, "%s/rmq-store-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(fix->dir));
    rq_table_defaults(&rq_store_table, &fix->options);
    fix->options.store_path_root_dir = fix->dir;
    fix->options.mapped_file_size_commit_log = 65536;
    fix->options.mapped_file_size_consume_queue = 400;
    fix->options.max_hash_slot_num = 100;
    fix->options.max_index_num = 200;
    fix->options.max_message_size = 60000;
    fix->options.os_page_cache_busy_time_out_mills = 3600000; /* a machine may be slow */
    fix->options.clean_resource_interval_ms = 3600000; /* retention only when a test asks for it */
}

void fixture_begin_in_memory(struct fixture *fix)
{
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1); // NOLINT(concurrency-mt-unsafe)
    }
    fixture_begin(fix);
}

void fixture_open(struct fixture *fix)
{
    rmq_error *err = NULL;
    rmq_status st = rq_store_open(&fix->options, &fix->store, &err);
    ck_assert_msg(st == RMQ_OK, "open: %s", err ? rmq_error_message(err) : rmq_status_text(st));
}

void fixture_close(struct fixture *fix)
{
    rq_store_close(fix->store);
    fix->store = NULL;
}

void fixture_reopen(struct fixture *fix)
{
    fixture_close(fix);
    fixture_open(fix);
}

void fixture_end(struct fixture *fix)
{
    fixture_close(fix);
    rq_sys_rmtree(fix->dir);
}

static void run(char *const argv[])
{
    pid_t pid;
    int status = -1;
    ck_assert_int_eq(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static void copy_tree(const char *from, const char *to)
{
    char *argv[] = {"cp", "-a", "--sparse=always", (char *)from, (char *)to, NULL};
    run(argv);
}

void fixture_crash(struct fixture *fix)
{
    char copy[FIXTURE_PATH + 8];
    snprintf(copy, sizeof copy, "%s.copy", fix->dir);
    copy_tree(fix->dir, copy);
    fixture_close(fix);
    rq_sys_rmtree(fix->dir);
    ck_assert_int_eq(rename(copy, fix->dir), 0);
}

int fixture_mappings(const struct fixture *fix)
{
    char line[2 * FIXTURE_PATH];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) {
        return -1;
    }
    while (fgets(line, sizeof line, maps)) {
        count += strstr(line, fix->dir) != NULL;
    }
    fclose(maps);
    return count;
}

const char *fixture_path(const struct fixture *fix, const char *name)
{
    static char path[2 * FIXTURE_PATH];
    snprintf(path, sizeof path, "%s/%s", fix->dir, name);
    return path;
}

bool fixture_has(const struct fixture *fix, const char *name)
{
    return access(fixture_path(fix, name), F_OK) == 0;
}

void fixture_unpack(struct fixture *fix, const char *name)
{
    char archive[FIXTURE_PATH];
    snprintf(archive, sizeof archive, "tests/vectors/%s.tar.gz", name);
    char *argv[] = {
        "tar", "-xzf", archive, "-C", fix->dir, "--strip-components=1", "--no-same-owner", NULL};
    run(argv);
}

struct rq_msg fixture_msg(const char *topic, int queue_id, size_t n, unsigned seed,
                          const char *properties)
{
    static _Thread_local char body[BODY_MAX];
    if (n > sizeof body) {
        abort(); /* not ck_assert: see the header */
    }
    for (size_t i = 0; i < n; i++) {
        body[i] = (char)(seed + i * 7);
    }
    struct rq_msg msg = {.topic = rq_slice_str(topic),
                         .queue_id = queue_id,
                         .flag = 5,
                         .born_timestamp_ms = 1700000000000,
                         .born_host = {.addr = {10, 0, 0, 1}, .len = 4, .port = 1234},
                         .store_host = {.addr = {10, 0, 0, 2}, .len = 4, .port = 10911},
                         .body = rq_slice(body, n),
                         .properties = rq_slice_str(properties)};
    return msg;
}

struct rq_store_put fixture_append(struct fixture *fix, const struct rq_msg *msg)
{
    struct rq_store_put put;
    rq_store_append(fix->store, msg, &put);
    ck_assert_msg(put.status == RQ_PUT_OK, "append: %s %s", rq_put_status_name(put.status),
                  put.reason);
    rq_store_dispatch(fix->store);
    return put;
}

void fixture_get(struct fixture *fix, const char *topic, int queue_id, int64_t offset, int max,
                 struct rq_store_result *out)
{
    rq_store_get(fix->store, rq_slice_str(topic), queue_id, offset, max, 0, NULL, out);
}

static void check_record(const char *p, size_t n, int64_t number, unsigned seed, size_t *size)
{
    struct rq_record record;
    ck_assert_int_eq(rq_record_read(p, n, true, &record), RQ_RECORD_GOOD);
    ck_assert_int_eq(record.queue_offset, number);
    bool same = true;
    for (size_t i = 0; i < record.body.n; i++) {
        same = same && record.body.p[i] == (char)(seed + (unsigned)number + i * 7);
    }
    ck_assert_msg(same, "body of message %lld", (long long)number);
    *size = record.size;
}

void fixture_check_queue(struct fixture *fix, const char *topic, int queue_id, int64_t max,
                         unsigned seed)
{
    struct rq_slice name = rq_slice_str(topic);
    ck_assert_int_eq(rq_store_max_offset(fix->store, name, queue_id), max);
    int64_t number = rq_store_min_offset(fix->store, name, queue_id);
    while (number < max) {
        struct rq_store_result result;
        fixture_get(fix, topic, queue_id, number, 32, &result);
        ck_assert_int_eq(result.status, RQ_GET_FOUND);
        ck_assert_int_gt(result.msg_count, 0);
        for (size_t i = 0; i < result.ref_count; i++) {
            size_t size = 0;
            for (size_t at = 0; at < result.refs[i].n; at += size) {
                check_record(result.refs[i].p + at, result.refs[i].n - at, number++, seed, &size);
            }
        }
        ck_assert_int_eq(number, result.next_begin_offset);
        rq_store_result_release(&result);
    }
}

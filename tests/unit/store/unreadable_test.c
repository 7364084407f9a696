/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Files that cannot be read, though they can be mapped: another process shortens them, or they have
 * holes and their file system has no room for a page. Reading a mapping would end the process
 * (SIGBUS), and so would writing to a hole that was not reserved.
 */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rmq/store.h>

#include "base/sys.h"
#include "look.h"

Suite *unreadable_suite(void);

#define LOG_FILE   "commitlog/00000000000000065536"
#define QUEUE_FILE "consumequeue/T/1/00000000000000000400"

#define RECORD_OVERHEAD 92 /* with a topic of one character and no properties */

static void shorten(const struct fixture *fix, const char *name, off_t size)
{
    ck_assert_msg(truncate(fixture_path(fix, name), size) == 0, "%s: %s", name, strerror(errno));
}

/* Name of one file of the index, below the store. */
static void name_index_file(const struct fixture *fix, char name[64])
{
    char command[3 * FIXTURE_PATH];
    char line[64] = "";
    snprintf(command, sizeof command, "ls %s", fixture_path(fix, "index"));
    FILE *list = popen(command, "r");
    ck_assert_ptr_nonnull(list);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, list));
    pclose(list);
    snprintf(name, 64, "index/%.17s", line);
}

/* With NULL that of the index. */
static void name_file(const struct fixture *fix, const char *file, char name[64])
{
    if (file) {
        snprintf(name, 64, "%s", file);
    } else {
        name_index_file(fix, name);
    }
}

/* A file gets so short between opening and checking a store. */
static void check_shortened(const char *file, off_t size)
{
    struct fixture fix;
    rmq_store_check check;
    rmq_error *err = NULL;
    char name[64];
    look_make(&fix);
    name_file(&fix, file, name);
    rmq_store *store = look_open(&fix);
    shorten(&fix, name, size);
    ck_assert_int_eq(rmq_store_verify(store, &check, sizeof check, &err), RMQ_ERR_IO);
    ck_assert_msg(strstr(rmq_error_message(err), name) &&
                      strstr(rmq_error_message(err), "became shorter"),
                  "%s", rmq_error_message(err));
    rmq_error_destroy(err);
    rmq_store_close(store);
    fixture_end(&fix);
}

START_TEST(a_check_ends_with_an_error_when_a_file_is_shortened_meanwhile)
{
    check_shortened(LOG_FILE, 0);
    check_shortened(LOG_FILE, 10000);
    check_shortened(QUEUE_FILE, 0);
    check_shortened(QUEUE_FILE, 30);
    check_shortened(NULL, 0);
    check_shortened(NULL, 1000);
}
END_TEST

START_TEST(a_message_of_a_shortened_file_is_an_error_and_the_others_are_there)
{
    struct fixture fix;
    rmq_store_message msg;
    look_make(&fix);
    rmq_store *store = look_open(&fix);
    shorten(&fix, LOG_FILE, 0);
    int failed = 0;
    int found = 0;
    for (int64_t i = 0; i < LOOK_MESSAGES / LOOK_QUEUES; i++) {
        rmq_error *err = NULL;
        rmq_status st = rmq_store_message_at(store, 0, i, &msg, sizeof msg, &err);
        ck_assert(st == RMQ_OK || (st == RMQ_ERR_IO && strstr(rmq_error_message(err), LOG_FILE)));
        ck_assert(st != RMQ_OK || (msg.queue_offset == i && msg.body_size == 300));
        failed += st != RMQ_OK;
        found += st == RMQ_OK;
        rmq_error_destroy(err);
    }
    ck_assert_int_gt(failed, 10);
    ck_assert_int_gt(found, 10);
    rmq_store_close(store);
    fixture_end(&fix);
}
END_TEST

/* ---- under a running broker ---- */

/* Follows a queue of an open store; how many messages it gives. */
static int64_t follow_queue(struct rq_store *store, int queue, const struct rq_store_filter *filter)
{
    struct rq_store_result result;
    int64_t seen = 0;
    int64_t max = rq_store_max_offset(store, rq_slice_str("T"), queue);
    for (int64_t at = 0; at < max; at = result.next_begin_offset) {
        rq_store_get(store, rq_slice_str("T"), queue, at, 32, 0, filter, &result);
        ck_assert_int_gt(result.next_begin_offset, at);
        seen += result.msg_count;
        rq_store_result_release(&result);
    }
    return seen;
}

static bool looks_at_all(struct rq_slice record, void *user)
{
    int *sum = user;
    for (size_t i = 0; i < record.n; i++) {
        *sum += record.p[i];
    }
    return true;
}

/* Everything that is asked of a store is answered. */
static void ask_everything(struct rq_store *store)
{
    struct rq_slice topic = rq_slice_str("T");
    struct rq_store_ref refs[64];
    for (int64_t i = 0; i < LOOK_MESSAGES / LOOK_QUEUES; i++) {
        struct rq_store_entry entry;
        rq_store_time_of(store, topic, 0, i);
        if (rq_store_entry(store, topic, 0, i, &entry) &&
            rq_store_view(store, entry.commit_log_offset, &refs[0])) {
            rq_store_ref_release(&refs[0]);
        }
    }
    size_t n =
        rq_store_query(store, topic, rq_slice_str("all"), 0, INT64_MAX, 64, refs, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        rq_store_ref_release(&refs[i]);
    }
    rq_store_offset_by_time(store, topic, 0, 0, false);
    rq_store_earliest_time(store, topic, 0);
    rq_store_earliest_time_of_all(store);
    rq_store_clean(store, true);
}

/* An old file gets shorter under an open store, whose other messages are there. */
static void check_shortened_under_broker(const char *file)
{
    struct fixture fix;
    int sum = 0;
    const struct rq_store_filter filter = {.match = looks_at_all, .user = &sum};
    char name[64];
    look_make(&fix);
    name_file(&fix, file, name);
    fixture_open(&fix);
    shorten(&fix, name, 0);
    int64_t seen = follow_queue(fix.store, 1, NULL);
    ck_assert_int_ge(seen, 100);
    ck_assert(file ? seen < 200 : seen == 200);
    ck_assert_int_eq(follow_queue(fix.store, 1, &filter), seen);
    ask_everything(fix.store);
    struct rq_msg msg = fixture_msg("T", 1, 300, LOOK_MESSAGES, NULL);
    fixture_append(&fix, &msg);
    ck_assert_int_eq(follow_queue(fix.store, 1, NULL), seen + 1);
    fixture_end(&fix);
}

START_TEST(an_old_file_that_is_shortened_under_a_broker_costs_its_messages_only)
{
    check_shortened_under_broker(LOG_FILE);
    check_shortened_under_broker(QUEUE_FILE);
    check_shortened_under_broker(NULL);
}
END_TEST

/* A log file's length is asked for by its path then. */
START_TEST(a_shortened_file_is_noticed_with_few_descriptors_too)
{
    const struct rlimit few = {.rlim_cur = 16, .rlim_max = 16};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    check_shortened_under_broker(LOG_FILE);
}
END_TEST

/* ---- a tmpfs without room ---- */

static bool fill_up(const char *dir)
{
    char path[2 * FIXTURE_PATH];
    static const char block[1 << 16] = {1};
    snprintf(path, sizeof path, "%s/filler", dir);
    FILE *f = fopen(path, "w");
    bool ok = f != NULL;
    setvbuf(f, NULL, _IONBF, 0);
    for (size_t n = sizeof block; ok && n >= 1; n /= 2) {
        while (fwrite(block, 1, n, f) == n) {
        }
        clearerr(f);
    }
    return ok && fclose(f) == 0;
}

/* As a broker opens it, and its consumers and administrators ask. */
static bool broker_reads(const struct fixture *fix, int64_t messages)
{
    struct rq_store *store = NULL;
    struct rq_store_ref refs[4];
    int64_t seen = 0;
    if (rq_store_open(&fix->options, &store, NULL) != RMQ_OK) {
        return false;
    }
    for (int queue = 0; queue < LOOK_QUEUES; queue++) {
        int64_t max = rq_store_max_offset(store, rq_slice_str("T"), queue);
        struct rq_store_result result;
        for (int64_t at = 0; at < max; at = result.next_begin_offset) {
            rq_store_get(store, rq_slice_str("T"), queue, at, 32, 0, NULL, &result);
            seen += result.msg_count;
            rq_store_result_release(&result);
        }
    }
    size_t hits = 0;
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof key, "x%d", i); /* mostly slots that were never used */
        hits += rq_store_query(store, rq_slice_str("T"), rq_slice_str(key), 0, INT64_MAX, 4, refs,
                               NULL, NULL);
    }
    rq_store_close(store);
    return seen == messages && hits == 0;
}

static bool tool_reads(const char *dir, int64_t messages)
{
    rmq_store *store = NULL;
    rmq_store_check check;
    bool ok = rmq_store_open(dir, NULL, &store, NULL) == RMQ_OK &&
              rmq_store_verify(store, &check, sizeof check, NULL) == RMQ_OK &&
              check.log_messages == messages && check.verdict == RMQ_STORE_WHOLE;
    rmq_store_close(store);
    return ok;
}

static bool write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

/* Mounts of its own: for the superuser, or as one of a user space of its own. */
static bool have_own_mounts(void)
{
    char map[64];
    if (unshare(CLONE_NEWNS) < 0) {
        snprintf(map, sizeof map, "0 %u 1", (unsigned)getuid());
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !write_text("/proc/self/uid_map", map)) {
            return false;
        }
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* What the system needs to open a store, and less than a tenth of its holes. */
static bool give_back(const char *dir)
{
    char path[2 * FIXTURE_PATH];
    struct stat info;
    snprintf(path, sizeof path, "%s/filler", dir);
    return stat(path, &info) == 0 && truncate(path, info.st_size - (64 << 10)) == 0;
}

enum { TMPFS_OK, TMPFS_NOT_ALLOWED = 77, TMPFS_WRONG };

/* In a process of its own, which has the mount for itself. Makes no call of Check. */
static int read_on_full_tmpfs(const struct fixture *fix)
{
    struct fixture own = *fix;
    char dir[FIXTURE_PATH + 8];
    char command[4 * FIXTURE_PATH];
    snprintf(dir, sizeof dir, "%.500s.tmpfs", fix->dir);
    if (!have_own_mounts() || mkdir(dir, 0755) < 0 ||
        mount("none", dir, "tmpfs", 0, "size=4m") < 0) {
        return TMPFS_NOT_ALLOWED;
    }
    snprintf(command, sizeof command, "cp -r --sparse=always %s/. %s", fix->dir, dir);
    if (system(command) != 0 || !fill_up(dir)) { // NOLINT(concurrency-mt-unsafe,cert-env33-c)
        return TMPFS_NOT_ALLOWED;
    }
    own.options.store_path_root_dir = dir;
    struct rq_store *store = NULL;
    bool ok = tool_reads(dir, LOOK_MESSAGES) &&
              rq_store_open(&own.options, &store, NULL) == RMQ_ERR_DISK_FULL && give_back(dir) &&
              broker_reads(&own, LOOK_MESSAGES);
    return ok ? TMPFS_OK : TMPFS_WRONG;
}

/* Slots and tails that are holes. */
static void make_sparse(struct fixture *fix)
{
    fixture_begin(fix);
    fix->options.mapped_file_size_commit_log = 1 << 20;
    fix->options.mapped_file_size_consume_queue = 4096 * 20;
    fix->options.max_hash_slot_num = 1000000;
    fix->options.max_index_num = 100000;
    fixture_open(fix);
    for (int i = 0; i < LOOK_MESSAGES; i++) {
        char properties[32];
        snprintf(properties, sizeof properties, "KEYS\001k%d\002", i);
        struct rq_msg msg = fixture_msg("T", i % LOOK_QUEUES, 300, (unsigned)i, properties);
        fixture_append(fix, &msg);
    }
    fixture_close(fix);
}

START_TEST(a_sparse_store_on_a_full_tmpfs_is_read_by_tools_and_broker)
{
    struct fixture fix;
    char dir[FIXTURE_PATH + 8];
    int status = 0;
    make_sparse(&fix);
    snprintf(dir, sizeof dir, "%.500s.tmpfs", fix.dir);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(read_on_full_tmpfs(&fix));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    rmdir(dir);
    ck_assert_msg(!WIFSIGNALED(status), "died of signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == TMPFS_NOT_ALLOWED) {
        fprintf(stderr, "not shown here: a process may not mount a tmpfs of its own\n");
    } else {
        ck_assert_int_eq(WEXITSTATUS(status), TMPFS_OK);
    }
    fixture_end(&fix);
}
END_TEST

static int64_t blocks_of(const char *dir)
{
    char command[3 * FIXTURE_PATH];
    long long kib = -1;
    snprintf(command, sizeof command, "du -sk %s", dir);
    FILE *du = popen(command, "r");
    ck_assert_ptr_nonnull(du);
    ck_assert_int_eq(fscanf(du, "%lld", &kib), 1);
    pclose(du);
    return kib;
}

START_TEST(reading_holes_takes_no_room_where_that_is_memory)
{
    struct fixture fix;
    char dir[] = "/dev/shm/rmq-store-XXXXXX";
    char command[4 * FIXTURE_PATH];
    if (!mkdtemp(dir)) {
        return; /* no such file system here */
    }
    make_sparse(&fix);
    snprintf(command, sizeof command, "cp -r --sparse=always %s/. %s", fix.dir, dir);
    ck_assert_int_eq(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c)
    int64_t before = blocks_of(dir);
    ck_assert(tool_reads(dir, LOOK_MESSAGES));
    ck_assert_int_eq(blocks_of(dir), before);
    fix.options.store_path_root_dir = dir;
    ck_assert(broker_reads(&fix, LOOK_MESSAGES));
    int64_t grown = blocks_of(dir) - before;
    ck_assert_msg(grown < 100, "%lld KiB", (long long)grown); /* checkpoint, contents, lock */
    struct rq_msg msg = fixture_msg("T", 0, 300, LOOK_MESSAGES, "KEYS\001more\002");
    fixture_open(&fix); /* what was a hole is written to */
    for (int i = 0; i < 5000; i++) {
        fixture_append(&fix, &msg);
    }
    struct rq_store_ref found;
    ck_assert_uint_eq(rq_store_query(fix.store, rq_slice_str("T"), rq_slice_str("more"), 0,
                                     INT64_MAX, 1, &found, NULL, NULL),
                      1);
    rq_store_ref_release(&found);
    fixture_close(&fix);
    ck_assert(tool_reads(dir, LOOK_MESSAGES + 5000));
    rq_sys_rmtree(dir);
    fixture_end(&fix);
}
END_TEST

/* ---- the rest of a file that is left ---- */

#define MEMORY_DIR "/dev/shm/rmq-store-XXXXXX"

/* A store where holes must not be written to; false when there is no such file system. */
static bool begin_in_memory(struct fixture *fix, char *dir)
{
    if (!mkdtemp(dir)) {
        return false;
    }
    fixture_begin(fix);
    fix->options.store_path_root_dir = dir;
    return true;
}

static void end_in_memory(struct fixture *fix, const char *dir, int64_t messages)
{
    fixture_check_queue(fix, "T", 0, messages, 0);
    fixture_close(fix);
    ck_assert(tool_reads(dir, messages));
    rq_sys_rmtree(dir);
    fixture_end(fix);
}

START_TEST(the_first_message_after_a_start_may_be_for_the_next_file)
{
    struct fixture fix;
    char dir[] = MEMORY_DIR;
    if (!begin_in_memory(&fix, dir)) {
        return;
    }
    fixture_open(&fix);
    for (unsigned i = 0; i < 2; i++) {
        struct rq_msg msg = fixture_msg("T", 0, 4096 - RECORD_OVERHEAD, i, NULL);
        ck_assert_int_eq(fixture_append(&fix, &msg).next_commit_log_offset, (i + 1) * 4096);
    }
    fixture_reopen(&fix);
    struct rq_msg msg = fixture_msg("T", 0, 60000, 2, NULL);
    ck_assert_int_eq(fixture_append(&fix, &msg).commit_log_offset, 65536);
    end_in_memory(&fix, dir, 3);
}
END_TEST

START_TEST(a_file_may_be_left_long_before_its_end_while_messages_wait_in_a_buffer)
{
    static char large[4150000]; /* with any other too much for one file */
    struct fixture fix;
    char dir[] = MEMORY_DIR;
    if (!begin_in_memory(&fix, dir)) {
        return;
    }
    fix.options.mapped_file_size_commit_log = 4 << 20;
    fix.options.max_message_size = 4 << 20;
    fix.options.transient_store_pool_enable = true;
    fix.options.transient_store_pool_size = 2;
    fix.options.wake_commit_when_put_message = true;
    fixture_open(&fix);
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (char)(1 + i * 7); /* as fixture_msg would fill it for message 1 */
    }
    struct rq_msg msg = fixture_msg("T", 0, 60000, 0, NULL);
    fixture_append(&fix, &msg);
    msg = fixture_msg("T", 0, 1, 1, NULL);
    msg.body = rq_slice(large, sizeof large);
    fixture_append(&fix, &msg);
    msg = fixture_msg("T", 0, 60000, 2, NULL);
    fixture_append(&fix, &msg);
    fixture_reopen(&fix);
    end_in_memory(&fix, dir, 3);
}
END_TEST

Suite *unreadable_suite(void)
{
    Suite *suite = suite_create("unreadable");
    TCase *tc = tcase_create("unreadable");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_check_ends_with_an_error_when_a_file_is_shortened_meanwhile);
    tcase_add_test(tc, a_message_of_a_shortened_file_is_an_error_and_the_others_are_there);
    tcase_add_test(tc, an_old_file_that_is_shortened_under_a_broker_costs_its_messages_only);
    tcase_add_test(tc, a_shortened_file_is_noticed_with_few_descriptors_too);
    tcase_add_test(tc, a_sparse_store_on_a_full_tmpfs_is_read_by_tools_and_broker);
    tcase_add_test(tc, reading_holes_takes_no_room_where_that_is_memory);
    tcase_add_test(tc, the_first_message_after_a_start_may_be_for_the_next_file);
    tcase_add_test(tc, a_file_may_be_left_long_before_its_end_while_messages_wait_in_a_buffer);
    suite_add_tcase(suite, tc);
    return suite;
}

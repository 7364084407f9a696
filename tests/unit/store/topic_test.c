/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Topics that are deleted: their queues leave neither files nor mappings nor descriptors, whoever
 * reads them or appends to them meanwhile. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/log.h>

#include "fixture.h"
#include "lib/usage.h"
#include "store/disk.h"
#include "store/record.h"

Suite *topic_suite(void);

enum { ROUNDS = 200, DELETED = 25, QUEUES = 8 };

static void append_to_each(struct fixture *fix, const char *topic, unsigned seed)
{
    for (int queue = 0; queue < QUEUES; queue++) {
        struct rq_msg msg = fixture_msg(topic, queue, 100, seed, NULL);
        fixture_append(fix, &msg);
    }
}

static int64_t count_queues(struct fixture *fix)
{
    struct rq_store_metrics metrics;
    rq_store_metrics(fix->store, &metrics);
    return metrics.queues;
}

START_TEST(two_hundred_topics_that_came_and_went_leave_nothing_open)
{
    struct fixture fix;
    struct rq_store_result held;
    fixture_begin_in_memory(&fix);
    fix.options.mapped_file_size_commit_log = 16 << 20; /* one file all the while */
    fixture_open(&fix);
    append_to_each(&fix, "Stays", 0);
    int mapped = fixture_mappings(&fix);
    int open_files = tl_usage_of(0).descriptors;
    append_to_each(&fix, "Read", 7);
    fixture_get(&fix, "Read", 3, 0, 1, &held);
    rq_store_delete_topic(fix.store, rq_slice_str("Read"));
    for (int round = 0; round < ROUNDS; round++) {
        char topic[16];
        char dir[64];
        snprintf(topic, sizeof topic, "T%d", round % 7);
        snprintf(dir, sizeof dir, "consumequeue/%s", topic);
        append_to_each(&fix, topic, (unsigned)round);
        ck_assert_int_eq(count_queues(&fix), 2 * QUEUES);
        ck_assert_int_eq(fixture_mappings(&fix), mapped + QUEUES);
        rq_store_delete_topic(fix.store, rq_slice_str(topic));
        ck_assert(!rq_store_has_queue(fix.store, rq_slice_str(topic), 0));
        ck_assert(!fixture_has(&fix, dir));
    }
    ck_assert_int_eq(fixture_mappings(&fix), mapped);
    ck_assert_int_eq(tl_usage_of(0).descriptors, open_files);
    ck_assert_int_eq(count_queues(&fix), QUEUES);
    struct rq_record record; /* messages stay in the log, and who has them keeps them */
    ck_assert_int_eq(rq_record_read(held.refs[0].p, held.refs[0].n, true, &record), RQ_RECORD_GOOD);
    rq_store_result_release(&held);
    append_to_each(&fix, "Stays", 1);
    for (int queue = 0; queue < QUEUES; queue++) {
        fixture_check_queue(&fix, "Stays", queue, 2, 0);
    }
    fixture_reopen(&fix);
    ck_assert_int_eq(count_queues(&fix), QUEUES);
    fixture_end(&fix);
}
END_TEST

struct shared {
    struct fixture fix;
    atomic_bool stop;
};

/* Whatever is answered, it is a message of that topic. */
static void *read_and_append(void *arg)
{
    struct shared *shared = arg;
    struct rq_store *store = shared->fix.store;
    struct rq_slice topic = rq_slice_str("Goes");
    char body[100] = {0};
    void *failed = NULL;
    while (!atomic_load(&shared->stop) && !failed) {
        struct rq_store_put put;
        struct rq_store_result result;
        struct rq_msg msg = {.topic = topic, .queue_id = 1, .body = rq_slice(body, sizeof body)};
        failed = rq_store_append(store, &msg, &put) == RQ_PUT_OK ? NULL : shared;
        rq_store_dispatch(store);
        (void)rq_store_offset_by_time(store, topic, 1, put.store_timestamp, true);
        rq_store_get(store, topic, 1, rq_store_min_offset(store, topic, 1), 32, 0, NULL, &result);
        for (size_t i = 0; i < result.ref_count; i++) {
            struct rq_record record;
            if (rq_record_read(result.refs[i].p, result.refs[i].n, true, &record) !=
                    RQ_RECORD_GOOD ||
                !rq_slice_eq(record.topic, topic)) {
                failed = shared;
            }
        }
        rq_store_result_release(&result);
    }
    return failed;
}

START_TEST(a_topic_is_deleted_again_and_again_while_others_read_it_and_append_to_it)
{
    static struct shared shared;
    pthread_t threads[2];
    fixture_begin_in_memory(&shared.fix);
    shared.fix.options.mapped_file_size_commit_log = 64 << 20;
    shared.fix.options.mapped_file_size_consume_queue = 6000000;
    shared.fix.options.flush_interval_consume_queue_ms = 1;
    shared.fix.options.flush_consume_queue_thorough_interval_ms = 5;
    fixture_open(&shared.fix);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_and_append, &shared), 0);
    }
    for (int i = 0; i < DELETED; i++) {
        struct rq_msg msg = fixture_msg("Goes", 1, 100, 0, NULL);
        fixture_append(&shared.fix, &msg);
        rq_store_delete_topic(shared.fix.store, rq_slice_str("Goes"));
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < 2; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    rq_store_delete_topic(shared.fix.store, rq_slice_str("Goes"));
    append_to_each(&shared.fix, "Stays", 0);
    ck_assert_int_eq(count_queues(&shared.fix), QUEUES);
    fixture_reopen(&shared.fix);
    ck_assert_int_eq(rq_store_max_offset(shared.fix.store, rq_slice_str("Goes"), 1), 0);
    fixture_end(&shared.fix);
}
END_TEST

static void count_walks(rmq_log_level level, const char *line, void *user)
{
    int *walks = user;
    (void)level;
    *walks += strstr(line, "rebuilt from the commit log") != NULL;
}

START_TEST(after_a_kill_the_queues_of_a_deleted_topic_cost_one_walk_along_the_log)
{
    struct fixture fix;
    int walks = 0;
    fixture_begin(&fix);
    fixture_open(&fix);
    for (unsigned i = 0; i < 100; i++) { /* several files of the log; the last begins with these */
        append_to_each(&fix, "Goes", i);
        append_to_each(&fix, "Stays", i);
    }
    rq_disk_set_clock_offset(rq_store_disk(fix.store), 60000);
    append_to_each(&fix, "Goes", 100);
    append_to_each(&fix, "Stays", 100);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    rq_store_delete_topic(fix.store, rq_slice_str("Goes"));
    fixture_crash(&fix);
    rmq_log_set(RMQ_LOG_WARN, count_walks, &walks);
    fixture_open(&fix);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    ck_assert_int_eq(walks, 1);
    for (int queue = 0; queue < QUEUES; queue++) {
        fixture_check_queue(&fix, "Goes", queue, 101, 0);
        fixture_check_queue(&fix, "Stays", queue, 101, 0);
    }
    fixture_end(&fix);
}
END_TEST

Suite *topic_suite(void)
{
    Suite *suite = suite_create("topic");
    TCase *tc = tcase_create("topic");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, two_hundred_topics_that_came_and_went_leave_nothing_open);
    tcase_add_test(tc, after_a_kill_the_queues_of_a_deleted_topic_cost_one_walk_along_the_log);
    tcase_add_test(tc, a_topic_is_deleted_again_and_again_while_others_read_it_and_append_to_it);
    suite_add_tcase(suite, tc);
    return suite;
}

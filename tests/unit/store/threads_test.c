/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Several threads on one store: appenders, readers, the listener, synchronous flush. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rmq/log.h>

#include "base/sys.h"
#include "base/thread.h"
#include "base/time.h"
#include "fixture.h"
#include "store/record.h"

Suite *threads_suite(void);

enum { WRITERS = 4, READERS = 2, EACH = 1500, QUEUES = 3, FOLLOWED = 100000 };

struct arrivals {
    struct rq_mutex lock;
    int64_t max[QUEUES];
    int calls;
    bool wrong;
};

/* Ends never go back, and a tag that was stored is told. */
static void on_arrival(const struct rq_store_arrival *arrival, void *user)
{
    struct arrivals *arrivals = user;
    rq_mutex_lock(&arrivals->lock);
    int64_t *max = &arrivals->max[arrival->queue_id];
    arrivals->wrong |= arrival->max_offset <= *max || arrival->tags_count != 1 ||
                       arrival->tags_codes[0] != 2598919;
    *max = arrival->max_offset;
    arrivals->calls++;
    rq_mutex_unlock(&arrivals->lock);
}

struct shared {
    struct fixture fix;
    atomic_int writing;
};

static void *write_messages(void *arg)
{
    struct shared *shared = arg;
    char body[200] = {0};
    for (int i = 0; i < EACH; i++) {
        struct rq_msg msg = {.topic = rq_slice_str("T"),
                             .queue_id = i % QUEUES,
                             .body = rq_slice(body, sizeof body),
                             .properties = rq_slice_str("TAGS\1TagA\2KEYS\1k\2")};
        struct rq_store_put put;
        if (rq_store_append(shared->fix.store, &msg, &put) != RQ_PUT_OK) {
            break;
        }
        rq_store_dispatch(shared->fix.store);
    }
    atomic_fetch_sub(&shared->writing, 1);
    return NULL;
}

/* Follows a queue to its end; every message that is seen is whole and under its number. */
static void *read_messages(void *arg)
{
    struct shared *shared = arg;
    int64_t offset = 0;
    int64_t end = (int64_t)WRITERS * EACH / QUEUES;
    while (offset < end) {
        struct rq_store_result result;
        rq_store_get(shared->fix.store, rq_slice_str("T"), 1, offset, 32, 0, NULL, &result);
        for (size_t i = 0; i < result.ref_count; i++) {
            size_t at = 0;
            while (at < result.refs[i].n) {
                struct rq_record record;
                if (rq_record_read(result.refs[i].p + at, result.refs[i].n - at, true, &record) !=
                        RQ_RECORD_GOOD ||
                    record.queue_offset != offset) {
                    rq_store_result_release(&result);
                    return shared;
                }
                at += record.size;
                offset++;
            }
        }
        rq_store_result_release(&result);
        if (atomic_load(&shared->writing) == 0) {
            rq_store_dispatch(shared->fix.store);
        }
    }
    return NULL;
}

START_TEST(four_appenders_and_two_readers_agree_on_every_message)
{
    static struct shared shared;
    struct arrivals arrivals = {0};
    pthread_t threads[WRITERS + READERS];
    rq_mutex_init(&arrivals.lock);
    fixture_begin(&shared.fix);
    fixture_open(&shared.fix);
    rq_store_set_listener(shared.fix.store, on_arrival, &arrivals);
    atomic_store(&shared.writing, WRITERS);
    for (int i = 0; i < WRITERS + READERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL,
                                        i < WRITERS ? write_messages : read_messages, &shared),
                         0);
    }
    for (int i = 0; i < WRITERS + READERS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    rq_store_dispatch(shared.fix.store);
    rq_store_set_listener(shared.fix.store, NULL, NULL);
    ck_assert(!arrivals.wrong);
    for (int i = 0; i < QUEUES; i++) {
        ck_assert_int_eq(rq_store_max_offset(shared.fix.store, rq_slice_str("T"), i),
                         WRITERS * EACH / QUEUES);
        ck_assert_int_eq(arrivals.max[i], WRITERS * EACH / QUEUES);
    }
    fixture_reopen(&shared.fix);
    ck_assert_int_eq(rq_store_max_offset(shared.fix.store, rq_slice_str("T"), 0),
                     WRITERS * EACH / QUEUES);
    fixture_end(&shared.fix);
    rq_mutex_destroy(&arrivals.lock);
}
END_TEST

/* ---- the queue's end ---- */

struct follow {
    struct fixture fix;
    atomic_bool done;
};

static void *write_on(void *arg)
{
    struct follow *follow = arg;
    char body[100] = {0};
    struct rq_store_put put = {0};
    for (int i = 0; i < FOLLOWED && put.status == RQ_PUT_OK; i++) {
        struct rq_msg msg = {.topic = rq_slice_str("T"), .body = rq_slice(body, sizeof body)};
        rq_store_append(follow->fix.store, &msg, &put);
        rq_store_dispatch(follow->fix.store);
    }
    atomic_store(&follow->done, true);
    return put.status == RQ_PUT_OK ? NULL : follow;
}

START_TEST(an_answer_goes_on_behind_its_last_message_while_more_come)
{
    static struct follow follow;
    pthread_t writer;
    struct rq_slice topic = rq_slice_str("T");
    int64_t passed_over = 0;
    void *failed = NULL;
    fixture_begin(&follow.fix);
    follow.fix.options.mapped_file_size_commit_log = 64 << 20;
    follow.fix.options.mapped_file_size_consume_queue = 6000000;
    fixture_open(&follow.fix);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_on, &follow), 0);
    while (!atomic_load(&follow.done)) {
        struct rq_store_result result;
        int64_t offset = rq_store_max_offset(follow.fix.store, topic, 0) - 1;
        if (offset >= 0) {
            rq_store_get(follow.fix.store, topic, 0, offset, 32, 0, NULL, &result);
            passed_over += result.next_begin_offset - offset - result.msg_count;
            rq_store_result_release(&result);
        }
    }
    pthread_join(writer, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_int_eq(passed_over, 0);
    fixture_end(&follow.fix);
}
END_TEST

/* ---- synchronous flush ---- */

struct parked {
    struct rq_store_waiter waiter;
    struct rq_mutex lock;
    struct rq_cond cond;
    bool done;
    enum rq_put_status st;
};

static void on_done(struct rq_store_waiter *waiter, enum rq_put_status st)
{
    struct parked *parked = (struct parked *)(void *)waiter;
    rq_mutex_lock(&parked->lock);
    parked->done = true;
    parked->st = st;
    rq_cond_signal(&parked->cond);
    rq_mutex_unlock(&parked->lock);
}

static void parked_init(struct parked *parked)
{
    *parked = (struct parked){.waiter = {.done = on_done}};
    rq_mutex_init(&parked->lock);
    rq_cond_init(&parked->cond);
}

static enum rq_put_status append_and_wait(struct rq_store *store, struct parked *parked,
                                          const struct rq_msg *msg)
{
    struct rq_store_put put;
    if (rq_store_append(store, msg, &put) != RQ_PUT_OK) {
        return put.status;
    }
    rq_store_dispatch(store);
    parked->done = false;
    parked->st = RQ_PUT_OK;
    if (rq_store_park(store, put.next_commit_log_offset, &parked->waiter)) {
        rq_mutex_lock(&parked->lock);
        while (!parked->done) {
            rq_cond_wait(&parked->cond, &parked->lock);
        }
        rq_mutex_unlock(&parked->lock);
    }
    return parked->st;
}

static void parked_free(struct parked *parked)
{
    rq_cond_destroy(&parked->cond);
    rq_mutex_destroy(&parked->lock);
}

static void *write_and_wait(void *arg)
{
    struct fixture *fix = arg;
    struct parked parked;
    void *failed = NULL;
    char body[100] = {0};
    parked_init(&parked);
    for (int i = 0; i < 50 && !failed; i++) {
        struct rq_msg msg = {.topic = rq_slice_str("T"), .body = rq_slice(body, sizeof body)};
        failed = append_and_wait(fix->store, &parked, &msg) == RQ_PUT_OK ? NULL : fix;
    }
    parked_free(&parked);
    return failed;
}

START_TEST(writers_that_wait_for_the_disk_are_all_answered)
{
    struct fixture fix;
    pthread_t threads[8];
    fixture_begin(&fix);
    fix.options.flush_disk_type = RQ_FLUSH_SYNC;
    fixture_open(&fix);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_and_wait, &fix), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    struct rq_store_info info;
    rq_store_info(fix.store, &info);
    ck_assert_int_eq(info.flushed_commit_log_offset, info.max_commit_log_offset);
    ck_assert_int_eq(info.put_messages, 400);
    fixture_reopen(&fix);
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), 400);
    fixture_end(&fix);
}
END_TEST

START_TEST(a_failing_sync_answers_no_ok_shows_nothing_and_heals)
{
    struct fixture fix;
    struct parked parked;
    struct rq_msg msg = fixture_msg("T", 0, 100, 0, NULL);
    fixture_begin(&fix);
    fix.options.flush_disk_type = RQ_FLUSH_SYNC;
    fixture_open(&fix);
    parked_init(&parked);
    ck_assert_int_eq(append_and_wait(fix.store, &parked, &msg), RQ_PUT_OK);
    rq_sys_fail(RQ_SYS_SYNC, 1, EIO, true);
    enum rq_put_status st = append_and_wait(fix.store, &parked, &msg);
    ck_assert_int_eq(st, RQ_PUT_SERVICE_NOT_AVAILABLE);
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), 1);
    struct rq_store_put put;
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_SERVICE_NOT_AVAILABLE);
    ck_assert_str_ne(put.reason, "");
    rq_sys_fail(RQ_SYS_SYNC, 0, 0, false);
    ck_assert_int_eq(rq_store_flush(fix.store, NULL), RMQ_OK);
    ck_assert_int_eq(append_and_wait(fix.store, &parked, &msg), RQ_PUT_OK);
    rq_store_dispatch(fix.store);
    int64_t deadline = rq_mono_ms() + 10000;
    while (rq_store_max_offset(fix.store, rq_slice_str("T"), 0) < 3 && rq_mono_ms() < deadline) {
        rq_store_dispatch(fix.store);
    }
    ck_assert_int_eq(rq_store_max_offset(fix.store, rq_slice_str("T"), 0), 3);
    parked_free(&parked);
    fixture_end(&fix);
}
END_TEST

/* ---- a thread that is kept in the sink of the log ---- */

struct gate {
    struct rq_mutex lock;
    struct rq_cond moves;
    bool reached;
    bool open;
};

static void hold_at_gate(rmq_log_level level, const char *line, void *user)
{
    struct gate *gate = user;
    (void)level;
    if (strstr(line, "flush of queues and checkpoint failed")) {
        rq_mutex_lock(&gate->lock);
        gate->reached = true;
        rq_cond_broadcast(&gate->moves);
        while (!gate->open) {
            rq_cond_wait(&gate->moves, &gate->lock);
        }
        rq_mutex_unlock(&gate->lock);
    }
}

static void wait_reached(struct gate *gate)
{
    rq_mutex_lock(&gate->lock);
    while (!gate->reached) {
        rq_cond_wait(&gate->moves, &gate->lock);
    }
    rq_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    rq_mutex_lock(&gate->lock);
    gate->open = true;
    rq_cond_broadcast(&gate->moves);
    rq_mutex_unlock(&gate->lock);
}

/* The checkpoint cannot be written, so that each flush of the queues ends in the log. */
START_TEST(who_waits_while_queues_are_flushed_is_not_ended_before_a_sync)
{
    struct fixture fix;
    struct parked parked;
    struct gate gate = {0};
    struct rq_store_put put;
    struct rq_msg msg = fixture_msg("T", 0, 100, 0, NULL);
    rq_mutex_init(&gate.lock);
    rq_cond_init(&gate.moves);
    parked_init(&parked);
    fixture_begin(&fix);
    fix.options.flush_disk_type = RQ_FLUSH_SYNC;
    fix.options.sync_flush_timeout_ms = 1;
    fix.options.flush_interval_consume_queue_ms = 1;
    fixture_open(&fix);
    ck_assert_int_eq(mkdir(fixture_path(&fix, "checkpoint"), 0755), 0);
    rmq_log_set(RMQ_LOG_ERROR, hold_at_gate, &gate);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    rq_store_dispatch(fix.store);
    wait_reached(&gate);
    ck_assert_int_eq(rq_store_append(fix.store, &msg, &put), RQ_PUT_OK);
    ck_assert(rq_store_park(fix.store, put.next_commit_log_offset, &parked.waiter));
    rq_store_dispatch(fix.store);
    while (rq_mono_ms() <= parked.waiter.deadline_ms) {
        usleep(1000);
    }
    open_gate(&gate);
    rq_mutex_lock(&parked.lock);
    while (!parked.done) {
        rq_cond_wait(&parked.cond, &parked.lock);
    }
    rq_mutex_unlock(&parked.lock);
    ck_assert_int_eq(parked.st, RQ_PUT_OK);
    ck_assert_int_eq(rmdir(fixture_path(&fix, "checkpoint")), 0);
    fixture_end(&fix);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    parked_free(&parked);
    rq_cond_destroy(&gate.moves);
    rq_mutex_destroy(&gate.lock);
}
END_TEST

Suite *threads_suite(void)
{
    Suite *suite = suite_create("threads");
    TCase *tc = tcase_create("threads");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, four_appenders_and_two_readers_agree_on_every_message);
    tcase_add_test(tc, an_answer_goes_on_behind_its_last_message_while_more_come);
    tcase_add_test(tc, writers_that_wait_for_the_disk_are_all_answered);
    tcase_add_test(tc, who_waits_while_queues_are_flushed_is_not_ended_before_a_sync);
    tcase_add_test(tc, a_failing_sync_answers_no_ok_shows_nothing_and_heals);
    suite_add_tcase(suite, tc);
    return suite;
}

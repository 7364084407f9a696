/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The pool of workers and takers: every message is handed out once, also when several work on one
 * run; slow listeners get help; after a stop nothing begins and quiet comes when the last one is
 * back.
 */
#include "client/pool.h"

#include <check.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include <rmq/log.h>

#include "base/mem.h"
#include "base/time.h"
#include "wire/message.h"

Suite *pool_suite(void);

#define DEADLINE_MS 10000

static struct rq_pool pool;
static struct rq_process_queue queue;
static struct rq_views *made[64];
static size_t made_count;

static atomic_int seen[4096]; /* by offset */
static atomic_int calls;
static atomic_int largest;
static atomic_int done_count;
static atomic_int later_count;
static atomic_int later_level;
static atomic_int quiet_count;
static atomic_int inside;
static atomic_int most_inside;
static int32_t sys_flag; /* of messages that are made */
static atomic_bool hold; /* listeners wait while it is set */
static rmq_consume_result (*special)(const rmq_message_view *const *messages, size_t count,
                                     rmq_consume_context *context);

static void note_most(atomic_int *most, int value)
{
    int old = atomic_load(most);
    while (value > old && !atomic_compare_exchange_weak(most, &old, value)) {
    }
}

static void nap(void)
{
    struct rq_mutex lock;
    struct rq_cond cond;
    rq_mutex_init(&lock);
    rq_cond_init(&cond);
    rq_mutex_lock(&lock);
    rq_cond_wait_until(&cond, &lock, rq_mono_ms() + 1);
    rq_mutex_unlock(&lock);
    rq_cond_destroy(&cond);
    rq_mutex_destroy(&lock);
}

static rmq_consume_result listen(const rmq_message_view *const *messages, size_t count,
                                 rmq_consume_context *context, void *user)
{
    note_most(&most_inside, atomic_fetch_add(&inside, 1) + 1);
    note_most(&largest, (int)count);
    atomic_fetch_add(&calls, 1);
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&seen[messages[i]->queue_offset], 1);
    }
    while (atomic_load(&hold)) {
        nap();
    }
    rmq_consume_result result = special ? special(messages, count, context) : RMQ_CONSUME_SUCCESS;
    atomic_fetch_sub(&inside, 1);
    return result;
}

static void on_done(struct rq_pool *from_pool, struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    struct rq_process_done done;
    atomic_fetch_add(&done_count, (int)(to - from));
    rq_process_queue_done(&queue, pulled, from, to, &done);
    if (done.emptied) {
        rq_pulled_release(pulled);
    }
}

static void on_later(struct rq_pool *from_pool, struct rq_pulled *pulled, uint32_t from,
                     uint32_t to, int level)
{
    atomic_store(&later_level, level);
    atomic_fetch_add(&later_count, (int)(to - from));
}

static bool on_prepare(struct rq_pool *from_pool, struct rq_pulled *pulled, uint32_t index)
{
    struct rmq_message_view *view = pulled->views[index];
    rq_process_queue_hold(pulled->queue, view);
    if (!atomic_load(&view->expanded)) {
        atomic_store(&view->expanded, rq_strdup("expanded"));
    }
    return true;
}

static void on_quiet(struct rq_pool *from_pool)
{
    atomic_fetch_add(&quiet_count, 1);
}

static const struct rq_pool_ops ops = {
    .done = on_done, .later = on_later, .prepare = on_prepare, .quiet = on_quiet};

static atomic_int wakes_asked;

static void on_wake_soon(struct rq_pool *from_pool)
{
    atomic_fetch_add(&wakes_asked, 1);
}

static const struct rq_pool_ops late_ops = {.done = on_done,
                                            .later = on_later,
                                            .prepare = on_prepare,
                                            .quiet = on_quiet,
                                            .wake_soon = on_wake_soon};

static void reset(void)
{
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        atomic_store(&seen[i], 0);
    }
    atomic_store(&calls, 0);
    atomic_store(&largest, 0);
    atomic_store(&done_count, 0);
    atomic_store(&later_count, 0);
    atomic_store(&quiet_count, 0);
    atomic_store(&inside, 0);
    atomic_store(&most_inside, 0);
    atomic_store(&hold, false);
    special = NULL;
    sys_flag = 0;
    made_count = 0;
}

static void open_pool(int threads, int batch_max, bool polls)
{
    const struct rq_process_limits limits = {100000, 1 << 30, 100000};
    struct rq_pool_options options = {
        .ops = &ops, .listener = polls ? NULL : listen, .threads = threads, .batch_max = batch_max};
    reset();
    rq_process_queue_init(&queue, &limits);
    rq_process_queue_start(&queue, 0);
    ck_assert_int_eq(rq_pool_init(&pool, &options, NULL), RMQ_OK);
}

static void close_pool(void)
{
    struct rq_list left;
    rq_list_init(&left);
    rq_pool_stop(&pool);
    rq_pool_join(&pool);
    rq_process_queue_drop(&queue, &left);
    for (struct rq_list *node = rq_list_pop(&left); node; node = rq_list_pop(&left)) {
        struct rq_pulled *pulled = RQ_CONTAINER_OF(node, struct rq_pulled, node);
        rq_pool_withdraw(&pool, pulled);
        rq_pulled_release(pulled);
    }
    rq_pool_destroy(&pool);
    rq_process_queue_destroy(&queue);
    for (size_t i = 0; i < made_count; i++) {
        ck_assert_int_eq(atomic_load(&made[i]->refs), 1);
        rq_free(made[i]);
    }
}

static struct rq_pulled *submit(int64_t from, size_t count)
{
    struct rq_views *views = rq_calloc(1, sizeof *views + count * sizeof *views->items);
    ck_assert_ptr_nonnull(views);
    atomic_init(&views->refs, 2); /* one is ours: the frame is not there to be freed */
    views->count = count;
    for (size_t i = 0; i < count; i++) {
        views->items[i].views = views;
        views->items[i].queue_offset = from + (int64_t)i;
        views->items[i].sys_flag = sys_flag;
    }
    made[made_count++] = views;
    struct rq_pulled *pulled = NULL;
    ck_assert_int_eq(rq_pulled_create(views, from, 0, NULL, NULL, &pulled), RMQ_OK);
    pulled->queue = &queue;
    ck_assert(rq_process_queue_put(&queue, pulled, from + (int64_t)count));
    rq_pulled_retain(pulled);
    rq_pool_submit(&pool, pulled);
    return pulled;
}

static void await(atomic_int *value, int wanted)
{
    int64_t deadline = rq_deadline_ms(DEADLINE_MS);
    while (atomic_load(value) < wanted && rq_mono_ms() < deadline) {
        rq_pool_guard(&pool);
        nap();
    }
    ck_assert_int_ge(atomic_load(value), wanted);
}

START_TEST(every_message_is_handed_out_once)
{
    open_pool(4, 1, false);
    for (int i = 0; i < 60; i++) {
        submit(i * 32, 32);
    }
    await(&done_count, 60 * 32);
    ck_assert_int_eq(atomic_load(&done_count), 60 * 32);
    for (int i = 0; i < 60 * 32; i++) {
        ck_assert_int_eq(atomic_load(&seen[i]), 1);
    }
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 60 * 32);
    close_pool();
}
END_TEST

START_TEST(a_call_gets_at_most_the_batch_size)
{
    open_pool(2, 8, false);
    submit(0, 30);
    await(&done_count, 30);
    ck_assert_int_eq(atomic_load(&largest), 8);
    ck_assert_int_eq(atomic_load(&calls), 4);
    close_pool();
}
END_TEST

START_TEST(a_slow_listener_gets_all_workers_for_one_run)
{
    open_pool(5, 1, false);
    atomic_store(&hold, true);
    submit(0, 32);
    await(&inside, 5);
    atomic_store(&hold, false);
    await(&done_count, 32);
    ck_assert_int_eq(atomic_load(&most_inside), 5);
    ck_assert_int_eq(pool.started, 5);
    close_pool();
}
END_TEST

START_TEST(no_more_workers_than_work_are_started)
{
    open_pool(20, 1, false);
    atomic_store(&hold, true);
    submit(0, 2);
    await(&inside, 2);
    for (int i = 0; i < 5; i++) {
        rq_pool_guard(&pool);
    }
    ck_assert_int_le(pool.started, 3);
    atomic_store(&hold, false);
    await(&done_count, 2);
    close_pool();
}
END_TEST

static atomic_int lines;

static void count_line(rmq_log_level level, const char *line, void *user)
{
    atomic_fetch_add(&lines, strstr(line, "worker could not be started") ? 1 : 0);
}

START_TEST(a_worker_that_cannot_be_started_is_told_once_and_tried_again)
{
    open_pool(2, 1, false);
    rmq_log_set(RMQ_LOG_WARN, count_line, NULL);
    rq_mem_count(1);
    rq_mem_fail_at(3); /* behind the views and their pull */
    submit(0, 4);
    for (int i = 0; i < 5; i++) {
        rq_mem_fail_at(1);
        rq_pool_guard(&pool);
    }
    ck_assert_int_eq(pool.started, 0);
    ck_assert_int_eq(atomic_load(&lines), 1);
    rq_mem_count(0);
    rmq_log_set(RMQ_LOG_WARN, NULL, NULL);
    await(&done_count, 4);
    close_pool();
}
END_TEST

static rmq_consume_result odd_later(const rmq_message_view *const *messages, size_t count,
                                    rmq_consume_context *context)
{
    context->delay_level = 5;
    return messages[0]->queue_offset % 2 ? RMQ_RECONSUME_LATER : RMQ_CONSUME_SUCCESS;
}

START_TEST(failed_messages_go_back_and_hold_the_offset)
{
    open_pool(1, 1, false);
    special = odd_later;
    submit(0, 10);
    await(&later_count, 5);
    await(&done_count, 5);
    ck_assert_int_eq(atomic_load(&later_level), 5);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 1);
    close_pool();
}
END_TEST

static rmq_consume_result first_three(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context)
{
    context->ack_index = 2;
    return RMQ_CONSUME_SUCCESS;
}

START_TEST(messages_beyond_the_ack_index_go_back)
{
    open_pool(1, 8, false);
    special = first_three;
    submit(0, 8);
    await(&later_count, 5);
    ck_assert_int_eq(atomic_load(&done_count), 3);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 3);
    close_pool();
}
END_TEST

START_TEST(after_a_stop_no_call_begins_and_quiet_comes_once)
{
    open_pool(2, 1, false);
    atomic_store(&hold, true);
    submit(0, 32);
    await(&inside, 2);
    rq_pool_stop(&pool);
    rq_pool_stop(&pool);
    ck_assert_int_eq(atomic_load(&quiet_count), 0);
    int before = atomic_load(&calls);
    atomic_store(&hold, false);
    await(&quiet_count, 1);
    rq_pool_join(&pool);
    ck_assert_int_eq(atomic_load(&calls), before);
    ck_assert_int_eq(atomic_load(&quiet_count), 1);
    ck_assert_int_eq(atomic_load(&done_count), before);
    close_pool();
}
END_TEST

static rmq_consume_result stop_inside(const rmq_message_view *const *messages, size_t count,
                                      rmq_consume_context *context)
{
    rq_pool_stop(&pool);
    ck_assert(rq_pool_in(&pool));
    ck_assert(rq_pool_wait_others(&pool, rq_deadline_ms(DEADLINE_MS)));
    return RMQ_CONSUME_SUCCESS;
}

START_TEST(a_stop_inside_listeners_does_not_wait_for_itself)
{
    open_pool(3, 1, false);
    special = stop_inside;
    atomic_store(&hold, true);
    submit(0, 3);
    await(&inside, 3);
    atomic_store(&hold, false);
    await(&quiet_count, 1);
    ck_assert_int_eq(atomic_load(&done_count), 3);
    close_pool();
}
END_TEST

START_TEST(a_withdrawn_run_is_not_handed_out_further)
{
    open_pool(1, 1, false);
    atomic_store(&hold, true);
    struct rq_pulled *pulled = submit(0, 32);
    await(&inside, 1);
    rq_pool_withdraw(&pool, pulled);
    atomic_store(&hold, false);
    await(&done_count, 1);
    close_pool();
    ck_assert_int_eq(atomic_load(&calls), 1);
}
END_TEST

START_TEST(a_message_can_be_offered_again)
{
    open_pool(1, 1, false);
    special = odd_later;
    struct rq_pulled *pulled = submit(0, 2);
    await(&later_count, 1);
    special = NULL;
    ck_assert_int_eq(rq_pool_submit_again(&pool, pulled, 1), RMQ_OK);
    await(&done_count, 2);
    ck_assert_int_eq(atomic_load(&seen[1]), 2);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 2);
    close_pool();
}
END_TEST

static atomic_bool first_is_in;

/* The second one reads its message after the first is done with it. */
static rmq_consume_result read_in_turn(const rmq_message_view *const *messages, size_t count,
                                       rmq_consume_context *context)
{
    while (atomic_exchange(&first_is_in, true) && atomic_load(&done_count) == 0) {
        nap();
    }
    return rmq_message_view_body(messages[0], NULL) ? RMQ_CONSUME_SUCCESS : RMQ_RECONSUME_LATER;
}

START_TEST(an_expanded_body_stays_until_all_hands_have_let_go_of_it)
{
    open_pool(2, 1, false);
    special = read_in_turn;
    sys_flag = RQ_SYS_COMPRESSED;
    atomic_store(&hold, true);
    struct rq_pulled *pulled = submit(0, 1);
    rq_pulled_retain(pulled);
    await(&inside, 1);
    ck_assert_int_eq(rq_pool_submit_again(&pool, pulled, 0), RMQ_OK);
    await(&inside, 2);
    atomic_store(&made[0]->refs, 1);
    atomic_store(&hold, false);
    await(&done_count, 2);
    ck_assert_ptr_null(atomic_load(&pulled->views[0]->expanded));
    atomic_store(&made[0]->refs, 2);
    rq_pulled_release(pulled);
    close_pool();
}
END_TEST

struct stuck {
    int count;
    uint32_t from;
};

static void note_stuck(void *user, struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    struct stuck *stuck = user;
    stuck->count++;
    stuck->from = from;
}

START_TEST(a_message_that_stays_in_the_same_hands_is_found)
{
    struct stuck stuck = {0};
    open_pool(1, 1, false);
    atomic_store(&hold, true);
    submit(0, 4);
    await(&inside, 1);
    rq_pool_each_stuck(&pool, 1000, 500, note_stuck, &stuck);
    rq_pool_each_stuck(&pool, 1400, 500, note_stuck, &stuck);
    ck_assert_int_eq(stuck.count, 0);
    rq_pool_each_stuck(&pool, 1500, 500, note_stuck, &stuck);
    ck_assert_int_eq(stuck.count, 1);
    ck_assert_uint_eq(stuck.from, 0);
    atomic_store(&hold, false);
    await(&done_count, 4);
    rq_pool_each_stuck(&pool, 9000, 500, note_stuck, &stuck);
    ck_assert_int_eq(stuck.count, 1);
    close_pool();
}
END_TEST

static bool is_readable(void)
{
    struct pollfd wait = {.fd = pool.fd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

START_TEST(a_taker_gets_batches_and_the_descriptor_follows)
{
    open_pool(1, 10, true);
    ck_assert(!is_readable());
    submit(0, 15);
    ck_assert(is_readable());
    struct rq_batch_node first, second, third;
    bool more = false;
    ck_assert_int_eq(rq_pool_take(&pool, rq_mono_ms(), &first, &more), RMQ_OK);
    ck_assert(more && is_readable());
    ck_assert_uint_eq(first.count, 10);
    ck_assert_int_eq(rq_pool_take(&pool, rq_mono_ms(), &second, &more), RMQ_OK);
    ck_assert(!more && !is_readable());
    ck_assert_uint_eq(second.from, 10);
    ck_assert_uint_eq(second.count, 5);
    ck_assert_int_eq(rq_pool_take(&pool, rq_mono_ms() + 5, &third, &more), RMQ_ERR_TIMEOUT);
    ck_assert_int_eq(rq_pool_in_hands(&pool), 2);
    on_done(&pool, second.pulled, second.from, second.from + second.count);
    ck_assert(rq_pool_give_back(&pool, &second));
    ck_assert(!rq_pool_give_back(&pool, &second));
    rq_pool_leave(&pool);
    rq_pulled_release(second.pulled);
    rq_pool_stop(&pool);
    ck_assert(is_readable());
    ck_assert_int_eq(rq_pool_take(&pool, rq_mono_ms() + 5, &third, &more), RMQ_ERR_CLOSED);
    ck_assert_int_eq(atomic_load(&quiet_count), 0);
    ck_assert(rq_pool_give_back(&pool, &first));
    rq_pool_leave(&pool);
    rq_pulled_release(first.pulled);
    ck_assert_int_eq(atomic_load(&quiet_count), 1);
    close_pool();
}
END_TEST

static void take_all(void *arg)
{
    bool more;
    struct rq_batch_node batch;
    while (rq_pool_take(&pool, RQ_FOREVER, &batch, &more) == RMQ_OK) {
        for (uint32_t i = 0; i < batch.count; i++) {
            atomic_fetch_add(&seen[batch.pulled->views[batch.from + i]->queue_offset], 1);
        }
        on_done(&pool, batch.pulled, batch.from, batch.from + batch.count);
        rq_pool_give_back(&pool, &batch);
        rq_pool_leave(&pool);
        rq_pulled_release(batch.pulled);
    }
}

START_TEST(several_takers_share_the_work)
{
    struct rq_thread threads[3] = {0};
    open_pool(1, 7, true);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rq_thread_start(&threads[i], "taker", take_all, NULL), RMQ_OK);
    }
    for (int i = 0; i < 60; i++) {
        submit(i * 32, 32);
    }
    await(&done_count, 60 * 32);
    rq_pool_stop(&pool);
    for (int i = 0; i < 3; i++) {
        rq_thread_join(&threads[i]);
    }
    for (int i = 0; i < 60 * 32; i++) {
        ck_assert_int_eq(atomic_load(&seen[i]), 1);
    }
    close_pool();
}
END_TEST

static int32_t takers_asleep(void)
{
    rq_mutex_lock(&pool.lock);
    int32_t takers = pool.takers;
    rq_mutex_unlock(&pool.lock);
    return takers;
}

START_TEST(who_is_submitted_for_may_be_woken_later_for_all_of_it)
{
    struct rq_thread thread;
    open_pool(1, 7, true);
    pool.options.ops = &late_ops;
    atomic_store(&wakes_asked, 0);
    ck_assert_int_eq(rq_thread_start(&thread, "taker", take_all, NULL), RMQ_OK);
    int64_t deadline = rq_deadline_ms(DEADLINE_MS);
    while (takers_asleep() == 0 && rq_mono_ms() < deadline) {
        nap();
    }
    submit(0, 32);
    submit(32, 32);
    ck_assert_int_ge(atomic_load(&wakes_asked), 1);
    rq_pool_wake(&pool);
    await(&done_count, 64);
    rq_pool_stop(&pool);
    rq_thread_join(&thread);
    close_pool();
}
END_TEST

Suite *pool_suite(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_message_is_handed_out_once);
    tcase_add_test(tcase, a_call_gets_at_most_the_batch_size);
    tcase_add_test(tcase, a_slow_listener_gets_all_workers_for_one_run);
    tcase_add_test(tcase, no_more_workers_than_work_are_started);
    tcase_add_test(tcase, a_worker_that_cannot_be_started_is_told_once_and_tried_again);
    tcase_add_test(tcase, failed_messages_go_back_and_hold_the_offset);
    tcase_add_test(tcase, messages_beyond_the_ack_index_go_back);
    tcase_add_test(tcase, after_a_stop_no_call_begins_and_quiet_comes_once);
    tcase_add_test(tcase, a_stop_inside_listeners_does_not_wait_for_itself);
    tcase_add_test(tcase, a_withdrawn_run_is_not_handed_out_further);
    tcase_add_test(tcase, a_message_can_be_offered_again);
    tcase_add_test(tcase, an_expanded_body_stays_until_all_hands_have_let_go_of_it);
    tcase_add_test(tcase, a_message_that_stays_in_the_same_hands_is_found);
    tcase_add_test(tcase, a_taker_gets_batches_and_the_descriptor_follows);
    tcase_add_test(tcase, several_takers_share_the_work);
    tcase_add_test(tcase, who_is_submitted_for_may_be_woken_later_for_all_of_it);
    suite_add_tcase(suite, tcase);
    return suite;
}

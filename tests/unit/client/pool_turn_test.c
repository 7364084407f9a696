/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Turns of ordered queues in a pool whose number of workers falls: what a worker lists again before
 * it leaves is taken up by one that stays.
 */
#include <check.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "client/pool.h"

Suite *pool_turn_suite(void);

#define DEADLINE_MS 10000
#define LANES       3
#define MESSAGES    2

/* An ordered queue: the first message holds its worker until it is told. */
static struct lane {
    struct rq_turn turn;
    struct rq_views *views;
    struct rq_pulled *pulled;
    uint32_t taken; /* by who has the turn */
    uint32_t count;
    atomic_int calls;
    atomic_bool go_on;
} lanes[LANES];

static struct rq_pool pool;

static rmq_consume_result listen(const rmq_message_view *const *messages, size_t count,
                                 rmq_consume_context *context, void *user)
{
    struct lane *lane = &lanes[messages[0]->queue_id];
    (void)count;
    (void)context;
    (void)user;
    atomic_fetch_add(&lane->calls, 1);
    while (!atomic_load(&lane->go_on)) {
        usleep(1000);
    }
    return RMQ_CONSUME_SUCCESS;
}

static bool turn_take(struct rq_pool *from_pool, struct rq_turn *turn, uint32_t most,
                      struct rq_pulled **pulled, uint32_t *from, uint32_t *count)
{
    struct lane *lane = RQ_CONTAINER_OF(turn, struct lane, turn);
    (void)from_pool;
    (void)most;
    if (lane->taken == lane->count) {
        return false;
    }
    *pulled = lane->pulled;
    *from = lane->taken++;
    *count = 1;
    rq_pulled_retain(lane->pulled);
    return true;
}

static int64_t turn_result(struct rq_pool *from_pool, struct rq_turn *turn,
                           struct rq_pulled *pulled, uint32_t from, uint32_t to,
                           rmq_consume_result result, const struct rmq_consume_context *context)
{
    (void)from_pool;
    (void)turn;
    (void)pulled;
    (void)from;
    (void)to;
    (void)result;
    (void)context;
    return 0;
}

static void turn_left(struct rq_pool *from_pool, struct rq_turn *turn, int64_t wait_ms)
{
    (void)from_pool;
    (void)turn;
    (void)wait_ms;
}

static void quiet(struct rq_pool *from_pool)
{
    (void)from_pool;
}

static const struct rq_pool_ops ops = {
    .quiet = quiet, .turn_take = turn_take, .turn_result = turn_result, .turn_left = turn_left};

static void open_lane(int32_t index, uint32_t count)
{
    struct lane *lane = &lanes[index];
    *lane = (struct lane){.count = count};
    rq_list_init(&lane->turn.node);
    lane->views = rq_calloc(1, sizeof *lane->views + MESSAGES * sizeof *lane->views->items);
    ck_assert_ptr_nonnull(lane->views);
    atomic_init(&lane->views->refs, 2); /* one is ours: the frame is not there to be freed */
    lane->views->count = MESSAGES;
    for (int32_t i = 0; i < MESSAGES; i++) {
        lane->views->items[i].queue_id = index;
        lane->views->items[i].queue_offset = i;
    }
    ck_assert_int_eq(rq_pulled_create(lane->views, 0, 0, NULL, NULL, &lane->pulled), RMQ_OK);
}

static bool has_calls(int32_t index, int calls)
{
    return atomic_load(&lanes[index].calls) >= calls;
}

static bool has_idle(void)
{
    rq_mutex_lock(&pool.lock);
    bool idle = pool.idle > 0;
    rq_mutex_unlock(&pool.lock);
    return idle;
}

/* Each lane holds a worker of its own, in this order. */
static void submit_lane(int32_t index)
{
    bool first;
    int64_t deadline_ms = rq_deadline_ms(DEADLINE_MS);
    ck_assert(rq_pool_submit_turn(&pool, &lanes[index].turn, &first));
    while (!has_calls(index, 1) && rq_mono_ms() < deadline_ms) {
        rq_pool_guard(&pool);
        usleep(1000);
    }
    ck_assert(has_calls(index, 1));
}

static void close_pool(int count)
{
    for (int i = 0; i < count; i++) {
        atomic_store(&lanes[i].go_on, true);
    }
    rq_pool_stop(&pool);
    rq_pool_join(&pool);
    rq_pool_destroy(&pool);
    for (int i = 0; i < count; i++) {
        rq_pulled_release(lanes[i].pulled);
        rq_free(lanes[i].views);
    }
}

/* The first worker sleeps and is the only one to stay. The second lists its queue again and leaves:
 * as the last of two it ends, of three it waits until the third can. No guard looks. */
START_TEST(what_a_leaving_worker_lists_again_is_taken_up)
{
    const struct rq_pool_options options = {
        .ops = &ops, .listener = listen, .threads = _i, .batch_max = 1, .turn_most_ms = 1};
    ck_assert_int_eq(rq_pool_init(&pool, &options, NULL), RMQ_OK);
    for (int32_t i = 0; i < _i; i++) {
        open_lane(i, i == 1 ? 2 : 1);
        submit_lane(i);
    }
    int64_t deadline_ms = rq_deadline_ms(DEADLINE_MS);
    atomic_store(&lanes[0].go_on, true);
    while (!has_idle() && rq_mono_ms() < deadline_ms) {
        usleep(1000);
    }
    ck_assert(has_idle());
    rq_pool_set_threads(&pool, 1);
    atomic_store(&lanes[1].go_on, true);
    while (!has_calls(1, 2) && rq_mono_ms() < deadline_ms) {
        usleep(1000);
    }
    ck_assert(has_calls(1, 2));
    close_pool(_i);
}
END_TEST

Suite *pool_turn_suite(void)
{
    Suite *suite = suite_create("pool_turn");
    TCase *tcase = tcase_create("pool_turn");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, what_a_leaving_worker_lists_again_is_taken_up, 2, LANES + 1);
    suite_add_tcase(suite, tcase);
    return suite;
}

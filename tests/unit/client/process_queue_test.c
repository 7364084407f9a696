/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The process queue: what may be committed while messages are done in any order, the limits, and
 * what happens to messages in hands when the queue goes to another member.
 */
#include "client/process_queue.h"

#include <check.h>
#include <string.h>

#include "base/mem.h"

Suite *process_queue_suite(void);

static const struct rq_process_limits wide = {.count = 1000, .bytes = 1 << 20, .span = 2000};

static struct rq_process_queue queue;

/* Views that this test owns: their count never falls to zero, so there is no frame to free. */
static struct rq_views *make_views(const int64_t *offsets, size_t count, size_t body_size)
{
    struct rq_views *views = rq_calloc(1, sizeof *views + count * sizeof *views->items);
    ck_assert_ptr_nonnull(views);
    atomic_init(&views->refs, 1000);
    views->count = count;
    for (size_t i = 0; i < count; i++) {
        views->items[i].views = views;
        views->items[i].queue_offset = offsets[i];
        views->items[i].body_size = body_size;
    }
    return views;
}

static bool keep_even(const struct rmq_message_view *view, void *user)
{
    (void)user;
    return view->queue_offset % 2 == 0;
}

static struct rq_pulled *group(struct rq_views *views, int64_t from,
                               bool (*keep)(const struct rmq_message_view *, void *))
{
    struct rq_pulled *pulled = NULL;
    ck_assert_int_eq(rq_pulled_create(views, from, 64, keep, NULL, &pulled), RMQ_OK);
    return pulled;
}

static struct rq_pulled *put_range(int64_t from, int64_t to, size_t body_size,
                                   struct rq_views **views)
{
    int64_t offsets[128];
    size_t count = (size_t)(to - from);
    ck_assert_uint_le(count, 128);
    for (size_t i = 0; i < count; i++) {
        offsets[i] = from + (int64_t)i;
    }
    *views = make_views(offsets, count, body_size);
    struct rq_pulled *pulled = group(*views, from, NULL);
    ck_assert(rq_process_queue_put(&queue, pulled, to));
    return pulled;
}

static struct rq_process_done finish(struct rq_pulled *pulled, uint32_t from, uint32_t to)
{
    struct rq_process_done done;
    rq_process_queue_done(&queue, pulled, from, to, &done);
    return done;
}

static void setup(void)
{
    rq_process_queue_init(&queue, &wide);
}

static void teardown(void)
{
    rq_process_queue_destroy(&queue);
}

START_TEST(nothing_is_committed_before_an_offset_is_known)
{
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), -1);
    rq_process_queue_start(&queue, 40);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 40);
}
END_TEST

START_TEST(the_smallest_offset_not_done_is_committed)
{
    struct rq_views *views;
    rq_process_queue_start(&queue, 100);
    struct rq_pulled *pulled = put_range(100, 110, 10, &views);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 100);
    finish(pulled, 3, 6);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 100);
    finish(pulled, 0, 2);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 102);
    finish(pulled, 2, 3);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 106);
    struct rq_process_done done = finish(pulled, 6, 10);
    ck_assert(done.emptied);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 110);
    ck_assert_int_eq(queue.count, 0);
    ck_assert_int_eq(queue.bytes, 0);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(a_later_pull_that_is_done_first_does_not_move_the_offset)
{
    struct rq_views *first_views, *second_views;
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *first = put_range(0, 4, 10, &first_views);
    struct rq_pulled *second = put_range(4, 8, 10, &second_views);
    ck_assert(finish(second, 0, 4).emptied);
    rq_pulled_release(second);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 0);
    ck_assert(finish(first, 0, 4).emptied);
    rq_pulled_release(first);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 8);
    rq_free(first_views);
    rq_free(second_views);
}
END_TEST

START_TEST(filtered_messages_are_passed_over_by_the_offset)
{
    const int64_t offsets[] = {0, 1, 2, 3, 5};
    struct rq_views *views = make_views(offsets, 5, 10);
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = group(views, 0, keep_even);
    ck_assert_uint_eq(pulled->count, 2);
    ck_assert(rq_process_queue_put(&queue, pulled, 6));
    finish(pulled, 0, 1);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 2);
    finish(pulled, 1, 2);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 6);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(a_pull_that_is_filtered_to_nothing_still_moves_the_offset)
{
    const int64_t offsets[] = {1, 3};
    struct rq_views *views = make_views(offsets, 2, 10);
    rq_process_queue_start(&queue, 0);
    ck_assert_ptr_null(group(views, 0, keep_even));
    ck_assert(rq_process_queue_put(&queue, NULL, 4));
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 4);
    rq_free(views);
}
END_TEST

START_TEST(messages_sent_twice_or_out_of_order_are_taken_once)
{
    const int64_t offsets[] = {8, 9, 10, 10, 9, 11};
    struct rq_views *views = make_views(offsets, 6, 10);
    rq_process_queue_start(&queue, 9);
    struct rq_pulled *pulled = group(views, 9, NULL);
    ck_assert_uint_eq(pulled->count, 3);
    ck_assert(rq_process_queue_put(&queue, pulled, 12));
    ck_assert(finish(pulled, 0, 3).emptied);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 12);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(done_twice_counts_once)
{
    struct rq_views *views;
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = put_range(0, 4, 10, &views);
    finish(pulled, 0, 2);
    finish(pulled, 0, 2);
    ck_assert_int_eq(queue.count, 2);
    ck_assert_int_eq(queue.bytes, 20);
    ck_assert(finish(pulled, 0, 4).emptied);
    ck_assert(!finish(pulled, 0, 4).emptied);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(a_full_queue_waits_until_a_quarter_is_free)
{
    const struct rq_process_limits limits = {.count = 7, .bytes = 1 << 20, .span = 2000};
    struct rq_views *views;
    rq_process_queue_set_limits(&queue, &limits);
    rq_process_queue_start(&queue, 0);
    ck_assert(rq_process_queue_has_room(&queue));
    struct rq_pulled *pulled = put_range(0, 8, 10, &views);
    ck_assert(!rq_process_queue_has_room(&queue));
    ck_assert(!finish(pulled, 0, 1).has_room);
    ck_assert(!finish(pulled, 1, 3).has_room);
    ck_assert(finish(pulled, 3, 4).has_room);
    ck_assert(!finish(pulled, 4, 5).has_room); /* told once */
    ck_assert(finish(pulled, 5, 8).emptied);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(bytes_are_limited_and_one_large_message_still_passes)
{
    const struct rq_process_limits limits = {.count = 1000, .bytes = 100, .span = 2000};
    struct rq_views *views;
    rq_process_queue_set_limits(&queue, &limits);
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = put_range(0, 1, 5000, &views);
    ck_assert(!rq_process_queue_has_room(&queue));
    struct rq_process_done done = finish(pulled, 0, 1);
    ck_assert(done.emptied && done.has_room);
    ck_assert(rq_process_queue_has_room(&queue));
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(expanded_bodies_count_with_their_expanded_size)
{
    const struct rq_process_limits limits = {.count = 1000, .bytes = 1000, .span = 2000};
    struct rq_views *views;
    rq_process_queue_set_limits(&queue, &limits);
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = put_range(0, 2, 10, &views);
    ck_assert(rq_process_queue_has_room(&queue));
    pulled->views[0]->expanded_size = 5000;
    ck_assert_int_eq(rq_process_queue_grew(&queue, pulled->views[0]), 4990);
    ck_assert_int_eq(rq_process_queue_grew(&queue, pulled->views[0]), 0);
    ck_assert_int_eq(queue.bytes, 5010);
    ck_assert(!rq_process_queue_has_room(&queue));
    struct rq_process_done done = finish(pulled, 0, 1);
    ck_assert(done.has_room);
    ck_assert_int_eq(done.grown, 4990);
    ck_assert_int_eq(queue.bytes, 10);
    ck_assert_int_eq(finish(pulled, 1, 2).grown, 0);
    ck_assert_int_eq(rq_process_queue_grew(&queue, pulled->views[0]), 0); /* it is done */
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(one_stuck_message_cannot_open_the_span_without_end)
{
    const struct rq_process_limits limits = {.count = 1000, .bytes = 1 << 20, .span = 20};
    struct rq_views *views[3];
    rq_process_queue_set_limits(&queue, &limits);
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *stuck = put_range(0, 10, 1, &views[0]);
    finish(stuck, 1, 10);
    struct rq_pulled *second = put_range(10, 20, 1, &views[1]);
    ck_assert(finish(second, 0, 10).emptied);
    ck_assert(rq_process_queue_has_room(&queue));
    struct rq_pulled *third = put_range(20, 30, 1, &views[2]);
    ck_assert(finish(third, 0, 10).emptied);
    ck_assert(!rq_process_queue_has_room(&queue));
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 0);
    struct rq_process_done done = finish(stuck, 0, 1);
    ck_assert(done.emptied && done.has_room);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 30);
    rq_pulled_release(stuck);
    rq_pulled_release(second);
    rq_pulled_release(third);
    for (int i = 0; i < 3; i++) {
        rq_free(views[i]);
    }
}
END_TEST

START_TEST(what_is_done_after_the_queue_was_dropped_is_ignored)
{
    struct rq_views *views;
    struct rq_list dropped;
    rq_list_init(&dropped);
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = put_range(0, 4, 10, &views);
    rq_pulled_retain(pulled); /* a worker's */
    finish(pulled, 0, 1);
    pulled->views[1]->expanded_size = pulled->views[1]->body_size + 100;
    rq_process_queue_grew(&queue, pulled->views[1]);
    ck_assert_int_eq(rq_process_queue_drop(&queue, &dropped), 100);
    ck_assert_ptr_eq(rq_list_pop(&dropped), &pulled->node);
    ck_assert(rq_list_empty(&dropped));
    rq_pulled_release(pulled);
    struct rq_process_done done = finish(pulled, 0, 4);
    ck_assert(done.dropped && !done.emptied);
    ck_assert(!rq_process_queue_begin_back(&queue, pulled->views[2]));
    ck_assert(!rq_process_queue_put(&queue, NULL, 9));
    ck_assert_int_eq(queue.next_offset, 4);
    rq_pulled_release(pulled);
    ck_assert_int_eq(rq_process_queue_drop(&queue, &dropped), 0);
    ck_assert(rq_list_empty(&dropped));
    rq_free(views);
}
END_TEST

START_TEST(a_message_is_sent_back_by_one_only_and_holds_the_offset_until_it_is)
{
    struct rq_views *views;
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = put_range(0, 2, 10, &views);
    ck_assert(rq_process_queue_is_first(&queue, pulled, 0));
    ck_assert(!rq_process_queue_is_first(&queue, pulled, 1));
    ck_assert(rq_process_queue_begin_back(&queue, pulled->views[0]));
    ck_assert(!rq_process_queue_begin_back(&queue, pulled->views[0]));
    finish(pulled, 1, 2);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 0);
    rq_process_queue_end_back(&queue, pulled->views[0]);
    ck_assert(rq_process_queue_begin_back(&queue, pulled->views[0]));
    ck_assert(finish(pulled, 0, 1).emptied);
    ck_assert(!rq_process_queue_begin_back(&queue, pulled->views[0]));
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 2);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

/* ---- ordered ---- */

static void take(uint32_t most, const struct rq_pulled *from_pull, int64_t first, uint32_t expected)
{
    struct rq_pulled *pulled = NULL;
    uint32_t from = 0;
    uint32_t count = 0;
    ck_assert(rq_process_queue_take(&queue, most, &pulled, &from, &count));
    ck_assert_ptr_eq(pulled, from_pull);
    ck_assert_int_eq(pulled->views[from]->queue_offset, first);
    ck_assert_uint_eq(count, expected);
    rq_pulled_release(pulled);
}

static void nothing_to_take(void)
{
    struct rq_pulled *pulled = NULL;
    uint32_t from = 0;
    uint32_t count = 0;
    ck_assert(!rq_process_queue_take(&queue, 10, &pulled, &from, &count));
}

START_TEST(ordered_messages_are_taken_in_order_and_what_is_put_back_comes_first)
{
    struct rq_views *views[2];
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *first = put_range(0, 4, 10, &views[0]);
    struct rq_pulled *second = put_range(4, 6, 10, &views[1]);
    take(3, first, 0, 3);
    rq_process_queue_put_back(&queue, first, 1);
    take(10, first, 1, 3); /* a batch is of one pull */
    take(10, second, 4, 2);
    nothing_to_take();
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 0); /* taken is not done */
    rq_process_queue_put_all_back(&queue);
    take(1, first, 0, 1);
    ck_assert(!finish(first, 0, 1).emptied);
    rq_process_queue_put_all_back(&queue);
    take(1, first, 1, 1); /* what is done does not come again */
    ck_assert(finish(first, 1, 4).emptied);
    ck_assert(finish(second, 0, 2).emptied);
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 6);
    rq_pulled_release(first);
    rq_pulled_release(second);
    rq_free(views[0]);
    rq_free(views[1]);
}
END_TEST

START_TEST(an_ordered_queue_waits_for_a_message_that_is_on_its_way_back)
{
    struct rq_views *views;
    struct rq_process_info info;
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *pulled = put_range(0, 3, 10, &views);
    take(1, pulled, 0, 1);
    rq_process_queue_info(&queue, &info);
    ck_assert_int_eq(info.count, 3);
    ck_assert_int_eq(info.taken_count, 1);
    ck_assert_int_eq(info.max_offset, 2);
    rq_process_queue_put_back(&queue, pulled, 0);
    ck_assert(rq_process_queue_begin_back(&queue, pulled->views[0]));
    nothing_to_take();
    finish(pulled, 0, 1);
    rq_process_queue_end_back(&queue, pulled->views[0]);
    take(10, pulled, 1, 2);
    finish(pulled, 1, 3);
    rq_pulled_release(pulled);
    rq_free(views);
}
END_TEST

START_TEST(what_was_taken_is_found_for_a_commit_pull_by_pull)
{
    struct rq_views *views[2];
    struct rq_pulled *pulled = NULL;
    uint32_t from = 9;
    uint32_t to = 9;
    rq_process_queue_start(&queue, 0);
    struct rq_pulled *first = put_range(0, 2, 10, &views[0]);
    struct rq_pulled *second = put_range(2, 5, 10, &views[1]);
    ck_assert(!rq_process_queue_taken(&queue, &pulled, &from, &to));
    take(10, first, 0, 2);
    take(1, second, 2, 1);
    ck_assert(rq_process_queue_taken(&queue, &pulled, &from, &to));
    ck_assert_ptr_eq(pulled, first);
    ck_assert_uint_eq(to - from, 2);
    finish(pulled, from, to);
    rq_pulled_release(pulled);
    ck_assert(rq_process_queue_taken(&queue, &pulled, &from, &to));
    ck_assert_ptr_eq(pulled, second);
    ck_assert_uint_eq(to - from, 1);
    finish(pulled, from, to);
    rq_pulled_release(pulled);
    ck_assert(!rq_process_queue_taken(&queue, &pulled, &from, &to));
    ck_assert_int_eq(rq_process_queue_commit_offset(&queue), 3);
    finish(second, 1, 3);
    rq_pulled_release(first);
    rq_pulled_release(second);
    rq_free(views[0]);
    rq_free(views[1]);
}
END_TEST

Suite *process_queue_suite(void)
{
    Suite *suite = suite_create("process_queue");
    TCase *tcase = tcase_create("process_queue");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, nothing_is_committed_before_an_offset_is_known);
    tcase_add_test(tcase, the_smallest_offset_not_done_is_committed);
    tcase_add_test(tcase, a_later_pull_that_is_done_first_does_not_move_the_offset);
    tcase_add_test(tcase, filtered_messages_are_passed_over_by_the_offset);
    tcase_add_test(tcase, a_pull_that_is_filtered_to_nothing_still_moves_the_offset);
    tcase_add_test(tcase, messages_sent_twice_or_out_of_order_are_taken_once);
    tcase_add_test(tcase, done_twice_counts_once);
    tcase_add_test(tcase, a_full_queue_waits_until_a_quarter_is_free);
    tcase_add_test(tcase, bytes_are_limited_and_one_large_message_still_passes);
    tcase_add_test(tcase, expanded_bodies_count_with_their_expanded_size);
    tcase_add_test(tcase, one_stuck_message_cannot_open_the_span_without_end);
    tcase_add_test(tcase, what_is_done_after_the_queue_was_dropped_is_ignored);
    tcase_add_test(tcase, a_message_is_sent_back_by_one_only_and_holds_the_offset_until_it_is);
    tcase_add_test(tcase, ordered_messages_are_taken_in_order_and_what_is_put_back_comes_first);
    tcase_add_test(tcase, an_ordered_queue_waits_for_a_message_that_is_on_its_way_back);
    tcase_add_test(tcase, what_was_taken_is_found_for_a_commit_pull_by_pull);
    suite_add_tcase(suite, tcase);
    return suite;
}

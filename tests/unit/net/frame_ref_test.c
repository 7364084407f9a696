/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/frame_ref: memory of frames that a loop keeps for the next ones. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "net/conn.h"
#include "net/frame_ref.h"
#include "net/loop_priv.h"
#include "unit/net/world.h"

#define MANY 40

struct taking {
    struct rq_loop *loop;
    size_t n;
    struct rq_frame_ref *ref;
};

static void take(void *arg)
{
    struct taking *taking = arg;
    taking->ref = rq_frame_ref_take(taking->loop, taking->n);
    ck_assert_ptr_nonnull(taking->ref);
    memset(taking->ref->bytes, 'x', taking->n);
}

static struct rq_frame_ref *take_on(struct rq_loop *loop, size_t n)
{
    struct taking taking = {.loop = loop, .n = n};
    ck_assert(rq_loop_run(loop, take, &taking));
    return taking.ref;
}

static struct rq_loop *new_loop(void)
{
    struct rq_loop *loop = NULL;
    ck_assert_int_eq(rq_loop_create("test", &loop, NULL), RMQ_OK);
    return loop;
}

START_TEST(a_frame_takes_the_memory_of_one_before_it)
{
    struct rq_loop *loop = new_loop();
    struct rq_frame_ref *first = take_on(loop, 33000);
    rq_frame_ref_release(first); /* on another thread than the loop's */
    struct rq_frame_ref *second = take_on(loop, 33500);
    ck_assert_ptr_eq(second, first);
    struct rq_frame_ref *third = take_on(loop, 33000);
    ck_assert_ptr_ne(third, second);
    rq_frame_ref_release(second);
    struct rq_frame_ref *large = take_on(loop, 60000); /* what is kept is too small for it */
    ck_assert_ptr_ne(large, first);
    rq_frame_ref_release(large);
    rq_frame_ref_release(third);
    rq_loop_put(loop);
}
END_TEST

START_TEST(what_a_loop_keeps_is_bounded_and_ends_with_it)
{
    struct rq_frame_ref *refs[MANY];
    rq_mem_count(1);
    size_t before = rq_mem_live();
    struct rq_loop *loop = new_loop();
    for (int i = 0; i < MANY; i++) {
        refs[i] = take_on(loop, 20000);
    }
    size_t taken = rq_mem_live();
    for (int i = 0; i < MANY; i++) {
        rq_frame_ref_release(refs[i]);
    }
    ck_assert_uint_eq(rq_mem_live(), taken - MANY + RQ_FRAME_CACHE_SLOTS);
    rq_loop_put(loop);
    ck_assert_uint_eq(rq_mem_live(), before);
}
END_TEST

/* Sixteen of the largest ones stayed as long as others came. */
START_TEST(a_frame_that_has_grown_is_not_kept)
{
    rq_mem_count(1);
    struct rq_loop *loop = new_loop();
    rq_frame_ref_release(take_on(loop, 100)); /* the loop's thread has begun */
    size_t before = rq_mem_live();
    struct rq_frame_ref *ref = rq_frame_ref_grow(take_on(loop, 20000), (size_t)1 << 20);
    ck_assert_ptr_nonnull(ref);
    rq_frame_ref_release(ref);
    ck_assert_uint_eq(rq_mem_live(), before);
    rq_loop_put(loop);
}
END_TEST

START_TEST(a_frame_may_outlive_its_loop)
{
    rq_mem_count(1);
    size_t before = rq_mem_live();
    struct rq_loop *loop = new_loop();
    struct rq_frame_ref *ref = take_on(loop, 20000);
    rq_frame_ref_retain(ref);
    rq_loop_put(loop);
    rq_frame_ref_release(ref);
    ck_assert_int_eq(ref->bytes[19999], 'x');
    rq_frame_ref_release(ref);
    ck_assert_uint_eq(rq_mem_live(), before);
}
END_TEST

START_TEST(a_loop_that_has_rest_keeps_nothing)
{
    rq_mem_count(1);
    struct rq_loop *loop = new_loop();
    rq_frame_ref_release(take_on(loop, 100)); /* the loop's thread has begun */
    size_t before = rq_mem_live();
    rq_frame_ref_release(take_on(loop, 20000));
    int64_t deadline = rq_deadline_ms(20000);
    while (rq_mem_live() > before && rq_mono_ms() < deadline) {
        usleep(1000);
    }
    ck_assert_uint_eq(rq_mem_live(), before);
    rq_loop_put(loop);
}
END_TEST

Suite *frame_ref_suite(void)
{
    Suite *suite = suite_create("net/frame_ref");
    TCase *tc = tcase_create("frame_ref");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, a_frame_takes_the_memory_of_one_before_it);
    tcase_add_test(tc, what_a_loop_keeps_is_bounded_and_ends_with_it);
    tcase_add_test(tc, a_frame_that_has_grown_is_not_kept);
    tcase_add_test(tc, a_frame_may_outlive_its_loop);
    tcase_add_test(tc, a_loop_that_has_rest_keeps_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

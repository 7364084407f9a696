/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Tests of net/rest, in a time of their own: a loop between peers that send in different ways. */
#include <check.h>
#include <stdint.h>

#include "net/rest.h"
#include "unit/net/world.h"

#define SECOND_US ((int64_t)1000000)
#define WAKE_US   10 /* from a frame's coming to the loop's seeing it */
#define FRAME_US  4  /* to handle one */
#define TURN_US   12 /* of processor time that a turn costs beside its frames */
#define MOST      64

/* A loop and its peers. Each has one frame under way, due at a time; the next follows after gap_us:
 * after the last one (a stream) or after its answer. */
struct peers {
    struct rq_rest rest;
    int64_t now;
    int count;
    bool answered_first;
    int64_t gap_us;
    int64_t due[MOST];
    int64_t frames;
    int64_t turns;
    int64_t rested_us;
    int64_t longest_us;
    int64_t turn_us; /* TURN_US if not told otherwise */
    int64_t cpu_us;
    uint32_t seed;
};

static int64_t cpu_now_us;

static int64_t cpu_us(void)
{
    return cpu_now_us;
}

/* From half of the gap to one and a half, so that those who wait for answers do not fall into
 * step. */
static int64_t next_gap(struct peers *peers)
{
    peers->seed = peers->seed * 1664525 + 1013904223;
    return peers->gap_us / 2 + (int64_t)(peers->seed >> 8) % (peers->gap_us + 1);
}

static struct peers peers_of(int count, int64_t gap_us, bool answered_first)
{
    struct peers peers = {.count = count,
                          .gap_us = gap_us,
                          .answered_first = answered_first,
                          .now = SECOND_US,
                          .turn_us = TURN_US};
    for (int i = 0; i < count; i++) {
        peers.due[i] = peers.now + i * gap_us / count;
    }
    return peers;
}

static uint32_t take_due(struct peers *peers)
{
    uint32_t frames = 0;
    for (int i = 0; i < peers->count; i++) {
        while (peers->due[i] <= peers->now) {
            frames++;
            peers->due[i] = peers->answered_first ? INT64_MAX : peers->due[i] + peers->gap_us;
        }
    }
    return frames;
}

static void wait_for_frame(struct peers *peers)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < peers->count; i++) {
        first = peers->due[i] < first ? peers->due[i] : first;
    }
    if (first > peers->now) {
        peers->now = first + WAKE_US;
    }
}

static void turn(struct peers *peers, bool may_rest)
{
    wait_for_frame(peers);
    uint32_t frames = take_due(peers);
    peers->now += (int64_t)frames * FRAME_US;
    for (int i = 0; i < peers->count; i++) {
        if (peers->due[i] == INT64_MAX) {
            peers->due[i] = peers->now + next_gap(peers);
        }
    }
    peers->frames += frames;
    peers->turns++;
    peers->cpu_us += peers->turn_us + (int64_t)frames * FRAME_US;
    cpu_now_us = peers->cpu_us;
    int64_t us = may_rest ? rq_rest_after(&peers->rest, frames, peers->now, cpu_us) : 0;
    peers->rested_us += us;
    peers->longest_us = us > peers->longest_us ? us : peers->longest_us;
    peers->now += us;
}

/* What happens in the next so many seconds. */
static void run(struct peers *peers, int seconds, bool may_rest)
{
    int64_t end = peers->now + seconds * SECOND_US;
    peers->frames = 0;
    peers->turns = 0;
    peers->rested_us = 0;
    while (peers->now < end) {
        turn(peers, may_rest);
    }
}

START_TEST(a_stream_is_taken_several_frames_at_a_time)
{
    struct peers peers = peers_of(1, 40, false);
    run(&peers, 1, true);
    ck_assert_int_le(peers.turns, peers.frames / 3);
    run(&peers, 10, true);
    run(&peers, 10, true);
    ck_assert_int_ge(peers.frames, 249900);
    ck_assert_int_le(peers.turns, peers.frames / 8);
    ck_assert_int_le(peers.longest_us, 800);
}
END_TEST

/* Where a turn costs nothing but its frames, longer rests would only be longer. */
START_TEST(rests_that_save_nothing_are_not_made_longer)
{
    struct peers peers = peers_of(1, 40, false);
    peers.turn_us = 0;
    run(&peers, 10, true);
    run(&peers, 10, true);
    ck_assert_int_le(peers.rested_us / peers.turns, 200);
}
END_TEST

START_TEST(a_thin_stream_is_taken_frame_by_frame)
{
    struct peers peers = peers_of(1, 500, false);
    run(&peers, 10, true);
    ck_assert_int_eq(peers.rested_us, 0);
}
END_TEST

/* As eight loops of pulls of one consumer: 5,300 a second. */
START_TEST(a_stream_of_pulls_is_taken_two_at_a_time)
{
    struct peers peers = peers_of(1, 187, false);
    run(&peers, 1, true);
    run(&peers, 10, true);
    ck_assert_int_ge(peers.frames, 53400);
    ck_assert_int_le(peers.turns, peers.frames * 2 / 3);
}
END_TEST

START_TEST(frames_that_come_together_anyway_wait_for_nothing)
{
    struct peers peers = peers_of(16, 300, false);
    for (int i = 0; i < peers.count; i++) {
        peers.due[i] = peers.now;
    }
    run(&peers, 10, true);
    ck_assert_int_eq(peers.rested_us, 0);
}
END_TEST

/* Peers that wait for their answers, from 1 to 8, quick and slow: less than 3 % of what they get
 * through is lost. */
START_TEST(peers_that_wait_for_answers_are_not_slowed_down)
{
    int64_t gap_us = _i % 2 ? 40 : 150;
    struct peers free = peers_of((_i + 1) / 2, gap_us, true);
    struct peers peers = peers_of((_i + 1) / 2, gap_us, true);
    run(&free, 10, false);
    run(&peers, 10, true);
    ck_assert_int_ge(peers.frames * 100, free.frames * 97);
}
END_TEST

START_TEST(a_stream_that_ends_leaves_no_rests_to_those_behind_it)
{
    struct peers peers = peers_of(1, 40, false);
    run(&peers, 5, true);
    ck_assert_int_gt(peers.rested_us, 3 * SECOND_US);
    peers.answered_first = true;
    run(&peers, 5, true);
    ck_assert_int_le(peers.rested_us, SECOND_US / 50);
    peers.answered_first = false;
    run(&peers, 15, true); /* and what failed meanwhile is tried again */
    run(&peers, 5, true);
    ck_assert_int_gt(peers.rested_us, 3 * SECOND_US);
}
END_TEST

START_TEST(a_pause_of_any_length_is_survived)
{
    struct peers peers = peers_of(1, 40, false);
    run(&peers, 2, true);
    peers.now += 1000000 * SECOND_US;
    peers.due[0] = peers.now;
    run(&peers, 2, true);
    ck_assert_int_gt(peers.rested_us, SECOND_US / 2);
}
END_TEST

Suite *rest_suite(void)
{
    Suite *suite = suite_create("net/rest");
    TCase *tc = tcase_create("rest");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_stream_is_taken_several_frames_at_a_time);
    tcase_add_test(tc, rests_that_save_nothing_are_not_made_longer);
    tcase_add_test(tc, a_thin_stream_is_taken_frame_by_frame);
    tcase_add_test(tc, a_stream_of_pulls_is_taken_two_at_a_time);
    tcase_add_test(tc, frames_that_come_together_anyway_wait_for_nothing);
    tcase_add_loop_test(tc, peers_that_wait_for_answers_are_not_slowed_down, 1, 17);
    tcase_add_test(tc, a_stream_that_ends_leaves_no_rests_to_those_behind_it);
    tcase_add_test(tc, a_pause_of_any_length_is_survived);
    suite_add_tcase(suite, tc);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Rests of a loop (see the header). Time is cut into phases. A phase without rests measures how
 * many frames come; when they stream in and are not gathered already, phases with rests follow,
 * each rest as long as a few frames take to come. One phase in sixteen is without rests, for
 * comparison. Rests that gather nothing are given up within a few turns, rests that let less
 * through after some phases (means, since one phase says little), and then not tried again for
 * longer and longer.
 *
 * Rests that do well are made longer by a step, and again. At each step but the first some phases
 * have the rests of the step below, by turns, so that both means are of the same time: a step that
 * lets less through than that one, or saves no processor time over it, is left, and not tried again
 * for longer and longer either.
 * Counterpart: none.
 */
#include "net/rest.h"

#define PHASE_US       40000
#define LONGEST_US     400 /* of the first step; each further one doubles both */
#define GATHERED       4   /* frames that such a rest shall bring together */
#define MOST_US        800 /* at any step */
#define SHORTEST_US    20
#define STEPS          3 /* 4, 8, 16 frames */
#define LEAST_GATHERED 2 /* frames in LONGEST_US without which no rest is begun */
#define ALREADY        3 /* a turn, without rests: there is nothing to gain */
#define TRIAL_TURNS    16
#define TRIAL_FRAMES   24 /* in these turns: with fewer each rest brings one */
#define TRIAL_PHASES   4
#define PROVED_PHASES  16 /* of a step, with half as many of the step below beside them */
#define MEAN_OF        16 /* phases, about */
#define MEASURE_EVERY  16
#define COMPARE_EVERY  4 /* with the step below, once the step is proved */
#define FIRST_PENALTY  8
#define MOST_PENALTY   256

/* Part of the plain rate below which rests cost more than they bring: in a trial, and later. And
 * parts of the rate at the step below, which a step must let through, and of its processor time,
 * which it may take at most. */
#define MUCH_LESS 0.6
#define LESS      0.85
#define STEP_LESS 0.94
#define STEP_COST 0.96

static bool streams(double rate)
{
    return rate * LONGEST_US >= LEAST_GATHERED;
}

static int64_t length_for(double rate, uint32_t step)
{
    double length = (double)(GATHERED << step) / rate;
    double longest = (LONGEST_US << step) < MOST_US ? LONGEST_US << step : MOST_US;
    length = length < longest ? length : longest;
    return length > SHORTEST_US ? (int64_t)length : SHORTEST_US;
}

static void add(struct rq_rest_mean *mean, const struct rq_rest_mean *phase)
{
    mean->phases++;
    double part = mean->phases < MEAN_OF ? mean->phases : MEAN_OF;
    mean->rate += (phase->rate - mean->rate) / part;
    mean->cost += (phase->cost - mean->cost) / part;
}

static void begin_phase(struct rq_rest *rest, bool resting)
{
    rest->resting = resting;
    rest->compares = false;
    rest->length_us = 0;
    if (resting) {
        uint32_t every = rest->rests.phases < PROVED_PHASES ? 2 : COMPARE_EVERY;
        rest->compares = rest->step > 0 && rest->rest_phases % every == 0;
        rest->length_us = length_for(rest->plain.rate, rest->step - rest->compares);
    }
}

static uint32_t wait_after_failure(uint32_t *penalty)
{
    uint32_t wait = *penalty ? *penalty : FIRST_PENALTY;
    *penalty = wait < MOST_PENALTY ? wait * 2 : MOST_PENALTY;
    return wait;
}

static void give_up(struct rq_rest *rest)
{
    rest->wait = wait_after_failure(&rest->penalty);
    rest->rest_phases = 0;
    rest->rests = (struct rq_rest_mean){0};
    rest->step = 0;
    rest->step_wait = 0;
    rest->step_penalty = 0;
    begin_phase(rest, false);
}

static void step_down(struct rq_rest *rest)
{
    rest->step_wait = wait_after_failure(&rest->step_penalty);
    rest->rests = rest->below;
    rest->below = (struct rq_rest_mean){0};
    rest->step--;
}

static void step_up(struct rq_rest *rest)
{
    rest->below = (struct rq_rest_mean){0};
    rest->rests = (struct rq_rest_mean){0};
    rest->step++;
}

/* Than without rests. */
static bool lets_less_through(const struct rq_rest *rest)
{
    double least = rest->rests.phases < TRIAL_PHASES ? MUCH_LESS : LESS;
    return rest->rests.phases > 0 && rest->rests.rate < rest->plain.rate * least;
}

/* Than the step below: it lets less through, or saves nothing. */
static bool is_worse(const struct rq_rest *rest)
{
    const struct rq_rest_mean *rests = &rest->rests;
    const struct rq_rest_mean *below = &rest->below;
    if (rests->phases < PROVED_PHASES || below->phases < PROVED_PHASES / 2) {
        return false;
    }
    return rests->rate < below->rate * STEP_LESS || rests->cost > below->cost * STEP_COST;
}

static void lengthen(struct rq_rest *rest)
{
    if (rest->step_wait > 0) {
        rest->step_wait--;
    } else if (rest->rests.phases >= PROVED_PHASES && rest->step + 1 < STEPS &&
               length_for(rest->plain.rate, rest->step) < MOST_US) {
        step_up(rest);
    }
}

static void end_plain_phase(struct rq_rest *rest, const struct rq_rest_mean *phase)
{
    bool gathered = rest->frames >= rest->turns * ALREADY;
    if (streams(phase->rate)) {
        add(&rest->plain, phase);
    } else {
        rest->plain = (struct rq_rest_mean){0};
    }
    if (rest->wait > 0) {
        rest->wait--;
        begin_phase(rest, false);
    } else {
        begin_phase(rest, !gathered && streams(phase->rate));
    }
}

static void end_resting_phase(struct rq_rest *rest, const struct rq_rest_mean *phase)
{
    rest->rest_phases++;
    add(rest->compares ? &rest->below : &rest->rests, phase);
    if (rest->step > 0 && (lets_less_through(rest) || is_worse(rest))) {
        step_down(rest);
    } else if (lets_less_through(rest)) {
        give_up(rest);
        return;
    } else {
        lengthen(rest);
    }
    bool measures = rest->rest_phases % MEASURE_EVERY == 0;
    if (measures) {
        rest->penalty = 0;
    }
    begin_phase(rest, !measures);
}

static void end_phase(struct rq_rest *rest, int64_t elapsed, int64_t cpu_us)
{
    const struct rq_rest_mean phase = {.rate = (double)rest->frames / (double)elapsed,
                                       .cost = (double)(cpu_us - rest->began_cpu_us) /
                                               (double)rest->frames};
    if (rest->resting) {
        end_resting_phase(rest, &phase);
    } else {
        end_plain_phase(rest, &phase);
    }
}

static void count_anew(struct rq_rest *rest, int64_t now_us, int64_t cpu_us)
{
    rest->frames = 0;
    rest->turns = 0;
    rest->looked_at = 0;
    rest->began_us = now_us;
    rest->began_cpu_us = cpu_us;
}

int64_t rq_rest_after(struct rq_rest *rest, uint32_t frames, int64_t now_us,
                      int64_t (*cpu_us)(void))
{
    rest->frames += frames;
    rest->turns++;
    int64_t elapsed = now_us - rest->began_us;
    if (elapsed >= PHASE_US) {
        int64_t cpu_now_us = cpu_us();
        end_phase(rest, elapsed, cpu_now_us);
        count_anew(rest, now_us, cpu_now_us);
    } else if (rest->resting && rest->turns % TRIAL_TURNS == 0) {
        if (rest->frames - rest->looked_at < TRIAL_FRAMES) {
            give_up(rest);
            count_anew(rest, now_us, cpu_us());
        }
        rest->looked_at = rest->frames;
    }
    return rest->length_us;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Rests of a loop (see the header). Time is cut into phases. A phase without rests measures how
 * many frames come; when they stream in and are not gathered already, phases with rests follow,
 * each rest as long as a few frames take to come. One phase in sixteen is without rests, for
 * comparison. Rests that gather nothing are given up within a few turns, rests that let less
 * through after some phases (means, since one phase says little), and then not tried again for
 * longer and longer. Counterpart: none.
 */
#include "net/rest.h"

#define PHASE_US       40000
#define LONGEST_US     400
#define SHORTEST_US    20
#define GATHERED       4 /* frames that a rest shall bring together */
#define LEAST_GATHERED 2 /* and those without which it is not begun */
#define ALREADY        3 /* a turn, without rests: there is nothing to gain */
#define TRIAL_TURNS    16
#define TRIAL_FRAMES   24 /* in these turns: with fewer each rest brings one */
#define TRIAL_PHASES   4
#define MEAN_OF        16 /* phases, about */
#define MEASURE_EVERY  16
#define FIRST_PENALTY  8
#define MOST_PENALTY   256

/* Part of the plain rate below which rests cost more than they bring: in a trial, and later. */
#define MUCH_LESS 0.6
#define LESS      0.85

/* The mean with one more of them, the count-th. */
static double mean_with(double mean, uint32_t count, double rate)
{
    return mean + (rate - mean) / (count < MEAN_OF ? count : MEAN_OF);
}

static void begin_phase(struct rq_rest *rest, bool resting, int64_t now_us)
{
    rest->resting = resting;
    rest->frames = 0;
    rest->turns = 0;
    rest->looked_at = 0;
    rest->began_us = now_us;
}

static void give_up(struct rq_rest *rest, int64_t now_us)
{
    rest->wait = rest->penalty ? rest->penalty : FIRST_PENALTY;
    rest->penalty = rest->wait < MOST_PENALTY ? rest->wait * 2 : MOST_PENALTY;
    rest->rest_phases = 0;
    rest->rest_rate = 0;
    begin_phase(rest, false, now_us);
}

static bool streams(double rate)
{
    return rate * LONGEST_US >= LEAST_GATHERED;
}

static int64_t length_for(double rate)
{
    double length = GATHERED / rate;
    return length > LONGEST_US ? LONGEST_US : length < SHORTEST_US ? SHORTEST_US : (int64_t)length;
}

static void end_plain_phase(struct rq_rest *rest, double rate, int64_t now_us)
{
    bool gathered = rest->frames >= rest->turns * ALREADY;
    rest->plain_phases = streams(rate) ? rest->plain_phases + 1 : 0;
    rest->plain_rate = streams(rate) ? mean_with(rest->plain_rate, rest->plain_phases, rate) : 0;
    if (rest->wait > 0) {
        rest->wait--;
        begin_phase(rest, false, now_us);
    } else {
        bool try = !gathered && streams(rate);
        rest->length_us = try ? length_for(rest->plain_rate) : 0;
        begin_phase(rest, try, now_us);
    }
}

static void end_resting_phase(struct rq_rest *rest, double rate, int64_t now_us)
{
    rest->rest_phases++;
    rest->rest_rate = mean_with(rest->rest_rate, rest->rest_phases, rate);
    double least = rest->rest_phases < TRIAL_PHASES ? MUCH_LESS : LESS;
    if (rest->rest_rate < rest->plain_rate * least) {
        give_up(rest, now_us);
        return;
    }
    bool measure = rest->rest_phases % MEASURE_EVERY == 0;
    if (measure) {
        rest->penalty = 0;
    }
    begin_phase(rest, !measure, now_us);
}

int64_t rq_rest_after(struct rq_rest *rest, uint32_t frames, int64_t now_us)
{
    rest->frames += frames;
    rest->turns++;
    int64_t elapsed = now_us - rest->began_us;
    if (elapsed >= PHASE_US) {
        double rate = (double)rest->frames / (double)elapsed;
        if (rest->resting) {
            end_resting_phase(rest, rate, now_us);
        } else {
            end_plain_phase(rest, rate, now_us);
        }
    } else if (rest->resting && rest->turns % TRIAL_TURNS == 0) {
        if (rest->frames - rest->looked_at < TRIAL_FRAMES) {
            give_up(rest, now_us);
        }
        rest->looked_at = rest->frames;
    }
    return rest->resting ? rest->length_us : 0;
}

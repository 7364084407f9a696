/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * When a loop rests for a moment between two turns, so that the next one finds several frames
 * instead of one and a wake-up is paid once for all of them: what network cards do with their
 * interrupts. It rests at most 800 µs, only while frames stream in one by one, and only as long as
 * that lets as many through as without: peers that wait for each answer before they send more end
 * it. Pure: time comes with each call. Owned by the loop's thread.
 */
#ifndef RQ_NET_REST_H
#define RQ_NET_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Of several phases. 0 = not known. */
struct rq_rest_mean {
    double rate; /* frames a microsecond */
    double cost; /* microseconds of processor time a frame */
    uint32_t phases;
};

/* Zeroed before first use. */
struct rq_rest {
    bool resting;
    bool compares;   /* this phase has the rests of the step below */
    uint32_t frames; /* of this phase */
    uint32_t turns;
    uint32_t looked_at; /* frames of the phase when it was last looked whether rests gather */
    int64_t began_us;   /* of this phase */
    int64_t began_cpu_us;
    int64_t length_us;
    struct rq_rest_mean plain; /* without rests */
    struct rq_rest_mean rests; /* at this step */
    struct rq_rest_mean below; /* at the step below, meanwhile */
    uint32_t rest_phases;      /* since rests were last given up */
    uint32_t wait;             /* phases until resting is tried again */
    uint32_t penalty;          /* wait after the next failure */
    uint32_t step;             /* how long rests are: each doubles them */
    uint32_t step_wait;        /* phases until a longer one is tried */
    uint32_t step_penalty;
};

/* At the end of a turn that handled so many frames, 1 or more; now_us is monotonic, cpu_us tells
 * the processor time of the thread, asked for once a phase. Returns for how many microseconds the
 * loop should rest, 0 = not at all. */
int64_t rq_rest_after(struct rq_rest *rest, uint32_t frames, int64_t now_us,
                      int64_t (*cpu_us)(void));

#endif

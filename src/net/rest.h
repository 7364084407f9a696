/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * When a loop rests for a moment between two turns, so that the next one finds several frames
 * instead of one and a wake-up is paid once for all of them: what network cards do with their
 * interrupts. It rests at most 400 µs, only while frames stream in one by one, and only as long as
 * that lets as many through as without: peers that wait for each answer before they send more end
 * it. Pure: time comes with each call. Owned by the loop's thread.
 */
#ifndef RQ_NET_REST_H
#define RQ_NET_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed before first use. Rates are frames a microsecond, 0 = not known. */
struct rq_rest {
    bool resting;
    uint32_t frames; /* of this phase */
    uint32_t turns;
    uint32_t looked_at; /* frames of the phase when it was last looked whether rests gather */
    int64_t began_us;   /* of this phase */
    int64_t length_us;
    double plain_rate;
    double rest_rate;
    uint32_t plain_phases;
    uint32_t rest_phases; /* since rests were last given up */
    uint32_t wait;        /* phases until resting is tried again */
    uint32_t penalty;     /* wait after the next failure */
};

/* At the end of a turn that handled so many frames, 1 or more; now_us is monotonic. Returns for how
 * many microseconds the loop should rest, 0 = not at all. */
int64_t rq_rest_after(struct rq_rest *rest, uint32_t frames, int64_t now_us);

#endif
